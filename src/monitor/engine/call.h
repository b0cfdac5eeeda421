/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One action on its way: what a handler gets. Built-in handlers use this; extensions see it only through scry/ext.h.
 * Arguments are already checked and have the signature's shape; objects are already converted; those that could not be
 * are already answered with an error. A handler answers once for each object (call_ok, call_text, call_fail), or once
 * with object NULL.
 */
#ifndef SCRY_MONITOR_ENGINE_CALL_H
#define SCRY_MONITOR_ENGINE_CALL_H

#include <stdarg.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "lang/reply.h"
#include "lang/value.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/engine/registry.h"
#include "monitor/engine/tool.h"

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

#endif
