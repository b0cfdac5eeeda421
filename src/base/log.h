/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging of the programs (never of the libraries): one line to standard error, or to the file that a daemon
 * redirected it to. Whoever stops an error logs it, once. Thread-safe (one write(2) a line).
 */
#ifndef SCRY_BASE_LOG_H
#define SCRY_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* `program` is put before each line and borrowed. The level is taken from SCRY_LOG (error, warning, info, debug), the
 * default is warning. With `dated`, each line starts with the time. */
void log_open(const char *program, int dated);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
