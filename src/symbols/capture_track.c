/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following values through straight code: which register or stack slot holds, at a hook, what was in an argument
 * register when the function began; and where, after an exit hook, the result comes from that is in rax when the
 * function returns. Moves are followed, behind an exit hook whole numbers that are computed, too; whatever else writes
 * to a place makes its content unknown. Forward jumps join: what is not the same on both ways is unknown. A loop ends
 * it all.
 */
#include <string.h>

#include "symbols/capture_step.h"

enum { INSNS_MAX = 400, JOINS_MAX = 8 };

static const struct tracked unknown;

/* ---- ways ---- */

struct join {
    uint64_t at;
    struct track track;
};

/* What is known at the meeting of two ways. */
static void meet(struct track *track, const struct track *other)
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

static void start(struct track *track)
{
    memset(track, 0, sizeof *track);
    for (unsigned i = 0; i < XMM0 + 16; i++)
        track->values[i] = (struct tracked){.kind = TRACK_REGISTER, .base = (uint8_t)i, .size = i < XMM0 ? 8 : 16};
    track->reachable = true;
}

bool track_entry(struct track *track, const struct elf_code *code, uint64_t begin, uint64_t end)
{
    struct join joins[JOINS_MAX];
    unsigned join_count = 0;
    start(track);
    uint64_t at = begin;
    for (unsigned n = 0; n < INSNS_MAX && at < end; n++) {
        struct insn insn;
        uint64_t target;
        for (unsigned i = 0; i < join_count; i++)
            if (joins[i].at == at)
                meet(track, &joins[i].track);
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
            meet(track, &joins[i].track);
    return at == end && track->reachable;
}

bool track_first_stored(const struct track *track, const struct elf_code *code, uint64_t begin, int64_t offset,
                        struct tracked *ret_stored)
{
    struct track now = *track;
    uint64_t at = begin;
    for (unsigned n = 0; n < INSNS_MAX; n++) {
        for (unsigned i = 0; i < now.slot_count; i++)
            if (now.slots[i].base == RSP && now.slots[i].offset == offset) {
                *ret_stored = now.slots[i].value;
                return true;
            }
        struct insn insn;
        if (n == 0) { /* the hook: changes nothing in the program's frames */
            track_called(&now);
            now.memory_lost = track->memory_lost;
        } else if (!insn_decode(code, at, &insn) || insn.zydis.meta.category == ZYDIS_CATEGORY_CALL ||
                   insn.zydis.meta.category == ZYDIS_CATEGORY_RET ||
                   insn.zydis.meta.category == ZYDIS_CATEGORY_COND_BR ||
                   insn.zydis.meta.category == ZYDIS_CATEGORY_UNCOND_BR) {
            return false;
        } else {
            track_step(&now, &insn);
            at = insn.next;
        }
    }
    return false;
}

/* True if what is at `at` calls something before anything else is decided: a check that failed. */
static bool leads_to_call(const struct elf_code *code, uint64_t at)
{
    struct insn insn;
    for (int i = 0; i < 3 && insn_decode(code, at, &insn); i++) {
        if (insn.zydis.meta.category == ZYDIS_CATEGORY_CALL)
            return true;
        if (insn.zydis.meta.category != ZYDIS_CATEGORY_DATAXFER && insn.zydis.meta.category != ZYDIS_CATEGORY_MISC &&
            insn.zydis.meta.category != ZYDIS_CATEGORY_NOP && insn.zydis.mnemonic != ZYDIS_MNEMONIC_FSTP &&
            insn.zydis.meta.category != ZYDIS_CATEGORY_WIDENOP)
            return false;
        at = insn.next;
    }
    return false;
}

bool track_exit(struct track *track, const struct elf_code *code, uint64_t begin)
{
    start(track);
    track_called(track);
    track->computes = true;
    track->memory_lost = false; /* the hook changes nothing in the program's frames */
    uint64_t at = begin;
    for (unsigned n = 0; n < INSNS_MAX; n++) {
        struct insn insn;
        uint64_t target;
        if (!insn_decode(code, at, &insn))
            return false;
        int category = insn.zydis.meta.category;
        at = insn.next;
        if (category == ZYDIS_CATEGORY_RET)
            return true;
        if (category == ZYDIS_CATEGORY_UNCOND_BR) {
            if (!insn_target(&insn, &target))
                return false;
            at = target;
        } else if (category == ZYDIS_CATEGORY_COND_BR) {
            if (!insn_target(&insn, &target))
                return false;
            bool behind = leads_to_call(code, insn.next), there = leads_to_call(code, target);
            if (behind == there)
                return false;
            at = behind ? target : insn.next;
        } else
            track_step(track, &insn);
    }
    return false;
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

bool track_find(const struct track *track, unsigned reg, unsigned size, struct place *ret_place)
{
    for (unsigned i = 0; i < track->slot_count; i++) { /* the frame first: no vector registers need saving */
        const struct track_slot *slot = &track->slots[i];
        if (slot->base == RSP && slot->value.kind == TRACK_REGISTER && slot->value.base == reg &&
            slot->value.add == 0 && !slot->value.mask && slot->value.size >= size &&
            track_stack(track, slot->offset, ret_place))
            return true;
    }
    static const uint8_t order[XMM0 + 16] = {3,  6,  12, 13, 14, 15, 0,  1,  2,  4,  5,  7,  8,  9,  10, 11,
                                             16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    for (unsigned n = 0; n < XMM0 + 16; n++) { /* those that calls leave alone first */
        unsigned i = order[n];
        struct tracked value = track->values[i];
        if (value.kind != TRACK_REGISTER || value.base != reg || value.add != 0 || value.mask || value.size < size)
            continue;
        *ret_place = i < XMM0 ? (struct place){.kind = PLACE_REGISTER, .base = (uint8_t)i, .size = value.size}
                              : (struct place){.kind = PLACE_XMM, .base = (uint8_t)(i - XMM0), .size = value.size};
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
