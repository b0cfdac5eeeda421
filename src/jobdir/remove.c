/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/dirs.h"

enum { BLOCK_BYTES = 512 }; /* of st_blocks */
enum { PARTS = 7 };

/* What scry writes into a job directory, in the order in which it is removed. */
static const char *const parts[PARTS] = {".reserve", "snapshots", "trace", "stats", "spool", "report.txt", "job.json"};

static FTS *open_tree(const char *path, const char *part, char ret_path[PATH_MAX])
{
    errno = ENAMETOOLONG;
    if (snprintf(ret_path, PATH_MAX, "%s/%s", path, part) >= PATH_MAX)
        return NULL;
    char *paths[] = {ret_path, NULL};
    return fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
}

bool jobdir_size(const char *path, uint64_t deadline_ns, uint64_t *ret_bytes)
{
    char name[PATH_MAX];
    *ret_bytes = 0;
    for (size_t i = 0; i < PARTS; i++) {
        FTS *tree = open_tree(path, parts[i], name);
        for (FTSENT *entry; tree && (entry = fts_read(tree));) {
            if (entry->fts_info == FTS_F || entry->fts_info == FTS_D)
                *ret_bytes += (uint64_t)entry->fts_statp->st_blocks * BLOCK_BYTES;
            if (deadline_ns && clock_now_ns() > deadline_ns) {
                fts_close(tree);
                return false;
            }
        }
        if (tree)
            fts_close(tree);
    }
    return true;
}

static int remove_part(const char *path, const char *part, struct err *err)
{
    char name[PATH_MAX];
    int code = 0;
    FTS *tree = open_tree(path, part, name);
    if (!tree)
        return err_errno(err, -errno, "cannot look into %s", path);
    for (FTSENT *entry; code == 0 && (entry = fts_read(tree));) {
        int failed = 0;
        if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            code = err_errno(err, -entry->fts_errno, "cannot look into %s", entry->fts_path);
        else if (entry->fts_info == FTS_DP)
            failed = rmdir(entry->fts_accpath);
        else if (entry->fts_info != FTS_D)
            failed = unlink(entry->fts_accpath);
        if (failed < 0 && errno != ENOENT) /* the first look may find nothing; somebody else may remove it, too */
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

static bool is_in(const char *dir, const char *path)
{
    _cleanup_(freep) char *real = realpath(dir, NULL);
    const char *slash = strrchr(path, '/');
    return real && slash && (size_t)(slash - path) == strlen(real) && strncmp(path, real, strlen(real)) == 0;
}

int jobdir_remove(const char *path, bool *ret_kept, struct err *err)
{
    char jobs[PATH_MAX];
    _cleanup_(freep) char *real = realpath(path, NULL);
    *ret_kept = false;
    if (!real)
        return err_errno(err, -errno, "%s", path);
    for (size_t i = 0; i < PARTS; i++) {
        int code = remove_part(real, parts[i], err);
        if (code < 0)
            return code;
    }
    bool known = dirs_jobs_find(jobs, sizeof jobs, NULL) == 0;
    if (known)
        remove_links(jobs, real);
    if (known && is_in(jobs, real)) /* one that scry named itself: all of it, also what a killed writer left */
        return remove_part(real, "", err);
    if (rmdir(real) < 0 && errno != ENOENT) {
        if (errno != ENOTEMPTY && errno != EEXIST && errno != EBUSY)
            return err_errno(err, -errno, "cannot remove %s", real);
        *ret_kept = true;
    }
    return 0;
}
