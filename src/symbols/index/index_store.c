/* SPDX-License-Identifier: Apache-2.0 */
/* Puts indexes into the cache. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "symbols/index/index_build.h"

static int to_disk(int fd)
{
    static const uint32_t yes = 1;
    if (fdatasync(fd) < 0 || pwrite(fd, &yes, sizeof yes, offsetof(struct index_header, on_disk)) != sizeof yes)
        return errno ? -errno : -EIO;
    return 0;
}

void index_settle(const char *key)
{
    char path[PATH_MAX];
    if (index_file_path(path, sizeof path, key, false, NULL) < 0)
        return;
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, path, O_RDWR);
    if (fd >= 0)
        to_disk(fd);
}

static bool is_good(const char *path)
{
    char key[INDEX_KEY_SIZE + 16];
    struct index *index = NULL;
    snprintf(key, sizeof key, "%s", strrchr(path, '/') + 1);
    *strrchr(key, '.') = '\0'; /* index_file_path() has put its version there */
    int code = index_open_key(&index, key, NULL);
    index_close(index);
    return code == 0;
}

int index_store(const struct buf *image, const char *key, struct err *err)
{
    char path[PATH_MAX];
    const struct iovec whole = {image->data, image->len};
    int r = index_file_path(path, sizeof path, key, true, err);
    return r < 0
               ? r
               : cache_file_write(path, &whole, 1, CACHE_MOST_BYTES, index_boot() == 0 ? to_disk : NULL, is_good, err);
}
