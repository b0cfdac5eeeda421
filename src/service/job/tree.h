/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of /proc at one moment, and which of them belong to a job: for job/follow.c, without perf. */
#ifndef SCRY_SERVICE_JOB_TREE_H
#define SCRY_SERVICE_JOB_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/proc.h"

struct job_tree_process {
    pid_t pid;
    struct proc_stat stat;
    bool ours; /* belongs to the job */
};

struct job_tree {
    struct job_tree_process *list; /* by pid */
    size_t count;
};

/* Reads all but those of this name. Out of memory: those read till then. */
void job_tree_read(struct job_tree *ret_tree, const char *left_out);
void job_tree_done(struct job_tree *tree);

struct job_tree_root {
    pid_t pid;
    uint64_t ticks;  /* when it started */
    const char *dir; /* of the job; NULL or "": none */
};

/* Marks the processes of the job: those that `is_known` names, and their descendants. Also orphans, which have another
 * parent now: they started not before the root, and have the job's directory as SCRY_JOB in their environment. */
void job_tree_mark(struct job_tree *tree, bool (*is_known)(const void *ctx, pid_t pid), const void *ctx,
                   const struct job_tree_root *root);

#endif
