/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies without the C library: uses no vector register, and calls no interposed functions.
 */
#ifndef SCRY_AGENT_SYSTEM_RAW_H
#define SCRY_AGENT_SYSTEM_RAW_H

#include <stddef.h>
#include <stdint.h>

static inline void raw_copy(void *dst, const void *src, size_t size)
{
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(size) : : "memory");
}

static inline void raw_zero(void *dst, size_t size)
{
    __asm__ volatile("rep stosb" : "+D"(dst), "+c"(size) : "a"(0) : "memory");
}

static inline size_t raw_length(const char *text, size_t limit)
{
    size_t length = 0;
    while (length < limit && text[length])
        length++;
    return length;
}

#endif
