/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/node.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"

enum { TEXT_SIZE = 8192 };
#define NO_LIMIT (UINT64_C(1) << 60) /* version 1 says a number like this for none */

static bool read_text(const char *path, char text[TEXT_SIZE])
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, TEXT_SIZE - 1);
    text[len > 0 ? len : 0] = 0;
    return len > 0;
}

static bool read_number(const char *directory, const char *name, uint64_t *ret_number)
{
    char path[PATH_MAX + 64], text[TEXT_SIZE], *end;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (!read_text(path, text))
        return false;
    *ret_number = strtoull(text, &end, 10);
    return end > text; /* "max": no limit */
}

/* The number behind a word at the beginning of a line; 0: there is none. */
static uint64_t number_of(const char *text, const char *word)
{
    size_t len = strlen(word);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, word, len) == 0 && (line[len] == ' ' || line[len] == ':'))
            return strtoull(line + len + 1, NULL, 10);
    return 0;
}

static void limit_take(struct memory_room *room, uint64_t limit, uint64_t used, uint64_t files)
{
    used = used > files ? used - files : 0;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < room->left)
        *room = (struct memory_room){limit, left};
}

static void look_at(const char *directory, bool second, struct memory_room *room)
{
    char path[PATH_MAX + 64], text[TEXT_SIZE];
    uint64_t limit, used;
    if (!read_number(directory, second ? "memory.max" : "memory.limit_in_bytes", &limit) || limit >= NO_LIMIT ||
        !read_number(directory, second ? "memory.current" : "memory.usage_in_bytes", &used))
        return;
    snprintf(path, sizeof path, "%s/memory.stat", directory);
    uint64_t files = 0;
    if (read_text(path, text))
        files = second ? number_of(text, "active_file") + number_of(text, "inactive_file")
                       : number_of(text, "total_active_file") + number_of(text, "total_inactive_file");
    limit_take(room, limit, used, files);
}

/* Of a line ID:CONTROLLERS:PATH */
static bool has_memory(const char *line)
{
    const char *at = strchr(line, ':'), *end = at ? strchr(at + 1, ':') : NULL;
    while (at && end && at < end) {
        size_t len = strcspn(at + 1, ",:");
        if (len == 6 && memcmp(at + 1, "memory", 6) == 0)
            return true;
        at += 1 + len;
    }
    return false;
}

bool memory_room_of(const char *groups, const char *root, struct memory_room *ret_room)
{
    const char *first = NULL, *second = NULL;
    for (const char *line = groups; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, "0::", 3) == 0)
            second = line + 3;
        else if (has_memory(line))
            first = strchr(strchr(line, ':') + 1, ':') + 1;
    }
    char path[PATH_MAX];
    const char *group = first ? first : second;
    *ret_room = (struct memory_room){UINT64_MAX, UINT64_MAX};
    if (!group)
        return false;
    int len = snprintf(path, sizeof path, "%s%s%.*s", root, first ? "/memory" : "", (int)strcspn(group, "\n"), group);
    if (len < 0 || (size_t)len >= sizeof path)
        return false;
    bool seen = access(path, R_OK | X_OK) == 0;
    /* a limit of any group around it holds, too; inside of containers the path is not the one that is mounted */
    size_t top = strlen(root) + (first ? strlen("/memory") : 0);
    for (;;) {
        look_at(path, !first, ret_room);
        char *slash = strrchr(path, '/');
        if (!slash || (size_t)(slash - path) < top)
            return seen;
        *slash = 0;
    }
}

void memory_room_read(struct memory_room *ret_room)
{
    char text[TEXT_SIZE];
    *ret_room = (struct memory_room){UINT64_MAX, UINT64_MAX};
    if (read_text("/proc/self/cgroup", text))
        memory_room_of(text, MEMORY_ROOM_ROOT, ret_room);
    if (read_text("/proc/meminfo", text)) {
        uint64_t total = 1024 * number_of(text, "MemTotal"), available = 1024 * number_of(text, "MemAvailable");
        if (total)
            limit_take(ret_room, total, total - (available < total ? available : total), 0);
    }
}
