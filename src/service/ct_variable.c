/* SPDX-License-Identifier: Apache-2.0 */
/* Variables by name: ct_read_variable and ct_write_variable. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/call.h"
#include "monitor/convert.h"
#include "monitor/csr.h"
#include "service/ct.h"
#include "service/ct_helper.h"
#include "symbols/helper.h"

struct question {
    const char *name;
    const char *value; /* to write; NULL: read */
    unsigned depth;
};

static int print_answer(struct helper_reader *reader, struct buf *text, struct err *err)
{
    struct helper_answer answer;
    int code;
    while ((code = helper_next(reader, &answer, err)) > 0) {
        switch (answer.kind) {
        case HELPER_VALUE:
            value_print_string(text, span_str(answer.type));
            buf_putc(text, ',');
            value_print_string(text, span_str(answer.text));
            buf_printf(text, ",%llu,%llu", (unsigned long long)answer.address, (unsigned long long)answer.size);
            return 0;
        case HELPER_WRITTEN:
            value_print_string(text, span_str(answer.type));
            buf_putc(text, ',');
            value_print_string(text, span_str(answer.old));
            buf_putc(text, ',');
            value_print_string(text, span_str(answer.text));
            return 0;
        case HELPER_FAILED:
            return err_set(err, -EINVAL, "%s", answer.text);
        default:
            break;
        }
    }
    return code < 0 ? code : err_set(err, -EIO, "the helper scry-symbols ended without an answer");
}

static int ask(struct process *process, struct thread *thread, const struct question *question, struct buf *text,
               struct err *err)
{
    struct buf request = BUF_INIT;
    struct helper_reader reader = {0};
    struct tracer_frame *frames = NULL;
    size_t count;
    int code = ct_request_begin(&request, process, question->depth, err);
    if (code == 0 && thread)
        code = ct_request_frames(&request, thread, &frames, &count, err);
    if (code == 0) {
        helper_line(&request, "name", question->name, NULL);
        if (question->value)
            helper_line(&request, "write", question->value, NULL);
        helper_line(&request, "end", NULL);
        code = ct_helper_run("variable", &request, &reader, err);
        if (code == 0)
            code = print_answer(&reader, text, err);
        helper_reader_done(&reader);
        free(frames);
    }
    buf_done(&request);
    return code;
}

static void ask_for(struct scry_call *call, struct process *process, struct thread *thread,
                    const struct question *question)
{
    struct scry_object *object = thread ? &thread->object : &process->object;
    struct err err = {0};
    struct buf text = BUF_INIT;
    int code = thread ? ct_threads_stop(&thread, 1, &err) : 0;
    if (code == 0) {
        code = ask(process, thread, question, &text, &err);
        if (thread)
            ct_threads_continue(&thread, 1);
    }
    if (code < 0)
        call_fail_errno(call, object, code, &err);
    else
        call_text(call, object, &text);
    buf_done(&text);
}

/* Threads stay threads, as their own variables are meant, too; everything else becomes processes. */
static void ask_all(struct scry_call *call, const struct question *question)
{
    const struct value *list = &call->args[0];
    if (!list->list.count)
        for (struct attachment *a = call->tool->attachments; a; a = a->next_of_tool)
            ask_for(call, a->process, NULL, question);
    for (size_t i = 0; i < list->list.count; i++) {
        struct span token = list->list.items[i].text;
        struct scry_object *object = object_find(call->monitor, token);
        bool is_thread = object && object_is(object, "t");
        struct err err = {0};
        Omis_status status;
        object = convert_one(call, token, is_thread ? "t" : "p", true, &status, &err);
        if (!object)
            call_fail(call, NULL, status, "%s", err.text);
        else if (is_thread)
            ask_for(call, ((struct thread *)object)->process, (struct thread *)object, question);
        else
            ask_for(call, (struct process *)object, NULL, question);
    }
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
        question.value = text.data ? text.data : "";
        ask_all(call, &question);
    }
    buf_done(&text);
}
