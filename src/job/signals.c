/* SPDX-License-Identifier: Apache-2.0 */
#include "job/signals.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Their dispositions are changed here, so they are put back in the child. With SIGCHLD ignored, as some parents leave
 * it, nobody could be waited for. */
static const struct {
    int signo;
    void (*handler)(int);
} changed[] = {{SIGPIPE, SIG_IGN}, {SIGXFSZ, SIG_IGN}, {SIGTTOU, SIG_IGN}, {SIGCHLD, SIG_DFL}};
enum { CHANGED = sizeof changed / sizeof *changed };

/* Faults are not ours to block. */
static const int not_blocked[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE, SIGXFSZ, SIGTTOU};

static void blocked_set(sigset_t *ret_set)
{
    sigfillset(ret_set);
    for (size_t i = 0; i < sizeof not_blocked / sizeof *not_blocked; i++)
        sigdelset(ret_set, not_blocked[i]);
}

int signals_init(struct signals *signals)
{
    *signals = (struct signals){.fd = -1};
    for (size_t i = 0; i < CHANGED; i++) {
        struct sigaction action = {.sa_handler = changed[i].handler};
        sigaction(changed[i].signo, &action, &signals->original[i]);
    }
    sigset_t set;
    blocked_set(&set);
    sigprocmask(SIG_SETMASK, &set, &signals->original_mask);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd < 0 ? -errno : 0;
}

void signals_restore(const struct signals *signals)
{
    for (size_t i = 0; i < CHANGED; i++)
        sigaction(changed[i].signo, &signals->original[i], NULL);
    sigprocmask(SIG_SETMASK, &signals->original_mask, NULL);
}

void signals_pass_on(struct signals *signals, const struct signalfd_siginfo *info, pid_t pid)
{
    int signo = (int)info->ssi_signo;
    if (info->ssi_code > 0) { /* from the kernel: the terminal, a limit; the job has its own */
        if (signo == SIGINT)
            signals->saw_terminal_interrupt = true;
        return;
    }
    union sigval value = {.sival_ptr = (void *)(uintptr_t)info->ssi_ptr};
    if (info->ssi_code == SI_QUEUE)
        sigqueue(pid, signo, value);
    else
        kill(pid, signo);
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
