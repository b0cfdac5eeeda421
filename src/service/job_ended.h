/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ended processes of a job that wait to be asked for (service/job_follow.h), with their wait statuses. perf tells
 * an end while the process still goes through it, so its status may come a moment later: those from there on are told
 * the next time. Of one thread.
 */
#ifndef SCRY_SERVICE_JOB_ENDED_H
#define SCRY_SERVICE_JOB_ENDED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { JOB_ENDED_KEPT = 16384, JOB_ENDED_STATUS_UNKNOWN = -1 };

struct job_ended {
    pid_t pid, ppid;
    uint64_t start_ns, end_ns, cpu_ns, threads, peak_rss;
    int status; /* as from wait(2), or JOB_ENDED_STATUS_UNKNOWN */
    int pidfd;  /* to ask for the status; -1: there is nothing to be asked */
    char name[64];
};

struct job_ended_list {
    struct job_ended *ring; /* sequence number s is in slot s % room */
    size_t room;
    uint64_t first, next; /* sequence numbers of those kept */
    uint64_t forgotten;   /* that nobody asked for in time */
    size_t pidfds;        /* open ones */
};

/* Adds a copy, and takes its pidfd over; the status is asked for here. When there are JOB_ENDED_KEPT, or no memory is
 * left, the oldest, or this one, is forgotten. */
void job_ended_add(struct job_ended_list *list, const struct job_ended *ended);
/* Those before `cursor` were told. Cursors that are none of the list change nothing. */
void job_ended_forget(struct job_ended_list *list, uint64_t cursor);
/* Up to which sequence number they can be told: `next`, or that of one whose status is about to be known. */
uint64_t job_ended_known(struct job_ended_list *list);
const struct job_ended *job_ended_at(const struct job_ended_list *list, uint64_t seq);
void job_ended_done(struct job_ended_list *list);

#endif
