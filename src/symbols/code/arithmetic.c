/* SPDX-License-Identifier: Apache-2.0 */
/* What instructions behind an exit hook compute: whole numbers, addresses, conditions; and vectors, below. */
#include "symbols/code/step.h"

static const struct tracked unknown;

static bool is_known(struct tracked value)
{
    return value.kind != TRACK_UNKNOWN;
}

static bool is_constant(struct tracked value, int64_t number)
{
    return value.kind == TRACK_CONSTANT && value.add == number;
}

/* The low bytes of the result depend on those of the operands only. */
static bool is_low(unsigned how)
{
    return how == CAPTURE_ADD || how == CAPTURE_SUB || how == CAPTURE_MUL || how == CAPTURE_AND || how == CAPTURE_OR ||
           how == CAPTURE_XOR || how == CAPTURE_SHL;
}

static bool is_extension(unsigned how)
{
    return how == TRACK_SIGN_EXTEND || how == TRACK_ZERO_EXTEND;
}

static struct tracked node_add(struct track *track, struct track_node one)
{
    struct track_nodes *all = track->nodes;
    if (!all)
        return unknown;
    for (unsigned i = 0; i < all->count; i++)
        if (all->nodes[i].how == one.how && all->nodes[i].size == one.size && same(all->nodes[i].a, one.a) &&
            same(all->nodes[i].b, one.b) && same(all->nodes[i].c, one.c))
            return (struct tracked){.kind = TRACK_COMPUTED, .base = (uint8_t)i, .size = one.size};
    if (all->count == TRACK_NODES)
        return unknown;
    all->nodes[all->count] = one;
    return (struct tracked){.kind = TRACK_COMPUTED, .base = (uint8_t)all->count++, .size = one.size};
}

static struct tracked extended(struct track *track, unsigned how, unsigned size, struct tracked a, unsigned from)
{
    if (!is_known(a) || a.size < from)
        return unknown;
    if (a.kind == TRACK_CONSTANT) {
        unsigned shift = 64 - 8 * from;
        return track_constant(how == TRACK_SIGN_EXTEND ? (uint64_t)((int64_t)((uint64_t)a.add << shift) >> shift)
                                                       : (uint64_t)a.add << shift >> shift);
    }
    if (from >= size) {
        a.size = (uint8_t)size;
        return a;
    }
    return node_add(track, (struct track_node){(uint8_t)how, (uint8_t)size, a, track_constant(from), unknown});
}

struct tracked track_compute(struct track *track, unsigned how, unsigned size, struct tracked a, struct tracked b)
{
    if (!track->nodes || !is_known(a) || !is_known(b))
        return unknown;
    if (is_extension(how))
        return extended(track, how, size, a, (unsigned)b.add);
    if (is_low(how)) {
        unsigned least = a.size < b.size && how != CAPTURE_SHL ? a.size : b.size;
        least = how == CAPTURE_SHL ? a.size : least;
        size = least < size ? least : size;
    }
    if (a.size < size || (how != TRACK_LOAD && how != CAPTURE_SHL && b.size < size))
        return unknown;
    if (a.kind == TRACK_CONSTANT && b.kind == TRACK_CONSTANT && how < CAPTURE_FLOATS && size == 8)
        return track_constant(capture_compute(how, (uint64_t)a.add, (uint64_t)b.add));
    if (how == CAPTURE_ADD && a.kind == TRACK_CONSTANT) {
        struct tracked other = a;
        a = b;
        b = other;
    }
    bool zero = is_constant(b, 0) && (how == CAPTURE_ADD || how == CAPTURE_SUB || how == CAPTURE_OR ||
                                      how == CAPTURE_XOR || how == CAPTURE_SHL || how == CAPTURE_SHR);
    if (zero || (how == CAPTURE_MUL && is_constant(b, 1))) {
        a.size = (uint8_t)(a.size < size ? a.size : size);
        return a;
    }
    if (size == 8 && b.kind == TRACK_CONSTANT && (how == CAPTURE_ADD || how == CAPTURE_SUB) &&
        (is_address(a) || (a.kind == TRACK_FIXED && !a.mask))) {
        a.add += how == CAPTURE_ADD ? b.add : -b.add;
        return a;
    }
    if ((how == CAPTURE_SUB || how == CAPTURE_XOR) && same(a, b))
        return track_constant(0);
    return node_add(track, (struct track_node){(uint8_t)how, (uint8_t)size, a, b, unknown});
}

struct tracked track_select(struct track *track, struct tracked condition, struct tracked a, struct tracked b)
{
    if (same(a, b))
        return a;
    unsigned size = a.size < b.size ? a.size : b.size;
    if (!is_known(condition) || !is_known(a) || !is_known(b) || size > 8)
        return unknown;
    if (condition.kind == TRACK_CONSTANT)
        return condition.add ? a : b;
    return node_add(track, (struct track_node){TRACK_SELECT, (uint8_t)size, a, b, condition});
}

struct tracked track_address(struct track *track, const ZydisDecodedOperand *op, unsigned size)
{
    int base = insn_register(op->mem.base), index = insn_register(op->mem.index);
    uint64_t fixed;
    if (op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS)
        return unknown;
    if (op->mem.base == ZYDIS_REGISTER_RIP) {
        fixed = track->next + (uint64_t)op->mem.disp.value;
        return (struct tracked){.kind = TRACK_FIXED, .size = (uint8_t)size, .add = (int64_t)fixed};
    }
    struct tracked sum = track_constant((uint64_t)op->mem.disp.value);
    if (op->mem.base != ZYDIS_REGISTER_NONE)
        sum = track_compute(track, CAPTURE_ADD, size, base < 0 ? unknown : track->values[base], sum);
    if (op->mem.index != ZYDIS_REGISTER_NONE)
        sum = track_compute(
            track, CAPTURE_ADD, size, sum,
            index < 0 ? unknown
                      : track_compute(track, CAPTURE_MUL, size, track->values[index], track_constant(op->mem.scale)));
    return sum;
}

/* ---- conditions ---- */

static struct tracked compared(struct track *track, unsigned how, struct tracked a, struct tracked b)
{
    unsigned extension = how == CAPTURE_LESS_SIGNED ? TRACK_SIGN_EXTEND : TRACK_ZERO_EXTEND;
    unsigned size = track->flags.size;
    if (size < 8) {
        a = track_compute(track, extension, 8, a, track_constant(size));
        b = track_compute(track, extension, 8, b, track_constant(size));
    }
    return track_compute(track, how, 8, a, b);
}

static struct tracked opposite(struct track *track, struct tracked condition)
{
    return track_compute(track, CAPTURE_XOR, 8, condition, track_constant(1));
}

static struct tracked either(struct track *track, struct tracked a, struct tracked b)
{
    return track_compute(track, CAPTURE_OR, 8, a, b);
}

enum { BELOW = 1, EQUAL = 2, BELOW_EQUAL = 3, NEGATIVE = 4, PARITY = 5, LESS = 6, LESS_EQUAL = 7 };

static struct tracked floats_compared(struct track *track, unsigned condition)
{
    const struct tracked a = track->flags.a, b = track->flags.b;
    unsigned size = track->flags.size, less = size == 4 ? CAPTURE_SINGLES - CAPTURE_FLOATS : 0;
    struct tracked below, above;
    unsigned how = condition == EQUAL || condition == BELOW_EQUAL ? CAPTURE_FLOAT_LESS : CAPTURE_FLOAT_LESS_EQUAL;
    below = track_compute(track, how + less, size, a, b);
    above = track_compute(track, how + less, size, b, a);
    if (is_known(below) && is_known(above))
        below.size = above.size = 8; /* 1 or 0 */
    switch (condition) {             /* what is not ordered is equal, below, and of even parity */
    case BELOW:
    case BELOW_EQUAL:
        return opposite(track, above);
    case EQUAL:
    case PARITY:
        return opposite(track, either(track, below, above));
    default:
        return unknown;
    }
}

static struct tracked sign_compared(struct track *track, unsigned condition)
{
    bool whole = track->flags.kind == FLAGS_RESULT;
    const struct tracked zero = track_constant(0), a = track->flags.a;
    switch (condition) {
    case EQUAL:
        return compared(track, CAPTURE_EQUAL, a, zero);
    case NEGATIVE:
        return compared(track, CAPTURE_LESS_SIGNED, a, zero);
    case BELOW:
        return whole                              ? zero
               : track->flags.kind == FLAGS_ADDED ? compared(track, CAPTURE_LESS, a, track->flags.b)
                                                  : unknown;
    case BELOW_EQUAL:
        return whole ? compared(track, CAPTURE_EQUAL, a, zero) : unknown;
    case LESS:
        return whole ? compared(track, CAPTURE_LESS_SIGNED, a, zero) : unknown;
    case LESS_EQUAL:
        return whole ? opposite(track, compared(track, CAPTURE_LESS_SIGNED, zero, a)) : unknown;
    default:
        return unknown;
    }
}

static struct tracked numbers_compared(struct track *track, unsigned condition)
{
    const struct tracked a = track->flags.a, b = track->flags.b;
    switch (condition) {
    case BELOW:
        return compared(track, CAPTURE_LESS, a, b);
    case EQUAL:
        return compared(track, CAPTURE_EQUAL, a, b);
    case BELOW_EQUAL:
        return opposite(track, compared(track, CAPTURE_LESS, b, a));
    case NEGATIVE:
        return compared(track, CAPTURE_LESS_SIGNED, track_compute(track, CAPTURE_SUB, track->flags.size, a, b),
                        track_constant(0));
    case LESS:
        return compared(track, CAPTURE_LESS_SIGNED, a, b);
    case LESS_EQUAL:
        return opposite(track, compared(track, CAPTURE_LESS_SIGNED, b, a));
    default:
        return unknown;
    }
}

struct tracked track_condition(struct track *track, unsigned code)
{
    unsigned condition = code >> 1 & 7;
    struct tracked value = track->flags.kind == FLAGS_UNKNOWN    ? unknown
                           : track->flags.kind == FLAGS_FLOATS   ? floats_compared(track, condition)
                           : track->flags.kind == FLAGS_COMPARED ? numbers_compared(track, condition)
                                                                 : sign_compared(track, condition);
    return code & 1 ? opposite(track, value) : value;
}

static void set_flags(struct track *track, enum track_flags kind, unsigned size, struct tracked a, struct tracked b)
{
    bool known = is_known(a) && (is_known(b) || kind == FLAGS_RESULT || kind == FLAGS_SIGN);
    track->flags.kind = known ? kind : FLAGS_UNKNOWN;
    track->flags.size = (uint8_t)size;
    track->flags.a = a;
    track->flags.b = b;
}

/* ---- instructions ---- */

static int plain_of(const struct insn *insn)
{
    switch (insn->zydis.mnemonic) {
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_ADC:
        return CAPTURE_ADD;
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_SBB:
        return CAPTURE_SUB;
    case ZYDIS_MNEMONIC_AND:
        return CAPTURE_AND;
    case ZYDIS_MNEMONIC_OR:
        return CAPTURE_OR;
    case ZYDIS_MNEMONIC_XOR:
        return CAPTURE_XOR;
    case ZYDIS_MNEMONIC_SHL:
        return CAPTURE_SHL;
    case ZYDIS_MNEMONIC_SHR:
        return CAPTURE_SHR;
    case ZYDIS_MNEMONIC_SAR:
        return CAPTURE_SAR;
    default:
        return -1;
    }
}

/* Two operands, the first of which gets the result; its flags. */
static struct tracked plain_result(struct track *track, const struct insn *insn, unsigned how)
{
    const ZydisDecodedOperand *to = &insn->operands[0], *from = &insn->operands[1];
    unsigned size = to->size / 8, mnemonic = insn->zydis.mnemonic;
    bool shift = how == CAPTURE_SHL || how == CAPTURE_SHR || how == CAPTURE_SAR;
    bool carries = mnemonic == ZYDIS_MNEMONIC_ADC || mnemonic == ZYDIS_MNEMONIC_SBB;
    struct tracked carry = carries ? track_condition(track, 2 * BELOW) : unknown;
    struct tracked a = track_operand(track, to, size), b = track_operand(track, from, shift ? 1 : size);
    if (shift) {
        b = track_compute(track, TRACK_ZERO_EXTEND, 8, b, track_constant(1));
        b = track_compute(track, CAPTURE_AND, 8, b, track_constant(size == 8 ? 63 : 31));
        if (how != CAPTURE_SHL && size < 8)
            a = track_compute(track, how == CAPTURE_SAR ? TRACK_SIGN_EXTEND : TRACK_ZERO_EXTEND, 8, a,
                              track_constant(size));
    }
    if (carries && to->type == from->type && to->type == ZYDIS_OPERAND_TYPE_REGISTER &&
        to->reg.value == from->reg.value && how == CAPTURE_SUB)
        a = b = track_constant(0); /* all bits are the carry */
    if (!shift && to->type == from->type && to->type == ZYDIS_OPERAND_TYPE_REGISTER &&
        to->reg.value == from->reg.value && (mnemonic == ZYDIS_MNEMONIC_XOR || mnemonic == ZYDIS_MNEMONIC_SUB))
        a = b = track_constant(0);
    struct tracked value = track_compute(track, how, shift && how != CAPTURE_SHL ? 8 : size, a, b);
    if (is_known(value) && value.size > size && value.kind != TRACK_CONSTANT)
        value.size = (uint8_t)size;
    if (carries)
        value = track_compute(track, how, size, value, carry);
    if (is_known(value) && value.size < size)
        track->flags.kind = FLAGS_UNKNOWN;
    else if (carries || (shift && b.kind != TRACK_CONSTANT))
        set_flags(track, carries ? FLAGS_SIGN : FLAGS_UNKNOWN, size, value, unknown);
    else if (how == CAPTURE_SUB)
        set_flags(track, FLAGS_COMPARED, size, a, b);
    else if (how == CAPTURE_ADD)
        set_flags(track, FLAGS_ADDED, size, value, b);
    else if (!shift || b.add != 0)
        set_flags(track, shift ? FLAGS_SIGN : FLAGS_RESULT, size, value, unknown);
    return value;
}

/* Of rdx:rax by an operand; the quotient to rax, the rest to rdx. */
static void track_divide(struct track *track, const struct insn *insn, bool is_signed)
{
    unsigned size = insn->operands[0].size / 8, extension = is_signed ? TRACK_SIGN_EXTEND : TRACK_ZERO_EXTEND;
    struct tracked a = track->values[0], high = track->values[1], b = track_operand(track, &insn->operands[0], size);
    struct tracked sign =
        !is_signed
            ? track_constant(0)
            : track_compute(track, CAPTURE_SAR, 8, track_compute(track, TRACK_SIGN_EXTEND, 8, a, track_constant(size)),
                            track_constant(63));
    bool plain_high = is_known(high) && is_known(sign) &&
                      (same(high, sign) || (high.kind == sign.kind && high.base == sign.base && high.size >= size &&
                                            high.add == sign.add && sign.size >= size));
    a = track_compute(track, extension, 8, a, track_constant(size));
    b = track_compute(track, extension, 8, b, track_constant(size));
    struct tracked quotient = track_compute(track, is_signed ? CAPTURE_DIV_SIGNED : CAPTURE_DIV, 8, a, b);
    struct tracked rest = track_compute(track, CAPTURE_SUB, 8, a, track_compute(track, CAPTURE_MUL, 8, quotient, b));
    track_clobber(track, insn);
    if (!plain_high || size < 4)
        return;
    if (size == 4) {
        quotient = track_compute(track, TRACK_ZERO_EXTEND, 8, quotient, track_constant(4));
        rest = track_compute(track, TRACK_ZERO_EXTEND, 8, rest, track_constant(4));
    }
    track->values[0] = quotient;
    track->values[1] = rest;
}

/* rdx:rax = rax * an operand. */
static void multiply_wide(struct track *track, const struct insn *insn, bool is_signed)
{
    unsigned size = insn->operands[0].size / 8, extension = is_signed ? TRACK_SIGN_EXTEND : TRACK_ZERO_EXTEND;
    struct tracked a = track->values[0], b = track_operand(track, &insn->operands[0], size), low, high;
    a = track_compute(track, extension, 8, a, track_constant(size));
    b = track_compute(track, extension, 8, b, track_constant(size));
    low = track_compute(track, CAPTURE_MUL, 8, a, b);
    high = size == 8 ? track_compute(track, is_signed ? CAPTURE_MUL_HIGH_SIGNED : CAPTURE_MUL_HIGH, 8, a, b)
                     : track_compute(track, CAPTURE_SHR, 8, low, track_constant(8 * size));
    track_clobber(track, insn);
    if (size < 4)
        return;
    track->values[0] = size == 8 ? low : track_compute(track, TRACK_ZERO_EXTEND, 8, low, track_constant(4));
    track->values[1] = size == 8 ? high : track_compute(track, TRACK_ZERO_EXTEND, 8, high, track_constant(4));
}

/* shld, shrd: bits of the second operand come in. */
static struct tracked double_shift(struct track *track, const struct insn *insn, bool left)
{
    unsigned size = insn->operands[0].size / 8, by = insn->operands[2].imm.value.u & (size == 8 ? 63 : 31);
    if (insn->operands[2].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || size < 4 || by == 0)
        return unknown;
    struct tracked a = track_operand(track, &insn->operands[0], size);
    struct tracked b = track_operand(track, &insn->operands[1], size);
    struct tracked right = track_compute(track, TRACK_ZERO_EXTEND, 8, left ? b : a, track_constant(size));
    unsigned down = left ? 8 * size - by : by;
    return either(track, track_compute(track, CAPTURE_SHL, size, left ? a : b, track_constant(8 * size - down)),
                  track_compute(track, CAPTURE_SHR, 8, right, track_constant(down)));
}

static struct tracked sign_of(struct track *track, struct tracked value, unsigned size)
{
    return track_compute(track, CAPTURE_SAR, 8, track_compute(track, TRACK_SIGN_EXTEND, 8, value, track_constant(size)),
                         track_constant(63));
}

/* One bit of a register, by a constant. */
static struct tracked bit_changed(struct track *track, const struct insn *insn)
{
    unsigned size = insn->operands[0].size / 8;
    if (insn->operands[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || insn->operands[0].type != ZYDIS_OPERAND_TYPE_REGISTER)
        return unknown;
    uint64_t bit = UINT64_C(1) << (insn->operands[1].imm.value.u & (8 * size - 1));
    struct tracked old = track_operand(track, &insn->operands[0], size);
    switch (insn->zydis.mnemonic) {
    case ZYDIS_MNEMONIC_BTR:
        return track_compute(track, CAPTURE_AND, size, old, track_constant(~bit));
    case ZYDIS_MNEMONIC_BTS:
        return track_compute(track, CAPTURE_OR, size, old, track_constant(bit));
    default:
        return track_compute(track, CAPTURE_XOR, size, old, track_constant(bit));
    }
}

/* What the instruction writes to its first operand; unknown if it is none that is understood. Flags that are not set
 * here are as the instruction leaves them. */
static struct tracked result_of(struct track *track, const struct insn *insn)
{
    const ZydisDecodedOperand *to = &insn->operands[0], *from = &insn->operands[1];
    unsigned size = to->size / 8, from_size = from->size / 8;
    struct tracked value;
    switch (insn->zydis.mnemonic) {
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
        return track_compute(track, TRACK_SIGN_EXTEND, size, track_operand(track, from, from_size),
                             track_constant(from_size));
    case ZYDIS_MNEMONIC_MOVZX:
        return track_compute(track, TRACK_ZERO_EXTEND, size, track_operand(track, from, from_size),
                             track_constant(from_size));
    case ZYDIS_MNEMONIC_LEA:
        return track_address(track, from, size);
    case ZYDIS_MNEMONIC_NEG:
        value = track_operand(track, to, size);
        set_flags(track, FLAGS_COMPARED, size, track_constant(0), value);
        return track_compute(track, CAPTURE_SUB, size, track_constant(0), value);
    case ZYDIS_MNEMONIC_NOT:
        return track_compute(track, CAPTURE_XOR, size, track_operand(track, to, size), track_constant(UINT64_MAX));
    case ZYDIS_MNEMONIC_INC:
    case ZYDIS_MNEMONIC_DEC:
        value = track_compute(track, insn->zydis.mnemonic == ZYDIS_MNEMONIC_INC ? CAPTURE_ADD : CAPTURE_SUB, size,
                              track_operand(track, to, size), track_constant(1));
        set_flags(track, FLAGS_SIGN, size, value, unknown);
        return value;
    case ZYDIS_MNEMONIC_IMUL:
        return track_compute(
            track, CAPTURE_MUL, size, track_operand(track, insn->zydis.operand_count_visible == 3 ? from : to, size),
            track_operand(track, insn->zydis.operand_count_visible == 3 ? &insn->operands[2] : from, size));
    case ZYDIS_MNEMONIC_SHLD:
        return double_shift(track, insn, true);
    case ZYDIS_MNEMONIC_SHRD:
        return double_shift(track, insn, false);
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTS:
    case ZYDIS_MNEMONIC_BTC:
        return bit_changed(track, insn);
    default:
        break;
    }
    if (insn->zydis.meta.category == ZYDIS_CATEGORY_SETCC)
        return track_condition(track, insn->zydis.opcode & 15);
    if (insn->zydis.meta.category == ZYDIS_CATEGORY_CMOV)
        return track_select(track, track_condition(track, insn->zydis.opcode & 15), track_operand(track, from, size),
                            track_operand(track, to, size));
    int how = plain_of(insn);
    return how < 0 ? unknown : plain_result(track, insn, (unsigned)how);
}

/* Instructions that write something else than their first operand. */
static bool step_fixed(struct track *track, const struct insn *insn)
{
    struct tracked *values = track->values;
    const ZydisDecodedOperand *a = &insn->operands[0], *b = &insn->operands[1];
    unsigned size = a->size / 8;
    switch (insn->zydis.mnemonic) {
    case ZYDIS_MNEMONIC_CDQE:
        values[0] = track_compute(track, TRACK_SIGN_EXTEND, 8, values[0], track_constant(4));
        return true;
    case ZYDIS_MNEMONIC_CWDE:
        values[0] = track_compute(track, TRACK_SIGN_EXTEND, 4, values[0], track_constant(2));
        return true;
    case ZYDIS_MNEMONIC_CQO:
        values[1] = sign_of(track, values[0], 8);
        return true;
    case ZYDIS_MNEMONIC_CDQ:
        values[1] = sign_of(track, values[0], 4);
        if (is_known(values[1]))
            values[1].size = 4;
        return true;
    case ZYDIS_MNEMONIC_CMP:
        set_flags(track, FLAGS_COMPARED, size, track_operand(track, a, size), track_operand(track, b, size));
        return true;
    case ZYDIS_MNEMONIC_TEST:
        if (a->type == b->type && a->reg.value == b->reg.value && a->type == ZYDIS_OPERAND_TYPE_REGISTER)
            set_flags(track, FLAGS_RESULT, size, track_operand(track, a, size), unknown);
        else
            set_flags(
                track, FLAGS_RESULT, size,
                track_compute(track, CAPTURE_AND, size, track_operand(track, a, size), track_operand(track, b, size)),
                unknown);
        if (is_known(track->flags.a) && track->flags.a.size < size)
            track->flags.kind = FLAGS_UNKNOWN;
        return true;
    case ZYDIS_MNEMONIC_DIV:
    case ZYDIS_MNEMONIC_IDIV:
        track_divide(track, insn, insn->zydis.mnemonic == ZYDIS_MNEMONIC_IDIV);
        track->flags.kind = FLAGS_UNKNOWN;
        return true;
    case ZYDIS_MNEMONIC_MUL:
    case ZYDIS_MNEMONIC_IMUL:
        if (insn->zydis.operand_count_visible != 1)
            return false;
        multiply_wide(track, insn, insn->zydis.mnemonic == ZYDIS_MNEMONIC_IMUL);
        track->flags.kind = FLAGS_UNKNOWN;
        return true;
    default:
        return false;
    }
}

static bool sets_flags(const struct insn *insn)
{
    const ZydisAccessedFlags *flags = insn->zydis.cpu_flags;
    return flags && (flags->modified | flags->set_0 | flags->set_1 | flags->undefined);
}

bool track_arithmetic(struct track *track, const struct insn *insn)
{
    const ZydisDecodedOperand *to = &insn->operands[0];
    int reg = to->type == ZYDIS_OPERAND_TYPE_REGISTER ? insn_register(to->reg.value) : -1;
    if (!track->nodes || reg >= XMM0)
        return false;
    if (step_fixed(track, insn))
        return true;
    unsigned flags = track->flags.kind;
    track->flags.kind = sets_flags(insn) ? FLAGS_UNKNOWN : flags;
    if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_ADC || insn->zydis.mnemonic == ZYDIS_MNEMONIC_SBB)
        track->flags.kind = flags;
    bool written = to->type == ZYDIS_OPERAND_TYPE_REGISTER || to->type == ZYDIS_OPERAND_TYPE_MEMORY;
    if (!written || insn->zydis.operand_count_visible == 0 || to->size > 64)
        return false;
    struct tracked value = result_of(track, insn);
    if (!is_known(value)) {
        if ((insn->zydis.mnemonic == ZYDIS_MNEMONIC_ADC || insn->zydis.mnemonic == ZYDIS_MNEMONIC_SBB))
            track->flags.kind = FLAGS_UNKNOWN;
        return false;
    }
    track_set_operand(track, to, to->size / 8, value);
    return true;
}

/*
 * Vector registers behind an exit hook: floating point, and what compilers do to put results together. Both encodings
 * of an instruction are one here; of the newer one the sources are the second and third operand.
 */

struct sources {
    const ZydisDecodedOperand *to, *a, *b;
    unsigned immediate;
};

static struct sources sources_of(const struct insn *insn)
{
    unsigned count = insn->zydis.operand_count_visible, last = count;
    struct sources sources = {&insn->operands[0], &insn->operands[0], &insn->operands[1], 0};
    if (last > 1 && insn->operands[last - 1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
        sources.immediate = insn->operands[--last].imm.value.u & 0xff;
    if (last == 3) {
        sources.a = &insn->operands[1];
        sources.b = &insn->operands[2];
    } else if (last == 1)
        sources.b = sources.a;
    return sources;
}

static struct tracked low_of(struct tracked value, unsigned size)
{
    if (value.kind != TRACK_UNKNOWN && value.size > size)
        value.size = (uint8_t)size;
    return value;
}

static struct tracked upper(struct track *track, struct tracked value)
{
    return low_of(track_compute(track, CAPTURE_SHR, 8, value, track_constant(32)), 4);
}

/* Two of 32 bits as one of 64; without the upper one, the lower. */
static struct tracked pair(struct track *track, struct tracked low, struct tracked high)
{
    struct tracked both = track_compute(
        track, CAPTURE_OR, 8, track_compute(track, TRACK_ZERO_EXTEND, 8, low, track_constant(4)),
        track_compute(track, CAPTURE_SHL, 8, track_compute(track, TRACK_ZERO_EXTEND, 8, high, track_constant(4)),
                      track_constant(32)));
    return both.kind == TRACK_UNKNOWN ? low_of(low, 4) : both;
}

static struct tracked lane(struct track *track, const ZydisDecodedOperand *op, unsigned number)
{
    struct tracked half = track_half(track, op, number / 2);
    return number % 2 ? upper(track, half) : low_of(half, 4);
}

/* All of a register: halves that were computed before either is written. */
static void set_both(struct track *track, const struct sources *sources, struct tracked low, struct tracked high)
{
    track_set_half(track, sources->to, 0, low);
    track_set_half(track, sources->to, 1, high);
}

/* The lowest number of a register; the rest comes from the first source. */
static void set_scalar(struct track *track, const struct sources *sources, unsigned size, struct tracked value)
{
    struct tracked old = track_half(track, sources->a, 0), high = track_half(track, sources->a, 1);
    set_both(track, sources, size == 4 ? pair(track, value, upper(track, old)) : value, high);
}

/* ---- what is computed ---- */

enum shape { SHAPE_SCALAR, SHAPE_HALVES, SHAPE_LANES }; /* of the whole: of each half, of each quarter */

struct computation {
    unsigned how;
    uint8_t size;
    enum shape shape;
};

/* clang-format off */
#define BOTH(name) ZYDIS_MNEMONIC_##name: case ZYDIS_MNEMONIC_V##name
#define IS(...) \
    *ret = (struct computation){__VA_ARGS__}; \
    return true
#define SCALAR_OF(name, how) \
    case BOTH(name##SD): \
        IS(how, 8, SHAPE_SCALAR); \
    case BOTH(name##SS): \
        IS(how + CAPTURE_SINGLES - CAPTURE_FLOATS, 4, SHAPE_SCALAR)
#define FLOATS_OF(name, how) \
    SCALAR_OF(name, how); \
    case BOTH(name##PD): \
        IS(how, 8, SHAPE_HALVES); \
    case BOTH(name##PS): \
        IS(how + CAPTURE_SINGLES - CAPTURE_FLOATS, 4, SHAPE_LANES)
#define BITS_OF(name, how) \
    case BOTH(name##PD): \
    case BOTH(name##PS): \
        IS(how, 8, SHAPE_HALVES)
#define WHOLE_OF(name, how, size, shape) \
    case BOTH(name): \
        IS(how, size, shape)

static bool computation_of(const struct insn *insn, struct computation *ret)
{
    switch (insn->zydis.mnemonic) {
        FLOATS_OF(ADD, CAPTURE_FLOAT_ADD);
        FLOATS_OF(SUB, CAPTURE_FLOAT_SUB);
        FLOATS_OF(MUL, CAPTURE_FLOAT_MUL);
        FLOATS_OF(DIV, CAPTURE_FLOAT_DIV);
        FLOATS_OF(MIN, CAPTURE_FLOAT_MIN);
        FLOATS_OF(MAX, CAPTURE_FLOAT_MAX);
        SCALAR_OF(SQRT, CAPTURE_FLOAT_SQRT);
        BITS_OF(AND, CAPTURE_AND);
        BITS_OF(OR, CAPTURE_OR);
        BITS_OF(XOR, CAPTURE_XOR);
        WHOLE_OF(PAND, CAPTURE_AND, 8, SHAPE_HALVES);
        WHOLE_OF(POR, CAPTURE_OR, 8, SHAPE_HALVES);
        WHOLE_OF(PXOR, CAPTURE_XOR, 8, SHAPE_HALVES);
        WHOLE_OF(PADDQ, CAPTURE_ADD, 8, SHAPE_HALVES);
        WHOLE_OF(PSUBQ, CAPTURE_SUB, 8, SHAPE_HALVES);
        WHOLE_OF(PADDD, CAPTURE_ADD, 4, SHAPE_LANES);
        WHOLE_OF(PSUBD, CAPTURE_SUB, 4, SHAPE_LANES);
    default:
        return false;
    }
}
/* clang-format on */

static bool is_same_register(const struct sources *sources)
{
    return sources->a->type == ZYDIS_OPERAND_TYPE_REGISTER && sources->b->type == ZYDIS_OPERAND_TYPE_REGISTER &&
           sources->a->reg.value == sources->b->reg.value;
}

static struct tracked of_lanes(struct track *track, const struct computation *computation,
                               const struct sources *sources, unsigned half)
{
    struct tracked parts[2];
    for (unsigned i = 0; i < 2; i++)
        parts[i] = track_compute(track, computation->how, 4, lane(track, sources->a, 2 * half + i),
                                 lane(track, sources->b, 2 * half + i));
    return pair(track, parts[0], parts[1]);
}

static void vector_compute(struct track *track, const struct computation *computation, const struct sources *sources)
{
    unsigned how = computation->how, size = computation->size;
    struct tracked parts[2];
    if (how == CAPTURE_XOR && is_same_register(sources)) {
        set_both(track, sources, track_constant(0), track_constant(0));
        return;
    }
    if (computation->shape == SHAPE_SCALAR) {
        bool root = how == CAPTURE_FLOAT_SQRT || how == CAPTURE_FLOAT_SQRT + CAPTURE_SINGLES - CAPTURE_FLOATS;
        struct tracked a = root ? track_constant(0) : low_of(track_half(track, sources->a, 0), size);
        set_scalar(track, sources, size, track_compute(track, how, size, a, track_operand(track, sources->b, size)));
        return;
    }
    for (unsigned i = 0; i < 2; i++)
        parts[i] = computation->shape == SHAPE_LANES ? of_lanes(track, computation, sources, i)
                                                     : track_compute(track, how, size, track_half(track, sources->a, i),
                                                                     track_half(track, sources->b, i));
    set_both(track, sources, parts[0], parts[1]);
}

/* ---- conversions ---- */

static struct tracked converted(struct track *track, unsigned how, unsigned size, struct tracked value)
{
    return track_compute(track, how, size, track_constant(0), value);
}

static bool vector_convert(struct track *track, const struct insn *insn, const struct sources *sources)
{
    enum { SINGLE = CAPTURE_SINGLES - CAPTURE_FLOATS };
    unsigned size = sources->b->size / 8, how;
    struct tracked value;
    switch (insn->zydis.mnemonic) {
    case BOTH(CVTSD2SS):
        set_scalar(track, sources, 4,
                   low_of(converted(track, CAPTURE_FLOAT_TO_OTHER, 8, track_operand(track, sources->b, 8)), 4));
        return true;
    case BOTH(CVTSS2SD):
        value = track_compute(track, TRACK_ZERO_EXTEND, 8, track_operand(track, sources->b, 4), track_constant(4));
        set_scalar(track, sources, 8, converted(track, CAPTURE_FLOAT_TO_OTHER + SINGLE, 8, value));
        return true;
    case BOTH(CVTSI2SD):
    case BOTH(CVTSI2SS):
        how = CAPTURE_FLOAT_OF_INT64;
        value =
            track_compute(track, TRACK_SIGN_EXTEND, 8, track_operand(track, sources->b, size), track_constant(size));
        if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_CVTSI2SS || insn->zydis.mnemonic == ZYDIS_MNEMONIC_VCVTSI2SS)
            set_scalar(track, sources, 4, low_of(converted(track, how + SINGLE, 8, value), 4));
        else
            set_scalar(track, sources, 8, converted(track, how, 8, value));
        return true;
    case BOTH(CVTTSD2SI):
    case BOTH(CVTTSS2SI): {
        bool single =
            insn->zydis.mnemonic == ZYDIS_MNEMONIC_CVTTSS2SI || insn->zydis.mnemonic == ZYDIS_MNEMONIC_VCVTTSS2SI;
        how = (sources->to->size == 64 ? CAPTURE_FLOAT_TO_INT64 : CAPTURE_FLOAT_TO_INT32) + (single ? SINGLE : 0);
        value = track_operand(track, sources->b, single ? 4 : 8);
        value = track_compute(track, TRACK_ZERO_EXTEND, 8, value, track_constant(single ? 4 : 8));
        track_set_operand(track, sources->to, sources->to->size / 8, converted(track, how, 8, value));
        return true;
    }
    case BOTH(UCOMISD):
    case BOTH(COMISD):
    case BOTH(UCOMISS):
    case BOTH(COMISS): {
        bool single = insn->zydis.mnemonic == ZYDIS_MNEMONIC_UCOMISS || insn->zydis.mnemonic == ZYDIS_MNEMONIC_COMISS ||
                      insn->zydis.mnemonic == ZYDIS_MNEMONIC_VUCOMISS || insn->zydis.mnemonic == ZYDIS_MNEMONIC_VCOMISS;
        track->flags.size = single ? 4 : 8;
        track->flags.a = track_operand(track, sources->to, track->flags.size);
        track->flags.b = track_operand(track, sources->b, track->flags.size);
        bool known = track->flags.a.kind != TRACK_UNKNOWN && track->flags.b.kind != TRACK_UNKNOWN;
        track->flags.kind = known ? FLAGS_FLOATS : FLAGS_UNKNOWN;
        return true;
    }
    default:
        return false;
    }
}

/* ---- what is put elsewhere ---- */

static void vector_shuffle(struct track *track, const struct sources *sources, const ZydisDecodedOperand *low,
                           const ZydisDecodedOperand *high)
{
    struct tracked parts[4];
    for (unsigned i = 0; i < 4; i++)
        parts[i] = lane(track, i < 2 ? low : high, sources->immediate >> 2 * i & 3);
    set_both(track, sources, pair(track, parts[0], parts[1]), pair(track, parts[2], parts[3]));
}

static void vector_interleave(struct track *track, const struct sources *sources, unsigned from)
{
    struct tracked parts[4];
    for (unsigned i = 0; i < 4; i++)
        parts[i] = lane(track, i % 2 ? sources->b : sources->a, from + i / 2);
    set_both(track, sources, pair(track, parts[0], parts[1]), pair(track, parts[2], parts[3]));
}

/* Of `size` bytes; from memory or a general register the rest is 0. */
static bool vector_move_low(struct track *track, const struct sources *sources, unsigned size)
{
    bool vector = sources->b->type == ZYDIS_OPERAND_TYPE_REGISTER && insn_register(sources->b->reg.value) >= XMM0;
    if (sources->to->type != ZYDIS_OPERAND_TYPE_REGISTER || insn_register(sources->to->reg.value) < XMM0)
        return false; /* a store, or to a general register: as any move */
    struct tracked value = track_operand(track, sources->b, size);
    if (vector)
        set_scalar(track, sources, size, low_of(value, size));
    else
        set_both(track, sources, pair(track, value, track_constant(0)), track_constant(0));
    if (!vector && size == 8)
        track_set_half(track, sources->to, 0, value);
    return true;
}

static bool vector_move(struct track *track, const struct insn *insn, const struct sources *sources)
{
    const ZydisDecodedOperand *a = sources->a, *b = sources->b;
    bool store = sources->to->type == ZYDIS_OPERAND_TYPE_MEMORY;
    switch (insn->zydis.mnemonic) {
    case BOTH(MOVSD):
        return b->type != ZYDIS_OPERAND_TYPE_MEMORY || !store ? vector_move_low(track, sources, 8) : false;
    case BOTH(MOVSS):
        return vector_move_low(track, sources, 4);
    case BOTH(MOVD):
        return vector_move_low(track, sources, 4);
    case BOTH(MOVQ):
        if (store || insn_register(sources->to->reg.value) < XMM0)
            return false;
        set_both(track, sources, track_operand(track, b, 8), track_constant(0));
        return true;
    case BOTH(MOVLPS):
    case BOTH(MOVLPD):
        if (store)
            track_set_half(track, sources->to, 0, track_half(track, b, 0));
        else
            set_both(track, sources, track_half(track, b, 0), track_half(track, a, 1));
        return true;
    case BOTH(MOVHPS):
    case BOTH(MOVHPD):
        if (store)
            track_set_half(track, sources->to, 0, track_half(track, b, 1));
        else
            set_both(track, sources, track_half(track, a, 0), track_half(track, b, 0));
        return true;
    case BOTH(MOVLHPS):
    case BOTH(UNPCKLPD):
    case BOTH(PUNPCKLQDQ):
        set_both(track, sources, track_half(track, a, 0), track_half(track, b, 0));
        return true;
    case BOTH(MOVHLPS):
        set_both(track, sources, track_half(track, b, 1), track_half(track, a, 1));
        return true;
    case BOTH(UNPCKHPD):
    case BOTH(PUNPCKHQDQ):
        set_both(track, sources, track_half(track, a, 1), track_half(track, b, 1));
        return true;
    case BOTH(UNPCKLPS):
    case BOTH(PUNPCKLDQ):
        vector_interleave(track, sources, 0);
        return true;
    case BOTH(UNPCKHPS):
    case BOTH(PUNPCKHDQ):
        vector_interleave(track, sources, 2);
        return true;
    case BOTH(SHUFPS):
        vector_shuffle(track, sources, a, b);
        return true;
    case BOTH(PSHUFD):
        vector_shuffle(track, sources, b, b);
        return true;
    case BOTH(SHUFPD):
        set_both(track, sources, track_half(track, a, sources->immediate & 1),
                 track_half(track, b, sources->immediate >> 1 & 1));
        return true;
    default:
        return false;
    }
}

bool track_vector(struct track *track, const struct insn *insn)
{
    struct computation computation;
    if (!track->nodes || insn->zydis.operand_count_visible < 2 || insn->zydis.operand_count_visible > 4 ||
        insn->operands[0].size > 128 || insn->operands[1].size > 128)
        return false;
    const struct sources sources = sources_of(insn);
    if (computation_of(insn, &computation)) {
        vector_compute(track, &computation, &sources);
        return true;
    }
    return vector_convert(track, insn, &sources) || vector_move(track, insn, &sources);
}
