/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/execute.h"

#include "base/system/clock.h"
#include "base/system/log.h"
#include "lang/token.h"
#include "monitor/engine/tool.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"

#include <errno.h>
#include <scry/omis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLY_RESULTS_LIMIT = REPLY_SIZE_LIMIT - (8 << 20) }; /* beyond it results are refused: room for errors */

static struct span token_of(const struct scry_object *object)
{
    return object ? span_str(object->token) : span_of("", 0);
}

void call_ok(struct scry_call *call, struct scry_object *object)
{
    call->answers++;
    reply_result(call->reply, token_of(object), OMIS_OK, NULL);
}

void call_text(struct scry_call *call, struct scry_object *object, const struct buf *text)
{
    call->answers++;
    if (text->failed) {
        struct span why = span_str("out of memory");
        reply_result(call->reply, token_of(object), OMIS_NO_MEMORY, &why);
        return;
    }
    if (call->reply->bytes.len + text->len > REPLY_RESULTS_LIMIT) {
        struct span why = span_str("the reply of the request is too large: ask for less at once");
        reply_result(call->reply, token_of(object), OMIS_NO_MEMORY, &why);
        return;
    }
    struct span span = span_of(text->data ? text->data : "", text->len);
    reply_result(call->reply, token_of(object), OMIS_OK, &span);
}

void call_fail(struct scry_call *call, struct scry_object *object, Omis_status status, const char *format, ...)
{
    char text[ERR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct span why = span_str(text);
    call->answers++;
#ifdef SCRY_PAUSES
    if (!registry_may_answer(call->service, status) && !call->tool->confined.job) /* the tests look for this */
        log_error("%s answers %s, of which its row and the reference do not tell: %s", call->service->row->name,
                  omis_status_name(status), text);
#endif
    reply_result(call->reply, token_of(object), status, &why);
}

Omis_status status_of_errno(int code)
{
    switch (-code) {
    case EPERM:
    case EACCES:
        return OMIS_NO_PERMISSION;
    case ENOMEM:
        return OMIS_NO_MEMORY;
    case ESRCH:
        return OMIS_UNKNOWN_OBJECT;
    case EINVAL:
    case ERANGE:
        return OMIS_PARAMETER_ERROR;
    case EOPNOTSUPP:
        return OMIS_UNSUPPORTED_SERVICE;
    default:
        return OMIS_OS_ERROR;
    }
}

void call_fail_errno(struct scry_call *call, struct scry_object *object, int code, const struct err *err)
{
    if (err && err->text[0]) {
        call_fail(call, object, status_of_errno(code), "%s", err->text);
        return;
    }
    const char *reason = strerrordesc_np(-code);
    call_fail(call, object, status_of_errno(code), "%s", reason ? reason : "unknown error");
}

void call_done(struct scry_call *call, struct scry_object *object, int code, const struct err *err)
{
    if (code < 0)
        call_fail_errno(call, object, code, err);
    else
        call_ok(call, object);
}

void call_each(struct scry_call *call, call_answer_fn *answer)
{
    struct buf text = BUF_INIT;
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        buf_clear(&text);
        int code = answer(call, i, &text, &err);
        if (code < 0)
            call_fail_errno(call, call->objects[i], code, &err);
        else if (text.len || text.failed)
            call_text(call, call->objects[i], &text);
        else
            call_ok(call, call->objects[i]);
    }
    buf_done(&text);
}

bool call_check_range(struct scry_call *call, size_t index, int64_t low, int64_t high)
{
    const struct value *value = &call->args[index];
    bool huge = !value->integer.negative && value->integer.bits > INT64_MAX;
    int64_t number = (int64_t)value->integer.bits;
    if (!huge && number >= low && number <= high)
        return true;
    const struct param_type *param = &call->service->signature.params[index];
    struct buf text = BUF_INIT;
    value_print(&text, value);
    call_fail(call, NULL, OMIS_PARAMETER_ERROR, "%.*s is %s: must be from %lld to %lld", SPAN_ARG(param->name),
              text.data ? text.data : "?", (long long)low, (long long)high);
    buf_done(&text);
    return false;
}

const char *call_string(struct scry_call *call, size_t index)
{
    struct span text = call->args[index].text;
    if (text.len && memchr(text.ptr, 0, text.len)) {
        const struct param_type *param = &call->service->signature.params[index];
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "%.*s: a NUL byte cannot be part of it", SPAN_ARG(param->name));
        return NULL;
    }
    const char *string = arena_dup(call->arena, text.ptr, text.len);
    if (!string)
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
    return string;
}

static void reply_defined(struct csr *csr, Omis_status status, const char *why)
{
    struct reply_builder reply = {0};
    struct span token = span_str(csr->object.token), text = span_str(why ? why : "");
    bool ok = status == OMIS_OK;
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), OMIS_CSR_DEFINED, ok ? &token : NULL);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), status, ok ? NULL : &text);
    reply_send(csr->session, csr->request_id, !ok, false, &reply);
    reply_done(&reply);
}

/* What another node has is known to its monitor only. */
static bool was_issued(struct monitor *monitor, struct span text)
{
    struct token token;
    return object_was_issued(monitor, text) ||
           (monitor->knows_node && token_parse(text, &token) && token.node != monitor->node_number &&
            monitor->knows_node(monitor, token.node));
}

/* Tokens in an event definition may be of objects that are not attached, or gone, but must have been issued. */
static Omis_status check_event_tokens(struct csr *csr, struct err *err)
{
    const struct service *service = csr->event_service;
    if (service->object_arg < 0)
        return OMIS_OK;
    const struct value *arg = &csr->event_args[service->object_arg];
    const struct value *tokens = arg->kind == VALUE_LIST ? arg->list.items : arg;
    size_t count = arg->kind == VALUE_LIST ? arg->list.count : 1;
    for (size_t i = 0; i < count; i++) {
        struct token token;
        if (!was_issued(csr->object.monitor, tokens[i].text)) {
            err_set(err, -ESRCH, "at byte %u: there is no object %.*s", tokens[i].offset, SPAN_ARG(tokens[i].text));
            return OMIS_UNKNOWN_OBJECT;
        }
        struct scry_object *object = object_find(csr->object.monitor, tokens[i].text);
        Omis_status confined = object ? confine_object(csr->object.owner, object, err) : OMIS_OK;
        if (confined != OMIS_OK)
            return confined;
        if (token_parse(tokens[i].text, &token) &&
            !convert_class_can(token.class, service->object_class, arg->kind == VALUE_LIST)) {
            err_set(err, -EINVAL, "at byte %u: %.*s cannot be converted to an object of class %s_", tokens[i].offset,
                    SPAN_ARG(tokens[i].text), service->object_class);
            return OMIS_TYPE_MISMATCH;
        }
    }
    return OMIS_OK;
}

static Omis_status define_event(struct csr *csr, struct err *err)
{
    const char *missing = registry_missing(csr->event_service);
    if (missing) {
        err_set(err, -EOPNOTSUPP, "unsupported: %s: %s", csr->event_service->row->name, missing);
        return OMIS_UNSUPPORTED_SERVICE;
    }
    Omis_status status = check_event_tokens(csr, err);
    const struct event_ops *ops = event_ops_of(csr->event_service);
    if (status == OMIS_OK && ops && ops->define)
        status = ops->define(csr, err);
    return status;
}

static bool make_part(struct csr *csr, const struct csr_home *home)
{
    csr->home_token = arena_dup(&csr->arena, home->token.ptr, home->token.len);
    csr->far = home->far;
    csr->clock = home->clock;
    if (home->far)
        csr->elsewhere = csr->object.monitor->parts->tell;
    return csr->home_token != NULL;
}

/* Of a conditional one. Replies. `home`: NULL: it is the whole request. */
static Omis_status define_csr(struct session *session, const struct checked_request *request,
                              const struct csr_home *home)
{
    struct err err = {0};
    uint32_t id = request->id;
    Omis_status status = confine_room(session->tool, request->text.len, &err);
    if (status != OMIS_OK) {
        reply_status(session, id, true, status, "%s", err.text);
        return status;
    }
    struct csr *csr = csr_new(session, request->arena);
    if (!csr || (home && !make_part(csr, home))) {
        reply_status(session, id, true, OMIS_NO_MEMORY, "out of memory");
        if (csr)
            object_end(&csr->object);
        return OMIS_NO_MEMORY;
    }
    csr->request_id = id;
    csr->flags = request->flags;
    csr->request = *request->request;
    csr->text = request->text;
    csr->event_service = request->event;
    csr->event_args = csr->request.event->args;
    csr->actions = request->services;
    status = define_event(csr, &err);
    if (status == OMIS_OK)
        request_log_csr(csr, "defined");
    reply_defined(csr, status, err.text);
    if (status != OMIS_OK)
        object_end(&csr->object);
    else
        csr_changed(csr, CSR_DEFINED);
    return status;
}

/* ---- checks made before anything is executed ---- */

struct check {
    struct monitor *monitor;
    const struct tool *tool;
    unsigned rights; /* that the services need */
    bool manipulates;
    struct arena *arena;
    const struct service *event; /* NULL: unconditional */
    Omis_status status;
    struct err err;
    const char *missing; /* this node does not have one of the services: status and err say which. Others may have it */
};

/* It may change a job (change.h). */
static bool check_changes(const struct check *check)
{
    return (check->rights & ~RIGHT_OBSERVE) != 0 && (check->manipulates || check->tool->confined.job);
}

static bool check_fail(struct check *check, Omis_status status)
{
    check->status = status;
    return false;
}

/* Context parameters may be used in actions of conditional requests only, and must be known to the event. */
static bool check_params(struct check *check, const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct value *value = &values[i];
        if (value->kind == VALUE_LIST && !check_params(check, value->list.items, value->list.count))
            return false;
        if (value->kind != VALUE_PARAM)
            continue;
        if (!check->event) {
            err_set(&check->err, -EINVAL,
                    "at byte %u: $%.*s: event context parameters exist only in the actions of a conditional request",
                    value->offset, SPAN_ARG(value->text));
            return check_fail(check, OMIS_UNKNOWN_ECP);
        }
        if (!event_param_known(check->event, value->text)) {
            err_set(&check->err, -EINVAL, "at byte %u: the event %s has no parameter $%.*s", value->offset,
                    check->event->row->name, SPAN_ARG(value->text));
            return check_fail(check, OMIS_UNKNOWN_ECP);
        }
    }
    return true;
}

/* Finds the service, checks its kind and brings the arguments into its signature's shape. */
static struct service *check_call(struct check *check, struct call_text *text, bool is_event)
{
    struct service *service = registry_find(check->monitor->registry, text->name);
    if (!service) {
        err_set(&check->err, -ENOENT, "at byte %u: there is no service %.*s", text->offset, SPAN_ARG(text->name));
        check_fail(check, OMIS_UNKNOWN_SERVICE);
        return NULL;
    }
    if ((service->row->kind == SCRY_EVENT) != is_event) {
        err_set(&check->err, -EINVAL, "at byte %u: %s is %s", text->offset, service->row->name,
                is_event ? "no event service: it cannot stand before ':'"
                         : "an event service: it can only stand before ':'");
        check_fail(check, OMIS_PARAMETER_ERROR);
        return NULL;
    }
    Omis_status confined = confine_service(check->tool, service, &check->err);
    if (confined != OMIS_OK) {
        check_fail(check, confined);
        return NULL;
    }
    check->rights |= service->right;
    check->manipulates |= service->row->kind == SCRY_MANIPULATION;
    if (!check_params(check, text->args, text->argc))
        return NULL;
    const char *missing = is_event ? NULL : registry_missing(service);
    if (missing && !check->missing) {
        check->missing = missing;
        err_set(&check->err, -EOPNOTSUPP, "unsupported: %s: %s", service->row->name, missing);
        check_fail(check, OMIS_UNSUPPORTED_SERVICE);
        if (!check->monitor->elsewhere)
            return NULL;
    }
    switch (signature_check(&service->signature, text->name, text->args, text->argc, check->arena, &text->args,
                            &check->err)) {
    case CHECK_TYPE_MISMATCH:
        check_fail(check, OMIS_TYPE_MISMATCH);
        return NULL;
    case CHECK_NO_MEMORY:
        err_set(&check->err, -ENOMEM, "out of memory");
        check_fail(check, OMIS_NO_MEMORY);
        return NULL;
    case CHECK_OK:
        break;
    }
    text->argc = service->signature.param_count;
    confined = confine_args(check->tool, service, check->arena, &text->args, text->argc, &check->err);
    if (confined != OMIS_OK) {
        check_fail(check, confined);
        return NULL;
    }
    return service;
}

/* The services of all actions, in the arena; NULL with the check's status. */
static struct service **check_actions(struct check *check, struct request *request)
{
    struct service **services = arena_alloc(check->arena, (request->action_count + 1) * sizeof(struct service *));
    if (!services) {
        err_set(&check->err, -ENOMEM, "out of memory");
        check_fail(check, OMIS_NO_MEMORY);
        return NULL;
    }
    for (size_t i = 0; i < request->action_count; i++) {
        services[i] = check_call(check, &request->actions[i], false);
        if (!services[i])
            return NULL;
    }
    return services;
}

/* ---- execution ---- */

struct trigger {
    const struct event *event;
    const struct csr *csr;
};

static bool param_value(const void *ctx, struct span name, struct value *ret_value)
{
    const struct trigger *trigger = ctx;
    return event_param(trigger->event, trigger->csr, name, ret_value);
}

/* Puts the parameters' values in and checks the arguments again now that all types are known. */
static bool resolve_args(struct scry_call *call, const struct call_text *text)
{
    call->args = text->args;
    call->argc = text->argc;
    if (!call->event)
        return true;
    bool changed = false;
    const struct value *args;
    const struct trigger trigger = {call->event, call->csr};
    struct span missing;
    if (!substitute(call->arena, param_value, &trigger, text->args, text->argc, &args, &changed, &missing)) {
        call_fail(call, NULL, OMIS_UNKNOWN_ECP, EVENT_PARAM_MISSING, SPAN_ARG(missing));
        return false;
    }
    if (!changed)
        return true;
    struct err err;
    enum check_result result =
        signature_check(&call->service->signature, text->name, args, text->argc, call->arena, &call->args, &err);
    if (result == CHECK_OK) {
        Omis_status confined = confine_args(call->tool, call->service, call->arena, &call->args, call->argc, &err);
        if (confined != OMIS_OK)
            call_fail(call, NULL, confined, "%s", err.text);
        return confined == OMIS_OK;
    }
    call_fail(call, NULL, result == CHECK_NO_MEMORY ? OMIS_NO_MEMORY : OMIS_TYPE_MISMATCH, "%s",
              result == CHECK_NO_MEMORY ? "out of memory" : err.text);
    return false;
}

/* An unconditional request from its first action to its reply. It may wait at one of them (call_later). */
struct later {
    struct execution execution;
    struct arena arena; /* of the request */
    struct request request;
    struct service **services;
    struct span text; /* of the request, for the record; in the arena */
    bool changes;
    uint32_t id, flags;
    uint64_t began_ns;
    size_t next;           /* the action after those that were begun */
    struct scry_call call; /* that runs, or that it waits for */
    bool runs, waits;
    bool answered; /* what it waited for; it goes on when the monitor is not locked any more */
    void (*cancel)(void *ctx);
    void *ctx;
};

static void call_answered(struct scry_call *call)
{
    /* nothing to work on is no error: an OK for "all objects" (7.3.1) */
    if (call->answers == 0)
        call_ok(call, NULL);
}

static void execute_action(struct execution *execution, struct service *service, const struct call_text *text)
{
    struct scry_call local, *call = execution->later ? &execution->later->call : &local;
    *call = (struct scry_call){.monitor = execution->monitor,
                               .session = execution->session,
                               .tool = execution->tool,
                               .service = service,
                               .event = execution->event,
                               .csr = execution->csr,
                               .execution = execution,
                               .arena = &execution->arena,
                               .reply = &execution->reply};
    reply_service(&execution->reply);
    struct err err;
    Omis_status confined = confine_service(execution->tool, service, &err); /* it was, when the request was checked */
    if (confined == OMIS_OK && confine_makes_object(service))
        confined = confine_room(execution->tool, 0, &err);
    if (confined != OMIS_OK)
        call_fail(call, NULL, confined, "%s", err.text);
    else if (resolve_args(call, text) && convert_objects(call)) {
        change_note(execution, call); /* before: its processes may be gone afterwards */
        service->row->run(call);
    }
    if (!execution->later || !execution->later->waits)
        call_answered(call);
}

/* From an action on to the end, or to where it waits; returns the next one. An unconditional request also ends where
 * its reply is full, for one of a million actions on all objects would go on for hours; an event's list is done as it
 * is. */
static size_t execute_list(struct execution *execution, struct service **services, const struct request *request,
                           size_t from)
{
    struct monitor *monitor = execution->monitor;
    execution->outer = monitor->running;
    monitor->running = execution;
    monitor->executing++;
    struct later *later = execution->later;
    while (from < request->action_count && !(later && (later->waits || execution->reply.full))) {
        if (later)
            later->next = from + 1;
        execute_action(execution, services[from], &request->actions[from]);
        from++;
    }
    monitor->executing--;
    monitor->running = execution->outer;
    return from;
}

static void execution_init(struct execution *execution, struct session *session)
{
    *execution = (struct execution){.monitor = session->tool->monitor, .session = session, .tool = session->tool};
    execution->list = session->list;
    execution->id = ++execution->monitor->last_execution;
    execution->arena = ARENA_INIT;
    execution->reply.limit = session->tool->confined.job ? CONFINED_REPLY_BYTES : 0;
}

static void execution_done(struct execution *execution)
{
    arena_done(&execution->arena);
    reply_done(&execution->reply);
}

static void send_reply(struct execution *execution, uint32_t id, bool last, bool droppable)
{
    if (execution->reply.bytes.failed)
        reply_status(execution->session, id, last, OMIS_NO_MEMORY, "out of memory: the reply is too large");
    else if (execution->reply.full)
        reply_status(execution->session, id, last, OMIS_NO_MEMORY,
                     "action %u makes the reply longer than %d bytes%s: ask for less at once",
                     execution->reply.service_count - 1,
                     execution->reply.limit ? (int)execution->reply.limit : REPLY_SIZE_LIMIT,
                     execution->later ? ", and those behind it were not executed" : "");
    else
        reply_send(execution->session, id, last, droppable, &execution->reply);
}

/* For the record of the job. */
static void answer_report(const struct later *later, Omis_status status)
{
    struct session *session = later->execution.session;
    if (later->changes || status == OMIS_NO_PERMISSION)
        change_report_confined(session, later->text, status, span_of("", 0));
    change_report(session, &later->execution.changed, later->text, status);
}

static void later_free(struct later *later)
{
    execution_done(&later->execution);
    arena_done(&later->arena);
    free(later);
}

/* Goes on with the list, and replies if it comes to its end. */
static void later_proceed(struct later *later)
{
    struct session *session = later->execution.session;
    later->runs = true;
    later->next = execute_list(&later->execution, later->services, &later->request, later->next);
    later->runs = false;
    if (later->waits) {
        session->waiting = later;
        return;
    }
    send_reply(&later->execution, later->id, true, false);
    answer_report(later, later->execution.reply.first_error);
    if (later->flags & OMIS_DEBUG)
        session_error(session, OMIS_OK, "executed in %.1f us", (double)(clock_now_ns() - later->began_ns) / 1e3);
    later_free(later);
}

static void execute_unconditional(struct session *session, uint32_t id, uint32_t flags, struct check *check,
                                  struct span text, struct request *request, struct service **services)
{
    struct arena *arena_take = check->arena;
    struct later *later = calloc(1, sizeof *later);
    if (!later) {
        reply_status(session, id, true, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    later->arena = *arena_take;
    *arena_take = ARENA_INIT;
    later->request = *request;
    later->services = services;
    later->changes = check_changes(check);
    later->text = later->changes || session->tool->confined.job ? arena_span(&later->arena, text) : span_of("", 0);
    later->id = id;
    later->flags = flags;
    later->began_ns = clock_now_ns();
    execution_init(&later->execution, session);
    later->execution.later = later;
    later->execution.chain = (flags & EXECUTE_CHAIN) >> 24;
    const struct execution *outer = session->tool->monitor->running;
    if (outer) { /* an extension asks, as a part of the list that its handler is in */
        later->execution.event = outer->event;
        later->execution.csr = outer->csr;
        later->execution.list = outer->list;
    }
    reply_begin(&later->execution.reply);
    reply_service(&later->execution.reply);
    reply_result(&later->execution.reply, span_of("", 0), OMIS_OK, NULL);
    later_proceed(later);
}

/* ---- actions that take a while ---- */

struct later *call_later(struct scry_call *call, void (*cancel)(void *ctx), void *ctx)
{
    struct later *later = call->execution->later;
    if (!later || later->request.locked || !call->session->ready)
        return NULL;
    later->waits = true;
    later->cancel = cancel;
    later->ctx = ctx;
    return later;
}

const struct call_text *call_behind(const struct scry_call *call, size_t *ret_count)
{
    const struct later *later = call->execution->later;
    *ret_count = later ? later->request.action_count - later->next : 0;
    return later ? &later->request.actions[later->next] : NULL;
}

struct scry_call *call_later_begin(struct later *later)
{
    monitor_enter(later->execution.monitor);
    return &later->call;
}

void call_later_end(struct later *later, bool done)
{
    struct monitor *monitor = later->execution.monitor;
    struct session *session = later->execution.session;
    if (done)
        later->waits = false;
    if (done && !later->runs) { /* else it was answered at once, and the list goes on where it is */
        call_answered(&later->call);
        later->answered = true;
        if (!monitor_blocks(monitor, session))
            execute_unblocked(session);
    }
    monitor_leave(monitor);
}

void execute_unblocked(struct session *session)
{
    struct later *later = session->waiting;
    if (later && later->answered) {
        session->waiting = NULL;
        later->answered = false;
        later->execution.attached_known = false; /* some may have ended */
        later->execution.messages = NULL;
        later_proceed(later);
    }
    if (!session_waits(session))
        session->ready(session);
}

void execute_cancel(struct session *session)
{
    struct later *later = session->waiting;
    if (session->away)
        session->tool->monitor->elsewhere_cancel(session);
    if (!later)
        return;
    session->waiting = NULL;
    if (!later->answered)
        later->cancel(later->ctx);
    answer_report(later, OMIS_UNSPECIFIED_ERROR); /* what came before was done */
    later_free(later);
}

void execute_triggered(struct csr *csr, const struct event *event)
{
    struct execution execution;
    const struct monitor_parts *parts = csr->object.monitor->parts;
    if ((parts && parts->defers(csr, event)) || (csr->elsewhere && csr->elsewhere(csr, event)))
        return;
    execution_init(&execution, csr->session);
    execution.event = event;
    execution.csr = csr;
    reply_begin(&execution.reply);
    reply_service(&execution.reply);
    struct span where = span_str(event_place(event));
    reply_result(&execution.reply, where, OMIS_CSR_TRIGGERED, NULL);
    /* the list may delete its own request: its memory stays until the monitor is idle, but its session may not */
    uint32_t id = csr->request_id, flags = csr->flags;
    csr->executing++;
    request_log_csr(csr, "triggered");
    execute_list(&execution, csr->actions, &csr->request, 0);
    bool last = --csr->executing == 0 && csr->object.gone; /* it deleted itself */
    bool quiet = execution.reply.only_ok && (flags & OMIS_DONT_RETURN_OK) && !last;
    if (csr->session && !quiet)
        send_reply(&execution, id, last, !last);
    if (csr->session && !csr->told)
        csr->told = change_report_csr(csr, &execution);
    execution_done(&execution);
}

/* ---- debugging output ---- */

static void debug_request(struct session *session, const struct request *request, uint64_t parse_ns)
{
    session_error(session, OMIS_OK, "%s request of %zu action%s, parsed and checked in %.1f us",
                  request->event ? "conditional" : "unconditional", request->action_count,
                  request->action_count == 1 ? "" : "s", (double)parse_ns / 1e3);
}

static Omis_status status_of_parse(int code)
{
    return code == -EINVAL   ? OMIS_SYNTAX_ERROR
           : code == -ENOMEM ? OMIS_NO_MEMORY
                             : OMIS_PARAMETER_ERROR; /* -ERANGE, -E2BIG */
}

/* What the record of the job may say of it. */
static struct span shown_of(const struct check *check, bool checked, struct span text, const struct request *request,
                            struct arena *arena)
{
    if (!checked && check->status != OMIS_NO_PERMISSION) /* it is not recorded */
        return span_of("", 0);
    return checked && !(check->rights & RIGHT_MEMORY) ? text : change_shown(request, arena);
}

/* Whether other nodes are concerned, and the request was taken for them. */
static bool is_elsewhere(struct session *session, struct checked_request *request, struct check *check)
{
    bool (*elsewhere)(struct session * session, struct checked_request * request) = session->tool->monitor->elsewhere;
    if (elsewhere && !session->tool->confined.job && elsewhere(session, request)) {
        check->status = OMIS_OK;
        return true;
    }
    return false;
}

static void handle_request(struct session *session, uint32_t id, uint32_t flags, struct span text,
                           const struct csr_home *home)
{
    struct monitor *monitor = session->tool->monitor;
    uint64_t start = clock_now_ns();
    struct arena arena = ARENA_INIT;
    struct request request;
    struct check check = {.monitor = monitor, .tool = session->tool, .arena = &arena};
    request_log_request(session, id, flags, text);
    monitor_enter(monitor);
    struct span copy = arena_span(&arena, text); /* the tree of a conditional request outlives the frame */
    int code = copy.ptr ? request_parse(&arena, copy, &request, &check.err) : -ENOMEM;
    if (!copy.ptr)
        err_set(&check.err, code, "out of memory");
    struct service *event = NULL, **services = NULL;
    if (code < 0) {
        check.status = status_of_parse(code);
    } else {
        if (request.event)
            event = check_call(&check, request.event, true);
        check.event = event;
        if (!request.event || event)
            services = check_actions(&check, &request);
    }
    struct checked_request checked_request = {id, flags, copy, &arena, &request, event, services};
    bool taken = services && !home && is_elsewhere(session, &checked_request, &check);
    if (!taken && check.missing)
        services = NULL;
    struct arena shown = ARENA_INIT; /* the other one may be the conditional request's by then */
    bool recorded = session->tool->confined.job || check_changes(&check);
    struct span told = recorded ? shown_of(&check, services != NULL, text, &request, &shown) : text;
    uint64_t checked = clock_now_ns();
    if ((flags & OMIS_DEBUG) && services) /* before the reply: a tool that waits for it has both */
        debug_request(session, &request, checked - start);
    if (taken)
        ;
    else if (!services)
        reply_status(session, id, true, check.status, "%s", check.err.text);
    else if (event)
        check.status = define_csr(session, &checked_request, home);
    else
        execute_unconditional(session, id, flags, &check, told, &request, services);
    if (check.status == OMIS_NO_PERMISSION || (event && services && check_changes(&check)))
        change_report_confined(session, told, check.status, span_str(check.err.text));
    if ((flags & OMIS_DEBUG) && event)
        session_error(session, OMIS_OK, "executed in %.1f us", (double)(clock_now_ns() - checked) / 1e3);
    monitor_leave(monitor);
    arena_done(&arena);
    arena_done(&shown);
}

void execute_request(struct session *session, uint32_t id, uint32_t flags, struct span text)
{
    handle_request(session, id, flags, text, NULL);
}

void execute_define(struct session *session, uint32_t id, uint32_t flags, struct span text, const struct csr_home *home)
{
    handle_request(session, id, flags, text, home);
}

/* How replies are sent. */

/* As lang/reply.h encodes it: one element, one result, OMIS_NO_MEMORY, no objects, no text. */
static const unsigned char no_memory_reply[] = {
    1, 0, 0, 0, 1, 0, 0, 0, OMIS_NO_MEMORY & 0xff, OMIS_NO_MEMORY >> 8, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};

void reply_send(struct session *session, uint32_t id, bool last, bool droppable, const struct reply_builder *reply)
{
    struct span bytes = span_of(reply->bytes.data, reply->bytes.len);
    if (reply->bytes.failed)
        bytes = span_of((const char *)no_memory_reply, sizeof no_memory_reply);
    request_log_reply(session, id, last, bytes);
    session->reply(session, id, last, droppable, bytes);
}

static void reply_status_span(struct session *session, uint32_t id, bool last, Omis_status status, struct span text)
{
    struct reply_builder reply = {0};
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), status, text.len ? &text : NULL);
    reply_send(session, id, last, false, &reply);
    reply_done(&reply);
}

void reply_status(struct session *session, uint32_t id, bool last, Omis_status status, const char *format, ...)
{
    char text[2 * ERR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reply_status_span(session, id, last, status, span_str(text));
}
