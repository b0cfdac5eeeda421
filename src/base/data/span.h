/* SPDX-License-Identifier: Apache-2.0 */
/* A borrowed run of bytes, not NUL-terminated, possibly with NULs inside. */
#ifndef SCRY_BASE_DATA_SPAN_H
#define SCRY_BASE_DATA_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *ptr;
    size_t len;
};

static inline struct span span_of(const char *ptr, size_t len)
{
    return (struct span){ptr, len};
}

static inline struct span span_str(const char *string)
{
    return (struct span){string, strlen(string)};
}

static inline bool span_eq(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool span_is(struct span a, const char *string)
{
    return span_eq(a, span_str(string));
}

/* For printf's "%.*s" */
#define SPAN_ARG(span) (int)(span).len, (span).ptr

#endif
