/* SPDX-License-Identifier: Apache-2.0 */
/* Number types as in C, for casts and sizes. */
#ifndef SCRY_BASE_DATA_NUMBER_TYPE_H
#define SCRY_BASE_DATA_NUMBER_TYPE_H

#include <stdbool.h>
#include <stddef.h>

struct number_type {
    unsigned bits; /* 1: a truth value, which takes a byte; 8, 16, 32 or 64 */
    bool is_signed, is_floating;
};

/* Reads a type in parentheses, `(unsigned char)`, at the start of the text. Returns the length with the parentheses; 0:
 * there is none. */
size_t number_type_read(const char *text, struct number_type *ret_type);

#endif
