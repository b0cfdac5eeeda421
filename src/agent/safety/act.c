/* SPDX-License-Identifier: Apache-2.0 */
#include <asm/unistd.h>
#include <stdatomic.h>
#include <time.h>

#include "agent/safety/act.h"
#include "agent/safety/timeout.h"
#include "agent/system/large.h"
#include "agent/system/sys.h"
#include "agent/safety/read.h"
#include "agent/safety/values.h"
#include "shm/mpi_told.h"

_Static_assert(sizeof(struct mpi_told) <= AREA_RAISE_VALUES, "it is told whole");

enum { PARAM_SIZE = 9 /* u8 type, i64 */ };

static struct {
    struct area_view view;
    struct doorbell *bell;
    code_cell *cells;
} act;

/* By the clock that the monitor's and the tracer's timers use; the C library has it without a system call. */
static uint64_t now_ns(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static const struct area_list *list_at(uint32_t offset, unsigned *ret_flags)
{
    *ret_flags = offset ? agent_program_flags(&act.view, offset, AGENT_PROGRAM_LIST) : 0;
    return *ret_flags & AGENT_PROGRAM_OK ? (const struct area_list *)(const void *)(act.view.programs + offset) : NULL;
}

/* ---- plans ---- */

/* Written once, published by one store. When there is no place, there are no more: the long way does all. */
enum { PLANS = 4096, PLAN_PLACES = 2 * PLANS, PLAN_WAYS = 8 };
static void *_Atomic plan_memory;
static _Atomic bool plans_refused; /* there was no memory for any: it is not asked for at each call */
struct plans {
    _Atomic(struct agent_plan *) places[PLAN_PLACES + PLAN_WAYS];
    _Atomic uint32_t used;
    struct agent_plan plans[PLANS];
};

static void plans_forget(void)
{
    atomic_store_explicit(&plans_refused, false, memory_order_relaxed);
    struct plans *all = atomic_load_explicit(&plan_memory, memory_order_relaxed);
    if (!all || !atomic_exchange(&all->used, 0))
        return;
    for (uint32_t i = 0; i < PLAN_PLACES + PLAN_WAYS; i++)
        atomic_store_explicit(&all->places[i], NULL, memory_order_relaxed);
}

/* One number by its block: [LOAD,] then VALUE or BITS, or READ, END: an integer in a register or in the frame. Returns the
 * instructions used; 0: it is another. */
static uint32_t param_decode(const struct capture_insn *block, uint32_t count, struct agent_plan_param *ret)
{
    const struct capture_insn *insn = block, *end = block + count;
    bool loads = insn < end && insn->op == CAPTURE_LOAD;
    if (loads) {
        if ((insn->n & 63) >= 17 || insn->n >> 8 > sizeof(uint64_t) || insn->n >> 8 == 0)
            return 0;
        ret->reg = insn->n & 63;
        ret->size = (uint8_t)(insn->n >> 8);
        ret->off = insn->off;
        insn++;
    }
    if (insn + 1 >= end || insn[1].op != CAPTURE_END || insn->n != sizeof(uint64_t))
        return 0;
    if (loads ? insn->r != block->r : insn->r >= 17)
        return 0;
    if (!loads)
        ret->reg = insn->r;
    if (insn->op == CAPTURE_BITS) {
        ret->shift = insn->off & 63;
        ret->bits = (unsigned)insn->off >> 8 & 127;
        ret->is_signed = (unsigned)insn->off >> 16 & 1;
    } else if ((insn->op == CAPTURE_READ || insn->op == CAPTURE_MEM) && !loads) {
        ret->size = sizeof(uint64_t);
        ret->off = insn->off;
    } else if (insn->op != CAPTURE_VALUE || insn->off != 0) {
        return 0;
    }
    ret->plain = ret->size == sizeof(uint64_t) && !ret->shift && !ret->bits;
    return ret->bits > 64 ? 0 : (uint32_t)(insn + 2 - block);
}

/* What it looks at, if its register is MPI_TOLD_REGISTER. */
static uint8_t param_told(const struct agent_plan_param *param)
{
    const int32_t first = offsetof(struct mpi_told, par) + sizeof(int64_t),
                  end = first + MPI_TOLD_PARS * sizeof(int64_t);
    if (param->reg == 0 && param->size && !param->off) /* what the call does not have */
        return 0;
    if (param->reg != MPI_TOLD_REGISTER || param->size != sizeof(int64_t) || param->off % 8)
        return AGENT_TOLD_OTHER;
    if (param->off >= first && param->off < end)
        return AGENT_TOLD_PARS;
    return param->off >= (int32_t)offsetof(struct mpi_told, comm_id) &&
                   param->off < (int32_t)offsetof(struct mpi_told, sent)
               ? AGENT_TOLD_REST
               : AGENT_TOLD_OTHER;
}

/* A program of such blocks only. */
static bool params_decode(struct agent_plan *plan)
{
    if (!(agent_program_flags(&act.view, plan->params_at, AGENT_PROGRAM_CAPTURE) & AGENT_PROGRAM_OK))
        return false;
    const struct area_program *program =
        (const struct area_program *)(const void *)(act.view.programs + plan->params_at);
    const struct capture_insn *insns =
        (const struct capture_insn *)(const void *)(program->code + sizeof(struct capture_head));
    uint32_t count = program->size / sizeof *insns - 1;
    for (uint32_t i = 0; i < count;) {
        if (plan->param_count == CODE_PARAMS || insns[i].op != CAPTURE_NUMBER)
            return false;
        struct agent_plan_param *param = &plan->params[plan->param_count++];
        param->type = (uint8_t)insns[i].off;
        uint32_t used = param_decode(insns + i + 1, count - i - 1, param);
        if (used == 0 || used != insns[i].n)
            return false;
        plan->told |= param_told(param);
        i += 1 + used;
    }
    return true;
}

/* All its programs can be run, and none raises or looks at a duration. */
static bool list_runs(const struct area_list *list, unsigned flags)
{
    if (flags & (AGENT_PROGRAM_RAISES | AGENT_PROGRAM_DURATION) || !act.cells)
        return false;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->actions[i].program_at &&
            !(agent_program_flags(&act.view, list->actions[i].program_at, AGENT_PROGRAM_CODE) & AGENT_PROGRAM_OK))
            return false;
    return true;
}

static const struct agent_plan *plan_make(uint32_t offset, uint32_t params, _Atomic(struct agent_plan *) *places)
{
    unsigned flags;
    const struct area_list *list = list_at(offset, &flags);
    struct agent_plan plan = {
        .list_at = offset, .params_at = params, .takes_params = (flags & AGENT_PROGRAM_PARAMS) != 0};
    plan.takes_time = (flags & AGENT_PROGRAM_TIME) != 0;
    plan.params_known = params && params_decode(&plan);
    plan.runs = list && list_runs(list, flags) && (plan.takes_params ? plan.params_known : !params);
    if (plan.runs && list->count == 1 && list->actions[0].program_at && !plan.takes_time) {
        plan.only = &list->actions[0];
        plan.program = (const struct code_program *)(const void *)(act.view.programs + plan.only->program_at);
    }
    struct plans *all = atomic_load_explicit(&plan_memory, memory_order_relaxed);
    uint32_t index = atomic_load(&all->used), way = 0;
    while (index < PLANS && !atomic_compare_exchange_weak(&all->used, &index, index + 1))
        ;
    if (index >= PLANS)
        return NULL;
    all->plans[index] = plan;
    for (struct agent_plan *none = NULL; way < PLAN_WAYS; way++, none = NULL)
        if (atomic_compare_exchange_strong(&places[way], &none, &all->plans[index]))
            return &all->plans[index];
    return NULL;
}

static const struct agent_plan *plan_find(uint32_t offset, uint32_t params)
{
    struct plans *all = atomic_load_explicit(&plan_memory, memory_order_acquire);
    if (!all && !atomic_load_explicit(&plans_refused, memory_order_relaxed)) {
        all = large_get(&plan_memory, sizeof *all, LARGE_PART);
        atomic_store_explicit(&plans_refused, !all, memory_order_relaxed);
    }
    if (!all)
        return NULL;
    _Atomic(struct agent_plan *) *places = &all->places[(offset / 8 * 2654435761U + params / 8 * 2246822519U) >> 19];
    for (uint32_t way = 0; way < PLAN_WAYS; way++) {
        const struct agent_plan *plan = atomic_load_explicit(&places[way], memory_order_acquire);
        if (!plan)
            return plan_make(offset, params, places);
        if (plan->list_at == offset && plan->params_at == params)
            return plan;
    }
    return NULL;
}
_Static_assert(PLAN_PLACES == 1 << (32 - 19), "as it is hashed");

const struct agent_plan *agent_plan_of(uint32_t offset, uint64_t address)
{
    const struct agent_plan *plan = offset ? plan_find(offset, 0) : NULL;
    if (plan && plan->takes_params) {
        const struct area_site *site = area_site_find(&act.view, address, false);
        uint32_t params = site ? atomic_load_explicit(&site->params, memory_order_acquire) : 0;
        plan = params ? plan_find(offset, params) : NULL;
    }
    return plan && plan->runs ? plan : NULL;
}

void agent_act_init(const struct area_view *view, struct doorbell *bell, code_cell *cells)
{
    act.view = *view;
    act.bell = bell;
    act.cells = cells;
    timeout_forget();
    agent_programs_forget();
    plans_forget();
}

/* ---- parameters ---- */

/* In the frame it is there; elsewhere it may not be. */
static inline bool is_near(uint64_t address, const uint64_t *gpr)
{
    return address - gpr[7] < CAPTURE_DIRECT - CAPTURE_RED_ZONE && address >= CAPTURE_LOWEST_ADDR;
}

static __attribute__((noinline)) int64_t param_other(const struct agent_plan_param *param, const uint64_t *gpr,
                                                     uint8_t *ret_type)
{
    uint64_t value = gpr[param->reg], address = value + (uint64_t)(int64_t)param->off;
    if (param->size == 4 && is_near(address, gpr)) {
        uint32_t four;
        __builtin_memcpy(&four, (const void *)address, sizeof four);
        value = four;
    } else if (param->size == 8 && is_near(address, gpr)) {
        __builtin_memcpy(&value, (const void *)address, sizeof value);
    } else if (param->size) {
        value = 0;
        if (agent_read(&value, address, param->size) != 0) {
            *ret_type = CODE_MISSING;
            return 0;
        }
    }
    unsigned cut = param->bits ? 64u - param->bits : 0;
    value = value >> param->shift << cut;
    return param->is_signed ? (int64_t)value >> cut : (int64_t)(value >> cut);
}

static inline void params_take(struct code_event *event, const struct agent_plan *plan, const uint64_t *gpr)
{
    event->param_count = plan->param_count;
    for (uint32_t i = 0; i < plan->param_count; i++) {
        const struct agent_plan_param *param = &plan->params[i];
        uint64_t address = gpr[param->reg] + (uint64_t)(int64_t)param->off;
        event->types[i] = param->type;
        if (param->plain && is_near(address, gpr))
            __builtin_memcpy(&event->params[i], (const void *)address, sizeof event->params[i]);
        else
            event->params[i] = param_other(param, gpr, &event->types[i]);
    }
}

/* What the params program of the site emits: 9 bytes each. */
static void params_get(struct code_event *event, uint32_t list, const struct agent_call *call)
{
    uint8_t bytes[CODE_PARAMS * PARAM_SIZE];
    uint32_t program = call->site_entry ? atomic_load_explicit(&call->site_entry->params, memory_order_acquire) : 0;
    event->param_count = 0;
    if (!program || !call->frame ||
        !(agent_program_flags(&act.view, program, AGENT_PROGRAM_CAPTURE) & AGENT_PROGRAM_OK))
        return;
    const struct agent_plan *plan = plan_find(list, program);
    if (plan && plan->params_known) {
        params_take(event, plan, call->frame->gpr);
        return;
    }
    size_t size = agent_values_capture(&act.view, program, call->frame, bytes, sizeof bytes);
    for (const uint8_t *p = bytes; p + PARAM_SIZE <= bytes + size; p += PARAM_SIZE) {
        int64_t bits;
        __builtin_memcpy(&bits, p + 1, sizeof bits);
        event->params[event->param_count] = bits;
        event->types[event->param_count++] = p[0];
    }
}

unsigned agent_act_needs(uint32_t offset, const struct area_site *site_entry, bool values)
{
    unsigned flags, needs = 0;
    uint32_t program;
    if (!list_at(offset, &flags) || !site_entry)
        return 0;
    if (flags & AGENT_PROGRAM_PARAMS || flags & AGENT_PROGRAM_RAISES) {
        program = atomic_load_explicit(&site_entry->params, memory_order_acquire);
        if (program)
            needs |= AGENT_ACT_FRAME | (agent_values_wants_xmm(&act.view, program) ? AGENT_ACT_XMM : 0);
    }
    if (values && flags & AGENT_PROGRAM_RAISES) {
        program = atomic_load_explicit(&site_entry->values, memory_order_acquire);
        if (program)
            needs |= AGENT_ACT_FRAME | (agent_values_wants_xmm(&act.view, program) ? AGENT_ACT_XMM : 0);
    }
    return needs;
}

/* ---- the monitor ---- */

bool agent_monitor_alive(void)
{
    return doorbell_monitor_alive(act.bell);
}

char agent_monitor_state(void)
{
    return doorbell_monitor_state(act.bell);
}

/* Waits until the monitor releases the thread, or there is nobody to do it. */
static void hold(struct area_raise *raise, struct timeout *timeout)
{
    for (;;) {
        struct timespec slice = {0, wait_policies[WAIT_HELD].look_ms * 1000000L};
        if (atomic_load_explicit(&raise->hold, memory_order_acquire) != AREA_HOLD_POSTED)
            break;
        if (!atomic_load(&act.view.area->on) || !timeout_runs(timeout))
            break;
        sys_call4(__NR_futex, (long)&raise->hold, FUTEX_WAIT, AREA_HOLD_POSTED, (long)&slice);
    }
    atomic_store_explicit(&raise->hold, AREA_HOLD_NONE, memory_order_release);
}

static void ring(void)
{
    atomic_fetch_add_explicit(&act.bell->rung, 1, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&act.bell->sleeping, memory_order_seq_cst))
        sys_call4(__NR_futex, (long)&act.bell->rung, FUTEX_WAKE, 1, 0);
}

/* One event at a time a thread: in a signal handler that runs while the thread is held there is none. And none that
 * nobody would hear: a monitor that goes on later would take it for a new one. */
static void raise_event(struct area_thread *thread, uint32_t csr, const struct agent_call *call,
                        const struct code_event *event)
{
    struct area_raise *raise = &thread->raise;
    struct timeout timeout = timeout_start(act.bell);
    if (atomic_load_explicit(&raise->hold, memory_order_acquire) == AREA_HOLD_POSTED || !timeout_runs(&timeout)) {
        atomic_fetch_add(&act.view.area->raised, 1);
        return;
    }
    raise->exit = call->exit;
    raise->slot = call->slot;
    raise->depth = call->depth;
    raise->time = call->time;
    raise->entry_time = call->entry_time;
    raise->site = call->site;
    raise->callsite = call->callsite;
    raise->frame = call->sp;
    raise->csr = csr;
    raise->param_count = event->param_count;
    raw_copy(raise->params, event->params, event->param_count * sizeof *event->params);
    raw_copy(raise->param_types, event->types, event->param_count);
    raise->layout = 0;
    raise->values_size = 0;
    if (call->frame &&
        mpi_function_is(atomic_load_explicit(&act.view.slots[call->slot].function, memory_order_relaxed))) {
        raise->values_size = sizeof(struct mpi_told); /* of a call of MPI all that is known, and no layout */
        raw_copy(raise->values, (const void *)call->frame->gpr[MPI_TOLD_REGISTER], sizeof(struct mpi_told));
    } else if (call->values && call->frame && call->site_entry) {
        /* program and layout change together */
        uint64_t both = __atomic_load_n((const uint64_t *)(const void *)&call->site_entry->values, __ATOMIC_ACQUIRE);
        unsigned before = agent_read_begin();
        raise->values_size =
            (uint32_t)agent_values_capture(&act.view, (uint32_t)both, call->frame, raise->values, sizeof raise->values);
        agent_read_end(before);
        if (raise->values_size)
            raise->layout = (uint32_t)(both >> 32);
    }
    atomic_store_explicit(&raise->hold, AREA_HOLD_POSTED, memory_order_release);
    atomic_fetch_add(&act.view.area->raised, 1); /* after that: who sees it finds the event */
    ring();
    hold(raise, &timeout);
}

static __attribute__((noinline)) void plan_run(const struct agent_plan *plan, const uint64_t *gpr)
{
    const uint8_t *programs = act.view.programs;
    const struct area_list *list = (const struct area_list *)(const void *)(programs + plan->list_at);
    struct code_event event;
    unsigned outcome = 0;
    params_take(&event, plan, gpr);
    event.time_ns = event.duration_ns = 0;
    if (plan->takes_time)
        event.time_ns = now_ns();
    for (const struct area_action *action = list->actions, *end = action + list->count; action < end; action++)
        if (atomic_load_explicit(&action->enabled, memory_order_relaxed) && action->program_at)
            outcome |=
                code_run((const struct code_program *)(const void *)(programs + action->program_at), &event, act.cells);
    if (outcome & CODE_POSTED)
        ring();
}

static __attribute__((noinline)) void only_run(const struct agent_plan *plan, const uint64_t *gpr)
{
    struct code_event event;
    event.time_ns = event.duration_ns = 0;
    params_take(&event, plan, gpr);
    if (code_run(plan->program, &event, act.cells) & CODE_POSTED)
        ring();
}

void agent_plan_run(const struct agent_plan *plan, const uint64_t *gpr)
{
    static const struct code_event nothing;
    if (!plan->only)
        plan_run(plan, gpr);
    else if (!atomic_load_explicit(&plan->only->enabled, memory_order_relaxed))
        ;
    else if (plan->param_count)
        only_run(plan, gpr);
    else if (code_run(plan->program, &nothing, act.cells) & CODE_POSTED)
        ring();
}

static uint64_t duration_ns(const struct agent_call *call)
{
    enum { SECOND_NS = 1000000000 };
    uint64_t second = atomic_load_explicit(&act.view.area->ticks_per_second, memory_order_relaxed);
    uint64_t ticks = call->time - call->entry_time;
    if (!call->exit || !second)
        return 0;
    return ticks / second * SECOND_NS + ticks % second * SECOND_NS / second;
}

void agent_act(struct area_thread *thread, uint32_t offset, const struct agent_call *call)
{
    struct code_event event;
    unsigned flags;
    uint32_t csr = 0;
    bool raise = false, post = false;
    const struct area_list *list = list_at(offset, &flags);
    if (!list)
        return;
    event.time_ns = flags & AGENT_PROGRAM_TIME ? now_ns() : 0;
    event.duration_ns = flags & AGENT_PROGRAM_DURATION ? duration_ns(call) : 0;
    event.param_count = 0;
    if (flags & (AGENT_PROGRAM_PARAMS | AGENT_PROGRAM_RAISES)) {
        unsigned before = agent_read_begin();
        params_get(&event, offset, call);
        agent_read_end(before);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const struct area_action *action = &list->actions[i];
        unsigned outcome = CODE_PASSED;
        if (!atomic_load_explicit(&action->enabled, memory_order_relaxed))
            continue;
        if (action->program_at) {
            if (!act.cells ||
                !(agent_program_flags(&act.view, action->program_at, AGENT_PROGRAM_CODE) & AGENT_PROGRAM_OK))
                continue;
            outcome = code_run((const struct code_program *)(const void *)(act.view.programs + action->program_at),
                               &event, act.cells);
        }
        post = post || outcome & CODE_POSTED;
        if (action->raise && outcome & CODE_PASSED && !raise) {
            raise = true;
            csr = action->csr;
        }
    }
    if (raise && thread)
        raise_event(thread, csr, call, &event);
    if (post)
        ring();
}
