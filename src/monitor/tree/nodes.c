/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/object.h"
#include "monitor/tree/internal.h"
#include "monitor/tree/slice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who lies where: what a request is cut by. */

static int place_of(void *ctx, uint32_t number)
{
    const struct tool *tool = ctx;
    const struct tree_node *node = tree_node(tool->monitor->tree, number);
    if (number == TREE_HERE)
        return PLACE_HOME;
    return node && node->edge && node->edge->state == EDGE_UP ? node->edge->place : PLACE_UNKNOWN;
}

static uint32_t node_theirs(void *ctx, int place, uint32_t number)
{
    const struct tool *tool = ctx;
    struct edge *edge = tree_edge(tool->monitor->tree, place);
    return edge ? edge_theirs(edge, number) : 0;
}

static bool on_nodes(void *ctx, const char *class_name)
{
    (void)ctx;
    return convert_class_can(class_name, "n", false);
}

static bool is_attached(const struct tool *tool, uint32_t number)
{
    const struct tree_node *node = tree_node(tool->monitor->tree, number);
    return number == TREE_HERE ? tool->node_attached : !node || !node->edge || tree_find_via(tool, node->edge);
}

static bool names_new_node(const struct tool *tool, const struct value *name)
{
    char text[TREE_NAME_SIZE];
    if (name->kind != VALUE_STRING || name->text.len >= sizeof text)
        return false;
    memcpy(text, name->text.ptr, name->text.len);
    text[name->text.len] = 0;
    return !node_is_local(tool->monitor->node, text);
}

/* Attaching a process attaches its node, too. */
static bool call_attaches(void *ctx, const struct call_text *call)
{
    static const char *const names[] = {"node_attach", "proc_attach", "proc_attach3", "proc_create"};
    const struct tool *tool = ctx;
    struct token token;
    bool known = false;
    if (!call->argc || span_is(call->name, "node_attach2"))
        return call->argc && names_new_node(tool, &call->args[0]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        known |= span_is(call->name, names[i]);
    const struct value *list = call->args;
    for (size_t i = 0; known && list->kind == VALUE_LIST && i < list->list.count; i++)
        if (list->list.items[i].kind == VALUE_TOKEN && token_parse(list->list.items[i].text, &token) &&
            !is_attached(tool, token.node))
            return true;
    return false;
}

bool places_grow(const struct tool *tool, const struct request *request)
{
    for (size_t i = 0; i + 1 < request->action_count; i++)
        if (span_is(request->actions[i].name, "node_attach2") && names_new_node(tool, &request->actions[i].args[0]))
            return true;
    return false;
}

bool places_map(struct tool *tool, struct arena *arena, struct slice_map *ret_map)
{
    struct tree *tree = tool->monitor->tree;
    *ret_map = (struct slice_map){
        .ctx = tool, .place_of = place_of, .theirs = node_theirs, .on_nodes = on_nodes, .attaches = call_attaches};
    size_t most = 1;
    for (struct edge *edge = NULL; (edge = tree_next_edge(tree, edge));)
        most++;
    int *places = arena_alloc(arena, most * sizeof *places);
    if (!places)
        return false;
    if (tool->node_attached)
        places[ret_map->place_count++] = PLACE_HOME;
    for (struct edge *edge = NULL; (edge = tree_next_edge(tree, edge));)
        if (tree_find_via(tool, edge))
            places[ret_map->place_count++] = edge->place;
    ret_map->places = places;
    return true;
}

/* Whether a token of another node is among the values. */
static bool mentions_others(const struct value *values, size_t count)
{
    struct token token;
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == VALUE_LIST && mentions_others(values[i].list.items, values[i].list.count))
            return true;
        if (values[i].kind == VALUE_TOKEN && token_parse(values[i].text, &token) && token.node > TREE_HERE)
            return true;
    }
    return false;
}

bool places_mention_others(const struct request *request)
{
    for (size_t i = 0; i < request->action_count; i++)
        if (mentions_others(request->actions[i].args, request->actions[i].argc))
            return true;
    return false;
}

/* The node table: numbers, names, and the way to each. A number is of one instance of a monitor for ever. */

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

static bool node_know(struct edge *edge, uint32_t theirs, uint32_t ours)
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
    if (!node_know(edge, theirs, node->number) || node->number == TREE_HERE || !better)
        return;
    node->edge = edge;
    node->theirs = theirs;
    node->why[0] = 0;
    log_debug("node number=%u name=%s edge=%d theirs=%u", node->number, LOG_TEXT(node->name), edge->place, theirs);
    for (struct edge *other = tree->edges; other; other = other->next)
        if (other->told && other->state == EDGE_UP && is_wanted(other, node))
            tell_node(other, node);
}

static void node_unroute(struct tree *tree, struct tree_node *node, const char *why)
{
    struct edge *edge = node->edge;
    node->edge = NULL;
    snprintf(node->why, sizeof node->why, "%s", why);
    log_debug("node number=%u name=%s state=gone why=%s", node->number, LOG_TEXT(node->name), LOG_TEXT(node->why));
    for (struct edge *other = tree->edges; other; other = other->next)
        if (other->told && other->state == EDGE_UP && other != edge)
            edge_note(other, FRAME_NODE_GONE, node->number, span_str(node->why));
}

void nodes_edge_gone(struct edge *edge, const char *why)
{
    for (size_t i = 0; i < edge->tree->node_count; i++)
        if (edge->tree->nodes[i]->edge == edge)
            node_unroute(edge->tree, edge->tree->nodes[i], why);
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
        node_unroute(edge->tree, node, why);
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

/* What the tree holds, for people (monitor/engine/monitor.h). */

static void print_edge(const struct edge *edge, uint64_t now_ns, struct buf *out)
{
    static const char *const states[] = {"greets", "up", "gone"};
    int64_t offset_ns = 0;
    uint64_t bound_ns = 0;
    bool known = clock_offset_now(&edge->clock, now_ns, &offset_ns, &bound_ns);
    buf_printf(out,
               "edge place=%d state=%s node=%u name=%s version=%s ours=%d asked=%s silent=%d heard_ms=%" PRIu64
               " queued_bytes=%zu vias=%u nodes=%u",
               edge->place, states[edge->state], edge->node ? edge->node->number : 0,
               LOG_TEXT(edge->node ? edge->node->name : ""), LOG_TEXT(edge->version), edge->ours,
               LOG_TEXT(edge->asked ? edge->asked : ""), edge->silent, (now_ns - edge->heard_ns) / 1000000,
               stream_waiting(edge->stream), HASH_COUNT(edge->vias), HASH_COUNT(edge->known));
    if (known)
        buf_printf(out, " clock_offset_ns=%" PRId64 " clock_bound_ns=%" PRIu64, offset_ns, bound_ns);
    buf_putc(out, '\n');
    for (const struct via *via = edge->vias; via; via = via->hh.next)
        buf_printf(out, "via edge=%d number=%u tool=%u relay=%d unanswered=%u\n", edge->place, via->number,
                   via->tool ? via->tool->id : 0, via->relay != NULL, HASH_COUNT(via->pending));
}

void tree_print_state(void *ctx, struct buf *out)
{
    struct tree *tree = ctx;
    uint64_t now_ns = clock_now_ns();
    for (const struct edge *edge = tree->edges; edge; edge = edge->next)
        print_edge(edge, now_ns, out);
    for (const struct tree_node *node = NULL; (node = tree_next_node(tree, node));)
        if (node->number != TREE_HERE)
            buf_printf(out, "node number=%u name=%s edge=%d theirs=%u why=%s\n", node->number, LOG_TEXT(node->name),
                       node->edge ? node->edge->place : 0, node->theirs, LOG_TEXT(node->why));
    far_print_state(tree, out);
}
