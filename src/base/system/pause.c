/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/pause.h"

#ifdef SCRY_PAUSES

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "shm/waits.h"

void pause_at(const char *name)
{
    const char *folder = getenv("SCRY_TEST_PAUSES");
    char path[PATH_MAX], here[PATH_MAX + 8], own[PATH_MAX + 16];
    int error = errno;
    if (!folder || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path || access(path, F_OK) != 0) {
        errno = error;
        return;
    }
    snprintf(here, sizeof here, "%s.here", path);
    snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
    int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0) {
        dprintf(fd, "%d\n", (int)getpid());
        close(fd);
    }
    bool first = fd >= 0 && link(own, here) == 0;
    unlink(own);
    for (uint64_t end_ns = clock_now_ns() + UINT64_C(1000000000) * PAUSE_MOST_S;
         first && access(path, F_OK) == 0 && clock_now_ns() < end_ns;)
        wait_fd(-1, 0, PAUSE_LOOK_MS);
    errno = error;
}

uint64_t time_hasten(uint64_t time)
{
    const char *text = getenv("SCRY_TEST_HASTE");
    long haste = text ? strtol(text, NULL, 10) : 1;
    if (haste < 2 || haste > 100 || !time)
        return time;
    return time > (uint64_t)haste ? time / (uint64_t)haste : 1;
}

#endif
