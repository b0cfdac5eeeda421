/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"

#ifndef SCRY_LIBEXECDIR
#define SCRY_LIBEXECDIR "/usr/local/libexec/scry"
#endif
#ifndef SCRY_EXTDIR
#define SCRY_EXTDIR "/usr/local/lib/scry/ext"
#endif

/* sun_path holds 108 bytes with its NUL; the longest name inside the directory is "monitor.sock" */
enum { RUNTIME_PATH_LIMIT = 107 - sizeof "/monitor.sock" };

int dirs_make(const char *path, mode_t mode)
{
    char copy[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof copy)
        return -ENAMETOOLONG;
    memcpy(copy, path, len + 1);
    for (char *slash = copy + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        if (mkdir(copy, mode) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return mkdir(copy, mode) < 0 && errno != EEXIST ? -errno : 0;
}

/* A directory for sockets must be ours and closed to others: else anybody could put a socket there. */
static int check_private(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, -ENOTDIR, "%s is not a directory", path);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s belongs to user %u, not to you: remove it or set SCRY_RUNTIME_DIR", path,
                       st.st_uid);
    if (st.st_mode & 077)
        return err_set(err, -EPERM, "others can enter %s: chmod 700 it or set SCRY_RUNTIME_DIR", path);
    return 0;
}

int dirs_runtime(char *ret_path, size_t size, struct err *err)
{
    char path[PATH_MAX];
    const char *own = getenv("SCRY_RUNTIME_DIR");
    if (own && *own) {
        if (strlen(own) > RUNTIME_PATH_LIMIT)
            return err_set(err, -ENAMETOOLONG, "SCRY_RUNTIME_DIR is longer than %d bytes, too long for a socket: %s",
                           RUNTIME_PATH_LIMIT, own);
        snprintf(path, sizeof path, "%s", own);
        int code = dirs_make(path, 0700);
        if (code < 0)
            return err_errno(err, code, "cannot make the runtime directory %s", path);
    } else {
        const char *xdg = getenv("XDG_RUNTIME_DIR");
        int len = xdg && *xdg ? snprintf(path, sizeof path, "%s/scry", xdg) : -1;
        if (len < 0 || len > RUNTIME_PATH_LIMIT || (mkdir(path, 0700) < 0 && errno != EEXIST) ||
            access(path, W_OK) < 0) {
            snprintf(path, sizeof path, "/tmp/scry-%u", geteuid());
            if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return err_errno(err, -errno, "cannot make the runtime directory %s", path);
        }
    }
    int code = check_private(path, err);
    if (code < 0)
        return code;
    return (size_t)snprintf(ret_path, size, "%s", path) < size ? 0 : err_set(err, -ENAMETOOLONG, "%s: too long", path);
}

int dirs_runtime_again(const char *path, struct err *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "cannot make the runtime directory %s", path);
    return check_private(path, err);
}

int dirs_agent_socket(char *ret_path, size_t size, struct err *err)
{
    char dir[PATH_MAX];
    int code = dirs_runtime(dir, sizeof dir, err);
    if (code < 0)
        return code;
    return (size_t)snprintf(ret_path, size, "%s/agent.sock", dir) < size
               ? 0
               : err_set(err, -ENAMETOOLONG, "%s: too long", dir);
}

/* The XDG specification: relative paths are invalid and ignored. */
static const char *absolute(const char *variable)
{
    const char *path = getenv(variable);
    return path && *path == '/' ? path : NULL;
}

int dirs_jobs_find(char *ret_path, size_t size, struct err *err)
{
    const char *own = getenv("SCRY_STATE_DIR"), *xdg = absolute("XDG_STATE_HOME"), *home = absolute("HOME");
    const struct passwd *user = getenv("HOME") ? NULL : getpwuid(geteuid()); /* some batch systems set none */
    int len;
    if (user)
        home = user->pw_dir;
    if (own && *own)
        len = snprintf(ret_path, size, "%s", own);
    else if (xdg)
        len = snprintf(ret_path, size, "%s/scry/jobs", xdg);
    else if (!home)
        return err_set(err, -ENOENT, "HOME is not set to an absolute path: set it, or SCRY_STATE_DIR");
    else if (access(home, F_OK) < 0) /* some users have a home that never exists */
        return err_errno(err, -errno, "the home directory %s: set HOME or SCRY_STATE_DIR", home);
    else
        len = snprintf(ret_path, size, "%s/.local/state/scry/jobs", home);
    if (len < 0 || (size_t)len >= size)
        return err_set(err, -ENAMETOOLONG, "the path of the jobs directory is too long");
    return 0;
}

int dirs_jobs(char *ret_path, size_t size, struct err *err)
{
    int code = dirs_jobs_find(ret_path, size, err);
    if (code == 0 && (code = dirs_make(ret_path, 0700)) < 0)
        err_errno(err, code, "cannot make the jobs directory %s", ret_path);
    return code;
}

static int find_xdg(const char *variable, const char *below_home, char *ret_path, size_t size, struct err *err)
{
    const char *xdg = absolute(variable), *home = absolute("HOME");
    if (!xdg && !home)
        return err_set(err, -ENOENT, "HOME is not set to an absolute path: set it, or %s", variable);
    int len = xdg ? snprintf(ret_path, size, "%s/scry", xdg) : snprintf(ret_path, size, "%s/%s/scry", home, below_home);
    if (len < 0 || (size_t)len >= size)
        return err_set(err, -ENAMETOOLONG, "the path in %s is too long", xdg ? variable : "HOME");
    return 0;
}

int dirs_config(char *ret_path, size_t size, struct err *err)
{
    return find_xdg("XDG_CONFIG_HOME", ".config", ret_path, size, err);
}

int dirs_state(char *ret_path, size_t size, struct err *err)
{
    return find_xdg("XDG_STATE_HOME", ".local/state", ret_path, size, err);
}

int dirs_cache(const char *name, char *ret_path, size_t size, struct err *err)
{
    const char *own = absolute("SCRY_CACHE_DIR"), *xdg = own ? own : absolute("XDG_CACHE_HOME"),
               *home = absolute("HOME");
    if (!xdg && !home)
        return err_set(err, -ENOENT, "no place for %s: set HOME, or SCRY_CACHE_DIR, to an absolute path", name);
    int len = xdg ? snprintf(ret_path, size, "%s/scry/%s", xdg, name)
                  : snprintf(ret_path, size, "%s/.cache/scry/%s", home, name);
    if (len < 0 || (size_t)len >= size)
        return err_set(err, -ENAMETOOLONG, "the path of %s is too long: set SCRY_CACHE_DIR", name);
    return 0;
}

static bool try_program(char *ret_path, size_t size, const char *dir, const char *name)
{
    int len = snprintf(ret_path, size, "%s/%s", dir, name);
    return len > 0 && (size_t)len < size && access(ret_path, X_OK) == 0;
}

/* The directory of the running program, without its last slash; "" if unknown. */
static void own_dir(char path[PATH_MAX])
{
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[len < 0 ? 0 : len] = 0;
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
}

int dirs_libexec(const char *name, char *ret_path, size_t size, struct err *err)
{
    const char *own = getenv("SCRY_LIBEXEC");
    if (own && *own && try_program(ret_path, size, own, name))
        return 0;
    char here[PATH_MAX], dir[PATH_MAX + 32];
    own_dir(here);
    static const char *const beside[] = {
        "",          "/../libexec/scry", "/../daemon", "/../tracer", "/../symbols", "/../publish", "/../mirror",
        "/../store", "/../keys",         "/../job",    "/../link",   "/../task"}; /* all but the first two: as built */
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        snprintf(dir, sizeof dir, "%s%s", here, beside[i]);
        if (try_program(ret_path, size, dir, name))
            return 0;
    }
    if (try_program(ret_path, size, SCRY_LIBEXECDIR, name))
        return 0;
    return err_set(err, -ENOENT, "cannot find scry's program %s beside %s or in %s: set SCRY_LIBEXEC", name, here,
                   SCRY_LIBEXECDIR);
}

void dirs_extensions(void (*fn)(void *ctx, const char *dir), void *ctx)
{
    const char *list = getenv("SCRY_EXT_PATH");
    while (list && *list) {
        size_t len = strcspn(list, ":");
        char dir[PATH_MAX];
        if (len && len < sizeof dir) {
            memcpy(dir, list, len);
            dir[len] = 0;
            if (access(dir, R_OK | X_OK) == 0)
                fn(ctx, dir);
        }
        list += len + (list[len] == ':');
    }
    char here[PATH_MAX], dir[PATH_MAX + 32];
    own_dir(here);
    static const char *const beside[] = {"/../../lib/scry/ext", "/../../ext"};
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        snprintf(dir, sizeof dir, "%s%s", here, beside[i]);
        if (access(dir, R_OK | X_OK) == 0) {
            fn(ctx, dir);
            return;
        }
    }
    if (access(SCRY_EXTDIR, R_OK | X_OK) == 0)
        fn(ctx, SCRY_EXTDIR);
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

static int open_plain(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int code = fd < 0 || fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
    if (code == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return code;
}

FILE *file_open_plain(const char *path)
{
    int fd = open_plain(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !file)
        close(fd);
    if (fd < 0)
        errno = -fd;
    return file;
}

int file_read_plain(const char *path, char **ret_bytes, size_t *ret_len)
{
    _cleanup_(closep) int fd = open_plain(path);
    return fd < 0 ? fd : read_all(fd, FILE_PLAIN_MOST, ret_bytes, ret_len);
}

/* Names this process among all that may write here: on a shared file system others, of other hosts and containers, have the
 * same number. In digits, as jobdir/record/remove.c knows it. */
static void own_number(char *ret_text, size_t size)
{
    char host[256] = "";
    struct stat st = {0};
    uint32_t sum = 2166136261u;
    gethostname(host, sizeof host - 1);
    for (const char *at = host; *at; at++)
        sum = (sum ^ (unsigned char)*at) * 16777619u;
    if (stat("/proc/self/ns/pid", &st) == 0)
        sum = (sum ^ (uint32_t)st.st_ino) * 16777619u;
    snprintf(ret_text, size, "%d%010u", getpid(), sum);
}

static int replace(const char *path, const void *bytes, size_t len, mode_t mode, bool waits)
{
    char temporary[PATH_MAX], number[32];
    own_number(number, sizeof number);
    if (snprintf(temporary, sizeof temporary, "%s.%s.tmp", path, number) >= (int)sizeof temporary)
        return -ENAMETOOLONG;
    _cleanup_(closep) int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return -errno;
    int code = 0;
    const char *at = bytes;
    while (len && code == 0) {
        ssize_t put = write(fd, at, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            code = -errno;
        } else {
            at += put;
            len -= (size_t)put;
        }
    }
    if (code == 0 && waits && fsync(fd) < 0)
        code = -errno;
    if (code == 0 && rename(temporary, path) < 0)
        code = -errno;
    if (code < 0)
        unlink(temporary);
    return code;
}

int file_replace(const char *path, const void *bytes, size_t len, mode_t mode)
{
    return replace(path, bytes, len, mode, true);
}

int file_replace_soon(const char *path, const void *bytes, size_t len, mode_t mode)
{
    return replace(path, bytes, len, mode, false);
}
