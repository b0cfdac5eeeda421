/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the threads of a traced process had no processor: the file .switches beside its packets, as scry's own readers
 * have it. Entries of three numbers (LEB128): thread id << 2 | enum trace_off; the end, less that of the entry before
 * (zigzag); the length; in ticks. Thread 0: of all threads nothing is known in that time. The order is that of what
 * was learned: the ends of threads' entries, the beginnings of the others. .process says from when to when all of it is
 * there (switches_from, switches_until; switches_bytes are in the file), and why not longer, or not at all
 * (switches_missing).
 */
#ifndef SCRY_JOBDIR_TRACE_SWITCHES_H
#define SCRY_JOBDIR_TRACE_SWITCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "jobdir/trace/profile.h"

enum trace_off {
    TRACE_OFF_WAITING,   /* it had nothing to do until something happened */
    TRACE_OFF_PREEMPTED, /* it could have run */
    TRACE_OFF_UNKNOWN,   /* whether it had a processor is not known */
};

/* Appends an entry; *inout_end: 0 at the beginning. */
void trace_switch_put(struct buf *out, uint64_t *inout_end, uint32_t tid, enum trace_off how, uint64_t begin,
                      uint64_t end);

struct trace_switches;

/* 0 or -ENOMEM. */
int trace_switches_new(struct trace_switches **ret_switches);
void trace_switches_free(struct trace_switches *switches);
/* What comes now is in the trace of that directory, with what its .process says; what was begun goes on. A file that
 * is not whole, or from 0: nothing is known. */
void trace_switches_go_on(struct trace_switches *switches, const char *directory, uint64_t from, uint64_t until,
                          uint64_t bytes);
/* How long the thread has spent without a processor until then, from some moment on: differences count. Times do not go
 * back, over all threads. */
void trace_switches_spent(struct trace_switches *switches, uint32_t tid, uint64_t time,
                          struct profile_spent *ret_spent);

#endif
