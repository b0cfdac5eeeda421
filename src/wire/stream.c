/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/stream.h"

#include "base/data/cleanup.h"
#include "base/system/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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

static int set_address(const char *path, struct sockaddr_un *address, struct err *err)
{
    size_t len = strlen(path);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (len == 0)
        return err_set(err, -EINVAL, "the path of the socket is empty");
    if (len >= sizeof address->sun_path)
        return err_set(err, -ENAMETOOLONG, "the path of the socket has %zu bytes, %zu are possible: %s", len,
                       sizeof address->sun_path - 1, path);
    memcpy(address->sun_path, path, len + 1);
    return 0;
}

static int connect_address(int fd, const struct sockaddr_un *address)
{
    int code;
    do
        code = connect(fd, (const struct sockaddr *)address, sizeof *address);
    while (code < 0 && errno == EINTR);
    return code < 0 ? -errno : 0;
}

/* Whether what lies at a path may be replaced: 0 (nothing, or a dead socket), or -EADDRINUSE when somebody answers, or
 * what else is wrong. */
static int socket_replaceable(const struct sockaddr_un *address, struct err *err)
{
    const char *path = address->sun_path;
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "%s", path);
    if (!S_ISSOCK(st.st_mode)) /* connect(2) says ECONNREFUSED for it, as for a dead socket */
        return err_set(err, -ENOTSOCK, "%s is in the way and is no socket: remove it", path);
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(err, -errno, "cannot make a socket");
    int code = connect_address(fd, address);
    if (code == 0 || code == -EAGAIN) /* EAGAIN: it lives, but its queue is full */
        return err_set(err, -EADDRINUSE, "somebody answers at %s already", path);
    if (code != -ECONNREFUSED && code != -ENOENT)
        return err_errno(err, code, "cannot find out whether somebody answers at %s", path);
    return 0;
}

/* The name under which a socket is made, and which the kernel's lists of sockets go on showing: one more byte, if there
 * is room. */
static void set_early_address(const struct sockaddr_un *address, struct sockaddr_un *early)
{
    size_t len = strlen(address->sun_path);
    *early = *address;
    if (len + 1 < sizeof early->sun_path)
        early->sun_path[len] = '~';
}

int local_listen(const char *path, struct err *err)
{
    struct sockaddr_un address, early;
    int code = set_address(path, &address, err);
    if (code < 0 || (code = socket_replaceable(&address, err)) < 0)
        return code;
    set_early_address(&address, &early);
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(err, -errno, "cannot make a socket");
    unlink(early.sun_path); /* of one that died between the two steps */
    /* Linux gives the file the mode of the socket: no moment at which others could connect, no umask to change */
    if (fchmod(fd, 0600) < 0)
        return err_errno(err, -errno, "cannot set the mode of a socket");
    if (bind(fd, (const struct sockaddr *)&early, sizeof early) < 0)
        return err_errno(err, -errno, "cannot listen at %s", path);
    /* Between bind and listen a socket refuses everybody: whoever waits for the file must not find it so. */
    if (listen(fd, SOMAXCONN) < 0 || rename(early.sun_path, path) < 0) {
        code = -errno;
        unlink(early.sun_path);
        return err_errno(err, code, "cannot listen at %s", path);
    }
    return TAKE_FD(fd);
}

static int connect_path(const char *path, int type, struct err *err)
{
    struct sockaddr_un address;
    int code = set_address(path, &address, err);
    if (code < 0)
        return code;
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | type, 0);
    if (fd < 0)
        return err_errno(err, -errno, "cannot make a socket");
    code = connect_address(fd, &address);
    return code < 0 ? err_errno(err, code, "cannot connect to %s", path) : TAKE_FD(fd);
}

int local_connect(const char *path, struct err *err)
{
    return connect_path(path, 0, err);
}

int local_connect_at_once(const char *path, struct err *err)
{
    return connect_path(path, SOCK_NONBLOCK, err);
}

int local_send(int fd, struct buf *out)
{
    while (out->len) {
        ssize_t sent = send(fd, out->data, out->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            buf_drop(out, (size_t)sent);
        else if (errno != EINTR)
            return -errno;
    }
    return 0;
}

int local_receive(int fd, struct buf *to, size_t most)
{
    enum { ROOM = 64 << 10 };
    for (size_t end = to->len + most; to->len < end;) {
        char *room = buf_reserve(to, ROOM);
        ssize_t got = room ? recv(fd, room, ROOM, MSG_DONTWAIT) : 0;
        if (!room || (got < 0 && errno == EAGAIN))
            return 0;
        if (got == 0 || (got < 0 && errno != EINTR))
            return -EPIPE;
        to->len += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

int local_peer(int fd, uid_t *ret_uid, pid_t *ret_pid)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return -errno;
    if (ret_uid)
        *ret_uid = peer.uid;
    if (ret_pid)
        *ret_pid = peer.pid;
    return 0;
}
