/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/dirs.h"
#include "base/system/process.h"
#include "jobdir/record/dir.h"
#include "jobdir/text/text.h"

enum { NOT_THERE = 3 /* exit status of scry-record */ };

/* Most people have none, and start nothing. */
static bool has_record(void)
{
    const char *own = getenv("SCRY_RECORD");
    char path[PATH_MAX], file[PATH_MAX + 32];
    if (own && *own)
        return true;
    if (dirs_state(path, sizeof path, NULL) < 0)
        return false;
    snprintf(file, sizeof file, "%s/record/record.db", path);
    return access(file, F_OK) == 0;
}

/* Its output; the exit status, or -errno with err. */
static int ask(const char *what, const char *job, struct buf *out, struct err *err)
{
    char path[PATH_MAX];
    int ends[2], status = 0, code = dirs_libexec("scry-record", path, sizeof path, err);
    pid_t pid;
    if (code < 0)
        return code;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot make a pipe");
    char *argv[] = {path, (char *)what, (char *)"--", (char *)job, NULL};
    code = spawn_program(
        &(struct spawn){.path = path, .argv = argv, .in = SPAWN_NULL, .out = ends[1], .error = SPAWN_SAME}, &pid);
    close(ends[1]);
    for (ssize_t got = 1; code == 0 && got > 0;) {
        char bytes[4096];
        got = read(ends[0], bytes, sizeof bytes);
        if (got > 0)
            buf_append(out, bytes, (size_t)got);
        else if (got < 0 && errno == EINTR)
            got = 1;
    }
    close(ends[0]);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int record_fetch(const char *job, char *ret_path, size_t size, struct err *err)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (!has_record())
        return -ENOENT;
    int code = ask("fetch", job, &out, err);
    if (code < 0)
        return code;
    if (code == NOT_THERE)
        return -ENOENT;
    size_t len = out.len && out.data ? strcspn(out.data, "\n") : 0;
    if (code || !len || len >= size)
        return err_set(err, -EIO, "job %s could not be read from the record", job);
    snprintf(ret_path, size, "%.*s", (int)len, out.data);
    return 0;
}

/* A job whose directory is here is shown as it is here. */
static bool is_here(const char *id)
{
    char jobs[PATH_MAX], path[PATH_MAX];
    return dirs_jobs_find(jobs, sizeof jobs, NULL) == 0 &&
           (size_t)snprintf(path, sizeof path, "%s/%s", jobs, id) < sizeof path && access(path, F_OK) == 0;
}

static int by_id(const void *a, const void *b)
{
    char one[JOB_ID_SIZE], other[JOB_ID_SIZE];
    jobdir_id(*(char *const *)a, one);
    jobdir_id(*(char *const *)b, other);
    return strcmp(one, other);
}

int record_add(char ***paths, size_t *count, struct err *err)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (!has_record())
        return 0;
    int code = ask("list", NULL, &out, err);
    if (code)
        return code < 0 ? code : err_set(err, -EIO, "the jobs of the record could not be listed");
    size_t room = *count, before = *count;
    char *save = NULL;
    for (char *line = out.data ? strtok_r(out.data, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        if (is_here(text_base(line)))
            continue;
        char *copy = GROW(*paths, *count, room) ? strdup(line) : NULL;
        if (!copy)
            return err_set(err, -ENOMEM, "out of memory");
        (*paths)[(*count)++] = copy;
    }
    if (*count > before)
        qsort(*paths, *count, sizeof **paths, by_id);
    return 0;
}
