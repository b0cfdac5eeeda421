/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of frames over a socket, in an event loop: what was read and not handled, what was sent and not taken by the
 * peer. It belongs to a tool's connection, or to an edge between monitors; the owner is called by functions.
 */
#ifndef SCRY_WIRE_STREAM_H
#define SCRY_WIRE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"

struct loop;
struct loop_source;

struct stream {
    struct loop *loop;
    int fd;
    struct loop_source *source, *flush_source; /* flush_source: output waits for the end of the loop's step */
    struct frame_reader reader;
    struct buf out;
    size_t out_sent;
    uint32_t events;
    bool broken;                               /* the peer is gone, or violates the protocol */
    unsigned corked;                           /* output waits until the owner flushes */
    void (*ready)(void *ctx, uint32_t events); /* epoll's events */
    void (*flushed)(void *ctx);                /* output that had waited for the end of the step is on its way */
    void *ctx;
};

/* The descriptor (taken, if 0 is returned) is read from at once. 0 or -ENOMEM. */
int stream_new(struct stream **ret_stream, struct loop *loop, int fd);
void stream_own(struct stream *stream, void (*ready)(void *ctx, uint32_t events), void (*flushed)(void *ctx),
                void *ctx);
void stream_free(struct stream *stream); /* closes; NULL is fine */

/* Reads what has come, at most one buffer; never waits. */
void stream_receive(struct stream *stream);

/* Sends in the end of the loop's step, or when it is flushed. Without memory the stream is broken, which the loop reports. */
void stream_send(struct stream *stream, uint16_t via, uint8_t type, uint8_t flags, uint32_t id, struct span head,
                 struct span tail);
void stream_flush(struct stream *stream);
size_t stream_waiting(const struct stream *stream); /* bytes that the peer has not taken */

/* What the loop is to wait for: input, unless `deaf`, and room for output if some waits. */
void stream_want(struct stream *stream, bool deaf);

#endif
