/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that have handed an event over and wait: their events are told, and they are let go on. */
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "monitor/recorder/agents_internal.h"

/* A copy of what a thread handed over. false: we were stopped over it, and the thread has let itself go; it may be
 * about to hand over its next event. */
static bool copy_raise(const struct area_thread *thread, struct area_raise *ret_raise)
{
    const volatile uint64_t *time = &thread->raise.time;
    uint64_t before = *time;
    atomic_thread_fence(memory_order_acquire);
    memcpy(ret_raise, &thread->raise, sizeof *ret_raise);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&thread->raise.hold) == AREA_HOLD_POSTED && *time == before;
}

/* false: it is of no slot that there is. */
static bool bring_within_limits(const struct agent *agent, struct area_raise *raise)
{
    if (raise->values_size > AREA_RAISE_VALUES)
        raise->values_size = 0;
    if (raise->param_count > CODE_PARAMS)
        raise->param_count = CODE_PARAMS;
    return raise->slot <= agent->view.slot_mask;
}

void agent_release(struct agent *agent, struct area_thread *thread)
{
    size_t index = (size_t)((uint8_t *)thread - agent->view.threads) / AREA_THREAD_SIZE;
    uint32_t posted = AREA_HOLD_POSTED;
    agent->held[index / 64] &= ~(UINT64_C(1) << (index & 63));
    if (!atomic_compare_exchange_strong(&thread->raise.hold, &posted, AREA_HOLD_RELEASED))
        return; /* it went on by itself */
    syscall(SYS_futex, &thread->raise.hold, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The next thread that waits, from a number on, which is that thread's then; NULL: there is none. */
static struct area_thread *next_held(const struct area_view *view, uint32_t *at)
{
    for (; *at < view->thread_count; ++*at) {
        struct area_thread *thread = area_thread_at(view, *at);
        if (atomic_load(&thread->state) == AREA_THREAD_FREE && !thread->serial)
            break; /* from here on never used */
        if (atomic_load_explicit(&thread->raise.hold, memory_order_acquire) == AREA_HOLD_POSTED)
            return thread;
    }
    return NULL;
}

void agent_release_kept(struct agents *agents, pid_t pid, struct area_thread *thread, uint64_t time)
{
    struct agent *agent = agents_find(agents, pid);
    const uint8_t *block = (const uint8_t *)thread;
    if (!agent || agent->ended || !agent->view.area || block < agent->view.threads ||
        block >= agent->view.threads + (size_t)agent->view.thread_count * AREA_THREAD_SIZE ||
        thread->raise.time != time)
        return; /* another program, or another event */
    agent_release(agent, thread);
}

void agent_raises(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    struct agents *agents = agent->agents;
    struct area_thread *thread;
    if (agent->ended || !view->area)
        return;
    for (uint32_t i = 0; !agent->ended && (thread = next_held(view, &i)); i++) {
        struct agent_event event = {.agent = agent, .thread = thread};
        if (agent->held[i / 64] >> (i & 63) & 1 || !copy_raise(thread, &event.raise))
            continue; /* told already: who handles it has it until the release */
        agent->held[i / 64] |= UINT64_C(1) << (i & 63);
        if (bring_within_limits(agent, &event.raise) && agents->on_event)
            agents->on_event(agents->event_ctx, &event);
        else
            agent_release(agent, thread);
    }
}

void agent_demands_adopt(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    struct area_thread *thread;
    for (uint32_t i = 0; i <= view->slot_mask; i++) {
        struct area_slot *slot = &view->slots[i];
        if (!atomic_load_explicit(&slot->enter_list, memory_order_relaxed) &&
            !atomic_load_explicit(&slot->exit_list, memory_order_relaxed))
            continue;
        atomic_store(&slot->enter_list, 0);
        atomic_store(&slot->exit_list, 0);
        atomic_fetch_and(&slot->mode, ~(uint32_t)(AREA_ACT_ENTER | AREA_ACT_EXIT));
    }
    for (uint32_t i = 0; (thread = next_held(view, &i)); i++) /* they rang for the other one; from now on for us */
        agent_release(agent, thread);
}
