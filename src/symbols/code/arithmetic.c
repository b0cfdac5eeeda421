/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers that instructions compute behind an exit hook, addresses, and conditions. */
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
