/* SPDX-License-Identifier: Apache-2.0 */
/* Between watch.c, codes.c and raised.c. */
#ifndef SCRY_PYTHON_INTERNAL_H
#define SCRY_PYTHON_INTERNAL_H

#include "python/watch.h"

enum {
    FRAMES = 1 << 14,       /* of a thread; deeper ones are not timed */
    EXCEPTIONS_OF_CODE = 5, /* so many are told of each code */
};

struct watch_code {
    uint32_t generation;
    struct script_sum *sum;
    uint32_t file, function; /* texts */
    int first_line;
    struct script_sum **lines; /* from first_line on */
    uint32_t line_room;
    uint32_t exceptions;
    uint32_t active; /* calls that run, of the thread that is `owner` */
    struct watch_thread *owner;
};

struct watch_frame {
    struct watch_code *code;
    bool outermost; /* of that code */
    uint64_t begin, inner;
    struct script_sum *line;
    uint64_t line_begin;
};

struct watch_thread {
    struct watch_frame *frames; /* FRAMES; pages that are not used take no memory */
    uint32_t depth, beyond;     /* beyond: calls deeper than FRAMES */
    uint32_t generation;
    int32_t tid;
    uint64_t last;      /* when the current line's time was last added up */
    const void *raised; /* the exception that was told and is on its way; NULL: none. Only to compare */
    uint32_t raised_at; /* depth of the frame in which it is */
    uint32_t told_at;   /* and of that in which it was last told */
};

/* NULL: no memory. */
struct watch_thread *watch_self(void);
/* The exception on its way was handled. */
void watch_caught(struct watch_thread *self);

/* Makes the sums of this code, after a fork: again. NULL: no room. */
struct script_sum *code_sum(struct watch_code *code);
struct script_sum *code_line(struct watch_code *code, int line);
bool codes_start(void);

#endif
