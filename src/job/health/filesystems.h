/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file systems that the job uses: room and inodes, and when they are used up. One that may be on another machine
 * is asked less often, and may hang: only the observer waits for it.
 */
#ifndef SCRY_JOB_HEALTH_FILESYSTEMS_H
#define SCRY_JOB_HEALTH_FILESYSTEMS_H

#include <jansson.h>

#include "job/health/look.h"
#include "job/health/trend.h"

enum { FILESYSTEMS = 8, FILESYSTEM_USES = 96 };

struct filesystem {
    char *path;                 /* the first one that is on it */
    char uses[FILESYSTEM_USES]; /* "work, temporary" */
    uint64_t device;
    bool elsewhere; /* on another machine, as far as the kernel says */
    uint64_t looked_ns;
    int64_t total_bytes, free_bytes; /* free for this user */
    int64_t inodes, free_inodes;     /* inodes 0: it has no limit */
    struct trend room, room_inodes;
    struct alarm low, filling, low_inodes, filling_inodes;
};

struct filesystems {
    size_t count;
    struct filesystem of[FILESYSTEMS];
};

/* The one with the path, if it is there. `use` is a word for people. */
void filesystems_add(struct filesystems *all, const char *path, const char *use);
/* Asks how much is left, and warns. */
void filesystems_look(struct filesystems *all, const struct look *look);
void filesystems_done(struct filesystems *all);

/* What is known of one now: sets its figures, and warns. Part of filesystems_look. */
void filesystem_judge(struct filesystem *one, const struct look *look);

/* As the record of the health has them; NULL: there are none, or out of memory. */
json_t *filesystems_json(const struct filesystems *all);
/* The smallest share that is free of one of them; 1: none is known. */
double filesystems_least_share(const struct filesystems *all);

#endif
