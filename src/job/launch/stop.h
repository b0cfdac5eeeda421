/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a stop of the command: by the terminal (^Z), by itself (`suspend` in a shell, su, an editor's ^Z), by
 * anybody. At a terminal scry run stops as well, so that the shell around it sees what it would see without scry, and
 * prints its prompt. When one of the two is continued, so is the other. A command with a process group of its own (a
 * shell) gets its terminal back, as its group would.
 */
#ifndef SCRY_JOB_LAUNCH_STOP_H
#define SCRY_JOB_LAUNCH_STOP_H

#include <stdbool.h>
#include <sys/types.h>

#include "job/launch/witness.h"

/* Returns when the stop is over. false: there is no terminal, and nothing was done. */
bool stop_follow(pid_t command, int signo, const struct witness *witness);

#endif
