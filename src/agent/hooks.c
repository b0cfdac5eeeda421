/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are more than a plain record: values, counts, rates, limits, actions, other stacks, functions and threads
 * seen for the first time. See agent.h.
 */
#include "agent/act.h"
#include "agent/agent.h"
#include "agent/moves.h"
#include "agent/read.h"
#include "agent/values.h"

#define SAME(constant, type, member) _Static_assert((constant) == offsetof(struct type, member), #type "." #member)
SAME(HOT_AREA, agent_hot, area);
SAME(HOT_SLOTS, agent_hot, slots);
SAME(HOT_SLOT_MASK, agent_hot, slot_mask);
SAME(SELF_BLOCK, agent_thread, block);
SAME(SELF_STACK_LOW, agent_thread, stack_low);
SAME(SELF_STACK_SIZE, agent_thread, stack_size);
SAME(SELF_FRAMES, agent_thread, frames);
SAME(SELF_PACKET_SEQ, agent_thread, packet_seq);
SAME(SELF_WRITER, agent_thread, writer);
SAME(SELF_FRAME_LIMIT, agent_thread, frame_limit);
SAME(SELF_LEAVING, agent_thread, leaving);
SAME(SELF_PLAIN, agent_thread, plain);
SAME(SELF_HOLE_ID, agent_thread, hole_id);
SAME(FRAME_FUNCTION, agent_frame, function);
SAME(FRAME_CALLSITE, agent_frame, callsite);
SAME(FRAME_SITE, agent_frame, site);
SAME(FRAME_SP, agent_frame, sp);
SAME(FRAME_TIME, agent_frame, time);
SAME(FRAME_SLOT, agent_frame, slot);
SAME(FRAME_FLAGS, agent_frame, flags);
SAME(FRAME_PACKET_SEQ, agent_frame, packet_seq);
_Static_assert(FRAME_SIZE == sizeof(struct agent_frame), "agent_frame");
SAME(SLOT_MODE, area_slot, mode);
SAME(SLOT_CALLS, area_slot, calls);
SAME(SLOT_TICKS, area_slot, ticks);
_Static_assert(1 << SLOT_SHIFT == sizeof(struct area_slot), "area_slot");
SAME(AREA_ON, area, on);
SAME(AREA_MAX_DEPTH, area, max_depth);
SAME(AREA_MIN_TICKS, area, min_ticks);
SAME(BLOCK_CURSOR, area_thread, cursor);
SAME(BLOCK_PENDING, area_thread, pending);
SAME(BLOCK_END, area_thread, end);
SAME(BLOCK_LAST_TIME, area_thread, last_time);
SAME(BLOCK_DEPTH, area_thread, depth);
SAME(REGS_XMM, capture_frame, xmm);
SAME(REGS_HAS_XMM, capture_frame, has_xmm);
SAME(REGS_RESULT, capture_frame, result);
SAME(REGS_HAS_RESULT, capture_frame, has_result);
SAME(SITE_VALUES, area_site, values);
SAME(MOVES_ADDRESS, agent_moves, address);
SAME(MOVES_SITE, agent_moves, site);
SAME(MOVES_SITE_ADDRESS, agent_moves, site_address);
SAME(MOVES_WORD, agent_moves, word);
SAME(MOVES_RBP_BIAS, agent_moves, rbp_bias);
SAME(MOVES_RBP_LIMIT, agent_moves, rbp_limit);
SAME(MOVES_LAYOUT, agent_moves, layout);
SAME(MOVES_SIZE, agent_moves, size);
SAME(MOVES_TOTAL, agent_moves, total);
SAME(MOVES_KIND, agent_moves, kind);
SAME(MOVES_COUNT, agent_moves, count);
SAME(MOVES_REGISTERS, agent_moves, registers);
SAME(MOVES_TEMPLATE, agent_moves, template);
SAME(MOVES_LIST, agent_moves, moves);
_Static_assert(sizeof(struct agent_move) == 8 && offsetof(struct agent_move, size) == 1 &&
                   offsetof(struct agent_move, off) == 4 && offsetof(struct area_site, address) == 0 &&
                   MOVES_KIND_NONE == MOVES_NONE && MOVES_KIND_SHORT == MOVES_SHORT && MOVES_TABLE == 65536,
               "moves");
_Static_assert(MODE_COUNT == AREA_COUNT && MODE_VALUES == (AREA_RECORD | AREA_VALUES) && MODE_ACT == AREA_ACT_ENTER &&
                   MODE_EXITS == (AREA_COUNT | AREA_RECORD | AREA_ACT_EXIT) && FLAG_COUNT == FRAME_COUNT &&
                   ID_ENTRY_VALUES == RECORD_ENTRY_VALUES && ID_EXIT_VALUES == RECORD_EXIT_VALUES,
               "constants");
_Static_assert(REGS_SIZE == sizeof(struct capture_frame), "capture_frame");
_Static_assert(MODE_RECORD == AREA_RECORD && FLAG_RECORDED == FRAME_RECORDED && FILTER_ENTER == AREA_ENTER &&
                   FILTER_EXIT == AREA_EXIT && ID_EXIT == RECORD_EXIT && RECORD_ENTRY == 0 &&
                   TIME_BITS == RECORD_TIME_BITS,
               "constants");

enum { STUCK_LIMIT = 4096 };

static bool in_stack(const struct agent_thread *self, uint64_t sp)
{
    return sp - self->stack_low < self->size;
}

enum guard thread_guard(struct agent_thread *self, uint64_t rsp)
{
    struct area_thread *block = self->block;
    uint64_t cursor = atomic_load_explicit(&block->cursor, memory_order_relaxed);
    if (atomic_load_explicit(&block->pending, memory_order_relaxed)) {
        /* A hook was interrupted; if it lies on this stack below us, it was left for good. */
        bool here = in_stack(self, rsp), there = in_stack(self, self->writer);
        if (here && there && rsp < self->writer)
            return GUARD_NESTED;
        if (!here && ++self->stuck < STUCK_LIMIT)
            return GUARD_STUCK;
        if (!here && there && stack_is_alternate(rsp)) { /* a long handler: the hook goes on after it */
            self->stuck = 0;
            return GUARD_STUCK;
        }
        record_recover(self);
        cursor = atomic_load_explicit(&block->cursor, memory_order_relaxed);
    }
    self->stuck = 0;
    /* in this order: a handler in between takes us for dead, at worst, when there is nothing yet to set right */
    atomic_store_explicit(&block->pending, cursor ? cursor : 1, memory_order_relaxed);
    agent_signal_fence();
    self->writer = rsp;
    agent_signal_fence();
    return GUARD_OUTER;
}

/* ---- slots ---- */

static bool in_ranges(const struct area *area, uint64_t function)
{
    uint32_t count = atomic_load_explicit(&area->range_count, memory_order_relaxed);
    if (!count)
        return true;
    for (uint32_t i = 0; i < count && i < AREA_RANGES; i++)
        if (function >= atomic_load_explicit(&area->ranges[i][0], memory_order_relaxed) &&
            function < atomic_load_explicit(&area->ranges[i][1], memory_order_relaxed))
            return true;
    return false;
}

/* A function without a slot gets one if the monitor wants to hear of such. Another thread that comes for it at the same
 * time waits for the mode, but not long: it may be a signal handler of the very thread that is at it. */
static struct area_slot *slot_new(struct area *area, uint64_t function)
{
    uint32_t mode = atomic_load_explicit(&area->unknown_mode, memory_order_relaxed);
    if (!mode || !in_ranges(area, function))
        return NULL;
    atomic_fetch_add(&agent_hot.inserting, 1);
    struct area_slot *slot = area_slot_find(&agent_hot.view, function, true);
    if (slot) {
        uint32_t none = 0;
        atomic_compare_exchange_strong(&slot->mode, &none, mode);
    } else {
        atomic_fetch_add_explicit(&area->functions_omitted, 1, memory_order_relaxed);
    }
    atomic_fetch_sub(&agent_hot.inserting, 1);
    return slot;
}

static struct area_slot *slot_of(struct area *area, uint64_t function, uint32_t *ret_mode)
{
    struct area_slot *slot = area_slot_find(&agent_hot.view, function, false);
    if (!slot && !(slot = slot_new(area, function)))
        return NULL;
    *ret_mode = atomic_load_explicit(&slot->mode, memory_order_relaxed);
    for (unsigned spins = 0; !*ret_mode && spins < 1000 && atomic_load(&agent_hot.inserting); spins++) {
        __builtin_ia32_pause();
        *ret_mode = atomic_load_explicit(&slot->mode, memory_order_relaxed);
    }
    if (!*ret_mode)
        *ret_mode = atomic_load_explicit(&slot->mode, memory_order_acquire);
    return slot;
}

static uint32_t slot_index(const struct area_slot *slot)
{
    return (uint32_t)(slot - agent_hot.slots);
}

/* ---- rates ---- */

#define RATE_TOLD UINT32_C(0x80000000)

enum rate { RATE_PASS, RATE_THINNED, RATE_FIRST_THINNED };

static enum rate rate_take(struct area *area, struct area_slot *slot)
{
    uint64_t second_ticks = atomic_load_explicit(&area->ticks_per_second, memory_order_relaxed);
    uint64_t second = second_ticks ? agent_ticks() / second_ticks : 0;
    uint64_t was = atomic_load_explicit(&slot->rate_second, memory_order_relaxed);
    if (was != second && atomic_compare_exchange_strong(&slot->rate_second, &was, second))
        atomic_store(&slot->rate_left, atomic_load_explicit(&area->rate, memory_order_relaxed) & ~RATE_TOLD);
    uint32_t left = atomic_load_explicit(&slot->rate_left, memory_order_relaxed);
    for (;;) {
        uint32_t next = left == RATE_TOLD ? left : left ? left - 1 : RATE_TOLD;
        if (next == left || atomic_compare_exchange_weak(&slot->rate_left, &left, next)) {
            if (next != RATE_TOLD)
                return RATE_PASS;
            atomic_fetch_add_explicit(&slot->thinned, 1, memory_order_relaxed);
            return next == left ? RATE_THINNED : RATE_FIRST_THINNED;
        }
    }
}

/* ---- values ---- */

struct values {
    uint32_t layout;
    uint16_t size;
    uint8_t bytes[RECORD_VALUES_LIMIT];
} __attribute__((packed));
_Static_assert(sizeof(struct values) <= AGENT_SCRATCH, "scratch holds the values of a record");

/* One of the thread's buffers; NULL where signal handlers have both. */
static struct values *scratch_get(struct agent_thread *self)
{
    if (self->scratch_used >= 2)
        return NULL;
    return (struct values *)(void *)self->store->scratch[self->scratch_used++];
}

static void scratch_put(struct agent_thread *self)
{
    self->scratch_used--;
}

static size_t values_size(const struct values *values)
{
    return offsetof(struct values, bytes) + values->size;
}

/* A program and its layout are changed together, as one word. */
struct site_values {
    uint32_t program, layout;
};
_Static_assert(offsetof(struct area_site, layout) == offsetof(struct area_site, values) + 4 &&
                   offsetof(struct area_site, values) % 8 == 0,
               "one word");

static struct site_values site_values(const struct area_site *site)
{
    uint64_t word = __atomic_load_n((const uint64_t *)(const void *)&site->values, __ATOMIC_ACQUIRE);
    return (struct site_values){(uint32_t)word, (uint32_t)(word >> 32)};
}

static void with_xmm(struct capture_frame *frame, uint32_t program)
{
    if (!frame->has_xmm && agent_values_wants_xmm(&agent_hot.view, program))
        agent_save_xmm(frame);
}

/* kept: only the registers that calls keep are as the hook found them. */
static bool values_at_site(const struct area_site *site, struct capture_frame *frame, bool kept, struct values *out)
{
    struct site_values what = site_values(site);
    uint32_t program = what.program;
    if (!program)
        return false;
    if (kept && !(agent_program_flags(&agent_hot.view, program, AGENT_PROGRAM_CAPTURE) & AGENT_PROGRAM_KEPT))
        return false;
    with_xmm(frame, program);
    size_t size = agent_values_capture(&agent_hot.view, program, frame, out->bytes, sizeof out->bytes);
    if (!size || size > sizeof out->bytes)
        return false;
    out->layout = what.layout;
    out->size = (uint16_t)size;
    return true;
}

static bool values_of_caller(const struct area_site *site, uint64_t callsite, struct capture_frame *frame,
                             struct values *out)
{
    uint32_t unwind = atomic_load_explicit(&site->unwind, memory_order_acquire);
    const struct area_site *call = unwind ? area_site_find(&agent_hot.view, callsite, false) : NULL;
    struct site_values what = call ? site_values(call) : (struct site_values){0, 0};
    uint32_t program = what.program;
    if (!program)
        return false;
    size_t size = agent_values_caller(&agent_hot.view, unwind, program, frame, out->bytes, sizeof out->bytes);
    if (!size || size > sizeof out->bytes)
        return false;
    out->layout = what.layout;
    out->size = (uint16_t)size;
    return true;
}

/* ---- entries ---- */

struct entry {
    struct agent_thread *self;
    enum guard guard;
    uint64_t function, callsite, site, sp;
    struct capture_frame *registers; /* NULL: not as found */
    bool kept;                       /* but for those that calls keep */
    struct area *area;
    struct area_slot *slot;
    uint32_t mode;
    struct agent_frame *frame;
};

static void sum_faults(struct agent_thread *self)
{
    atomic_store_explicit(&self->block->faults, agent_read_faults(), memory_order_relaxed);
}

/* Writes the entry with the values that belong to it. */
static bool entry_with_values(struct entry *e)
{
    struct agent_thread *self = e->self;
    uint32_t function = e->frame->slot;
    const struct area_site *site = area_site_find(&agent_hot.view, e->site, false);
    struct values *values = site ? scratch_get(self) : NULL;
    uint64_t time = 0;
    if (values) {
        unsigned reading = agent_read_begin();
        if ((e->mode & AREA_CALLER) && !e->kept && values_of_caller(site, e->callsite, e->registers, values))
            record_put(self, e->guard, RECORD_CALLER_VALUES, 0, values, values_size(values), NULL, 0);
        if ((e->mode & AREA_VALUES) && values_at_site(site, e->registers, e->kept, values))
            time = record_put(self, e->guard, RECORD_ENTRY_VALUES, 0, &function, sizeof function, values,
                              values_size(values));
        else
            time = record_put(self, e->guard, RECORD_ENTRY, 0, &function, sizeof function, NULL, 0);
        agent_read_end(reading);
        sum_faults(self);
        scratch_put(self);
    } else {
        time = record_put(self, e->guard, RECORD_ENTRY, 0, &function, sizeof function, NULL, 0);
    }
    e->frame->time = time;
    return time != 0;
}

/* Values that wait with their entry, in the order of the frames: `caller` first. */
struct waiting {
    uint32_t total;       /* of both and this */
    uint32_t caller, own; /* bytes of struct values that follow; 0: none */
};

static void entry_keep_values(struct entry *e)
{
    struct agent_thread *self = e->self;
    const struct area_site *site = area_site_find(&agent_hot.view, e->site, false);
    uint32_t at = (self->values_used + 7) & ~7u;
    if (!site || AGENT_WAITING - at < sizeof(struct waiting) + 2 * sizeof(struct values))
        return;
    struct waiting *waiting = (struct waiting *)(void *)(self->store->waiting + at);
    struct values *caller = (struct values *)(void *)(waiting + 1);
    unsigned reading = agent_read_begin();
    *waiting = (struct waiting){.total = sizeof *waiting};
    /* a signal handler in between keeps off what is being written */
    self->values_used = at + (uint32_t)(sizeof *waiting + 2 * sizeof(struct values));
    agent_signal_fence();
    if ((e->mode & AREA_CALLER) && !e->kept && values_of_caller(site, e->callsite, e->registers, caller))
        waiting->caller = (uint32_t)values_size(caller);
    struct values *own = (struct values *)(void *)((uint8_t *)caller + waiting->caller);
    if ((e->mode & AREA_VALUES) && values_at_site(site, e->registers, e->kept, own))
        waiting->own = (uint32_t)values_size(own);
    agent_read_end(reading);
    sum_faults(self);
    waiting->total += waiting->caller + waiting->own;
    e->frame->values_at = at + 1;
    agent_signal_fence();
    self->values_used = at + waiting->total;
}

/* Writes the entry of a call that turned out to be worth it. */
static bool waiting_flush_one(struct agent_thread *self, enum guard guard, struct agent_frame *frame)
{
    uint32_t function = frame->slot;
    uint64_t time = 0;
    bool tried = false; /* and counted, if there was no room */
    if (frame->values_at) {
        struct waiting *waiting = (struct waiting *)(void *)(self->store->waiting + frame->values_at - 1);
        const uint8_t *bytes = (const uint8_t *)(waiting + 1);
        if (waiting->caller)
            record_put(self, guard, RECORD_CALLER_VALUES, frame->time, bytes, waiting->caller, NULL, 0);
        if (waiting->own && guard == GUARD_OUTER)
            time = record_put(self, guard, RECORD_ENTRY_VALUES, frame->time, &function, sizeof function,
                              bytes + waiting->caller, waiting->own);
        tried = waiting->own && guard == GUARD_OUTER;
    }
    if (!tried)
        time = record_put(self, guard, RECORD_ENTRY, frame->time, &function, sizeof function, NULL, 0);
    frame->flags &= ~(uint32_t)FRAME_WAITING;
    self->waiting--;
    if (time) {
        frame->packet_seq = self->packet_seq;
        frame->flags |= FRAME_RECORDED;
    } else {
        self->plain++;
        frame->flags |= FRAME_DROPPED;
    }
    return time != 0;
}

void hooks_flush_waiting(struct agent_thread *self, enum guard guard)
{
    uint32_t depth = atomic_load_explicit(&self->block->depth, memory_order_relaxed), from = depth;
    uint32_t left = self->waiting;
    while (from && left)
        left -= (self->frames[--from].flags & FRAME_WAITING) != 0;
    for (uint32_t i = from; i < depth; i++)
        if (self->frames[i].flags & FRAME_WAITING)
            waiting_flush_one(self, guard, &self->frames[i]);
    self->waiting = 0;
    self->values_used = 0;
}

static bool entry_wanted(struct entry *e)
{
    struct area *area = e->area;
    if (!(e->mode & AREA_RECORD))
        return false;
    uint32_t limit = atomic_load_explicit(&area->max_depth, memory_order_relaxed);
    uint32_t depth = atomic_load_explicit(&e->self->block->depth, memory_order_relaxed);
    if (limit && depth - e->self->plain >= limit)
        return false;
    if (!(e->mode & AREA_RATED))
        return true;
    enum rate rate = rate_take(area, e->slot);
    if (rate == RATE_FIRST_THINNED) {
        uint32_t function = slot_index(e->slot);
        if (e->guard == GUARD_OUTER && e->self->waiting)
            hooks_flush_waiting(e->self, e->guard);
        record_put(e->self, e->guard, RECORD_THINNED, 0, &function, sizeof function, NULL, 0);
    }
    return rate == RATE_PASS;
}

/* Puts the frame on the shadow stack; `sp` before and after, as in hooks_x86_64.S. */
static void entry_push(struct entry *e)
{
    struct area_thread *block = e->self->block;
    uint32_t depth = atomic_load_explicit(&block->depth, memory_order_relaxed);
    struct agent_frame *frame = &e->self->frames[depth];
    frame->flags = 0;
    frame->sp = e->sp;
    agent_signal_fence();
    e->self->plain++; /* until it is recorded */
    atomic_store_explicit(&block->depth, depth + 1, memory_order_relaxed);
    agent_signal_fence();
    /* one by one: a frame whose sp is 0 for a moment would be dead to a signal's handler */
    frame->sp = e->sp;
    frame->function = e->function;
    frame->callsite = e->callsite;
    frame->site = e->site;
    frame->time = 0;
    frame->slot = slot_index(e->slot);
    frame->packet_seq = e->self->packet_seq;
    frame->values_at = 0;
    e->frame = frame;
}

static void entry_record(struct entry *e, bool wanted)
{
    struct agent_thread *self = e->self;
    struct agent_frame *frame = e->frame;
    uint32_t flags = 0;
    if (wanted && atomic_load_explicit(&e->area->min_ticks, memory_order_relaxed) && e->guard == GUARD_OUTER) {
        if (e->registers && (e->mode & (AREA_VALUES | AREA_CALLER)))
            entry_keep_values(e);
        flags = FRAME_WAITING;
        frame->time = agent_ticks();
    } else if (wanted) {
        if (self->waiting && e->guard == GUARD_OUTER)
            hooks_flush_waiting(self, e->guard);
        bool done;
        if (e->registers && (e->mode & (AREA_VALUES | AREA_CALLER))) {
            done = entry_with_values(e);
        } else {
            frame->time = record_put(self, e->guard, RECORD_ENTRY, 0, &frame->slot, sizeof frame->slot, NULL, 0);
            done = frame->time != 0;
        }
        flags = done ? FRAME_RECORDED : FRAME_DROPPED;
    }
    if (!frame->time)
        frame->time = agent_ticks();
    if (e->mode & AREA_COUNT) {
        flags |= FRAME_COUNT;
        atomic_fetch_add_explicit(&e->slot->calls, 1, memory_order_relaxed);
    }
    frame->packet_seq = self->packet_seq;
    if (flags & FRAME_WAITING)
        self->waiting++;
    if (flags & (FRAME_WAITING | FRAME_RECORDED))
        self->plain--;
    frame->flags = flags;
}

static void act(struct agent_thread *self, uint32_t list, struct agent_call *call, struct capture_frame *registers)
{
    unsigned needs = agent_act_needs(list, call->site_entry, call->values);
    if (registers && (needs & AGENT_ACT_XMM) && !registers->has_xmm)
        agent_save_xmm(registers);
    call->frame = registers;
    agent_act(self->block, list, call);
}

static void entry_act(struct entry *e)
{
    uint32_t list = atomic_load_explicit(&e->slot->enter_list, memory_order_acquire);
    if (!list)
        return;
    struct agent_call call = {
        .site_entry = area_site_find(&agent_hot.view, e->site, false),
        .site = e->site,
        .callsite = e->callsite,
        .sp = e->sp,
        .time = agent_ticks(),
        .entry_time = e->frame ? e->frame->time : 0,
        .slot = slot_index(e->slot),
        .depth = atomic_load_explicit(&e->self->block->depth, memory_order_relaxed),
        .values = (e->mode & AREA_VALUES) != 0,
    };
    act(e->self, list, &call, e->kept ? NULL : e->registers);
}

/* An entry that is done away with because a signal handler came at a bad moment, or its stack cannot be followed; with
 * it its exit, unless leave() counts that. */
static void entry_drop(struct entry *e, unsigned count)
{
    if (e->mode & AREA_RECORD)
        agent_add_local(&e->self->block->discarded, count);
}

static void enter(uint64_t function, uint64_t callsite, struct capture_frame *registers, uint32_t full)
{
    struct agent_thread *self = &agent_self;
    if (!agent_hot.area)
        fork_noticed();
    struct entry e = {
        .self = self,
        .function = function,
        .callsite = callsite,
        .site = registers->gpr[16],
        .sp = registers->gpr[7],
        .registers = full ? registers : NULL,
        .kept = full == 2,
        .area = agent_hot.area,
    };
    if (!e.area || !atomic_load_explicit(&e.area->on, memory_order_relaxed) || self->off)
        return;
    e.slot = slot_of(e.area, function, &e.mode);
    if (!e.slot || !e.mode || (!self->block && !thread_attach(self)))
        return;
    if (e.mode == MODE_VALUES)
        agent_moves_learn(&agent_hot.view, e.site);

    e.guard = thread_guard(self, e.sp - 8);
    if (e.guard == GUARD_STUCK) {
        entry_drop(&e, 1);
        return;
    }
    if (!in_stack(self, e.sp) && (e.guard == GUARD_NESTED || !stack_switch(self, e.guard, e.sp, true))) {
        entry_drop(&e, e.guard == GUARD_NESTED ? 1 : 2);
        thread_unguard(self, e.guard);
        return;
    }
    stack_unwind_entry(self, e.guard, e.sp, e.site, callsite);
    if (atomic_load_explicit(&self->block->depth, memory_order_relaxed) >= self->frame_limit) {
        atomic_fetch_add_explicit(&e.area->too_deep, 1, memory_order_relaxed);
    } else {
        bool wanted = entry_wanted(&e);
        if (wanted || (e.mode & (AREA_COUNT | AREA_ACT_EXIT))) {
            entry_push(&e);
            entry_record(&e, wanted);
        }
    }
    thread_unguard(self, e.guard);
    if (e.mode & AREA_ACT_ENTER)
        entry_act(&e);
}

/* ---- exits ---- */

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
    const struct area_site *site =
        (x->mode & AREA_VALUES) && x->registers && !x->tail ? area_site_find(&agent_hot.view, x->site, false) : NULL;
    struct values *values = site ? scratch_get(self) : NULL;
    if (values) {
        unsigned reading = agent_read_begin();
        bool have = values_at_site(site, x->registers, x->kept, values);
        agent_read_end(reading);
        sum_faults(self);
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

static void exit_record(struct exit_call *x, struct agent_frame *frame)
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
        frame->flags = 0; /* should a signal's handler leave us here for good, it is not told a second time */
        if (!time)
            record_lose(self, 1);
        else
            x->time = time;
    } else if (frame->flags & FRAME_DROPPED) {
        agent_add_local(&self->block->discarded, 1);
        frame->flags &= ~(uint32_t)FRAME_DROPPED;
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
    act(x->self, list, &call, x->kept ? NULL : x->registers);
}

/* The other half of entry_drop. */
static void exit_drop(struct agent_thread *self, uint64_t function)
{
    const struct area_slot *slot = area_slot_find(&agent_hot.view, function, false);
    if (slot && (atomic_load_explicit(&slot->mode, memory_order_relaxed) & AREA_RECORD) &&
        atomic_load_explicit(&agent_hot.area->on, memory_order_relaxed) && !self->off)
        agent_add_local(&self->block->discarded, 1);
}

static void leave(uint64_t function, uint64_t callsite, struct capture_frame *registers, uint32_t full)
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
    if (!in_stack(self, sp) && (x.guard == GUARD_NESTED || !stack_switch(self, x.guard, sp, false))) {
        if (x.guard == GUARD_NESTED)
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
    if (x.guard == GUARD_OUTER)
        self->leaving = frame;
    x.frame = *frame;
    x.mode = atomic_load_explicit(&agent_hot.slots[frame->slot].mode, memory_order_relaxed);
    if (x.mode == MODE_VALUES && !x.tail)
        agent_moves_learn(&agent_hot.view, x.site);
    exit_record(&x, frame);
    exit_pop(&x, frame, index);
    thread_unguard(self, x.guard);
    if ((x.mode & AREA_ACT_EXIT) && atomic_load_explicit(&agent_hot.area->on, memory_order_relaxed))
        exit_act(&x, sp, index + 1);
}

/* ---- where hooks_x86_64.S goes on ---- */

void agent_enter_slow(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t full)
{
    const struct capture_frame *outer = agent_self.registers;
    agent_self.registers = frame;
    enter(function, callsite, frame, full);
    agent_self.registers = outer;
}

/* An action at an entry that is nothing else; if it is a plain one, no stack and no record is needed for it. */
void agent_enter_act(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t slot)
{
    uint32_t list = atomic_load_explicit(&agent_hot.slots[slot].enter_list, memory_order_acquire);
    if (list && (agent_self.off || !agent_act_short(list, frame)))
        agent_enter_slow(function, callsite, frame, 1);
}

void agent_exit_slow(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t full)
{
    const struct capture_frame *outer = agent_self.registers;
    agent_self.registers = frame;
    leave(function, callsite, frame, full);
    agent_self.registers = outer;
}
