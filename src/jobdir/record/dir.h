/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_RECORD_DIR_H
#define SCRY_JOBDIR_RECORD_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/err.h"

/*
 * Job directories by name: making one, finding the one a person means, listing all. A job has an id,
 * DATE-HOST-PID-RANDOM with the date in UTC, so that ids sort by time, and is the name of its directory. One made elsewhere
 * (-o DIR) is linked into the directory of jobs, best effort, so that listings show it.
 */

enum { JOB_ID_SIZE = 128 };

/* A new id for a job of this host and process. here: its name, if the caller knows it; NULL. */
void jobdir_new_id(char ret_id[JOB_ID_SIZE], const char *here);

/* Creates the directory, 0700, and spool/ in it. `wanted` (from -o; NULL: by id in the directory of jobs) may exist
 * when it is empty. The path is absolute. 0 or -errno with err; -EEXIST: it holds something already. */
int jobdir_make(const char *id, const char *wanted, char *ret_path, size_t size, struct err *err);

/* Finds the directory of a job, in this order: a directory, @last, an id, a name (of several jobs the newest), a unique
 * prefix of an id. -ENOENT (err says what there is), -ENOTUNIQ (err names some). */
int jobdir_find(const char *job, char *ret_path, size_t size, struct err *err);
/* As jobdir_find, but a name that several jobs have is -ENOTUNIQ, too: for what cannot be undone. */
int jobdir_find_only(const char *job, char *ret_path, size_t size, struct err *err);

/* The paths of all job directories, oldest first; malloc'ed strings in a malloc'ed array: also of those that somebody has
 * put there under another name. One that its scry run has just made and not described yet is not among them, nor is a job
 * whose directory (-o DIR) another one has now. */
int jobdir_list(char ***ret_paths, size_t *ret_count, struct err *err);
/* The same without what was put there: what scry itself may remove. */
int jobdir_list_own(char ***ret_paths, size_t *ret_count, struct err *err);
/* The id of a job directory: its name, or what it says itself where it has another one. */
void jobdir_id(const char *path, char ret_id[JOB_ID_SIZE]);
void jobdir_list_free(char **paths, size_t count);

/*
 * Where scry-view keeps what it has read of the traces of a job that is over (web/view/picture.h): a file in the user's cache,
 * named by the job directory. Nothing in it is needed.
 */

/* Of the job directory at that path, which has no links in it. make: the directory of such files is made. 0 or -errno
 * with err. */
int picture_file_path(const char *jobdir, bool make, char *ret_path, size_t size, struct err *err);
/* Of all together so much stays, as cache_clean (base/system/file.h) has it. */
void picture_files_clean(uint64_t most_bytes);

/*
 * What job directories take on the disk, and removing them. Of a directory that the person named (-o DIR) only what
 * scry has put there counts and is removed; links are never followed.
 */

/* The disk space of a job directory, so far as it was seen before `deadline_ns` (clock_now_ns; 0: none). false: that
 * was not all. */
bool jobdir_size(const char *path, uint64_t deadline_ns, uint64_t *ret_bytes);

/* Removes a job directory, job.json last: a job that was removed in part is still listed. And its file in the cache
 * (jobdir/record/dir.h). The caller has seen that it
 * is over. *ret_kept: the directory stays, for it holds other files, too. 0 or -errno with err. */
int jobdir_remove(const char *path, bool *ret_kept, struct err *err);

#endif
