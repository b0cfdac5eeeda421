/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/text/text.h"

const char *const output_names[OUTPUT_STREAMS] = {"stdout", "stderr", "output"};

enum { OFFSET_DIGITS = 16 };
static const char digits[] = "0123456789abcdef";

/* ---- segments ---- */

static bool is_segment(const char *file, const char *stream, uint64_t *ret_offset)
{
    size_t len = strlen(stream);
    if (strncmp(file, stream, len) != 0 || file[len] != '.')
        return false;
    const char *offset = file + len + 1;
    if (strlen(offset) != OFFSET_DIGITS || strspn(offset, digits) != OFFSET_DIGITS)
        return false;
    *ret_offset = strtoull(offset, NULL, 16);
    return true;
}

int output_segments(int dir, const char *stream, uint64_t offset, struct output_segments *ret_segments)
{
    *ret_segments = (struct output_segments){0};
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries) {
        int code = -errno;
        closep(&fd);
        return code;
    }
    const struct dirent *entry;
    for (unsigned i = 0; i < OUTPUT_FILES_MOST && (entry = readdir(entries)); i++) {
        uint64_t at;
        if (!is_segment(entry->d_name, stream, &at))
            continue;
        ret_segments->count++;
        if (at <= offset && (!ret_segments->has_before || at > ret_segments->before)) {
            ret_segments->has_before = true;
            ret_segments->before = at;
        } else if (at > offset && (!ret_segments->has_after || at < ret_segments->after)) {
            ret_segments->has_after = true;
            ret_segments->after = at;
        }
    }
    closedir(entries);
    return 0;
}

/* false: it is not there any more, or no file. */
static bool segment_open(struct output_reader *reader, uint64_t at)
{
    char name[32];
    snprintf(name, sizeof name, OUTPUT_SEGMENT, output_names[reader->stream], at);
    closep(&reader->segment);
    reader->segment = file_open_own(reader->dir, name, O_RDONLY);
    reader->segment_at = at;
    return reader->segment >= 0;
}

static ssize_t segment_read(struct output_reader *reader, void *bytes, size_t size)
{
    uint64_t at = reader->offset - reader->segment_at;
    if (reader->segment < 0 || at >= OUTPUT_SEGMENT_MOST)
        return 0;
    if (size > OUTPUT_SEGMENT_MOST - at)
        size = (size_t)(OUTPUT_SEGMENT_MOST - at);
    if (size > UINT64_MAX - reader->offset)
        size = (size_t)(UINT64_MAX - reader->offset);
    ssize_t got = pread(reader->segment, bytes, size, (off_t)at);
    if (got < 0)
        return -errno;
    reader->offset += (uint64_t)got;
    return got;
}

/* A piece of a mirror that has grown is another file of that name. */
static bool segment_is_replaced(const struct output_reader *reader)
{
    struct stat st;
    return reader->segment >= 0 && fstat(reader->segment, &st) == 0 && st.st_nlink == 0;
}

int output_open(struct output_reader *ret_reader, const char *jobdir, enum output_stream stream)
{
    char path[PATH_MAX + 16], times[32];
    struct output_segments around;
    *ret_reader = (struct output_reader){
        .dir = -1, .segment = -1, .times = -1, .stream = stream, .next_offset = UINT64_MAX, .seconds = -1};
    snprintf(path, sizeof path, "%s/" OUTPUT_DIR, jobdir);
    ret_reader->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (ret_reader->dir < 0)
        return errno == ENOTDIR ? -ENOENT : -errno;
    int code = output_segments(ret_reader->dir, output_names[stream], 0, &around);
    if (code < 0 || (!around.has_before && !around.has_after)) {
        closep(&ret_reader->dir);
        return code < 0 ? code : -ENOENT;
    }
    snprintf(times, sizeof times, "%s.times", output_names[stream]);
    int fd = file_open_own(ret_reader->dir, times, O_RDONLY);
    ret_reader->times = fd < 0 ? -1 : fd;
    return 0;
}

void output_close(struct output_reader *reader)
{
    closep(&reader->segment);
    closep(&reader->times);
    closep(&reader->dir);
}

ssize_t output_read(struct output_reader *reader, void *bytes, size_t size, uint64_t *ret_gap)
{
    struct output_segments around;
    *ret_gap = 0;
    ssize_t got = segment_read(reader, bytes, size);
    if (got)
        return got;
    int code = output_segments(reader->dir, output_names[reader->stream], reader->offset, &around);
    if (code < 0)
        return code;
    bool other = around.has_before && (reader->segment < 0 || around.before != reader->segment_at);
    other |= !other && segment_is_replaced(reader) && around.has_before;
    if (other && segment_open(reader, around.before) && (got = segment_read(reader, bytes, size)))
        return got;
    if (!around.has_after)
        return 0;
    /* The writer has gone on to the next one: now the segment has all that it will ever have. */
    got = segment_read(reader, bytes, size);
    if (got)
        return got;
    *ret_gap = around.after - reader->offset;
    reader->offset = around.after;
    return segment_open(reader, around.after) ? segment_read(reader, bytes, size) : 0;
}

/* ---- times ---- */

/* "3f SECONDS" without its end. */
static bool times_parse(const char *line, uint64_t *ret_offset, double *ret_seconds)
{
    size_t len = strspn(line, digits);
    const char *seconds = line + len + 1;
    if (!len || len > OFFSET_DIGITS || line[len] != ' ' || !*seconds ||
        strspn(seconds, "0123456789.") != strlen(seconds))
        return false;
    char *end;
    *ret_offset = strtoull(line, NULL, 16);
    *ret_seconds = strtod(seconds, &end);
    return !*end;
}

/* A line of the room; false: there is no whole one. What is longer than any entry is none. */
static bool times_line(struct output_reader *reader, char *ret_line, size_t size)
{
    const char *start = reader->times_room + reader->times_used;
    size_t left = reader->times_len - reader->times_used;
    const char *end = memchr(start, '\n', left);
    size_t len = end ? (size_t)(end - start) : left;
    bool whole = end && len < size;
    if (!end && left < sizeof reader->times_room)
        return false;
    *ret_line = 0;
    if (whole) {
        memcpy(ret_line, start, len);
        ret_line[len] = 0;
    }
    reader->times_used += len + (end != NULL);
    return true;
}

/* false: there are no more now. */
static bool times_read(struct output_reader *reader)
{
    memmove(reader->times_room, reader->times_room + reader->times_used, reader->times_len - reader->times_used);
    reader->times_len -= reader->times_used;
    reader->times_used = 0;
    ssize_t got = reader->times < 0 || reader->times_at >= OUTPUT_TIMES_MOST
                      ? 0
                      : pread(reader->times, reader->times_room + reader->times_len,
                              sizeof reader->times_room - reader->times_len, (off_t)reader->times_at);
    if (got <= 0)
        return false;
    reader->times_at += (uint64_t)got;
    reader->times_len += (size_t)got;
    return true;
}

double output_seconds(struct output_reader *reader, uint64_t offset)
{
    char line[64];
    uint64_t at;
    double seconds;
    for (;;) {
        if (reader->next_offset <= offset) {
            reader->seconds = reader->next_seconds;
            reader->next_offset = UINT64_MAX;
        }
        if (reader->next_offset != UINT64_MAX)
            return reader->seconds;
        if (times_line(reader, line, sizeof line)) {
            if (times_parse(line, &at, &seconds)) {
                reader->next_offset = at;
                reader->next_seconds = seconds;
            }
        } else if (!times_read(reader)) {
            return reader->seconds;
        }
    }
}

/* ---- how much there is ---- */

static int output_dir_open(const char *jobdir)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/" OUTPUT_DIR, jobdir);
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return dir < 0 ? -errno : dir;
}

int output_end(const char *jobdir, enum output_stream stream, uint64_t *ret_end)
{
    struct output_segments around;
    struct stat st;
    char name[32];
    _cleanup_(closep) int dir = output_dir_open(jobdir);
    int code = dir < 0 ? dir : output_segments(dir, output_names[stream], UINT64_MAX, &around);
    if (code < 0 || !around.has_before)
        return code < 0 ? code : -ENOENT;
    snprintf(name, sizeof name, OUTPUT_SEGMENT, output_names[stream], around.before);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    *ret_end = around.before + (st.st_size > 0 ? (uint64_t)st.st_size : 0);
    return 0;
}

void output_trim(const char *jobdir, const char *segment)
{
    enum { REMOVED_MOST = 64 }; /* at a time */
    _cleanup_(closep) int dir = output_dir_open(jobdir);
    struct output_segments around;
    uint64_t end = 0;
    size_t stream = 0;
    char name[32];
    while (stream < OUTPUT_STREAMS && !is_segment(segment, output_names[stream], &end))
        stream++;
    for (int i = 0; i < REMOVED_MOST && dir >= 0 && end > OUTPUT_FIRST + OUTPUT_LAST; i++) {
        if (output_segments(dir, output_names[stream], OUTPUT_FIRST - 1, &around) < 0 || !around.has_after ||
            around.after >= end - OUTPUT_LAST)
            return;
        snprintf(name, sizeof name, OUTPUT_SEGMENT, output_names[stream], around.after);
        if (unlinkat(dir, name, 0) < 0)
            return;
    }
}

/* ---- files ---- */

static bool is_one_file(const struct job_output *one, const struct job_output *other)
{
    return strcmp(one->kind, "file") == 0 && strcmp(other->kind, "file") == 0 && one->inode == other->inode &&
           strcmp(one->path, other->path) == 0;
}

bool output_files_read(const struct job_info *info, struct job_output ret_outputs[2])
{
    struct job_output *one = &ret_outputs[0], *other = &ret_outputs[1];
    *one = job_output_read(info, STDOUT_FILENO);
    *other = job_output_read(info, STDERR_FILENO);
    if (!is_one_file(one, other))
        return false;
    one->from = one->from < other->from ? one->from : other->from;
    if (other->until != UINT64_MAX && (one->until == UINT64_MAX || one->until < other->until))
        one->until = other->until;
    return true;
}

/* Is it the file that the job had, and not another one that has its name now? Its time of birth nobody guesses, so who makes up a job
 * cannot have another file shown. */
static bool is_its(int fd, const struct job_output *output)
{
    struct stat st;
    struct statx more;
    if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_ino != output->inode)
        return false;
    bool born = statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &more) == 0 && more.stx_mask & STATX_BTIME;
    return !born ||
           (uint64_t)more.stx_btime.tv_sec * NS_PER_SECOND + (uint64_t)more.stx_btime.tv_nsec == output->born_ns;
}

bool output_is_of_owner(const char *jobdir, int fd)
{
    struct stat job, file;
    return stat(jobdir, &job) == 0 && fstat(fd, &file) == 0 && (job.st_uid == geteuid() || job.st_uid == file.st_uid);
}

int output_open_regular(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? file_open_read(path) : -EINVAL;
}

/* The same file by another name in its directory, as logrotate leaves it. -1: there is none. */
static int open_renamed(const struct job_output *output, char *ret_path, size_t size)
{
    enum { ENTRIES_MOST = 100000 };
    const char *base = text_base(output->path);
    int folder = (int)(base - output->path), found = -1;
    snprintf(ret_path, size, "%.*s", folder, output->path);
    DIR *dir = folder ? opendir(ret_path) : NULL;
    const struct dirent *entry;
    for (unsigned i = 0; dir && found < 0 && i < ENTRIES_MOST && (entry = readdir(dir)); i++) {
        if ((uint64_t)entry->d_ino != output->inode)
            continue;
        snprintf(ret_path, size, "%.*s%s", folder, output->path, entry->d_name);
        found = output_open_regular(ret_path);
        if (found >= 0 && !is_its(found, output)) {
            close(found);
            found = -1;
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

/* Where it is not by its name any more, by the process that has it. -1: there is none. */
static int open_by_process(const struct job_info *info, int stream)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)info->root, stream + STDOUT_FILENO);
    return job_process_ticks(info->root) == info->root_ticks ? file_open_read(link) : -1;
}

int output_file_open(const char *jobdir, const struct job_info *info, bool over, int stream,
                     const struct job_output *output, char *ret_other, size_t size)
{
    int code = -ESTALE, named = output_open_regular(output->path);
    *ret_other = 0;
    for (int way = 0; way < 3; way++) {
        int fd = way == 0   ? named
                 : way == 1 ? (over ? -1 : open_by_process(info, stream))
                            : open_renamed(output, ret_other, size);
        if (is_its(fd, output) && output_is_of_owner(jobdir, fd))
            return fd;
        code = way == 2 && fd >= 0 ? -EPERM : code;
        closep(&fd);
    }
    return code == -ESTALE && named < 0 ? named : code;
}
