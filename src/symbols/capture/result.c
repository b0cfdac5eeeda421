/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function's result at its exit hook, which is called before the result is where callers look for it: what the code
 * behind the hook makes of registers and memory is computed by the capture program.
 */
#include <dwarf.h>
#include <string.h>

#include "symbols/capture/site.h"
#include "symbols/code/step.h"
#include "symbols/capture/internal.h"

enum {
    PC = 16,           /* of values: the hook's return address */
    ROOM = 6,          /* temporaries that a result has beside what is computed */
    RESULT_INSNS = 200 /* of a program for one register; what is used twice is computed twice */
};

struct result {
    struct emitter *emitter;
    const struct track *track;
    size_t limit; /* of the program's bytes */
};

static int load_value(struct result *result, const struct tracked *value);

/* Puts a value into the temporary `to`; those above it are free again. */
static int value_settle(struct emitter *emitter, unsigned to, unsigned value)
{
    if (value != to)
        emit(emitter, CAPTURE_LEA, to, value, 0);
    emitter->temps = to + 1;
    return (int)to;
}

static void value_shift(struct emitter *emitter, unsigned temp, enum capture_alu how, unsigned bits)
{
    unsigned count = emit_temp(emitter);
    emit_constant(emitter, count, bits);
    emit(emitter, CAPTURE_ALU, temp, how, count);
}

/* Of the low bytes, a number of 64 bits. */
static void value_extend(struct emitter *emitter, unsigned temp, unsigned size, bool is_signed)
{
    if (size >= 8)
        return;
    value_shift(emitter, temp, CAPTURE_SHL, 64 - 8 * size);
    value_shift(emitter, temp, is_signed ? CAPTURE_SAR : CAPTURE_SHR, 64 - 8 * size);
}

/* b ^ ((a ^ b) & (c ? all bits : 0)) */
static void value_choose(struct emitter *emitter, unsigned temp, unsigned b, unsigned c)
{
    unsigned bits = emit_temp(emitter);
    emit_constant(emitter, bits, 0);
    emit(emitter, CAPTURE_ALU, bits, CAPTURE_SUB, c);
    emit(emitter, CAPTURE_ALU, temp, CAPTURE_XOR, b);
    emit(emitter, CAPTURE_ALU, temp, CAPTURE_AND, bits);
    emit(emitter, CAPTURE_ALU, temp, CAPTURE_XOR, b);
}

static int load_node(struct result *result, const struct track_node *node)
{
    struct emitter *emitter = result->emitter;
    unsigned temp = emit_temp(emitter), how = node->how;
    bool one = how == TRACK_LOAD || how == TRACK_SIGN_EXTEND || how == TRACK_ZERO_EXTEND;
    int a = load_value(result, &node->a), b = a < 0 || one ? a : load_value(result, &node->b);
    int c = b < 0 || how != TRACK_SELECT ? b : load_value(result, &node->c);
    if (c < 0)
        return -1;
    if (how == TRACK_LOAD) {
        emit(emitter, CAPTURE_PEEK, temp, (unsigned)node->size << 8 | (unsigned)a, 0);
        return value_settle(emitter, temp, temp);
    }
    emit(emitter, CAPTURE_LEA, temp, (unsigned)a, 0);
    if (how == TRACK_SELECT)
        value_choose(emitter, temp, (unsigned)b, (unsigned)c);
    else if (one)
        value_extend(emitter, temp, (unsigned)node->b.add, how == TRACK_SIGN_EXTEND);
    else
        emit(emitter, CAPTURE_ALU, temp, how, b);
    return value_settle(emitter, temp, temp);
}

/* What is read may not be there where the program does not read it. */
static int load_memory(struct result *result, const struct tracked *value)
{
    unsigned temp = emit_temp(result->emitter), size = value->size < 8 ? value->size : 8;
    emit(result->emitter, CAPTURE_PEEK, temp, size << 8 | value->base, value->add);
    return (int)temp;
}

static int load_plain(struct result *result, const struct tracked *value)
{
    struct emitter *emitter = result->emitter;
    unsigned temp;
    switch (value->kind) {
    case TRACK_COMPUTED:
        return load_node(result, &result->track->nodes->nodes[value->base]);
    case TRACK_CONSTANT:
        temp = emit_temp(emitter);
        emit_constant(emitter, temp, (uint64_t)value->add);
        return (int)temp;
    case TRACK_MEMORY:
        return value->base < PC ? load_memory(result, value) : -1;
    case TRACK_FIXED:
        if (!emitter->here)
            return -1;
        temp = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, temp, PC, value->add - (int64_t)emitter->here);
        return (int)temp;
    case TRACK_REGISTER:
        if (value->base >= PC)
            return -1;
        if (value->add == 0)
            return value->base;
        temp = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, temp, value->base, value->add);
        return (int)temp;
    default:
        return -1;
    }
}

/* The value in a register of the program: a number whose value->size low bytes count. -1: it takes too much of it. */
static int load_value(struct result *result, const struct tracked *value)
{
    struct emitter *emitter = result->emitter;
    if (emitter->temps + ROOM >= CAPTURE_TEMP + CAPTURE_TEMPS || emitter->code.len > result->limit)
        return -1;
    unsigned to = emitter->temps;
    int plain = load_plain(result, value);
    if (plain < 0 || !value->mask)
        return plain;
    unsigned temp = emit_temp(emitter), bits = emit_temp(emitter);
    emit(emitter, CAPTURE_LEA, temp, (unsigned)plain, 0);
    emit_constant(emitter, bits, value->mask);
    emit(emitter, CAPTURE_ALU, temp, CAPTURE_AND, bits);
    return value_settle(emitter, to, temp);
}

bool site_place_of(const struct track *track, struct tracked value, unsigned size, struct emitter *emitter,
                   struct place *ret_place)
{
    struct result result = {emitter, track, emitter->code.len + RESULT_INSNS * sizeof(struct capture_insn)};
    uint64_t wanted = size < 8 ? (UINT64_C(1) << 8 * size) - 1 : UINT64_MAX;
    if (value.kind == TRACK_UNKNOWN || value.size < size)
        return false;
    if ((value.mask & wanted) == wanted)
        value.mask = 0;
    if (value.kind == TRACK_MEMORY && !value.mask) {
        *ret_place = (struct place){.kind = PLACE_MEMORY, .base = value.base, .frame = true, .offset = value.add};
        return value.base < PC;
    }
    if (value.kind == TRACK_EXTENDED) {
        *ret_place = (struct place){.kind = PLACE_PIECES, .piece_count = 3};
        ret_place->pieces[0] = (struct piece){.kind = PLACE_CONSTANT, .constant = (uint64_t)value.add, .size = 8};
        ret_place->pieces[1] = (struct piece){.kind = PLACE_CONSTANT, .constant = value.mask, .size = 2};
        ret_place->pieces[2] = (struct piece){.kind = PLACE_CONSTANT, .size = 6}; /* padding */
        return true;
    }
    if (value.kind == TRACK_CONSTANT) {
        *ret_place = (struct place){.kind = PLACE_CONSTANT, .constant = (uint64_t)value.add, .size = 8};
        return true;
    }
    int number = size > 8 ? -1 : load_value(&result, &value);
    *ret_place = (struct place){.kind = PLACE_REGISTER, .base = (uint8_t)number, .size = 8};
    return number >= 0;
}

/* Of Fortran numbers are returned as in C, if it is not asked otherwise; texts, arrays and derived types not always. */
static bool is_returned_otherwise(struct site *site, Dwarf_Die *type)
{
    Dwarf_Die stripped;
    const char *producer = site_producer(site);
    return die_is_fortran(&site->scope) && ((producer && strstr(producer, " -ff2c")) || !type_strip(type, &stripped) ||
                                            (!type_is_scalar(&stripped) && type_kind_of(&stripped) != TYPE_COMPLEX));
}

/* A result in memory that the caller provides: nothing is written there behind the hook. */
static bool is_complete(const struct track *track, const struct tracked *address)
{
    for (unsigned i = 0; i < track->slot_count; i++)
        if (!is_address(*address) || track->slots[i].base == address->base || track->slots[i].base != RSP)
            return false;
    return !track->memory_lost;
}

static bool locate_registers(const struct track *track, const struct abi_place *abi, struct emitter *emitter,
                             struct place *ret_place)
{
    struct place whole = {.kind = PLACE_PIECES};
    unsigned count = abi->wide ? 2 : abi->count;
    struct abi_place halves = *abi;
    if (abi->wide) { /* of one vector register */
        halves.wide = false;
        halves.used[0] = halves.used[1] = 8;
        halves.registers[1] = (uint8_t)(TRACK_HIGH + abi->registers[0] - XMM0);
    }
    for (unsigned i = 0; i < count; i++) {
        struct place part;
        if (!site_place_of(track, track->values[halves.registers[i]], halves.used[i], emitter, &part))
            return false;
        site_add_eightbyte(&whole, &part, &halves, i);
    }
    if (count > 0)
        *ret_place = count == 1 && whole.piece_count == 1 ? site_whole(&whole) : whole;
    return true;
}

void site_locate_result(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct site *site = ctx;
    const struct track *track = &site->track;
    struct abi_type type;
    struct abi_place abi;
    Dwarf_Die die;
    bool inlined = dwarf_tag(&site->scope) == DW_TAG_inlined_subroutine; /* nothing is returned */
    *ret_place = (struct place){.kind = inlined ? PLACE_OPTIMISED_OUT : PLACE_NOT_AVAILABLE};
    if (inlined || !site->is_left || !site->tracked || !type_of(&site->scope, &die) ||
        is_returned_otherwise(site, &die))
        return;
    abi_classify(&die, &type);
    struct emitter_mark mark = emitter_mark(emitter);
    bool in_registers = abi_result(&type, &abi), found;
    if (site->is_left == RETURNS_MAYBE &&
        (!in_registers || track->values[abi.registers[0]].kind == TRACK_CONSTANT)) /* registers may be cleared */
        return;
    if (!in_registers) {
        found = site_place_of(track, track->values[TRACK_X87], 10, emitter, ret_place);
    } else if (abi.by_address) {
        struct place pointer;
        const struct tracked *address = &track->values[abi.registers[0]];
        found = is_complete(track, address) && site_place_of(track, *address, 8, emitter, &pointer);
        int value = found ? emit_load(emitter, &pointer, 8) : -1;
        found = value >= 0;
        *ret_place = (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)value};
    } else
        found = locate_registers(track, &abi, emitter, ret_place);
    if (found)
        return;
    emitter_reset(emitter, &mark);
    *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
}
