/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing buffer of bytes. Allocation failure is sticky: `failed` is set, and appends do nothing. Check it once, at
 * the end. Not thread-safe. data is NUL-terminated, unless it is NULL.
 */
#ifndef SCRY_BASE_DATA_BUF_H
#define SCRY_BASE_DATA_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
