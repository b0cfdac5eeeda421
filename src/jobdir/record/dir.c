/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "jobdir/record/info.h"
#include "jobdir/record/mirror.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

void jobdir_new_id(char ret_id[JOB_ID_SIZE], const char *here)
{
    char host[65] = "", date[32];
    if (here)
        snprintf(host, sizeof host, "%s", here);
    else
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

/* Could somebody else put a link into it? Then scry would write where that points to. */
static int check_is_own(const char *path, const char *wanted, struct err *err)
{
    struct err why;
    struct stat st;
    _cleanup_(closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return err_errno(err, -errno, "cannot use %s as job directory", wanted);
    if (fstat(dir, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 022)) /* as it is made under umask 002 */
        (void)!fchmod(dir, st.st_mode & 07755);
    int code = file_check_own_directory(dir, wanted, &why);
    return code < 0 ? err_set(err, code, "%s: name another job directory", why.text) : 0;
}

static int make_wanted(const char *wanted, char ret_path[PATH_MAX], struct err *err)
{
    int code = dirs_make(wanted, 0700);
    if (code < 0)
        return err_errno(err, code, "cannot make the job directory %s", wanted);
    if (!realpath(wanted, ret_path))
        return err_errno(err, -errno, "%s", wanted);
    int empty = is_empty_dir(ret_path);
    if (empty < 0)
        return err_errno(err, empty, "cannot use %s as job directory", wanted);
    if (!empty)
        return err_set(err, -EEXIST, "the job directory %s is not empty: name another one, or remove it", wanted);
    code = check_is_own(ret_path, wanted, err);
    /* what others put there before it was closed to them */
    return code < 0                      ? code
           : is_empty_dir(ret_path) == 1 ? 0
                                         : err_set(err, -EEXIST, "the job directory %s is not empty", wanted);
}

int jobdir_make(const char *id, const char *wanted, char *ret_path, size_t size, struct err *err)
{
    char jobs[PATH_MAX], path[PATH_MAX], sub[PATH_MAX + 8];
    int have_jobs = dirs_jobs(jobs, sizeof jobs, wanted ? NULL : err);
    if (wanted) {
        int code = make_wanted(wanted, path, err);
        if (code < 0)
            return code;
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

/* Does it look like an id, which starts with its date? */
static bool is_id(const char *name)
{
    return strlen(name) > 16 && isdigit((unsigned char)name[0]) && name[8] == 'T';
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

void jobdir_id(const char *path, char ret_id[JOB_ID_SIZE])
{
    struct job_info info = {0};
    const char *base = text_base(path);
    bool named = is_id(base);
    snprintf(ret_id, JOB_ID_SIZE, "%s", named || job_info_read(path, &info, NULL) < 0 || !*info.id ? base : info.id);
    if (!named)
        job_info_done(&info);
}

static void entries_free(struct dirent **entries, int count)
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

struct listed {
    char *path, id[JOB_ID_SIZE];
    uint64_t started_ns;
};

/* Of those with the same id, the one that is called so is the last. */
static int by_id(const void *a, const void *b)
{
    const struct listed *one = a, *other = b;
    int order = strcmp(one->id, other->id);
    bool one_is = strcmp(text_base(one->path), one->id) == 0, other_is = strcmp(text_base(other->path), other->id) == 0;
    return order ? order : one_is != other_is ? one_is - other_is : strcmp(one->path, other->path);
}

static int by_start(const void *a, const void *b)
{
    const struct listed *one = a, *other = b;
    if (one->started_ns != other->started_ns)
        return one->started_ns < other->started_ns ? -1 : 1;
    return by_id(a, b);
}

/* Ids are in the order of their seconds. Of those with the same one, each job itself says when it started. */
static void listed_sort(struct listed *jobs, size_t count)
{
    if (count)
        qsort(jobs, count, sizeof *jobs, by_id);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && strncmp(jobs[from].id, jobs[to].id, strlen("20260101T000000")) == 0;)
            to++;
        for (size_t i = from; to - from > 1 && i < to; i++)
            jobs[i].started_ns = started_ns(jobs[i].path);
        if (to - from > 1)
            qsort(jobs + from, to - from, sizeof *jobs, by_start);
    }
}

/* It has just been made, and its scry run is about to describe it. */
static bool is_starting(const char *path, const struct stat *st)
{
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

/* A directory that somebody has put there, under any name, is a job's if it says so. */
static bool is_dropped(const char *path)
{
    char file[PATH_MAX];
    struct stat st;
    return (size_t)snprintf(file, sizeof file, "%s/job.json", path) < sizeof file && stat(file, &st) == 0 &&
           S_ISREG(st.st_mode);
}

/* Otherwise it is a link to a job directory that was removed, a job that is not there yet, or none. */
static bool is_listed(const char *path, bool dropped_too)
{
    struct stat st;
    if (!is_id(text_base(path)))
        return dropped_too && is_dropped(path);
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && !is_starting(path, &st) && !is_of_another(path);
}

static int jobs_list(bool dropped_too, char ***ret_paths, size_t *ret_count, struct err *err)
{
    char jobs[PATH_MAX];
    int code = dirs_jobs_find(jobs, sizeof jobs, err);
    if (code < 0)
        return code;
    struct dirent **entries;
    int count = scandir(jobs, &entries, is_shown, NULL);
    if (count < 0 && errno != ENOENT) /* no directory: no jobs yet */
        return err_errno(err, -errno, "cannot read %s", jobs);
    if (count < 0) {
        count = 0;
        entries = NULL;
    }
    char **paths = calloc((size_t)count + 1, sizeof *paths);
    _cleanup_(freep) struct listed *found = calloc((size_t)count + 1, sizeof *found);
    size_t used = 0;
    for (int i = 0; i < count && paths && found; i++) {
        char *path;
        if (asprintf(&path, "%s/%s", jobs, entries[i]->d_name) < 0)
            continue;
        if (!is_listed(path, dropped_too)) {
            free(path);
            continue;
        }
        jobdir_id(path, found[used].id);
        found[used++].path = path;
    }
    entries_free(entries, count);
    if (!paths || !found) {
        free(paths);
        return err_set(err, -ENOMEM, "out of memory");
    }
    listed_sort(found, used);
    for (size_t i = 0; i < used; i++)
        paths[i] = found[i].path;
    *ret_paths = paths;
    *ret_count = used;
    return 0;
}

int jobdir_list(char ***ret_paths, size_t *ret_count, struct err *err)
{
    return jobs_list(true, ret_paths, ret_count, err);
}

int jobdir_list_own(char ***ret_paths, size_t *ret_count, struct err *err)
{
    return jobs_list(false, ret_paths, ret_count, err);
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

/* A process that scry did not start has no job, but can be asked for. */
static int no_job(const char *job, struct err *err)
{
    char comm[16] = "";
    bool is_number = *job > '0' && job[strspn(job, "0123456789")] == '\0' && strlen(job) < 10;
    if (is_number)
        proc_comm(atoi(job), atoi(job), comm, sizeof comm);
    if (*comm)
        return err_set(err, -ENOENT,
                       "process %s (%s) is no job of scry: `scry why %s` and `scry stack %s` say what it does", job,
                       comm, job, job);
    return err_set(err, -ENOENT, "no job '%s' here: `scry ps --all` lists the jobs, or name a job directory", job);
}

static int match_words(char **paths, size_t count, const char *job, bool only, const char **ret_match, struct err *err)
{
    struct matches ids = {0}, names = {0}, prefixes = {0};
    for (size_t i = 0; i < count; i++) {
        char id[JOB_ID_SIZE];
        jobdir_id(paths[i], id);
        if (strcmp(text_base(paths[i]), job) == 0) { /* a directory of that very name: there is one only */
            *ret_match = paths[i];
            return 0;
        }
        if (strcmp(id, job) == 0)
            add_match(&ids, paths[i]);
        else if (strncmp(id, job, strlen(job)) == 0)
            add_match(&prefixes, paths[i]);
    }
    for (size_t i = 0; i < count && !ids.count; i++)
        if (has_name(paths[i], job))
            add_match(&names, paths[i]);
    if (only && ids.count > 1)
        return err_set(err, -ENOTUNIQ, "%zu directories have the job %s, for instance %s and %s: give a directory",
                       ids.count, job, ids.first, ids.last);
    if (only && names.count > 1)
        return err_set(err, -ENOTUNIQ, "%zu jobs have the name '%s', for instance %s and %s: give an id", names.count,
                       job, text_base(names.first), text_base(names.last));
    const struct matches *found = ids.count ? &ids : names.count ? &names : &prefixes;
    if (!found->count)
        return no_job(job, err);
    if (found == &prefixes && found->count > 1)
        return err_set(err, -ENOTUNIQ, "%zu jobs start with '%s', for instance %s and %s: give more of the id",
                       found->count, job, text_base(found->first), text_base(found->last));
    *ret_match = found->last;
    return 0;
}

static int job_find(const char *job, bool only, char *ret_path, size_t size, struct err *err)
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
    return job_find(job, false, ret_path, size, err);
}

int jobdir_find_only(const char *job, char *ret_path, size_t size, struct err *err)
{
    return job_find(job, true, ret_path, size, err);
}

int picture_file_path(const char *jobdir, bool make, char *ret_path, size_t size, struct err *err)
{
    char directory[PATH_MAX];
    int code = dirs_cache("pictures", directory, sizeof directory, err);
    if (code == 0 && make && (code = dirs_make(directory, 0700)) < 0)
        err_errno(err, code, "cannot make the cache %s", directory);
    if (code == 0 &&
        (size_t)snprintf(ret_path, size, "%s/%016" PRIx64, directory, sum_add(0, jobdir, strlen(jobdir))) >= size)
        code = err_set(err, -ENAMETOOLONG, "the path of the cache is too long: set SCRY_CACHE_DIR");
    return code;
}

void picture_files_clean(uint64_t most_bytes)
{
    char directory[PATH_MAX];
    if (dirs_cache("pictures", directory, sizeof directory, NULL) == 0)
        cache_clean(directory, most_bytes);
}

/* The job directory is no more. */
static void picture_file_remove(const char *jobdir)
{
    char path[PATH_MAX];
    if (picture_file_path(jobdir, false, path, sizeof path, NULL) == 0)
        unlink(path);
}

/* ---- size and removal ---- */

enum { BLOCK_BYTES = 512 /* of st_blocks */, PARTS = 12 };

/* What scry writes into a job directory, in the order in which it is removed. */
static const char *const parts[PARTS] = {"parts",       ".reserve",    "snapshots",  "trace",
                                         "stats",       "spool",       "report.txt", "profile.json",
                                         "remote.json", "mirror.lock", "clock.json", "job.json"};

#define NODE "[^./][^/]*"
#define PROCESS "[0-9]+-[0-9]+"
#define FRESH "\\.[0-9]+\\.tmp" /* behind a dot and the name of a file: what was to take its place (file_fresh_open) */
#define FORMER "(\\.[0-9]+\\.tmp)?" /* of earlier versions: behind the name */

/* The same name by name, directories with a slash at the end. */
static const char written[] =
    "^(parts/(\\.hosts|\\.unwatched" FORMER "|\\.unwatched" FRESH ")?|(parts/" NODE "/)?("
    "|\\.reserve|(report\\.txt|profile\\.json|job\\.json|remote\\.json|clock\\.json)" FORMER "|mirror\\.lock|"
    "\\.(report\\.txt|profile\\.json|job\\.json|remote\\.json|clock\\.json)" FRESH "|"
    "snapshots/([0-9]+\\.json)?|"
    "trace/(" NODE "/(" PROCESS "/(metadata|\\.(process|counts|functions|places|modules|layouts|switches)|"
    "(metadata|\\.process|\\.counts)" FORMER "|(\\.metadata|\\.process|\\.counts)" FRESH
    "|\\.(metadata|\\.process|\\.counts)\\.tmp|stream-[0-9]+)?)?)?|" /* the last: earlier versions */
    "stats/(sites\\.json" FORMER "|\\.sites\\.json" FRESH ")?|"
    "stats/" NODE "/(" PROCESS "\\.json" FORMER "|\\." PROCESS "\\.json" FRESH "|" PROCESS "/([^/]+\\.dist" FORMER
    "|\\.[^/]+\\.dist" FRESH ")?)?|"
    "spool/(records\\.jsonl|reserve)?"
    "))$";

/* ---- what is ours ---- */

static bool is_in(const char *dir, const char *path)
{
    _cleanup_(freep) char *real = realpath(dir, NULL);
    const char *slash = strrchr(path, '/');
    return real && slash && (size_t)(slash - path) == strlen(real) && strncmp(path, real, strlen(real)) == 0;
}

/* A look into one job directory. */
struct look {
    char *path;    /* without links */
    bool all;      /* scry has named it: all that is in it is of scry */
    regex_t names; /* otherwise */
};

static void look_done(struct look *look)
{
    free(look->path);
    if (!look->all)
        regfree(&look->names);
}

static int look_init(struct look *ret_look, const char *path)
{
    char jobs[PATH_MAX];
    *ret_look = (struct look){.path = realpath(path, NULL)};
    if (!ret_look->path)
        return -errno;
    ret_look->all =
        (dirs_jobs_find(jobs, sizeof jobs, NULL) == 0 && is_in(jobs, ret_look->path)) || mirror_is_kept(ret_look->path);
    if (!ret_look->all && regcomp(&ret_look->names, written, REG_EXTENDED | REG_NOSUB) != 0) {
        free(ret_look->path);
        return -ENOMEM;
    }
    return 0;
}

static FTS *open_part(const struct look *look, const char *part)
{
    char path[PATH_MAX];
    errno = ENAMETOOLONG;
    if (snprintf(path, sizeof path, "%s/%s", look->path, part) >= (int)sizeof path)
        return NULL;
    char *paths[] = {path, NULL};
    return fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
}

/* The next file or directory of scry's, files and links of others are passed over. */
static FTSENT *next_of_ours(const struct look *look, FTS *tree)
{
    for (FTSENT *entry; (entry = fts_read(tree));) {
        char name[PATH_MAX];
        bool is_dir = entry->fts_info == FTS_D || entry->fts_info == FTS_DP || entry->fts_info == FTS_DNR;
        if (look->all)
            return entry;
        if ((is_dir || entry->fts_info == FTS_F) &&
            snprintf(name, sizeof name, "%s%s", entry->fts_path + strlen(look->path) + 1, is_dir ? "/" : "") <
                (int)sizeof name &&
            regexec(&look->names, name, 0, NULL, 0) == 0)
            return entry;
        if (entry->fts_info == FTS_D)
            fts_set(tree, entry, FTS_SKIP);
    }
    return NULL;
}

bool jobdir_size(const char *path, uint64_t deadline_ns, uint64_t *ret_bytes)
{
    struct look look;
    bool whole = true;
    *ret_bytes = 0;
    if (look_init(&look, path) < 0)
        return true;
    for (size_t i = 0; whole && i < PARTS; i++) {
        FTS *tree = open_part(&look, parts[i]);
        for (FTSENT *entry; whole && tree && (entry = next_of_ours(&look, tree));) {
            if (entry->fts_info == FTS_F || entry->fts_info == FTS_D)
                *ret_bytes += (uint64_t)entry->fts_statp->st_blocks * BLOCK_BYTES;
            whole = !deadline_ns || clock_now_ns() <= deadline_ns;
        }
        if (tree)
            fts_close(tree);
    }
    look_done(&look);
    return whole;
}

/* ---- removing it ---- */

static bool is_left(int code)
{
    return code == ENOTEMPTY || code == EEXIST || code == EBUSY;
}

static int remove_part(const struct look *look, const char *part, struct err *err)
{
    int code = 0;
    FTS *tree = open_part(look, part);
    if (!tree)
        return err_errno(err, -errno, "cannot look into %s", look->path);
    for (FTSENT *entry; code == 0 && (entry = next_of_ours(look, tree));) {
        int failed = 0;
        if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            code = err_errno(err, -entry->fts_errno, "cannot look into %s", entry->fts_path);
        else if (entry->fts_info == FTS_DP)
            failed = rmdir(entry->fts_accpath);
        else if (entry->fts_info != FTS_D)
            failed = unlink(entry->fts_accpath);
        /* the first look may find nothing; somebody else may remove it, too; and others may have files there */
        if (failed < 0 && errno != ENOENT && (look->all || !is_left(errno)))
            code = err_errno(err, -errno, "cannot remove %s", entry->fts_path);
    }
    fts_close(tree);
    return code;
}

/* Links of the directory of jobs to what is no more: those of -o DIR. */
static void remove_links(const char *jobs, const char *path)
{
    DIR *dir = opendir(jobs);
    char to[PATH_MAX];
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        ssize_t len = readlinkat(dirfd(dir), entry->d_name, to, sizeof to - 1);
        if (len <= 0)
            continue;
        to[len] = 0;
        if (strcmp(to, path) == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

static int remove_all(const struct look *look, bool *ret_kept, struct err *err)
{
    char jobs[PATH_MAX];
    for (size_t i = 0; i < PARTS; i++) {
        int code = remove_part(look, parts[i], err);
        if (code < 0)
            return code;
    }
    if (dirs_jobs_find(jobs, sizeof jobs, NULL) == 0)
        remove_links(jobs, look->path);
    if (look->all) /* also what a killed writer left */
        return remove_part(look, "", err);
    if (rmdir(look->path) < 0 && errno != ENOENT) {
        if (!is_left(errno))
            return err_errno(err, -errno, "cannot remove %s", look->path);
        *ret_kept = true;
    }
    return 0;
}

int jobdir_remove(const char *path, bool *ret_kept, struct err *err)
{
    struct look look;
    *ret_kept = false;
    int code = look_init(&look, path);
    if (code < 0)
        return err_errno(err, code, "%s", path);
    code = remove_all(&look, ret_kept, err);
    if (code == 0)
        picture_file_remove(look.path);
    look_done(&look);
    return code;
}
