/* SPDX-License-Identifier: Apache-2.0 */
#include "service/ct/call_event.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system/log.h"
#include "monitor/recorder/agents.h"
#include "probe/cells.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/lower.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/engine/tool.h"
#include "service/ct/ct.h"
#include "service/ct/condition.h"

struct agent *call_event_agent(const struct process *process)
{
    struct agents *agents = process->object.monitor->agents;
    return agents ? agents_find(agents, process->pid) : NULL;
}

/* ---- conditions ---- */

int call_event_lower(const struct ct_condition *condition, struct scry_code *code)
{
    for (uint32_t i = 0; i < condition->program.count; i++) {
        struct code_insn *insn = lower_insn(code, CODE_UNLESS);
        if (!insn)
            return -1;
        *insn = condition->program.insns[i];
    }
    return 0;
}

bool call_event_holds(const struct csr *csr, const struct ct_condition *condition, const struct event *event)
{
    struct code_event params;
    code_cell *gate = cell_at(csr->object.monitor->cells, csr->gate);
    if ((gate && !atomic_load(gate)) || !agent_event_params(event->seen, csr, &params))
        return false;
    return code_run(&condition->program, &params, NULL) & CODE_PASSED;
}

void call_event_rearm(struct csr *csr, struct process *process)
{
    const struct event_ops *ops = event_ops_of(csr->event_service);
    struct err err = {0};
    int code = ops->arm(csr, process, &err);
    if (code >= 0)
        return;
    ops->disarm(csr, process); /* stop the old program: another counter may own its cells now */
    csr_target_ready(csr, process, code, &err);
}

/* ---- raising ---- */

/* The thread that the area names. That memory is the program's: do not trust it. */
static struct thread *thread_of(struct process *process, const struct agent_event *seen)
{
    pid_t tid = (pid_t)seen->thread->tid;
    return tid > 0 && syscall(SYS_tgkill, process->pid, tid, 0) == 0 ? process_thread(process, tid) : NULL;
}

bool call_event_begin(struct monitor *monitor, const struct agent_event *seen, const char *service,
                      struct event *ret_event)
{
    *ret_event = (struct event){
        .service = registry_find(monitor->registry, span_str(service)),
        .process = process_find(monitor, agent_pid(seen->agent)),
        .time_ns = ct_time_ns(seen->agent, seen->raise.time),
        .seen = seen,
    };
    return ret_event->service->enabled && ret_event->process;
}

void call_event_raise(struct monitor *monitor, struct event *event, const struct value *outputs, size_t output_count)
{
    event->thread = thread_of(event->process, event->seen);
    event->object = event->thread ? &event->thread->object : &event->process->object;
    event->outputs = outputs;
    event->output_count = output_count;
    event_raise(monitor, event);
    event_run_queue(monitor);
}

/* ---- processes of jobs ---- */

void call_event_attach(struct tool *tool, pid_t pid, const char *job)
{
    struct session session = {.tool = tool};
    struct err err = {0};
    struct process *process = process_get(tool->monitor, pid, &err);
    if (!process || process_attach(&session, process, &err) < 0)
        log_info("process %d of job %s: %s", pid, job, err.text);
}
