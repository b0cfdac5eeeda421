/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/layout/layout.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "symbols/layout/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_LIMIT = 1 << 20 };

/* Behind a quoted string that begins at `text`, or at its end. */
static const char *quoted_end(const char *text)
{
    for (text++; *text && *text != '"'; text++)
        if (*text == '\\' && text[1])
            text++;
    return *text ? text + 1 : text;
}

/* The next of these characters that is not in a quoted string; the end. */
static const char *find_outside(const char *text, char a, char b)
{
    while (*text && *text != a && *text != b)
        text = *text == '"' ? quoted_end(text) : text + 1;
    return text;
}

const char *layout_group(const char *text)
{
    text = find_outside(text, '{', '{');
    return *text ? text : NULL;
}

const char *layout_ref(const char *text)
{
    text = find_outside(text, '@', '@');
    return *text ? text : NULL;
}

const char *layout_group_end(const char *text)
{
    unsigned depth = 0;
    for (; *(text = find_outside(text, '{', '}')); text++) {
        depth += *text == '{' ? 1 : -1U;
        if (depth == 0)
            return text + 1;
    }
    return NULL;
}

int layout_expand(const char *text, uint32_t id, layout_text_fn *find, void *ctx, struct buf *out)
{
    size_t begin = out->len;
    for (;;) {
        const char *at = find_outside(text, '@', '@');
        buf_append(out, text, (size_t)(at - text));
        if (!*at)
            return out->failed ? -ENOMEM : 0;
        char *end;
        unsigned long before = at[1] >= '1' && at[1] <= '9' ? strtoul(at + 1, &end, 10) : 0;
        const char *part = before && before <= id && *end == ';' ? find(ctx, id - (uint32_t)before) : NULL;
        if (!part || !layout_is_part(part) || out->len - begin + strlen(part) > TEXT_LIMIT)
            return -EBADMSG;
        buf_puts(out, part);
        text = end + 1;
    }
}

/*
 * Reading the text of a layout. Its grammar, without blanks but one between parts:
 *
 *     layout:  part (' ' part)*          in the order args, locals, caller, result, statics
 *     part:    ROLE [quoted string] '(' [field (',' field)*] ')'      the string is the function it is of
 *     field:   [name] ':' type
 *     name:    letters, digits and _ $ ~ < > . or a quoted string
 *     type:    shape [quoted string]     the string is the type's name, for people
 *     shape:
 *       i N  u N         signed, unsigned integer of N bytes (1, 2, 4, 8, 16)
 *       c N  C N         character, of a signed or unsigned type (1, 2, 4)
 *       b N              truth value
 *       f N              float: 4, 8, or 16 for the x87's long double
 *       z N              two floats of N: complex
 *       e N  E N         enumeration of a signed or unsigned type: '{' [name '=' value (',' name '=' value)*] '}'
 *       p   x            pointer to data, to code: 8 bytes
 *       g                std::function: pointer to the code that calls its target, the target's first 8 bytes
 *       * type           pointer that was followed: 8 bytes, status, what it points to
 *       & type           reference: the same
 *       s                C string: pointer, status, u16 length, bytes
 *       S                counted string: status, u32 length in all, u16 length shown, bytes
 *       a N / T type     N elements of an array that has T
 *       t N / T          N bytes of an array of T char
 *       v type           vector: status, u32 count in all, u16 count shown, elements
 *       { fields }       struct, in the order of its members (a base class is a field whose name is in < >)
 *       | { fields }     union: all its members, one after the other
 *       m { fields }     entry of a map: key and value
 *       ^ name { fields } at most one of its fields, all of them `?`, is there; the name says what it is without any
 *       r N              N bytes
 *       ? type           status, and the type if it could be read
 *       o   n   k   w    nothing: optimised out, not available, no room for it, an array whose size nobody knows
 *       y                a byte that is not shown
 *
 * A status byte is enum capture_status; what it announces follows after CAPTURE_OK and CAPTURE_PART.
 */

enum {
    NEST_LIMIT = 64,
    COUNT_LIMIT = 65535,
};

const char *const layout_part_names[LAYOUT_PARTS] = {"args", "locals", "caller", "result", "statics"};

struct reader {
    const char *text, *at;
    struct arena *arena;
    struct err *err;
    unsigned nest;
};

static int reader_fail(struct reader *reader, const char *what)
{
    return err_set(reader->err, -EBADMSG, "layout: %s at character %zu", what, (size_t)(reader->at - reader->text) + 1);
}

static bool reader_take(struct reader *reader, char c)
{
    if (*reader->at != c)
        return false;
    reader->at++;
    return true;
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_$~<>.", c));
}

static int read_quoted(struct reader *reader, const char **ret_text)
{
    const char *begin = ++reader->at;
    size_t len = strcspn(begin, "\"");
    for (const char *p = begin; *p && *p != '"'; p++) { /* with what is escaped */
        if (*p == '\\' && p[1])
            p++;
        len = (size_t)(p + 1 - begin);
    }
    if (begin[len] != '"')
        return reader_fail(reader, "a string without its end");
    char *text = arena_alloc(reader->arena, len + 1);
    if (!text)
        return -ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (begin[i] == '\\' && i + 1 < len)
            i++;
        text[n++] = begin[i];
    }
    text[n] = 0;
    reader->at = begin + len + 1;
    *ret_text = text;
    return 0;
}

static int read_name(struct reader *reader, const char **ret_name)
{
    if (*reader->at == '"')
        return read_quoted(reader, ret_name);
    size_t len = 0;
    while (name_char(reader->at[len]))
        len++;
    *ret_name = arena_dup(reader->arena, reader->at, len);
    reader->at += len;
    return *ret_name ? 0 : -ENOMEM;
}

static int read_number(struct reader *reader, uint64_t limit, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (*reader->at < '0' || *reader->at > '9')
        return reader_fail(reader, "no number");
    while (*reader->at >= '0' && *reader->at <= '9') {
        unsigned digit = (unsigned)(*reader->at - '0');
        if (number > (limit - digit) / 10)
            return reader_fail(reader, "a number that is too large");
        number = number * 10 + digit;
        reader->at++;
    }
    *ret_number = number;
    return 0;
}

/* The size of a number, which must be one of `sizes`. */
static int read_size(struct reader *reader, const char *sizes, struct layout_type *type)
{
    uint64_t size;
    int r = read_number(reader, 16, &size);
    if (r < 0)
        return r;
    for (const char *p = sizes; *p; p++)
        if ((uint64_t)(unsigned char)*p == size) {
            type->size = (uint16_t)size;
            type->least = type->kind == LAYOUT_COMPLEX ? 2 * (size_t)size : (size_t)size;
            return 0;
        }
    return reader_fail(reader, "a size that there is not");
}

/* A growing array in the arena. */
static void *array_grown(struct arena *arena, void *items, size_t count, size_t size)
{
    if (count & (count - 1) || (count != 0 && count < 4))
        return items;
    void *more = arena_alloc(arena, (count ? 2 * count : 4) * size);
    if (more && count)
        memcpy(more, items, count * size);
    return more;
}

static int read_enumerators(struct reader *reader, struct layout_type *type)
{
    struct layout_enumerator *names = NULL;
    size_t count = 0;
    if (!reader_take(reader, '{'))
        return reader_fail(reader, "no {");
    while (!reader_take(reader, '}')) {
        if (count > 0 && !reader_take(reader, ','))
            return reader_fail(reader, "no comma");
        names = array_grown(reader->arena, names, count, sizeof *names);
        if (!names)
            return -ENOMEM;
        int r = read_name(reader, &names[count].name);
        if (r < 0)
            return r;
        if (!reader_take(reader, '='))
            return reader_fail(reader, "no =");
        bool negative = reader_take(reader, '-');
        uint64_t value;
        r = read_number(reader, UINT64_MAX, &value);
        if (r < 0)
            return r;
        names[count++].value = (int64_t)(negative ? 0 - value : value);
    }
    type->names = names;
    type->name_count = count;
    return 0;
}

static int read_type(struct reader *reader, const struct layout_type **ret_type);

/* Fields up to the closing character. */
static int read_fields(struct reader *reader, char close, struct layout_type *type)
{
    struct layout_field *fields = NULL;
    size_t count = 0;
    type->least = 0;
    while (!reader_take(reader, close)) {
        if (count > 0 && !reader_take(reader, ','))
            return reader_fail(reader, "no comma");
        fields = array_grown(reader->arena, fields, count, sizeof *fields);
        if (!fields)
            return -ENOMEM;
        int r = read_name(reader, &fields[count].name);
        if (r == 0 && !reader_take(reader, ':'))
            r = reader_fail(reader, "no colon");
        if (r == 0)
            r = read_type(reader, &fields[count].type);
        if (r < 0)
            return r;
        type->least += fields[count++].type->least;
    }
    type->fields = fields;
    type->field_count = count;
    return 0;
}

static int read_counts(struct reader *reader, struct layout_type *type)
{
    uint64_t count;
    int r = read_number(reader, COUNT_LIMIT, &count);
    if (r < 0)
        return r;
    type->count = (uint32_t)count;
    if (!reader_take(reader, '/'))
        return reader_fail(reader, "no /");
    return read_number(reader, UINT64_MAX, &type->total);
}

static int read_inner(struct reader *reader, struct layout_type *type, size_t head)
{
    int r = read_type(reader, &type->inner);
    type->least = head;
    return r;
}

static int read_array(struct reader *reader, struct layout_type *type)
{
    int r = read_counts(reader, type);
    if (r == 0)
        r = read_type(reader, &type->inner);
    if (r < 0)
        return r;
    if (type->count > 0 && type->inner->least == 0)
        return reader_fail(reader, "elements without size");
    if (type->count > 0 && type->inner->least > TEXT_LIMIT / type->count)
        return reader_fail(reader, "an array that is too large");
    type->least = type->count * type->inner->least;
    return 0;
}

static int read_choice(struct reader *reader, struct layout_type *type)
{
    int r = read_name(reader, &type->none);
    if (r == 0)
        r = reader_take(reader, '{') ? read_fields(reader, '}', type) : reader_fail(reader, "no {");
    for (size_t i = 0; i < type->field_count && r == 0; i++)
        if (type->fields[i].type->kind != LAYOUT_CHECKED)
            r = reader_fail(reader, "an alternative without a status");
    return r;
}

static const struct {
    char letter;
    enum layout_kind kind;
    bool flagged;
    const char *sizes; /* NULL: not followed by one */
    unsigned char least;
} shapes[] = {
    {'i', LAYOUT_SIGNED, false, "\1\2\4\10\20", 0},
    {'u', LAYOUT_UNSIGNED, false, "\1\2\4\10\20", 0},
    {'c', LAYOUT_CHAR, false, "\1\2\4", 0},
    {'C', LAYOUT_CHAR, true, "\1\2\4", 0},
    {'b', LAYOUT_BOOL, false, "\1\2\4\10", 0},
    {'f', LAYOUT_FLOAT, false, "\4\10\20", 0},
    {'z', LAYOUT_COMPLEX, false, "\4\10\20", 0},
    {'e', LAYOUT_ENUM, false, "\1\2\4\10", 0},
    {'E', LAYOUT_ENUM, true, "\1\2\4\10", 0},
    {'p', LAYOUT_POINTER, false, NULL, 8},
    {'x', LAYOUT_CODE_POINTER, false, NULL, 8},
    {'g', LAYOUT_CALLABLE, false, NULL, 16},
    {'*', LAYOUT_FOLLOWED, false, NULL, 9},
    {'&', LAYOUT_REFERENCE, false, NULL, 9},
    {'s', LAYOUT_STRING, false, NULL, 9},
    {'S', LAYOUT_BYTES, false, NULL, 1},
    {'a', LAYOUT_ARRAY, false, NULL, 0},
    {'t', LAYOUT_TEXT, false, NULL, 0},
    {'v', LAYOUT_VECTOR, false, NULL, 1},
    {'{', LAYOUT_STRUCT, false, NULL, 0},
    {'|', LAYOUT_UNION, false, NULL, 0},
    {'m', LAYOUT_ENTRY, false, NULL, 0},
    {'^', LAYOUT_CHOICE, false, NULL, 0},
    {'r', LAYOUT_RAW, false, NULL, 0},
    {'o', LAYOUT_OPTIMISED_OUT, false, NULL, 0},
    {'n', LAYOUT_NOT_AVAILABLE, false, NULL, 0},
    {'k', LAYOUT_NO_ROOM, false, NULL, 0},
    {'w', LAYOUT_UNSIZED, false, NULL, 0},
    {'?', LAYOUT_CHECKED, false, NULL, 1},
    {'y', LAYOUT_PAD, false, NULL, 1},
};

/* What follows the letter of a type that has no size. */
static int read_rest(struct reader *reader, struct layout_type *type)
{
    uint64_t number = 0;
    int r;
    switch (type->kind) {
    case LAYOUT_FOLLOWED:
    case LAYOUT_REFERENCE:
    case LAYOUT_CHECKED:
        return read_inner(reader, type, type->least);
    case LAYOUT_VECTOR:
        r = read_inner(reader, type, type->least);
        return r == 0 && type->inner->least == 0 ? reader_fail(reader, "elements without size") : r;
    case LAYOUT_ARRAY:
        return read_array(reader, type);
    case LAYOUT_TEXT:
        r = read_counts(reader, type);
        type->least = type->count;
        return r;
    case LAYOUT_RAW:
        r = read_number(reader, COUNT_LIMIT, &number);
        type->size = (uint16_t)number;
        type->least = (size_t)number;
        return r;
    case LAYOUT_CHOICE:
        return read_choice(reader, type);
    case LAYOUT_UNION:
    case LAYOUT_ENTRY:
        if (!reader_take(reader, '{'))
            return reader_fail(reader, "no {");
        r = read_fields(reader, '}', type);
        return r == 0 && type->kind == LAYOUT_ENTRY && type->field_count != 2 ? reader_fail(reader, "no key and value")
                                                                              : r;
    case LAYOUT_STRUCT:
        return read_fields(reader, '}', type);
    default:
        return 0;
    }
}

static int read_shape(struct reader *reader, struct layout_type *type)
{
    size_t i = 0;
    while (i < sizeof shapes / sizeof shapes[0] && shapes[i].letter != *reader->at)
        i++;
    if (i == sizeof shapes / sizeof shapes[0])
        return reader_fail(reader, "no type");
    reader->at++;
    type->kind = shapes[i].kind;
    type->flagged = shapes[i].flagged;
    type->least = shapes[i].least;
    if (shapes[i].sizes) {
        int r = read_size(reader, shapes[i].sizes, type);
        return r == 0 && type->kind == LAYOUT_ENUM ? read_enumerators(reader, type) : r;
    }
    return read_rest(reader, type);
}

static int read_type(struct reader *reader, const struct layout_type **ret_type)
{
    struct layout_type *type = arena_zalloc(reader->arena, 1, sizeof *type);
    if (!type)
        return -ENOMEM;
    if (++reader->nest > NEST_LIMIT)
        return reader_fail(reader, "types too deep inside each other");
    int r = read_shape(reader, type);
    if (r == 0 && *reader->at == '"')
        r = read_quoted(reader, &type->name);
    if (r == 0 && type->least > TEXT_LIMIT)
        r = reader_fail(reader, "a type that is too large");
    reader->nest--;
    *ret_type = type;
    return r;
}

static int read_parts(struct reader *reader, struct layout *layout)
{
    for (unsigned next = 0; *reader->at;) {
        if (next > 0 && !reader_take(reader, ' '))
            return reader_fail(reader, "no blank between parts");
        size_t len = strcspn(reader->at, "(\"");
        while (next < LAYOUT_PARTS &&
               (strlen(layout_part_names[next]) != len || memcmp(layout_part_names[next], reader->at, len) != 0))
            next++;
        if (next == LAYOUT_PARTS || !reader->at[len])
            return reader_fail(reader, "no part, or not in order");
        reader->at += len;
        layout->parts[next].kind = LAYOUT_STRUCT;
        int r = *reader->at == '"' ? read_quoted(reader, &layout->parts[next].name) : 0;
        if (r == 0 && !reader_take(reader, '('))
            r = reader_fail(reader, "no (");
        if (r == 0)
            r = read_fields(reader, ')', &layout->parts[next]);
        if (r < 0)
            return r;
        layout->has[next++] = true;
    }
    return 0;
}

int layout_parse(struct layout **ret_layout, const char *text, struct err *err)
{
    struct layout *layout = calloc(1, sizeof *layout);
    if (!layout)
        return err_set(err, -ENOMEM, "out of memory for a layout");
    if (strnlen(text, TEXT_LIMIT + 1) > TEXT_LIMIT) {
        layout_free(layout);
        return err_set(err, -EBADMSG, "layout: longer than %d bytes", TEXT_LIMIT);
    }
    struct reader reader = {.text = text, .at = text, .arena = &layout->arena, .err = err};
    int r = read_parts(&reader, layout);
    if (r < 0) {
        layout_free(layout);
        return r == -ENOMEM ? err_set(err, r, "out of memory for a layout") : r;
    }
    *ret_layout = layout;
    return 0;
}

void layout_free(struct layout *layout)
{
    if (!layout)
        return;
    arena_done(&layout->arena);
    free(layout);
}

bool layout_has(const struct layout *layout, enum layout_part part)
{
    return layout->has[part];
}

const char *layout_function(const struct layout *layout, enum layout_part part)
{
    return layout->parts[part].name;
}

static bool is_plain_number(const struct layout_type *type)
{
    switch (type->kind) {
    case LAYOUT_SIGNED:
    case LAYOUT_UNSIGNED:
    case LAYOUT_CHAR:
    case LAYOUT_BOOL:
    case LAYOUT_ENUM:
        return type->size <= 8;
    case LAYOUT_POINTER:
    case LAYOUT_CODE_POINTER:
        return true;
    default:
        return false;
    }
}

bool layout_find(const struct layout *layout, enum layout_part part, const char *name, size_t *ret_at, size_t *ret_size)
{
    const struct layout_type *fields = &layout->parts[part];
    size_t at = 0;
    for (unsigned before = 0; before < part; before++)
        if (layout->has[before])
            return false;
    for (size_t i = 0; i < fields->field_count && is_plain_number(fields->fields[i].type); i++) {
        const struct layout_type *type = fields->fields[i].type;
        bool pointer = type->kind == LAYOUT_POINTER || type->kind == LAYOUT_CODE_POINTER;
        size_t size = pointer ? 8 : type->size;
        if (strcmp(fields->fields[i].name, name) == 0) {
            *ret_at = at;
            *ret_size = size;
            return true;
        }
        at += size;
    }
    return false;
}

/* Single values as text, as a person expects them from a debugger. */

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
