/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/position.h"

#include "web/http/foreign.h"

enum { BASE = 36, MOST_DIGITS = 11 }; /* of numbers below 2^53 */

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : -1;
}

static bool number(struct span text, uint64_t *ret_number)
{
    uint64_t value = 0;
    if (!text.len || text.len > MOST_DIGITS)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (digit(text.ptr[i]) < 0)
            return false;
        value = value * BASE + (uint64_t)digit(text.ptr[i]);
    }
    *ret_number = value;
    return true;
}

bool position_parse(struct span text, struct position *ret_position)
{
    struct span part;
    ret_position->count = 0;
    while (foreign_next(&text, ',', &part)) {
        const char *colon = memchr(part.ptr, ':', part.len);
        uint64_t name = 0, offset;
        size_t head = colon ? (size_t)(colon - part.ptr) : 0;
        struct span rest = colon ? span_of(colon + 1, part.len - head - 1) : part;
        bool own = ret_position->count == 0;
        if (own == (colon != NULL) || ret_position->count == POSITION_PARTS || !number(rest, &offset) ||
            (colon && (!number(span_of(part.ptr, head), &name) || !name || name > UINT32_MAX))) {
            ret_position->count = 0;
            return false;
        }
        ret_position->parts[ret_position->count++] = (struct position_part){(uint32_t)name, offset};
    }
    return ret_position->count > 0;
}

uint64_t position_of(const struct position *position, uint32_t name)
{
    for (size_t i = 0; i < position->count; i++)
        if (position->parts[i].name == name)
            return position->parts[i].offset;
    return 0;
}

static void put_number(struct buf *out, uint64_t value)
{
    char digits[16];
    size_t at = sizeof digits;
    do
        digits[--at] = "0123456789abcdefghijklmnopqrstuvwxyz"[value % BASE];
    while (value /= BASE);
    buf_append(out, digits + at, sizeof digits - at);
}

void position_put(struct buf *out, uint32_t name, uint64_t offset, bool first)
{
    if (!first)
        buf_putc(out, ',');
    if (name) {
        put_number(out, name);
        buf_putc(out, ':');
    }
    put_number(out, offset);
}

uint32_t position_name(const char *part)
{
    uint32_t hash = UINT32_C(2166136261);
    for (; *part; part++)
        hash = (hash ^ (unsigned char)*part) * UINT32_C(16777619);
    return hash ? hash : 1;
}
