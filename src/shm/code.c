/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/code.h"

static bool operand_ok(uint8_t kind, int64_t value)
{
    return kind < CODE_OPERAND_COUNT && (kind != CODE_PARAM || (value >= 0 && value < CODE_PARAMS));
}

bool code_check(const struct code_program *program, uint32_t cell_count)
{
    if (program->count > CODE_INSN_LIMIT)
        return false;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct code_insn *insn = &program->insns[i];
        if (insn->op >= CODE_OP_COUNT || insn->comparison >= CODE_COMPARISON_COUNT || insn->cell >= cell_count ||
            insn->other >= cell_count || !operand_ok(insn->a_kind, insn->a) || !operand_ok(insn->b_kind, insn->b))
            return false;
    }
    return true;
}

static int64_t operand(uint8_t kind, int64_t value, const struct code_event *event)
{
    switch (kind) {
    case CODE_PARAM:
        return (uint64_t)value < event->param_count ? event->params[value] : 0;
    case CODE_TIME:
        return (int64_t)event->time_ns;
    default:
        return value;
    }
}

static bool compare(uint8_t comparison, int64_t a, int64_t b)
{
    switch (comparison) {
    case CODE_EQ:
        return a == b;
    case CODE_NE:
        return a != b;
    case CODE_LT:
        return a < b;
    case CODE_LE:
        return a <= b;
    case CODE_GT:
        return a > b;
    default:
        return a >= b;
    }
}

void code_run(const struct code_program *program, const struct code_event *event, code_cell *cells)
{
    for (uint32_t i = 0; i < program->count; i++) {
        const struct code_insn *insn = &program->insns[i];
        code_cell *cell = &cells[insn->cell];
        int64_t now = (int64_t)event->time_ns, idle = 0;
        switch (insn->op) {
        case CODE_ADD:
            atomic_fetch_add_explicit(cell, operand(insn->a_kind, insn->a, event), memory_order_relaxed);
            break;
        case CODE_TIMER_START:
            atomic_compare_exchange_strong_explicit(cell, &idle, now, memory_order_relaxed, memory_order_relaxed);
            break;
        case CODE_TIMER_STOP: {
            int64_t started = atomic_exchange_explicit(cell, 0, memory_order_relaxed);
            if (started) /* overflow wraps, here as in the additions */
                atomic_fetch_add_explicit(&cells[insn->other], (int64_t)((uint64_t)now - (uint64_t)started),
                                          memory_order_relaxed);
            break;
        }
        case CODE_UNLESS:
            if (!compare(insn->comparison, operand(insn->a_kind, insn->a, event),
                         operand(insn->b_kind, insn->b, event)))
                return;
            break;
        default:
            return;
        }
    }
}
