/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_TRACING_TRACING_H
#define SCRY_MONITOR_TRACING_TRACING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"
#include "base/system/clock.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/process.h"
#include "tracer/tracer.h"

struct csr;
struct loading; /* process->loading; NULL: nothing is being loaded */
struct process;
struct thread;

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

/* What the tracer saw is turned into events of the specification. */

/* Others have started `child` for a thread of `creator`, as for MPI_Comm_spawn; it is held by whoever says so. Raises
 * the events that a fork has. thread NULL: which one is not known. */
void traced_started_for(struct process *creator, struct thread *thread, pid_t child);

/* ---- run states and steps (runstate.c) ---- */

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

/* Brings the tracer's step modes of all threads to what is wanted; the error returned concerns `csr` (NULL: any). */
int steps_update(struct process *process, struct csr *csr, struct err *err);

/* The same for a thread that has just been created. */
int steps_new_thread(struct thread *thread, struct err *err);

/* ---- loading (loading.c) ---- */

/*
 * Loading a library into an attached process (tracer_load). It is tried again and again, for LOADING_NS at most, until
 * there is a moment at which it is safe. After that, it fails with the reason of the last refusal. Between two tries, a
 * breakpoint waits for a thread that returns from a library to the program.
 */

/* The end, whatever it was; code 0: what the function returned, -errno: err says why it was not called. From the loop,
 * never from inside one of these functions. */
typedef void loading_done_fn(void *ctx, int code, int64_t result, const struct err *err);

/* The strings and the data are borrowed until the end. NULL with err: one is under way (-EBUSY), or -ENOMEM. */
struct loading *loading_start(struct process *process, const struct tracer_load *load, loading_done_fn *fn, void *ctx,
                              struct err *err);
/* Nobody waits for it any more: fn is not called, and ctx, strings and data are not used from now on. What has begun in
 * the process is not undone. */
void loading_cancel(struct loading *loading);

/* The tracer says that it is over; -errno: the process ended or was detached, or the tracer died. Nothing is being
 * loaded: fine. */
void loading_ended(struct process *process, int code);

#endif
