/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/cache_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "shm/waits.h"

enum {
    FILES_LIMIT = 4096, /* half of them stay, as of the bytes */
};

struct cached {
    char name[NAME_MAX + 1];
    time_t used;
    uint64_t size;
};

static int compare_cached(const void *left, const void *right)
{
    const struct cached *a = left, *b = right;
    return a->used < b->used ? -1 : a->used > b->used;
}

static void clean_up(int directory, uint64_t most_bytes)
{
    int own = dup(directory);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    struct cached *files = NULL;
    size_t count = 0, room = 0;
    uint64_t total = 0;
    time_t now = time(NULL);
    if (!dir) {
        if (own >= 0)
            close(own);
        return;
    }
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        if (fstatat(directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        if (entry->d_name[0] == '.') {
            if (now - st.st_mtime > CACHE_LEFTOVER_S)
                unlinkat(directory, entry->d_name, 0);
            continue;
        }
        if (!GROW(files, count, room))
            break;
        struct cached *file = &files[count++];
        snprintf(file->name, sizeof file->name, "%s", entry->d_name);
        file->used = st.st_atime > st.st_mtime ? st.st_atime : st.st_mtime;
        file->size = (uint64_t)st.st_size;
        total += file->size;
    }
    if (total > most_bytes || count > FILES_LIMIT) {
        qsort(files, count, sizeof *files, compare_cached);
        for (size_t i = 0; i < count && (total > most_bytes / 2 || count - i > FILES_LIMIT / 2); i++) {
            if (i + 1 == count && files[i].size <= most_bytes) /* the newest */
                break;
            if (unlinkat(directory, files[i].name, 0) == 0)
                total -= files[i].size;
        }
    }
    free(files);
    closedir(dir);
}

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t put = write(fd, bytes, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        bytes += put;
        len -= (size_t)put;
    }
    return 0;
}

/* Only one of those who wrote it at the same time succeeds with link(). */
static int take_place(const char *temporary, const char *path, bool (*good)(const char *path))
{
    bool linked = good && link(temporary, path) == 0;
    if (!linked && !(good && errno == EEXIST && good(path)))
        return rename(temporary, path) < 0 ? -errno : 0;
    unlink(temporary);
    return 0;
}

void cache_clean(const char *path, uint64_t most_bytes)
{
    _cleanup_(closep) int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0)
        clean_up(directory, most_bytes);
}

int cache_file_write(const char *path, const struct iovec *parts, size_t count, uint64_t most_bytes,
                     int (*ready)(int fd), bool (*good)(const char *path), struct err *err)
{
    char temporary[PATH_MAX + 16];
    const char *slash = strrchr(path, '/');
    int length = snprintf(temporary, sizeof temporary, "%.*s/.%s.XXXXXX", (int)(slash - path), path, slash + 1), r = 0;
    if (length >= (int)sizeof temporary)
        return err_set(err, -ENAMETOOLONG, "the path of the cache is too long: set SCRY_CACHE_DIR");
    _cleanup_(closep) int fd = mkostemp(temporary, O_CLOEXEC); /* 0600 */
    if (fd < 0)
        return err_errno(err, -errno, "cannot write to the cache %.*s", (int)(slash - path), path);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = write_all(fd, parts[i].iov_base, parts[i].iov_len);
    if (r == 0 && ready)
        r = ready(fd);
    if (close(TAKE_FD(fd)) < 0 && r == 0)
        r = -errno; /* from here on NFS shows it whole to other nodes */
    if (r == 0)
        r = take_place(temporary, path, good);
    if (r < 0) {
        unlink(temporary);
        return err_errno(err, r, "cannot write %s", path);
    }
    temporary[slash - path] = 0;
    cache_clean(temporary, most_bytes);
    return 0;
}
