/* SPDX-License-Identifier: Apache-2.0 */
/* A job behind a broker, or the monitor of another machine: `scry-mirror relay` or `scry-link connect` speaks with it, and
 * we with that program as with a monitor. */
#include "client/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"

/* Its first process ends at once, so that the tool has no child that it knows nothing of. */
static int spawn_relay(const char *path, bool is_link, int fd, pid_t *ret_pid)
{
    char command[8], *argv[] = {(char *)path, command, NULL};
    snprintf(command, sizeof command, "%s", is_link ? "connect" : "relay");
    return client_spawn((struct spawn){.path = path, .argv = argv, .in = fd, .out = SPAWN_NULL, .error = SPAWN_NULL},
                        ret_pid);
}

bool client_is_link(const char *url)
{
    return strncmp(url, "tls://", 6) == 0 || strncmp(url, "ssh://", 6) == 0;
}

int client_relay(const char *url, struct err *err)
{
    bool is_link = client_is_link(url);
    char path[PATH_MAX];
    int ends[2], code = dirs_libexec(is_link ? "scry-link" : "scry-mirror", path, sizeof path, err);
    if (code < 0)
        return code;
    if (strchr(url, '\n'))
        return err_set(err, -EINVAL, "an URL has no line ends");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    _cleanup_(closep) int ours = ends[0];
    /* a tool without standard streams gets low numbers, which the child needs for its own */
    _cleanup_(closep) int theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    close(ends[1]);
    pid_t pid = 0;
    int status;
    code = theirs < 0 ? -errno : spawn_relay(path, is_link, theirs, &pid);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    _cleanup_(buf_done) struct buf line = BUF_INIT; /* not among the arguments, which everybody sees */
    buf_puts(&line, url);
    buf_putc(&line, '\n');
    if (line.failed)
        return err_set(err, -ENOMEM, "out of memory");
    ssize_t sent = send(ours, line.data, line.len, MSG_NOSIGNAL);
    explicit_bzero(line.data, line.len);
    if (sent != (ssize_t)line.len)
        return err_set(err, -EPIPE, "%s has ended at once", path);
    if (!client_wait_for_child(pid, &status)) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return err_set(err, -ETIMEDOUT, "%s did not start", path);
    }
    return TAKE_FD(ours);
}
