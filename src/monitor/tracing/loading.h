/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a library into an attached process (tracer_load). It is tried again and again, for LOADING_NS at most, until
 * there is a moment at which it is safe. After that, it fails with the reason of the last refusal. Between two tries, a
 * breakpoint waits for a thread that returns from a library to the program.
 */
#ifndef SCRY_MONITOR_TRACING_LOADING_H
#define SCRY_MONITOR_TRACING_LOADING_H

#include "base/system/clock.h"
#include "tracer/tracer.h"

struct loading; /* process->loading; NULL: nothing is being loaded */
struct process;

/* The end, whatever it was; code 0: what the function returned, -errno: err says why it was not called. From the loop,
 * never from inside one of these functions. */
typedef void loading_done_fn(void *ctx, int code, int64_t result, const struct err *err);

/* The strings and the data are borrowed until the end. NULL with err: one is under way (-EBUSY), or -ENOMEM. */
struct loading *loading_start(struct process *process, const struct tracer_load *load, loading_done_fn *fn, void *ctx,
                              struct err *err);
/* Nobody waits for it any more: fn is not called, and ctx, strings and data are not used from now on. What has begun in
 * the process is not undone. */
void loading_cancel(struct loading *loading);

/* The tracer says that a thread has come to where it may be done. Nothing is being loaded: fine. */
void loading_try(struct process *process);

/* The tracer says that it is over; -errno: the process ended or was detached, or the tracer died. Nothing is being
 * loaded: fine. */
void loading_ended(struct process *process, int code);

#endif
