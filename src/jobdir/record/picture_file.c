/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/picture_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data/sum.h"
#include "base/system/file.h"
#include "base/system/dirs.h"

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

void picture_file_remove(const char *jobdir)
{
    char path[PATH_MAX];
    if (picture_file_path(jobdir, false, path, sizeof path, NULL) == 0)
        unlink(path);
}
