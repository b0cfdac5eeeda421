/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_DATA_BUF_H
#define SCRY_BASE_DATA_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * A growing buffer of bytes. Allocation failure is sticky: `failed` is set, and appends do nothing. Check it once, at
 * the end. Not thread-safe. data is NUL-terminated, unless it is NULL.
 */

struct buf {
    char *data;
    size_t len; /* bytes in use, the closing NUL not counted */
    size_t cap;
    bool failed; /* an allocation failed: the content is incomplete */
};

#define BUF_INIT \
    (struct buf) \
    { \
        0 \
    }

void buf_done(struct buf *buf); /* frees; the buffer is empty and usable again */
void buf_clear(struct buf *buf);

/* Makes room for at least `more` bytes and returns where they go, or NULL; the caller then adds to len. */
char *buf_reserve(struct buf *buf, size_t more);

void buf_append(struct buf *buf, const void *bytes, size_t len);
void buf_puts(struct buf *buf, const char *string);
void buf_putc(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *format, va_list args);
void buf_put_u32(struct buf *buf, uint32_t value); /* little-endian */
void buf_put_u64(struct buf *buf, uint64_t value);

/* Removes the first n bytes (n <= len). */
void buf_drop(struct buf *buf, size_t n);

/* Gives the content to the caller, who frees it. Never NULL unless failed. */
char *buf_take(struct buf *buf);

/* A borrowed run of bytes, not NUL-terminated, possibly with NULs inside. */

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

/* UTF-8 of others, and what of it may not reach a terminal as it is. Pure. */

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
