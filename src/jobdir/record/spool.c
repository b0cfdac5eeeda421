/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/buf.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "jobdir/record/kinds.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

/* Kept free for job.json and report.txt, so that the end of a job on a full disk can still be written down. */
enum { RESERVE_BYTES = 192 << 10, FLUSH_BYTES = 256 << 10, FREE_PERCENT = 5, HEADER_MOST = 1 << 20 };
static const char RESERVE[] = "spool/reserve";

static __attribute__((format(printf, 2, 3))) void spool_stop(struct spool *spool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(spool->reason, sizeof spool->reason, format, args);
    va_end(args);
    spool->stopped = true;
    spool->look_ns = 0; /* for good */
    if (spool->fd >= 0)
        close(spool->fd);
    spool->fd = -1;
    spool->lost += spool->pending_records;
    spool->pending_records = 0;
    buf_done(&spool->pending);
}

/* What a line begins with; false: it is none of ours. */
static bool line_begins(const char *line, size_t len, uint64_t *ret_seq, double *ret_seconds)
{
    const char *end = memchr(line, '\n', len);
    json_t *record = json_loadb(line, end ? (size_t)(end - line) : len, 0, NULL);
    bool good = json_is_integer(json_object_get(record, "seq")) && json_is_number(json_object_get(record, "t"));
    *ret_seq = (uint64_t)json_integer_value(json_object_get(record, "seq"));
    *ret_seconds = member_number(record, "t");
    json_decref(record);
    return good;
}

static __attribute__((format(printf, 2, 3))) void pause_recording(struct spool *spool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(spool->reason, sizeof spool->reason, format, args);
    va_end(args);
    if (!line_begins(spool->pending.data, spool->pending.len, &spool->gap_seq, &spool->gap_from))
        spool->gap_seq = 0;
    spool->stopped = true;
    spool->look_ns = clock_now_ns() + time_hasten(SPOOL_ROOM_NS);
    spool->lost += spool->pending_records;
    spool->pending_records = 0;
    buf_clear(&spool->pending);
}

static bool is_nearly_full(const struct spool *spool, unsigned percent)
{
    struct statvfs fs;
    return fstatvfs(spool->fd, &fs) == 0 && fs.f_blocks && fs.f_bavail < fs.f_blocks / 100 * percent;
}

/* If there is room again. The lines are the first that will be written. */
static void spool_try_again(struct spool *spool, const char *lines, size_t len)
{
    uint64_t seq;
    double seconds = 0;
    if (!spool->look_ns || clock_now_ns() < spool->look_ns)
        return;
    spool->look_ns = clock_now_ns() + time_hasten(SPOOL_ROOM_NS);
    if (is_nearly_full(spool, FREE_PERCENT + 1) || !line_begins(lines, len, &seq, &seconds))
        return;
    spool->stopped = false;
    spool->look_ns = 0;
    if (!spool->gap_seq)
        return;
    json_t *gap = record_json(RECORD(gap, .from = spool->gap_from, .to = seconds, .reason = spool->reason));
    json_object_set_new(gap, "t", json_real(seconds));
    if (spool_line_take(gap, spool->gap_seq, &spool->pending)) {
        spool->pending_records++;
        spool->lost--; /* its number was that of a lost one */
    }
    spool->gap_seq = 0;
}

static void keep_reserve(struct spool *spool)
{
    _cleanup_(closep) int fd = file_open_own(spool->dir_fd, RESERVE, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd < 0)
        return;
    if (posix_fallocate(fd, 0, RESERVE_BYTES) != 0)
        unlinkat(spool->dir_fd, RESERVE, 0); /* a full disk at the start: nothing can be kept */
}

static void spool_release_reserve(struct spool *spool)
{
    if (spool->dir_fd >= 0)
        unlinkat(spool->dir_fd, RESERVE, 0);
}

void spool_first(struct buf *out, const char *id)
{
    struct utsname node = {0};
    uname(&node);
    json_t *first =
        record_json(RECORD(spool, .format = "scry-spool", .version = SPOOL_VERSION, .job = id, .node = node.nodename));
    json_object_set_new(first, "t", json_real(0));
    spool_line_take(first, 0, out);
}

void spool_open(struct spool *spool, const char *path, const struct buf *first, uint64_t max_bytes)
{
    *spool = (struct spool){.fd = -1, .dir_fd = -1, .max_bytes = max_bytes};
    spool->dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (spool->dir_fd < 0) {
        spool_stop(spool, "%s cannot be opened: %s", path, strerror(errno));
        return;
    }
    keep_reserve(spool);
    spool->fd = file_open_own(spool->dir_fd, "spool/records.jsonl", O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
    if (spool->fd < 0) {
        spool_stop(spool, "%s/spool/records.jsonl cannot be made: %s", path, strerror(-spool->fd));
        return;
    }
    if (first->data && !first->failed)
        spool_put_lines(spool, first->data, first->len, 1);
    else
        spool->lost++;
    spool_flush(spool);
}

bool spool_line_take(json_t *record, uint64_t seq, struct buf *out)
{
    _cleanup_(freep) char *text = record ? json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(record);
    if (!text || text[0] != '{' || text[1] == '}')
        return false;
    buf_printf(out, "{\"seq\":%llu,", (unsigned long long)seq); /* first, for people */
    buf_puts(out, text + 1);
    buf_putc(out, '\n');
    return !out->failed;
}

bool spool_line_of(struct span text, uint64_t seq, double seconds, struct buf *out)
{
    if (text.len < 2 || text.ptr[0] != '{')
        return false;
    buf_printf(out, "{\"seq\":%llu,\"t\":%.9f,", (unsigned long long)seq, seconds);
    buf_append(out, text.ptr + 1, text.len - 1);
    buf_putc(out, '\n');
    return !out->failed;
}

void spool_put_lines(struct spool *spool, const char *lines, size_t len, uint64_t records)
{
    if (spool->stopped)
        spool_try_again(spool, lines, len);
    if (spool->stopped) {
        if (!spool->gap_seq && spool->look_ns && !line_begins(lines, len, &spool->gap_seq, &spool->gap_from))
            spool->gap_seq = 0;
        spool->lost += records;
        return;
    }
    spool->next_seq += records;
    spool->pending_records += records;
    buf_append(&spool->pending, lines, len);
    if (spool->pending.failed)
        spool_stop(spool, "out of memory");
    else if (spool->pending.len > FLUSH_BYTES)
        spool_flush(spool);
}

void spool_put_take(struct spool *spool, json_t *record)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    if (spool_line_take(record, spool->next_seq, &line))
        spool_put_lines(spool, line.data, line.len, 1);
    else
        spool->lost++;
}

static bool has_room(struct spool *spool)
{
    if (spool->size_bytes + spool->pending.len > spool->max_bytes) {
        struct buf limit = BUF_INIT;
        text_size(&limit, spool->max_bytes);
        spool_stop(spool, "the job directory reached its limit of %s (--max-size)", limit.data ? limit.data : "");
        buf_done(&limit);
        return false;
    }
    if (is_nearly_full(spool, FREE_PERCENT)) {
        pause_recording(spool, "less than %d %% of the disk with the job directory is free", FREE_PERCENT);
        return false;
    }
    return true;
}

void spool_flush(struct spool *spool)
{
    if (spool->stopped || spool->pending.len == 0 || !has_room(spool))
        return;
    const char *at = spool->pending.data;
    size_t left = spool->pending.len;
    while (left) {
        ssize_t put = write(spool->fd, at, left);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int code = put < 0 ? errno : EIO;
            /* no half record at the end; if this fails, readers skip it */
            int cut = ftruncate(spool->fd, (off_t)spool->size_bytes);
            (void)cut;
            if (code == ENOSPC || code == EDQUOT)
                pause_recording(spool, "the disk with the job directory is full (%s)", strerror(code));
            else
                spool_stop(spool, "the job directory cannot be written: %s", strerror(code));
            return;
        }
        at += put;
        left -= (size_t)put;
    }
    spool->size_bytes += spool->pending.len;
    spool->written += spool->pending_records;
    spool->pending_records = 0;
    buf_clear(&spool->pending);
}

void spool_close(struct spool *spool)
{
    spool_flush(spool);
    spool_release_reserve(spool);
    if (spool->fd >= 0)
        close(spool->fd);
    if (spool->dir_fd >= 0)
        close(spool->dir_fd);
    spool->fd = spool->dir_fd = -1;
    buf_done(&spool->pending);
}

/* Drops what was read of a line that is too long, and passes over holes: there is no end of a line in them. */
static void reader_skip_on(struct spool_reader *reader)
{
    reader->unread += !reader->skips;
    reader->skips = true;
    reader->offset += reader->bytes.len;
    buf_clear(&reader->bytes);
    off_t at = lseek(reader->fd, (off_t)reader->offset, SEEK_DATA);
    if (at < 0 && errno == ENXIO)
        at = lseek(reader->fd, 0, SEEK_END);
    if (at >= (off_t)reader->offset)
        reader->offset = (uint64_t)at;
    else
        lseek(reader->fd, (off_t)reader->offset, SEEK_SET);
}

/* The start of the next line in *ret_line, or false when there is no whole one. */
static bool next_line(struct spool_reader *reader, struct span *ret_line)
{
    size_t searched = 0;
    for (;;) {
        char *start = reader->bytes.data + reader->used;
        size_t have = reader->bytes.len - reader->used;
        char *end = have > searched ? memchr(start + searched, '\n', have - searched) : NULL;
        if (end && reader->skips) {
            reader->used += (size_t)(end - start) + 1;
            reader->offset += (size_t)(end - start) + 1;
            reader->line++;
            reader->skips = false;
            searched = 0;
            continue;
        }
        if (end) {
            *ret_line = span_of(start, (size_t)(end - start));
            reader->used += ret_line->len + 1;
            reader->offset += ret_line->len + 1;
            reader->line++;
            return true;
        }
        searched = have;
        if (reader->used) {
            buf_drop(&reader->bytes, reader->used);
            reader->used = 0;
        }
        if (have > reader->line_most) {
            reader_skip_on(reader);
            if (reader->in_pieces)
                return false;
            searched = 0;
        }
        char *room = buf_reserve(&reader->bytes, 64 << 10);
        ssize_t got = room ? read(reader->fd, room, 64 << 10) : -1;
        if (got <= 0)
            return false;
        reader->bytes.len += (size_t)got;
    }
}

static json_t *parse_record(struct span line)
{
    json_t *json = json_loadb(line.ptr, line.len, 0, NULL);
    if (json_is_object(json) && json_is_string(json_object_get(json, "type")) &&
        json_is_number(json_object_get(json, "t")))
        return json;
    json_decref(json);
    return NULL;
}

static int read_header(struct spool_reader *reader, const char *file, struct err *err)
{
    struct span line;
    if (!next_line(reader, &line))
        return 0; /* empty, or cut off in its first line: no records yet */
    json_t *json = parse_record(line);
    const char *format = json_string_value(json_object_get(json, "format"));
    json_int_t version = json_integer_value(json_object_get(json, "version"));
    int code = 0;
    if (!format || strcmp(format, "scry-spool") != 0)
        reader->unread++;
    else if (version != SPOOL_VERSION)
        code = err_set(err, -EPROTO, "%s is in format %lld; this scry %s reads format %d: use the scry that wrote it",
                       file, (long long)version, SCRY_VERSION, SPOOL_VERSION);
    else
        reader->header_seen = true;
    if (reader->header_seen)
        reader->first =
            json_pack("{s:O?, s:O?}", "job", json_object_get(json, "job"), "node", json_object_get(json, "node"));
    json_decref(json);
    if (code == 0 && reader->header_seen) { /* handed out like any other record */
        reader->used -= line.len + 1;
        reader->offset -= line.len + 1;
        reader->line--;
    }
    return code;
}

int spool_reader_open(struct spool_reader *ret_reader, const char *path, struct err *err)
{
    char file[PATH_MAX];
    *ret_reader = (struct spool_reader){.fd = -1, .line_most = HEADER_MOST, .in_pieces = true};
    if ((size_t)snprintf(file, sizeof file, "%s/spool/records.jsonl", path) >= sizeof file)
        return err_set(err, -ENAMETOOLONG, "%s: too long", path);
    ret_reader->fd = file_open_read(file);
    if (ret_reader->fd < 0)
        return err_errno(err, ret_reader->fd, "cannot read %s", file);
    if (!buf_reserve(&ret_reader->bytes, 4096))
        return err_set(err, -ENOMEM, "out of memory");
    int code = read_header(ret_reader, file, err);
    ret_reader->line_most = SPOOL_LINE_LIMIT;
    ret_reader->in_pieces = false;
    return code;
}

json_t *spool_reader_next(struct spool_reader *reader)
{
    struct span line;
    while (reader->fd >= 0 && next_line(reader, &line)) {
        json_t *record = parse_record(line);
        reader->last = line;
        if (record)
            return record;
        reader->unread++;
    }
    return NULL;
}

void spool_reader_complete(const struct spool_reader *reader, json_t *record)
{
    enum record_type type = record_type(record);
    if (reader->first)
        json_object_update_missing(record, reader->first);
    if (type < RECORD_TYPES && !json_object_get(record, "stream"))
        json_object_set_new(record, "stream", json_string(record_stream_name(record_kinds[type].stream)));
}

int spool_reader_seek(struct spool_reader *reader, uint64_t offset)
{
    if (lseek(reader->fd, (off_t)offset, SEEK_SET) < 0)
        return -errno;
    buf_clear(&reader->bytes);
    reader->used = 0;
    reader->offset = offset;
    reader->skips = false;
    return 0;
}

size_t spool_reader_rest(const struct spool_reader *reader)
{
    return reader->bytes.len - reader->used;
}

void spool_reader_close(struct spool_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    reader->fd = -1;
    json_decref(reader->first);
    reader->first = NULL;
    buf_done(&reader->bytes);
}
