/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a process that was killed: packets that a thread had just filled and not given away yet, or that one had taken to
 * overwrite, and not wiped yet. They are written with the full ones, those of a thread in the order of their numbers:
 * time goes on in a stream, and the number is what counts the packets of a thread, from its first to its last, whatever
 * monitor there is. The order of the full ones, which is that of all threads together, is only put beside it.
 */
#include "monitor/recorder/agents_internal.h"

static const struct packet_head *head_at(const struct area_view *view, uint32_t index)
{
    return (const void *)(view->base + view->packets_at + (uint64_t)index * view->packet_size);
}

/* Whether a thread was writing it: that comes last, as far as it was written. */
static bool is_current(const struct area_view *view, uint32_t index, uint32_t used)
{
    for (uint32_t i = 0; i < used; i++) {
        const struct area_thread *block = area_thread_at(view, i);
        if (atomic_load(&block->state) != AREA_THREAD_FREE && atomic_load(&block->packet) == index)
            return true;
    }
    return false;
}

/* The newest of its thread comes behind all. Others share the order of the full one that came before them, where their
 * number decides: who overwrites takes the oldest that it sees, but older ones may have become full meanwhile. */
static uint64_t order_of(const struct agent *agent, const struct packet_head *head, uint64_t *last)
{
    uint64_t before = 0;
    bool newest = true;
    for (uint32_t i = 0; i < agent->released; i++) {
        uint64_t word = atomic_load(&agent->view.states[i]), state = word & 0xff;
        if (state != AREA_PACKET_FULL && state != AREA_PACKET_TAKEN)
            continue;
        const struct packet_head *other = head_at(&agent->view, i);
        if (other->thread_serial != head->thread_serial)
            continue;
        if (other->packet_seq > head->packet_seq)
            newest = false;
        else if (state == AREA_PACKET_FULL && word >> 8 > before)
            before = word >> 8;
    }
    return newest ? ++*last : before;
}

void collect_orphans(struct agent *agent, uint32_t used)
{
    const struct area_view *view = &agent->view;
    uint64_t last = atomic_load(&view->area->packet_order);
    for (uint32_t i = 0; i < agent->released; i++) {
        const struct packet_head *head = head_at(view, i);
        if ((atomic_load(&view->states[i]) & 0xff) == AREA_PACKET_TAKEN && head->magic == PACKET_MAGIC &&
            head->content_size / 8 > sizeof *head && !is_current(view, i, used))
            atomic_store(&view->states[i], order_of(agent, head, &last) << 8 | AREA_PACKET_FULL);
    }
}
