/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of other monitors' tools, which edges carry: connections like others, but for where their frames come from. */
#include "base/system/log.h"
#include "daemon/internal.h"

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

bool carried_relay(struct connection *connection, const struct frame *hello, uint32_t id)
{
    if (connection->confined.job || connection->hello.len || tool_find(connection->server->monitor, id))
        return false;
    connection->hello_id = hello->id;
    buf_append(&connection->hello, hello->payload.ptr, hello->payload.len);
    return !connection->hello.failed && relay_next(connection);
}

struct tree_server carried_server(struct server *server)
{
    return (struct tree_server){edge_frame, edge_error, edge_room, edge_relayed, edge_gone, server};
}
