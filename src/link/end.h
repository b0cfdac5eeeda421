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

#include "base/system/loop.h"
#include "link/hello.h"
#include "link/transport.h"

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
void end_detach(struct end *end);
/* Tells the other end that it is over, and why, if that can be said at once; calls nothing. */
void end_stop(struct end *end, const char *why);

#endif
