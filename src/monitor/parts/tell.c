/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/parts/tell.h"

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "lang/put.h"
#include "lang/request.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "shm/waits.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool value_of(const struct event_told *event, struct span name, struct value *ret_value)
{
    return told_value(event, name, ret_value); /* the first member */
}

static struct told *new_for(const struct csr *csr)
{
    struct told *told = calloc(1, sizeof *told);
    if (!told)
        return NULL;
    told->as_event = (struct event_told){.where = told->where, .value = value_of};
    told->arena = ARENA_INIT;
    if (!substitute_names(&told->arena, &csr->request, &told->names, &told->count) ||
        !(told->values = arena_zalloc(&told->arena, told->count + 1, sizeof *told->values))) {
        told_free(told);
        return NULL;
    }
    return told;
}

struct told *told_new(const struct csr *csr, const struct event *event)
{
    struct told *told = new_for(csr);
    if (!told)
        return NULL;
    for (size_t i = 0; i < told->count; i++) {
        struct value value;
        if (!event_param(event, csr, told->names[i], &value))
            value = (struct value){.kind = VALUE_PARAM, .text = told->names[i]};
        if (!value_copy(&told->arena, &value, &told->values[i])) {
            told_free(told);
            return NULL;
        }
    }
    told->source = event_source_of(csr->object.monitor, event);
    strncpy(told->where, event_place(event), sizeof told->where - 1);
    told->time_ns = event->time_ns;
    told->chain = event->chain;
    told->hold = hold_keep(csr->object.monitor);
    return told;
}

void told_free(struct told *told)
{
    if (!told)
        return;
    hold_drop(told->hold);
    arena_done(&told->arena);
    free(told);
}

/* ---- from monitor to monitor ---- */

static struct value source_value(const char *token)
{
    return value_token(span_str(*token ? token : TOKEN_UNDEFINED));
}

void told_print(struct buf *out, const struct told *told)
{
    PUT(out, value_token(span_str(told->where)), told->time_ns, told->chain, source_value(told->source.process),
        source_value(told->source.thread), source_value(told->source.node));
    for (size_t i = 0; i < told->count; i++) { /* put_values would put nothing behind binary data */
        buf_putc(out, ',');
        value_print(out, &told->values[i]);
    }
}

enum { HEAD = 6 }; /* values before those of the parameters */

static bool read_token(const struct value *value, char *ret_token)
{
    if (value->kind != VALUE_TOKEN || value->text.len >= TOKEN_TEXT_SIZE)
        return false;
    if (!span_is(value->text, TOKEN_UNDEFINED))
        memcpy(ret_token, value->text.ptr, value->text.len);
    return true;
}

static int read_values(struct told *told, struct span text)
{
    const struct value *values;
    size_t count;
    struct err err;
    struct span copy = arena_span(&told->arena, text);
    int code = copy.ptr ? values_parse(&told->arena, copy, &values, &count, &err) : -ENOMEM;
    if (code < 0)
        return code == -ENOMEM ? code : -EBADMSG;
    if (count != told->count + HEAD || values[0].kind != VALUE_TOKEN || values[0].text.len >= sizeof told->where ||
        values[1].kind != VALUE_INTEGER || values[2].kind != VALUE_INTEGER ||
        !read_token(&values[3], told->source.process) || !read_token(&values[4], told->source.thread) ||
        !read_token(&values[5], told->source.node))
        return -EBADMSG;
    memcpy(told->where, values[0].text.ptr, values[0].text.len);
    told->time_ns = values[1].integer.bits;
    told->chain = (unsigned)values[2].integer.bits;
    if (told->count)
        memcpy(told->values, values + HEAD, told->count * sizeof *values);
    return 0;
}

int told_read(struct told **ret_told, const struct csr *csr, struct span text)
{
    struct told *told = new_for(csr);
    if (!told)
        return -ENOMEM;
    int code = read_values(told, text);
    if (code < 0) {
        told_free(told);
        return code;
    }
    *ret_told = told;
    return 0;
}

/* ---- as an event again ---- */

void told_event(const struct told *told, const struct csr *csr, struct event *ret_event)
{
    *ret_event = (struct event){.service = csr->event_service,
                                .source = told->source,
                                .time_ns = told->time_ns,
                                .chain = told->chain,
                                .told = &told->as_event};
}

bool told_value(const void *ctx, struct span name, struct value *ret_value)
{
    const struct told *told = ctx;
    for (size_t i = 0; i < told->count; i++)
        if (span_eq(told->names[i], name)) {
            *ret_value = told->values[i];
            return told->values[i].kind != VALUE_PARAM;
        }
    return false;
}

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
