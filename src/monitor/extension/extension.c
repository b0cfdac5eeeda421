/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scry/ext.h promises: the only way for extensions into the engine.
 *
 * omis_request inside the monitor (specification 6.3): extensions request in just the same way as a tool does, and for
 * the tool that they serve at the moment: with its scope, and with what they make belonging to it. For this a tool that
 * an extension requests something for has one more session, without a connection.
 *
 * A request without a callback is executed at once, inside the action list that the extension's handler belongs to, and
 * as a part of it: it may not wait (call_later), as in braces. One with a callback is executed, and its replies are
 * handed out, from the loop, when no action list runs: nothing of an extension is ever entered while something of it
 * runs, but for what it asks for itself.
 */
#pragma GCC visibility push(default)
#include <omis.h>
#pragma GCC visibility pop
#include <scry/ext.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <uthash.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "lang/reply.h"
#include "lang/request.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/tool.h"
#include "probe/cells.h"

enum {
    EXT_REQUESTS_LIMIT = 10000, /* with callbacks, of a tool, that were not executed yet */
};

/* Brackets code of an extension that is called from the loop, for a tool. */
static void ext_leave(struct execution *execution);
static void ext_enter(struct execution *execution, struct tool *tool);

/* ---- timers and descriptors of extensions: each belongs to an object, is for its tool, and ends with it at the latest ---- */

struct scry_watch {
    struct scry_object *object;
    struct loop_source *source;
    void (*on_time)(struct scry_object *object);
    void (*on_ready)(struct scry_object *object, int fd, unsigned events);
    struct scry_watch *next; /* of the object */
};

static void ext_watch_end(struct scry_watch *watch)
{
    struct scry_watch **at = &watch->object->watches;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    loop_remove(watch->source);
    free(watch);
}

static void time_came(void *ctx)
{
    struct scry_watch *watch = ctx;
    struct execution execution;
    ext_enter(&execution, watch->object->owner);
    watch->on_time(watch->object);
    ext_leave(&execution); /* the watch may be gone now */
}

static void became_ready(void *ctx, int fd, uint32_t events)
{
    struct scry_watch *watch = ctx;
    struct execution execution;
    if (events & (EPOLLHUP | EPOLLERR)) { /* it would be ready for ever */
        loop_remove(watch->source);
        watch->source = NULL;
    }
    ext_enter(&execution, watch->object->owner);
    watch->on_ready(watch->object, fd, events);
    ext_leave(&execution);
}

static void end_all(struct scry_object *object)
{
    while (object->watches)
        ext_watch_end(object->watches);
}

static struct scry_watch *watch_new(struct scry_object *object)
{
    struct scry_watch *watch = object->gone || !object->owner ? NULL : calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->object = object;
    watch->next = object->watches;
    object->watches = watch;
    object->on_end = end_all;
    return watch;
}

static struct scry_watch *watch_begun(struct scry_watch *watch)
{
    if (watch->source)
        return watch;
    ext_watch_end(watch);
    return NULL;
}

/* NULL: out of memory, or the kernel refused. */
static struct scry_watch *ext_watch_timer(struct scry_object *object, uint64_t period_ns,
                                          void (*fn)(struct scry_object *object))
{
    struct scry_watch *watch = watch_new(object);
    if (!watch)
        return NULL;
    watch->on_time = fn;
    watch->source = loop_add_timer(object->monitor->loop, period_ns, period_ns, time_came, watch);
    return watch_begun(watch);
}

static struct scry_watch *ext_watch_fd(struct scry_object *object, int fd, uint32_t events,
                                       void (*fn)(struct scry_object *object, int fd, unsigned events))
{
    struct scry_watch *watch = watch_new(object);
    if (!watch)
        return NULL;
    watch->on_ready = fn;
    watch->source = loop_add_fd(object->monitor->loop, fd, events, became_ready, watch);
    return watch_begun(watch);
}

enum { TURN_REQUESTS = 16 }; /* executed before everybody else has his turn, as of tools (daemon/connection.h) */

/* One omis_request, until its last reply was handed out. */
struct ext_request {
    uint32_t id;
    Omis_flags flags;
    void (*callback)(Omis_reply reply, void *param);
    void *param;
    struct span text; /* our copy until it is executed; then none */
    bool executing;   /* somebody below us looks at it */
    bool waits;       /* omis_request returns the first reply */
    bool ended;       /* the last reply has come */
    Omis_reply first;
    unsigned undelivered;
    struct ext_request *next; /* to be executed */
    UT_hash_handle hh;        /* by id, in the order in which they were made */
};

struct ext_reply {
    struct ext_request *request;
    Omis_reply reply;
    struct ext_reply *next;
};

struct ext_session {
    struct session session; /* first: the engine knows only this */
    uint32_t last_id;
    struct ext_request *requests;
    struct ext_request *first, *last; /* to be executed */
    size_t waiting;                   /* how many those are */
    struct ext_reply *replies, *last_reply;
    struct loop_source *turn;
    bool ending;
};

/* ---- whom the running code serves ---- */

/* An extension that is a tool itself (6.1) is one from its first request on. */
static struct tool *registering_tool(struct monitor *monitor)
{
    struct registry *registry = monitor->registry;
    if (registry->registering[0] && !registry->registering_tool)
        registry->registering_tool = tool_join(monitor, 0);
    return registry->registering_tool;
}

/* The tool that the running code of an extension serves: whose request or event it handles, whose reply it gets; while
 * it is registered, the extension itself. NULL: none. */
static struct tool *ext_tool(struct monitor *monitor)
{
    return monitor->running ? monitor->running->tool : registering_tool(monitor);
}

static void ext_enter(struct execution *execution, struct tool *tool)
{
    struct monitor *monitor = tool->monitor;
    *execution = (struct execution){.monitor = monitor, .tool = tool, .outer = monitor->running};
    monitor_enter(monitor);
    monitor->running = execution;
}

static void ext_leave(struct execution *execution)
{
    struct monitor *monitor = execution->monitor;
    monitor->running = execution->outer;
    monitor_leave(monitor);
}

/* ---- replies ---- */

static void request_free(struct ext_session *session, struct ext_request *request)
{
    HASH_DELETE(hh, session->requests, request);
    free((char *)request->text.ptr);
    free(request);
}

/* Its last reply has come and was handed out, or nobody wanted it. */
static void request_settle(struct ext_session *session, struct ext_request *request)
{
    if (request->ended && !request->undelivered && !request->executing)
        request_free(session, request);
}

static void take_turn(void *ctx);

static void queue_turn(struct ext_session *session)
{
    struct loop *loop = session->session.tool->monitor->loop;
    if (!session->turn && !session->ending)
        session->turn = loop_add_deferred(loop, take_turn, session);
    if (!session->turn && !session->ending)
        log_error("out of memory: replies to an extension wait until there are more");
}

/* Takes the reply over. `last`: there will be none after it. */
static void reply_take(struct ext_session *session, struct ext_request *request, Omis_reply reply, bool last)
{
    request->ended |= last;
    if (request->waits) {
        request->waits = false;
        request->first = reply;
        return;
    }
    struct ext_reply *entry = NULL;
    if (request->callback && !local_reply_unwanted(reply, request->flags) && !(entry = calloc(1, sizeof *entry)))
        log_error("out of memory: a reply to an extension is lost");
    if (!entry) {
        local_reply_free(reply);
        return;
    }
    *entry = (struct ext_reply){.request = request, .reply = reply};
    request->undelivered++;
    if (session->last_reply)
        session->last_reply->next = entry;
    else
        session->replies = entry;
    session->last_reply = entry;
    queue_turn(session);
}

static void on_reply(struct session *base, uint32_t id, bool last, bool droppable, struct span encoded)
{
    struct ext_session *session = (struct ext_session *)base;
    struct ext_request *request;
    (void)droppable;
    HASH_FIND(hh, session->requests, &id, sizeof id, request);
    if (!request)
        return;
    Omis_reply reply = NULL;
    if (reply_decode(encoded, &reply) < 0)
        reply = local_reply_no_memory();
    reply_take(session, request, reply, last);
    request_settle(session, request);
}

static void on_error(struct session *base, struct span encoded)
{
    (void)base;
    Omis_reply reply = NULL;
    if (reply_decode(encoded, &reply) == 0 && reply[0] && reply[0]->result)
        log_info("to an extension: %s", reply[0]->result);
    local_reply_free(reply);
}

static void on_ready(struct session *base)
{
    queue_turn((struct ext_session *)base);
}

/* The oldest reply, to its callback. */
static void reply_deliver(struct ext_session *session)
{
    struct ext_reply *entry = session->replies;
    struct ext_request *request = entry->request;
    session->replies = entry->next;
    if (!entry->next)
        session->last_reply = NULL;
    struct execution execution;
    ext_enter(&execution, session->session.tool);
    request->callback(entry->reply, request->param);
    ext_leave(&execution);
    free(entry);
    request->undelivered--;
    request_settle(session, request);
}

/* ---- requests ---- */

static void request_execute(struct ext_session *session, struct ext_request *request)
{
    struct span text = request->text;
    request->text = span_of(NULL, 0);
    request->executing = true;
    execute_request(&session->session, request->id, request->flags, text);
    request->executing = false;
    free((char *)text.ptr);
    request_settle(session, request);
}

static void take_turn(void *ctx)
{
    struct ext_session *session = ctx;
    session->turn = NULL;
    /* what callbacks cause comes in the next turn */
    struct ext_reply *last = session->last_reply;
    bool more = last != NULL;
    while (more) {
        more = session->replies != last;
        reply_deliver(session);
    }
    for (int i = 0; i < TURN_REQUESTS && session->first && !session->session.waiting &&
                    !monitor_blocks(session->session.tool->monitor, &session->session);
         i++) {
        struct ext_request *request = session->first;
        session->first = request->next;
        if (!session->first)
            session->last = NULL;
        session->waiting--;
        request_execute(session, request);
    }
    if (session->replies || (session->first && !session->session.waiting && !session->session.blocked))
        queue_turn(session);
}

/* ---- the end ---- */

/* What was requested for the tool ends, and every callback that is still owed a reply gets the last one. */
static void session_end(struct tool *tool)
{
    struct ext_session *session = tool->ext;
    session->ending = true;
    loop_remove(session->turn);
    session->turn = NULL;
    execute_cancel(&session->session);
    for (struct scry_object *object = tool->owned, *next; object; object = next) {
        next = object->next_owned;
        if (object_is(object, "c") && ((struct csr *)object)->session == &session->session)
            csr_delete((struct csr *)object); /* its callback is told */
    }
    struct ext_request *request, *next;
    HASH_ITER(hh, session->requests, request, next)
    {
        if (!request->ended && request->callback)
            reply_take(session, request,
                       local_reply_new(OMIS_UNKNOWN_OBJECT, "the tool has gone before the request was done"), true);
    }
    while (session->replies)
        reply_deliver(session);
    HASH_ITER(hh, session->requests, request, next)
    {
        request_free(session, request);
    }
    tool->ext = NULL;
    tool->on_end = NULL;
    if (tool->monitor->parts)
        tool->monitor->parts->session_ends(&session->session);
    free(session);
}

/* ---- requests ---- */

static struct ext_session *session_of(struct tool *tool)
{
    struct monitor *monitor = tool->monitor;
    if (tool->ext)
        return tool->ext;
    struct ext_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    const struct session *asking = monitor->running ? monitor->running->session : NULL;
    session->session =
        (struct session){.tool = tool, .peer_pid = asking ? asking->peer_pid : 0, .reply = on_reply, .error = on_error};
    tool->ext = session;
    tool->on_end = session_end;
    return session;
}

/* Executed now, as a part of the list that runs; its first reply. */
static Omis_reply request_now(struct ext_session *session, struct ext_request *request, struct span text)
{
    struct monitor *monitor = session->session.tool->monitor;
    void (*ready)(struct session *) = session->session.ready;
    request->waits = request->executing = true;
    session->session.ready = NULL; /* it cannot wait: whoever asks is in its way */
    monitor->nested++;
    execute_request(&session->session, request->id, request->flags, text);
    monitor->nested--;
    session->session.ready = ready;
    Omis_reply reply = request->first;
    request->executing = false;
    request->ended |= !request->callback; /* replies of a conditional request that nobody takes are dropped */
    request_settle(session, request);
    return reply;
}

static bool request_later(struct ext_session *session, struct ext_request *request, struct span text)
{
    char *copy = malloc(text.len + 1);
    if (!copy)
        return false;
    memcpy(copy, text.ptr, text.len);
    request->text = span_of(copy, text.len);
    session->session.ready = on_ready;
    if (session->last)
        session->last->next = request;
    else
        session->first = request;
    session->last = request;
    session->waiting++;
    queue_turn(session);
    return true;
}

/* omis_request (7.1.1). Replies are freed with local_reply_free. */
static Omis_reply ext_request(struct monitor *monitor, struct span text,
                              void (*callback)(Omis_reply reply, void *param), void *param, Omis_flags flags)
{
    bool now = !callback || (flags & OMIS_WAIT_FOR_FIRST_REPLY);
    struct tool *tool = ext_tool(monitor);
    if (!tool)
        return local_reply_new(OMIS_UNSPECIFIED_ERROR, "an extension can request something while it serves a tool, "
                                                       "and while it is registered; now it does neither");
    struct ext_session *session = session_of(tool);
    if (session && session->ending)
        return local_reply_new(OMIS_UNKNOWN_OBJECT, "the tool has gone: nothing can be requested for it any more");
    if (now && monitor->nested >= NESTED_LIMIT)
        return local_reply_new(OMIS_UNSPECIFIED_ERROR,
                               "no request can be waited for here: 16 wait for each other already, as when a service "
                               "requests itself, or a list is being compiled");
    if (session && !now && session->waiting >= EXT_REQUESTS_LIMIT)
        return local_reply_new(OMIS_NO_MEMORY, "10000 requests of extensions for this tool are not executed yet");
    struct ext_request *request = session ? calloc(1, sizeof *request) : NULL;
    if (!request)
        return local_reply_no_memory();
    if (!callback) /* these are about callbacks; whoever waits must get the reply */
        flags &= ~(Omis_flags)(OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS);
    request->id = ++session->last_id;
    request->flags = flags;
    request->callback = callback;
    request->param = param;
    HASH_ADD(hh, session->requests, id, sizeof request->id, request);
    if (now)
        return request_now(session, request, text);
    if (request_later(session, request, text))
        return NULL;
    request_free(session, request);
    return local_reply_no_memory();
}

/* ---- the functions of scry/ext.h ---- */

enum { MISTAKES_LOGGED = 20 }; /* so that one for each event does not fill the log */

/* ---- registration ---- */

int scry_register_service(const struct scry_service *service)
{
    struct registry *registry = monitor_current()->registry;
    struct err err;
    if (registry_add(registry, service, registry->registering, &err) == 0)
        return 0;
    log_error("%s", err.text);
    return -1;
}

int scry_register_class(const char *token_class, void (*destroy)(void *data), const char *doc)
{
    struct monitor *monitor = monitor_current();
    const char *prefix = monitor->registry->registering;
    size_t len = strlen(prefix);
    if (strncmp(token_class, prefix, len) != 0 || token_class[len] != '_' || strlen(token_class) != len + 2) {
        log_error("token class %s: must be \"%s_\" and one character", token_class, prefix);
        return -1;
    }
    if (object_class_find(monitor, span_str(token_class))) {
        log_error("token class %s exists already", token_class);
        return -1;
    }
    struct object_class *class = object_class_get(monitor, token_class);
    if (!class)
        return -1;
    class->destroy = destroy;
    class->doc = doc;
    return 0;
}

/* A class of ours and one that was there before it, so that no class contains itself. */
static struct object_class *object_relate(const char *token_class, const char *other_class)
{
    struct monitor *monitor = monitor_current();
    struct object_class *class = object_class_find(monitor, span_str(token_class)), *at;
    struct object_class *other = object_class_find(monitor, span_str(other_class));
    const char *prefix = monitor->registry->registering;
    for (at = other; at && at != class; at = at->hh.next)
        ;
    if (class && at && other != class && !class->builtin && *prefix &&
        strncmp(token_class, prefix, strlen(prefix)) == 0)
        return class;
    log_error("token class %s: conversion is registered with the class, to a class that is there before, not to %s",
              token_class, other_class);
    return NULL;
}

int scry_register_container(const char *token_class, const char *container_class, const char *(*container)(void *data))
{
    struct object_class *class = object_relate(token_class, container_class);
    if (!class)
        return -1;
    class->container_class = container_class;
    class->container = container;
    return 0;
}

int scry_register_members(const char *token_class, const char *member_class,
                          const char *(*member)(void *data, size_t index))
{
    struct object_class *class = object_relate(token_class, member_class);
    if (!class)
        return -1;
    class->member_class = member_class;
    class->member = member;
    return 0;
}

/* ---- arguments ---- */

int64_t scry_arg_integer(struct scry_call *call, size_t index)
{
    return call_integer(call, index);
}

double scry_arg_floating(struct scry_call *call, size_t index)
{
    const struct value *value = &call->args[index];
    if (value->kind == VALUE_FLOATING)
        return value->floating.number;
    return value->integer.negative ? (double)(int64_t)value->integer.bits : (double)value->integer.bits;
}

const char *scry_arg_string(struct scry_call *call, size_t index, size_t *ret_len)
{
    struct span text = call->args[index].text;
    if (ret_len)
        *ret_len = text.len;
    return arena_dup(call->arena, text.ptr, text.len);
}

size_t scry_arg_count(struct scry_call *call, size_t index)
{
    const struct value *value = &call->args[index];
    return value->kind == VALUE_LIST ? value->list.count : 1;
}

static const struct value *element_of(const struct scry_call *call, size_t index, size_t element)
{
    const struct value *value = &call->args[index];
    return value->kind == VALUE_LIST ? &value->list.items[element] : value;
}

int64_t scry_arg_list_integer(struct scry_call *call, size_t index, size_t element)
{
    return (int64_t)element_of(call, index, element)->integer.bits;
}

static const char *text_of(struct scry_call *call, const struct value *value, size_t *ret_len)
{
    struct buf text = BUF_INIT;
    value_print(&text, value);
    const char *copy = text.failed ? NULL : arena_dup(call->arena, text.data, text.len);
    if (ret_len)
        *ret_len = text.len;
    buf_done(&text);
    return copy;
}

const char *scry_arg_text(struct scry_call *call, size_t index, size_t *ret_len)
{
    return text_of(call, &call->args[index], ret_len);
}

const char *scry_arg_list_text(struct scry_call *call, size_t index, size_t element, size_t *ret_len)
{
    return text_of(call, element_of(call, index, element), ret_len);
}

/* ---- objects ---- */

size_t scry_object_count(struct scry_call *call)
{
    return call->object_count;
}

struct scry_object *scry_object_at(struct scry_call *call, size_t index)
{
    return call->objects[index];
}

const char *scry_object_token(struct scry_object *object)
{
    return object->token;
}

void *scry_object_data(struct scry_object *object)
{
    return object->data;
}

struct scry_object *scry_object_new(struct scry_call *call, const char *token_class, void *data)
{
    struct monitor *monitor = monitor_current();
    struct tool *owner = call ? call->tool : ext_tool(monitor);
    struct object_class *class = object_class_find(monitor, span_str(token_class));
    struct scry_object *object = owner && class && !class->builtin ? calloc(1, sizeof *object) : NULL;
    if (!object)
        return NULL;
    object->data = data;
    object_init(object, monitor, class, owner);
    return object;
}

/* Mistakes of extensions, which would otherwise show as something that just does not happen. */
__attribute__((format(printf, 1, 2))) static int mistake(const char *format, ...)
{
    struct monitor *monitor = monitor_current();
    char text[ERR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (monitor->mistakes++ < MISTAKES_LOGGED)
        log_error("%s", text);
    return -1;
}

void scry_object_destroy(struct scry_object *object)
{
    if (object->class->builtin)
        mistake("an extension destroys %s, which is none of its objects", object->token);
    else
        object_end(object);
}

struct scry_object *scry_object_find(const char *token)
{
    struct monitor *monitor = monitor_current();
    struct scry_object *object = object_find(monitor, span_str(token));
    const struct tool *tool = ext_tool(monitor);
    struct err ignored;
    return object && (!tool || confine_object(tool, object, &ignored) == OMIS_OK) ? object : NULL;
}

const char *scry_object_class(struct scry_object *object)
{
    return object->class->name;
}

struct scry_object *scry_object_localise(struct scry_object *object, const char *token_class)
{
    return convert_localise(object, token_class);
}

size_t scry_convert(struct scry_call *call, const char *tokens, const char *token_class,
                    struct scry_object ***ret_objects)
{
    const struct value *values;
    size_t count, found = 0;
    struct span text = arena_span(call->arena, span_str(tokens));
    bool ok = text.ptr && values_parse(call->arena, text, &values, &count, NULL) == 0 && count == 1;
    const struct value *first = ok && values->kind == VALUE_LIST ? values->list.items : values;
    size_t tokens_count = ok && values->kind == VALUE_LIST ? values->list.count : 1;
    for (size_t i = 0; ok && i < tokens_count; i++)
        ok = first[i].kind == VALUE_TOKEN;
    if (!ok)
        call_fail(call, NULL, OMIS_TYPE_MISMATCH, "%s is no token and no list of tokens", tokens);
    else if (!convert_value(call, values, token_class, ret_objects, &found))
        found = 0;
    return found;
}

/* ---- answers ---- */

void scry_ok(struct scry_call *call, struct scry_object *object)
{
    call_ok(call, object);
}

void scry_result(struct scry_call *call, struct scry_object *object, const char *format, ...)
{
    struct buf text = BUF_INIT;
    va_list args;
    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    call_text(call, object, &text);
    buf_done(&text);
}

void scry_result_integer(struct scry_call *call, struct scry_object *object, int64_t value)
{
    struct buf text = BUF_INIT;
    value_print_int(&text, value);
    call_text(call, object, &text);
    buf_done(&text);
}

void scry_result_floating(struct scry_call *call, struct scry_object *object, double value)
{
    struct buf text = BUF_INIT;
    value_print_floating(&text, value);
    call_text(call, object, &text);
    buf_done(&text);
}

void scry_result_string(struct scry_call *call, struct scry_object *object, const char *string, size_t len)
{
    struct buf text = BUF_INIT;
    if (string)
        value_print_string(&text, span_of(string, len));
    text.failed |= !string; /* an extension's scry_arg_string that had no memory */
    call_text(call, object, &text);
    buf_done(&text);
}

void scry_fail(struct scry_call *call, struct scry_object *object, Omis_status status, const char *format, ...)
{
    char text[ERR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    call_fail(call, object, status, "%s", text);
}

/* ---- time ---- */

double scry_call_time(struct scry_call *call)
{
    return (double)(call->event ? call->event->time_ns : clock_now_ns()) / 1e9;
}

uint64_t scry_now_ns(void)
{
    return clock_now_ns();
}

/* ---- events ---- */

int scry_event_raise(const char *name, struct scry_object *object, const char *const *params, size_t count)
{
    struct monitor *monitor = monitor_current();
    struct service *service = registry_find(monitor->registry, span_str(name));
    if (!service || service->row->kind != SCRY_EVENT)
        return mistake("an extension raises %s: nobody has defined such an event service", name);
    if (service->row->event)
        return mistake("an extension raises %s, which is the monitor's own", name);
    if (count != service->signature.output_count)
        return mistake("an extension raises %s with %zu parameters: it has %zu", name, count,
                       service->signature.output_count);
    if (object && (!service->object_class || !object_is(object, service->object_class)))
        return mistake("an extension raises %s on %s, which is no object of this event", name, object->token);
    if (!service->enabled)
        return 0;
    struct arena arena = ARENA_INIT;
    struct value outputs[SIGNATURE_OUTPUTS];
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        const struct value *values;
        size_t found;
        if (!params[i] || values_parse(&arena, span_str(params[i]), &values, &found, NULL) < 0 || found != 1)
            result = -1;
        else
            outputs[i] = values[0];
    }
    struct event event = {.service = service,
                          .object = object,
                          .time_ns = clock_now_ns(),
                          .outputs = outputs,
                          .output_count = count,
                          .first_par = 1};
    if (object && object_is(object, "t"))
        event.thread = (struct thread *)object;
    if (event.thread || (object && object_is(object, "p")))
        event.process = event.thread ? event.thread->process : (struct process *)object;
    if (result == 0)
        result = event_queue(monitor, &event) < 0 ? -1 : 0;
    if (result == 0 && !monitor->busy) {
        monitor_enter(monitor);
        monitor_leave(monitor);
    }
    arena_done(&arena);
    return result;
}

/* ---- requests ---- */

Omis_reply omis_request(char *request, void (*callback)(Omis_reply reply, void *param), void *param, Omis_flags flags)
{
    struct span text = request ? span_of(request, request_length(request)) : span_of("", 0);
    return ext_request(monitor_current(), text, callback, param, flags);
}

void omis_reply_free(Omis_reply reply)
{
    local_reply_free(reply);
}

/* The other four are for tools with a connection. An extension that links libomis gets these nevertheless: those of the
 * library would wait for an answer of the monitor, that is, for themselves. */
Omis_status omis_init(int *argc, char ***argv, void (*error_handler)(Omis_reply reply), int *tool_id)
{
    (void)argc;
    (void)argv;
    (void)error_handler;
    (void)tool_id;
    mistake("an extension calls omis_init: it is in the monitor and needs no connection, omis_request works without");
    return OMIS_UNSUPPORTED_SERVICE;
}

Omis_status omis_finalize(void)
{
    return OMIS_UNSUPPORTED_SERVICE;
}

int omis_fd(void)
{
    return -1;
}

void omis_handler(void)
{
}

struct scry_later *scry_later(struct scry_call *call, void (*cancel)(void *ctx), void *ctx)
{
    return (struct scry_later *)call_later(call, cancel, ctx);
}

struct scry_call *scry_later_begin(struct scry_later *later)
{
    return call_later_begin((struct later *)later);
}

void scry_later_end(struct scry_later *later, int answered)
{
    call_later_end((struct later *)later, answered);
}

/* ---- state per tool ---- */

void *scry_tool_data(const void *key)
{
    const struct tool *tool = ext_tool(monitor_current());
    return tool ? tool_data(tool, key) : NULL;
}

int scry_tool_set_data(const void *key, void *data, void (*destroy)(void *data))
{
    struct tool *tool = ext_tool(monitor_current());
    return tool && tool_set_data(tool, key, data, destroy) == 0 ? 0 : -1;
}

/* ---- timers and descriptors ---- */

struct scry_watch *scry_watch_timer(struct scry_object *object, double period_seconds,
                                    void (*fn)(struct scry_object *object))
{
    if (!(period_seconds >= SCRY_WATCH_LEAST && period_seconds <= SCRY_WATCH_MOST)) {
        mistake("an extension wants a timer of %g s", period_seconds);
        return NULL;
    }
    return ext_watch_timer(object, (uint64_t)(period_seconds * NS_PER_SECOND), fn);
}

struct scry_watch *scry_watch_fd(struct scry_object *object, int fd, unsigned events,
                                 void (*fn)(struct scry_object *object, int fd, unsigned events))
{
    return ext_watch_fd(object, fd, events, fn); /* EPOLLIN ... are POLLIN ... */
}

void scry_watch_end(struct scry_watch *watch)
{
    if (watch)
        ext_watch_end(watch);
}

/* ---- cells ---- */

int scry_cell_new(void)
{
    return cell_new(monitor_current()->cells);
}

void scry_cell_free(int cell)
{
    cell_free(monitor_current()->cells, cell);
}

int64_t scry_cell_get(int cell)
{
    code_cell *at = cell_at(monitor_current()->cells, cell);
    return at ? atomic_load(at) : 0;
}

void scry_cell_set(int cell, int64_t value)
{
    code_cell *at = cell_at(monitor_current()->cells, cell);
    if (at)
        atomic_store(at, value);
}

int64_t scry_cell_add(int cell, int64_t value)
{
    code_cell *at = cell_at(monitor_current()->cells, cell);
    return at ? (int64_t)((uint64_t)atomic_fetch_add(at, value) + (uint64_t)value) : 0;
}

/* ---- lowering ---- */

static int lower_operand(const struct value *value, struct csr *csr, uint8_t *ret_kind, int64_t *ret_value)
{
    if (value->kind == VALUE_INTEGER) {
        *ret_kind = value->integer.negative ? CODE_IMMEDIATE : CODE_IMMEDIATE_UNSIGNED;
        *ret_value = (int64_t)value->integer.bits;
        return 0;
    }
    /* $time is a floating, not an integer; a breakpoint has no parameters of its own */
    const struct event_ops *ops = event_ops_of(csr->event_service);
    int number = -1;
    if (value->kind == VALUE_PARAM && ops->lower_param)
        number = ops->lower_param(csr, value->text);
    else if (value->kind == VALUE_PARAM)
        number = event_par_number(value->text);
    if (number < 0 || !ops->param_count || (unsigned)number >= ops->param_count(csr))
        return -1;
    *ret_kind = CODE_PARAM;
    *ret_value = number;
    return 0;
}

int scry_lower_add(struct scry_code *code, int cell, struct scry_call *call, size_t arg_index)
{
    uint8_t kind;
    int64_t value;
    if (lower_operand(&call->args[arg_index], code->csr, &kind, &value) < 0)
        return -1;
    struct code_insn *insn = lower_insn(code, CODE_ADD);
    if (!insn)
        return -1;
    insn->cell = (uint32_t)cell;
    insn->a_kind = kind;
    insn->a = value;
    return 0;
}

int scry_lower_timer_start(struct scry_code *code, int started_cell)
{
    struct code_insn *insn = lower_insn(code, CODE_TIMER_START);
    if (!insn)
        return -1;
    insn->cell = (uint32_t)started_cell;
    return 0;
}

int scry_lower_timer_stop(struct scry_code *code, int started_cell, int total_cell)
{
    struct code_insn *insn = lower_insn(code, CODE_TIMER_STOP);
    if (!insn)
        return -1;
    insn->cell = (uint32_t)started_cell;
    insn->other = (uint32_t)total_cell;
    return 0;
}

int scry_lower_set(struct scry_code *code, int cell, int64_t value)
{
    struct code_insn *insn = lower_insn(code, CODE_SET);
    if (!insn)
        return -1;
    insn->cell = (uint32_t)cell;
    insn->a = value;
    return 0;
}

int scry_lower_unless(struct scry_code *code, struct scry_call *call, size_t left_arg, const char *comparison,
                      size_t right_arg)
{
    static const char *const names[CODE_COMPARISON_COUNT] = {"==", "!=", "<", "<=", ">", ">="};
    uint8_t a_kind, b_kind;
    int64_t a, b;
    int found = -1;
    for (int i = 0; i < CODE_COMPARISON_COUNT; i++)
        if (strcmp(comparison, names[i]) == 0)
            found = i;
    if (found < 0 || lower_operand(&call->args[left_arg], code->csr, &a_kind, &a) < 0 ||
        lower_operand(&call->args[right_arg], code->csr, &b_kind, &b) < 0)
        return -1;
    struct code_insn *insn = lower_insn(code, CODE_UNLESS);
    if (!insn)
        return -1;
    insn->operation = (uint8_t)found;
    insn->a_kind = a_kind;
    insn->b_kind = b_kind;
    insn->a = a;
    insn->b = b;
    return 0;
}
