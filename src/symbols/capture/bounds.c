/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds of Fortran's arrays of explicit shape (`a(n, m)`). The compiler has a variable for each that is not constant,
 * and works them out as the first thing behind the entry hook. That code is followed until the variable is there; a
 * capture program can compute the same from what the registers and memory are at the hook.
 */
#include <dwarf.h>

#include "symbols/capture/site.h"
#include "symbols/code/step.h"

struct bound {
    const struct site *site;
    struct emitter *emitter;
    Dwarf_Attribute *attribute;
    struct place slot;     /* in memory: where it is to be stored */
    struct tracked stored; /* what is found */
    struct place place;    /* or this, if there is nothing to be followed */
};

/* The value does not depend on registers, but for what they were when the function was entered. */
static bool is_without_registers(const Dwarf_Op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((ops[i].atom >= DW_OP_reg0 && ops[i].atom <= DW_OP_bregx) || ops[i].atom == DW_OP_call_frame_cfa)
            return false;
    return count > 0 && ops[count - 1].atom == DW_OP_stack_value;
}

static bool slot_is_stored(struct bound *bound, const struct track *now, unsigned base, int64_t offset)
{
    for (unsigned i = 0; i < now->slot_count; i++)
        if (now->slots[i].base == base && now->slots[i].offset == offset) {
            bound->stored = now->slots[i].value;
            return true;
        }
    return false;
}

/* Whether a location list has a location here. */
static bool is_listed(struct bound *bound, const struct track *now, uint64_t at)
{
    struct capture_compiler *compiler = bound->site->job->compiler;
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_getlocation_addr(bound->attribute, at - compiler->dwarf_bias, &ops, &count, 1) != 1 || count == 0)
        return false;
    if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg15) {
        bound->stored = now->values[ops[0].atom - DW_OP_reg0];
        return true;
    }
    struct location location = {.compiler = compiler,
                                .emitter = bound->emitter,
                                .function = (Dwarf_Die *)&bound->site->function,
                                .pc = at,
                                .entry = bound->site->tracked ? &bound->site->track : NULL};
    location_evaluate(&location, ops, count, bound->attribute, &bound->place);
    if (is_without_registers(ops, count) && !now->memory_lost)
        return true;
    bool slot = count == 1 && ops[0].atom == DW_OP_fbreg && bound->place.kind == PLACE_MEMORY;
    struct tracked base = now->values[slot ? bound->place.base : 0];
    if (slot && is_address(base))
        slot_is_stored(bound, now, base.base, base.add + bound->place.offset);
    bound->place.kind = PLACE_NOT_AVAILABLE;
    return true;
}

static bool is_there(void *ctx, const struct track *now, uint64_t at)
{
    struct bound *bound = ctx;
    if (bound->slot.kind == PLACE_MEMORY)
        return slot_is_stored(bound, now, bound->slot.base, bound->slot.offset);
    return is_listed(bound, now, at);
}

bool site_locate_bound(const struct site *site, struct emitter *emitter, Dwarf_Die *variable, struct place *ret_place)
{
    struct capture_compiler *compiler = site->job->compiler;
    struct track_nodes nodes;
    struct track now;
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    uint8_t frame;
    int64_t cfa;
    if (site->kind != CAPTURE_ENTRY || !dwarf_attr_integrate(variable, DW_AT_location, &attribute) ||
        !location_cfa(compiler, site->pc, &frame, &cfa))
        return false;
    struct bound bound = {.site = site, .emitter = emitter, .attribute = &attribute};
    if (dwarf_getlocation(&attribute, &ops, &count) == 0) {
        struct location location = {
            .compiler = compiler, .emitter = emitter, .function = (Dwarf_Die *)&site->function, .pc = site->pc};
        location_evaluate(&location, ops, count, &attribute, &bound.slot);
        if (bound.slot.kind != PLACE_MEMORY || !bound.slot.frame)
            return false;
    }
    track_start_behind(&now, &nodes, &compiler->code, frame);
    if (!track_behind(&now, site->returns, is_there, &bound))
        return false;
    *ret_place = bound.place;
    return bound.place.kind != PLACE_OPTIMISED_OUT && bound.place.kind != PLACE_NOT_AVAILABLE
               ? true
               : site_place_of(&now, bound.stored, sizeof(uint64_t), emitter, ret_place);
}
