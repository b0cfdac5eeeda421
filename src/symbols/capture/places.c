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
 * those with a slot that some instruction before the call wrote to, or with a location list. At neither those for which
 * a compiler that does not follow variables names one register: it may hold something else by then.
 */
#include <dwarf.h>
#include <string.h>

#include "symbols/capture/site.h"
#include "symbols/capture/internal.h"

enum { WHOLE_MAX = 64 }; /* larger ones are not written part by part */

/* ---- variables ---- */

enum written { WRITTEN_NEVER, WRITTEN_UNKNOWN, WRITTEN };

/* Where an access is, in terms of the site's register: rsp is somewhere else while arguments are being pushed. */
static int64_t access_offset(const struct site *site, const struct stack_access *access)
{
    bool moved = access->depth > 0 && site->depth > 0;
    return access->offset + (moved ? (int64_t)site->depth - access->depth : 0);
}

/* Whether a call could write its result to a variable of this type. */
static bool is_result_in_memory(Dwarf_Die *type)
{
    struct abi_type abi;
    Dwarf_Die stripped;
    abi_classify(type, &abi);
    return type_strip(type, &stripped) && type_kind_of(&stripped) != TYPE_ARRAY && abi_has_hidden_pointer(&abi);
}

/* Whether some instruction before the site wrote to the bytes from `from` to `to` of a slot, or took their address and
 * another one may have written there; not the call that is looked at, if it may be to write a result of this type there
 * (NULL: it may not). Never: the address was taken, and nothing done with it. */
static enum written written_part(const struct site *site, const struct place *place, int64_t from, int64_t to,
                                 Dwarf_Die *result)
{
    enum written answer = WRITTEN_UNKNOWN;
    for (size_t i = 0; i < site->code->access_count; i++) {
        const struct stack_access *access = &site->code->accesses[i];
        int64_t begin = access_offset(site, access) - place->offset;
        bool address = access->size == 0;
        if (!access->writes || access->address >= site->pc || access->base != place->base || begin >= to ||
            (address ? begin < 0 : begin + access->size <= from))
            continue;
        if (!address || (access->used && access->used <= site->pc &&
                         !(result && access->call == site->returns && is_result_in_memory(result))))
            return WRITTEN;
        answer = WRITTEN_NEVER;
    }
    return answer;
}

/* Of optimised code all of it counts, for members that nothing uses are left out. */
static enum written written(const struct site *site, const struct place *place, uint64_t size, Dwarf_Die *result)
{
    enum { PART = 8 };
    enum written answer = WRITTEN;
    int64_t end = size ? (int64_t)size : 1, part = site->optimised && end <= WHOLE_MAX ? PART : end;
    for (int64_t from = 0; from < end; from += part) {
        enum written one = written_part(site, place, from, from + part < end ? from + part : end, result);
        answer = one < answer ? one : answer;
    }
    return answer;
}

static bool was_written(const struct site *site, const struct place *place, uint64_t size)
{
    return written(site, place, size, NULL) == WRITTEN;
}

static struct location location_at(const struct site *site, struct emitter *emitter)
{
    return (struct location){.compiler = site->job->compiler,
                             .emitter = emitter,
                             .function = (Dwarf_Die *)&site->function,
                             .pc = site->pc,
                             .caller = site->frame ? !site->innermost : site->kind == CAPTURE_CALL,
                             .unknown = site->unknown,
                             .no_xmm = site->frame,
                             .entry = site->tracked ? &site->track : NULL};
}

const char *site_producer(const struct site *site)
{
    Dwarf_Die unit;
    Dwarf_Attribute attribute;
    Dwarf_Die function = site->function;
    return dwarf_diecu(&function, &unit, NULL, NULL) ? dwarf_formstring(dwarf_attr(&unit, DW_AT_producer, &attribute))
                                                     : NULL;
}

/* Whether a register that DWARF names for all of a scope has the variable wherever the scope is. gcc also says so of
 * variables that it does not follow: without optimisation, and with it of those that nothing uses. */
static bool follows_registers(const struct site *site)
{
    const char *producer = site_producer(site);
    return producer && (strstr(producer, "clang") || strstr(producer, "LLVM"));
}

static bool is_register(const struct place *place)
{
    bool found = place->kind == PLACE_REGISTER || place->kind == PLACE_XMM;
    for (unsigned i = 0; i < place->piece_count && place->kind == PLACE_PIECES; i++)
        found |= place->pieces[i].kind == PLACE_REGISTER || place->pieces[i].kind == PLACE_XMM;
    return found;
}

/* In the caller's part of the stack: it was written before the call. */
static bool is_passed(const struct site *site, const struct place *place)
{
    int64_t offset;
    return site->kind == CAPTURE_ENTRY && site->tracked && track_offset(&site->track, place, &offset) && offset >= 8;
}

/* Whether all of it has been stored: optimised code leaves out the members that the function does not use. */
static bool is_stored(const struct site *site, const struct place *place, uint64_t size)
{
    int64_t offset;
    if (site->kind != CAPTURE_ENTRY || !site->tracked || !track_offset(&site->track, place, &offset))
        return true;
    for (int64_t at = offset; size > 8 && at < offset + (int64_t)size; at += 8)
        if (!track_stored(&site->track, at))
            return false;
    return true;
}

/* Whether the place is at an address that a slot of the frame has, and the slot may not have been written yet. */
static bool is_behind_unwritten(const struct site *site, struct emitter *emitter, Dwarf_Die *variable)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    struct place slot;
    if (!dwarf_attr_integrate(variable, DW_AT_location, &attribute) ||
        dwarf_getlocation(&attribute, &ops, &count) != 0 || count < 2 || ops[0].atom != DW_OP_fbreg)
        return false;
    struct location location = location_at(site, emitter);
    location_evaluate(&location, ops, 1, &attribute, &slot);
    return slot.kind != PLACE_MEMORY || !slot.frame ||
           (!was_written(site, &slot, sizeof(uint64_t)) && !is_passed(site, &slot));
}

/* The parameter is in one place from beginning to end. */
static bool has_slot(Dwarf_Die *parameter)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    return dwarf_attr_integrate(parameter, DW_AT_location, &attribute) &&
           dwarf_getlocation(&attribute, &ops, &count) == 0 && count > 0 && ops[0].atom == DW_OP_fbreg;
}

/* Whether an instruction of the function looks at some of it, or takes its address. */
static bool is_looked_at(const struct site *site, const struct place *place, uint64_t size)
{
    for (size_t i = 0; i < site->code->access_count; i++) {
        const struct stack_access *access = &site->code->accesses[i];
        int64_t begin = access_offset(site, access) - place->offset;
        if (access->base == place->base && begin >= 0 && begin < (int64_t)size)
            return true;
    }
    return false;
}

/* LLVM lets callers pass anything for parameters that the function does not use, however large, and describes them all
 * the same. What is used after the hook is kept where the hook leaves it alone; what is only in a register that calls
 * destroy may be garbage. */
static bool is_unused(const struct site *site, Dwarf_Die *parameter, const struct abi_place *abi,
                      const struct place *place)
{
    if (!site->unused_are_garbage)
        return false;
    return abi->in_memory ? !is_looked_at(site, place, abi->by_address ? sizeof(uint64_t) : abi->size)
                          : !has_slot(parameter) && !track_keeps(place);
}

/* Where the caller put it. */
static bool in_callers_frame(const struct site *site, const struct place *place)
{
    uint8_t base;
    int64_t cfa;
    return location_cfa(site->job->compiler, site->pc, &base, &cfa) && base == place->base && place->offset >= cfa;
}

/* The same of a parameter of which DWARF says that it is where the caller put it. */
static bool is_unused_slot(const struct site *site, Dwarf_Die *variable, const struct place *place, uint64_t size)
{
    return site->unused_are_garbage && dwarf_tag(variable) == DW_TAG_formal_parameter &&
           in_callers_frame(site, place) && !is_looked_at(site, place, size);
}

/* Whether a slot of the frame has its variable at the site. */
static bool is_set(const struct site *site, Dwarf_Die *variable, const struct place *place, uint64_t size,
                   Dwarf_Die *type)
{
    if (is_passed(site, place))
        return true;
    switch (site->kind) {
    case CAPTURE_ENTRY:
        return was_written(site, place, size) && is_stored(site, place, size);
    case CAPTURE_CALL: /* when a function calls another its parameters have long been stored */
        return (dwarf_tag(variable) == DW_TAG_formal_parameter &&
                (in_callers_frame(site, place) || !(site->optimised || site->innermost))) ||
               written(site, place, size, type) == WRITTEN;
    default:
        return written(site, place, size, NULL) != WRITTEN_NEVER;
    }
}

/* What DWARF says, as far as it can be believed here. */
static void locate_by_dwarf(const struct site *site, struct emitter *emitter, Dwarf_Die *variable,
                            struct place *ret_place)
{
    struct location location = location_at(site, emitter);
    Dwarf_Die type;
    location_variable(&location, variable, ret_place);
    bool slot = ret_place->kind == PLACE_MEMORY && ret_place->frame && !location.is_list && !location.constant;
    bool typed = type_of(variable, &type);
    uint64_t size = typed ? type_size(&type) : 1;
    if (slot && !is_set(site, variable, ret_place, size, typed ? &type : NULL))
        ret_place->kind = PLACE_NOT_AVAILABLE;
    if (site->kind == CAPTURE_ENTRY && !slot && !location.is_list && is_behind_unwritten(site, emitter, variable))
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    if (is_register(ret_place) && !location.is_list && !location.constant && !follows_registers(site))
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    if (slot && is_unused_slot(site, variable, ret_place, size))
        *ret_place = (struct place){.kind = PLACE_OPTIMISED_OUT};
}

void site_add_eightbyte(struct place *whole, const struct place *part, const struct abi_place *abi, unsigned index)
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

struct place site_whole(const struct place *pieces)
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
        site_add_eightbyte(&whole, &part, abi, i);
    }
    *ret_place = abi->count == 1 && whole.piece_count == 1 ? site_whole(&whole) : whole;
    return true;
}

/* Objects with destructors have been destroyed when the exit hook is called; static ones live on. */
static bool is_destroyed(const struct site *site, Dwarf_Die *variable)
{
    Dwarf_Die type;
    return site->kind == CAPTURE_EXIT && dwarf_tag(variable) == DW_TAG_variable && type_of(variable, &type) &&
           type_has_destructor(&type) && !variable_is_static(variable);
}

/* Whether all slots of the frame that an expression names have been written. */
static bool slots_are_written(const struct site *site, struct emitter *emitter, const Dwarf_Op *ops, size_t count,
                              Dwarf_Attribute *attribute)
{
    for (size_t i = 0; i < count; i++) {
        struct place slot;
        struct location location = location_at(site, emitter);
        if (ops[i].atom != DW_OP_fbreg)
            continue;
        location_evaluate(&location, &ops[i], 1, attribute, &slot);
        if (slot.kind != PLACE_MEMORY || !slot.frame ||
            (!was_written(site, &slot, sizeof(uint64_t)) && !is_passed(site, &slot)))
            return false;
    }
    return true;
}

/* An attribute that is a number, another variable, or an expression. Only of parameters: what a function allocated
 * itself may have been freed, and optimised code leaves the descriptor as it was. */
static int attribute_of(void *ctx, struct emitter *emitter, Dwarf_Die *type, unsigned number,
                        const struct place *object)
{
    const struct variable *variable = ctx;
    const struct site *site = variable->site;
    Dwarf_Attribute attribute;
    Dwarf_Die other, other_type;
    Dwarf_Op *ops;
    size_t count;
    struct place place;
    uint64_t constant;
    if (dwarf_tag(variable->die) != DW_TAG_formal_parameter || !dwarf_attr(type, number, &attribute))
        return -1;
    if (dwarf_formref_die(&attribute, &other)) {
        if (!type_of(&other, &other_type) || type_size(&other_type) != sizeof(uint64_t))
            return -1;
        locate_by_dwarf(site, emitter, &other, &place);
        bool known = place.kind != PLACE_NOT_AVAILABLE && place.kind != PLACE_OPTIMISED_OUT;
        if (place.kind == PLACE_PIECES || (!known && !site_locate_bound(site, emitter, &other, &place)))
            return -1;
        return emit_load(emitter, &place, sizeof(uint64_t));
    }
    if (die_number(type, number, &constant)) {
        unsigned temp = emit_temp(emitter);
        emit_constant(emitter, temp, constant);
        return (int)temp;
    }
    if (dwarf_getlocation(&attribute, &ops, &count) != 0 || !slots_are_written(site, emitter, ops, count, &attribute))
        return -1;
    struct location location = location_at(site, emitter);
    location.object = object;
    location_evaluate(&location, ops, count, &attribute, &place);
    if (place.kind != PLACE_MEMORY) /* what is on the stack is the number */
        return -1;
    unsigned temp = emit_temp(emitter);
    emit(emitter, CAPTURE_LEA, temp, place.base, place.offset);
    return (int)temp;
}

/* Whether calls leave it, and all parts of it, alone. */
static bool is_kept(const struct place *place)
{
    for (unsigned i = 0; i < place->piece_count && place->kind == PLACE_PIECES; i++) {
        struct place part = {.kind = place->pieces[i].kind, .base = place->pieces[i].base};
        if (part.kind != PLACE_OPTIMISED_OUT && part.kind != PLACE_CONSTANT && !track_keeps(&part))
            return false;
    }
    return place->kind == PLACE_PIECES || place->kind == PLACE_OPTIMISED_OUT || place->kind == PLACE_CONSTANT ||
           track_keeps(place);
}

void site_locate_variable(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct variable *variable = ctx;
    emitter->attribute = attribute_of;
    emitter->attribute_ctx = variable;
    if (variable->site->nowhere || is_destroyed(variable->site, variable->die)) {
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
        return;
    }
    if (variable->abi && variable->abi->doubted && !has_slot(variable->die)) {
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
        return;
    }
    if (variable->abi && !variable->abi->unknown && variable->site->tracked &&
        locate_by_abi(variable->site, emitter, variable->die, variable->abi, ret_place)) {
        if (variable->site->frame && !is_kept(ret_place))
            *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
        return;
    }
    locate_by_dwarf(variable->site, emitter, variable->die, ret_place);
}
