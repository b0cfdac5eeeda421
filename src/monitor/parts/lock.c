/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/parts/lock.h"

#include "base/system/log.h"
#include "base/system/pause.h"
#include "lang/token.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/parts/tell.h"
#include "shm/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct deferred_list;

struct lock { /* of a monitor */
    struct lock_claim *owner, *waiting;
    struct session *blocked; /* that have requests, in their order */
    struct deferred_list *events, *last_event;
    struct loop_source *timer, *turn;
};

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

static bool uses(const struct value *values, size_t count, const char *param)
{
    for (size_t i = 0; i < count; i++)
        if ((values[i].kind == VALUE_PARAM && span_is(values[i].text, param)) ||
            (values[i].kind == VALUE_LIST && uses(values[i].list.items, values[i].list.count, param)))
            return true;
    return false;
}

bool near_uses(const struct request *request, const char *param)
{
    for (size_t i = 0; i < request->action_count; i++)
        if (uses(request->actions[i].args, request->actions[i].argc, param))
            return true;
    return false;
}

struct deferred_list {
    char csr[TOKEN_TEXT_SIZE];
    struct told *told;
    struct deferred_list *next;
};

static void turn_soon(struct monitor *monitor);

/* ---- events ---- */

/* While it is locked an event's list waits until it is not. False: execute it. */
static bool defers(struct csr *csr, const struct event *event)
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

static struct deferred_list *take_event(struct lock *lock)
{
    struct deferred_list *deferred = lock->events;
    lock->events = deferred->next;
    if (!lock->events)
        lock->last_event = NULL;
    return deferred;
}

static void execute_deferred(struct monitor *monitor, struct deferred_list *deferred)
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

static void too_long(void *ctx)
{
    struct monitor *monitor = ctx;
    struct lock_claim *claim = monitor->lock->owner;
    log_warning("tool %u has locked this node for %d s: it is unlocked", claim->session->tool->id,
                (int)(LOCK_LIMIT_NS / 1000000000));
    lock_drop(claim);
    claim->lost(claim);
}

static void grant(struct monitor *monitor)
{
    struct lock *lock = monitor->lock;
    struct lock_claim *claim = lock->waiting;
    if (lock->owner || !claim)
        return;
    lock->waiting = claim->next;
    claim->next = NULL;
    claim->waits = false;
    lock->timer = loop_add_timer(monitor->loop, time_hasten(LOCK_LIMIT_NS), 0, too_long, monitor);
    if (!lock->timer) { /* nobody may have it for ever */
        claim->lost(claim);
        turn_soon(monitor);
        return;
    }
    claim->owns = true;
    lock->owner = claim;
    claim->granted(claim);
}

static void grant_next(void *ctx)
{
    struct monitor *monitor = ctx;
    monitor->lock->turn = NULL;
    grant(monitor);
}

/* Nobody has it: lists that were put off are executed, others have their turn, and then it is the next one's. */
static void turn(void *ctx)
{
    struct monitor *monitor = ctx;
    struct lock *lock = monitor->lock;
    lock->turn = NULL;
    monitor_enter(monitor);
    while (lock->events && !lock->owner)
        execute_deferred(monitor, take_event(lock));
    while (lock->blocked && !lock->owner) {
        struct session *session = lock->blocked;
        lock->blocked = session->next_blocked;
        session->blocked = false;
        execute_unblocked(session);
    }
    monitor_leave(monitor);
    if (lock->waiting && !lock->turn)
        lock->turn = loop_add_deferred(monitor->loop, grant_next, monitor);
}

static void turn_soon(struct monitor *monitor)
{
    struct lock *lock = monitor->lock;
    if (!lock->turn)
        lock->turn = loop_add_deferred(monitor->loop, turn, monitor);
    if (!lock->turn) /* out of memory */
        turn(monitor);
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
        grant(monitor);
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
        turn_soon(monitor);
    }
    claim->waits = claim->owns = false;
}

/* ---- sessions ---- */

/* Nothing of this session may be executed now; its function `ready` is called when it may. */
static bool blocks(struct session *session)
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

static struct lock_claim *claim_of(struct lock *lock, const struct session *session)
{
    struct lock_claim *claim = lock->waiting;
    if (lock->owner && lock->owner->session == session)
        return lock->owner;
    while (claim && claim->session != session)
        claim = claim->next;
    return claim;
}

static void forget(struct session *session)
{
    struct lock_claim *claim;
    while ((claim = claim_of(session->tool->monitor->lock, session))) {
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
    forget(session);
    tell_end(session);
}

int lock_start(struct monitor *monitor)
{
    static const struct monitor_parts parts = {
        .defers = defers, .blocks = blocks, .tell = tell_event, .session_ends = lock_session_ends};
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
        struct deferred_list *deferred = take_event(lock);
        told_free(deferred->told);
        free(deferred);
    }
    loop_remove(lock->timer);
    loop_remove(lock->turn);
    free(lock);
    monitor->lock = NULL;
    monitor->parts = NULL;
}
