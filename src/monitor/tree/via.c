/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of this monitor's tools behind edges: what libomis is to a tool, these are to us. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/log.h"
#include "monitor/tree/internal.h"

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

struct tool *via_tool(const struct via *via)
{
    return via->tool;
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

static void tell(struct via *via, struct via_pending *pending, const char *lost)
{
    via_reply_fn *fn = pending->fn;
    void *ctx = pending->ctx;
    drop_pending(via, pending);
    fn(ctx, true, span_of("", 0), lost);
}

static void via_lost(struct via *via, const char *why)
{
    const struct tree_hooks *hooks = &via->edge->tree->hooks;
    unlink_via(via);
    while (via->pending)
        tell(via, via->pending, why);
    if (via->relay)
        via->edge->tree->server.relayed(via->edge->tree->server.ctx, via->relay, NULL);
    if (via->tool && hooks->lost)
        hooks->lost(via->edge->tree, via, why);
    via_free(via);
}

void via_edge_gone(struct edge *edge, const char *why)
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

static struct via_pending *impatient(const struct via *via)
{
    struct via_pending *pending = via->pending;
    while (pending && pending->patience != VIA_ANSWER)
        pending = pending->hh.next;
    return pending;
}

void via_edge_silent(struct edge *edge, const char *why)
{
    struct via *via, *next;
    HASH_ITER(hh, edge->vias, via, next)
    {
        struct via_pending *pending;
        while ((pending = impatient(via))) /* whoever is told may forget others; new ones are refused */
            tell(via, pending, why);
    }
    if (edge->tree->hooks.silent)
        edge->tree->hooks.silent(edge->tree);
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
    if (edge->tree->hooks.opened)
        edge->tree->hooks.opened(edge->tree, via);
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

uint32_t via_request(struct via *via, uint8_t type, struct span head, struct span text, enum via_patience patience,
                     via_reply_fn *fn, void *ctx, struct err *err)
{
    struct edge *edge = via->edge;
    if (patience == VIA_ANSWER && edge_is_silent(edge, err->text, sizeof err->text))
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
    pending->patience = patience;
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

void via_came(struct edge *edge, const struct frame *frame)
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
    else if (frame->type != FRAME_WELCOME && via->tool && edge->tree->hooks.came)
        edge->tree->hooks.came(edge->tree, via, frame);
    monitor_leave(edge->tree->monitor);
}
