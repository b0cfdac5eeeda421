/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder in memory for files of a directory that is on a disk: ROOT/scry-UID/DEVICE-INODE. ROOT is a tmpfs that
 * everybody may write to (/dev/shm), and the numbers are the directory's. Beside the folder, the link DEVICE-INODE.of
 * points to the directory. Only folders of this user, closed to others, are entered, and never through a symbolic link.
 * A user of a folder holds a lock on it, which ends with the process, so that nobody sweeps it.
 *
 * It is for memory that programs share: on a disk each page that a program writes goes there, too, and its forks cost ten
 * times as much.
 */
#ifndef SCRY_BASE_SYSTEM_MEMORY_DIR_H
#define SCRY_BASE_SYSTEM_MEMORY_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"

#define MEMORY_DIR_ROOT "/dev/shm"

enum { MEMORY_DIR_LEAST = 512 << 20 /* bytes: a smaller ROOT is not used */ };

struct memory_dir {
    char path[PATH_MAX];
    char key[40];
    int parent_fd, fd; /* -1: there is none */
};
#define MEMORY_DIR_INIT ((struct memory_dir){.parent_fd = -1, .fd = -1})

/* Are files of this directory in memory anyway (tmpfs, ramfs, hugetlbfs)? */
bool memory_dir_is_memory(const char *of);

/* Can ROOT be used? 0, or -errno with err. */
int memory_dir_look(const char *root, struct err *err);

/* The path of a directory's folder, whether it exists or not. 0 or -errno. */
int memory_dir_find(struct memory_dir *ret_dir, const char *root, const char *of);

/* Makes and locks a folder that was found. Its content stays if `known`; else it belongs to a directory that is gone,
 * and is removed. 0 or -errno with err. */
int memory_dir_open(struct memory_dir *dir, const char *of, bool known, struct err *err);

/* Can the folder take so many more bytes? Half of ROOT stays free for others. */
bool memory_dir_has_room(const struct memory_dir *dir, uint64_t bytes);

/* Removes the folder with its content, unless somebody else has it open. */
void memory_dir_remove(struct memory_dir *dir);
void memory_dir_close(struct memory_dir *dir);

/* Removes folders of this user whose directory is gone and that nobody uses: no lock is on them, and lives() accepts no
 * file in them. */
void memory_dir_sweep(const char *root, bool (*lives)(const char *name));

#endif
