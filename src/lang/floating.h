/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floats as text, exactly and independently of the locale: reading for the lexer; printing is in value.h. The formats
 * are IEEE 754's binary64 and, where long double is that, the x87's 80 bits.
 */
#ifndef SCRY_LANG_FLOATING_H
#define SCRY_LANG_FLOATING_H

#include "lang/value.h"

enum { FLOAT_SIZE_LIMIT = 4096 }; /* characters of one literal */

/* Reads a well-formed decimal or hexadecimal C floating constant without suffix, with an optional sign, of at most
 * FLOAT_SIZE_LIMIT characters. 0, or -ERANGE when it is larger than the largest long double. What is smaller than the
 * smallest is rounded, as in C. */
int float_read(struct span literal, struct value *ret_value);

/* The value of "inf" or "-inf". */
struct value float_infinity(bool negative);

/* The value of "nan:0x" followed by these digits: at most 16 are the bits of a double, 17 to 20 those of the x87's
 * format. False if they are no such digits or not the bits of a NaN. */
bool float_read_nan(struct span hex_digits, struct value *ret_value);

#endif
