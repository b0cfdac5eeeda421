/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/dir.h"

enum { BLOCK_BYTES = 512 }; /* of st_blocks */
enum { PARTS = 11 };

/* What scry writes into a job directory, in the order in which it is removed. */
static const char *const parts[PARTS] = {"parts",      ".reserve",    "snapshots",   "trace",      "stats",   "spool",
                                         "report.txt", "remote.json", "mirror.lock", "clock.json", "job.json"};

#define NODE "[^./][^/]*"
#define PROCESS "[0-9]+-[0-9]+"
#define FRESH "\\.[0-9]+\\.tmp" /* behind a dot and the name of a file: what was to take its place (file_fresh_open) */
#define FORMER "(\\.[0-9]+\\.tmp)?" /* of earlier versions: behind the name */

/* The same name by name, directories with a slash at the end. */
static const char written[] =
    "^(parts/(\\.hosts|\\.unwatched" FORMER "|\\.unwatched" FRESH ")?|(parts/" NODE "/)?("
    "|\\.reserve|(report\\.txt|job\\.json|remote\\.json|clock\\.json)" FORMER "|mirror\\.lock|"
    "\\.(report\\.txt|job\\.json|remote\\.json|clock\\.json)" FRESH "|"
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
