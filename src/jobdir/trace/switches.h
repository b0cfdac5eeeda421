/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_TRACE_SWITCHES_H
#define SCRY_JOBDIR_TRACE_SWITCHES_H

#include "base/data/buf.h"
#include "jobdir/trace/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * When the threads of a traced process had no processor: the file .switches beside its packets, as scry's own readers
 * have it. Entries of three numbers (LEB128): thread id << 2 | enum trace_off; the end, less that of the entry before
 * (zigzag); the length; in ticks. Thread 0: of all threads nothing is known in that time. The order is that of what
 * was learned: the ends of threads' entries, the beginnings of the others. .process says from when to when all of it is
 * there (switches_from, switches_until; switches_bytes are in the file), and why not longer, or not at all
 * (switches_missing).
 */

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

/*
 * When the threads of one process had no processor, from its context switches as they come: entries of a trace's
 * .switches (jobdir/trace/switches.h). What does not fit together becomes time of which nothing is known. Pure: no I/O.
 */

struct switch_thread;

struct switch_log {
    struct switch_thread *threads;
    uint64_t from;  /* nothing was seen before */
    uint64_t floor; /* nor before this: the end of the last gap */
    struct buf entries;
    uint64_t last_end;
    bool failed; /* no memory */
};

void switch_log_init(struct switch_log *log, uint64_t from);
void switch_log_done(struct switch_log *log);

/* A thread that is there when it begins: that it waits, or not known what. */
void switch_log_thread(struct switch_log *log, uint32_t tid, bool waits);
void switch_log_take(struct switch_log *log, uint32_t tid, bool in, bool preempted, uint64_t time);
/* Switches may be missing between these. */
void switch_log_gap(struct switch_log *log, uint64_t from, uint64_t to);
/* All switches until then are in: writes what threads are in, as far as that. Forgets threads that are not there any
 * more. */
typedef bool switch_lives_fn(void *ctx, uint32_t tid);
void switch_log_until(struct switch_log *log, uint64_t time, switch_lives_fn *lives, void *ctx);
size_t switch_log_threads(const struct switch_log *log);

#endif
