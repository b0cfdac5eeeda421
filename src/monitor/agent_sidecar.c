/* SPDX-License-Identifier: Apache-2.0 */
/* What stands beside an area, of a process's calls or of its MPI, for a monitor that comes after this one. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "monitor/agents_internal.h"

bool agent_sidecar_read(const char *area_path, char text[SIDECAR_LIMIT], char *ret_lines[3])
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s.job", area_path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t len = fd >= 0 ? read(fd, text, SIDECAR_LIMIT - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    for (unsigned i = 0; i < 3; i++) {
        char *end = strchr(text, '\n');
        if (!end)
            return false;
        *end = 0;
        ret_lines[i] = text;
        text = end + 1;
    }
    return true;
}
