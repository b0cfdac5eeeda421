/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ct_get_stacks and ct_get_stack_values: where all threads of processes are, read by scry-symbols (symbols/helper/stacks.h), which stops
 * nothing. The answers have no addresses and no numbers of processes, so processes that do the same have the same one,
 * which is sent once.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lang/put.h"
#include "monitor/engine/call.h"
#include "monitor/recorder/agents.h"
#include "service/ct/ct.h"
#include "service/ct/helper.h"
#include "shm/waits.h"
#include "symbols/client/helper.h"

enum { STACKS_DEPTH = 256 };

/* A ct_get_stacks in progress, in the call's arena. */
struct question {
    struct helper_job *job;
    struct later *later;
    char (*tokens)[TOKEN_TEXT_SIZE];
    bool *answered;
    pid_t *pids;
    size_t count;
    size_t at; /* of the process whose stacks come; count: of none */
    bool in_stack, in_frame;
    bool values; /* of variables, too */
    struct buf text;
    struct err err;
};

static void end_frame(struct question *question)
{
    if (question->in_frame)
        put_end(&question->text);
    question->in_frame = false;
}

static void end_stack(struct question *question)
{
    end_frame(question);
    if (question->in_stack)
        put_end(&question->text);
    question->in_stack = false;
}

static void answer_process(struct question *question, struct scry_call *call)
{
    if (question->at == question->count)
        return;
    end_stack(question);
    put_end(&question->text);
    struct scry_object *object = object_find(call->monitor, span_str(question->tokens[question->at]));
    if (object)
        call_text(call, object, &question->text);
    else
        call_fail(call, NULL, OMIS_UNKNOWN_OBJECT, "%s has ended", question->tokens[question->at]);
    question->answered[question->at] = true;
    question->at = question->count;
}

static void begin_process(struct question *question, const struct helper_answer *said)
{
    for (size_t i = 0; i < question->count; i++)
        if (question->pids[i] == (pid_t)said->id && !question->answered[i])
            question->at = i;
    buf_clear(&question->text);
    PUT(&question->text, said->name, said->text);
    put_list(&question->text);
}

static void take(struct question *question, struct scry_call *call, const struct helper_answer *said)
{
    switch (said->kind) {
    case HELPER_PROCESS:
        answer_process(question, call);
        begin_process(question, said);
        return;
    case HELPER_STACK:
        end_stack(question);
        PUT(&question->text, said->name, said->id, said->size, said->first);
        put_list(&question->text);
        question->in_stack = true;
        return;
    case HELPER_FRAME:
        end_frame(question);
        PUT(&question->text, said->type, said->name, said->file, said->id, said->path);
        if (question->values)
            put_list(&question->text);
        question->in_frame = question->values;
        return;
    case HELPER_VARIABLE:
        if (question->in_frame)
            PUT(&question->text, said->name, said->type, said->text);
        return;
    case HELPER_FAILED:
        err_set(&question->err, -EIO, "%s", said->text);
        return;
    case HELPER_DONE:
        answer_process(question, call);
        return;
    default:
        return;
    }
}

static void answer_rest(struct question *question, struct scry_call *call)
{
    if (!question->err.code)
        err_set(&question->err, -EIO, "scry-symbols ended before it had read this process");
    for (size_t i = 0; i < question->count; i++) {
        struct scry_object *object = object_find(call->monitor, span_str(question->tokens[i]));
        if (!question->answered[i])
            call_fail_errno(call, object, object ? question->err.code : -ESRCH, &question->err);
    }
    buf_done(&question->text);
}

static void cancelled(void *ctx)
{
    struct question *question = ctx;
    helper_cancel(question->job);
    buf_done(&question->text);
}

static void said(void *ctx, const struct helper_answer *answer)
{
    struct question *question = ctx;
    struct scry_call *call = call_later_begin(question->later);
    if (answer)
        take(question, call, answer);
    else
        answer_rest(question, call);
    call_later_end(question->later, !answer);
}

/* Lists that may not be interrupted. */
static void ask_now(struct question *question, struct scry_call *call, const struct buf *request)
{
    struct helper_reader reader;
    struct helper_answer answer;
    int code = ct_helper_run("stacks", request, &reader, &question->err);
    while (code == 0 && helper_next(&reader, &answer, &question->err) > 0)
        take(question, call, &answer);
    helper_reader_done(&reader);
    answer_rest(question, call);
}

static void put_request(struct buf *request, const struct question *question, const struct scry_call *call,
                        unsigned seconds)
{
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)call_unsigned(call, 1));
    helper_line(request, "depth", number, NULL);
    if (question->values) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)call_unsigned(call, 2));
        helper_line(request, "values", number, NULL);
    }
    snprintf(number, sizeof number, "%u", seconds);
    helper_line(request, "seconds", number, NULL);
    for (size_t i = 0; i < question->count; i++) {
        snprintf(number, sizeof number, "%d", question->pids[i]);
        helper_line(request, "process", number, NULL);
    }
    helper_line(request, "end", NULL);
}

static void get_stacks(struct scry_call *call, bool values)
{
    const size_t count = call->object_count;
    if (!call_check_range(call, 1, 1, STACKS_DEPTH) || (values && !call_check_range(call, 2, 0, HELPER_DEPTH_MAX)) ||
        !count)
        return;
    struct question *question = arena_zalloc(call->arena, 1, sizeof *question);
    if (question) {
        question->tokens = arena_zalloc(call->arena, count, sizeof *question->tokens);
        question->answered = arena_zalloc(call->arena, count, sizeof *question->answered);
        question->pids = arena_zalloc(call->arena, count, sizeof *question->pids);
    }
    if (!question || !question->tokens || !question->answered || !question->pids) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    question->count = question->at = count;
    question->values = values;
    for (size_t i = 0; i < count; i++) {
        snprintf(question->tokens[i], TOKEN_TEXT_SIZE, "%s", call->objects[i]->token);
        question->pids[i] = call_process(call, i)->pid;
    }
    question->later = call->monitor->agents ? call_later(call, cancelled, question) : NULL;
    struct buf request = BUF_INIT;
    put_request(&request, question, call,
                question->later ? STACKS_SECONDS : (unsigned)(CT_HELPER_NS / NS_PER_SECOND) - 2);
    if (!question->later) {
        ask_now(question, call, &request);
        buf_done(&request);
        return;
    }
    question->job =
        helper_start_at_once(call->monitor->agents, "stacks", &request,
                             (STACKS_SECONDS + STACKS_MORE_SECONDS) * (uint64_t)NS_PER_SECOND, said, question);
    if (question->job)
        return;
    struct scry_call *later = call_later_begin(question->later);
    err_set(&question->err, -ENOMEM, "out of memory");
    answer_rest(question, later);
    call_later_end(question->later, true);
}

void ct_get_stacks(struct scry_call *call)
{
    get_stacks(call, false);
}

void ct_get_stack_values(struct scry_call *call)
{
    get_stacks(call, true);
}
