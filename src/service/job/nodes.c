/* SPDX-License-Identifier: Apache-2.0 */
/* All nodes of a job at once: one after the other, logins of many nodes would take minutes. */
#include <stdio.h>
#include <string.h>

#include "base/system/loop.h"
#include "lang/put.h"
#include "lang/results.h"
#include "lang/token.h"
#include "monitor/engine/call.h"
#include "monitor/engine/object.h"
#include "monitor/tree/tree.h"
#include "service/omis/service.h"
#include "shm/waits.h"

struct reached {
    struct reaching_all *all;
    struct attaching *attaching; /* NULL: answered */
    const char *name, *why;
    char token[TOKEN_TEXT_SIZE];
};

struct reaching_all {
    struct later *later;
    struct arena *arena;
    struct loop_source *timer;
    struct reached *list;
    size_t count, waiting;
    char late[64]; /* for those that have not answered in time */
};

static void reaching_all_cancel(void *ctx)
{
    struct reaching_all *all = ctx;
    loop_remove(all->timer);
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].attaching)
            tree_attach_forget(all->list[i].attaching);
}

static void reaching_all_answer(struct reaching_all *all, struct scry_call *call)
{
    struct buf text = BUF_INIT;
    put_list(&text);
    for (size_t i = 0; i < all->count; i++) {
        const struct reached *reached = &all->list[i];
        PUT(&text, reached->name, value_token(span_str(*reached->token ? reached->token : TOKEN_UNDEFINED)),
            reached->attaching ? all->late : reached->why);
    }
    put_end(&text);
    call_text(call, NULL, &text);
    buf_done(&text);
    reaching_all_cancel(all);
}

/* All have answered, or the time is over. */
static void reaching_all_end(void *ctx)
{
    struct reaching_all *all = ctx;
    struct later *later = all->later;
    reaching_all_answer(all, call_later_begin(later));
    call_later_end(later, true);
}

static void one_reached(void *ctx, const char *token, Omis_status status, const char *why)
{
    (void)status;
    struct reached *reached = ctx;
    struct reaching_all *all = reached->all;
    reached->attaching = NULL;
    snprintf(reached->token, sizeof reached->token, "%s", token ? token : "");
    reached->why = token ? "" : arena_dup(all->arena, why, strlen(why));
    if (!reached->why)
        reached->why = "out of memory";
    if (--all->waiting == 0)
        reaching_all_end(all);
}

static void reach_one(struct scry_call *call, struct reached *reached)
{
    struct node *node = call->monitor->node;
    if (node_is_local(node, reached->name)) {
        call->tool->node_attached = true;
        one_reached(reached, node->object.token, OMIS_OK, NULL);
        return;
    }
    struct attaching *attaching = tree_attach(call->tool, reached->name, one_reached, reached);
    if (attaching) /* else it has answered, and may be gone */
        reached->attaching = attaching;
}

static void job_attach_nodes(struct scry_call *call)
{
    const struct value *names = &call->args[0];
    if (!call_check_range(call, 1, 1, NODES_PATIENCE_MOST_MS))
        return;
    struct reaching_all *all = arena_zalloc(call->arena, 1, sizeof *all);
    struct reached *list = arena_zalloc(call->arena, names->list.count + 1, sizeof *list);
    uint64_t patience_ns = call_unsigned(call, 1) * 1000000;
    bool good = all && list;
    for (size_t i = 0; good && i < names->list.count; i++) {
        struct span name = names->list.items[i].text;
        list[i].all = all;
        list[i].name = arena_dup(call->arena, name.ptr, name.len);
        good = list[i].name && strlen(list[i].name) == name.len;
    }
    if (!good) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "a name holds a NUL, or is too long");
        return;
    }
    *all = (struct reaching_all){
        .arena = call->arena, .list = list, .count = names->list.count, .waiting = names->list.count + 1};
    snprintf(all->late, sizeof all->late, "it has not answered within %.3g s", (double)patience_ns / 1e9);
    all->timer = loop_add_timer(call->monitor->loop, patience_ns, 0, reaching_all_end, all);
    all->later = all->timer ? call_later(call, reaching_all_cancel, all) : NULL;
    if (!all->later) {
        loop_remove(all->timer);
        call_fail(call, NULL, OMIS_UNSUPPORTED_SERVICE,
                  "unsupported: job_attach_nodes takes a while: not in braces, nor for an event");
        return;
    }
    for (size_t i = 0; i < all->count; i++)
        reach_one(call, &list[i]);
    if (--all->waiting == 0)
        reaching_all_end(all);
}

const struct scry_service job_node_services[] = {
    {"job_attach_nodes", SCRY_MANIPULATION, "string* node_names, integer<ms> patience -> " NODES_REACHED "* nodes",
     SCRY_OPTIONAL | SCRY_LOCAL, job_attach_nodes,
     "Attach to many nodes by their names, as node_attach2, all at the same time. problem: it cannot be reached, or "
     "has "
     "not answered within patience; then node is u_0."},
    SERVICE_END,
};
