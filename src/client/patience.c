/* SPDX-License-Identifier: Apache-2.0 */
#include "client/patience.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/dirs.h"

enum {
    STOPPED_MS = 200, /* a stop that is over sooner is not worth a word: debuggers, ^Z and fg */
    WORK_TIMES = 5,   /* one that works, or would if it had a processor or the disk, for itself or for a helper that it
                       * is just starting, has so many times as long, */
    USED_TIMES = 2,   /* unless it has used so much of a processor that it may never come to an end */
    STATE_FIELD = 3,
    USER_FIELD = 14,
    SYSTEM_FIELD = 15,
};

/* The state's letter, 0: there is no such process. */
static char look(pid_t pid, uint64_t *ret_ticks)
{
    char path[64], state = 0;
    _cleanup_(freep) char *text = NULL;
    *ret_ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    char *at = pid > 0 && file_read(path, &text, NULL) == 0 ? strrchr(text, ')') : NULL;
    for (int field = STATE_FIELD; at && field <= SYSTEM_FIELD && (at = strchr(at, ' ')); field++) {
        at++;
        if (field == STATE_FIELD)
            state = *at;
        else if (field >= USER_FIELD)
            *ret_ticks += strtoull(at, NULL, 10);
    }
    return state;
}

void patience_again(struct patience *patience, uint64_t since_ns)
{
    patience->since_ns = since_ns;
    look(patience->pid, &patience->cpu_ticks);
}

void patience_begin(struct patience *ret_patience, int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        peer.pid = 0;
    *ret_patience = (struct patience){.pid = peer.pid};
    patience_again(ret_patience, clock_now_ns());
}

bool patience_over(const struct patience *patience, unsigned limit_ms, struct err *err)
{
    uint64_t ticks, passed_ms = (clock_now_ns() - patience->since_ns) / 1000000;
    char state = look(patience->pid, &ticks);
    int pid = (int)patience->pid;
    if ((state == 'T' || state == 't') && passed_ms >= STOPPED_MS) {
        err_set(err, -ETIMEDOUT, "the monitor (pid %d) is stopped: `kill -CONT %d` lets it go on", pid, pid);
        return true;
    }
    uint64_t used_ms = (ticks - patience->cpu_ticks) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    bool works = (state == 'R' || state == 'D') && used_ms < (uint64_t)limit_ms * USED_TIMES;
    if (passed_ms < (works ? (uint64_t)limit_ms * WORK_TIMES : limit_ms))
        return false;
    if (pid)
        err_set(err, -ETIMEDOUT,
                "the monitor (pid %d) does not answer: it has said nothing for %.1f s; `kill -KILL %d` ends it, and "
                "another is started when needed",
                pid, (double)passed_ms / 1000, pid);
    else
        err_set(err, -ETIMEDOUT, "the monitor does not answer: it has said nothing for %.1f s",
                (double)passed_ms / 1000);
    return true;
}
