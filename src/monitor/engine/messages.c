/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/messages.h"

#include <stdlib.h>

#include "monitor/engine/monitor.h"

enum { MANY = 16384 };

/* ---- queues ---- */

bool message_has_queue(const struct process *process)
{
    const struct message_source *source = process->object.monitor->message_source;
    return source && source->has_queue(process);
}

struct process *message_rank(struct monitor *monitor, uint64_t world, int32_t rank)
{
    return monitor->message_source ? monitor->message_source->rank(monitor, world, rank) : NULL;
}

struct message_queue *message_queue_of(struct process *process)
{
    if (process->queue || process->object.gone)
        return process->queue;
    struct message_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    struct monitor *monitor = process->object.monitor;
    queue->process = process;
    object_init(&queue->object, monitor, object_class_get(monitor, "q"), NULL);
    return process->queue = queue;
}

void message_queue_end(struct process *process)
{
    if (process->queue)
        object_end(&process->queue->object);
    process->queue = NULL;
}

/* ---- messages ---- */

static void object_list(struct message *message)
{
    struct monitor *monitor = message->object.monitor;
    HASH_ADD(hh, monitor->messages, id, sizeof message->id, message);
    message->is_listed = true;
}

static void object_unlist(struct message *message)
{
    struct monitor *monitor = message->object.monitor;
    if (message->is_listed)
        HASH_DELETE(hh, monitor->messages, message);
    message->is_listed = false;
}

static void message_free(struct scry_object *object)
{
    struct message *message = (struct message *)object;
    object_unlist(message);
    free(message->content);
    free(message);
}

static struct message *message_make(struct monitor *monitor, struct tool *owner)
{
    struct message *message = calloc(1, sizeof *message);
    if (!message)
        return NULL;
    message->object.free = message_free;
    object_init(&message->object, monitor, object_class_get(monitor, "m"), owner);
    return message;
}

void messages_sweep(struct monitor *monitor)
{
    struct message *message, *next;
    HASH_ITER(hh, monitor->messages, message, next)
    {
        const struct message_source *source = monitor->message_source;
        enum message_state state = source ? source->state(monitor, &message->id) : MESSAGE_IS_UNKNOWN;
        if (state == MESSAGE_IS_RECEIVED || state == MESSAGE_IS_UNKNOWN)
            message_end(message);
    }
}

struct message *message_named(struct monitor *monitor, const struct message_id *id)
{
    struct message *message;
    HASH_FIND(hh, monitor->messages, id, sizeof *id, message);
    if (message && !message->object.gone)
        return message;
    if (message)
        object_unlist(message);
    unsigned count = HASH_COUNT(monitor->messages);
    if (count >= MANY && count % MANY == 0)
        messages_sweep(monitor);
    message = message_make(monitor, NULL);
    if (!message)
        return NULL;
    message->id = *id;
    message->addressed = true;
    object_list(message);
    return message;
}

struct message *message_new(struct monitor *monitor, struct tool *tool)
{
    struct message *message = message_make(monitor, tool);
    if (message)
        message->held = true;
    return message;
}

void message_hold(struct message *message, struct tool *tool, uint8_t *content_take, uint64_t bytes)
{
    object_unlist(message);
    object_give(&message->object, tool);
    free(message->content);
    message->content = content_take;
    message->bytes = bytes;
    message->held = true;
    message->id.k = 0;
}

void message_queued(struct message *message, const struct message_id *id)
{
    struct message *other;
    HASH_FIND(hh, message->object.monitor->messages, id, sizeof *id, other);
    if (other) /* somebody has asked for it already: now it has two names */
        object_unlist(other);
    object_give(&message->object, NULL);
    free(message->content);
    message->content = NULL;
    message->held = false;
    message->addressed = true;
    message->id = *id;
    object_list(message);
}

void message_end(struct message *message)
{
    object_unlist(message);
    object_end(&message->object);
}
