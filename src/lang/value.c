/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/value.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The x87 format: 64 bits of significand with an explicit integer bit, 15 bits of exponent, a sign. */
#define HAS_X87 (LDBL_MANT_DIG == 64)

enum { DIGITS_SIZE = LDBL_DECIMAL_DIG + 4, TEXT_SIZE = DIGITS_SIZE + 32 };

/* 0.d1d2d3... times 10^(exponent + 1): digits without a point, the first of them nonzero */
struct decimal {
    char digits[DIGITS_SIZE];
    int count;
    int exponent; /* of the first digit */
};

/* ---- printing ---- */

/*
 * Rounds to `count` digits. The C library rounds correctly, but writes the locale's decimal point: only digits are
 * taken from what it prints.
 */
static void decimal_round(struct decimal *decimal, long double number, int count)
{
    char text[TEXT_SIZE];
    snprintf(text, sizeof text, "%.*Le", count - 1, number);
    decimal->count = 0;
    const char *at = text;
    for (; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9' && decimal->count < count)
            decimal->digits[decimal->count++] = *at;
    decimal->exponent = *at == 'e' ? atoi(at + 1) : 0;
}

/* Adds one in the last place. */
static void decimal_increment(struct decimal *decimal)
{
    int i = decimal->count - 1;
    while (i >= 0 && decimal->digits[i] == '9')
        decimal->digits[i--] = '0';
    if (i >= 0) {
        decimal->digits[i]++;
    } else {
        decimal->digits[0] = '1';
        decimal->exponent++;
    }
}

static bool decimal_reads_back(const struct decimal *decimal, long double number, bool wide)
{
    char text[TEXT_SIZE]; /* an integer with an exponent has no decimal point that a locale could change */
    snprintf(text, sizeof text, "%.*se%d", decimal->count, decimal->digits, decimal->exponent - decimal->count + 1);
    return (wide ? strtold(text, NULL) : (long double)strtod(text, NULL)) == number;
}

/* Of a positive number. frexpl alone would have each monitor load libm. */
static bool is_power_of_two(long double number)
{
    uint64_t significand;
    int unused;
    memcpy(&significand, &number, sizeof significand);
    return HAS_X87 ? (significand & (significand - 1)) == 0 : frexpl(number, &unused) == 0.5L;
}

/*
 * The shortest decimal that reads back as number, which is positive and finite. Every decimal of at most DBL_DIG
 * (LDBL_DIG) digits survives being stored in a normal number, so if one of that length or shorter reads back it is what
 * rounding gives, with zeros at the end. Subnormal numbers have fewer digits. Above a power of two the next number is
 * twice as far away as below, so there the decimal that reads back may be the one above the nearest.
 */
static void decimal_shortest(struct decimal *decimal, long double number, bool wide)
{
    bool normal = number >= (wide ? LDBL_MIN : (long double)DBL_MIN);
    int count = !normal ? 1 : wide ? LDBL_DIG : DBL_DIG, most = wide ? LDBL_DECIMAL_DIG : DBL_DECIMAL_DIG;
    bool power = is_power_of_two(number);
    for (; count <= most; count++) {
        decimal_round(decimal, number, count);
        if (decimal_reads_back(decimal, number, wide))
            break;
        if (power) {
            struct decimal above = *decimal;
            decimal_increment(&above);
            if (decimal_reads_back(&above, number, wide)) {
                *decimal = above;
                break;
            }
        }
    }
    while (decimal->count > 1 && decimal->digits[decimal->count - 1] == '0')
        decimal->count--;
}

static void put_zeros(struct buf *out, int count)
{
    for (; count > 0; count--)
        buf_putc(out, '0');
}

/* 0.0001 to 9999999999999999.0 in full, all else with an exponent. */
static void decimal_print(struct buf *out, const struct decimal *decimal)
{
    int count = decimal->count, exponent = decimal->exponent;
    if (exponent < -4 || exponent >= 16) {
        buf_append(out, decimal->digits, 1);
        if (count > 1) {
            buf_putc(out, '.');
            buf_append(out, decimal->digits + 1, (size_t)count - 1);
        }
        buf_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        buf_puts(out, "0.");
        put_zeros(out, -exponent - 1);
        buf_append(out, decimal->digits, (size_t)count);
    } else {
        int whole = exponent + 1;
        buf_append(out, decimal->digits, (size_t)(count < whole ? count : whole));
        put_zeros(out, whole - count);
        buf_putc(out, '.');
        if (count > whole)
            buf_append(out, decimal->digits + whole, (size_t)(count - whole));
        else
            buf_putc(out, '0');
    }
}

/*
 * Most floats that occur are whole or have a few decimals. number = whole / scale, both exact, is rounded correctly and
 * so is what reading the decimal gives; with at most 15 digits it is the shortest.
 */
static bool print_simple(struct buf *out, double number)
{
    static const struct {
        double scale;
        unsigned places;
    } scales[] = {{1, 0}, {1e3, 3}, {1e6, 6}, {1e9, 9}};
    if (number != 0 && (number < 1e-4 || number >= 1e15))
        return false;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        double scaled = number * scales[i].scale;
        if (scaled >= 1e15)
            return false;
        uint64_t whole = (uint64_t)(scaled + 0.5);
        if ((double)whole / scales[i].scale != number)
            continue;
        char decimals[9];
        unsigned places = scales[i].places, used = 0;
        for (unsigned at = places; at-- > 0; whole /= 10) {
            decimals[at] = (char)('0' + whole % 10);
            if (decimals[at] != '0' && !used)
                used = at + 1;
        }
        value_print_uint(out, whole);
        buf_putc(out, '.');
        if (used)
            buf_append(out, decimals, used);
        else
            buf_putc(out, '0');
        return true;
    }
    return false;
}

void value_print_floating(struct buf *out, double number)
{
    if (isnan(number)) {
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        buf_printf(out, "nan:0x%016" PRIx64, bits);
        return;
    }
    if (signbit(number))
        buf_putc(out, '-');
    number = fabs(number);
    if (isinf(number)) {
        buf_puts(out, "inf");
    } else if (!print_simple(out, number)) {
        struct decimal decimal;
        decimal_shortest(&decimal, number, false);
        decimal_print(out, &decimal);
    }
}

static void print_wide_nan(struct buf *out, long double number)
{
#if HAS_X87
    uint64_t significand;
    uint16_t exponent;
    memcpy(&significand, &number, sizeof significand);
    memcpy(&exponent, (const char *)&number + sizeof significand, sizeof exponent);
    buf_printf(out, "nan:0x%04x%016" PRIx64, exponent, significand);
#else
    value_print_floating(out, (double)number);
#endif
}

static void value_print_wide(struct buf *out, long double number)
{
    if (isnan(number)) { /* also what the x87 does not support: pseudo-NaNs, unnormal numbers */
        print_wide_nan(out, number);
        return;
    }
    if (signbit(number))
        buf_putc(out, '-');
    number = fabsl(number);
    if (isinf(number)) {
        buf_puts(out, "inf");
    } else if (number == 0) {
        buf_puts(out, "0.0");
    } else {
        struct decimal decimal;
        decimal_shortest(&decimal, number, true);
        decimal_print(out, &decimal);
    }
}

/* ---- reading ---- */

/* A literal taken apart: [sign] digits * 10^exponent, or hexadecimal digits * 2^exponent. */
struct literal {
    bool negative, hex;
    int exponent;
    unsigned significant;              /* digits from the first nonzero one on */
    uint64_t mantissa;                 /* the digits, if at most 18 are significant */
    char digits[FLOAT_SIZE_LIMIT + 1]; /* the digits, point left out */
    size_t count;
};

static void literal_scan(struct literal *literal, struct span text)
{
    const char *at = text.ptr, *end = at + text.len;
    literal->negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    literal->hex = end - at > 1 && at[0] == '0' && (at[1] | 0x20) == 'x';
    if (literal->hex)
        at += 2;
    literal->count = literal->significant = 0;
    literal->mantissa = 0;
    int fraction = 0;
    bool point = false;
    for (; at < end && (*at | 0x20) != (literal->hex ? 'p' : 'e'); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        fraction += point;
        if (literal->significant || *at != '0')
            literal->significant++;
        if (literal->significant <= 18) /* meaningless, and not used, for hexadecimal digits */
            literal->mantissa = literal->mantissa * 10 + (uint64_t)(*at & 0xf);
        if (literal->count < FLOAT_SIZE_LIMIT)
            literal->digits[literal->count++] = *at;
    }
    literal->digits[literal->count] = 0;
    int exponent = 0;
    if (at < end) {
        at++;
        bool minus = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+'))
            at++;
        for (; at < end; at++)
            if (exponent < 1000000) /* beyond every format, and FLOAT_SIZE_LIMIT digits do not bring it back */
                exponent = exponent * 10 + (*at - '0');
        if (minus)
            exponent = -exponent;
    }
    literal->exponent = exponent - (literal->hex ? 4 * fraction : fraction);
}

/* Quotient or product of two exact numbers, correctly rounded. False: not exact. */
static bool read_simple(const struct literal *literal, struct value *value)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int exponent = literal->exponent;
    if (FLT_EVAL_METHOD != 0 || literal->hex || literal->significant > DBL_DIG || exponent < -22 || exponent > 22)
        return false;
    double power = powers[abs(exponent)], mantissa = (double)literal->mantissa;
    value->floating.number = exponent < 0 ? mantissa / power : mantissa * power;
    value->floating.wide = exponent < 0 ? (long double)mantissa / power : (long double)mantissa * power;
    return true;
}

/* Does the value need more than a double? This is decided by its shortest form, not by the spelling of the literal, so
 * that the canonical form is read as it was printed. number and wide are not negative. */
static bool needs_wide(const struct literal *literal, double number, long double wide)
{
    if (LDBL_MANT_DIG == DBL_MANT_DIG || wide == 0)
        return false;
    if (isinf(number) || number == 0)
        return true;
    if (literal->hex ? wide == number : literal->significant <= DBL_DECIMAL_DIG)
        return false;
    struct decimal decimal;
    decimal_shortest(&decimal, wide, true);
    return decimal.count > DBL_DECIMAL_DIG;
}

int float_read(struct span text, struct value *ret_value)
{
    struct literal literal;
    struct value value = {.kind = VALUE_FLOATING, .offset = ret_value->offset};
    literal_scan(&literal, text);
    if (!read_simple(&literal, &value)) {
        char plain[FLOAT_SIZE_LIMIT + 32];
        snprintf(plain, sizeof plain, literal.hex ? "0x%sp%d" : "%se%d", literal.digits, literal.exponent);
        value.floating.number = strtod(plain, NULL);
        value.floating.wide = strtold(plain, NULL);
    }
    if (isinf(value.floating.wide))
        return -ERANGE;
    value.floating.is_wide = needs_wide(&literal, value.floating.number, value.floating.wide);
    if (literal.negative) {
        value.floating.number = -value.floating.number;
        value.floating.wide = -value.floating.wide;
    }
    *ret_value = value;
    return 0;
}

struct value float_infinity(bool negative)
{
    return value_floating(negative ? -HUGE_VAL : HUGE_VAL);
}

#if HAS_X87
static long double x87_of(uint16_t sign_exponent, uint64_t significand)
{
    long double number = 0;
    memcpy(&number, &significand, sizeof significand);
    memcpy((char *)&number + sizeof significand, &sign_exponent, sizeof sign_exponent);
    return number;
}
#endif

/* Bits are moved, never numbers: arithmetic would make a signalling NaN a quiet one. */
static bool read_double_nan(uint64_t bits, struct value *value)
{
    uint64_t fraction = bits & 0xfffffffffffff;
    if ((bits >> 52 & 0x7ff) != 0x7ff || !fraction)
        return false;
    memcpy(&value->floating.number, &bits, sizeof bits);
#if HAS_X87
    value->floating.wide = x87_of((uint16_t)(0x7fff | bits >> 63 << 15), UINT64_C(1) << 63 | fraction << 11);
#else
    value->floating.wide = value->floating.number;
#endif
    return true;
}

bool float_read_nan(struct span hex_digits, struct value *ret_value)
{
    uint64_t low = 0, high = 0;
    if (!hex_digits.len || hex_digits.len > 20)
        return false;
    for (size_t i = 0; i < hex_digits.len; i++) {
        char c = hex_digits.ptr[i], lower = (char)(c | 0x20);
        unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)(lower - 'a') + 10;
        if (digit > 15)
            return false;
        high = high << 4 | low >> 60;
        low = low << 4 | digit;
    }
    struct value value = {.kind = VALUE_FLOATING, .offset = ret_value->offset};
    if (hex_digits.len <= 16) {
        if (!read_double_nan(low, &value))
            return false;
    } else {
#if HAS_X87
        value.floating.wide = x87_of((uint16_t)high, low);
        if (!isnan(value.floating.wide))
            return false;
        uint64_t fraction = (low & INT64_MAX) >> 11;
        uint64_t bits = high >> 15 << 63 | UINT64_C(0x7ff) << 52 | (fraction ? fraction : UINT64_C(1) << 51);
        memcpy(&value.floating.number, &bits, sizeof bits);
        value.floating.is_wide = true;
#else
        return false;
#endif
    }
    *ret_value = value;
    return true;
}

/* Makes, copies and prints values, but for floats (floating.c). */

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
