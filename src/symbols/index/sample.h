/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers and stacks of threads that run, without stopping them: the kernel's clock event interrupts each where it
 * is, copies both, and lets it go on (perf_event_open(2): PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER). That takes
 * some microseconds, which nothing in the program sees: no signal, no interrupted system call.
 */
#ifndef SCRY_SYMBOLS_INDEX_SAMPLE_H
#define SCRY_SYMBOLS_INDEX_SAMPLE_H

#include <stdint.h>
#include <sys/types.h>

#include "symbols/index/lines.h"

enum {
    SAMPLE_STACK = 16384, /* bytes of the stack, at most */
    SAMPLE_BATCH = 8,     /* threads at once: what all users may lock in memory is little */
};

struct sample {
    pid_t tid;
    int code; /* 0; -EAGAIN: it did not run; -EACCES: not permitted; other -errno */
    uint64_t registers[LINES_REGISTERS];
    size_t stack_size;
    char stack[SAMPLE_STACK];
};

/* Of at most SAMPLE_BATCH threads, whose tid is set. Returns when all have run, or SAMPLE_WAIT_MS are over. */
void samples_take(struct sample *samples, size_t count);

#endif
