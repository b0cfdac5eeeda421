/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/clock.h"
#include "monitor/engine/call.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/lower.h"
#include "service/omis/service.h"

#include <errno.h>
#include <stdlib.h>

/* Services on conditional service requests (specification 8.2.1). */

static void for_each(struct scry_call *call, void (*change)(struct csr *csr))
{
    for (size_t i = 0; i < call->object_count; i++)
        change((struct csr *)call->objects[i]);
    if (call->monitor->wait_for_parts && call->monitor->wait_for_parts(call))
        return;
    for (size_t i = 0; i < call->object_count; i++)
        call_ok(call, call->objects[i]);
}

static void run_enable(struct scry_call *call)
{
    for_each(call, csr_enable);
}

static void run_disable(struct scry_call *call)
{
    for_each(call, csr_disable);
}

static void run_delete(struct scry_call *call)
{
    for_each(call, csr_delete);
}

/* Lowered: turns the gates of the requests. */
static int lower_for_each(struct scry_call *call, struct scry_code *code, bool enabled)
{
    for (size_t i = 0; i < call->object_count; i++) {
        int gate = csr_gate((struct csr *)call->objects[i]);
        if (gate < 0 || scry_lower_set(code, gate, enabled) < 0)
            return -1;
    }
    return 0;
}

static int lower_enable(struct scry_call *call, struct scry_code *code)
{
    return lower_for_each(call, code, true);
}

static int lower_disable(struct scry_call *call, struct scry_code *code)
{
    return lower_for_each(call, code, false);
}

const struct scry_service csr_services[] = {
    {"csr_enable", SCRY_MANIPULATION, "token<c>* csr_list -> void", SCRY_REQUIRED | SCRY_OBSERVE, run_enable,
     "Enable defined conditional service requests.", .lower = lower_enable},
    {"csr_disable", SCRY_MANIPULATION, "token<c>* csr_list -> void", SCRY_REQUIRED | SCRY_OBSERVE, run_disable,
     "Disable conditional service requests.", .lower = lower_disable},
    {"csr_delete", SCRY_MANIPULATION, "token<c>* csr_list -> void", SCRY_REQUIRED | SCRY_OBSERVE, run_delete,
     "Delete conditional service requests."},
    SERVICE_END,
};

/* Services on user-defined events (specification 8.2.2). */

static void user_event_create(struct scry_call *call)
{
    struct scry_object *event = calloc(1, sizeof *event);
    if (!event) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    object_init(event, call->monitor, object_class_get(call->monitor, "e"), call->tool);
    struct buf text = BUF_INIT;
    buf_puts(&text, event->token);
    call_text(call, NULL, &text); /* it has no object (7.3.1) */
    buf_done(&text);
}

/*
 * The lists that wait for the event run when the raising list has ended. With resume 0, the source waits for them, too:
 * the object of the event that started the raising list.
 */
static void user_event_raise(struct scry_call *call)
{
    struct scry_object *object = call->objects ? call->objects[0] : NULL;
    if (!object || !call->object_count)
        return; /* already answered */
    const struct value *params = &call->args[1];
    bool resume = call_integer(call, 2) != 0;
    struct err err;
    Omis_status confined = confine_params(call->tool, params, &err);
    if (confined != OMIS_OK) {
        call_fail(call, object, confined, "%s", err.text);
        return;
    }
    struct event event = {.service = registry_find(call->monitor->registry, span_str("user_event_has_been_raised")),
                          .object = object,
                          .time_ns = clock_now_ns(),
                          .outputs = params->list.items,
                          .output_count = params->list.count,
                          .first_par = 1};
    const struct event_list *list = call->execution->list; /* of an event elsewhere; NULL: there is none */
    if (call->event)
        event.source = event_source_of(call->monitor, call->event);
    else if (list)
        event.source = list->source;
    if (resume)
        event.source.process[0] = event.source.thread[0] = '\0';
    else if (call->event || list)
        event.time_ns = call->event ? call->event->time_ns : list->time_ns;
    switch (event_queue(call->monitor, &event)) {
    case 0:
        call_ok(call, object);
        break;
    case -ELOOP:
        call_fail(call, object, OMIS_UNSPECIFIED_ERROR,
                  "events raised each other %d times in a row: the chain ends here", EVENT_CHAIN_LIMIT);
        break;
    case -EOVERFLOW:
        call_fail(call, object, OMIS_UNSPECIFIED_ERROR, "more than %d events were raised by one event",
                  call->tool->confined.job ? CONFINED_CASCADE : EVENT_CASCADE_LIMIT);
        break;
    default:
        call_fail(call, object, OMIS_NO_MEMORY, "out of memory");
    }
}

static bool has_param(const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i].kind == VALUE_PARAM ||
            (values[i].kind == VALUE_LIST && has_param(values[i].list.items, values[i].list.count)))
            return true;
    return false;
}

/* Lowered, the event is posted to the monitor and nothing waits. So only with resume, and with constant parameters. */
static int user_event_raise_lower(struct scry_call *call, struct scry_code *code)
{
    const struct value *params = &call->args[1], *resume = &call->args[2];
    if (call->object_count != 1 || resume->kind != VALUE_INTEGER || !resume->integer.bits ||
        params->kind != VALUE_LIST || has_param(params->list.items, params->list.count))
        return -1;
    return lower_post(code, call->objects[0], params->list.items, params->list.count);
}

static void user_event_destroy(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        if (call->objects[i]->owner != call->tool) {
            call_fail(call, call->objects[i], OMIS_NO_PERMISSION, "%s belongs to another tool",
                      call->objects[i]->token);
            continue;
        }
        call_ok(call, call->objects[i]);
        object_end(call->objects[i]);
    }
}

static const struct event_ops raised_ops = {.object_class = "e"};

const struct scry_service user_event_services[] = {
    {"user_event_create", SCRY_MANIPULATION, "-> token", SCRY_REQUIRED | SCRY_OBSERVE, user_event_create,
     "Create a user-defined event."},
    {"user_event_raise", SCRY_MANIPULATION,
     "token<e> user_event, any* params, integer resume -> void ! OMIS_UNSPECIFIED_ERROR", SCRY_REQUIRED | SCRY_OBSERVE,
     user_event_raise, "Raise a user-defined event; params become its par1, par2, ...",
     .lower = user_event_raise_lower},
    {"user_event_destroy", SCRY_MANIPULATION, "token<e> user_event -> void ! OMIS_NO_PERMISSION",
     SCRY_REQUIRED | SCRY_OBSERVE, user_event_destroy, "Destroy a user-defined event."},
    {"user_event_has_been_raised", SCRY_EVENT, "token<e> user_event -> { ... }", SCRY_REQUIRED, NULL,
     "A user-defined event has been raised; its parameters are par1, par2, ...", .event = &raised_ops},
    SERVICE_END,
};
