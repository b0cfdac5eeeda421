/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks/closing.h"

#include "agent/hooks/agent.h"
#include "agent/system/imports.h"
#include "agent/system/world.h"
#include "shm/waits.h"

#include <link.h>
#include <stddef.h>
#include <sys/mman.h>

enum { SPARE = 16 };

struct closing_object {
    uint64_t name, start, end;
    bool gone, replaced;
};

static _Atomic int32_t closer; /* the thread whose dlclose is under way; one of several */
static _Atomic uint32_t marking;

static void object_fill(const struct dl_phdr_info *info, struct closing_object *ret_object)
{
    *ret_object = (struct closing_object){.name = agent_object_name(info), .start = UINT64_MAX, .gone = true};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD)
            continue;
        ret_object->start = start < ret_object->start ? start : ret_object->start;
        ret_object->end = start + part->p_memsz > ret_object->end ? start + part->p_memsz : ret_object->end;
    }
}

static int count_objects(struct dl_phdr_info *info, size_t size, void *ctx)
{
    ++*(uint32_t *)ctx;
    return 0;
}

static int note(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct closing *closing = ctx;
    if (closing->count < closing->cap && agent_object_imports_hooks(info))
        object_fill(info, &closing->objects[closing->count++]);
    return 0;
}

static int compare(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct closing *closing = ctx;
    struct closing_object now;
    object_fill(info, &now);
    for (uint32_t i = 0; i < closing->count; i++) {
        struct closing_object *object = &closing->objects[i];
        if (object->start == now.start && object->name == now.name)
            object->gone = false;
        else if (object->start < now.end && now.start < object->end)
            object->replaced = true;
    }
    return 0;
}

void closing_begin(struct closing *ret_closing)
{
    struct area *area = agent_hot.area;
    uint32_t count = 0;
    *ret_closing = (struct closing){0};
    if (!area)
        return;
    dl_iterate_phdr(count_objects, &count);
    count += SPARE;
    long at = sys_call6(SYS_mmap, 0, (long)(count * sizeof *ret_closing->objects), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0 && at > -4096)
        return;
    *ret_closing = (struct closing){.objects = (struct closing_object *)at, .cap = count};
    dl_iterate_phdr(note, ret_closing);
    atomic_fetch_add(&area->closing, 1);
    atomic_store(&closer, (int32_t)sys_call0(SYS_gettid));
}

static bool is_in(const struct closing_object *object, uint64_t address)
{
    return address >= object->start && address < object->end;
}

/* First its number: a slot that is made from here on is not taken for one of the library's. */
static void close_slots(struct area *area, const struct closing_object *object)
{
    uint32_t number = atomic_load(&area->closes) + 1;
    _Atomic uint64_t *range = area->closings[number % AREA_CLOSINGS];
    atomic_store(&range[0], object->start);
    atomic_store(&range[1], object->end);
    atomic_store(&area->closes, number);
    for (uint32_t i = 0; i < agent_hot.view.place_end; i++) {
        struct area_place *place = &agent_hot.view.places[i];
        uint64_t callsite = atomic_load_explicit(&place->callsite, memory_order_relaxed);
        if (!is_in(object, callsite) && !is_in(object, atomic_load_explicit(&place->hook, memory_order_relaxed)))
            continue;
        atomic_store(&place->closed, object->replaced ? AREA_CLOSED_UNSURE : number);
        atomic_compare_exchange_strong(&place->callsite, &callsite, callsite | AREA_CLOSED);
    }
    for (uint32_t i = 0; i <= agent_hot.slot_mask; i++) {
        struct area_slot *slot = &agent_hot.slots[i];
        uint64_t function = atomic_load_explicit(&slot->function, memory_order_relaxed);
        if (!is_in(object, function))
            continue;
        atomic_store(&slot->closed, object->replaced ? AREA_CLOSED_UNSURE : number);
        atomic_compare_exchange_strong(&slot->function, &function, function | AREA_CLOSED);
    }
    for (uint32_t i = 0; i < AGENT_QUIET; i++)
        if (is_in(object, atomic_load_explicit(&agent_hot.quiet[i].function, memory_order_relaxed)))
            atomic_store(&agent_hot.quiet[i].function, 0);
}

void closing_end(struct closing *closing)
{
    struct area *area = agent_hot.area;
    if (!closing->objects)
        return;
    if (area) {
        dl_iterate_phdr(compare, closing);
        while (atomic_exchange(&marking, 1))
            sys_call0(SYS_sched_yield);
        for (uint32_t i = 0; i < closing->count; i++)
            if (closing->objects[i].gone)
                close_slots(area, &closing->objects[i]);
        atomic_store(&marking, 0);
        /* of the area of a parent that was forked meanwhile, nothing is known here */
        uint32_t under_way = atomic_load(&area->closing);
        while (under_way && !atomic_compare_exchange_weak(&area->closing, &under_way, under_way - 1))
            continue;
    }
    atomic_store(&closer, 0);
    sys_call2(SYS_munmap, (long)closing->objects, (long)(closing->cap * sizeof *closing->objects));
}

void closing_wait(void)
{
    int32_t who = atomic_load(&closer);
    if (!who || who == (int32_t)sys_call0(SYS_gettid))
        return;
    for (uint64_t end = agent_now_ms() + AGENT_CLOSING_MS; atomic_load(&closer) == who && agent_now_ms() < end;)
        sys_call0(SYS_sched_yield);
}
