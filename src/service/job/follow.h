/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SERVICE_JOB_FOLLOW_H
#define SCRY_SERVICE_JOB_FOLLOW_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "probe/follow.h"
#include "probe/proc.h"
#include "service/job/ended.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A job's processes as the monitor follows them for the service family `job`. perf records (probe/follow.h) report
 * every process with its end and CPU time; /proc shows the living ones when asked. If perf is refused, or the job was
 * running already, each sample searches the job's tree in /proc, and processes that live only between two samples are
 * not listed. Between samples, the monitor only empties perf's buffers when they fill, and opens a pidfd of a process
 * that says hello.
 *
 * How a process ended comes from the kernel's process events (probe/exits.h). Without them, or if there were too many,
 * it is known of processes with a pidfd, that is, seen by a sample or by their hello, and of those that nobody had
 * waited for yet.
 */

struct job_command;
struct job_follow;

/* Follows `root` and its descendants. Call it while `root` is held before its first instruction. With /proc, processes
 * that have `dir` (NULL: none) as SCRY_JOB in their environment belong to the job, too, whatever their parent. -ESRCH,
 * -ENOMEM. A refused perf is no error. */
int job_follow_new(struct job_follow **ret_follow, pid_t root, const char *dir, struct err *err);
void job_follow_free(struct job_follow *follow);

/* Whether it is a living process of the job. */
bool job_follow_has(struct job_follow *follow, pid_t pid);
/* Whether it is one, as far as is known without looking. */
bool job_follow_knows(const struct job_follow *follow, pid_t pid);

/* Sends a signal to the root, never to a later process with its number. -ESRCH: it has ended; -EACCES. */
int job_follow_signal(const struct job_follow *follow, int signo);

/* Calls fn for each living process of the last sample. */
void job_follow_each(const struct job_follow *follow, void (*fn)(void *ctx, pid_t pid, pid_t ppid, const char *name),
                     void *ctx);

/* Readable when job_follow_drain should be called; -1: never. */
int job_follow_fd(const struct job_follow *follow);
void job_follow_drain(struct job_follow *follow);

/* Such a process lives now: makes sure that the way it ends will be known. Ignores processes of other jobs. */
void job_follow_seen(struct job_follow *follow, pid_t pid);

/* The command that such a process reported; shared if it is used. */
void job_follow_command(struct job_follow *follow, pid_t pid, struct job_command *command);

/* Readable when job_follow_hear can take ends, of all processes of the node, perhaps thousands a second. -1: no events.
 */
int job_follow_exits_fd(const struct job_follow *follow);
void job_follow_hear(struct job_follow *follow);

/* Takes a sample: drains, and looks at all living processes. */
void job_follow_sample(struct job_follow *follow);

/*
 * Prints the last sample. Appends, in the request language, separated by commas:
 *
 *     cursor          to be passed the next time: ended processes before it are not reported again
 *     time_ns         of the sample, CLOCK_MONOTONIC like all times here
 *     singly          1: every process is listed, however short it lived; 0: not, and
 *     reason          why
 *     lost            records that the kernel dropped, or that were damaged
 *     started, ended  processes so far, the root included
 *     ended_cpu_ns    CPU time of those that ended
 *     peak_processes, peak_threads    at once, since the job is followed; exact if singly
 *     forgotten       ended processes that were dropped before anybody asked
 *     n, [pid, ppid, start_ns, end_ns, cpu_ns, status, threads, peak_rss, name, ...]      ended since `cursor`;
 *                     status as from wait(2), -1: not known; threads: the most at once; peak_rss 0: not known;
 *                     after the name: source ("event", "pidfd", "") of the status, or why it is not known; whole (of
 *                     the arguments: 1; 0: some are missing; -1: not known), working directory, list of arguments
 *     n, [pid, ppid, start_ns, cpu_ns, rss, peak_rss, threads, state, name, ...]          alive; after the name: whole,
 *                     working directory and arguments, when they are new, else -1, "", []
 *     coming          processes that were not reported yet, or whose end was not
 *     unseen          processes that are counted and never listed: only their CPU time is known
 *     unclocked_ns    the part of ended_cpu_ns that belongs to no listed process, when all have ended
 */
void job_follow_print(struct job_follow *follow, uint64_t cursor, struct buf *out);

/* The processes of /proc at one moment, and which of them belong to a job: for job/follow.c, without perf. */

struct job_tree_process {
    pid_t pid;
    struct proc_stat stat;
    bool ours; /* belongs to the job */
};

struct job_tree {
    struct job_tree_process *list; /* by pid */
    size_t count;
};

/* Reads all but those of this name. Out of memory: those read till then. */
void job_tree_read(struct job_tree *ret_tree, const char *left_out);
void job_tree_done(struct job_tree *tree);

struct job_tree_root {
    pid_t pid;
    uint64_t ticks;  /* when it started */
    const char *dir; /* of the job; NULL or "": none */
};

/* Marks the processes of the job: those that `is_known` names, and their descendants. Also orphans, which have another
 * parent now: they started not before the root, and have the job's directory as SCRY_JOB in their environment. */
void job_tree_mark(struct job_tree *tree, bool (*is_known)(const void *ctx, pid_t pid), const void *ctx,
                   const struct job_tree_root *root);

#endif
