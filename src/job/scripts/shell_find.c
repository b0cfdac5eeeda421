/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/shell_find.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/system/proc_file.h"

enum { BASH_FD = 255, DASH_FD = 10, DASH_FD_LAST = 19, ARGUMENTS = 4096, FDINFO = 512 };

static const char deleted[] = " (deleted)";

/* Returns its length. */
static size_t read_link(const char *link, char *ret_path, size_t size)
{
    ssize_t len = readlink(link, ret_path, size - 1);
    len = len < 0 ? 0 : len;
    ret_path[len] = 0;
    return (size_t)len;
}

static size_t without_deleted(char *path, size_t len)
{
    size_t mark = sizeof deleted - 1;
    if (len > mark && strcmp(path + len - mark, deleted) == 0)
        path[len -= mark] = 0;
    return len;
}

static enum shell_kind kind_of(pid_t pid)
{
    char link[PROC_PATH_SIZE], program[PATH_MAX];
    proc_path(link, pid, 0, "exe");
    without_deleted(program, read_link(link, program, sizeof program));
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    if (strncmp(name, "bash", 4) == 0 || strcmp(name, "rbash") == 0)
        return SHELL_BASH;
    return strcmp(name, "dash") == 0 ? SHELL_DASH : SHELL_NONE;
}

enum shell_source shell_source_of(const char *args, size_t len)
{
    const char *end = args + len, *arg = args + strnlen(args, len) + 1;
    for (; arg < end; arg += strnlen(arg, (size_t)(end - arg)) + 1) {
        bool is_long = strncmp(arg, "--", 2) == 0;
        if ((*arg != '-' && *arg != '+') || strcmp(arg, "-") == 0 || strcmp(arg, "--") == 0) {
            if (*arg == '-')
                arg += strlen(arg) + 1;
            return arg < end ? SHELL_FROM_FILE : SHELL_FROM_INPUT;
        }
        if (!is_long && *arg == '-' && strchr(arg, 'c'))
            return SHELL_FROM_OPTION;
        if (!is_long && *arg == '-' && strchr(arg, 's'))
            return SHELL_FROM_INPUT;
        if (strcmp(arg, "--rcfile") == 0 || strcmp(arg, "--init-file") == 0 ||
            (!is_long && (strchr(arg, 'o') || strchr(arg, 'O'))))
            arg += strnlen(arg, (size_t)(end - arg)) + 1; /* the next one is its value */
        if (arg >= end)
            break;
    }
    return SHELL_FROM_INPUT;
}

void shell_fd_path(char path[SHELL_FD_PATH], pid_t pid, int fd)
{
    snprintf(path, SHELL_FD_PATH, "/proc/%d/fd/%d", pid, fd);
}

/* Flags are as of open(2). */
static bool read_fdinfo(pid_t pid, int fd, uint64_t *ret_position, unsigned *ret_flags)
{
    char name[32], text[FDINFO];
    snprintf(name, sizeof name, "fdinfo/%d", fd);
    if (proc_file_read(pid, 0, name, text, sizeof text, &(size_t){0}) < 0)
        return false;
    const char *flags = strstr(text, "\nflags:");
    *ret_position = proc_field(text, "pos");
    *ret_flags = flags ? (unsigned)strtoul(flags + strlen("\nflags:"), NULL, 8) : 0;
    return flags != NULL;
}

bool shell_position(pid_t pid, int fd, struct stat *ret_stat, uint64_t *ret_position)
{
    char path[SHELL_FD_PATH];
    unsigned flags;
    shell_fd_path(path, pid, fd);
    return read_fdinfo(pid, fd, ret_position, &flags) && (flags & O_ACCMODE) == O_RDONLY &&
           (fd == 0 || flags & O_CLOEXEC) && stat(path, ret_stat) == 0 && S_ISREG(ret_stat->st_mode);
}

struct shell_script shell_find(pid_t pid)
{
    struct shell_script script = {kind_of(pid), -1};
    struct stat stat;
    uint64_t position;
    char args[ARGUMENTS];
    size_t len = 0;
    if (script.kind == SHELL_NONE)
        return script;
    if (script.kind == SHELL_BASH) {
        struct rlimit files = {.rlim_cur = RLIM_INFINITY};
        int fd = BASH_FD;
        if (prlimit(pid, RLIMIT_NOFILE, NULL, &files) == 0 && files.rlim_cur <= (rlim_t)BASH_FD)
            fd = (int)files.rlim_cur - 1;
        if (shell_position(pid, fd, &stat, &position)) {
            script.fd = fd;
            return script;
        }
    }
    if (proc_file_read(pid, 0, "cmdline", args, sizeof args, &len) < 0 || len == 0)
        return script;
    enum shell_source source = shell_source_of(args, len);
    if (source == SHELL_FROM_INPUT && shell_position(pid, 0, &stat, &position))
        script.fd = 0;
    for (int fd = DASH_FD; source == SHELL_FROM_FILE && script.kind == SHELL_DASH && fd <= DASH_FD_LAST; fd++)
        if (script.fd < 0 && shell_position(pid, fd, &stat, &position))
            script.fd = fd;
    return script;
}

void shell_script_path(pid_t pid, int fd, const struct stat *stat, char *ret_path, size_t size)
{
    char link[SHELL_FD_PATH];
    shell_fd_path(link, pid, fd);
    size_t len = read_link(link, ret_path, size);
    if (stat->st_nlink == 0)
        without_deleted(ret_path, len);
}
