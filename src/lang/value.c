/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, copies and prints values, but for floats (floating.c). */
#include "lang/value.h"

struct value value_int(int64_t number)
{
    return (struct value){.kind = VALUE_INTEGER, .integer = {.bits = (uint64_t)number, .negative = number < 0}};
}

struct value value_uint(uint64_t number)
{
    return (struct value){.kind = VALUE_INTEGER, .integer = {.bits = number}};
}

struct value value_floating(double number)
{
    return (struct value){.kind = VALUE_FLOATING, .floating = {.number = number, .wide = number}};
}

struct value value_wide(long double number)
{
    return (struct value){.kind = VALUE_FLOATING,
                          .floating = {.wide = number, .number = (double)number, .is_wide = true}};
}

static struct value text_value(enum value_kind kind, struct span text)
{
    return (struct value){.kind = kind, .text = text};
}

struct value value_string(struct span text)
{
    return text_value(VALUE_STRING, text);
}

struct value value_token(struct span text)
{
    return text_value(VALUE_TOKEN, text);
}

struct value value_binary(struct span bytes)
{
    return text_value(VALUE_BINARY, bytes);
}

struct value value_list(const struct value *items, size_t count)
{
    return (struct value){.kind = VALUE_LIST, .list = {.items = items, .count = count}};
}

const char *value_kind_name(enum value_kind kind)
{
    static const char *const names[] = {
        "integer", "floating", "string", "token", "binary", "list", "event context parameter"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

void value_print_uint(struct buf *out, uint64_t number)
{
    char digits[20];
    char *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    buf_append(out, at, (size_t)(digits + sizeof digits - at));
}

void value_print_int(struct buf *out, int64_t number)
{
    if (number < 0) {
        buf_putc(out, '-');
        value_print_uint(out, -(uint64_t)number);
    } else {
        value_print_uint(out, (uint64_t)number);
    }
}

/* The letter of a two-character escape, or 0. */
static char escape_letter(unsigned char c)
{
    switch (c) {
    case '\a':
        return 'a';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\v':
        return 'v';
    case '"':
    case '\\':
        return (char)c;
    default:
        return 0;
    }
}

void value_print_string(struct buf *out, struct span text)
{
    const unsigned char *bytes = (const unsigned char *)text.ptr;
    size_t plain = 0; /* start of what needs no escape and is not printed yet */
    buf_putc(out, '"');
    for (size_t i = 0; i < text.len;) {
        unsigned char c = bytes[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            i++;
            continue;
        }
        size_t multi = c >= 0x80 ? utf8_length(bytes + i, text.len - i) : 0;
        if (multi && utf8_character(bytes + i, multi) >= 0xa0) { /* some terminals obey U+0080 to U+009F */
            i += multi;
            continue;
        }
        buf_append(out, text.ptr + plain, i - plain);
        /* octal with three digits: unlike \x it ends by itself, whatever follows */
        char escape[4] = {'\\', (char)('0' + (c >> 6)), (char)('0' + (c >> 3 & 7)), (char)('0' + (c & 7))};
        char letter = escape_letter(c);
        if (letter)
            escape[1] = letter;
        buf_append(out, escape, letter ? 2 : 4);
        plain = ++i;
    }
    if (text.len)
        buf_append(out, text.ptr + plain, text.len - plain);
    buf_putc(out, '"');
}

void value_print_binary(struct buf *out, struct span bytes)
{
    value_print_uint(out, bytes.len);
    buf_putc(out, '#');
    buf_append(out, bytes.ptr, bytes.len);
}

static void print_list(struct buf *out, const struct value *items, size_t count)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_putc(out, ',');
        value_print(out, &items[i]);
    }
    buf_putc(out, ']');
}

void value_print(struct buf *out, const struct value *value)
{
    switch (value->kind) {
    case VALUE_INTEGER:
        if (value->integer.negative)
            value_print_int(out, (int64_t)value->integer.bits);
        else
            value_print_uint(out, value->integer.bits);
        break;
    case VALUE_FLOATING:
        if (value->floating.is_wide)
            value_print_wide(out, value->floating.wide);
        else
            value_print_floating(out, value->floating.number);
        break;
    case VALUE_STRING:
        value_print_string(out, value->text);
        break;
    case VALUE_PARAM:
        buf_putc(out, '$');
        buf_append(out, value->text.ptr, value->text.len);
        break;
    case VALUE_TOKEN:
        buf_append(out, value->text.ptr, value->text.len);
        break;
    case VALUE_BINARY:
        value_print_binary(out, value->text);
        break;
    case VALUE_LIST:
        print_list(out, value->list.items, value->list.count);
        break;
    }
}

bool value_copy(struct arena *arena, const struct value *from, struct value *ret_copy)
{
    struct value copy = *from;
    if (from->kind == VALUE_LIST) {
        struct value *items = from->list.count ? arena_zalloc(arena, from->list.count, sizeof *items) : NULL;
        if (from->list.count && !items)
            return false;
        for (size_t i = 0; i < from->list.count; i++)
            if (!value_copy(arena, &from->list.items[i], &items[i]))
                return false;
        copy.list.items = items;
    } else if (from->kind != VALUE_INTEGER && from->kind != VALUE_FLOATING) {
        copy.text = arena_span(arena, from->text);
        if (!copy.text.ptr)
            return false;
    }
    *ret_copy = copy;
    return true;
}
