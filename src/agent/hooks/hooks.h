/* SPDX-License-Identifier: Apache-2.0 */
/* What the long ways of entries (enter.c) and exits (leave.c) have in common. */
#ifndef SCRY_AGENT_HOOKS_HOOKS_H
#define SCRY_AGENT_HOOKS_HOOKS_H

#include "agent/safety/act.h"
#include "agent/hooks/agent.h"

static inline bool in_stack(const struct agent_thread *self, uint64_t sp)
{
    return sp - self->stack_low < self->size;
}

/* ---- hooks.c: the long way, and which functions ---- */

/* A hook of these registers begins and ends; what it interrupted goes on with those of before. */
const struct capture_frame *way_begin(const struct capture_frame *frame);
void way_end(const struct capture_frame *outer);

/* The slot of a function and what is to be done; NULL: nothing is. */
struct area_slot *hook_slot(struct area *area, uint64_t function, uint32_t *ret_mode);

static inline uint32_t slot_index(const struct area_slot *slot)
{
    return (uint32_t)(slot - agent_hot.slots);
}

enum rate { RATE_PASS, RATE_THINNED, RATE_FIRST_THINNED };

enum rate hook_rate(struct area *area, struct area_slot *slot);

/* ---- hook_values.c: what they are called with ---- */

struct values {
    uint32_t layout;
    uint16_t size;
    uint8_t bytes[RECORD_VALUES_LIMIT];
} __attribute__((packed));
_Static_assert(2 * sizeof(struct values) <= AGENT_SCRATCH, "scratch holds the values of an entry");

/* One of the thread's buffers; NULL where signal handlers have both. */
static inline struct values *scratch_get(struct agent_thread *self)
{
    if (self->scratch_used >= 2 || !stack_room(&self->store->scratch, 2 * AGENT_SCRATCH))
        return NULL;
    return (struct values *)(void *)(self->store->scratch.at + AGENT_SCRATCH * self->scratch_used++);
}

static inline void scratch_put(struct agent_thread *self)
{
    self->scratch_used--;
}

static inline size_t values_size(const struct values *values)
{
    return offsetof(struct values, bytes) + values->size;
}

/* Values are being read. */
struct reading {
    unsigned how;
    uint64_t since; /* 0: not measured */
};

/* ---- enter.c, leave.c ---- */

/* Whether the call's end is awaited. */
bool hook_enter(uint64_t function, uint64_t callsite, struct capture_frame *registers, uint32_t full);
/* Whether it was known. */
bool hook_leave(uint64_t function, uint64_t callsite, struct capture_frame *registers, uint32_t full);

/* Does the list of actions. */
static inline void hook_act(struct agent_thread *self, uint32_t list, struct agent_call *call,
                            struct capture_frame *registers)
{
    unsigned needs = agent_act_needs(list, call->site_entry, call->values);
    if (registers && (needs & AGENT_ACT_XMM) && !registers->has_xmm)
        agent_save_xmm(registers);
    call->frame = registers;
    agent_act(self->block, list, call);
}

#endif
