/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena: many small allocations that are freed at once. One for each request, or for things that end together.
 * Failure is sticky, as in buf.h: then every function returns NULL. Not thread-safe.
 */
#ifndef SCRY_BASE_DATA_ARENA_H
#define SCRY_BASE_DATA_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/data/buf.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* newest first */
    char *next, *end;           /* free space of the newest chunk */
    bool failed;
};

#define ARENA_INIT \
    (struct arena) \
    { \
        0 \
    }

void arena_done(struct arena *arena);  /* frees everything; usable again */
void arena_reset(struct arena *arena); /* forgets everything but keeps one chunk for reuse */

void *arena_alloc(struct arena *arena, size_t size); /* aligned to 16, content undefined */
void *arena_zalloc(struct arena *arena, size_t count, size_t size);
char *arena_dup(struct arena *arena, const void *bytes, size_t len); /* copy with a NUL appended */
struct span arena_span(struct arena *arena, struct span span);
char *arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
