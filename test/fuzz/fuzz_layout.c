/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts from any text, and any bytes shown by them: the text up to the first NUL, then the bytes. */
#include <string.h>

#include "fuzz.h"
#include "symbols/layout/layout.h"

enum { LIMIT = 16 << 20 };

static bool name_address(void *ctx, uint64_t address, struct buf *out)
{
    if (address & 1)
        return false;
    buf_puts(out, "function");
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    if (!end)
        return 0;
    size_t length = (size_t)(end - data), count = size - length - 1;
    struct layout *layout;
    struct err err = {0};
    if (layout_parse(&layout, (const char *)data, &err) < 0) {
        fuzz_expect(err.code < 0 && err.text[0]);
        return 0;
    }
    uint8_t *bytes = malloc(count ? count : 1); /* its end is where the sanitizer looks */
    if (!bytes)
        abort();
    memcpy(bytes, end + 1, count);
    struct layout_style style = {.name_address = name_address, .string_limit = count % 7, .types = count % 2};
    for (unsigned part = 0; part < LAYOUT_PARTS; part++) {
        struct buf out = BUF_INIT;
        layout_format(layout, part, bytes, count, &style, &out);
        layout_format_list(layout, part, bytes, count, &style, &out);
        layout_format_json(layout, part, bytes, count, &style, &out);
        layout_format_values(layout, part, bytes, count, &style, &out);
        layout_declare(layout, part, &out);
        fuzz_expect(!out.failed && out.len < LIMIT);
        buf_done(&out);
    }
    struct buf tsdl = BUF_INIT;
    layout_tsdl(layout, &tsdl);
    fuzz_expect(!tsdl.failed && tsdl.len > 0);
    buf_done(&tsdl);
    layout_free(layout);
    free(bytes);
    return 0;
}
