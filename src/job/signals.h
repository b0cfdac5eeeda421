/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signals of scry run: all that can be are blocked and read from a descriptor; what the job inherits is what scry
 * run was given, timers that were running included. What is sent to scry run alone was meant for the command and is
 * passed on: by a process, by the terminal that hangs up (the kernel tells the session's leader, and nobody else). What
 * is sent to their process group, as the terminal's ^C is, has reached the command by itself (job/witness.h).
 */
#ifndef SCRY_JOB_SIGNALS_H
#define SCRY_JOB_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/time.h>

#include "job/witness.h"

enum { SIGNALS_TIMERS = 3 };

struct signals {
    int fd; /* signalfd, close-on-exec, non-blocking */
    sigset_t original_mask;
    struct sigaction original[8];
    struct itimerval timers[SIGNALS_TIMERS]; /* as they were at timers_ns */
    uint64_t timers_ns;
    struct witness witness;
    bool saw_terminal_interrupt; /* the terminal's SIGINT reached us, and so the job */
};

/* 0 or -errno. What our own writing causes (SIGPIPE, SIGXFSZ, SIGTTOU) then comes as an error code, or not at all. To
 * be called before there are other children or threads. */
int signals_init(struct signals *signals);
/* Before the command is executed: mask, dispositions and timers as scry run found them. Async-signal-safe. */
void signals_restore(const struct signals *signals);
void signals_done(struct signals *signals);
/* Passes the signal on to the command where that is right. */
void signals_pass_on(struct signals *signals, const struct signalfd_siginfo *info, pid_t pid);
/* Stops this process as `signo` (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU) does by default, whatever its mask and
 * disposition; returns when it is continued. Async-signal-safe. */
void signals_stop_self(int signo);
/* Ends this process as a terminal's SIGINT does, so that shell scripts around it stop, too. */
_Noreturn void signals_die_of_interrupt(void);

#endif
