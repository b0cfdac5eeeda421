/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --crash-stack: conditional requests that take the backtrace of a thread about to receive the signal of a fault, while
 * it is held, in the command and everything it starts. Most such signals end the process. If one is handled, its
 * backtrace is kept until the next one, and never shown.
 */
#ifndef SCRY_JOB_WATCH_STACKS_H
#define SCRY_JOB_WATCH_STACKS_H

#include <omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

#include "base/data/err.h"

enum { STACKS_FRAMES = 64, STACKS_MODULES = 512, STACKS_PROCESSES = 1000 };

struct stacks_module {
    char *path;
    uint64_t code_start;
};

struct stacks_python {
    char *function, *file;
    int64_t line; /* -1: unknown */
    bool entry;   /* C called the interpreter here: the outermost of one call of it */
};

/* The backtrace of a process's last fault. */
struct stacks_entry {
    pid_t pid;
    uint64_t frames[STACKS_FRAMES]; /* innermost first; all but that are return addresses */
    size_t frame_count;
    struct stacks_module *modules;
    size_t module_count;
    struct stacks_python *python; /* where it was in a Python program, innermost first */
    size_t python_count;
    bool faulted;         /* a memory access failed: */
    uint64_t address, sp; /* its address, and the stack pointer */
    int code;             /* si_code of a SIGFPE; 0: of another, or it was sent */
    UT_hash_handle hh;
};

struct stacks {
    struct stacks_entry *entries; /* hash by pid */
    int arming;                   /* requests under way; 0: all in force or failed */
    struct err err;               /* why it does not work */
};

/* Sends the conditional requests, for processes that this tool has attached or will attach. They are in force when
 * `arming` is 0. `job`: the token from job_create. */
void stacks_arm(struct stacks *stacks, const char *job);
const struct stacks_entry *stacks_find(const struct stacks *stacks, pid_t pid);
void stacks_done(struct stacks *stacks);

#endif
