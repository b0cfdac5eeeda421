/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/stop.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/wait_world.h"
#include "job/launch/signals.h"
#include "shm/waits.h"

static bool is_stopped(pid_t pid)
{
    return waits_is_stopped(wait_look(pid).state);
}

/* A shell continues our group. This continues the command: its group, if it has one of its own. */
static void go_on(pid_t command, int tty, bool had_terminal)
{
    pid_t group = getpgid(command);
    bool apart = group == command && group != getpgrp();
    if (apart && had_terminal && tcgetpgrp(tty) == getpgrp())
        tcsetpgrp(tty, group);
    if (is_stopped(command))
        kill(apart ? -group : command, SIGCONT);
}

/* Stops until somebody continues us; the witness's call for an earlier stop of the command is too late. The SIGCONT is
 * taken: go_on() does what it asks for, and passed on after that, it could end the command's next stop. */
static struct signalfd_siginfo stop_self(pid_t command, int signo, const struct witness *witness)
{
    const struct timespec now = {0};
    siginfo_t info;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGCONT);
    do {
        info = (siginfo_t){.si_signo = 0};
        witness_wake_with(witness, command);
        signals_stop_self(signo);
    } while (sigtimedwait(&one, &info, &now) > 0 && info.si_pid == witness->pid && witness->pid && is_stopped(command));
    witness_wake_no_more(witness);
    return (struct signalfd_siginfo){
        .ssi_signo = (uint32_t)info.si_signo, .ssi_code = info.si_code, .ssi_pid = (uint32_t)info.si_pid};
}

bool stop_follow(pid_t command, int signo, const struct witness *witness)
{
    bool by_terminal = signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
    _cleanup_(closep) int tty = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (tty < 0 ||
        (!witness->pid && !(by_terminal && getpgid(command) == getpgrp()))) /* perhaps nobody would wake us */
        return false;
    bool had_terminal = tcgetpgrp(tty) == getpgid(command);
    const struct signalfd_siginfo continued = stop_self(command, signo, witness);
    go_on(command, tty, had_terminal);
    if (continued.ssi_signo && (pid_t)continued.ssi_pid != witness->pid)
        witness_had(witness, &continued); /* asked for, the group's is not taken for a later one */
    return true;
}
