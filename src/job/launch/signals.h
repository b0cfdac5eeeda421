/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signals of scry run. All that can be blocked are blocked and read from a descriptor. The job inherits what scry
 * run got, with running timers. A signal to scry run alone is for the command, and is passed on: one that a process
 * sends, or that of a terminal that hangs up (the kernel sends it only to the session's leader). A signal to the
 * process group, such as the terminal's ^C, reaches the command by itself (job/launch/witness.h).
 */
#ifndef SCRY_JOB_LAUNCH_SIGNALS_H
#define SCRY_JOB_LAUNCH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/time.h>

#include "job/launch/witness.h"

enum { SIGNALS_TIMERS = 3 };

struct signals {
    int fd; /* signalfd, close-on-exec, non-blocking */
    sigset_t original_mask;
    struct sigaction original[8];
    struct itimerval timers[SIGNALS_TIMERS]; /* at timers_ns */
    uint64_t timers_ns;
    struct witness witness;
    sigset_t early;              /* came before there was the command, and so reached no process of the job */
    bool saw_terminal_interrupt; /* the terminal's SIGINT reached us, and so the job */
};

/* 0 or -errno. From then on, SIGPIPE, SIGXFSZ and SIGTTOU of our own writes are error codes, or nothing. Call it before
 * there are other children or threads. */
int signals_init(struct signals *signals);
/* Before the command is executed: restores mask, dispositions and timers. Async-signal-safe. */
void signals_restore(const struct signals *signals);
/* Call it just before the process of the command is forked. */
void signals_look(struct signals *signals);
void signals_done(struct signals *signals);
/* Passes the signal on to the command if it has not got it. false: it was only for scry run itself. */
bool signals_pass_on(struct signals *signals, const struct signalfd_siginfo *info, pid_t pid);
/* Stops this process as the default of `signo` does (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU), whatever its mask and
 * disposition. Returns when it is continued. Async-signal-safe. */
void signals_stop_self(int signo);
/* Ends this process like a terminal's SIGINT, so that shell scripts around it stop, too. */
_Noreturn void signals_die_of_interrupt(void);

#endif
