/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal to a process group reaches the command by itself, one to scry run alone must be passed on, and nothing in it
 * says which of both it was. So a child of scry run stays in its process group and does nothing else: what it got, too,
 * was for all. It blocks all signals, is named `job-signals` (not scry: who signals all processes of that name means
 * scry run alone), and ends with scry run.
 *
 * It also wakes a scry run that has stopped itself with its command, once that goes on: nobody else would, where
 * somebody continued the command alone.
 */
#ifndef SCRY_JOB_WITNESS_H
#define SCRY_JOB_WITNESS_H

#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/types.h>

struct witness {
    pid_t pid; /* 0: there is none */
    int fd;    /* close-on-exec; -1 */
};

/* To be called when all signals are blocked, before there are other children or threads. 0 or -errno: no process, no
 * descriptor; what follows then says false and does nothing. */
int witness_start(struct witness *ret_witness);
void witness_end(struct witness *witness);

/* The same signal, of the same sender, has reached the witness, too. */
bool witness_had(const struct witness *witness, const struct signalfd_siginfo *info);

/* From now on this process is continued (SIGCONT) when `pid`, which is stopped, goes on or ends. */
void witness_wake_with(const struct witness *witness, pid_t pid);
void witness_wake_no_more(const struct witness *witness);

#endif
