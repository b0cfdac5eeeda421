/* SPDX-License-Identifier: Apache-2.0 */
/* Who lies where: what a request is cut by. */
#include "monitor/engine/convert.h"
#include "monitor/engine/node.h"
#include "monitor/tree/internal.h"
#include "monitor/tree/slice.h"

static int place_of(void *ctx, uint32_t number)
{
    const struct tool *tool = ctx;
    const struct tree_node *node = tree_node(tool->monitor->tree, number);
    if (number == TREE_HERE)
        return PLACE_HOME;
    return node && node->edge && node->edge->state == EDGE_UP ? node->edge->place : PLACE_UNKNOWN;
}

static uint32_t theirs(void *ctx, int place, uint32_t number)
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
static bool attaches(void *ctx, const struct call_text *call)
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
        .ctx = tool, .place_of = place_of, .theirs = theirs, .on_nodes = on_nodes, .attaches = attaches};
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
