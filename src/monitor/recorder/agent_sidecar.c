/* SPDX-License-Identifier: Apache-2.0 */
/* An area, of a process's calls or of its MPI, and what stands beside it, as a monitor that comes later takes them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pause.h"
#include "monitor/recorder/agents_internal.h"

bool agent_sidecar_read(const char *area_path, char text[SIDECAR_LIMIT], char *ret_lines[SIDECAR_LINES])
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s.job", area_path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t len = fd >= 0 ? read(fd, text, SIDECAR_LIMIT - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    for (unsigned i = 0; i < SIDECAR_LINES; i++) {
        char *end = strchr(text, '\n');
        if (!end && i < SIDECAR_LINES - 1)
            return false;
        if (!end) { /* the last one is seldom there */
            ret_lines[i] = text + strlen(text);
            break;
        }
        *end = 0;
        ret_lines[i] = text;
        text = end + 1;
    }
    return true;
}

void agent_sidecar_write(const char *area_path, const struct buf *text)
{
    char path[PATH_MAX + 8], fresh[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s.job", area_path);
    snprintf(fresh, sizeof fresh, "%s.job.new", area_path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    pause_at("sidecar.before-write");
    /* a monitor that is killed here leaves the old one whole: without any, the next can do nothing with the area. Where
     * there is no room for a new one, the old one, which names another trace, is worse than none. */
    if (text->failed || write(fd, text->data, text->len) != (ssize_t)text->len || rename(fresh, path) < 0)
        agent_sidecar_remove(area_path);
    close(fd);
}

void agent_sidecar_remove(const char *area_path)
{
    static const char *const ends[] = {".job", ".job.new"};
    char path[PATH_MAX + 16];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(path, sizeof path, "%s%s", area_path, ends[i]);
        unlink(path);
    }
}

int agent_area_open(const char *path, char **ret_path, int *ret_fd, uint64_t *ret_size)
{
    struct stat st;
    *ret_path = strdup(path);
    *ret_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (!*ret_path || *ret_fd < 0)
        return -errno;
    if (fstat(*ret_fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return -EBADMSG;
    *ret_size = (uint64_t)st.st_size;
    return 0;
}
