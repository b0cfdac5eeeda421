/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/capture_step.h"

static const struct tracked unknown;

static struct tracked narrowed(struct tracked value, unsigned size)
{
    if (value.kind != TRACK_UNKNOWN && value.size > size)
        value.size = (uint8_t)size;
    if (value.kind == TRACK_REGISTER && value.add && size < 8)
        return unknown;
    return value;
}

/* ---- memory ---- */

static void forget(struct track *track, unsigned base, int64_t offset, unsigned size)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < track->slot_count; i++)
        if (!overlaps(&track->slots[i], base, offset, size))
            track->slots[kept++] = track->slots[i];
    track->slot_count = kept;
}

void track_store(struct track *track, struct tracked address, unsigned size, struct tracked value)
{
    if (!is_address(address)) {
        track->memory_lost = true; /* somewhere; slots of the frame whose address nobody has are as they were */
        return;
    }
    forget(track, address.base, address.add, size);
    value = narrowed(value, size);
    if (track->slot_count == TRACK_SLOTS) {
        track->memory_lost = true;
        return;
    }
    /* unknown content is remembered, too: the memory is not as it was */
    track->slots[track->slot_count++] =
        (struct track_slot){.offset = address.add, .base = address.base, .size = (uint8_t)size, .value = value};
}

static struct tracked load(const struct track *track, struct tracked address, unsigned size)
{
    if (!is_address(address))
        return unknown;
    for (unsigned i = 0; i < track->slot_count; i++) {
        const struct track_slot *slot = &track->slots[i];
        if (slot->base == address.base && slot->offset == address.add && slot->size >= size)
            return narrowed(slot->value, size);
        if (overlaps(slot, address.base, address.add, size))
            return unknown;
    }
    if (track->memory_lost)
        return unknown;
    return (struct tracked){.kind = TRACK_MEMORY, .base = address.base, .size = (uint8_t)size, .add = address.add};
}

static struct tracked address_of(const struct track *track, const ZydisDecodedOperand *op)
{
    int base = insn_register(op->mem.base);
    if (base < 0 || base > 15 || op->mem.index != ZYDIS_REGISTER_NONE || op->mem.segment == ZYDIS_REGISTER_FS ||
        op->mem.segment == ZYDIS_REGISTER_GS || !is_address(track->values[base]))
        return unknown;
    struct tracked address = track->values[base];
    address.add += op->mem.disp.value;
    return address;
}

/* ---- instructions ---- */

/* ah, bh, ch, dh: not the low byte of their register. */
static bool is_high_byte(const ZydisDecodedOperand *op)
{
    return op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->reg.value >= ZYDIS_REGISTER_AH &&
           op->reg.value <= ZYDIS_REGISTER_BH;
}

/* What an operand holds, `size` low bytes of it. */
static struct tracked operand_value(const struct track *track, const ZydisDecodedOperand *op, unsigned size)
{
    if (op->type == ZYDIS_OPERAND_TYPE_MEMORY)
        return load(track, address_of(track, op), size);
    if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
        return (struct tracked){.kind = TRACK_CONSTANT, .size = 8, .add = op->imm.value.s};
    if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
        return unknown;
    int number = is_high_byte(op) ? -1 : insn_register(op->reg.value);
    return number < 0 ? unknown : narrowed(track->values[number], size);
}

static void set_operand(struct track *track, const ZydisDecodedOperand *op, unsigned size, struct tracked value)
{
    if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
        track_store(track, address_of(track, op), size, value);
        return;
    }
    int number = op->type == ZYDIS_OPERAND_TYPE_REGISTER ? insn_register(op->reg.value) : -1;
    if (number >= 0)
        track->values[number] = is_high_byte(op) ? unknown : narrowed(value, size);
}

/* Whatever an instruction writes is unknown after it. */
static void clobber(struct track *track, const struct insn *insn)
{
    for (unsigned i = 0; i < insn->zydis.operand_count; i++) {
        const ZydisDecodedOperand *op = &insn->operands[i];
        if (!(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
            continue;
        if (op->type == ZYDIS_OPERAND_TYPE_MEMORY || op->type == ZYDIS_OPERAND_TYPE_REGISTER)
            set_operand(track, op, op->size / 8 ? op->size / 8 : 64, unknown);
    }
    if (insn->zydis.meta.category == ZYDIS_CATEGORY_X87_ALU)
        track->values[TRACK_X87] = unknown;
}

void track_called(struct track *track)
{
    for (unsigned reg = 0; reg < TRACK_VALUES; reg++)
        if (reg != 3 && reg != RBP && reg != RSP && !(reg >= 12 && reg <= 15))
            track->values[reg] = unknown;
    track->memory_lost = true;
}

/* How many low bytes a move moves; 0: it is none that is understood. */
static unsigned move_size(const struct insn *insn)
{
    unsigned to = insn->operands[0].size / 8, from = insn->operands[1].size / 8;
    if (insn->operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY && insn->operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY)
        return 0; /* of strings: movsd has two meanings */
    switch (insn->zydis.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVAPD:
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVUPD:
    case ZYDIS_MNEMONIC_MOVDQA:
    case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_VMOVAPD:
    case ZYDIS_MNEMONIC_VMOVUPS:
    case ZYDIS_MNEMONIC_VMOVUPD:
    case ZYDIS_MNEMONIC_VMOVDQA:
    case ZYDIS_MNEMONIC_VMOVDQU:
        return to < from ? to : from;
    case ZYDIS_MNEMONIC_MOVQ:
    case ZYDIS_MNEMONIC_VMOVQ:
    case ZYDIS_MNEMONIC_MOVSD:
        return 8;
    case ZYDIS_MNEMONIC_VMOVSD:
        return insn->zydis.operand_count_visible == 2 ? 8 : 0;
    case ZYDIS_MNEMONIC_MOVD:
    case ZYDIS_MNEMONIC_VMOVD:
    case ZYDIS_MNEMONIC_MOVSS:
        return 4;
    case ZYDIS_MNEMONIC_VMOVSS:
        return insn->zydis.operand_count_visible == 2 ? 4 : 0;
    default:
        return 0;
    }
}

static void add_to(struct track *track, const struct insn *insn, bool subtract)
{
    int reg = insn->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER ? insn_register(insn->operands[0].reg.value) : -1;
    bool whole = reg >= 0 && reg < 16 && insn->operands[0].size == 64 && is_address(track->values[reg]) &&
                 insn->operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
    if (!whole) {
        clobber(track, insn);
        return;
    }
    int64_t by = insn->operands[1].imm.value.s;
    track->values[reg].add += subtract ? -by : by;
}

/* A register and a constant: of as many bytes as the instruction is about, what the mask leaves is known. */
static void mask(struct track *track, const struct insn *insn)
{
    const ZydisDecodedOperand *to = &insn->operands[0], *by = &insn->operands[1];
    unsigned size = to->size / 8;
    bool known = to->type == ZYDIS_OPERAND_TYPE_REGISTER && by->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && size <= 8;
    struct tracked value = known ? operand_value(track, to, size) : unknown;
    clobber(track, insn);
    if (value.kind == TRACK_UNKNOWN)
        return;
    uint64_t bits = (value.mask ? value.mask : UINT64_MAX) & by->imm.value.u;
    if (value.kind == TRACK_CONSTANT || bits == 0)
        value = (struct tracked){.kind = TRACK_CONSTANT, .size = value.size, .add = value.add & (int64_t)bits};
    else
        value.mask = bits;
    set_operand(track, to, size, value);
}

/* A register with itself: 0. */
static void exclusive_or(struct track *track, const struct insn *insn)
{
    const ZydisDecodedOperand *to = &insn->operands[0], *from = &insn->operands[1];
    bool zero = to->type == ZYDIS_OPERAND_TYPE_REGISTER && from->type == ZYDIS_OPERAND_TYPE_REGISTER &&
                to->reg.value == from->reg.value && to->size >= 32;
    clobber(track, insn);
    if (zero)
        set_operand(track, to, 8, (struct tracked){.kind = TRACK_CONSTANT, .size = 8});
}

/* ---- arithmetic ---- */

static struct tracked computed(struct track *track, unsigned how, unsigned size, struct tracked a, struct tracked b)
{
    bool extends = how >= CAPTURE_ALUS;
    bool known = a.kind != TRACK_UNKNOWN && b.kind != TRACK_UNKNOWN && a.base < XMM0 + TRACK_NODES &&
                 a.size >= (extends ? (unsigned)b.add : size) && b.size >= (extends ? 1 : size);
    bool in_vector = (a.kind == TRACK_REGISTER && a.base >= XMM0) || (b.kind == TRACK_REGISTER && b.base >= XMM0);
    if (!track->computes || !known || in_vector || track->node_count == TRACK_NODES)
        return unknown;
    track->nodes[track->node_count] = (struct track_node){.how = (uint8_t)how, .size = (uint8_t)size, .a = a, .b = b};
    return (struct tracked){.kind = TRACK_COMPUTED, .base = (uint8_t)track->node_count++, .size = (uint8_t)size};
}

static struct tracked constant(int64_t number)
{
    return (struct tracked){.kind = TRACK_CONSTANT, .size = 8, .add = number};
}

/* base + index * scale + displacement, as a number of `size` bytes. */
static struct tracked computed_address(struct track *track, const ZydisDecodedOperand *op, unsigned size)
{
    int base = insn_register(op->mem.base), index = insn_register(op->mem.index);
    bool odd = op->mem.base == ZYDIS_REGISTER_RIP || op->mem.segment == ZYDIS_REGISTER_FS ||
               op->mem.segment == ZYDIS_REGISTER_GS;
    struct tracked sum = odd ? unknown : constant(op->mem.disp.value);
    if (op->mem.index != ZYDIS_REGISTER_NONE)
        sum = computed(track, CAPTURE_ADD, size, sum,
                       index < 0 ? unknown
                                 : computed(track, CAPTURE_MUL, size, track->values[index], constant(op->mem.scale)));
    if (op->mem.base != ZYDIS_REGISTER_NONE)
        sum = computed(track, CAPTURE_ADD, size, sum, base < 0 ? unknown : track->values[base]);
    return sum;
}

static int arithmetic_of(const struct insn *insn)
{
    switch (insn->zydis.mnemonic) {
    case ZYDIS_MNEMONIC_ADD:
        return CAPTURE_ADD;
    case ZYDIS_MNEMONIC_SUB:
        return CAPTURE_SUB;
    case ZYDIS_MNEMONIC_IMUL:
        return CAPTURE_MUL;
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

static bool is_shift(int how)
{
    return how == CAPTURE_SHL || how == CAPTURE_SHR || how == CAPTURE_SAR;
}

/* What the instruction writes to its first operand, a register; unknown if it is none that is understood. */
static struct tracked arithmetic(struct track *track, const struct insn *insn)
{
    const ZydisDecodedOperand *to = &insn->operands[0], *from = &insn->operands[1];
    unsigned size = to->size / 8, from_size = from->size / 8, visible = insn->zydis.operand_count_visible;
    int how = arithmetic_of(insn);
    if (to->type != ZYDIS_OPERAND_TYPE_REGISTER || insn_register(to->reg.value) >= XMM0 || (size != 4 && size != 8))
        return unknown;
    struct tracked old = operand_value(track, to, size);
    switch (insn->zydis.mnemonic) {
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
        return computed(track, TRACK_SIGN_EXTEND, size, operand_value(track, from, from_size), constant(from_size));
    case ZYDIS_MNEMONIC_MOVZX:
        return computed(track, TRACK_ZERO_EXTEND, size, operand_value(track, from, from_size), constant(from_size));
    case ZYDIS_MNEMONIC_CDQE:
        return computed(track, TRACK_SIGN_EXTEND, 8, narrowed(track->values[0], 4), constant(4));
    case ZYDIS_MNEMONIC_NEG:
        return computed(track, CAPTURE_SUB, size, constant(0), old);
    case ZYDIS_MNEMONIC_NOT:
        return computed(track, CAPTURE_XOR, size, old, constant(-1));
    case ZYDIS_MNEMONIC_LEA:
        return computed_address(track, from, size);
    default:
        break;
    }
    if (how < 0 || (is_shift(how) && from->type != ZYDIS_OPERAND_TYPE_IMMEDIATE) || visible < 2)
        return unknown;
    struct tracked other = operand_value(track, from, size);
    if (is_shift(how))
        other = constant(from->imm.value.s & (size == 8 ? 63 : 31));
    if (how == CAPTURE_MUL && visible == 3)
        return computed(track, how, size, other, operand_value(track, &insn->operands[2], size));
    return computed(track, how, size, old, other);
}

/* True: done. What is followed as an address stays one. */
static bool step_arithmetic(struct track *track, const struct insn *insn)
{
    const ZydisDecodedOperand *to = &insn->operands[0];
    int reg = to->type == ZYDIS_OPERAND_TYPE_REGISTER ? insn_register(to->reg.value) : -1;
    if (!track->computes || reg == RSP || reg == RBP)
        return false;
    struct tracked value = arithmetic(track, insn);
    if (value.kind == TRACK_UNKNOWN)
        return false;
    clobber(track, insn);
    set_operand(track, to, value.size, value);
    return true;
}

static void push(struct track *track, const ZydisDecodedOperand *op)
{
    struct tracked value = operand_value(track, op, 8);
    if (is_address(track->values[RSP]))
        track->values[RSP].add -= 8;
    track_store(track, track->values[RSP], 8, value);
}

static void pop(struct track *track, const ZydisDecodedOperand *op)
{
    struct tracked value = load(track, track->values[RSP], 8);
    if (is_address(track->values[RSP]))
        track->values[RSP].add += 8;
    if (op)
        set_operand(track, op, 8, value);
    else
        track->values[RBP] = value;
}

void track_step(struct track *track, const struct insn *insn)
{
    unsigned size = move_size(insn);
    if (step_arithmetic(track, insn))
        return;
    if (size) {
        set_operand(track, &insn->operands[0], size, operand_value(track, &insn->operands[1], size));
        return;
    }
    switch (insn->zydis.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
        push(track, &insn->operands[0]);
        break;
    case ZYDIS_MNEMONIC_POP:
        pop(track, &insn->operands[0]);
        break;
    case ZYDIS_MNEMONIC_LEAVE:
        track->values[RSP] = track->values[RBP];
        pop(track, NULL);
        break;
    case ZYDIS_MNEMONIC_ADD:
        add_to(track, insn, false);
        break;
    case ZYDIS_MNEMONIC_SUB:
        add_to(track, insn, true);
        break;
    case ZYDIS_MNEMONIC_XOR:
        exclusive_or(track, insn);
        break;
    case ZYDIS_MNEMONIC_FSTP:
        if (insn->operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY) /* rounded, unless all of it is stored */
            track_store(track, address_of(track, &insn->operands[0]), insn->operands[0].size / 8,
                        insn->operands[0].size == 80 ? track->values[TRACK_X87] : unknown);
        track->values[TRACK_X87] = unknown;
        break;
    case ZYDIS_MNEMONIC_AND:
        mask(track, insn);
        break;
    case ZYDIS_MNEMONIC_LEA:
        set_operand(track, &insn->operands[0], insn->operands[0].size / 8, address_of(track, &insn->operands[1]));
        break;
    case ZYDIS_MNEMONIC_FLD:
        track->values[TRACK_X87] = operand_value(track, &insn->operands[0], insn->operands[0].size / 8);
        break;
    case ZYDIS_MNEMONIC_CALL:
        track_called(track);
        break;
    default:
        clobber(track, insn);
    }
}
