/* SPDX-License-Identifier: Apache-2.0 */
/* Variables by name: ct_read_variable and ct_write_variable. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "monitor/recorder/agents.h"
#include "monitor/engine/execute.h"
#include "monitor/tracing/tracing.h"
#include "lang/put.h"
#include "service/ct/ct.h"
#include "shm/waits.h"
#include "symbols/client/helper.h"

/* A ct_read_variable or ct_write_variable in progress over its objects. Everything is in the call's arena. */
struct target {
    char token[TOKEN_TEXT_SIZE];
    bool is_thread; /* a thread, for its own variables, too; everything else becomes a process */
};

struct question {
    struct monitor *monitor;
    const char *name;
    const char *value; /* to write; NULL: read */
    unsigned depth;
    struct target *targets;
    size_t count, at;
    struct later *later;
    /* of the current target */
    struct helper_job *job;
    uint64_t began_ns;
    bool answered;
};

/* Makes the service's result from the helper's answer: 1; 0: this was none; -EINVAL: it has an error. */
static int print_answer(const struct helper_answer *answer, struct buf *text, struct err *err)
{
    switch (answer->kind) {
    case HELPER_VALUE:
        PUT(text, answer->type, answer->text, answer->address, answer->size);
        return 1;
    case HELPER_WRITTEN:
        PUT(text, answer->type, answer->old, answer->text);
        return 1;
    case HELPER_FAILED:
        return err_set(err, -EINVAL, "%s", answer->text);
    default:
        return 0;
    }
}

static int no_answer(struct err *err)
{
    return err_set(err, -EIO, "the helper scry-symbols ended without an answer");
}

static int make_request(struct buf *request, const struct question *question, struct process *process,
                        struct thread *thread, struct err *err)
{
    struct tracer_frame *frames = NULL;
    size_t count;
    int code = ct_request_begin(request, process, question->depth, NULL, err);
    if (code == 0 && thread)
        code = ct_request_frames(request, thread, &frames, &count, err);
    free(frames);
    if (code < 0)
        return code;
    helper_line(request, "name", question->name, NULL);
    if (question->value)
        helper_line(request, "write", question->value, NULL);
    helper_line(request, "end", NULL);
    return request->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

static void variable_answer(struct scry_call *call, struct scry_object *object, int code, const struct buf *text,
                            const struct err *err)
{
    if (code < 0)
        call_fail_errno(call, object, code, err);
    else
        call_text(call, object, text);
}

/* ---- lists that may not be interrupted ---- */

static int ask_now(const struct buf *request, struct buf *text, struct err *err)
{
    struct helper_reader reader;
    struct helper_answer said;
    int code = ct_helper_run("variable", request, &reader, err), found = 0;
    while (code == 0 && found == 0 && (code = helper_next(&reader, &said, err)) > 0) {
        found = print_answer(&said, text, err);
        code = found < 0 ? found : 0;
    }
    helper_reader_done(&reader);
    return code < 0 || found ? code : no_answer(err);
}

/* ---- the others ---- */

static void ask_next(struct question *question, struct scry_call *call);

static void target_done(struct question *question)
{
    struct target *target = &question->targets[question->at++];
    struct scry_object *object = object_find(question->monitor, span_str(target->token));
    question->job = NULL;
    if (object && target->is_thread)
        runstate_inspect_done((struct thread *)object);
}

static void variable_cancelled(void *ctx)
{
    struct question *question = ctx;
    helper_cancel(question->job);
    target_done(question);
}

static void said(void *ctx, const struct helper_answer *helper)
{
    struct question *question = ctx;
    struct scry_call *call = call_later_begin(question->later);
    struct target *target = &question->targets[question->at];
    struct scry_object *object = object_find(call->monitor, span_str(target->token));
    struct buf text = BUF_INIT;
    struct err err = {0};
    int code = question->answered ? 0 : helper ? print_answer(helper, &text, &err) : no_answer(&err);
    if (code && !object)
        code = err_set(&err, -ESRCH, "%s has ended", target->token);
    else if (!helper && code && clock_now_ns() - question->began_ns >= CT_HELPER_NS)
        code = err_set(&err, -ETIME, "the debug information was not read within %llu s",
                       (unsigned long long)(CT_HELPER_NS / NS_PER_SECOND));
    if (code) {
        variable_answer(call, object, code, &text, &err);
        question->answered = true;
    }
    buf_done(&text);
    if (!helper) {
        target_done(question);
        ask_next(question, call);
    }
    call_later_end(question->later, question->at == question->count);
}

/* Starts the helper for a target. Waits for its end if the answer has to come at once. */
static bool helper_ask(struct question *question, struct scry_call *call, struct scry_object *object)
{
    struct target *target = &question->targets[question->at];
    struct thread *thread = target->is_thread ? (struct thread *)object : NULL;
    struct process *process = thread ? thread->process : (struct process *)object;
    struct buf request = BUF_INIT, text = BUF_INIT;
    struct err err = {0};
    int code = thread ? runstate_inspect(thread, &err) : 0;
    bool looks = thread && code == 0;
    if (code == 0)
        code = make_request(&request, question, process, thread, &err);
    if (code == 0 && question->later && call->monitor->agents) {
        question->began_ns = clock_now_ns();
        question->answered = false;
        question->job = helper_start_at_once(call->monitor->agents, "variable", &request, CT_HELPER_NS, said, question);
        if (question->job)
            return true;
        code = err_set(&err, -ENOMEM, "out of memory");
    } else if (code == 0) {
        code = ask_now(&request, &text, &err);
    }
    if (looks)
        runstate_inspect_done(thread);
    variable_answer(call, object, code, &text, &err);
    buf_done(&text);
    buf_done(&request);
    return false;
}

/* Goes on with the next targets, until one has to wait. */
static void ask_next(struct question *question, struct scry_call *call)
{
    for (; question->at < question->count; question->at++) {
        struct target *target = &question->targets[question->at];
        struct err err = {0};
        Omis_status status;
        struct scry_object *object =
            convert_one(call, span_str(target->token), target->is_thread ? "t" : "p", true, &status, &err);
        if (!object) {
            call_fail(call, NULL, status, "%s", err.text);
            continue;
        }
        snprintf(target->token, sizeof target->token, "%s", object->token);
        if (helper_ask(question, call, object))
            return;
    }
}

static void ask_all(struct scry_call *call, const struct question *wanted)
{
    const struct value *list = &call->args[0];
    size_t count = list->list.count ? list->list.count : call->tool->attachment_count;
    struct question *question = arena_alloc(call->arena, sizeof *question);
    struct target *targets = arena_zalloc(call->arena, count + 1, sizeof *targets);
    if (!question || !targets) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    *question = *wanted;
    question->monitor = call->monitor;
    question->targets = targets;
    if (!list->list.count)
        for (struct attachment *a = call->tool->attachments; a; a = a->next_of_tool)
            snprintf(targets[question->count++].token, TOKEN_TEXT_SIZE, "%s", a->process->object.token);
    for (size_t i = 0; i < list->list.count; i++) {
        struct span token = list->list.items[i].text;
        struct scry_object *object = object_find(call->monitor, token);
        struct target *target = &targets[question->count++];
        target->is_thread = object && object_is(object, "t");
        snprintf(target->token, sizeof target->token, "%.*s", SPAN_ARG(token));
    }
    if (!question->count)
        return;
    question->later = call_later(call, variable_cancelled, question);
    if (!question->later) {
        ask_next(question, call);
        return;
    }
    struct scry_call *later = call_later_begin(question->later);
    ask_next(question, later);
    call_later_end(question->later, question->at == question->count);
}

void ct_read_variable(struct scry_call *call)
{
    struct question question = {.name = call_string(call, 1)};
    if (!question.name || !call_check_range(call, 2, 0, HELPER_DEPTH_MAX))
        return;
    question.depth = (unsigned)call_integer(call, 2);
    ask_all(call, &question);
}

void ct_write_variable(struct scry_call *call)
{
    struct question question = {.name = call_string(call, 1)};
    const struct value *value = &call->args[2];
    struct buf text = BUF_INIT;
    if (!question.name)
        return;
    if (value->kind == VALUE_STRING)
        buf_append(&text, value->text.ptr, value->text.len);
    else
        value_print(&text, value);
    if (value->kind == VALUE_LIST || value->kind == VALUE_TOKEN)
        call_fail(call, NULL, OMIS_TYPE_MISMATCH, "value: expected a number or a string, found %s",
                  value_kind_name(value->kind));
    else if (text.len && memchr(text.data, 0, text.len))
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "value: a NUL byte cannot be part of it");
    else if (text.failed)
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
    else {
        question.value = arena_dup(call->arena, text.data ? text.data : "", text.len);
        if (question.value)
            ask_all(call, &question);
        else
            call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
    }
    buf_done(&text);
}
