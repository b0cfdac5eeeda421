/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What conditional requests want of single functions: lists of actions at their slots, which the agent runs, or hands
 * over to the monitor while the thread waits. Lists and programs are never changed in place: a new one is written and
 * the slot's offset swapped. The parameters of all requests for a function are numbers of one program at its sites; a
 * parameter keeps its place there for good, so that programs that run meanwhile read the right ones.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "monitor/recorder/agent.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/monitor.h"
#include "shm/mpi_told.h"

struct slot_params { /* expressions in the order of the site's program */
    uint32_t slot, count;
    uint32_t placed; /* of MPI calls: so many are in the programs of its sites */
    char *expressions[CODE_PARAMS];
    UT_hash_handle hh;
};

struct demand {
    const struct csr *csr;
    uint32_t serial;
    char text[64];               /* of the selection, for people */
    struct selection *selection; /* NULL: calls of MPI */
    uint64_t mpi[MPI_CALL_WORDS];
    bool at_exit, raise, values, statics, has_program;
    struct code_program program;
    char *params[CODE_PARAMS];
    unsigned param_count;
    uint32_t *slots;
    size_t slot_count, slot_cap;
    bool waits_for_index, waits_for_compile;
    bool missing; /* there is no such function, and that was said */
    bool blind;   /* its condition cannot be looked at in this process */
    void (*ready)(void *ctx, int code, const char *reason);
    void *ctx;
    uint32_t program_at; /* with the parameters as program_map has them */
    uint8_t program_map[CODE_PARAMS];
    struct demand *next;
};

struct agent_demands {
    struct demand *list;             /* in the order in which they came */
    bool stale;                      /* libraries came or went, and they are not resolved anew yet */
    struct slot_params *slot_params; /* hash by slot */
};

bool agent_demands_new(struct agent *agent)
{
    return (agent->demands = calloc(1, sizeof *agent->demands)) != NULL;
}

bool agent_is_demanded(const struct agent *agent)
{
    return agent->demands->list != NULL;
}

void agent_demands_expire(struct agent *agent)
{
    agent->demands->stale = true;
}

/* ---- parameters ---- */

static struct slot_params *params_find(const struct agent *agent, uint32_t slot)
{
    struct slot_params *params;
    HASH_FIND(hh, agent->demands->slot_params, &slot, sizeof slot, params);
    return params;
}

unsigned agent_demand_params(const struct agent *agent, uint32_t slot, const char *const **ret_params)
{
    struct slot_params *params = params_find(agent, slot);
    *ret_params = params ? (const char *const *)params->expressions : NULL;
    return params ? params->count : 0;
}

static int param_place(const struct slot_params *params, const char *expression)
{
    for (uint32_t i = 0; params && i < params->count; i++)
        if (strcmp(params->expressions[i], expression) == 0)
            return (int)i;
    return -1;
}

/* Gives the demand's parameters places at the slot. -E2BIG: there are too many together. */
static int params_add(struct agent *agent, const struct demand *demand, uint32_t slot)
{
    struct slot_params *params = params_find(agent, slot);
    if (demand->param_count && !params) {
        params = calloc(1, sizeof *params);
        if (!params)
            return -ENOMEM;
        params->slot = slot;
        HASH_ADD(hh, agent->demands->slot_params, slot, sizeof params->slot, params);
    }
    for (unsigned i = 0; i < demand->param_count; i++) {
        if (param_place(params, demand->params[i]) >= 0)
            continue;
        if (params->count == CODE_PARAMS)
            return -E2BIG;
        if (!(params->expressions[params->count] = strdup(demand->params[i])))
            return -ENOMEM;
        params->count++;
        if (demand->selection) /* again, with it */
            agent_compile_slot_again(agent, slot);
    }
    return 0;
}

/* ---- lists ---- */

static bool demand_has(const struct demand *demand, uint32_t slot)
{
    size_t low = 0, high = demand->slot_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (demand->slots[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low < demand->slot_count && demand->slots[low] == slot;
}

static bool in_place(const struct demand *demand)
{
    return !demand->waits_for_index && !demand->waits_for_compile;
}

bool agent_demand_wants(const struct agent *agent, uint32_t slot)
{
    for (const struct demand *demand = agent->demands->list; demand; demand = demand->next)
        if (demand->selection && (demand->values || demand->param_count) && demand_has(demand, slot))
            return true;
    return false;
}

bool agent_demand_statics(const struct agent *agent)
{
    for (const struct demand *demand = agent->demands->list; demand; demand = demand->next)
        if (demand->statics)
            return true;
    return false;
}

uint32_t agent_demand_mode(const struct agent *agent, uint32_t slot)
{
    uint32_t mode = 0;
    for (const struct demand *demand = agent->demands->list; demand; demand = demand->next)
        if (in_place(demand) && demand_has(demand, slot))
            mode |= (demand->at_exit ? AREA_ACT_EXIT : AREA_ACT_ENTER) | (demand->values ? AREA_VALUES : 0);
    return mode;
}

static int64_t operand_mapped(uint8_t kind, int64_t value, const uint8_t map[CODE_PARAMS])
{
    return kind == CODE_PARAM && value >= 0 && value < CODE_PARAMS ? map[value] : value;
}

/* The demand's program with its parameters at their places of this slot; most slots have the same. */
static uint32_t program_for(struct agent *agent, struct demand *demand, uint32_t slot)
{
    uint8_t map[CODE_PARAMS] = {0};
    const struct slot_params *params = params_find(agent, slot);
    if (!demand->has_program)
        return 0;
    for (unsigned i = 0; i < demand->param_count; i++) {
        int place = param_place(params, demand->params[i]);
        map[i] = place < 0 ? CODE_PARAMS - 1 : (uint8_t)place;
    }
    if (demand->program_at && memcmp(map, demand->program_map, sizeof map) == 0)
        return demand->program_at;
    struct code_program program = demand->program;
    for (uint32_t i = 0; i < program.count; i++) {
        program.insns[i].a = operand_mapped(program.insns[i].a_kind, program.insns[i].a, map);
        program.insns[i].b = operand_mapped(program.insns[i].b_kind, program.insns[i].b, map);
    }
    demand->program_at = agent_program_put(
        agent, &program, offsetof(struct code_program, insns) + program.count * sizeof program.insns[0]);
    memcpy(demand->program_map, map, sizeof map);
    return demand->program_at;
}

static uint32_t list_for(struct agent *agent, uint32_t slot, bool at_exit, struct buf *last, uint32_t *last_at)
{
    struct buf bytes = BUF_INIT;
    struct area_list list = {0};
    buf_append(&bytes, &list, sizeof list);
    for (struct demand *demand = agent->demands->list; demand; demand = demand->next) {
        if (demand->at_exit != at_exit || !in_place(demand) || !demand_has(demand, slot))
            continue;
        struct area_action action = {.csr = demand->serial, .raise = demand->raise, .enabled = 1};
        action.program_at = program_for(agent, demand, slot);
        if (demand->has_program && !action.program_at)
            continue; /* no room: without its condition it would be wrong */
        buf_append(&bytes, &action, sizeof action);
        list.count++;
    }
    uint32_t at = 0;
    if (list.count && !bytes.failed) {
        memcpy(bytes.data, &list, sizeof list);
        if (*last_at && last->len == bytes.len && memcmp(last->data, bytes.data, bytes.len) == 0) {
            at = *last_at;
        } else if ((at = agent_program_put(agent, bytes.data, bytes.len))) {
            buf_clear(last);
            buf_append(last, bytes.data, bytes.len);
            *last_at = last->failed ? 0 : at;
        } else {
            agent_set_problem(agent, NOTE(actions_no_room, .pid = (uint64_t)agent->pid));
        }
    }
    buf_done(&bytes);
    return at;
}

/* Lists, modes and filter of the slots of one demand, after it came or went. */
static void update_slots(struct agent *agent, const uint32_t *slots, size_t count)
{
    struct buf last[2] = {BUF_INIT, BUF_INIT};
    uint32_t last_at[2] = {0};
    for (size_t i = 0; i < count; i++) {
        struct area_slot *slot = &agent->view.slots[slots[i]];
        atomic_store_explicit(&slot->enter_list, list_for(agent, slots[i], false, &last[0], &last_at[0]),
                              memory_order_release);
        atomic_store_explicit(&slot->exit_list, list_for(agent, slots[i], true, &last[1], &last_at[1]),
                              memory_order_release);
        agent_mode_update(agent, slots[i]);
    }
    buf_done(&last[0]);
    buf_done(&last[1]);
    agent_filter_update(agent);
}

/* ---- demands ---- */

static void demand_free(struct demand *demand)
{
    selection_free(demand->selection);
    for (unsigned i = 0; i < demand->param_count; i++)
        free(demand->params[i]);
    free(demand->slots);
    free(demand);
}

static int compare_slots(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return one < other ? -1 : one > other;
}

static int add_slot(struct agent *agent, struct demand *demand, uint64_t address)
{
    struct area_slot *slot = area_slot_find(&agent->view, address, true);
    if (!slot)
        return -ENOSPC;
    if (demand->slot_count == demand->slot_cap) {
        size_t cap = demand->slot_cap ? 2 * demand->slot_cap : 16;
        uint32_t *slots = realloc(demand->slots, cap * sizeof *slots);
        if (!slots)
            return -ENOMEM;
        demand->slots = slots;
        demand->slot_cap = cap;
    }
    uint32_t index = (uint32_t)(slot - agent->view.slots);
    demand->slots[demand->slot_count++] = index;
    return params_add(agent, demand, index);
}

static int place_params(struct agent *agent, uint32_t call, struct slot_params *params)
{
    if (!params || params->placed == params->count)
        return 0;
    int code = agent_mpi_params_put(agent, call, (const char *const *)params->expressions, params->count);
    if (code == 0)
        params->placed = params->count;
    return code;
}

static int find_calls(struct agent *agent, struct demand *demand)
{
    int code = 0;
    for (uint32_t call = 1; code == 0 && call < CALL_COUNT; call++) {
        if (!(demand->mpi[call / 64] >> call % 64 & 1))
            continue;
        code = add_slot(agent, demand, mpi_function(call));
        if (code == 0)
            code = place_params(agent, call, params_find(agent, demand->slots[demand->slot_count - 1]));
    }
    return code;
}

static int add_function(void *ctx, struct agent *agent, size_t module, const struct index_function *function)
{
    if (agent_module_patched(agent, module) && !agent_patch_want(agent, module, function))
        return -ENOMEM;
    return add_slot(agent, ctx, function->address + agent->mapped->modules[module].bias);
}

/* The functions that are meant. */
static int find_slots(struct agent *agent, struct demand *demand)
{
    demand->slot_count = 0;
    int code = demand->selection ? agent_each_meant(agent, demand->selection, add_function, demand)
                                 : find_calls(agent, demand);
    if (demand->slot_count)
        qsort(demand->slots, demand->slot_count, sizeof *demand->slots, compare_slots);
    return code;
}

/* Once; but where functions are missing, again when they have come with a library. */
static void demand_tell(struct demand *demand, int code, const char *reason)
{
    void (*ready)(void *ctx, int code, const char *reason) = demand->ready;
    if (code == -ENOENT && demand->missing)
        return;
    demand->missing = code == -ENOENT;
    if (!demand->missing)
        demand->ready = NULL;
    if (ready)
        ready(demand->ctx, code, reason);
}

/* A request for all processes of a job is in order if it is met in one of them. */
static void rule_note_set(struct agent *agent, const struct demand *demand, bool met, enum note_kind kind,
                          struct span reason)
{
    struct trace_job *job = agent->job;
    struct rule_note *its = NULL;
    for (unsigned i = 0; job && !its && i < job->rule_note_count; i++)
        if (job->rule_notes[i].serial == demand->serial)
            its = &job->rule_notes[i];
    if (job && !its && job->rule_note_count < RULE_NOTES) {
        its = &job->rule_notes[job->rule_note_count++];
        its->serial = demand->serial;
    }
    if (!its)
        return;
    its->met |= met;
    if (its->kind && (its->kind == kind || kind != NOTE_condition_unseen))
        return;
    its->kind = kind;
    snprintf(its->function, sizeof its->function, "%s", demand->text);
    snprintf(its->reason, sizeof its->reason, "%.*s", SPAN_ARG(reason));
}

/* What is wrong with a parameter of the demand; NULL: nothing. */
static const struct compiled_problem *problem_of(const struct demand *demand, const struct buf *problems)
{
    const struct compiled_problem *all = (const struct compiled_problem *)(const void *)problems->data;
    for (unsigned i = 0; i < demand->param_count; i++)
        for (size_t k = 0; k < problems->len / sizeof *all; k++)
            if (all[k].at_exit == demand->at_exit &&
                strncmp(all[k].expression, demand->params[i], sizeof all[k].expression - 1) == 0)
                return &all[k];
    return NULL;
}

void agent_demands_problem(struct agent *agent, const struct buf *problems)
{
    for (struct demand *demand = agent->demands->list; demand; demand = demand->next) {
        const struct compiled_problem *problem =
            demand->waits_for_compile && demand->slot_count == 1 ? problem_of(demand, problems) : NULL;
        struct buf text = BUF_INIT;
        if (!problem)
            continue;
        demand->blind = true;
        number_problem_print(&problem->problem, problem->expression, &text);
        rule_note_set(agent, demand, false, NOTE_condition_unseen, span_of(text.data ? text.data : "", text.len));
        buf_done(&text);
    }
}

static void put_in_place(struct agent *agent, struct demand *demand)
{
    demand->waits_for_compile = false;
    update_slots(agent, demand->slots, demand->slot_count);
    rule_note_set(agent, demand, demand->slot_count != 0 && !demand->blind,
                  demand->slot_count ? NOTE_NONE : NOTE_no_such_function, span_str(""));
    if (demand->slot_count == 0)
        demand_tell(demand, -ENOENT, "no function of the program with compiled-in hooks is meant");
    else
        demand_tell(demand, 0, "");
}

static void demand_resolve(struct agent *agent, struct demand *demand)
{
    demand->waits_for_index = false;
    int code = find_slots(agent, demand);
    if (code < 0) {
        demand->slot_count = 0;
        demand_tell(demand, code,
                    code == -E2BIG
                        ? "the requests for one function or call have more than 8 different parameters together"
                    : code == -ENOSPC ? "there is no room for more functions in this process"
                                      : "out of memory");
        return;
    }
    if (demand->selection && (demand->values || demand->param_count) && demand->slot_count) {
        demand->waits_for_compile = true;
        for (size_t i = 0; demand->statics && i < demand->slot_count; i++)
            agent_compile_slot_again(agent, demand->slots[i]); /* perhaps there are captures without them */
        agent_compile(agent);
        if (agent_compiling(agent))
            return;
    }
    put_in_place(agent, demand);
}

static struct demand *demand_find(const struct agent *agent, const struct csr *csr)
{
    for (struct demand *demand = agent->demands->list; demand; demand = demand->next)
        if (demand->csr == csr)
            return demand;
    return NULL;
}

static int demand_new(const struct agent_demand *wanted, struct demand **ret_demand, struct err *err)
{
    if (wanted->param_count > CODE_PARAMS)
        return err_set(err, -E2BIG, "a condition may use at most %d parameters", CODE_PARAMS);
    struct demand *demand = calloc(1, sizeof *demand);
    if (!demand)
        return err_set(err, -ENOMEM, "out of memory");
    int code = wanted->mpi ? 0 : selection_parse(&demand->selection, wanted->selection, err);
    if (wanted->mpi)
        memcpy(demand->mpi, wanted->mpi, sizeof demand->mpi);
    for (unsigned i = 0; code == 0 && i < wanted->param_count; i++) {
        if ((demand->params[i] = strdup(wanted->params[i])))
            demand->param_count++;
        else
            code = err_set(err, -ENOMEM, "out of memory");
    }
    if (code < 0) {
        demand_free(demand);
        return code;
    }
    demand->csr = wanted->csr;
    demand->serial = (uint32_t)wanted->csr->object.serial;
    snprintf(demand->text, sizeof demand->text, "%s", wanted->mpi ? "MPI" : wanted->selection);
    demand->at_exit = wanted->at_exit;
    demand->raise = wanted->raise;
    demand->values = wanted->values;
    demand->statics = wanted->statics;
    demand->has_program = wanted->program != NULL;
    if (wanted->program)
        demand->program = *wanted->program;
    *ret_demand = demand;
    return 0;
}

int agent_demand(struct agent *agent, const struct agent_demand *wanted,
                 void (*ready)(void *ctx, int code, const char *reason), void *ctx, struct err *err)
{
    struct demand *demand = NULL;
    if (agent->ended)
        return err_set(err, -ESRCH, "pid %d has ended", agent->pid);
    if (!agent_modes_new(agent))
        return err_set(err, -ENOMEM, "out of memory");
    int code = demand_new(wanted, &demand, err);
    if (code < 0)
        return code;
    agent_undemand(agent, wanted->csr);
    demand->ready = ready;
    demand->ctx = ctx;
    struct demand **at = &agent->demands->list;
    while (*at)
        at = &(*at)->next;
    *at = demand;
    agent_forks_update(agent);
    if (!demand->selection || agent_indexes_ready(agent))
        demand_resolve(agent, demand);
    else
        demand->waits_for_index = true;
    return 0;
}

void agent_undemand(struct agent *agent, const struct csr *csr)
{
    struct demand *demand = demand_find(agent, csr), **at = &agent->demands->list;
    if (!demand)
        return;
    while (*at != demand)
        at = &(*at)->next;
    *at = demand->next;
    if (!agent->ended) {
        update_slots(agent, demand->slots, demand->slot_count);
        agent_forks_update(agent);
    }
    demand_free(demand);
}

void agent_demands_indexed(struct agent *agent)
{
    if (agent->ended || !agent_indexes_ready(agent))
        return;
    agent->demands->stale = false;
    for (struct demand *demand = agent->demands->list, *next; demand; demand = next) {
        next = demand->next;
        if (demand->selection)
            demand_resolve(agent, demand);
    }
}

bool agent_demands_wait(const struct agent *agent)
{
    for (const struct demand *demand = agent->demands->list; demand; demand = demand->next)
        if (!in_place(demand) || (agent->demands->stale && demand->selection))
            return true;
    return false;
}

void agent_demands_compiled(struct agent *agent, bool ok)
{
    for (struct demand *demand = agent->demands->list, *next; demand; demand = next) {
        next = demand->next;
        if (!demand->waits_for_compile)
            continue;
        if (ok || !demand->param_count) {
            put_in_place(agent, demand);
            continue;
        }
        demand->waits_for_compile = false; /* of no function: its condition cannot be looked at */
        demand->slot_count = 0;
        demand_tell(demand, -ENODATA,
                    "the parameters of the condition could not be compiled from the program's debug information");
    }
}

void agent_demands_free(struct agent *agent)
{
    while (agent->demands->list) {
        struct demand *next = agent->demands->list->next;
        demand_tell(agent->demands->list, -ESRCH, "the process has ended");
        demand_free(agent->demands->list);
        agent->demands->list = next;
    }
    struct slot_params *params, *next;
    HASH_ITER(hh, agent->demands->slot_params, params, next)
    {
        HASH_DELETE(hh, agent->demands->slot_params, params);
        for (uint32_t i = 0; i < params->count; i++)
            free(params->expressions[i]);
        free(params);
    }
}

void agent_demands_adopt(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    for (uint32_t i = 0; i <= view->slot_mask; i++) {
        struct area_slot *slot = &view->slots[i];
        if (!atomic_load_explicit(&slot->enter_list, memory_order_relaxed) &&
            !atomic_load_explicit(&slot->exit_list, memory_order_relaxed))
            continue;
        atomic_store(&slot->enter_list, 0);
        atomic_store(&slot->exit_list, 0);
        atomic_fetch_and(&slot->mode, ~(uint32_t)(AREA_ACT_ENTER | AREA_ACT_EXIT));
    }
    agent_release_all(agent); /* they rang for the other one; from now on for us */
}

/* ---- raised events ---- */

bool agent_event_params(const struct agent_event *event, const struct csr *csr, struct code_event *ret_params)
{
    const struct demand *demand = demand_find(event->agent, csr);
    const struct area_raise *raise = &event->raise;
    if (!demand || demand->at_exit != (raise->exit != 0) || !demand_has(demand, raise->slot))
        return false;
    const struct slot_params *params = params_find(event->agent, raise->slot);
    *ret_params = (struct code_event){.time_ns = raise->time, .param_count = demand->param_count};
    uint64_t second = event->agent->agents->ticks_per_second;
    if (raise->exit && second)
        ret_params->duration_ns =
            (uint64_t)((unsigned __int128)(raise->time - raise->entry_time) * NS_PER_SECOND / second);
    for (unsigned i = 0; i < demand->param_count; i++) {
        int place = param_place(params, demand->params[i]);
        bool there = place >= 0 && (uint32_t)place < raise->param_count && raise->param_types[place] < CODE_MISSING;
        ret_params->params[i] = there ? raise->params[place] : 0;
        ret_params->types[i] = there ? raise->param_types[place] : CODE_MISSING;
    }
    return true;
}
