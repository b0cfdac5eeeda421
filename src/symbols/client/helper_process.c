/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/client/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/spawn.h"

static int make_pipes(int in[2], int out[2], struct err *err)
{
    if (pipe2(in, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot make a pipe");
    if (pipe2(out, O_CLOEXEC) == 0)
        return 0;
    int code = err_errno(err, -errno, "cannot make a pipe");
    close(in[0]);
    close(in[1]);
    return code;
}

int helper_process_start(struct helper_process *ret_process, char *const argv[], struct err *err)
{
    char path[PATH_MAX];
    int in[2], out[2];
    int code = dirs_libexec("scry-symbols", path, sizeof path, err);
    if (code < 0 || (code = make_pipes(in, out, err)) < 0)
        return code;
    pid_t pid;
    code = spawn_program(&(struct spawn){.path = path, .argv = argv, .in = in[0], .out = out[1], .error = SPAWN_SAME},
                         &pid);
    close(in[0]);
    close(out[1]);
    if (code < 0) {
        close(in[1]);
        close(out[0]);
        return err_errno(err, code, "cannot start %s", path);
    }
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    *ret_process = (struct helper_process){pid, in[1], out[0]};
    return 0;
}

static void close_end(int *end)
{
    if (*end >= 0)
        close(*end);
    *end = -1;
}

void helper_process_write(struct helper_process *process, const struct buf *request, size_t *inout_written)
{
    ssize_t len = write(process->input, request->data + *inout_written, request->len - *inout_written);
    if (len > 0)
        *inout_written += (size_t)len;
    if ((len < 0 && errno != EAGAIN && errno != EINTR) || *inout_written == request->len)
        close_end(&process->input);
}

ssize_t helper_process_read(struct helper_process *process, struct helper_reader *reader)
{
    char bytes[65536];
    ssize_t len = read(process->output, bytes, sizeof bytes);
    if (len < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    if (len == 0)
        close_end(&process->output);
    helper_feed(reader, bytes, (size_t)len);
    return len;
}

void helper_process_end(struct helper_process *process, bool now)
{
    close_end(&process->input);
    close_end(&process->output);
    if (now)
        kill(process->pid, SIGKILL); /* it is our child: the number is still its own */
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static int converse(struct helper_process *process, const struct buf *request, uint64_t time_ns, size_t limit,
                    struct helper_reader *reader, struct err *err)
{
    uint64_t deadline = clock_now_ns() + time_ns;
    size_t written = 0, total = 0;
    while (process->output >= 0) {
        uint64_t now = clock_now_ns();
        if (now >= deadline)
            return err_set(err, -ETIME, "the debug information was not read within %llu s",
                           (unsigned long long)(time_ns / NS_PER_SECOND));
        struct pollfd fds[] = {{process->output, POLLIN, 0}, {process->input, POLLOUT, 0}};
        if (poll(fds, 2, (int)((deadline - now) / 1000000) + 1) < 0 && errno != EINTR)
            return err_errno(err, -errno, "cannot wait for scry-symbols");
        if (fds[1].revents)
            helper_process_write(process, request, &written);
        ssize_t got = fds[0].revents ? helper_process_read(process, reader) : 0;
        if (got < 0)
            return err_errno(err, (int)got, "cannot read from scry-symbols");
        total += (size_t)got;
        if (total > limit)
            return err_set(err, -E2BIG, "more than %zu MB of values", limit >> 20);
    }
    return 0;
}

int helper_process_run(const char *job, const struct buf *request, uint64_t time_ns, size_t limit,
                       struct helper_reader *ret_reader, struct err *err)
{
    struct helper_process process;
    char *argv[] = {(char *)(uintptr_t) "scry-symbols", (char *)(uintptr_t)job, NULL};
    *ret_reader = (struct helper_reader){0};
    if (request->failed)
        return err_set(err, -ENOMEM, "out of memory");
    int code = helper_process_start(&process, argv, err);
    if (code < 0)
        return code;
    code = converse(&process, request, time_ns, limit, ret_reader, err);
    helper_process_end(&process, code < 0);
    return code;
}
