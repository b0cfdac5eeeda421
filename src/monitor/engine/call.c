/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <scry/omis.h>

#include "base/system/log.h"
#include "monitor/engine/execute.h"

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
