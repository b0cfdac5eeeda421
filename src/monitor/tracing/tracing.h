/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_TRACING_TRACING_H
#define SCRY_MONITOR_TRACING_TRACING_H

#include "base/data/err.h"
#include "monitor/engine/trace_need.h"
#include "tracer/tracer.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What the tracer is asked to do for each process: derived, never accumulated. tracing_update computes from the enabled
 * conditional requests and the run states what a process needs and brings the tracer there; a process that needs
 * nothing is given back.
 */

/* For event services: adds a breakpoint to a need. */
void trace_need_break(struct trace_need *need, const struct process *process, uint64_t addr, struct csr *csr);

/* Marks a process whose need may have become smaller; checked when the execution is over. */
void tracing_unsettle(struct process *process);

/* Starts the tracer if it does not run, and seizes the process if it is not. For services that need it once. */
int tracing_seize(struct process *process, struct err *err);

/* The tracer died of, or during, what it was asked last: all that it had is set up again soon, with the next one. */
bool tracing_lost(const struct monitor *monitor);

/* Starts the tracer if it does not run. */
int tracing_need_tracer(struct monitor *monitor, struct err *err);

/* Hides int3 bytes of ours in what was read from [addr, addr + len). */
void tracing_hide_breaks(const struct process *process, uint64_t addr, void *bytes, size_t len);
/* What a call of a function left in the memory is hidden, too; until it has ended. */
void tracing_note_call(struct process *process, const struct tracer_call_place *place);

/* Writes memory of a traced process: under our breakpoints, which stay. 0 or -errno. */
int tracing_write(struct process *process, uint64_t addr, const void *bytes, size_t len);

/* All that the engine asks for: set as monitor->tracing before there are processes. */
extern const struct monitor_tracing tracing_for_engine;

/* Turns what the tracer saw into events of the specification. */

struct process;
struct thread;

/* Others have started `child` for a thread of `creator`, as for MPI_Comm_spawn; it is held by whoever says so. Raises
 * the events that a fork has. thread NULL: which one is not known. */
void traced_started_for(struct process *creator, struct thread *thread, pid_t child);

#endif
