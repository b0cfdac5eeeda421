/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/state.h"

#include <unistd.h>

#include "base/system/log.h"
#include "lang/reply.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/engine/tool.h"
#include "probe/proc.h"
#include "tracer/tracer.h"

static unsigned long long number(uint64_t value)
{
    return value;
}

static void print_monitor(const struct monitor *monitor, struct buf *out)
{
    struct proc_stat stat = {.resident_bytes = 0};
    proc_stat_read(getpid(), 0, &stat);
    buf_printf(out,
               "monitor pid=%d version=%s log_level=%s resident_bytes=%llu tools=%u processes=%u events_queued=%u "
               "executing=%u extension_mistakes=%u\n",
               (int)getpid(), SCRY_VERSION, log_level_name(), number(stat.resident_bytes), HASH_COUNT(monitor->tools),
               HASH_COUNT(monitor->processes), event_queue_length(monitor), monitor->executing, monitor->mistakes);
}

static void print_csr(const struct csr *csr, struct buf *out)
{
    const struct csr_target *telling = NULL;
    unsigned armed = 0, pending = 0, failed = 0;
    for (const struct csr_target *target = csr->targets; target; target = target->hh.next) {
        bool wrong = !target->pending && target->status >= OMIS_FIRST_ERROR;
        pending += target->pending;
        failed += wrong;
        armed += !target->pending && !wrong;
        telling = wrong && !telling ? target : telling;
    }
    buf_printf(out, "csr token=%s tool=%u event=%s enabled=%d armed=%u pending=%u failed=%u", csr->object.token,
               csr->object.owner->id, csr->event_service ? csr->event_service->row->name : "none", csr->enabled, armed,
               pending, failed);
    if (telling)
        buf_printf(out, " status=%s text=%s", omis_status_name(telling->status),
                   LOG_TEXT(telling->text ? telling->text : ""));
    buf_putc(out, '\n');
}

static void print_tool(const struct tool *tool, struct buf *out)
{
    unsigned csrs = 0, objects = 0;
    for (const struct scry_object *object = tool->owned; object; object = object->next_owned) {
        csrs += object_is(object, "c");
        objects++;
    }
    buf_printf(out, "tool id=%u sessions=%u node_attached=%d processes=%zu csrs=%u objects=%u\n", tool->id,
               tool->sessions, tool->node_attached, tool->attachment_count, csrs, objects);
    for (const struct scry_object *object = tool->owned; object; object = object->next_owned)
        if (object_is(object, "c"))
            print_csr((const struct csr *)object, out);
}

static void print_process(const struct process *process, struct buf *out)
{
    unsigned tools = 0;
    for (const struct attachment *a = process->attachments; a; a = a->next_of_process)
        tools++;
    buf_printf(out, "process token=%s pid=%d tools=%u threads=%u traced=%d breakpoints=%zu stopped=%d\n",
               process->object.token, process->pid, tools, HASH_COUNT(process->threads), process->trace.seized,
               process->trace.break_count, process->all_stopped);
}

static void print_tracer(const struct monitor *monitor, struct buf *out)
{
    buf_printf(out, "tracer pid=%d deaths=%u off=%d\n", monitor->tracer ? tracer_pid(monitor->tracer) : 0,
               monitor->tracer_deaths, monitor->tracing_off);
}

void monitor_state_print(const struct monitor *monitor, struct buf *out)
{
    print_monitor(monitor, out);
    if (monitor->connections.print)
        monitor->connections.print(monitor->connections.ctx, out);
    if (monitor->others.print)
        monitor->others.print(monitor->others.ctx, out);
    for (const struct tool *tool = monitor->tools; tool; tool = tool->hh.next)
        print_tool(tool, out);
    for (const struct process *process = monitor->processes; process; process = process->hh.next)
        print_process(process, out);
    print_tracer(monitor, out);
    if (monitor->traced.print)
        monitor->traced.print(monitor->traced.ctx, out);
}
