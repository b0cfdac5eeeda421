/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/file.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "shm/waits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Byte by byte: what follows is not ours. */
bool line_read(char *text, size_t size)
{
    size_t len = 0;
    while (len + 1 < size) {
        ssize_t got = read(STDIN_FILENO, &text[len], 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || text[len] == '\n') {
            text[len] = 0;
            return got > 0 || len > 0;
        }
        len++;
    }
    return false;
}

bool file_is_at(const char *path, int fd)
{
    struct stat ours, there;
    return fd >= 0 && fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_dev == there.st_dev &&
           ours.st_ino == there.st_ino;
}

void file_unlink_own(const char *path, int fd)
{
    if (file_is_at(path, fd))
        unlink(path);
}

/* ---- reading ---- */

static int read_all(int fd, size_t most, char **ret_bytes, size_t *ret_len)
{
    _cleanup_(buf_done) struct buf bytes = BUF_INIT;
    for (;;) {
        char *room = buf_reserve(&bytes, 4096);
        if (!room)
            return -ENOMEM;
        ssize_t got = read(fd, room, 4096);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        bytes.len += (size_t)got;
        if (bytes.len > most)
            return -EFBIG;
    }
    size_t len = bytes.len;
    char *block = buf_take(&bytes);
    if (!block)
        return -ENOMEM;
    block[len] = 0;
    *ret_bytes = block;
    if (ret_len)
        *ret_len = len;
    return 0;
}

int file_read(const char *path, char **ret_bytes, size_t *ret_len)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : read_all(fd, SIZE_MAX, ret_bytes, ret_len);
}

int file_read_start(const char *path, char *ret_text, size_t size, size_t *ret_len)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    size_t len = 0;
    if (fd < 0)
        return -errno;
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
    if (ret_len)
        *ret_len = len;
    return 0;
}

/* The descriptor if it is that of a regular file, else closes it. */
static int keep_regular(int fd)
{
    struct stat st;
    int code = fd < 0 || fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
    if (code == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return code;
}

/* As openat(2). flags: O_NOFOLLOW, or none. */
static int open_to_read(int at, const char *path, int flags)
{
    char again[32];
    _cleanup_(closep) int place =
        keep_regular(openat(at, path, flags | O_PATH | O_CLOEXEC)); /* to open a device may do something */
    if (place < 0)
        return place;
    snprintf(again, sizeof again, "/proc/self/fd/%d", place);
    int fd = open(again, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) /* there is no /proc */
        return keep_regular(openat(at, path, flags | O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    return fd < 0 ? -errno : fd;
}

int file_open_read(const char *path)
{
    return open_to_read(AT_FDCWD, path, 0);
}

FILE *file_open_plain(const char *path)
{
    int fd = file_open_read(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !file)
        close(fd);
    if (fd < 0)
        errno = -fd;
    return file;
}

int file_read_plain(const char *path, char **ret_bytes, size_t *ret_len)
{
    struct stat st;
    _cleanup_(closep) int fd = file_open_read(path);
    if (fd >= 0 && fstat(fd, &st) == 0 && (uintmax_t)st.st_size > FILE_PLAIN_MOST)
        return -EFBIG; /* at once, and not after so many bytes, which may be a hole */
    return fd < 0 ? fd : read_all(fd, FILE_PLAIN_MOST, ret_bytes, ret_len);
}

/* ---- writing in place ---- */

int file_open_own(int at, const char *path, int flags)
{
    /* nothing is cut off before it is known to be a file, and not to lie behind a link */
    int fd =
        flags == O_RDONLY
            ? open_to_read(at, path, O_NOFOLLOW)
            : keep_regular(openat(at, path, (flags & ~O_TRUNC) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
    if (fd < 0 || (fcntl(fd, F_SETFL, flags & O_APPEND) == 0 && (!(flags & O_TRUNC) || ftruncate(fd, 0) == 0)))
        return fd;
    int code = -errno;
    close(fd);
    return code;
}

int file_write_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len) {
        ssize_t put = write(fd, at, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        at += put;
        len -= (size_t)put;
    }
    return 0;
}

/* ---- a new file in the place of an old one ---- */

static int name_temporary(struct file_fresh *fresh)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = clock_now_ns() * UINT64_C(2654435761) +
                 (uint64_t)getpid(); /* early at boot there is none yet; a name that is taken is tried again */
    bool fits = snprintf(fresh->temporary, sizeof fresh->temporary, "%s%s.%" PRIu64 ".tmp",
                         *fresh->name == '.' ? "" : ".", fresh->name, random) < (int)sizeof fresh->temporary;
    return fits ? 0 : -ENAMETOOLONG;
}

/* By /proc it will get its name: only root may name a descriptor. */
static bool open_nameless(struct file_fresh *fresh, mode_t mode)
{
    char again[32];
    fresh->fd = openat(fresh->dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, mode);
    snprintf(again, sizeof again, "/proc/self/fd/%d", fresh->fd);
    if (fresh->fd >= 0 && access(again, F_OK) < 0)
        close(TAKE_FD(fresh->fd));
    fresh->nameless = fresh->fd >= 0;
    return fresh->nameless;
}

static int give_name(struct file_fresh *fresh)
{
    char again[32];
    snprintf(again, sizeof again, "/proc/self/fd/%d", fresh->fd);
    while (linkat(AT_FDCWD, again, fresh->dir, fresh->temporary, AT_SYMLINK_FOLLOW) < 0) {
        int code = errno == EEXIST ? name_temporary(fresh) : -errno;
        if (code < 0)
            return code;
    }
    fresh->nameless = false;
    return 0;
}

static int fresh_open(struct file_fresh *fresh, int at, const char *path, mode_t mode, bool may_be_nameless)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    *fresh = FILE_FRESH_INIT;
    if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".") >=
        (int)sizeof folder)
        return -ENAMETOOLONG;
    if (!*name)
        return -EISDIR;
    if (snprintf(fresh->name, sizeof fresh->name, "%s", name) >= (int)sizeof fresh->name || name_temporary(fresh) < 0) {
        fresh->temporary[0] = 0;
        return -ENAMETOOLONG;
    }
    fresh->dir = openat(at, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fresh->dir < 0)
        return -errno;
    if (may_be_nameless && open_nameless(fresh, mode))
        return 0;
    do
        fresh->fd = openat(fresh->dir, fresh->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    while (fresh->fd < 0 && errno == EEXIST && name_temporary(fresh) == 0);
    int code = fresh->fd < 0 ? -errno : 0;
    if (code < 0)
        fresh->temporary[0] = 0;
    return code;
}

int file_fresh_open(struct file_fresh *fresh, int at, const char *path, mode_t mode)
{
    return fresh_open(fresh, at, path, mode, true);
}

/* link() is what refuses to replace on every file system that has it, also over NFS. */
static int place_new(const struct file_fresh *fresh)
{
    if (linkat(fresh->dir, fresh->temporary, fresh->dir, fresh->name, 0) == 0) {
        unlinkat(fresh->dir, fresh->temporary, 0);
        return 0;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
        return -errno;
    if (renameat2(fresh->dir, fresh->temporary, fresh->dir, fresh->name, RENAME_NOREPLACE) == 0)
        return 0;
    return errno == EINVAL || errno == ENOSYS ? -EOPNOTSUPP : -errno;
}

int file_fresh_place(struct file_fresh *fresh, bool only_new)
{
    int code = fresh->nameless ? give_name(fresh) : 0;
    if (code == 0 && fresh->fd >= 0 && close(TAKE_FD(fresh->fd)) < 0) /* network file systems and quotas tell it here */
        code = -errno;
    if (code < 0)
        return code;
    code = only_new ? place_new(fresh) : 0;
    if (!only_new && renameat(fresh->dir, fresh->temporary, fresh->dir, fresh->name) < 0)
        code = -errno;
    if (code == 0)
        fresh->temporary[0] = 0;
    return code;
}

void file_fresh_done(struct file_fresh *fresh)
{
    int error = errno;
    if (fresh->fd >= 0)
        close(fresh->fd);
    if (fresh->dir >= 0 && fresh->temporary[0] && !fresh->nameless)
        unlinkat(fresh->dir, fresh->temporary, 0);
    if (fresh->dir >= 0)
        close(fresh->dir);
    *fresh = FILE_FRESH_INIT;
    errno = error;
}

static int replace(const char *path, const void *bytes, size_t len, mode_t mode, bool waits)
{
    _cleanup_(file_fresh_done) struct file_fresh fresh = FILE_FRESH_INIT;
    int code = fresh_open(&fresh, AT_FDCWD, path, mode, false); /* it is there for a moment only */
    if (code == 0)
        code = file_write_all(fresh.fd, bytes, len);
    if (code == 0 && waits && fsync(fresh.fd) < 0)
        code = -errno;
    return code < 0 ? code : file_fresh_place(&fresh, false);
}

int file_replace(const char *path, const void *bytes, size_t len, mode_t mode)
{
    return replace(path, bytes, len, mode, true);
}

int file_replace_soon(const char *path, const void *bytes, size_t len, mode_t mode)
{
    return replace(path, bytes, len, mode, false);
}

/* ---- whose directory it is ---- */

int file_check_own_directory(int dir, const char *name, struct err *err)
{
    struct stat st;
    if (fstat(dir, &st) < 0)
        return err_errno(err, -errno, "%s", name);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s belongs to user %u, not to you", name, st.st_uid);
    return st.st_mode & 022 ? err_set(err, -EPERM, "others can write to %s (chmod go-w it)", name) : 0;
}

/* ---- the cache ---- */

enum { FILES_LIMIT = 4096 }; /* half of them stay, as of the bytes */

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

static bool is_temporary(const char *name)
{
    size_t len = strlen(name);
    return name[0] == '.' ||
           (len > 4 && strcmp(name + len - 4, ".tmp") == 0); /* as earlier versions, and file_fresh_open, call it */
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
        if (is_temporary(entry->d_name)) {
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

void cache_clean(const char *path, uint64_t most_bytes)
{
    _cleanup_(closep) int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0)
        clean_up(directory, most_bytes);
}

int cache_file_write(const char *path, const struct iovec *parts, size_t count, uint64_t most_bytes,
                     int (*ready)(int fd), bool (*good)(const char *path), struct err *err)
{
    char directory[PATH_MAX];
    _cleanup_(file_fresh_done) struct file_fresh fresh = FILE_FRESH_INIT;
    snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(path, '/') - path), path);
    int r = file_fresh_open(&fresh, AT_FDCWD, path, 0600);
    if (r == -ENAMETOOLONG)
        return err_set(err, r, "the path of the cache is too long: set SCRY_CACHE_DIR");
    if (r < 0)
        return err_errno(err, r, "cannot write to the cache %s", directory);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = file_write_all(fresh.fd, parts[i].iov_base, parts[i].iov_len);
    if (r == 0 && ready)
        r = ready(fresh.fd);
    /* Only one of those who write it at the same time finds nothing there. */
    if (r == 0)
        r = file_fresh_place(&fresh, good != NULL);
    if (good && r == -EEXIST && good(path))
        r = 0;
    else if (good && (r == -EEXIST || r == -EOPNOTSUPP)) /* of a file system that cannot keep what is there, too */
        r = file_fresh_place(&fresh, false);
    if (r < 0)
        return err_errno(err, r, "cannot write %s", path);
    file_fresh_done(&fresh); /* or it counts */
    cache_clean(directory, most_bytes);
    return 0;
}
