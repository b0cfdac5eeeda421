/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/trouble.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/file.h"

/* Expands the specifiers of core_pattern; unknown ones match anything. */
static void expand(struct buf *out, const char *pattern, pid_t pid, const char *name, int signo)
{
    for (; *pattern; pattern++) {
        if (*pattern != '%') {
            if (strchr("*?[\\", *pattern))
                buf_putc(out, '\\');
            buf_putc(out, *pattern);
            continue;
        }
        switch (*++pattern) {
        case 0:
            return;
        case '%':
            buf_putc(out, '%');
            break;
        case 'p':
            buf_printf(out, "%d", pid);
            break;
        case 's':
            buf_printf(out, "%d", signo);
            break;
        case 'u':
            buf_printf(out, "%u", getuid());
            break;
        case 'e':
            buf_puts(out, name);
            break;
        default:
            buf_putc(out, '*');
        }
    }
}

static void newest(const char *pattern, time_t since, char **ret_path)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    time_t best = since;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat st;
        if (stat(found.gl_pathv[i], &st) < 0 || !S_ISREG(st.st_mode) || st.st_mtime < best)
            continue;
        best = st.st_mtime;
        free(*ret_path);
        *ret_path = strdup(found.gl_pathv[i]);
    }
    globfree(&found);
}

static void put_escaped(struct buf *out, const char *path)
{
    for (; *path; path++) {
        if (strchr("*?[\\", *path))
            buf_putc(out, '\\');
        buf_putc(out, *path);
    }
}

void trouble_find_core(pid_t pid, const char *name, const char *cwd, int signo, time_t since, char **ret_path,
                       char *note, size_t note_size)
{
    _cleanup_(freep) char *pattern = NULL, *with_pid = NULL;
    *ret_path = NULL;
    *note = 0;
    if (file_read("/proc/sys/kernel/core_pattern", &pattern, NULL) < 0)
        return;
    pattern[strcspn(pattern, "\n")] = 0;
    if (*pattern == '|') {
        snprintf(note, note_size, "the core went to %.*s%s", (int)strcspn(pattern + 1, " "), pattern + 1,
                 strstr(pattern, "systemd-coredump") ? ": see `coredumpctl info`" : "");
        return;
    }
    _cleanup_(buf_done) struct buf glob_pattern = BUF_INIT;
    if (*pattern != '/') {
        put_escaped(&glob_pattern, cwd);
        buf_putc(&glob_pattern, '/');
    }
    expand(&glob_pattern, pattern, pid, name, signo);
    if (glob_pattern.failed)
        return;
    if (!strstr(pattern, "%p") && file_read("/proc/sys/kernel/core_uses_pid", &with_pid, NULL) == 0 &&
        with_pid[0] == '1')
        buf_printf(&glob_pattern, ".%d", pid);
    if (!glob_pattern.failed)
        newest(glob_pattern.data, since, ret_path);
}
