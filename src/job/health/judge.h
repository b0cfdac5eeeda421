/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with the node, or with the job's control group: memory, tasks, processors, clocks. Pure, but for the
 * clocks. */
#ifndef SCRY_JOB_HEALTH_JUDGE_H
#define SCRY_JOB_HEALTH_JUDGE_H

#include "job/health/cgroup.h"
#include "job/health/look.h"
#include "job/health/node.h"
#include "job/health/processes.h"
#include "job/health/trend.h"

struct judge {
    /* Where the window began over which shares are judged. */
    struct node_state window;
    struct cgroup_state group_window;
    struct process_motion motion_window;
    unsigned lacking; /* the most of that since then */
    uint64_t window_ns;
    int64_t oom_node, oom_group, oom_said; /* counted at the start, and so many were said */
    struct trend memory, group_memory;
    struct alarm low, filling, pressure, swapping, group_low, group_filling, tasks, throttled, taken;
    int64_t clock_ns, suspended_ns; /* of the wall, and of the time in suspension, before the monotonic clock */
    bool has_clocks;
};

/* `group` may have nothing known. */
void judge_look(struct judge *judge, const struct look *look, const struct node_state *node,
                const struct cgroup_state *group, const struct process_motion *motion);

/* The job is in another control group now. */
void judge_group_changed(struct judge *judge, const struct cgroup_state *group);

/* How far these clocks are before CLOCK_MONOTONIC: warns of jumps. */
struct judge_clocks {
    int64_t realtime_ns, boottime_ns;
};
void judge_clocks_read(struct judge_clocks *ret_clocks);
void judge_clocks_look(struct judge *judge, const struct look *look, const struct judge_clocks *clocks);

#endif
