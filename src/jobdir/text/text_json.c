/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/text/text.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/data/utf8.h"

json_t *text_json(const char *bytes)
{
    if (!bytes)
        return json_null();
    struct buf clean = BUF_INIT;
    text_clean(&clean, bytes);
    json_t *json = clean.failed ? NULL : json_stringn(clean.data ? clean.data : "", clean.len);
    buf_done(&clean);
    return json;
}

size_t text_json_flags(void)
{
    return isatty(STDOUT_FILENO) ? JSON_ENSURE_ASCII : 0;
}

void text_show_json(struct buf *out, const char *json, size_t size)
{
    for (size_t at = 0, len; at < size; at += len) {
        size_t valid = utf8_length(json + at, size - at);
        uint32_t character = valid ? utf8_character(json + at, valid) : 0xfffd;
        len = valid ? valid : 1;
        if (valid && (!utf8_is_control(character) || character == '\n'))
            buf_append(out, json + at, len);
        else if (character < 0x10000)
            buf_printf(out, "\\u%04x", character);
        else
            buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (character >> 10), 0xdc00 + (character & 0x3ff));
    }
}

void text_put_json(struct buf *out, json_t *json_take)
{
    char *text = json_take ? json_dumps(json_take, JSON_INDENT(2) | JSON_REAL_PRECISION(15) | text_json_flags()) : NULL;
    json_decref(json_take);
    buf_puts(out, text ? text : "");
    buf_putc(out, '\n');
    out->failed |= !text;
    free(text);
}
