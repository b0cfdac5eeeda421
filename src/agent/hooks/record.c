/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets: taking them, writing records into them, giving them to the monitor. See shm/record.h and agent.h.
 */
#include <sys/mman.h>

#include "agent/safety/act.h"
#include "agent/hooks/agent.h"
#include "agent/system/world.h"
#include "shm/mpi_told.h"
#include "shm/waits.h"

enum {
    RESCAN_EVERY = 4096,
    VAIN_MOST = 3, /* waits for a monitor that frees nothing: it is stopped, or stuck */
    RING_MOST = 16,
    RECORD_LAST_CALL = RECORD_EXIT_VALUES, /* ids up to here are entries and exits */
};
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct packet_head *packet_at(uint32_t index)
{
    const struct area_view *view = &agent_hot.view;
    return (struct packet_head *)(void *)(view->base + view->packets_at + (uint64_t)index * view->packet_size);
}

uint64_t record_written(const struct agent_thread *self)
{
    const struct area_view *view = &agent_hot.view;
    uint32_t index = atomic_load_explicit(&self->block->packet, memory_order_relaxed);
    uint64_t cursor = atomic_load_explicit(&self->block->cursor, memory_order_relaxed);
    uint64_t start = view->packets_at + (uint64_t)index * view->packet_size + sizeof(struct packet_head);
    return index < view->packet_count && cursor > start && cursor - start < view->packet_size ? cursor - start : 0;
}

/* ---- taking and giving ---- */

static uint32_t packet_free(void)
{
    const struct area_view *view = &agent_hot.view;
    /* the lowest that may be free: few pages are touched where few are needed */
    uint32_t freed = atomic_load(&agent_hot.area->freed);
    if (atomic_exchange_explicit(&agent_hot.packet_freed, freed, memory_order_relaxed) != freed) {
        atomic_store_explicit(&agent_hot.packet_hint, 0, memory_order_relaxed);
        atomic_store_explicit(&agent_hot.packets_refused, false, memory_order_relaxed);
    }
    const uint32_t count = *(const volatile uint32_t *)&view->packet_count;
    if (!count) /* a handler has forked just now, and this is the child */
        return UINT32_MAX;
    uint32_t from = atomic_load_explicit(&agent_hot.packet_hint, memory_order_relaxed) % count;
    for (uint32_t i = 0; i < view->packet_count; i++) {
        uint32_t index = from + i < view->packet_count ? from + i : from + i - view->packet_count;
        uint64_t state = atomic_load_explicit(&view->states[index], memory_order_relaxed);
        if ((state & 0xff) == AREA_PACKET_FREE &&
            atomic_compare_exchange_strong_explicit(&view->states[index], &state, AREA_PACKET_TAKEN,
                                                    memory_order_acq_rel, memory_order_relaxed)) {
            atomic_store_explicit(&agent_hot.packet_hint, index + 1, memory_order_relaxed);
            return index;
        }
    }
    return UINT32_MAX;
}

/* The monitor hands packets out as it comes to it, and a program may fill those that it has within a millisecond. So
 * where none is free, we have memory for another one, of those that the monitor has promised. Unlike a write, this
 * system call (since Linux 5.14) fails where there is no memory. */
static uint32_t packet_make(void)
{
    const struct area_view *view = &agent_hot.view;
    uint32_t end = atomic_load_explicit(&agent_hot.area->promised, memory_order_relaxed);
    if (atomic_load_explicit(&agent_hot.packets_refused, memory_order_relaxed))
        return UINT32_MAX;
    for (uint32_t i = 0; i < end && i < view->packet_count; i++) {
        uint64_t state = atomic_load_explicit(&view->states[i], memory_order_relaxed);
        if ((state & 0xff) != AREA_PACKET_UNMADE ||
            !atomic_compare_exchange_strong(&view->states[i], &state, AREA_PACKET_MAKING))
            continue;
        if (sys_call4(SYS_madvise, (long)packet_at(i), (long)view->packet_size, MADV_POPULATE_WRITE, 0) == 0) {
            atomic_store(&view->states[i], AREA_PACKET_TAKEN);
            return i;
        }
        atomic_store(&view->states[i], AREA_PACKET_UNMADE);
        atomic_store_explicit(&agent_hot.packets_refused, true, memory_order_relaxed);
        break;
    }
    return UINT32_MAX;
}

uint32_t record_size(const uint8_t *at, uint64_t left, uint32_t *ret_id)
{
    /* what follows each record's head; of those with bytes of any number, up to and with their size */
    static const uint8_t sizes[RECORD_IDS] = {4, 0, 12, 10, 18, 6, 4, 4, 8, 24, 2, 4, sizeof(struct record_message)};
    const uint32_t with_bytes =
        1u << RECORD_ENTRY_VALUES | 1u << RECORD_EXIT_VALUES | 1u << RECORD_CALLER_VALUES | 1u << RECORD_MARK;
    uint32_t words[2] = {0, 0}, size = RECORD_HEAD;
    if (left < RECORD_HEAD)
        return 0;
    __builtin_memcpy(words, at, left < sizeof words ? RECORD_HEAD : sizeof words);
    uint32_t id = words[0] & 31;
    if (id == RECORD_EXTENDED) {
        id = words[1];
        size = RECORD_EXTENDED_HEAD;
    }
    if (id >= RECORD_IDS || left < size + sizes[id])
        return 0;
    size += sizes[id];
    if (with_bytes >> id & 1) {
        uint16_t more;
        __builtin_memcpy(&more, at + size - sizeof more, sizeof more);
        size += more;
    }
    *ret_id = id;
    return size <= left ? size : 0;
}

/* A call that is going to be overwritten: how often its function was called is known all the same. */
static void call_unkept(const uint8_t *entry)
{
    uint32_t word, slot;
    __builtin_memcpy(&word, entry, sizeof word);
    __builtin_memcpy(&slot, entry + ((word & 31) == RECORD_EXTENDED ? RECORD_EXTENDED_HEAD : RECORD_HEAD), sizeof slot);
    slot = area_entry_slot(&agent_hot.view, slot);
    if (slot <= agent_hot.view.slot_mask)
        area_call_unkept(&agent_hot.slots[slot]);
}

/* Entries and exits in a full packet, of which nothing is written any more. */
static uint64_t packet_calls(const struct packet_head *head)
{
    uint64_t left = head->content_size / 8, count = 0;
    if (left < sizeof *head || left > agent_hot.view.packet_size)
        return 0;
    const uint8_t *at = (const uint8_t *)(head + 1);
    left -= sizeof *head;
    for (uint32_t id, size; (size = record_size(at, left, &id)) != 0;) {
        count += id <= RECORD_LAST_CALL;
        if ((id == RECORD_ENTRY || id == RECORD_ENTRY_VALUES) && count > head->stream)
            call_unkept(at);
        at += size;
        left -= size;
    }
    /* what the monitor has written of it before it was full */
    return count > head->stream ? count - head->stream : 0;
}

/* The packet that was filled first, of those that are full. */
static uint32_t packet_oldest(void)
{
    const struct area_view *view = &agent_hot.view;
    for (unsigned tries = 0; tries < 16; tries++) {
        uint32_t oldest = UINT32_MAX;
        uint64_t oldest_state = UINT64_MAX;
        for (uint32_t i = 0; i < view->packet_count; i++) {
            uint64_t state = atomic_load_explicit(&view->states[i], memory_order_relaxed);
            if ((state & 0xff) == AREA_PACKET_FULL && state < oldest_state) {
                oldest = i;
                oldest_state = state;
            }
        }
        if (oldest == UINT32_MAX)
            return UINT32_MAX;
        if (atomic_compare_exchange_strong_explicit(&view->states[oldest], &oldest_state, AREA_PACKET_TAKEN,
                                                    memory_order_acq_rel, memory_order_relaxed)) {
            struct packet_head *head = packet_at(oldest);
            uint64_t calls = packet_calls(head);
            /* up to here the monitor writes it, should the process be killed */
            *(volatile uint64_t *)&head->content_size = 0;
            atomic_fetch_add_explicit(&agent_hot.area->flight_overwritten_records, calls, memory_order_relaxed);
            atomic_fetch_add_explicit(&agent_hot.area->flight_overwritten, 1, memory_order_relaxed);
            return oldest;
        }
    }
    return UINT32_MAX;
}

/* A wait that ran out. Of those that threads had at the same time one counts: the monitor was too slow once. */
static void note_vain(uint64_t begun_ns, uint64_t now_ns, uint32_t freed)
{
    uint64_t at = atomic_load(&agent_hot.vain_at);
    if (atomic_exchange(&agent_hot.vain_freed, freed) != freed)
        atomic_store(&agent_hot.vain, 0);
    if (begun_ns >= at && atomic_compare_exchange_strong(&agent_hot.vain_at, &at, now_ns))
        atomic_fetch_add(&agent_hot.vain, 1);
}

/* Waits for the monitor to free a packet, no longer than it allows, unless it cannot work, and while it lives. */
static uint32_t packet_wait(struct agent_thread *self)
{
    struct area *area = agent_hot.area;
    uint32_t wait_us = atomic_load_explicit(&area->wait_us, memory_order_relaxed);
    uint64_t begun_ns = agent_now_ns();
    const struct wait_policy *policy = &wait_policies[WAIT_PACKET];
    struct wait_seen seen = {.limit_ns = (uint64_t)wait_us * 1000};
    while (!waits_is_dead(seen.state = agent_monitor_state()) &&
           atomic_load_explicit(&area->on, memory_order_relaxed)) {
        uint32_t freed = atomic_load(&area->freed);
        uint32_t index = packet_free();
        if (index != UINT32_MAX)
            return index;
        agent_ring();
        seen.passed_ns = agent_now_ns() - begun_ns;
        if (waits_judge(policy, &seen) != WAIT_ON) {
            note_vain(begun_ns, begun_ns + seen.passed_ns, freed);
            break;
        } /* where there is no monitor, nobody has waited, and the next one is soon there */
        agent_sleep_on(&area->freed, freed, waits_slice_ns(policy, &seen));
    }
    atomic_fetch_add_explicit(&area->waits_ran_out, 1, memory_order_relaxed);
    self->waited = true;
    return UINT32_MAX;
}

/* Is it useless to wait until something is freed? Else each of millions of records would wait. */
static bool waits_in_vain(uint32_t freed)
{
    return atomic_load_explicit(&agent_hot.vain, memory_order_relaxed) >= VAIN_MOST &&
           atomic_load_explicit(&agent_hot.vain_freed, memory_order_relaxed) == freed;
}

static uint32_t packet_take(struct agent_thread *self)
{
    struct area *area = agent_hot.area;
    uint32_t policy = atomic_load_explicit(&area->policy, memory_order_relaxed);
    uint32_t freed = atomic_load(&area->freed);
    bool in_vain = policy == AREA_WAIT && waits_in_vain(freed);
    self->waited = in_vain;
    /* Looking through a full pool is not for every single record. */
    if ((policy == AREA_DROP || in_vain) && self->no_room && freed == self->freed_seen &&
        self->no_room % RESCAN_EVERY) {
        self->no_room++;
        return UINT32_MAX;
    }
    uint32_t index = packet_free();
    if (index == UINT32_MAX)
        index = packet_make();
    if (index == UINT32_MAX && policy == AREA_FLIGHT)
        index = packet_oldest();
    if (index == UINT32_MAX && policy == AREA_WAIT && !in_vain)
        index = packet_wait(self);
    if (index == UINT32_MAX) {
        self->freed_seen = freed;
        self->no_room = self->no_room ? self->no_room + 1 : 1;
        if (policy != AREA_FLIGHT)
            agent_ring();
        return UINT32_MAX;
    }
    self->no_room = 0;
    self->waited = false;
    return index;
}

/* The packet that record_retire was about to give away when it was left for good: if that is still to be done. */
static void retire_again(struct agent_thread *self)
{
    uint32_t index = self->retiring - 1;
    const struct packet_head *head = packet_at(index);
    uint64_t taken = AREA_PACKET_TAKEN;
    /* who frees a packet wipes its size first */
    if (head->content_size && head->packet_seq == self->packet_seq && head->thread_serial == self->block->serial) {
        uint64_t order = atomic_fetch_add_explicit(&agent_hot.area->packet_order, 1, memory_order_release);
        atomic_compare_exchange_strong(&agent_hot.view.states[index], &taken, order << 8 | AREA_PACKET_FULL);
    }
    self->retiring = 0;
}

void record_retire(struct agent_thread *self)
{
    struct area_thread *block = self->block;
    uint32_t index = atomic_load_explicit(&block->packet, memory_order_relaxed);
    if (index >= agent_hot.view.packet_count) {
        if (self->retiring)
            retire_again(self);
        return;
    }
    /* from here on there is no room for signal handlers */
    atomic_store_explicit(&block->end, 0, memory_order_relaxed);
    agent_signal_fence();
    if (self->levels)
        recover_levels(self, 0);
    struct packet_head *head = packet_at(index);
    uint64_t start = agent_hot.view.packets_at + (uint64_t)index * agent_hot.view.packet_size;
    uint64_t cursor = atomic_load_explicit(&block->cursor, memory_order_relaxed);
    head->content_size = cursor > start && cursor - start <= agent_hot.view.packet_size ? (cursor - start) * 8 : 0;
    /* that of a handler's record is overwritten by the hook it interrupted, which had read its time before */
    uint64_t last = atomic_load_explicit(&block->last_time, memory_order_relaxed);
    head->time_end = last > self->nested_last ? last : self->nested_last;
    head->events_discarded = atomic_load_explicit(&block->discarded, memory_order_relaxed);
    self->retiring = index + 1;
    agent_signal_fence();
    atomic_store_explicit(&block->packet, UINT32_MAX, memory_order_release);
    uint64_t order = atomic_fetch_add_explicit(&agent_hot.area->packet_order, 1, memory_order_release);
    atomic_store_explicit(&agent_hot.view.states[index], order << 8 | AREA_PACKET_FULL, memory_order_release);
    agent_signal_fence();
    self->retiring = 0;
    uint32_t full = atomic_fetch_add_explicit(&agent_hot.area->full_packets, 1, memory_order_relaxed) + 1;
    uint32_t quarter = agent_hot.view.packet_count / 4, each = quarter < RING_MOST ? quarter : RING_MOST;
    if (each && full % each == 0) /* 0: as in packet_free */
        agent_ring();
}

/* ---- functions that are recorded at more than it is worth ---- */

enum {
    THIN_FUNCTIONS = 64, /* that a packet is looked at for */
    THIN_DEPTH = 64,
    THIN_LEAST = 16,                              /* calls, to judge by */
    THIN_RATE = 100000,                           /* calls a second of one function of one thread, */
    THIN_RATE_ALL = 500000,                       /* and of all together: then those that have a hundredth of them */
    THIN_PACKETS = 16,                            /* so many are recorded in any case, see THIN_AFTER_MS */
    THIN_RECORDS = RECORD_HEAD + 4 + RECORD_HEAD, /* bytes of a call's */
    THIN_BYTES = THIN_LEAST * (RECORD_HEAD + 4),  /* of so many calls' entries */
};

struct thin {
    uint32_t count, depth; /* of functions, of stack */
    struct thin_function {
        uint32_t slot, calls;
        uint64_t own_ticks;
    } functions[THIN_FUNCTIONS];
    uint8_t stack[THIN_DEPTH]; /* indexes of functions; THIN_FUNCTIONS: another one */
    uint32_t told[THIN_FUNCTIONS], told_count;
};

static uint8_t thin_find(struct thin *thin, uint32_t slot)
{
    for (uint32_t i = 0; i < thin->count; i++)
        if (thin->functions[i].slot == slot)
            return (uint8_t)i;
    if (thin->count == THIN_FUNCTIONS)
        return THIN_FUNCTIONS;
    thin->functions[thin->count] = (struct thin_function){.slot = slot};
    return (uint8_t)thin->count++;
}

/* Calls and own times in the packet. What is open when it begins is not known; what lies deeper than THIN_DEPTH is the
 * last of those. */
static void thin_look(struct thin *thin, const struct packet_head *head, uint64_t size)
{
    const uint8_t *at = (const uint8_t *)(head + 1);
    uint32_t last = (uint32_t)head->time_begin, deeper = 0;
    const uint32_t mask = (UINT32_C(1) << RECORD_TIME_BITS) - 1;
    thin->count = thin->depth = thin->told_count = 0;
    for (uint32_t id, bytes, word; (bytes = record_size(at, size, &id)) != 0; at += bytes, size -= bytes) {
        __builtin_memcpy(&word, at, sizeof word);
        bool extended = (word & 31) == RECORD_EXTENDED;
        uint32_t time = word >> (32 - RECORD_TIME_BITS), passed = (time - last) & mask;
        uint8_t top = thin->depth ? thin->stack[thin->depth - 1] : THIN_FUNCTIONS;
        if (top < THIN_FUNCTIONS)
            thin->functions[top].own_ticks += extended ? mask : passed;
        last = time;
        if (id == RECORD_ENTRY || id == RECORD_ENTRY_VALUES) {
            uint32_t place;
            __builtin_memcpy(&place, at + (extended ? RECORD_EXTENDED_HEAD : RECORD_HEAD), sizeof place);
            uint8_t index = thin_find(thin, area_entry_slot(&agent_hot.view, place));
            if (index < THIN_FUNCTIONS)
                thin->functions[index].calls++;
            if (thin->depth < THIN_DEPTH)
                thin->stack[thin->depth++] = index;
            else
                deeper++;
        } else if (id == RECORD_EXIT || id == RECORD_EXIT_OF || id == RECORD_EXIT_VALUES) {
            if (deeper)
                deeper--;
            else if (thin->depth)
                thin->depth--;
        } else if (id == RECORD_UNWOUND || id == RECORD_STACK || id == RECORD_LOST) {
            thin->depth = deeper = 0;
        }
    }
}

/* false: another thread has done it, or its calls are of use for something else. */
static bool thin_one(struct area_slot *slot)
{
    uint32_t mode = atomic_load(&slot->mode);
    if (!(mode & AREA_RECORD) || mode & (AREA_COUNT | AREA_RATED) ||
        mpi_function_is(atomic_load_explicit(&slot->function, memory_order_relaxed)))
        return false;
    uint32_t acts = mode & (AREA_ACT_ENTER | AREA_ACT_EXIT) ? mode & ~(uint32_t)(AREA_RECORD | AREA_CALLER) : 0;
    return atomic_compare_exchange_strong(&slot->mode, &mode, acts | AREA_TALLY);
}

/* The thread's packet is full. Which functions fill it, is it soon, and does each call tell so little that its number
 * tells as much? Those leave no records any more, so that what is left to record costs the program little. Calls of MPI
 * are all recorded: a packet of nothing else is not looked through, which takes a fifth of the time to fill it. */
static void thin_judge(struct agent_thread *self, uint64_t now)
{
    uint32_t index = atomic_load_explicit(&self->block->packet, memory_order_relaxed);
    uint64_t second = atomic_load_explicit(&agent_hot.area->ticks_per_second, memory_order_relaxed);
    if (index >= agent_hot.view.packet_count || !second || self->levels)
        return;
    const struct packet_head *head = packet_at(index);
    uint64_t start = agent_hot.view.packets_at + (uint64_t)index * agent_hot.view.packet_size + sizeof *head;
    uint64_t cursor = atomic_load_explicit(&self->block->cursor, memory_order_relaxed);
    uint64_t ticks = now > head->time_begin ? now - head->time_begin : 1;
    uint64_t first = 0;
    if (atomic_compare_exchange_strong(&agent_hot.first_packet, &first, head->time_begin))
        first = head->time_begin;
    if (atomic_load_explicit(&agent_hot.area->full_packets, memory_order_relaxed) < THIN_PACKETS &&
        now - first < second / 1000 * THIN_AFTER_MS)
        return;
    if (cursor <= start || cursor - start > agent_hot.view.packet_size - sizeof *head ||
        cursor - start < self->mpi_bytes + THIN_BYTES || (cursor - start) / THIN_RECORDS * second < ticks * THIN_RATE ||
        !stack_room(&self->store->thin, sizeof(struct thin)))
        return;
    struct thin *thin = (struct thin *)(void *)self->store->thin.at;
    thin_look(thin, head, cursor - start);
    uint64_t all = 0;
    for (uint32_t i = 0; i < thin->count; i++)
        all += thin->functions[i].calls;
    uint64_t least = all * second > ticks * THIN_RATE_ALL ? all / 100 : ticks * THIN_RATE / second;
    for (uint32_t i = 0; i < thin->count; i++) {
        const struct thin_function *function = &thin->functions[i];
        if (function->calls >= THIN_LEAST && function->calls >= least && function->slot <= agent_hot.view.slot_mask &&
            function->own_ticks < function->calls * (THIN_OWN_NS * (second / 1000000) / 1000) &&
            thin_one(&agent_hot.slots[function->slot])) {
            atomic_fetch_add_explicit(&agent_hot.area->tallies, 1, memory_order_relaxed);
            thin->told[thin->told_count++] = function->slot;
        }
    }
}

/* In the next packet it is said where that begins. */
static void thin_tell(struct agent_thread *self, uint64_t now)
{
    struct thin *thin = (struct thin *)(void *)self->store->thin.at;
    for (uint32_t i = 0; thin && i < thin->told_count; i++)
        record_try(self, GUARD_OUTER, RECORD_THINNED, now, &thin->told[i], sizeof thin->told[i], NULL, 0);
    if (thin)
        thin->told_count = 0;
}

/* Calls that ended while there was no room: the first thing in the next packet. */
static bool lost_put(struct agent_thread *self, uint64_t now)
{
    uint32_t lost = lost_count(self);
    if (!lost)
        return true;
    lost_clear(self, LOST_TOLD);
    self->telling = lost;
    agent_signal_fence();
    bool put = record_try(self, GUARD_OUTER, RECORD_LOST, now, &lost, sizeof lost, NULL, 0) != 0;
    if (put) {
        lost_add(self, LOST_TOLD - lost * LOST_ONE);
        atomic_store_explicit(&self->block->lost_exits, lost_count(self), memory_order_relaxed);
    }
    agent_signal_fence();
    self->telling = 0;
    agent_signal_fence();
    return put;
}

static bool packet_next(struct agent_thread *self, uint64_t now)
{
    struct area_thread *block = self->block;
    if (atomic_load_explicit(&agent_hot.area->thin, memory_order_relaxed))
        thin_judge(self, now);
    record_retire(self);
    /* only from here on do handlers that come write nothing: what they have written in the packet before is not later
     */
    uint64_t last = atomic_load_explicit(&block->last_time, memory_order_relaxed);
    now = now < last ? last : now;
    now = now < self->nested_last ? self->nested_last : now;
    uint32_t index = packet_take(self);
    if (index == UINT32_MAX)
        return false;
    struct packet_head *head = packet_at(index);
    self->packet_seq = self->next_seq++;
    self->mpi_bytes = 0;
    self->told_stack = block->stack_id;
    self->nested_for = 0;
    *head = (struct packet_head){
        .magic = PACKET_MAGIC,
        .time_begin = now,
        .time_end = now,
        .packet_size = (uint64_t)agent_hot.view.packet_size * 8,
        .content_size = sizeof *head * 8,
        .events_discarded = atomic_load_explicit(&block->discarded, memory_order_relaxed),
        .packet_seq = self->packet_seq,
        .tid = (uint32_t)self->tid,
        .depth = stack_recorded(self) + lost_count(self) + self->ending,
        .stack = block->stack_id,
        .thread_serial = block->serial,
    };
    uint64_t start = agent_hot.view.packets_at + (uint64_t)index * agent_hot.view.packet_size;
    atomic_store_explicit(&block->last_time, now, memory_order_relaxed);
    atomic_store_explicit(&block->cursor, start + sizeof *head, memory_order_release);
    atomic_store_explicit(&block->packet, index, memory_order_release);
    agent_signal_fence();
    atomic_store_explicit(&block->end, start + agent_hot.view.packet_size, memory_order_release);
    if (!lost_put(self, now))
        return false;
    if (atomic_load_explicit(&agent_hot.area->thin, memory_order_relaxed))
        thin_tell(self, now);
    return true;
}

/* ---- records ---- */

static void put_bytes(uint8_t **at, const void *bytes, size_t size)
{
    uint8_t *to = *at;
    const uint8_t *from = bytes;
    *at += size;
    if (size > 128) {
        raw_copy(to, from, size);
        return;
    }
    for (; size >= 8; size -= 8, to += 8, from += 8)
        __builtin_memcpy(to, from, 8);
    for (; size >= 4; size -= 4, to += 4, from += 4)
        __builtin_memcpy(to, from, 4);
    while (size--)
        *to++ = *from++;
}

size_t record_head(uint64_t at, uint32_t id, uint64_t now, bool extended)
{
    uint8_t *to = agent_hot.view.base + at;
    uint32_t low = (uint32_t)(now << (32 - RECORD_TIME_BITS));
    if (!extended) {
        uint32_t word = low | id;
        __builtin_memcpy(to, &word, sizeof word);
        return RECORD_HEAD;
    }
    uint32_t words[2] = {low | RECORD_EXTENDED, id};
    __builtin_memcpy(to, words, sizeof words);
    __builtin_memcpy(to + sizeof words, &now, sizeof now);
    return RECORD_EXTENDED_HEAD;
}

/* false: a handler's record was there already. */
static bool record_begin(struct agent_thread *self, enum guard guard, uint32_t id, uint64_t cursor, size_t size,
                         uint64_t last)
{
    struct area_thread *block = self->block;
    if (guard == GUARD_OUTER)
        return hole_begin(self, id, cursor, size, last);
    struct agent_level *level = &self->store->levels[guard - 1];
    level->at = 0;
    agent_signal_fence();
    level->reserved = false;
    level->size = size;
    level->before = last;
    level->id = id;
    level->upper = 0;
    agent_signal_fence();
    if (atomic_load_explicit(&block->cursor, memory_order_relaxed) != cursor)
        return false;
    agent_signal_fence();
    level->at = cursor;
    agent_signal_fence();
    return true;
}

/* A record of two parts; `caller`: of one more before it. */
struct parts {
    uint32_t id;
    const void *caller, *head, *body;
    size_t caller_size, head_size, body_size;
};

/* Into the current packet; 0: no room there. */
static uint64_t parts_try(struct agent_thread *self, enum guard guard, uint64_t time, const struct parts *parts)
{
    struct area_thread *block = self->block;
    if (guard != GUARD_STUCK && self->levels > (uint32_t)guard)
        recover_levels(self, (uint32_t)guard);
    for (;;) {
        uint64_t cursor = atomic_load_explicit(&block->cursor, memory_order_relaxed);
        uint64_t end = atomic_load_explicit(&block->end, memory_order_relaxed);
        agent_signal_fence();
        uint64_t now = time ? time : agent_ticks();
        uint64_t last = atomic_load_explicit(&block->last_time, memory_order_relaxed);
        /* counters of two processors may differ a little: never back */
        if (now < last)
            now = last;
        bool extended = now - last >= UINT64_C(1) << RECORD_TIME_BITS;
        size_t size = parts->head_size + parts->body_size + (extended ? RECORD_EXTENDED_HEAD : RECORD_HEAD);
        if (parts->caller_size)
            size += parts->caller_size + RECORD_HEAD;
        if (end < cursor + size)
            return 0;
        if (!record_begin(self, guard, parts->id, cursor, size, last) ||
            !cursor_move(&block->cursor, cursor, cursor + size))
            continue;
        if (guard != GUARD_OUTER) {
            self->store->levels[guard - 1].reserved = true;
            level_reserved(self, guard, cursor);
        }
        uint64_t at = cursor;
        if (parts->caller_size) {
            at += record_head(at, RECORD_CALLER_VALUES, now, extended);
            uint8_t *values = agent_hot.view.base + at;
            put_bytes(&values, parts->caller, parts->caller_size);
            at += parts->caller_size;
            extended = false;
        }
        uint8_t *to = agent_hot.view.base + at + record_head(at, parts->id, now, extended);
        put_bytes(&to, parts->head, parts->head_size);
        put_bytes(&to, parts->body, parts->body_size);
        agent_signal_fence();
        atomic_store_explicit(&block->last_time, now, memory_order_relaxed);
        if (guard != GUARD_OUTER)
            self->nested_last = now;
        return now;
    }
}

uint64_t record_try(struct agent_thread *self, enum guard guard, uint32_t id, uint64_t time, const void *head,
                    size_t head_size, const void *body, size_t body_size)
{
    const struct parts parts = {.id = id, .head = head, .body = body, .head_size = head_size, .body_size = body_size};
    return parts_try(self, guard, time, &parts);
}

static uint64_t parts_put(struct agent_thread *self, enum guard guard, uint64_t time, const struct parts *parts)
{
    const uint32_t id = parts->id;
    for (;;) {
        uint64_t done = parts_try(self, guard, time, parts);
        if (done)
            return done;
        if (guard != GUARD_OUTER || !packet_next(self, time ? time : agent_ticks())) {
            if (id <= RECORD_LAST_CALL || id == RECORD_MESSAGE)
                record_discarded(self, waited_in_vain(self, guard));
            return 0;
        }
    }
}

uint64_t record_put(struct agent_thread *self, enum guard guard, uint32_t id, uint64_t time, const void *head,
                    size_t head_size, const void *body, size_t body_size)
{
    const struct parts parts = {.id = id, .head = head, .body = body, .head_size = head_size, .body_size = body_size};
    return parts_put(self, guard, time, &parts);
}

uint64_t record_put_entry(struct agent_thread *self, enum guard guard, uint64_t time, const struct record_entry *entry)
{
    struct parts parts = {.id = entry->values_size ? RECORD_ENTRY_VALUES : RECORD_ENTRY,
                          .caller = entry->caller,
                          .head = &entry->function,
                          .body = entry->values,
                          .caller_size = entry->caller_size,
                          .head_size = sizeof entry->function,
                          .body_size = entry->values_size};
    if (guard != GUARD_OUTER && parts.caller_size) {
        uint64_t done = parts_try(self, guard, time, &parts);
        if (done)
            return done;
        parts.caller_size = 0;
    }
    return parts_put(self, guard, time, &parts);
}

void record_discarded(struct agent_thread *self, bool waited)
{
    if (waited) /* first: it is never less than what is discarded because of it */
        atomic_fetch_add_explicit(&agent_hot.view.area->waits_dropped, 1, memory_order_relaxed);
    agent_add_local(&self->block->discarded, 1);
}

void record_close(struct agent_thread *self)
{
    struct area_thread *block = self->block;
    if (atomic_load_explicit(&block->end, memory_order_relaxed))
        atomic_store_explicit(&block->end, atomic_load_explicit(&block->cursor, memory_order_relaxed),
                              memory_order_relaxed);
}
