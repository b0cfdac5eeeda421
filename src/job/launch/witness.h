/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells signals to a process group from signals to scry run alone: the first reach the command by themselves, the
 * second must be passed on, and the signal does not say which it is. So a child of scry run stays in its process group
 * and does nothing else: what it got, too, was for all. It blocks all signals, ends with scry run, and is named
 * `job-signals`: a signal to all processes named scry is for scry run alone.
 *
 * It also wakes a scry run that has stopped itself with its command, when the command goes on. Nobody else would, if
 * somebody continued the command alone.
 */
#ifndef SCRY_JOB_LAUNCH_WITNESS_H
#define SCRY_JOB_LAUNCH_WITNESS_H

#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/types.h>

struct witness {
    pid_t pid; /* 0: there is none */
    int fd;    /* close-on-exec; -1 */
};

/* Call it when all signals are blocked, before there are other children or threads. 0 or -errno: no process or no
 * descriptor; then the functions below return false and do nothing. */
int witness_start(struct witness *ret_witness);
void witness_end(struct witness *witness);

/* Has the same signal, from the same sender, reached the witness? */
bool witness_had(const struct witness *witness, const struct signalfd_siginfo *info);

/* From now on, continues this process (SIGCONT) when the stopped process `pid` goes on or ends. */
void witness_wake_with(const struct witness *witness, pid_t pid);
void witness_wake_no_more(const struct witness *witness);

#endif
