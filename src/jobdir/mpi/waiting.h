/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_MPI_WAITING_H
#define SCRY_JOBDIR_MPI_WAITING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What a thread waits for, seen from outside (proc(5)): the system calls that block, what their arguments mean, and for what a thread
 * waits in one, as a word. One thread's look costs some 20 us. Nothing is stopped; what is said of a moment has passed.
 */

enum waiting_for {
    WAITING_NOT, /* it runs, was stopped, has ended, or it is not known */
    WAITING_LOCK,
    WAITING_CONDITION, /* or a semaphore: what another thread gives */
    WAITING_THREAD,    /* its end */
    WAITING_CHILD,
    WAITING_SLEEP,
    WAITING_PIPE,
    WAITING_SOCKET,
    WAITING_DISK, /* any file system */
    WAITING_TERMINAL,
    WAITING_EVENTS, /* one of several things */
    WAITING_SIGNAL,
    WAITING_MESSAGE,
    WAITING_MPI, /* who knows its functions can say so */
    WAITING_OTHER,
    WAITING_KINDS,
};

/* "pipe"; for people "a pipe". */
const char *waiting_word(enum waiting_for what);
const char *waiting_text(enum waiting_for what);
/* WAITING_NOT: it is none. */
enum waiting_for waiting_of_word(const char *word);

/* Libraries on the way to system calls that block, and our own: nobody waits because of them. */
bool module_is_on_the_way(const char *path);

/* What calls main, or a thread's own function; NULL is none. */
bool function_is_start(const char *name);

/* false: it is gone. *ret_sp and *ret_pc: of the program; 0: not to be seen. */
bool waiting_look(pid_t pid, pid_t tid, enum waiting_for *ret_what, uint64_t *ret_sp, uint64_t *ret_pc);

enum blocking_about { /* the meaning of the arguments */
                      ABOUT_NOTHING,
                      ABOUT_SLEEP,
                      ABOUT_FD,
                      ABOUT_PATH, /* of openat */
                      ABOUT_FUTEX,
                      ABOUT_POLL,
                      ABOUT_SELECT,
                      ABOUT_SEMAPHORE, /* of System V */
                      ABOUT_EPOLL,
                      ABOUT_CHILD,  /* of wait4 */
                      ABOUT_CHILD2, /* of waitid: kind, then number */
                      ABOUT_LOCK,   /* of fcntl: only F_SETLKW blocks */
                      ABOUT_SIGNAL, /* of dash and timeout(1), which wait so for their children */
};

struct blocking_call {
    long number;
    const char *name, *text;
    enum blocking_about about;
    enum waiting_for what; /* WAITING_OTHER of ABOUT_FD: what the descriptor is */
};

/* NULL: it does not block, or not for long. */
const struct blocking_call *blocking_call_of(long number);

#endif
