/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/mirror.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/output.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Where mirrors are, and the end of those that nobody uses. */

enum { NAME_BYTES = 200 };

/* A name of letters, digits, "-", "_" and ".", not at the start; each other byte is % and two digits. If that is too long
 * for a file, the end of it is a hash. */
static void put_name(struct buf *out, const char *text)
{
    size_t start = out->len;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (const char *at = text; *at; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
        if (isalnum((unsigned char)*at) || *at == '-' || *at == '_' || (*at == '.' && at > text))
            buf_putc(out, *at);
        else
            buf_printf(out, "%%%02X", (unsigned char)*at);
    }
    if (!*text)
        buf_putc(out, '%');
    if (out->len - start > NAME_BYTES && !out->failed) {
        out->len = start + NAME_BYTES;
        buf_printf(out, "%%%016llx", (unsigned long long)hash);
    }
}

int mirror_path(const char *via, const char *owner, const char *job, char *ret_path, size_t size, struct err *err)
{
    char root[PATH_MAX];
    int code = dirs_cache("mirrors", root, sizeof root, err);
    if (code < 0)
        return code;
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    buf_puts(&path, root);
    for (int i = 0; i < 3; i++) {
        buf_putc(&path, '/');
        put_name(&path, i == 0 ? via : i == 1 ? owner : job);
    }
    if (path.failed)
        return err_set(err, -ENOMEM, "out of memory");
    if (path.len >= size)
        return err_set(err, -ENAMETOOLONG, "the path of the mirror is too long: set SCRY_CACHE_DIR");
    memcpy(ret_path, path.data, path.len + 1);
    return 0;
}

bool mirror_is_kept(const char *real_path)
{
    char root[PATH_MAX];
    _cleanup_(freep) char *real = dirs_cache("mirrors", root, sizeof root, NULL) == 0 ? realpath(root, NULL) : NULL;
    size_t len = real ? strlen(real) : 0;
    return real && strncmp(real_path, real, len) == 0 && real_path[len] == '/';
}

/* Locks the mirror in an existing directory, and marks it as used. The lock ends when *ret_fd is closed. 0,
 * -EWOULDBLOCK, -errno. */
static int mirror_lock(const char *path, int *ret_fd, struct err *err)
{
    char file[PATH_MAX];
    if ((size_t)snprintf(file, sizeof file, "%s/mirror.lock", path) >= sizeof file)
        return err_set(err, -ENAMETOOLONG, "%s: too long", path);
    for (;;) {
        _cleanup_(closep) int fd = file_open_own(AT_FDCWD, file, O_RDWR | O_CREAT);
        if (fd < 0)
            return err_errno(err, fd, "cannot make %s", file);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
            return errno == EWOULDBLOCK ? err_set(err, -EWOULDBLOCK, "another process writes the mirror %s", path)
                                        : err_errno(err, -errno, "cannot lock %s", file);
        if (!file_is_at(file, fd)) /* it was removed just before */
            continue;
        futimens(fd, NULL); /* used now */
        *ret_fd = TAKE_FD(fd);
        return 0;
    }
}

int mirror_remove(const char *path, struct err *err)
{
    _cleanup_(closep) int lock = -1;
    bool kept;
    int code = mirror_lock(path, &lock, err);
    return code < 0 ? code : jobdir_remove(path, &kept, err);
}

/* ---- those that nobody uses ---- */

static void remove_unused(const char *path)
{
    char file[PATH_MAX];
    struct stat st;
    bool is_path = (size_t)snprintf(file, sizeof file, "%s/mirror.lock", path) < sizeof file;
    if (is_path && lstat(file, &st) == 0 && difftime(time(NULL), st.st_mtime) > MIRROR_UNUSED_SECONDS)
        mirror_remove(path, NULL);
}

static void look_below(const char *path, int levels)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char below[PATH_MAX];
        if (entry->d_name[0] == '.' ||
            (size_t)snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >= sizeof below)
            continue;
        if (levels)
            look_below(below, levels - 1);
        else
            remove_unused(below);
    }
    if (dir)
        closedir(dir);
    if (levels < 2)
        rmdir(path); /* if it is empty now */
}

/* Removes mirrors that nobody used for 30 days. Looks for some once an hour. */
static void mirrors_remove_unused(void)
{
    char root[PATH_MAX], stamp[PATH_MAX];
    struct stat st;
    if (dirs_cache("mirrors", root, sizeof root, NULL) < 0 ||
        (size_t)snprintf(stamp, sizeof stamp, "%s/.looked", root) >= sizeof stamp ||
        (lstat(stamp, &st) == 0 && fabs(difftime(time(NULL), st.st_mtime)) < MIRROR_LOOK_SECONDS))
        return;
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, stamp, O_WRONLY | O_CREAT);
    if (fd >= 0)
        futimens(fd, NULL);
    look_below(root, 2);
}

json_t *mirror_read_remote(const char *path)
{
    char file[PATH_MAX];
    _cleanup_(freep) char *bytes = NULL;
    size_t len;
    if ((size_t)snprintf(file, sizeof file, "%s/remote.json", path) >= sizeof file ||
        file_read_plain(file, &bytes, &len) < 0)
        return NULL;
    json_t *json = json_loadb(bytes, len, 0, NULL);
    if (json_is_object(json))
        return json;
    json_decref(json);
    return json_object(); /* damaged: a mirror of which nothing is known */
}

enum {
    FLUSH_BYTES = 256 << 10,
    PENDING_BYTES = 1 << 20, /* that the disk did not take; then records are refused */
    HELD_BYTES = 48 << 20,
    HELD_RECORDS = 100000,
    NAME_PARTS = 8, /* of a file's name */
};

struct held {
    uint64_t seq;
    UT_hash_handle hh;
    double seconds;
    size_t len;
    char line[]; /* with its end */
};

struct mirror {
    char path[PATH_MAX];
    int fd, lock;
    uint64_t size_bytes; /* of the spool, whole lines only */
    uint64_t next, end;
    struct held *held; /* hash by seq, all of them behind next */
    size_t held_bytes;
    struct buf pending;
    double seconds;             /* of the last record that was written */
    char *job, *node;           /* of the records; NULL: unknown yet */
    char *job_text, *node_text; /* the same as JSON */
    char *gap; /* why records before `next` are missing, while the gap's end is not known; NULL: none are */
};

uint64_t mirror_next(const struct mirror *mirror)
{
    return mirror->next;
}

uint64_t mirror_end(const struct mirror *mirror)
{
    return mirror->end > mirror->next ? mirror->end : mirror->next;
}

uint64_t mirror_held(const struct mirror *mirror)
{
    uint64_t first = UINT64_MAX;
    for (const struct held *each = mirror->held; each; each = each->hh.next)
        first = each->seq < first ? each->seq : first;
    return first;
}

uint64_t mirror_lacks_to(const struct mirror *mirror)
{
    uint64_t to = mirror_end(mirror);
    for (const struct held *held; to > mirror->next; to--) {
        uint64_t before = to - 1;
        HASH_FIND(hh, mirror->held, &before, sizeof before, held);
        if (!held)
            break;
    }
    return to;
}

/* ---- writing ---- */

int mirror_flush(struct mirror *mirror)
{
    const char *at = mirror->pending.data;
    size_t left = mirror->pending.len;
    off_t to = (off_t)mirror->size_bytes;
    while (left) {
        ssize_t put = pwrite(mirror->fd, at, left, to);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int code = put < 0 ? -errno : -EIO;
            int cut = ftruncate(mirror->fd, (off_t)mirror->size_bytes); /* no half record, as far as possible */
            (void)cut;
            return code;
        }
        at += put;
        to += put;
        left -= (size_t)put;
    }
    mirror->size_bytes = (uint64_t)to;
    buf_clear(&mirror->pending);
    return 0;
}

static void put_line(struct mirror *mirror, const char *line, size_t len, uint64_t seq, double seconds)
{
    buf_append(&mirror->pending, line, len);
    mirror->next = seq + 1;
    mirror->seconds = seconds;
}

/* What says that nothing is known before `mirror->next`, up to `seconds`. */
static void put_gap(struct mirror *mirror, double seconds)
{
    if (!mirror->gap)
        return;
    uint64_t seq = mirror->next - 1;
    double from = mirror->seconds < seconds ? mirror->seconds : seconds;
    json_t *gap = record_json(RECORD(gap, .from = from, .to = seconds, .reason = mirror->gap));
    if (gap) {
        json_object_set_new(gap, "t", json_real(seconds));
        spool_line_take(gap, seq, &mirror->pending);
        mirror->seconds = seconds;
    }
    free(mirror->gap);
    mirror->gap = NULL;
}

/* The spool starts with what it is, also where that is lost. */
static void put_first(struct mirror *mirror)
{
    json_t *first = record_json(RECORD(spool, .format = "scry-spool", .version = SPOOL_VERSION,
                                       .job = mirror->job ? mirror->job : "", .node = mirror->node));
    if (!first)
        return;
    json_object_set_new(first, "t", json_real(0));
    spool_line_take(first, 0, &mirror->pending);
}

/* Writes those that are in order now. */
static void put_held(struct mirror *mirror)
{
    for (struct held *held;; free(held)) {
        HASH_FIND(hh, mirror->held, &mirror->next, sizeof mirror->next, held);
        if (!held)
            return;
        put_gap(mirror, held->seconds);
        HASH_DEL(mirror->held, held);
        mirror->held_bytes -= held->len;
        put_line(mirror, held->line, held->len, held->seq, held->seconds);
    }
}

static int out_of_memory_or_flush(struct mirror *mirror)
{
    if (mirror->pending.failed)
        return -ENOMEM;
    return mirror->pending.len > FLUSH_BYTES ? mirror_flush(mirror) : 0;
}

/* ---- records ---- */

/* Whether it is one that the spool may have, as far as that can be seen. */
static bool is_record(const struct mirror *mirror, const json_t *record)
{
    const json_t *seq = json_object_get(record, "seq");
    const char *job = member_string(record, "job"), *format = member_string(record, "format");
    if (!json_is_integer(seq) || json_integer_value(seq) < 0 ||
        (uint64_t)json_integer_value(seq) >= (uint64_t)SPOOL_MOST_SEQ || !member_string(record, "type") ||
        !json_is_number(json_object_get(record, "t")))
        return false;
    if (job && mirror->job && strcmp(job, mirror->job) != 0)
        return false;
    return json_integer_value(seq) != 0 || (format && strcmp(format, "scry-spool") == 0);
}

/* One that was too long for a message is a gap: its type has members that are not there. */
static json_t *gap_of(const json_t *record)
{
    char why[160];
    double seconds = member_number(record, "t");
    snprintf(why, sizeof why, "a record of type %.40s with %lld bytes is too long for a broker",
             member_string(record, "type"), (long long)json_integer_value(json_object_get(record, "omitted")));
    json_t *gap = record_json(RECORD(gap, .from = seconds, .to = seconds, .reason = why));
    json_object_set_new(gap, "t", json_real(seconds));
    return gap;
}

static int mirror_hold(struct mirror *mirror, const char *line, size_t len, uint64_t seq, double seconds)
{
    struct held *held;
    HASH_FIND(hh, mirror->held, &seq, sizeof seq, held);
    if (held)
        return -EEXIST;
    if (mirror->held_bytes + len > HELD_BYTES || HASH_COUNT(mirror->held) >= HELD_RECORDS)
        return 0;
    held = malloc(sizeof *held + len);
    if (!held)
        return -ENOMEM;
    *held = (struct held){.seq = seq, .seconds = seconds, .len = len};
    memcpy(held->line, line, len);
    HASH_ADD(hh, mirror->held, seq, sizeof held->seq, held);
    mirror->held_bytes += len;
    return 0;
}

static void keep_head(struct mirror *mirror, const json_t *record)
{
    const char *job = member_string(record, "job"), *node = member_string(record, "node");
    if (!mirror->job && job) {
        mirror->job = strdup(job);
        mirror->job_text = json_dumps(json_object_get(record, "job"), JSON_ENCODE_ANY | JSON_COMPACT);
    }
    if (!mirror->node && node) {
        mirror->node = strdup(node);
        mirror->node_text = json_dumps(json_object_get(record, "node"), JSON_ENCODE_ANY | JSON_COMPACT);
    }
}

/* What a published record has before the text of the spool: {"job":J,"node":N,"stream":S, and the file says once, or by
 * the type. So the mirror's spool becomes the same as the job's. Returns how many bytes. */
static size_t head_len(const struct mirror *mirror, struct span line, const json_t *record)
{
    enum record_type type = record_type(record);
    _cleanup_(buf_done) struct buf head = BUF_INIT;
    if (type == RECORD_TYPES || !mirror->job_text || !mirror->node_text)
        return 0;
    buf_putc(&head, '{');
    if (type != RECORD_spool)
        buf_printf(&head, "\"job\":%s,\"node\":%s,", mirror->job_text, mirror->node_text);
    buf_printf(&head, "\"stream\":\"%s\",", record_stream_name(record_kinds[type].stream));
    return !head.failed && line.len > head.len && memcmp(line.ptr, head.data, head.len) == 0 ? head.len : 0;
}

static int mirror_take_record(struct mirror *mirror, struct span line, const json_t *record)
{
    uint64_t seq = (uint64_t)json_integer_value(json_object_get(record, "seq"));
    double seconds = member_number(record, "t");
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (mirror->pending.failed)
        return -ENOMEM;
    if (seq < mirror->next)
        return -EEXIST;
    keep_head(mirror, record);
    if (mirror->pending.len > PENDING_BYTES) {
        int code = mirror_flush(mirror);
        if (code < 0)
            return code;
    }
    if (seq && json_object_get(record, "omitted")) {
        spool_line_take(gap_of(record), seq, &text);
    } else {
        size_t head = head_len(mirror, line, record);
        if (head)
            buf_putc(&text, '{');
        buf_append(&text, line.ptr + head, line.len - head);
        buf_putc(&text, '\n');
    }
    if (text.failed || !text.len)
        return -ENOMEM;
    mirror->end = seq + 1 > mirror->end ? seq + 1 : mirror->end;
    if (seq > mirror->next)
        return mirror_hold(mirror, text.data, text.len, seq, seconds);
    put_gap(mirror, seconds);
    put_line(mirror, text.data, text.len, seq, seconds);
    put_held(mirror);
    return out_of_memory_or_flush(mirror);
}

int mirror_record(struct mirror *mirror, struct span line)
{
    if (line.len > SPOOL_LINE_LIMIT || memchr(line.ptr, '\n', line.len))
        return -EBADMSG;
    json_t *record = json_loadb(line.ptr, line.len, 0, NULL);
    int code = is_record(mirror, record) ? mirror_take_record(mirror, line, record) : -EBADMSG;
    json_decref(record);
    return code;
}

static int by_seq(const struct held *a, const struct held *b)
{
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Those from mirror->next to before `to` are missing, and what they are is said with the next record. */
static void mirror_miss(struct mirror *mirror, uint64_t to, const char *why)
{
    if (to <= mirror->next)
        return;
    if (mirror->next == 0)
        put_first(mirror);
    mirror->next = to;
    if (to > 1 && !mirror->gap)
        mirror->gap = strdup(why);
}

int mirror_skip(struct mirror *mirror, uint64_t to, const char *why)
{
    to = to < (uint64_t)SPOOL_MOST_SEQ ? to : (uint64_t)SPOOL_MOST_SEQ;
    HASH_SORT(mirror->held, by_seq);
    while (mirror->next < to) {
        uint64_t held = mirror->held ? mirror->held->seq : to; /* the first: they stay in order */
        mirror_miss(mirror, held < to ? held : to, why);
        put_held(mirror);
    }
    mirror->end = mirror->next > mirror->end ? mirror->next : mirror->end;
    return out_of_memory_or_flush(mirror);
}

/* ---- files ---- */

static bool is_name(const char *name)
{
    static const char *const refused[] = {"spool", "trace", "remote.json", "mirror.lock", "clock.json"};
    int parts = 0;
    if (strlen(name) >= PATH_MAX / 2)
        return false;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcspn(name, "/") == strlen(refused[i]) && strncmp(name, refused[i], strlen(refused[i])) == 0)
            return false;
    for (const char *at = name;; at++) {
        size_t len = strcspn(at, "/");
        if (!len || at[0] == '.' || len > NAME_MAX - 16 ||
            ++parts > NAME_PARTS) /* also hidden ones: those are scry's */
            return false;
        at += len;
        if (!*at)
            return true;
    }
}

/* What a part has of a mirror. *ret_offset: of a piece of its spool, or -1. */
static bool is_part_name(const char *name, int64_t *ret_offset)
{
    static const char *const single[] = {"job.json", "report.txt", "profile.json", "clock.json", "remote.json", NULL};
    const char *in = strchr(name + strlen("parts/"), '/');
    in = in ? in + 1 : "";
    *ret_offset = -1;
    if (text_is_one(in, single))
        return true;
    if (strncmp(in, MIRROR_PART_SPOOL, strlen(MIRROR_PART_SPOOL)) != 0)
        return strncmp(in, "stats/", strlen("stats/")) == 0;
    in += strlen(MIRROR_PART_SPOOL);
    if (strspn(in, "0123456789") != strlen(in) || !*in || strlen(in) > 10)
        return false;
    *ret_offset = strtoll(in, NULL, 10);
    return *ret_offset % MIRROR_PIECE == 0 && *ret_offset / MIRROR_PIECE < MIRROR_PIECES;
}

/* It is written where it belongs: pieces may come in any order, and the last one grows. */
static int put_piece(char *path, int64_t offset, struct span bytes)
{
    *strrchr(path, '+') = 0;
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT);
    if (fd < 0 || bytes.len > MIRROR_PIECE)
        return fd < 0 ? fd : -EINVAL;
    while (bytes.len) {
        ssize_t put = pwrite(fd, bytes.ptr, bytes.len, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -ENOSPC;
        offset += put;
        bytes = span_of(bytes.ptr + put, bytes.len - (size_t)put);
    }
    return 0;
}

int mirror_file(struct mirror *mirror, const char *name, struct span bytes)
{
    char path[PATH_MAX];
    int64_t offset = -1;
    if (!is_name(name) || strcmp(name, "parts") == 0 ||
        (strncmp(name, "parts/", strlen("parts/")) == 0 && !is_part_name(name, &offset)) ||
        (size_t)snprintf(path, sizeof path, "%s/%s", mirror->path, name) >= sizeof path)
        return -EINVAL;
    char *slash = strrchr(path, '/');
    *slash = 0;
    int code = dirs_make(path, 0700);
    *slash = '/';
    if (code == 0)
        code = offset < 0 ? file_replace_soon(path, bytes.ptr, bytes.len, 0600) : put_piece(path, offset, bytes);
    if (code == 0 && strncmp(name, OUTPUT_DIR "/", strlen(OUTPUT_DIR "/")) == 0)
        output_trim(mirror->path, name + strlen(OUTPUT_DIR "/"));
    return code;
}

int mirror_remote(struct mirror *mirror, const json_t *remote)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *text = json_dumps(remote, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    if (!text)
        return -ENOMEM;
    if ((size_t)snprintf(path, sizeof path, "%s/remote.json", mirror->path) >= sizeof path)
        return -ENAMETOOLONG;
    return file_replace_soon(path, text, strlen(text), 0600);
}

/* ---- opening and closing ---- */

/* The last whole record of `bytes`, whose line ends before *ret_end; NULL: there is none. */
static json_t *last_record(const char *bytes, size_t len, size_t *ret_end)
{
    while (len) {
        const char *end = memrchr(bytes, '\n', len);
        if (!end)
            return NULL;
        const char *start = memrchr(bytes, '\n', (size_t)(end - bytes));
        start = start ? start + 1 : bytes;
        json_t *record = json_loadb(start, (size_t)(end - start), 0, NULL);
        if (json_is_integer(json_object_get(record, "seq"))) {
            *ret_end = (size_t)(end - bytes) + 1;
            return record;
        }
        json_decref(record);
        len = (size_t)(start - bytes);
    }
    return NULL;
}

/* What is behind the last whole record was not written to its end, and is overwritten. */
static int find_end(struct mirror *mirror)
{
    struct stat st;
    if (fstat(mirror->fd, &st) < 0)
        return -errno;
    uint64_t size = (uint64_t)st.st_size, look = 64 << 10;
    size_t end = 0;
    for (json_t *record = NULL; size && !record; look *= 8) {
        uint64_t from = look < size ? size - look : 0;
        _cleanup_(freep) char *bytes = malloc(size - from);
        if (!bytes)
            return -ENOMEM;
        ssize_t got = pread(mirror->fd, bytes, size - from, (off_t)from);
        if (got < 0)
            return -errno;
        record = last_record(bytes, (size_t)got, &end);
        if (record) {
            mirror->size_bytes = from + end;
            mirror->next = mirror->end = (uint64_t)json_integer_value(json_object_get(record, "seq")) + 1;
            mirror->seconds = member_number(record, "t");
            json_decref(record);
        } else if (!from || look > SPOOL_LINE_LIMIT) {
            break;
        }
    }
    return ftruncate(mirror->fd, (off_t)mirror->size_bytes) < 0 ? -errno : 0;
}

static int open_spool(struct mirror *mirror, struct err *err)
{
    char file[PATH_MAX];
    struct spool_reader reader;
    if ((size_t)snprintf(file, sizeof file, "%s/spool", mirror->path) >= sizeof file)
        return err_set(err, -ENAMETOOLONG, "%s: too long", mirror->path);
    if (mkdir(file, 0700) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "cannot make %s", file);
    if ((size_t)snprintf(file, sizeof file, "%s/spool/records.jsonl", mirror->path) >= sizeof file)
        return err_set(err, -ENAMETOOLONG, "%s: too long", mirror->path);
    mirror->fd = file_open_own(AT_FDCWD, file, O_RDWR | O_CREAT);
    int code = mirror->fd < 0 ? mirror->fd : find_end(mirror);
    if (code < 0)
        return err_errno(err, code, "cannot use %s", file);
    if (spool_reader_open(&reader, mirror->path, NULL) == 0)
        keep_head(mirror, reader.first);
    spool_reader_close(&reader);
    return 0;
}

int mirror_open(struct mirror **ret_mirror, const char *path, struct err *err)
{
    if (strlen(path) >= PATH_MAX - 64)
        return err_set(err, -ENAMETOOLONG, "%s: too long", path);
    bool is_new = access(path, F_OK) < 0;
    int code = dirs_make(path, 0700);
    if (code < 0)
        return err_errno(err, code, "cannot make the mirror %s", path);
    struct mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return err_set(err, -ENOMEM, "out of memory");
    mirror->fd = mirror->lock = -1;
    snprintf(mirror->path, sizeof mirror->path, "%s", path);
    code = mirror_lock(path, &mirror->lock, err);
    if (code == 0)
        code = open_spool(mirror, err);
    if (code < 0) {
        mirror_close(mirror);
        return code;
    }
    if (is_new)
        mirrors_remove_unused();
    *ret_mirror = mirror;
    return 0;
}

void mirror_close(struct mirror *mirror)
{
    if (!mirror)
        return;
    put_gap(mirror, mirror->seconds);
    if (mirror->fd >= 0) {
        mirror_flush(mirror);
        close(mirror->fd);
    }
    if (mirror->lock >= 0)
        close(mirror->lock);
    HASH_FREE_ALL(mirror->held);
    buf_done(&mirror->pending);
    free(mirror->job);
    free(mirror->node);
    free(mirror->job_text);
    free(mirror->node_text);
    free(mirror->gap);
    free(mirror);
}
