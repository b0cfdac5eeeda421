/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/code/step.h"

#include <string.h>

static const struct tracked unknown;

static struct tracked narrowed(struct tracked value, unsigned size)
{
    if (value.kind != TRACK_UNKNOWN && value.size > size)
        value.size = (uint8_t)size;
    return value;
}

/* ---- memory ---- */

/* What is written to: of what is left of a slot the content is unknown. */
static void track_forget(struct track *track, unsigned base, int64_t offset, unsigned size)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < track->slot_count; i++) {
        struct track_slot slot = track->slots[i];
        if (overlaps(&slot, base, offset, size)) {
            if (slot.offset >= offset && slot.offset + slot.size <= offset + (int64_t)size)
                continue;
            slot.value = unknown;
        }
        track->slots[kept++] = slot;
    }
    track->slot_count = kept;
}

void track_store(struct track *track, struct tracked address, unsigned size, struct tracked value)
{
    if (!is_address(address)) {
        track->memory_lost = true; /* somewhere; slots of the frame whose address nobody has are as they were */
        return;
    }
    track_forget(track, address.base, address.add, size);
    value = narrowed(value, size);
    if (track->slot_count == TRACK_SLOTS) {
        track->memory_lost = true;
        return;
    }
    /* unknown content is remembered, too: the memory is not as it was */
    track->slots[track->slot_count++] =
        (struct track_slot){.offset = address.add, .base = address.base, .size = (uint8_t)size, .value = value};
}

static bool is_of_frame(const struct track *track, unsigned base)
{
    return track->frame && (base == RSP || base == track->frame);
}

/* Behind a hook: whether something was stored that the address could mean, too. Before a frame's slots are set nothing
 * leads to them but the registers that they are addressed by. */
static bool may_be_changed(const struct track *track, unsigned base)
{
    for (unsigned i = 0; i < track->slot_count; i++)
        if (track->nodes && track->slots[i].base != base &&
            (is_of_frame(track, base) || !is_of_frame(track, track->slots[i].base)))
            return true;
    return track->memory_lost;
}

static struct tracked constant_at(const struct track *track, uint64_t address, unsigned size)
{
    size_t left;
    const uint8_t *bytes = elf_code_constant(track->code, address, &left);
    uint64_t number = 0;
    if (!bytes || size > sizeof number || size > left)
        return unknown;
    memcpy(&number, bytes, size);
    return track_constant(number);
}

/* At an address that had to be computed, or in the file. */
static struct tracked load_elsewhere(struct track *track, struct tracked address, unsigned size)
{
    struct tracked value = unknown;
    bool pointer = address.kind == TRACK_MEMORY && !address.mask; /* as it lay there when all began */
    if (!track->nodes || address.size < 8)
        return unknown;
    if (address.kind == TRACK_FIXED && !address.mask)
        value = constant_at(track, (uint64_t)address.add, size);
    if (value.kind == TRACK_CONSTANT || size > 8 || track->memory_lost ||
        (pointer ? may_be_changed(track, XMM0) : track->slot_count > 0))
        return value;
    return track_compute(track, TRACK_LOAD, size, address, track_constant(0));
}

static struct tracked track_load(struct track *track, struct tracked address, unsigned size)
{
    if (!is_address(address))
        return load_elsewhere(track, address, size);
    for (unsigned i = 0; i < track->slot_count; i++) {
        const struct track_slot *slot = &track->slots[i];
        int64_t from = address.add - slot->offset;
        if (slot->base == address.base && from >= 0 && from + size <= slot->size && slot->size <= 8 && from > 0)
            return narrowed(
                track_compute(track, CAPTURE_SHR, 8,
                              track_compute(track, TRACK_ZERO_EXTEND, 8, slot->value, track_constant(slot->size)),
                              track_constant(8 * (uint64_t)from)),
                size);
        if (slot->base == address.base && from == 0 && slot->size >= size)
            return narrowed(slot->value, size);
        if (overlaps(slot, address.base, address.add, size)) {
            struct tracked high = address;
            if (size != 8 || !track->nodes)
                return unknown;
            high.add += 4; /* of two parts */
            struct tracked low =
                track_compute(track, TRACK_ZERO_EXTEND, 8, track_load(track, address, 4), track_constant(4));
            return track_compute(
                track, CAPTURE_OR, 8, low,
                track_compute(track, CAPTURE_SHL, 8,
                              track_compute(track, TRACK_ZERO_EXTEND, 8, track_load(track, high, 4), track_constant(4)),
                              track_constant(32)));
        }
    }
    if (may_be_changed(track, address.base))
        return unknown;
    return (struct tracked){.kind = TRACK_MEMORY, .base = address.base, .size = (uint8_t)size, .add = address.add};
}

static struct tracked address_of(struct track *track, const ZydisDecodedOperand *op)
{
    int base = insn_register(op->mem.base);
    if (track->nodes)
        return track_address(track, op, 8);
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

struct tracked track_operand(struct track *track, const ZydisDecodedOperand *op, unsigned size)
{
    if (op->type == ZYDIS_OPERAND_TYPE_MEMORY)
        return track_load(track, address_of(track, op), size);
    if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
        return track_constant(op->imm.value.u);
    if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
        return unknown;
    int number = insn_register(op->reg.value);
    if (is_high_byte(op))
        return track_compute(track, CAPTURE_SHR, 2,
                             track_compute(track, TRACK_ZERO_EXTEND, 8, track->values[number], track_constant(2)),
                             track_constant(8));
    return number < 0 ? unknown : narrowed(track->values[number], size);
}

static unsigned high_half(int number)
{
    return TRACK_HIGH + (unsigned)number - XMM0;
}

struct tracked track_half(struct track *track, const ZydisDecodedOperand *op, unsigned half)
{
    if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
        struct tracked address = address_of(track, op);
        if (is_address(address) || address.kind == TRACK_FIXED)
            address.add += 8 * (int64_t)half;
        else if (half)
            return unknown;
        return track_load(track, address, 8);
    }
    int number = op->type == ZYDIS_OPERAND_TYPE_REGISTER ? insn_register(op->reg.value) : -1;
    return number < XMM0 ? unknown : narrowed(track->values[half ? high_half(number) : (unsigned)number], 8);
}

void track_set_half(struct track *track, const ZydisDecodedOperand *op, unsigned half, struct tracked value)
{
    if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
        struct tracked address = address_of(track, op);
        address.add += 8 * (int64_t)half;
        track_store(track, address, 8, value);
        return;
    }
    int number = op->type == ZYDIS_OPERAND_TYPE_REGISTER ? insn_register(op->reg.value) : -1;
    if (number >= XMM0)
        track->values[half ? high_half(number) : (unsigned)number] = value;
}

/* What a part of a general register was set to, with the rest of it. */
static struct tracked merged(struct track *track, struct tracked old, unsigned size, struct tracked value)
{
    uint64_t bits = (UINT64_C(1) << 8 * size) - 1;
    struct tracked rest = track_compute(track, CAPTURE_AND, 8, old, track_constant(~bits));
    struct tracked low = track_compute(track, TRACK_ZERO_EXTEND, 8, value, track_constant(size));
    struct tracked whole = track_compute(track, CAPTURE_OR, 8, rest, low);
    return whole.kind == TRACK_UNKNOWN || whole.size < size ? narrowed(value, size) : whole;
}

/* A write of 32 bits clears the others. */
static struct tracked cleared(struct tracked value)
{
    if (value.kind == TRACK_UNKNOWN || value.size < 4)
        return value;
    value.mask = (value.mask ? value.mask : UINT64_MAX) & UINT32_MAX;
    if (value.kind == TRACK_CONSTANT)
        return track_constant((uint64_t)value.add & value.mask);
    value.size = 8;
    return value;
}

void track_set_operand(struct track *track, const ZydisDecodedOperand *op, unsigned size, struct tracked value)
{
    if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
        track_store(track, address_of(track, op), size, value);
        return;
    }
    int number = op->type == ZYDIS_OPERAND_TYPE_REGISTER ? insn_register(op->reg.value) : -1;
    if (number < 0)
        return;
    if (is_high_byte(op))
        value = unknown;
    if (number >= XMM0)
        track->values[high_half(number)] = unknown;
    if (!track->nodes || number >= XMM0)
        track->values[number] = narrowed(value, size);
    else if (size == 4)
        track->values[number] = cleared(narrowed(value, size));
    else if (size < 4 && value.kind != TRACK_UNKNOWN)
        track->values[number] = merged(track, track->values[number], size, value);
    else
        track->values[number] = narrowed(value, size);
}

void track_clobber(struct track *track, const struct insn *insn)
{
    for (unsigned i = 0; i < insn->zydis.operand_count; i++) {
        const ZydisDecodedOperand *op = &insn->operands[i];
        if (!(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
            continue;
        if (op->type == ZYDIS_OPERAND_TYPE_MEMORY || op->type == ZYDIS_OPERAND_TYPE_REGISTER)
            track_set_operand(track, op, op->size / 8 ? op->size / 8 : 64, unknown);
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
        track_clobber(track, insn);
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
    struct tracked value = known ? track_operand(track, to, size) : unknown;
    track_clobber(track, insn);
    if (value.kind == TRACK_UNKNOWN)
        return;
    uint64_t bits = (value.mask ? value.mask : UINT64_MAX) & by->imm.value.u;
    if (value.kind == TRACK_CONSTANT || bits == 0)
        value = (struct tracked){.kind = TRACK_CONSTANT, .size = value.size, .add = value.add & (int64_t)bits};
    else
        value.mask = bits;
    track_set_operand(track, to, size, value);
}

/* A register with itself: 0. */
static void exclusive_or(struct track *track, const struct insn *insn)
{
    const ZydisDecodedOperand *to = &insn->operands[0], *from = &insn->operands[1];
    bool zero = to->type == ZYDIS_OPERAND_TYPE_REGISTER && from->type == ZYDIS_OPERAND_TYPE_REGISTER &&
                to->reg.value == from->reg.value && to->size >= 32;
    track_clobber(track, insn);
    if (zero)
        track_set_operand(track, to, 8, (struct tracked){.kind = TRACK_CONSTANT, .size = 8});
}

/* What is loaded to the top of the x87 stack: all 10 bytes from memory, or a constant, which is exact. */
static struct tracked pushed_x87(struct track *track, const struct insn *insn)
{
    const ZydisDecodedOperand *op = &insn->operands[0];
    long double number = insn->zydis.mnemonic == ZYDIS_MNEMONIC_FLD1;
    struct tracked extended = {.kind = TRACK_EXTENDED, .size = 10};
    if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_FLD) {
        struct tracked value = track_operand(track, op, op->size / 8);
        uint64_t bits = (uint64_t)value.add;
        float single;
        double twice;
        if (value.kind != TRACK_CONSTANT || (op->size != 32 && op->size != 64))
            return op->size == 80 ? value : unknown;
        memcpy(&single, &bits, sizeof single);
        memcpy(&twice, &bits, sizeof twice);
        number = op->size == 32 ? (long double)single : (long double)twice;
    }
    memcpy(&extended.add, &number, 8);
    memcpy(&extended.mask, (const char *)&number + 8, 2);
    return extended;
}

static void stack_push(struct track *track, const ZydisDecodedOperand *op)
{
    struct tracked value = track_operand(track, op, 8);
    if (is_address(track->values[RSP]))
        track->values[RSP].add -= 8;
    track_store(track, track->values[RSP], 8, value);
}

static void stack_pop(struct track *track, const ZydisDecodedOperand *op)
{
    struct tracked value = track_load(track, track->values[RSP], 8);
    if (is_address(track->values[RSP]))
        track->values[RSP].add += 8;
    if (op)
        track_set_operand(track, op, 8, value);
    else
        track->values[RBP] = value;
}

void track_step(struct track *track, const struct insn *insn)
{
    unsigned size = move_size(insn);
    track->next = insn->next;
    if (insn->zydis.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX) { /* only parts may be written */
        track_clobber(track, insn);
        return;
    }
    if (track_vector(track, insn) || track_arithmetic(track, insn))
        return;
    if (size == 16) {
        struct tracked low = track_half(track, &insn->operands[1], 0), high = track_half(track, &insn->operands[1], 1);
        track_set_half(track, &insn->operands[0], 0, low);
        track_set_half(track, &insn->operands[0], 1, high);
        return;
    }
    if (size > 0 && size <= 8) {
        track_set_operand(track, &insn->operands[0], size, track_operand(track, &insn->operands[1], size));
        return;
    }
    switch (insn->zydis.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
        stack_push(track, &insn->operands[0]);
        break;
    case ZYDIS_MNEMONIC_POP:
        stack_pop(track, &insn->operands[0]);
        break;
    case ZYDIS_MNEMONIC_LEAVE:
        track->values[RSP] = track->values[RBP];
        stack_pop(track, NULL);
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
        track_set_operand(track, &insn->operands[0], insn->operands[0].size / 8, address_of(track, &insn->operands[1]));
        break;
    case ZYDIS_MNEMONIC_FLD:
    case ZYDIS_MNEMONIC_FLDZ:
    case ZYDIS_MNEMONIC_FLD1:
        track->values[TRACK_X87] = pushed_x87(track, insn);
        break;
    case ZYDIS_MNEMONIC_CALL:
        track_called(track);
        break;
    default:
        track_clobber(track, insn);
    }
}
