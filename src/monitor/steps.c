/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/steps.h"

#include <errno.h>

#include "monitor/csr.h"
#include "monitor/monitor.h"
#include "monitor/process.h"
#include "monitor/tracing.h"

/* Any request of the service that watches this thread, other than `except`. */
static struct csr *stepping_csr(const char *service_name, const struct thread *thread, const struct csr *except)
{
    struct service *service = registry_find(thread->object.monitor->registry, span_str(service_name));
    for (struct csr *csr = service ? service->enabled : NULL; csr; csr = csr->next_enabled) {
        struct csr_target *target = csr_target(csr, thread->process);
        if (csr != except && target && target->status < OMIS_FIRST_ERROR && csr_covers_thread(csr, thread) &&
            thread_visible(thread, csr->object.owner))
            return csr;
    }
    return NULL;
}

int steps_update(struct process *process, struct csr *csr, struct err *err)
{
    struct monitor *monitor = process->object.monitor;
    struct service *into_service = registry_find(monitor->registry, span_str("thread_executed_insn"));
    struct service *over_service = registry_find(monitor->registry, span_str("thread_executed_insn_call"));
    bool any = (into_service && into_service->enabled) || (over_service && over_service->enabled);
    if (any)
        process_refresh(process, 0);
    int result = 0;
    for (struct thread *thread = process->threads; thread; thread = thread->hh.next) {
        bool into = any && stepping_csr("thread_executed_insn", thread, NULL);
        bool over = any && stepping_csr("thread_executed_insn_call", thread, NULL);
        if (into && over && csr && csr_covers_thread(csr, thread) &&
            (csr->event_service == into_service || csr->event_service == over_service)) {
            result = err_set(err, -EBUSY, "%s is being stepped with %s already", thread->object.token,
                             csr->event_service == into_service ? over_service->row->name : into_service->row->name);
            into = csr->event_service != into_service;
            over = csr->event_service != over_service;
        }
        int mode = into ? TRACER_STEP_INTO : over ? TRACER_STEP_OVER : TRACER_STEP_NONE;
        if (mode == thread->step)
            continue;
        int code = tracer_step(monitor->tracer, thread->tid, (enum tracer_step_mode)mode);
        if (code == 0)
            thread->step = mode;
        else if (result == 0)
            result = err_errno(err, code, "cannot step %s", thread->object.token);
    }
    return result;
}
