/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a session of the link: a local socket (a tool's, or a monitor's), what is under way between both ends
 * (wire/channel.h), and the connection of the moment, if there is one. The session outlives the connection: when another one
 * is attached, both ends go on where they were.
 *
 * No queue grows without limit: from the local socket nothing is read while END_WAITING_BYTES are under way, and the other
 * end keeps to the window of the channel.
 */
#ifndef SCRY_LINK_END_H
#define SCRY_LINK_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "base/system/loop.h"
#include "link/transport.h"
#include "wire/channel.h"

/*
 * What goes over a connection. First each end says hello, the one that dialled before the other:
 *
 *     "SCRYLINK" | u16 version | u8 flags | u8 bytes of the text | 16 bytes session | text         (little-endian)
 *
 * The text of who dialled names a job, for a key that may not reach the whole monitor; the other end's is the version of
 * scry. Then come messages (wire/channel.h), each after its length, a u32.
 */

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

/* ---- an end ---- */

enum { END_WAITING_BYTES = 1 << 20 };

/* Called last: the end may be freed in them. */
struct end_events {
    void (*lost)(void *ctx, const struct err *why); /* the connection; it is detached already */
    void (*over)(void *ctx, const char *why); /* the session. "": the other end's local side has closed, or ours */
};

struct end {
    struct loop *loop;
    const struct end_events *events;
    void *ctx;
    struct channel channel;

    int local;    /* -1: not there yet, or closed */
    bool closing; /* the local side has closed: when all has arrived, it is over */
    bool hung_up; /* it has closed, and there may be bytes of it that were not read */
    uint64_t closing_ns;
    uint32_t local_events;
    struct loop_source *local_source;
    struct buf to_local;
    struct frame_edges edges; /* of what the local side was given */
    size_t most;              /* bytes under way; at most END_WAITING_BYTES */

    struct transport *transport; /* NULL: none now */
    uint32_t transport_events;
    struct loop_source *transport_source;
    struct buf in, out, message;
    size_t sent; /* of out */
    struct loop_source *timer;

    bool lingers; /* it may wait until the other end has heard of the end; who has several ends may not */
    bool begun;   /* it has had a connection */
    bool broken, again, said_end, ended; /* ended: the other end has said so, or nothing can be said any more */
    struct err why;                      /* of broken */
    char end_why[CHANNEL_REASON + 1];
};

/* 0 or -ENOMEM; end_done in any case. */
int end_init(struct end *end, struct loop *loop, const uint8_t session[CHANNEL_SESSION],
             const struct end_events *events, void *ctx);
void end_done(struct end *end);
/* The local socket, which the end closes. 0 or -ENOMEM. */
int end_set_local_take(struct end *end, int fd);
/* A connection on which both have said hello; `early`: what came behind it. The one before is dropped. 0 or -ENOMEM: the
 * transport is freed. May call events. */
int end_attach_take(struct end *end, struct transport *transport, struct span early);
/* Tells the other end that it is over, and why, if that can be said at once; calls nothing. */
void end_stop(struct end *end, const char *why);

#endif
