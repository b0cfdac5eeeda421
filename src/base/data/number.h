/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_DATA_NUMBER_H
#define SCRY_BASE_DATA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As fmax(3), fmin(3) and llround(3). The library that these are in (libm) is loaded by none of the programs that a short job
 * starts: each would need a millisecond more. */
static inline double number_max(double a, double b)
{
    return a > b || b != b ? a : b;
}

static inline double number_min(double a, double b)
{
    return a < b || b != b ? a : b;
}

/* Halves away from 0. */
static inline int64_t number_round(double number)
{
    int64_t whole = (int64_t)number;
    double part = number - (double)whole;
    return whole + (part >= 0.5) - (part <= -0.5);
}

/* Number types as in C, for casts and sizes. */

struct number_type {
    unsigned bits; /* 1: a truth value, which takes a byte; 8, 16, 32 or 64 */
    bool is_signed, is_floating;
};

/* Reads a type in parentheses, `(unsigned char)`, at the start of the text. Returns the length with the parentheses; 0:
 * there is none. */
size_t number_type_read(const char *text, struct number_type *ret_type);

/* Sizes and times as people write them in options and settings. */

/* "512", "64K", "1.5G", "2 GB", "2GiB": binary multiples. False: no size, or 2^63 bytes or more. */
bool size_parse(const char *text, uint64_t *ret_bytes);
/* "500us", "2 ms", "1.5s", "800ns", "5 min", "5m", "2h", "30d", "2w", "0". False: no time, or more than 1e18 ns. */
bool time_parse(const char *text, uint64_t *ret_ns);

#endif
