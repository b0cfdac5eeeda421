/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/spawn.h"
#include "shm/waits.h"

/* The first line that it says: that it listens, or why not. -ECANCELED. */
static int wait_for_line(int fd, struct err *err)
{
    static const char fine[] = "scry: listens";
    char text[ERR_TEXT_SIZE];
    size_t len = 0;
    while (len + 1 < sizeof text && !memchr(text, '\n', len)) {
        struct pollfd said = {.fd = fd, .events = POLLIN};
        int count = poll(&said, 1, MONITOR_START_MS);
        ssize_t got = count > 0 ? read(fd, text + len, sizeof text - 1 - len) : count;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    text[len] = 0;
    text[strcspn(text, "\n")] = 0;
    if (strncmp(text, fine, sizeof fine - 1) == 0)
        return 0;
    return err_set(err, -ECANCELED, "%s", *text ? text : "scry-link does not start");
}

int listen_start(const char *const *addresses, size_t count, struct err *err)
{
    char path[PATH_MAX], command[] = "beside", *argv[LISTEN_MOST + 3] = {path, command};
    int said[2], held[2], code = dirs_libexec("scry-link", path, sizeof path, err);
    pid_t pid;
    if (code < 0)
        return code;
    for (size_t i = 0; i < count && i < LISTEN_MOST; i++)
        argv[2 + i] = (char *)addresses[i];
    if (pipe2(said, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    _cleanup_(closep) int reads = said[0], says = said[1];
    if (pipe2(held, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    code = spawn_program(
        &(struct spawn){
            .path = path, .argv = argv, .in = held[0], .out = says, .error = says, .group = SPAWN_OWN_SESSION},
        &pid);
    close(held[0]); /* held[1] stays open until the monitor ends, which it sees */
    close(TAKE_FD(says));
    if (code < 0) {
        close(held[1]);
        return err_errno(err, code, "cannot start %s", path);
    }
    return wait_for_line(reads, err);
}
