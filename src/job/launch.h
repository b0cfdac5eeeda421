/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the job: forked and held on a pipe until it is watched, then executed with everything as scry run found it:
 * signals, descriptors, limits, working directory, process group, terminal, environment but for SCRY_JOB and what
 * job/preload.h names.
 */
#ifndef SCRY_JOB_LAUNCH_H
#define SCRY_JOB_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "job/preload.h"
#include "job/signals.h"

struct launch {
    pid_t pid;
    int go_fd;    /* the child waits for a byte from here */
    int error_fd; /* the child's errno if it could not be executed; end of file if it was */
};

/* `dir`: the job directory, for SCRY_JOB; NULL: none. `traceable`: processes of this user that are not its ancestors
 * may trace it (where Yama restricts that). 0 or -errno with err. */
int launch_held(struct launch *ret_launch, char **command, const char *dir, bool traceable,
                const struct preload *preload, const struct signals *signals, struct err *err);

/* The held child ends without having executed anything. */
void launch_abandon(struct launch *launch);

enum { LAUNCH_UNTRACED = 1 };
/* Lets the child execute the command, with or without what `preload` asked for. 0: it runs. LAUNCH_UNTRACED: it runs
 * with the environment that scry run was given, for there was no room for more. -errno of execvp otherwise; the child
 * then ends. */
int launch_release(struct launch *launch, bool traced);

/* Says on standard error why the command could not be executed. */
void launch_explain(const char *command, int code);

/* What a shell's exit status is for that errno: 127 not found, 126 not executable. */
int launch_exit_code(int code);

#endif
