/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing variables of a running process by name, from outside. The helper's job `variable`; on standard
 * input, one a line (fields separated by tabs, escaped):
 *
 *     pid PID
 *     depth N / bytes N / array N / string N
 *     module PATH BIAS [program|agent]  all of the process, in order; the agent's variables are nobody's
 *     frame PC CFA REG=VALUE...       innermost first: to look for locals and parameters; none: only those at fixed
 *                                     addresses. Registers (by DWARF numbers) of the innermost are enough
 *     name EXPRESSION                 a variable, with .member, ->member, [index], leading * and &; file.c:name and
 *                                     function:name choose a static one. * alone: all of all frames
 *     write VALUE                     instead of reading: a number, true/false, a character, an enumerator, or a string
 *                                     for arrays of char (what fits)
 *     end
 *
 * answers one line: `value TYPE ADDRESS SIZE TEXT` (formatted as by symbols/layout/layout.h; ADDRESS 0x0: in no
 * memory), `written TYPE OLD NEW`, or `failed REASON`; for *, lines `value FRAME NAME TYPE TEXT` (FRAME 0 the
 * innermost) and `done`. Memory is read by process_vm_readv and written by process_vm_writev: the process is not
 * stopped.
 */
#ifndef SCRY_SYMBOLS_HELPER_VARIABLE_H
#define SCRY_SYMBOLS_HELPER_VARIABLE_H

#include <stdio.h>

/* The whole job; 0 or -errno (also answered). */
int variable_main(FILE *in, FILE *out);

#endif
