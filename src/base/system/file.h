/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_SYSTEM_FILE_H
#define SCRY_BASE_SYSTEM_FILE_H

#include "base/data/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * How scry reads and writes files. Whoever can write to a directory can put a link or a pipe where scry is about to write, or where
 * it reads: so all that scry makes or changes goes through this room (tools/check-layers sees to it, and has the few exceptions),
 * and nothing here follows a link in the last component of a path, or waits for the other end of a pipe.
 */

/* Does this open file or directory still lie at the path, and not another one? */
bool file_is_at(const char *path, int fd);
/* Removes it, if it is still this one. */
void file_unlink_own(const char *path, int fd);

/* Reads a whole small file (also in /proc, where sizes are 0) into a malloc'ed, NUL-terminated block. 0 or -errno. */
int file_read(const char *path, char **ret_bytes, size_t *ret_len);
/* Reads at most size - 1 bytes from its beginning, and ends them with a NUL, without an allocation: for /proc and /sys. Waits for
 * no fifo and no terminal. ret_len may be NULL. 0 or -errno. */
int file_read_start(const char *path, char *ret_text, size_t size, size_t *ret_len);

/* The same as file_read of a file that somebody else may have put there: regular (else -EINVAL), of at most FILE_PLAIN_MOST bytes
 * (else -EFBIG). Nothing keeps the reader waiting: no pipe, no device. */
int file_read_plain(const char *path, char **ret_bytes, size_t *ret_len);
int file_open_read(const char *path);    /* its descriptor, or -errno */
FILE *file_open_plain(const char *path); /* to read, of any size; NULL with errno */
#define FILE_PLAIN_MOST ((size_t)256 << 20)

/* Opens a file that is changed in place (a log, a lock, a stream), or read below a directory that is held, as openat(at, path, flags, 0600) does: regular, and no link
 * (else -ELOOP, -EISDIR or -EINVAL). O_TRUNC is for what was there. Safe after a fork. The descriptor or -errno. */
int file_open_own(int at, const char *path, int flags);

/* All of it. 0 or -errno. */
int file_write_all(int fd, const void *bytes, size_t len);

/* Writes a file so that readers see the old or the new content, never a part: a new file of a random name beside it, fsync,
 * rename. A link at the path is replaced, not followed. 0 or -errno. */
int file_replace(const char *path, const void *bytes, size_t len, mode_t mode);
/* The same without waiting for the disk: for what can be had again if the machine stops now. */
int file_replace_soon(const char *path, const void *bytes, size_t len, mode_t mode);

/* The same step by step, for what is written piece by piece, open as fd until it takes its place. So long it has no name, and
 * whoever is killed leaves nothing behind; where a file system cannot do that (NFS), .NAME.DIGITS.tmp, as jobdir/record/dir.c
 * knows it. */
struct file_fresh {
    int dir, fd; /* -1: none */
    bool nameless;
    char name[NAME_MAX + 1], temporary[NAME_MAX + 1];
};
#define FILE_FRESH_INIT ((struct file_fresh){.dir = -1, .fd = -1})

/* `path` is as of openat. 0 or -errno; end it with file_fresh_done in both cases. */
int file_fresh_open(struct file_fresh *fresh, int at, const char *path, mode_t mode);
/* Puts it at its path, and closes it. only_new: not if something is there (-EEXIST; it may be tried again without). 0 or
 * -errno. */
int file_fresh_place(struct file_fresh *fresh, bool only_new);
/* Removes it if it did not take its place. */
void file_fresh_done(struct file_fresh *fresh);

/* May nobody but this user write to the open directory? 0, or -EPERM with err, which calls it `name`. Where others may, what
 * lies there can change between two looks. */
int file_check_own_directory(int dir, const char *name, struct err *err);

/* Files of a directory of the cache (dirs_cache). Any number of writers and readers work at the same time. Each writer also
 * cleans up: when there is too much, it removes what was not used for longest. */

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

/* A line of standard input, for programs that get something there that arguments would show to everybody. */

/* Without its end, which may be missing on the last one. Takes no byte behind it. False: there is none, or it is longer. */
bool line_read(char *text, size_t size);

#endif
