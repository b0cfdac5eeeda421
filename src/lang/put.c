/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/put.h"

#include <string.h>

/* No value ends in one of these characters, except that binary data may: nothing is put behind that. */
static void separate(struct buf *out)
{
    if (out->len && !strchr("[(,", out->data[out->len - 1]))
        buf_putc(out, ',');
}

void put_values(struct buf *out, const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        separate(out);
        value_print(out, &values[i]);
    }
}

void put_buf(struct buf *out, const struct buf *text)
{
    struct value value = value_string(span_of(text->data ? text->data : "", text->len));
    put_values(out, &value, 1);
    out->failed |= text->failed;
}

void put_strings(struct buf *out, struct span bytes, char separator)
{
    put_list(out);
    for (const char *at = bytes.ptr, *end = at + bytes.len, *next; at < end; at = next + 1) {
        next = memchr(at, separator, (size_t)(end - at));
        next = next ? next : end;
        PUT(out, value_string(span_of(at, (size_t)(next - at))));
    }
    put_end(out);
}

void put_list(struct buf *out)
{
    separate(out);
    buf_putc(out, '[');
}

void put_end(struct buf *out)
{
    buf_putc(out, ']');
}

void put_call(struct buf *out, const char *service, const struct value *args, size_t count)
{
    buf_puts(out, out->len ? " " : ":");
    buf_puts(out, service);
    buf_putc(out, '(');
    put_values(out, args, count);
    buf_putc(out, ')');
}

struct value put_string(const char *string)
{
    return value_string(span_str(string ? string : ""));
}

struct value put_value(struct value value)
{
    return value;
}
