/* SPDX-License-Identifier: Apache-2.0 */
/* Files of drafts. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "jobdir/text/text.h"
#include "task/internal.h"
#include "task/spec.h"

/* What the other files take, but for the one that is replaced. -EMFILE: there are as many as there may be. */
static int sum_files(const char *dir, const char *name, uint64_t *ret_bytes)
{
    DIR *files = opendir(dir);
    size_t count = 0;
    if (!files)
        return -errno;
    *ret_bytes = 0;
    for (struct dirent *entry; (entry = readdir(files));) {
        struct stat st;
        if (strcmp(entry->d_name, name) == 0 || fstatat(dirfd(files), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        if (*entry->d_name == '.') /* of an upload that was broken off: the lock is ours, so nobody writes it */
            unlinkat(dirfd(files), entry->d_name, 0);
        else
            *ret_bytes += (uint64_t)st.st_size, count++;
    }
    closedir(files);
    return count < TASK_MOST_FILES ? 0 : -EMFILE;
}

static int begin(struct task_upload *upload, const struct task *task, const char *name, struct err *err)
{
    uint64_t others = 0, most = task_number(task->spec, "limits.disk_bytes");
    if (strcmp(task_state_name(task->state), "draft") != 0)
        return err_set(err, -EBUSY, "task %s is %s: files are for drafts", task->id, task_state_name(task->state));
    snprintf(upload->dir, sizeof upload->dir, "%.*s/files", PATH_MAX - 16, task->dir);
    int code = sum_files(upload->dir, name, &others);
    if (code == -EMFILE)
        return err_set(err, -ENOSPC, "task %s has %d files already", task->id, TASK_MOST_FILES);
    if (code < 0)
        return err_errno(err, code, "cannot read %s", upload->dir);
    upload->most = most > others ? most - others : 0;
    snprintf(upload->name, sizeof upload->name, "%s", name);
    snprintf(upload->part, sizeof upload->part, ".part-%d", getpid());
    _cleanup_(closep) int dir = open(upload->dir, O_DIRECTORY | O_CLOEXEC);
    upload->fd = file_open_own(dir, upload->part, O_WRONLY | O_CREAT | O_EXCL);
    return upload->fd < 0 ? err_errno(err, upload->fd, "cannot write into %s", upload->dir) : 0;
}

int task_upload_begin(const struct task_store *store, const char *id, const char *name, struct task_upload *ret_upload,
                      struct err *err)
{
    struct task task;
    *ret_upload = (struct task_upload){.fd = -1, .lock = -1};
    int code = task_file_name_check(name, err);
    if (code < 0)
        return code;
    code = task_load(store, id, &task, err);
    if (code == 0) {
        ret_upload->lock = task_lock(task.dir, TASK_FILES_LOCK, false);
        if (ret_upload->lock < 0)
            code = err_set(err, -EBUSY, "task %s is busy: one file at a time", id);
    }
    if (code == 0) {
        task_done(&task); /* it may have changed until the lock was ours */
        code = task_load(store, id, &task, err);
    }
    if (code == 0)
        code = begin(ret_upload, &task, name, err);
    task_done(&task);
    if (code < 0 && ret_upload->lock >= 0)
        close(ret_upload->lock);
    return code;
}

int task_upload_write(struct task_upload *upload, const void *bytes, size_t size, struct err *err)
{
    if (size > upload->most - upload->bytes)
        return err_set(err, -EFBIG, "%.200s: the files of a task may take as much as its limits.disk_bytes",
                       upload->name);
    for (size_t at = 0; at < size;) {
        ssize_t wrote = write(upload->fd, (const char *)bytes + at, size - at);
        if (wrote < 0 && errno != EINTR)
            return err_errno(err, -errno, "cannot write %s/%.200s", upload->dir, upload->name);
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    upload->bytes += size;
    return 0;
}

int task_upload_end(struct task_upload *upload, bool whole, struct err *err)
{
    _cleanup_(closep) int dir = open(upload->dir, O_DIRECTORY | O_CLOEXEC);
    int code = 0;
    /* it may be a program, and only the user gets at it; a page cannot say which files are some */
    if (whole && (fchmod(upload->fd, 0700) < 0 || renameat(dir, upload->part, dir, upload->name) < 0))
        code = err_errno(err, -errno, "cannot keep %s/%.200s", upload->dir, upload->name);
    if (!whole || code < 0)
        unlinkat(dir, upload->part, 0);
    close(upload->fd);
    close(upload->lock);
    return code;
}

int task_upload_copy(const struct task_store *store, const char *id, const char *path, struct err *err)
{
    enum { PIECE = 256 << 10 };
    struct task_upload upload;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "cannot read %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "%s is no file", path);
    _cleanup_(freep) char *piece = malloc(PIECE);
    int code = piece ? task_upload_begin(store, id, text_base(path), &upload, err) : -ENOMEM;
    if (code < 0)
        return code;
    for (ssize_t got; code == 0 && (got = read(fd, piece, PIECE)) != 0;)
        code = got < 0 ? err_errno(err, -errno, "cannot read %s", path)
                       : task_upload_write(&upload, piece, (size_t)got, err);
    int ended = task_upload_end(&upload, code == 0, err);
    return code < 0 ? code : ended;
}
