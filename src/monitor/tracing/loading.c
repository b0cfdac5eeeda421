/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>

#include "base/system/loop.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/tracing/tracing.h"
#include "shm/waits.h"

struct loading {
    struct monitor *monitor;
    struct process *process; /* NULL: it is over, and is told soon */
    struct tracer_load load;
    loading_done_fn *fn; /* NULL: nobody waits */
    void *ctx;
    uint64_t began_ns, pause_ns;
    struct loop_source *timer; /* until the next try, or until it is told */
    int code;
    int64_t result;
    struct err err;
};

static void loading_tell(void *ctx)
{
    struct loading *loading = ctx;
    loop_remove(loading->timer);
    if (loading->fn)
        loading->fn(loading->ctx, loading->code, loading->result, &loading->err);
    free(loading);
}

static void try_again(void *ctx);

/* The process is given back unless something else needs it. */
static void loading_over(struct loading *loading, int code)
{
    struct process *process = loading->process;
    loading->code = code;
    loading->process = NULL;
    process->loading = NULL;
    tracing_unsettle(process);
    if (loading->timer)
        loop_remove(loading->timer);
    loading->timer = loading->fn ? loop_add_timer(loading->monitor->loop, 1, 0, loading_tell, loading) : NULL;
    if (!loading->timer) /* or there is no memory to wait */
        loading_tell(loading);
}

/* Told that a thread has come, it is not to be told again before the next try at its time: a program that comes there
 * all the time is not to be stopped all the time. */
static void loading_attempt(struct loading *loading, bool tells)
{
    struct process *process = loading->process;
    struct monitor *monitor = loading->monitor;
    struct err *err = &loading->err;
    *err = (struct err){0};
    monitor_enter(monitor);
    if (loading->timer)
        loop_remove(loading->timer);
    loading->timer = NULL;
    uint64_t passed_ns = clock_now_ns() - loading->began_ns;
    loading->load.tells = tells && passed_ns < LOADING_NS;
    int code = tracing_seize(process, err);
    if (code == 0)
        code = tracer_load(monitor->tracer, process->pid, &loading->load, err);
    if (code == -EAGAIN && passed_ns < LOADING_NS) {
        loading->timer = loop_add_timer(monitor->loop, loading->pause_ns, 0, try_again, loading);
        if (loading->pause_ns < LOADING_AGAIN_MS * UINT64_C(1000000))
            loading->pause_ns *= 2;
        code = loading->timer ? 0 : err_set(err, -ENOMEM, "out of memory");
    }
    if (code == -EAGAIN) {
        const struct err last = *err;
        code =
            err_set(err, -EOPNOTSUPP, "no moment was found at which it is safe, the last time because %s", last.text);
    }
    if (code < 0)
        loading_over(loading, code);
    monitor_leave(monitor);
}

static void try_again(void *ctx)
{
    loading_attempt(ctx, true);
}

void loading_try(struct process *process)
{
    if (process->loading && process->loading->timer)
        loading_attempt(process->loading, false);
}

struct loading *loading_start(struct process *process, const struct tracer_load *load, loading_done_fn *fn, void *ctx,
                              struct err *err)
{
    if (process->loading) {
        err_set(err, -EBUSY, "a library is being loaded into process %d", process->pid);
        return NULL;
    }
    struct monitor *monitor = process->object.monitor;
    struct loading *loading = calloc(1, sizeof *loading);
    if (loading) {
        *loading = (struct loading){.monitor = monitor,
                                    .process = process,
                                    .load = *load,
                                    .fn = fn,
                                    .ctx = ctx,
                                    .began_ns = clock_now_ns(),
                                    .pause_ns = LOADING_FIRST_MS * UINT64_C(1000000)};
        loading->timer = loop_add_timer(monitor->loop, 1, 0, try_again, loading);
    }
    if (!loading || !loading->timer) {
        free(loading);
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    return process->loading = loading;
}

void loading_cancel(struct loading *loading)
{
    loading->fn = NULL;
    if (loading->process && loading->timer) /* it has not begun */
        loading_over(loading, -ECANCELED);
    else if (!loading->process)
        loading_tell(loading);
}

void loading_ended(struct process *process, int code)
{
    struct loading *loading = process->loading;
    if (!loading)
        return;
    if (code == 0)
        code = tracer_load_result(loading->monitor->tracer, process->pid, &loading->result, &loading->err);
    else
        err_set(&loading->err, code, "process %d ended or was detached, or the tracer ended, before it was done",
                process->pid);
    loading_over(loading, code);
}
