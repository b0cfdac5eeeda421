/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over a connection of the link. First each end says hello, the one that dialled before the other:
 *
 *     "SCRYLINK" | u16 version | u8 flags | u8 bytes of the text | 16 bytes session | text         (little-endian)
 *
 * The text of who dialled names a job, for a key that may not reach the whole monitor; the other end's is the version of
 * scry. Then come messages (wire/channel.h), each after its length, a u32.
 */
#ifndef SCRY_LINK_HELLO_H
#define SCRY_LINK_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "wire/channel.h"

enum {
    HELLO_VERSION = 1,
    HELLO_RESUME = 1,             /* flag: a session that the other end has had already */
    HELLO_NOISE_BYTES = 64 << 10, /* that a shell may say before it */
    HELLO_MESSAGE_BYTES = CHANNEL_HEADER + CHANNEL_PART,
};

struct hello {
    uint16_t version;
    uint8_t flags;
    uint8_t session[CHANNEL_SESSION];
    char text[256];
};

void hello_put(struct buf *out, const struct hello *hello);
/* How many bytes it took; 0: more are needed; -EBADMSG: this is none. `noisy`: something may stand before it. Of another
 * version only that is known, and its text. */
ssize_t hello_parse(struct span bytes, bool noisy, struct hello *ret_hello);

/* How many bytes the first message took, with its length; 0: more are needed; -EBADMSG. */
ssize_t hello_message(struct span bytes, struct span *ret_message);

/* Where the frames (wire/frame.h) of a stream begin: between two of them, and nowhere else, something may be put in. */
struct frame_edges {
    uint64_t left; /* of the frame */
    char head[12];
    size_t have; /* of its header */
};
void frame_edges_pass(struct frame_edges *edges, struct span bytes);
bool frame_edges_between(const struct frame_edges *edges);

#endif
