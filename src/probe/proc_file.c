/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of /proc and the lines of /proc/PID/maps. */
#include "probe/proc_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dirs.h"

void proc_path(char path[PROC_PATH_SIZE], pid_t pid, pid_t tid, const char *name)
{
    if (tid)
        snprintf(path, PROC_PATH_SIZE, "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    else
        snprintf(path, PROC_PATH_SIZE, "/proc/%d/%s", (int)pid, name);
}

int proc_errno(pid_t pid, int number)
{
    char path[PROC_PATH_SIZE];
    switch (number) {
    case EPERM:
        return -EACCES;
    case ENOENT:
        /* Gone, or it has no such thing (a kernel thread has no executable). */
        proc_path(path, pid, 0, "");
        return access(path, F_OK) < 0 ? -ESRCH : -ENOENT;
    default:
        return -number;
    }
}

int proc_file_read(pid_t pid, pid_t tid, const char *name, char *ret_text, size_t size, size_t *ret_len)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, tid, name);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT && tid ? -ESRCH : proc_errno(pid, errno);
    size_t len = 0;
    while (len < size - 1) {
        ssize_t got = read(fd, ret_text + len, size - 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return proc_errno(pid, errno);
        if (got == 0)
            break;
        len += (size_t)got;
    }
    ret_text[len] = 0;
    if (ret_len)
        *ret_len = len;
    return 0;
}

/* The letter of /proc/PID/task/TID/stat, or 0. */
static char state_letter(pid_t pid, pid_t tid)
{
    char text[512]; /* of which the letter is near the beginning */
    if (proc_file_read(pid, tid, "stat", text, sizeof text, NULL) < 0)
        return 0;
    const char *end = strrchr(text, ')');
    return end && end[1] ? end[2] : '\0';
}

pid_t proc_deputy(pid_t pid)
{
    char path[PROC_PATH_SIZE];
    pid_t found = 0;
    if (state_letter(pid, pid) != 'Z')
        return 0;
    proc_path(path, pid, 0, "task");
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        char letter = tid > 0 && tid != pid ? state_letter(pid, tid) : 0;
        found = letter && !strchr("ZX", letter) ? tid : 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

uint64_t proc_field(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return strtoull(line + len + 1, NULL, 10);
    }
    return 0;
}

/* The kernel writes a newline in a path as \012 and nothing else escaped. */
static void unescape_path(char *path)
{
    char *to = path;
    for (const char *from = path; *from;) {
        if (strncmp(from, "\\012", 4) == 0) {
            *to++ = '\n';
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
}

static bool parse_map(char *line, struct proc_map *map)
{
    char perms[5] = "";
    unsigned long long start, end, offset, inode;
    unsigned int major, minor;
    int at = 0;
    if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu%n", &start, &end, perms, &offset, &major, &minor, &inode, &at) < 7)
        return false;
    char *path = line + at;
    path += strspn(path, " ");
    unescape_path(path);
    *map = (struct proc_map){.start = start,
                             .end = end,
                             .offset = offset,
                             .inode = inode,
                             .device_major = major,
                             .device_minor = minor,
                             .read = perms[0] == 'r',
                             .write = perms[1] == 'w',
                             .execute = perms[2] == 'x',
                             .path = path};
    return true;
}

static int read_maps(pid_t pid, char **ret_text, size_t *ret_len)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, "maps");
    int r = file_read(path, ret_text, ret_len);
    return r < 0 ? proc_errno(pid, -r) : 0;
}

int proc_maps_read(pid_t pid, struct proc_maps *ret_maps)
{
    _cleanup_(freep) char *text = NULL;
    size_t len = 0;
    int r = read_maps(pid, &text, &len);
    pid_t deputy = r == -ESRCH || (r == 0 && len == 0) ? proc_deputy(pid) : 0;
    if (deputy) {
        free(TAKE_PTR(text));
        r = read_maps(deputy, &text, &len);
    }
    if (r < 0)
        return r;
    size_t lines = 1;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    struct proc_map *maps = calloc(lines, sizeof *maps);
    if (!maps)
        return -ENOMEM;
    size_t count = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")))
        if (parse_map(line, &maps[count]))
            count++;
    *ret_maps = (struct proc_maps){.count = count, .maps = maps, .text = TAKE_PTR(text)};
    return 0;
}

void proc_maps_done(struct proc_maps *maps)
{
    free(maps->maps);
    free(maps->text);
    *maps = (struct proc_maps){0};
}

const struct proc_map *proc_maps_find(const struct proc_maps *maps, uint64_t addr)
{
    size_t low = 0, high = maps->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (addr >= maps->maps[middle].end)
            low = middle + 1;
        else
            high = middle;
    }
    return low < maps->count && addr >= maps->maps[low].start ? &maps->maps[low] : NULL;
}
