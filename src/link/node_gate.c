/* SPDX-License-Identifier: Apache-2.0 */
#include "link/node_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "shm/waits.h"

/* A place is a byte of the file: locks of an open file description (fcntl(2)) need no process that keeps count. */
static int take_place(int file)
{
    for (int i = 0; i < GATE_PLACES; i++) {
        struct flock place = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
        if (fcntl(file, F_OFD_SETLK, &place) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES)
            return -errno; /* a file system without locks */
    }
    return -EAGAIN;
}

int gate_enter(int fd)
{
    char dir[PATH_MAX - 16], path[PATH_MAX];
    int code = dirs_runtime(dir, sizeof dir, NULL);
    if (code < 0)
        return code;
    snprintf(path, sizeof path, "%s/ssh.places", dir);
    _cleanup_(closep) int file = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (file < 0)
        return file;
    while ((code = take_place(file)) == -EAGAIN) {
        struct pollfd waits = {.fd = fd, .events = POLLRDHUP};
        if (poll(&waits, 1, NODE_GATE_MS) > 0)
            return -EPIPE;
    }
    return code < 0 ? code : TAKE_FD(file);
}
