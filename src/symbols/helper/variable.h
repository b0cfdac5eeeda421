/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_HELPER_VARIABLE_H
#define SCRY_SYMBOLS_HELPER_VARIABLE_H

#include "symbols/capture/internal.h"
#include "symbols/layout/layout.h"

#include <stdio.h>
#include <sys/types.h>

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

/* The whole job; 0 or -errno (also answered). */
int variable_main(FILE *in, FILE *out);

/* Inside symbols: variables of a process, shared by variable*.c. */

enum { VARIABLE_MODULES = 1024, VARIABLE_FRAMES = 256, VARIABLE_REGISTERS = 17 };

struct variable_module {
    char *path;
    uint64_t bias;
    bool program, tried;
    bool agent;                        /* no part of the program: only for unwinding */
    struct capture_compiler *compiler; /* opened at first need; NULL: no debug information */
};

struct variable_frame {
    uint64_t pc, cfa;
    struct capture_frame registers;
    bool known;       /* the registers, those that calls destroy only of the innermost */
    uint32_t unknown; /* but not these: bits by DWARF numbers; their values are no addresses */
    bool innermost;
};

/* What is asked for. */
struct variable_job {
    pid_t pid;
    struct capture_options options;
    struct variable_module modules[VARIABLE_MODULES];
    size_t module_count;
    struct variable_frame frames[VARIABLE_FRAMES];
    size_t frame_count;
    char *name, *write;
};

/* A variable that was found. */
struct variable_found {
    struct variable_module *module;
    const struct variable_frame *frame; /* NULL: at a fixed address */
    Dwarf_Die die, function;
    uint64_t pc; /* in the file */
};

enum { VARIABLE_SCOPES = 32 };
/* What is around the place of a frame, innermost first: inlined calls, then the function with the code. */
size_t variable_scopes(struct variable_job *job, const struct variable_frame *frame, struct variable_found *ret_at,
                       Dwarf_Die ret_scopes[VARIABLE_SCOPES]);
/* Parameters and locals of a scope, as lines `value FRAME NAME TYPE TEXT`. */
void variable_list(struct variable_job *job, const struct variable_found *at, Dwarf_Die *scope, size_t frame,
                   struct buf *out);

/* Programs read the memory of this process from now on. */
void variable_read_process(pid_t pid);
/* Only this copy of some of it. */
void variable_read_copy(uint64_t address, const void *bytes, size_t size);

#endif
