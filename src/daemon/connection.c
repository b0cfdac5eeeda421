/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "daemon/internal.h"
#include "lang/reply.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "shm/waits.h"

enum {
    QUEUE_LIMIT = 16 << 20,         /* bytes waiting for a tool to read them; */
    CONFINED_QUEUE_LIMIT = 1 << 20, /* for one that is confined: whoever may only look on must not need much memory */
    TURN_FRAMES = 16,               /* frames of a tool before others, and the job's processes, have their turn */
};

/* ---- output ---- */

size_t connection_waiting(const struct connection *connection)
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

bool connection_full(struct session *session)
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

void connection_send(struct connection *connection, uint8_t type, uint8_t flags, uint32_t id, struct span payload)
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

static void hello(struct connection *connection, const struct frame *frame)
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

static void finalize(struct connection *connection, const struct frame *frame)
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

void connection_handle_frame(struct connection *connection, const struct frame *frame)
{
    if (connection->stream && frame->via) {
        connection->broken = true;
    } else if (connection->relay) {
        tree_relay_send(connection->relay, frame);
    } else if (frame->type == FRAME_PEER) {
        become_edge(connection, frame);
    } else if (frame->type == FRAME_HELLO) {
        hello(connection, frame);
    } else if (frame->type == FRAME_CONFINE) {
        confine_connection(connection, frame);
    } else if (frame->type == FRAME_FINALIZE) {
        finalize(connection, frame);
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

void connection_free(struct connection *connection)
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
static void settle(struct connection *connection)
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
void connection_queue_turn(struct connection *connection)
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
    settle(connection);
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
        settle(connection);
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

struct connection *connection_new(struct server *server)
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

void connection_read(struct connection *connection)
{
    stream_own(connection->stream, connection_ready, want_events, connection);
}
