/* SPDX-License-Identifier: Apache-2.0 */
#include "publish/feed.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/parts.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t NS_PER_MS = 1000000;
enum { LATER_STREAM = STREAM_COUNT };

/* ---- the spool ---- */

static void put_text(struct buf *out, const char *text)
{
    json_t *json = json_string(text);
    _cleanup_(freep) char *said = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    json_decref(json);
    buf_puts(out, said ? said : "null");
}

int follow_open(struct follow *follow, const char *dir, struct err *err)
{
    static const char *const names[2] = {"job", "node"};
    if (follow->open)
        return 0;
    struct spool_reader reader;
    int code = spool_reader_open(&reader, dir, err);
    if (code == 0 && !reader.first)
        code = -ENOENT; /* its first line is not there yet */
    if (code < 0) {
        spool_reader_close(&reader);
        return code;
    }
    follow->reader = reader;
    follow->open = true;
    for (size_t i = 0; i < 2; i++)
        put_text(&follow->head[i], member_text(reader.first, names[i]));
    return 0;
}

void follow_done(struct follow *follow)
{
    if (follow->open)
        spool_reader_close(&follow->reader);
    for (size_t i = 0; i < FOLLOW_STREAMS; i++)
        buf_done(&follow->batches[i].lines);
    buf_done(&follow->out.lines);
    buf_done(&follow->head[0]);
    buf_done(&follow->head[1]);
    free(follow->marks);
    *follow = (struct follow){0};
}

/* Topics of our own, and what may not be a level. */
static bool is_stream_name(const char *name)
{
    static const char *const taken[] = {"state", "beat", "file", "ask", "again", "stored", "request", "reply", "keys"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(name, taken[i]) == 0)
            return false;
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz");
    return len > 0 && len < 32 && !name[len];
}

static unsigned record_stream_of(const json_t *record, enum record_type type, char ret_name[32])
{
    const char *said = json_string_value(json_object_get(record, "stream"));
    unsigned stream = type < RECORD_TYPES ? record_kinds[type].stream : LATER_STREAM;
    for (unsigned i = 0; said && i < STREAM_COUNT; i++)
        if (strcmp(said, record_stream_name((enum record_stream)i)) == 0)
            stream = i;
    if (stream == LATER_STREAM && (!said || !is_stream_name(said)))
        stream = STREAM_JOB;
    snprintf(ret_name, 32, "%s", stream == LATER_STREAM ? said : record_stream_name((enum record_stream)stream));
    return stream;
}

/* Appends the record that `reader` has just returned as a line for readers without its file. `head` as in struct
 * follow. Returns its stream; *ret_name, *ret_figures as in struct batch. */
static unsigned follow_line(const struct buf head[2], const struct spool_reader *reader, const json_t *record,
                            struct buf *out, char ret_name[32], bool *ret_figures)
{
    enum record_type type = record_type(record);
    unsigned stream = record_stream_of(record, type, ret_name);
    *ret_figures = type == RECORD_sample || type == RECORD_health;
    buf_putc(out, '{');
    if (!json_object_get(record, "job"))
        buf_printf(out, "\"job\":%s,", head[0].data);
    if (!json_object_get(record, "node"))
        buf_printf(out, "\"node\":%s,", head[1].data);
    if (!json_object_get(record, "stream"))
        buf_printf(out, "\"stream\":\"%s\",", ret_name);
    if (reader->last.len <= FOLLOW_RECORD_BYTES) {
        const char *open = memchr(reader->last.ptr, '{', reader->last.len); /* blanks may stand before it */
        buf_append(out, open + 1, reader->last.len - (size_t)(open + 1 - reader->last.ptr));
    } else {
        json_t *rest = json_pack("{s:O, s:O, s:O?, s:I}", "type", json_object_get(record, "type"), "t",
                                 json_object_get(record, "t"), "seq", json_object_get(record, "seq"), "omitted",
                                 (json_int_t)reader->last.len);
        _cleanup_(freep) char *text = rest ? json_dumps(rest, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
        json_decref(rest);
        buf_puts(out, text ? text + 1 : "\"type\":\"?\",\"t\":0}");
    }
    buf_putc(out, '\n');
    return stream;
}

/* What was gathered is now to be sent. */
static void batch_put_out(struct follow *follow, struct batch *batch)
{
    struct buf empty = follow->out.lines;
    buf_clear(&empty);
    follow->out = *batch;
    follow->ready = true;
    *batch = (struct batch){.lines = empty};
}

static void follow_mark_at(struct follow *follow, uint64_t seq, uint64_t offset)
{
    uint64_t last = follow->mark_count ? follow->marks[follow->mark_count - 1].offset : 0;
    if (offset >= last + FOLLOW_MARK_BYTES && GROW(follow->marks, follow->mark_count, follow->mark_room))
        follow->marks[follow->mark_count++] = (struct follow_mark){seq, offset};
}

/* Puts the record into its stream's batch. */
static void follow_take(struct follow *follow, const json_t *record, uint64_t offset, uint64_t now_ns)
{
    json_t *number = json_object_get(record, "seq");
    char name[32];
    bool figures;
    if (!json_is_integer(number) || json_integer_value(number) < 0 || json_integer_value(number) >= SPOOL_MOST_SEQ)
        return;
    uint64_t seq = (uint64_t)json_integer_value(number);
    if (seq >= follow->next_seq) {
        follow->next_seq = seq + 1;
        follow_mark_at(follow, seq, offset);
    }
    struct buf line = BUF_INIT;
    unsigned stream = follow_line(follow->head, &follow->reader, record, &line, name, &figures);
    struct batch *batch = &follow->batches[stream];
    if (seq >= follow->confirmed[stream] && !line.failed) {
        bool other = batch->figures != figures || strcmp(batch->name, name) != 0;
        if (batch->lines.len && (other || batch->lines.len + line.len > FOLLOW_BATCH_BYTES))
            batch_put_out(follow, batch);
        if (batch->lines.len == 0) {
            struct buf room = batch->lines;
            *batch = (struct batch){.lines = room,
                                    .stream = stream,
                                    .figures = figures,
                                    .first_seq = seq,
                                    .offset = offset,
                                    .since_ns = now_ns};
            snprintf(batch->name, sizeof batch->name, "%s", name);
        }
        batch->last_seq = seq;
        buf_append(&batch->lines, line.data, line.len);
    }
    buf_done(&line);
}

static struct batch *follow_oldest(const struct follow *follow)
{
    const struct batch *found = NULL;
    for (size_t i = 0; i < FOLLOW_STREAMS; i++) {
        const struct batch *batch = &follow->batches[i];
        if (batch->lines.len && (!found || batch->since_ns < found->since_ns ||
                                 (batch->since_ns == found->since_ns && batch->first_seq < found->first_seq)))
            found = batch;
    }
    return (struct batch *)found;
}

const struct batch *follow_next(struct follow *follow, uint64_t now_ns, bool idle)
{
    bool end = !follow->open;
    while (!follow->ready && !end) {
        uint64_t offset = follow->reader.offset;
        json_t *record = spool_reader_next(&follow->reader);
        end = !record;
        if (record)
            follow_take(follow, record, offset, now_ns);
        json_decref(record);
    }
    struct batch *batch = follow->ready ? NULL : follow_oldest(follow);
    if (batch && (idle || now_ns - batch->since_ns >= FOLLOW_BATCH_MS * NS_PER_MS))
        batch_put_out(follow, batch);
    return follow->ready ? &follow->out : NULL;
}

void follow_sent(struct follow *follow)
{
    follow->ready = false;
    buf_clear(&follow->out.lines);
}

uint64_t follow_due_ns(const struct follow *follow)
{
    const struct batch *batch = follow_oldest(follow);
    return batch ? batch->since_ns + FOLLOW_BATCH_MS * NS_PER_MS : 0;
}

void follow_confirm(struct follow *follow, unsigned stream, uint64_t end_seq)
{
    if (follow->confirmed[stream] < end_seq)
        follow->confirmed[stream] = end_seq;
}

uint64_t follow_unsent(const struct follow *follow, uint64_t offset)
{
    for (size_t i = 0; i < FOLLOW_STREAMS; i++)
        if (follow->batches[i].lines.len && follow->batches[i].offset < offset)
            offset = follow->batches[i].offset;
    return follow->ready && follow->out.offset < offset ? follow->out.offset : offset;
}

void follow_rewind(struct follow *follow, uint64_t offset)
{
    if (!follow->open || spool_reader_seek(&follow->reader, offset) < 0)
        return;
    for (size_t i = 0; i < FOLLOW_STREAMS; i++)
        buf_clear(&follow->batches[i].lines);
    follow_sent(follow);
}

/* Where to look for a record: an offset before it, where a line begins. */
static uint64_t follow_find(const struct follow *follow, uint64_t seq)
{
    uint64_t offset = 0;
    for (size_t low = 0, high = follow->mark_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (follow->marks[middle].seq <= seq) {
            offset = follow->marks[middle].offset;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return offset;
}

/* ---- small files ---- */

enum { FILES_DEPTH_MOST = 4 };
void files_init(struct files *files, const char *dir, const struct job_info *info, const char *hide_args)
{
    *files = (struct files){.dir = dir, .info = info, .hide = info ? hide_args_new(hide_args) : NULL};
    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        files->printed[i].fd = -1;
}

void files_done(struct files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->list[i].path);
    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        closep(&files->printed[i].fd);
    hide_args_free(files->hide);
    free(files->list);
    *files = (struct files){0};
}

/* Greater than all before, also those of a publisher that was killed. */
static uint64_t files_next_version(struct files *files)
{
    uint64_t now = clock_wall_ns() / NS_PER_MS;
    files->version = now > files->version ? now : files->version + 1;
    return files->version;
}

/* FNV-1a: most paths begin alike. */
static uint32_t hash_of(const char *path)
{
    uint32_t hash = 2166136261;
    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * 16777619;
    return hash;
}

static struct small_file *files_entry(struct files *files, const char *path, int64_t piece)
{
    uint32_t hash = hash_of(path);
    for (size_t i = 0; i < files->count; i++) {
        size_t at = files->next + i < files->count ? files->next + i : files->next + i - files->count;
        if (files->list[at].hash == hash && strcmp(files->list[at].path, path) == 0) {
            files->next = at + 1;
            return &files->list[at];
        }
    }
    char *copy = files->count < FILES_MOST && GROW(files->list, files->count, files->room) ? strdup(path) : NULL;
    if (!copy)
        return NULL;
    files->list[files->count] = (struct small_file){.path = copy, .hash = hash, .piece = piece};
    return &files->list[files->count++];
}

static void files_look_at(struct files *files, const char *path, int64_t piece, const struct stat *st, uint64_t now_ns,
                          bool all)
{
    struct small_file *file = files_entry(files, path, piece);
    int64_t changed_ns = st->st_mtim.tv_sec * (int64_t)NS_PER_SECOND + st->st_mtim.tv_nsec;
    uint64_t bytes = (uint64_t)st->st_size;
    if (piece >= 0 && bytes == MIRROR_PIECE)
        changed_ns = 0; /* what comes behind it is no change */
    if (!file || bytes > FILES_BYTES_MOST || files->total + bytes > FILES_TOTAL_MOST + file->bytes) {
        files->left_out++;
        return;
    }
    bool same = file->version && file->inode == st->st_ino && file->changed_ns == changed_ns && file->bytes == bytes;
    if (same || (!all && file->sent_ns && now_ns - file->sent_ns < time_hasten(FILES_REST_MS * NS_PER_MS)))
        return;
    files->total += bytes - file->bytes;
    file->inode = st->st_ino;
    file->changed_ns = changed_ns;
    file->bytes = bytes;
    file->version = files_next_version(files);
    file->wanted = true;
}

static void files_look_in(struct files *files, int at_fd, const char *path, unsigned depth, uint64_t now_ns, bool all)
{
    int fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && files->looked < FILES_LOOKED_MOST && (entry = readdir(dir)); files->looked++) {
        char name[PATH_MAX];
        struct stat st;
        bool fits = (size_t)snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < sizeof name;
        if (entry->d_name[0] == '.' || !fits || fstatat(at_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* also temporary files */
        if (S_ISREG(st.st_mode))
            files_look_at(files, name, -1, &st, now_ns, all);
        else if (S_ISDIR(st.st_mode) && depth < FILES_DEPTH_MOST)
            files_look_in(files, at_fd, name, depth + 1, now_ns, all);
    }
    if (dir)
        closedir(dir);
}

static void files_look_at_pieces(struct files *files, int fd, const char *path, uint64_t now_ns, bool all)
{
    char name[PATH_MAX];
    struct stat st;
    if (fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return;
    off_t size = st.st_size;
    for (int64_t at = 0; at < size; at += MIRROR_PIECE) {
        st.st_size = size - at < MIRROR_PIECE ? size - at : MIRROR_PIECE;
        if (at / MIRROR_PIECE < MIRROR_PIECES &&
            (size_t)snprintf(name, sizeof name, "%s+%lld", path, (long long)at) < sizeof name)
            files_look_at(files, name, at, &st, now_ns, all);
        else
            files->left_out++;
    }
}

/* One directory, of the job or of a part of it: `in` is "" or parts/NAME/. */
static void files_look_at_job(struct files *files, int fd, const char *in, uint64_t now_ns, bool all)
{
    static const char *const single[] = {"job.json", "report.txt", "profile.json", "clock.json", "remote.json"};
    char path[PATH_MAX];
    struct stat st;
    size_t count = *in ? sizeof single / sizeof *single : 3; /* of a job, the others are of a mirror */
    for (size_t i = 0; i < count; i++)
        if ((size_t)snprintf(path, sizeof path, "%s%s", in, single[i]) < sizeof path &&
            fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            files_look_at(files, path, -1, &st, now_ns, all);
    if ((size_t)snprintf(path, sizeof path, "%sstats", in) < sizeof path)
        files_look_in(files, fd, path, 1, now_ns, all);
    if (*in && (size_t)snprintf(path, sizeof path, "%sspool/records.jsonl", in) < sizeof path)
        files_look_at_pieces(files, fd, path, now_ns, all);
}

/* ---- what was printed ---- */

/* Files of it, once: the command has them open from its start on. */
static void printed_open(struct files *files)
{
    struct job_output outputs[2];
    char other[PATH_MAX];
    bool one = output_files_read(files->info, outputs);
    if (files->opened || !files->info->outputs)
        return;
    files->opened = true;
    for (int i = 0; i < (one ? 1 : 2); i++)
        if (strcmp(outputs[i].kind, "file") == 0)
            files->printed[one ? OUTPUT_BOTH : i].fd =
                output_file_open(files->dir, files->info, files->info->ended, i, &outputs[i], other, sizeof other);
}

/* So many bytes are the job's by now. false: it is not there. */
static bool printed_size(struct files *files, enum output_stream stream, uint64_t *ret_size)
{
    struct printed *printed = &files->printed[stream];
    struct job_output outputs[2];
    struct stat st;
    if (printed->fd < 0)
        return output_end(files->dir, stream, ret_size) == 0;
    output_files_read(files->info, outputs);
    const struct job_output *output = &outputs[stream == OUTPUT_STDERR];
    printed->from = output->until < output->from ? 0 : output->from; /* it was cut while the job ran */
    if (fstat(printed->fd, &st) < 0)
        return false;
    uint64_t at = (uint64_t)st.st_size, end = at < output->until ? at : output->until;
    if (output->until == UINT64_MAX) { /* what came since the job was looked at may be scry's, at its end */
        end = at < printed->seen ? at : printed->seen;
        printed->seen = at;
    }
    *ret_size = end > printed->from ? end - printed->from : 0;
    return true;
}

/* The entry of a piece; one of the end takes the place of one that is not of the end any more. */
static struct small_file *printed_entry(struct files *files, enum output_stream stream, uint64_t piece)
{
    struct printed *printed = &files->printed[stream];
    size_t *at = &printed->entries[piece < PRINTED_PIECES ? piece : PRINTED_PIECES + piece % PRINTED_PIECES];
    int64_t offset = (int64_t)(piece * PRINTED_PIECE);
    char path[64];
    snprintf(path, sizeof path, OUTPUT_DIR "/" OUTPUT_SEGMENT, output_names[stream], (uint64_t)offset);
    if (*at && files->list[*at - 1].piece == offset)
        return &files->list[*at - 1];
    struct small_file *file = *at ? &files->list[*at - 1] : files_entry(files, path, offset);
    char *copy = *at ? strdup(path) : NULL;
    if (!file || (*at && !copy))
        return NULL;
    if (*at) {
        free(file->path);
        files->total -= file->bytes;
        *file =
            (struct small_file){.path = copy, .hash = hash_of(path), .piece = offset, .open_parts = file->open_parts};
    }
    file->stream = &output_names[stream];
    *at = (size_t)(file - files->list) + 1;
    return file;
}

/* false: no more may be sent now. */
static bool printed_look_at(struct files *files, enum output_stream stream, uint64_t piece, uint64_t size, bool all)
{
    uint64_t left = size - piece * PRINTED_PIECE, bytes = left < PRINTED_PIECE ? left : PRINTED_PIECE;
    struct small_file *file = printed_entry(files, stream, piece);
    if (!file || (file->version && file->bytes == bytes))
        return true;
    if (!all && files->credit < (double)bytes)
        return false;
    files->credit -= (double)bytes;
    files->total += bytes - file->bytes;
    file->bytes = bytes;
    file->version = files_next_version(files);
    file->wanted = true;
    return true;
}

/* The end of each first. */
static void printed_look(struct files *files, uint64_t now_ns, bool all)
{
    const double most = PRINTED_PIECES * (double)PRINTED_PIECE;
    files->credit +=
        files->credit_ns ? (double)(now_ns - files->credit_ns) / NS_PER_SECOND * PRINTED_BYTES_A_SECOND : most;
    files->credit = files->credit > most ? most : files->credit;
    files->credit_ns = now_ns;
    printed_open(files);
    for (int stream = OUTPUT_STREAMS - 1; stream >= 0;
         stream--) { /* a flood on standard output leaves room for errors */
        uint64_t size, first = 0;
        if (!printed_size(files, (enum output_stream)stream, &size) || size > INT64_MAX / 2)
            continue;
        uint64_t count = size ? (size - 1) / PRINTED_PIECE + 1 : 1; /* that nothing was printed is known, too */
        first = count > PRINTED_PIECES ? count - PRINTED_PIECES : 0;
        bool more = true;
        for (uint64_t piece = count; more && piece > first; piece--)
            more = printed_look_at(files, (enum output_stream)stream, piece - 1, size, all);
        for (uint64_t piece = first < PRINTED_PIECES ? first : PRINTED_PIECES; more && piece > 0; piece--)
            more = printed_look_at(files, (enum output_stream)stream, piece - 1, size, all);
    }
}

/* Of what a stream had from `offset` on, without a gap. */
static size_t printed_read_at(const struct files *files, enum output_stream stream, uint64_t offset, char *ret_bytes,
                              size_t size)
{
    const struct printed *printed = &files->printed[stream];
    struct output_reader reader;
    size_t len = 0;
    uint64_t gap = 0;
    ssize_t got = 1;
    if (printed->fd < 0 && output_open(&reader, files->dir, stream) < 0)
        return 0;
    reader.offset = offset;
    for (; got > 0 && !gap && len<size; len += got> 0 && !gap ? (size_t)got : 0)
        got = printed->fd < 0 ? output_read(&reader, ret_bytes + len, size - len, &gap)
                              : pread(printed->fd, ret_bytes + len, size - len, (off_t)(printed->from + offset + len));
    if (printed->fd < 0)
        output_close(&reader);
    return len;
}

/* A piece, its secrets hidden: also where what tells of one is before the piece, or behind it. */
static size_t printed_read(const struct files *files, const struct small_file *file, char *ret_bytes)
{
    enum output_stream stream = (enum output_stream)(file->stream - output_names);
    uint64_t offset = (uint64_t)file->piece;
    size_t before = offset < PRINTED_BEFORE ? (size_t)offset : PRINTED_BEFORE, unknown = 0;
    _cleanup_(freep) char *bytes = malloc(before + file->bytes + PRINTED_AFTER + 1);
    if (!bytes)
        return 0;
    size_t len = printed_read_at(files, stream, offset - before, bytes, before + file->bytes + PRINTED_AFTER);
    if (len <= before) { /* that is not kept any more */
        before = 0;
        len = printed_read_at(files, stream, offset, bytes, file->bytes + PRINTED_AFTER);
    }
    hide_text(files->hide, bytes, len);
    if (offset > before && !hide_is_off(files->hide)) /* nobody knows how the first line begins */
        while (unknown < len && !hide_ends_line(bytes[unknown]))
            bytes[unknown++] = '*';
    len = len > before ? len - before : 0;
    len = len < file->bytes ? len : file->bytes;
    memcpy(ret_bytes, bytes + before, len);
    return len;
}

struct looking {
    struct files *files;
    int fd;
    uint64_t now_ns;
    bool all, comes;
};

static int files_look_at_part(void *ctx, const char *dir)
{
    struct looking *looking = ctx;
    char in[PATH_MAX] = "";
    if (dir != looking->files->dir && (size_t)snprintf(in, sizeof in, "parts/%s/", text_base(dir)) >= sizeof in)
        return 0;
    files_look_at_job(looking->files, looking->fd, in, looking->now_ns, looking->all);
    looking->comes |= *in && job_part_comes(dir);
    return 0;
}

void files_look(struct files *files, uint64_t now_ns, bool all)
{
    _cleanup_(closep) int fd = open(files->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct looking looking = {files, fd, now_ns, all, false};
    files->left_out = files->looked = 0;
    files->next = 0;
    if (fd >= 0)
        job_dirs_each(files->dir, files_look_at_part, &looking);
    files->parts_come = looking.comes;
    if (files->info)
        printed_look(files, now_ns, all);
}

size_t files_wanted(const struct files *files)
{
    size_t at = 0;
    while (at < files->count && !files->list[at].wanted)
        at++;
    return at;
}

static int file_open(const struct files *files, const struct small_file *file, size_t *ret_size)
{
    _cleanup_(closep) int dir = open(files->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file->path);
    if (file->piece >= 0)
        *strrchr(path, '+') = 0;
    _cleanup_(closep) int fd = dir < 0 ? -1 : file_open_own(dir, path, O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || (file->piece < 0 && st.st_size > FILES_BYTES_MOST) ||
        (file->piece >= 0 && (st.st_size <= file->piece || lseek(fd, (off_t)file->piece, SEEK_SET) < 0)))
        return -1;
    *ret_size = file->piece < 0                           ? (size_t)st.st_size
                : st.st_size - file->piece < MIRROR_PIECE ? (size_t)(st.st_size - file->piece)
                                                          : MIRROR_PIECE;
    return TAKE_FD(fd);
}

bool files_load(const struct files *files, size_t at, struct file_load *ret_load)
{
    const struct small_file *file = &files->list[at];
    size_t size = file->bytes, len = 0;
    _cleanup_(closep) int fd = file->stream ? -1 : file_open(files, file, &size);
    if (fd < 0 && !file->stream)
        return false;
    _cleanup_(freep) char *bytes = malloc(size + 1), *path = strdup(file->path);
    if (!bytes || !path)
        return false;
    if (file->stream)
        len = printed_read(files, file, bytes);
    while (fd >= 0 && len < size) {
        ssize_t got = read(fd, bytes + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    if (file->stream && size && !len)
        return false; /* it is not kept any more */
    *ret_load = (struct file_load){.at = at,
                                   .path = TAKE_PTR(path),
                                   .version = file->version,
                                   .bytes = TAKE_PTR(bytes),
                                   .len = len,
                                   .parts = len ? (unsigned)((len + FILES_PART_BYTES - 1) / FILES_PART_BYTES) : 1};
    return true;
}

void file_load_done(struct file_load *load)
{
    free(load->bytes);
    free(load->path);
    *load = (struct file_load){0};
}

static void put_base64(struct buf *out, const unsigned char *bytes, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        unsigned word = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                        (left > 2 ? (unsigned)bytes[i + 2] : 0);
        buf_putc(out, letters[word >> 18]);
        buf_putc(out, letters[word >> 12 & 63]);
        buf_putc(out, left > 1 ? letters[word >> 6 & 63] : '=');
        buf_putc(out, left > 2 ? letters[word & 63] : '=');
    }
}

void file_load_message(const struct file_load *load, struct buf *out)
{
    size_t from = (size_t)load->part * FILES_PART_BYTES;
    size_t len = load->len - from < FILES_PART_BYTES ? load->len - from : FILES_PART_BYTES;
    json_t *head =
        json_pack("{s:s, s:I, s:I, s:I, s:I}", "path", load->path, "bytes", (json_int_t)load->len, "part",
                  (json_int_t)load->part, "parts", (json_int_t)load->parts, "version", (json_int_t)load->version);
    json_t *content = json_stringn(load->bytes + from, len); /* NULL: no UTF-8 */
    _cleanup_(freep) char *before = head ? json_dumps(head, JSON_COMPACT) : NULL;
    _cleanup_(freep) char *text = content ? json_dumps(content, JSON_ENCODE_ANY) : NULL;
    json_decref(head);
    json_decref(content);
    if (!before)
        return; /* a name that is no UTF-8 */
    buf_append(out, before, strlen(before) - 1);
    if (text && strlen(text) <= (size_t)FILES_PART_BYTES / 3 * 4) {
        buf_printf(out, ",\"text\":");
        buf_puts(out, text);
    } else {
        buf_puts(out, ",\"base64\":\"");
        put_base64(out, (const unsigned char *)load->bytes + from, len);
        buf_putc(out, '"');
    }
    buf_putc(out, '}');
}

/* ---- what readers ask for again ---- */

static bool is_reader(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    return len > 0 && len < ASK_READER_SIZE && !text[len];
}

bool ask_parse(struct span payload, struct ask *ret_ask)
{
    json_t *json = json_loadb(payload.ptr, payload.len, JSON_REJECT_DUPLICATES, NULL);
    const char *reader = json_string_value(json_object_get(json, "reader"));
    json_t *from = json_object_get(json, "from"), *to = json_object_get(json, "to");
    bool good = reader && is_reader(reader) && json_is_integer(from) && json_integer_value(from) >= 0 &&
                (!to || json_is_integer(to));
    if (good) {
        *ret_ask = (struct ask){.from = (uint64_t)json_integer_value(from),
                                .to = to && json_integer_value(to) >= 0 ? (uint64_t)json_integer_value(to) : UINT64_MAX,
                                .files = json_is_true(json_object_get(json, "files"))};
        snprintf(ret_ask->reader, sizeof ret_ask->reader, "%s", reader);
    }
    json_decref(json);
    return good;
}

void asks_init(struct asks *asks, const char *dir)
{
    *asks = (struct asks){.dir = dir, .reader.fd = -1, .credit = ASK_BYTES_A_SECOND};
}

static void asks_end_first(struct asks *asks)
{
    if (asks->begun)
        spool_reader_close(&asks->reader);
    file_load_done(&asks->load);
    asks->begun = false;
    asks->file = asks->bytes = 0;
    asks->name = NULL;
}

void asks_clear(struct asks *asks)
{
    asks_end_first(asks);
    asks->count = 0;
    buf_done(&asks->message);
}

void asks_add(struct asks *asks, const struct ask *ask)
{
    if (asks->count < ASKS_MOST)
        asks->list[asks->count++] = *ask;
    else
        asks->dropped++;
}

/* Reads a message of records into an empty buffer. */
static void asks_read_records(struct asks *asks, const struct follow *follow)
{
    const struct ask *ask = &asks->list[0];
    uint64_t to = ask->to < follow->next_seq ? ask->to : follow->next_seq;
    while (asks->next < to && asks->bytes < ASK_BYTES && asks->message.len < ASK_MESSAGE_BYTES / 2) {
        json_t *record = spool_reader_next(&asks->reader), *number = json_object_get(record, "seq");
        if (!record) {
            asks->next = to; /* what is lacking is not in the spool */
            return;
        }
        uint64_t seq = json_is_integer(number) ? (uint64_t)json_integer_value(number) : 0;
        char name[32];
        bool figures;
        if (json_is_integer(number) && seq >= asks->next && seq < to) {
            size_t before = asks->message.len;
            follow_line(follow->head, &asks->reader, record, &asks->message, name, &figures);
            asks->bytes += asks->message.len - before;
            asks->next = seq + 1;
            asks->last = seq;
        } else if (seq >= to && json_is_integer(number)) {
            asks->next = to;
        }
        json_decref(record);
        if (asks->message.len > ASK_MESSAGE_BYTES / 2)
            return;
    }
}

static void asks_begin(struct asks *asks, const struct follow *follow)
{
    const struct ask *ask = &asks->list[0];
    asks->begun = true;
    asks->next = ask->from;
    if (!follow->open || spool_reader_open(&asks->reader, asks->dir, NULL) < 0 ||
        spool_reader_seek(&asks->reader, follow_find(follow, ask->from)) < 0)
        asks->reader.fd = -1; /* nothing is read: the answer says so */
}

/* The next part of a file. */
static void asks_read_file(struct asks *asks, const struct files *files)
{
    if (asks->load.parts && asks->load.part == asks->load.parts)
        file_load_done(&asks->load);
    while (!asks->load.parts && asks->file < files->count)
        if (!files_load(files, asks->file++, &asks->load))
            continue;
    if (asks->load.parts) {
        file_load_message(&asks->load, &asks->message);
        asks->load.part++;
    }
}

bool asks_next(struct asks *asks, const struct follow *follow, const struct files *files, uint64_t now_ns,
               uint64_t *ret_due_ns)
{
    *ret_due_ns = 0;
    if (asks->name)
        return true;
    if (!asks->count)
        return false;
    asks->credit += (double)(now_ns - asks->last_ns) / NS_PER_SECOND * ASK_BYTES_A_SECOND;
    asks->credit = asks->credit > ASK_BYTES_A_SECOND ? ASK_BYTES_A_SECOND : asks->credit;
    asks->last_ns = now_ns;
    if (asks->credit < 0) {
        *ret_due_ns = now_ns + (uint64_t)(-asks->credit / ASK_BYTES_A_SECOND * NS_PER_SECOND) + 1000000;
        return false;
    }
    const struct ask *ask = &asks->list[0];
    buf_clear(&asks->message);
    if (!asks->begun)
        asks_begin(asks, follow);
    asks_read_records(asks, follow);
    asks->name = "records";
    if (!asks->message.len && ask->files) {
        asks_read_file(asks, files);
        asks->name = "file";
    }
    if (!asks->message.len) {
        buf_printf(&asks->message, "{\"reader\":\"%s\",\"from\":%llu,\"to\":%llu,\"last_seq\":%lld}", ask->reader,
                   (unsigned long long)ask->from, (unsigned long long)asks->next, (long long)follow->next_seq - 1);
        asks->name = "end";
    }
    return true;
}

void asks_sent(struct asks *asks)
{
    bool end = asks->name && strcmp(asks->name, "end") == 0;
    asks->credit -= (double)asks->message.len + 1024; /* also small ones cost something */
    asks->name = NULL;
    if (!end)
        return;
    asks_end_first(asks);
    memmove(asks->list, asks->list + 1, --asks->count * sizeof *asks->list);
}
