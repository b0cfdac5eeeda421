/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/extension/session.h"

#include "base/system/log.h"
#include "lang/reply.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/tool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <uthash.h>

struct execution;

enum {
    EXT_REQUESTS_LIMIT = 10000, /* with callbacks, of a tool, that were not executed yet */
};

/* Brackets code of an extension that is called from the loop, for a tool. */
struct execution;

static void ext_leave(struct execution *execution);
static void ext_enter(struct execution *execution, struct tool *tool);

struct scry_watch {
    struct scry_object *object;
    struct loop_source *source;
    void (*on_time)(struct scry_object *object);
    void (*on_ready)(struct scry_object *object, int fd, unsigned events);
    struct scry_watch *next; /* of the object */
};

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

struct scry_watch *ext_watch_timer(struct scry_object *object, uint64_t period_ns,
                                   void (*fn)(struct scry_object *object))
{
    struct scry_watch *watch = watch_new(object);
    if (!watch)
        return NULL;
    watch->on_time = fn;
    watch->source = loop_add_timer(object->monitor->loop, period_ns, period_ns, time_came, watch);
    return watch_begun(watch);
}

struct scry_watch *ext_watch_fd(struct scry_object *object, int fd, uint32_t events,
                                void (*fn)(struct scry_object *object, int fd, unsigned events))
{
    struct scry_watch *watch = watch_new(object);
    if (!watch)
        return NULL;
    watch->on_ready = fn;
    watch->source = loop_add_fd(object->monitor->loop, fd, events, became_ready, watch);
    return watch_begun(watch);
}

void ext_watch_end(struct scry_watch *watch)
{
    struct scry_watch **at = &watch->object->watches;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    loop_remove(watch->source);
    free(watch);
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

struct tool *ext_tool(struct monitor *monitor)
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
static void settle(struct ext_session *session, struct ext_request *request)
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
    settle(session, request);
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
static void deliver(struct ext_session *session)
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
    settle(session, request);
}

/* ---- requests ---- */

static void execute(struct ext_session *session, struct ext_request *request)
{
    struct span text = request->text;
    request->text = span_of(NULL, 0);
    request->executing = true;
    execute_request(&session->session, request->id, request->flags, text);
    request->executing = false;
    free((char *)text.ptr);
    settle(session, request);
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
        deliver(session);
    }
    for (int i = 0; i < TURN_REQUESTS && session->first && !session->session.waiting &&
                    !monitor_blocks(session->session.tool->monitor, &session->session);
         i++) {
        struct ext_request *request = session->first;
        session->first = request->next;
        if (!session->first)
            session->last = NULL;
        session->waiting--;
        execute(session, request);
    }
    if (session->replies || (session->first && !session->session.waiting && !session->session.blocked))
        queue_turn(session);
}

/* ---- the end ---- */

/* What was requested for the tool ends, and every callback that is still owed a reply gets the last one. */
static void end(struct tool *tool)
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
        deliver(session);
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
    tool->on_end = end;
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
    settle(session, request);
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

Omis_reply ext_request(struct monitor *monitor, struct span text, void (*callback)(Omis_reply reply, void *param),
                       void *param, Omis_flags flags)
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
