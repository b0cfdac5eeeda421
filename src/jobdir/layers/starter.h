/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that start others and have an end of their own: launchers of MPI, shells, timeout(1), which ends what it has
 * started, and kill(1). By their names and command lines. Pure functions.
 */
#ifndef SCRY_JOBDIR_LAYERS_STARTER_H
#define SCRY_JOBDIR_LAYERS_STARTER_H

#include <jansson.h>
#include <stdbool.h>

#include "base/data/buf.h"
#include "jobdir/record/model.h"

#define SEEN_SECONDS 0.05 /* times of processes that were only seen are that coarse */

/* Exit statuses of shells, the third and the number of the signal that ended what they had started; and of timeout(1). */
enum { SHELL_NOT_EXECUTABLE = 126, SHELL_NOT_FOUND = 127, SHELL_SIGNAL = 128, TIMEOUT_STATUS = 124 };

enum starter {
    STARTER_NONE,
    STARTER_SHELL,
    STARTER_LAUNCHER, /* of MPI, or of a batch system: it ends the other ranks when one has failed */
    STARTER_DAEMON,   /* of such a launcher, on each node; whether a rank failed is not always in its status */
    STARTER_RUNNER,   /* runs others, waits for them, and ends none */
};
enum starter starter_of(const char *name); /* NULL: STARTER_NONE */

/* From what wait(2) has. */
int starter_shell_status(int status);
/* A shell, or a script, whose name is its own, but whose command line begins with the shell that reads it. argv may be NULL. */
bool starter_is_shell(const char *name, const json_t *argv);

/* Whether a parent that ended so lived on when its child was ended by a signal, and went on to an end of its own: then the parent
 * has probably sent it, or has dealt with it. Shells and launchers end in their own ways in any case. status: of wait(2). */
bool starter_lived_on(const char *name, const json_t *argv, int status, int signo);

/* What timeout(1) has ended, for its time was over. */
struct starter_timeout {
    double seconds, more; /* its limit, or < 0: not known; what it waited more before SIGKILL, or < 0: it did not */
    const char *program;  /* of argv; NULL: not known */
    int signo;            /* that it sent last */
};
/* Of a process that lived so long. argv may be NULL. status: of wait(2). */
bool starter_timed_out(const char *name, const json_t *argv, double lived_seconds, int status,
                       struct starter_timeout *ret_timeout);

/* The signal that a command line of kill(1), pkill or killall sends; 0: it is none of these, or that is not known. argv may be NULL. */
int starter_kill_signal(const json_t *argv);

/* What had failed before a program stood still, and may be what it waits for: workers that it had started, by fork, and that failed while
 * it lived on; an exception that ended a thread of it. Pure functions. */

/* Appends "python3 (pid 12) had lost 2 workers: pid 13, exit status 1 at 0.3 s, and pid 14, SIGKILL at 0.4 s", of the process that lost one
 * last. `lives`: "has" and only of one that still runs; else of one that did at that time. false: none. */
bool workers_put_lost(struct buf *out, const struct job_model *model, double seconds, bool lives);
/* Appends "ValueError: bad item 3, at work.py:6", if that is the last that was logged, not long before, or with seconds < 0 whenever that
 * was. false: it is not. */
bool workers_put_exception(struct buf *out, const struct job_model *model, double seconds);

#endif
