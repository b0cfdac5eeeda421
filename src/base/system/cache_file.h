/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a directory of the cache (dirs_cache). They are written beside their place and renamed, so any
 * number of writers and readers work at the same time. Each writer also cleans up: when there is too much, it removes
 * what was not used for longest.
 */
#ifndef SCRY_BASE_SYSTEM_CACHE_FILE_H
#define SCRY_BASE_SYSTEM_CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/data/err.h"

/* Unless somebody says otherwise: of all files of such a directory. */
#define CACHE_MOST_BYTES ((uint64_t)2 << 30)

/* Puts a file of these parts at `path`, a name in such a directory. `ready` (NULL-able) is called with it before it
 * takes its place: 0 or -errno. What somebody else has put there meanwhile stays if it is `good` (NULL: never): others may
 * have it mapped, and on NFS a file that another node replaces is gone for them. Then it cleans up, as cache_clean does.
 * Returns 0 or -errno. */
int cache_file_write(const char *path, const struct iovec *parts, size_t count, uint64_t most_bytes,
                     int (*ready)(int fd), bool (*good)(const char *path), struct err *err);

/* If the files of such a directory have more bytes together, half as much stays, and the newest one. */
void cache_clean(const char *path, uint64_t most_bytes);

#endif
