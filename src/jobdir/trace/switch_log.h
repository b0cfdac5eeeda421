/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the threads of one process had no processor, from its context switches as they come: entries of a trace's
 * .switches (jobdir/trace/switches.h). What does not fit together becomes time of which nothing is known. Pure: no I/O.
 */
#ifndef SCRY_JOBDIR_TRACE_SWITCH_LOG_H
#define SCRY_JOBDIR_TRACE_SWITCH_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobdir/trace/switches.h"

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
