/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens translated in any bytes: with the same numbers nothing changes; what was values or a reply still is, and all
 * but the tokens is the same.
 */
#include <errno.h>

#include "fuzz.h"
#include "lang/token.h"
#include "lang/reply.h"
#include "lang/request.h"

static uint32_t same(void *ctx, uint32_t theirs)
{
    (void)ctx;
    return theirs;
}

static uint32_t other(void *ctx, uint32_t theirs)
{
    (void)ctx;
    return theirs % 3 ? theirs ^ 1000 : 0;
}

static const struct renumber identity = {.ours = same}, change = {.ours = other};

static void check_identity(struct span text)
{
    struct buf out = BUF_INIT;
    renumber_text(&out, text, &identity);
    fuzz_expect(!out.failed && span_eq(span_of(out.data, out.len), text));
    buf_done(&out);
}

static void expect_same(const struct value *a, const struct value *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct token from, to;
        fuzz_expect(a[i].kind == b[i].kind);
        if (a[i].kind == VALUE_LIST) {
            fuzz_expect(a[i].list.count == b[i].list.count);
            expect_same(a[i].list.items, b[i].list.items, a[i].list.count);
        } else if (a[i].kind == VALUE_STRING || a[i].kind == VALUE_BINARY) {
            fuzz_expect(span_eq(a[i].text, b[i].text));
        } else if (a[i].kind == VALUE_TOKEN && !span_eq(a[i].text, b[i].text)) {
            fuzz_expect(token_parse(a[i].text, &from) && token_parse(b[i].text, &to));
            fuzz_expect(to.node == other(NULL, from.node) && (!to.node || to.serial == from.serial));
        }
    }
}

static void check_values(struct span text)
{
    struct arena arena = ARENA_INIT;
    const struct value *before, *after;
    size_t before_count, after_count;
    struct err err;
    struct buf out = BUF_INIT;
    if (values_parse(&arena, text, &before, &before_count, &err) == 0) {
        renumber_text(&out, text, &change);
        fuzz_expect(values_parse(&arena, span_of(out.data, out.len), &after, &after_count, &err) == 0);
        fuzz_expect(before_count == after_count);
        expect_same(before, after, before_count);
    }
    buf_done(&out);
    arena_done(&arena);
}

static void check_reply(struct span bytes)
{
    struct reply_reader reader;
    struct buf out = BUF_INIT;
    int code = renumber_reply(&out, bytes, &identity);
    fuzz_expect(code == 0 || code == -EBADMSG);
    if (code == 0) {
        fuzz_expect(span_eq(span_of(out.data, out.len), bytes));
        buf_clear(&out);
        fuzz_expect(renumber_reply(&out, bytes, &change) == 0);
        fuzz_expect(reply_read_begin(&reader, span_of(out.data, out.len)));
    }
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = span_of((const char *)data, size);
    check_identity(text);
    check_values(text);
    check_reply(text);
    return 0;
}
