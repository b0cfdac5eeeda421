/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a function's variables are at its hooks and calls.
 *
 * Arguments at an entry hook: first the registers and stack slots in which the ABI passes them, followed through the
 * instructions from the function's start to the hook; then what DWARF says for the hook's address, if that is a
 * statement about this address (a location list), or about a slot that was written before. The compiler may have
 * changed the interface of clones; for those, and for inlined instances, only DWARF counts.
 *
 * Locals at an exit hook: those in scope there, as gdb would show them; static ones are not captured. At calls, only
 * those with a slot that some instruction before the call wrote to, or with a location list.
 */
#include <dwarf.h>
#include <string.h>

#include "symbols/capture_site.h"

/* ---- variables ---- */

/* Whether some instruction before the site wrote to the slot, or took its address. */
static bool was_written(const struct site *site, const struct place *place, uint64_t size)
{
    for (size_t i = 0; i < site->code->access_count; i++) {
        const struct stack_access *access = &site->code->accesses[i];
        if (access->writes && access->address < site->pc && access->base == place->base &&
            access->offset >= place->offset && access->offset < place->offset + (int64_t)(size ? size : 1))
            return true;
    }
    return false;
}

static struct location location_at(const struct site *site, struct emitter *emitter)
{
    return (struct location){.compiler = site->job->compiler,
                             .emitter = emitter,
                             .function = (Dwarf_Die *)&site->function,
                             .pc = site->pc,
                             .caller = site->kind == CAPTURE_CALL,
                             .entry = site->tracked ? &site->track : NULL};
}

/* What DWARF says, as far as it can be believed here. */
static void locate_by_dwarf(const struct site *site, struct emitter *emitter, Dwarf_Die *variable,
                            struct place *ret_place)
{
    struct location location = location_at(site, emitter);
    Dwarf_Die type;
    location_variable(&location, variable, ret_place);
    bool slot = ret_place->kind == PLACE_MEMORY && ret_place->frame && !location.is_list && !location.constant;
    /* when a function calls another its parameters have long been stored */
    bool checked =
        site->kind == CAPTURE_ENTRY || (site->kind == CAPTURE_CALL && dwarf_tag(variable) != DW_TAG_formal_parameter);
    if (slot && checked && !was_written(site, ret_place, type_of(variable, &type) ? type_size(&type) : 1))
        ret_place->kind = PLACE_NOT_AVAILABLE;
}

/* Code that was not optimised: the parameter is in one place from beginning to end. */
static bool has_slot(Dwarf_Die *parameter)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    return dwarf_attr_integrate(parameter, DW_AT_location, &attribute) &&
           dwarf_getlocation(&attribute, &ops, &count) == 0 && count > 0 && ops[0].atom == DW_OP_fbreg;
}

/* LLVM lets callers pass anything for parameters that the function does not use. What is used after the hook is kept
 * where the hook leaves it alone; what is only in a register that calls destroy may be garbage. */
static bool is_unused(const struct site *site, Dwarf_Die *parameter, const struct abi_place *abi,
                      const struct place *place)
{
    if (!site->unused_are_garbage || has_slot(parameter))
        return false;
    if (!abi->in_memory)
        return !track_keeps(place);
    if (abi->size > 8)
        return false;
    for (size_t i = 0; i < site->code->access_count; i++) {
        const struct stack_access *access = &site->code->accesses[i];
        if (access->address > site->pc && access->base == place->base && access->offset == place->offset)
            return false;
    }
    return true;
}

/* A register's part of a value: its members, and padding that is nowhere. */
static void add_eightbyte(struct place *whole, const struct place *part, const struct abi_place *abi, unsigned index)
{
    uint64_t left = abi->size - 8 * (uint64_t)index;
    unsigned size = abi->wide ? 16 : left < 8 ? (unsigned)left : 8, used = abi->wide ? 16 : abi->used[index];
    whole->pieces[whole->piece_count++] = (struct piece){.kind = part->kind,
                                                         .base = part->base,
                                                         .frame = part->frame,
                                                         .offset = part->offset,
                                                         .constant = part->constant,
                                                         .size = used};
    if (used < size)
        whole->pieces[whole->piece_count++] = (struct piece){.kind = PLACE_OPTIMISED_OUT, .size = size - used};
}

static struct place whole_of(const struct place *pieces)
{
    const struct piece *piece = &pieces->pieces[0];
    return (struct place){.kind = piece->kind,
                          .base = piece->base,
                          .frame = piece->frame,
                          .offset = piece->offset,
                          .constant = piece->constant,
                          .size = piece->kind == PLACE_MEMORY ? 0 : piece->size};
}

/* Bytes of an argument by its registers, followed to the site. */
static bool locate_by_abi(const struct site *site, struct emitter *emitter, Dwarf_Die *parameter,
                          const struct abi_place *abi, struct place *ret_place)
{
    if (abi->in_memory && !abi->by_address) {
        if (!track_stack(&site->track, (int64_t)abi->stack, ret_place))
            return false;
        if (is_unused(site, parameter, abi, ret_place))
            *ret_place = (struct place){.kind = PLACE_OPTIMISED_OUT};
        return true;
    }
    if (abi->by_address) {
        struct place pointer;
        if (abi->in_memory ? !track_stack(&site->track, (int64_t)abi->stack, &pointer)
                           : !track_find(&site->track, abi->registers[0], 8, &pointer))
            return false;
        if (is_unused(site, parameter, abi, &pointer)) {
            *ret_place = (struct place){.kind = PLACE_OPTIMISED_OUT};
            return true;
        }
        int value = emit_load(emitter, &pointer, 8);
        *ret_place = (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)value};
        return value >= 0;
    }
    if (abi->count == 0) { /* an empty class: its bytes are nowhere */
        *ret_place = (struct place){.kind = PLACE_CONSTANT};
        return true;
    }
    struct place whole = {.kind = PLACE_PIECES};
    for (unsigned i = 0; i < abi->count; i++) {
        struct place part;
        unsigned used = abi->wide ? 16 : abi->used[i];
        if (!track_find(&site->track, abi->registers[i], used, &part))
            return false;
        if (is_unused(site, parameter, abi, &part))
            part.kind = PLACE_OPTIMISED_OUT;
        add_eightbyte(&whole, &part, abi, i);
    }
    *ret_place = abi->count == 1 && whole.piece_count == 1 ? whole_of(&whole) : whole;
    return true;
}

/* Objects with destructors have been destroyed when the exit hook is called. */
static bool is_destroyed(const struct site *site, Dwarf_Die *variable)
{
    Dwarf_Die type;
    return site->kind == CAPTURE_EXIT && dwarf_tag(variable) == DW_TAG_variable && type_of(variable, &type) &&
           type_has_destructor(&type);
}

void site_locate_variable(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct variable *variable = ctx;
    if (variable->site->nowhere || is_destroyed(variable->site, variable->die)) {
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
        return;
    }
    if (variable->abi && variable->site->tracked &&
        locate_by_abi(variable->site, emitter, variable->die, variable->abi, ret_place))
        return;
    locate_by_dwarf(variable->site, emitter, variable->die, ret_place);
}

/* ---- parameters ---- */

static void add_parameter(void *ctx, Dwarf_Die *parameter)
{
    struct site *site = ctx;
    const char *name = die_name(parameter);
    if (site->parameter_count == PARAMETERS_MAX || (name && strcmp(name, "__in_chrg") == 0))
        return; /* the latter is not really passed */
    site->parameters[site->parameter_count++] = *parameter;
}

void site_find_parameters(struct site *site, bool by_abi)
{
    struct abi_arguments arguments = {0};
    struct abi_type type;
    Dwarf_Die die;
    scopes_parameters(&site->scope, add_parameter, site);
    site->by_abi = by_abi;
    if (type_of(&site->scope, &die)) {
        abi_classify(&die, &type);
        if (type.classes[0] == ABI_MEMORY || type.classes[0] == ABI_BY_ADDRESS)
            arguments.integers++; /* where the result goes */
    }
    for (unsigned i = 0; i < site->parameter_count; i++) {
        if (!type_of(&site->parameters[i], &die)) {
            site->by_abi = false;
            return;
        }
        abi_classify(&die, &type);
        abi_next(&arguments, &type, &site->places[i]);
    }
}

/* ---- results ---- */

static bool tracked_place(const struct tracked *value, unsigned size, bool truth, struct emitter *emitter,
                          struct place *ret_place)
{
    if (value->kind == TRACK_UNKNOWN || (value->masked && !truth) || value->size < size || value->base > 15)
        return false;
    if (value->kind == TRACK_CONSTANT)
        *ret_place = (struct place){.kind = PLACE_CONSTANT, .constant = (uint64_t)value->add, .size = 8};
    else if (value->kind == TRACK_MEMORY)
        *ret_place = (struct place){.kind = PLACE_MEMORY, .base = value->base, .frame = true, .offset = value->add};
    else if (value->add == 0)
        *ret_place = (struct place){.kind = PLACE_REGISTER, .base = value->base, .size = value->size};
    else {
        unsigned temp = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, temp, value->base, value->add);
        *ret_place = (struct place){.kind = PLACE_REGISTER, .base = (uint8_t)temp, .size = 8};
    }
    return true;
}

void site_locate_result(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct site *site = ctx;
    struct abi_type type;
    struct abi_place abi;
    Dwarf_Die die;
    *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    if (!site->tracked || !type_of(&site->scope, &die))
        return;
    abi_classify(&die, &type);
    bool truth = type_strip(&die, &die) && type_kind_of(&die) == TYPE_BOOL;
    if (!abi_result(&type, &abi)) {
        tracked_place(&site->track.values[TRACK_X87], 10, false, emitter, ret_place);
        return;
    }
    struct place whole = {.kind = PLACE_PIECES};
    for (unsigned i = 0; i < abi.count; i++) {
        struct place part;
        unsigned size = abi.by_address ? 8 : abi.wide ? 16 : abi.used[i];
        if (!tracked_place(&site->track.values[abi.registers[i]], size, truth, emitter, &part))
            return;
        if (abi.by_address) {
            int value = emit_load(emitter, &part, 8);
            if (value >= 0)
                *ret_place = (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)value};
            return;
        }
        add_eightbyte(&whole, &part, &abi, i);
    }
    if (abi.count > 0)
        *ret_place = abi.count == 1 && whole.piece_count == 1 ? whole_of(&whole) : whole;
}
