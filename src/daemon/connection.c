/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "lang/reply.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/tool.h"
#include "wire/frame.h"
#include "wire/local.h"

enum {
    QUEUE_LIMIT = 16 << 20,         /* bytes waiting for a tool to read them; */
    CONFINED_QUEUE_LIMIT = 1 << 20, /* for one that is confined: whoever may only look on must not need much memory */
    KEEP_BUFFER = 1 << 20,          /* a larger buffer is freed when it is empty */
    TURN_FRAMES = 16,               /* frames of a tool before others, and the job's processes, have their turn */
    TURN_NS = 1000000,              /* or after this time */
    /* For one process. A tool needs one connection, or one for each thread. More are a mistake, which must not lock out
     * the user's other tools, also where the monitor may have few open files. */
    PEER_CONNECTIONS = 1024,
    PEER_SHARE = 4, /* at most a fourth of the open files */
};

struct connection {
    struct session session; /* first: the engine knows only this */
    struct server *server;
    int fd;
    struct loop_source *source, *flush_source; /* flush_source: output waits for the end of the loop's step */
    struct loop_source *ready_source;          /* requests that came or waited have their turn */
    struct frame_reader reader;
    struct buf out;
    size_t out_sent;
    uint32_t events;
    uint64_t dropped;
    bool closing; /* close when everything is sent */
    bool broken;  /* the peer is gone, or violates the protocol */
    unsigned busy;
    struct confinement confined; /* asked for, until it has a tool */
    struct connection *next, *previous;
};

struct server {
    struct loop *loop;
    struct monitor *monitor;
    int fd, reserve_fd; /* reserve: to refuse when all descriptors are used */
    struct loop_source *source;
    struct connection *connections;
    size_t count;
    pid_t refused; /* the process that was last refused for too many */
    void (*idle)(void *ctx, bool stop);
    void *ctx;
    bool stop_wanted;
};

static uint32_t get_u32(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* ---- output ---- */

static size_t waiting(const struct connection *connection)
{
    return connection->out.len - connection->out_sent;
}

static size_t queue_limit(const struct connection *connection)
{
    const struct tool *tool = connection->session.tool;
    return tool && tool->confined.job ? CONFINED_QUEUE_LIMIT : QUEUE_LIMIT;
}

static bool is_full(const struct connection *connection)
{
    return waiting(connection) > queue_limit(connection);
}

static void want_events(struct connection *connection)
{
    bool full = is_full(connection);
    bool deaf = full || connection->closing || connection->session.waiting || connection->ready_source;
    uint32_t events = (deaf ? 0 : EPOLLIN) | (waiting(connection) ? EPOLLOUT : 0);
    if (events != connection->events && !connection->broken) {
        connection->events = events;
        loop_set_events(connection->source, events);
    }
}

static void flush(struct connection *connection)
{
    while (waiting(connection) && !connection->broken) {
        ssize_t sent = send(connection->fd, connection->out.data + connection->out_sent, waiting(connection),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            connection->out_sent += (size_t)sent;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            connection->broken = true;
    }
    if (!waiting(connection)) {
        connection->out_sent = 0;
        if (connection->out.cap > KEEP_BUFFER)
            buf_done(&connection->out);
        else
            buf_clear(&connection->out);
    } else if (connection->out_sent > QUEUE_LIMIT / 2) {
        buf_drop(&connection->out, connection->out_sent);
        connection->out_sent = 0;
    }
}

static void flush_later(void *ctx)
{
    struct connection *connection = ctx;
    connection->flush_source = NULL;
    flush(connection);
    want_events(connection);
}

static void send_frame(struct connection *connection, uint8_t type, uint8_t flags, uint32_t id, struct span payload)
{
    if (connection->broken)
        return;
    frame_append(&connection->out, type, flags, id, payload, span_of("", 0));
    if (connection->out.failed) {
        log_error("out of memory: a tool (pid %d) is disconnected", connection->session.peer_pid);
        connection->broken = true;
        shutdown(connection->fd, SHUT_RDWR); /* the loop reports it, and we clean up */
        return;
    }
    /* Replies to a batch of requests leave together, when the batch is done. Replies of events leave when the event is
     * handled: the waiting thread goes on first, and the tool does not take its processor. */
    if (!connection->busy && !connection->flush_source)
        connection->flush_source = loop_add_deferred(connection->server->loop, flush_later, connection);
    if (!connection->busy && !connection->flush_source) /* out of memory */
        flush(connection);
}

static void send_reply(struct session *session, uint32_t id, bool last, bool droppable, struct span encoded)
{
    struct connection *connection = (struct connection *)session;
    if (droppable && is_full(connection)) {
        connection->dropped++;
        return;
    }
    send_frame(connection, FRAME_REPLY, last ? FRAME_LAST : 0, id, encoded);
}

static void send_error(struct session *session, struct span encoded)
{
    send_frame((struct connection *)session, FRAME_ERROR, 0, 0, encoded);
}

static void say_goodbye(struct connection *connection, const char *why)
{
    send_frame(connection, FRAME_GOODBYE, 0, 0, span_str(why));
    connection->closing = true;
}

/* ---- input ---- */

/* The next of the texts of FRAME_CONFINE, or NULL. */
static const char *next_text(struct span *rest)
{
    const char *text = rest->ptr, *end = rest->len ? memchr(text, 0, rest->len) : NULL;
    if (!end)
        return NULL;
    size_t len = (size_t)(end - text) + 1;
    *rest = span_of(rest->ptr + len, rest->len - len);
    return text;
}

static void confine_connection(struct connection *connection, const struct frame *frame)
{
    struct err err = {.text = "this is no confinement"};
    struct span rest =
        frame->payload.len < 4 ? span_of("", 0) : span_of(frame->payload.ptr + 4, frame->payload.len - 4);
    const char *job = next_text(&rest), *who = job ? next_text(&rest) : NULL, *serial = who ? next_text(&rest) : NULL;
    if (connection->session.tool)
        say_goodbye(connection, "a connection is confined before it says hello");
    else if (!serial || rest.len ||
             confine(&connection->confined, get_u32(frame->payload.ptr), job, who, serial, &err) < 0)
        say_goodbye(connection, err.text);
}

static void hello(struct connection *connection, const struct frame *frame)
{
    char text[192];
    if (frame->payload.len < 8) {
        connection->broken = true;
        return;
    }
    uint32_t version = get_u32(frame->payload.ptr), id = get_u32(frame->payload.ptr + 4);
    if (version != WIRE_VERSION) {
        snprintf(text, sizeof text,
                 "this monitor speaks protocol version %d, the tool version %u: use tools of the same scry",
                 WIRE_VERSION, version);
        say_goodbye(connection, text);
        return;
    }
    if (connection->session.tool) {
        say_goodbye(connection, "this connection has already said hello");
        return;
    }
    connection->session.tool = tool_join(connection->server->monitor, id);
    if (!connection->session.tool) {
        snprintf(text, sizeof text,
                 "there is no tool with the id %d: it has ended, or is another monitor's; a tool that is not part of "
                 "another one passes 0 (tool_id of omis_init)",
                 (int)id);
        say_goodbye(connection, text);
        return;
    }
    struct err err;
    if (connection->confined.job && confine_tool(connection->session.tool, &connection->confined, &err) < 0) {
        tool_leave(&connection->session);
        say_goodbye(connection, err.text);
        return;
    }
    log_debug("connection state=joined pid=%d tool=%u", connection->session.peer_pid, connection->session.tool->id);
    struct buf payload = BUF_INIT;
    buf_put_u32(&payload, WIRE_VERSION);
    buf_put_u32(&payload, connection->session.tool->id);
    send_frame(connection, FRAME_WELCOME, 0, frame->id, span_of(payload.data, payload.len));
    buf_done(&payload);
}

static void finalize(struct connection *connection, const struct frame *frame)
{
    bool confined = connection->confined.job || (connection->session.tool && connection->session.tool->confined.job);
    if (frame->payload.len >= 4 && get_u32(frame->payload.ptr) && !confined)
        connection->server->stop_wanted = true;
    if (connection->session.tool)
        tool_leave(&connection->session);
    say_goodbye(connection, "");
}

static void handle_frame(struct connection *connection, const struct frame *frame)
{
    if (frame->type == FRAME_HELLO) {
        hello(connection, frame);
    } else if (frame->type == FRAME_CONFINE) {
        confine_connection(connection, frame);
    } else if (frame->type == FRAME_FINALIZE) {
        finalize(connection, frame);
    } else if (frame->type == FRAME_REQUEST && connection->session.tool && frame->payload.len >= 4) {
        struct span text = span_of(frame->payload.ptr + 4, frame->payload.len - 4);
        execute_request(&connection->session, frame->id, get_u32(frame->payload.ptr), text);
    } else {
        say_goodbye(connection, "a tool must not send this here");
    }
}

static void too_long(struct connection *connection, const struct frame *frame)
{
    if (connection->session.tool && frame->type == FRAME_REQUEST)
        reply_status(&connection->session, frame->id, true, OMIS_PARAMETER_ERROR,
                     "the request is longer than %d bytes: send it in parts", FRAME_PAYLOAD_LIMIT);
    else
        connection->broken = true;
}

/* One turn. True if it stopped with more to do: others have their turn, or the tool must read its replies first.
 * Requests after one that waits for its answer wait, too. */
static bool handle_frames(struct connection *connection)
{
    struct frame frame;
    int code;
    unsigned count = 0;
    uint64_t end_ns = clock_now_ns() + TURN_NS;
    while (!connection->closing && !connection->broken && !connection->session.waiting &&
           (code = frame_reader_next(&connection->reader, &frame)) != 0) {
        if (code == -EMSGSIZE)
            too_long(connection, &frame);
        else if (code < 0)
            connection->broken = true;
        else
            handle_frame(connection, &frame);
        if (is_full(connection) || ++count == TURN_FRAMES || clock_now_ns() > end_ns)
            return true;
    }
    return false;
}

static void tell_dropped(struct connection *connection)
{
    if (!connection->dropped || waiting(connection) > queue_limit(connection) / 2 || !connection->session.tool)
        return;
    uint64_t dropped = connection->dropped;
    connection->dropped = 0;
    session_error(&connection->session, OMIS_UNSPECIFIED_ERROR,
                  "%llu replies of triggered requests were dropped because this tool did not read them in time",
                  (unsigned long long)dropped);
}

static void connection_free(struct connection *connection)
{
    struct server *server = connection->server;
    log_debug("connection state=closed pid=%d tool=%u connections=%zu", connection->session.peer_pid,
              connection->session.tool ? connection->session.tool->id : 0, server->count - 1);
    if (connection->session.tool)
        tool_leave(&connection->session);
    loop_remove(connection->source);
    loop_remove(connection->flush_source);
    loop_remove(connection->ready_source);
    close(connection->fd);
    frame_reader_done(&connection->reader);
    buf_done(&connection->out);
    confinement_done(&connection->confined);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        server->connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    server->count--;
    free(connection);
    if (server->count == 0 && server->idle)
        server->idle(server->ctx, server->stop_wanted);
}

static void receive(struct connection *connection)
{
    size_t room;
    char *to = frame_reader_room(&connection->reader, &room);
    if (!to) {
        connection->broken = true;
        return;
    }
    ssize_t got = recv(connection->fd, to, room, MSG_DONTWAIT);
    if (got > 0)
        frame_reader_fed(&connection->reader, (size_t)got);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        connection->broken = true;
}

/* Waits for its next input, or closes it. */
static void settle(struct connection *connection)
{
    tell_dropped(connection);
    if (connection->broken || (connection->closing && !waiting(connection)))
        connection_free(connection);
    else
        want_events(connection);
}

static void requests_ready(void *ctx);

/* Its next turn comes after all others. */
static void queue_turn(struct connection *connection)
{
    if (!connection->ready_source)
        connection->ready_source = loop_add_deferred(connection->server->loop, requests_ready, connection);
    if (!connection->ready_source) { /* out of memory: nobody would ever read its requests */
        connection->broken = true;
        shutdown(connection->fd, SHUT_RDWR);
    }
}

static void take_turn(struct connection *connection)
{
    bool more = true;
    if (!is_full(connection)) {
        connection->busy++;
        more = handle_frames(connection);
        connection->busy--;
    }
    flush(connection);
    if (more && !is_full(connection))
        queue_turn(connection);
    settle(connection);
}

static void requests_ready(void *ctx)
{
    struct connection *connection = ctx;
    connection->ready_source = NULL;
    take_turn(connection);
}

static void connection_ready(void *ctx, int fd, uint32_t events)
{
    (void)fd;
    struct connection *connection = ctx;
    if (connection->ready_source) { /* handle its requests before its end */
        flush(connection);
        settle(connection);
        return;
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive(connection);
    take_turn(connection);
}

static void session_ready(struct session *session)
{
    queue_turn((struct connection *)session);
}

/* ---- accepting ---- */

static void refuse(int fd, const char *why)
{
    struct buf frame = BUF_INIT;
    log_debug("connection state=refused why=%s", LOG_TEXT(why));
    frame_append(&frame, FRAME_GOODBYE, 0, 0, span_str(why), span_of("", 0));
    if (!frame.failed && send(fd, frame.data, frame.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_info("a refused connection did not get the reason");
    buf_done(&frame);
    close(fd);
}

static size_t peer_limit(void)
{
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur / PEER_SHARE < PEER_CONNECTIONS ? files.rlim_cur / PEER_SHARE : PEER_CONNECTIONS;
}

static bool peer_has_enough(struct server *server, pid_t pid, char *ret_why, size_t size)
{
    size_t count = 0, limit = peer_limit();
    for (const struct connection *connection = server->connections; connection; connection = connection->next)
        count += connection->session.peer_pid == pid;
    if (count < limit)
        return false;
    snprintf(ret_why, size,
             "process %d has %zu connections to this monitor, as many as one may have: it must close some", pid, count);
    if (server->refused != pid)
        log_warning("refused: %s", ret_why);
    server->refused = pid;
    return true;
}

static void add_connection(struct server *server, int fd)
{
    char why[160];
    uid_t uid;
    pid_t pid;
    if (local_peer(fd, &uid, &pid) < 0 || uid != geteuid()) {
        log_warning("a connection of user %u (pid %d) was refused", uid, pid);
        refuse(fd, "this monitor serves another user");
        return;
    }
    if (peer_has_enough(server, pid, why, sizeof why)) {
        refuse(fd, why);
        return;
    }
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection) {
        connection->server = server;
        connection->fd = fd;
        connection->session.peer_pid = pid;
        connection->session.reply = send_reply;
        connection->session.error = send_error;
        connection->session.ready = session_ready;
        connection->events = EPOLLIN;
        connection->source = loop_add_fd(server->loop, fd, EPOLLIN, connection_ready, connection);
    }
    if (!connection || !connection->source) {
        free(connection);
        refuse(fd, "the monitor is out of memory");
        return;
    }
    connection->next = server->connections;
    if (server->connections)
        server->connections->previous = connection;
    server->connections = connection;
    server->count++;
    log_debug("connection state=opened pid=%d connections=%zu", pid, server->count);
}

static void accept_ready(void *ctx, int fd, uint32_t events)
{
    (void)events;
    struct server *server = ctx;
    for (;;) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (peer >= 0) {
            add_connection(server, peer);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno != EMFILE && errno != ENFILE)
            return;
        /* all descriptors are used: accept the connection with the reserve, and refuse it */
        close(server->reserve_fd);
        peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (peer >= 0)
            refuse(peer, "the monitor has no more open files for connections (ulimit -n)");
        server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (peer < 0)
            return;
    }
}

static void print_connections(void *ctx, struct buf *out)
{
    const struct server *server = ctx;
    for (const struct connection *connection = server->connections; connection; connection = connection->next)
        buf_printf(out, "connection pid=%d tool=%u request_waits=%d requests_queued=%d queued_bytes=%zu dropped=%llu\n",
                   connection->session.peer_pid, connection->session.tool ? connection->session.tool->id : 0,
                   connection->session.waiting != NULL, connection->ready_source != NULL, waiting(connection),
                   (unsigned long long)connection->dropped);
}

int server_new(struct server **ret_server, struct loop *loop, struct monitor *monitor, int fd,
               void (*idle)(void *ctx, bool stop), void *ctx)
{
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return -ENOMEM;
    *server = (struct server){.loop = loop, .monitor = monitor, .fd = fd, .idle = idle, .ctx = ctx};
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->source = loop_add_fd(loop, fd, EPOLLIN, accept_ready, server);
    if (!server->source) {
        free(server);
        return -ENOMEM;
    }
    monitor->connections = (struct state_part){print_connections, server};
    *ret_server = server;
    return 0;
}

int server_listen(struct server *server, int fd)
{
    struct loop_source *source = loop_add_fd(server->loop, fd, EPOLLIN, accept_ready, server);
    if (!source) {
        close(fd);
        return -ENOMEM;
    }
    accept_ready(server, server->fd, EPOLLIN);
    loop_remove(server->source);
    close(server->fd);
    server->source = source;
    server->fd = fd;
    return 0;
}

void server_free(struct server *server)
{
    if (!server)
        return;
    server->idle = NULL;
    server->monitor->connections.print = NULL;
    while (server->connections)
        connection_free(server->connections);
    loop_remove(server->source);
    close(server->fd);
    close(server->reserve_fd);
    free(server);
}

size_t server_connections(const struct server *server)
{
    return server->count;
}
