/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/signals.h"

#include "base/system/clock.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "job/launch/launch.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A question: has this signal reached you, too? The answer is a byte. Or, without a signal: whom to wake with (0:
 * nobody); without an answer. */
struct question {
    int signo, code;
    pid_t sender, wake_with;
};

/* ---- the witness ---- */

static bool take_same(const struct question *question)
{
    const struct timespec now = {0};
    siginfo_t info;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, question->signo);
    while (sigtimedwait(&one, &info, &now) > 0) /* removes earlier ones, too */
        if (info.si_code == question->code && info.si_pid == question->sender)
            return true;
    return false;
}

static void witness_serve(void *ctx, int fd)
{
    pid_t supervisor = *(const pid_t *)ctx, wake_with = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also while it is stopped */
    if (getppid() != supervisor)
        return;
    for (;;) {
        struct question question;
        if (wake_with && !waits_is_stopped(wait_look(wake_with).state)) {
            pause_at("witness.wake");
            kill(supervisor, SIGCONT);
            wake_with = 0;
        }
        if (!wait_fd(fd, POLLIN, wake_with ? WITNESS_WAKE_MS : -1))
            continue;
        if (read(fd, &question, sizeof question) != sizeof question)
            return; /* scry run has ended */
        if (!question.signo) {
            wake_with = question.wake_with;
            continue;
        }
        char answer = take_same(&question);
        if (write(fd, &answer, 1) != 1)
            return;
    }
}

/* ---- scry run ---- */

/* Call it when all signals are blocked, before there are other children or threads. 0 or -errno: no process or no
 * descriptor; then the functions below return false and do nothing. */
static int witness_start(struct witness *ret_witness)
{
    *ret_witness = (struct witness){.fd = -1};
    pid_t supervisor = getpid();
    return worker_start(WITNESS_PROCESS_NAME, SOCK_SEQPACKET, witness_serve, &supervisor, &ret_witness->pid,
                        &ret_witness->fd);
}

static void witness_end(struct witness *witness)
{
    if (!witness->pid)
        return;
    close(witness->fd);
    kill(witness->pid, SIGKILL);
    child_reap(witness->pid);
    *witness = (struct witness){.fd = -1};
}

static bool witness_ask(const struct witness *witness, const struct question *question)
{
    return witness->pid && send(witness->fd, question, sizeof *question, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

static bool answered(const struct witness *witness, int timeout_ms, char *ret_answer)
{
    return wait_fd(witness->fd, POLLIN, timeout_ms) && recv(witness->fd, ret_answer, 1, MSG_DONTWAIT) == 1;
}

/* The whole group was stopped, and only scry run was continued. Do this only if needed: SIGCONT removes pending stop
 * signals, and hides the group's next one unless that is asked for at once. */
static void wake(const struct witness *witness)
{
    if (!waits_is_stopped(wait_look(witness->pid).state))
        return;
    kill(witness->pid, SIGCONT);
    witness_ask(witness, &(struct question){.signo = SIGCONT, .code = SI_USER, .sender = getpid()});
}

bool witness_had(const struct witness *witness, const struct signalfd_siginfo *info)
{
    struct question question = {.signo = (int)info->ssi_signo, .code = info->ssi_code, .sender = (pid_t)info->ssi_pid};
    char answer = 0;
    while (recv(witness->fd, &answer, 1, MSG_DONTWAIT) > 0) /* late answers */
        ;
    if (!witness_ask(witness, &question))
        return false;
    if (answered(witness, WITNESS_STOPPED_MS, &answer))
        return answer != 0;
    wake(witness);
    return answered(witness, WITNESS_ANSWER_MS, &answer) && answer != 0;
}

void witness_wake_with(const struct witness *witness, pid_t pid)
{
    witness_ask(witness, &(struct question){.wake_with = pid});
}

void witness_wake_no_more(const struct witness *witness)
{
    witness_ask(witness, &(struct question){0});
}

/* Dispositions that are changed here and restored in the child. Some parents leave SIGCHLD ignored; then nobody could
 * be waited for. */
static const struct {
    int signo;
    void (*handler)(int);
} changed[] = {{SIGPIPE, SIG_IGN}, {SIGXFSZ, SIG_IGN}, {SIGTTOU, SIG_IGN}, {SIGCHLD, SIG_DFL}};
enum { CHANGED = sizeof changed / sizeof *changed };

/* Signals caused by our own writes. Blocked signals are queued even if ignored. */
static bool is_own(int code, pid_t sender)
{
    return code <= 0 && sender == getpid();
}

/* Removes signals of our own writes before they are unblocked. */
static void drop_own(void)
{
    const struct timespec now = {0};
    siginfo_t info;
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGPIPE);
    sigaddset(&faults, SIGXFSZ);
    int signo;
    while ((signo = sigtimedwait(&faults, &info, &now)) > 0)
        if (!is_own(info.si_code, info.si_pid)) { /* these come last: they are for the process, ours for the thread */
            kill(getpid(), signo);
            break;
        }
}

/* Timers set before scry run was executed (`alarm 60; exec scry run ...`) belong to the command, but children do not
 * inherit them. */
static void take_timers(struct signals *signals)
{
    const struct itimerval none = {0};
    signals->timers_ns = clock_now_ns();
    for (int which = 0; which < SIGNALS_TIMERS; which++)
        setitimer(which, &none, &signals->timers[which]);
}

static void give_timers(const struct signals *signals)
{
    uint64_t passed_us = (clock_now_ns() - signals->timers_ns) / 1000;
    for (int which = 0; which < SIGNALS_TIMERS; which++) {
        struct itimerval timer = signals->timers[which];
        uint64_t left_us = (uint64_t)timer.it_value.tv_sec * 1000000 + (uint64_t)timer.it_value.tv_usec;
        if (!left_us)
            continue;
        if (which == ITIMER_REAL) /* the others count processor time, and the command had none */
            left_us = left_us > passed_us ? left_us - passed_us : 1;
        timer.it_value = (struct timeval){.tv_sec = (time_t)(left_us / 1000000), .tv_usec = left_us % 1000000};
        setitimer(which, &timer, NULL);
    }
}

int signals_init(struct signals *signals)
{
    *signals = (struct signals){.fd = -1, .witness.fd = -1};
    sigemptyset(&signals->early);
    take_timers(signals);
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    signals->had_terminal = terminal >= 0;
    if (terminal >= 0)
        close(terminal);
    for (size_t i = 0; i < CHANGED; i++) {
        struct sigaction action = {.sa_handler = changed[i].handler};
        sigaction(changed[i].signo, &action, &signals->original[i]);
    }
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, &signals->original_mask);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    int code = signals->fd < 0 ? -errno : 0;
    if (code == 0)
        witness_start(&signals->witness); /* without it, signals to the group arrive twice */
    return code;
}

void signals_restore(const struct signals *signals)
{
    drop_own();
    for (size_t i = 0; i < CHANGED; i++)
        sigaction(changed[i].signo, &signals->original[i], NULL);
    give_timers(signals);
    sigprocmask(SIG_SETMASK, &signals->original_mask, NULL);
}

void signals_look(struct signals *signals)
{
    sigpending(&signals->early);
}

void signals_done(struct signals *signals)
{
    witness_end(&signals->witness);
    if (signals->fd >= 0)
        close(signals->fd);
    signals->fd = -1;
}

static bool is_from_kernel(const struct signalfd_siginfo *info)
{
    return info->ssi_code > 0;
}

/* Did the signal reach the whole group? The kernel sends SIGHUP of a terminal to the session's leader alone. */
static bool is_for_group(const struct signals *signals, const struct signalfd_siginfo *info)
{
    if (signals->witness.pid)
        return witness_had(&signals->witness, info);
    bool hangup = info->ssi_signo == SIGHUP || info->ssi_signo == SIGCONT;
    return is_from_kernel(info) && !(hangup && getsid(0) == getpid());
}

static void forward(const struct signalfd_siginfo *info, pid_t pid)
{
    union sigval value = {.sival_ptr = (void *)(uintptr_t)info->ssi_ptr};
    if (info->ssi_code == SI_QUEUE)
        sigqueue(pid, (int)info->ssi_signo, value);
    else
        kill(pid, (int)info->ssi_signo);
}

/* To all of the group that the command leads in another session. */
static void forward_to_group(const struct signalfd_siginfo *info, pid_t pid)
{
    pid_t group = getpgid(pid);
    if (group > 1)
        kill(-group, (int)info->ssi_signo);
}

bool signals_pass_on(struct signals *signals, const struct signalfd_siginfo *info, pid_t pid)
{
    if ((info->ssi_signo == SIGXCPU || info->ssi_signo == SIGCHLD) && is_from_kernel(info))
        return false; /* the command gets its own signals about processor time and children */
    if (is_own(info->ssi_code, (pid_t)info->ssi_pid))
        return false;
    if (info->ssi_code <= 0 && (pid_t)info->ssi_pid == signals->witness.pid)
        return false; /* it only wakes us */
    bool early = sigismember(&signals->early, (int)info->ssi_signo) == 1;
    sigdelset(&signals->early, (int)info->ssi_signo);
    if (early && is_from_kernel(info))
        signals->saw_terminal_interrupt |= info->ssi_signo == SIGINT;
    if (!is_for_group(signals, info) || early) { /* the witness forgets its own in any case */
        forward(info, pid);
        return true;
    }
    if (is_from_kernel(info)) {
        signals->saw_terminal_interrupt |= info->ssi_signo == SIGINT;
        if (signals->apart && info->ssi_signo != SIGWINCH)
            forward_to_group(info, pid);
        return true;
    }
    if (signals->apart)
        forward_to_group(info, pid);
    else if (getpgid(pid) != getpgrp()) /* as the leader in our place it would be in the group */
        forward(info, pid);
    return true;
}

void signals_stop_self(int signo)
{
    struct sigaction standard = {.sa_handler = SIG_DFL}, before;
    sigset_t one, mask;
    sigaction(signo, &standard, &before);
    sigemptyset(&one);
    sigaddset(&one, signo);
    raise(signo);
    sigprocmask(SIG_UNBLOCK, &one, &mask); /* stops here */
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(signo, &before, NULL);
}

_Noreturn void signals_die_of_interrupt(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t one;
    sigaction(SIGINT, &standard, NULL);
    sigemptyset(&one);
    sigaddset(&one, SIGINT);
    raise(SIGINT);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    _exit(128 + SIGINT);
}
