/* SPDX-License-Identifier: Apache-2.0 */
/* Where mirrors are, and the end of those that nobody uses. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/mirror_internal.h"
#include "jobdir/record/remove.h"
#include "shm/waits.h"

enum { NAME_BYTES = 200 };

/* A name of letters, digits, "-", "_" and ".", not at the start; each other byte is % and two digits. If that is too long
 * for a file, the end of it is a hash. */
static void put_name(struct buf *out, const char *text)
{
    size_t start = out->len;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (const char *at = text; *at; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
        if (isalnum((unsigned char)*at) || *at == '-' || *at == '_' || (*at == '.' && at > text))
            buf_putc(out, *at);
        else
            buf_printf(out, "%%%02X", (unsigned char)*at);
    }
    if (!*text)
        buf_putc(out, '%');
    if (out->len - start > NAME_BYTES && !out->failed) {
        out->len = start + NAME_BYTES;
        buf_printf(out, "%%%016llx", (unsigned long long)hash);
    }
}

int mirror_path(const char *via, const char *owner, const char *job, char *ret_path, size_t size, struct err *err)
{
    char root[PATH_MAX];
    int code = dirs_cache("mirrors", root, sizeof root, err);
    if (code < 0)
        return code;
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    buf_puts(&path, root);
    for (int i = 0; i < 3; i++) {
        buf_putc(&path, '/');
        put_name(&path, i == 0 ? via : i == 1 ? owner : job);
    }
    if (path.failed)
        return err_set(err, -ENOMEM, "out of memory");
    if (path.len >= size)
        return err_set(err, -ENAMETOOLONG, "the path of the mirror is too long: set SCRY_CACHE_DIR");
    memcpy(ret_path, path.data, path.len + 1);
    return 0;
}

bool mirror_is_kept(const char *real_path)
{
    char root[PATH_MAX];
    _cleanup_(freep) char *real = dirs_cache("mirrors", root, sizeof root, NULL) == 0 ? realpath(root, NULL) : NULL;
    size_t len = real ? strlen(real) : 0;
    return real && strncmp(real_path, real, len) == 0 && real_path[len] == '/';
}

int mirror_lock(const char *path, int *ret_fd, struct err *err)
{
    char file[PATH_MAX];
    if ((size_t)snprintf(file, sizeof file, "%s/mirror.lock", path) >= sizeof file)
        return err_set(err, -ENAMETOOLONG, "%s: too long", path);
    for (;;) {
        _cleanup_(closep) int fd = file_open_own(AT_FDCWD, file, O_RDWR | O_CREAT);
        if (fd < 0)
            return err_errno(err, fd, "cannot make %s", file);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
            return errno == EWOULDBLOCK ? err_set(err, -EWOULDBLOCK, "another process writes the mirror %s", path)
                                        : err_errno(err, -errno, "cannot lock %s", file);
        if (!file_is_at(file, fd)) /* it was removed just before */
            continue;
        futimens(fd, NULL); /* used now */
        *ret_fd = TAKE_FD(fd);
        return 0;
    }
}

int mirror_remove(const char *path, struct err *err)
{
    _cleanup_(closep) int lock = -1;
    bool kept;
    int code = mirror_lock(path, &lock, err);
    return code < 0 ? code : jobdir_remove(path, &kept, err);
}

/* ---- those that nobody uses ---- */

static void remove_unused(const char *path)
{
    char file[PATH_MAX];
    struct stat st;
    bool is_path = (size_t)snprintf(file, sizeof file, "%s/mirror.lock", path) < sizeof file;
    if (is_path && lstat(file, &st) == 0 && difftime(time(NULL), st.st_mtime) > MIRROR_UNUSED_SECONDS)
        mirror_remove(path, NULL);
}

static void look_below(const char *path, int levels)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char below[PATH_MAX];
        if (entry->d_name[0] == '.' ||
            (size_t)snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >= sizeof below)
            continue;
        if (levels)
            look_below(below, levels - 1);
        else
            remove_unused(below);
    }
    if (dir)
        closedir(dir);
    if (levels < 2)
        rmdir(path); /* if it is empty now */
}

void mirrors_remove_unused(void)
{
    char root[PATH_MAX], stamp[PATH_MAX];
    struct stat st;
    if (dirs_cache("mirrors", root, sizeof root, NULL) < 0 ||
        (size_t)snprintf(stamp, sizeof stamp, "%s/.looked", root) >= sizeof stamp ||
        (lstat(stamp, &st) == 0 && fabs(difftime(time(NULL), st.st_mtime)) < MIRROR_LOOK_SECONDS))
        return;
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, stamp, O_WRONLY | O_CREAT);
    if (fd >= 0)
        futimens(fd, NULL);
    look_below(root, 2);
}

json_t *mirror_read_remote(const char *path)
{
    char file[PATH_MAX];
    _cleanup_(freep) char *bytes = NULL;
    size_t len;
    if ((size_t)snprintf(file, sizeof file, "%s/remote.json", path) >= sizeof file ||
        file_read_plain(file, &bytes, &len) < 0)
        return NULL;
    json_t *json = json_loadb(bytes, len, 0, NULL);
    if (json_is_object(json))
        return json;
    json_decref(json);
    return json_object(); /* damaged: a mirror of which nothing is known */
}
