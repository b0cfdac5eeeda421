/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_HEALTH_NODE_H
#define SCRY_JOB_HEALTH_NODE_H

#include "job/health/cgroup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What the node counts and has: processors, waiting (PSI), memory, disks, network. From /proc, as proc(5) and the
 * kernel's Documentation/accounting/psi.rst and admin-guide/iostats.rst say.
 */

enum node_count {
    NODE_CPU_TOTAL, /* ticks of all processors together */
    NODE_CPU_BUSY,
    NODE_CPU_IOWAIT,
    NODE_CPU_STEAL,
    NODE_WAITED_CPU, /* microseconds in which some tasks, or all (full), waited */
    NODE_WAITED_MEMORY,
    NODE_WAITED_MEMORY_FULL,
    NODE_WAITED_IO,
    NODE_WAITED_IO_FULL,
    NODE_DISK_READ, /* bytes */
    NODE_DISK_WRITTEN,
    NODE_RECEIVED,
    NODE_SENT,
    NODE_NETWORK_ERRORS,
    NODE_SWAPPED_IN, /* pages */
    NODE_SWAPPED_OUT,
    NODE_OOM_KILLS, /* processes killed for lack of memory */
    NODE_COUNTS
};

struct node_state {
    uint64_t time_ns;                                              /* CLOCK_MONOTONIC */
    int64_t count[NODE_COUNTS];                                    /* since boot; -1: unknown */
    int64_t memory_total, memory_available, swap_total, swap_free; /* bytes */
    double load;
};

void node_state_read(const char *root, uint64_t now_ns, struct node_state *ret_state);
/* The share of the processors' time; of the time; and what comes each second. */
double node_cpu_share(const struct node_state *from, const struct node_state *to, enum node_count which);
double node_waited_share(const struct node_state *from, const struct node_state *to, enum node_count which);
double node_rate(const struct node_state *from, const struct node_state *to, enum node_count which);

/* How many processes the kernel killed for lack of memory. */

struct oom_counts {
    struct cgroup_place place; /* of the control group */
    int64_t node;              /* of the whole node, since it started; -1: unknown */
    int64_t group;             /* in the control group; -1: unknown */
};
/* Finds the group of the process, and counts. */
void oom_count(const char *root, pid_t pid, struct oom_counts *ret_counts);
/* Counts again, in the same group. */
void oom_count_again(const char *root, struct oom_counts *counts);

#endif
