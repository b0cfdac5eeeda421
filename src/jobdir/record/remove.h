/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What job directories take on the disk, and removing them. Of a directory that the person named (-o DIR) only what
 * scry has put there counts and is removed; links are never followed.
 */
#ifndef SCRY_JOBDIR_RECORD_REMOVE_H
#define SCRY_JOBDIR_RECORD_REMOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"

/* The disk space of a job directory, so far as it was seen before `deadline_ns` (clock_now_ns; 0: none). false: that
 * was not all. */
bool jobdir_size(const char *path, uint64_t deadline_ns, uint64_t *ret_bytes);

/* Removes a job directory, job.json last: a job that was removed in part is still listed. And its file in the cache
 * (jobdir/record/dir.h). The caller has seen that it
 * is over. *ret_kept: the directory stays, for it holds other files, too. 0 or -errno with err. */
int jobdir_remove(const char *path, bool *ret_kept, struct err *err);

#endif
