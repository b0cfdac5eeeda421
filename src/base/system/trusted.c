/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"

enum { LINKS_MOST = 40 }; /* as in the kernel */

struct walk {
    char program[PATH_MAX]; /* the running one */
    char done[PATH_MAX];    /* where `at` is; "": the root */
    char rest[PATH_MAX];
    int at;
    struct stat st; /* of `at` */
    unsigned links;
};

static void walk_done(struct walk *walk)
{
    closep(&walk->at);
}

static int judge(const struct walk *walk, const struct stat *st, const char *path, mode_t allowed, struct err *err)
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

static int go_to_root(struct walk *walk, struct err *err)
{
    closep(&walk->at);
    walk->done[0] = 0;
    walk->at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (walk->at < 0 || fstat(walk->at, &walk->st) < 0)
        return err_errno(err, -errno, "/");
    return judge(walk, &walk->st, "", walk->st.st_mode & S_ISVTX ? 022 : 0, err);
}

/* Replaces a link by its target in the rest of the path. */
static int follow(struct walk *walk, int link, const char *path, struct err *err)
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
    return to[0] == '/' ? go_to_root(walk, err) : 0;
}

/* Follows one component of the path. */
static int step(struct walk *walk, const char *name, struct err *err)
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
    int code = judge(walk, &st, path, !S_ISDIR(st.st_mode) || (st.st_mode & S_ISVTX) ? 022 : 0, err);
    if (code < 0)
        return code;
    if (S_ISLNK(st.st_mode))
        return follow(walk, next, path, err);
    close(walk->at);
    walk->at = TAKE_FD(next);
    walk->st = st;
    memcpy(walk->done, path, strlen(path) + 1);
    return 0;
}

/* Makes the path absolute. */
static int begin(struct walk *walk, const char *path, struct err *err)
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
    return go_to_root(walk, err);
}

int trusted_path(char ret_path[PATH_MAX], const char *path, mode_t type, struct err *err)
{
    _cleanup_(walk_done) struct walk walk = {.at = -1};
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
            code = step(&walk, name, err);
    }
    if (code < 0)
        return code;
    if ((walk.st.st_mode & S_IFMT) != type)
        return err_set(err, -EPERM, "%s is no %s", path, type == S_IFDIR ? "directory" : "file");
    code = judge(&walk, &walk.st, walk.done, 0, err);
    if (code == 0)
        snprintf(ret_path, PATH_MAX, "%s", walk.done[0] ? walk.done : "/");
    return code;
}
