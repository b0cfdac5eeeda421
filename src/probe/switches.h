/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context switches of threads (perf software event, context_switch records): who got the processor, who lost it and
 * whether it blocked (a switch-out without the PREEMPT bit). Asynchronous: a thread cannot be held by it. -EACCES with
 * a reason where perf_event_paranoid forbids it.
 */
#ifndef SCRY_PROBE_SWITCHES_H
#define SCRY_PROBE_SWITCHES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"

struct switches;

struct switch_record {
    pid_t pid, tid;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    bool in;          /* scheduled; otherwise descheduled */
    bool preempted;   /* of a switch-out: still runnable */
};

struct perf_event_header;
/* A record of a ring, if it is a context switch. */
bool switch_decode(const struct perf_event_header *record, struct switch_record *ret_record);

/* Watches one thread from now on. */
int switches_open(struct switches **ret_switches, pid_t tid, struct err *err);
/* An epoll descriptor that is readable when there are records; switches_begin makes it unreadable again. It does not
 * report the end of the thread: the last notice may come before that. */
int switches_fd(const struct switches *switches);
/* Passes on the records that are there at the beginning, one by one, as requested. Adds what the kernel dropped to
 * *inout_lost. switches_end: true if there are newer ones. */
void switches_begin(struct switches *switches);
bool switches_next(struct switches *switches, struct switch_record *ret_record, uint64_t *inout_lost);
bool switches_end(struct switches *switches);
void switches_close(struct switches *switches);

/* NULL, or why it cannot work on this machine; the text lives until the thread's next call. */
const char *switches_missing(void);

#endif
