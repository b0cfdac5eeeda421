/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file systems that the job uses: room and inodes, and when they are used up. One that may be on another machine
 * is asked less often, and nobody waits for its answer.
 */
#ifndef SCRY_JOB_HEALTH_FILESYSTEMS_H
#define SCRY_JOB_HEALTH_FILESYSTEMS_H

#include <jansson.h>

#include "job/health/health.h"
#include "job/health/judge.h"

enum { FILESYSTEMS = 8, FILESYSTEM_USES = 96 };

struct filesystem {
    char *path;                 /* the first one that is on it */
    char uses[FILESYSTEM_USES]; /* "work, temporary" */
    bool known;                 /* it has answered once */
    struct ask *ask;            /* it has not answered yet */
    uint64_t asked_ns;
    struct ask_answer now;    /* what it answered last */
    int64_t first_free_bytes; /* what was free when it answered first */
    struct trend room, room_inodes;
    struct alarm low, filling, low_inodes, filling_inodes, silent;
};

struct filesystems {
    size_t count;
    struct filesystem of[FILESYSTEMS];
    ask_fn *how; /* NULL: ask_now */
};

/* The one with the path, if it is there. `use` is a word for people. */
void filesystems_add(struct filesystems *all, const char *path, const char *use);
/* Asks how much is left, and warns. For the first answers it waits a moment. */
void filesystems_look(struct filesystems *all, const struct look *look);
void filesystems_done(struct filesystems *all);

/* Warns of what it answered last. Part of filesystems_look. */
void filesystem_judge(struct filesystem *one, const struct look *look);

/* As the record of the health has them; NULL: there are none, or out of memory. */
json_t *filesystems_json(const struct filesystems *all);
/* The smallest share that is free of one of them; 1: none is known. */
double filesystems_least_share(const struct filesystems *all);

#endif
