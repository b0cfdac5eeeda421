/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command was stopped: by the terminal (^Z), by itself (`suspend` in a shell, su, an editor's ^Z), by somebody. At
 * a terminal scry run stops as well, so that the shell around it sees what it would see without it, and gives its
 * prompt; when one of both is continued, so is the other. A command that is a process group of its own (a shell) gets
 * back the terminal that it had, as its own group would have.
 */
#ifndef SCRY_JOB_STOP_H
#define SCRY_JOB_STOP_H

#include <stdbool.h>
#include <sys/types.h>

#include "job/witness.h"

/* Returns when it is over; false: nothing was done, as there is no terminal. */
bool stop_follow(pid_t command, int signo, const struct witness *witness);

#endif
