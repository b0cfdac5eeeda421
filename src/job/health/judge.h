/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_HEALTH_JUDGE_H
#define SCRY_JOB_HEALTH_JUDGE_H

#include "job/health/cgroup.h"
#include "job/health/health.h"
#include "job/health/node.h"
#include "job/health/processes.h"
#include "jobdir/record/trend.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Whether anything of the job moves: processes that come, work or end, what they read and write, and how far its output
 * goes. (Of MPI programs, whose ranks may spin, --mpi-stall says more.) Pure.
 */

struct stall {
    uint64_t moved_ns; /* CLOCK_MONOTONIC; 0: not looked yet */
    bool said;
    const char *last; /* what moved last, for people */
    struct process_motion seen;
    int64_t output_bytes;
    const char *where; /* of struct stuck; NULL */
};

/* `output_bytes`: how far it has come in the files that it writes its output to. `after_seconds` 0: never warns. */
void stall_look(struct stall *stall, const struct look *look, const struct process_motion *motion, int64_t output_bytes,
                double after_seconds);

/*
 * Whether a job that does nothing can never go on: what `scry why` would say of it, asked when it has been idle for some seconds, and
 * once more for what may take longer. Nothing is stopped for that (job/places/blocked.h).
 */

enum { STUCK_WHERE = 240, STUCK_TEXT = 400 };

struct stuck {
    struct ask *ask;
    uint64_t moved_ns; /* as in struct stall, of the time for which it has been asked */
    unsigned asked;    /* then */
    bool said;
    /* "writes to a pipe ..., at step (solver.c:5)", of who did something last; "": not known, or not yet */
    char where[STUCK_WHERE];
    char pending
        [STUCK_TEXT]; /* what somebody else may end yet, such as a wait for a FIFO: not said so far; "": nothing */
    char standing[STUCK_TEXT]; /* what it stands still in now; "": it goes on, or nothing can be said of it */
    bool deadlock;
    bool changed; /* `standing` has, and is not yet recorded */
};

/* After stall_look. */
void stuck_look(struct stuck *stuck, const struct look *look, const struct stall *stall,
                const struct processes *processes);
/* The job was ended from outside, without a look since: what was not said yet. `stall`: of the last look before. */
void stuck_ended(struct stuck *stuck, const struct look *look, const struct stall *stall);
void stuck_done(struct stuck *stuck);
/* Of a process that does nothing, what its first thread waits in, and where: "reads from ..., at step (solver.c:5)". It takes a moment. */
void stuck_put_where(char ret_where[STUCK_WHERE], pid_t pid);

/* What is wrong with the node, or with the job's control group: memory, tasks, processors, clocks. Pure, but for the
 * clocks. */

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

/* It is over, and was looked at: whether others had the processors meanwhile, of which a shorter time is enough then. */
void judge_end(struct judge *judge, const struct look *look, const struct node_state *node,
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
