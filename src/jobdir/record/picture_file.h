/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where scry-view keeps what it has read of the traces of a job that is over (web/view/saved.h): a file in the user's cache,
 * named by the job directory. Nothing in it is needed.
 */
#ifndef SCRY_JOBDIR_RECORD_PICTURE_FILE_H
#define SCRY_JOBDIR_RECORD_PICTURE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/err.h"

/* Of the job directory at that path, which has no links in it. make: the directory of such files is made. 0 or -errno
 * with err. */
int picture_file_path(const char *jobdir, bool make, char *ret_path, size_t size, struct err *err);
/* Of all together so much stays, as cache_clean (base/system/file.h) has it. */
void picture_files_clean(uint64_t most_bytes);
/* The job directory is no more. */
void picture_file_remove(const char *jobdir);

#endif
