/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of symbols: a folder of their own, and real programs made in it by the compilers that are there. */
#ifndef SCRY_SYMBOLS_CAPTURE_TEST_SUPPORT_H
#define SCRY_SYMBOLS_CAPTURE_TEST_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>

/* A new folder, which becomes the working directory, with the cache of indexes in it. */
int support_enter(void **state);
int support_leave(void **state);

void support_write(const char *path, const void *bytes, size_t len);
void support_copy(const char *from, const char *to);
/* A shell command that must succeed. */
void support_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool support_has(const char *program);

#endif
