/* SPDX-License-Identifier: Apache-2.0 */
/* Exits that take the long way. See agent.h. */
#include "agent/hooks/hooks.h"
#include "agent/safety/moves.h"

struct exit_call {
    struct agent_thread *self;
    enum guard guard;
    uint64_t site;
    struct capture_frame *registers;
    bool kept;                /* as in struct entry */
    struct agent_frame frame; /* a copy: it is off the stack when actions run */
    uint32_t mode;
    uint64_t time;
    bool tail; /* the hook was jumped to: its return address is the caller's, the frame is gone */
};

struct exit_head {
    uint32_t function;
    uint64_t entry_time;
} __attribute__((packed));

/* Its exit record; 0: no room. */
static uint64_t exit_put(struct exit_call *x)
{
    struct agent_thread *self = x->self;
    struct exit_head head = {x->frame.slot, x->frame.time};
    bool says = x->registers && (!x->registers->has_result || x->registers->result);
    const struct area_site *site =
        (x->mode & AREA_VALUES) && says && !x->tail ? area_site_find(&agent_hot.view, x->site, false) : NULL;
    struct values *values = site ? scratch_get(self) : NULL;
    if (values) {
        struct reading reading = reading_begin(self);
        bool have = hook_values(site, x->registers, x->kept, values);
        reading_end(self, reading);
        uint64_t time = have ? record_put(self, x->guard, RECORD_EXIT_VALUES, x->time, &head, sizeof head, values,
                                          values_size(values))
                             : 0;
        scratch_put(self);
        if (have)
            return time;
    }
    /* EXIT says nothing of its function: the entry has to be in the packet that it gets into */
    if (x->frame.packet_seq == self->packet_seq) {
        uint64_t time = record_try(self, x->guard, RECORD_EXIT, x->time, NULL, 0, NULL, 0);
        if (time)
            return time;
    }
    return record_put(self, x->guard, RECORD_EXIT_OF, x->time, &head, sizeof head, NULL, 0);
}

static void exit_record(struct exit_call *x, struct agent_frame *frame, uint32_t index)
{
    struct agent_thread *self = x->self;
    if (frame->flags & FRAME_WAITING) {
        uint64_t limit = atomic_load_explicit(&agent_hot.area->min_ticks, memory_order_relaxed);
        x->time = agent_ticks();
        if (x->time - frame->time >= limit && x->guard == GUARD_OUTER) {
            hooks_flush_waiting(self, x->guard);
            x->frame = *frame;
            x->time = 0;
        }
    }
    if (frame->flags & FRAME_RECORDED) {
        uint64_t time = exit_put(x);
        if (!time)
            ending_begin(self, x->guard, index, 1);
        frame->flags = 0; /* should a signal's handler leave us here for good, it is not reported twice */
        if (!time)
            ending_lost(self, x->guard);
        else
            x->time = time;
    } else if (frame->flags & FRAME_DROPPED) {
        record_discarded(self, frame->flags & FRAME_WAITED);
        frame->flags &= ~(uint32_t)(FRAME_DROPPED | FRAME_WAITED);
    }
    if (!x->time)
        x->time = agent_ticks();
}

static void exit_pop(struct exit_call *x, struct agent_frame *frame, uint32_t index)
{
    struct agent_thread *self = x->self;
    uint32_t flags = x->frame.flags;
    if (flags & FRAME_WAITING) {
        self->waiting--;
        if (frame->values_at)
            self->values_used = (uint32_t)frame->values_at - 1;
    } else if (!(flags & FRAME_RECORDED) && self->plain) {
        self->plain--;
    }
    if (flags & FRAME_COUNT)
        atomic_fetch_add_explicit(&agent_hot.slots[frame->slot].ticks, x->time - frame->time, memory_order_relaxed);
    agent_signal_fence();
    atomic_store_explicit(&self->block->depth, index, memory_order_relaxed);
    if (!index)
        self->plain = self->waiting = self->values_used = 0;
}

static void exit_act(struct exit_call *x, uint64_t sp, uint32_t depth)
{
    struct area_slot *slot = &agent_hot.slots[x->frame.slot];
    uint32_t list = atomic_load_explicit(&slot->exit_list, memory_order_acquire);
    if (!list)
        return;
    struct agent_call call = {
        .site_entry = x->tail ? NULL : area_site_find(&agent_hot.view, x->site, false),
        .site = x->site,
        .callsite = x->frame.callsite,
        .sp = sp,
        .time = x->time,
        .entry_time = x->frame.time,
        .slot = x->frame.slot,
        .depth = depth,
        .exit = true,
        .values = (x->mode & AREA_VALUES) != 0,
    };
    hook_act(x->self, list, &call, x->kept ? NULL : x->registers);
}

/* The other half of entry_drop. */
static void exit_drop(struct agent_thread *self, uint64_t function)
{
    const struct area_slot *slot = area_slot_find(&agent_hot.view, function, false);
    if (slot && (atomic_load_explicit(&slot->mode, memory_order_relaxed) & AREA_RECORD) &&
        atomic_load_explicit(&agent_hot.area->on, memory_order_relaxed) && !self->off)
        agent_add_local(&self->block->discarded, 1);
}

void hook_leave(uint64_t function, uint64_t callsite, struct capture_frame *registers, uint32_t full)
{
    struct agent_thread *self = &agent_self;
    if (!agent_hot.area) {
        fork_noticed();
        return;
    }
    if (!self->block)
        return;
    uint64_t sp = registers->gpr[7];
    struct exit_call x = {
        .self = self,
        .site = registers->gpr[16],
        .registers = full ? registers : NULL,
        .kept = full == 2,
        .tail = registers->gpr[16] == callsite,
    };
    x.guard = thread_guard(self, sp - 8);
    if (x.guard == GUARD_STUCK) {
        exit_drop(self, function);
        return;
    }
    if (!in_stack(self, sp) && (x.guard > GUARD_OUTER || !stack_switch(self, x.guard, sp, false))) {
        if (x.guard > GUARD_OUTER)
            exit_drop(self, function);
        thread_unguard(self, x.guard);
        return;
    }
    uint32_t index;
    bool found = stack_find_exit(self, function, callsite, x.site, sp, registers->gpr[6], &index);
    stack_unwind(self, x.guard, found ? index + 1 : index);
    if (!found) {
        thread_unguard(self, x.guard);
        return;
    }
    struct agent_frame *frame = &self->frames[index];
    frame_begin(self, x.guard, frame, true);
    x.frame = *frame;
    x.mode = atomic_load_explicit(&agent_hot.slots[frame->slot].mode, memory_order_relaxed);
    if (x.mode == MODE_VALUES && !x.tail && !registers->has_result)
        agent_moves_learn(&agent_hot.view, x.site);
    exit_record(&x, frame, index);
    exit_pop(&x, frame, index);
    thread_unguard(self, x.guard);
    if ((x.mode & AREA_ACT_EXIT) && atomic_load_explicit(&agent_hot.area->on, memory_order_relaxed))
        exit_act(&x, sp, index + 1);
}
