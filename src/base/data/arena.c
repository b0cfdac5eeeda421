/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = 16, ARENA_FIRST = 4096, ARENA_LARGEST = 1 << 20 };

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* usable bytes */
    _Alignas(ARENA_ALIGN) char bytes[];
};

void arena_done(struct arena *arena)
{
    struct arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct arena_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    *arena = ARENA_INIT;
}

void arena_reset(struct arena *arena)
{
    struct arena_chunk *keep = arena->chunks;
    if (!keep) {
        arena->failed = false;
        return;
    }
    arena->chunks = keep->older;
    keep->older = NULL;
    arena_done(arena);
    if (keep->size > ARENA_LARGEST) { /* one huge request must not keep its memory for ever */
        free(keep);
        return;
    }
    arena->chunks = keep;
    arena->next = keep->bytes;
    arena->end = keep->bytes + keep->size;
}

static bool add_chunk(struct arena *arena, size_t need)
{
    size_t size = arena->chunks ? arena->chunks->size * 2 : ARENA_FIRST;
    if (size > ARENA_LARGEST)
        size = ARENA_LARGEST;
    if (size < need)
        size = need;
    struct arena_chunk *chunk = malloc(sizeof *chunk + size);
    if (!chunk) {
        arena->failed = true;
        return false;
    }
    chunk->older = arena->chunks;
    chunk->size = size;
    arena->chunks = chunk;
    arena->next = chunk->bytes;
    arena->end = chunk->bytes + size;
    return true;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (arena->failed || size > SIZE_MAX / 2) {
        arena->failed = true;
        return NULL;
    }
    size = size ? (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1) : ARENA_ALIGN; /* NULL only means failure */
    if ((size_t)(arena->end - arena->next) < size && !add_chunk(arena, size))
        return NULL;
    void *at = arena->next;
    arena->next += size;
    return at;
}

void *arena_zalloc(struct arena *arena, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        arena->failed = true;
        return NULL;
    }
    void *at = arena_alloc(arena, total);
    if (at)
        memset(at, 0, total);
    return at;
}

char *arena_dup(struct arena *arena, const void *bytes, size_t len)
{
    char *copy = arena_alloc(arena, len + 1);
    if (copy) {
        if (len)
            memcpy(copy, bytes, len);
        copy[len] = 0;
    }
    return copy;
}

struct span arena_span(struct arena *arena, struct span span)
{
    char *copy = arena_dup(arena, span.ptr, span.len);
    return copy ? span_of(copy, span.len) : span_of(NULL, 0);
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = len < 0 ? NULL : arena_alloc(arena, (size_t)len + 1);
    if (text)
        vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    return text;
}
