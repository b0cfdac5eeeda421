/* SPDX-License-Identifier: Apache-2.0 */
/* Events on messages (specification 8.1.3, 8.1.4), reported by processes (monitor/mpi/messages.h). */
#include <errno.h>

#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "service/omis/message.h"

static int arm_extended(struct csr *csr, struct process *process, struct err *err)
{
    struct mpi_process *found = mpi_process_of(process, err);
    return found ? mpi_messages_watch(found, MPIM_EVENT_EXTENDED, 1, err) : -EOPNOTSUPP;
}

static void disarm_extended(struct csr *csr, struct process *process)
{
    struct err err = {.text = ""};
    struct mpi_process *found = mpi_process_of(process, &err);
    if (found)
        mpi_messages_watch(found, MPIM_EVENT_EXTENDED, -1, &err);
}

const struct event_ops message_extended_ops = {.object_class = "q", .arm = arm_extended, .disarm = disarm_extended};

static int arm_tagged(struct csr *csr, struct process *process, struct err *err)
{
    struct mpi_process *found = mpi_process_of(process, err);
    return found ? mpi_messages_watch(found, MPIM_EVENT_TAGGED, 1, err) : -EOPNOTSUPP;
}

static void disarm_tagged(struct csr *csr, struct process *process)
{
    struct err err = {.text = ""};
    struct mpi_process *found = mpi_process_of(process, &err);
    if (found)
        mpi_messages_watch(found, MPIM_EVENT_TAGGED, -1, &err);
}

enum { OUT_TAG = 3 };

static bool match_tagged(const struct csr *csr, const struct event *event)
{
    const struct value *list = &csr->event_args[1], *tag = &event->outputs[OUT_TAG];
    for (size_t i = 0; i < list->list.count; i++)
        if (list->list.items[i].integer.bits == tag->integer.bits)
            return true;
    return list->list.count == 0;
}

const struct event_ops message_tagged_ops = {
    .object_class = "t", .arm = arm_tagged, .disarm = disarm_tagged, .match = match_tagged};
