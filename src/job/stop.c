/* SPDX-License-Identifier: Apache-2.0 */
#include "job/stop.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/wait_world.h"
#include "job/signals.h"
#include "shm/waits.h"

/* Who continues a group continues ours: the command's, if that is another, is told by us. */
static void go_on(pid_t command, int tty, bool had_terminal)
{
    pid_t group = getpgid(command);
    bool apart = group == command && group != getpgrp();
    if (apart && had_terminal && tcgetpgrp(tty) == getpgrp())
        tcsetpgrp(tty, group);
    if (waits_is_stopped(wait_look(command).state))
        kill(apart ? -group : command, SIGCONT);
}

bool stop_follow(pid_t command, int signo, const struct witness *witness)
{
    bool by_terminal = signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
    _cleanup_(closep) int tty = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (tty < 0 || (!witness->pid && !(by_terminal && getpgid(command) == getpgrp()))) /* nobody might wake us */
        return false;
    bool had_terminal = tcgetpgrp(tty) == getpgid(command);
    witness_wake_with(witness, command);
    signals_stop_self(signo);
    witness_wake_no_more(witness);
    go_on(command, tty, had_terminal);
    return true;
}
