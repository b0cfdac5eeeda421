/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum {
    ROOM_SIZE = 4096,             /* the least that is offered to the transport */
    ROOM_LARGEST = 1 << 18,       /* and the most: memory grows with what has come, never with what was announced */
    KEEP_SIZE = 2 * ROOM_LARGEST, /* an empty buffer larger than this is given back */
};

struct header {
    uint32_t length;
    uint8_t type, flags;
    uint16_t via;
    uint32_t id;
};

_Static_assert(sizeof(struct header) == FRAME_HEADER_SIZE, "the header has no padding");

void frame_append_via(struct buf *out, uint16_t via, uint8_t type, uint8_t flags, uint32_t id, struct span head,
                      struct span tail)
{
    size_t length;
    if (__builtin_add_overflow(head.len, tail.len, &length) || length > UINT32_MAX) {
        out->failed = true;
        return;
    }
    struct header header = {
        .length = htole32((uint32_t)length), .type = type, .flags = flags, .via = htole16(via), .id = htole32(id)};
    if (!buf_reserve(out, sizeof header + length)) /* all or nothing */
        return;
    buf_append(out, &header, sizeof header);
    buf_append(out, head.ptr, head.len);
    buf_append(out, tail.ptr, tail.len);
}

void frame_append(struct buf *out, uint8_t type, uint8_t flags, uint32_t id, struct span head, struct span tail)
{
    frame_append_via(out, 0, type, flags, id, head, tail);
}

void frame_append_confine(struct buf *out, uint32_t rights, const char *dir, const char *name, const char *serial)
{
    const char *const texts[] = {dir, name, serial};
    struct buf payload = BUF_INIT;
    buf_put_u32(&payload, rights);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        buf_append(&payload, texts[i], strlen(texts[i]) + 1);
    if (payload.failed)
        out->failed = true;
    else
        frame_append(out, FRAME_CONFINE, 0, 0, span_of(payload.data, payload.len), span_of("", 0));
    buf_done(&payload);
}

/* The bytes not handed out yet. */
static size_t reader_available(const struct frame_reader *reader)
{
    return reader->bytes.len - reader->used;
}

/* The header at the front; false if it is not complete. */
static bool peek_header(const struct frame_reader *reader, struct header *ret_header)
{
    if (reader->skip_bytes || reader_available(reader) < FRAME_HEADER_SIZE)
        return false;
    struct header header;
    memcpy(&header, reader->bytes.data + reader->used, sizeof header);
    header.length = le32toh(header.length);
    header.id = le32toh(header.id);
    header.via = le16toh(header.via);
    *ret_header = header;
    return true;
}

static void reader_skip(struct frame_reader *reader)
{
    size_t have = reader_available(reader);
    size_t take = reader->skip_bytes < have ? (size_t)reader->skip_bytes : have;
    reader->used += take;
    reader->skip_bytes -= take;
}

char *frame_reader_room(struct frame_reader *reader, size_t *ret_room)
{
    reader_skip(reader);
    buf_drop(&reader->bytes, reader->used);
    reader->used = 0;
    if (reader->bytes.len == 0 && reader->bytes.cap > KEEP_SIZE)
        buf_done(&reader->bytes);
    size_t room = ROOM_SIZE;
    struct header header;
    if (reader->skip_bytes) {
        room = ROOM_LARGEST;
    } else if (peek_header(reader, &header) && header.length <= FRAME_PAYLOAD_LIMIT) {
        size_t whole = (size_t)header.length + FRAME_HEADER_SIZE;
        size_t missing = whole > reader->bytes.len ? whole - reader->bytes.len : 0;
        room = missing < ROOM_SIZE ? ROOM_SIZE : missing > ROOM_LARGEST ? ROOM_LARGEST : missing;
    }
    char *to = buf_reserve(&reader->bytes, room);
    if (!to)
        return NULL;
    *ret_room = reader->bytes.cap - reader->bytes.len - 1; /* one is kept for the NUL */
    return to;
}

void frame_reader_fed(struct frame_reader *reader, size_t len)
{
    reader->bytes.len += len;
    reader->bytes.data[reader->bytes.len] = 0;
    reader_skip(reader);
}

int frame_reader_next(struct frame_reader *reader, struct frame *ret_frame)
{
    struct header header;
    reader_skip(reader);
    if (!peek_header(reader, &header))
        return 0;
    if (header.type < FRAME_HELLO || header.type >= FRAME_TYPES)
        return -EBADMSG;
    struct frame frame = {.type = header.type, .flags = header.flags, .via = header.via, .id = header.id};
    if (header.length > FRAME_PAYLOAD_LIMIT) {
        reader->used += FRAME_HEADER_SIZE;
        reader->skip_bytes = header.length;
        reader_skip(reader);
        *ret_frame = frame;
        return -EMSGSIZE;
    }
    if (reader_available(reader) - FRAME_HEADER_SIZE < header.length)
        return 0;
    frame.payload = span_of(reader->bytes.data + reader->used + FRAME_HEADER_SIZE, header.length);
    reader->used += FRAME_HEADER_SIZE + (size_t)header.length;
    *ret_frame = frame;
    return 1;
}

bool frame_reader_put(struct frame_reader *reader, const struct frame *frame)
{
    buf_drop(&reader->bytes, reader->used);
    reader->used = 0;
    if (reader->bytes.len == 0 && reader->bytes.cap > KEEP_SIZE)
        buf_done(&reader->bytes);
    frame_append_via(&reader->bytes, frame->via, frame->type, frame->flags, frame->id, frame->payload, span_of("", 0));
    return !reader->bytes.failed;
}

void frame_reader_done(struct frame_reader *reader)
{
    buf_done(&reader->bytes);
    *reader = (struct frame_reader){0};
}
