/* SPDX-License-Identifier: Apache-2.0 */
/* What of a conditional request lies behind an edge, and whether that can be done there alone. */
#include <string.h>

#include "lang/token.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/monitor.h"
#include "monitor/parts/near.h"
#include "monitor/tree/conditional.h"

static bool lies_behind(struct tree *tree, const struct edge *edge, const struct value *value)
{
    struct token token;
    const struct tree_node *node =
        value->kind == VALUE_TOKEN && token_parse(value->text, &token) ? tree_node(tree, token.node) : NULL;
    return node && node->edge == edge;
}

bool behind_event(const struct csr *csr, const struct edge *edge, struct arena *arena, struct call_text *ret_event)
{
    struct tree *tree = csr->object.monitor->tree;
    int index = csr->event_service->object_arg;
    *ret_event = *csr->request.event;
    if (index < 0 || (strcmp(csr->event_service->object_class, "e") == 0))
        return false;
    const struct value *arg = &csr->event_args[index];
    if (arg->kind != VALUE_LIST)
        return lies_behind(tree, edge, arg);
    if (!arg->list.count)
        return true;
    struct value *args = arena_alloc(arena, ret_event->argc * sizeof *args);
    struct value *items = arena_alloc(arena, arg->list.count * sizeof *items);
    size_t count = 0;
    if (!args || !items)
        return false;
    for (size_t i = 0; i < arg->list.count; i++)
        if (lies_behind(tree, edge, &arg->list.items[i]))
            items[count++] = arg->list.items[i];
    memcpy(args, csr->event_args, ret_event->argc * sizeof *args);
    args[index].list.items = items;
    args[index].list.count = count;
    ret_event->args = args;
    return count > 0;
}

static bool leads_on(struct tree *tree, const struct edge *edge)
{
    unsigned count = 0;
    for (const struct tree_node *node = NULL; (node = tree_next_node(tree, node));)
        count += node->edge == edge;
    return count > 1;
}

/* Whether all tokens have numbers there: a node knows those behind it, and who has attached it. */
static bool are_known(struct edge *edge, const struct value *values, size_t count)
{
    struct token token;
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == VALUE_LIST && !are_known(edge, values[i].list.items, values[i].list.count))
            return false;
        if (values[i].kind == VALUE_TOKEN && token_parse(values[i].text, &token) && token.node &&
            !edge_theirs(edge, token.node))
            return false;
    }
    return true;
}

bool behind_is_far(const struct csr *csr, struct edge *edge)
{
    struct tree *tree = csr->object.monitor->tree;
    struct value token = value_token(span_str(csr->home_token ? csr->home_token : csr->object.token));
    if (csr->far || (csr->home_token && near_uses(&csr->request, "time"))) /* two clocks away */
        return true;
    if (near_uses(&csr->request, "csr") && (span_is(token.text, TOKEN_UNDEFINED) || !are_known(edge, &token, 1)))
        return true;
    for (size_t i = 0; i < csr->request.action_count; i++)
        if (!are_known(edge, csr->request.actions[i].args, csr->request.actions[i].argc))
            return true;
    return !near_request(&csr->request, csr->actions, leads_on(tree, edge) ? 0 : edge_node(edge)->number);
}
