/* SPDX-License-Identifier: Apache-2.0 */
/* What scry serve reads of headers and URLs. The first byte says as what. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "web/http/head.h"

static void position(struct span text)
{
    struct position *position = malloc(sizeof *position);
    struct buf out = BUF_INIT;
    fuzz_expect(position);
    if (position_parse(text, position)) {
        struct position *again = malloc(sizeof *again);
        fuzz_expect(again && position->count > 0 && position->parts[0].name == 0);
        for (size_t i = 0; i < position->count; i++)
            position_put(&out, position->parts[i].name, position->parts[i].offset, !i);
        fuzz_expect(position_parse(span_of(out.data, out.len), again) && again->count == position->count);
        for (size_t i = 0; i < position->count; i++)
            fuzz_expect(again->parts[i].name == position->parts[i].name &&
                        again->parts[i].offset == position->parts[i].offset);
        free(again);
    } else {
        fuzz_expect(position->count == 0);
    }
    buf_done(&out);
    free(position);
}

static void range(struct span text, uint64_t size)
{
    uint64_t from = 0, len = 0;
    if (foreign_range(text, size, &from, &len) == RANGE_PART)
        fuzz_expect(len > 0 && from < size && len <= size - from);
}

/* What passes in one piece passes in two, and whole requests that pass can be taken again from their beginning. */
static void heads(struct span text)
{
    struct head whole = {0}, parts = {0}, again = {0};
    const struct head_refusal *refusal, *first, *second = NULL;
    size_t half = text.len / 2, passed = head_take(&whole, text.ptr, text.len, &refusal);
    fuzz_expect(passed <= text.len && (refusal || passed == text.len));
    head_take(&parts, text.ptr, half, &first);
    if (!first)
        head_take(&parts, text.ptr + half, text.len - half, &second);
    fuzz_expect((first ? first : second) == refusal);
    fuzz_expect(head_take(&again, text.ptr, passed, &first) == passed && !first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct span text = {(const char *)data + 1, size - 1}, part;
    uint64_t number = 0;
    switch (data[0] == 'h' ? 7 : data[0] % 7) {
    case 0:
        part = foreign_cookie(text, "scry_8080");
        fuzz_expect(!part.len || (part.ptr >= text.ptr && part.ptr + part.len <= text.ptr + text.len));
        break;
    case 1:
        foreign_takes_gzip(text);
        break;
    case 2:
        foreign_has_tag(text, "\"0123456789abcdef\"");
        break;
    case 3:
        range(text, size > 1 ? data[1] : 0);
        range(text, UINT64_C(1) << 40);
        break;
    case 4:
        fuzz_expect(!foreign_is_id(text) || (!memchr(text.ptr, '/', text.len) && *text.ptr != '-' && *text.ptr != '.'));
        break;
    case 5:
        fuzz_expect(!foreign_is_path(text) || (*text.ptr != '/' && *text.ptr != '.' && !memchr(text.ptr, 0, text.len)));
        foreign_number(text, &number);
        break;
    case 7:
        heads(text);
        break;
    default:
        position(text);
    }
    return 0;
}
