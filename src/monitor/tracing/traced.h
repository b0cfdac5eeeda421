/* SPDX-License-Identifier: Apache-2.0 */
/* Turns what the tracer saw into events of the specification. */
#ifndef SCRY_MONITOR_TRACING_TRACED_H
#define SCRY_MONITOR_TRACING_TRACED_H

#include "tracer/tracer.h"

struct process;
struct thread;

/* A tracer_event_fn; ctx is the monitor. Raises the events, runs their lists, releases the hold. */
void traced_event(void *ctx, const struct tracer_event *event);

/* Others have started `child` for a thread of `creator`, as for MPI_Comm_spawn; it is held by whoever says so. Raises
 * the events that a fork has. thread NULL: which one is not known. */
void traced_started_for(struct process *creator, struct thread *thread, pid_t child);

#endif
