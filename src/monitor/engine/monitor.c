/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/monitor.h"

#include "base/system/log.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/process.h"
#include "monitor/engine/tool.h"
#include "probe/cells.h"
#include "probe/proc.h"
#include "tracer/tracer.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static uint32_t tool_id(const struct session *session)
{
    return session->tool ? session->tool->id : 0;
}

void request_log_request(const struct session *session, uint32_t id, uint32_t flags, struct span text)
{
    log_debug("request tool=%u pid=%d id=%u flags=%#x bytes=%zu text=%s", tool_id(session), session->peer_pid, id,
              flags, text.len, LOG_BYTES(text.ptr, text.len));
}

/* The result that says most: the first error, else the first one with a text, else the first. NULL: there is none. */
static const Omis_object_result *telling(Omis_reply reply)
{
    const Omis_object_result *found = NULL;
    for (; *reply; reply++)
        for (const Omis_object_result *each = *reply; each->obj_list; each++) {
            if (each->status >= OMIS_FIRST_ERROR)
                return each;
            if (!found || (!found->result && each->result))
                found = each;
        }
    return found;
}

void request_log_reply(const struct session *session, uint32_t id, bool last, struct span encoded)
{
    Omis_reply reply;
    if (!log_wanted(LOG_DEBUG) || reply_decode(encoded, &reply) < 0)
        return;
    const Omis_object_result *result = telling(reply);
    log_debug("reply tool=%u pid=%d id=%u last=%d bytes=%zu status=%s text=%s", tool_id(session), session->peer_pid, id,
              last, encoded.len, result ? omis_status_name(result->status) : "none",
              LOG_TEXT(result && result->result ? result->result : ""));
    free(reply);
}

void request_log_event(const struct event *event, size_t matched)
{
    log_debug("event service=%s process=%s thread=%s matched=%zu", event->service->row->name,
              event->process ? event->process->object.token : "none",
              event->thread ? event->thread->object.token : "none", matched);
}

void request_log_csr(const struct csr *csr, const char *state)
{
    log_debug("csr token=%s state=%s event=%s tool=%u processes=%u", csr->object.token, state,
              csr->event_service ? csr->event_service->row->name : "none",
              csr->object.owner ? csr->object.owner->id : 0, HASH_COUNT(csr->targets));
}

void request_log_armed(const struct csr *csr, const struct csr_target *target)
{
    log_debug("armed csr=%s process=%s pid=%d status=%s text=%s", csr->object.token, target->process->object.token,
              target->process->pid, target->pending ? "pending" : omis_status_name(target->status),
              LOG_TEXT(target->text ? target->text : ""));
}

static void print_monitor(const struct monitor *monitor, struct buf *out)
{
    struct proc_stat stat = {.resident_bytes = 0};
    proc_stat_read(getpid(), 0, &stat);
    buf_printf(out,
               "monitor pid=%d version=%s log_level=%s resident_bytes=%llu tools=%u processes=%u events_queued=%u "
               "executing=%u extension_mistakes=%u\n",
               (int)getpid(), SCRY_VERSION, log_level_name(), (unsigned long long)stat.resident_bytes,
               HASH_COUNT(monitor->tools), HASH_COUNT(monitor->processes), event_queue_length(monitor),
               monitor->executing, monitor->mistakes);
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

static struct monitor *current;

struct monitor *monitor_current(void)
{
    return current;
}

/* The classes of the specification (7.2.2), and which objects are in which: threads of a process share its queue. */
static const struct {
    const char *name, *doc, *container_class;
} builtin_classes[] = {
    {"n", "node", NULL},
    {"p", "process", "n"},
    {"t", "thread", "p"},
    {"q", "message queue", "p"},
    {"m", "message", "q"},
    {"e", "user-defined event", NULL},
    {"c", "conditional service request", NULL},
};

int monitor_new(struct monitor **ret_monitor, struct loop *loop, int (*register_services)(struct monitor *),
                struct err *err)
{
    struct monitor *monitor = calloc(1, sizeof *monitor);
    if (!monitor)
        return err_set(err, -ENOMEM, "out of memory");
    monitor->loop = loop;
    monitor->node_number = 1;
    current = monitor;
    monitor->registry = calloc(1, sizeof *monitor->registry);
    int code = monitor->registry ? 0 : -ENOMEM;
    for (size_t i = 0; code == 0 && i < sizeof builtin_classes / sizeof *builtin_classes; i++) {
        struct object_class *class = object_class_get(monitor, builtin_classes[i].name);
        if (!class) {
            code = -ENOMEM;
            break;
        }
        class->builtin = true;
        class->doc = builtin_classes[i].doc;
        class->container_class = builtin_classes[i].container_class;
    }
    if (code == 0)
        code = cells_new(&monitor->cells);
    if (code == 0)
        code = node_new(monitor, &monitor->node);
    if (code < 0)
        err_errno(err, code, "cannot start the engine");
    if (code == 0 && (code = register_services(monitor)) < 0)
        err_set(err, code, "cannot register the built-in services");
    if (code < 0) {
        monitor_free(monitor);
        return code;
    }
    *ret_monitor = monitor;
    return 0;
}

static void empty_graveyard(struct monitor *monitor)
{
    while (monitor->graveyard) {
        struct scry_object *object = monitor->graveyard;
        monitor->graveyard = object->next_grave;
        if (object->class->destroy)
            object->class->destroy(object->data);
        if (object->free)
            object->free(object);
        else
            free(object);
    }
}

void monitor_enter(struct monitor *monitor)
{
    monitor->busy++;
}

void monitor_leave(struct monitor *monitor)
{
    if (monitor->busy == 1) {
        event_run_queue(monitor);
        if (monitor->programs_stale) { /* before what they refer to is freed */
            monitor->programs_stale = false;
            csr_relower(monitor);
        }
        monitor->tracing->settle(monitor);
    }
    if (--monitor->busy == 0)
        empty_graveyard(monitor);
}

void monitor_free(struct monitor *monitor)
{
    if (!monitor)
        return;
    if (monitor->tracing)
        monitor->tracing->stop(monitor);
    process_free_all(monitor);
    loop_remove(monitor->switch_turn);
    messages_sweep(monitor);
    empty_graveyard(monitor);
    node_free(monitor->node);
    cells_free(monitor->cells);
    registry_free(monitor->registry);
    struct object_class *class, *next;
    HASH_ITER(hh, monitor->classes, class, next)
    {
        HASH_DELETE(hh, monitor->classes, class);
        free(class);
    }
    free(monitor);
    current = NULL;
}
