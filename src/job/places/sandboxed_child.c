/* SPDX-License-Identifier: Apache-2.0 */
#include "job/places/sandboxed_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/process.h"

enum { ANSWER_LIMIT = 64 << 20 }; /* 200 000 places with names and paths */

static _Noreturn void sandboxed_child_main(sandboxed_child_fn *task, const void *ctx, int fd)
{
    struct rlimit no_core = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
    json_t *answer = task(ctx);
    if (answer)
        json_dumpfd(answer, fd, JSON_COMPACT);
    _exit(0);
}

static void read_answer(int fd, unsigned timeout_ms, struct buf *answer)
{
    uint64_t until_ns = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    while (answer->len < ANSWER_LIMIT && clock_now_ns() < until_ns) {
        if (!wait_fd_until(fd, POLLIN, until_ns))
            continue;
        char *room = buf_reserve(answer, 65536);
        ssize_t got = room ? read(fd, room, 65536) : 0;
        if (got <= 0)
            return;
        answer->len += (size_t)got;
    }
}

json_t *sandboxed_child_run(sandboxed_child_fn *task, const void *ctx, unsigned timeout_ms)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    pid_t pid = fork();
    if (pid == 0)
        sandboxed_child_main(task, ctx, ends[1]);
    close(ends[1]);
    _cleanup_(buf_done) struct buf answer = BUF_INIT;
    if (pid > 0) {
        read_answer(ends[0], timeout_ms, &answer);
        kill(pid, SIGKILL);
        child_reap(pid);
    }
    close(ends[0]);
    return answer.len && !answer.failed ? json_loadb(answer.data, answer.len, 0, NULL) : NULL;
}
