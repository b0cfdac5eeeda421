/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/home.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "base/system/pause.h"
#include "daemon/connection.h"
#include "monitor/recorder/agents.h"
#include "shm/waits.h"
#include "wire/stream.h"

enum {
    TAKE_TRIES = 10,
    SETTLE_MOST = 20, /* times in a row */
};

/* ---- owning it ---- */

static int is_busy(const struct home *home, struct err *err)
{
    char pid[32] = "";
    _cleanup_(closep) int fd = open(home->pid_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t len = fd < 0 ? 0 : pread(fd, pid, sizeof pid - 1, 0);
    pid[len > 0 ? strcspn(pid, "\n") : 0] = 0;
    return err_set(err, -EBUSY, "a monitor has %s already (pid %s)", home->dir, *pid ? pid : "unknown");
}

/* -EBUSY: another monitor owns it; -EAGAIN: it was removed meanwhile. */
static int lock(const struct home *home, int *ret_fd, struct err *err)
{
    _cleanup_(closep) int fd = open(home->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno == ENOENT ? -EAGAIN : -errno, "cannot open %s", home->dir);
    /* some file systems cannot lock directories (NFS): there the pid file's lock must do */
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return is_busy(home, err);
    if (!file_is_at(home->dir, fd))
        return err_errno(err, -EAGAIN, "%s was removed", home->dir);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Its lock is for monitors that do not lock the directory. */
static int take_pid_file(struct home *home, struct err *err)
{
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, home->pid_path, O_RDWR | O_CREAT);
    if (fd < 0)
        return err_errno(err, fd, "cannot open %s", home->pid_path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return is_busy(home, err);
    /* a monitor that has just ended may have removed the file that we locked */
    if (!file_is_at(home->pid_path, fd))
        return take_pid_file(home, err);
    char pid[32];
    int len = snprintf(pid, sizeof pid, "%d\n", getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)len, 0) != len)
        return err_errno(err, -errno, "cannot write %s", home->pid_path);
    if (home->pid_fd >= 0)
        close(home->pid_fd);
    home->pid_fd = TAKE_FD(fd);
    return 0;
}

int home_take(struct home *home, struct err *err)
{
    int code = -EAGAIN;
    for (unsigned tries = 0; code == -EAGAIN && tries < TAKE_TRIES; tries++) {
        code = dirs_runtime(home->dir, sizeof home->dir, err);
        if (code < 0)
            return code;
        snprintf(home->socket_path, sizeof home->socket_path, "%s/monitor.sock", home->dir);
        snprintf(home->pid_path, sizeof home->pid_path, "%s/monitor.pid", home->dir);
        code = lock(home, &home->dir_fd, err);
    }
    return code < 0 ? code : take_pid_file(home, err);
}

int home_listen(struct home *home, struct err *err)
{
    int fd = local_listen(home->socket_path, err);
    if (fd < 0)
        return fd;
    if (home->socket_file >= 0)
        close(home->socket_file);
    home->socket_file = open(home->socket_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd;
}

/* ---- watching it ---- */

static void look(void *ctx);

static void look_in(struct home *home, uint64_t delay_ns)
{
    if (!home->timer)
        home->timer = loop_add_timer(home->loop, delay_ns, 0, look, home);
}

static void notified(void *ctx, int fd, uint32_t events)
{
    struct home *home = ctx;
    char bytes[4096];
    (void)events;
    while (read(fd, bytes, sizeof bytes) > 0)
        ;
    look_in(home, HOME_SETTLE_NS);
    if (home->timer && home->settling++ < SETTLE_MOST)
        loop_set_timer(home->timer, HOME_SETTLE_NS, 0);
}

static bool can_be_notified(struct home *home)
{
    loop_remove(home->notify);
    home->notify = NULL;
    if (home->notify_fd >= 0)
        close(home->notify_fd);
    home->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (home->notify_fd < 0 ||
        inotify_add_watch(home->notify_fd, home->dir,
                          IN_ONLYDIR | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_MOVED_FROM | IN_MOVED_TO) < 0)
        return false;
    home->notify = loop_add_fd(home->loop, home->notify_fd, EPOLLIN, notified, home);
    return home->notify != NULL;
}

/* Makes missing files of our directory again, as far as possible. 1: something was missing; 0; or -errno. */
static int settle(struct home *home, bool moved, struct err *err)
{
    bool listens = file_is_at(home->socket_path, home->socket_file);
    bool named = file_is_at(home->pid_path, home->pid_fd);
    int code = home->agents ? agents_again(home->agents, moved, err) : 0;
    if (code == -EBUSY)
        return code;
    int fd = listens ? -1 : home_listen(home, err);
    int listened = listens ? 0 : fd < 0 ? fd : server_listen(home->server, fd);
    int noted = named ? 0 : take_pid_file(home, err);
    code = code < 0 ? code : listened < 0 ? listened : noted;
    return code < 0 ? code : !listens || !named;
}

static int move(struct home *home, struct err *err)
{
    struct stat before;
    int fd = -1, former = home->dir_fd;
    int code = dirs_runtime_again(home->dir, err);
    if (code == 0)
        code = lock(home, &fd, err);
    if (code < 0)
        return code;
    home->dir_fd = fd;
    code = settle(home, true, err);
    if (code == -EBUSY) {
        home->dir_fd = former;
        close(fd);
    } else if (fstat(former, &before) == 0 && !before.st_nlink) {
        close(former);
    } /* else it was renamed, and stays locked: the buffers of our programs are in it */
    return code < 0 ? code : 1;
}

static void look(void *ctx)
{
    struct home *home = ctx;
    struct err err = {.text = ""};
    loop_remove(home->timer);
    home->timer = NULL;
    home->settling = 0;
    bool here = file_is_at(home->dir, home->dir_fd), was_lost = home->lost;
    bool needed = server_connections(home->server) || (home->agents && agents_count(home->agents));
    if (!here && !needed) {
        log_info("%s was removed, and nobody needs this monitor", home->dir);
        loop_stop(home->loop);
        return;
    }
    pause_at("home.look");
    int code = here ? settle(home, false, &err) : home->taken ? -EBUSY : move(home, &err);
    home->taken |= !here && code == -EBUSY;
    home->lost = code < 0;
    if (home->lost && !was_lost) {
        log_warning("removed files of %s are still missing: %s", home->dir, err.text);
        if (!here && home->agents)
            agents_unreachable(home->agents);
    } else if (!home->lost && (was_lost || code)) {
        log_info("removed files of %s were made again", home->dir);
    }
    if (code > 0)
        can_be_notified(home);
    if (code || !home->notify)
        look_in(home, HOME_AGAIN_NS);
}

void home_watch(struct home *home, struct loop *loop, struct server *server, struct agents *agents)
{
    home->loop = loop;
    home->server = server;
    home->agents = agents;
    if (!can_be_notified(home))
        log_info("no inotify: %s is checked once a second", home->dir);
    look_in(home, home->notify ? 1 : HOME_AGAIN_NS); /* it may have gone before */
}

/* ---- releasing it ---- */

void home_shut(struct home *home)
{
    loop_remove(home->notify);
    loop_remove(home->timer);
    if (home->notify_fd >= 0)
        close(home->notify_fd);
    file_unlink_own(home->socket_path, home->socket_file);
    if (home->socket_file >= 0)
        close(home->socket_file);
}

void home_leave(struct home *home)
{
    file_unlink_own(home->pid_path, home->pid_fd);
    if (home->pid_fd >= 0)
        close(home->pid_fd);
    if (home->dir_fd >= 0)
        close(home->dir_fd);
}
