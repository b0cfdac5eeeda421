/* SPDX-License-Identifier: Apache-2.0 */
/* Services on nodes (specification 8.1.1). */
#include "monitor/engine/object.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/engine/execute.h"
#include "monitor/tree/tree.h"
#include "probe/node.h"
#include "lang/request.h"
#include "lang/results.h"
#include "service/omis/service.h"

static void node_attach(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        call->tool->node_attached = true;
        call_ok(call, call->objects[i]);
    }
}

/* A node that is being reached. */
struct reaching {
    struct later *later;
    struct attaching *attaching;
};

static void reaching_cancel(void *ctx)
{
    struct reaching *reaching = ctx;
    if (reaching->attaching)
        tree_attach_forget(reaching->attaching);
    free(reaching);
}

static void node_reached(void *ctx, const char *token, Omis_status status, const char *why)
{
    struct reaching *reaching = ctx;
    struct later *later = reaching->later;
    struct scry_call *call = call_later_begin(later);
    struct buf text = BUF_INIT;
    buf_puts(&text, token ? token : "");
    if (token)
        call_text(call, NULL, &text); /* a constructor: it has no node */
    else
        call_fail(call, NULL, status, "%s", why);
    buf_done(&text);
    reaching->attaching = NULL;
    reaching_cancel(reaching);
    call_later_end(later, true);
}

/* The nodes that follow in the list are reached at the same time. */
static void reach_ahead(struct scry_call *call)
{
    size_t count;
    const struct call_text *actions = call_behind(call, &count);
    for (size_t i = 0; i < count && !actions[i].barrier && span_is(actions[i].name, call->service->row->name); i++) {
        struct span text = actions[i].args[0].text;
        char name[PATH_MAX];
        if (text.len >= sizeof name || memchr(text.ptr, 0, text.len))
            break;
        snprintf(name, sizeof name, "%.*s", SPAN_ARG(text));
        if (!node_is_local(call->monitor->node, name) && !tree_attach_ahead(call->tool, name))
            break;
    }
}

static void reach_node(struct scry_call *call, const char *name)
{
    if (call->tool->confined.job) {
        call_fail(call, NULL, OMIS_NO_PERMISSION, "%s may look at this machine only", call->tool->confined.who);
        return;
    }
    struct reaching *reaching = calloc(1, sizeof *reaching);
    struct later *later = reaching ? call_later(call, reaching_cancel, reaching) : NULL;
    if (!later) {
        bool memory = reaching;
        free(reaching);
        call_fail(call, NULL, memory ? OMIS_UNSUPPORTED_SERVICE : OMIS_NO_MEMORY, "%s",
                  memory ? "unsupported: node_attach2 of another node takes a while: not in braces, nor for an event"
                         : "out of memory");
        return;
    }
    reaching->later = later;
    struct attaching *attaching = tree_attach(call->tool, name, node_reached, reaching);
    if (!attaching)
        return;
    reaching->attaching = attaching;
    reach_ahead(call);
}

static void node_attach2(struct scry_call *call)
{
    const char *name = call_string(call, 0);
    if (!name)
        return;
    struct node *node = call->monitor->node;
    if (!node_is_local(node, name)) {
        reach_node(call, name);
        return;
    }
    call->tool->node_attached = true;
    struct buf text = BUF_INIT;
    buf_puts(&text, node->object.token);
    call_text(call, NULL, &text);
    buf_done(&text);
}

/* Detaching a node detaches its processes; conditional requests stay defined. */
static void node_detach(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        while (call->tool->attachments)
            process_detach(call->tool, call->tool->attachments->process);
        call->tool->node_attached = false;
        call_ok(call, call->objects[i]);
    }
}

static int print_info(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    return node_probe_print(call->monitor->node->probe, call_unsigned(call, 1), text, err);
}

/* A first request for rates needs a moment. */
struct question {
    struct later *later;
    struct loop_source *timer;
};

static void question_cancel(void *ctx)
{
    struct question *question = ctx;
    loop_remove(question->timer);
    free(question);
}

static void question_answer(void *ctx)
{
    struct question *question = ctx;
    struct later *later = question->later;
    call_each(call_later_begin(later), print_info);
    call_later_end(later, true);
    question_cancel(question);
}

static void node_get_info(struct scry_call *call)
{
    if (!call_check_range(call, 1, 0, (1 << NODE_INFO_BITS) - 1) || !call->object_count)
        return;
    struct node *node = call->monitor->node;
    if (!node->probe && node_probe_new(&node->probe) < 0) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    uint64_t wait_ns = node_probe_wait_ns(node->probe, call_unsigned(call, 1));
    struct question *question = wait_ns ? calloc(1, sizeof *question) : NULL;
    if (question)
        question->timer = loop_add_timer(call->monitor->loop, wait_ns, 0, question_answer, question);
    if (question && question->timer)
        question->later = call_later(call, question_cancel, question);
    if (question && question->later)
        return;
    if (question)
        question_cancel(question);
    call_each(call, print_info);
}

const struct scry_service node_services[] = {
    {"node_attach", SCRY_MANIPULATION, "token<n>* node_list -> void", SCRY_OPTIONAL | SCRY_OBSERVE, node_attach,
     "Attach to nodes known by their tokens."},
    {"node_attach2", SCRY_MANIPULATION, "string node_name -> token ! OMIS_UNSUPPORTED_SERVICE, OMIS_UNSPECIFIED_ERROR",
     SCRY_OPTIONAL | SCRY_OBSERVE, node_attach2,
     "Attach to a node by its name: \"\" or \"localhost\" (this one), HOST or USER@HOST (by ssh), tls://HOST:PORT, or "
     "unix:PATH, the socket of a monitor on this machine."},
    {"node_detach", SCRY_MANIPULATION, "token<n>* node_list -> void", SCRY_OPTIONAL | SCRY_OBSERVE, node_detach,
     "Detach from nodes and all processes on them."},
    {"node_get_info", SCRY_INFORMATION, "token<n>* node_list, integer flags -> " NODE_INFO_RESULT,
     SCRY_PARTIAL | SCRY_PARTLY, node_get_info,
     "Static (bits 0-6 of flags) and dynamic (bits 7-13) information on nodes; -1 is what Linux does not count. With "
     "bit "
     "14, also what takes more than a few reads of files: benchmarks, sleeping processes, rates of a new monitor."},
    SERVICE_END,
};
