/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_LAUNCH_SIGNALS_H
#define SCRY_JOB_LAUNCH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/types.h>

/*
 * Tells signals to a process group from signals to scry run alone: the first reach the command by themselves, the
 * second must be passed on, and the signal does not say which it is. So a child of scry run stays in its process group
 * and does nothing else: what it got, too, was for all. It blocks all signals, ends with scry run, and is named
 * `job-signals`: a signal to all processes named scry is for scry run alone.
 *
 * It also wakes a scry run that has stopped itself with its command, when the command goes on. Nobody else would, if
 * somebody continued the command alone.
 */

struct witness {
    pid_t pid; /* 0: there is none */
    int fd;    /* close-on-exec; -1 */
};

/* Has the same signal, from the same sender, reached the witness? */
bool witness_had(const struct witness *witness, const struct signalfd_siginfo *info);

/* From now on, continues this process (SIGCONT) when the stopped process `pid` goes on or ends. */
void witness_wake_with(const struct witness *witness, pid_t pid);
void witness_wake_no_more(const struct witness *witness);

/*
 * The signals of scry run. All that can be blocked are blocked and read from a descriptor. The job inherits what scry
 * run got, with running timers. A signal to scry run alone is for the command, and is passed on: one that a process
 * sends, or that of a terminal that hangs up (the kernel sends it only to the session's leader). A signal to the
 * process group, such as the terminal's ^C, reaches the command by itself.
 */

enum { SIGNALS_TIMERS = 3 };

struct signals {
    int fd; /* signalfd, close-on-exec, non-blocking */
    sigset_t original_mask;
    struct sigaction original[8];
    struct itimerval timers[SIGNALS_TIMERS]; /* at timers_ns */
    uint64_t timers_ns;
    struct witness witness;
    sigset_t early;              /* came before there was the command, and so reached no process of the job */
    bool apart;                  /* the command is in another session: no signal to the group reaches it by itself */
    bool had_terminal;           /* this process did when it began */
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
