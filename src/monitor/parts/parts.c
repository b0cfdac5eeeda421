/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/parts/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "lang/value.h"
#include "lang/request.h"
#include "lang/token.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "shm/waits.h"
#include "wire/frame.h"

/* ---- near or far ---- */

/* Objects of these live at the home, and nodes come and go there. */
static bool is_home_class(const char *class_name)
{
    return strcmp(class_name, "c") == 0 || strcmp(class_name, "e") == 0;
}

static bool is_home_service(const struct service *service)
{
    static const char *const names[] = {"user_event_create", "node_attach", "node_attach2", "node_detach"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(service->row->name, names[i]) == 0)
            return true;
    return service->object_class && is_home_class(service->object_class);
}

static bool value_is_near(const struct value *value, uint32_t node)
{
    struct token token;
    if (value->kind == VALUE_PARAM)
        return true; /* the event's own objects */
    return value->kind == VALUE_TOKEN && token_parse(value->text, &token) && token.node == node;
}

static bool objects_are_near(const struct value *arg, uint32_t node)
{
    if (arg->kind != VALUE_LIST)
        return value_is_near(arg, node);
    for (size_t i = 0; i < arg->list.count; i++)
        if (!value_is_near(&arg->list.items[i], node))
            return false;
    return arg->list.count > 0; /* [] is the tool's objects on all nodes */
}

bool near_request(const struct request *request, struct service *const *services, uint32_t node)
{
    for (size_t i = 0; i < request->action_count; i++) {
        int index = services[i]->object_arg;
        if (is_home_service(services[i]) || (index >= 0 && !objects_are_near(&request->actions[i].args[index], node)))
            return false;
    }
    return true;
}

bool near_home(const struct request *request, struct service *const *services, uint32_t node)
{
    for (size_t i = 0; i < request->action_count; i++) {
        int index = services[i]->object_arg;
        bool home = is_home_service(services[i]) && services[i]->object_class;
        if (index >= 0 && !home && !objects_are_near(&request->actions[i].args[index], node))
            return false;
    }
    return true;
}

static bool values_use(const struct value *values, size_t count, const char *param)
{
    for (size_t i = 0; i < count; i++)
        if ((values[i].kind == VALUE_PARAM && span_is(values[i].text, param)) ||
            (values[i].kind == VALUE_LIST && values_use(values[i].list.items, values[i].list.count, param)))
            return true;
    return false;
}

bool near_uses(const struct request *request, const char *param)
{
    for (size_t i = 0; i < request->action_count; i++)
        if (values_use(request->actions[i].args, request->actions[i].argc, param))
            return true;
    return false;
}

/* ---- what is told of an event ---- */

static bool event_told_value(const struct event_told *event, struct span name, struct value *ret_value)
{
    return told_value(event, name, ret_value); /* the first member */
}

static struct told *told_make(const struct csr *csr)
{
    struct told *told = calloc(1, sizeof *told);
    if (!told)
        return NULL;
    told->as_event = (struct event_told){.where = told->where, .value = event_told_value};
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
    struct told *told = told_make(csr);
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

static bool token_read(const struct value *value, char *ret_token)
{
    if (value->kind != VALUE_TOKEN || value->text.len >= TOKEN_TEXT_SIZE)
        return false;
    if (!span_is(value->text, TOKEN_UNDEFINED))
        memcpy(ret_token, value->text.ptr, value->text.len);
    return true;
}

static int told_read_values(struct told *told, struct span text)
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
        !token_read(&values[3], told->source.process) || !token_read(&values[4], told->source.thread) ||
        !token_read(&values[5], told->source.node))
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
    struct told *told = told_make(csr);
    if (!told)
        return -ENOMEM;
    int code = told_read_values(told, text);
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

/* ---- far lists ---- */

struct told_hold {
    uint32_t number;
    struct session *session;
    struct hold *hold;
    struct loop_source *timer;
    struct told_hold *next;
};

static void told_hold_end(struct told_hold **at)
{
    struct told_hold *held = *at;
    *at = held->next;
    loop_remove(held->timer);
    hold_drop(held->hold);
    free(held);
}

static void told_hold_release(struct session *session, uint32_t number)
{
    struct told_hold **at = &session->told;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (*at)
        told_hold_end(at);
}

/* Only the first one waits so long, or a job would be as good as stopped while a network is away. */
static void told_hold_late(void *ctx)
{
    const struct told_hold *held = ctx;
    struct session *session = held->session;
    log_warning("tool %u has not answered an event for %d s: nothing waits for it until it does", session->tool->id,
                (int)(TELL_LIMIT_NS / 1000000000));
    session->mute = true;
    while (session->told)
        told_hold_end(&session->told);
}

/* Keeps a hold under a number that the session is told. It is taken: also released with 0, if memory ran out. 0 for
 * NULL: nobody waits. */
static uint32_t told_hold_keep(struct session *session, struct hold *hold_take)
{
    static uint32_t last;
    struct told_hold *held = hold_take ? calloc(1, sizeof *held) : NULL;
    if (held)
        held->timer = loop_add_timer(session->tool->monitor->loop, time_hasten(TELL_LIMIT_NS), 0, told_hold_late, held);
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
    told_hold_release(session, number);
}

/* The session ends. */
static void tell_end(struct session *session)
{
    while (session->told)
        told_hold_end(&session->told);
}

void told_send(struct csr *csr, struct told *told_take)
{
    struct session *session = csr->session;
    struct buf payload = BUF_INIT, values = BUF_INIT;
    uint32_t number = session->mute ? 0 : told_hold_keep(session, TAKE_PTR(told_take->hold));
    buf_put_u32(&payload, number);
    told_print(&values, told_take);
    buf_append(&payload, values.data, values.len);
    if (payload.failed || values.failed || (session->full && session->full(session)))
        told_hold_release(session, number);
    else
        session->other(session, FRAME_EVENT, csr->request_id, span_of(payload.data, payload.len));
    buf_done(&payload);
    buf_done(&values);
    told_free(told_take);
}

/* For csr->elsewhere. */
static bool tell_event(struct csr *csr, const struct event *event)
{
    struct told *told = told_new(csr, event);
    if (told)
        told_send(csr, told);
    else
        log_error("out of memory: an event of %s is lost", csr->object.token);
    return true;
}

/* ---- the lock ---- */

struct lock { /* of a monitor */
    struct lock_claim *owner, *waiting;
    struct session *blocked; /* that have requests, in their order */
    struct deferred_list *events, *last_event;
    struct loop_source *timer, *turn;
};

struct deferred_list {
    char csr[TOKEN_TEXT_SIZE];
    struct told *told;
    struct deferred_list *next;
};

static void lock_turn_soon(struct monitor *monitor);

/* While it is locked an event's list waits until it is not. False: execute it. */
static bool list_defer(struct csr *csr, const struct event *event)
{
    struct lock *lock = csr->object.monitor->lock;
    if (!lock->owner)
        return false;
    struct deferred_list *deferred = calloc(1, sizeof *deferred);
    if (deferred)
        deferred->told = told_new(csr, event);
    if (!deferred || !deferred->told) {
        log_error("out of memory: an event of %s is lost", csr->object.token);
        free(deferred);
        return true;
    }
    memcpy(deferred->csr, csr->object.token, sizeof deferred->csr);
    if (lock->last_event)
        lock->last_event->next = deferred;
    else
        lock->events = deferred;
    lock->last_event = deferred;
    return true;
}

static struct deferred_list *deferred_take(struct lock *lock)
{
    struct deferred_list *deferred = lock->events;
    lock->events = deferred->next;
    if (!lock->events)
        lock->last_event = NULL;
    return deferred;
}

static void deferred_execute(struct monitor *monitor, struct deferred_list *deferred)
{
    struct csr *csr = (struct csr *)object_find(monitor, span_str(deferred->csr));
    struct told *told = deferred->told;
    if (csr && csr->session && csr->enabled) {
        struct event event;
        told_event(told, csr, &event);
        struct hold *hold = told->hold;
        told->hold = NULL;
        hold_begin(monitor, hold); /* it has two users then */
        execute_triggered(csr, &event);
        event_run_queue(monitor);
        hold_end(monitor, hold);
        hold_drop(hold);
    }
    told_free(told);
    free(deferred);
}

/* ---- who has it ---- */

static void lock_late(void *ctx)
{
    struct monitor *monitor = ctx;
    struct lock_claim *claim = monitor->lock->owner;
    log_warning("tool %u has locked this node for %d s: it is unlocked", claim->session->tool->id,
                (int)(LOCK_LIMIT_NS / 1000000000));
    lock_drop(claim);
    claim->lost(claim);
}

static void lock_grant(struct monitor *monitor)
{
    struct lock *lock = monitor->lock;
    struct lock_claim *claim = lock->waiting;
    if (lock->owner || !claim)
        return;
    lock->waiting = claim->next;
    claim->next = NULL;
    claim->waits = false;
    lock->timer = loop_add_timer(monitor->loop, time_hasten(LOCK_LIMIT_NS), 0, lock_late, monitor);
    if (!lock->timer) { /* nobody may have it for ever */
        claim->lost(claim);
        lock_turn_soon(monitor);
        return;
    }
    claim->owns = true;
    lock->owner = claim;
    claim->granted(claim);
}

static void lock_grant_next(void *ctx)
{
    struct monitor *monitor = ctx;
    monitor->lock->turn = NULL;
    lock_grant(monitor);
}

/* Nobody has it: lists that were put off are executed, others have their turn, and then it is the next one's. */
static void lock_turn(void *ctx)
{
    struct monitor *monitor = ctx;
    struct lock *lock = monitor->lock;
    lock->turn = NULL;
    monitor_enter(monitor);
    while (lock->events && !lock->owner)
        deferred_execute(monitor, deferred_take(lock));
    while (lock->blocked && !lock->owner) {
        struct session *session = lock->blocked;
        lock->blocked = session->next_blocked;
        session->blocked = false;
        execute_unblocked(session);
    }
    monitor_leave(monitor);
    if (lock->waiting && !lock->turn)
        lock->turn = loop_add_deferred(monitor->loop, lock_grant_next, monitor);
}

static void lock_turn_soon(struct monitor *monitor)
{
    struct lock *lock = monitor->lock;
    if (!lock->turn)
        lock->turn = loop_add_deferred(monitor->loop, lock_turn, monitor);
    if (!lock->turn) /* out of memory */
        lock_turn(monitor);
}

void lock_claim(struct lock_claim *claim)
{
    struct monitor *monitor = claim->session->tool->monitor;
    struct lock_claim **at = &monitor->lock->waiting;
    while (*at)
        at = &(*at)->next;
    *at = claim;
    claim->next = NULL;
    claim->waits = true;
    if (!monitor->lock->turn) /* else others have theirs */
        lock_grant(monitor);
}

void lock_drop(struct lock_claim *claim)
{
    struct monitor *monitor = claim->session->tool->monitor;
    struct lock *lock = monitor->lock;
    if (claim->waits) {
        struct lock_claim **at = &lock->waiting;
        while (*at != claim)
            at = &(*at)->next;
        *at = claim->next;
    }
    if (claim->owns) {
        lock->owner = NULL;
        loop_remove(lock->timer);
        lock->timer = NULL;
        lock_turn_soon(monitor);
    }
    claim->waits = claim->owns = false;
}

/* ---- sessions ---- */

/* Nothing of this session may be executed now; its function `ready` is called when it may. */
static bool session_blocks(struct session *session)
{
    struct lock *lock = session->tool ? session->tool->monitor->lock : NULL;
    if (!lock || !lock->owner || lock->owner->session == session)
        return false;
    if (!session->blocked && session->ready) {
        struct session **at = &lock->blocked;
        while (*at)
            at = &(*at)->next_blocked;
        *at = session;
        session->next_blocked = NULL;
        session->blocked = true;
    }
    return true;
}

static struct lock_claim *session_claim(struct lock *lock, const struct session *session)
{
    struct lock_claim *claim = lock->waiting;
    if (lock->owner && lock->owner->session == session)
        return lock->owner;
    while (claim && claim->session != session)
        claim = claim->next;
    return claim;
}

static void session_forget(struct session *session)
{
    struct lock_claim *claim;
    while ((claim = session_claim(session->tool->monitor->lock, session))) {
        lock_drop(claim);
        claim->lost(claim);
    }
    struct session **at = &session->tool->monitor->lock->blocked;
    while (*at && *at != session)
        at = &(*at)->next_blocked;
    if (*at)
        *at = session->next_blocked;
    session->blocked = false;
}

void lock_session_ends(struct session *session)
{
    session_forget(session);
    tell_end(session);
}

int lock_start(struct monitor *monitor)
{
    static const struct monitor_parts parts = {
        .defers = list_defer, .blocks = session_blocks, .tell = tell_event, .session_ends = lock_session_ends};
    monitor->lock = calloc(1, sizeof *monitor->lock);
    if (!monitor->lock)
        return -ENOMEM;
    monitor->parts = &parts;
    return 0;
}

void lock_done(struct monitor *monitor)
{
    struct lock *lock = monitor->lock;
    if (!lock)
        return;
    while (lock->events) {
        struct deferred_list *deferred = deferred_take(lock);
        told_free(deferred->told);
        free(deferred);
    }
    loop_remove(lock->timer);
    loop_remove(lock->turn);
    free(lock);
    monitor->lock = NULL;
    monitor->parts = NULL;
}
