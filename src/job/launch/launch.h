/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_LAUNCH_LAUNCH_H
#define SCRY_JOB_LAUNCH_LAUNCH_H

#include "base/data/err.h"
#include "job/launch/preload.h"
#include "job/launch/signals.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Starts the job. The command is forked and held on a pipe until it is watched. Then it is executed with everything as
 * scry run got it: signals, descriptors, limits, working directory, process group, terminal, and environment, but for
 * SCRY_JOB and the variables in job/launch/preload.h and job/launch/propagate.h.
 */

/* What the command gets in place of standard input, output and error of scry run; -1: that. `leash` not -1: a session of its own on
 * the terminal that its output is (job/output/relay.h), whose leader lives until that hangs up. */
struct launch_streams {
    int fds[3];
    int leash;
};

struct launch {
    pid_t pid;
    int go_fd;    /* the child waits for a byte from here */
    int error_fd; /* the child's errno if it could not be executed; end of file if it was */
};

/* `dir`: the job directory, for SCRY_JOB; NULL: none. `traceable`: other processes of this user may trace it, where
 * Yama restricts that to ancestors. 0 or -errno with err. */
int launch_held(struct launch *ret_launch, char **command, const char *dir, bool traceable,
                const struct launch_streams *streams, const struct preload *preload, const struct signals *signals,
                struct err *err);

/* Ends the held child; nothing is executed. */
void launch_abandon(struct launch *launch);

enum { LAUNCH_UNTRACED = 1 };
/* Lets the child execute the command, traced or not. 0: it runs. LAUNCH_UNTRACED: it runs with the environment of scry
 * run, because there was no room for more. Else -errno of execvp, and the child ends. */
int launch_release(struct launch *launch, bool traced);

/* Prints on standard error why the command could not be executed (program_explain). */
void launch_explain(const char *command, int code);

/* A shell's exit status for that errno: 127 not found, 126 not executable. */
int launch_exit_code(int code);

/*
 * Follows a stop of the command: by the terminal (^Z), by itself (`suspend` in a shell, su, an editor's ^Z), by
 * anybody. At a terminal scry run stops as well, so that the shell around it sees what it would see without scry, and
 * prints its prompt. When one of the two is continued, so is the other. A command with a process group of its own (a
 * shell) gets its terminal back, as its group would.
 */

/* Returns when the stop is over. false: there is no terminal, and nothing was done. */
bool stop_follow(pid_t command, int signo, const struct witness *witness);

/*
 * A child that scry run forks to work for it. It keeps no descriptor open that the job may wait for, and is not called
 * scry: a signal to all processes of that name, or of that command line, is for scry run.
 */

typedef void worker_fn(void *ctx, int fd);
/* Forks one with a socket of that type (SOCK_STREAM, SOCK_SEQPACKET) between both. The child ends when serve returns. 0 or -errno:
 * then nothing is returned. */
int worker_start(const char *name, int type, worker_fn *serve, void *ctx, pid_t *ret_pid, int *ret_fd);
/* In a child: sets the name, leaves the working directory, and closes all descriptors but `fd`. Returns fd's new
 * number. */
int worker_become(const char *name, int fd);
/* The same with several, which get their new numbers; -1 is none. */
void worker_keep(const char *name, int *fds, size_t count);
/* In a worker: is called so from now on. */
void worker_rename(const char *name);

/*
 * The tasks that a batch system starts beside each other on one node, as one job. SCRY_STEP has the name that they
 * share. One of them is `scry run`: it offers its job under that name, by a link in the runtime directory. The others are
 * `scry exec`: they look for it, and wait a moment, for all of them start at once.
 */

/* Offers the job in this directory, in place of an older one of that name. The link stays: a task may come late, to a job
 * that is already over. Links of yesterday are removed. Without SCRY_STEP, or if the link cannot be made, nothing
 * happens. */
void step_offer(const char *dir);

/* Whether this is the first that asks this, of those with the same SCRY_STEP on this node: then it is to offer the job. */
bool step_lead(void);

/* Takes out of the environment what is for scry alone: SCRY_STEP, and SCRY_BATCH_MEMORY (job/record/batch.h). */
void step_forget(void);

/* The directory of the job that is offered. Waits at most as WAIT_STEP says. false: there is no SCRY_STEP, or no job. */
bool step_find(char *ret_dir, size_t size);

#endif
