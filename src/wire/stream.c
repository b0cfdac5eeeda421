/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system/loop.h"

enum {
    DROP_SENT = 8 << 20,   /* so much that was sent is given back before the rest is sent */
    KEEP_BUFFER = 1 << 20, /* a larger buffer is freed when it is empty */
};

static void socket_ready(void *ctx, int fd, uint32_t events)
{
    (void)fd;
    struct stream *stream = ctx;
    stream->ready(stream->ctx, events);
}

int stream_new(struct stream **ret_stream, struct loop *loop, int fd)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return -ENOMEM;
    *stream = (struct stream){.loop = loop, .fd = fd, .events = EPOLLIN};
    stream->source = loop_add_fd(loop, fd, EPOLLIN, socket_ready, stream);
    if (!stream->source) {
        free(stream);
        return -ENOMEM;
    }
    *ret_stream = stream;
    return 0;
}

void stream_own(struct stream *stream, void (*ready)(void *ctx, uint32_t events), void (*flushed)(void *ctx), void *ctx)
{
    stream->ready = ready;
    stream->flushed = flushed;
    stream->ctx = ctx;
}

void stream_free(struct stream *stream)
{
    if (!stream)
        return;
    loop_remove(stream->source);
    loop_remove(stream->flush_source);
    close(stream->fd);
    frame_reader_done(&stream->reader);
    buf_done(&stream->out);
    free(stream);
}

void stream_receive(struct stream *stream)
{
    size_t room;
    char *to = frame_reader_room(&stream->reader, &room);
    if (!to) {
        stream->broken = true;
        return;
    }
    ssize_t got = recv(stream->fd, to, room, MSG_DONTWAIT);
    if (got > 0)
        frame_reader_fed(&stream->reader, (size_t)got);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        stream->broken = true;
}

size_t stream_waiting(const struct stream *stream)
{
    return stream->out.len - stream->out_sent;
}

void stream_flush(struct stream *stream)
{
    while (stream_waiting(stream) && !stream->broken) {
        ssize_t sent =
            send(stream->fd, stream->out.data + stream->out_sent, stream_waiting(stream), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            stream->out_sent += (size_t)sent;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            stream->broken = true;
    }
    if (!stream_waiting(stream)) {
        stream->out_sent = 0;
        if (stream->out.cap > KEEP_BUFFER)
            buf_done(&stream->out);
        else
            buf_clear(&stream->out);
    } else if (stream->out_sent > DROP_SENT) {
        buf_drop(&stream->out, stream->out_sent);
        stream->out_sent = 0;
    }
}

static void flush_later(void *ctx)
{
    struct stream *stream = ctx;
    stream->flush_source = NULL;
    stream_flush(stream);
    stream->flushed(stream->ctx);
}

void stream_send(struct stream *stream, uint16_t via, uint8_t type, uint8_t flags, uint32_t id, struct span head,
                 struct span tail)
{
    if (stream->broken)
        return;
    frame_append_via(&stream->out, via, type, flags, id, head, tail);
    if (stream->out.failed) {
        stream->broken = true;
        shutdown(stream->fd, SHUT_RDWR); /* the loop reports it, and the owner cleans up */
        return;
    }
    /* Replies to a batch of requests leave together, when the batch is done. Replies of events leave when the event is
     * handled: the waiting thread goes on first, and the tool does not take its processor. */
    if (!stream->corked && !stream->flush_source)
        stream->flush_source = loop_add_deferred(stream->loop, flush_later, stream);
    if (!stream->corked && !stream->flush_source) /* out of memory */
        stream_flush(stream);
}

void stream_want(struct stream *stream, bool deaf)
{
    uint32_t events = (deaf ? 0 : EPOLLIN) | (stream_waiting(stream) ? EPOLLOUT : 0);
    if (events != stream->events && !stream->broken) {
        stream->events = events;
        loop_set_events(stream->source, events);
    }
}
