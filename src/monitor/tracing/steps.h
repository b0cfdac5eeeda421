/* SPDX-License-Identifier: Apache-2.0 */
/* Single-stepping: which threads step, and how, derived from the enabled thread_executed_insn and ..._insn_call
 * requests. */
#ifndef SCRY_MONITOR_TRACING_STEPS_H
#define SCRY_MONITOR_TRACING_STEPS_H

#include "base/data/err.h"

struct csr;
struct process;
struct thread;

/* Brings the tracer's step modes of all threads to what is wanted; the error returned concerns `csr` (NULL: any). */
int steps_update(struct process *process, struct csr *csr, struct err *err);

/* The same for a thread that has just been created. */
int steps_new_thread(struct thread *thread, struct err *err);

#endif
