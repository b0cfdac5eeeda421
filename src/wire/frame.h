/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: how tool and monitor exchange opaque bytes over a stream.
 *
 *     u32 length of the payload | u8 type | u8 flags | u16 via | u32 id | payload          (little-endian)
 *
 * `via` is 0 on the connection of a tool. Between monitors (an edge, monitor/tree/tree.h) it says which of the connections
 * of tools, that the edge carries, the frame belongs to; 0: it is the edge's own.
 *
 * A frame that is too long is not read into memory: its payload is skipped and the reader is told, so that one bad
 * frame costs one error and not the connection.
 */
#ifndef SCRY_WIRE_FRAME_H
#define SCRY_WIRE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/err.h"

enum { FRAME_HEADER_SIZE = 12, FRAME_PAYLOAD_LIMIT = 64 << 20 };
/* What tools and monitors say to each other, and what monitors say besides. They grow apart: a tool of tomorrow may speak
 * with the monitor that a job of today has. */
enum { WIRE_VERSION = 1, EDGE_VERSION = 2 };

enum frame_type {
    FRAME_HELLO = 1,   /* tool -> monitor: u32 WIRE_VERSION, u32 tool id (0: new), text: program name. In a session of
                        * an edge, FRAME_NEW in flags: it is new here, the id is that at its home */
    FRAME_WELCOME = 2, /* monitor -> tool: u32 WIRE_VERSION, u32 tool id */
    FRAME_REQUEST = 3, /* tool -> monitor: id, payload u32 Omis_flags, then the request's text */
    FRAME_REPLY = 4,   /* monitor -> tool: id of the request, encoded reply; FRAME_LAST in flags: no more will come */
    FRAME_ERROR = 5,   /* monitor -> tool: encoded reply for the error handler (status OMIS_OK: debugging output) */
    FRAME_FINALIZE =
        6,             /* tool -> monitor: release everything; u32 1: stop the monitor when it has nothing else to do */
    FRAME_GOODBYE = 7, /* monitor -> tool: answer to FINALIZE, or, with a text, why the connection was refused */
    FRAME_CONFINE =
        8, /* tool -> monitor, before HELLO: u32 rights, then three texts, each ended by a zero byte: the directory of the
            * job, who it is, the serial of the key (monitor/engine/tool.h). No answer. The tool will be confined to
            * these; a second one takes more away, none gives back. No directory, with all rights: only who it is */
    /* ---- between monitors (monitor/tree) ---- */
    FRAME_PEER = 9, /* instead of HELLO, and the answer to it: u32 EDGE_VERSION, 16 bytes instance, then two texts, each
                      * ended by a zero byte: the version of scry, the name of the host */
    FRAME_PING = 10, /* via 0: u64 the sender's clock in ns */
    FRAME_PONG = 11, /* via 0: u64 of the PING, u64 when it came, u64 when this was sent, by the answering clock */
    FRAME_NODE =
        12, /* via 0, to who has attached us: id is the number of a node that we reach; 16 bytes instance, and a text
                      * ended by a zero byte: its name */
    FRAME_NODE_GONE = 13, /* via 0: id is the number, the payload says why, for people */
    FRAME_DEFINE = 14, /* a part of a conditional request: like REQUEST, between the flags and the text u32 what (enum
                           * frame_define) and a text ended by a zero byte: the request's token at its home */
    FRAME_EVENT =
        15, /* a far part's event: id as of its DEFINE, u32 number of the hold, and the values of its parameters */
    FRAME_RELEASE = 16, /* u32 number of a hold that is over */
    FRAME_LOCK = 17,    /* executes nothing for others until UNLOCK; answered by LOCK when it is so */
    FRAME_UNLOCK = 18,
    FRAME_TYPES, /* one more than the last */
};

enum frame_define { DEFINE_NEAR = 0, DEFINE_FAR = 1 };

enum { FRAME_LAST = 1, FRAME_NEW = 1 };

struct frame {
    uint8_t type, flags;
    uint16_t via;
    uint32_t id;
    struct span payload; /* borrowed from the reader, until the next call */
};

static inline uint32_t frame_number(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Appends a frame. Payload in two parts so that callers need not join them. */
void frame_append(struct buf *out, uint8_t type, uint8_t flags, uint32_t id, struct span head, struct span tail);
/* The same for one of the connections that an edge carries. */
void frame_append_via(struct buf *out, uint16_t via, uint8_t type, uint8_t flags, uint32_t id, struct span head,
                      struct span tail);

/* FRAME_CONFINE, which is the first thing that a monitor hears. */
void frame_append_confine(struct buf *out, uint32_t rights, const char *dir, const char *name, const char *serial);

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
/* Puts a frame behind what is in the reader, as if it had come. false: out of memory. */
bool frame_reader_put(struct frame_reader *reader, const struct frame *frame);
void frame_reader_done(struct frame_reader *reader);

#endif
