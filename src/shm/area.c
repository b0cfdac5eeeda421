/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/area.h"

#include "shm/record.h"

enum { PROGRAMS_START = 64 /* offset 0 means none */, SLOTS_MIN = 1024, PACKETS_LIMIT = 1 << 20, HEAD_ROOM = 80 };

_Static_assert(sizeof(struct packet_head) == HEAD_ROOM, "a packet has room for its head");

static uint64_t whole_pages(uint64_t size)
{
    return (size + AREA_PAGE - 1) & ~(uint64_t)(AREA_PAGE - 1);
}

/* Largest power of two that is not above `count`, within the limits. */
static uint32_t table_size(uint32_t count)
{
    uint32_t size = SLOTS_MIN;
    while (size < AREA_SLOTS && size * 2 <= count)
        size *= 2;
    return size;
}

/* Where things lie follows from the counts alone. */
static void lay_out(struct area *area)
{
    uint64_t at = 2 * AREA_PAGE; /* struct area_forks is the second */
    area->filter_at = at;
    at += AREA_FILTER;
    area->slots_at = at;
    at += (uint64_t)area->slot_count * sizeof(struct area_slot);
    area->places_at = at;
    at = whole_pages(at + ((uint64_t)area->slot_count + AREA_PLACE_PROBES - 1) * sizeof(struct area_place));
    area->sites_at = at;
    at = whole_pages(at + (uint64_t)area->site_count * sizeof(struct area_site));
    area->programs_at = at;
    at += area->programs_size;
    area->threads_at = at;
    at += (uint64_t)area->thread_count * AREA_THREAD_SIZE;
    area->states_at = at;
    at = whole_pages(at + (uint64_t)area->packet_count * sizeof(uint64_t));
    area->packets_at = at;
    area->size = at + (uint64_t)area->packet_count * area->packet_size;
}

uint64_t area_plan(struct area *ret_header, uint64_t buffer_bytes, uint32_t slots, uint32_t threads)
{
    uint64_t packets = (buffer_bytes < AREA_BUFFER_MIN ? AREA_BUFFER_MIN : buffer_bytes) / AREA_PACKET_SIZE;
    *ret_header = (struct area){
        .magic = AREA_MAGIC,
        .version = AREA_VERSION,
        .header_size = sizeof(struct area),
        .slot_count = table_size(slots),
        .site_count = table_size(slots),
        .thread_count = threads < 1              ? 1
                        : threads > AREA_THREADS ? AREA_THREADS
                                                 : threads,
        .packet_size = AREA_PACKET_SIZE,
        .packet_count = (uint32_t)(packets > PACKETS_LIMIT ? PACKETS_LIMIT : packets),
        .programs_size = AREA_PROGRAMS,
    };
    atomic_init(&ret_header->programs_used, PROGRAMS_START);
    lay_out(ret_header);
    return ret_header->size;
}

uint64_t area_plan_within(struct area *ret_header, uint64_t most)
{
    if (most < AREA_SMALLEST)
        most = AREA_SMALLEST;
    uint32_t slots = most / 16 / sizeof(struct area_slot) > AREA_SLOTS
                         ? AREA_SLOTS
                         : (uint32_t)(most / 16 / sizeof(struct area_slot));
    uint64_t programs = whole_pages(most / 8);
    area_plan(ret_header, most / 2, slots,
              (uint32_t)(most / 8 / AREA_THREAD_SIZE < AREA_THREADS ? most / 8 / AREA_THREAD_SIZE : AREA_THREADS));
    ret_header->programs_size = programs < AREA_PROGRAMS_MIN ? AREA_PROGRAMS_MIN
                                : programs > AREA_PROGRAMS   ? AREA_PROGRAMS
                                                             : programs;
    lay_out(ret_header);
    return ret_header->size;
}

static bool power_of_two(uint32_t count)
{
    return count && !(count & (count - 1));
}

static bool counts_fit(const struct area *area)
{
    return area->slot_count >= SLOTS_MIN && area->slot_count <= AREA_SLOTS && power_of_two(area->slot_count) &&
           area->site_count >= SLOTS_MIN && area->site_count <= AREA_SITES && power_of_two(area->site_count) &&
           area->thread_count >= 1 && area->thread_count <= AREA_THREADS && area->packet_size == AREA_PACKET_SIZE &&
           area->packet_count >= 1 && area->packet_count <= PACKETS_LIMIT && area->programs_size >= AREA_PROGRAMS_MIN &&
           area->programs_size <= AREA_PROGRAMS && area->programs_size % AREA_PAGE == 0;
}

bool area_take(struct area_view *ret_view, void *base, uint64_t size)
{
    if (!base || (uintptr_t)base % AREA_PAGE || size < AREA_PAGE)
        return false;
    /* The other side may write there at any time: what was checked is what is used. */
    volatile struct area *shared = base;
    struct area own = {
        .magic = shared->magic,
        .version = shared->version,
        .header_size = shared->header_size,
        .slot_count = shared->slot_count,
        .site_count = shared->site_count,
        .thread_count = shared->thread_count,
        .packet_size = shared->packet_size,
        .packet_count = shared->packet_count,
        .programs_size = shared->programs_size,
    };
    if (own.magic != AREA_MAGIC || own.version != AREA_VERSION || own.header_size != sizeof(struct area) ||
        !counts_fit(&own))
        return false;
    lay_out(&own);
    if (own.size != size || shared->size != size || shared->filter_at != own.filter_at ||
        shared->slots_at != own.slots_at || shared->places_at != own.places_at || shared->sites_at != own.sites_at ||
        shared->programs_at != own.programs_at || shared->threads_at != own.threads_at ||
        shared->states_at != own.states_at || shared->packets_at != own.packets_at)
        return false;

    uint8_t *bytes = base;
    *ret_view = (struct area_view){
        .area = base,
        .base = bytes,
        .forks = (struct area_forks *)(void *)(bytes + AREA_PAGE),
        .filter = bytes + own.filter_at,
        .slots = (struct area_slot *)(void *)(bytes + own.slots_at),
        .places = (struct area_place *)(void *)(bytes + own.places_at),
        .sites = (struct area_site *)(void *)(bytes + own.sites_at),
        .programs = bytes + own.programs_at,
        .threads = bytes + own.threads_at,
        .states = (_Atomic uint64_t *)(void *)(bytes + own.states_at),
        .slot_mask = own.slot_count - 1,
        .place_mask = own.slot_count - 1,
        .place_end = own.slot_count + AREA_PLACE_PROBES - 1,
        .site_mask = own.site_count - 1,
        .thread_count = own.thread_count,
        .packet_size = own.packet_size,
        .packet_count = own.packet_count,
        .programs_size = own.programs_size,
        .packets_at = own.packets_at,
        .size = own.size,
    };
    return true;
}

/* Both tables begin an entry with its key. Entries are never taken out, so a free one ends the search, and of two that
 * insert the same key at once the second finds the first's. */
static _Atomic uint64_t *entry_find(uint8_t *table, uint32_t mask, size_t entry_size, uint64_t key, bool insert)
{
    if (!key)
        return NULL;
    uint32_t index = area_hash(key) & mask;
    for (unsigned probe = 0; probe < AREA_PROBES; probe++, index = (index + 1) & mask) {
        _Atomic uint64_t *entry = (_Atomic uint64_t *)(void *)(table + (size_t)index * entry_size);
        uint64_t found = atomic_load_explicit(entry, memory_order_acquire);
        if (found == key)
            return entry;
        if (found)
            continue;
        if (!insert)
            return NULL;
        if (atomic_compare_exchange_strong_explicit(entry, &found, key, memory_order_acq_rel, memory_order_acquire) ||
            found == key)
            return entry;
    }
    return NULL;
}

struct area_slot *area_slot_find(const struct area_view *view, uint64_t function, bool insert)
{
    struct area_slot *slot = (struct area_slot *)(void *)entry_find((uint8_t *)view->slots, view->slot_mask,
                                                                    sizeof(struct area_slot), function, insert);
    if (insert && slot && !atomic_load_explicit(&slot->born, memory_order_relaxed)) {
        uint32_t none = 0;
        atomic_compare_exchange_strong(&slot->born, &none, atomic_load(&view->area->closes) + 1);
    }
    return slot;
}

struct area_site *area_site_find(const struct area_view *view, uint64_t address, bool insert)
{
    return (struct area_site *)(void *)entry_find((uint8_t *)view->sites, view->site_mask, sizeof(struct area_site),
                                                  address, insert);
}

struct area_place *area_place_find(const struct area_view *view, uint64_t callsite, uint64_t hook, uint32_t slot)
{
    struct area_place *place = &view->places[area_hash(callsite + hook) & view->place_mask];
    for (unsigned probe = 0; callsite && hook && probe < AREA_PLACE_PROBES; probe++, place++) {
        uint64_t found = atomic_load_explicit(&place->callsite, memory_order_relaxed);
        if (!found && atomic_compare_exchange_strong(&place->callsite, &found, callsite)) {
            atomic_store(&place->slot, slot);
            atomic_store(&place->born, atomic_load(&view->area->closes) + 1);
            atomic_store_explicit(&place->hook, hook, memory_order_release);
            return place;
        }
        if (found == callsite && atomic_load_explicit(&place->hook, memory_order_acquire) == hook &&
            atomic_load_explicit(&place->slot, memory_order_relaxed) == slot)
            return place;
    }
    return NULL;
}

uint32_t area_entry_slot(const struct area_view *view, uint32_t word)
{
    if (!(word & RECORD_PLACE))
        return word;
    word &= ~RECORD_PLACE;
    return word < view->place_end ? atomic_load_explicit(&view->places[word].slot, memory_order_relaxed) : UINT32_MAX;
}

void area_counts_sum(const struct area_view *view, uint32_t threads, struct area_calls *ret_sums)
{
    for (uint32_t slot = 0; slot <= view->slot_mask; slot++) {
        uint64_t thinned = atomic_load_explicit(&view->slots[slot].thinned, memory_order_relaxed);
        ret_sums[slot] = (struct area_calls){atomic_load_explicit(&view->slots[slot].calls, memory_order_relaxed),
                                             atomic_load_explicit(&view->slots[slot].ticks, memory_order_relaxed),
                                             thinned & ~AREA_AT_LEAST, (thinned & AREA_AT_LEAST) != 0};
    }
    for (uint32_t i = 0; i < threads && i < view->thread_count; i++) {
        const struct area_thread *block = area_thread_at(view, i);
        const struct area_count *counts = area_counts_of(block);
        bool free = atomic_load_explicit(&block->state, memory_order_acquire) == AREA_THREAD_FREE;
        for (uint32_t k = 0; !free && k < AREA_COUNTS; k++) {
            uint32_t slot = atomic_load_explicit(&counts[k].slot, memory_order_relaxed) - 1;
            if (slot > view->slot_mask)
                continue;
            ret_sums[slot].calls += atomic_load_explicit(&counts[k].calls, memory_order_relaxed);
            ret_sums[slot].ticks += atomic_load_explicit(&counts[k].ticks, memory_order_relaxed);
            ret_sums[slot].thinned += atomic_load_explicit(&counts[k].thinned, memory_order_relaxed);
        }
    }
}

void area_counts_move(const struct area_view *view, struct area_thread *block)
{
    struct area_count *counts = area_counts_of(block);
    for (uint32_t k = 0; k < AREA_COUNTS; k++) {
        uint32_t slot = atomic_load_explicit(&counts[k].slot, memory_order_relaxed) - 1;
        if (slot > view->slot_mask)
            continue;
        atomic_fetch_add_explicit(&view->slots[slot].calls, counts[k].calls, memory_order_relaxed);
        atomic_fetch_add_explicit(&view->slots[slot].ticks, counts[k].ticks, memory_order_relaxed);
        atomic_fetch_add_explicit(&view->slots[slot].thinned, counts[k].thinned, memory_order_relaxed);
        counts[k].calls = counts[k].ticks = counts[k].thinned = 0;
        atomic_store_explicit(&counts[k].slot, 0, memory_order_relaxed);
    }
}
