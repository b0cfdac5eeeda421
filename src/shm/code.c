/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/code.h"
#include "shm/capture_code.h"

/* `set`: a bit for each temporary number that was calculated. */
static bool operand_ok(uint8_t kind, int64_t value, uint32_t cell_count, uint32_t set)
{
    switch (kind) {
    case CODE_PARAM:
        return value >= 0 && value < CODE_PARAMS;
    case CODE_CELL:
        return value >= 0 && value < (int64_t)cell_count;
    case CODE_TEMP:
        return value >= 0 && value < CODE_TEMPS && set >> value & 1;
    default:
        return kind < CODE_OPERAND_COUNT;
    }
}

bool code_check(const struct code_program *program, uint32_t cell_count)
{
    uint32_t set = 0;
    if (program->count > CODE_INSN_LIMIT)
        return false;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct code_insn *insn = &program->insns[i];
        if (insn->op >= CODE_OP_COUNT || insn->operation >= CODE_OPERATION_COUNT || insn->cell >= cell_count ||
            insn->other >= (insn->op == CODE_CALCULATE ? CODE_TEMPS : cell_count) ||
            !operand_ok(insn->a_kind, insn->a, cell_count, set) || !operand_ok(insn->b_kind, insn->b, cell_count, set))
            return false;
        if (insn->op == CODE_CALCULATE)
            set |= UINT32_C(1) << insn->other;
    }
    return true;
}

struct number {
    int64_t bits;
    uint8_t type;
};

static const struct number missing = {0, CODE_MISSING};

static struct number whole(__int128 value)
{
    if (value >= INT64_MIN && value <= INT64_MAX)
        return (struct number){(int64_t)value, CODE_SIGNED};
    return value > 0 && value <= UINT64_MAX ? (struct number){(int64_t)(uint64_t)value, CODE_UNSIGNED} : missing;
}

static __int128 worth(struct number integer)
{
    return integer.type == CODE_UNSIGNED ? (__int128)(uint64_t)integer.bits : integer.bits;
}

static bool compare_integers(uint8_t comparison, struct number a, struct number b)
{
    __int128 x = worth(a), y = worth(b);
    switch (comparison) {
    case CODE_EQ:
        return x == y;
    case CODE_NE:
        return x != y;
    case CODE_LT:
        return x < y;
    case CODE_LE:
        return x <= y;
    case CODE_GT:
        return x > y;
    default:
        return x >= y;
    }
}

/* ---- floating numbers, by their bits: the agent may not touch vector registers ---- */

#define DOUBLE_SIGN (UINT64_C(1) << 63)
#define DOUBLE_INFINITE (UINT64_C(0x7ff) << 52)
enum { DOUBLE_FRACTION = 52, DOUBLE_BIAS = 1023 };

enum { SINGLE_FRACTION = 23 };

/* The double (or float, as one) nearest to an integer, ties to even, as the processor converts. */
static uint64_t double_of_integer(struct number number, unsigned kept)
{
    bool negative = number.type == CODE_SIGNED && number.bits < 0;
    uint64_t size = negative ? -(uint64_t)number.bits : (uint64_t)number.bits;
    if (!size)
        return 0;
    unsigned top = 63 - (unsigned)__builtin_clzll(size);
    uint64_t fraction;
    if (top <= kept) {
        fraction = size << (DOUBLE_FRACTION - top);
    } else {
        unsigned cut = top - kept;
        uint64_t rest = size & ((UINT64_C(1) << cut) - 1), half = UINT64_C(1) << (cut - 1);
        fraction = size >> cut;
        fraction += rest > half || (rest == half && (fraction & 1));
        fraction <<= DOUBLE_FRACTION - kept;
    }
    /* the implicit bit of the fraction, or its carry, adds to the exponent */
    uint64_t bits = ((uint64_t)(top + DOUBLE_BIAS - 1) << DOUBLE_FRACTION) + fraction;
    return negative ? bits | DOUBLE_SIGN : bits;
}

static bool is_floating(struct number number)
{
    return number.type == CODE_FLOATING || number.type == CODE_SINGLE;
}

/* `type`: which of the two kinds of floating numbers an integer becomes. */
static uint64_t to_double(struct number number, uint8_t type)
{
    return is_floating(number) ? (uint64_t)number.bits
                               : double_of_integer(number, type == CODE_SINGLE ? SINGLE_FRACTION : DOUBLE_FRACTION);
}

static struct number round_to(uint8_t type, uint64_t bits)
{
    if (type == CODE_SINGLE)
        bits = capture_widen((uint32_t)capture_compute_float(CAPTURE_FLOAT_TO_OTHER, bits, bits));
    return (struct number){(int64_t)bits, type};
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

static uint64_t calculate_doubles(uint8_t operation, uint64_t a, uint64_t b)
{
    static const uint8_t kinds[] = {CAPTURE_FLOAT_ADD, CAPTURE_FLOAT_SUB, CAPTURE_FLOAT_MUL, CAPTURE_FLOAT_DIV};
    return capture_compute_float(kinds[operation - CODE_PLUS], a, b);
}

/* ---- operations ---- */

static struct number whole_of(bool negative, unsigned __int128 size)
{
    return size > UINT64_MAX ? missing : whole(negative ? -(__int128)size : (__int128)size);
}

static struct number calculate_integers(uint8_t operation, struct number a, struct number b)
{
    __int128 x = worth(a), y = worth(b);
    uint64_t x_size = (uint64_t)(x < 0 ? -x : x),
             y_size = (uint64_t)(y < 0 ? -y : y); /* no library divides 128 bits here */
    bool negative = (x < 0) != (y < 0), shifts = y >= 0 && y < 64;
    /* of bits: what is above 64 is as the sign */
    uint8_t of_bits = (a.type == CODE_UNSIGNED && a.bits < 0) || (b.type == CODE_UNSIGNED && b.bits < 0) ? CODE_UNSIGNED
                                                                                                         : CODE_SIGNED;
    switch (operation) {
    case CODE_PLUS:
        return whole(x + y);
    case CODE_MINUS:
        return whole(x - y);
    case CODE_TIMES:
        return whole_of(negative, (unsigned __int128)x_size * y_size);
    case CODE_DIVIDED:
        return y ? whole_of(negative, x_size / y_size) : missing;
    case CODE_MODULO:
        return y ? whole_of(x < 0, x_size % y_size) : missing;
    case CODE_SHIFTED_LEFT:
        return shifts ? whole(x * ((__int128)1 << y)) : missing;
    case CODE_SHIFTED_RIGHT:
        return shifts ? whole(x >> y) : missing;
    case CODE_BITS_AND:
        return (struct number){a.bits & b.bits, of_bits};
    case CODE_BITS_OR:
        return (struct number){a.bits | b.bits, of_bits};
    case CODE_BITS_XOR:
        return (struct number){a.bits ^ b.bits, of_bits};
    default:
        return missing;
    }
}

/* 0, 1, or -1: it is missing. */
static int truth(struct number number)
{
    if (number.type >= CODE_MISSING)
        return -1;
    return is_floating(number) ? ((uint64_t)number.bits & ~DOUBLE_SIGN) != 0 : number.bits != 0;
}

static struct number join(uint8_t operation, struct number a, struct number b)
{
    int decides = operation == CODE_OR; /* alone */
    if (truth(a) == decides || truth(b) == decides)
        return (struct number){decides, CODE_SIGNED};
    return truth(a) < 0 || truth(b) < 0 ? missing : (struct number){!decides, CODE_SIGNED};
}

/* Towards 0; what does not fit is missing, as C says nothing of it. */
static struct number truncated(uint64_t bits)
{
    int shift = (int)(bits >> DOUBLE_FRACTION & 0x7ff) - DOUBLE_BIAS - DOUBLE_FRACTION;
    uint64_t size = (bits & ((UINT64_C(1) << DOUBLE_FRACTION) - 1)) | UINT64_C(1) << DOUBLE_FRACTION;
    if (shift > 63 - DOUBLE_FRACTION)
        return missing;
    size = shift < -DOUBLE_FRACTION ? 0 : shift < 0 ? size >> -shift : size << shift;
    return whole(bits & DOUBLE_SIGN ? -(__int128)size : (__int128)size);
}

/* Integers lose their upper bits. */
static struct number as_integer(struct number a, int64_t bits)
{
    bool has_sign = bits < 0;
    uint64_t size = has_sign ? -(uint64_t)bits : (uint64_t)bits;
    if (size != 8 && size != 16 && size != 32 && size != 64)
        return missing;
    struct number integer = is_floating(a) ? truncated((uint64_t)a.bits) : a;
    if (integer.type >= CODE_MISSING)
        return missing;
    uint64_t upper = (uint64_t)integer.bits << (64 - size);
    struct number cast = has_sign ? (struct number){(int64_t)upper >> (64 - size), CODE_SIGNED}
                                  : (struct number){(int64_t)(upper >> (64 - size)), CODE_UNSIGNED};
    return is_floating(a) && worth(cast) != worth(integer) ? missing : cast;
}

static struct number calculate(uint8_t operation, struct number a, struct number b)
{
    if (operation == CODE_AND || operation == CODE_OR)
        return join(operation, a, b);
    if (a.type >= CODE_MISSING || b.type >= CODE_MISSING)
        return missing;
    if (operation == CODE_AS_INTEGER)
        return as_integer(a, b.bits);
    uint8_t type = a.type == CODE_FLOATING || b.type == CODE_FLOATING ? CODE_FLOATING : CODE_SINGLE;
    if (operation == CODE_AS_FLOATING) {
        type = b.bits == 32 ? CODE_SINGLE : CODE_FLOATING;
        return round_to(type, to_double(a, type));
    }
    bool floating = is_floating(a) || is_floating(b);
    if (operation < CODE_COMPARISON_COUNT)
        return (struct number){floating ? compare_doubles(operation, to_double(a, type), to_double(b, type))
                                        : compare_integers(operation, a, b),
                               CODE_SIGNED};
    if (!floating)
        return calculate_integers(operation, a, b);
    if (operation > CODE_DIVIDED)
        return missing;
    /* rounding what was calculated as double once more comes to what a float calculates */
    return round_to(type, calculate_doubles(operation, to_double(a, type), to_double(b, type)));
}

/* ---- programs ---- */

struct run {
    const struct code_event *event;
    code_cell *cells;
    struct number temps[CODE_TEMPS];
};

static struct number operand(const struct run *run, uint8_t kind, int64_t value)
{
    static const struct number second = {1000000000, CODE_SIGNED};
    const struct code_event *event = run->event;
    switch (kind) {
    case CODE_PARAM:
        if ((uint64_t)value >= event->param_count)
            return (struct number){0, CODE_SIGNED};
        return (struct number){event->params[value], event->types[value]};
    case CODE_TIME:
        return (struct number){(int64_t)event->time_ns, CODE_SIGNED};
    case CODE_DURATION:
        return (struct number){(int64_t)calculate_doubles(
                                   CODE_DIVIDED,
                                   to_double((struct number){(int64_t)event->duration_ns, CODE_SIGNED}, CODE_FLOATING),
                                   to_double(second, CODE_FLOATING)),
                               CODE_FLOATING};
    case CODE_TEMP:
        return run->temps[value];
    case CODE_IMMEDIATE_UNSIGNED:
        return (struct number){value, CODE_UNSIGNED};
    case CODE_IMMEDIATE_FLOATING:
        return (struct number){value, CODE_FLOATING};
    case CODE_IMMEDIATE_SINGLE:
        return (struct number){value, CODE_SINGLE};
    case CODE_CELL:
        return (struct number){atomic_load_explicit(&run->cells[value], memory_order_acquire), CODE_SIGNED};
    default:
        return (struct number){value, CODE_SIGNED};
    }
}

static struct number result(const struct run *run, const struct code_insn *insn)
{
    return calculate(insn->operation, operand(run, insn->a_kind, insn->a), operand(run, insn->b_kind, insn->b));
}

static void timer_stop(code_cell *started_cell, code_cell *total, int64_t now)
{
    int64_t started = atomic_exchange_explicit(started_cell, 0, memory_order_relaxed);
    if (started) /* overflow wraps, here as in the additions */
        atomic_fetch_add_explicit(total, (int64_t)((uint64_t)now - (uint64_t)started), memory_order_relaxed);
}

static __attribute__((noinline)) unsigned run_from(const struct code_program *program, uint32_t i,
                                                   const struct code_event *event, code_cell *cells)
{
    unsigned outcome = 0;
    struct run run;
    run.event = event;
    run.cells = cells;
    for (; i < program->count; i++) {
        const struct code_insn *insn = &program->insns[i];
        int64_t now = (int64_t)event->time_ns, idle = 0;
        struct number a;
        switch (insn->op) {
        case CODE_ADD:
            a = operand(&run, insn->a_kind, insn->a);
            if (a.type <= CODE_UNSIGNED)
                atomic_fetch_add_explicit(&cells[insn->cell], a.bits, memory_order_relaxed);
            break;
        case CODE_TIMER_START:
            atomic_compare_exchange_strong_explicit(&cells[insn->cell], &idle, now, memory_order_relaxed,
                                                    memory_order_relaxed);
            break;
        case CODE_TIMER_STOP:
            timer_stop(&cells[insn->cell], &cells[insn->other], now);
            break;
        case CODE_UNLESS:
            if (truth(result(&run, insn)) <= 0)
                return outcome;
            break;
        case CODE_CALCULATE:
            run.temps[insn->other] = result(&run, insn);
            break;
        case CODE_SET:
            a = operand(&run, insn->a_kind, insn->a);
            atomic_store_explicit(&cells[insn->cell], a.bits, memory_order_release);
            break;
        case CODE_POST:
            atomic_fetch_add_explicit(&cells[insn->cell], 1, memory_order_release);
            outcome |= CODE_POSTED;
            break;
        default:
            return outcome;
        }
    }
    return outcome | CODE_PASSED;
}

/* ---- plain instructions ---- */

/* Most are: they add to a cell, or compare a cell or an integer that is given with an integer, each of which an int64_t
 * holds. These take few instructions; the first other one, and what follows it, go the way of all. */

static inline bool is_whole(const struct code_event *event, uint8_t kind, int64_t value)
{
    return kind == CODE_IMMEDIATE || (kind == CODE_IMMEDIATE_UNSIGNED && value >= 0) ||
           (kind == CODE_PARAM && (uint64_t)value < event->param_count &&
            event->types[value] <= (event->params[value] >= 0 ? CODE_UNSIGNED : CODE_SIGNED));
}

unsigned code_run(const struct code_program *program, const struct code_event *event, code_cell *cells)
{
    /* bits: less, equal, greater */
    static const uint8_t holds[CODE_COMPARISON_COUNT] = {
        [CODE_EQ] = 2, [CODE_NE] = 5, [CODE_LT] = 1, [CODE_LE] = 3, [CODE_GT] = 4, [CODE_GE] = 6};
    for (uint32_t i = 0; i < program->count; i++) {
        const struct code_insn *insn = &program->insns[i];
        int64_t a = insn->a, b = insn->b;
        if (insn->a_kind == CODE_CELL)
            a = atomic_load_explicit(&cells[a], memory_order_acquire);
        else if (!is_whole(event, insn->a_kind, a))
            return run_from(program, i, event, cells);
        else if (insn->a_kind == CODE_PARAM)
            a = event->params[a];
        if (insn->op == CODE_ADD)
            atomic_fetch_add_explicit(&cells[insn->cell], a, memory_order_relaxed);
        else if (insn->op != CODE_UNLESS || insn->operation >= CODE_COMPARISON_COUNT || insn->b_kind == CODE_PARAM ||
                 !is_whole(event, insn->b_kind, b))
            return run_from(program, i, event, cells);
        else if (!(holds[insn->operation] >> ((a == b) + 2 * (a > b)) & 1))
            return 0;
    }
    return CODE_PASSED;
}
