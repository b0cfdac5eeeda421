/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder in memory for files that belong to a directory on a disk: ROOT/scry-UID/DEVICE-INODE, where ROOT is a tmpfs
 * that everybody may write to (/dev/shm) and the numbers are those of the directory. Beside it lies a link
 * DEVICE-INODE.of that says where the directory is. Only folders of this user, closed to others, are entered, and never
 * through a symbolic link. Whoever uses one holds a lock on it, so that it is not swept; the lock goes with the
 * process.
 */
#ifndef SCRY_BASE_MEMORY_DIR_H
#define SCRY_BASE_MEMORY_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define MEMORY_DIR_ROOT "/dev/shm"

enum { MEMORY_DIR_LEAST = 512 << 20 /* bytes: where ROOT is smaller, it is left to others */ };

struct memory_dir {
    char path[PATH_MAX];
    char key[40];
    int parent_fd, fd; /* -1: there is none */
};
#define MEMORY_DIR_INIT ((struct memory_dir){.parent_fd = -1, .fd = -1})

/* Whether files of this directory lie in memory anyway (tmpfs, ramfs, hugetlbfs). */
bool memory_dir_is_memory(const char *of);

/* Whether ROOT can be used: 0, or -errno with err. */
int memory_dir_look(const char *root, struct err *err);

/* Where the folder of a directory is or would be. 0 or -errno. */
int memory_dir_find(struct memory_dir *ret_dir, const char *root, const char *of);

/* Makes and locks a folder that was found. What lies in it already stays if `known`; else it was of a directory that is
 * gone, and is removed. 0 or -errno with err. */
int memory_dir_open(struct memory_dir *dir, const char *of, bool known, struct err *err);

/* Whether so much more may be had there: half of ROOT stays unused, so that nobody else misses it. */
bool memory_dir_has_room(const struct memory_dir *dir, uint64_t bytes);

/* Removes the folder with all that is in it, unless somebody else has it open, too. */
void memory_dir_remove(struct memory_dir *dir);
void memory_dir_close(struct memory_dir *dir);

/* Removes those folders of this user whose directory is gone and that nobody uses: no lock is on them, and lives() says
 * of no file in them that it is still of use. */
void memory_dir_sweep(const char *root, bool (*lives)(const char *name));

#endif
