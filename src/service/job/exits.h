/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel told of ends since it was read the last time (probe/exits.h), by process. Of one thread. */
#ifndef SCRY_SERVICE_JOB_EXITS_H
#define SCRY_SERVICE_JOB_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "probe/exits.h"

struct job_exits {
    int fd;                  /* -1: nothing is told, */
    bool silent;             /* nor is it here, */
    struct err why;          /* for this reason */
    struct exit_event *list; /* of each process the last of its threads; by pid */
    size_t count, room;
    uint64_t heard;   /* in all, of whatever processes */
    uint64_t lost_ns; /* when some were dropped the last time; 0: never */
};

void job_exits_open(struct job_exits *exits);
void job_exits_close(struct job_exits *exits);
/* Takes what was told out of the kernel's buffer, for job_exits_read. */
void job_exits_hear(struct job_exits *exits);
/* Likewise, and makes the list of all that was heard since it was last emptied (count 0). */
void job_exits_read(struct job_exits *exits);
const struct exit_event *job_exits_find(const struct job_exits *exits, pid_t pid);
/* Why the end of a process that ended then was not told; valid as long as `exits`. */
const char *job_exits_why(const struct job_exits *exits, uint64_t end_ns);

#endif
