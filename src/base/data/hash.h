/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of uthash. */
#ifndef SCRY_BASE_DATA_HASH_H
#define SCRY_BASE_DATA_HASH_H

#include <stdlib.h>

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

#endif
