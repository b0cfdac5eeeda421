/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_TRACING_RUNSTATE_H
#define SCRY_MONITOR_TRACING_RUNSTATE_H

#include "base/data/err.h"
#include "monitor/engine/execute.h"

/*
 * Whether a thread may run: not (stopped by some tool, or some tool's suspend count > 0, or inspected, or held by an
 * event). Stop and continue are one idempotent switch; suspends count per tool; holds are the tracer's. This is the
 * only place that decides.
 */

enum runstate_change { RUNSTATE_STOP, RUNSTATE_CONTINUE, RUNSTATE_SUSPEND, RUNSTATE_RESUME };

/* Applies the change to all threads of the call and answers for each. */
void runstate_apply(struct scry_call *call, enum runstate_change change);

bool runstate_must_wait(const struct thread *thread);

/* The event of the conditional request that stopped or suspended it, "" if a tool did so itself; NULL: it runs. */
const char *runstate_held_by(const struct thread *thread);

/* The thread waits while its frames are inspected, whatever tools do. No event is raised. 0 or -errno. */
int runstate_inspect(struct thread *thread, struct err *err);
void runstate_inspect_done(struct thread *thread);

/* A tool lets go of one thread (thread_detach), which it does not see any more then. 0 or -ENOMEM. */
int runstate_detach_thread(struct tool *tool, struct thread *thread);

/* A tool lets go of a process: its stops and suspends end. */
void runstate_release(struct tool *tool, struct process *process);

/* After the tracer was lost, or the process has a new program: stops again what must be. What cannot be stopped
 * runs. */
void runstate_restore(struct process *process);

/* Single-stepping: which threads step, and how, derived from the enabled thread_executed_insn and ..._insn_call
 * requests. */

struct csr;
struct process;
struct thread;

/* Brings the tracer's step modes of all threads to what is wanted; the error returned concerns `csr` (NULL: any). */
int steps_update(struct process *process, struct csr *csr, struct err *err);

/* The same for a thread that has just been created. */
int steps_new_thread(struct thread *thread, struct err *err);

#endif
