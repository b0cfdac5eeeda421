/* SPDX-License-Identifier: Apache-2.0 */
/* Edges: the greeting, whether the other side is alive, and where frames go. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "base/system/pause.h"
#include "monitor/engine/object.h"
#include "monitor/tree/internal.h"
#include "shm/waits.h"

enum {
    TURN_FRAMES = 64,         /* of an edge before others have their turn */
    CLOCK_FIRST = 4,          /* and so often at the beginning */
    WAITS_MOST = 256 << 20,   /* bytes that it does not read: sessions have limits of their own, which are less */
    ANSWERS_MOST = 256 << 10, /* so much waits, and the answer to a PING would come too late to be of use */
};

#define EDGE_ASK_NS ((uint64_t)EDGE_ASK_S * NS_PER_SECOND)
#define EDGE_SILENT_NS ((uint64_t)EDGE_SILENT_S * NS_PER_SECOND)

static uint64_t get_u64(const char *bytes)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | (unsigned char)bytes[i];
    return value;
}

/* ---- sending ---- */

void edge_send(struct edge *edge, uint16_t via, uint8_t type, uint8_t flags, uint32_t id, struct span payload)
{
    if (edge->state == EDGE_GONE)
        return;
    stream_send(edge->stream, via, type, flags, id, payload, span_of("", 0));
    if (edge_waiting(edge) > WAITS_MOST)
        edge_close(edge, "it does not read what it is sent");
}

void edge_note(struct edge *edge, uint8_t type, uint32_t id, struct span payload)
{
    edge_send(edge, 0, type, 0, id, payload);
}

size_t edge_waiting(const struct edge *edge)
{
    return stream_waiting(edge->stream);
}

static void say_peer(struct edge *edge)
{
    struct buf payload = BUF_INIT;
    const char *name = edge->tree->monitor->node->name;
    buf_put_u32(&payload, EDGE_VERSION);
    buf_append(&payload, edge->tree->instance, TREE_INSTANCE_SIZE);
    buf_append(&payload, SCRY_VERSION, sizeof SCRY_VERSION);
    buf_append(&payload, name, strlen(name) + 1);
    if (!payload.failed)
        edge_note(edge, FRAME_PEER, 0, span_of(payload.data, payload.len));
    buf_done(&payload);
}

static void edge_ask(struct edge *edge, uint64_t now_ns)
{
    struct buf payload = BUF_INIT;
    buf_put_u64(&payload, now_ns);
    if (!payload.failed)
        edge_note(edge, FRAME_PING, 0, span_of(payload.data, payload.len));
    buf_done(&payload);
    edge->asked_ns = now_ns;
}

static void edge_answer(struct edge *edge, const struct frame *ping)
{
    struct buf payload = BUF_INIT;
    if (ping->payload.len != 8 || edge_waiting(edge) > ANSWERS_MOST)
        return;
    buf_append(&payload, ping->payload.ptr, 8);
    buf_put_u64(&payload, clock_now_ns());
    buf_put_u64(&payload, clock_now_ns());
    if (!payload.failed)
        edge_note(edge, FRAME_PONG, 0, span_of(payload.data, payload.len));
    buf_done(&payload);
    stream_flush(edge->stream); /* the time that it has to wait is an error of the clock's */
}

static void edge_answered(struct edge *edge, const struct frame *pong)
{
    uint64_t now_ns = clock_now_ns();
    if (pong->payload.len != 24)
        return;
    clock_offset_add(&edge->clock, get_u64(pong->payload.ptr), get_u64(pong->payload.ptr + 8),
                     get_u64(pong->payload.ptr + 16), now_ns);
    if (edge->clock.count < CLOCK_FIRST)
        edge_ask(edge, now_ns);
}

/* ---- the end of one ---- */

static void unlink_edge(struct edge *edge)
{
    struct edge **at = &edge->tree->edges;
    while (*at && *at != edge)
        at = &(*at)->next;
    if (*at)
        *at = edge->next;
}

static void tell_greeted(struct edge *edge, struct tree_node *node, const char *why)
{
    bool first = edge->ours && !edge->greeted;
    edge->greeted = true;
    if (first)
        reach_greeted(edge, node, why);
}

static void via_edge_gone(struct edge *edge, const char *why);

static void edge_end(struct edge *edge)
{
    struct tree *tree = edge->tree;
    log_debug("edge place=%d state=gone why=%s", edge->place, LOG_TEXT(edge->why));
    unlink_edge(edge);
    if (!edge->stream->broken)
        stream_flush(edge->stream); /* a GOODBYE */
    via_edge_gone(edge, edge->why); /* they name the nodes that the way led to */
    nodes_edge_gone(edge, edge->why);
    if (tree->server.gone)
        tree->server.gone(tree->server.ctx, edge);
    tell_greeted(edge, NULL, edge->why);
    loop_remove(edge->turn);
    stream_free(edge->stream);
    free(edge->asked);
    confinement_done(&edge->who);
    free(edge);
}

static void take_turn(void *ctx);

static void queue_turn(struct edge *edge)
{
    if (!edge->turn) /* without memory, `alive` finds it */
        edge->turn = loop_add_deferred(edge->tree->monitor->loop, take_turn, edge);
}

void edge_close(struct edge *edge, const char *why)
{
    if (edge->state == EDGE_GONE)
        return;
    edge->state = EDGE_GONE;
    snprintf(edge->why, sizeof edge->why, "%s", why);
    queue_turn(edge);
}

static void edge_refuse(struct edge *edge, const char *why)
{
    edge_note(edge, FRAME_GOODBYE, 0, span_str(why));
    edge_close(edge, why);
}

/* ---- the greeting ---- */

/* The texts at the end of PEER. */
static bool read_peer(const struct frame *frame, const char **ret_version, const char **ret_name)
{
    size_t head = 4 + TREE_INSTANCE_SIZE;
    if (frame->payload.len < head + 2 || frame->payload.ptr[frame->payload.len - 1])
        return false;
    *ret_version = frame->payload.ptr + head;
    *ret_name = *ret_version + strlen(*ret_version) + 1;
    return *ret_name < frame->payload.ptr + frame->payload.len &&
           *ret_name + strlen(*ret_name) + 1 == frame->payload.ptr + frame->payload.len;
}

static void edge_greet(struct edge *edge, const struct frame *frame)
{
    char why[sizeof edge->why + TREE_NAME_SIZE], version[sizeof edge->version], name[TREE_NAME_SIZE];
    const char *said_version, *said_name;
    uint32_t wire = frame->payload.len >= 4 ? (uint32_t)(get_u64(frame->payload.ptr) & UINT32_MAX) : 0;
    if (!read_peer(frame, &said_version, &said_name)) {
        edge_refuse(edge, "this is no greeting between monitors");
        return;
    }
    nodes_text(version, sizeof version, span_str(said_version));
    nodes_text(name, sizeof name, span_str(said_name));
    if (wire != EDGE_VERSION) {
        snprintf(why, sizeof why,
                 "the monitor of %s is scry %s (protocol %u), this one scry %s (protocol %d): install the same version",
                 edge->ours ? name : edge->tree->monitor->node->name, edge->ours ? version : SCRY_VERSION,
                 edge->ours ? wire : (unsigned)EDGE_VERSION, edge->ours ? SCRY_VERSION : version,
                 edge->ours ? EDGE_VERSION : (int)wire);
        edge_refuse(edge, why);
        return;
    }
    memcpy(edge->version, version, sizeof edge->version);
    struct tree_node *node = nodes_meet(edge->tree, (const unsigned char *)frame->payload.ptr + 4, span_str(name));
    if (!node) {
        edge_refuse(edge, "out of memory, or there are too many nodes");
        return;
    }
    bool here = node->number == TREE_HERE, twice = node->edge && node->edge->ours;
    if (here || (twice && edge->ours)) { /* what is there already serves */
        if (!edge->ours)
            say_peer(edge); /* so that the other end sees it, too */
        tell_greeted(edge, node, NULL);
        edge_refuse(edge, here ? "a monitor has reached itself" : "there is an edge already");
        return;
    }
    edge->state = EDGE_UP;
    edge->node = node;
    if (!edge->ours)
        say_peer(edge);
    log_debug("edge place=%d state=up node=%u name=%s version=%s", edge->place, node->number, LOG_TEXT(name),
              LOG_TEXT(version));
    nodes_route(edge->tree, node, edge, TREE_HERE);
    edge_ask(edge, clock_now_ns());
    tell_greeted(edge, node, NULL);
}

/* ---- input ---- */

static void edge_goodbye(struct edge *edge, const struct frame *frame)
{
    char why[sizeof edge->why];
    nodes_text(why, sizeof why, frame->payload);
    edge_close(edge, *why ? why : "its monitor ended the connection");
}

static void own_frame(struct edge *edge, const struct frame *frame)
{
    if (frame->type == FRAME_GOODBYE)
        edge_goodbye(edge, frame);
    else if (edge->state == EDGE_GREETS && frame->type == FRAME_PEER)
        edge_greet(edge, frame);
    else if (edge->state == EDGE_GREETS)
        edge_refuse(edge, "a monitor greets first");
    else if (frame->type == FRAME_PING)
        edge_answer(edge, frame);
    else if (frame->type == FRAME_PONG)
        edge_answered(edge, frame);
    else if (frame->type == FRAME_NODE || frame->type == FRAME_NODE_GONE)
        nodes_came(edge, frame);
}

static void via_came(struct edge *edge, const struct frame *frame);

static void handle_frame(struct edge *edge, const struct frame *frame)
{
    if (!frame->via)
        own_frame(edge, frame);
    else if (edge->state == EDGE_GREETS)
        edge_refuse(edge, "a monitor greets first");
    else if ((frame->via & 1) == edge->ours)
        via_came(edge, frame);
    else
        edge->tree->server.frame(edge->tree->server.ctx, edge, frame);
}

static void handle_frames(struct edge *edge)
{
    struct frame frame;
    int code;
    unsigned count = 0;
    while (edge->state != EDGE_GONE && (code = frame_reader_next(&edge->stream->reader, &frame)) != 0) {
        edge->heard_ns = clock_now_ns();
        if (edge->silent)
            log_info("edge %d answers again", edge->place);
        edge->silent = false;
        if (code < 0) /* replies and requests have a limit that fits */
            edge_close(edge, "it sent what is no frame");
        else
            handle_frame(edge, &frame);
        if (++count == TURN_FRAMES) {
            queue_turn(edge);
            return;
        }
    }
}

static void edge_settle(struct edge *edge)
{
    if (edge->stream->broken)
        edge_close(edge, edge->state == EDGE_GREETS ? "it ended before it greeted" : "the connection to it ended");
    if (edge->state != EDGE_GONE)
        stream_want(edge->stream, edge->turn); /* else never deaf: both would wait for the other one to read */
}

static void take_turn(void *ctx)
{
    struct edge *edge = ctx;
    edge->turn = NULL;
    handle_frames(edge);
    edge_settle(edge);
    if (edge->state == EDGE_GONE) {
        loop_remove(edge->turn);
        edge->turn = NULL;
        edge_end(edge);
    }
}

static void edge_ready(void *ctx, uint32_t events)
{
    struct edge *edge = ctx;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        stream_receive(edge->stream);
    bool waited = stream_waiting(edge->stream) > 0;
    stream_flush(edge->stream);
    if (waited && !stream_waiting(edge->stream) && edge->tree->server.room)
        edge->tree->server.room(edge->tree->server.ctx, edge);
    if (!edge->turn)
        handle_frames(edge);
    edge_settle(edge);
}

static void edge_flushed(void *ctx)
{
    edge_settle(ctx);
}

/* ---- alive? ---- */

bool edge_is_silent(const struct edge *edge, char *ret_why, size_t size)
{
    if (!edge->silent)
        return false;
    snprintf(ret_why, size, "n_%u (%s) does not answer since %" PRIu64 " s", edge->node->number, edge->node->name,
             (clock_now_ns() - edge->heard_ns) / NS_PER_SECOND);
    return true;
}

static void via_edge_silent(struct edge *edge, const char *why);

/* How long until it is to be looked at again. */
static uint64_t look_at(struct edge *edge, uint64_t now_ns)
{
    char why[TREE_NAME_SIZE + 64];
    uint64_t quiet_ns = now_ns - edge->heard_ns, asked_ns = now_ns - edge->asked_ns;
    uint64_t ask_ns = time_hasten(EDGE_ASK_NS);
    if (edge->state == EDGE_GREETS) {
        if (quiet_ns > EDGE_GREETING_NS)
            edge_close(edge, "it does not greet");
        return NS_PER_SECOND;
    }
    if (quiet_ns >= time_hasten(EDGE_SILENT_NS) && !edge->silent) {
        edge->silent = true;
        edge_is_silent(edge, why, sizeof why);
        log_info("%s", why);
        via_edge_silent(edge, why);
    }
    bool quiet = quiet_ns >= ask_ns;
    if (asked_ns >= (quiet ? ask_ns : EDGE_CLOCK_NS))
        edge_ask(edge, now_ns);
    return quiet ? time_hasten(NS_PER_SECOND) : ask_ns - quiet_ns;
}

static void look_at_all(void *ctx)
{
    struct tree *tree = ctx;
    uint64_t now_ns = clock_now_ns(), next_ns = time_hasten(EDGE_ASK_NS);
    for (struct edge *edge = tree->edges, *next; edge; edge = next) {
        next = edge->next; /* edges end from a turn of theirs only */
        uint64_t wait_ns = edge->state == EDGE_GONE ? NS_PER_SECOND : look_at(edge, now_ns);
        next_ns = wait_ns < next_ns ? wait_ns : next_ns;
        if (edge->state == EDGE_GONE)
            queue_turn(edge);
    }
    if (tree->edges)
        loop_set_timer(tree->alive, next_ns < EDGE_LOOK_LEAST_NS ? EDGE_LOOK_LEAST_NS : next_ns, 0);
}

/* ---- making one ---- */

static struct edge *add_edge(struct tree *tree, struct stream *stream_take, bool ours)
{
    struct edge *edge = calloc(1, sizeof *edge);
    if (!edge) {
        stream_free(stream_take);
        return NULL;
    }
    *edge = (struct edge){.tree = tree, .stream = stream_take, .ours = ours, .place = ++tree->last_place};
    edge->heard_ns = clock_now_ns();
    stream_take->corked = 0;
    stream_own(stream_take, edge_ready, edge_flushed, edge);
    struct edge **at = &tree->edges;
    while (*at)
        at = &(*at)->next;
    *at = edge;
    tree->monitor->elsewhere = far_take; /* it stays: edges come again */
    tree->monitor->elsewhere_cancel = far_cancel;
    if (!tree->alive)
        tree->alive = loop_add_timer(tree->monitor->loop, EDGE_ASK_NS, 0, look_at_all, tree);
    else if (edge == tree->edges)
        loop_set_timer(tree->alive, EDGE_ASK_NS, 0);
    return edge;
}

void tree_take(struct tree *tree, struct stream *stream_take, const struct frame *peer, const struct confinement *who)
{
    struct edge *edge = add_edge(tree, stream_take, false);
    if (!edge)
        return;
    confinement_copy_name(&edge->who, who);
    edge_greet(edge, peer);
    queue_turn(edge); /* what came behind it */
}

const struct confinement *edge_who(const struct edge *edge)
{
    return &edge->who;
}

struct edge *edge_connect(struct tree *tree, int fd_take, const char *name)
{
    struct stream *stream;
    char *copy = strdup(name);
    int code = copy ? stream_new(&stream, tree->monitor->loop, fd_take) : -ENOMEM;
    if (code < 0)
        close(fd_take);
    struct edge *edge = code < 0 ? NULL : add_edge(tree, stream, true);
    if (!edge) {
        free(copy);
        return NULL;
    }
    edge->asked = copy;
    say_peer(edge);
    return edge;
}

/* ---- the tree ---- */

struct edge *tree_next_edge(struct tree *tree, const struct edge *edge)
{
    struct edge *next = edge ? edge->next : tree ? tree->edges : NULL;
    while (next && next->state != EDGE_UP)
        next = next->next;
    return next;
}

struct edge *tree_edge(struct tree *tree, int place)
{
    for (struct edge *edge = tree_next_edge(tree, NULL); edge; edge = tree_next_edge(tree, edge))
        if (edge->place == place)
            return edge;
    return NULL;
}

bool edge_is_ours(const struct edge *edge)
{
    return edge->ours;
}

unsigned *edge_wrong_ids(struct edge *edge)
{
    return &edge->wrong_ids;
}

int edge_place(const struct edge *edge)
{
    return edge->place;
}

bool tree_asked(struct edge *edge, struct session *session, const struct frame *frame)
{
    return conditional_asked(edge, session, frame);
}

int tree_new(struct monitor *monitor, const struct tree_server *server)
{
    struct tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return -ENOMEM;
    tree->monitor = monitor;
    tree->server = *server;
    if (getrandom(tree->instance, sizeof tree->instance, 0) != sizeof tree->instance || nodes_init(tree) < 0) {
        nodes_done(tree);
        free(tree);
        return -ENOMEM;
    }
    monitor->tree = tree;
    monitor->others = (struct state_part){tree_print_state, tree};
    return 0;
}

void tree_free(struct tree *tree)
{
    if (!tree)
        return;
    while (tree->edges) {
        edge_note(tree->edges, FRAME_GOODBYE, 0, span_str("its monitor has ended"));
        edge_close(tree->edges, "this monitor ends");
        edge_end(tree->edges);
    }
    loop_remove(tree->alive);
    loop_remove(tree->placing);
    tree->monitor->tree = NULL;
    tree->monitor->others.print = NULL;
    nodes_done(tree);
    free(tree);
}

/* ---- sessions ---- */

/* The sessions of this monitor's tools behind edges: what libomis is to a tool, these are to us. */

enum { VIA_MOST = UINT16_MAX / 2 - 1 };

/* Of a tool. */
struct vias {
    struct tool *tool;
    struct tree *tree;
    struct via *first;
};

static const char vias_key;

static struct vias *vias_of(const struct tool *tool)
{
    return tool_data(tool, &vias_key);
}

struct edge *via_edge(const struct via *via)
{
    return via->edge;
}

/* ---- ends ---- */

static void drop_pending(struct via *via, struct via_pending *pending)
{
    HASH_DEL(via->pending, pending);
    free(pending);
}

static void via_free(struct via *via)
{
    while (via->pending)
        drop_pending(via, via->pending);
    HASH_DEL(via->edge->vias, via);
    free(via);
}

static void unlink_via(struct via *via)
{
    struct vias *vias = via->tool ? vias_of(via->tool) : NULL;
    struct via **at = vias ? &vias->first : NULL;
    while (at && *at && *at != via)
        at = &(*at)->next;
    if (at && *at)
        *at = via->next;
}

static void via_tell(struct via *via, struct via_pending *pending, const char *lost)
{
    via_reply_fn *fn = pending->fn;
    void *ctx = pending->ctx;
    drop_pending(via, pending);
    fn(ctx, true, span_of("", 0), lost);
}

static void via_lost(struct via *via, const char *why)
{
    unlink_via(via);
    while (via->pending)
        via_tell(via, via->pending, why);
    if (via->relay)
        via->edge->tree->server.relayed(via->edge->tree->server.ctx, via->relay, NULL);
    if (via->tool)
        locks_lost(via);
    via_free(via);
}

static void via_edge_gone(struct edge *edge, const char *why)
{
    char text[sizeof edge->why + TREE_NAME_SIZE + 32];
    snprintf(text, sizeof text, "n_%u (%s) is gone: %s", edge->node ? edge->node->number : 0,
             edge->node ? edge->node->name : "", why);
    struct via *via, *next;
    HASH_ITER(hh, edge->vias, via, next)
    {
        via_lost(via, text);
    }
}

static struct via_pending *via_timed(const struct via *via)
{
    struct via_pending *pending = via->pending;
    while (pending && pending->timeout != VIA_ANSWER)
        pending = pending->hh.next;
    return pending;
}

static void via_edge_silent(struct edge *edge, const char *why)
{
    struct via *via, *next;
    HASH_ITER(hh, edge->vias, via, next)
    {
        struct via_pending *pending;
        while ((pending = via_timed(via))) /* whoever is told may forget others; new ones are refused */
            via_tell(via, pending, why);
    }
    conditional_silent();
}

/* The tool has gone. The number is free when the other side has heard of it, too. */
static void vias_free(void *data)
{
    struct vias *vias = data;
    reach_tool_gone(vias->tree, vias->tool);
    for (struct via *via = vias->first, *next; via; via = next) {
        next = via->next;
        via->tool = NULL;
        while (via->pending)
            drop_pending(via, via->pending);
        via_send(via, FRAME_FINALIZE, 0, span_of("\0\0\0\0", 4));
    }
    free(vias);
}

/* ---- opening ---- */

struct via *tree_find_via(const struct tool *tool, const struct edge *edge)
{
    struct vias *vias = vias_of(tool);
    struct via *via = vias ? vias->first : NULL;
    while (via && via->edge != edge)
        via = via->next;
    return via;
}

/* 0: all are used. */
static uint16_t free_number(struct edge *edge)
{
    struct via *taken;
    if (HASH_COUNT(edge->vias) >= VIA_MOST)
        return 0;
    do {
        edge->last_via = edge->last_via ? (uint16_t)(edge->last_via + 2) : edge->ours ? 1 : 2;
        if (!edge->last_via)
            edge->last_via = edge->ours ? 1 : 2;
        HASH_FIND(hh, edge->vias, &edge->last_via, sizeof edge->last_via, taken);
    } while (taken);
    return edge->last_via;
}

static struct via *via_new(struct edge *edge)
{
    uint16_t number = free_number(edge);
    struct via *via = number ? calloc(1, sizeof *via) : NULL;
    if (!via)
        return NULL;
    via->edge = edge;
    via->number = number;
    HASH_ADD(hh, edge->vias, number, sizeof via->number, via);
    return via;
}

static void say_hello(struct via *via)
{
    struct buf payload = BUF_INIT;
    buf_put_u32(&payload, WIRE_VERSION);
    buf_put_u32(&payload, 0); /* its id would let whoever knows it join */
    buf_puts(&payload, "scry-monitor");
    if (!payload.failed)
        edge_send(via->edge, via->number, FRAME_HELLO, FRAME_NEW, 0, span_of(payload.data, payload.len));
    buf_done(&payload);
}

bool tree_keep_vias(struct tool *tool)
{
    if (tool->confined.job || vias_of(tool))
        return !tool->confined.job;
    struct vias *vias = calloc(1, sizeof *vias);
    if (!vias || tool_set_data(tool, &vias_key, vias, vias_free) < 0) {
        free(vias);
        return false;
    }
    vias->tool = tool;
    vias->tree = tool->monitor->tree;
    return true;
}

struct via *tree_via(struct tool *tool, struct edge *edge)
{
    struct via *via = tree_find_via(tool, edge);
    if (via || edge->state != EDGE_UP || !tree_keep_vias(tool) || !(via = via_new(edge)))
        return via;
    struct vias *vias = vias_of(tool);
    via->tool = tool;
    via->next = vias->first;
    vias->first = via;
    tool->spread = true;
    log_debug("via edge=%d number=%u tool=%u state=opened", edge->place, via->number, tool->id);
    say_hello(via);
    conditional_opened(via);
    return via;
}

/* ---- sending ---- */

void via_send(struct via *via, uint8_t type, uint32_t id, struct span payload)
{
    edge_send(via->edge, via->number, type, 0, id, payload);
}

static struct via_pending *add_pending(struct via *via)
{
    struct via_pending *pending = calloc(1, sizeof *pending), *taken = NULL;
    if (!pending)
        return NULL;
    do {
        pending->id = ++via->last_id;
        HASH_FIND(hh, via->pending, &pending->id, sizeof pending->id, taken);
    } while (taken || !pending->id);
    HASH_ADD(hh, via->pending, id, sizeof pending->id, pending);
    return pending;
}

uint32_t via_request(struct via *via, uint8_t type, struct span head, struct span text, enum via_timeout timeout,
                     via_reply_fn *fn, void *ctx, struct err *err)
{
    struct edge *edge = via->edge;
    if (timeout == VIA_ANSWER && edge_is_silent(edge, err->text, sizeof err->text))
        return 0;
    if (edge->state != EDGE_UP) {
        err_set(err, -EPIPE, "n_%u (%s) is gone: %s", edge->node->number, edge->node->name, edge->why);
        return 0;
    }
    if (head.len + text.len > FRAME_PAYLOAD_LIMIT) {
        err_set(err, -E2BIG, "the part of the request for n_%u is too long: send it in parts", edge->node->number);
        return 0;
    }
    struct via_pending *pending = add_pending(via);
    if (!pending) {
        err_set(err, -ENOMEM, "out of memory");
        return 0;
    }
    pending->timeout = timeout;
    pending->fn = fn;
    pending->ctx = ctx;
    stream_send(edge->stream, via->number, type, 0, pending->id, head, text);
    return pending->id;
}

void via_forget(struct via *via, uint32_t id)
{
    struct via_pending *pending;
    HASH_FIND(hh, via->pending, &id, sizeof id, pending);
    if (pending)
        drop_pending(via, pending);
}

/* ---- what comes ---- */

static void reply_came(struct via *via, const struct frame *frame)
{
    struct via_pending *pending;
    HASH_FIND(hh, via->pending, &frame->id, sizeof frame->id, pending);
    if (!pending) /* nobody waits for it any more */
        return;
    bool last = frame->flags & FRAME_LAST;
    via_reply_fn *fn = pending->fn;
    void *ctx = pending->ctx;
    struct buf ours = BUF_INIT;
    struct renumber numbers = edge_renumber(via->edge);
    int code = renumber_reply(&ours, frame->payload, &numbers);
    if (last || code < 0)
        drop_pending(via, pending);
    if (code < 0)
        fn(ctx, true, span_of("", 0), code == -ENOMEM ? "out of memory" : "its monitor sent what is no reply");
    else
        fn(ctx, last, span_of(ours.data, ours.len), NULL);
    buf_done(&ours);
}

static void error_came(struct via *via, const struct frame *frame)
{
    const struct tree_server *server = &via->edge->tree->server;
    struct buf ours = BUF_INIT;
    struct renumber numbers = edge_renumber(via->edge);
    if (server->error && via->tool && renumber_reply(&ours, frame->payload, &numbers) == 0)
        server->error(server->ctx, via->tool, span_of(ours.data, ours.len));
    buf_done(&ours);
}

static void goodbye_came(struct via *via, const struct frame *frame)
{
    char why[TREE_NAME_SIZE + 256], text[192];
    nodes_text(text, sizeof text, frame->payload);
    snprintf(why, sizeof why, "n_%u (%s) ended the session%s%s", via->edge->node->number, via->edge->node->name,
             *text ? ": " : "", text);
    via_lost(via, why);
}

/* ---- relays ---- */

struct via *tree_relay(struct edge *edge, void *relay)
{
    struct via *via = edge->state == EDGE_UP ? via_new(edge) : NULL;
    if (via)
        via->relay = relay;
    return via;
}

void tree_relay_send(struct via *via, const struct frame *frame)
{
    edge_send(via->edge, via->number, frame->type, frame->flags, frame->id, frame->payload);
}

void tree_relay_end(struct via *via)
{
    via->relay = NULL;
    via_send(via, FRAME_FINALIZE, 0, span_of("\0\0\0\0", 4));
}

static void relayed_came(struct via *via, const struct frame *frame)
{
    const struct tree_server *server = &via->edge->tree->server;
    void *relay = via->relay;
    if (frame->type == FRAME_GOODBYE)
        via_free(via);
    server->relayed(server->ctx, relay, frame);
}

/* ---- input ---- */

static void via_came(struct edge *edge, const struct frame *frame)
{
    struct via *via;
    HASH_FIND(hh, edge->vias, &frame->via, sizeof frame->via, via);
    if (!via)
        return;
    monitor_enter(edge->tree->monitor);
    if (via->relay)
        relayed_came(via, frame);
    else if (frame->type == FRAME_REPLY)
        reply_came(via, frame);
    else if (frame->type == FRAME_ERROR)
        error_came(via, frame);
    else if (frame->type == FRAME_GOODBYE)
        goodbye_came(via, frame);
    else if (frame->type != FRAME_WELCOME && via->tool)
        conditional_came(via, frame);
    monitor_leave(edge->tree->monitor);
}
