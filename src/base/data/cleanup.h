/* SPDX-License-Identifier: Apache-2.0 */
/* Destructors that run at the end of a scope, and the explicit hand-over that prevents it. */
#ifndef SCRY_BASE_DATA_CLEANUP_H
#define SCRY_BASE_DATA_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

/* Gives the pointer away: the variable becomes NULL, so its cleanup does nothing. */
#define TAKE_PTR(pointer) \
    ({ \
        __typeof__(pointer) taken_ = pointer; \
        pointer = NULL; \
        taken_; \
    })

/* The same for a file descriptor, which becomes -1. */
#define TAKE_FD(fd) \
    ({ \
        int taken_ = fd; \
        fd = -1; \
        taken_; \
    })

/* Defines TYPE_freep for use with _cleanup_ on a `struct type *`. */
#define DEFINE_FREEP(type, free_function) \
    static inline void type##_freep(struct type **pointer) \
    { \
        if (*pointer) \
            free_function(*pointer); \
    }

static inline void freep(void *pointer)
{
    free(*(void **)pointer);
}

static inline void closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void fclosep(FILE **file)
{
    if (*file)
        fclose(*file);
}

#endif
