/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WIRE_STREAM_H
#define SCRY_WIRE_STREAM_H

#include "base/data/err.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A stream of frames over a socket, in an event loop: what was read and not handled, what was sent and not taken by the
 * peer. It belongs to a tool's connection, or to an edge between monitors; the owner is called by functions.
 */

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

/*
 * The local transport: unix stream sockets inside a directory that only their owner can enter.
 */

/* scry-monitor ends with this status where another one owns the runtime directory. */
enum { LOCAL_BUSY = 3 };

/* Listens at path (at most 107 bytes), mode 0600, close-on-exec, non-blocking. Returns the descriptor or -errno;
 * -EADDRINUSE when somebody answers there; a dead socket file is replaced. From the moment that the file is there, it
 * can be connected to. Two that start at once must be kept apart by the caller (a lock): the later takes the earlier's
 * place. */
int local_listen(const char *path, struct err *err);

/* Connects, blocking, close-on-exec. Returns the descriptor or -errno. */
int local_connect(const char *path, struct err *err);

/* The same without waiting: -EAGAIN, with err, where whoever listens does not accept (it is stopped). Then non-blocking. */
int local_connect_at_once(const char *path, struct err *err);

/* Bytes between a socket and what carries them further (wire/channel.h), without waiting. local_send: 0: all of it was taken,
 * -EAGAIN: the rest stays in *out; else the peer takes nothing any more. local_receive appends to *to, until that got `most`
 * bytes or a few more: 0; -EPIPE: the peer has closed, or is gone. Without memory the rest stays in the socket. */
int local_send(int fd, struct buf *out);
int local_receive(int fd, struct buf *to, size_t most);

/* The peer's credentials (SO_PEERCRED). 0 or -errno. */
int local_peer(int fd, uid_t *ret_uid, pid_t *ret_pid);

#endif
