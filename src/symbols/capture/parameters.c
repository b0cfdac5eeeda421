/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parameters a function has, and where the ABI passes them; and whether it is this ABI at all. Compilers change
 * the interface of functions nobody else calls, and an attribute may ask for another convention, which gcc does not
 * write down. So what the ABI says is held against what DWARF says about the function's first instruction, and against
 * the slots that parameters are stored to: where they contradict each other in one parameter, only DWARF counts. So it
 * is in Fortran, which passes addresses of what the types describe.
 */
#include <dwarf.h>
#include <string.h>

#include "symbols/capture/site.h"

enum { RSP = 7, XMM0 = 16 };

/* ---- what is not passed as others are ---- */

/* A constructor or destructor of complete objects: g++ gives it no table of virtual tables. */
static bool is_complete_object_function(Dwarf_Die *scope)
{
    Dwarf_Attribute attribute;
    const char *name = dwarf_formstring(dwarf_attr(scope, DW_AT_linkage_name, &attribute));
    return name && (strstr(name, "C1E") || strstr(name, "D1E") || strstr(name, "D0E")) && !strstr(name, "C2E") &&
           !strstr(name, "D2E");
}

static void add_parameter(void *ctx, Dwarf_Die *parameter, const char *name)
{
    struct site *site = ctx;
    if (site->parameter_count == PARAMETERS_MAX) {
        site->by_abi = false;
        return;
    }
    if (name && strcmp(name, "__in_chrg") == 0)
        return; /* is not really passed */
    if (name && strcmp(name, "__vtt_parm") == 0 && dwarf_hasattr(&site->scope, DW_AT_abstract_origin) &&
        !dwarf_hasattr(parameter, DW_AT_abstract_origin)) {
        site->by_abi = site->by_abi && is_complete_object_function(&site->scope);
        return;
    }
    site->names[site->parameter_count] = name;
    site->parameters[site->parameter_count++] = *parameter;
}

/* A definition in C that does not say what its parameters are to callers: they pass doubles for floats. */
static bool is_old_style(Dwarf_Die *scope)
{
    Dwarf_Die unit;
    if (die_flag(scope, DW_AT_prototyped) || !dwarf_diecu(scope, &unit, NULL, NULL))
        return false;
    switch (dwarf_srclang(&unit)) {
    case DW_LANG_C89:
    case DW_LANG_C:
    case DW_LANG_C99:
    case DW_LANG_C11:
        return true;
    default:
        return false;
    }
}

static bool is_promoted(const struct abi_type *type)
{
    return type->classes[0] == ABI_SSE && type->size < 8 && !type->aggregate;
}

static bool has_usual_convention(Dwarf_Die *scope)
{
    uint64_t convention;
    return !die_number(scope, DW_AT_calling_convention, &convention) || convention == DW_CC_normal ||
           convention == DW_CC_program;
}

/* ---- what else is known about the places ---- */

static bool is_list(Dwarf_Die *parameter)
{
    Dwarf_Attribute attribute;
    if (!dwarf_attr_integrate(parameter, DW_AT_location, &attribute))
        return false;
    unsigned form = dwarf_whatform(&attribute);
    return form == DW_FORM_sec_offset || form == DW_FORM_loclistx || form == DW_FORM_data4 || form == DW_FORM_data8;
}

/* Where DWARF says that it is at an address. */
static void place_at_pc(struct site *site, Dwarf_Die *parameter, uint64_t pc, struct place *ret_place)
{
    struct emitter_mark mark = emitter_mark(site->emitter);
    struct location location = {
        .compiler = site->job->compiler, .emitter = site->emitter, .function = &site->function, .pc = pc};
    location_variable(&location, parameter, ret_place);
    if (location.constant)
        ret_place->kind = PLACE_NOT_AVAILABLE;
    emitter_reset(site->emitter, &mark);
}

/* At the function's first instruction a register that is not the ABI's, or another place on the stack. */
static bool list_contradicts(struct site *site, Dwarf_Die *parameter, const struct abi_place *abi)
{
    struct place place;
    place_at_pc(site, parameter, scopes_entry(site->job->compiler, &site->function), &place);
    bool on_stack = place.kind == PLACE_MEMORY && place.frame && place.base == RSP && place.offset >= 8;
    if (on_stack)
        return !abi->in_memory || place.offset != (int64_t)abi->stack;
    if ((place.kind != PLACE_REGISTER && place.kind != PLACE_XMM) || place.offset != 0)
        return false;
    unsigned number = place.base + (place.kind == PLACE_XMM ? XMM0 : 0);
    return abi->in_memory || abi->count == 0 || number != abi->registers[0];
}

static bool slot_contradicts(struct site *site, Dwarf_Die *parameter, const struct abi_place *abi)
{
    struct place place;
    struct tracked stored;
    int64_t offset;
    place_at_pc(site, parameter, site->pc, &place);
    if (place.kind != PLACE_MEMORY || !place.frame || !track_offset(&site->track, &place, &offset))
        return false;
    if (offset >= 8) /* the caller's part of the stack */
        return !abi->in_memory || offset != (int64_t)abi->stack;
    if (!track_first_stored(&site->track, site->returns, offset, &stored) || stored.mask)
        return false;
    if (stored.kind == TRACK_REGISTER && stored.add == 0)
        return abi->in_memory || (abi->count > 0 && stored.base != abi->registers[0]);
    return stored.kind == TRACK_MEMORY && stored.base == RSP && stored.add >= 8 &&
           (!abi->in_memory || stored.add != (int64_t)abi->stack);
}

/* Not asked about those that are passed by address: DWARF describes what they point to. */
static bool contradicts(struct site *site, unsigned index)
{
    const struct abi_place *abi = &site->places[index];
    Dwarf_Die *parameter = &site->parameters[index];
    if (abi->unknown || abi->by_address)
        return false;
    return is_list(parameter) ? list_contradicts(site, parameter, abi)
                              : site->tracked && slot_contradicts(site, parameter, abi);
}

/* ---- all of them ---- */

static void place_parameters(struct site *site)
{
    struct abi_arguments arguments = {.clang = site->by_clang};
    struct abi_type type;
    Dwarf_Die die;
    bool old_style = is_old_style(&site->scope);
    if (type_of(&site->scope, &die)) {
        abi_classify(&die, &type);
        arguments.integers += abi_has_hidden_pointer(&type);
        if (type.uncertain)
            arguments.lost = ABI_LOST_INTEGERS | ABI_LOST_STACK;
    }
    for (unsigned i = 0; i < site->parameter_count && site->by_abi; i++) {
        site->by_abi = type_of(&site->parameters[i], &die);
        if (!site->by_abi)
            return;
        abi_classify(&die, &type);
        abi_next(&arguments, &type, &site->places[i]);
        if (old_style && is_promoted(&type))
            site->places[i].unknown = site->places[i].doubted = true;
    }
}

void site_find_parameters(struct site *site, bool by_abi)
{
    site->by_abi = by_abi && has_usual_convention(&site->scope) && !die_is_fortran(&site->scope);
    scopes_parameters(site->job->compiler, &site->scope, add_parameter, site);
    if (site->by_abi)
        place_parameters(site);
    bool believed = true;
    for (unsigned i = 0; i < site->parameter_count && site->by_abi && believed && site->kind == CAPTURE_ENTRY; i++)
        believed = !contradicts(site, i);
    for (unsigned i = 0; i < site->parameter_count && !believed; i++)
        site->places[i].unknown = true;
}
