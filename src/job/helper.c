/* SPDX-License-Identifier: Apache-2.0 */
#include "job/helper.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { FIELD_ARG_START = 48, FD = 3 };

/* The command line is scry run's until it is written over: arg_start and arg_end of proc(5). */
static void take_command_line(const char *name)
{
    char text[2048];
    unsigned long from = 0, to = 0;
    FILE *file = fopen("/proc/self/stat", "re");
    if (file && fgets(text, sizeof text, file)) {
        const char *at = strrchr(text, ')');
        for (int field = 2; at && field < FIELD_ARG_START; field++)
            at = strchr(at + 1, ' ');
        if (!at || sscanf(at, " %lu %lu", &from, &to) != 2)
            from = to = 0;
    }
    if (file)
        fclose(file);
    char *line = (char *)from; /* NOLINT(performance-no-int-to-ptr): the kernel tells a number */
    if (line && to > from) {
        memset(line, 0, to - from);
        strncpy(line, name, to - from - 1);
    }
}

int helper_become(const char *name, int fd)
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
        return FD; /* it stays where it is */
    return FD;
}
