/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/find.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "broker/url.h"
#include "cli/common/cli.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/info.h"
#include "jobdir/record/mirror.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
static int record_ask(const char *what, const char *job, struct buf *out, struct err *err)
{
    char path[PATH_MAX];
    int ends[3], code = dirs_libexec("scry-record", path, sizeof path, err);
    pid_t pid;
    if (code < 0)
        return code;
    char *argv[] = {path, (char *)what, (char *)"--", (char *)job, NULL};
    const struct spawn spawn = {.path = path, .argv = argv, .in = SPAWN_NULL, .out = SPAWN_PIPE, .error = SPAWN_SAME};
    code = spawn_piped(&spawn, &pid, ends);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    for (ssize_t got = 1; got > 0;) {
        char bytes[4096];
        got = read(ends[1], bytes, sizeof bytes);
        if (got > 0)
            buf_append(out, bytes, (size_t)got);
        else if (got < 0 && errno == EINTR)
            got = 1;
    }
    close(ends[1]);
    int status = child_reap(pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

/* 0; -ENOENT: there is no record, or it has no such job; others: it could not be read, and it has said why. */
static int record_fetch(const char *job, char *ret_path, size_t size, struct err *err)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (!has_record())
        return -ENOENT;
    int code = record_ask("fetch", job, &out, err);
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
    int code = record_ask("list", NULL, &out, err);
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

enum { LINE_BYTES = 64 << 10 };

/* ---- the program ---- */

static int mirror_spawn(struct found_job *job, const char *command, const char *url, struct err *err)
{
    char path[PATH_MAX];
    int ends[3], code = dirs_libexec("scry-mirror", path, sizeof path, err);
    if (code < 0)
        return code;
    char *argv[] = {path, (char *)command, NULL};
    const struct spawn spawn = {.path = path, .argv = argv, .in = SPAWN_PIPE, .out = SPAWN_PIPE, .error = SPAWN_SAME};
    code = spawn_piped(&spawn, &job->follower, ends);
    job->input = ends[0];
    job->output = ends[1];
    if (code < 0) {
        job->follower = 0;
        return err_errno(err, code, "cannot start %s", path);
    }
    _cleanup_(buf_done) struct buf line = BUF_INIT; /* not in its arguments: there may be a password in it */
    buf_puts(&line, url);
    buf_putc(&line, '\n');
    code = line.failed ? -ENOMEM : write(job->input, line.data, line.len) == (ssize_t)line.len ? 0 : -EPIPE;
    return code < 0 ? err_errno(err, code, "cannot talk with %s", path) : 0;
}

static void close_end(int *end)
{
    if (*end >= 0)
        close(*end);
    *end = -1;
}

void find_close(struct found_job *job)
{
    if (job->follower > 0) {
        close_end(&job->input);
        char bytes[4096];
        uint64_t until_ns = clock_now_ns() + wait_policies[WAIT_MIRROR].limit_ms * WAITS_NS_PER_MS;
        while (wait_fd_until(job->output, POLLIN, until_ns) && read(job->output, bytes, sizeof bytes) > 0)
            continue; /* it closes this end when it ends */
        if (waitpid(job->follower, NULL, WNOHANG) == 0 && clock_now_ns() < until_ns)
            waitpid(job->follower, NULL, 0);
    }
    job->follower = 0;
    close_end(&job->input);
    close_end(&job->output);
    if (job->url.data)
        explicit_bzero(job->url.data, job->url.cap);
    buf_done(&job->url);
}

/* ---- what it says ---- */

struct told {
    struct progress progress;
    double share;
    find_list_fn *job; /* of a listing */
    void *ctx;
    size_t more;
    char *ready; /* NULL: not yet */
    struct err err;
};

static void take_line(struct told *told, char *line)
{
    char *text = strchr(line, ' ');
    if (!text)
        return;
    *text++ = 0;
    if (strcmp(line, "ready") == 0) {
        told->ready = strdup(text);
    } else if (strcmp(line, "error") == 0) {
        err_set(&told->err, -EHOSTUNREACH, "%s", text);
    } else if (strcmp(line, "progress") == 0) {
        told->share = strtod(text, NULL);
    } else if (strcmp(line, "job") == 0 && told->job) {
        progress_end(&told->progress);
        told->job(told->ctx, text);
    } else if (strcmp(line, "more") == 0) {
        told->more = strtoul(text, NULL, 10);
    } else if (strcmp(line, "note") == 0) {
        _cleanup_(buf_done) struct buf shown = BUF_INIT;
        text_show(&shown, text);
        progress_end(&told->progress);
        log_warning("%s", shown.data ? shown.data : "");
    }
}

/* Reads until it is ready, has failed, or is gone. It has its own limits of time; and a person has Ctrl-C. */
static int mirror_listen(const struct found_job *job, struct told *told, struct err *err)
{
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    progress_begin(&told->progress, "asking the broker");
    for (bool there = true; there && !told->ready && !told->err.code;) {
        progress_show(&told->progress, told->share);
        if (!wait_fd(job->output, POLLIN, FIND_SHOW_MS))
            continue;
        char *room = in.len < LINE_BYTES ? buf_reserve(&in, 4096) : NULL;
        ssize_t got = room ? read(job->output, room, 4096) : -1;
        there = got > 0 || (got < 0 && room && errno == EINTR);
        in.len += got > 0 ? (size_t)got : 0;
        for (char *end; in.len && (end = memchr(in.data, '\n', in.len));) {
            *end = 0;
            take_line(told, in.data);
            buf_drop(&in, (size_t)(end - in.data) + 1);
        }
    }
    progress_end(&told->progress);
    if (told->err.code)
        return err_set(err, told->err.code, "%s", told->err.text);
    return told->ready ? 0 : err_set(err, -EPIPE, "scry-mirror, which reads the job from the broker, has ended");
}

static void told_done(struct told *told)
{
    free(told->ready);
}

int find_look(struct found_job *job, struct err *err)
{
    char line[4096];
    if (job->output < 0 || !wait_fd(job->output, POLLIN, 0))
        return 0;
    ssize_t len = read(job->output, line, sizeof line - 1); /* its lines are written at once */
    if (len <= 0)
        return err_set(err, -EPIPE, "the job is not followed any more: scry-mirror has ended");
    line[len] = 0;
    for (char *rest = line, *at; (at = strsep(&rest, "\n"));) {
        _cleanup_(buf_done) struct buf shown = BUF_INIT;
        char *text = at;
        const char *word = strsep(&text, " ");
        if (!text || (strcmp(word, "note") != 0 && strcmp(word, "error") != 0))
            continue;
        text_show(&shown, text);
        if (strcmp(word, "error") == 0)
            return err_set(err, -EHOSTUNREACH, "%s", shown.data ? shown.data : "");
        log_warning("%s", shown.data ? shown.data : "");
    }
    return 0;
}

/* ---- jobs ---- */

static int take_remote(struct found_job *job, const char *word, struct err *err)
{
    struct broker_url url;
    struct job_info info;
    int code = broker_url_parse(word, &url, err);
    json_t *remote = code == 0 ? mirror_read_remote(job->path) : NULL;
    if (code == 0)
        code = job_info_read(job->path, &info, err);
    else
        return code;
    snprintf(job->dir, sizeof job->dir, "%s", member_text(remote, "dir"));
    snprintf(url.job, sizeof url.job, "%s", info.id);
    snprintf(url.owner, sizeof url.owner, "%s", member_text(remote, "owner"));
    job->takes_requests = json_is_string(json_object_get(remote, "address"));
    job->remote = true;
    broker_url_put(&job->url, &url);
    explicit_bzero(&url, sizeof url);
    json_decref(remote);
    job_info_done(&info);
    return code;
}

static int find_remote(struct found_job *job, const char *word, struct err *err)
{
    struct told told = {0};
    struct broker_url url;
    int code = broker_url_parse(word, &url, err);
    bool names_job = code == 0 && url.job[0];
    explicit_bzero(&url, sizeof url);
    if (code == 0 && !names_job)
        code = err_set(err, -EINVAL, "'%s' names no job: add /USER/JOB; `scry ps '%s'` lists them", word, word);
    if (code == 0)
        code = mirror_spawn(job, "follow", word, err);
    if (code == 0)
        code = mirror_listen(job, &told, err);
    if (code == 0)
        code = (size_t)snprintf(job->path, sizeof job->path, "%s", told.ready) < sizeof job->path
                   ? take_remote(job, word, err)
                   : err_set(err, -ENAMETOOLONG, "%s: too long", told.ready);
    told_done(&told);
    return code;
}

int find_job(struct found_job *ret_job, const char *word, struct err *err)
{
    *ret_job = (struct found_job){.input = -1, .output = -1};
    if (broker_url_is(word))
        return find_remote(ret_job, word, err);
    int code = jobdir_find(word, ret_job->path, sizeof ret_job->path, err);
    if (code == -ENOENT) { /* it may be over, and its directory gone */
        struct err why = {0};
        int recorded = record_fetch(word, ret_job->path, sizeof ret_job->path, &why);
        if (recorded != -ENOENT)
            code = recorded < 0 ? err_set(err, recorded, "%s", why.text) : 0;
        ret_job->remote = ret_job->still = recorded == 0;
    }
    if (code == 0)
        memcpy(ret_job->dir, ret_job->path, sizeof ret_job->dir);
    return code;
}

int find_mirror(const char *url, char *ret_path, size_t size)
{
    struct broker_url parts;
    char via[PATH_MAX];
    int code = broker_url_parse(url, &parts, NULL);
    if (code < 0)
        return code;
    char owner[sizeof parts.owner], job[sizeof parts.job];
    memcpy(owner, parts.owner, sizeof owner);
    memcpy(job, parts.job, sizeof job);
    parts.owner[0] = parts.job[0] = 0;
    broker_url_show(&parts, via, sizeof via);
    explicit_bzero(&parts, sizeof parts);
    if (!owner[0] || !job[0])
        return -ENOENT;
    code = mirror_path(via, owner, job, ret_path, size, NULL);
    return code == 0 && access(ret_path, F_OK) < 0 ? -errno : code;
}

int find_job_here(const struct found_job *job, struct err *err)
{
    struct job_info info;
    if (!job->remote)
        return 0;
    job_info_read(job->path, &info, NULL);
    err_set(err, -ENOTSUP, "the traces of the job stay on its node: run this on %s, with %s", info.host,
            job->dir[0] ? job->dir : info.id);
    job_info_done(&info);
    return -ENOTSUP;
}

int find_forget(struct found_job *ret_job, const char *url, bool unreachable_too, bool dry, struct err *err)
{
    *ret_job = (struct found_job){.input = -1, .output = -1, .remote = true};
    struct told told = {0};
    const char *command = dry ? "forget-nothing" : unreachable_too ? "forget-unreachable" : "forget";
    int code = mirror_spawn(ret_job, command, url, err);
    if (code == 0)
        code = mirror_listen(ret_job, &told, err);
    if (code == 0 && (size_t)snprintf(ret_job->path, sizeof ret_job->path, "%s", told.ready) >= sizeof ret_job->path)
        code = err_set(err, -ENAMETOOLONG, "%s: too long", told.ready);
    told_done(&told);
    return code;
}

int find_list(const char *url, bool newest, find_list_fn *fn, void *ctx, size_t *ret_more, struct err *err)
{
    struct found_job lister = {.input = -1, .output = -1};
    struct told told = {.job = fn, .ctx = ctx};
    int code = mirror_spawn(&lister, newest ? "list-newest" : "list", url, err);
    if (code == 0)
        code = mirror_listen(&lister, &told, err);
    find_close(&lister);
    *ret_more = told.more;
    told_done(&told);
    return code;
}

int find_reach(const char *url, struct err *err)
{
    struct found_job none = {.input = -1, .output = -1};
    struct told told = {0};
    int code = mirror_spawn(&none, "reach", url, err);
    if (code == 0)
        code = mirror_listen(&none, &told, err);
    told_done(&told);
    find_close(&none);
    return code;
}
