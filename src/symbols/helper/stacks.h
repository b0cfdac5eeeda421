/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_HELPER_STACKS_H
#define SCRY_SYMBOLS_HELPER_STACKS_H

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "symbols/index/lines.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Where all threads of processes are, native functions and Python's together. The helper's job `stacks`; on standard
 * input, one a line (fields separated by tabs, escaped):
 *
 *     process PID       several
 *     depth N           frames of a stack at most, the innermost (1 .. 256)
 *     values N          arguments and locals of native frames, with N levels of pointers; not of the system's libraries
 *     seconds N         what is not read by then is answered with a problem
 *     end
 *
 * answers, for each process in the order of the request:
 *
 *     process PID NAME PROBLEM
 *                       NAME of its program; PROBLEM for people, "" if there is none
 *     stack THREADS RUNNING FIRST NAME
 *                       threads of that name that are in the same frames, which follow; how many of them run; 1 if the
 *                       process's first thread is one of them
 *     frame LANGUAGE FUNCTION FILE LINE MODULE
 *                       innermost first. native, python, or note: FUNCTION says why nothing is known of frames there
 *     value 0 NAME TYPE TEXT
 *                       of the frame before it, with `values`. NAME "": TEXT says why nothing is known of them
 *
 * and `done`; or `failed REASON`. Nothing is stopped: a thread that waits is unwound from its stack pointer
 * (lines_callers), a thread that runs is sampled (symbols/index/sample.h), and Python's frames are read from memory (python.h).
 * Answers have neither addresses nor numbers of threads: processes that do the same say the same, and are sent once.
 */

/* The whole job; 0 or -errno (also answered). */
int stacks_main(FILE *in, FILE *out);

#endif
