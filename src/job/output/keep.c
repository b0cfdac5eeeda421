/* SPDX-License-Identifier: Apache-2.0 */
#include "job/output/keep.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "jobdir/record/output.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void segment_name(const struct keep *keep, uint64_t start, char ret_name[64])
{
    snprintf(ret_name, 64, OUTPUT_SEGMENT, keep->stream, start);
}

static int segment_open(struct keep *keep, uint64_t start, int flags)
{
    char name[64];
    struct stat status;
    segment_name(keep, start, name);
    int fd = file_open_own(keep->dir, name, O_WRONLY | O_APPEND | O_CREAT | flags);
    if (fd < 0)
        return fd;
    if (fstat(fd, &status) < 0) {
        int code = -errno;
        close(fd);
        return code;
    }
    if (keep->fd >= 0)
        close(keep->fd);
    keep->fd = fd;
    keep->start = start;
    keep->at = start + (uint64_t)status.st_size;
    return 0;
}

static int times_open(struct keep *keep)
{
    char name[64];
    struct stat status;
    snprintf(name, sizeof name, "%s.times", keep->stream);
    keep->times = file_open_own(keep->dir, name, O_RDWR | O_APPEND | O_CREAT);
    if (keep->times < 0 || fstat(keep->times, &status) < 0)
        return keep->times < 0 ? keep->times : -errno;
    keep->times_bytes = (uint64_t)status.st_size;
    return 0;
}

int keep_open(struct keep *ret_keep, const char *dir, const char *stream, uint64_t most)
{
    struct output_segments there;
    *ret_keep = (struct keep){.stream = stream, .dir = -1, .fd = -1, .times = -1, .most = most};
    if ((size_t)snprintf(ret_keep->folder, sizeof ret_keep->folder, "%s/output", dir) >= sizeof ret_keep->folder)
        return -ENAMETOOLONG;
    if (mkdir(ret_keep->folder, 0700) < 0 && errno != EEXIST)
        return -errno;
    ret_keep->dir = open(ret_keep->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (ret_keep->dir < 0)
        return -errno;
    int code = output_segments(ret_keep->dir, stream, UINT64_MAX, &there);
    code = code < 0 ? code : segment_open(ret_keep, there.before, 0);
    return code < 0 ? code : times_open(ret_keep);
}

/* Begins a new segment, and removes the oldest behind the first. */
static int segment_next(struct keep *keep)
{
    char name[64];
    struct output_segments there;
    int code = segment_open(keep, keep->at, O_EXCL);
    while (code == 0 && output_segments(keep->dir, keep->stream, 0, &there) == 0 && there.count > 2 &&
           (uint64_t)(there.count - 1) * KEEP_SEGMENT > keep->most) {
        segment_name(keep, there.after, name);
        if (unlinkat(keep->dir, name, 0) < 0)
            code = -errno;
    }
    return code;
}

/* Each second line goes. */
static int times_thin(struct keep *keep)
{
    char path[sizeof keep->folder + 64];
    _cleanup_(freep) char *text = NULL;
    _cleanup_(buf_done) struct buf kept = BUF_INIT;
    size_t len;
    snprintf(path, sizeof path, "%s/%s.times", keep->folder, keep->stream);
    int code = file_read_plain(path, &text, &len);
    bool wanted = true;
    for (char *line = text, *end; code == 0 && (end = memchr(line, '\n', len - (size_t)(line - text)));
         line = end + 1) {
        if (wanted)
            buf_append(&kept, line, (size_t)(end + 1 - line));
        wanted = !wanted;
    }
    if (code == 0)
        code = kept.failed ? -ENOMEM : file_replace_soon(path, kept.data, kept.len, 0600);
    if (code == 0) {
        close(TAKE_FD(keep->times));
        code = times_open(keep);
    }
    return code;
}

static int times_put(struct keep *keep, uint64_t wall_ns)
{
    char line[64];
    uint64_t now_ms = wall_ns / WAITS_NS_PER_MS;
    if (keep->said_ms && now_ms >= keep->said_ms && now_ms < keep->said_ms + KEEP_TIMES_MS)
        return 0;
    keep->said_ms = now_ms;
    int code = keep->times_bytes >= KEEP_TIMES_MOST ? times_thin(keep) : 0;
    int len = snprintf(line, sizeof line, "%" PRIx64 " %" PRIu64 ".%03u\n", keep->at, now_ms / 1000,
                       (unsigned)(now_ms % 1000));
    code = code < 0 ? code : file_write_all(keep->times, line, (size_t)len);
    keep->times_bytes += (uint64_t)len;
    return code;
}

int keep_put(struct keep *keep, const char *bytes, size_t len, uint64_t wall_ns)
{
    int code = len ? times_put(keep, wall_ns) : 0;
    while (len && code == 0) {
        uint64_t room = keep->start + (keep->start ? KEEP_SEGMENT : KEEP_FIRST);
        if (keep->at >= room) {
            code = segment_next(keep);
            continue;
        }
        ssize_t put = write(keep->fd, bytes, len < room - keep->at ? len : (size_t)(room - keep->at));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        keep->at += (uint64_t)put;
        bytes += put;
        len -= (size_t)put;
    }
    return code;
}

void keep_done(struct keep *keep)
{
    int *const fds[] = {&keep->fd, &keep->times, &keep->dir};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        closep(fds[i]);
        *fds[i] = -1;
    }
}
