/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating-point numbers as text, exact and independent of the locale. This reads them for the lexer; value.h prints
 * them. The formats are IEEE 754's binary64 and, if long double is that, the x87's 80 bits.
 */
#ifndef SCRY_LANG_FLOATING_H
#define SCRY_LANG_FLOATING_H

#include "lang/value.h"

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
