/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in braces over nodes: all nodes that they concern are locked, one after the other, in the order of their
 * instances. That order is the same everywhere, so nobody waits in a circle for who waits for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/log.h"
#include "base/system/pause.h"
#include "monitor/parts/parts.h"
#include "monitor/tree/internal.h"
#include "shm/waits.h"

/* ---- for other monitors' tools ---- */

/* This node for a session. */
struct served {
    struct lock_claim claim;
    uint32_t id;
    struct served *next;
};

static struct served *served;

static void lock_unserve(struct served *gone)
{
    struct served **at = &served;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone);
}

static void serve_granted(struct lock_claim *claim)
{
    const struct served *here = (struct served *)claim;
    claim->session->other(claim->session, FRAME_LOCK, here->id, span_of("", 0));
}

static void serve_lost(struct lock_claim *claim)
{
    struct served *here = (struct served *)claim;
    claim->session->other(claim->session, FRAME_UNLOCK, here->id, span_of("", 0));
    lock_unserve(here);
}

bool locks_asked(struct session *session, const struct frame *frame)
{
    struct served *here = served;
    while (here && (here->claim.session != session || here->id != frame->id))
        here = here->next;
    if (frame->type == FRAME_UNLOCK) {
        if (here) {
            lock_drop(&here->claim);
            lock_unserve(here);
        }
        return true;
    }
    if (frame->type != FRAME_LOCK || here)
        return false;
    here = calloc(1, sizeof *here);
    if (!here) {
        session->other(session, FRAME_UNLOCK, frame->id, span_of("", 0));
        return true;
    }
    here->claim = (struct lock_claim){.session = session, .granted = serve_granted, .lost = serve_lost};
    here->id = frame->id;
    here->next = served;
    served = here;
    lock_claim(&here->claim);
    return true;
}

/* ---- for our own tools ---- */

struct locking {
    struct lock_claim here; /* first */
    struct tree *tree;
    struct far_request *request;
    struct tool *tool;
    uint32_t id;
    int *places; /* in the order of their instances */
    size_t count, begun;
    bool waits;  /* for the last one that was begun */
    bool queued; /* another list of its tool has locked nodes: one after the other */
    struct loop_source *timer, *turn;
    struct locking *next;
};

static struct locking *all; /* in the order in which they came */

static const unsigned char *instance_of(struct tree *tree, int place)
{
    struct edge *edge = place ? tree_edge(tree, place) : NULL;
    const struct tree_node *node = edge ? edge_node(edge) : tree_node(tree, TREE_HERE);
    return node->instance;
}

static void places_sort(struct locking *locking)
{
    for (size_t i = 1; i < locking->count; i++)
        for (size_t k = i; k > 0 && memcmp(instance_of(locking->tree, locking->places[k - 1]),
                                           instance_of(locking->tree, locking->places[k]), TREE_INSTANCE_SIZE) > 0;
             k--) {
            int place = locking->places[k];
            locking->places[k] = locking->places[k - 1];
            locking->places[k - 1] = place;
        }
}

static struct via *via_of(const struct locking *locking, int place)
{
    struct edge *edge = tree_edge(locking->tree, place);
    return edge ? tree_find_via(locking->tool, edge) : NULL;
}

static void go_on(void *ctx);

static void go_on_soon(struct locking *locking)
{
    locking->waits = false;
    if (!locking->turn)
        locking->turn = loop_add_deferred(locking->tool->monitor->loop, go_on, locking);
}

static void give_back(struct locking *locking)
{
    for (size_t i = 0; i < locking->begun; i++) {
        struct via *via = locking->places[i] ? via_of(locking, locking->places[i]) : NULL;
        if (via)
            via_send(via, FRAME_UNLOCK, locking->id, span_of("", 0));
    }
    locking->begun = 0;
    lock_drop(&locking->here);
    loop_remove(locking->timer);
    locking->timer = NULL;
}

static void too_long(void *ctx)
{
    struct locking *locking = ctx;
    char why[160];
    int place = locking->begun ? locking->places[locking->begun - 1] : 0;
    const struct edge *edge = tree_edge(locking->tree, place);
    snprintf(why, sizeof why, "n_%u was locked by others for %d s: nothing was executed",
             edge ? edge_node(edge)->number : TREE_HERE, (int)(LOCK_LIMIT_NS / 1000000000));
    give_back(locking);
    tree_locked(locking->request, why);
}

/* The next place, or all are there. */
static void go_on(void *ctx)
{
    struct locking *locking = ctx;
    locking->turn = NULL;
    while (!locking->waits && locking->begun < locking->count) {
        int place = locking->places[locking->begun];
        struct via *via = place ? via_of(locking, place) : NULL;
        locking->begun++;
        locking->waits = true;
        if (!place)
            lock_claim(&locking->here); /* granted may be called in it */
        else if (via)
            via_send(via, FRAME_LOCK, locking->id, span_of("", 0));
        else
            locking->waits = false; /* it went: its slice will fail */
    }
    if (locking->waits || locking->turn)
        return;
    loop_remove(locking->timer);
    locking->timer = NULL;
    monitor_enter(locking->tool->monitor);
    tree_locked(locking->request, NULL);
    monitor_leave(locking->tool->monitor);
}

static void here_granted(struct lock_claim *claim)
{
    go_on_soon((struct locking *)claim);
}

static void here_lost(struct lock_claim *claim)
{
    struct locking *locking = (struct locking *)claim;
    if (locking->waits)
        go_on_soon(locking);
}

static bool lock_begin(struct locking *locking)
{
    locking->queued = false;
    locking->timer = loop_add_timer(locking->tool->monitor->loop, time_hasten(LOCK_LIMIT_NS), 0, too_long, locking);
    go_on_soon(locking);
    return locking->timer && locking->turn;
}

static void begin_next(const struct tool *tool)
{
    struct locking *next = all;
    while (next && next->tool != tool)
        next = next->next;
    if (next && next->queued && !lock_begin(next))
        tree_locked(next->request, "out of memory");
}

bool locks_take(struct tree *tree, struct far_request *request, const int *places, size_t count)
{
    static uint32_t last_id;
    struct locking *locking = calloc(1, sizeof *locking), **at = &all;
    if (locking)
        locking->places = malloc(count * sizeof *places);
    if (!locking || !locking->places) {
        free(locking);
        tree_locked(request, "out of memory");
        return true;
    }
    *locking = (struct locking){.here = {.session = far_session(request), .granted = here_granted, .lost = here_lost},
                                .tree = tree,
                                .request = request,
                                .tool = far_tool(request),
                                .id = ++last_id,
                                .places = locking->places,
                                .count = count};
    memcpy(locking->places, places, count * sizeof *places);
    places_sort(locking);
    for (; *at; at = &(*at)->next)
        locking->queued |= (*at)->tool == locking->tool;
    *at = locking;
    if (!locking->queued && !lock_begin(locking))
        tree_locked(request, "out of memory");
    return true;
}

void locks_give(struct tree *tree, struct far_request *request)
{
    (void)tree;
    struct locking **at = &all;
    while (*at && (*at)->request != request)
        at = &(*at)->next;
    struct locking *locking = *at;
    if (!locking)
        return;
    *at = locking->next;
    give_back(locking);
    loop_remove(locking->turn);
    begin_next(locking->tool);
    free(locking->places);
    free(locking);
}

/* ---- what the others say ---- */

bool locks_came(struct via *via, const struct frame *frame)
{
    struct locking *locking = all;
    while (locking && (locking->tool != via_tool(via) || locking->id != frame->id || locking->queued))
        locking = locking->next;
    if (!locking || (frame->type != FRAME_LOCK && frame->type != FRAME_UNLOCK))
        return false;
    if (frame->type == FRAME_UNLOCK)
        log_warning("tool %u no longer has the lock of n_%u", locking->tool->id, edge_node(via_edge(via))->number);
    if (locking->waits && locking->begun && locking->places[locking->begun - 1] == edge_place(via_edge(via)))
        go_on_soon(locking);
    return true;
}

void locks_lost(struct via *via)
{
    for (struct locking *locking = all; locking; locking = locking->next)
        if (locking->tool == via_tool(via) && locking->waits && locking->begun &&
            locking->places[locking->begun - 1] == edge_place(via_edge(via)))
            go_on_soon(locking);
}
