/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event mpi_job_has_stalled: for some seconds no rank of a job on this node has begun or ended an MPI call, and at
 * least one is in a call. Reported once for each stall. Without a request nothing is checked.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/system/clock.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/mpi.h"
#include "service/ct/ct.h"
#include "service/mpi/mpi.h"
#include "shm/waits.h"

/* Pure: the samples and the clock are the caller's. */
struct mpi_stall_look {
    uint64_t mark; /* changes with each call that a rank begins or ends */
    unsigned ranks, in_call;
};

struct mpi_stall {
    uint64_t limit_ns;
    uint64_t mark, since_ns; /* since when nothing has changed, CLOCK_MONOTONIC; at first 0 */
    bool said;               /* this stall was reported */
};

/* true: it has stood still for limit_ns, and that was not reported yet. */
static bool mpi_stall_begins(struct mpi_stall *stall, const struct mpi_stall_look *look, uint64_t now_ns)
{
    if (look->mark != stall->mark || !look->in_call || !stall->since_ns) {
        stall->mark = look->mark;
        stall->since_ns = now_ns;
        stall->said = false;
    }
    if (stall->said || now_ns - stall->since_ns < stall->limit_ns)
        return false;
    stall->said = true;
    return true;
}

enum { LOOKS = 12 /* in the requested time */ };

enum { OUT_JOB, OUT_SECONDS, OUT_RANKS, OUT_TEXT, OUT_FINDING, OUT_LATE, OUTPUTS };

struct stall { /* csr->event_data */
    struct mpi_stall judged;
    bool telling; /* the event is being raised for this request */
};

static void look_at(void *ctx, struct mpi_process *process)
{
    struct mpi_stall_look *look = ctx;
    bool in_call;
    look->mark = look->mark * 1000003 + mpi_process_mark(process, &in_call) + (uint64_t)mpi_process_pid(process);
    look->ranks++;
    look->in_call += in_call;
}

static void stall_tell(struct monitor *monitor, const char *dir, struct stall *stall, unsigned ranks, uint64_t since_ns)
{
    struct buf text = BUF_INIT, finding = BUF_INIT;
    pid_t late = 0;
    mpi_job_why_text(monitor, dir, &text, &finding, &late);
    uint64_t now = clock_now_ns();
    struct value outputs[OUTPUTS] = {value_string(span_str(dir ? dir : "")),
                                     value_floating((double)(now - since_ns) / 1e9),
                                     value_uint(ranks),
                                     value_string(span_of(text.data ? text.data : "", text.len)),
                                     value_string(span_of(finding.data ? finding.data : "", finding.len)),
                                     value_uint((uint64_t)late)};
    struct event event = {.service = registry_find(monitor->registry, span_str("mpi_job_has_stalled")),
                          .time_ns = now,
                          .outputs = outputs,
                          .output_count = OUTPUTS};
    stall->telling = true;
    monitor_enter(monitor);
    event_raise(monitor, &event);
    stall->telling = false;
    monitor_leave(monitor);
    buf_done(&text);
    buf_done(&finding);
}

/* The directory of the job; "" for all; NULL: nobody follows it (yet). */
static const char *job_of(const struct csr *csr)
{
    struct span name = csr->event_args[0].text;
    return name.len ? job_directory(csr->object.monitor, name) : "";
}

/* true: the event was raised, and the list of requests may have changed. */
static bool stall_check(struct csr *csr)
{
    struct monitor *monitor = csr->object.monitor;
    struct stall *stall = csr->event_data;
    struct mpi_stall_look look = {0};
    const char *dir = job_of(csr);
    if (!dir)
        return false;
    mpi_process_each(monitor->mpi, *dir ? dir : NULL, look_at, &look);
    if (!mpi_stall_begins(&stall->judged, &look, clock_now_ns()))
        return false;
    stall_tell(monitor, *dir ? dir : NULL, stall, look.ranks, stall->judged.since_ns);
    return true;
}

/* Is there a request, enabled or not? */
static bool is_asked(struct monitor *monitor, const struct service *service)
{
    for (struct scry_object *object = monitor->objects; object; object = object->hh.next)
        if (object_is(object, "c") && ((struct csr *)object)->event_service == service)
            return true;
    return false;
}

static bool look_around(void *ctx)
{
    struct monitor *monitor = ctx;
    struct service *service = registry_find(monitor->registry, span_str("mpi_job_has_stalled"));
    for (struct csr *csr = service->enabled; csr; csr = csr->next_enabled)
        if (stall_check(csr)) /* go on with the others the next time */
            break;
    return is_asked(monitor, service);
}

static Omis_status stall_define(struct csr *csr, struct err *err)
{
    struct monitor *monitor = csr->object.monitor;
    double seconds = csr->event_args[1].floating.number;
    struct stall *stall = arena_zalloc(&csr->arena, 1, sizeof *stall);
    if (!stall)
        return OMIS_NO_MEMORY;
    if (!(seconds >= STALL_LEAST_S && seconds <= STALL_MOST_S)) {
        err_set(err, -EINVAL, "seconds: expected a number from %g to %d", STALL_LEAST_S, STALL_MOST_S);
        return OMIS_PARAMETER_ERROR;
    }
    if (!monitor->mpi) {
        err_set(err, -EOPNOTSUPP, "this monitor watches no MPI programs");
        return OMIS_UNSUPPORTED_SERVICE;
    }
    stall->judged.limit_ns = (uint64_t)(seconds * 1e9);
    csr->event_data = stall;
    return mpi_watch(monitor->mpi, stall->judged.limit_ns / LOOKS, look_around, monitor) < 0 ? OMIS_NO_MEMORY : OMIS_OK;
}

static bool stall_match(const struct csr *csr, const struct event *event)
{
    return ((const struct stall *)csr->event_data)->telling;
}

const struct event_ops mpi_stalled_ops = {.define = stall_define, .match = stall_match};
