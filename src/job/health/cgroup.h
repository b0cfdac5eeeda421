/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_HEALTH_CGROUP_H
#define SCRY_JOB_HEALTH_CGROUP_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The control group of the job, version 1 or 2: what it uses of its limits. Each group above it has limits, too, for
 * all below it: the one with the least room counts, with what is used there. As cgroups(7), and the kernel's
 * admin-guide/cgroup-v2.rst and cgroup-v1 say. How the groups are mounted is in /proc/self/mountinfo.
 */

enum { CGROUP_SAID = 1024 };
enum cgroup_controller { CGROUP_MEMORY, CGROUP_TASKS, CGROUP_CPU, CGROUP_CONTROLLERS };

struct cgroup_place {
    int version;           /* 0: unknown */
    char folder[PATH_MAX]; /* of the group */
    size_t mount_len;      /* of that, where the groups are mounted: there is nothing above */
    size_t limit_len;      /* of that, the group with the least room; mount_len or more */
    int64_t limit;         /* bytes or tasks; INT64_MAX: none */
    double cpus;           /* of the time of processors; -1: no limit */
};

struct cgroup {
    char said[CGROUP_SAID]; /* by /proc/PID/cgroup, as far as it fits */
    char name[PATH_MAX];    /* as in /proc/PID/cgroup, of the controller of memory */
    struct cgroup_place at[CGROUP_CONTROLLERS];
};

struct cgroup_state {
    int64_t memory, memory_needed, memory_peak, memory_limit; /* needed: without what the kernel can drop */
    int64_t tasks, tasks_limit;
    int64_t periods, throttled_periods; /* counted since the group was made */
    int64_t oom_kills;                  /* in the group itself, and version 2: below it */
    double cpus_limit;                  /* limits: -1 where there is none */
};

/* Where they are; looks for limits at all levels, so seldom. */
void cgroup_find(const char *root, pid_t pid, struct cgroup *ret_group);
/* Whether the process is in another one now. One that has ended is not. */
bool cgroup_left(const char *root, pid_t pid, const struct cgroup *group);
void cgroup_read(const char *root, const struct cgroup *group, struct cgroup_state *ret_state);

/* The place of memory alone, without its limits (then they are not set). false: not known. */
bool cgroup_find_memory(const char *root, pid_t pid, struct cgroup_place *ret_place);
/* Processes that the kernel has killed for memory there; -1: not known. */
int64_t cgroup_oom_kills(const char *root, const struct cgroup_place *memory);

/* The group is older than the job, or has been that of others: what it had counted when the job came into it. */
struct cgroup_before {
    int64_t oom_kills, memory_peak; /* -1: unknown */
    int64_t oom_kills_elsewhere;    /* of the job, in groups where it was before */
};

/* The job comes into a group that is now in `state`, or (`left`, else NULL) from one that was so at the last look. */
void cgroup_enter(struct cgroup_before *before, const struct cgroup_state *left, const struct cgroup_state *state);

/* As the record of the health has it; `throttled` is a share. NULL: nothing is known, or out of memory. */
json_t *cgroup_json(const struct cgroup *group, const struct cgroup_state *state, const struct cgroup_before *before,
                    double throttled);

#endif
