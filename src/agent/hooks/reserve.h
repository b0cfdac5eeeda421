/* SPDX-License-Identifier: Apache-2.0 */
/* How a hook that interrupted nothing (GUARD_OUTER) reserves room in a packet. For record.c and mpi_short.c. */
#ifndef SCRY_AGENT_HOOKS_RESERVE_H
#define SCRY_AGENT_HOOKS_RESERVE_H

#include "agent/hooks/agent.h"

static inline bool cursor_move(_Atomic uint64_t *cursor, uint64_t from, uint64_t to)
{
    bool moved;
    __asm__ volatile("cmpxchgq %3, %1" : "=@ccz"(moved), "+m"(*cursor), "+a"(from) : "r"(to) : "memory");
    return moved;
}

/* Notes for recover.c, should we never come back. The place is noted last. Then records of handlers are noticed before
 * it is read again: one that they put there is not ours. false: one of them was there already. */
static inline bool hole_begin(struct agent_thread *self, uint32_t id, uint64_t cursor, size_t size, uint64_t last)
{
    struct area_thread *block = self->block;
    self->hole_at = 0;
    agent_signal_fence();
    self->hole_id = (id + 1) | HOLE_LONG;
    self->hole_size = size;
    self->hole_before = last;
    self->nested_cursor = UINT64_MAX;
    agent_signal_fence();
    atomic_store_explicit(&block->pending, cursor, memory_order_relaxed);
    agent_signal_fence();
    if (atomic_load_explicit(&block->cursor, memory_order_relaxed) != cursor)
        return false;
    agent_signal_fence();
    self->hole_at = cursor;
    agent_signal_fence();
    return true;
}

#endif
