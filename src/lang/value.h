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

#endif
