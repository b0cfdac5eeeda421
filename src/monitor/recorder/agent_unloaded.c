/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that were unloaded, and which library a slot's function is of. What is mapped is read now and then;
 * the program opens and closes libraries meanwhile, and tells of the latter (agent/hooks/closing.h). A reading is good
 * for a slot if between it and the slot nothing was closed at its address: else the function may be another library's,
 * and then it has no name rather than a wrong one. A library that comes back to where it was finds its slots and
 * captures as they were.
 */
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "monitor/recorder/agents_internal.h"
#include "shm/mpi_told.h"

enum { UNLOADED_LIMIT = 256 };

struct unloaded_sites { /* of one library at one address */
    char key[INDEX_KEY_SIZE];
    uint64_t bias;
    size_t count;
    struct unloaded_sites *next;
    struct area_site sites[];
};

static bool same(const struct module *one, const struct module *other)
{
    return one->bias == other->bias && one->start == other->start && strcmp(one->key, other->key) == 0 &&
           strcmp(one->name, other->name) == 0;
}

static const struct module *same_in(const struct module *modules, size_t count, const struct module *wanted)
{
    for (size_t i = 0; i < count; i++)
        if (same(&modules[i], wanted))
            return &modules[i];
    return NULL;
}

/* ---- which library a slot's function is of ---- */

/* Whether a library there was closed after `seen` closings, up to the one with the number `last`. */
static bool closed_between(const struct area *area, uint64_t start, uint64_t end, uint32_t seen, uint32_t last)
{
    if (last <= seen)
        return false;
    if (atomic_load(&area->closes) - seen >= AREA_CLOSINGS)
        return true;
    for (uint32_t n = seen + 1; n <= last; n++) {
        const _Atomic uint64_t *range = area->closings[n % AREA_CLOSINGS];
        if (start < atomic_load(&range[1]) && atomic_load(&range[0]) < end)
            return true;
    }
    return false;
}

/* An address by which a slot or a place is known. */
struct known_address {
    uint64_t address;
    uint32_t born, closed; /* of that */
};

static bool is_good(const struct area *area, const struct known_address *at, uint32_t seen)
{
    uint32_t last = at->born ? at->born - 1 : atomic_load(&area->closes);
    if (seen == CLOSES_UNKNOWN || at->closed >= AREA_CLOSED_SEEN || (at->closed && at->closed <= seen))
        return false;
    return !closed_between(area, at->address, at->address + 1, seen, last);
}

static struct known_address of_slot(const struct area_slot *slot)
{
    return (struct known_address){area_slot_address(slot), atomic_load(&slot->born), atomic_load(&slot->closed)};
}

static bool module_of(const struct agent *agent, const struct known_address *at, struct slot_module *ret_module)
{
    uint64_t address = at->address;
    const struct module *module = module_find(agent->modules, agent->module_count, address);
    size_t i = module ? (size_t)(module - agent->modules) : 0;
    if (module && is_good(agent->view.area, at, agent->modules_seen[i])) {
        *ret_module =
            (struct slot_module){module->name, module->path, module->key, module->bias, agent->indexes[i], module};
        return true;
    }
    for (size_t k = 0; k < agent->unloaded_count; k++) {
        const struct unloaded_module *unloaded = &agent->unloaded[k];
        if (address < unloaded->start || address >= unloaded->end || !is_good(agent->view.area, at, unloaded->seen))
            continue;
        *ret_module = (struct slot_module){unloaded->name,
                                           unloaded->path ? unloaded->path : "",
                                           unloaded->shared ? unloaded->shared->key : "",
                                           unloaded->bias,
                                           unloaded->shared,
                                           NULL};
        return true;
    }
    return false;
}

bool agent_slot_module(const struct agent *agent, uint32_t slot, struct slot_module *ret_module)
{
    struct known_address at = of_slot(&agent->view.slots[slot]);
    return module_of(agent, &at, ret_module);
}

bool agent_place_module(const struct agent *agent, uint32_t place, uint64_t address, struct slot_module *ret_module)
{
    const struct area_place *of = &agent->view.places[place];
    struct known_address at = {address, atomic_load(&of->born), atomic_load(&of->closed)};
    return module_of(agent, &at, ret_module);
}

/* ---- a reading takes the place of the one before ---- */

static void unloaded_add(struct agent *agent, size_t i)
{
    const struct module *module = &agent->modules[i];
    if (!agent->unloaded && !(agent->unloaded = calloc(UNLOADED_LIMIT, sizeof *agent->unloaded)))
        return;
    if (agent->unloaded_count == UNLOADED_LIMIT) { /* what was called there has its names by now */
        agent_index_put(agent->agents, agent->unloaded[0].shared);
        free(agent->unloaded[0].path);
        memmove(agent->unloaded, agent->unloaded + 1, --agent->unloaded_count * sizeof *agent->unloaded);
    }
    struct unloaded_module *unloaded = &agent->unloaded[agent->unloaded_count++];
    *unloaded = (struct unloaded_module){.start = module->start,
                                         .end = module->end,
                                         .bias = module->bias,
                                         .seen = agent->modules_seen[i],
                                         .shared = agent->indexes[i],
                                         .path = strdup(module->path)};
    memcpy(unloaded->name, module->name, sizeof unloaded->name);
    if (unloaded->shared)
        unloaded->shared->users++;
}

/* Takes captures out of their places, so that nobody else's values are read with them. */
static void sites_withdraw(struct agent *agent, const struct module *module)
{
    const struct area_view *view = &agent->view;
    size_t count = 0;
    for (uint32_t i = 0; i <= view->site_mask; i++) {
        uint64_t address = atomic_load_explicit(&view->sites[i].address, memory_order_relaxed);
        count += address >= module->start && address < module->end;
    }
    struct unloaded_sites *all = count ? calloc(1, sizeof *all + count * sizeof all->sites[0]) : NULL;
    if (all) {
        memcpy(all->key, module->key, sizeof all->key);
        all->bias = module->bias;
        all->next = agent->unloaded_sites;
        agent->unloaded_sites = all;
    }
    for (uint32_t i = 0; count && i <= view->site_mask; i++) {
        struct area_site *site = &view->sites[i];
        uint64_t address = atomic_load_explicit(&site->address, memory_order_relaxed);
        if (address < module->start || address >= module->end)
            continue;
        if (all && all->count < count)
            memcpy(&all->sites[all->count++], site, sizeof *site);
        agent_site_clear(site);
    }
}

static void sites_restore(struct agent *agent, const struct module *module)
{
    for (struct unloaded_sites **at = &agent->unloaded_sites, *all; (all = *at);) {
        if (all->bias != module->bias || strcmp(all->key, module->key) != 0) {
            at = &all->next;
            continue;
        }
        for (size_t i = 0; i < all->count; i++)
            agent_site_put_back(agent, &all->sites[i]);
        *at = all->next;
        free(all);
    }
}

static bool is_in(const struct module *module, uint64_t address)
{
    return address >= module->start && address < module->end;
}

/* Slots and places of a library that has gone without dlclose having been called where the agent hears of it. */
static void close_unheard(struct agent *agent, const struct module *module, uint32_t seen)
{
    for (uint32_t i = 0; i <= agent->view.slot_mask; i++) {
        struct area_slot *slot = &agent->view.slots[i];
        uint64_t function = area_slot_live(slot);
        struct known_address at = of_slot(slot);
        uint32_t none = 0;
        if (function < module->start || function >= module->end || !is_good(agent->view.area, &at, seen))
            continue;
        atomic_compare_exchange_strong(&slot->closed, &none, AREA_CLOSED_SEEN);
        atomic_compare_exchange_strong(&slot->function, &function, function | AREA_CLOSED);
    }
    for (uint32_t i = 0; i < agent->view.place_end; i++) {
        struct area_place *place = &agent->view.places[i];
        uint64_t callsite = atomic_load(&place->callsite), hook = atomic_load(&place->hook);
        struct known_address at = {is_in(module, callsite) ? callsite : hook, atomic_load(&place->born),
                                   atomic_load(&place->closed)};
        uint32_t none = 0;
        if (!is_in(module, at.address) || (callsite & AREA_CLOSED) || !is_good(agent->view.area, &at, seen))
            continue;
        atomic_compare_exchange_strong(&place->closed, &none, AREA_CLOSED_SEEN);
        atomic_compare_exchange_strong(&place->callsite, &callsite, callsite | AREA_CLOSED);
    }
}

/* Whether what was closed is there again, as far as this address of the place says. */
static bool is_back(const struct agent *agent, uint32_t at, uint64_t address, uint32_t seen)
{
    const struct module *now = module_find(agent->modules, agent->module_count, address);
    const struct area *area = agent->view.area;
    uint32_t closed = atomic_load(&agent->view.places[at].closed);
    struct slot_module was;
    if (closed >= AREA_CLOSED_SEEN || atomic_load(&area->closes) - closed >= AREA_CLOSINGS)
        return false;
    const _Atomic uint64_t *range = area->closings[closed % AREA_CLOSINGS];
    if (address < atomic_load(&range[0]) || address >= atomic_load(&range[1]))
        return true; /* it is of what was not closed */
    return now && *now->key && agent->modules_seen[now - agent->modules] == seen &&
           agent_place_module(agent, at, address, &was) && was.bias == now->bias && strcmp(was.key, now->key) == 0;
}

/* As slots_open, of places. */
static void places_open(struct agent *agent, uint32_t seen)
{
    struct area *area = agent->view.area;
    for (uint32_t i = 0; i < agent->view.place_end; i++) {
        struct area_place *place = &agent->view.places[i];
        uint64_t was = atomic_load(&place->callsite), callsite = was & ~AREA_CLOSED;
        if (callsite == was || !is_back(agent, i, callsite, seen) ||
            !is_back(agent, i, atomic_load(&place->hook), seen))
            continue;
        if (atomic_load(&area->closes) != seen || atomic_load(&area->closing))
            return;
        atomic_store(&place->closed, 0);
        atomic_store(&place->born, seen + 1);
        atomic_compare_exchange_strong(&place->callsite, &was, callsite);
        if (atomic_load(&area->closes) == seen && !atomic_load(&area->closing))
            continue;
        atomic_store(&place->closed, AREA_CLOSED_UNSURE);
        atomic_compare_exchange_strong(&place->callsite, &callsite, callsite | AREA_CLOSED);
        return;
    }
}

/* The slots of libraries that have come back; `seen`: the reading that says so. */
static void slots_open(struct agent *agent, uint32_t seen)
{
    struct area *area = agent->view.area;
    for (uint32_t i = 0; i <= agent->view.slot_mask; i++) {
        struct area_slot *slot = &agent->view.slots[i];
        uint64_t function = atomic_load(&slot->function), address = function & ~AREA_CLOSED;
        struct slot_module was;
        if (!(function & AREA_CLOSED))
            continue;
        const struct module *now = module_find(agent->modules, agent->module_count, address);
        if (!now || !*now->key || agent->modules_seen[now - agent->modules] != seen ||
            !agent_slot_module(agent, i, &was) || was.bias != now->bias || strcmp(was.key, now->key) != 0 ||
            area_slot_find(&agent->view, address, false))
            continue;
        if (atomic_load(&area->closes) != seen || atomic_load(&area->closing))
            return;
        atomic_store(&slot->closed, 0);
        atomic_store(&slot->born, seen + 1);
        atomic_compare_exchange_strong(&slot->function, &function, address);
        if (atomic_load(&area->closes) == seen && !atomic_load(&area->closing))
            continue;
        /* it may have been closed again just then */
        function = address;
        atomic_store(&slot->closed, AREA_CLOSED_UNSURE);
        atomic_compare_exchange_strong(&slot->function, &function, function | AREA_CLOSED);
        return;
    }
}

void agent_module_write(struct agent *agent, const struct module *module)
{
    if (agent->writer && *module->key && !module_is_agent(module))
        trace_writer_module(agent->writer, module->start, module->end, module->bias, module->key);
}

/* The key of this build-id. */
static bool is_of(const char *key, const char *build_id)
{
    size_t len = strlen(build_id);
    return len && strncmp(key, build_id, len) == 0 && key[len] == '-';
}

void agent_modules_keep_known(const struct agent *agent, const struct modules_reading *reading)
{
    for (size_t i = 0; i < reading->count; i++) {
        struct module *module = &reading->modules[i];
        const struct module *before =
            *module->key ? NULL : module_find(agent->modules, agent->module_count, module->start);
        if (!before || before->start != module->start || before->bias != module->bias ||
            strcmp(before->name, module->name) != 0 || !is_of(before->key, module->loaded))
            continue;
        memcpy(module->key, before->key, sizeof module->key);
        module->problem[0] = 0;
    }
}

void agent_modules_replace(struct agent *agent, const struct modules_reading *reading)
{
    bool sure = reading->seen != CLOSES_UNKNOWN, back = false;
    for (size_t i = 0; i < agent->module_count; i++) {
        const struct module *module = &agent->modules[i];
        if (!*module->key)
            continue;
        if (same_in(reading->modules, reading->count, module)) {
            bool closed =
                sure && agent->modules_seen[i] != CLOSES_UNKNOWN &&
                closed_between(agent->view.area, module->start, module->end, agent->modules_seen[i], reading->seen);
            if (closed) /* and opened again */
                unloaded_add(agent, i);
            back |= closed;
            continue;
        }
        unloaded_add(agent, i);
        if (!agent_module_hooked(agent, i))
            continue;
        sites_withdraw(agent, module);
        if (sure)
            close_unheard(agent, module, agent->modules_seen[i]);
    }
    for (size_t i = 0; i < reading->count; i++) {
        const struct module *before = same_in(agent->modules, agent->module_count, &reading->modules[i]);
        bool came = !before && agent->module_count;
        if (!before)
            agent_module_write(agent, &reading->modules[i]);
        reading->modules_seen[i] = sure || !before ? reading->seen : agent->modules_seen[before - agent->modules];
        if (came)
            sites_restore(agent, &reading->modules[i]);
        back |= came;
    }
    agent_modules_drop(agent);
    agent->modules = reading->modules;
    agent->indexes = reading->indexes;
    agent->modules_seen = reading->modules_seen;
    agent->module_count = reading->count;
    if (back && sure && agent->unloaded_count) {
        slots_open(agent, reading->seen);
        places_open(agent, reading->seen);
    }
}

void agent_unloaded_free(struct agent *agent)
{
    for (size_t k = 0; k < agent->unloaded_count; k++) {
        agent_index_put(agent->agents, agent->unloaded[k].shared);
        free(agent->unloaded[k].path);
    }
    free(agent->unloaded);
    agent->unloaded = NULL;
    agent->unloaded_count = 0;
    while (agent->unloaded_sites) {
        struct unloaded_sites *next = agent->unloaded_sites->next;
        free(agent->unloaded_sites);
        agent->unloaded_sites = next;
    }
}
