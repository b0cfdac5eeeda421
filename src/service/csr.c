/* SPDX-License-Identifier: Apache-2.0 */
/* Services on conditional service requests (specification 8.2.1). */
#include "monitor/csr.h"

#include "monitor/call.h"
#include "service/service.h"

static void for_each(struct scry_call *call, void (*change)(struct csr *csr))
{
    for (size_t i = 0; i < call->object_count; i++) {
        change((struct csr *)call->objects[i]);
        call_ok(call, call->objects[i]);
    }
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

const struct scry_service csr_services[] = {
    {"csr_enable", SCRY_MANIPULATION, "token<c>* csr_list -> void", SCRY_REQUIRED, run_enable,
     "Enable conditional service requests that were defined before."},
    {"csr_disable", SCRY_MANIPULATION, "token<c>* csr_list -> void", SCRY_REQUIRED, run_disable,
     "Disable conditional service requests."},
    {"csr_delete", SCRY_MANIPULATION, "token<c>* csr_list -> void", SCRY_REQUIRED, run_delete,
     "Delete conditional service requests."},
    SERVICE_END,
};
