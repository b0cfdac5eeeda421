/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_MPI_THREAD_WAIT_H
#define SCRY_JOBDIR_MPI_THREAD_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"

/*
 * What the threads of a process wait for, outside of MPI: which of them only another one can set free, and which may
 * act by themselves. Read from /proc/PID/task/TID/syscall and, for locks of glibc, from the process's memory; nothing
 * is stopped. In doubt a thread may act.
 *
 * One inspection sees each thread at another moment. What threads wait for in two inspections, without having run
 * between them, they wait for together: at the moment between the two.
 */

enum thread_wait_kind {
    THREAD_MAY_ACT,      /* runs, is stopped, sleeps, waits with a limit or for what is outside of its process; or it is
                            not known */
    THREAD_WAITS_OWNER,  /* for a mutex that `tid` holds */
    THREAD_WAITS_END,    /* for the end of `tid` (pthread_join) */
    THREAD_WAITS_OTHERS, /* for any other thread of its process: a condition, a semaphore, another lock */
    THREAD_HAS_ENDED,    /* of one that is still listed: the first thread, after pthread_exit */
};

struct thread_wait {
    enum thread_wait_kind kind;
    int32_t tid;   /* a thread of its process; itself, perhaps */
    int32_t other; /* the owner of a mutex, which is none: it has ended, or is of another process; 0: none is known */
    uint64_t word; /* the lock's address */
    bool limited;  /* it may be over after a time */
    bool unseen;   /* the system does not let us see it */
};

struct thread_seen {
    int32_t tid;
    struct thread_wait wait;
    char name[32];
    bool timed;
    uint64_t ran_ns; /* schedstat */
};

/* What a thread of a process waits for in a system call as /proc/PID/task/TID/syscall has it: "202 0x7f...". Waits with
 * a limit have their kind, too. */
struct thread_wait thread_wait_of(pid_t pid, const char *syscall);

/* "waits for a mutex whose owner, 11303, is no thread of its process", of one that waits for others. */
void thread_wait_put_others(struct buf *out, const struct thread_wait *wait);

/* All threads of a process but those that a library of MPI has for itself, by their
 * numbers; the caller frees the list. 0, -ESRCH, -EACCES or -ENOMEM. */
int threads_look(struct thread_seen **ret_threads, size_t *ret_count, pid_t pid);

/* After a second inspection, with some time between: a thread that has changed may act. If threads are gone since, one
 * that may act stays in the list for them. `threads` may be exchanged. 0 or -ENOMEM. */
int threads_settle(struct thread_seen **threads, size_t *count, const struct thread_seen *before, size_t before_count);

/* Those that wait for each other in a circle which leads from `start` back to it, as indices in their order; 0: there
 * is none. One that waits for itself is a circle. ret_circle: room for `count`. */
size_t threads_circle(const struct thread_seen *threads, size_t count, size_t start, size_t *ret_circle);

/*
 * Which threads a library of MPI has made for itself: those that began in its code, or in that of what it is built on
 * (PMIx, UCX, libevent, libfabric). They make progress, and send nothing on their own.
 */

/* Whether a file is such a library, by its name. */
bool thread_file_is_of_mpi(const char *path);

#endif
