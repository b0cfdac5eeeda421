/* SPDX-License-Identifier: Apache-2.0 */
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
#ifndef SCRY_PROBE_SWITCH_STATE_H
#define SCRY_PROBE_SWITCH_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/switches.h"

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

#endif
