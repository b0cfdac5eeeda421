/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is mapped into a process, and the names of its functions. Indexes (symbols/index/index.h) are shared by all
 * processes; those that are not in the cache are built by scry-symbols meanwhile, and names that came before them are
 * corrected.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/trace/trace.h"
#include "monitor/recorder/agent.h"
#include "shm/mpi_told.h"
#include "symbols/index/names.h"

/* ---- indexes ---- */

static struct shared_index *shared_get(struct agents *agents, const char *key)
{
    struct shared_index *shared;
    HASH_FIND_STR(agents->indexes, key, shared);
    if (!shared) {
        shared = calloc(1, sizeof *shared);
        if (!shared)
            return NULL;
        snprintf(shared->key, sizeof shared->key, "%s", key);
        HASH_ADD_STR(agents->indexes, key, shared);
    }
    shared->users++;
    return shared;
}

static void shared_put(struct agents *agents, struct shared_index *shared)
{
    if (!shared || --shared->users || shared->building)
        return;
    HASH_DELETE(hh, agents->indexes, shared);
    index_close(shared->index);
    free(shared);
}

void agents_indexes_free(struct agents *agents)
{
    struct shared_index *shared, *next;
    HASH_ITER(hh, agents->indexes, shared, next)
    {
        HASH_DELETE(hh, agents->indexes, shared);
        index_close(shared->index);
        free(shared);
    }
}

/* Indexes that one run of the helper builds. */
struct index_build {
    struct agents *agents;
    size_t count;
    struct built {
        char key[INDEX_KEY_SIZE];
        char *file;
        bool answered;
    } all[];
};

static struct shared_index *built_find(struct index_build *build, const struct helper_answer *answer)
{
    struct shared_index *shared = NULL;
    for (size_t i = 0; i < build->count && !shared; i++) {
        if (strcmp(build->all[i].file, answer->file) != 0)
            continue;
        build->all[i].answered = true;
        HASH_FIND_STR(build->agents->indexes, build->all[i].key, shared);
    }
    return shared;
}

static void build_missing(struct agent *agent);

static void indexes_came(struct agents *agents)
{
    agents->collecting++;
    for (struct agent *agent = agents->list, *next; agent; agent = next) {
        next = agent->next;
        if (!agent->view.area)
            continue;
        if (!agent->ended)
            build_missing(agent);
        agent_names_again(agent);
        agent_indexed(agent);
    }
    agents->collecting--;
    collect_soon(agents);
}

static void index_answer(void *ctx, const struct helper_answer *answer)
{
    struct index_build *build = ctx;
    struct shared_index *shared = answer ? built_find(build, answer) : NULL;
    struct err err = {0};
    if (shared && !shared->index && (answer->kind == HELPER_OK || answer->kind == HELPER_MEMORY)) {
        int code = answer->kind == HELPER_OK ? index_open_key(&shared->index, answer->key, &err)
                                             : index_open_file(&shared->index, answer->path, answer->key, &err);
        if (code < 0) {
            shared->index = NULL;
            snprintf(shared->problem, sizeof shared->problem, "%.*s", (int)sizeof shared->problem - 1, err.text);
        }
    } else if (shared && answer->kind == HELPER_FAILED) {
        snprintf(shared->problem, sizeof shared->problem, "%.*s", (int)sizeof shared->problem - 1, answer->text);
    }
    if (answer)
        return;
    struct agents *agents = build->agents;
    bool ended_early = agents->helper_missing; /* by the first file without an answer: the others are asked for again */
    for (size_t i = 0; i < build->count; i++) {
        HASH_FIND_STR(agents->indexes, build->all[i].key, shared);
        if (shared) {
            shared->building = false;
            shared->failed = !shared->index && (build->all[i].answered || agents->helper_missing || !ended_early);
            if (shared->failed && !build->all[i].answered) {
                ended_early = true;
                if (!*shared->problem)
                    snprintf(shared->problem, sizeof shared->problem, "scry-symbols did not come to its end");
            }
            shared->users++;
            shared_put(agents, shared); /* goes if nobody waits any more */
        }
        free(build->all[i].file);
    }
    free(build);
    indexes_came(agents);
}

/* Those of the agent's modules that are neither open nor being built. */
static void build_missing(struct agent *agent)
{
    struct agents *agents = agent->agents;
    struct index_build *build = calloc(1, sizeof *build + agent->mapped->count * sizeof build->all[0]);
    const char **files = calloc(agent->mapped->count + 1, sizeof *files);
    if (!build || !files)
        goto out;
    build->agents = agents;
    for (size_t i = 0; i < agent->mapped->count; i++) {
        struct shared_index *shared = agent->mapped->indexes[i];
        if (!shared || shared->index || shared->failed || shared->building || !*agent->mapped->modules[i].path)
            continue;
        char *file = strdup(agent->mapped->modules[i].path);
        if (!file)
            break;
        memcpy(build->all[build->count].key, shared->key, sizeof shared->key);
        build->all[build->count].file = file;
        files[build->count++] = file;
        shared->building = true;
    }
    if (build->count && helper_start(agents, "index", files, build->count, NULL, index_answer, build)) {
        build = NULL; /* is the helper's now */
    } else if (build->count) {
        for (size_t i = 0; i < build->count; i++) {
            struct shared_index *shared;
            HASH_FIND_STR(agents->indexes, build->all[i].key, shared);
            if (shared) {
                shared->building = false;
                shared->failed = true;
            }
            free(build->all[i].file);
        }
    }
out:
    free(build);
    free(files);
}

bool agent_indexes_ready(const struct agent *agent)
{
    for (size_t i = 0; i < agent->mapped->count; i++)
        if (agent->mapped->indexes[i] && agent->mapped->indexes[i]->building)
            return false;
    return true;
}

/* Whether functions of a module call the hooks. (The C library defines hooks, too, but does not call them.) */
bool agent_module_hooked(const struct agent *agent, size_t module)
{
    const struct index *index = agent->mapped->indexes[module] ? agent->mapped->indexes[module]->index : NULL;
    unsigned hooks = INDEX_HAS_HOOKS | (agent->mapped->modules[module].is_program ? INDEX_OWN_HOOKS : 0u);
    return index && index_count(index) && (index_flags(index) & hooks);
}

/* ---- modules ---- */

/*
 * Libraries that were unloaded, and which library a slot's function is of. What is mapped is read now and then;
 * the program opens and closes libraries meanwhile, and tells of the latter (agent/hooks/modules.c). A reading is good
 * for a slot if between it and the slot nothing was closed at its address: else the function may be another library's,
 * and then it has no name rather than a wrong one. A library that comes back to where it was finds its slots and
 * captures as they were.
 */

#define CLOSES_UNKNOWN UINT32_MAX
struct unloaded_module {
    uint64_t start, end, bias;
    uint32_t seen; /* how many libraries had been closed when it was there */
    struct shared_index *shared;
    char name[256], *path; /* path: NULL if there was no memory */
};

struct slot_module { /* that a slot's function is of */
    const char *name, *path, *key;
    uint64_t bias;
    struct shared_index *shared;
    const struct module *module; /* NULL: it is not mapped any more */
};

struct modules_reading {
    struct module *modules;
    struct shared_index **indexes;
    uint32_t *modules_seen; /* room for them */
    size_t count;
    uint32_t seen; /* how many had been closed when this was read, or CLOSES_UNKNOWN */
};

enum { UNLOADED_LIMIT = 256 };

struct unloaded_sites { /* of one library at one address */
    char key[INDEX_KEY_SIZE];
    uint64_t bias;
    size_t count;
    struct unloaded_sites *next;
    struct area_site sites[];
};

bool agent_modules_new(struct agent *agent)
{
    return (agent->mapped = calloc(1, sizeof *agent->mapped)) != NULL;
}

static void modules_drop(struct agent *agent)
{
    for (size_t i = 0; i < agent->mapped->count; i++)
        shared_put(agent->agents, agent->mapped->indexes[i]);
    free(agent->mapped->indexes);
    free(agent->mapped->modules);
    free(agent->mapped->seen);
    agent->mapped->indexes = NULL;
    agent->mapped->modules = NULL;
    agent->mapped->seen = NULL;
    agent->mapped->count = 0;
}

void agent_module_write(struct agent *agent, const struct module *module)
{
    if (agent->writer && *module->key && !module_is_agent(module))
        trace_writer_module(agent->writer, module->start, module->end, module->bias, module->key);
}

static bool module_same(const struct module *one, const struct module *other)
{
    return one->bias == other->bias && one->start == other->start && strcmp(one->key, other->key) == 0 &&
           strcmp(one->name, other->name) == 0;
}

static const struct module *module_same_in(const struct module *modules, size_t count, const struct module *wanted)
{
    for (size_t i = 0; i < count; i++)
        if (module_same(&modules[i], wanted))
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

static bool reading_is_good(const struct area *area, const struct known_address *at, uint32_t seen)
{
    uint32_t last = at->born ? at->born - 1 : atomic_load(&area->closes);
    if (seen == CLOSES_UNKNOWN || at->closed >= AREA_CLOSED_SEEN || (at->closed && at->closed <= seen))
        return false;
    return !closed_between(area, at->address, at->address + 1, seen, last);
}

static struct known_address known_of_slot(const struct area_slot *slot)
{
    return (struct known_address){area_slot_address(slot), atomic_load(&slot->born), atomic_load(&slot->closed)};
}

static bool address_module(const struct agent *agent, const struct known_address *at, struct slot_module *ret_module)
{
    uint64_t address = at->address;
    const struct module *module = module_find(agent->mapped->modules, agent->mapped->count, address);
    size_t i = module ? (size_t)(module - agent->mapped->modules) : 0;
    if (module && reading_is_good(agent->view.area, at, agent->mapped->seen[i])) {
        *ret_module = (struct slot_module){
            module->name, module->path, module->key, module->bias, agent->mapped->indexes[i], module};
        return true;
    }
    for (size_t k = 0; k < agent->mapped->unloaded_count; k++) {
        const struct unloaded_module *unloaded = &agent->mapped->unloaded[k];
        if (address < unloaded->start || address >= unloaded->end ||
            !reading_is_good(agent->view.area, at, unloaded->seen))
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

/* false: it is not known for certain. */
static bool slot_module_find(const struct agent *agent, uint32_t slot, struct slot_module *ret_module)
{
    struct known_address at = known_of_slot(&agent->view.slots[slot]);
    return address_module(agent, &at, ret_module);
}

/* The module_same of an address by which a place is known: where it is called from, or the hook there. */
static bool place_module_find(const struct agent *agent, uint32_t place, uint64_t address,
                              struct slot_module *ret_module)
{
    const struct area_place *of = &agent->view.places[place];
    struct known_address at = {address, atomic_load(&of->born), atomic_load(&of->closed)};
    return address_module(agent, &at, ret_module);
}

/* ---- a reading takes the place of the one before ---- */

static void unloaded_add(struct agent *agent, size_t i)
{
    const struct module *module = &agent->mapped->modules[i];
    if (!agent->mapped->unloaded &&
        !(agent->mapped->unloaded = calloc(UNLOADED_LIMIT, sizeof *agent->mapped->unloaded)))
        return;
    if (agent->mapped->unloaded_count == UNLOADED_LIMIT) { /* what was called there has its names by now */
        shared_put(agent->agents, agent->mapped->unloaded[0].shared);
        free(agent->mapped->unloaded[0].path);
        memmove(agent->mapped->unloaded, agent->mapped->unloaded + 1,
                --agent->mapped->unloaded_count * sizeof *agent->mapped->unloaded);
    }
    struct unloaded_module *unloaded = &agent->mapped->unloaded[agent->mapped->unloaded_count++];
    *unloaded = (struct unloaded_module){.start = module->start,
                                         .end = module->end,
                                         .bias = module->bias,
                                         .seen = agent->mapped->seen[i],
                                         .shared = agent->mapped->indexes[i],
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
        all->next = agent->mapped->unloaded_sites;
        agent->mapped->unloaded_sites = all;
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
    for (struct unloaded_sites **at = &agent->mapped->unloaded_sites, *all; (all = *at);) {
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

static bool module_has(const struct module *module, uint64_t address)
{
    return address >= module->start && address < module->end;
}

/* Slots and places of a library that has gone without dlclose having been called where the agent hears of it. */
static void close_unheard(struct agent *agent, const struct module *module, uint32_t seen)
{
    for (uint32_t i = 0; i <= agent->view.slot_mask; i++) {
        struct area_slot *slot = &agent->view.slots[i];
        uint64_t function = area_slot_live(slot);
        struct known_address at = known_of_slot(slot);
        uint32_t none = 0;
        if (function < module->start || function >= module->end || !reading_is_good(agent->view.area, &at, seen))
            continue;
        atomic_compare_exchange_strong(&slot->closed, &none, AREA_CLOSED_SEEN);
        atomic_compare_exchange_strong(&slot->function, &function, function | AREA_CLOSED);
    }
    for (uint32_t i = 0; i < agent->view.place_end; i++) {
        struct area_place *place = &agent->view.places[i];
        uint64_t callsite = atomic_load(&place->callsite), hook = atomic_load(&place->hook);
        struct known_address at = {module_has(module, callsite) ? callsite : hook, atomic_load(&place->born),
                                   atomic_load(&place->closed)};
        uint32_t none = 0;
        if (!module_has(module, at.address) || (callsite & AREA_CLOSED) ||
            !reading_is_good(agent->view.area, &at, seen))
            continue;
        atomic_compare_exchange_strong(&place->closed, &none, AREA_CLOSED_SEEN);
        atomic_compare_exchange_strong(&place->callsite, &callsite, callsite | AREA_CLOSED);
    }
}

/* Whether what was closed is there again, as far as this address of the place says. */
static bool place_is_back(const struct agent *agent, uint32_t at, uint64_t address, uint32_t seen)
{
    const struct module *now = module_find(agent->mapped->modules, agent->mapped->count, address);
    const struct area *area = agent->view.area;
    uint32_t closed = atomic_load(&agent->view.places[at].closed);
    struct slot_module was;
    if (closed >= AREA_CLOSED_SEEN || atomic_load(&area->closes) - closed >= AREA_CLOSINGS)
        return false;
    const _Atomic uint64_t *range = area->closings[closed % AREA_CLOSINGS];
    if (address < atomic_load(&range[0]) || address >= atomic_load(&range[1]))
        return true; /* it is of what was not closed */
    return now && *now->key && agent->mapped->seen[now - agent->mapped->modules] == seen &&
           place_module_find(agent, at, address, &was) && was.bias == now->bias && strcmp(was.key, now->key) == 0;
}

/* As slots_open, of places. */
static void places_open(struct agent *agent, uint32_t seen)
{
    struct area *area = agent->view.area;
    for (uint32_t i = 0; i < agent->view.place_end; i++) {
        struct area_place *place = &agent->view.places[i];
        uint64_t was = atomic_load(&place->callsite), callsite = was & ~AREA_CLOSED;
        if (callsite == was || !place_is_back(agent, i, callsite, seen) ||
            !place_is_back(agent, i, atomic_load(&place->hook), seen))
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
        const struct module *now = module_find(agent->mapped->modules, agent->mapped->count, address);
        if (!now || !*now->key || agent->mapped->seen[now - agent->mapped->modules] != seen ||
            !slot_module_find(agent, i, &was) || was.bias != now->bias || strcmp(was.key, now->key) != 0 ||
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

/* The key of this build-id. */
static bool key_is_of(const char *key, const char *build_id)
{
    size_t len = strlen(build_id);
    return len && strncmp(key, build_id, len) == 0 && key[len] == '-';
}

/* Before what is known is replaced: a module whose file was replaced on disk, or cannot be read at this moment, keeps
 * its key, if its build-id in memory is what it was. Its path stays "": the new file is none to compile captures from.
 */
static void modules_keep_known(const struct agent *agent, const struct modules_reading *reading)
{
    for (size_t i = 0; i < reading->count; i++) {
        struct module *module = &reading->modules[i];
        const struct module *before =
            *module->key ? NULL : module_find(agent->mapped->modules, agent->mapped->count, module->start);
        if (!before || before->start != module->start || before->bias != module->bias ||
            strcmp(before->name, module->name) != 0 || !key_is_of(before->key, module->loaded))
            continue;
        memcpy(module->key, before->key, sizeof module->key);
        module->problem[0] = 0;
    }
}

static void modules_replace(struct agent *agent, const struct modules_reading *reading)
{
    bool sure = reading->seen != CLOSES_UNKNOWN, back = false;
    for (size_t i = 0; i < agent->mapped->count; i++) {
        const struct module *module = &agent->mapped->modules[i];
        if (!*module->key)
            continue;
        if (module_same_in(reading->modules, reading->count, module)) {
            bool closed =
                sure && agent->mapped->seen[i] != CLOSES_UNKNOWN &&
                closed_between(agent->view.area, module->start, module->end, agent->mapped->seen[i], reading->seen);
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
            close_unheard(agent, module, agent->mapped->seen[i]);
    }
    for (size_t i = 0; i < reading->count; i++) {
        const struct module *before =
            module_same_in(agent->mapped->modules, agent->mapped->count, &reading->modules[i]);
        bool came = !before && agent->mapped->count;
        if (!before)
            agent_module_write(agent, &reading->modules[i]);
        reading->modules_seen[i] =
            sure || !before ? reading->seen : agent->mapped->seen[before - agent->mapped->modules];
        if (came)
            sites_restore(agent, &reading->modules[i]);
        back |= came;
    }
    modules_drop(agent);
    agent->mapped->modules = reading->modules;
    agent->mapped->indexes = reading->indexes;
    agent->mapped->seen = reading->modules_seen;
    agent->mapped->count = reading->count;
    if (back && sure && agent->mapped->unloaded_count) {
        slots_open(agent, reading->seen);
        places_open(agent, reading->seen);
    }
}

static void unloaded_free(struct agent *agent)
{
    for (size_t k = 0; k < agent->mapped->unloaded_count; k++) {
        shared_put(agent->agents, agent->mapped->unloaded[k].shared);
        free(agent->mapped->unloaded[k].path);
    }
    free(agent->mapped->unloaded);
    agent->mapped->unloaded = NULL;
    agent->mapped->unloaded_count = 0;
    while (agent->mapped->unloaded_sites) {
        struct unloaded_sites *next = agent->mapped->unloaded_sites->next;
        free(agent->mapped->unloaded_sites);
        agent->mapped->unloaded_sites = next;
    }
}

/* ---- what is mapped ---- */

void agent_modules_free(struct agent *agent)
{
    modules_drop(agent);
    unloaded_free(agent);
    free(agent->mapped->known);
    free(agent->mapped->named);
    agent->mapped->known = agent->mapped->named = NULL;
}

enum { READINGS = 3 };

/* What is mapped, and how many libraries had been closed then: it is read again when one is closed just now. */
static int read_modules(struct agent *agent, struct modules_reading *ret_reading, struct err *err)
{
    const struct area *area = agent->view.area;
    for (unsigned tries = 1;; tries++) {
        uint32_t closes = area ? atomic_load(&area->closes) : 0;
        bool sure = !area || !atomic_load(&area->closing);
        *ret_reading = (struct modules_reading){0};
        int code = modules_read(agent->pid, &ret_reading->modules, &ret_reading->count, err);
        if (code < 0)
            return code;
        sure = sure && (!area || (!atomic_load(&area->closing) && atomic_load(&area->closes) == closes));
        ret_reading->seen = sure ? closes : CLOSES_UNKNOWN;
        if (sure || tries == READINGS)
            return 0;
        free(ret_reading->modules);
    }
}

int agent_modules_refresh(struct agent *agent)
{
    struct modules_reading reading = {0};
    struct err err = {0};
    int code = read_modules(agent, &reading, &err);
    struct module *modules = reading.modules;
    size_t count = reading.count;
    if (code == -ESRCH)
        return code; /* it has ended meanwhile */
    if (code < 0) {
        agent_set_problem(agent, NOTE(modules_unread, .pid = (uint64_t)agent->pid, .reason = err.text));
        return code;
    }
    if (!count) { /* it is about to end, and its memory has gone already: what is known of it stays */
        free(modules);
        return -ESRCH;
    }
    modules_keep_known(agent, &reading);
    struct shared_index **indexes = calloc(count + 1, sizeof *indexes);
    reading.modules_seen = calloc(count + 1, sizeof *reading.modules_seen);
    if (!indexes || !reading.modules_seen) {
        free(modules);
        free(indexes);
        free(reading.modules_seen);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct shared_index *shared = *modules[i].key ? shared_get(agent->agents, modules[i].key) : NULL;
        indexes[i] = shared;
        if (shared && !shared->index && !shared->building && !shared->failed &&
            index_open_key(&shared->index, shared->key, &err) < 0)
            shared->index = NULL;
    }
    reading.indexes = indexes;
    modules_replace(agent, &reading);
    build_missing(agent);
    agent_names_again(agent); /* of an area that was adopted they were asked for before */
    return 0;
}

bool agent_modules_inherit(struct agent *agent, const struct agent *parent)
{
    if (!parent->mapped->count || parent->mapped->looked != atomic_load(&parent->view.area->modules))
        return false;
    struct module *modules = calloc(parent->mapped->count, sizeof *modules);
    struct shared_index **indexes = calloc(parent->mapped->count + 1, sizeof *indexes);
    uint32_t *seen = calloc(parent->mapped->count + 1, sizeof *seen); /* nothing was closed in it yet */
    if (!modules || !indexes || !seen) {
        free(modules);
        free(indexes);
        free(seen);
        return false;
    }
    memcpy(modules, parent->mapped->modules, parent->mapped->count * sizeof *modules);
    for (size_t i = 0; i < parent->mapped->count; i++) {
        char *pid = NULL; /* files named by way of the parent's namespace are there as long as the parent */
        if (strncmp(modules[i].path, "/proc/", 6) == 0 && strtol(modules[i].path + 6, &pid, 10) == parent->pid && pid) {
            char path[sizeof modules[i].path];
            if (snprintf(path, sizeof path, "/proc/%d%s", agent->pid, pid) < (int)sizeof path)
                memcpy(modules[i].path, path, sizeof path);
        }
        indexes[i] = parent->mapped->indexes[i];
        if (indexes[i])
            indexes[i]->users++;
    }
    modules_drop(agent);
    unloaded_free(agent);
    agent->mapped->modules = modules;
    agent->mapped->indexes = indexes;
    agent->mapped->seen = seen;
    agent->mapped->count = parent->mapped->count;
    return true;
}

/* ---- names ---- */

int agent_names_open(struct agent *agent)
{
    size_t words = agent_known_place(&agent->view, agent->view.place_end) / 64 + 1;
    if (!agent->mapped->known) /* else it was tried before, and the job's directory was not there */
        agent->mapped->known = calloc(words, sizeof *agent->mapped->known);
    if (!agent->mapped->named)
        agent->mapped->named = calloc(words, sizeof *agent->mapped->named);
    return agent->mapped->known && agent->mapped->named ? 0 : -ENOMEM;
}

uint64_t *agent_known(const struct agent *agent)
{
    return agent->mapped->known;
}

void agent_named(struct agent *agent, uint32_t slot)
{
    agent->mapped->named[slot >> 6] |= UINT64_C(1) << (slot & 63);
}

bool agent_names_lack(const struct agent *agent)
{
    return agent->mapped->unnamed;
}

static const struct module *module_at(const struct agent *agent, uint64_t address, struct shared_index **ret_index)
{
    const struct module *module = module_find(agent->mapped->modules, agent->mapped->count, address);
    *ret_index = module ? agent->mapped->indexes[module - agent->mapped->modules] : NULL;
    return module;
}

static bool slot_address(const struct agent *agent, uint32_t slot, uint64_t *ret_address)
{
    if (!agent->view.area || slot > agent->view.slot_mask)
        return false;
    *ret_address = area_slot_address(&agent->view.slots[slot]);
    return *ret_address != 0;
}

static void slot_name(struct agent *agent, uint32_t slot)
{
    struct index_function function;
    struct slot_module of = {.name = ""};
    uint64_t address;
    if (!agent->writer || !slot_address(agent, slot, &address) || agent_mpi_name(agent, slot))
        return;
    bool several = atomic_load(&agent->view.slots[slot].closed) == AREA_CLOSED_UNSURE;
    bool found = slot_module_find(agent, slot, &of);
    if (!several && (agent->mapped->named[slot >> 6] >> (slot & 63) & 1))
        return;
    if (found && of.shared && of.shared->index && index_find(of.shared->index, address - of.bias, &function)) {
        trace_writer_function(agent->writer, slot, address, function.name, function.file, function.line, function.size,
                              of.name);
        agent->mapped->named[slot >> 6] |= UINT64_C(1) << (slot & 63);
        return;
    }
    bool closed = !found && !area_slot_live(&agent->view.slots[slot]);
    char name[64];
    snprintf(name, sizeof name, closed ? "0x%" PRIx64 " (library closed)" : "0x%" PRIx64, address);
    trace_writer_function(agent->writer, slot, address, name, "", 0, 0, of.name);
    agent->mapped->unnamed |= !found || (of.shared && of.shared->building);
}

/* A key that is a build-id (symbols/index/index.h), in hexadecimal digits; 0: it is not. */
static int build_id_length(const char *key)
{
    const char *dash = strchr(key, '-');
    return dash && !strchr(dash + 1, '-') ? (int)(dash - key) : 0;
}

/* The hook is in a copy that the compiler made of the function (NAME.constprop.0), which is called as the function is.
 */
static bool is_in_clone(struct agent *agent, uint32_t place, uint64_t hook, const struct index_function *function)
{
    struct slot_module of;
    struct index_function around;
    return place_module_find(agent, place, hook, &of) && of.shared && of.shared->index &&
           index_find(of.shared->index, hook - 1 - of.bias, &around) &&
           span_eq(name_without_clone(span_str(around.linkage)), name_without_clone(span_str(function->linkage)));
}

static void place_name(struct agent *agent, uint32_t place)
{
    struct index_function function;
    struct slot_module of;
    place &= ~RECORD_PLACE;
    uint32_t at = agent_known_place(&agent->view, place);
    if (!agent->writer || place >= agent->view.place_end || (agent->mapped->named[at >> 6] >> (at & 63) & 1))
        return;
    const struct area_place *from = &agent->view.places[place];
    uint32_t slot = atomic_load(&from->slot);
    uint64_t callsite = atomic_load(&from->callsite) & ~AREA_CLOSED, hook = atomic_load(&from->hook), start = 0;
    if (slot > agent->view.slot_mask)
        return;
    /* an inlined function's hook is in its caller, and says where; the return address is that one's */
    bool known = agent_function(agent, slot, &function, &start, NULL);
    bool inlined =
        known && function.size && hook - start >= function.size && !is_in_clone(agent, place, hook, &function);
    bool found = place_module_find(agent, place, inlined ? hook : callsite, &of);
    char key[INDEX_KEY_SIZE];
    snprintf(key, sizeof key, "%.*s", found ? build_id_length(of.key) : 0, found ? of.key : "");
    const struct trace_place line = {
        .function = slot,
        .address = inlined ? hook : callsite,
        .offset = (inlined ? hook : callsite) - (found ? of.bias : 0),
        .module = found && strncmp(of.path, "/proc/", 6) != 0 ? of.path
                  : found                                     ? of.name
                                                              : "",
        .build_id = key,
        .inlined = inlined,
    };
    trace_writer_place(agent->writer, place, &line);
    if (found && known)
        agent->mapped->named[at >> 6] |= UINT64_C(1) << (at & 63);
    else
        agent->mapped->unnamed = true;
}

void agent_name(void *ctx, uint32_t function)
{
    if (function & RECORD_PLACE)
        place_name(ctx, function);
    else
        slot_name(ctx, function);
}

void agent_know(struct agent *agent, uint32_t slot)
{
    uint32_t at = slot & RECORD_PLACE ? agent_known_place(&agent->view, slot) : slot;
    uint64_t bit = UINT64_C(1) << (at & 63);
    if (slot & RECORD_PLACE)
        agent_know(agent, area_entry_slot(&agent->view, slot));
    if (agent->mapped->known[at >> 6] & bit)
        return;
    agent->mapped->known[at >> 6] |= bit;
    agent_name(agent, slot);
}

void agent_names_again(struct agent *agent)
{
    if (!agent->mapped->unnamed || !agent->mapped->known)
        return;
    agent->mapped->unnamed = false;
    for (uint32_t slot = 0; slot <= agent->view.slot_mask; slot++)
        if (agent->mapped->known[slot >> 6] >> (slot & 63) & 1)
            slot_name(agent, slot);
    for (uint32_t place = 0; place < agent->view.place_end; place++) {
        uint32_t at = agent_known_place(&agent->view, place);
        if (agent->mapped->known[at >> 6] >> (at & 63) & 1)
            place_name(agent, place);
    }
    if (agent->writer) /* somebody may be following it */
        trace_writer_sync(agent->writer, true);
}

bool agent_function(struct agent *agent, uint32_t slot, struct index_function *ret_function, uint64_t *ret_address,
                    const struct module **ret_module)
{
    struct slot_module of;
    uint64_t address;
    if (ret_module)
        *ret_module = NULL;
    if (agent_mpi_function(agent, slot, ret_function, ret_address))
        return true;
    if (!slot_address(agent, slot, &address))
        return false;
    if (ret_address)
        *ret_address = address;
    if (!slot_module_find(agent, slot, &of))
        return false;
    if (ret_module)
        *ret_module = of.module;
    return of.shared && of.shared->index && index_find(of.shared->index, address - of.bias, ret_function);
}

bool agent_name_address(void *ctx, uint64_t address, struct buf *out)
{
    struct agent *agent = ctx;
    struct index_function function;
    struct shared_index *shared = NULL;
    const struct module *module = module_at(agent, address, &shared);
    if (!module || !shared || !shared->index || !index_find(shared->index, address - module->bias, &function))
        return false;
    buf_puts(out, function.name);
    return true;
}

int agent_functions(struct agent *agent, const char *text,
                    bool (*fn)(void *ctx, const struct module *module, const struct index_function *function),
                    void *ctx, struct err *err)
{
    struct selection *selection;
    int code = selection_parse(&selection, text, err);
    if (code < 0)
        return code;
    bool goes_on = agent_indexes_ready(agent);
    if (!goes_on)
        code = err_set(err, -EAGAIN, "the symbols of pid %d are being read: ask again in a moment", agent->pid);
    for (size_t i = 0; goes_on && i < agent->mapped->count; i++) {
        if (module_is_agent(&agent->mapped->modules[i]))
            continue; /* no part of the program */
        const struct index *index = agent->mapped->indexes[i] ? agent->mapped->indexes[i]->index : NULL;
        _cleanup_(freep) size_t *few = NULL;
        size_t count = index ? index_count(index) : 0;
        bool all = !index || !selection_candidates(selection, index, &few, &count);
        for (size_t k = 0; goes_on && k < count; k++) {
            struct index_function function;
            index_at(index, all ? k : few[k], &function);
            if (selection_matches(selection, &agent->mapped->modules[i], &function))
                goes_on = fn(ctx, &agent->mapped->modules[i], &function);
        }
    }
    selection_free(selection);
    return code;
}
