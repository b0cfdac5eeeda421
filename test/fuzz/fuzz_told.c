/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What another monitor tells of an event (monitor/parts/parts.h), from any bytes: it is refused, or printing and reading it
 * again gives the same, and each parameter of the list has a value or none.
 */
#include <errno.h>

#include "fuzz.h"
#include "monitor/engine/csr.h"
#include "monitor/parts/parts.h"

static const char list[] = ": print([$par1, $thread, $time]) thread_stop($thread) print([$par1, [$other]])";
enum { NAMES = 4 };

static void check(const struct csr *csr, const struct told *told)
{
    struct buf text = BUF_INIT, again = BUF_INIT;
    struct told *copy;
    struct value value;
    fuzz_expect(told->count == NAMES && strlen(told->where) < sizeof told->where);
    fuzz_expect(!told_value(told, span_str("unknown"), &value));
    told_value(told, span_str("par1"), &value);
    told_print(&text, told);
    fuzz_expect(!text.failed);
    int code = told_read(&copy, csr, span_of(text.data, text.len));
    fuzz_expect(code == 0);
    told_print(&again, copy);
    fuzz_expect(span_eq(span_of(text.data, text.len), span_of(again.data, again.len)));
    told_free(copy);
    buf_done(&text);
    buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct csr csr = {.arena = ARENA_INIT};
    struct told *told;
    struct err err;
    fuzz_expect(request_parse(&csr.arena, span_str(list), &csr.request, &err) == 0);
    int code = told_read(&told, &csr, span_of((const char *)data, size));
    fuzz_expect(code == 0 || code == -EBADMSG);
    if (code == 0) {
        check(&csr, told);
        told_free(told);
    }
    arena_done(&csr.arena);
    return 0;
}
