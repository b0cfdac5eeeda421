/* SPDX-License-Identifier: Apache-2.0 */
/* Services on conditional service requests (specification 8.2.1). */
#include "monitor/engine/csr.h"

#include "monitor/engine/call.h"
#include "monitor/engine/lower.h"
#include "service/omis/service.h"

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
