/* SPDX-License-Identifier: Apache-2.0 */
/* The node table: numbers, names, and the way to each. A number is of one instance of a monitor for ever. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "base/system/log.h"
#include "monitor/engine/node.h"
#include "monitor/tree/internal.h"

enum {
    NODE_LIMIT = 1 << 16,
    EDGE_NODES = 1 << 15, /* numbers that one monitor may tell of */
};

void nodes_text(char *ret_text, size_t size, struct span text)
{
    size_t len = text.len < size ? text.len : size - 1;
    for (size_t i = 0; i < len; i++)
        ret_text[i] = (unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f ? '?' : text.ptr[i];
    ret_text[len] = 0;
}

static struct tree_node *add_node(struct tree *tree, const unsigned char *instance, struct span name)
{
    if (tree->node_count == NODE_LIMIT)
        return NULL;
    struct tree_node *node = GROW(tree->nodes, tree->node_count, tree->node_cap) ? calloc(1, sizeof *node) : NULL;
    if (!node)
        return NULL;
    memcpy(node->instance, instance, sizeof node->instance);
    nodes_text(node->name, sizeof node->name, name);
    HASH_ADD(hh, tree->by_instance, instance, sizeof node->instance, node);
    tree->nodes[tree->node_count++] = node;
    node->number = (uint32_t)tree->node_count;
    return node;
}

int nodes_init(struct tree *tree)
{
    return add_node(tree, tree->instance, span_str(tree->monitor->node->name)) ? 0 : -ENOMEM;
}

void nodes_done(struct tree *tree)
{
    HASH_CLEAR(hh, tree->by_instance);
    for (size_t i = 0; i < tree->node_count; i++) {
        free(tree->nodes[i]->asked);
        free(tree->nodes[i]);
    }
    free(tree->nodes);
}

struct tree_node *tree_node(struct tree *tree, uint32_t number)
{
    return tree && number && number <= tree->node_count ? tree->nodes[number - 1] : NULL;
}

struct tree_node *tree_next_node(struct tree *tree, const struct tree_node *node)
{
    return tree_node(tree, node ? node->number + 1 : 1);
}

static struct tree_node *find_node(struct tree *tree, const unsigned char *instance)
{
    struct tree_node *node;
    HASH_FIND(hh, tree->by_instance, instance, TREE_INSTANCE_SIZE, node);
    return node;
}

struct tree_node *nodes_meet(struct tree *tree, const unsigned char *instance, struct span name)
{
    struct tree_node *node = find_node(tree, instance);
    return node ? node : add_node(tree, instance, name);
}

/* ---- telling others ---- */

static void tell_node(struct edge *edge, const struct tree_node *node)
{
    struct buf payload = BUF_INIT;
    buf_append(&payload, node->instance, sizeof node->instance);
    buf_append(&payload, node->name, strlen(node->name) + 1);
    if (!payload.failed)
        edge_note(edge, FRAME_NODE, node->number, span_of(payload.data, payload.len));
    buf_done(&payload);
}

/* What lies behind that very edge it knows itself; but it wants our number of the node at its end. Who has attached us lets
 * nobody in by us, so such a node is no way: whoever wants it has to find its own. */
static bool is_wanted(const struct edge *edge, const struct tree_node *node)
{
    bool leads_on = node->edge && node->edge != edge && node->edge->ours;
    return node->number != TREE_HERE && (leads_on || (node->edge && node == edge->node));
}

void edge_tell_nodes(struct edge *edge)
{
    if (edge->told || edge->state != EDGE_UP)
        return;
    edge->told = true;
    for (size_t i = 0; i < edge->tree->node_count; i++)
        if (is_wanted(edge, edge->tree->nodes[i]))
            tell_node(edge, edge->tree->nodes[i]);
}

/* ---- ways ---- */

static bool know(struct edge *edge, uint32_t theirs, uint32_t ours)
{
    struct known_node *known;
    HASH_FIND(hh, edge->known, &theirs, sizeof theirs, known);
    if (!known) {
        known = HASH_COUNT(edge->known) < EDGE_NODES ? calloc(1, sizeof *known) : NULL;
        if (!known)
            return false;
        known->theirs = theirs;
        HASH_ADD(hh, edge->known, theirs, sizeof known->theirs, known);
    }
    known->ours = ours;
    return true;
}

void nodes_route(struct tree *tree, struct tree_node *node, struct edge *edge, uint32_t theirs)
{
    bool better = !node->edge || (edge->ours && !node->edge->ours); /* who has attached us lets no tools of ours in */
    if (!know(edge, theirs, node->number) || node->number == TREE_HERE || !better)
        return;
    node->edge = edge;
    node->theirs = theirs;
    node->why[0] = 0;
    log_debug("node number=%u name=%s edge=%d theirs=%u", node->number, LOG_TEXT(node->name), edge->place, theirs);
    for (struct edge *other = tree->edges; other; other = other->next)
        if (other->told && other->state == EDGE_UP && is_wanted(other, node))
            tell_node(other, node);
}

static void unroute(struct tree *tree, struct tree_node *node, const char *why)
{
    struct edge *way = node->edge;
    node->edge = NULL;
    snprintf(node->why, sizeof node->why, "%s", why);
    log_debug("node number=%u name=%s state=gone why=%s", node->number, LOG_TEXT(node->name), LOG_TEXT(node->why));
    for (struct edge *other = tree->edges; other; other = other->next)
        if (other->told && other->state == EDGE_UP && other != way)
            edge_note(other, FRAME_NODE_GONE, node->number, span_str(node->why));
}

void nodes_edge_gone(struct edge *edge, const char *why)
{
    for (size_t i = 0; i < edge->tree->node_count; i++)
        if (edge->tree->nodes[i]->edge == edge)
            unroute(edge->tree, edge->tree->nodes[i], why);
    struct known_node *known, *next;
    HASH_ITER(hh, edge->known, known, next)
    {
        HASH_DEL(edge->known, known);
        free(known);
    }
}

static void node_gone(struct edge *edge, const struct frame *frame)
{
    struct known_node *known;
    HASH_FIND(hh, edge->known, &frame->id, sizeof frame->id, known);
    struct tree_node *node = known ? tree_node(edge->tree, known->ours) : NULL;
    char why[sizeof node->why];
    nodes_text(why, sizeof why, frame->payload);
    /* its tokens may still come in replies that are on their way: the number stays known */
    if (node && node->edge == edge && node != edge->node)
        unroute(edge->tree, node, why);
}

void nodes_came(struct edge *edge, const struct frame *frame)
{
    if (frame->type == FRAME_NODE_GONE) {
        node_gone(edge, frame);
        return;
    }
    struct span payload = frame->payload;
    if (payload.len <= TREE_INSTANCE_SIZE || payload.ptr[payload.len - 1] || frame->id < 2) {
        edge_close(edge, "it sent what is no node");
        return;
    }
    struct span name = span_of(payload.ptr + TREE_INSTANCE_SIZE, payload.len - TREE_INSTANCE_SIZE - 1);
    bool few = HASH_COUNT(edge->known) < EDGE_NODES;
    struct tree_node *node = few ? nodes_meet(edge->tree, (const unsigned char *)payload.ptr, name) : NULL;
    if (node)
        nodes_route(edge->tree, node, edge, frame->id);
    else
        edge_close(edge, "it told of too many nodes");
}

/* ---- translation ---- */

static uint32_t ours_of(void *ctx, uint32_t theirs)
{
    struct edge *edge = ctx;
    struct known_node *known;
    HASH_FIND(hh, edge->known, &theirs, sizeof theirs, known);
    return known ? known->ours : 0;
}

struct renumber edge_renumber(struct edge *edge)
{
    return (struct renumber){.ctx = edge, .ours = ours_of};
}

uint32_t edge_theirs(struct edge *edge, uint32_t number)
{
    const struct tree_node *node = tree_node(edge->tree, number);
    if (node && node->edge == edge)
        return node->theirs;
    for (struct known_node *known = edge->known; known; known = known->hh.next)
        if (known->ours == number)
            return known->theirs;
    return 0;
}
