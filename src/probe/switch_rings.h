/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context switches of whole processes, with their later threads: one ring of the kernel for each processor, shared by
 * all watched processes (perf software event, context_switch, inherit_thread: Linux 5.13). They are reported in the
 * order of time over all processors, and what the kernel dropped is reported as a gap in its place. Not thread-safe.
 * (probe/switches.h: of single threads, at once.)
 */
#ifndef SCRY_PROBE_SWITCH_RINGS_H
#define SCRY_PROBE_SWITCH_RINGS_H

#include "probe/switches.h"

struct switch_rings;
struct switch_process; /* a watched process */

/* -EACCES with a reason for people if it is refused. */
int switch_rings_open(struct switch_rings **ret_rings, struct err *err);
void switch_rings_close(struct switch_rings *rings); /* after all its processes */
/* An epoll descriptor that is readable when a ring is getting full. */
int switch_rings_fd(const struct switch_rings *rings);
size_t switch_rings_count(const struct switch_rings *rings);
/* False: a new processor has no ring, and what runs there is not seen. */
bool switch_rings_whole(const struct switch_rings *rings);

/* Watches a process from now on. */
int switch_process_open(struct switch_process **ret_process, struct switch_rings *rings, pid_t pid, struct err *err);
void switch_process_close(struct switch_process *process);

/* A switch; or, with pid 0, that some of any process may be missing between lost_ns and time_ns. */
struct switched {
    struct switch_record record;
    uint64_t lost_ns;
};
typedef void switched_fn(void *ctx, const struct switched *switched);
/* Reports the switches, by time. Returns the time up to which they are complete, CLOCK_MONOTONIC. */
uint64_t switch_rings_read(struct switch_rings *rings, switched_fn *fn, void *ctx);

#endif
