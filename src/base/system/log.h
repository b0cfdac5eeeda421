/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging of the programs (never of the libraries): one line to standard error, or to the file of a daemon. Whoever
 * stops an error logs it, once. Thread-safe (one write(2) a line). What a terminal may obey (utf8.h) is `?` in it.
 *
 * A line of level debug is for grep: a word that says what happened, then fields `key=value`, of which texts are quoted
 * (LOG_TEXT). Its arguments are evaluated only if the line is written.
 */
#ifndef SCRY_BASE_SYSTEM_LOG_H
#define SCRY_BASE_SYSTEM_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* `program` is borrowed, and starts each line. SCRY_LOG sets the level (error, warning, info, debug; default warning),
 * unless log_set_level was called before. With `dated`, each line starts with the time. */
void log_open(const char *program, int dated);

/* Sets the level by its name. A dated log returns to info after 64 MB of level debug. 0, or -EINVAL: no such level. Not
 * while other threads log. */
int log_set_level(const char *name);
const char *log_level_name(void);

extern enum log_level log_level_now; /* read by log_wanted; log_set_level writes it */

static inline bool log_wanted(enum log_level level)
{
    return __builtin_expect(level <= log_level_now, 0);
}

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_at(level, ...) \
    do { \
        if (log_wanted(level)) \
            log_write(level, __VA_ARGS__); \
    } while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

/* A text as the value of a field: quoted, with a backslash before `"` and `\`, `?` for what a terminal may obey (utf8.h), and `...`
 * after it if it was shortened. The result lives until the end of the full expression. */
struct log_quoted {
    char text[256];
};
struct log_quoted log_quote(const char *text, size_t len);
#define LOG_BYTES(bytes, len) (log_quote(bytes, len).text)
#define LOG_TEXT(string) (log_quote(string, __builtin_strlen(string)).text)

#endif
