/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/code.h"

static bool operand_ok(uint8_t kind, int64_t value, uint32_t cell_count)
{
    switch (kind) {
    case CODE_PARAM:
        return value >= 0 && value < CODE_PARAMS;
    case CODE_CELL:
        return value >= 0 && value < (int64_t)cell_count;
    default:
        return kind < CODE_OPERAND_COUNT;
    }
}

static bool other_ok(const struct code_program *program, uint32_t at, uint32_t cell_count)
{
    const struct code_insn *insn = &program->insns[at];
    if (insn->op == CODE_SKIP_IF || insn->op == CODE_SKIP_UNLESS)
        return insn->other < program->count - at; /* at the furthest to the end */
    return insn->other < cell_count;
}

bool code_check(const struct code_program *program, uint32_t cell_count)
{
    if (program->count > CODE_INSN_LIMIT)
        return false;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct code_insn *insn = &program->insns[i];
        if (insn->op >= CODE_OP_COUNT || insn->comparison >= CODE_COMPARISON_COUNT || insn->cell >= cell_count ||
            !other_ok(program, i, cell_count) || !operand_ok(insn->a_kind, insn->a, cell_count) ||
            !operand_ok(insn->b_kind, insn->b, cell_count))
            return false;
    }
    return true;
}

struct number {
    int64_t bits;
    uint8_t type;
};

static struct number operand(uint8_t kind, int64_t value, const struct code_event *event, code_cell *cells)
{
    switch (kind) {
    case CODE_PARAM:
        if ((uint64_t)value >= event->param_count)
            return (struct number){0, CODE_SIGNED};
        return (struct number){event->params[value], event->types[value]};
    case CODE_TIME:
        return (struct number){(int64_t)event->time_ns, CODE_SIGNED};
    case CODE_DURATION:
        return (struct number){(int64_t)event->duration_ns, CODE_SIGNED};
    case CODE_IMMEDIATE_UNSIGNED:
        return (struct number){value, CODE_UNSIGNED};
    case CODE_IMMEDIATE_FLOATING:
        return (struct number){value, CODE_FLOATING};
    case CODE_CELL:
        return (struct number){atomic_load_explicit(&cells[value], memory_order_acquire), CODE_SIGNED};
    default:
        return (struct number){value, CODE_SIGNED};
    }
}

static bool compare_integers(uint8_t comparison, struct number a, struct number b)
{
    /* huge: above every signed number; where only one is, that one is greater */
    bool a_huge = a.type == CODE_UNSIGNED && a.bits < 0, b_huge = b.type == CODE_UNSIGNED && b.bits < 0;
    bool less = a_huge != b_huge ? b_huge : a.bits < b.bits;
    bool equal = a_huge == b_huge && a.bits == b.bits;
    switch (comparison) {
    case CODE_EQ:
        return equal;
    case CODE_NE:
        return !equal;
    case CODE_LT:
        return less;
    case CODE_LE:
        return less || equal;
    case CODE_GT:
        return !less && !equal;
    default:
        return !less;
    }
}

/* ---- floating numbers, by their bits: the agent may not touch vector registers ---- */

#define DOUBLE_SIGN (UINT64_C(1) << 63)
#define DOUBLE_INFINITE (UINT64_C(0x7ff) << 52)
enum { DOUBLE_FRACTION = 52, DOUBLE_BIAS = 1023 };

/* The double nearest to an integer, ties to even, as the processor converts. */
static uint64_t double_of_integer(struct number number)
{
    bool negative = number.type == CODE_SIGNED && number.bits < 0;
    uint64_t size = negative ? -(uint64_t)number.bits : (uint64_t)number.bits;
    if (!size)
        return 0;
    unsigned top = 63 - (unsigned)__builtin_clzll(size);
    uint64_t fraction;
    if (top <= DOUBLE_FRACTION) {
        fraction = size << (DOUBLE_FRACTION - top);
    } else {
        unsigned cut = top - DOUBLE_FRACTION;
        uint64_t rest = size & ((UINT64_C(1) << cut) - 1), half = UINT64_C(1) << (cut - 1);
        fraction = size >> cut;
        fraction += rest > half || (rest == half && (fraction & 1));
    }
    /* the implicit bit of the fraction, or its carry, adds to the exponent */
    uint64_t bits = ((uint64_t)(top + DOUBLE_BIAS - 1) << DOUBLE_FRACTION) + fraction;
    return negative ? bits | DOUBLE_SIGN : bits;
}

static uint64_t to_double(struct number number)
{
    return number.type == CODE_FLOATING ? (uint64_t)number.bits : double_of_integer(number);
}

/* Doubles in an order of integers; both zeros are 0. */
static int64_t double_order(uint64_t bits)
{
    int64_t size = (int64_t)(bits & ~DOUBLE_SIGN);
    return bits & DOUBLE_SIGN ? -size : size;
}

static bool compare_doubles(uint8_t comparison, uint64_t a, uint64_t b)
{
    if ((a & ~DOUBLE_SIGN) > DOUBLE_INFINITE || (b & ~DOUBLE_SIGN) > DOUBLE_INFINITE) /* not a number */
        return comparison == CODE_NE;
    struct number first = {double_order(a), CODE_SIGNED}, second = {double_order(b), CODE_SIGNED};
    return compare_integers(comparison, first, second);
}

static bool compare(const struct code_insn *insn, const struct code_event *event, code_cell *cells)
{
    struct number a = operand(insn->a_kind, insn->a, event, cells);
    struct number b = operand(insn->b_kind, insn->b, event, cells);
    if (a.type >= CODE_MISSING || b.type >= CODE_MISSING)
        return false;
    if (a.type == CODE_FLOATING || b.type == CODE_FLOATING)
        return compare_doubles(insn->comparison, to_double(a), to_double(b));
    return compare_integers(insn->comparison, a, b);
}

static void timer_stop(code_cell *started_cell, code_cell *total, int64_t now)
{
    int64_t started = atomic_exchange_explicit(started_cell, 0, memory_order_relaxed);
    if (started) /* overflow wraps, here as in the additions */
        atomic_fetch_add_explicit(total, (int64_t)((uint64_t)now - (uint64_t)started), memory_order_relaxed);
}

unsigned code_run(const struct code_program *program, const struct code_event *event, code_cell *cells)
{
    unsigned outcome = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct code_insn *insn = &program->insns[i];
        code_cell *cell = &cells[insn->cell];
        int64_t now = (int64_t)event->time_ns, idle = 0;
        struct number a;
        switch (insn->op) {
        case CODE_ADD:
            a = operand(insn->a_kind, insn->a, event, cells);
            if (a.type <= CODE_UNSIGNED)
                atomic_fetch_add_explicit(cell, a.bits, memory_order_relaxed);
            break;
        case CODE_TIMER_START:
            atomic_compare_exchange_strong_explicit(cell, &idle, now, memory_order_relaxed, memory_order_relaxed);
            break;
        case CODE_TIMER_STOP:
            timer_stop(cell, &cells[insn->other], now);
            break;
        case CODE_UNLESS:
            if (!compare(insn, event, cells))
                return outcome;
            break;
        case CODE_SKIP_IF:
        case CODE_SKIP_UNLESS:
            if (compare(insn, event, cells) == (insn->op == CODE_SKIP_IF))
                i += insn->other;
            break;
        case CODE_SET:
            a = operand(insn->a_kind, insn->a, event, cells);
            atomic_store_explicit(cell, a.bits, memory_order_release);
            break;
        case CODE_POST:
            atomic_fetch_add_explicit(cell, 1, memory_order_release);
            outcome |= CODE_POSTED;
            break;
        default:
            return outcome;
        }
    }
    return outcome | CODE_PASSED;
}
