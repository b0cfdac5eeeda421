/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SERVICE_JOB_ENDED_H
#define SCRY_SERVICE_JOB_ENDED_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "probe/exits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/*
 * The ended processes of a job, with their wait statuses, until a tool asks for them (service/job/follow.h). perf
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

/* The kernel's events of ends (probe/exits.h) since the last reading, by process. For one thread. */

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

#endif
