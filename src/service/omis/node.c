/* SPDX-License-Identifier: Apache-2.0 */
/* Services on nodes (specification 8.1.1). */
#include "monitor/engine/node.h"

#include <stdlib.h>

#include "monitor/engine/call.h"
#include "probe/node.h"
#include "lang/results.h"
#include "service/omis/service.h"

static void node_attach(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        call->tool->node_attached = true;
        call_ok(call, call->objects[i]);
    }
}

static void node_attach2(struct scry_call *call)
{
    const char *name = call_string(call, 0);
    if (!name)
        return;
    struct node *node = call->monitor->node;
    if (!node_is_local(node, name)) {
        call_fail(call, NULL, OMIS_UNSUPPORTED_SERVICE,
                  "unsupported: node_attach2 reaches only this machine (\"localhost\" or \"%s\"), not \"%s\"",
                  node->name, name);
        return;
    }
    call->tool->node_attached = true;
    struct buf text = BUF_INIT;
    buf_puts(&text, node->object.token);
    call_text(call, NULL, &text); /* a constructor: it has no node */
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

enum { NODE_INFO_BITS = 14 };

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
    {"node_attach2", SCRY_MANIPULATION, "string node_name -> token", SCRY_OPTIONAL | SCRY_OBSERVE | SCRY_PARTLY,
     node_attach2, "Attach to a node by its name; only this machine is known: \"\" or \"localhost\"."},
    {"node_detach", SCRY_MANIPULATION, "token<n>* node_list -> void", SCRY_OPTIONAL | SCRY_OBSERVE, node_detach,
     "Detach from nodes and all processes on them."},
    {"node_get_info", SCRY_INFORMATION, "token<n>* node_list, integer flags -> " NODE_INFO_RESULT,
     SCRY_PARTIAL | SCRY_PARTLY, node_get_info,
     "Static (bits 0-6 of flags) and dynamic (bits 7-13) information on nodes; -1 is what Linux does not count."},
    SERVICE_END,
};
