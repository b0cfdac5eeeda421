/* SPDX-License-Identifier: Apache-2.0 */
#include "publish/follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "shm/waits.h"

static const uint64_t NS_PER_MS = 1000000;
enum { LATER_STREAM = STREAM_COUNT };

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
    for (size_t i = 0; i < 2; i++) {
        const char *text = json_string_value(json_object_get(reader.first, names[i]));
        put_text(&follow->head[i], text ? text : "");
    }
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

static unsigned stream_of(const json_t *record, enum record_type type, char ret_name[32])
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

unsigned follow_line(const struct buf head[2], const struct spool_reader *reader, const json_t *record, struct buf *out,
                     char ret_name[32], bool *ret_figures)
{
    enum record_type type = record_type(record);
    unsigned stream = stream_of(record, type, ret_name);
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
static void put_out(struct follow *follow, struct batch *batch)
{
    struct buf empty = follow->out.lines;
    buf_clear(&empty);
    follow->out = *batch;
    follow->ready = true;
    *batch = (struct batch){.lines = empty};
}

static void mark(struct follow *follow, uint64_t seq, uint64_t offset)
{
    uint64_t last = follow->mark_count ? follow->marks[follow->mark_count - 1].offset : 0;
    if (offset >= last + FOLLOW_MARK_BYTES && GROW(follow->marks, follow->mark_count, follow->mark_room))
        follow->marks[follow->mark_count++] = (struct follow_mark){seq, offset};
}

/* Puts the record into its stream's batch. */
static void take(struct follow *follow, const json_t *record, uint64_t offset, uint64_t now_ns)
{
    json_t *number = json_object_get(record, "seq");
    char name[32];
    bool figures;
    if (!json_is_integer(number) || json_integer_value(number) < 0 || json_integer_value(number) >= SPOOL_MOST_SEQ)
        return;
    uint64_t seq = (uint64_t)json_integer_value(number);
    if (seq >= follow->next_seq) {
        follow->next_seq = seq + 1;
        mark(follow, seq, offset);
    }
    struct buf line = BUF_INIT;
    unsigned stream = follow_line(follow->head, &follow->reader, record, &line, name, &figures);
    struct batch *batch = &follow->batches[stream];
    if (seq >= follow->confirmed[stream] && !line.failed) {
        bool other = batch->figures != figures || strcmp(batch->name, name) != 0;
        if (batch->lines.len && (other || batch->lines.len + line.len > FOLLOW_BATCH_BYTES))
            put_out(follow, batch);
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

static struct batch *oldest(const struct follow *follow)
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
            take(follow, record, offset, now_ns);
        json_decref(record);
    }
    struct batch *batch = follow->ready ? NULL : oldest(follow);
    if (batch && (idle || now_ns - batch->since_ns >= FOLLOW_BATCH_MS * NS_PER_MS))
        put_out(follow, batch);
    return follow->ready ? &follow->out : NULL;
}

void follow_sent(struct follow *follow)
{
    follow->ready = false;
    buf_clear(&follow->out.lines);
}

uint64_t follow_due_ns(const struct follow *follow)
{
    const struct batch *batch = oldest(follow);
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

uint64_t follow_find(const struct follow *follow, uint64_t seq)
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
