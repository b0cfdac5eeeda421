/* SPDX-License-Identifier: Apache-2.0 */
#include <asm/unistd.h>
#include <stdatomic.h>
#include <time.h>

#include "agent/safety/act.h"
#include "agent/safety/patience.h"
#include "agent/system/raw.h"
#include "agent/safety/read.h"
#include "agent/safety/read_internal.h"
#include "agent/system/sys.h"
#include "agent/safety/values.h"
#include "shm/mpi_told.h"

_Static_assert(sizeof(struct mpi_told) <= AREA_RAISE_VALUES, "it is told whole");

enum { PARAM_SIZE = 9 /* u8 type, i64 */ };

static struct {
    struct area_view view;
    struct doorbell *bell;
    code_cell *cells;
} act;

void agent_act_init(const struct area_view *view, struct doorbell *bell, code_cell *cells)
{
    act.view = *view;
    act.bell = bell;
    act.cells = cells;
    patience_forget();
    agent_programs_forget();
}

/* By the clock that the monitor's and the tracer's timers use; the C library has it without a system call. */
static uint64_t now_ns(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- parameters ---- */

/* In the frame it is there; elsewhere it may not be. */
static inline int param_read(uint64_t *ret, uint64_t address, unsigned size, const struct capture_frame *frame)
{
    uint64_t value = 0;
    if (address - frame->gpr[7] >= CAPTURE_DIRECT - CAPTURE_RED_ZONE || address < CAPTURE_LOWEST_ADDR)
        return agent_read(ret, address, size);
    if (size == 8)
        __builtin_memcpy(&value, (const void *)address, 8);
    else if (size == 4)
        __builtin_memcpy(&value, (const void *)address, 4);
    else
        return agent_read(ret, address, size);
    *ret = value;
    return 0;
}

/* One number by its block: [LOAD,] then VALUE or BITS, or READ, END. The commonest, an integer in a register or in the
 * frame; the interpreter of captures takes longer to begin with than all of this. Returns the instructions used; 0: it
 * is another.
 */
static uint32_t param_plain(const struct capture_insn *block, uint32_t count, const struct capture_frame *frame,
                            int64_t *ret_bits, uint8_t *type)
{
    const struct capture_insn *insn = block, *end = block + count;
    uint64_t value = 0;
    uint32_t from = UINT32_MAX; /* the temporary that has it */
    if (insn < end && insn->op == CAPTURE_LOAD && (insn->n & 63) < 17 && insn->n >> 8 <= sizeof value) {
        from = insn->r;
        if (param_read(&value, frame->gpr[insn->n & 63] + (uint64_t)(int64_t)insn->off, insn->n >> 8, frame) != 0)
            *type = CODE_MISSING;
        insn++;
    }
    if (insn + 1 >= end || insn[1].op != CAPTURE_END || insn->n != sizeof value)
        return 0;
    if (from != insn->r) {
        if (from != UINT32_MAX || insn->r >= 17)
            return 0;
        value = frame->gpr[insn->r];
    }
    if (insn->op == CAPTURE_BITS) {
        unsigned shift = insn->off & 63, bits = (unsigned)insn->off >> 8 & 127;
        bool is_signed = (unsigned)insn->off >> 16 & 1;
        value = bits ? value >> shift << (64 - bits) : value >> shift;
        value = !bits ? value : is_signed ? (uint64_t)((int64_t)value >> (64 - bits)) : value >> (64 - bits);
    } else if ((insn->op == CAPTURE_READ || insn->op == CAPTURE_MEM) && from == UINT32_MAX) {
        if (param_read(&value, value + (uint64_t)(int64_t)insn->off, sizeof value, frame) != 0)
            *type = CODE_MISSING;
    } else if (insn->op != CAPTURE_VALUE || insn->off != 0) {
        return 0;
    }
    *ret_bits = *type == CODE_MISSING ? 0 : (int64_t)value;
    return (uint32_t)(insn + 2 - block);
}

/* A program of such blocks only. */
static bool params_plain(struct code_event *event, uint32_t at, const struct capture_frame *frame)
{
    const struct area_program *program = (const struct area_program *)(const void *)(act.view.programs + at);
    const struct capture_insn *insns =
        (const struct capture_insn *)(const void *)(program->code + sizeof(struct capture_head));
    uint32_t count = program->size / sizeof *insns - 1, params = 0;
    for (uint32_t i = 0; i < count;) {
        if (params == CODE_PARAMS || insns[i].op != CAPTURE_NUMBER)
            return false;
        event->types[params] = (uint8_t)insns[i].off;
        uint32_t used = param_plain(insns + i + 1, count - i - 1, frame, &event->params[params], &event->types[params]);
        if (used == 0 || used != insns[i].n)
            return false;
        params++;
        i += 1 + used;
    }
    event->param_count = params;
    return true;
}

/* What the params program of the site emits: 9 bytes each. */
static void params_get(struct code_event *event, const struct agent_call *call)
{
    uint8_t bytes[CODE_PARAMS * PARAM_SIZE];
    uint32_t program = call->site_entry ? atomic_load_explicit(&call->site_entry->params, memory_order_acquire) : 0;
    event->param_count = 0;
    if (!program || !call->frame ||
        !(agent_program_flags(&act.view, program, AGENT_PROGRAM_CAPTURE) & AGENT_PROGRAM_OK) ||
        params_plain(event, program, call->frame))
        return;
    size_t size = agent_values_capture(&act.view, program, call->frame, bytes, sizeof bytes);
    for (const uint8_t *p = bytes; p + PARAM_SIZE <= bytes + size; p += PARAM_SIZE) {
        int64_t bits;
        __builtin_memcpy(&bits, p + 1, sizeof bits);
        event->params[event->param_count] = bits;
        event->types[event->param_count++] = p[0];
    }
}

static const struct area_list *list_at(uint32_t offset, unsigned *ret_flags)
{
    *ret_flags = offset ? agent_program_flags(&act.view, offset, AGENT_PROGRAM_LIST) : 0;
    return *ret_flags & AGENT_PROGRAM_OK ? (const struct area_list *)(const void *)(act.view.programs + offset) : NULL;
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
    return patience_monitor_alive(act.bell);
}

char agent_monitor_state(void)
{
    return patience_monitor_state(act.bell);
}

/* Waits until the monitor releases the thread, or there is nobody to do it. */
static void hold(struct area_raise *raise, struct patience *patience)
{
    for (;;) {
        struct timespec slice = {0, wait_policies[WAIT_HELD].look_ms * 1000000L};
        if (atomic_load_explicit(&raise->hold, memory_order_acquire) != AREA_HOLD_POSTED)
            break;
        if (!atomic_load(&act.view.area->on) || !patience_lasts(patience))
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
    struct patience patience = patience_begin(act.bell);
    if (atomic_load_explicit(&raise->hold, memory_order_acquire) == AREA_HOLD_POSTED || !patience_lasts(&patience)) {
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
    hold(raise, &patience);
}

bool agent_act_short(uint32_t offset, const struct capture_frame *frame)
{
    struct code_event event;
    unsigned flags;
    const struct area_list *list = list_at(offset, &flags);
    if (!list || flags & (AGENT_PROGRAM_RAISES | AGENT_PROGRAM_DURATION) || !act.cells)
        return false;
    event.param_count = 0;
    if (flags & AGENT_PROGRAM_PARAMS) {
        const struct area_site *site = area_site_find(&act.view, frame->gpr[16], false);
        uint32_t program = site ? atomic_load_explicit(&site->params, memory_order_acquire) : 0;
        if (!program || !(agent_program_flags(&act.view, program, AGENT_PROGRAM_CAPTURE) & AGENT_PROGRAM_OK) ||
            !params_plain(&event, program, frame))
            return false;
    }
    event.time_ns = flags & AGENT_PROGRAM_TIME ? now_ns() : 0;
    event.duration_ns = 0;
    unsigned outcome = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct area_action *action = &list->actions[i];
        if (!atomic_load_explicit(&action->enabled, memory_order_relaxed) || !action->program_at ||
            !(agent_program_flags(&act.view, action->program_at, AGENT_PROGRAM_CODE) & AGENT_PROGRAM_OK))
            continue;
        outcome |= code_run((const struct code_program *)(const void *)(act.view.programs + action->program_at), &event,
                            act.cells);
    }
    if (outcome & CODE_POSTED)
        ring();
    return true;
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
        params_get(&event, call);
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
