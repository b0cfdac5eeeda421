/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_LANG_VALUE_H
#define SCRY_LANG_VALUE_H

#include "base/data/arena.h"
#include "base/data/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Values of the request language (specification 7.2.2). A value borrows its bytes and items, normally from the arena
 * that its request was parsed into. Lists of structs are flat (7.4).
 */

enum value_kind {
    VALUE_INTEGER,
    VALUE_FLOATING,
    VALUE_STRING, /* text: the bytes meant, escapes resolved; may hold NULs */
    VALUE_TOKEN,  /* text: the identifier */
    VALUE_BINARY, /* text: the bytes */
    VALUE_LIST,
    VALUE_PARAM, /* event context parameter; text: its name without '$' */
};

struct value {
    enum value_kind kind;
    uint32_t offset; /* byte offset in the request, for errors; 0 in values that were not parsed */
    union {
        struct { /* -2^63 .. 2^64-1: two's complement, `negative` tells -1 from 2^64-1 */
            uint64_t bits;
            bool negative;
        } integer;
        struct {
            long double wide; /* the same text read with the x87's precision: always what an x87 register takes */
            double number;    /* infinite where only the x87 has the range (1e400: wide is finite) */
            bool is_wide;     /* print `wide`: read from the x87, or written with more than a double's 17 digits */
        } floating;
        struct span text;
        struct {
            const struct value *items;
            size_t count;
        } list;
    };
};

struct value value_int(int64_t number);
struct value value_uint(uint64_t number);
struct value value_floating(double number);
struct value value_wide(long double number);
struct value value_string(struct span text);
struct value value_token(struct span text);
struct value value_binary(struct span bytes);
struct value value_list(const struct value *items, size_t count);

/* Appends the value in the language's form; reading it returns the same value. Floats have the shortest form that does
 * so, and always look like floats ("1.0", "1e+30", "inf", "-inf", "nan:0x7ff8000000000000"; an x87 NaN has the 20
 * digits of its 80 bits, "nan:0x7fffc000000000000000"). Strings have C escapes; bytes >= 0x80 that are valid UTF-8
 * stay. */
void value_print(struct buf *out, const struct value *value);

/* The parts of value_print, for services that print results without a tree. */
void value_print_int(struct buf *out, int64_t number);
void value_print_uint(struct buf *out, uint64_t number);
void value_print_floating(struct buf *out, double number);
void value_print_string(struct buf *out, struct span text);
void value_print_binary(struct buf *out, struct span bytes);

/* The name of a kind for messages: "integer", "list", ... */
const char *value_kind_name(enum value_kind kind);

/* Deep copy into an arena; false when out of memory. */
bool value_copy(struct arena *arena, const struct value *from, struct value *ret_copy);

/*
 * Floating-point numbers as text, exact and independent of the locale. This reads them for the lexer; value.h prints
 * them. The formats are IEEE 754's binary64 and, if long double is that, the x87's 80 bits.
 */

enum { FLOAT_SIZE_LIMIT = 4096 }; /* characters of one literal */

/* Reads a well-formed decimal or hexadecimal C floating constant without suffix, with an optional sign, of at most
 * FLOAT_SIZE_LIMIT characters. 0, or -ERANGE if it is larger than the largest long double. Too small numbers are
 * rounded, as in C. */
int float_read(struct span literal, struct value *ret_value);

/* The value of "inf" or "-inf". */
struct value float_infinity(bool negative);

/* The value of "nan:0x" with these digits: up to 16 are the bits of a double, 17 to 20 those of the x87 format. False:
 * no such digits, or not the bits of a NaN. */
bool float_read_nan(struct span hex_digits, struct value *ret_value);

/*
 * Writes results and requests value by value, without a tree: commas come by themselves.
 *
 *     PUT(&text, process->pid, process->name);
 *     put_list(&text);
 *     for (size_t i = 0; i < count; i++)
 *         PUT(&text, rows[i].calls, rows[i].total_ns);
 *     put_end(&text);                                      12,"sh",[3,100,4,200]
 *
 *     PUT_CALL(&request, "job_set", dir, key, value);      :job_set("/job","args","on")
 *
 * Values are integers, bools, floats, strings (NULL: "") and what value.h makes of others, at most 16 at once. Nothing
 * follows binary data.
 */

void put_values(struct buf *out, const struct value *values, size_t count);
void put_buf(struct buf *out, const struct buf *text); /* a string; *out has failed if *text has */
/* A list of strings that have a separator behind them; the last one may have none. */
void put_strings(struct buf *out, struct span bytes, char separator);
void put_list(struct buf *out);
void put_end(struct buf *out);
/* One more action of a request. */
void put_call(struct buf *out, const char *service, const struct value *args, size_t count);

/* For _Generic only. */
struct value put_string(const char *string);
struct value put_value(struct value value);

#define PUT(out, ...) put_values(out, (const struct value[]){PUT_EACH(__VA_ARGS__)}, PUT_COUNT(__VA_ARGS__))
#define PUT_CALL(out, service, ...) \
    put_call(out, service, (const struct value[]){PUT_EACH(__VA_ARGS__)}, PUT_COUNT(__VA_ARGS__))

/* clang-format off */
#define PUT_VALUE(x) \
    _Generic((x), struct value: put_value, char *: put_string, const char *: put_string, float: value_floating, double: value_floating, \
             int: value_int, long: value_int, long long: value_int, short: value_int, signed char: value_int, \
             default: value_uint)(x)
#define PUT_COUNT(...) PUT_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
#define PUT_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define PUT_EACH(...) PUT_EACH_(PUT_COUNT(__VA_ARGS__), __VA_ARGS__)
#define PUT_EACH_(count, ...) PUT_EACH__(count, __VA_ARGS__)
#define PUT_EACH__(count, ...) PUT_##count(__VA_ARGS__)
#define PUT_1(x) PUT_VALUE(x)
#define PUT_2(x, ...) PUT_VALUE(x), PUT_1(__VA_ARGS__)
#define PUT_3(x, ...) PUT_VALUE(x), PUT_2(__VA_ARGS__)
#define PUT_4(x, ...) PUT_VALUE(x), PUT_3(__VA_ARGS__)
#define PUT_5(x, ...) PUT_VALUE(x), PUT_4(__VA_ARGS__)
#define PUT_6(x, ...) PUT_VALUE(x), PUT_5(__VA_ARGS__)
#define PUT_7(x, ...) PUT_VALUE(x), PUT_6(__VA_ARGS__)
#define PUT_8(x, ...) PUT_VALUE(x), PUT_7(__VA_ARGS__)
#define PUT_9(x, ...) PUT_VALUE(x), PUT_8(__VA_ARGS__)
#define PUT_10(x, ...) PUT_VALUE(x), PUT_9(__VA_ARGS__)
#define PUT_11(x, ...) PUT_VALUE(x), PUT_10(__VA_ARGS__)
#define PUT_12(x, ...) PUT_VALUE(x), PUT_11(__VA_ARGS__)
#define PUT_13(x, ...) PUT_VALUE(x), PUT_12(__VA_ARGS__)
#define PUT_14(x, ...) PUT_VALUE(x), PUT_13(__VA_ARGS__)
#define PUT_15(x, ...) PUT_VALUE(x), PUT_14(__VA_ARGS__)
#define PUT_16(x, ...) PUT_VALUE(x), PUT_15(__VA_ARGS__)
/* clang-format on */

#endif
