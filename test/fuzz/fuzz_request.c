/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and result strings from any bytes. What is accepted must be printed in a form that reads back as the same
 * (a fixed point of reading and printing); what is refused must have an error text; the length found by scanning must
 * agree with the parser.
 */
#include <errno.h>
#include <stdlib.h>

#include "fuzz.h"
#include "lang/request.h"
#include "lang/signature.h"
#include "lang/token.h"

static void check_refusal(int code, const struct err *err)
{
    fuzz_expect(code == -EINVAL || code == -ERANGE || code == -E2BIG);
    fuzz_expect(err->code == code && err->text[0]);
}

/* The scan from a pointer sees the request as the parser does, or stops at a NUL that the parser would refuse. */
static void check_length(struct span text)
{
    char *copy = malloc(text.len + 1);
    fuzz_expect(copy != NULL);
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    fuzz_expect(request_length(copy) == text.len);
    free(copy);
}

static void check_token(struct span text)
{
    struct token token;
    if (!token_parse(text, &token))
        return;
    struct buf out = BUF_INIT;
    token_print(&out, &token);
    fuzz_expect(span_eq(span_of(out.data, out.len), text));
    buf_done(&out);
}

static void check_values(const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == VALUE_LIST)
            check_values(values[i].list.items, values[i].list.count);
        else if (values[i].kind == VALUE_TOKEN)
            check_token(values[i].text);
    }
}

static void check_signatures(struct arena *arena, const struct call_text *call)
{
    static const char *const signatures[] = {
        "token<p>* proc_list, integer flags -> string",
        "floating a, floating* b, any* c -> void",
        "token<e> event, any* params, integer resume -> void",
        "string a, binary b, any c -> void",
        "any* a -> void",
    };
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        struct signature signature;
        struct err err = {0};
        const struct value *args;
        fuzz_expect(signature_parse(arena, signatures[i], &signature, &err) == 0);
        enum check_result result = signature_check(&signature, call->name, call->args, call->argc, arena, &args, &err);
        fuzz_expect(result == CHECK_OK || (result == CHECK_TYPE_MISMATCH && err.text[0]));
        if (result == CHECK_OK) /* what has the shape keeps it */
            fuzz_expect(signature_check(&signature, call->name, args, signature.param_count, arena, &args, &err) ==
                        CHECK_OK);
    }
}

static void check_request(struct span text)
{
    struct arena arena = ARENA_INIT;
    struct request request;
    struct err err = {0};
    int code = request_parse(&arena, text, &request, &err);
    if (code < 0) {
        check_refusal(code, &err);
    } else {
        struct buf once = BUF_INIT, twice = BUF_INIT;
        check_length(text);
        request_print(&once, &request);
        for (size_t i = 0; i < request.action_count; i++) {
            check_values(request.actions[i].args, request.actions[i].argc);
            check_signatures(&arena, &request.actions[i]);
        }
        code = request_parse(&arena, span_of(once.data, once.len), &request, &err);
        fuzz_expect(code == 0);
        request_print(&twice, &request);
        fuzz_expect(span_eq(span_of(once.data, once.len), span_of(twice.data, twice.len)));
        buf_done(&once);
        buf_done(&twice);
    }
    arena_done(&arena);
}

static void check_result_string(struct span text)
{
    struct arena arena = ARENA_INIT;
    const struct value *values;
    size_t count;
    struct err err = {0};
    int code = values_parse(&arena, text, &values, &count, &err);
    if (code < 0) {
        check_refusal(code, &err);
    } else {
        struct value list = value_list(values, count), copy;
        fuzz_expect(value_copy(&arena, &list, &copy));
        struct buf once = BUF_INIT, twice = BUF_INIT;
        value_print(&once, &list);
        value_print(&twice, &copy);
        fuzz_expect(span_eq(span_of(once.data, once.len), span_of(twice.data, twice.len)));
        buf_done(&once);
        buf_done(&twice);
    }
    arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = span_of((const char *)data, size);
    check_request(text);
    check_result_string(text);
    check_token(text);
    return 0;
}
