/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling events: context switches of watched processes, from the kernel's perf records, as events of the
 * specification (scheduled, descheduled, blocked, unblocked). They are reported afterwards: the thread is not held.
 */
#ifndef SCRY_MONITOR_ENGINE_SWITCHING_H
#define SCRY_MONITOR_ENGINE_SWITCHING_H

#include "base/data/err.h"

struct csr;
struct monitor;
struct process;
struct switch_watch;
struct trace_need;
struct tracer_event;

/* event_ops.arm, .disarm and .wish of the scheduling events. */
int switching_arm(struct csr *csr, struct process *process, struct err *err);
void switching_disarm(struct csr *csr, struct process *process);
void switching_wish(struct trace_need *need);

/* The tracer is going to interrupt a thread, or to let it go on (tracer/tracer.h): that is no event. */
void switching_note(struct process *process, const struct tracer_event *raw);

/* Reads records for which no wake-up came; called by the sampler, so that no event is later than its period. */
void switching_catch_up(struct monitor *monitor);

/* Watches threads that appeared since; called by the sampler. */
void switching_refresh(struct process *process);
void switching_end(struct process *process);

#endif
