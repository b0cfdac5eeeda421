/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/buf.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

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

size_t utf8_length(const void *bytes, size_t left)
{
    const unsigned char *at = bytes;
    size_t len = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (len == 0 || len > left)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
        (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return len;
}

bool utf8_is_control(uint32_t character)
{
    static const struct {
        uint32_t first, last;
    } controls[] = {{0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
                    {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},     {0x180e, 0x180e},
                    {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x2064},   {0x2066, 0x206f},   {0xfeff, 0xfeff},
                    {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
                    {0x1d173, 0x1d17a}, {0xe0001, 0xe0001}, {0xe0020, 0xe007f}};
    for (size_t i = 0; i < sizeof controls / sizeof *controls && character >= controls[i].first; i++)
        if (character <= controls[i].last)
            return true;
    return false;
}

uint32_t utf8_character(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint32_t character = len == 1 ? at[0] : at[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        character = character << 6 | (at[i] & 0x3f);
    return character;
}

bool utf8_starts_control(const void *bytes, size_t len)
{
    return utf8_is_control(utf8_character(bytes, len));
}
