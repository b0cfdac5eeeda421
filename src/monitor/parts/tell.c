/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/parts/tell.h"

#include <stdlib.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/parts/told.h"
#include "shm/waits.h"
#include "wire/frame.h"

struct told_hold {
    uint32_t number;
    struct session *session;
    struct hold *hold;
    struct loop_source *timer;
    struct told_hold *next;
};

static void end(struct told_hold **at)
{
    struct told_hold *held = *at;
    *at = held->next;
    loop_remove(held->timer);
    hold_drop(held->hold);
    free(held);
}

static void release(struct session *session, uint32_t number)
{
    struct told_hold **at = &session->told;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (*at)
        end(at);
}

/* Only the first one waits so long, or a job would be as good as stopped while a network is away. */
static void too_long(void *ctx)
{
    const struct told_hold *held = ctx;
    struct session *session = held->session;
    log_warning("tool %u has not answered an event for %d s: nothing waits for it until it does", session->tool->id,
                (int)(TELL_LIMIT_NS / 1000000000));
    session->mute = true;
    while (session->told)
        end(&session->told);
}

/* Keeps a hold under a number that the session is told. It is taken: also released with 0, if memory ran out. 0 for
 * NULL: nobody waits. */
static uint32_t keep_hold(struct session *session, struct hold *hold_take)
{
    static uint32_t last;
    struct told_hold *held = hold_take ? calloc(1, sizeof *held) : NULL;
    if (held)
        held->timer = loop_add_timer(session->tool->monitor->loop, time_hasten(TELL_LIMIT_NS), 0, too_long, held);
    if (!held || !held->timer) { /* nobody waits for ever */
        free(held);
        hold_drop(hold_take);
        return 0;
    }
    last += last + 1 ? 1 : 2; /* never 0 */
    held->number = last;
    held->session = session;
    held->hold = hold_take;
    held->next = session->told;
    session->told = held;
    return held->number;
}

void tell_release(struct session *session, uint32_t number)
{
    session->mute = false;
    release(session, number);
}

void tell_end(struct session *session)
{
    while (session->told)
        end(&session->told);
}

void tell(struct csr *csr, struct told *told_take)
{
    struct session *session = csr->session;
    struct buf payload = BUF_INIT, values = BUF_INIT;
    uint32_t number = session->mute ? 0 : keep_hold(session, TAKE_PTR(told_take->hold));
    buf_put_u32(&payload, number);
    told_print(&values, told_take);
    buf_append(&payload, values.data, values.len);
    if (payload.failed || values.failed || (session->full && session->full(session)))
        release(session, number);
    else
        session->other(session, FRAME_EVENT, csr->request_id, span_of(payload.data, payload.len));
    buf_done(&payload);
    buf_done(&values);
    told_free(told_take);
}

bool tell_event(struct csr *csr, const struct event *event)
{
    struct told *told = told_new(csr, event);
    if (told)
        tell(csr, told);
    else
        log_error("out of memory: an event of %s is lost", csr->object.token);
    return true;
}
