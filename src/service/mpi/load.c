/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_load: the interposer comes into processes that were not started by scry, one after the other. */
#include <errno.h>
#include <stdio.h>

#include "monitor/engine/call.h"
#include "monitor/engine/convert.h"
#include "monitor/mpi/late.h"
#include "monitor/mpi/mpi.h"
#include "service/mpi/mpi.h"

struct target {
    char token[TOKEN_TEXT_SIZE];
};

/* An mpi_load in progress over its processes. In the call's arena. */
struct loads {
    struct monitor *monitor;
    struct target *targets;
    size_t count, at;
    struct later *later;
};

static void load_next(struct loads *loads, struct scry_call *call);

static struct process *current(struct loads *loads, struct scry_call *call, Omis_status *ret_status, struct err *err)
{
    return (struct process *)convert_one(call, span_str(loads->targets[loads->at].token), "p", true, ret_status, err);
}

static void done(void *ctx, struct process *ignored, int code, const struct err *why)
{
    struct loads *loads = ctx;
    struct scry_call *call = call_later_begin(loads->later);
    struct err err = *why;
    Omis_status status;
    struct process *process = current(loads, call, &status, &err);
    if (!process)
        call_fail(call, NULL, status, "%s", err.text);
    else
        call_done(call, &process->object, code, &err);
    loads->at++;
    load_next(loads, call);
    call_later_end(loads->later, loads->at == loads->count);
}

static void cancelled(void *ctx)
{
    struct loads *loads = ctx;
    mpi_late_forget_all(loads->monitor->mpi, loads);
}

/* Goes on with the next processes, until one has to wait. */
static void load_next(struct loads *loads, struct scry_call *call)
{
    for (; loads->at < loads->count; loads->at++) {
        struct err err = {0};
        Omis_status status;
        struct process *process = current(loads, call, &status, &err);
        if (!process) {
            call_fail(call, NULL, status, "%s", err.text);
            continue;
        }
        if (mpi_process_find(call->monitor->mpi, process->pid)) {
            call_ok(call, &process->object);
            continue;
        }
        int code = mpi_late_begin(process, done, loads, &err);
        if (code == 0)
            return;
        call_fail_errno(call, &process->object, code, &err);
    }
}

void mpi_load(struct scry_call *call)
{
    struct loads *loads = arena_zalloc(call->arena, 1, sizeof *loads);
    struct target *targets = arena_zalloc(call->arena, call->object_count + 1, sizeof *targets);
    if (!loads || !targets) {
        call_fail_errno(call, NULL, -ENOMEM, NULL);
        return;
    }
    loads->monitor = call->monitor;
    loads->targets = targets;
    for (size_t i = 0; i < call->object_count; i++)
        snprintf(targets[loads->count++].token, TOKEN_TEXT_SIZE, "%s", call->objects[i]->token);
    loads->later = loads->count ? call_later(call, cancelled, loads) : NULL;
    if (!loads->later) {
        if (loads->count)
            call_fail(call, NULL, OMIS_UNSUPPORTED_SERVICE,
                      "it takes a while, so it cannot be used in braces or for an event");
        return;
    }
    struct scry_call *later = call_later_begin(loads->later);
    load_next(loads, later);
    call_later_end(loads->later, loads->at == loads->count);
}
