/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/proc_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/proc_file.h"

enum { FLAGS_SIZE = 64 };

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static void add_word(char flags[FLAGS_SIZE], const char *word)
{
    size_t len = strlen(flags);
    snprintf(flags + len, FLAGS_SIZE - len, "%s%s", len ? " " : "", word);
}

static void put_flags(char flags[FLAGS_SIZE], unsigned long bits)
{
    static const struct {
        unsigned long bit;
        const char *word;
    } words[] = {{O_APPEND, "append"}, {O_NONBLOCK, "nonblock"}, {O_DIRECT, "direct"}, {O_DSYNC, "sync"}};
    unsigned long access = bits & O_ACCMODE;
    flags[0] = '\0';
    if (bits & O_PATH)
        return;
    if (access != O_WRONLY)
        add_word(flags, "read");
    if (access != O_RDONLY)
        add_word(flags, "write");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (bits & words[i].bit)
            add_word(flags, words[i].word);
}

/* What the kernel's text for a file says of it; makes that its path. */
static const char *kind_of(char *text, unsigned long flags)
{
    static const char anonymous[] = "anon_inode:";
    if (starts(text, "socket:[") || starts(text, "pipe:[")) {
        const char *kind = *text == 's' ? "socket" : "pipe";
        *text = '\0';
        return kind;
    }
    if (starts(text, anonymous)) {
        char *name = text + strlen(anonymous);
        size_t len = strlen(name);
        bool brackets = len > 2 && name[0] == '[' && name[len - 1] == ']';
        memmove(text, name + brackets, len + 1 - brackets);
        if (brackets)
            text[len - 2] = '\0';
        return "other";
    }
    if (*text != '/')
        return "other";
    if (starts(text, "/memfd:"))
        return "memory";
    return flags & O_DIRECTORY ? "directory" : "file";
}

/* As the kernel knows it without asking anybody (statx(2)); a network file system may not answer. */
static void look(const char *path, struct proc_open_file *file)
{
    struct statx now;
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_SIZE, &now) < 0)
        return;
    if (S_ISREG(now.stx_mode))
        file->size = (int64_t)now.stx_size;
    else if (S_ISDIR(now.stx_mode))
        file->kind = "directory";
    else if (S_ISCHR(now.stx_mode) || S_ISBLK(now.stx_mode))
        file->kind = "device";
    else if (S_ISFIFO(now.stx_mode))
        file->kind = "pipe";
}

/* false: it has been closed meanwhile. */
static bool tell(pid_t pid, int fd, proc_files_fn *fn, void *ctx)
{
    char name[32], path[PROC_PATH_SIZE], info[512], text[PATH_MAX + 16], flags[FLAGS_SIZE];
    unsigned long bits = 0;
    size_t len;
    struct proc_open_file file = {.fd = fd, .path = text, .flags = flags, .offset = -1, .size = -1};
    snprintf(name, sizeof name, "fd/%d", fd);
    proc_path(path, pid, 0, name);
    ssize_t got = readlink(path, text, sizeof text - 1);
    if (got < 0)
        return false;
    text[got] = '\0';
    snprintf(name, sizeof name, "fdinfo/%d", fd);
    if (proc_file_read(pid, 0, name, info, sizeof info, &len) == 0) {
        const char *octal = strstr(info, "flags:");
        bits = octal ? strtoul(octal + 6, NULL, 8) : 0;
        file.offset = (int64_t)proc_field(info, "pos");
    }
    put_flags(flags, bits);
    file.kind = kind_of(text, bits);
    if (*text == '/')
        look(path, &file);
    if (strcmp(file.kind, "file") != 0 && strcmp(file.kind, "memory") != 0)
        file.offset = -1;
    fn(ctx, &file);
    return true;
}

ssize_t proc_files_each(pid_t pid, size_t most, proc_files_fn *fn, void *ctx, struct err *err)
{
    char path[PROC_PATH_SIZE];
    pid_t other = proc_deputy(pid), from = other ? other : pid;
    size_t count = 0;
    proc_path(path, from, 0, "fd");
    DIR *dir = opendir(path);
    if (!dir)
        return err_errno(err, proc_errno(pid, errno), "the open files of process %d", (int)pid);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        if (count >= most || tell(from, (int)strtol(entry->d_name, NULL, 10), fn, ctx))
            count++;
    }
    closedir(dir);
    return (ssize_t)count;
}
