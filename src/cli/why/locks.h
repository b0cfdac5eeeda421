/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of one process that wait for each other in a circle, with and without MPI; and processes that do so: by locks of
 * files (flock, fcntl), by pipes, and by waiting for the end of others. */
#ifndef SCRY_CLI_WHY_LOCKS_H
#define SCRY_CLI_WHY_LOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "jobdir/text/fields.h"

struct why_lock_thread {
    pid_t pid, tid;
    char name[32];
    struct buf text; /* what it is blocked in, and from where: "waits for a mutex that ..., at take_both (hang.c:42)" */
    json_t *place;   /* job/places/where.h; NULL: not known */
};

struct why_lock {   /* a circle, in its order */
    bool processes; /* else of threads of one process */
    bool files;     /* of processes: all by locks of files */
    bool fifos;     /* all by waiting until somebody opens a FIFO */
    pid_t pid;      /* of the first */
    char name[32];  /* of the process */
    struct why_lock_thread *threads;
    size_t count;
};

/* Fills text and place of threads of one process, as far as they are known. */
void why_lock_threads_tell(struct why_lock_thread *threads, size_t count, pid_t pid);
void why_lock_threads_done(struct why_lock_thread *threads, size_t count);

/* The circles in running processes. It takes a moment if there are any, because only threads that stand still count.
 * The caller passes them to why_locks_free. */
size_t why_locks_find(struct why_lock **ret_locks, const pid_t *pids, size_t count);
void why_locks_free(struct why_lock *locks, size_t count);

void why_locks_text(struct buf *out, const struct why_lock *locks, size_t count);
extern const struct field why_lock_fields[]; /* of a struct why_lock */

#endif
