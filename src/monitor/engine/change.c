/* SPDX-License-Identifier: Apache-2.0 */

#include "base/system/clock.h"
#include "lang/request.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/engine/object.h"
#include "monitor/engine/tool.h"
#include "shm/waits.h"

/* ---- which jobs ---- */

static void job_add(struct execution *execution, struct span dir)
{
    struct changed_jobs *jobs = &execution->changed;
    for (size_t i = 0; i < jobs->count; i++)
        if (span_eq(jobs->dirs[i], dir))
            return;
    struct span copy = dir.len && jobs->count < CHANGED_JOBS ? arena_span(&execution->arena, dir) : (struct span){0};
    if (copy.ptr)
        jobs->dirs[jobs->count++] = copy;
}

/* Of a message in a queue that of its receiver. NULL: of none. */
static const struct process *process_of(struct monitor *monitor, struct scry_object *object)
{
    if (object_is(object, "m")) {
        const struct message *message = (const struct message *)object;
        return message->held ? NULL : message_rank(monitor, message->id.world, message->id.to);
    }
    return object->class->builtin ? (const struct process *)convert_localise(object, "p") : NULL;
}

void change_note(struct execution *execution, const struct scry_call *call)
{
    const struct service *service = call->service;
    const struct signature *signature = &service->signature;
    struct monitor *monitor = execution->monitor;
    bool changes = service->right == RIGHT_CONTROL || service->right == RIGHT_MEMORY;
    if (service->row->kind != SCRY_MANIPULATION || !changes || call->tool->confined.job || !monitor->on_change)
        return;
    for (size_t i = 0; i < call->argc && i < signature->param_count; i++)
        if (confine_names_job(&signature->params[i]) && call->args[i].kind == VALUE_STRING)
            job_add(execution, monitor->job_of(monitor, call->tool, 0, call->args[i].text));
    for (size_t i = 0; i < call->object_count; i++) {
        const struct process *process = process_of(monitor, call->objects[i]);
        if (process)
            job_add(execution, monitor->job_of(monitor, call->tool, process->pid, span_of("", 0)));
    }
}

/* ---- what is told ---- */

struct span change_shown(const struct request *request, struct arena *arena)
{
    struct buf out = BUF_INIT;
    if (request->event)
        buf_printf(&out, "%.*s(...) ", SPAN_ARG(request->event->name));
    buf_puts(&out, ":");
    for (size_t i = 0; i < request->action_count; i++)
        buf_printf(&out, " %.*s(...)", SPAN_ARG(request->actions[i].name));
    struct span names = arena_span(arena, span_of(out.data ? out.data : "", out.len));
    buf_done(&out);
    return names.ptr ? names : span_of("", 0);
}

void change_report_confined(struct session *session, struct span text, Omis_status status, struct span why)
{
    struct tool *tool = session->tool;
    struct monitor *monitor = tool->monitor;
    if (!tool->confined.job || !monitor->on_change)
        return;
    uint64_t now = clock_now_ns();
    if (status == OMIS_NO_PERMISSION) {
        if (monitor->refused_ns && now - monitor->refused_ns < CHANGE_REFUSAL_NS)
            return;
        monitor->refused_ns = now;
    }
    const struct change change = {span_str(tool->confined.job), tool, session->peer_pid, text, status, why};
    monitor->on_change(monitor, &change);
}

void change_report(const struct session *session, const struct changed_jobs *jobs, struct span text, Omis_status status)
{
    struct monitor *monitor = session->tool->monitor;
    for (size_t i = 0; i < jobs->count; i++) {
        const struct change change = {jobs->dirs[i], session->tool, session->peer_pid, text, status, span_of("", 0)};
        monitor->on_change(monitor, &change);
    }
}

static bool has_values(const struct csr *csr)
{
    bool values = csr->event_service->right == RIGHT_MEMORY;
    for (size_t i = 0; i < csr->request.action_count; i++)
        values |= csr->actions[i]->right == RIGHT_MEMORY;
    return values;
}

bool change_report_csr(const struct csr *csr, struct execution *execution)
{
    if (!execution->changed.count)
        return false;
    struct span text = has_values(csr) ? change_shown(&csr->request, &execution->arena) : csr->text;
    change_report(csr->session, &execution->changed, text, execution->reply.first_error);
    return true;
}
