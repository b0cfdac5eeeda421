/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/dirs.h"

#include "base/data/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINKS_MOST = 40 }; /* as in the kernel */

struct trust_walk {
    char program[PATH_MAX]; /* the running one */
    char done[PATH_MAX];    /* where `at` is; "": the root */
    char rest[PATH_MAX];
    int at;
    struct stat st; /* of `at` */
    unsigned links;
};

static void trust_walk_done(struct trust_walk *walk)
{
    closep(&walk->at);
}

static int trust_judge(const struct trust_walk *walk, const struct stat *st, const char *path, mode_t allowed,
                       struct err *err)
{
    size_t len = strlen(path);
    if (S_ISDIR(st->st_mode) && strncmp(walk->program, path, len) == 0 && walk->program[len] == '/')
        return 0;
    const char *name = len ? path : "/";
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return err_set(err, -EPERM, "%s belongs to user %u, not to you or root", name, st->st_uid);
    if (!S_ISLNK(st->st_mode) && (st->st_mode & 022 & ~allowed))
        return err_set(err, -EPERM, "others can write to %s (chmod go-w it)", name);
    return 0;
}

static int trust_begin_at_root(struct trust_walk *walk, struct err *err)
{
    closep(&walk->at);
    walk->done[0] = 0;
    walk->at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (walk->at < 0 || fstat(walk->at, &walk->st) < 0)
        return err_errno(err, -errno, "/");
    return trust_judge(walk, &walk->st, "", walk->st.st_mode & S_ISVTX ? 022 : 0, err);
}

/* Replaces a link by its target in the rest of the path. */
static int trust_follow_link(struct trust_walk *walk, int link, const char *path, struct err *err)
{
    char to[PATH_MAX], rest[PATH_MAX];
    ssize_t len = readlinkat(link, "", to, sizeof to);
    if (len < 0)
        return err_errno(err, -errno, "%s", path);
    if (++walk->links > LINKS_MOST)
        return err_errno(err, -ELOOP, "%s", path);
    int size = snprintf(rest, sizeof rest, "%.*s/%s", (int)len, to, walk->rest);
    if (size < 0 || (size_t)size >= sizeof rest)
        return err_errno(err, -ENAMETOOLONG, "%s", path);
    memcpy(walk->rest, rest, (size_t)size + 1);
    return to[0] == '/' ? trust_begin_at_root(walk, err) : 0;
}

/* Follows one component of the path. */
static int trust_step(struct trust_walk *walk, const char *name, struct err *err)
{
    bool up = strcmp(name, "..") == 0;
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s%s%s", walk->done, up ? "" : "/", up ? "" : name);
    if (size < 0 || (size_t)size >= sizeof path)
        return err_errno(err, -ENAMETOOLONG, "%s", walk->done);
    char *slash = up ? strrchr(path, '/') : NULL;
    if (slash)
        *slash = 0;
    _cleanup_(closep) int next = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (next < 0 || fstat(next, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    int code = trust_judge(walk, &st, path, !S_ISDIR(st.st_mode) || (st.st_mode & S_ISVTX) ? 022 : 0, err);
    if (code < 0)
        return code;
    if (S_ISLNK(st.st_mode))
        return trust_follow_link(walk, next, path, err);
    close(walk->at);
    walk->at = TAKE_FD(next);
    walk->st = st;
    memcpy(walk->done, path, strlen(path) + 1);
    return 0;
}

/* Makes the path absolute. */
static int begin(struct trust_walk *walk, const char *path, struct err *err)
{
    ssize_t len = readlink("/proc/self/exe", walk->program, sizeof walk->program - 1);
    walk->program[len < 0 ? 0 : len] = 0;
    size_t at = 0;
    if (path[0] != '/') {
        if (!getcwd(walk->rest, sizeof walk->rest - 1))
            return err_errno(err, -errno, "the working directory");
        at = strlen(walk->rest);
        walk->rest[at++] = '/';
    }
    if (at + strlen(path) >= sizeof walk->rest)
        return err_errno(err, -ENAMETOOLONG, "%s", path);
    memcpy(walk->rest + at, path, strlen(path) + 1);
    return trust_begin_at_root(walk, err);
}

int trusted_path(char ret_path[PATH_MAX], const char *path, mode_t type, struct err *err)
{
    _cleanup_(trust_walk_done) struct trust_walk walk = {.at = -1};
    int code = begin(&walk, path, err);
    while (code == 0) {
        char name[NAME_MAX + 1], *from = walk.rest + strspn(walk.rest, "/");
        size_t len = strcspn(from, "/");
        if (!len)
            break;
        if (len >= sizeof name)
            return err_errno(err, -ENAMETOOLONG, "%s", path);
        memcpy(name, from, len);
        name[len] = 0;
        memmove(walk.rest, from + len, strlen(from + len) + 1);
        if (strcmp(name, ".") != 0)
            code = trust_step(&walk, name, err);
    }
    if (code < 0)
        return code;
    if ((walk.st.st_mode & S_IFMT) != type)
        return err_set(err, -EPERM, "%s is no %s", path, type == S_IFDIR ? "directory" : "file");
    code = trust_judge(&walk, &walk.st, walk.done, 0, err);
    if (code == 0)
        snprintf(ret_path, PATH_MAX, "%s", walk.done[0] ? walk.done : "/");
    return code;
}

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

/* Below a directory that only the user can write to, for somebody else may have taken the name in /tmp. A home may be that of many
 * hosts. Once it was needed it stays in use, so that all find the same monitor. */
static int find_own_runtime(char path[PATH_MAX], bool make)
{
    char state[PATH_MAX], host[65] = "";
    struct stat st;
    gethostname(host, sizeof host - 1);
    int len = dirs_state(state, sizeof state, NULL) == 0 ? snprintf(path, PATH_MAX, "%s/run-%s", state, host) : -1;
    if (len < 0 || len > RUNTIME_PATH_LIMIT)
        return -ENAMETOOLONG;
    if (make)
        return dirs_make(path, 0700);
    return lstat(path, &st) < 0 ? -errno : 0;
}

static int find_temporary_runtime(char path[PATH_MAX], struct err *err)
{
    if (find_own_runtime(path, false) == 0)
        return 0;
    snprintf(path, PATH_MAX, "/tmp/scry-%u", geteuid());
    int code = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
    struct stat st;
    if (code < 0)
        err_errno(err, code, "cannot make the runtime directory %s", path);
    bool foreign = code < 0 || (lstat(path, &st) == 0 && (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()));
    char own[PATH_MAX];
    if (foreign && find_own_runtime(own, true) == 0) {
        snprintf(path, PATH_MAX, "%s", own);
        return 0;
    }
    return code; /* what is wrong with it is said */
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
            int code = find_temporary_runtime(path, err);
            if (code < 0)
                return code;
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
