/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_ENGINE_EXECUTE_H
#define SCRY_MONITOR_ENGINE_EXECUTE_H

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "lang/reply.h"
#include "lang/request.h"
#include "lang/value.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"
#include "monitor/engine/tool.h"

#include <stdarg.h>
#include <omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The life of a request: parse, check, execute or define, reply. See the architecture, "The life of a request".
 */

struct execution;
struct request;
struct scry_call;
struct session;
struct tool;
struct clock_offset;
struct csr;
struct event;
struct message;
struct message_queue;
struct process;
struct service;

/* ---- changes of jobs (change.c) ---- */

/*
 * Requests that change a job, for the record of it: whose, what, with what result. Refusals of confined tools, too. One
 * rule for all tools: a request is told when an action of it that changes something has been carried out on a process of
 * the job, or names the job; a conditional one the first time that this happens. A confined tool is known to speak with
 * its job, and so is told of whatever needs more than the right to observe, a conditional request when it is defined.
 *
 * Not told: what a job's own scry run does, for its rules have records of their own; services for tools on the node only
 * (SCRY_LOCAL), which change nothing of processes. A request that only looks costs nothing.
 */

/* The jobs that a request has changed, so far: their directories, in the arena of its execution. */
enum { CHANGED_JOBS = 4 };
struct changed_jobs {
    struct span dirs[CHANGED_JOBS];
    size_t count;
};

/* What is told (monitor->on_change). */
struct change {
    struct span job;         /* its directory */
    const struct tool *tool; /* whose it is */
    pid_t pid;               /* of that tool; 0: it is on another node */
    struct span text;        /* of the request */
    Omis_status status;
    struct span why; /* of an error; empty */
};

/* An action is about to run, its objects known. Notes the jobs of an unconfined tool that it changes. */
void change_note(struct execution *execution, const struct scry_call *call);

/* The request with the names of its services only, in the arena: the record of a job goes through brokers as it is,
 * and so has no values that were read or written. */
struct span change_shown(const struct request *request, struct arena *arena);

/* Of a confined tool: it has changed its job, or was refused. Refusals at most once a second, of all tools. */
void change_report_confined(struct session *session, struct span text, Omis_status status, struct span why);
/* Of any other one: what it has changed. */
void change_report(const struct session *session, const struct changed_jobs *jobs, struct span text,
                   Omis_status status);
/* The same for an execution of a conditional request. false: it has changed none. */
bool change_report_csr(const struct csr *csr, struct execution *execution);

/* In flags: how many events raised each other before this request, which is part of a list (EVENT_CHAIN_LIMIT). */
#define EXECUTE_CHAIN UINT32_C(0xff000000)
static inline uint32_t execute_chain(unsigned chain)
{
    return (uint32_t)(chain < 255 ? chain : 255) << 24;
}

struct queue_messages {
    struct message_queue *queue;
    struct message **items;
    size_t count;
    struct queue_messages *next;
};

struct execution {
    uint64_t id;
    struct monitor *monitor;
    struct session *session;
    struct tool *tool;
    struct arena arena;
    const struct event *event;
    struct csr *csr;
    const struct event_list *list; /* without an event: of which one it is the list (event.h) */
    unsigned chain;                /* without an event: of those that it raises */
    const struct execution *outer; /* that ran when this one began */
    struct process **attached;     /* what [] meant when it was first needed */
    size_t attached_count;
    bool attached_known;
    struct queue_messages *messages; /* also for the whole execution: what is in the queues that were read */
    struct reply_builder reply;
    struct changed_jobs changed;
    struct later *later; /* of an unconditional request: it may wait; NULL: not */
};

/* A request that was parsed and checked, before anything of it is executed. Whoever takes it takes the arena (and leaves
 * ARENA_INIT). */
struct checked_request {
    uint32_t id, flags;
    struct span text;        /* in the arena */
    struct arena *arena;     /* the tree, its text and the services */
    struct request *request; /* not in the arena itself: copy it */
    struct service *event;   /* NULL: unconditional */
    struct service **services;
};

/* Of a request that was defined at the monitor of its tool (monitor/tree/conditional.c). */
struct csr_home {
    struct span token;                /* as the tool knows it */
    bool far;                         /* its list is executed there */
    const struct clock_offset *clock; /* of that host; NULL: it is this one */
};

/* Handles one request of a session; every reply goes through the session. `flags` are omis_request's. */
void execute_request(struct session *session, uint32_t id, uint32_t flags, struct span text);

/* The same for a part of a conditional request. */
void execute_define(struct session *session, uint32_t id, uint32_t flags, struct span text,
                    const struct csr_home *home);

/* It was blocked by a lock: its request that waits goes on, or its next ones. Between monitor_enter and monitor_leave. */
void execute_unblocked(struct session *session);

/* The session ends: what it waits for is not wanted any more. */
void execute_cancel(struct session *session);

/* Runs a conditional request's actions for an event and sends the reply. */
void execute_triggered(struct csr *csr, const struct event *event);

/* Sends what was built; if memory ran out while building it, a reply that says so. */
void reply_send(struct session *session, uint32_t id, bool last, bool droppable, const struct reply_builder *reply);

/* Answers with only element 0. */
void reply_status(struct session *session, uint32_t id, bool last, Omis_status status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/*
 * One action on its way: what a handler gets. Built-in handlers use this; extensions see it only through scry/ext.h.
 * Arguments are already checked and have the signature's shape; objects are already converted; those that could not be
 * are already answered with an error. A handler answers once for each object (call_ok, call_text, call_fail), or once
 * with object NULL.
 */

struct event;
struct later;

struct scry_call {
    struct monitor *monitor;
    struct session *session;
    struct tool *tool;
    struct service *service;
    const struct value *args;
    size_t argc;
    struct scry_object **objects;
    size_t object_count;
    const struct event *event; /* NULL in an unconditional request */
    struct csr *csr;           /* likewise */
    struct execution *execution;
    struct arena *arena; /* until the end of the execution */
    struct reply_builder *reply;
    size_t answers;
};

void call_ok(struct scry_call *call, struct scry_object *object);
void call_text(struct scry_call *call, struct scry_object *object, const struct buf *text);
void call_fail(struct scry_call *call, struct scry_object *object, Omis_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The status that fits a -errno (OMIS_NO_PERMISSION, OMIS_UNKNOWN_OBJECT for -ESRCH, OMIS_OS_ERROR, ...). */
Omis_status status_of_errno(int code);
/* Fails with err's text if it has one, else with the errno's. */
void call_fail_errno(struct scry_call *call, struct scry_object *object, int code, const struct err *err);

/* call_ok for 0, call_fail_errno for a -errno. */
void call_done(struct scry_call *call, struct scry_object *object, int code, const struct err *err);

/* Answers for each object, with what `answer` writes (nothing: OK) or with its -errno. */
typedef int call_answer_fn(struct scry_call *call, size_t index, struct buf *text, struct err *err);
void call_each(struct scry_call *call, call_answer_fn *answer);

static inline int64_t call_integer(const struct scry_call *call, size_t index)
{
    return (int64_t)call->args[index].integer.bits;
}

static inline uint64_t call_unsigned(const struct scry_call *call, size_t index)
{
    return call->args[index].integer.bits;
}

/* Fails the call with OMIS_PARAMETER_ERROR and returns false unless low <= argument <= high. */
bool call_check_range(struct scry_call *call, size_t index, int64_t low, int64_t high);

/* The answer takes a while: the handler returns without it, and all other tools are served in that time; the rest of
 * this list and the session's next requests wait. `cancel` is called if the tool goes away before. Objects may end
 * meanwhile: keep their tokens. NULL: lists that run for an event (its thread waits) or in braces are not interrupted:
 * answer now. */
struct later *call_later(struct scry_call *call, void (*cancel)(void *ctx), void *ctx);
/* Brackets work on it, from the loop: the call that is answered, and the end: nothing is left to answer, the list goes
 * on (then it is gone), or not yet. */
struct scry_call *call_later_begin(struct later *later);
void call_later_end(struct later *later, bool answered);

/* The actions behind this one in an unconditional list; NULL: it is none. */
const struct call_text *call_behind(const struct scry_call *call, size_t *ret_count);

/* A string argument as a C string in the call's arena; NULL (and the call failed) if it holds a NUL. */
const char *call_string(struct scry_call *call, size_t index);

static inline struct process *call_process(const struct scry_call *call, size_t index)
{
    return (struct process *)call->objects[index];
}

static inline struct thread *call_thread(const struct scry_call *call, size_t index)
{
    return (struct thread *)call->objects[index];
}

/* ---- conversion (convert.c) ---- */

/*
 * Conversion of tokens (specification 7.2.2): localisation to a containing object, expansion to the contained ones, the
 * empty list as "all that this tool attached". All conversions of one execution agree: each step is looked up once and
 * remembered by the execution.
 */

/* Fills call->objects from the argument the service works on. Tokens that cannot be converted are answered in the
 * call's reply. Returns false when out of memory (the call was answered). */
bool convert_objects(struct scry_call *call);

/* The same for any token or list of tokens and class. */
bool convert_value(struct scry_call *call, const struct value *value, const char *class_name,
                   struct scry_object ***ret_objects, size_t *ret_count);

/* Localisation: the object of a class that contains this one, or it itself; NULL: none. */
struct scry_object *convert_localise(struct scry_object *object, const char *class_name);

/* Whether a token of class `from` can become an object of class `to`: one that contains it or, in a list, such as it
 * contains. */
bool convert_class_can(const char *from, const char *to, bool in_list);

/* Whether a token names an object, now, after conversion: itself, what it is in, or what is in it. */
bool convert_names(struct span token, const struct scry_object *object);

/* An argument that is one token beside those the service works on, converted to the class its signature says. NULL: the
 * call was answered. */
struct scry_object *convert_arg(struct scry_call *call, size_t index);

/* One token to one object of a class, by localisation only. NULL with a status and err. `attached`: processes must be
 * attached by the tool. */
struct scry_object *convert_one(struct scry_call *call, struct span token, const char *class_name, bool attached,
                                Omis_status *ret_status, struct err *err);

#endif
