/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of uthash. */
#ifndef SCRY_BASE_DATA_HASH_H
#define SCRY_BASE_DATA_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* Empties a table whose elements are malloc'ed, and have a member hh: the statements, if any, are done with each one,
 * `each`, before it is freed. */
#define HASH_FREE_ALL(head, ...) \
    do { \
        __typeof__(head) each, next_; \
        HASH_ITER(hh, head, each, next_) \
        { \
            HASH_DEL(head, each); \
            __VA_ARGS__; \
            free(each); \
        } \
    } while (0)

/* A sum of bytes by which a file is seen to be whole. It is quick, and nothing against somebody who means harm. */

static inline uint64_t sum_add(uint64_t sum, const void *bytes, size_t size)
{
    const char *from = bytes;
    for (; size >= 8; from += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, from, sizeof word);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 32;
    }
    for (; size; from++, size--)
        sum = (sum ^ (unsigned char)*from) * UINT64_C(1099511628211);
    return sum;
}

#endif
