/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How tasks end, whoever's children they are: the kernel's process events (<linux/cn_proc.h>), which report the end of
 * each task of the node with its exit code. Nothing is stopped, and no wait(2) is disturbed. Everybody may read them
 * since Linux 6.6; before that, CAP_NET_ADMIN is needed. They exist only in the initial namespaces of processes, users
 * and networks: not in most containers. What does not fit into the buffer is dropped, and that is reported.
 */
#ifndef SCRY_PROBE_EXITS_H
#define SCRY_PROBE_EXITS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"

/* The end of a thread. For the last thread of a process, it has the wait status of the process (signal(7), wait(2)). */
struct exit_event {
    pid_t pid, tid;
    int status;
    uint64_t time_ns; /* CLOCK_MONOTONIC; after that of perf's record of the same end (probe/follow.h) */
};
typedef void exits_fn(void *ctx, const struct exit_event *event);

/* A descriptor that is readable when there are events, or -errno with the reason. */
int exits_open(struct err *err);
/* Calls fn for all events. 0; -ENOBUFS: some were dropped before one of these; -errno: there will be no more. */
int exits_read(int fd, exits_fn *fn, void *ctx);

#endif
