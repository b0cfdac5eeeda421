/* SPDX-License-Identifier: Apache-2.0 */
/* How many processes the kernel killed for lack of memory. */
#ifndef SCRY_JOB_HEALTH_OOM_H
#define SCRY_JOB_HEALTH_OOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/health/cgroup.h"

struct oom_counts {
    struct cgroup_place place; /* of the control group */
    int64_t node;              /* of the whole node, since it started; -1: unknown */
    int64_t group;             /* in the control group; -1: unknown */
};
/* Finds the group of the process, and counts. */
void oom_count(const char *root, pid_t pid, struct oom_counts *ret_counts);
/* Counts again, in the same group. */
void oom_count_again(const char *root, struct oom_counts *counts);
int64_t oom_count_node(const char *root);

#endif
