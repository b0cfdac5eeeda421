/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the threads of a process are blocked in, seen from outside (proc(5)): /proc/PID/task/TID/{stat,syscall,wchan},
 * the descriptors and, if the process may be read, the lock or the list of descriptors that the call names. Nothing is
 * stopped, so the answer describes a moment that has passed.
 */
#ifndef SCRY_JOB_PLACES_BLOCKED_H
#define SCRY_JOB_PLACES_BLOCKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "base/data/err.h"

enum { BLOCKED_WAITED = 8 };

struct blocked {
    pid_t tid;
    char name[32];
    char state;                      /* the kernel's letter */
    char syscall[32];                /* "read"; "": it runs, or we may not see it */
    int fd;                          /* its descriptor; -1 */
    struct buf text;                 /* for people: "reads from standard input, a pipe that process 12 (cat) writes" */
    pid_t waits_for[BLOCKED_WAITED]; /* processes, or threads of this one */
    size_t waits_count;
    char *fifo; /* it waits until somebody has opened its other end; "": its name is not known; NULL: it does not */
    bool fifo_writes; /* until for writing */
    bool
        fifo_open; /* it is open, and it waits until somebody uses its other end: one of waits_for, or who opens it yet */
    bool limited; /* of one that waits for events: only for a time */
    /* it waits in asyncio's event loop, without a limit, and for nothing but its own threads and signals */
    bool own_loop;
    bool own_lock;   /* it waits for a lock of a file, by flock, that only itself has, by another descriptor */
    bool own_shared; /* without a limit, for what is in shared memory that no other process has, nor can get */
    bool own_pipe;   /* it reads or writes a pipe whose other end nobody has but itself, by a descriptor of its own */
    bool inside;     /* it waits, without a limit, for what only another thread of its process could give */
    bool shared;     /* it waits for what is in memory that it shares with others: a lock, or a semaphore */
    bool connection, terminal; /* its descriptor is a connection, or its terminal */
    bool semaphore;  /* for one of System V, without a limit, which waits_for used last: others may give it, too */
    bool only_these; /* nobody else can let it go on: it holds a lock, has the other end of a pipe, is to end */
    char *python_function, *python_file; /* where in a Python program; NULL: in none, or it is not known */
    int64_t python_line;                 /* -1: unknown */
    struct descriptors *all;             /* while it is looked at: what is open on the node */
};

/* Locks of files for which somebody waits (/proc/locks): who waits for whom, processes of the reader's namespace. Of locks
 * of open descriptions (F_OFD_SETLKW) the kernel does not say who waits for them. The caller frees them. */
struct file_lock {
    pid_t waits, holds; /* by flock: who has taken it, which may have ended */
    bool flock;         /* else fcntl */
    bool log;           /* of SQLite: in the index of a write-ahead log, "DATABASE-shm" */
    char file[48];      /* its device and number: "fd:00:2531452" */
};
size_t file_locks_read(struct file_lock **ret_locks);
/* The same from the text of that file. */
size_t file_locks_parse(char *text, struct file_lock **ret_locks);
/* Those of databases of SQLite, as far as only one may have them: at its bytes (sqlite.org/src, os.h: PENDING_BYTE and behind; of a
 * write-ahead log WAL_WRITE_LOCK and behind). For them nobody waits in the kernel: who wants one tries again and again. */
size_t database_locks_parse(char *text, struct file_lock **ret_locks);
/* Whether the open file of a text of /proc/PID/fdinfo has that lock. By flock every process has it that has inherited the open
 * file, as a shell has it for which flock(1) took it. */
bool file_lock_is_in(const struct file_lock *lock, const char *fdinfo);

/* The caller passes the list to blocked_free. 0, -ESRCH: it has ended; -EACCES, -ENOMEM. */
int blocked_read(pid_t pid, struct blocked **ret_threads, size_t *ret_count, struct err *err);
void blocked_free(struct blocked *threads, size_t count);

/* Appends what blocks a thread, to follow "computes in". false: it runs, or is gone. */
bool blocked_put(struct buf *out, pid_t pid, pid_t tid);

#endif
