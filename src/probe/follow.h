/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a whole process tree from outside by perf task records with inherit, one buffer a CPU: every process, however
 * short, its parent and its name; and its CPU time by a buffer for all (inherit_stat). Nothing is stopped or slowed by
 * ptrace. Call follow_open while the root is held, before its first instruction that matters. -EACCES with a reason
 * where perf is refused: the caller then falls back to polling.
 */
#ifndef SCRY_PROBE_FOLLOW_H
#define SCRY_PROBE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct follow;

enum follow_kind {
    FOLLOW_FORK,
    FOLLOW_THREAD,
    FOLLOW_EXEC,
    FOLLOW_NAME, /* the thread gave itself another name */
    FOLLOW_THREAD_EXIT,
    FOLLOW_EXIT,
    FOLLOW_LOST
};

struct follow_record {
    enum follow_kind kind;
    pid_t pid, tid, ppid;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    char comm[16];    /* FOLLOW_EXEC, FOLLOW_NAME */
    uint64_t cpu_ns;  /* FOLLOW_THREAD_EXIT, FOLLOW_EXIT: task clock of this thread; FOLLOW_EXIT is the last thread of
                         its process */
    bool cpu_known;   /* else cpu_ns is 0 */
    bool unborn;      /* FOLLOW_EXIT: of a process whose FOLLOW_FORK was lost */
    uint64_t lost;    /* FOLLOW_LOST: records the kernel dropped, any kind: processes that seem to live may be gone */
};
typedef void follow_fn(void *ctx, const struct follow_record *record);

int follow_open(struct follow **ret_follow, pid_t root, struct err *err);
/* Hands out what has arrived, in order of time as far as the buffers of different CPUs allow. An end is handed out once
 * the thread's counts are there, normally at once, 0.2 s later at most; so late it is handed out also where the counts
 * are all there is, because the record of the end was lost. After the whole tree has been waited for, one call hands
 * out everything, where the kernel tells counts (some do not: follow.c). 0, or -ENOMEM (what could be read
 * was handed out; call again). */
int follow_read(struct follow *follow, follow_fn *fn, void *ctx);
/* A descriptor (epoll) that is readable when a buffer is a quarter full, and when the whole tree has ended; no wake-up
 * before that. follow_read makes it quiet again. */
int follow_fd(const struct follow *follow);
/* The CPU time of the whole tree so far, by the kernel's own sum: of those too that no record told of. 0 or -errno. */
int follow_cpu(const struct follow *follow, uint64_t *ret_ns);
void follow_close(struct follow *follow);
/* NULL, or why it cannot work on this machine; the text lives until the thread's next call. */
const char *follow_missing(void);

#endif
