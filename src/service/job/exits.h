/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's events of ends (probe/exits.h) since the last reading, by process. For one thread. */
#ifndef SCRY_SERVICE_JOB_EXITS_H
#define SCRY_SERVICE_JOB_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"
#include "probe/exits.h"

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
