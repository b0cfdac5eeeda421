/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/data/buf.h"

enum { LOG_DEBUG_LIMIT = 64 << 20 }; /* bytes */

enum log_level log_level_now = LOG_WARNING;

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static struct {
    const char *program;
    int dated;
    bool chosen; /* by log_set_level */
    _Atomic size_t debug_bytes;
} log_state = {.program = "scry"};

static bool set_level(const char *name)
{
    for (unsigned i = 0; i < sizeof level_names / sizeof *level_names; i++)
        if (strcmp(name, level_names[i]) == 0) {
            log_level_now = (enum log_level)i;
            return true;
        }
    return false;
}

int log_set_level(const char *name)
{
    if (!set_level(name))
        return -EINVAL;
    log_state.chosen = true;
    log_state.debug_bytes = 0;
    return 0;
}

const char *log_level_name(void)
{
    return level_names[log_level_now];
}

void log_open(const char *program, int dated)
{
    log_state.program = program;
    log_state.dated = dated;
    const char *wanted = getenv("SCRY_LOG");
    if (wanted && !log_state.chosen)
        set_level(wanted);
}

/* Names of files and processes may contain anything, and the log may be a terminal. *ret_len: of the character, or byte. */
static bool is_shown(const char *at, size_t left, size_t *ret_len)
{
    size_t len = utf8_length(at, left);
    *ret_len = len ? len : 1;
    return len && !utf8_starts_control(at, len);
}

struct log_quoted log_quote(const char *text, size_t len)
{
    static const char more[] = "\"...";
    struct log_quoted quoted;
    size_t used = 0, room = sizeof quoted.text - sizeof more;
    quoted.text[used++] = '"';
    for (size_t i = 0, size; i < len; i += size) {
        bool shown = is_shown(text + i, len - i, &size);
        if (used + 1 + size > room) {
            memcpy(quoted.text + used, more, sizeof more);
            return quoted;
        }
        if (text[i] == '"' || text[i] == '\\')
            quoted.text[used++] = '\\';
        memcpy(quoted.text + used, shown ? text + i : "?", shown ? size : 1);
        used += shown ? size : 1;
    }
    memcpy(quoted.text + used, "\"", 2);
    return quoted;
}

void log_write(enum log_level level, const char *format, ...)
{
    char line[1024];
    int used = 0;
    if (log_state.dated) {
        struct timespec now;
        struct tm tm;
        clock_gettime(CLOCK_REALTIME, &now);
        localtime_r(&now.tv_sec, &tm);
        used += (int)strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
        used += snprintf(line + used, sizeof line - (size_t)used, ".%03ld ", now.tv_nsec / 1000000);
    }
    used += snprintf(line + used, sizeof line - (size_t)used, "%s: %s", log_state.program,
                     level == LOG_ERROR ? "" : level_names[level]);
    used += snprintf(line + used, sizeof line - (size_t)used, "%s", level == LOG_ERROR ? "" : ": ");
    va_list args;
    va_start(args, format);
    int room = (int)sizeof line - used - 1;
    int len = vsnprintf(line + used, (size_t)room, format, args);
    va_end(args);
    int end = used + (len < 0 ? 0 : len >= room ? room - 1 : len);
    for (size_t size; used < end; used += (int)size)
        if (!is_shown(line + used, (size_t)(end - used), &size))
            memset(line + used, '?', size);
    line[used++] = '\n';
    bool full = level == LOG_DEBUG && log_state.dated &&
                atomic_fetch_add(&log_state.debug_bytes, (size_t)used) + (size_t)used > LOG_DEBUG_LIMIT;
    if (full) /* the log lies in memory, which the jobs need */
        log_level_now = LOG_INFO;
    ssize_t written = write(STDERR_FILENO, line, (size_t)used);
    (void)written; /* nobody can be told that the log cannot be written */
    if (full)
        log_info("this log has %d MB of level debug: from here on it is at level info", LOG_DEBUG_LIMIT >> 20);
}
