/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: how tool and monitor exchange opaque bytes over a stream.
 *
 *     u32 length of the payload | u8 type | u8 flags | u16 0 | u32 id | payload          (little-endian)
 *
 * A frame that is too long is not read into memory: its payload is skipped and the reader is told, so that one bad
 * frame costs one error and not the connection.
 */
#ifndef SCRY_WIRE_FRAME_H
#define SCRY_WIRE_FRAME_H

#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/data/span.h"

enum { FRAME_HEADER_SIZE = 12, FRAME_PAYLOAD_LIMIT = 64 << 20, WIRE_VERSION = 1 };

enum frame_type {
    FRAME_HELLO = 1,   /* tool -> monitor: u32 WIRE_VERSION, u32 tool id (0: new), text: program name */
    FRAME_WELCOME = 2, /* monitor -> tool: u32 WIRE_VERSION, u32 tool id */
    FRAME_REQUEST = 3, /* tool -> monitor: id, payload u32 Omis_flags, then the request's text */
    FRAME_REPLY = 4,   /* monitor -> tool: id of the request, encoded reply; FRAME_LAST in flags: no more will come */
    FRAME_ERROR = 5,   /* monitor -> tool: encoded reply for the error handler (status OMIS_OK: debugging output) */
    FRAME_FINALIZE =
        6,             /* tool -> monitor: release everything; u32 1: stop the monitor when it has nothing else to do */
    FRAME_GOODBYE = 7, /* monitor -> tool: answer to FINALIZE, or, with a text, why the connection was refused */
    FRAME_CONFINE =
        8, /* tool -> monitor, before HELLO: u32 rights, then three texts, each ended by a zero byte: the directory of the
            * job, who it is, the serial of the key (monitor/engine/confine.h). No answer. The tool will be confined to
            * these; a second one takes more away, none gives back */
};

enum { FRAME_LAST = 1 };

struct frame {
    uint8_t type, flags;
    uint32_t id;
    struct span payload; /* borrowed from the reader, until the next call */
};

/* Appends a frame. Payload in two parts so that callers need not join them. */
void frame_append(struct buf *out, uint8_t type, uint8_t flags, uint32_t id, struct span head, struct span tail);

/* Takes foreign bytes apart. Zero-initialised is ready. */
struct frame_reader {
    struct buf bytes;
    size_t used;         /* of bytes, taken by the frame handed out last */
    uint64_t skip_bytes; /* of an oversized frame still to come */
};

/* Where to put bytes from the transport: at least 4096 of room, *ret_room tells how much. NULL when out of memory. */
char *frame_reader_room(struct frame_reader *reader, size_t *ret_room);
void frame_reader_fed(struct frame_reader *reader, size_t len);

/* 1: *ret_frame is the next frame. 0: more bytes are needed. -EMSGSIZE: the frame whose header is in *ret_frame
 * (payload empty) was too long and is skipped; go on calling. -EBADMSG: the bytes are no frames of this protocol,
 * close. */
int frame_reader_next(struct frame_reader *reader, struct frame *ret_frame);
void frame_reader_done(struct frame_reader *reader);

#endif
