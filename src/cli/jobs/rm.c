/* SPDX-License-Identifier: Apache-2.0 */
/* scry rm: removes what was recorded of jobs. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "broker/url.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/info.h"
#include "jobdir/record/mirror.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

/* The sums of what was removed, or would be. */
struct sums {
    size_t jobs;
    uint64_t bytes;
    int status;
};

static int sums_fail(struct sums *sums, const struct err *err)
{
    cli_log_error(err);
    sums->status = EXIT_ERRORS;
    return -1;
}

/* ---- one job ---- */

static void put_line(const struct options *options, const char *path, const struct job_info *info, uint64_t bytes,
                     const char *also, bool kept)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    buf_puts(&line, options_on(options, "dry-run") ? "would remove " : "removed ");
    text_size_in(&line, bytes, 9);
    buf_puts(&line, "  ");
    text_show(&line, info->id[0] ? info->id : text_base(path));
    if (info->name[0]) {
        buf_puts(&line, "  ");
        text_show(&line, info->name);
    }
    if (also)
        buf_printf(&line, "  (%s)", also);
    if (kept) {
        buf_puts(&line, "  (other files are left in ");
        text_show(&line, path);
        buf_putc(&line, ')');
    }
    puts(line.data ? line.data : "");
}

static int remove_job(const struct options *options, const char *path, const struct job_info *info, uint64_t bytes,
                      struct sums *sums)
{
    struct err err = {0};
    bool kept = false;
    int code = options_on(options, "dry-run") ? 0 : jobdir_remove(path, &kept, &err);
    if (code < 0)
        return sums_fail(sums, &err);
    sums->jobs++;
    sums->bytes += bytes;
    if (!options_on(options, "quiet"))
        put_line(options, path, info, bytes, NULL, kept);
    return 0;
}

/* A job at a broker: what that retains, and the mirror here, if there is one. */
static void remove_remote(const struct options *options, const char *url, struct sums *sums)
{
    struct found_job found;
    struct job_info info = {.id = "", .name = ""};
    struct err err = {0};
    uint64_t bytes = 0;
    bool force = options_on(options, "force");
    int code = find_forget(&found, url, force, options_on(options, "dry-run"), &err);
    bool is_forgotten = code == 0;
    if (code < 0 && force && find_mirror(url, found.path, sizeof found.path) == 0) {
        log_warning("%s; only the mirror that is here is removed", err.text);
        code = 0;
    }
    bool has_mirror = code == 0 && access(found.path, F_OK) == 0;
    if (has_mirror) {
        job_info_read(found.path, &info, NULL);
        jobdir_size(found.path, 0, &bytes);
    }
    if (code < 0 || (has_mirror && !options_on(options, "dry-run") && mirror_remove(found.path, &err) < 0)) {
        sums_fail(sums, &err);
    } else {
        sums->jobs++;
        sums->bytes += bytes;
        if (!options_on(options, "quiet"))
            put_line(options, found.path, &info, bytes, is_forgotten ? "what the broker retains, too" : NULL, false);
    }
    find_close(&found);
    job_info_done(&info);
}

static bool is_over(enum job_state state)
{
    return state == JOB_ENDED || state == JOB_LOST;
}

static void remove_named(const struct options *options, const char *job, struct sums *sums)
{
    char path[PATH_MAX];
    struct job_info info = {.id = "", .name = ""};
    struct err err = {0};
    enum job_state state;
    uint64_t bytes;
    int code = jobdir_find_only(job, path, sizeof path, &err);
    if (code == 0 && job_info_read_state(path, &info, &state, &err) < 0) { /* damaged, or written by a newer scry */
        if (!options_on(options, "force"))
            log_warning("it is not known whether job %s still runs; --force removes it anyway", job);
        code = options_on(options, "force") ? 0 : -1;
    } else if (code == 0 && !is_over(state) && !options_on(options, "force")) {
        code = err_set(&err, -1,
                       "job %s is %s: only jobs that are over are removed; --force removes what was recorded of it",
                       info.id, job_state_name(state));
    }
    if (code < 0) {
        sums_fail(sums, &err);
    } else {
        jobdir_size(path, 0, &bytes);
        remove_job(options, path, &info, bytes, sums);
    }
    job_info_done(&info);
}

/* ---- the limits ---- */

/* The wall time at which a job ended. If nobody saw its end: when it last wrote something. */
static uint64_t end_ns(const char *path, const struct job_info *info)
{
    char file[PATH_MAX];
    struct stat st;
    if (info->ended && info->started_ns)
        return info->started_ns + (uint64_t)(info->result.wall_seconds * NS_PER_SECOND);
    if ((size_t)snprintf(file, sizeof file, "%s/spool/records.jsonl", path) < sizeof file && stat(file, &st) == 0)
        return (uint64_t)st.st_mtim.tv_sec * NS_PER_SECOND;
    return info->started_ns;
}

struct old_job {
    const char *path;
    struct job_info info;
    uint64_t end_ns, bytes;
    bool over;
};

static int by_end(const void *a, const void *b)
{
    const struct old_job *one = a, *other = b;
    return one->end_ns == other->end_ns ? 0 : one->end_ns < other->end_ns ? -1 : 1;
}

/* All jobs that can be read: first those that are over, oldest first. Returns how many are over. */
static size_t look_at_all(struct old_job *jobs, char **paths, size_t count, uint64_t *ret_bytes)
{
    size_t used = 0;
    *ret_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        struct old_job *job = &jobs[used];
        enum job_state state;
        uint64_t bytes;
        jobdir_size(paths[i], 0, &bytes);
        *ret_bytes += bytes;
        *job = (struct old_job){.path = paths[i], .bytes = bytes};
        if (job_info_read_state(paths[i], &job->info, &state, NULL) < 0 || !is_over(state)) {
            job_info_done(&job->info);
            continue;
        }
        job->end_ns = end_ns(paths[i], &job->info);
        used++;
    }
    qsort(jobs, used, sizeof *jobs, by_end);
    return used;
}

static bool is_old(const struct options *options, const struct old_job *job)
{
    uint64_t now_ns = clock_wall_ns();
    return options_given(options, "older-than") && job->end_ns < now_ns &&
           now_ns - job->end_ns > options_number(options, "older-than");
}

static int remove_old(const struct options *options, struct sums *sums)
{
    char **paths;
    size_t count;
    struct err err = {0};
    if (jobdir_list_own(&paths, &count, &err) < 0)
        return sums_fail(sums, &err);
    struct old_job *jobs = calloc(count + 1, sizeof *jobs);
    uint64_t left = 0;
    size_t over = jobs ? look_at_all(jobs, paths, count, &left) : 0;
    for (size_t i = 0; i < over; i++) {
        struct old_job *job = &jobs[i];
        bool large = options_given(options, "keep-size") && left > options_number(options, "keep-size") && i + 1 < over;
        if ((is_old(options, job) || large) && remove_job(options, job->path, &job->info, job->bytes, sums) == 0)
            left -= job->bytes;
        job_info_done(&job->info);
    }
    free(jobs);
    jobdir_list_free(paths, count);
    return 0;
}

struct path_list {
    char **paths;
    size_t count, room;
};

static void add_path(void *ctx, const char *path)
{
    struct path_list *list = ctx;
    char *copy = GROW(list->paths, list->count, list->room) ? strdup(path) : NULL;
    if (copy)
        list->paths[list->count++] = copy;
}

/* The same for the jobs at a broker, by age alone: how much they take is not known here. */
static void remove_old_remote(const struct options *options, const char *word, struct sums *sums)
{
    struct path_list list = {0};
    struct broker_url url;
    struct err err = {0};
    size_t more;
    if (broker_url_parse(word, &url, &err) < 0 || find_list(word, false, add_path, &list, &more, &err) < 0) {
        sums_fail(sums, &err);
        jobdir_list_free(list.paths, list.count);
        return;
    }
    struct old_job *jobs = calloc(list.count + 1, sizeof *jobs);
    uint64_t all;
    size_t over = jobs ? look_at_all(jobs, list.paths, list.count, &all) : 0;
    for (size_t i = 0; i < over; i++) {
        if (is_old(options, &jobs[i])) {
            _cleanup_(buf_done) struct buf one = BUF_INIT;
            json_t *remote = mirror_read_remote(jobs[i].path);
            snprintf(url.owner, sizeof url.owner, "%s", member_text(remote, "owner"));
            snprintf(url.job, sizeof url.job, "%s", jobs[i].info.id);
            json_decref(remote);
            broker_url_put(&one, &url);
            if (!one.failed)
                remove_remote(options, one.data, sums);
            if (one.data)
                explicit_bzero(one.data, one.cap); /* there may be a password in it */
        }
        job_info_done(&jobs[i].info);
    }
    explicit_bzero(&url, sizeof url);
    free(jobs);
    jobdir_list_free(list.paths, list.count);
}

static bool names_broker(const char *word)
{
    struct broker_url url;
    bool names = broker_url_is(word) && broker_url_parse(word, &url, NULL) == 0 && !url.job[0];
    explicit_bzero(&url, sizeof url);
    return names;
}

static int remove_all(const struct options *options)
{
    struct sums sums = {0};
    size_t count = options->word_count;
    bool is_limited = options_given(options, "older-than") || !count;
    _cleanup_(buf_done) struct buf size = BUF_INIT;
    for (size_t i = 0; i < count; i++)
        if (options_given(options, "older-than"))
            remove_old_remote(options, options->words[i], &sums);
        else if (broker_url_is(options->words[i]))
            remove_remote(options, options->words[i], &sums);
        else
            remove_named(options, options->words[i], &sums);
    if (!count)
        remove_old(options, &sums);
    text_size(&size, sums.bytes);
    if (!options_on(options, "quiet") && sums.jobs != 1 && (is_limited || sums.jobs))
        printf("%zu jobs, %s\n", sums.jobs, size.data ? size.data : "");
    return sums.status;
}

int cmd_rm(const struct options *options)
{
    bool limits = options_given(options, "older-than") || options_given(options, "keep-size");
    if (!options->word_count && !limits)
        return cli_usage_error(options, "name jobs, or use --older-than or --keep-size");
    for (size_t i = 0; limits && i < options->word_count; i++)
        if (options_given(options, "keep-size") || !names_broker(options->words[i]))
            return cli_usage_error(options, "name jobs or give limits, not both; --older-than can have brokers");
    if (options_on(options, "force") && limits)
        return cli_usage_error(options, "--force is for jobs that are named");
    return remove_all(options);
}
