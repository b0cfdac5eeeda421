/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's processes as the monitor follows them for the service family `job`: every process with its end and CPU time
 * by perf records (probe/follow.h), what lives by /proc when asked. Where perf is refused, or the job ran already when
 * it came to be followed, its tree is looked up in /proc at each sample, and what lived between two samples is not
 * listed. Nothing is done between samples but emptying perf's buffers when they fill, and holding on to a process that
 * says hello to the monitor. How a process ended the kernel's process events tell (probe/exits.h); where they cannot be
 * heard, or were too many, it is known of those that were held on to: seen by a sample, by their hello, or nobody had
 * waited for them yet.
 */
#ifndef SCRY_SERVICE_JOB_FOLLOW_H
#define SCRY_SERVICE_JOB_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    JOB_FOLLOW_PIDFDS = 1024,  /* processes of which the wait status will be known */
    JOB_FOLLOW_ALIVE = 100000, /* processes at once */
};

struct job_command;
struct job_follow;

/* Follows `root` and its descendants; best called while it is held before its first instruction. Where /proc is looked
 * up, what has `dir` (NULL: none) as SCRY_JOB in its environment is of them, too, whoever is its parent now. -ESRCH,
 * -ENOMEM. That perf is refused is no error. */
int job_follow_new(struct job_follow **ret_follow, pid_t root, const char *dir, struct err *err);
void job_follow_free(struct job_follow *follow);

/* Readable when job_follow_drain should be called; -1: never. */
int job_follow_fd(const struct job_follow *follow);
void job_follow_drain(struct job_follow *follow);

/* Such a process lives now: how it ends will be known, however soon that is. Others than the job's are ignored. */
void job_follow_seen(struct job_follow *follow, pid_t pid);

/* What such a process said of its command, which is shared if it is of use. */
void job_follow_command(struct job_follow *follow, pid_t pid, struct job_command *command);

/* Readable when there are ends to be taken by job_follow_hear, thousands a second perhaps, of all processes of the
 * node; -1: the kernel tells none. */
int job_follow_exits_fd(const struct job_follow *follow);
void job_follow_hear(struct job_follow *follow);

/* Takes a sample: drains, and looks at all that live. */
void job_follow_sample(struct job_follow *follow);

/*
 * Tells the last sample. Appends, in the request language, separated by commas:
 *
 *     cursor          to be passed the next time: the ended processes before it are not told again
 *     time_ns         of the sample, CLOCK_MONOTONIC like all times here
 *     singly          1: every process is listed, however short; 0: not, and
 *     reason          why
 *     lost            records that the kernel dropped, or that made no sense
 *     started, ended  processes so far, the root included
 *     ended_cpu_ns    CPU time of those that ended
 *     peak_processes, peak_threads    at once, since it is followed; exact when listed singly
 *     forgotten       ended processes that nobody asked for in time
 *     n, [pid, ppid, start_ns, end_ns, cpu_ns, status, threads, peak_rss, name, ...]      ended since `cursor`;
 *                     status as from wait(2), -1: not known; threads: the most at once; peak_rss 0: not known;
 *                     after the name: source ("event", "pidfd", "") of the status, or why it is not known; whole (of
 *                     the arguments: 1; 0: some are missing; -1: not known), working directory, list of arguments
 *     n, [pid, ppid, start_ns, cpu_ns, rss, peak_rss, threads, state, name, ...]          alive; after the name: whole,
 *                     working directory and arguments, when they are new, else -1, "", []
 *     coming          processes that were not told yet, or whose end was not
 *     unseen          processes that are counted and never listed: all that is known is what CPU time they needed
 *     unclocked_ns    CPU time, part of ended_cpu_ns, of processes of which it is not known singly, once all have ended
 */
void job_follow_print(struct job_follow *follow, uint64_t cursor, struct buf *out);

#endif
