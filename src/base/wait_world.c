/* SPDX-License-Identifier: Apache-2.0 */
/* By /proc/PID/stat and /proc/PID/task/TID/schedstat, see proc(5). */
#include "base/wait_world.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { USER_FIELD = 14, SYSTEM_FIELD = 15, STAT_SIZE = 1024 };

/* What stands behind the name, which may have any characters, at the state's letter; NULL: nothing. */
static const char *stat_read(const char *path, char text[STAT_SIZE])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ssize_t got = read(fd, text, STAT_SIZE - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *behind = strrchr(text, ')');
    return behind && behind[1] == ' ' && behind[2] ? behind + 2 : NULL;
}

static struct wait_process look(pid_t pid)
{
    struct wait_process process = {.state = 0};
    char path[64], text[STAT_SIZE];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *at = pid > 0 ? stat_read(path, text) : NULL;
    uint64_t ticks = 0, second = (uint64_t)sysconf(_SC_CLK_TCK);
    if (!at)
        return process;
    process.state = *at;
    for (int field = 4; field <= SYSTEM_FIELD && (at = strchr(at, ' ')); field++) {
        at++;
        if (field >= USER_FIELD)
            ticks += strtoull(at, NULL, 10);
    }
    process.cpu_ns = ticks * (NS_PER_SECOND / second);
    return process;
}

static struct wait_thread look_thread(pid_t pid, pid_t tid)
{
    struct wait_thread thread = {.state = 0};
    char path[64], text[STAT_SIZE];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    const char *at = stat_read(path, text);
    thread.state = at ? *at : (char)0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)pid, (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    thread.timed = sscanf(text, "%" SCNu64, &thread.ran_ns) == 1;
    return thread;
}

const struct wait_world wait_world_real = {
    .now_ns = clock_now_ns,
    .poll = poll,
    .look = look,
    .look_thread = look_thread,
};
const struct wait_world *wait_world = &wait_world_real;
