/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's processes as the monitor follows them for the service family `job`. perf records (probe/follow.h) report
 * every process with its end and CPU time; /proc shows the living ones when asked. If perf is refused, or the job was
 * running already, each sample searches the job's tree in /proc, and processes that live only between two samples are
 * not listed. Between samples, the monitor only empties perf's buffers when they fill, and opens a pidfd of a process
 * that says hello.
 *
 * How a process ended comes from the kernel's process events (probe/follow.h). Without them, or if there were too many,
 * it is known of processes with a pidfd, that is, seen by a sample or by their hello, and of those that nobody had
 * waited for yet.
 */
#ifndef SCRY_SERVICE_JOB_FOLLOW_H
#define SCRY_SERVICE_JOB_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "probe/follow.h"
#include "probe/proc.h"

/* ---- command lines (ended.c) ---- */

/* The command line and the working directory of a process, from when its program began, or was first looked at. A
 * process shares them with children that have executed nothing else. */

struct job_command {
    unsigned users;
    uint64_t time_ns; /* when they were read */
    bool said;        /* reported by the process itself */
    bool whole;       /* the arguments are all there */
    size_t args_size;
    const char *args; /* NUL-terminated, one after the other */
    char directory[]; /* "": not known */
};

/* NULL: out of memory, more than 12 MB are kept, or there are no arguments. */
struct job_command *job_command_new(struct span directory, struct span args, bool whole, uint64_t time_ns);
/* Reads it from /proc, for a living process. */
struct job_command *job_command_read(pid_t pid);
struct job_command *job_command_share(struct job_command *command); /* adds a reference; NULL is fine */
void job_command_drop(struct job_command *command);                 /* removes one */
/* Prints it in the request language: whole (1, or 0 if arguments are missing; plus 2 if the process has not reported it
 * itself; -1: not known, NULL), the directory, the list of arguments. */
void job_command_print(const struct job_command *command, struct buf *out);

/* ---- processes that have ended (ended.c) ---- */

/*
 * The ended processes of a job, with their wait statuses, until a tool asks for them. perf
 * reports an end while the process is still ending, so its status may come a moment later: then this process and the
 * later ones are reported the next time. For one thread.
 */

enum { JOB_ENDED_KEPT = 16384, JOB_ENDED_STATUS_UNKNOWN = -1 };

enum job_ended_source {
    JOB_ENDED_NOT_KNOWN,
    JOB_ENDED_BY_EVENT, /* the kernel's process events */
    JOB_ENDED_BY_PIDFD, /* a pidfd was open */
};

struct job_ended {
    pid_t pid, ppid, parent; /* parent: the process that started it */
    uint64_t start_ns, end_ns, cpu_ns, threads, peak_rss;
    int status; /* as from wait(2); JOB_ENDED_STATUS_UNKNOWN without a source */
    enum job_ended_source source;
    int pidfd;         /* to ask for the status; -1: none */
    bool awaits;       /* an event will bring the status, */
    uint64_t event_ns; /* not before this time; what the last of its threads told before that, */
    int early_status;
    uint64_t early_ns; /* and when; 0: none did */
    uint64_t exec_ns;  /* of its program; 0: none of its own */
    struct job_command *command;
    char name[64];
};

struct job_ended_list {
    struct job_ended *ring; /* sequence number s is in slot s % room */
    size_t room;
    uint64_t first, next; /* sequence numbers of those kept */
    uint64_t forgotten;   /* dropped before anybody asked */
    size_t pidfds;        /* open ones */
    size_t awaiting;      /* events */
    uint64_t in_vain;     /* awaited events that did not come */
    uint64_t lost_ns;     /* when events were dropped; 0: never. The owner sets it */
};

/* Adds a copy, and takes its pidfd and command. Asks for the status if it has none. With JOB_ENDED_KEPT entries, or
 * without memory, drops the oldest, or this one. */
void job_ended_add(struct job_ended_list *list, const struct job_ended *ended);
/* Forgets the entries before `cursor`: they were reported. Ignores cursors outside of the list. */
void job_ended_forget(struct job_ended_list *list, uint64_t cursor);
/* The sequence number up to which entries can be reported: `next`, or that of an entry whose status is about to come,
 * by its pidfd or by an event. */
uint64_t job_ended_known(struct job_ended_list *list);
/* Sets the status of an entry that waits for it. */
void job_ended_event(struct job_ended_list *list, const struct exit_event *event);
/* The last entry with this pid that lived at that time; NULL. Entries before the last `cursor` are gone. */
struct job_ended *job_ended_find(struct job_ended_list *list, pid_t pid, uint64_t time_ns);
const struct job_ended *job_ended_at(const struct job_ended_list *list, uint64_t seq);
void job_ended_done(struct job_ended_list *list);

/* The kernel's events of ends (probe/follow.h) since the last reading, by process. For one thread. */

struct job_exits {
    int fd;                  /* -1: no events */
    bool silent;             /* the kernel sends none here, */
    struct err why;          /* for this reason */
    struct exit_event *list; /* for each process, of its last thread; by pid */
    size_t count, room;
    uint64_t heard;   /* in all, of any processes */
    uint64_t lost_ns; /* when events were last dropped; 0: never */
};

void job_exits_open(struct job_exits *exits);
void job_exits_close(struct job_exits *exits);
/* Takes the events out of the kernel's buffer, for job_exits_read. */
void job_exits_hear(struct job_exits *exits);
/* The same, and makes the list of all events since it was last emptied (count 0). */
void job_exits_read(struct job_exits *exits);
/* The status of a process after this event, of its last thread so far; `known` was it after the one at `known_ns`. If a
 * thread ends all others (exit_group, a signal), each tells the same. But one that was ending by itself just then tells 0,
 * maybe as the last. */
int job_exits_status(int known, uint64_t known_ns, const struct exit_event *event);
const struct exit_event *job_exits_find(const struct job_exits *exits, pid_t pid);
/* Why there was no event for a process that ended then; valid as long as `exits`. */
const char *job_exits_why(const struct job_exits *exits, uint64_t end_ns);

/* ---- following ---- */

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

/* Sends a signal to the root, and one by which people end, stop or continue jobs (SIGTERM, SIGINT, SIGQUIT, SIGKILL; SIGSTOP,
 * SIGTSTP; SIGCONT) to all other processes, too, but for scry's own; never to a later process with the number of one. -ESRCH: the root has ended; -EACCES. */
int job_follow_signal(struct job_follow *follow, int signo);

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
