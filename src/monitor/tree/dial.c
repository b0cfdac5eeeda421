/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to the monitor of a name: a socket of this machine, or scry-link. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/dirs.h"
#include "base/system/loop.h"
#include "base/system/spawn.h"
#include "monitor/tree/internal.h"
#include "wire/local.h"

#define UNIX_SCHEME "unix:"

/* scry-link, or the first of its processes: ended at some time. */
struct link_process {
    pid_t pid;
    int fd;
    struct loop_source *source;
};

static void reap(void *ctx, int fd, uint32_t events)
{
    (void)events;
    struct link_process *process = ctx;
    waitpid(process->pid, NULL, WNOHANG);
    loop_remove(process->source);
    close(fd);
    free(process);
}

static void reap_later(struct loop *loop, pid_t pid)
{
    struct link_process *process = calloc(1, sizeof *process);
    if (!process)
        return;
    *process = (struct link_process){.pid = pid, .fd = (int)syscall(SYS_pidfd_open, pid, 0)};
    if (process->fd >= 0)
        process->source = loop_add_fd(loop, process->fd, EPOLLIN, reap, process);
    if (process->source)
        return;
    if (process->fd >= 0)
        close(process->fd);
    free(process);
}

/* `scry-link node NAME` finds the way; we talk with it as with the monitor there. */
static int start_link(struct tree *tree, const char *name, struct err *err)
{
    char path[PATH_MAX], program[] = "scry-link", command[] = "node", *copy = strdup(name);
    char *argv[] = {program, command, copy, NULL};
    int ends[2], code = copy ? dirs_libexec("scry-link", path, sizeof path, err) : -ENOMEM;
    if (code == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        code = err_errno(err, -errno, "cannot start %s", path);
    if (code < 0) {
        free(copy);
        return code;
    }
    pid_t pid = 0;
    code = spawn_program(&(struct spawn){.path = path,
                                         .argv = argv,
                                         .in = ends[1],
                                         .out = SPAWN_NULL,
                                         .error = SPAWN_NULL,
                                         .group = SPAWN_OWN_SESSION},
                         &pid);
    free(copy);
    close(ends[1]);
    if (code == 0) {
        reap_later(tree->monitor->loop, pid);
        return ends[0];
    }
    close(ends[0]);
    return err_errno(err, code, "cannot start %s", path);
}

bool dial_is_unix(const char *name)
{
    return strncmp(name, UNIX_SCHEME, sizeof UNIX_SCHEME - 1) == 0;
}

/* A socket on this machine: its owner must be ours, for we tell it what our tools want. */
static int connect_unix(const char *path, struct err *err)
{
    uid_t uid;
    if (*path != '/')
        return err_set(err, -EINVAL, "%s is no absolute path", path);
    int fd = local_connect_at_once(path, err);
    if (fd < 0 || (local_peer(fd, &uid, NULL) == 0 && uid == geteuid()))
        return fd;
    close(fd);
    return err_set(err, -EPERM, "%s is another user's", path);
}

int dial(struct tree *tree, const char *name, struct err *err)
{
    return dial_is_unix(name) ? connect_unix(name + sizeof UNIX_SCHEME - 1, err) : start_link(tree, name, err);
}
