/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/buf.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_done(struct buf *buf)
{
    free(buf->data);
    *buf = BUF_INIT;
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = 0;
}

char *buf_reserve(struct buf *buf, size_t more)
{
    if (buf->failed)
        return NULL;
    if (more >= SIZE_MAX / 2 - buf->len) {
        buf->failed = true;
        return NULL;
    }
    size_t need = buf->len + more + 1;
    if (need > buf->cap) {
        size_t cap = buf->cap ? buf->cap : 64;
        while (cap < need)
            cap *= 2;
        char *data = realloc(buf->data, cap);
        if (!data) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

void buf_append(struct buf *buf, const void *bytes, size_t len)
{
    char *to = buf_reserve(buf, len);
    if (!to)
        return;
    if (len)
        memcpy(to, bytes, len);
    buf->len += len;
    buf->data[buf->len] = 0;
}

void buf_puts(struct buf *buf, const char *string)
{
    buf_append(buf, string, strlen(string));
}

void buf_putc(struct buf *buf, char c)
{
    buf_append(buf, &c, 1);
}

void buf_vprintf(struct buf *buf, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    char small[128];
    int len = vsnprintf(small, sizeof small, format, args);
    if (len < 0) {
        buf->failed = true;
    } else if ((size_t)len < sizeof small) {
        buf_append(buf, small, (size_t)len);
    } else {
        char *to = buf_reserve(buf, (size_t)len);
        if (to) {
            vsnprintf(to, (size_t)len + 1, format, again);
            buf->len += (size_t)len;
        }
    }
    va_end(again);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_vprintf(buf, format, args);
    va_end(args);
}

void buf_put_u32(struct buf *buf, uint32_t value)
{
    uint32_t le = htole32(value);
    buf_append(buf, &le, sizeof le);
}

void buf_put_u64(struct buf *buf, uint64_t value)
{
    uint64_t le = htole64(value);
    buf_append(buf, &le, sizeof le);
}

void buf_drop(struct buf *buf, size_t n)
{
    if (!n)
        return;
    memmove(buf->data, buf->data + n, buf->len - n + 1);
    buf->len -= n;
}

char *buf_take(struct buf *buf)
{
    if (!buf->data)
        buf_append(buf, "", 0);
    if (buf->failed) {
        buf_done(buf);
        return NULL;
    }
    char *data = buf->data;
    *buf = BUF_INIT;
    return data;
}
