/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static struct {
    const char *program;
    enum log_level level;
    int dated;
} log_state = {"scry", LOG_WARNING, 0};

void log_open(const char *program, int dated)
{
    log_state.program = program;
    log_state.dated = dated;
    const char *wanted = getenv("SCRY_LOG");
    for (unsigned i = 0; wanted && i < sizeof level_names / sizeof *level_names; i++)
        if (strcmp(wanted, level_names[i]) == 0)
            log_state.level = (enum log_level)i;
}

void log_write(enum log_level level, const char *format, ...)
{
    if (level > log_state.level)
        return;
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
    int start = used;
    used += len < 0 ? 0 : len >= room ? room - 1 : len;
    for (int i = start; i < used;
         i++) /* names of files and processes may hold anything; a terminal shall not obey them */
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    line[used++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)used);
    (void)written; /* where the log cannot be written there is nobody to tell */
}
