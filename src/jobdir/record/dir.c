/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"

void jobdir_new_id(char ret_id[JOB_ID_SIZE])
{
    char host[65] = "", date[32];
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = 0;
    /* the id becomes a level of broker topics: letters, digits, - and _ only */
    for (char *at = host; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '-' && *at != '_')
            *at = '_';
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%Y%m%dT%H%M%S", &tm);
    uint32_t random;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = (uint32_t)(clock_now_ns() * 2654435761u);
    snprintf(ret_id, JOB_ID_SIZE, "%s-%s-%d-%06x", date, host[0] ? host : "host", getpid(), random & 0xffffff);
}

static int is_empty_dir(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return -errno;
    int entries = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        entries += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return entries == 0;
}

static int make_wanted(const char *wanted, struct err *err)
{
    int code = dirs_make(wanted, 0700);
    if (code < 0)
        return err_errno(err, code, "cannot make the job directory %s", wanted);
    int empty = is_empty_dir(wanted);
    if (empty < 0)
        return err_errno(err, empty, "cannot use %s as job directory", wanted);
    if (!empty)
        return err_set(err, -EEXIST, "the job directory %s is not empty: name another one, or remove it", wanted);
    return 0;
}

int jobdir_make(const char *id, const char *wanted, char *ret_path, size_t size, struct err *err)
{
    char jobs[PATH_MAX], path[PATH_MAX], sub[PATH_MAX + 8];
    int have_jobs = dirs_jobs(jobs, sizeof jobs, wanted ? NULL : err);
    if (wanted) {
        int code = make_wanted(wanted, err);
        if (code < 0)
            return code;
        if (!realpath(wanted, path))
            return err_errno(err, -errno, "%s", wanted);
        if (have_jobs == 0 && (size_t)snprintf(sub, sizeof sub, "%s/%s", jobs, id) < sizeof sub)
            if (symlink(path, sub) < 0)
                errno = 0; /* then it is only found by its path */
    } else {
        if (have_jobs < 0)
            return have_jobs;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", jobs, id) >= sizeof path)
            return err_set(err, -ENAMETOOLONG, "the path of the job directory is too long: %s/%s", jobs, id);
        if (mkdir(path, 0700) < 0)
            return err_errno(err, -errno, "cannot make the job directory %s", path);
    }
    snprintf(sub, sizeof sub, "%s/spool", path);
    if (mkdir(sub, 0700) < 0) {
        int code = err_errno(err, -errno, "cannot make %s", sub);
        if (!wanted)
            rmdir(path);
        return code;
    }
    if ((size_t)snprintf(ret_path, size, "%s", path) >= size)
        return err_set(err, -ENAMETOOLONG, "the path of the job directory is too long: %s", path);
    return 0;
}

static int is_job(const struct dirent *entry)
{
    /* an id starts with its date */
    return strlen(entry->d_name) > 16 && isdigit((unsigned char)entry->d_name[0]) && entry->d_name[8] == 'T';
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

static uint64_t started_ns(const char *path)
{
    struct job_info info;
    uint64_t started = job_info_read(path, &info, NULL) == 0 ? info.started_ns : 0;
    job_info_done(&info);
    return started;
}

static bool same_second(const char *path, const char *other)
{
    return strncmp(text_base(path), text_base(other), strlen("20260101T000000")) == 0;
}

struct dated {
    char *path;
    uint64_t started_ns;
};

static int by_start(const void *a, const void *b)
{
    const struct dated *one = a, *other = b;
    if (one->started_ns != other->started_ns)
        return one->started_ns < other->started_ns ? -1 : 1;
    return strcmp(one->path, other->path);
}

/* Ids are in the order of their seconds. Of those with the same one, each job itself says when it started. */
static void order_seconds(char **paths, size_t count)
{
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && same_second(paths[from], paths[to]);)
            to++;
        struct dated *dated = to - from > 1 ? calloc(to - from, sizeof *dated) : NULL;
        if (!dated) /* alone, or there is no memory: by their ids, then */
            continue;
        for (size_t i = from; i < to; i++)
            dated[i - from] = (struct dated){paths[i], started_ns(paths[i])};
        qsort(dated, to - from, sizeof *dated, by_start);
        for (size_t i = from; i < to; i++)
            paths[i] = dated[i - from].path;
        free(dated);
    }
}

/* It has just been made, and its scry run is about to describe it. */
static bool is_starting(const char *path, const struct stat *st)
{
    enum { STARTING_SECONDS = 2 };
    char file[PATH_MAX];
    double age = difftime(time(NULL), st->st_mtime);
    return age >= 0 && age <= STARTING_SECONDS &&
           (size_t)snprintf(file, sizeof file, "%s/job.json", path) < sizeof file && access(file, F_OK) < 0 &&
           errno == ENOENT;
}

/* A link to a directory that was used again: it is another job's, which has a link of its own. */
static bool is_of_another(const char *path)
{
    struct job_info info;
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISLNK(st.st_mode))
        return false;
    bool another = job_info_read(path, &info, NULL) == 0 && strcmp(info.id, text_base(path)) != 0;
    job_info_done(&info);
    return another;
}

int jobdir_list(char ***ret_paths, size_t *ret_count, struct err *err)
{
    char jobs[PATH_MAX];
    int code = dirs_jobs_find(jobs, sizeof jobs, err);
    if (code < 0)
        return code;
    struct dirent **entries;
    int count = scandir(jobs, &entries, is_job, alphasort);
    if (count < 0 && errno != ENOENT) /* no directory: no jobs yet */
        return err_errno(err, -errno, "cannot read %s", jobs);
    if (count < 0) {
        count = 0;
        entries = NULL;
    }
    char **paths = calloc((size_t)count + 1, sizeof *paths);
    size_t used = 0;
    for (int i = 0; i < count && paths; i++) {
        struct stat st;
        if (asprintf(&paths[used], "%s/%s", jobs, entries[i]->d_name) < 0)
            continue;
        if (stat(paths[used], &st) == 0 && S_ISDIR(st.st_mode) && !is_starting(paths[used], &st) &&
            !is_of_another(paths[used]))
            used++;
        else
            free(paths[used]); /* a link to a job directory that was removed, or a job that is not there yet */
    }
    free_entries(entries, count);
    if (!paths)
        return err_set(err, -ENOMEM, "out of memory");
    order_seconds(paths, used);
    *ret_paths = paths;
    *ret_count = used;
    return 0;
}

void jobdir_list_free(char **paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
}

/* What a person named among all jobs; the path is borrowed from the list. */
struct matches {
    const char *first, *last;
    size_t count;
};

static void add_match(struct matches *matches, const char *path)
{
    if (matches->count++ == 0)
        matches->first = path;
    matches->last = path;
}

static bool has_name(const char *path, const char *name)
{
    struct job_info info;
    bool same = job_info_read(path, &info, NULL) == 0 && strcmp(info.name, name) == 0;
    job_info_done(&info);
    return same;
}

static int match_words(char **paths, size_t count, const char *job, bool only, const char **ret_match, struct err *err)
{
    struct matches ids = {0}, names = {0}, prefixes = {0};
    for (size_t i = 0; i < count; i++) {
        const char *id = text_base(paths[i]);
        if (strcmp(id, job) == 0)
            add_match(&ids, paths[i]);
        else if (strncmp(id, job, strlen(job)) == 0)
            add_match(&prefixes, paths[i]);
    }
    for (size_t i = 0; i < count && !ids.count; i++)
        if (has_name(paths[i], job))
            add_match(&names, paths[i]);
    if (only && names.count > 1)
        return err_set(err, -ENOTUNIQ, "%zu jobs have the name '%s', for instance %s and %s: give an id", names.count,
                       job, text_base(names.first), text_base(names.last));
    const struct matches *found = ids.count ? &ids : names.count ? &names : &prefixes;
    if (!found->count)
        return err_set(err, -ENOENT, "no job '%s' here: `scry ps --all` lists the jobs, or name a job directory", job);
    if (found == &prefixes && found->count > 1)
        return err_set(err, -ENOTUNIQ, "%zu jobs start with '%s', for instance %s and %s: give more of the id",
                       found->count, job, text_base(found->first), text_base(found->last));
    *ret_match = found->last;
    return 0;
}

static int find(const char *job, bool only, char *ret_path, size_t size, struct err *err)
{
    char probe[PATH_MAX];
    struct stat st;
    if (!*job)
        return err_set(err, -ENOENT, "an empty job name: give an id, @last or a directory");
    errno = 0;
    if ((size_t)snprintf(probe, sizeof probe, "%s/job.json", job) < sizeof probe && stat(probe, &st) == 0) {
        if ((size_t)snprintf(ret_path, size, "%s", job) >= size)
            return err_set(err, -ENAMETOOLONG, "%s: too long", job);
        return 0;
    }
    if (errno == EACCES && strchr(job, '/'))
        return err_errno(err, -EACCES, "cannot read %s", probe);
    if (strchr(job, '/') && stat(job, &st) == 0)
        return err_set(err, -ENOENT, "%s is no job directory: it has no job.json", job);
    char **paths;
    size_t count;
    int code = jobdir_list(&paths, &count, err);
    if (code < 0)
        return code;
    const char *match = NULL;
    if (strcmp(job, "@last") == 0) {
        match = count ? paths[count - 1] : NULL;
        if (!match)
            code = err_set(err, -ENOENT, "no job yet: start one with `scry run -- COMMAND`");
    } else {
        code = match_words(paths, count, job, only, &match, err);
    }
    if (code == 0 && (size_t)snprintf(ret_path, size, "%s", match) >= size)
        code = err_set(err, -ENAMETOOLONG, "%s: too long", match);
    jobdir_list_free(paths, count);
    return code;
}

int jobdir_find(const char *job, char *ret_path, size_t size, struct err *err)
{
    return find(job, false, ret_path, size, err);
}

int jobdir_find_only(const char *job, char *ret_path, size_t size, struct err *err)
{
    return find(job, true, ret_path, size, err);
}
