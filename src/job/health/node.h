/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the node counts and has: processors, waiting (PSI), memory, disks, network. From /proc, as proc(5) and the
 * kernel's Documentation/accounting/psi.rst and admin-guide/iostats.rst say.
 */
#ifndef SCRY_JOB_HEALTH_NODE_H
#define SCRY_JOB_HEALTH_NODE_H

#include <stdint.h>

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

/* How much a count grew; -1: unknown, or it was reset. */
int64_t node_grown(const struct node_state *from, const struct node_state *to, enum node_count which);
/* The share of the processors' time; of the time; and what comes each second. */
double node_cpu_share(const struct node_state *from, const struct node_state *to, enum node_count which);
double node_waited_share(const struct node_state *from, const struct node_state *to, enum node_count which);
double node_rate(const struct node_state *from, const struct node_state *to, enum node_count which);

#endif
