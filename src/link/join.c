/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-link join: brings the monitor of this machine to one that awaits it (await.c). Among the ranks of a job, whom it must not
 * harm: it returns at once, and what is wrong later is in link.log.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "client/session.h"
#include "link/node.h"

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Of SCRY_JOIN: tls://HOST:PORT#SECRET. The error does not show it. */
static int join_parse(const char *text, struct link_way *ret_way, uint8_t secret[TLS_SECRET], struct err *err)
{
    char url[LINK_NAME];
    const char *at = strchr(text, '#');
    size_t len = at ? (size_t)(at - text) : 0;
    int code = at && len < sizeof url && strlen(at + 1) == 2 * (size_t)TLS_SECRET ? 0 : -EINVAL;
    for (size_t i = 0; code == 0 && i < TLS_SECRET; i++) {
        int high = hex(at[1 + 2 * i]), low = hex(at[2 + 2 * i]);
        secret[i] = (uint8_t)(high << 4 | low);
        if (high < 0 || low < 0)
            code = -EINVAL;
    }
    if (code < 0) /* without the text, which may be nearly right */
        return err_set(err, code, "SCRY_JOIN is not what `scry link await` has printed: tls://HOST:PORT#SECRET");
    snprintf(url, sizeof url, "%.*s", (int)len, text);
    code = link_way_parse(url, ret_way, err);
    if (code == 0 && ret_way->kind != LINK_TLS)
        code = err_set(err, -EINVAL, "SCRY_JOIN begins with tls://");
    return code;
}

/* One of the ranks on a machine does it for all. The lock is held as long as the process lives. */
static int lock_join(const char *dir, const struct link_way *way, struct err *err)
{
    char path[PATH_MAX + LINK_NAME + 32];
    snprintf(path, sizeof path, "%s/join-%s-%u.lock", dir, way->host, way->port);
    int fd = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0)
        return err_errno(err, fd, "cannot open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    return -EWOULDBLOCK;
}

static int run(struct link_way *way, const char *dir)
{
    char path[PATH_MAX + 16];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/monitor.sock", dir);
    int fd = client_monitor_socket(dir, path, &err);
    if (fd < 0) {
        log_error("%s", err.text);
        return 1;
    }
    return link_run(way, fd);
}

/* Away from the job's streams, and from the terminal. */
static void detach(const char *dir)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), log = link_open_log(dir);
    setsid();
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        dup2(fd == STDERR_FILENO && log >= 0 ? log : null, fd);
    if (chdir("/") < 0)
        log_warning("cannot change to /");
}

int node_join(const char *text)
{
    static uint8_t secret[TLS_SECRET];
    struct link_way way;
    char dir[PATH_MAX];
    struct err err;
    int code = join_parse(text, &way, secret, &err);
    if (code == 0)
        code = dirs_runtime(dir, sizeof dir, &err);
    int lock = code < 0 ? code : lock_join(dir, &way, &err);
    if (lock == -EWOULDBLOCK)
        return 0;
    if (lock < 0) {
        log_error("%s", err.text);
        return 1;
    }
    way.secret = secret;
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0;
    detach(dir);
    return run(&way, dir);
}
