/* SPDX-License-Identifier: Apache-2.0 */
#include "job/observe/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/data/cleanup.h"
#include "jobdir/text/notes_json.h"

enum { READ_BYTES = 64 << 10, READS_MOST = 16 }; /* scry run has signals to look at, too */

bool channel_put_take(struct buf *out, json_t *record)
{
    _cleanup_(freep) char *text = record ? json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(record);
    if (!text)
        return false;
    buf_puts(out, text);
    buf_putc(out, '\n');
    return !out->failed;
}

bool channel_is(const json_t *record, const char *type)
{
    const char *name = json_string_value(json_object_get(record, "type"));
    return name && strcmp(name, type) == 0;
}

json_t *channel_note_json(const struct note *note)
{
    json_t *record = note_json(note);
    if (record)
        json_object_set_new(record, "type", json_string(record_kinds[RECORD_warning].type));
    return record;
}

static void take_lines(struct buf *in, void (*each)(void *ctx, json_t *record, struct span line), void *ctx)
{
    size_t done = 0;
    for (const char *end; in->data && (end = memchr(in->data + done, '\n', in->len - done));) {
        struct span line = span_of(in->data + done, (size_t)(end - in->data) - done);
        json_t *record = json_loadb(line.ptr, line.len, 0, NULL);
        done += line.len + 1;
        if (json_is_object(record))
            each(ctx, record, line);
        json_decref(record);
    }
    buf_drop(in, done);
}

bool channel_read(int fd, struct buf *in, void (*each)(void *ctx, json_t *record, struct span line), void *ctx)
{
    for (unsigned reads = 0; reads < READS_MOST; reads++) {
        char *room = buf_reserve(in, READ_BYTES);
        ssize_t got = room ? recv(fd, room, READ_BYTES, MSG_DONTWAIT) : -1;
        if (!room)
            return false;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            break;
        if (got <= 0) {
            take_lines(in, each, ctx);
            return false;
        }
        in->len += (size_t)got;
        take_lines(in, each, ctx);
    }
    return true;
}
