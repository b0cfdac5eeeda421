/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following values through straight code: which register or stack slot holds, at a hook, what was in an argument
 * register when the function began; and where, after an exit hook, the result comes from that is in rax when the
 * function returns. Moves are followed, behind an exit hook whole numbers that are computed, too; whatever else writes
 * to a place makes its content unknown. Forward jumps join: what is not the same on both ways is unknown. A loop ends
 * it all.
 */
#include <string.h>

#include "symbols/code/step.h"

enum { INSNS_MAX = 400, JOINS_MAX = 8, FORKS_MAX = 8 };

static const struct tracked unknown;

/* ---- ways ---- */

struct join {
    uint64_t at;
    struct track track;
};

/* What is known at the meeting of two ways. */
static void track_meet(struct track *track, const struct track *other)
{
    if (!track->reachable) {
        *track = *other;
        return;
    }
    for (unsigned i = 0; i < TRACK_VALUES; i++)
        if (!same(track->values[i], other->values[i]))
            track->values[i] = unknown;
    for (unsigned i = 0; i < track->slot_count; i++) {
        struct track_slot *slot = &track->slots[i];
        bool found = false;
        for (unsigned k = 0; k < other->slot_count; k++)
            found |= other->slots[k].base == slot->base && other->slots[k].offset == slot->offset &&
                     other->slots[k].size == slot->size && same(other->slots[k].value, slot->value);
        if (!found)
            slot->value = unknown;
    }
    for (unsigned k = 0; k < other->slot_count; k++) { /* written on that way only */
        const struct track_slot *slot = &other->slots[k];
        bool found = false;
        for (unsigned i = 0; i < track->slot_count; i++)
            found |= track->slots[i].base == slot->base && track->slots[i].offset == slot->offset &&
                     track->slots[i].size == slot->size;
        if (!found)
            track_store(track,
                        (struct tracked){.kind = TRACK_REGISTER, .base = slot->base, .size = 8, .add = slot->offset},
                        slot->size, unknown);
    }
    track->memory_lost |= other->memory_lost;
}

static void track_start(struct track *track, const struct elf_code *code)
{
    memset(track, 0, sizeof *track);
    for (unsigned i = 0; i < TRACK_VALUES; i++)
        if (i != TRACK_X87)
            track->values[i] = (struct tracked){.kind = TRACK_REGISTER, .base = (uint8_t)i, .size = 8};
    track->code = code;
    track->reachable = true;
}

bool track_entry(struct track *track, const struct elf_code *code, uint64_t begin, uint64_t end)
{
    struct join joins[JOINS_MAX];
    unsigned join_count = 0;
    track_start(track, code);
    uint64_t at = begin;
    for (unsigned n = 0; n < INSNS_MAX && at < end; n++) {
        struct insn insn;
        uint64_t target;
        for (unsigned i = 0; i < join_count; i++)
            if (joins[i].at == at)
                track_meet(track, &joins[i].track);
        if (!insn_decode(code, at, &insn))
            return false;
        int category = insn.zydis.meta.category;
        at = insn.next;
        if (!track->reachable)
            continue;
        if (category == ZYDIS_CATEGORY_COND_BR || category == ZYDIS_CATEGORY_UNCOND_BR) {
            if (!insn_target(&insn, &target) || target < insn.next || join_count == JOINS_MAX)
                return false;
            joins[join_count].at = target;
            joins[join_count++].track = *track;
            track->reachable = category == ZYDIS_CATEGORY_COND_BR;
        } else if (category == ZYDIS_CATEGORY_RET)
            track->reachable = false;
        else
            track_step(track, &insn);
    }
    for (unsigned i = 0; i < join_count; i++)
        if (joins[i].at == end)
            track_meet(track, &joins[i].track);
    return at == end && track->reachable;
}

static bool insn_leaves(const struct insn *insn)
{
    int category = insn->zydis.meta.category;
    return category == ZYDIS_CATEGORY_CALL || category == ZYDIS_CATEGORY_RET || category == ZYDIS_CATEGORY_COND_BR ||
           category == ZYDIS_CATEGORY_UNCOND_BR;
}

bool track_behind(struct track *now, uint64_t begin, track_look_fn *look, void *ctx)
{
    struct insn insn;
    uint64_t at = begin;
    for (unsigned n = 0; n < INSNS_MAX; n++) {
        if (look(ctx, now, at))
            return true;
        if (!insn_decode(now->code, at, &insn) || insn_leaves(&insn))
            return false;
        track_step(now, &insn);
        at = insn.next;
    }
    return false;
}

void track_start_entry(struct track *ret, struct track_nodes *nodes, const struct elf_code *code)
{
    track_start(ret, code);
    nodes->count = 0;
    ret->nodes = nodes;
    ret->frame = RSP;
}

void track_start_behind(struct track *ret, struct track_nodes *nodes, const struct elf_code *code, unsigned frame)
{
    track_start(ret, code);
    track_called(ret);
    ret->memory_lost = false; /* the hook changes nothing in the program's frames */
    nodes->count = 0;
    ret->nodes = nodes;
    ret->frame = (uint8_t)frame;
}

struct first_stored {
    int64_t offset;
    struct tracked stored;
};

static bool is_stored(void *ctx, const struct track *now, uint64_t at)
{
    struct first_stored *first = ctx;
    for (unsigned i = 0; i < now->slot_count; i++)
        if (now->slots[i].base == RSP && now->slots[i].offset == first->offset) {
            first->stored = now->slots[i].value;
            return true;
        }
    return false;
}

bool track_first_stored(const struct track *track, uint64_t begin, bool called, int64_t offset,
                        struct tracked *ret_stored)
{
    struct track now = *track;
    struct first_stored first = {.offset = offset};
    bool found = is_stored(&first, &now, begin);
    if (!found) {
        if (called)
            track_called(&now);
        now.memory_lost = track->memory_lost;
        found = track_behind(&now, begin, is_stored, &first);
    }
    *ret_stored = first.stored;
    return found;
}

/* ---- what a function reads ---- */

enum { READ_WAYS = 32, READ_INSNS = 1000 };

struct read_way {
    uint64_t at;
    uint32_t kept; /* registers that are as the caller left them */
    bool elsewhere;
};

/* Whether an instruction only looks at a register because it has to: what becomes of two equal ones is known, and a conversion
 * leaves the upper half as it was in whatever register comes handy. */
static bool reads_anything(const struct insn *insn, unsigned operand)
{
    const ZydisDecodedOperand *ops = insn->operands;
    unsigned count = insn->zydis.operand_count_visible;
    const char *name = ZydisMnemonicGetString(insn->zydis.mnemonic);
    if (count < 2 || !name || ops[operand].type != ZYDIS_OPERAND_TYPE_REGISTER)
        return false;
    if (ops[count - 1].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[count - 2].type == ZYDIS_OPERAND_TYPE_REGISTER &&
        ops[count - 1].reg.value == ops[count - 2].reg.value)
        return strstr(name, "xor") || strstr(name, "sub") || strstr(name, "sbb") || strstr(name, "cmp");
    return operand < count - 1 && (insn->zydis.meta.category == ZYDIS_CATEGORY_CONVERT || strstr(name, "sqrt") ||
                                   strstr(name, "round") || strstr(name, "rcp"));
}

/* Which registers it reads, and writes; `elsewhere`, in a function that may have any number of arguments, those that it only keeps
 * in the frame do not count. */
static uint32_t insn_reads(const struct insn *insn, bool elsewhere, uint32_t *ret_written)
{
    uint32_t read = 0;
    int category = insn->zydis.meta.category;
    *ret_written = 0;
    for (unsigned i = 0;
         i < insn->zydis.operand_count && category != ZYDIS_CATEGORY_NOP && category != ZYDIS_CATEGORY_WIDENOP; i++) {
        const ZydisDecodedOperand *op = &insn->operands[i];
        bool memory = op->type == ZYDIS_OPERAND_TYPE_MEMORY, is_register = op->type == ZYDIS_OPERAND_TYPE_REGISTER;
        int reg = is_register ? insn_register(op->reg.value) : memory ? insn_register(op->mem.base) : -1;
        int index = memory ? insn_register(op->mem.index) : -1;
        if (reg >= 0 && (memory || (op->actions & ZYDIS_OPERAND_ACTION_MASK_READ && !reads_anything(insn, i))))
            read |= UINT32_C(1) << reg;
        if (index >= 0)
            read |= UINT32_C(1) << index;
        if (reg >= 0 && is_register && op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
            *ret_written |= UINT32_C(1) << reg;
        if (elsewhere && memory && (reg == RSP || reg == RBP) && op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
            return 0;
    }
    return read;
}

uint32_t track_reads(const struct elf_code *code, uint64_t begin)
{
    const uint32_t arguments = 1 << 5 | 1 << 4 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 9 | UINT32_C(0xff) << XMM0;
    struct read_way ways[READ_WAYS] = {{begin, arguments, false}};
    uint32_t read = 0, written;
    unsigned count = 1, steps = READ_INSNS;
    for (unsigned way = 0; way < count; way++) {
        uint64_t at = ways[way].at, target;
        uint32_t kept = ways[way].kept;
        bool elsewhere = ways[way].elsewhere;
        struct insn insn;
        for (; kept & ~read && steps > 0 && insn_decode(code, at, &insn); steps--) {
            int category = insn.zydis.meta.category;
            bool jumps = category == ZYDIS_CATEGORY_UNCOND_BR || category == ZYDIS_CATEGORY_CALL;
            read |= insn_reads(&insn, elsewhere, &written) & kept;
            kept &= ~written;
            at = insn.next;
            if (category == ZYDIS_CATEGORY_RET || category == ZYDIS_CATEGORY_INTERRUPT ||
                ((jumps || category == ZYDIS_CATEGORY_COND_BR) && !insn_target(&insn, &target)))
                break;
            elsewhere |= jumps;
            if (jumps) /* what is called gets what is still in registers */
                at = target;
            else if (category == ZYDIS_CATEGORY_COND_BR && count < READ_WAYS)
                ways[count++] = (struct read_way){target, kept, elsewhere};
        }
    }
    return read;
}

/* ---- behind an exit hook ---- */

enum outcome { OUTCOME_RETURNS, OUTCOME_CALLS, OUTCOME_LOST };

struct walk {
    const struct elf_code *code;
    unsigned steps; /* that are left for all ways */
};

/* Two ways that both return: what is left of either. */
static void join_results(struct track *track, const struct track *other, struct tracked condition)
{
    for (unsigned i = 0; i < TRACK_VALUES; i++)
        track->values[i] = track_select(track, condition, other->values[i], track->values[i]);
    track->memory_lost |= other->memory_lost;
    for (unsigned i = 0; i < other->slot_count; i++) {
        const struct track_slot *slot = &other->slots[i];
        track_store(track, (struct tracked){.kind = TRACK_REGISTER, .base = slot->base, .size = 8, .add = slot->offset},
                    slot->size, unknown);
    }
}

/* On to the return. A call is one that does not come back: a check that failed, an exception that goes on. */
static enum outcome track_walk(struct walk *walk, struct track *track, uint64_t at, unsigned forks)
{
    struct insn insn;
    uint64_t target;
    for (; walk->steps > 0 && insn_decode(walk->code, at, &insn); walk->steps--) {
        at = insn.next;
        switch (insn.zydis.meta.category) {
        case ZYDIS_CATEGORY_RET:
            return OUTCOME_RETURNS;
        case ZYDIS_CATEGORY_CALL:
        case ZYDIS_CATEGORY_INTERRUPT:
            return OUTCOME_CALLS;
        case ZYDIS_CATEGORY_UNCOND_BR:
            if (!insn_target(&insn, &at))
                return OUTCOME_LOST;
            break;
        case ZYDIS_CATEGORY_COND_BR: {
            unsigned opcode = insn.zydis.opcode;
            bool plain = insn.zydis.opcode_map == ZYDIS_OPCODE_MAP_0F || (opcode >= 0x70 && opcode <= 0x7f);
            if (!plain || forks == 0 || !insn_target(&insn, &target))
                return OUTCOME_LOST;
            struct tracked condition = track_condition(track, opcode & 15);
            struct track there = *track;
            enum outcome other = track_walk(walk, &there, target, forks - 1);
            enum outcome here = other == OUTCOME_LOST ? OUTCOME_LOST : track_walk(walk, track, at, forks - 1);
            if (here == OUTCOME_LOST || other != OUTCOME_RETURNS)
                return here;
            if (here == OUTCOME_CALLS)
                *track = there;
            else
                join_results(track, &there, condition);
            return OUTCOME_RETURNS;
        }
        default:
            if (insn.zydis.mnemonic == ZYDIS_MNEMONIC_UD2)
                return OUTCOME_CALLS;
            track_step(track, &insn);
        }
    }
    return OUTCOME_LOST;
}

bool track_exit(struct track *track, struct track_nodes *nodes, const struct elf_code *code, uint64_t begin)
{
    struct walk walk = {code, INSNS_MAX};
    track_start_behind(track, nodes, code, 0);
    return track_walk(&walk, track, begin, FORKS_MAX) == OUTCOME_RETURNS;
}

/* ---- answers ---- */

bool track_stack(const struct track *track, int64_t offset, struct place *ret_place)
{
    for (int i = 0; i < 2; i++) {
        unsigned reg = i ? RBP : RSP;
        struct tracked value = track->values[reg];
        if (is_address(value) && value.base == RSP) {
            *ret_place =
                (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)reg, .frame = true, .offset = offset - value.add};
            return true;
        }
    }
    return false;
}

bool track_stored(const struct track *track, int64_t offset)
{
    for (unsigned i = 0; i < track->slot_count; i++)
        if (overlaps(&track->slots[i], RSP, offset, 1))
            return true;
    return false;
}

bool track_offset(const struct track *track, const struct place *place, int64_t *ret_offset)
{
    struct tracked value = track->values[place->base < XMM0 ? place->base : 0];
    if (place->kind != PLACE_MEMORY || place->base >= XMM0 || !is_address(value) || value.base != RSP)
        return false;
    *ret_offset = value.add + place->offset;
    return true;
}

/* The lower half, or all, of what a register was. */
static bool is_register(struct tracked value, unsigned reg, unsigned size)
{
    return value.kind == TRACK_REGISTER && value.base == reg && value.add == 0 && !value.mask && value.size >= size;
}

static bool slot_has(const struct track *track, int64_t offset, unsigned reg, unsigned size)
{
    for (unsigned i = 0; i < track->slot_count; i++)
        if (track->slots[i].base == RSP && track->slots[i].offset == offset &&
            is_register(track->slots[i].value, reg, size))
            return true;
    return false;
}

bool track_find(const struct track *track, unsigned reg, unsigned size, struct place *ret_place)
{
    unsigned low = size < 8 ? size : 8, upper = TRACK_HIGH + reg - XMM0;
    for (unsigned i = 0; i < track->slot_count; i++) { /* the frame first: no vector registers need saving */
        const struct track_slot *slot = &track->slots[i];
        if (slot->base == RSP && is_register(slot->value, reg, low) &&
            (size <= 8 || slot_has(track, slot->offset + 8, upper, 8)) && track_stack(track, slot->offset, ret_place))
            return true;
    }
    static const uint8_t order[XMM0 + 16] = {3,  6,  12, 13, 14, 15, 0,  1,  2,  4,  5,  7,  8,  9,  10, 11,
                                             16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    for (unsigned n = 0; n < XMM0 + 16; n++) { /* those that calls leave alone first */
        unsigned i = order[n];
        if (!is_register(track->values[i], reg, low) ||
            (size > 8 && (i < XMM0 || !is_register(track->values[TRACK_HIGH + i - XMM0], upper, 8))))
            continue;
        unsigned known = size > 8 ? 16 : track->values[i].size;
        *ret_place = i < XMM0 ? (struct place){.kind = PLACE_REGISTER, .base = (uint8_t)i, .size = known}
                              : (struct place){.kind = PLACE_XMM, .base = (uint8_t)(i - XMM0), .size = known};
        return true;
    }
    return false;
}

bool track_keeps(const struct place *place)
{
    unsigned reg = place->base;
    return place->kind == PLACE_MEMORY ||
           (place->kind == PLACE_REGISTER && (reg == 3 || reg == RBP || (reg >= 12 && reg <= 15)));
}
