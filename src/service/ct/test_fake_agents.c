/* SPDX-License-Identifier: Apache-2.0 */
#include "service/ct/test_fake_agents.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "monitor/recorder/agents.h"
#include "probe/cells.h"
#include "monitor/engine/monitor.h"
#include "monitor/params/params.h"
#include "monitor/engine/test_support.h"
#include "service/omis/service.h"
#include "shm/mpi_told.h"

int pa_register(void);

struct agents {
    struct monitor *monitor;
    void (*on_event)(void *ctx, const struct agent_event *event);
    void (*on_change)(void *ctx, struct agent *agent, bool came);
    void (*on_ring)(void *ctx);
    void *event_ctx, *change_ctx, *ring_ctx;
};

struct agent {
    pid_t pid; /* 0: none */
    char job[128];
    struct area area;
    struct area_slot slots[2];
    _Alignas(AREA_PAGE) uint8_t threads[AREA_THREAD_SIZE];
    struct area_view view;
};

struct fake_demand fake_demands[FAKE_DEMANDS];
unsigned fake_demand_calls, fake_released;
char fake_settings[256], fake_selected[64];
uint32_t fake_mode;
bool fake_job_known;

static struct agents registry;
static struct agent agent;
static unsigned filters_passed;
static struct code_event happened;      /* by the names of the parameters: n, x, p */
static const struct mpi_told *told_now; /* of a call of MPI */
static uint32_t called_now;

int fake_engine_start(void **state)
{
    if (test_engine_start(state) < 0 || test_engine_extend("pa", pa_register) < 0)
        return -1;
    registry = (struct agents){.monitor = test_monitor};
    memset(&agent, 0, sizeof agent);
    memset(fake_demands, 0, sizeof fake_demands);
    fake_demand_calls = fake_released = filters_passed = 0;
    fake_settings[0] = fake_selected[0] = 0;
    fake_job_known = false;
    test_monitor->agents = &registry;
    ct_start(test_monitor);
    return 0;
}

void fake_come(pid_t pid, const char *dir)
{
    agent.pid = pid;
    snprintf(agent.job, sizeof agent.job, "%s", dir);
    agent.area.ticks_per_second = NS_PER_SECOND;
    agent.area.on = 1;
    agent.area.agent_state = AREA_RUNNING;
    agent.slots[0].function = 0x1000;
    agent.slots[1].function = 0x2000;
    agent.slots[1].mode = AREA_COUNT;
    agent.slots[1].calls = 7;
    agent.slots[1].ticks = 70;
    agent.view = (struct area_view){
        .area = &agent.area, .slots = agent.slots, .threads = agent.threads, .slot_mask = 1, .thread_count = 1};
    struct area_thread *thread = area_thread_at(&agent.view, 0);
    thread->state = AREA_THREAD_LIVE;
    thread->tid = (uint32_t)pid;
    thread->serial = 1;
    registry.on_change(registry.change_ctx, &agent, true);
}

void fake_gone(void)
{
    registry.on_change(registry.change_ctx, &agent, false);
    agent.pid = 0;
    memset(fake_demands, 0, sizeof fake_demands);
}

/* ---- calls ---- */

static void mpi_params(const struct fake_demand *demand, struct code_event *ret_params)
{
    static const uint8_t types[] = {CODE_MISSING,  CODE_SIGNED,  CODE_UNSIGNED,
                                    CODE_FLOATING, CODE_MISSING, CODE_MISSING};
    for (unsigned i = 0; i < demand->param_count; i++) {
        struct mpi_param param = mpi_param_named(called_now, demand->at_exit, span_str(demand->params[i]));
        ret_params->types[i] = types[param.kind];
        ret_params->params[i] = mpi_param_bits(told_now, param);
    }
}

static void demand_params(const struct fake_demand *demand, struct code_event *ret_params)
{
    *ret_params = (struct code_event){.time_ns = happened.time_ns, .param_count = demand->param_count};
    if (demand->is_mpi) {
        mpi_params(demand, ret_params);
        return;
    }
    for (unsigned i = 0; i < demand->param_count; i++) {
        const char *found = strchr("nxp", demand->params[i][0]);
        size_t at = found && !demand->params[i][1] ? (size_t)(found - "nxp") : 2;
        ret_params->params[i] = happened.params[at];
        ret_params->types[i] = happened.types[at];
    }
}

static bool is_meant(const struct fake_demand *demand, bool exit)
{
    bool mpi = called_now != CALL_NONE;
    return demand->csr && demand->at_exit == exit && demand->is_mpi == mpi &&
           (!mpi || demand->mpi[called_now / 64] >> called_now % 64 & 1);
}

unsigned fake_mpi_call(uint32_t call, bool exit, const struct mpi_told *told)
{
    called_now = call;
    told_now = told;
    unsigned ran = fake_call(exit, 0, 0);
    called_now = CALL_NONE;
    told_now = NULL;
    return ran;
}

unsigned fake_call(bool exit, int64_t n, double x)
{
    code_cell *cells = cell_at(registry.monitor->cells, 0);
    unsigned ran = 0;
    bool raise = false, rung = false;
    happened = (struct code_event){
        .time_ns = clock_now_ns(), .params = {n}, .types = {CODE_SIGNED, CODE_FLOATING, CODE_MISSING}};
    memcpy(&happened.params[1], &x, sizeof x);
    for (size_t i = 0; i < FAKE_DEMANDS; i++) {
        struct fake_demand *demand = &fake_demands[i];
        if (!is_meant(demand, exit))
            continue;
        struct code_event params;
        demand_params(demand, &params);
        unsigned outcome = demand->has_program ? code_run(&demand->program, &params, cells) : (unsigned)CODE_PASSED;
        rung |= (outcome & CODE_POSTED) != 0;
        if (!(outcome & CODE_PASSED))
            continue;
        raise |= demand->raise;
        filters_passed += demand->raise;
        ran += !demand->raise;
    }
    if (raise) {
        struct agent_event event = {.agent = &agent,
                                    .thread = area_thread_at(&agent.view, 0),
                                    .raise = {.exit = exit, .depth = 3, .time = __builtin_ia32_rdtsc()}};
        event.raise.entry_time = event.raise.time - 500;
        registry.on_event(registry.event_ctx, &event);
    }
    if (rung)
        registry.on_ring(registry.ring_ctx);
    return ran;
}

unsigned fake_filters_run(void)
{
    unsigned count = filters_passed;
    filters_passed = 0;
    return count;
}

/* ---- monitor/recorder/agents.h ---- */

const char *agents_socket(const struct agents *agents)
{
    return "/nowhere/agent.sock";
}

int agents_job_set(struct agents *agents, const char *dir, const char *key, const char *value, struct err *err)
{
    fake_job_known = true;
    if (!key)
        return 0;
    if (strcmp(key, "depth") != 0)
        return -ENOENT;
    if (strspn(value, "0123456789") != strlen(value))
        return err_set(err, -EINVAL, "depth takes a number, not \"%s\"", value);
    snprintf(fake_settings, sizeof fake_settings, "\"%s\",\"%s\"", key, value);
    return 0;
}

void agents_job_end(struct agents *agents, const char *dir)
{
    fake_job_known = false;
}

bool agents_job_has(struct agents *agents, const char *dir, pid_t pid)
{
    return true;
}

const char *agents_job_home(const struct agents *agents, const char *dir)
{
    return NULL;
}

int agents_job_settings(struct agents *agents, const char *dir, struct buf *out)
{
    buf_puts(out, fake_settings);
    return 0;
}

int agents_job_state(struct agents *agents, const char *dir, struct agents_job_state *ret_state)
{
    *ret_state = (struct agents_job_state){.living = 1,
                                           .draining = 2,
                                           .events = 3,
                                           .discarded = 4,
                                           .problems = {NOTE(nothing_recorded, .reason = "why")},
                                           .problem_count = 1,
                                           .unmatched = "none",
                                           .notes = {NOTE(refused, .processes = 2, .reason = "no room")},
                                           .note_count = 1};
    return 0;
}

struct agent *agents_find(struct agents *agents, pid_t pid)
{
    return agent.pid && agent.pid == pid ? &agent : NULL;
}

void agents_each(struct agents *agents, const char *dir, void (*fn)(void *ctx, struct agent *agent), void *ctx)
{
    if (agent.pid && (!dir || strcmp(dir, agent.job) == 0))
        fn(ctx, &agent);
}

pid_t agent_pid(const struct agent *at)
{
    return at->pid;
}

const char *agent_job(const struct agent *at)
{
    return at->job;
}

const struct area_view *agent_view(const struct agent *at)
{
    return &at->view;
}

const char *agent_trace_path(const struct agent *at)
{
    return "the trace";
}

const struct note *agent_problem(const struct agent *at)
{
    static const struct note none = {.kind = NOTE_NONE};
    return &none;
}

bool agent_function(struct agent *at, uint32_t slot, struct index_function *ret_function, uint64_t *ret_address,
                    const struct module **ret_module)
{
    if (slot != 0)
        return false;
    *ret_function = (struct index_function){.name = "solve", .file = "a.c", .line = 5};
    *ret_address = 0x1000;
    *ret_module = NULL;
    return true;
}

bool agent_name_address(void *at, uint64_t address, struct buf *out)
{
    return false;
}

bool agent_layout_put(struct agent *at, uint32_t id, struct buf *out)
{
    return false;
}

void agent_collect(struct agent *at)
{
}

struct profile *agent_profile(struct agent *at)
{
    return NULL;
}

void agent_counts(const struct agent *at, struct agent_counts *ret_counts)
{
    *ret_counts = (struct agent_counts){12, 3, 4096, 1500};
}

struct area_calls *agent_open_counted(const struct agent *at, uint64_t now)
{
    (void)at;
    (void)now;
    return NULL;
}

struct area_calls *agent_counted(const struct agent *at)
{
    const struct area_view *view = agent_view(at);
    struct area_calls *sums = calloc((size_t)view->slot_mask + 1, sizeof *sums);
    for (uint32_t i = 0; sums && i <= view->slot_mask; i++)
        sums[i] = (struct area_calls){view->slots[i].calls, view->slots[i].ticks};
    return sums;
}

int agent_flush(struct agent *at, struct err *err)
{
    return err_set(err, -ENOSPC, "the disk is full");
}

int agent_functions(struct agent *at, const char *selection,
                    bool (*fn)(void *ctx, const struct module *module, const struct index_function *function),
                    void *ctx, struct err *err)
{
    static const struct module module = {.name = "program", .bias = 0x1000};
    static const struct index_function function = {.name = "s\"lve", .file = "a.c", .line = 5, .address = 0x1000};
    if (strcmp(selection, "later") == 0)
        return -EAGAIN;
    fn(ctx, &module, &function);
    return 0;
}

struct area_slot *area_slot_find(const struct area_view *view, uint64_t function, bool insert)
{
    return function == view->slots[1].function ? &view->slots[1] : NULL;
}

int agent_select(struct agent *at, const char *selection, uint32_t mode, struct err *err)
{
    snprintf(fake_selected, sizeof fake_selected, "%s", selection);
    fake_mode = mode;
    return 0;
}

static struct fake_demand *demand_of(const struct csr *csr)
{
    for (size_t i = 0; i < FAKE_DEMANDS; i++)
        if (fake_demands[i].csr == csr)
            return &fake_demands[i];
    return NULL;
}

int agent_demand(struct agent *at, const struct agent_demand *wanted,
                 void (*ready)(void *ctx, int code, const char *reason), void *ctx, struct err *err)
{
    struct fake_demand *demand = demand_of(wanted->csr);
    demand = demand ? demand : demand_of(NULL);
    fake_demand_calls++;
    *demand = (struct fake_demand){.csr = wanted->csr,
                                   .at_exit = wanted->at_exit,
                                   .raise = wanted->raise,
                                   .values = wanted->values,
                                   .has_program = wanted->program != NULL,
                                   .is_mpi = wanted->mpi != NULL,
                                   .param_count = wanted->param_count};
    if (wanted->mpi)
        memcpy(demand->mpi, wanted->mpi, sizeof demand->mpi);
    if (wanted->program)
        demand->program = *wanted->program;
    for (unsigned i = 0; i < wanted->param_count; i++)
        snprintf(demand->params[i], sizeof demand->params[i], "%s", wanted->params[i]);
    if (wanted->selection)
        snprintf(demand->selection, sizeof demand->selection, "%s", wanted->selection);
    if (ready)
        ready(ctx, 0, NULL);
    return 0;
}

void agent_undemand(struct agent *at, const struct csr *csr)
{
    struct fake_demand *demand = demand_of(csr);
    if (demand)
        *demand = (struct fake_demand){0};
}

void agents_on_event(struct agents *agents, void (*fn)(void *ctx, const struct agent_event *event), void *ctx)
{
    agents->on_event = fn;
    agents->event_ctx = ctx;
}

bool agent_event_params(const struct agent_event *event, const struct csr *csr, struct code_event *ret_params)
{
    const struct fake_demand *demand = demand_of(csr);
    if (!demand || demand->at_exit != event->raise.exit)
        return false;
    demand_params(demand, ret_params);
    return true;
}

void agents_on_ring(struct agents *agents, void (*fn)(void *ctx), void *ctx)
{
    agents->on_ring = fn;
    agents->ring_ctx = ctx;
}

void agent_release(struct agent *at, struct area_thread *thread)
{
    fake_released++;
}

void agent_release_kept(struct agents *agents, pid_t pid, struct area_thread *thread, uint64_t time)
{
    fake_released++;
}

void agents_on_change(struct agents *agents, void (*fn)(void *ctx, struct agent *agent, bool came), void *ctx)
{
    agents->on_change = fn;
    agents->change_ctx = ctx;
}

void agent_commands_read(struct agents *agents)
{
}

/* ---- calls of MPI ---- */

uint32_t agent_mpi_call(const struct agent *at, uint32_t slot)
{
    return called_now;
}

bool agent_event_mpi_call(const struct agent_event *event, struct mpi_told *ret_told)
{
    if (told_now)
        *ret_told = *told_now;
    return told_now != NULL;
}
