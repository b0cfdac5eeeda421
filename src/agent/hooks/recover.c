/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks that never come back: a signal's handler that interrupted them went elsewhere (siglongjmp). What they left half
 * done, a record that was reserved, a frame half way on or off the shadow stack, is made whole, so that what is
 * recorded pairs: by the next hook that finds them dead by their stack pointers, or by the jump itself
 * (agent_stack_jump).
 *
 * Hooks at work at the same time, in handlers that interrupted each other, are levels: 0 has set `pending`, its notes
 * are in agent_thread, since hooks_x86_64.S makes them; those above it are in store->levels. Each knows where its last
 * record begins; it reaches to where the first record of a level above it begins, or, without one, to the cursor. Where
 * a level above has reserved the very place, this one has not.
 *
 * The frame of a record shows whether the record is whole: its flags change after the record is written.
 */
#include "agent/hooks/agent.h"

/* A record that may not be whole. */
struct hole {
    uint64_t at, size;
    uint64_t before; /* time of the one before it */
    uint32_t id;
    uint64_t writer;
    struct agent_frame *frame; /* whose entry or exit it is */
    uint32_t *ending;
};

/* ---- records ---- */

/* As long as it was, it has the long form of time: what follows may count from it. */
static uint8_t *hole_head(const struct hole *hole, uint32_t id, size_t payload)
{
    bool extended = hole->size >= RECORD_EXTENDED_HEAD + payload;
    return agent_hot.view.base + hole->at + record_head(hole->at, id, hole->before, extended);
}

/* One that says nothing. */
static void hole_fill(const struct hole *hole)
{
    uint16_t text;
    bool small = hole->size == RECORD_HEAD + 4;
    uint8_t *to = hole_head(hole, small ? RECORD_UNWOUND : RECORD_MARK, small ? 4 : sizeof text);
    size_t left = (size_t)(agent_hot.view.base + hole->at + hole->size - to);
    raw_zero(to, left);
    text = (uint16_t)(left - sizeof text);
    if (!small)
        __builtin_memcpy(to, &text, sizeof text);
}

/* It is whole. The next one is not to be older, and nor is the end of the packet. */
static void hole_keep(struct agent_thread *self, const struct hole *hole)
{
    uint32_t words[2];
    uint64_t time;
    const uint8_t *at = agent_hot.view.base + hole->at;
    __builtin_memcpy(words, at, sizeof words[0]);
    if ((words[0] & 31) == RECORD_EXTENDED)
        __builtin_memcpy(&time, at + sizeof words, sizeof time);
    else
        time = hole->before +
               (((words[0] >> (32 - RECORD_TIME_BITS)) - hole->before) & ((UINT64_C(1) << RECORD_TIME_BITS) - 1));
    if (time > atomic_load_explicit(&self->block->last_time, memory_order_relaxed))
        atomic_store_explicit(&self->block->last_time, time, memory_order_relaxed);
}

/* What it was, and whether the shadow stack already says that it was written; where it can be reported again, it is. */
static void hole_mend(struct agent_thread *self, const struct hole *hole)
{
    bool recorded = hole->frame && stack_has_frame(self, hole->frame) && (hole->frame->flags & FRAME_RECORDED);
    switch (hole->id) {
    case RECORD_ENTRY:
    case RECORD_ENTRY_VALUES:
        if (recorded)
            hole_keep(self, hole);
        else
            hole_fill(hole);
        return;
    case RECORD_EXIT:
    case RECORD_EXIT_OF:
    case RECORD_EXIT_VALUES:
        /* the same place may be another call's by now */
        if (!recorded || hole->frame->time > hole->before) {
            hole_keep(self, hole);
        } else if (hole->id == RECORD_EXIT) {
            hole_head(hole, RECORD_EXIT, 0);
            agent_signal_fence();
            hole->frame->flags = 0;
        } else {
            hole_fill(hole);
        }
        return;
    case RECORD_UNWOUND:
        if (!*hole->ending) {
            hole_keep(self, hole);
        } else {
            __builtin_memcpy(hole_head(hole, RECORD_UNWOUND, 4), hole->ending, 4);
            agent_signal_fence();
            *hole->ending = 0;
        }
        return;
    case RECORD_LOST:
        if (!self->telling || (self->lost & LOST_TOLD)) {
            hole_keep(self, hole);
            return;
        }
        __builtin_memcpy(hole_head(hole, RECORD_LOST, 4), &self->telling, 4);
        lost_add(self, LOST_TOLD - self->telling * LOST_ONE);
        self->telling = 0;
        return;
    case RECORD_STACK:
        if (self->told_stack == self->block->stack_id)
            hole_keep(self, hole);
        else
            hole_fill(hole);
        return;
    default:
        hole_fill(hole);
    }
}

/* Of the short way, which notes little: the frame that it has pushed. */
static struct agent_frame *frame_of_writer(const struct agent_thread *self, uint64_t writer)
{
    for (uint32_t i = atomic_load_explicit(&self->block->depth, memory_order_relaxed); i; i--) {
        struct agent_frame *frame = &self->frames[i - 1];
        if (frame->sp >= writer + sizeof(uint64_t))
            return frame->sp == writer + sizeof(uint64_t) ? frame : NULL;
    }
    return NULL;
}

static bool in_packet(const struct agent_thread *self, uint64_t from, uint64_t to)
{
    const struct area_thread *block = self->block;
    uint32_t packet = atomic_load_explicit(&block->packet, memory_order_relaxed);
    uint64_t start = agent_hot.view.packets_at + (uint64_t)packet * agent_hot.view.packet_size;
    return packet < agent_hot.view.packet_count && from < to && from >= start + sizeof(struct packet_head) &&
           to <= start + agent_hot.view.packet_size && to <= atomic_load_explicit(&block->cursor, memory_order_relaxed);
}

/* ---- frames ---- */

void ending_begin(struct agent_thread *self, enum guard guard, uint32_t depth, uint32_t count)
{
    struct agent_level *level = guard == GUARD_OUTER ? NULL : &self->store->levels[guard - 1];
    /* the record before is whole: if it is of this kind, it is not to be taken for the one to come */
    *(level ? &level->at : &self->hole_at) = 0;
    lost_clear(self, UINT64_C(1) << guard);
    self->frames[depth].flags |= FRAME_ENDED;
    agent_signal_fence();
    *(level ? &level->ending_to : &self->ending_to) = depth;
    agent_signal_fence();
    *(level ? &level->ending : &self->ending) = count;
    agent_signal_fence();
}

void ending_lost(struct agent_thread *self, enum guard guard)
{
    uint32_t *ending = guard == GUARD_OUTER ? &self->ending : &self->store->levels[guard - 1].ending;
    uint64_t count = *ending;
    record_close(self); /* nothing may come before it is reported */
    if (count && !(self->lost & UINT64_C(1) << guard)) {
        lost_add(self, count * LOST_ONE + (UINT64_C(1) << guard));
        agent_add_local(&self->block->lost_exits, count);
    }
    ending_done(self, guard);
}

/* Calls that were about to be removed: if they were, their ends are reported. */
static void ending_mend(struct agent_thread *self, enum guard guard, uint32_t *ending, uint32_t to)
{
    if (!*ending)
        return;
    struct agent_frame *frame = &self->frames[to];
    if (stack_has_frame(self, frame) && (frame->flags & FRAME_ENDED)) {
        *ending = 0;
        agent_signal_fence();
        frame->flags &= ~(uint32_t)FRAME_ENDED;
    } else {
        ending_lost(self, guard);
    }
}

static uint32_t plain_from(const struct agent_thread *self, uint64_t below)
{
    uint32_t plain = 0;
    for (uint32_t i = atomic_load_explicit(&self->block->depth, memory_order_relaxed);
         i && self->frames[i - 1].sp <= below; i--)
        plain += !(self->frames[i - 1].flags & (FRAME_RECORDED | FRAME_WAITING));
    return plain;
}

/* ---- levels ---- */

enum guard level_begin(struct agent_thread *self, uint64_t rsp)
{
    struct agent_level *levels = self->store->levels;
    uint32_t count = self->levels;
    while (count && levels[count - 1].writer <= rsp)
        count--;
    if (count < self->levels)
        recover_levels(self, count);
    if (count == AGENT_LEVELS || self->switching)
        return GUARD_STUCK;
    if (!count)
        self->base_plain = self->plain - plain_from(self, self->writer);
    /* filled before and after it is counted: a handler in between may have used the place */
    for (int round = 0; round < 2; round++) {
        struct agent_level *level = &levels[count];
        level->at = level->upper = 0;
        level->ending = 0;
        level->frame = NULL;
        level->scratch_used = self->scratch_used;
        level->writer = rsp;
        agent_signal_fence();
        self->levels = count + 1;
        agent_signal_fence();
    }
    self->stack_size = 0; /* not the short way before there are no levels any more */
    return (enum guard)(count + 1);
}

void level_end(struct agent_thread *self, enum guard guard)
{
    if (guard == GUARD_STUCK)
        return;
    if (self->levels > (uint32_t)guard)
        recover_levels(self, (uint32_t)guard);
    if (guard == GUARD_OUTER)
        return;
    self->levels = (uint32_t)guard - 1;
    agent_signal_fence();
    if (!self->levels)
        self->stack_size = self->off ? 0 : self->size;
}

void level_reserved(struct agent_thread *self, enum guard guard, uint64_t at)
{
    uint64_t last = atomic_load_explicit(&self->block->last_time, memory_order_relaxed);
    for (uint32_t i = (uint32_t)guard - 1; i-- > 0;) {
        struct agent_level *level = &self->store->levels[i];
        if (level->at > at)
            continue;
        if (!level->upper)
            level->before = last; /* its own time, if it was written to the end */
        if (!level->upper || at < level->upper)
            level->upper = at;
    }
    uint64_t pending = atomic_load_explicit(&self->block->pending, memory_order_relaxed);
    if (self->nested_for != pending) {
        self->nested_time = atomic_load_explicit(&self->block->last_time, memory_order_relaxed);
        self->nested_cursor = UINT64_MAX;
        agent_signal_fence();
        self->nested_for = pending;
    }
    agent_signal_fence();
    if (self->nested_cursor == UINT64_MAX && at > self->hole_at)
        self->hole_before = last; /* its own time, if it was written to the end: ours counts from it */
    agent_signal_fence();
    if (at < self->nested_cursor)
        self->nested_cursor = at;
    agent_signal_fence();
}

void recover_levels(struct agent_thread *self, uint32_t keep)
{
    struct area_thread *block = self->block;
    bool pending = atomic_load_explicit(&block->pending, memory_order_relaxed) != 0;
    for (uint32_t n = self->levels; n > keep; n--) {
        struct agent_level *level = &self->store->levels[n - 1];
        uint64_t end = level->upper ? level->upper : atomic_load_explicit(&block->cursor, memory_order_relaxed);
        /* if the interrupted hook went on meanwhile, what is behind may be others' */
        bool reserved = level->at && (level->reserved || (pending && end > level->at));
        if (!level->upper)
            level->before = atomic_load_explicit(&block->last_time, memory_order_relaxed);
        if (reserved && in_packet(self, level->at, level->at + level->size)) {
            const struct hole hole = {level->at,     level->size,  level->before, level->id,
                                      level->writer, level->frame, &level->ending};
            hole_mend(self, &hole);
            level_reserved(self, (enum guard)n, level->at);
        }
        ending_mend(self, (enum guard)n, &level->ending, level->ending_to);
        level->at = 0;
        self->scratch_used = level->scratch_used;
        agent_signal_fence();
        self->levels = n - 1;
        agent_signal_fence();
    }
    self->plain = pending ? self->base_plain + plain_from(self, self->writer) : plain_from(self, UINT64_MAX);
    if (!self->levels)
        self->stack_size = self->off ? 0 : self->size;
}

/* Of the short way: what a handler has written that came just before `pending` was set, to where the cursor had been
 * when it was read. Those are whole records. Its own is one alone, and the frame tells of it: the time does not, two
 * records may have the same. */
static bool region_of_others(const struct hole *hole)
{
    uint32_t time = 0, id = RECORD_IDS, count = 0;
    uint64_t from = hole->at, to = hole->at + hole->size;
    for (uint32_t size; from < to; from += size, count++) {
        const uint8_t *at = agent_hot.view.base + from;
        size = record_size(at, to - from, &id);
        if (!size)
            return false;
        __builtin_memcpy(&time, at, sizeof time);
    }
    bool own =
        hole->id != RECORD_ENTRY ? id == hole->id : hole->frame && (id == RECORD_ENTRY || id == RECORD_ENTRY_VALUES);
    if (count == 1 && own)
        return false;
    return time >> (32 - RECORD_TIME_BITS) == (hole->before & ((UINT32_C(1) << RECORD_TIME_BITS) - 1));
}

/* The record of the hook that set `pending`. */
static struct hole hole_find(struct agent_thread *self, uint64_t cursor)
{
    uint64_t last = atomic_load_explicit(&self->block->last_time, memory_order_relaxed);
    uint64_t pending = atomic_load_explicit(&self->block->pending, memory_order_relaxed);
    struct hole hole = {.writer = self->writer, .ending = &self->ending};
    if (self->hole_id & HOLE_LONG) {
        bool reserved = self->hole_at && cursor > self->hole_at && self->nested_cursor > self->hole_at;
        hole.at = self->hole_at;
        hole.size = reserved ? self->hole_size : 0;
        hole.before = self->nested_cursor == UINT64_MAX ? last : self->hole_before;
        hole.id = (self->hole_id & ~(uint32_t)HOLE_LONG) - 1;
    } else {
        bool nested = self->nested_for == pending;
        uint64_t end = nested ? self->nested_cursor : cursor;
        hole.at = pending;
        hole.size = end > pending && in_packet(self, pending, end) ? end - pending : 0;
        hole.frame = frame_of_writer(self, self->writer);
        hole.before = nested ? self->nested_time : last;
        hole.id = self->hole_id ? self->hole_id - 1 : hole.size == RECORD_HEAD ? RECORD_EXIT : RECORD_ENTRY;
        if (region_of_others(&hole))
            hole.size = 0;
    }
    if (hole.id != RECORD_ENTRY && hole.id != RECORD_ENTRY_VALUES)
        hole.frame = self->leaving;
    else if (self->hole_id)
        hole.frame = self->entering;
    return hole;
}

void recover_all(struct agent_thread *self)
{
    struct area_thread *block = self->block;
    if (self->levels)
        recover_levels(self, 0);
    uint64_t cursor = atomic_load_explicit(&block->cursor, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&block->end, memory_order_relaxed);
    struct hole hole = hole_find(self, cursor);
    if (end && hole.size && in_packet(self, hole.at, hole.at + hole.size)) {
        hole_mend(self, &hole);
    } else if (!end) {
        record_retire(self);
    }
    agent_signal_fence();
    /* first the place: without the id it would be another's */
    self->hole_at = 0;
    atomic_store_explicit(&block->pending, cursor ? cursor : 1, memory_order_relaxed);
    agent_signal_fence();
    self->hole_id = 0;
    agent_signal_fence();
    self->nested_for = 0;
    self->scratch_used = 0;
    ending_mend(self, GUARD_OUTER, &self->ending, self->ending_to);
    self->telling = 0;
    if (self->switching == SWITCH_ENTERS)
        self->size = self->stack_size = 0;
    else
        self->switching = SWITCH_NOT;
    if (self->told_stack != block->stack_id) /* the next packet says it */
        record_close(self);
    uint32_t depth = atomic_load_explicit(&block->depth, memory_order_relaxed);
    self->plain = self->waiting = 0;
    for (uint32_t i = 0; i < depth; i++) {
        self->plain += !(self->frames[i].flags & (FRAME_RECORDED | FRAME_WAITING));
        self->waiting += (self->frames[i].flags & FRAME_WAITING) != 0;
    }
}
