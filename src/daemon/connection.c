/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/connection.h"

#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "shm/waits.h"
#include "wire/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    struct session session; /* first: the engine knows only this */
    struct server *server;
    struct stream *stream; /* its own; NULL: it is a session of another monitor's, that an edge carries */
    struct edge *edge;     /* which; NULL once that has gone */
    uint16_t via;          /* and its number there */
    bool guest;            /* it brought its tool here: the tool's home is behind that edge */
    struct via *relay;     /* its tool's home is another monitor: all goes there; NULL */
    struct buf hello;      /* the payload with which that is looked for */
    uint32_t hello_id;
    int tried;                        /* the last edge that it was looked for behind */
    bool welcome;                     /* it was found */
    struct frame_reader queue;        /* of an edge's: what came and was not handled */
    struct loop_source *ready_source; /* requests that came or waited have their turn */
    uint64_t dropped;
    bool closing;                /* close when everything is sent */
    bool broken;                 /* the peer is gone, or violates the protocol */
    bool parted;                 /* of an edge's: GOODBYE was sent */
    struct confinement confined; /* asked for, until it has a tool */
    struct connection *next, *previous;
    struct carried { /* by edge and number */
        const struct edge *edge;
        uint64_t via;
    } key;
    UT_hash_handle hh;
};

struct server {
    struct loop *loop;
    struct monitor *monitor;
    int fd, reserve_fd; /* reserve: to refuse when all descriptors are used */
    struct loop_source *source;
    struct connection *connections, *carried; /* carried: those of edges, hash by edge and number */
    size_t count;
    pid_t refused; /* the process that was last refused for too many */
    void (*idle)(void *ctx, bool stop);
    void *ctx;
    bool stop_wanted;
};

static bool carried_relay(struct connection *connection, const struct frame *hello, uint32_t id);

enum {
    QUEUE_LIMIT = 16 << 20,         /* bytes waiting for a tool to read them; */
    CONFINED_QUEUE_LIMIT = 1 << 20, /* for one that is confined: whoever may only look on must not need much memory */
    TURN_FRAMES = 16,               /* frames of a tool before others, and the job's processes, have their turn */
};

/* ---- output ---- */

static size_t connection_waiting(const struct connection *connection)
{
    return connection->stream ? stream_waiting(connection->stream)
           : connection->edge ? edge_waiting(connection->edge)
                              : 0;
}

static bool is_broken(const struct connection *connection)
{
    return connection->broken || (connection->stream && connection->stream->broken);
}

static size_t queue_limit(const struct connection *connection)
{
    const struct tool *tool = connection->session.tool;
    return tool && tool->confined.job ? CONFINED_QUEUE_LIMIT : QUEUE_LIMIT;
}

static bool is_full(const struct connection *connection)
{
    return connection_waiting(connection) > queue_limit(connection) ||
           (connection->relay && edge_waiting(via_edge(connection->relay)) > QUEUE_LIMIT);
}

/* What it sends can be left out, and is counted: it is not read. */
static bool connection_full(struct session *session)
{
    struct connection *connection = (struct connection *)session;
    connection->dropped += is_full(connection);
    return is_full(connection);
}

static void want_events(void *ctx)
{
    struct connection *connection = ctx;
    if (connection->stream)
        stream_want(connection->stream, is_full(connection) || connection->closing ||
                                            session_waits(&connection->session) || connection->session.blocked ||
                                            connection->ready_source);
}

static void connection_send(struct connection *connection, uint8_t type, uint8_t flags, uint32_t id,
                            struct span payload)
{
    if (connection->edge) {
        edge_send(connection->edge, connection->via, type, flags, id, payload);
    } else if (connection->stream && !is_broken(connection)) {
        stream_send(connection->stream, 0, type, flags, id, payload, span_of("", 0));
        if (connection->stream->broken)
            log_error("out of memory: a tool (pid %d) is disconnected", connection->session.peer_pid);
    }
}

static void send_reply(struct session *session, uint32_t id, bool last, bool droppable, struct span encoded)
{
    struct connection *connection = (struct connection *)session;
    if (droppable && is_full(connection)) {
        connection->dropped++;
        return;
    }
    connection_send(connection, FRAME_REPLY, last ? FRAME_LAST : 0, id, encoded);
}

static void send_error(struct session *session, struct span encoded)
{
    connection_send((struct connection *)session, FRAME_ERROR, 0, 0, encoded);
}

static void say_goodbye(struct connection *connection, const char *why)
{
    connection_send(connection, FRAME_GOODBYE, 0, 0, span_str(why));
    connection->closing = connection->parted = true;
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
             confine(&connection->confined, frame_number(frame->payload.ptr), job, who, serial, &err) < 0)
        say_goodbye(connection, err.text);
}

static void connection_hello(struct connection *connection, const struct frame *frame)
{
    char text[192];
    if (frame->payload.len < 8) {
        connection->broken = true;
        return;
    }
    uint32_t version = frame_number(frame->payload.ptr), id = frame_number(frame->payload.ptr + 4);
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
    connection->guest = connection->edge && frame->flags & FRAME_NEW;
    if (!connection->guest && id && carried_relay(connection, frame, id))
        return;
    connection->session.tool =
        connection->guest ? tool_make(connection->server->monitor, id) : tool_join(connection->server->monitor, id);
    if (connection->session.tool && connection->guest) {
        connection->session.tool->spread = true;
        edge_tell_nodes(connection->edge);
    }
    if (!connection->session.tool) {
        snprintf(text, sizeof text,
                 "there is no tool with the id %d: it has ended, or is another monitor's; a tool that is not part of "
                 "another one passes 0 (tool_id of omis_init)",
                 (int)id);
        say_goodbye(connection, text);
        return;
    }
    struct err err;
    if (connection->edge) /* its tools come by the key that the edge came by */
        confinement_copy_name(&connection->confined, edge_who(connection->edge));
    if (connection->confined.who && confine_tool(connection->session.tool, &connection->confined, &err) < 0) {
        tool_leave(&connection->session);
        say_goodbye(connection, err.text);
        return;
    }
    log_debug("connection state=joined pid=%d tool=%u", connection->session.peer_pid, connection->session.tool->id);
    struct buf payload = BUF_INIT;
    buf_put_u32(&payload, WIRE_VERSION);
    buf_put_u32(&payload, connection->session.tool->id);
    connection_send(connection, FRAME_WELCOME, 0, frame->id, span_of(payload.data, payload.len));
    buf_done(&payload);
}

static void connection_finalize(struct connection *connection, const struct frame *frame)
{
    bool confined = connection->confined.job || (connection->session.tool && connection->session.tool->confined.job);
    if (frame->payload.len >= 4 && frame_number(frame->payload.ptr) && !confined && !connection->edge)
        connection->server->stop_wanted = true;
    if (connection->session.tool)
        tool_leave(&connection->session);
    say_goodbye(connection, "");
}

/* Another monitor: the stream is an edge from here on. */
static void become_edge(struct connection *connection, const struct frame *frame)
{
    struct stream *stream = connection->stream;
    if (!stream || connection->session.tool || connection->confined.job) {
        say_goodbye(connection, "only an unconfined connection that has said nothing yet may become an edge");
        return;
    }
    connection->stream = NULL;
    connection->broken = true;
    tree_take(connection->server->monitor->tree, stream, frame, &connection->confined);
}

static void connection_handle_frame(struct connection *connection, const struct frame *frame)
{
    if (connection->stream && frame->via) {
        connection->broken = true;
    } else if (connection->relay) {
        tree_relay_send(connection->relay, frame);
    } else if (frame->type == FRAME_PEER) {
        become_edge(connection, frame);
    } else if (frame->type == FRAME_HELLO) {
        connection_hello(connection, frame);
    } else if (frame->type == FRAME_CONFINE) {
        confine_connection(connection, frame);
    } else if (frame->type == FRAME_FINALIZE) {
        connection_finalize(connection, frame);
    } else if (frame->type == FRAME_REQUEST && connection->session.tool && frame->payload.len >= 4) {
        struct span text = span_of(frame->payload.ptr + 4, frame->payload.len - 4);
        execute_request(&connection->session, frame->id, frame_number(frame->payload.ptr), text);
    } else if (connection->edge && connection->session.tool &&
               tree_asked(connection->edge, &connection->session, frame)) {
        return;
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

static struct frame_reader *reader_of(struct connection *connection)
{
    return connection->stream ? &connection->stream->reader : &connection->queue;
}

/* One turn. True if it stopped with more to do: others have their turn, or the tool must read its replies first.
 * Requests after one that waits for its answer wait, too. */
static bool handle_frames(struct connection *connection)
{
    struct frame frame;
    int code;
    unsigned count = 0;
    uint64_t end_ns = clock_now_ns() + CONNECTION_TURN_NS;
    while (!connection->closing && !is_broken(connection) && !session_waits(&connection->session) &&
           !monitor_blocks(connection->server->monitor, &connection->session) &&
           (code = frame_reader_next(reader_of(connection), &frame)) != 0) {
        if (code == -EMSGSIZE)
            too_long(connection, &frame);
        else if (code < 0)
            connection->broken = true;
        else
            connection_handle_frame(connection, &frame);
        if (is_full(connection) || ++count == TURN_FRAMES || clock_now_ns() > end_ns)
            return true;
    }
    return false;
}

static void tell_dropped(struct connection *connection)
{
    if (!connection->dropped || connection_waiting(connection) > queue_limit(connection) / 2 ||
        !connection->session.tool)
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
    if (connection->edge && !connection->parted) /* its number can be used again */
        connection_send(connection, FRAME_GOODBYE, 0, 0, span_of("", 0));
    if (connection->relay)
        tree_relay_end(connection->relay);
    loop_remove(connection->ready_source);
    stream_free(connection->stream);
    if (connection->key.edge)
        HASH_DEL(server->carried, connection);
    frame_reader_done(&connection->queue);
    buf_done(&connection->hello);
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

/* Waits for its next input, or closes it. */
static void connection_settle(struct connection *connection)
{
    tell_dropped(connection);
    bool sent = connection->edge || !connection_waiting(connection);
    if (is_broken(connection) || (connection->closing && sent))
        connection_free(connection);
    else
        want_events(connection);
}

static void requests_ready(void *ctx);

/* Its next turn comes after all others. */
/* Its next turn comes after all others. */
static void connection_queue_turn(struct connection *connection)
{
    if (!connection->ready_source)
        connection->ready_source = loop_add_deferred(connection->server->loop, requests_ready, connection);
    if (!connection->ready_source) { /* out of memory: nobody would ever read its requests */
        connection->broken = true;
        if (connection->stream)
            shutdown(connection->stream->fd, SHUT_RDWR);
    }
}

static void take_turn(struct connection *connection)
{
    bool more = true;
    struct stream *corked = connection->stream; /* it may become an edge meanwhile */
    if (!is_full(connection)) {
        if (corked)
            corked->corked++;
        more = handle_frames(connection);
        if (corked && connection->stream == corked)
            corked->corked--;
    }
    if (connection->stream)
        stream_flush(connection->stream);
    if (more && !is_full(connection))
        connection_queue_turn(connection);
    connection_settle(connection);
}

static void requests_ready(void *ctx)
{
    struct connection *connection = ctx;
    connection->ready_source = NULL;
    take_turn(connection);
}

static void connection_ready(void *ctx, uint32_t events)
{
    struct connection *connection = ctx;
    if (connection->ready_source) { /* handle its requests before its end */
        stream_flush(connection->stream);
        connection_settle(connection);
        return;
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        stream_receive(connection->stream);
    take_turn(connection);
}

static void session_ready(struct session *session)
{
    connection_queue_turn((struct connection *)session);
}

static struct connection *connection_new(struct server *server)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->server = server;
    connection->session.reply = send_reply;
    connection->session.error = send_error;
    connection->session.ready = session_ready;
    connection->next = server->connections;
    if (server->connections)
        server->connections->previous = connection;
    server->connections = connection;
    server->count++;
    return connection;
}

/* Sessions of other monitors' tools, which edges carry: connections like others, but for where their frames come from. */

enum {
    CARRIED_LIMIT = 2 * FRAME_PAYLOAD_LIMIT, /* bytes of a session's requests that wait, where the edge goes on */
    WRONG_IDS = 256,                         /* so often a node may ask for a tool that is not there, and never more */
};

static void send_other(struct session *session, uint8_t type, uint32_t id, struct span payload)
{
    connection_send((struct connection *)session, type, 0, id, payload);
}

static struct connection *find_carried(const struct server *server, const struct edge *edge, uint16_t via)
{
    struct carried key = {.edge = edge, .via = via};
    struct connection *connection;
    HASH_FIND(hh, server->carried, &key, sizeof key, connection);
    return connection;
}

static struct connection *add_carried(struct server *server, struct edge *edge, uint16_t via)
{
    struct connection *connection = connection_new(server);
    if (!connection)
        return NULL;
    connection->edge = edge;
    connection->via = via;
    connection->session.other = send_other;
    connection->session.full = connection_full;
    connection->key = (struct carried){.edge = edge, .via = via};
    HASH_ADD(hh, server->carried, key, sizeof connection->key, connection);
    log_debug("connection state=opened edge=%d via=%u connections=%zu", edge_place(edge), via, server->count);
    return connection;
}

/* What must not wait behind requests, which may wait for just that. */
static bool frame_is_urgent(struct connection *connection, uint8_t type)
{
    struct session *session = &connection->session;
    if (type == FRAME_RELEASE || type == FRAME_LOCK || type == FRAME_UNLOCK)
        return session->tool;
    return type == FRAME_FINALIZE && (session_waits(session) || monitor_blocks(connection->server->monitor, session));
}

static const char no_rights[] =
    "a node that was attached from here has no rights here: only another process of a tool that has "
    "attached it may come, by the tool's id (tool_id of omis_init)";

static struct connection *guest_of(const struct server *server, const struct edge *edge)
{
    struct connection *guest = server->carried;
    while (guest && !(guest->guest && guest->session.tool && guest->edge == edge))
        guest = guest->hh.next;
    return guest;
}

/* Who has attached us may do everything. A node that we have attached has no rights here: it may have been broken into. It
 * may only bring another process of a tool that has something there, and must know the tool's id: only that process can have
 * told it. */
static bool may_come(const struct server *server, struct edge *edge, const struct frame *frame)
{
    if (!edge_is_ours(edge))
        return true;
    uint32_t id = frame->type == FRAME_HELLO && !(frame->flags & FRAME_NEW) && frame->payload.len >= 8
                      ? frame_number(frame->payload.ptr + 4)
                      : 0;
    unsigned *wrong = edge_wrong_ids(edge);
    if (!id || *wrong >= WRONG_IDS)
        return false;
    const struct tool *tool = tool_find(server->monitor, id);
    for (struct edge *above = NULL; !tool && (above = tree_next_edge(server->monitor->tree, above));)
        if (!edge_is_ours(above) && guest_of(server, above))
            return true; /* it may be one of theirs */
    bool there = tool && !tool->confined.job && tree_find_via(tool, edge);
    *wrong += !there;
    return there;
}

static void edge_frame(void *ctx, struct edge *edge, const struct frame *frame)
{
    struct server *server = ctx;
    struct connection *connection = find_carried(server, edge, frame->via);
    if (!connection && (frame->type == FRAME_HELLO || frame->type == FRAME_CONFINE)) {
        if (!may_come(server, edge, frame)) {
            edge_send(edge, frame->via, FRAME_GOODBYE, 0, 0, span_str(no_rights));
            return;
        }
        connection = add_carried(server, edge, frame->via);
    }
    if (!connection) /* it came late */
        return;
    if (frame_is_urgent(connection, frame->type)) {
        connection_handle_frame(connection, frame);
        if (connection->closing)
            connection_free(connection);
        return;
    }
    bool room = connection->queue.bytes.len < CARRIED_LIMIT;
    if (!room || !frame_reader_put(&connection->queue, frame)) {
        log_error("edge %d: a session is ended: %s", edge_place(edge),
                  room ? "out of memory" : "it does not wait for its answers");
        connection->broken = true;
    }
    connection_queue_turn(connection);
}

/* For the tool's first connection: all are the same tool's. */
static void edge_error(void *ctx, struct tool *tool, struct span encoded)
{
    const struct server *server = ctx;
    for (struct connection *connection = server->connections; connection; connection = connection->next)
        if (connection->session.tool == tool) {
            if (!connection_full(&connection->session))
                connection_send(connection, FRAME_ERROR, 0, 0, encoded);
            return;
        }
}

static void edge_room(void *ctx, struct edge *edge)
{
    struct server *server = ctx;
    for (struct connection *connection = server->connections; connection; connection = connection->next)
        if (connection->edge == edge || (connection->relay && via_edge(connection->relay) == edge))
            connection_queue_turn(connection);
}

static void edge_gone(void *ctx, struct edge *edge)
{
    struct server *server = ctx;
    for (struct connection *connection = server->carried, *next; connection; connection = next) {
        next = connection->hh.next;
        if (connection->edge != edge)
            continue;
        connection->edge = NULL;
        connection_free(connection);
    }
}

/* ---- other processes of a tool whose home is elsewhere ---- */

/* No monitor tells those that it attaches what ids its tools have: all that have something here are asked. */
static bool relay_next(struct connection *connection)
{
    struct server *server = connection->server;
    const struct frame hello = {.type = FRAME_HELLO,
                                .id = connection->hello_id,
                                .payload = span_of(connection->hello.data, connection->hello.len)};
    for (struct edge *edge = NULL; (edge = tree_next_edge(server->monitor->tree, edge));) {
        if (edge_is_ours(edge) || edge_place(edge) <= connection->tried || !guest_of(server, edge))
            continue;
        connection->tried = edge_place(edge);
        connection->relay = tree_relay(edge, connection);
        if (!connection->relay)
            continue;
        log_debug("connection state=relayed pid=%d edge=%d", connection->session.peer_pid, connection->tried);
        tree_relay_send(connection->relay, &hello);
        return true;
    }
    return false;
}

static void edge_relayed(void *ctx, void *relay, const struct frame *frame)
{
    (void)ctx;
    struct connection *connection = relay;
    struct span lost = span_str("the way to the monitor that the tool is at is gone");
    bool ended = !frame || frame->type == FRAME_GOODBYE;
    if (ended)
        connection->relay = NULL;
    connection->welcome |= frame && frame->type == FRAME_WELCOME;
    if (ended && !connection->welcome && relay_next(connection))
        return;
    connection_send(connection, frame ? frame->type : FRAME_GOODBYE, frame ? frame->flags : 0, frame ? frame->id : 0,
                    frame ? frame->payload : lost);
    if (!ended)
        return;
    connection->closing = connection->parted = true;
    connection_queue_turn(connection);
}

/* The tool's home is another monitor: the connection is one to that. false: it is here. */
static bool carried_relay(struct connection *connection, const struct frame *hello, uint32_t id)
{
    if (connection->confined.job || connection->hello.len || tool_find(connection->server->monitor, id))
        return false;
    connection->hello_id = hello->id;
    buf_append(&connection->hello, hello->payload.ptr, hello->payload.len);
    return !connection->hello.failed && relay_next(connection);
}

/* For another monitor that this one has an edge to. */
static struct tree_server carried_server(struct server *server)
{
    return (struct tree_server){edge_frame, edge_error, edge_room, edge_relayed, edge_gone, server};
}

/* Accepts the connections of tools. */

enum {
    /* For one process. A tool needs one connection, or one for each thread. More are a mistake, which must not lock out
     * the user's other tools, also where the monitor may have few open files. */
    PEER_CONNECTIONS = 1024,
    PEER_SHARE = 4, /* at most a fourth of the open files */
};

static void connection_refuse(int fd, const char *why)
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
        connection_refuse(fd, "this monitor serves another user");
        return;
    }
    if (peer_has_enough(server, pid, why, sizeof why)) {
        connection_refuse(fd, why);
        return;
    }
    struct connection *connection = connection_new(server);
    if (!connection || stream_new(&connection->stream, server->loop, fd) < 0) {
        if (connection)
            connection_free(connection);
        connection_refuse(fd, "the monitor is out of memory");
        return;
    }
    connection->session.peer_pid = pid;
    stream_own(connection->stream, connection_ready, want_events, connection);
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
            connection_refuse(peer, "the monitor has no more open files for connections (ulimit -n)");
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
                   connection->session.waiting != NULL, connection->ready_source != NULL,
                   connection_waiting(connection), (unsigned long long)connection->dropped);
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
    struct tree_server carried = carried_server(server);
    if (tree_new(monitor, &carried) < 0) {
        loop_remove(server->source);
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
    tree_free(server->monitor->tree);
    loop_remove(server->source);
    close(server->fd);
    close(server->reserve_fd);
    free(server);
}

size_t server_connections(const struct server *server)
{
    return server->count;
}
