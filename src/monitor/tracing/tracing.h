/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tracer is asked to do for each process: derived, never accumulated. tracing_update computes from the enabled
 * conditional requests and the run states what a process needs and brings the tracer there; a process that needs
 * nothing is given back.
 */
#ifndef SCRY_MONITOR_TRACING_TRACING_H
#define SCRY_MONITOR_TRACING_TRACING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"
#include "monitor/engine/trace_need.h"
#include "tracer/tracer.h"

/* For event services: adds a breakpoint to a need. */
void trace_need_break(struct trace_need *need, const struct process *process, uint64_t addr, struct csr *csr);

/* Brings the tracer to what the process needs; with `csr`, which was enabled, to what that needs besides. The error
 * returned is the one that concerns `csr` (or seizing as such); NULL: any. */
int tracing_update(struct process *process, struct csr *csr, struct err *err);

/* Marks a process whose need may have become smaller; checked when the execution is over. */
void tracing_unsettle(struct process *process);
void tracing_settle(struct monitor *monitor);

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
void tracing_forget_call(struct process *process, uint64_t slot);

/* Writes memory of a traced process: under our breakpoints, which stay. 0 or -errno. */
int tracing_write(struct process *process, uint64_t addr, const void *bytes, size_t len);

void tracing_release_hold(struct monitor *monitor, struct process *process, uint64_t hold);

void tracing_stop(struct monitor *monitor);

/* All that the engine asks for: set as monitor->tracing before there are processes. */
extern const struct monitor_tracing tracing_for_engine;

#endif
