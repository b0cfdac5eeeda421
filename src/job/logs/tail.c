/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/tail.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/record/output.h"
#include "jobdir/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *const tail_state_names[TAIL_STATES] = {"watched", "waited_for", "rotated",  "truncated",
                                                   "removed", "skipped",    "unwatched"};

/* Behind all errnos. */
enum { REFUSED_PIPE = 10000, REFUSED_DIRECTORY, REFUSED_SOCKET, REFUSED_DEVICE, REFUSED_KERNEL };

static const char *refusal_text(int refused)
{
    static const char *const texts[] = {
        "it is a pipe, and reading would take away what others are to read; name a file that tee(1) writes",
        "it is a directory; name a file in it, or a pattern",
        "it is a socket; write to a file, or name one that tee(1) writes",
        "it is a terminal or another device; write to a file, or name one that tee(1) writes",
        "it is a file of the kernel, to which no lines are appended",
    };
    return refused >= REFUSED_PIPE ? texts[refused - REFUSED_PIPE] : strerror(refused);
}

static void say(struct tail *tail, enum tail_state state, bool first, uint64_t bytes, const char *reason)
{
    tail->calls.state(tail->calls.ctx, state, first, bytes, reason);
}

void tail_init(struct tail *tail, const char *path, struct tail_calls calls)
{
    *tail = (struct tail){.path = path, .calls = calls, .fd = -1, .hand_over = UINT64_MAX};
}

static uint64_t size_now(const struct tail *tail)
{
    struct stat status;
    if (tail->fd < 0 || fstat(tail->fd, &status) < 0)
        return 0;
    return (uint64_t)status.st_size < tail->hand_over ? (uint64_t)status.st_size : tail->hand_over;
}

/* The end of what was written into a stream since it was opened. It stays when the process is gone, and its name with it. */
static void keep_last(struct tail *tail)
{
    struct stat status;
    uint64_t size = size_now(tail), from = size > TAIL_LAST_BYTES ? size - TAIL_LAST_BYTES : 0;
    from = from > tail->start ? from : tail->start;
    if (!tail->stream || size <= from || fstat(tail->fd, &status) < 0 ||
        !(tail->last = tail->last ? tail->last : malloc(TAIL_LAST_BYTES)))
        return;
    ssize_t got = pread(tail->fd, tail->last, (size_t)(size - from), (off_t)from);
    if (got <= 0)
        return;
    tail->last_len = (size_t)got;
    tail->last_ns = (uint64_t)status.st_mtim.tv_sec * NS_PER_SECOND + (uint64_t)status.st_mtim.tv_nsec;
}

static void close_file(struct tail *tail)
{
    keep_last(tail);
    if (tail->fd >= 0 && tail->calls.left && !tail->kept)
        tail->calls.left(tail->calls.ctx, &tail->identity, tail->offset);
    if (tail->fd >= 0)
        close(tail->fd);
    tail->fd = -1;
    tail->quiet = 0;
    tail->hand_over = UINT64_MAX;
}

void tail_rest(struct tail *tail)
{
    if (!tail->yields || tail->fd < 0)
        return;
    if (size_now(tail) != tail->rested)
        keep_last(tail);
    tail->rested = size_now(tail);
    close(TAKE_FD(tail->fd));
    tail->rests = true;
}

bool tail_is_open(const struct tail *tail)
{
    return tail->fd >= 0 || tail->rests;
}

void tail_done(struct tail *tail)
{
    close_file(tail);
    free(tail->last);
    lines_done(&tail->lines);
}

/* ---- opening ---- */

static bool is_of_kernel(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    switch ((unsigned long)fs.f_type) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

static int refusal(int fd, mode_t mode)
{
    if (S_ISFIFO(mode))
        return REFUSED_PIPE;
    if (S_ISDIR(mode))
        return REFUSED_DIRECTORY;
    if (S_ISSOCK(mode))
        return REFUSED_SOCKET;
    if (!S_ISREG(mode))
        return REFUSED_DEVICE;
    return is_of_kernel(fd) ? REFUSED_KERNEL : 0;
}

/* Opens a regular file and nothing else, whatever the name becomes meanwhile. A descriptor, or minus what `refused`
 * has. */
static int open_regular(const char *path, struct stat *ret_status)
{
    char self[40];
    _cleanup_(closep) int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0 || fstat(place, ret_status) < 0)
        return -errno;
    int refused = refusal(place, ret_status->st_mode);
    if (refused)
        return -refused;
    snprintf(self, sizeof self, "/proc/self/fd/%d", place);
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(self, flags | O_NOATIME);
    if (fd < 0 && errno == EPERM) /* somebody else's file */
        fd = open(self, flags);
    return fd < 0 ? -errno : fd;
}

/* When it was made, on CLOCK_REALTIME; 0: unknown. */
static uint64_t born_ns(int fd)
{
    struct statx status;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &status) < 0 || !(status.stx_mask & STATX_BTIME))
        return 0;
    return (uint64_t)status.stx_btime.tv_sec * NS_PER_SECOND + status.stx_btime.tv_nsec;
}

static void refuse(struct tail *tail, int refused)
{
    bool missing = refused == ENOENT || refused == ENOTDIR;
    if (refused == tail->refused)
        return;
    tail->refused = refused;
    if (tail->stream && missing)
        return; /* the process has ended, or has closed it */
    say(tail, missing ? TAIL_WAITED_FOR : TAIL_UNWATCHED, false, 0, missing ? "" : refusal_text(refused));
}

/* `state`: what it means that it is there. */
static void open_file(struct tail *tail, bool at_end, enum tail_state state)
{
    struct stat status;
    int fd = open_regular(tail->path, &status);
    if (fd < 0) {
        refuse(tail, -fd);
        return;
    }
    tail->fd = fd;
    tail->identity = (struct tail_identity){status.st_dev, status.st_ino, born_ns(fd)};
    tail->unlinked = status.st_nlink == 0;
    tail->yields = tail->calls.yields && tail->calls.yields(tail->calls.ctx, fd);
    tail->refused = 0;
    at_end |= tail->stream && tail->identity.born_ns < tail->start_ns;
    uint64_t size = (uint64_t)status.st_size, known = 0;
    if (!at_end && !tail->stream && tail->calls.known)
        known = tail->calls.known(tail->calls.ctx, &tail->identity, size);
    tail->start = tail->offset = at_end ? size : known <= size ? known : 0;
    lines_reset(&tail->lines, false);
    say(tail, state, tail->offset == 0, 0, "");
}

/* ---- segments ---- */

/* Goes on with that one. false: it is not there. */
static bool open_segment(struct tail *tail, uint64_t start)
{
    char path[PATH_MAX];
    struct stat status;
    if ((size_t)snprintf(path, sizeof path, OUTPUT_SEGMENT, tail->path, start) >= sizeof path)
        return false;
    int fd = open_regular(path, &status);
    if (fd < 0)
        return false;
    if (tail->fd >= 0)
        close(tail->fd);
    tail->fd = fd;
    tail->segment = start;
    tail->start = tail->offset = 0;
    return true;
}

static void find_segments(const struct tail *tail, uint64_t offset, struct output_segments *ret_segments)
{
    char folder[PATH_MAX];
    const char *name = text_base(tail->path);
    snprintf(folder, sizeof folder, "%.*s", (int)(name - tail->path), tail->path);
    _cleanup_(closep) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *ret_segments = (struct output_segments){0};
    if (dir >= 0)
        output_segments(dir, name, offset, ret_segments);
}

/* It is made when something is written. Another observer has read what was there before. */
static void look_at_kept(struct tail *tail, bool at_end)
{
    struct output_segments there = {0};
    if (tail->fd >= 0)
        return;
    if (at_end)
        find_segments(tail, UINT64_MAX, &there);
    if (!open_segment(tail, there.before))
        return;
    tail->start = tail->offset = at_end ? size_now(tail) : 0;
    lines_reset(&tail->lines, false);
    say(tail, TAIL_WATCHED, tail->offset == 0 && !there.before, 0, "");
}

/* This one is read. false: it is the last. */
static bool go_on_with_next(struct tail *tail)
{
    struct stat status;
    uint64_t end = tail->segment + tail->offset;
    struct output_segments there;
    if (!tail->offset || fstat(tail->fd, &status) < 0)
        return false;
    if (open_segment(tail, end))
        return true;
    if (status.st_nlink)
        return false;
    find_segments(tail, tail->segment, &there); /* those after it were removed as well */
    if (!there.has_after || !open_segment(tail, there.after))
        return false;
    lines_reset(&tail->lines, true);
    say(tail, TAIL_SKIPPED, false, there.after - end, "it came faster than it could be looked at");
    return true;
}

/* ---- looking ---- */

static bool is_read(const struct tail *tail)
{
    return tail_backlog(tail) == 0;
}

static void look_whether_cut(struct tail *tail, const struct stat *status)
{
    if (!S_ISREG(status->st_mode) || (uint64_t)status->st_size >= tail->offset)
        return;
    tail->start = tail->offset = 0;
    lines_reset(&tail->lines, false);
    say(tail, TAIL_TRUNCATED, true, 0, "");
}

/* What rested is opened again. Where there is another file now, or none, what was not read of it is lost. */
static void tail_wake(struct tail *tail, bool at_end)
{
    struct stat status;
    int fd = open_regular(tail->path, &status);
    if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR)
        return; /* the next time */
    tail->rests = false;
    if (fd >= 0 && status.st_dev == tail->identity.device && status.st_ino == tail->identity.inode &&
        born_ns(fd) == tail->identity.born_ns) {
        tail->fd = fd;
        return;
    }
    bool other = fd >= 0 && !tail->stream;
    closep(&fd);
    lines_end(&tail->lines, tail->calls.lines, tail->calls.ctx);
    if (tail->calls.left)
        tail->calls.left(tail->calls.ctx, &tail->identity, tail->offset);
    tail->quiet = 0;
    tail->hand_over = UINT64_MAX;
    if (other)
        open_file(tail, at_end, TAIL_ROTATED);
    else
        say(tail, TAIL_REMOVED, false, 0, "");
    if (tail->fd < 0)
        tail->refused = tail->refused ? tail->refused : ENOENT;
}

void tail_look(struct tail *tail, bool at_end)
{
    struct stat mine, named;
    if (tail->kept) {
        look_at_kept(tail, at_end);
        return;
    }
    if (tail->rests) {
        tail_wake(tail, at_end);
        if (tail->fd < 0)
            return;
    }
    if (tail->fd < 0) {
        if (!tail->stream || !tail->refused)
            open_file(tail, at_end, TAIL_WATCHED);
        return;
    }
    if (fstat(tail->fd, &mine) == 0)
        look_whether_cut(tail, &mine);
    else
        mine.st_nlink = 1;
    bool there = stat(tail->path, &named) == 0, missing = !there && (errno == ENOENT || errno == ENOTDIR);
    bool other = there && (named.st_dev != tail->identity.device || named.st_ino != tail->identity.inode);
    if (other && tail->stream)
        other =
            false; /* a script's shell has it elsewhere for a time, as dash for each command that it redirects; others write on */
    bool removed = missing || (tail->stream && !other && !mine.st_nlink && !tail->unlinked);
    if (!other && !removed) {
        tail->quiet = 0;
        tail->hand_over = UINT64_MAX; /* the name has it again */
        return;
    }
    /* The rest of the old file is read first. It is not kept open for longer: its blocks could not be freed. */
    bool handed = tail->hand_over != UINT64_MAX;
    if (!is_read(tail) || (!handed && ++tail->quiet < TAIL_QUIET_LOOKS))
        return;
    lines_end(&tail->lines, tail->calls.lines, tail->calls.ctx);
    close_file(tail);
    if (other)
        open_file(tail, at_end, TAIL_ROTATED);
    else if (!tail->stream || !missing)
        say(tail, TAIL_REMOVED, false, 0, "");
    if (tail->fd < 0)
        tail->refused = tail->refused ? tail->refused : ENOENT; /* it is said already */
}

/* ---- reading ---- */

uint64_t tail_backlog(const struct tail *tail)
{
    uint64_t size = size_now(tail);
    return size > tail->offset ? size - tail->offset : 0;
}

bool tail_read(struct tail *tail)
{
    size_t room;
    char *bytes = tail->fd >= 0 ? lines_room(&tail->lines, &room) : NULL;
    if (!bytes || tail->offset >= tail->hand_over)
        return false;
    if (room > tail->hand_over - tail->offset)
        room = (size_t)(tail->hand_over - tail->offset);
    if (room > LINES_ROOM / 2)
        room = LINES_ROOM / 2;
    uint64_t now_ns = clock_now_ns();
    ssize_t got = pread(tail->fd, bytes, room, (off_t)tail->offset);
    if (got <= 0) {
        if (tail->kept && got == 0 && go_on_with_next(tail))
            return true;
        tail->read_ns = now_ns;
        lines_rest(&tail->lines);
        return false;
    }
    tail->offset += (uint64_t)got;
    lines_take(&tail->lines, (size_t)got, tail->calls.lines, tail->calls.ctx);
    return true;
}

void tail_skip(struct tail *tail, uint64_t keep, const char *reason)
{
    uint64_t backlog = tail_backlog(tail);
    if (backlog <= keep)
        return;
    tail->offset += backlog - keep;
    lines_reset(&tail->lines, true);
    say(tail, TAIL_SKIPPED, false, backlog - keep, reason);
}

void tail_end(struct tail *tail)
{
    keep_last(tail);
    lines_end(&tail->lines, tail->calls.lines, tail->calls.ctx);
}
