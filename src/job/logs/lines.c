/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/lines.h"

#include <stdlib.h>
#include <string.h>

char *lines_room(struct lines *lines, size_t *ret_room)
{
    if (!lines->bytes)
        lines->bytes = malloc(LINES_ROOM);
    *ret_room = LINES_ROOM - lines->len;
    return lines->bytes ? lines->bytes + lines->len : NULL;
}

static bool is_end(char c)
{
    return c == '\n' || c == '\r';
}

/* Behind the last end of a line in bytes[from...len]; from: there is none. */
static size_t behind_last(const char *bytes, size_t from, size_t len)
{
    while (len > from && !is_end(bytes[len - 1]))
        len--;
    return len;
}

/* In steps, so that blocks with only one of the two are not searched to their ends for the other again and again. */
static size_t first_end(const char *bytes, size_t from, size_t len)
{
    enum { STEP = 256 };
    for (; from < len; from += STEP) {
        size_t step = len - from < STEP ? len - from : STEP;
        const char *newline = memchr(bytes + from, '\n', step);
        const char *end = memchr(bytes + from, '\r', newline ? (size_t)(newline - bytes) - from : step);
        end = end ? end : newline;
        if (end)
            return (size_t)(end - bytes);
    }
    return len;
}

void lines_take(struct lines *lines, size_t len, lines_fn *each, void *ctx)
{
    size_t start = 0, old = lines->len, end = old + len;
    if (lines->passing) {
        start = first_end(lines->bytes, 0, end);
        lines->passing = start == end;
    }
    size_t whole = behind_last(lines->bytes, start > old ? start : old, end);
    if (whole > start && whole > old) {
        each(ctx, lines->bytes + start, whole - start, false);
        start = whole;
    }
    while (end - start >= LINE_MOST && !lines->bytes[start])
        start++; /* a hole is not the beginning of a line */
    if (end - start >= LINE_MOST) {
        each(ctx, lines->bytes + start, LINE_MOST, true);
        lines->passing = true;
        start = end;
    }
    memmove(lines->bytes, lines->bytes + start, end - start);
    lines->len = end - start;
}

void lines_end(struct lines *lines, lines_fn *each, void *ctx)
{
    if (lines->len)
        each(ctx, lines->bytes, lines->len, false);
    lines_reset(lines, false);
}

void lines_reset(struct lines *lines, bool inside)
{
    lines->len = 0;
    lines->passing = inside;
}

void lines_rest(struct lines *lines)
{
    if (lines->len)
        return;
    free(lines->bytes);
    lines->bytes = NULL;
}

void lines_done(struct lines *lines)
{
    free(lines->bytes);
    *lines = (struct lines){0};
}

struct line_place line_at(const char *bytes, size_t len, size_t at)
{
    size_t start = behind_last(bytes, 0, at), end = first_end(bytes, at, len);
    return (struct line_place){bytes + start, end - start, end + (end < len)};
}

uint64_t lines_count(const char *bytes, size_t len)
{
    uint64_t count = 0;
    for (const char *at = bytes, *end = bytes + len; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        count++;
    return count;
}
