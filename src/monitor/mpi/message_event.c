/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MPI processes tell of their messages: a thread waits in its MPI call until the action lists have run. While
 * those of a longer queue run, its process posts no receive.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "monitor/mpi/message_internal.h"

enum { OUT_MOST = 5 };

static void wake(void *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- raising ---- */

static uint64_t time_of(struct mpi_process *process, uint64_t ticks)
{
    uint64_t now = agent_clock_ticks(), second = process->registry->agents->ticks_per_second;
    uint64_t age = ticks < now && second ? (uint64_t)((double)(now - ticks) / (double)second * 1e9) : 0;
    uint64_t now_ns = clock_now_ns();
    return age < now_ns ? now_ns - age : now_ns;
}

static struct service *service_of(struct monitor *monitor, uint32_t event)
{
    return registry_find(monitor->registry, span_str(event == MPIM_EVENT_TAGGED ? "thread_has_received_tagged_msg"
                                                                                : "message_queue_has_been_extended"));
}

/* In `told_by`'s thread something happened to the message `id`; `owner`: whose queue or thread it concerns. */
static void raise_now(struct mpi_process *told_by, struct mpi_process *owner, const struct mpim_raise *about,
                      const struct message_id *id)
{
    struct monitor *monitor = told_by->registry->agents->monitor;
    struct process *process = process_find(monitor, owner->agent->pid);
    struct message *message = process ? message_named(monitor, id) : NULL;
    struct message_queue *queue = process ? message_queue_of(process) : NULL;
    struct mpi_queued sent;
    char sender[TOKEN_TEXT_SIZE];
    if (!message || !queue)
        return;
    mpi_message_state(told_by->registry, id, &sent);
    bool tagged = about->event == MPIM_EVENT_TAGGED;
    mpi_message_sender(told_by->registry, id, tagged ? sent.tid : (pid_t)about->tid, sender);
    struct value outputs[OUT_MOST];
    size_t count = 0;
    if (!tagged)
        outputs[count++] = value_token(span_str(queue->object.token));
    outputs[count++] = value_token(span_str(message->object.token));
    outputs[count++] = value_token(span_str(sender));
    outputs[count++] = value_uint(about->bytes);
    outputs[count++] = value_int(tagged ? about->monitor_tag : sent.monitor_tag);
    struct event event = {.service = service_of(monitor, about->event),
                          .process = process,
                          .thread = process_thread(process, tagged ? (pid_t)about->tid : owner->agent->pid),
                          .object = tagged ? NULL : &queue->object,
                          .time_ns = time_of(told_by, about->time),
                          .outputs = outputs,
                          .output_count = count};
    if (tagged && event.thread)
        event.object = &event.thread->object;
    if (event.service)
        event_raise(monitor, &event);
}

static void handle(struct mpi_process *process, const struct mpim_raise *about)
{
    struct mpi_registry *registry = process->registry;
    uint64_t world = mpi_process_world(process);
    int32_t own = process->head->rank;
    struct message_id id = {.world = world, .comm = about->identity, .k = about->k, .tag = about->tag};
    if (about->event == MPIM_EVENT_TAGGED) {
        id.from = about->peer;
        id.to = own;
        raise_now(process, process, about, &id);
        return;
    }
    id.from = own;
    id.to = about->peer;
    struct mpi_process *owner = mpi_world_rank(registry, world, id.to);
    struct mpim *block = owner ? mpi_messages_of(owner) : NULL;
    if (!owner)
        return;
    if (block)
        atomic_store(&block->closed, 1);
    raise_now(process, owner, about, &id);
    if (block) {
        atomic_store(&block->closed, 0);
        wake(&block->closed);
    }
}

static void look_at_raises(struct mpi_process *process, struct mpim *block)
{
    struct mpi_messages *messages = process->messages;
    struct monitor *monitor = process->registry->agents->monitor;
    uint64_t raised = atomic_load(&block->raised);
    if (raised == messages->raised || messages->raising)
        return;
    messages->raised = raised;
    messages->raising++;
    monitor_enter(monitor);
    for (uint32_t i = 0; i < MPIM_RAISES; i++) {
        struct mpim_raise *raise = &block->raises[i];
        uint32_t state = atomic_load(&raise->state);
        if (state != MPIM_RAISE_POSTED && state != MPIM_RAISE_LATE)
            continue;
        const struct mpim_raise about = {.event = raise->event,
                                         .tid = raise->tid,
                                         .peer = raise->peer,
                                         .tag = raise->tag,
                                         .identity = raise->identity,
                                         .k = raise->k,
                                         .bytes = raise->bytes,
                                         .time = raise->time,
                                         .monitor_tag = raise->monitor_tag};
        handle(process, &about);
        atomic_store(&raise->state, MPIM_RAISE_FREE);
        wake(&raise->state);
    }
    monitor_leave(monitor);
    messages->raising--;
}

/* ---- watching ---- */

/* Which queues are watched, as one of the job's ranks has to know. */
static void watch_one(struct mpi_process *process, struct mpim *block)
{
    struct mpi_registry *registry = process->registry;
    uint64_t world = mpi_process_world(process);
    uint32_t count = 0;
    for (struct mpi_process *other = registry->list; other; other = other->next) {
        bool watched = !other->agent->ended && other->messages && other->messages->extended && other->head->rank >= 0 &&
                       mpi_process_world(other) == world;
        if (watched && count < MPIM_WATCHED)
            atomic_store(&block->watched[count], other->head->rank);
        count += watched;
    }
    atomic_store(&block->watched_count, count);
    uint32_t events = (process->messages->tagged ? MPIM_EVENT_TAGGED : 0u) | (count ? MPIM_EVENT_EXTENDED : 0u);
    atomic_store(&block->events, events);
}

void mpi_messages_adopt(struct mpi_process *process)
{
    struct mpim *block = mpi_messages_of(process);
    if (!block)
        return;
    atomic_store(&block->events, 0);
    atomic_store(&block->watched_count, 0);
    atomic_store(&block->closed, 0);
    wake(&block->closed);
    for (uint32_t i = 0; i < MPIM_RAISES; i++) {
        _Atomic uint32_t *state = &block->raises[i].state;
        uint32_t posted = MPIM_RAISE_POSTED, late = MPIM_RAISE_LATE;
        if (atomic_compare_exchange_strong(state, &posted, MPIM_RAISE_FREE) ||
            atomic_compare_exchange_strong(state, &late, MPIM_RAISE_FREE))
            wake(state);
    }
}

void mpi_message_watch_all(struct mpi_process *process)
{
    uint64_t world = mpi_process_world(process);
    for (struct mpi_process *other = process->registry->list; other; other = other->next) {
        struct err ignored = {.text = ""};
        if (other->agent->ended || mpi_process_world(other) != world || mpi_messages_want(other, &ignored) < 0)
            continue;
        watch_one(other, mpi_messages_of(other));
    }
}

void mpi_messages_report(struct mpi_process *process)
{
    if (!process->messages || process->messages->raising) /* nobody has asked for anything */
        return;
    struct mpim *block = mpi_messages_of(process);
    if (!block)
        return;
    if (!process->messages->known) { /* it has come just now */
        process->messages->known = true;
        watch_one(process, block);
    }
    mpi_message_commands_look(process, block);
    look_at_raises(process, block);
}

void mpi_messages_started(struct mpi_process *process)
{
    uint64_t world = mpi_process_world(process);
    for (struct mpi_process *other = process->registry->list; other; other = other->next)
        if (!other->agent->ended && other->messages && other->messages->extended && mpi_process_world(other) == world) {
            mpi_message_watch_all(process);
            return;
        }
}

int mpi_messages_watch(struct mpi_process *process, uint32_t event, int change, struct err *err)
{
    int code = mpi_messages_want(process, err);
    if (!process->messages)
        return code;
    if (event == MPIM_EVENT_TAGGED)
        process->messages->tagged += (unsigned)change;
    else
        process->messages->extended += (unsigned)change;
    mpi_message_watch_all(process);
    return 0; /* it is there as soon as the process is at its next call */
}
