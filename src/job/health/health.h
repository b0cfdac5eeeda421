/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_HEALTH_HEALTH_H
#define SCRY_JOB_HEALTH_HEALTH_H

#include "job/health/cgroup.h"
#include "job/health/node.h"
#include "job/observe/observe.h"
#include "jobdir/record/kinds.h"

/* The source `health` of the observer: looks at the node, the control group, file systems, processes and credentials.
 */

extern const struct observe_source health_source;

/* When a record of the health is due, and what is in it: maxima since the one before. */

struct health_window {
    struct node_state from, last; /* of the record before, and of the last look */
    struct cgroup_state group;    /* at the record before */
    double cpu_peak;
    int64_t available_least;
    double rooms; /* filesystems_least_share at the record before */
};

void window_begin(struct health_window *window, const struct node_state *node, const struct cgroup_state *group,
                  double rooms);
/* Whether so much has changed that a record is due, or it is time for one. */
bool window_add(struct health_window *window, const struct node_state *node, const struct cgroup_state *group,
                double rooms);
/* Whether there is less or more room in memory or on disks than at the record before, however long ago that was. */
bool window_rooms_moved(const struct health_window *window, const struct cgroup_state *group, double rooms);
/* The figures of the last look; filesystems, cgroup and processes are the caller's. */
struct health_record window_record(const struct health_window *window);

#endif
