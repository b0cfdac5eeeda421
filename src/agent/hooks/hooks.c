/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are more than a plain record: values, counts, rates, limits, actions, other stacks, functions and threads
 * seen for the first time. See agent.h. Here: who may begin, which functions, how often; entries are in enter.c, exits
 * in leave.c, their values in hook_values.c.
 */
#include "agent/hooks/hooks.h"
#include "agent/hooks/connect.h"
#include "agent/safety/moves.h"
#include "agent/system/sys.h"
#include "shm/mpi_told.h"
#include "shm/waits.h"

#define SAME(constant, type, member) _Static_assert((constant) == offsetof(struct type, member), #type "." #member)
SAME(HOT_AREA, agent_hot, area);
SAME(HOT_SLOTS, agent_hot, slots);
SAME(HOT_SLOT_MASK, agent_hot, slot_mask);
SAME(HOT_PLACES, agent_hot, places);
SAME(HOT_PLACE_MASK, agent_hot, place_mask);
SAME(HOT_QUIET, agent_hot, quiet);
SAME(QUIET_ABOVE, agent_quiet, above);
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
SAME(SELF_POINTED, agent_thread, pointed);
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
SAME(SLOT_THINNED, area_slot, thinned);
_Static_assert(1 << SLOT_SHIFT == sizeof(struct area_slot), "area_slot");
SAME(PLACE_HOOK, area_place, hook);
SAME(PLACE_SLOT, area_place, slot);
_Static_assert(1 << PLACE_SHIFT == sizeof(struct area_place) && offsetof(struct area_place, callsite) == 0 &&
                   PLACE_PROBES == AREA_PLACE_PROBES && PLACE_BIT == RECORD_PLACE,
               "area_place");
SAME(AREA_ON, area, on);
SAME(AREA_MAX_DEPTH, area, max_depth);
SAME(AREA_MIN_TICKS, area, min_ticks);
SAME(AREA_READER, area, reader);
SAME(BLOCK_CURSOR, area_thread, cursor);
SAME(BLOCK_PENDING, area_thread, pending);
SAME(BLOCK_END, area_thread, end);
SAME(BLOCK_LAST_TIME, area_thread, last_time);
SAME(BLOCK_DEPTH, area_thread, depth);
SAME(AREA_UNPLACED, area, unplaced);
SAME(BLOCK_DISCARDED, area_thread, discarded);
SAME(COUNT_CALLS, area_count, calls);
SAME(COUNT_TICKS, area_count, ticks);
SAME(COUNT_THINNED, area_count, thinned);
_Static_assert(BLOCK_COUNTS == 2 * AREA_PAGE && COUNT_MASK == AREA_COUNTS - 1 &&
                   COUNT_SIZE == sizeof(struct area_count) && 1 << COUNT_SHIFT == COUNT_SIZE &&
                   offsetof(struct area_count, slot) == 0,
               "area_count");
SAME(REGS_XMM, capture_frame, xmm);
SAME(REGS_HAS_XMM, capture_frame, has_xmm);
SAME(REGS_RESULT, capture_frame, result);
SAME(REGS_HAS_RESULT, capture_frame, has_result);
SAME(REGS_PATCHED, capture_frame, patched);
SAME(SITE_VALUES, area_site, values);
SAME(MOVES_ADDRESS, agent_moves, address);
SAME(MOVES_SITE, agent_moves, site);
SAME(MOVES_SITE_ADDRESS, agent_moves, site_address);
SAME(MOVES_WORD, agent_moves, word);
SAME(MOVES_RBP_BIAS, agent_moves, rbp_bias);
SAME(MOVES_RBP_LIMIT, agent_moves, rbp_limit);
SAME(MOVES_LAYOUT, agent_moves, layout);
SAME(MOVES_TOTAL, agent_moves, total);
SAME(MOVES_KIND, agent_moves, kind);
SAME(MOVES_CONSTANT, agent_moves, constant);
SAME(MOVES_KEEPS, agent_moves, keeps);
SAME(MOVES_TEMPLATE, agent_moves, template);
SAME(MOVES_HEAD, agent_moves, head);
SAME(MOVES_LIST, agent_moves, moves);
_Static_assert(sizeof(struct agent_move) == MOVE_SIZE && offsetof(struct agent_move, code) == 0 &&
                   offsetof(struct agent_move, number) == 8 && offsetof(struct area_site, address) == 0 &&
                   MOVES_KIND_NONE == MOVES_NONE && MOVES_KIND_SHORT == MOVES_SHORT && MOVES_KIND_NEAR == MOVES_NEAR &&
                   MOVES_KIND_VARYING == MOVES_VARYING && AREA_READ_DIRECT == 0 && MOVES_TABLE == 65536,
               "moves");
_Static_assert(MODE_COUNT == AREA_COUNT && MODE_TALLY == AREA_TALLY && MODE_VALUES == (AREA_RECORD | AREA_VALUES) &&
                   MODE_ACT == AREA_ACT_ENTER && MODE_EXITS == (AREA_COUNT | AREA_RECORD | AREA_ACT_EXIT) &&
                   FLAG_COUNT == FRAME_COUNT && ID_ENTRY_VALUES == RECORD_ENTRY_VALUES &&
                   ID_EXIT_VALUES == RECORD_EXIT_VALUES,
               "constants");
_Static_assert(REGS_SIZE == sizeof(struct capture_frame), "capture_frame");
_Static_assert(MODE_RECORD == AREA_RECORD && FLAG_RECORDED == FRAME_RECORDED && FILTER_ENTER == AREA_ENTER &&
                   FILTER_EXIT == AREA_EXIT && ID_EXIT == RECORD_EXIT && RECORD_ENTRY == 0 &&
                   TIME_BITS == RECORD_TIME_BITS,
               "constants");
_Static_assert(FILTER_QUIET == AREA_QUIET && FILTER_FACTOR == AREA_FILTER_FACTOR && AREA_FILTER == 1 << 16 &&
                   QUIET_BITS == (AGENT_QUIET - 1) * sizeof(struct agent_quiet) && QUIET_BITS < AREA_FILTER,
               "constants");

enum { STUCK_LIMIT = 4096 };

enum guard thread_guard(struct agent_thread *self, uint64_t rsp)
{
    struct area_thread *block = self->block;
    if (atomic_load_explicit(&block->pending, memory_order_relaxed)) {
        /* A hook was interrupted; if it lies on this stack below us, it was left for good. */
        bool here = in_stack(self, rsp), there = in_stack(self, self->writer);
        if (here && there && rsp < self->writer)
            return level_begin(self, rsp);
        if (!here && ++self->stuck < STUCK_LIMIT)
            return GUARD_STUCK;
        if (!here && there && stack_is_alternate(rsp)) { /* a long handler: the hook goes on after it */
            self->stuck = 0;
            return GUARD_STUCK;
        }
        recover_all(self);
    } else if (self->levels) { /* hooks in a handler that was left by another, inside of it */
        recover_levels(self, 0);
    }
    self->stuck = 0;
    uint64_t cursor = atomic_load_explicit(&block->cursor, memory_order_relaxed);
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

/* Does for another thread what is left to do once a function has a slot. */
static void insertion_end(_Atomic uint64_t *note, uint64_t function, uint32_t mode)
{
    struct area_slot *slot = area_slot_find(&agent_hot.view, function, false);
    uint32_t none = 0;
    if (!slot)
        return;
    atomic_compare_exchange_strong(&slot->mode, &none, mode);
    atomic_compare_exchange_strong(note, &function, 0);
}

/* Notes that a function is to get a slot. Notes of threads that never come to the end of it (a signal's handler has
 * left them for good) are worked off where there is no place else. */
static _Atomic uint64_t *insertion_begin(uint64_t function, uint32_t mode)
{
    for (unsigned tries = 0;; tries++) {
        _Atomic uint64_t *place = &agent_hot.inserting[tries % AGENT_INSERTING];
        uint64_t other = 0;
        if (atomic_compare_exchange_strong(place, &other, function) || other == function)
            return place;
        if (tries < AGENT_INSERTING)
            continue;
        if (tries == 3 * AGENT_INSERTING)
            return NULL; /* then a call of it in another thread may be missing, at just this moment */
        insertion_end(place, other, mode);
    }
}

/* A function without a slot gets one if the monitor wants to hear of such: first the slot, whose mode is 0, then the
 * mode. A hook that finds it 0 meanwhile, in another thread or in a handler that interrupted us and may never return,
 * knows by the note that it is not what the monitor has chosen, and sets the mode. */
static struct area_slot *slot_new(struct area *area, uint64_t function)
{
    uint32_t mode = atomic_load_explicit(&area->unknown_mode, memory_order_relaxed);
    if (!mode || mpi_function_is(function) || !in_ranges(area, function)) /* MPI's are the monitor's alone to choose */
        return NULL;
    _Atomic uint64_t *note = insertion_begin(function, mode);
    struct area_slot *slot = area_slot_find(&agent_hot.view, function, true);
    if (slot) {
        uint32_t none = 0;
        atomic_compare_exchange_strong(&slot->mode, &none, mode);
    } else {
        atomic_fetch_add_explicit(&area->functions_omitted, 1, memory_order_relaxed);
    }
    if (note)
        atomic_compare_exchange_strong(note, &function, 0);
    return slot;
}

struct area_slot *hook_slot(struct area *area, uint64_t function, uint32_t *ret_mode)
{
    struct area_slot *slot = area_slot_find(&agent_hot.view, function, false);
    if (!slot && modules_came(area)) /* the library may have been here before, and its functions have slots */
        slot = area_slot_find(&agent_hot.view, function, false);
    if (!slot && !(slot = slot_new(area, function)))
        return NULL;
    *ret_mode = atomic_load_explicit(&slot->mode, memory_order_acquire);
    for (unsigned i = 0; !*ret_mode && i < AGENT_INSERTING; i++)
        if (atomic_load(&agent_hot.inserting[i]) == function)
            insertion_end(&agent_hot.inserting[i], function, atomic_load(&area->unknown_mode));
    if (!*ret_mode)
        *ret_mode = atomic_load_explicit(&slot->mode, memory_order_acquire);
    return slot;
}

/* ---- rates ---- */

#define RATE_TOLD UINT32_C(0x80000000)

enum rate hook_rate(struct area *area, struct area_slot *slot)
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

/* ---- functions that are not even counted ---- */

/* The calls of the function that are on shadow stacks, from before it was tallied: the least stack pointer of an exit that may be
 * one of theirs. 0: not known. (A thread that has been in the middle of a hook all the time since may add one; that ends with
 * a later hook.) */
static uint64_t quiet_above(const struct agent_thread *self, uint64_t function)
{
    uint64_t lowest = UINT64_MAX;
    uint32_t threads = atomic_load(&agent_hot.thread_serial);
    for (uint32_t i = 0; i < threads && i < agent_hot.view.thread_count; i++) {
        const struct area_thread *block = area_thread_at(&agent_hot.view, i);
        uint32_t depth = atomic_load(&block->depth);
        const struct agent_frame *frames = block == self->block ? self->frames : area_frames_of(block);
        if (atomic_load(&block->state) != AREA_THREAD_LIVE)
            continue;
        if (depth && block != self->block && (depth > AREA_FRAMES || !frames->function)) /* they are elsewhere */
            return 0;
        for (uint32_t k = 0; k < depth; k++)
            if (frames[k].function == function && frames[k].sp < lowest)
                lowest = frames[k].sp;
    }
    return atomic_load(&agent_hot.has_stacks) ? 0 : lowest == UINT64_MAX ? lowest : lowest - EXIT_NEAR;
}

/* Has this thread tallied it that often twice, within QUIET_MS? Other threads may do so at the same time: who came last is
 * kept, unless that is over. */
static bool is_tallied_fast(const struct agent_thread *self, struct area_slot *slot)
{
    enum { THREAD = 0xffff };
    uint64_t limit = atomic_load_explicit(&agent_hot.area->ticks_per_second, memory_order_relaxed) / 1000 * QUIET_MS;
    uint64_t own = ((uintptr_t)self->block / AREA_PAGE) & THREAD, now = agent_ticks();
    uint64_t last = atomic_load_explicit(&slot->rate_second, memory_order_relaxed); /* it has no rate */
    bool fast = last && now - (last & ~(uint64_t)THREAD) <= limit;
    if (fast && (last & THREAD) != own)
        return false;
    atomic_store_explicit(&slot->rate_second, (now & ~(uint64_t)THREAD) | own, memory_order_relaxed);
    return fast;
}

/* Even to tally it costs a function that does next to nothing as much as it takes itself. So one that is tallied very often
 * in short time leaves its hooks at once, by a bit of the filter and a table of addresses, for others have the same byte. From
 * then on its number is a lower bound. The monitor takes the bit away when it chooses functions anew. */
static void quiet_begin(const struct agent_thread *self, uint64_t function)
{
    const struct area *area = agent_hot.area;
    struct area_slot *slot = area ? area_slot_find(&agent_hot.view, function, false) : NULL;
    uint32_t index = area_filter_index(function);
    struct agent_quiet *quiet = &agent_hot.quiet[(index & QUIET_BITS) / sizeof *quiet];
    if (!slot || atomic_load_explicit(&area->thin, memory_order_relaxed) != AREA_THIN_QUIET || !self->block ||
        atomic_load_explicit(&self->block->pending, memory_order_relaxed))
        return;
    if (!is_tallied_fast(self, slot))
        return;
    uint64_t none = 0;
    if (!atomic_compare_exchange_strong(&quiet->function, &none, 1) && none != function)
        return; /* another one has its place */
    atomic_store(&quiet->above, quiet_above(self, function));
    atomic_fetch_or(&slot->thinned, AREA_AT_LEAST);
    atomic_store(&quiet->function, function);
    __atomic_fetch_or(&agent_hot.view.filter[index], AREA_QUIET, __ATOMIC_SEQ_CST);
    if (atomic_load(&slot->mode) != AREA_TALLY) /* it was chosen meanwhile */
        atomic_store(&quiet->function, 0);
}

/* ---- where hooks_x86_64.S goes on ---- */

const struct capture_frame *way_begin(const struct capture_frame *frame)
{
    const struct capture_frame *outer = agent_self.registers;
    agent_self.registers = frame;
    if (__builtin_expect(agent_hot.valgrind, 0))
        valgrind_ask(VALGRIND_SILENCE, 1);
    return outer;
}

void way_end(const struct capture_frame *outer)
{
    if (__builtin_expect(agent_hot.valgrind, 0))
        valgrind_ask(VALGRIND_SILENCE, -1);
    agent_self.registers = outer;
}

void agent_enter_slow(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t full)
{
    const struct capture_frame *outer = way_begin(frame);
    hook_enter(function, callsite, frame, full);
    way_end(outer);
}

/* An action at an entry that is nothing else; if it is a plain one, no stack and no record is needed for it. */
void agent_enter_act(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t slot)
{
    uint32_t list = atomic_load_explicit(&agent_hot.slots[slot].enter_list, memory_order_acquire);
    if (!list)
        return;
    const struct capture_frame *outer = agent_self.registers;
    agent_self.registers = frame;
    const struct agent_plan *plan = agent_self.off || agent_hot.valgrind ? NULL : agent_plan_of(list, frame->gpr[16]);
    if (plan)
        agent_plan_run(plan, frame->gpr);
    else
        agent_enter_slow(function, callsite, frame, 1);
    agent_self.registers = outer;
}

void agent_tally_many(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t full)
{
    const struct capture_frame *outer = way_begin(frame);
    quiet_begin(&agent_self, function);
    way_end(outer);
}

void agent_exit_slow(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t full)
{
    const struct capture_frame *outer = way_begin(frame);
    hook_leave(function, callsite, frame, full);
    way_end(outer);
}
