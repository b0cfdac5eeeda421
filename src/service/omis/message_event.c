/* SPDX-License-Identifier: Apache-2.0 */
/* Events on messages (specification 8.1.3, 8.1.4), reported by processes (monitor/mpi/messages.h). */
#include <errno.h>

#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/mpi/late.h"
#include "service/omis/message.h"

static uint32_t event_of(const struct csr *csr)
{
    return event_ops_of(csr->event_service) == &message_tagged_ops ? MPIM_EVENT_TAGGED : MPIM_EVENT_EXTENDED;
}

/* Where the interposer has come. */
static void brought(void *ctx, struct process *process, int code, const struct err *why)
{
    struct csr *csr = ctx;
    struct err err = *why;
    struct mpi_process *found = process ? mpi_process_find(process->object.monitor->mpi, process->pid) : NULL;
    if (!process)
        return;
    if (code == 0)
        code = found ? mpi_messages_watch(found, event_of(csr), 1, &err)
                     : err_set(&err, -EOPNOTSUPP, "process %d has ended", process->pid);
    csr_target_ready(csr, process, code, &err);
}

static int arm(struct csr *csr, struct process *process, struct err *err)
{
    struct mpi_process *found = mpi_process_find(process->object.monitor->mpi, process->pid);
    if (found)
        return mpi_messages_watch(found, event_of(csr), 1, err);
    int code = mpi_late_begin(process, brought, csr, err);
    return code < 0 ? code : 1;
}

static void disarm(struct csr *csr, struct process *process)
{
    struct err err = {.text = ""};
    struct mpi_process *found = mpi_process_find(process->object.monitor->mpi, process->pid);
    if (!mpi_late_forget(process, csr) && found)
        mpi_messages_watch(found, event_of(csr), -1, &err);
}

const struct event_ops message_extended_ops = {.object_class = "q", .arm = arm, .disarm = disarm};

enum { OUT_TAG = 3 };

static bool match_tagged(const struct csr *csr, const struct event *event)
{
    const struct value *list = &csr->event_args[1], *tag = &event->outputs[OUT_TAG];
    for (size_t i = 0; i < list->list.count; i++)
        if (list->list.items[i].integer.bits == tag->integer.bits)
            return true;
    return list->list.count == 0;
}

const struct event_ops message_tagged_ops = {.object_class = "t", .arm = arm, .disarm = disarm, .match = match_tagged};
