/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of one process that wait for each other in a circle, with and without MPI; and processes that do so: by locks of
 * files (flock, fcntl), by pipes, and by waiting for the end of others. A process may wait for itself: at a pipe whose other end
 * nobody else has, for the lock of a file that it has itself, for one that no other process has, or in an event loop to which
 * nothing can come. */
#ifndef SCRY_JOB_PLACES_DEADLOCKS_H
#define SCRY_JOB_PLACES_DEADLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "jobdir/text/fields.h"

struct deadlock_thread {
    pid_t pid, tid;
    char name[32];
    struct buf text; /* what it is blocked in, and from where: "waits for a mutex that ..., at take_both (hang.c:42)" */
    json_t *place;   /* job/places/where.h; NULL: not known */
};

/* How a process waits for itself: it reads or writes a pipe of its own, wants the lock of a file that it has by another descriptor,
 * or one in memory that only it has, or is in an event loop without any event. */
enum deadlock_own { OWN_NOTHING, OWN_READS, OWN_WRITES, OWN_LOCK, OWN_SHARED, OWN_LOOP };

struct deadlock {          /* a circle, in its order */
    bool processes;        /* else of threads of one process */
    bool files;            /* of processes: all by locks of files, or by the end of a child that waits for one */
    bool fifos;            /* all by waiting until somebody opens a FIFO */
    enum deadlock_own own; /* of one process: how it waits for itself */
    bool
        asleep; /* all threads of one process, each for what only another one could give: a lock, a condition, its end */
    pid_t pid;  /* of the first */
    char name[32]; /* of the process */
    struct deadlock_thread *threads;
    size_t count;
};

/* Fills text and place of threads of one process, as far as they are known. */
void deadlock_threads_tell(struct deadlock_thread *threads, size_t count, pid_t pid);
void deadlock_threads_done(struct deadlock_thread *threads, size_t count);

/* The circles in running processes. It takes a moment if there are any, because only threads that stand still count.
 * The caller passes them to deadlocks_free. */
size_t deadlocks_find(struct deadlock **ret_locks, const pid_t *pids, size_t count);
void deadlocks_free(struct deadlock *locks, size_t count);

/* For what a job waits that does nothing, and is no deadlock: for one of its processes, which needs no other one of them, and for what
 * that waits: what only somebody or something outside the job can give, the more telling the later. */
enum awaited {
    AWAITED_NOTHING, /* one of its processes runs, or several wait, each for something else */
    AWAITED_OTHER,   /* a time, an event, a disk */
    AWAITED_CONNECTION,
    AWAITED_TERMINAL,
    AWAITED_LOCK, /* of a file */
    AWAITED_STOPPED,
};

/* Appends "process 12 (cat) reads from ..., at step (a.c:5)". It takes a moment, because only what stands still counts. */
enum awaited awaited_put(struct buf *out, const pid_t *pids, size_t count, pid_t *ret_pid);

void deadlocks_text(struct buf *out, const struct deadlock *locks, size_t count);
/* The first of them in a line, without that it is one: "2 threads of lock (pid 12) wait for each other, at mover (lock.c:5) and ...". */
void deadlocks_line(struct buf *out, const struct deadlock *locks);
extern const struct field deadlock_fields[]; /* of a struct deadlock */

#endif
