/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/tracing/steps.h"

#include <errno.h>

#include "monitor/engine/csr.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/tracing/tracing.h"

/* Any request of the service that watches this thread. */
static struct csr *stepping_csr(const char *service_name, const struct thread *thread)
{
    struct service *service = registry_find(thread->object.monitor->registry, span_str(service_name));
    for (struct csr *csr = service ? service->enabled : NULL; csr; csr = csr->next_enabled) {
        struct csr_target *target = csr_target(csr, thread->process);
        if (target && target->status < OMIS_FIRST_ERROR && csr_covers_thread(csr, thread) &&
            thread_visible(thread, csr->object.owner))
            return csr;
    }
    return NULL;
}

static bool anybody_steps(const struct monitor *monitor)
{
    const struct service *into = registry_find(monitor->registry, span_str("thread_executed_insn"));
    const struct service *over = registry_find(monitor->registry, span_str("thread_executed_insn_call"));
    return (into && into->enabled) || (over && over->enabled);
}

int steps_new_thread(struct thread *thread, struct err *err)
{
    return anybody_steps(thread->object.monitor) ? steps_update(thread->process, NULL, err) : 0;
}

int steps_update(struct process *process, struct csr *csr, struct err *err)
{
    struct monitor *monitor = process->object.monitor;
    bool any = anybody_steps(monitor);
    if (any)
        process_refresh(process, 0);
    int result = 0;
    for (struct thread *thread = process->threads; thread; thread = thread->hh.next) {
        bool into = any && stepping_csr("thread_executed_insn", thread);
        bool over = any && stepping_csr("thread_executed_insn_call", thread);
        int mode = (into ? TRACER_STEP_INTO : 0) | (over ? TRACER_STEP_OVER : 0);
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
