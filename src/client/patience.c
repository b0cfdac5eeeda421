/* SPDX-License-Identifier: Apache-2.0 */
#include "client/patience.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/system/wait_world.h"
#include "shm/waits.h"

void patience_again(struct patience *patience, uint64_t since_ns)
{
    patience->since_ns = since_ns;
    patience->cpu_ns = wait_look(patience->pid).cpu_ns;
}

void patience_begin(struct patience *ret_patience, int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        peer.pid = 0;
    *ret_patience = (struct patience){.pid = peer.pid};
    patience_again(ret_patience, wait_now_ns());
}

bool patience_over(const struct patience *patience, unsigned limit_ms, struct err *err)
{
    struct wait_process process = wait_look(patience->pid);
    const struct wait_seen seen = {.passed_ns = wait_now_ns() - patience->since_ns,
                                   .limit_ns = limit_ms * WAITS_NS_PER_MS,
                                   .cpu_ns = process.cpu_ns > patience->cpu_ns ? process.cpu_ns - patience->cpu_ns : 0,
                                   .state = process.state};
    double passed_s = (double)seen.passed_ns / 1e9;
    int pid = (int)patience->pid;
    enum wait_verdict verdict = waits_judge(&wait_policies[WAIT_ANSWER], &seen);
    if (verdict == WAIT_ON)
        return false;
    if (verdict == WAIT_STOPPED) {
        err_set(err, -ETIMEDOUT, "the monitor (pid %d) was stopped: `kill -CONT %d` lets it go on", pid, pid);
        return true;
    }
    if (pid)
        err_set(err, -ETIMEDOUT,
                "the monitor (pid %d) does not answer: it has said nothing for %.1f s; `kill -KILL %d` ends it, and "
                "another is started when needed",
                pid, passed_s, pid);
    else
        err_set(err, -ETIMEDOUT, "the monitor does not answer: it has said nothing for %.1f s", passed_s);
    return true;
}
