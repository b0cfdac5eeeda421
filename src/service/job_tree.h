/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of /proc at one moment, and which of them belong to a job: for job_follow.c, where perf is refused. */
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
    bool ours; /* the job's */
};

struct job_tree {
    struct job_tree_process *list; /* by pid */
    size_t count;
};

/* Reads them all, but for those of this name. Out of memory: those that were read till then. */
void job_tree_read(struct job_tree *ret_tree, const char *left_out);
void job_tree_done(struct job_tree *tree);

/* Marks what belongs to the job: what `is_known` says, and what descends from that. And children of `supervisor` (1 or
 * less: nobody) that started at `root_ticks` or later: scry run has no children but the job, whose orphans become its
 * own. */
void job_tree_mark(struct job_tree *tree, bool (*is_known)(const void *ctx, pid_t pid), const void *ctx,
                   pid_t supervisor, uint64_t root_ticks);

#endif
