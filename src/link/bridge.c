/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-link bridge: standard input and output are the connection of a link, as ssh carries it, and lead to scry-link serve,
 * which is started if it does not run. The session lives there, and outlives this.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "client/session.h"
#include "link/link.h"
#include "shm/waits.h"
#include "wire/local.h"

enum { BYTES = 64 << 10 };

/* ---- starting scry-link serve ---- */

int link_open_log(const char *dir)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/link.log", dir);
    return file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
}

/* It listens when it has written its first line. */
static int start_serve(const char *dir, struct err *err)
{
    char path[PATH_MAX], name[] = "scry-link", command[] = "serve", *argv[] = {name, command, NULL}, byte;
    int ends[2], code = dirs_libexec("scry-link", path, sizeof path, err);
    if (code < 0)
        return code;
    _cleanup_(closep) int log = link_open_log(dir);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    pid_t pid;
    code = client_spawn(
        (struct spawn){
            .path = path, .argv = argv, .in = SPAWN_NULL, .out = ends[1], .error = log >= 0 ? log : SPAWN_NULL},
        &pid);
    close(ends[1]);
    _cleanup_(closep) int said = ends[0];
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    struct pollfd ready = {.fd = said, .events = POLLIN};
    while ((code = poll(&ready, 1, BRIDGE_START_MS)) < 0 && errno == EINTR)
        ;
    if (code <= 0)
        return err_set(err, -ETIMEDOUT, "%s did not start", path);
    return read(said, &byte, 1) == 1 ? 0
                                     : err_set(err, -ECANCELED, "%s could not start: see link.log in %s", path, dir);
}

static int connect_serve(struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 32];
    int code = dirs_runtime(dir, sizeof dir, err);
    if (code < 0)
        return code;
    _cleanup_(closep) int lock = client_lock(dir, "link.lock", err);
    if (lock < 0)
        return lock;
    snprintf(path, sizeof path, "%s/link.sock", dir);
    int fd = local_connect(path, err);
    if (fd != -ENOENT && fd != -ECONNREFUSED)
        return fd;
    code = start_serve(dir, err);
    return code < 0 ? code : local_connect(path, err);
}

/* ---- carrying ---- */

struct half {
    int from, to;
    char bytes[BYTES];
    size_t at, len;
    bool ended;
};

static bool is_again(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* false: nobody takes it any more. */
static bool move(struct half *half, short from, short to)
{
    if (half->at == half->len && from) {
        ssize_t got = read(half->from, half->bytes, sizeof half->bytes);
        half->at = 0;
        half->len = got > 0 ? (size_t)got : 0;
        half->ended = got == 0 || (got < 0 && !is_again());
        to = POLLOUT; /* it mostly takes it */
    }
    if (half->at < half->len && to) {
        ssize_t put = write(half->to, half->bytes + half->at, half->len - half->at);
        if (put < 0 && !is_again())
            return false;
        half->at += put > 0 ? (size_t)put : 0;
    }
    return !half->ended;
}

static void set_events(const struct half *half, struct pollfd *from, struct pollfd *to)
{
    *from = (struct pollfd){.fd = half->at == half->len ? half->from : -1, .events = POLLIN};
    *to = (struct pollfd){.fd = half->at < half->len ? half->to : -1, .events = POLLOUT};
}

/* Until one side has ended. Standard streams stay as they are: others may have them, too, so they are only touched when
 * they are ready; a write of what a pipe has no room for may wait, which holds nobody but this connection. */
static void carry(int fd)
{
    static struct half up, down;
    up = (struct half){.from = STDIN_FILENO, .to = fd};
    down = (struct half){.from = fd, .to = STDOUT_FILENO};
    for (;;) {
        struct pollfd ready[4];
        set_events(&up, &ready[0], &ready[1]);
        set_events(&down, &ready[2], &ready[3]);
        if (poll(ready, 4, -1) < 0 && errno != EINTR)
            return;
        if (!move(&up, ready[0].revents, ready[1].revents) || !move(&down, ready[2].revents, ready[3].revents))
            return;
    }
}

int link_bridge(void)
{
    struct err err;
    int fd = connect_serve(&err);
    if (fd < 0) {
        log_error("%s", err.text);
        return 1;
    }
    carry(fd);
    return 0;
}
