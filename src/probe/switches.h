/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PROBE_SWITCHES_H
#define SCRY_PROBE_SWITCHES_H

#include "base/data/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Context switches of threads (perf software event, context_switch records): who got the processor, who lost it and
 * whether it blocked (a switch-out without the PREEMPT bit). Asynchronous: a thread cannot be held by it. -EACCES with
 * a reason where perf_event_paranoid forbids it.
 */

struct switches;

struct switch_record {
    pid_t pid, tid;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    bool in;          /* scheduled; otherwise descheduled */
    bool preempted;   /* of a switch-out: still runnable */
};

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

/*
 * What the context switches of one thread mean to its tools. The kernel records every switch, also those that the
 * tracer causes: a thread that it interrupts leaves the processor, returns when it is resumed, and sleeps on where its
 * sleep was interrupted. None of that is an event: else a request that stops the thread would see its own work for
 * ever.
 *
 * The tracer announces each interrupt and resumption (TRACER_INTERRUPTS, TRACER_RESUMES), so the announcement is known
 * before a record of its effect can be read. The time off the processor in which it resumed the thread is its own, and
 * so is all time from the interrupt to that. Pure: records and times in, events out.
 */

enum switch_event { SWITCH_SCHEDULED, SWITCH_DESCHEDULED, SWITCH_BLOCKED, SWITCH_UNBLOCKED };

typedef void switch_event_fn(void *ctx, enum switch_event what, uint64_t time_ns);

enum switch_place { SWITCH_RUNS, SWITCH_PREEMPTED, SWITCH_SLEEPS, SWITCH_UNKNOWN };

struct switch_pause {
    uint64_t from_ns;  /* before the interrupt; 0: it stopped by itself, at an event */
    uint64_t until_ns; /* before it was let go on; 0: it was not yet */
};

struct switch_state {
    enum switch_place reported; /* as the tools know it */
    bool left;                  /* it left the processor, and the cause is not known yet */
    struct switch_record out;
    uint64_t restarted_ns;       /* its sleep was interrupted; from here on it may sleep on; 0: no */
    uint64_t runs_ns, ran_ns;    /* since then: on the processor since (0: preempted), and for how long before */
    struct switch_pause *pauses; /* oldest first; malloc'ed */
    size_t pause_count, pause_cap;
};

void switch_state_free(struct switch_state *state);

/* Announcements of the tracer. */
void switch_interrupts(struct switch_state *state, uint64_t time_ns);
void switch_resumes(struct switch_state *state, uint64_t time_ns);

/* The next record. Pass announcements that came before it first. */
void switch_take(struct switch_state *state, const struct switch_record *record, switch_event_fn *fn, void *ctx);

/* There is no further record. `stopped`: the thread is in a stop of the tracer; asked only if it matters. */
bool switch_asks_stopped(const struct switch_state *state);
void switch_settle(struct switch_state *state, bool stopped, uint64_t now_ns, switch_event_fn *fn, void *ctx);

/*
 * Context switches of whole processes, with their later threads: one ring of the kernel for each processor, shared by
 * all watched processes (perf software event, context_switch, inherit_thread: Linux 5.13). They are reported in the
 * order of time over all processors, and what the kernel dropped is reported as a gap in its place. Not thread-safe.
 * (probe/switches.h: of single threads, at once.)
 */

struct switch_rings;
struct switch_process; /* a watched process */

/* -EACCES with a reason for people if it is refused. */
int switch_rings_open(struct switch_rings **ret_rings, struct err *err);
void switch_rings_close(struct switch_rings *rings); /* after all its processes */
/* An epoll descriptor that is readable when a ring is getting full. */
int switch_rings_fd(const struct switch_rings *rings);
size_t switch_rings_count(const struct switch_rings *rings);
/* False: a new processor has no ring, and what runs there is not seen. */
bool switch_rings_whole(const struct switch_rings *rings);

/* Watches a process from now on. */
int switch_process_open(struct switch_process **ret_process, struct switch_rings *rings, pid_t pid, struct err *err);
void switch_process_close(struct switch_process *process);

/* A switch; or, with pid 0, that some of any process may be missing between lost_ns and time_ns. */
struct switched {
    struct switch_record record;
    uint64_t lost_ns;
};
typedef void switched_fn(void *ctx, const struct switched *switched);
/* Reports the switches, by time. Returns the time up to which they are complete, CLOCK_MONOTONIC. */
uint64_t switch_rings_read(struct switch_rings *rings, switched_fn *fn, void *ctx);

#endif
