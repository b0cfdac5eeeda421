/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/look.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"

static int read_file(const char *path, char *ret_text, size_t size)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    size_t len = 0;
    while (len < size - 1) {
        ssize_t got = read(fd, ret_text + len, size - 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    ret_text[len] = 0;
    return 0;
}

static int read_at(const char *root, char *ret_text, size_t size, const char *format, va_list args)
{
    char path[2 * PATH_MAX];
    int at = snprintf(path, sizeof path, "%s", root);
    if (at < 0 || at >= PATH_MAX)
        return -ENAMETOOLONG;
    int more = vsnprintf(path + at, sizeof path - (size_t)at, format, args);
    if (more < 0 || (size_t)at + (size_t)more >= sizeof path)
        return -ENAMETOOLONG;
    *ret_text = 0;
    return read_file(path, ret_text, size);
}

int look_read(const char *root, char *ret_text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int code = read_at(root, ret_text, size, format, args);
    va_end(args);
    return code;
}

/* Up to INT64_MAX, whatever stands there. */
static int64_t number_of(const char *text)
{
    if (*text < '0' || *text > '9')
        return -1;
    unsigned long long number = strtoull(text, NULL, 10);
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

int64_t look_number(const char *root, const char *format, ...)
{
    char text[64];
    va_list args;
    va_start(args, format);
    int code = read_at(root, text, sizeof text, format, args);
    va_end(args);
    if (code < 0)
        return -1;
    return strncmp(text, "max", 3) == 0 ? INT64_MAX : number_of(text);
}

const char *look_next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end && end[1] ? end + 1 : NULL;
}

int64_t look_find(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = look_next_line(line))
        if (strncmp(line, name, len) == 0 && (line[len] == ' ' || line[len] == ':')) {
            const char *value = line + len + 1;
            return number_of(value + strspn(value, " \t"));
        }
    return -1;
}
