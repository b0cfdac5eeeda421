/* SPDX-License-Identifier: Apache-2.0 */
/* Single values as text, as a person expects them from a debugger. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "symbols/layout/internal.h"

uint64_t layout_unsigned(const uint8_t *bytes, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, bytes, size < 8 ? size : 8);
    return value;
}

static int64_t layout_signed(const uint8_t *bytes, size_t size)
{
    uint64_t value = layout_unsigned(bytes, size);
    if (size < 8 && value >> (size * 8 - 1) & 1)
        value |= ~UINT64_C(0) << size * 8;
    return (int64_t)value;
}

/* Escapes are C's; bytes that are not UTF-8, or would not be seen, are shown in octal, as gdb does. */
static bool put_escape(struct buf *out, uint32_t c, char quote)
{
    static const char from[] = "\a\b\t\n\v\f\r\033", to[] = "abtnvfre";
    const char *known = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (known)
        buf_printf(out, "\\%c", to[known - from]);
    else if (c == (uint32_t)(unsigned char)quote || c == '\\')
        buf_printf(out, "\\%c", (char)c);
    else if (c < 0x20 || c == 0x7f)
        buf_printf(out, "\\%03o", c);
    else
        return false;
    return true;
}

void layout_put_text(struct buf *out, const void *bytes, size_t size, bool cut)
{
    const uint8_t *p = bytes;
    buf_putc(out, '"');
    for (size_t i = 0; i < size;) {
        size_t n = utf8_length(p + i, size - i);
        for (size_t k = 0; n > 1 && utf8_starts_control(p + i, n) && k < n; k++)
            buf_printf(out, "\\%03o", p[i + k]);
        if (n == 0 && !(cut && size - i < 4 && p[i] >= 0xc2)) /* half a character at the cut is left out */
            buf_printf(out, "\\%03o", p[i]);
        else if (n > 1 && !utf8_starts_control(p + i, n))
            buf_append(out, p + i, n);
        else if (n == 1 && !put_escape(out, p[i], '"'))
            buf_putc(out, (char)p[i]);
        i += n ? n : 1;
    }
    buf_puts(out, cut ? "\"..." : "\"");
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

void layout_put_char(struct buf *out, uint32_t c, unsigned size)
{
    char text[4];
    buf_putc(out, '\'');
    if (put_escape(out, c, '\''))
        ;
    else if (size == 1 && c >= 0x80)
        buf_printf(out, "\\%03o", c & 0xff);
    else if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || utf8_is_control(c))
        buf_printf(out, "\\x%x", c);
    else
        buf_append(out, text, put_utf8(text, c));
    buf_putc(out, '\'');
}

void layout_put_integer(struct buf *out, const uint8_t *bytes, size_t size, bool is_signed)
{
    if (size <= 8) {
        if (is_signed)
            buf_printf(out, "%" PRId64, layout_signed(bytes, size));
        else
            buf_printf(out, "%" PRIu64, layout_unsigned(bytes, size));
        return;
    }
    unsigned __int128 value;
    memcpy(&value, bytes, 16);
    bool negative = is_signed && value >> 127;
    if (negative)
        value = 0 - value;
    char digits[48];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value);
    if (negative)
        digits[--at] = '-';
    buf_append(out, digits + at, sizeof digits - at);
}

/* The fewest digits that read back as the same number. */
void layout_put_float(struct buf *out, const uint8_t *bytes, size_t size)
{
    char text[64] = "";
    long double wide = 0;
    if (size == 4) {
        float value;
        memcpy(&value, bytes, 4);
        wide = value;
        for (int digits = 6; digits <= 9; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, (double)value);
            if (strtof(text, NULL) == value)
                break;
        }
    } else if (size == 8) {
        double value;
        memcpy(&value, bytes, 8);
        wide = value;
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value)
                break;
        }
    } else {
        uint64_t mantissa = layout_unsigned(bytes, 8), exponent = layout_unsigned(bytes + 8, 2) & 0x7fff;
        if ((exponent != 0) != (mantissa >> 63 != 0)) { /* the processor has no such number */
            buf_printf(out, "<no number: 0x%04" PRIx64 "%016" PRIx64 ">", layout_unsigned(bytes + 8, 2), mantissa);
            return;
        }
        memcpy(&wide, bytes, 16);
        for (int digits = 18; digits <= 21; digits++) {
            snprintf(text, sizeof text, "%.*Lg", digits, wide);
            if (strtold(text, NULL) == wide)
                break;
        }
    }
    if (isnan(wide))
        buf_puts(out, signbit(wide) ? "-nan" : "nan");
    else
        buf_puts(out, text);
}

/* gdb's rule: a value that is no enumerator is a sum of flags if all enumerators are such. */
static bool put_flags(struct buf *out, const struct layout_type *type, uint64_t value)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < type->name_count; i++) {
        uint64_t flag = (uint64_t)type->names[i].value;
        if (flag == 0)
            continue;
        if (flag & (flag - 1) || (type->size < 8 && flag >> type->size * 8))
            return false;
        seen |= flag;
    }
    if (!(value & seen))
        return false;
    const char *between = "";
    for (size_t i = 0; i < type->name_count; i++) {
        uint64_t flag = (uint64_t)type->names[i].value;
        if (flag == 0 || !(value & flag))
            continue;
        buf_printf(out, "%s%s", between, type->names[i].name);
        between = "|";
        value &= ~flag;
    }
    if (value)
        buf_printf(out, "|0x%" PRIx64, value);
    return true;
}

void layout_put_enum(struct buf *out, const struct layout_type *type, const uint8_t *bytes)
{
    int64_t value = type->flagged ? (int64_t)layout_unsigned(bytes, type->size) : layout_signed(bytes, type->size);
    for (size_t i = 0; i < type->name_count; i++)
        if (type->names[i].value == value) {
            buf_puts(out, type->names[i].name);
            return;
        }
    if (!put_flags(out, type, layout_unsigned(bytes, type->size)))
        layout_put_integer(out, bytes, type->size, !type->flagged);
}
