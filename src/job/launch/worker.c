/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/worker.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/system/proc_file.h"

enum { FD = 3 };

/* Overwrites the command line, which is a copy of scry run's. */
static void take_command_line(const char *name)
{
    struct proc_stat stat;
    if (proc_stat_of(0, 0, &stat) < 0)
        return;
    uint64_t from = stat.arg_start, to = stat.arg_end;
    char *line = (char *)from; /* NOLINT(performance-no-int-to-ptr): the kernel gives a number */
    if (line && to > from) {
        memset(line, 0, to - from);
        strncpy(line, name, to - from - 1);
    }
}

int worker_become(const char *name, int fd)
{
    prctl(PR_SET_NAME, name);
    take_command_line(name);
    int null = open("/dev/null", O_RDWR);
    for (int stream = 0; stream <= STDERR_FILENO && null >= 0; stream++)
        dup2(null, stream);
    if (fd != FD)
        dup2(fd, FD);
    close_range(FD + 1, ~0U, 0);
    if (chdir("/") < 0)
        return FD; /* already in place */
    return FD;
}
