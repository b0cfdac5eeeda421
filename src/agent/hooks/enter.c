/* SPDX-License-Identifier: Apache-2.0 */
/* Entries and exits that take the long way, and calls that wait until they have lasted long enough. See agent.h. */
#include "agent/hooks/hooks.h"
#include "agent/safety/moves.h"
#include "agent/safety/read.h"
#include "agent/safety/values.h"
#include "shm/mpi_told.h"

/* ---- values at entries and exits, as hooks.h and values.h say ---- */

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
static bool hook_values(const struct area_site *site, struct capture_frame *frame, bool kept, struct values *out)
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

/* kept: only the registers that calls keep are as the hook found them. */
static bool hook_values_of_caller(const struct area_site *site, uint64_t callsite, struct capture_frame *frame,
                                  struct values *out)
{
    uint32_t unwind = atomic_load_explicit(&site->unwind, memory_order_acquire);
    uint64_t hook = atomic_load_explicit(&site->address, memory_order_relaxed);
    /* an inlined function has been called from the function that it is in, and callsite is where that was */
    const struct area_site *call = unwind ? area_site_find(&agent_hot.view, hook - 1, false) : NULL;
    if (unwind && !call)
        call = area_site_find(&agent_hot.view, callsite, false);
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

void agent_read_failed(uint64_t faults)
{
    if (agent_self.block)
        atomic_store_explicit(&agent_self.block->faults, faults, memory_order_relaxed);
}

/* One reading in MEASURE_EACH is measured, but not the first, when caches are cold. */
enum { MEASURE_EACH = 16 };

static struct reading reading_begin(struct agent_thread *self)
{
    bool measured = ++self->values_read % MEASURE_EACH == 0;
    return (struct reading){agent_read_begin(), measured ? __builtin_ia32_rdtsc() : 0};
}

static void reading_end(struct agent_thread *self, struct reading reading)
{
    struct area_thread *block = self->block;
    agent_read_end(reading.how);
    if (reading.since) {
        uint64_t ticks = atomic_load_explicit(&block->values_ticks, memory_order_relaxed);
        ticks += MEASURE_EACH * (__builtin_ia32_rdtsc() - reading.since);
        atomic_store_explicit(&block->values_ticks, ticks, memory_order_relaxed);
    }
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
    uint64_t time; /* of the entry */
};

enum { STACK_TRIED_AT = 1024 }; /* calls that are only counted */

static uint32_t frame_dropped(const struct agent_thread *self, enum guard guard)
{
    return FRAME_DROPPED | (waited_in_vain(self, guard) ? FRAME_WAITED : 0);
}

/* What its entry names: where it is called from, if that is to be had. */
static uint32_t entry_word(const struct agent_frame *frame)
{
    if (mpi_function_is(frame->function))
        return frame->slot;
    const struct area_place *place = area_place_find(&agent_hot.view, frame->callsite, frame->site, frame->slot);
    return place ? RECORD_PLACE | (uint32_t)(place - agent_hot.view.places) : frame->slot;
}

/* Writes the entry with the values that belong to it. */
static bool entry_with_values(struct entry *e)
{
    struct agent_thread *self = e->self;
    const struct area_site *site = area_site_find(&agent_hot.view, e->site, false);
    struct record_entry entry = {.function = entry_word(e->frame)};
    struct values *caller = site ? scratch_get(self) : NULL;
    uint64_t time;
    if (caller) {
        struct reading reading = reading_begin(self);
        if ((e->mode & AREA_CALLER) && !e->kept && hook_values_of_caller(site, e->callsite, e->registers, caller))
            entry.caller_size = (uint32_t)values_size(caller);
        struct values *own = (struct values *)(void *)((uint8_t *)caller + entry.caller_size);
        if ((e->mode & AREA_VALUES) && hook_values(site, e->registers, e->kept, own))
            entry.values_size = (uint32_t)values_size(own);
        entry.caller = caller;
        entry.values = own;
        time = record_put_entry(self, e->guard, 0, &entry);
        reading_end(self, reading);
        scratch_put(self);
    } else {
        time = record_put_entry(self, e->guard, 0, &entry);
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
    uint32_t end = at + (uint32_t)(sizeof(struct waiting) + 2 * sizeof(struct values));
    if (!site || end > AGENT_WAITING || !stack_room(&self->store->waiting, end))
        return;
    struct waiting *waiting = (struct waiting *)(void *)(self->store->waiting.at + at);
    struct values *caller = (struct values *)(void *)(waiting + 1);
    struct reading reading = reading_begin(self);
    *waiting = (struct waiting){.total = sizeof *waiting};
    /* a signal handler in between keeps off what is being written */
    self->values_used = end;
    agent_signal_fence();
    if ((e->mode & AREA_CALLER) && !e->kept && hook_values_of_caller(site, e->callsite, e->registers, caller))
        waiting->caller = (uint32_t)values_size(caller);
    struct values *own = (struct values *)(void *)((uint8_t *)caller + waiting->caller);
    if ((e->mode & AREA_VALUES) && hook_values(site, e->registers, e->kept, own))
        waiting->own = (uint32_t)values_size(own);
    reading_end(self, reading);
    waiting->total += waiting->caller + waiting->own;
    e->frame->values_at = at + 1;
    agent_signal_fence();
    self->values_used = at + waiting->total;
}

/* Writes the entry of a call that turned out to be worth it. */
static bool waiting_flush_one(struct agent_thread *self, enum guard guard, struct agent_frame *frame)
{
    struct record_entry entry = {.function = entry_word(frame)};
    frame_begin(self, guard, frame, false);
    if (frame->values_at) {
        const struct waiting *waiting = (const void *)(self->store->waiting.at + frame->values_at - 1);
        entry.caller = waiting + 1;
        entry.caller_size = waiting->caller;
        entry.values = (const uint8_t *)entry.caller + waiting->caller;
        entry.values_size = guard == GUARD_OUTER ? waiting->own : 0;
    }
    uint64_t time = record_put_entry(self, guard, frame->time, &entry);
    if (time)
        frame->packet_seq = self->packet_seq;
    else
        self->plain++;
    self->waiting--;
    agent_signal_fence();
    frame->flags = (frame->flags & ~(uint32_t)FRAME_WAITING) | (time ? FRAME_RECORDED : frame_dropped(self, guard));
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
    enum rate rate = hook_rate(area, e->slot);
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
        frame_begin(self, e->guard, frame, false);
        bool done;
        if (e->registers && (e->mode & (AREA_VALUES | AREA_CALLER))) {
            done = entry_with_values(e);
        } else {
            const uint32_t word = entry_word(frame);
            frame->time = record_put(self, e->guard, RECORD_ENTRY, 0, &word, sizeof word, NULL, 0);
            done = frame->time != 0;
        }
        flags = done ? FRAME_RECORDED : frame_dropped(self, e->guard);
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
    agent_signal_fence();
    frame->flags = flags;
    e->time = frame->time;
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
        .entry_time = e->time,
        .slot = slot_index(e->slot),
        .depth = atomic_load_explicit(&e->self->block->depth, memory_order_relaxed),
        .values = (e->mode & AREA_VALUES) != 0,
    };
    hook_act(e->self, list, &call, e->kept ? NULL : e->registers);
}

/* An entry that is done away with because a signal handler came at a bad moment, or its stack cannot be followed; with
 * it its exit, unless leave() counts that. */
static void entry_drop(struct entry *e, unsigned count)
{
    if (e->mode & AREA_RECORD)
        agent_add_local(&e->self->block->discarded, count);
}

bool hook_enter(uint64_t function, uint64_t callsite, struct capture_frame *registers, uint32_t full)
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
        return false;
    e.slot = hook_slot(e.area, function, &e.mode);
    if (!e.slot || !e.mode || (!self->block && !thread_attach(self)))
        return false;
    if (e.mode & AREA_TALLY) {
        uint64_t before = atomic_fetch_add_explicit(&e.slot->thinned, 1, memory_order_relaxed);
        /* else its stack is found: from then on it goes the short way. That may fail, and is not tried at each call. */
        if (e.mode == AREA_TALLY && (self->size || before % STACK_TRIED_AT))
            return false;
    }
    if (e.mode == MODE_VALUES && !registers->has_result)
        agent_moves_learn(&agent_hot.view, e.site);

    e.guard = thread_guard(self, e.sp - 8);
    if (e.guard == GUARD_STUCK) {
        entry_drop(&e, 1);
        return false;
    }
    if (!in_stack(self, e.sp) && (e.guard > GUARD_OUTER || !stack_switch(self, e.guard, e.sp, true))) {
        entry_drop(&e, e.guard > GUARD_OUTER ? 1 : 2);
        thread_unguard(self, e.guard);
        return false;
    }
    bool pushed = false;
    stack_unwind_entry(self, e.guard, e.sp, e.site, callsite);
    if (atomic_load_explicit(&self->block->depth, memory_order_relaxed) >= self->frame_limit &&
        !stack_grow(self, e.guard)) {
        atomic_fetch_add_explicit(&e.area->too_deep, 1, memory_order_relaxed);
    } else {
        bool wanted = entry_wanted(&e);
        if (wanted || (e.mode & (AREA_COUNT | AREA_ACT_EXIT))) {
            entry_push(&e);
            entry_record(&e, wanted);
            pushed = true;
        }
    }
    thread_unguard(self, e.guard);
    if (e.mode & AREA_ACT_ENTER)
        entry_act(&e);
    return pushed;
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

bool hook_leave(uint64_t function, uint64_t callsite, struct capture_frame *registers, uint32_t full)
{
    struct agent_thread *self = &agent_self;
    if (!agent_hot.area) {
        fork_noticed();
        return false;
    }
    if (!self->block)
        return false;
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
        return false;
    }
    if (!in_stack(self, sp) && (x.guard > GUARD_OUTER || !stack_switch(self, x.guard, sp, false))) {
        if (x.guard > GUARD_OUTER)
            exit_drop(self, function);
        thread_unguard(self, x.guard);
        return false;
    }
    uint32_t index;
    bool found = stack_find_exit(self, function, callsite, x.site, sp, registers->gpr[6], &index);
    stack_unwind(self, x.guard, found ? index + 1 : index);
    if (!found) {
        self->unfound = true;
        thread_unguard(self, x.guard);
        return false;
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
    return true;
}
