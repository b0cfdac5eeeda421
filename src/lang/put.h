/* SPDX-License-Identifier: Apache-2.0 */
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
#ifndef SCRY_LANG_PUT_H
#define SCRY_LANG_PUT_H

#include "lang/value.h"

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
