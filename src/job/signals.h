/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signals of scry run: all that can be are blocked and read from a descriptor; what the job inherits is what scry
 * run was given. A terminal's Ctrl-C reaches the job by itself, being in the same process group, so only those sent to
 * scry run by a process (si_code <= 0) are passed on.
 */
#ifndef SCRY_JOB_SIGNALS_H
#define SCRY_JOB_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>

struct signals {
    int fd; /* signalfd, close-on-exec, non-blocking */
    sigset_t original_mask;
    struct sigaction original[8];
    bool saw_terminal_interrupt; /* the terminal's SIGINT reached us, and so the job */
};

/* 0 or -errno. Standard errors (SIGPIPE, SIGXFSZ, SIGTTOU) then come as error codes. */
int signals_init(struct signals *signals);
/* In the forked child: mask and dispositions as scry run found them. Async-signal-safe. */
void signals_restore(const struct signals *signals);
/* Passes the signal on to the job where that is right. */
void signals_pass_on(struct signals *signals, const struct signalfd_siginfo *info, pid_t pid);
/* Stops this process as `signo` (SIGTSTP, SIGTTIN, SIGTTOU) does by default, whatever its mask and disposition; returns
 * when it is continued. Async-signal-safe. */
void signals_stop_self(int signo);
/* Ends this process as a terminal's SIGINT does, so that shell scripts around it stop, too. */
_Noreturn void signals_die_of_interrupt(void);

#endif
