/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 of others, and what of it may not reach a terminal as it is. Pure. */
#ifndef SCRY_BASE_DATA_UTF8_H
#define SCRY_BASE_DATA_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the valid sequence at the front of so many bytes, at least one, or 0. Overlong forms, surrogates and what lies
 * beyond U+10FFFF are invalid (RFC 3629). */
size_t utf8_length(const void *bytes, size_t left);

/* Of a valid sequence. */
uint32_t utf8_character(const void *bytes, size_t len);

/* What a terminal may obey instead of showing it, or what makes a line look like another one: controls (C0, DEL, C1), format
 * characters, among them all of writing from right to left, and separators of lines and paragraphs (Unicode: Cc, Cf, Zl, Zp). */
bool utf8_is_control(uint32_t character);
/* The same of a valid sequence. */
bool utf8_starts_control(const void *bytes, size_t len);

#endif
