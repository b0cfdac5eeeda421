/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PROBE_FOLLOW_H
#define SCRY_PROBE_FOLLOW_H

#include "base/data/err.h"
#include "probe/perf_ring.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Follows a whole process tree from outside by perf task records with inherit, one buffer a CPU: every process, however
 * short, its parent and its name; and its CPU time by one more buffer (inherit_stat). Nothing is stopped, and ptrace
 * slows nothing. Call follow_open while the root is held, before its first instruction that matters. -EACCES with a
 * reason if perf is refused: the caller then polls.
 */

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
/* Calls fn for what has arrived, in the order of time as far as the CPUs' buffers allow. An end is passed on when the
 * thread's counts are there: normally at once, after 0.2 s at most. Then it is passed on even if only the counts are
 * there, because the record of the end was lost. When the whole tree has been waited for, one call passes on
 * everything, if the kernel reports counts (some do not: follow.c). 0, or -ENOMEM (what could be read was passed on;
 * call again). */
int follow_read(struct follow *follow, follow_fn *fn, void *ctx);
/* An epoll descriptor that is readable when a buffer is a quarter full, and when the whole tree has ended; it does not
 * wake up before. follow_read makes it unreadable again. */
int follow_fd(const struct follow *follow);
/* The CPU time of the whole tree so far, by the kernel's own sum: also of processes without a record. 0 or -errno. */
int follow_cpu(const struct follow *follow, uint64_t *ret_ns);
void follow_close(struct follow *follow);
/* NULL, or why it cannot work on this machine; the text lives until the thread's next call. */
const char *follow_missing(void);

/* Inside the probe: perf's records of births, names, ends and counts of tasks, as they come out of a ring. */

struct task_record {
    uint64_t time_ns;
    uint32_t order; /* keeps a ring's order among equal times */
    uint16_t type;
    bool exec;
    uint32_t pid, ppid, tid, ptid;
    uint64_t value; /* READ, LOST */
    char comm[16];
};

/* Decodes what we use of a record; false for unexpected kinds and sizes. */
bool task_record_decode(const struct perf_event_header *record, struct task_record *ret_record);

/* ---- how tasks end ---- */

/*
 * How tasks end, whoever's children they are: the kernel's process events (<linux/cn_proc.h>), which report the end of
 * each task of the node with its exit code. Nothing is stopped, and no wait(2) is disturbed. Everybody may read them
 * since Linux 6.6; before that, CAP_NET_ADMIN is needed. They exist only in the initial namespaces of processes, users
 * and networks: not in most containers. What does not fit into the buffer is dropped, and that is reported.
 */

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
