/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/monitor.h"

#include <errno.h>
#include <stdlib.h>

#include "probe/cells.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/node.h"
#include "monitor/engine/process.h"
#include "monitor/engine/registry.h"
#include "monitor/engine/tool.h"
#include "monitor/engine/trace_need.h"

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
