/* SPDX-License-Identifier: Apache-2.0 */
/* What the tree holds, for people (monitor/engine/state.h). */
#include <inttypes.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "monitor/tree/internal.h"

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
