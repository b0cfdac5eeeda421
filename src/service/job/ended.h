/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ended processes of a job that wait to be asked for (service/job/follow.h), with their wait statuses. perf tells
 * an end while the process still goes through it, so its status may come a moment later: those from there on are told
 * the next time. Of one thread.
 */
#ifndef SCRY_SERVICE_JOB_ENDED_H
#define SCRY_SERVICE_JOB_ENDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/exits.h"
#include "service/job/command.h"

enum { JOB_ENDED_KEPT = 16384, JOB_ENDED_STATUS_UNKNOWN = -1 };

enum job_ended_source {
    JOB_ENDED_NOT_KNOWN,
    JOB_ENDED_BY_EVENT, /* the kernel's process events */
    JOB_ENDED_BY_PIDFD, /* it was held on to */
};

struct job_ended {
    pid_t pid, ppid, parent; /* parent: who started it */
    uint64_t start_ns, end_ns, cpu_ns, threads, peak_rss;
    int status; /* as from wait(2); JOB_ENDED_STATUS_UNKNOWN unless there is a source */
    enum job_ended_source source;
    int pidfd;         /* to ask for the status; -1: there is nothing to be asked */
    bool awaits;       /* an event will tell the status, */
    uint64_t event_ns; /* not one before that time */
    uint64_t exec_ns;  /* of its program; 0: none of its own */
    struct job_command *command;
    char name[64];
};

struct job_ended_list {
    struct job_ended *ring; /* sequence number s is in slot s % room */
    size_t room;
    uint64_t first, next; /* sequence numbers of those kept */
    uint64_t forgotten;   /* that nobody asked for in time */
    size_t pidfds;        /* open ones */
    size_t awaiting;      /* events */
    uint64_t in_vain;     /* events waited for that did not come */
    uint64_t lost_ns;     /* when some were dropped; 0: never. The owner's to set */
};

/* Adds a copy, and takes its pidfd and command over; unless there is a source, the status is asked for here. When there
 * are JOB_ENDED_KEPT, or no memory is left, the oldest, or this one, is forgotten. */
void job_ended_add(struct job_ended_list *list, const struct job_ended *ended);
/* Those before `cursor` were told. Cursors that are none of the list change nothing. */
void job_ended_forget(struct job_ended_list *list, uint64_t cursor);
/* Up to which sequence number they can be told: `next`, or that of one whose status is about to be known, by its pidfd
 * or by an event. */
uint64_t job_ended_known(struct job_ended_list *list);
/* The status of one that waits for it. */
void job_ended_event(struct job_ended_list *list, const struct exit_event *event);
/* The last one with this number that lived at that time; NULL. Those of before the last `cursor` are gone. */
struct job_ended *job_ended_find(struct job_ended_list *list, pid_t pid, uint64_t time_ns);
const struct job_ended *job_ended_at(const struct job_ended_list *list, uint64_t seq);
void job_ended_done(struct job_ended_list *list);

#endif
