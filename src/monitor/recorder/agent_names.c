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
#include "base/system/log.h"
#include "jobdir/trace/trace.h"
#include "monitor/recorder/agent_mpi.h"
#include "monitor/recorder/agents_internal.h"
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

void agent_index_put(struct agents *agents, struct shared_index *shared)
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
struct build {
    struct agents *agents;
    size_t count;
    struct built {
        char key[INDEX_KEY_SIZE];
        char *file;
        bool answered;
    } all[];
};

static struct shared_index *built_find(struct build *build, const struct helper_answer *answer)
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
    struct build *build = ctx;
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
            agent_index_put(agents, shared); /* goes if nobody waits any more */
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
    struct build *build = calloc(1, sizeof *build + agent->module_count * sizeof build->all[0]);
    const char **files = calloc(agent->module_count + 1, sizeof *files);
    if (!build || !files)
        goto out;
    build->agents = agents;
    for (size_t i = 0; i < agent->module_count; i++) {
        struct shared_index *shared = agent->indexes[i];
        if (!shared || shared->index || shared->failed || shared->building || !*agent->modules[i].path)
            continue;
        char *file = strdup(agent->modules[i].path);
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
    for (size_t i = 0; i < agent->module_count; i++)
        if (agent->indexes[i] && agent->indexes[i]->building)
            return false;
    return true;
}

/* Whether functions of a module call the hooks. (The C library defines hooks, too, but does not call them.) */
bool agent_module_hooked(const struct agent *agent, size_t module)
{
    const struct index *index = agent->indexes[module] ? agent->indexes[module]->index : NULL;
    unsigned hooks = INDEX_HAS_HOOKS | (agent->modules[module].is_program ? INDEX_OWN_HOOKS : 0u);
    return index && index_count(index) && (index_flags(index) & hooks);
}

/* ---- modules ---- */

void agent_modules_drop(struct agent *agent)
{
    for (size_t i = 0; i < agent->module_count; i++)
        agent_index_put(agent->agents, agent->indexes[i]);
    free(agent->indexes);
    free(agent->modules);
    free(agent->modules_seen);
    agent->indexes = NULL;
    agent->modules = NULL;
    agent->modules_seen = NULL;
    agent->module_count = 0;
}

void agent_modules_free(struct agent *agent)
{
    agent_modules_drop(agent);
    agent_unloaded_free(agent);
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
    agent_modules_keep_known(agent, &reading);
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
    agent_modules_replace(agent, &reading);
    build_missing(agent);
    agent_names_again(agent); /* of an area that was adopted they were asked for before */
    return 0;
}

bool agent_modules_inherit(struct agent *agent, const struct agent *parent)
{
    if (!parent->module_count || parent->modules_looked != atomic_load(&parent->view.area->modules))
        return false;
    struct module *modules = calloc(parent->module_count, sizeof *modules);
    struct shared_index **indexes = calloc(parent->module_count + 1, sizeof *indexes);
    uint32_t *seen = calloc(parent->module_count + 1, sizeof *seen); /* nothing was closed in it yet */
    if (!modules || !indexes || !seen) {
        free(modules);
        free(indexes);
        free(seen);
        return false;
    }
    memcpy(modules, parent->modules, parent->module_count * sizeof *modules);
    for (size_t i = 0; i < parent->module_count; i++) {
        char *pid = NULL; /* files named by way of the parent's namespace are there as long as the parent */
        if (strncmp(modules[i].path, "/proc/", 6) == 0 && strtol(modules[i].path + 6, &pid, 10) == parent->pid && pid) {
            char path[sizeof modules[i].path];
            if (snprintf(path, sizeof path, "/proc/%d%s", agent->pid, pid) < (int)sizeof path)
                memcpy(modules[i].path, path, sizeof path);
        }
        indexes[i] = parent->indexes[i];
        if (indexes[i])
            indexes[i]->users++;
    }
    agent_modules_free(agent);
    agent->modules = modules;
    agent->indexes = indexes;
    agent->modules_seen = seen;
    agent->module_count = parent->module_count;
    return true;
}

/* ---- names ---- */

static const struct module *find_module(const struct agent *agent, uint64_t address, struct shared_index **ret_index)
{
    const struct module *module = module_find(agent->modules, agent->module_count, address);
    *ret_index = module ? agent->indexes[module - agent->modules] : NULL;
    return module;
}

static bool slot_address(const struct agent *agent, uint32_t slot, uint64_t *ret_address)
{
    if (!agent->view.area || slot > agent->view.slot_mask)
        return false;
    *ret_address = area_slot_address(&agent->view.slots[slot]);
    return *ret_address != 0;
}

void agent_name_slot(struct agent *agent, uint32_t slot)
{
    struct index_function function;
    struct slot_module of = {.name = ""};
    uint64_t address;
    if (!agent->writer || !slot_address(agent, slot, &address) || agent_mpi_name(agent, slot))
        return;
    bool several = atomic_load(&agent->view.slots[slot].closed) == AREA_CLOSED_UNSURE;
    bool found = agent_slot_module(agent, slot, &of);
    if (!several && (agent->named[slot >> 6] >> (slot & 63) & 1))
        return;
    if (found && of.shared && of.shared->index && index_find(of.shared->index, address - of.bias, &function)) {
        trace_writer_function(agent->writer, slot, address, function.name, function.file, function.line, function.size,
                              of.name);
        agent->named[slot >> 6] |= UINT64_C(1) << (slot & 63);
        return;
    }
    bool closed = !found && !area_slot_live(&agent->view.slots[slot]);
    char name[64];
    snprintf(name, sizeof name, closed ? "0x%" PRIx64 " (library closed)" : "0x%" PRIx64, address);
    trace_writer_function(agent->writer, slot, address, name, "", 0, 0, of.name);
    agent->unnamed |= !found || (of.shared && of.shared->building);
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
    return agent_place_module(agent, place, hook, &of) && of.shared && of.shared->index &&
           index_find(of.shared->index, hook - 1 - of.bias, &around) &&
           span_eq(name_without_clone(span_str(around.linkage)), name_without_clone(span_str(function->linkage)));
}

void agent_name_place(struct agent *agent, uint32_t place)
{
    struct index_function function;
    struct slot_module of;
    place &= ~RECORD_PLACE;
    uint32_t at = agent_known_place(&agent->view, place);
    if (!agent->writer || place >= agent->view.place_end || (agent->named[at >> 6] >> (at & 63) & 1))
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
    bool found = agent_place_module(agent, place, inlined ? hook : callsite, &of);
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
        agent->named[at >> 6] |= UINT64_C(1) << (at & 63);
    else
        agent->unnamed = true;
}

void agent_names_again(struct agent *agent)
{
    if (!agent->unnamed || !agent->known)
        return;
    agent->unnamed = false;
    for (uint32_t slot = 0; slot <= agent->view.slot_mask; slot++)
        if (agent->known[slot >> 6] >> (slot & 63) & 1)
            agent_name_slot(agent, slot);
    for (uint32_t place = 0; place < agent->view.place_end; place++) {
        uint32_t at = agent_known_place(&agent->view, place);
        if (agent->known[at >> 6] >> (at & 63) & 1)
            agent_name_place(agent, place);
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
    if (!agent_slot_module(agent, slot, &of))
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
    const struct module *module = find_module(agent, address, &shared);
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
    for (size_t i = 0; goes_on && i < agent->module_count; i++) {
        if (module_is_agent(&agent->modules[i]))
            continue; /* no part of the program */
        const struct index *index = agent->indexes[i] ? agent->indexes[i]->index : NULL;
        _cleanup_(freep) size_t *few = NULL;
        size_t count = index ? index_count(index) : 0;
        bool all = !index || !selection_candidates(selection, index, &few, &count);
        for (size_t k = 0; goes_on && k < count; k++) {
            struct index_function function;
            index_at(index, all ? k : few[k], &function);
            if (selection_matches(selection, &agent->modules[i], &function))
                goes_on = fn(ctx, &agent->modules[i], &function);
        }
    }
    selection_free(selection);
    return code;
}
