/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/memory_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "shm/waits.h"

enum { TRIES = 100, FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

bool memory_dir_is_memory(const char *of)
{
    struct statfs disk;
    if (statfs(of, &disk) < 0)
        return false;
    unsigned long type = (unsigned long)disk.f_type & 0xffffffff;
    return type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
}

static bool half_unused(const struct statvfs *disk, uint64_t bytes)
{
    uint64_t unit = disk->f_frsize, size = disk->f_blocks * unit, left = disk->f_bavail * unit;
    return !size || (bytes < left && left - bytes >= size / 2); /* no size: no limit */
}

int memory_dir_look(const char *root, struct err *err)
{
    struct statfs type;
    struct statvfs disk;
    struct stat st;
    if (statfs(root, &type) < 0 || statvfs(root, &disk) < 0 || stat(root, &st) < 0)
        return err_errno(err, -errno, "%s", root);
    if (type.f_type != TMPFS_MAGIC)
        return err_set(err, -ENODEV, "%s is not in memory", root);
    if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
        return err_set(err, -EPERM, "%s: others may rename files there", root);
    if (access(root, W_OK | X_OK) < 0)
        return err_errno(err, -errno, "%s", root);
    if (disk.f_blocks && disk.f_blocks * disk.f_frsize < MEMORY_DIR_LEAST)
        return err_set(err, -ENOSPC, "%s has only %" PRIu64 " MB", root, (uint64_t)disk.f_blocks * disk.f_frsize >> 20);
    if (!half_unused(&disk, 0))
        return err_set(err, -ENOSPC, "less than half of %s is free", root);
    return 0;
}

bool memory_dir_has_room(const struct memory_dir *dir, uint64_t bytes)
{
    struct statvfs disk;
    return fstatvfs(dir->fd, &disk) == 0 && half_unused(&disk, bytes);
}

int memory_dir_find(struct memory_dir *ret_dir, const char *root, const char *of)
{
    struct stat st;
    *ret_dir = MEMORY_DIR_INIT;
    if (stat(of, &st) < 0)
        return -errno;
    snprintf(ret_dir->key, sizeof ret_dir->key, "%" PRIx64 "-%" PRIx64, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
    int len = snprintf(ret_dir->path, sizeof ret_dir->path, "%s/scry-%u/%s", root, geteuid(), ret_dir->key);
    return len > 0 && (size_t)len < sizeof ret_dir->path ? 0 : -ENAMETOOLONG;
}

/* ---- entering ---- */

/* A folder of ours that is closed to others. */
static int enter(int at, const char *name, int *ret_fd)
{
    struct stat st;
    _cleanup_(closep) int fd = openat(at, name, FOLDER | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return -EPERM;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int make(int at, const char *name, int *ret_fd)
{
    return mkdirat(at, name, 0700) < 0 && errno != EEXIST ? -errno : enter(at, name, ret_fd);
}

static int enter_parent(const char *root, int (*how)(int at, const char *name, int *ret_fd), int *ret_fd)
{
    char name[32];
    _cleanup_(closep) int fd = open(root, FOLDER);
    snprintf(name, sizeof name, "scry-%u", geteuid());
    return fd < 0 ? -errno : how(fd, name, ret_fd);
}

/* -EAGAIN: somebody sweeps there at the moment. */
static int open_once(struct memory_dir *dir)
{
    char root[PATH_MAX];
    struct stat st;
    memory_dir_close(dir);
    snprintf(root, sizeof root, "%s", dir->path);
    for (unsigned up = 0; up < 2; up++)
        *strrchr(root, '/') = 0;
    int code = enter_parent(root, make, &dir->parent_fd);
    if (code == 0)
        code = make(dir->parent_fd, dir->key, &dir->fd);
    if (code == 0 && flock(dir->fd, LOCK_SH | LOCK_NB) < 0)
        code = errno == EWOULDBLOCK ? -EAGAIN : -errno;
    if (code == 0 && (fstat(dir->fd, &st) < 0 || !st.st_nlink)) /* it was removed before it was locked */
        code = -EAGAIN;
    return code == -ENOENT ? -EAGAIN : code;
}

/* ---- what is in it ---- */

static DIR *list(int fd)
{
    int again = openat(fd, ".", FOLDER); /* with its own position in the listing */
    DIR *entries = again < 0 ? NULL : fdopendir(again);
    if (!entries && again >= 0)
        close(again);
    return entries;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool has_files(int fd)
{
    DIR *entries = list(fd);
    bool some = false;
    for (struct dirent *entry; entries && !some && (entry = readdir(entries));)
        some = !is_dots(entry->d_name);
    if (entries)
        closedir(entries);
    return some;
}

static void clear(int fd)
{
    DIR *entries = list(fd);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (!is_dots(entry->d_name))
            unlinkat(fd, entry->d_name, 0);
    if (entries)
        closedir(entries);
}

static void name_of(const char *key, char ret_name[48])
{
    snprintf(ret_name, 48, "%.43s.of", key);
}

static int say_whose(const struct memory_dir *dir, const char *of)
{
    char name[48], real[PATH_MAX];
    name_of(dir->key, name);
    if (!realpath(of, real))
        return -errno;
    if (unlinkat(dir->parent_fd, name, 0) < 0 && errno != ENOENT)
        return -errno;
    return symlinkat(real, dir->parent_fd, name) < 0 && errno != EEXIST ? -errno : 0;
}

int memory_dir_open(struct memory_dir *dir, const char *of, bool known, struct err *err)
{
    int code = -EAGAIN;
    for (unsigned i = 0; i < TRIES && code == -EAGAIN; i++) {
        code = open_once(dir);
        if (code == -EAGAIN)
            nanosleep(&(struct timespec){.tv_nsec = MEMORY_DIR_AGAIN_NS}, NULL);
    }
    if (code == 0 && !known && has_files(dir->fd)) {
        /* a directory that is gone had the same number; if somebody still uses this folder, leave it */
        code = flock(dir->fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
        if (code == 0) {
            clear(dir->fd);
            code = flock(dir->fd, LOCK_SH | LOCK_NB) < 0 ? -errno : 0;
        }
    }
    if (code == 0)
        code = say_whose(dir, of);
    if (code < 0)
        memory_dir_close(dir);
    return code < 0 ? err_errno(err, code, "%s", dir->path) : 0;
}

void memory_dir_close(struct memory_dir *dir)
{
    if (dir->fd >= 0)
        close(dir->fd);
    if (dir->parent_fd >= 0)
        close(dir->parent_fd);
    dir->fd = dir->parent_fd = -1;
}

/* ---- the end of folders ---- */

/* Removes a folder that we have locked exclusively. The link goes first: whoever makes the folder again makes the link,
 * too. */
static void remove_locked(int parent_fd, int fd, const char *key)
{
    char name[48];
    name_of(key, name);
    clear(fd);
    unlinkat(parent_fd, name, 0);
    unlinkat(parent_fd, key, AT_REMOVEDIR);
}

/* Removes scry-UID if it is empty. */
static void remove_parent(const char *root)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/scry-%u", root, geteuid()) < (int)sizeof path)
        rmdir(path);
}

void memory_dir_remove(struct memory_dir *dir)
{
    char root[PATH_MAX];
    if (dir->fd >= 0 && flock(dir->fd, LOCK_EX | LOCK_NB) == 0) {
        remove_locked(dir->parent_fd, dir->fd, dir->key);
        snprintf(root, sizeof root, "%s", dir->path);
        for (unsigned up = 0; up < 2; up++)
            *strrchr(root, '/') = 0;
        remove_parent(root);
    }
    memory_dir_close(dir);
}

/* Is the directory of a folder surely gone? */
static bool is_orphan(int parent_fd, const char *key)
{
    char name[48], of[PATH_MAX], now[40];
    struct stat st;
    name_of(key, name);
    ssize_t len = readlinkat(parent_fd, name, of, sizeof of - 1);
    if (len < 0)
        return errno == ENOENT; /* its maker was interrupted */
    of[len] = 0;
    if (stat(of, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR;
    snprintf(now, sizeof now, "%" PRIx64 "-%" PRIx64, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
    return strcmp(now, key) != 0;
}

static bool some_live(int fd, bool (*lives)(const char *name))
{
    DIR *entries = list(fd);
    bool some = !entries;
    for (struct dirent *entry; entries && !some && (entry = readdir(entries));)
        some = !is_dots(entry->d_name) && lives(entry->d_name);
    if (entries)
        closedir(entries);
    return some;
}

static void sweep_one(int parent_fd, const char *key, bool (*lives)(const char *name))
{
    struct stat st;
    _cleanup_(closep) int fd = -1;
    if (!is_orphan(parent_fd, key) || enter(parent_fd, key, &fd) < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return;
    /* again, now that nobody can make it */
    if (fstat(fd, &st) == 0 && st.st_nlink && is_orphan(parent_fd, key) && !some_live(fd, lives))
        remove_locked(parent_fd, fd, key);
}

void memory_dir_sweep(const char *root, bool (*lives)(const char *name))
{
    _cleanup_(closep) int parent_fd = -1;
    if (enter_parent(root, enter, &parent_fd) < 0)
        return;
    DIR *entries = list(parent_fd);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strspn(entry->d_name, "0123456789abcdef-") == strlen(entry->d_name))
            sweep_one(parent_fd, entry->d_name, lives);
    if (entries)
        closedir(entries);
    remove_parent(root);
}
