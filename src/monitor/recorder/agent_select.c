/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From settings to switches, slots and filter bytes. Everything compiled into the program itself, without values, is
 * had by the agent alone: functions get their mode when they are first called. Any other selection needs the indexes of
 * what is mapped: then the chosen functions get their slots before main goes on. Changes come in the order that keeps
 * entries and exits paired: modes before the filter lets calls through; when a function goes, its exits still pass.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "monitor/recorder/agent.h"
#include "monitor/engine/monitor.h"

enum { NS_PER_MS = 1000000, MANY_FUNCTIONS = 50000 };

bool agent_selection_new(struct agent *agent)
{
    return (agent->selection = calloc(1, sizeof *agent->selection)) != NULL;
}

static const struct trace_settings *settings_of(const struct agent *agent)
{
    return agent->job && !agent->job->settings.off ? &agent->job->settings : NULL;
}

static const char *settings_text(const struct agent *agent)
{
    const struct trace_settings *settings = settings_of(agent);
    return settings ? settings->selection : "";
}

static uint32_t base_mode(const struct trace_settings *settings)
{
    if (!settings)
        return 0;
    uint32_t mode = settings->count_only ? AREA_COUNT : AREA_RECORD;
    if (!settings->count_only && (settings->args || settings->locals || *settings->statics))
        mode |= AREA_VALUES;
    if (!settings->count_only && settings->locals)
        mode |= AREA_CALLER;
    if (settings->rate)
        mode |= AREA_RATED;
    return mode;
}

void agent_go(struct agent *agent)
{
    loop_remove(agent->selection->hold_timer);
    agent->selection->hold_timer = NULL;
    if (!agent->view.area)
        return;
    atomic_store(&agent->view.area->go, 1);
    area_wake(&agent->view.area->go);
    atomic_store(&agent->view.area->modules_seen, agent->mapped->looked);
    area_wake(&agent->view.area->modules_seen);
}

static void held_long_enough(void *ctx)
{
    struct agent *agent = ctx;
    agent_set_problem(agent, NOTE(symbols_late, .program = agent->exe,
                                  .seconds = wait_policies[WAIT_MAIN].limit_ms / 1000, .pid = (uint64_t)agent->pid));
    agent_go(agent);
}

static void main_hold(struct agent *agent)
{
    if (!agent->selection->hold_timer && !atomic_load(&agent->view.area->go))
        agent->selection->hold_timer =
            loop_add_timer(agent->agents->monitor->loop, wait_policies[WAIT_MAIN].limit_ms * WAITS_NS_PER_MS, 0,
                           held_long_enough, agent);
}

/* ---- switches ---- */

/* Nobody said which calls are to be recorded, or there is hardly room for any more: then only as many as cost the program
 * little. */
static enum area_thin thin_mode(const struct agent *agent, const struct trace_settings *settings)
{
    if (agent->job && trace_settings_plain(settings) &&
        !agent->selection->rated) /* what a rate has left out is told as exact */
        return AREA_THIN_QUIET;
    bool limited = agent->limited || (agent->job && agent->job->limited);
    return limited || trace_settings_plain(settings) ? AREA_THIN_TALLY : AREA_THIN_NOT;
}

/* Not where somebody waits for what happens in each child, and not while the settings of its job are not known. */
void agent_forks_update(struct agent *agent)
{
    const struct trace_settings *settings = agent->job && !agent->as_left ? &agent->job->settings : NULL;
    bool records = agent->writer || agent->opens_late;
    bool thin =
        settings && (settings->off || (settings->on && records && thin_mode(agent, settings) == AREA_THIN_QUIET));
    atomic_store(&agent->view.area->forks_thin, thin && !agent->selection->overrides && !agent_is_demanded(agent));
}

static void set_switches(struct agent *agent)
{
    const struct trace_settings *settings = agent->job ? &agent->job->settings : NULL;
    struct area *area = agent->view.area;
    const struct agents *agents = agent->agents;
    struct trace_settings defaults = {.on = true};
    if (!settings)
        settings = &defaults;
    atomic_store(&area->policy, agent->job && agent->job->limited ? AREA_FLIGHT : settings->policy);
    atomic_store(&area->reader, settings->reader);
    atomic_store(&area->max_depth, settings->max_depth);
    atomic_store(&area->rate, settings->rate);
    atomic_store(&area->thin, thin_mode(agent, settings));
    agent_forks_update(agent);
    atomic_store(&area->wait_us, settings->wait_us);
    atomic_store(&area->ticks_per_second, agents->ticks_per_second);
    atomic_store(&area->min_ticks,
                 (uint64_t)((unsigned __int128)settings->min_ns * agents->ticks_per_second / NS_PER_SECOND));
    agent->selection->rated |= settings->rate != 0;
    if (settings->min_ns > agent->selection->longest_min_ns)
        agent->selection->longest_min_ns = settings->min_ns;
    if (!agent->selection->switched || settings->min_ns < agent->selection->least_min_ns)
        agent->selection->least_min_ns = settings->min_ns;
    agent->selection->switched = true;
    if (settings->max_depth &&
        (!agent->selection->least_max_depth || settings->max_depth < agent->selection->least_max_depth))
        agent->selection->least_max_depth = settings->max_depth;
    atomic_store(&area->on, settings->on && !(agent->writer && trace_writer_failed(agent->writer)));
}

/* Which functions have the base mode without a slot of their own: those of the modules for which `wants` is set. */
static void set_unknown(struct agent *agent, uint32_t mode, const bool *wants)
{
    struct area *area = agent->view.area;
    uint32_t count = 0;
    atomic_store(&area->unknown_mode, 0);
    for (size_t i = 0; mode && i < agent->mapped->count; i++) {
        if (!wants[i])
            continue;
        if (count == AREA_RANGES) { /* more libraries than ranges: everywhere, slots say where not */
            count = 0;
            break;
        }
        atomic_store(&area->ranges[count][0], agent->mapped->modules[i].start);
        atomic_store(&area->ranges[count][1], agent->mapped->modules[i].end);
        count++;
    }
    bool any = agent->mapped->count == 0, each = true;
    for (size_t i = 0; i < agent->mapped->count; i++) {
        any |= wants[i];
        each &= wants[i];
    }
    atomic_store(&area->range_count, each ? 0 : count); /* of what comes, the constructors are called before we know */
    atomic_store(&area->unknown_mode, any ? mode : 0);
}

/* ---- slots ---- */

/* What a function has that is in no selection of ours: what the program gives it when it is first called. */
static uint32_t own_mode(const struct agent *agent, const struct area_slot *slot)
{
    const struct area *area = agent->view.area;
    uint64_t function = area_slot_live(slot);
    if (!function || mpi_function_is(function))
        return 0;
    uint32_t count = atomic_load(&area->range_count), mode = atomic_load(&slot->mode);
    bool in_range = count == 0;
    for (uint32_t i = 0; i < count && i < AREA_RANGES; i++)
        in_range |= function >= atomic_load(&area->ranges[i][0]) && function < atomic_load(&area->ranges[i][1]);
    if (in_range)
        mode |= atomic_load(&area->unknown_mode);
    if (mode & AREA_TALLY) /* the agent's choice, as long as it has one */
        mode &= ~(uint32_t)(atomic_load(&area->thin) ? AREA_RECORD : AREA_TALLY);
    return mode & ~(uint32_t)(AREA_ACT_ENTER | AREA_ACT_EXIT);
}

void agent_mode_update(struct agent *agent, uint32_t slot)
{
    struct area_slot *at = &agent->view.slots[slot];
    uint32_t mode = agent->selection->modes[slot] == MODE_OWN ? own_mode(agent, at) : agent->selection->modes[slot];
    atomic_store_explicit(&at->mode, mode | agent_demand_mode(agent, slot), memory_order_release);
}

bool agent_records_values(const struct agent *agent, uint32_t slot)
{
    return agent->selection->modes && agent->selection->modes[slot] != MODE_OWN &&
           (agent->selection->modes[slot] & AREA_VALUES);
}

bool agent_modes_new(struct agent *agent)
{
    size_t count = (size_t)agent->view.slot_mask + 1;
    if (!agent->selection->modes && (agent->selection->modes = malloc(count)))
        memset(agent->selection->modes, MODE_OWN, count);
    return agent->selection->modes != NULL;
}

void agent_filter_update(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    uint8_t *wanted = calloc(1, AREA_FILTER);
    if (!wanted)
        return;
    bool on = atomic_load(&view->area->on), all = on && atomic_load(&view->area->unknown_mode);
    if (all)
        memset(wanted, AREA_ENTER | AREA_EXIT, AREA_FILTER);
    for (uint32_t slot = 0; on && !all && slot <= view->slot_mask; slot++) {
        /* also of a library that was closed: when it comes back, its constructors are called before we know */
        uint64_t function = area_slot_address(&view->slots[slot]);
        if (function && !mpi_function_is(function) &&
            atomic_load_explicit(&view->slots[slot].mode, memory_order_relaxed))
            wanted[area_filter_index(function)] = AREA_ENTER | AREA_EXIT;
    }
    atomic_thread_fence(memory_order_seq_cst); /* the modes first: see quiet_begin */
    for (uint32_t i = 0; i < AREA_FILTER; i++) {
        uint8_t before = view->filter[i], byte = wanted[i] | (before & AREA_EXIT); /* calls may be open */
        if (byte != before)
            __atomic_store_n(&view->filter[i], byte, __ATOMIC_RELEASE);
    }
    free(wanted);
    atomic_fetch_add(&view->area->selection, 1);
}

/* What the settings and the later choices say of one function. */
static uint32_t mode_of(const struct agent *agent, const struct selection *selection, uint32_t mode,
                        const struct module *module, const struct index_function *function)
{
    if (mode && !selection_matches(selection, module, function))
        mode = 0;
    for (const struct selection_override *override = agent->selection->overrides; override; override = override->next)
        if (selection_matches(override->selection, module, function)) /* the newest is first */
            return override->mode;
    return mode;
}

static void set_mode(struct agent *agent, uint64_t address, uint32_t mode)
{
    struct area_slot *slot = area_slot_find(&agent->view, address, true);
    if (!slot) {
        atomic_fetch_add(&agent->view.area->functions_omitted, 1);
        return;
    }
    uint32_t at = (uint32_t)(slot - agent->view.slots);
    agent->selection->modes[at] = (uint8_t)mode;
    agent_mode_update(agent, at);
}

/* Of a module without hooks: nobody means the system's libraries by a wildcard. */
static bool may_be_patched(const struct selection *selection, const struct module *module,
                           const struct index_function *function)
{
    return agent_patch_can(function) &&
           (!agent_module_is_system(module) || selection_names(selection, module, function));
}

static bool is_patched_by(const struct selection *selection, const struct module *module)
{
    return !agent_module_is_system(module) || selection_has_names(selection);
}

int agent_each_meant(struct agent *agent, const struct selection *selection, meant_fn *fn, void *ctx)
{
    int code = 0;
    for (size_t i = 0; i < agent->mapped->count && code == 0; i++) {
        const struct module *module = &agent->mapped->modules[i];
        bool patched = agent_module_patched(agent, i) && is_patched_by(selection, module);
        if (!agent_module_hooked(agent, i) && !patched)
            continue;
        const struct index *index = agent->mapped->indexes[i]->index;
        _cleanup_(freep) size_t *few = NULL;
        size_t count = index_count(index);
        bool all = !selection_candidates(selection, index, &few, &count);
        for (size_t k = 0; k < count && code == 0; k++) {
            struct index_function function;
            index_at(index, all ? k : few[k], &function);
            if (selection_matches(selection, module, &function) &&
                (!patched || may_be_patched(selection, module, &function)))
                code = fn(ctx, agent, i, &function);
        }
    }
    return code;
}

static int stop_at_patched(void *ctx, struct agent *agent, size_t module, const struct index_function *function)
{
    return agent_module_patched(agent, module);
}

/* Whether there is anything to be patched, that is to be recorded. */
static bool any_patched(struct agent *agent)
{
    const struct trace_settings *settings = settings_of(agent);
    struct selection *selection = NULL;
    struct err err = {0};
    if (!settings || !*settings->selection || selection_parse(&selection, settings->selection, &err) < 0)
        return false;
    bool found = agent_each_meant(agent, selection, stop_at_patched, NULL) != 0;
    selection_free(selection);
    return found;
}

/* Slots for what the indexes know. Functions that have the mode anyway get none. */
static size_t choose_indexed(struct agent *agent, const struct selection *selection, uint32_t mode, const bool *wants)
{
    size_t chosen = 0;
    for (size_t i = 0; i < agent->mapped->count; i++) {
        const struct module *module = &agent->mapped->modules[i];
        bool patched = agent_module_patched(agent, i) && is_patched_by(selection, module);
        if (!agent_module_hooked(agent, i) && !patched)
            continue;
        const struct index *index = agent->mapped->indexes[i]->index;
        _cleanup_(freep) size_t *few = NULL;
        size_t count = index_count(index);
        bool all = wants[i] || agent->selection->overrides || !selection_candidates(selection, index, &few, &count);
        for (size_t k = 0; k < count; k++) {
            struct index_function function;
            index_at(index, all ? k : few[k], &function);
            uint32_t its = mode_of(agent, selection, mode, module, &function);
            if (patched && its &&
                !(*settings_text(agent) && may_be_patched(selection, module, &function) &&
                  agent_patch_want(agent, i, &function)))
                continue;
            chosen += its != 0;
            bool by_itself = wants[i] && its == mode && !(mode & AREA_VALUES);
            if (by_itself ? agent->selection->selected : its || wants[i])
                set_mode(agent, function.address + module->bias, its);
        }
    }
    return chosen;
}

/* Slots that are there from before, or were made by the program, and that no index knows. */
static void choose_others(struct agent *agent, const struct selection *selection, uint32_t mode)
{
    const struct area_view *view = &agent->view;
    for (uint32_t slot = 0; slot <= view->slot_mask; slot++) {
        struct index_function function = {.name = "", .full = "", .linkage = "", .file = ""};
        const struct module *module = NULL;
        uint64_t address;
        address = area_slot_live(&view->slots[slot]);
        if (!address || mpi_function_is(address)) /* these are chosen by settings of their own */
            continue;
        agent_function(agent, slot, &function, &address, &module);
        function.address = module ? address - module->bias : address;
        agent->selection->modes[slot] = (uint8_t)mode_of(agent, selection, mode, module, &function);
        agent_mode_update(agent, slot);
    }
}

/* Why less is known of a module that calls the hooks than could be; "". */
static const char *index_lacks(const struct agent *agent, size_t i)
{
    const struct index *index = agent->mapped->indexes[i] ? agent->mapped->indexes[i]->index : NULL;
    unsigned hooks = INDEX_HAS_HOOKS | (agent->mapped->modules[i].is_program ? INDEX_OWN_HOOKS : 0u);
    return index && (index_flags(index) & hooks) ? index_problem(index) : "";
}

static void tell_index_problems(struct agent *agent)
{
    for (size_t i = 0; i < agent->mapped->count; i++)
        if (*index_lacks(agent, i)) {
            agent_set_problem(agent, NOTE(symbols_lacking, .module = agent->mapped->modules[i].name,
                                          .reason = index_lacks(agent, i)));
            return;
        }
}

static void nothing_matches(struct agent *agent, const char *selection)
{
    const char *lacks = "";
    for (size_t i = 0; i < agent->mapped->count; i++)
        if (agent->mapped->modules[i].is_program && *index_lacks(agent, i)) {
            lacks = index_lacks(agent, i);
        } else if (agent->mapped->modules[i].is_program && *agent->mapped->modules[i].problem) {
            agent_set_problem(agent, NOTE(symbols_lacking, .module = agent->mapped->modules[i].name,
                                          .reason = agent->mapped->modules[i].problem));
            return;
        } else if (agent->mapped->modules[i].is_program && agent->mapped->indexes[i] &&
                   agent->mapped->indexes[i]->failed) {
            const char *why =
                *agent->mapped->indexes[i]->problem ? agent->mapped->indexes[i]->problem : "scry-symbols failed";
            agent_set_problem(agent, NOTE(symbols_unread, .module = agent->mapped->modules[i].name, .reason = why));
            return;
        }
    note_keep(&agent->selection->unmatched, &NOTE(nothing_selected, .program = basename(agent->exe),
                                                  .selection = selection, .lacking = *lacks != 0, .reason = lacks));
    if (agent->writer)
        trace_writer_problem(agent->writer, &agent->selection->unmatched.note);
    if (agent->job)
        note_keep(&agent->job->unmatched, &agent->selection->unmatched.note);
}

/* What was said of a former selection. */
static void forget_unmatched(struct agent *agent)
{
    if (agent->writer && agent->selection->unmatched.note.kind)
        trace_writer_problem_over(agent->writer, &agent->selection->unmatched.note);
    if (agent->job && note_equal(&agent->job->unmatched.note, &agent->selection->unmatched.note))
        agent->job->unmatched.note.kind = NOTE_NONE;
    agent->selection->unmatched.note.kind = NOTE_NONE;
}

static void select_functions(struct agent *agent, uint32_t mode)
{
    const struct trace_settings *settings = settings_of(agent);
    const char *text = settings ? settings->selection : "";
    struct selection *selection = NULL;
    struct err err = {0};
    bool *wants = calloc(agent->mapped->count + 1, sizeof *wants);
    if (!wants || selection_parse(&selection, text, &err) < 0) {
        free(wants);
        return;
    }
    forget_unmatched(agent);
    bool unknown = !*text || !agent->mapped->count; /* what is not known is let through, see set_unknown */
    for (size_t i = 0; mode && i < agent->mapped->count; i++)
        unknown |= wants[i] = selection_wants_unknown(selection, &agent->mapped->modules[i]);
    size_t chosen = 0;
    if (*text || (mode & AREA_VALUES) || agent->selection->overrides || agent->selection->selected)
        chosen = choose_indexed(agent, selection, mode, wants);
    if (agent->selection->selected)
        choose_others(agent, selection, mode);
    set_unknown(agent, mode & ~(uint32_t)(AREA_VALUES | AREA_CALLER), wants);
    bool demanded = agent_is_demanded(agent);
    for (uint32_t slot = 0; demanded && slot <= agent->view.slot_mask; slot++)
        if (atomic_load_explicit(&agent->view.slots[slot].function, memory_order_relaxed))
            agent_mode_update(agent, slot);
    if (mode && !chosen && !unknown)
        nothing_matches(agent, text);
    else if (mode)
        tell_index_problems(agent);
    selection_free(selection);
    free(wants);
    agent_filter_update(agent);
    agent->selection->selected = true;
    agent_patch(agent);
}

/* Whether the indexes have to be there first. */
static bool needs_indexes(const struct agent *agent, uint32_t mode)
{
    const struct trace_settings *settings = settings_of(agent);
    return (settings && (*settings->selection || (mode & AREA_VALUES))) || agent->selection->overrides ||
           agent->patching;
}

bool agent_applies_long(const struct agent *agent)
{
    const struct trace_settings *settings = settings_of(agent);
    size_t count = 0;
    if (!settings || !needs_indexes(agent, base_mode(settings)))
        return false;
    for (size_t i = 0; i < agent->mapped->count; i++)
        if (agent_module_hooked(agent, i) || agent_module_patched(agent, i))
            count += index_count(agent->mapped->indexes[i]->index);
    return count > MANY_FUNCTIONS;
}

/* Which get its calls. */
static bool has_own_hooks(const struct agent *agent, size_t module)
{
    return agent->mapped->modules[module].is_program &&
           index_flags(agent->mapped->indexes[module]->index) & INDEX_OWN_HOOKS;
}

bool agent_records(const struct agent *agent)
{
    const struct trace_settings *settings = settings_of(agent);
    bool hooked = !agent->only_mpi;
    for (size_t i = 0; i < agent->mapped->count && !hooked; i++)
        hooked = agent_module_hooked(agent, i) && !has_own_hooks(agent, i);
    return (settings && hooked) || agent_mpi_records(agent);
}

void agent_apply(struct agent *agent)
{
    const struct trace_settings *settings = settings_of(agent);
    struct err err = {0};
    if (agent->ended)
        return;
    if (!agent_modes_new(agent)) {
        agent_set_problem(agent, NOTE(nothing_recorded, .reason = "out of memory"));
        agent_go(agent);
        return;
    }
    if (!agent->agents->ticks_per_second)
        agent_clock_calibrate(agent->agents);
    if (agent->only_mpi && agent->patching && agent_indexes_ready(agent))
        agent->only_mpi = !any_patched(agent);
    if (agent_records(agent) && !agent->writer && collect_open(agent, &err) < 0)
        agent_set_problem(agent, NOTE(nothing_recorded, .reason = err.text));
    if (agent->as_left) { /* the settings of its job are not known yet, and its area has them */
        agent->selection->waits = false;
        agent_settle(agent);
        return;
    }
    set_switches(agent);
    uint32_t mode = agent->writer ? base_mode(settings) : 0;
    agent->selection->counts |= (mode & AREA_COUNT) != 0;
    if (needs_indexes(agent, mode) && !agent_indexes_ready(agent)) {
        agent->selection->waits = true;
        main_hold(agent);
        return;
    }
    agent->selection->waits = false;
    select_functions(agent, mode);
    agent_mpi_apply(agent);
    if (mode & AREA_VALUES)
        agent_compile(agent);
    agent_settle(agent);
}

/* The child of a fork has its parent's mappings: what was chosen there is chosen here, and need not be looked for. Only
 * functions that the monitor chose are copied; the others the program finds as it did in the parent. */
bool agent_inherit(struct agent *agent, const struct agent *parent)
{
    const struct area_view *view = &agent->view, *from = &parent->view;
    if (!parent->selection->selected || parent->selection->waits || agent_compiling(parent) ||
        parent->selection->overrides || agent_is_demanded(parent) || (settings_of(agent) && !parent->writer) ||
        !agent_modes_new(agent))
        return false;
    for (uint32_t i = 0; i <= from->slot_mask; i++) {
        if (parent->selection->modes[i] == MODE_OWN)
            continue;
        uint64_t function = area_slot_live(&from->slots[i]);
        struct area_slot *slot = function ? area_slot_find(view, function, true) : NULL;
        if (!slot)
            continue;
        agent->selection->modes[slot - view->slots] = parent->selection->modes[i];
        atomic_store(&slot->mode, parent->selection->modes[i]);
    }
    if (!agent_compiled_inherit(agent, parent))
        return false;
    set_switches(agent);
    uint32_t count = atomic_load(&from->area->range_count);
    for (uint32_t i = 0; i < count && i < AREA_RANGES; i++) {
        atomic_store(&view->area->ranges[i][0], atomic_load(&from->area->ranges[i][0]));
        atomic_store(&view->area->ranges[i][1], atomic_load(&from->area->ranges[i][1]));
    }
    atomic_store(&view->area->range_count, count);
    atomic_store(&view->area->unknown_mode, atomic_load(&from->area->unknown_mode));
    /* so no page is first filled with zeros */
    if (pwrite(agent->files[AREA_FUNCTIONS].fd, from->filter, AREA_FILTER, view->filter - view->base) != AREA_FILTER)
        memcpy(view->filter, from->filter, AREA_FILTER);
    atomic_fetch_add(&view->area->selection, 1);
    agent->selection->counts = parent->selection->counts;
    agent->selection->selected = true;
    return true;
}

void agent_settle(struct agent *agent)
{
    if (agent->selection->waits || agent_compiling(agent) || agent_demands_wait(agent) || agent_patches(agent))
        main_hold(agent);
    else
        agent_go(agent);
}

void agent_indexed(struct agent *agent)
{
    if (agent->ended || !agent_indexes_ready(agent))
        return;
    bool waited = agent->selection->waits;
    agent_demands_indexed(agent);
    if (waited)
        agent_apply(agent);
    else
        agent_settle(agent);
}

/* Libraries came or went: they are looked at before the program calls into them, as far as it waits for us. */
void agent_modules_changed(struct agent *agent)
{
    if (agent->ended || !agent->view.area)
        return;
    uint32_t modules = atomic_load(&agent->view.area->modules);
    if (modules == agent->mapped->looked)
        return;
    agent->mapped->looked = modules;
    /* what was called in libraries that are gone by now gets its names while we know of them */
    collect_agent(agent, UINT64_MAX, true, false);
    if (agent_modules_refresh(agent) == 0) {
        agent->mapped->unnamed = true;
        agent_names_again(agent);
        agent_demands_expire(agent); /* the program waits for them, too */
        agent_apply(agent);
        agent_demands_indexed(agent);
    }
    agent_settle(agent); /* goes on now, or when their symbols were read */
}

/* ---- choices by services ---- */

int agent_select(struct agent *agent, const char *text, uint32_t mode, struct err *err)
{
    if (!agent_indexes_ready(agent))
        return err_set(err, -EAGAIN, "the symbols of pid %d are being read: ask again in a moment", agent->pid);
    struct selection_override *override = calloc(1, sizeof *override);
    if (!override)
        return err_set(err, -ENOMEM, "out of memory");
    int code = selection_parse(&override->selection, text, err);
    if (code < 0) {
        free(override);
        return code;
    }
    override->mode = mode & (AREA_COUNT | AREA_RECORD | AREA_VALUES | AREA_CALLER);
    override->next = agent->selection->overrides;
    agent->selection->counts |= (mode & AREA_COUNT) != 0;
    agent->selection->overrides = override;
    agent->as_left = false;
    agent_apply(agent);
    if (override->mode & AREA_VALUES)
        agent_compile(agent);
    return 0;
}

void agent_overrides_free(struct agent *agent)
{
    while (agent->selection->overrides) {
        struct selection_override *next = agent->selection->overrides->next;
        selection_free(agent->selection->overrides->selection);
        free(agent->selection->overrides);
        agent->selection->overrides = next;
    }
}

void agent_select_free(struct agent *agent)
{
    agent_overrides_free(agent);
    loop_remove(agent->selection->hold_timer);
    free(agent->selection->modes);
}
