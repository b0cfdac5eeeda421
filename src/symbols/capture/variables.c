/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "symbols/capture/internal.h"
#include "symbols/capture/site.h"
#include "symbols/index/lines.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/*
 * Functions by address. Units are found by their own ranges (clang writes no .debug_aranges); the functions of a unit
 * are listed when the first of them is asked for.
 */

enum { NEST_LIMIT = 128 };

struct function_entry {
    struct address_range range;
    Dwarf_Die die;
};

struct unit_functions {
    struct function_entry *entries;
    size_t count;
    bool known;
    bool judged, untyped, level_1; /* by scopes_lines_only() */
};

struct unit_entry { /* a range of a unit */
    struct address_range range;
    Dwarf_Die die;
    struct unit_functions *functions; /* shared by its ranges; owned by the one with `owner` */
    bool owner;
};

/* Entries begin with their range. */
static int compare_ranges(const void *a, const void *b)
{
    const struct address_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* The entry, of `size` bytes each in order, whose range holds the address; NULL: there is none. */
static const void *find_range(const void *entries, size_t count, size_t size, uint64_t address)
{
    const char *first = entries;
    size_t low =
        COUNT_BEFORE(count, i, ((const struct address_range *)(const void *)(first + i * size))->low <= address);
    const void *found = low > 0 ? first + (low - 1) * size : NULL;
    return found && address < ((const struct address_range *)found)->high ? found : NULL;
}

/* Doubles where the count is a power of two. */
static bool ranges_grow(void *array, size_t count, size_t size)
{
    void **items = array;
    if (count & (count - 1))
        return true;
    void *more = realloc(*items, (count ? 2 * count : 1) * size);
    if (more)
        *items = more;
    return more;
}

static void add_unit(struct capture_compiler *compiler, Dwarf_Die *unit)
{
    Dwarf_Addr base, low, high;
    struct unit_functions *functions = calloc(1, sizeof *functions);
    bool owner = true;
    for (ptrdiff_t at = 0; functions && (at = dwarf_ranges(unit, at, &base, &low, &high)) > 0;) {
        if (high <= low || !ranges_grow(&compiler->units, compiler->unit_count, sizeof *compiler->units))
            continue;
        compiler->units[compiler->unit_count++] =
            (struct unit_entry){{low + compiler->dwarf_bias, high + compiler->dwarf_bias}, *unit, functions, owner};
        owner = false;
    }
    if (owner)
        free(functions);
}

static void read_units(struct capture_compiler *compiler)
{
    Dwarf *dwarf = compiler->dwarf;
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit;
    uint8_t type;
    compiler->units_known = true;
    while (dwarf && dwarf_get_units(dwarf, cu, &cu, NULL, &type, &unit, NULL) == 0)
        if (type == DW_UT_compile || type == DW_UT_partial || type == DW_UT_skeleton)
            add_unit(compiler, &unit);
    if (compiler->unit_count > 0)
        qsort(compiler->units, compiler->unit_count, sizeof *compiler->units, compare_ranges);
}

void scopes_done(struct capture_compiler *compiler)
{
    for (size_t i = 0; i < compiler->unit_count; i++)
        if (compiler->units[i].owner) {
            free(compiler->units[i].functions->entries);
            free(compiler->units[i].functions);
        }
    free(compiler->units);
    compiler->units = NULL;
    compiler->unit_count = 0;
}

static void list_functions(struct capture_compiler *compiler, struct unit_functions *functions, Dwarf_Die *parent,
                           unsigned nest)
{
    Dwarf_Die child;
    Dwarf_Addr base, low, high;
    if (nest > NEST_LIMIT || dwarf_child(parent, &child) != 0)
        return;
    do {
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_subprogram)
            for (ptrdiff_t at = 0; (at = dwarf_ranges(&child, at, &base, &low, &high)) > 0;)
                if (high > low && ranges_grow(&functions->entries, functions->count, sizeof *functions->entries))
                    functions->entries[functions->count++] =
                        (struct function_entry){{low + compiler->dwarf_bias, high + compiler->dwarf_bias}, child};
        if (tag == DW_TAG_subprogram || tag == DW_TAG_namespace || tag == DW_TAG_lexical_block ||
            tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type ||
            tag == DW_TAG_module)
            list_functions(compiler, functions, &child, nest + 1);
    } while (dwarf_siblingof(&child, &child) == 0);
}

static bool find_in_unit(struct capture_compiler *compiler, const struct unit_entry *unit, uint64_t address,
                         Dwarf_Die *ret_function)
{
    struct unit_functions *functions = unit->functions;
    Dwarf_Die skeleton = unit->die, die;
    if (!functions->known && unit_content(&skeleton, &die)) {
        functions->known = true;
        list_functions(compiler, functions, &die, 0);
        if (functions->count > 0)
            qsort(functions->entries, functions->count, sizeof *functions->entries, compare_ranges);
    }
    const struct function_entry *found =
        find_range(functions->entries, functions->count, sizeof *functions->entries, address);
    if (found)
        *ret_function = found->die;
    return found;
}

static const struct unit_entry *find_unit(struct capture_compiler *compiler, uint64_t address)
{
    if (!compiler->units_known)
        read_units(compiler);
    return find_range(compiler->units, compiler->unit_count, sizeof *compiler->units, address);
}

bool scopes_function(struct capture_compiler *compiler, uint64_t address, Dwarf_Die *ret_function)
{
    const struct unit_entry *unit = find_unit(compiler, address);
    return unit && find_in_unit(compiler, unit, address, ret_function);
}

bool scopes_put_missing(struct capture_compiler *compiler, uint64_t address, struct buf *out)
{
    const struct unit_entry *unit = find_unit(compiler, address);
    Dwarf_Die skeleton, content;
    if (!unit)
        return false;
    skeleton = unit->die;
    if (unit_content(&skeleton, &content))
        return false;
    const char *path = NULL;
    dwfl_module_info(compiler->module, NULL, NULL, NULL, NULL, NULL, &path, NULL);
    unit_put_missing(&skeleton, path ? path : "", out);
    return true;
}

/* Nothing that it describes has a type. */
static bool has_no_types(Dwarf_Die *unit)
{
    Dwarf_Die child;
    if (dwarf_child(unit, &child) != 0)
        return true;
    do {
        if (dwarf_hasattr(&child, DW_AT_type) || dwarf_hasattr(&child, DW_AT_prototyped))
            return false;
    } while (dwarf_siblingof(&child, &child) == 0);
    return true;
}

/* gcc writes down its options; a later -g may have overruled -g1. */
static bool is_level_1(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;
    const char *producer = dwarf_formstring(dwarf_attr(unit, DW_AT_producer, &attribute));
    return producer && (strstr(producer, " -g1") || strstr(producer, " -ggdb1")) && has_no_types(unit);
}

bool scopes_lines_only(struct capture_compiler *compiler, uint64_t address, Dwarf_Die *function)
{
    const struct unit_entry *unit = find_unit(compiler, address);
    Dwarf_Die die;
    if (!unit)
        return false;
    die = unit->die;
    if (!unit_content(&die, &die))
        return false;
    struct unit_functions *functions = unit->functions;
    if (!functions->judged) {
        functions->judged = true;
        functions->untyped = dwarf_srclang(&die) != DW_LANG_Mips_Assembler && has_no_types(&die);
        functions->level_1 = is_level_1(&die);
    }
    /* clang describes only those functions that others were inlined in, and says not even where their frame is */
    return function ? functions->level_1 || (functions->untyped && !dwarf_hasattr(function, DW_AT_frame_base))
                    : functions->untyped;
}

uint64_t scopes_entry(struct capture_compiler *compiler, Dwarf_Die *function)
{
    Dwarf_Addr address, base, low, high;
    if (dwarf_entrypc(function, &address) == 0)
        return address + compiler->dwarf_bias;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(function, at, &base, &low, &high)) > 0;)
        if (high > low && !elf_code_is_clone(&compiler->code, low + compiler->dwarf_bias))
            return low + compiler->dwarf_bias; /* the other ranges are cold parts */
    return 0;
}

size_t scopes_ranges(struct capture_compiler *compiler, Dwarf_Die *function, struct address_range *ret_ranges,
                     size_t max)
{
    Dwarf_Addr base, low, high;
    size_t count = 0;
    for (ptrdiff_t at = 0; count < max && (at = dwarf_ranges(function, at, &base, &low, &high)) > 0;)
        if (high > low)
            ret_ranges[count++] = (struct address_range){low + compiler->dwarf_bias, high + compiler->dwarf_bias};
    return count;
}

/*
 * Which parameters a function has, and where the ABI passes them; and whether it is this ABI at all. Compilers change
 * the interface of functions nobody else calls, and an attribute may ask for another convention, which gcc does not
 * write down. So what the ABI says is held against what DWARF says about the function's first instruction, and against
 * the slots that parameters are stored to: where they contradict each other in one parameter, only DWARF counts. So it
 * is in Fortran, which passes addresses of what the types describe.
 */

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

/* Written in a language whose functions are called as in C. */
static bool has_c_language(Dwarf_Die *scope)
{
    enum { CXX17 = 0x2a, CXX20, C17, CXX23 = 0x3a, C23 = 0x3e }; /* not yet known to every dwarf.h */
    Dwarf_Die unit;
    switch (dwarf_diecu(scope, &unit, NULL, NULL) ? dwarf_srclang(&unit) : 0) {
    case DW_LANG_C89:
    case DW_LANG_C:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case C17:
    case C23:
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case CXX17:
    case CXX20:
    case CXX23:
    case DW_LANG_ObjC:
    case DW_LANG_ObjC_plus_plus:
        return true;
    default:
        return false;
    }
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
    struct location location = {.compiler = site->job->compiler,
                                .emitter = site->emitter,
                                .function = &site->function,
                                .pc = pc,
                                .start = site->patched};
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
    uint64_t from = site->patched ? site->pc : site->returns;
    if (!track_first_stored(&site->track, from, !site->patched, offset, &stored) || stored.mask)
        return false;
    if (stored.kind == TRACK_REGISTER && stored.add == 0)
        return abi->in_memory || (abi->count > 0 && stored.base != abi->registers[0]);
    return stored.kind == TRACK_MEMORY && stored.base == RSP && stored.add >= 8 &&
           (!abi->in_memory || stored.add != (int64_t)abi->stack);
}

/* One register for all of the function, in which arguments may be passed: there it is at the first instruction. */
static bool is_passed_register(struct site *site, Dwarf_Die *parameter)
{
    static const uint32_t arguments = 1 << 5 | 1 << 4 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 9;
    struct place place;
    place_at_pc(site, parameter, site->pc, &place);
    return place.kind == PLACE_XMM ||
           (place.kind == PLACE_REGISTER && place.base < XMM0 && arguments >> place.base & 1);
}

/* Not asked about those that are passed by address: DWARF describes what they point to. */
static bool parameter_contradicts(struct site *site, unsigned index)
{
    const struct abi_place *abi = &site->places[index];
    Dwarf_Die *parameter = &site->parameters[index];
    if (abi->unknown || abi->by_address)
        return false;
    return is_list(parameter) || (site->patched && is_passed_register(site, parameter))
               ? list_contradicts(site, parameter, abi)
               : site->tracked && slot_contradicts(site, parameter, abi);
}

/* Debug information and ABI say that the parameter is in the same register at the function's first instruction. Neither is
 * enough where parameters may have been left out: those behind are shifted, and a variable may be described as it is
 * behind the first statement. */
static bool is_confirmed(struct site *site, unsigned index)
{
    const struct abi_place *abi = &site->places[index];
    struct place place;
    place_at_pc(site, &site->parameters[index], site->pc, &place);
    if (abi->unknown || abi->in_memory || abi->count != 1 || place.offset != 0)
        return false;
    if (abi->by_address)
        return place.kind == PLACE_MEMORY && place.base == abi->registers[0];
    return (place.kind == PLACE_REGISTER && place.base == abi->registers[0]) ||
           (place.kind == PLACE_XMM && place.base + XMM0 == abi->registers[0]);
}

/* A function of LLVM's that only its own file calls: its interface may not be that of its type. Two parameters in one register:
 * one of them was set to the other. */
static void confirm_parameters(struct site *site)
{
    uint32_t taken = 0, twice = 0;
    for (unsigned i = 0; i < site->parameter_count; i++) {
        struct place place;
        place_at_pc(site, &site->parameters[i], site->pc, &place);
        uint32_t bit = place.kind == PLACE_REGISTER && place.base < XMM0 ? UINT32_C(1) << place.base
                       : place.kind == PLACE_XMM                         ? UINT32_C(1) << (place.base + XMM0)
                                                                         : 0;
        twice |= taken & bit;
        taken |= bit;
    }
    for (unsigned i = 0; i < site->parameter_count; i++)
        if (!is_confirmed(site, i) || twice >> site->places[i].registers[0] & 1)
            site->places[i].unknown = site->places[i].doubted = true;
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
    bool fortran = die_is_fortran(&site->scope);
    bool usual = has_usual_convention(&site->scope) && (!site->patched || fortran || has_c_language(&site->scope));
    site->is_other = !usual;
    site->by_abi = by_abi && usual && !fortran;
    scopes_parameters(site->job->compiler, &site->scope, add_parameter, site);
    if (site->by_abi)
        place_parameters(site);
    if (site->patched && site->is_changed)
        confirm_parameters(site);
    /* clang says which convention a function has, but of variables only what they are behind the first statement */
    if (site->patched && site->by_clang)
        return;
    bool believed = true;
    for (unsigned i = 0; i < site->parameter_count && site->by_abi && believed; i++)
        believed = (site->kind != CAPTURE_ENTRY && !site->patched) || !parameter_contradicts(site, i);
    for (unsigned i = 0; i < site->parameter_count && !believed; i++) {
        site->places[i].unknown = true;
        site->places[i].doubted |= site->patched; /* what else could be believed holds only later on */
    }
    site->is_other |= !believed;
}

/*
 * The inlined instances and the variables of a function. What stands in a scope is read once: it is looked at for each
 * call that the function makes, and most of it are descriptions of these calls.
 */

enum { LOCALS_MAX = 512, CONTENTS_LIMIT = 64 << 20 /* bytes */ };

struct item { /* a parameter, pack of them, variable, block or inlined instance */
    Dwarf_Die die;
    int tag;
    bool scattered;     /* in more than one range */
    bool elsewhere;     /* a variable of which this is only a declaration */
    uint64_t low, high; /* addresses in DWARF; none: 0 */
    const void *origin; /* the root of what it is an instance of */
    const char *name;   /* NULL: none */
};

struct content_entry {
    const void *scope; /* its DIE's address */
    size_t count;
    UT_hash_handle hh;
    struct item items[];
};

/* The root of what a DIE is an instance of. */
static const void *origin_of(Dwarf_Die *die)
{
    Dwarf_Die at = *die;
    for (int i = 0; i < 16; i++) {
        Dwarf_Attribute attribute;
        Dwarf_Die next;
        if ((!dwarf_attr(&at, DW_AT_abstract_origin, &attribute)) || !dwarf_formref_die(&attribute, &next))
            break;
        at = next;
    }
    return at.addr;
}

bool scopes_same(Dwarf_Die *a, Dwarf_Die *b)
{
    return origin_of(a) == origin_of(b);
}

/* ---- what stands in a scope ---- */

static bool is_code(int tag)
{
    return tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine;
}

static bool is_item(int tag)
{
    return is_code(tag) || tag == DW_TAG_variable || tag == DW_TAG_formal_parameter ||
           tag == DW_TAG_GNU_formal_parameter_pack;
}

static struct item item_of(Dwarf_Die *die, int tag)
{
    struct item item = {.die = *die, .tag = tag};
    if (is_code(tag)) {
        Dwarf_Addr base, low, high;
        ptrdiff_t at = dwarf_ranges(die, 0, &base, &item.low, &item.high);
        item.scattered = at > 0 && dwarf_ranges(die, at, &base, &low, &high) > 0;
    } else
        item.name = die_name(die);
    if (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_formal_parameter)
        item.origin = origin_of(die);
    if (tag == DW_TAG_variable)
        item.elsewhere = die_flag(die, DW_AT_declaration) || die_flag(die, DW_AT_external);
    return item;
}

static const struct content_entry *content_of(struct capture_compiler *compiler, Dwarf_Die *scope)
{
    static const struct content_entry nothing;
    struct content_entry *entry, *grown;
    Dwarf_Die child;
    HASH_FIND(hh, compiler->contents, &scope->addr, sizeof scope->addr, entry);
    if (entry)
        return entry;
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return &nothing;
    if (dwarf_child(scope, &child) == 0)
        do {
            int tag = dwarf_tag(&child);
            if (!is_item(tag))
                continue;
            if ((entry->count & (entry->count - 1)) == 0) {
                size_t room = entry->count ? 2 * entry->count : 1;
                if (!(grown = realloc(entry, sizeof *entry + room * sizeof *entry->items)))
                    break;
                entry = grown;
            }
            entry->items[entry->count++] = item_of(&child, tag);
        } while (dwarf_siblingof(&child, &child) == 0);
    entry->scope = scope->addr;
    compiler->contents_size += sizeof *entry + entry->count * sizeof *entry->items;
    HASH_ADD(hh, compiler->contents, scope, sizeof entry->scope, entry);
    return entry;
}

void variables_done(struct capture_compiler *compiler)
{
    HASH_FREE_ALL(compiler->contents);
    compiler->contents_size = 0;
}

void variables_limit(struct capture_compiler *compiler)
{
    if (compiler->contents_size > CONTENTS_LIMIT)
        variables_done(compiler);
}

static bool die_holds(struct capture_compiler *compiler, const struct item *item, uint64_t pc)
{
    Dwarf_Die die = item->die;
    pc -= compiler->dwarf_bias;
    return is_code(item->tag) && (item->scattered ? dwarf_haspc(&die, pc) == 1 : pc >= item->low && pc < item->high);
}

/* ---- inlined instances ---- */

static bool find_inlined(struct capture_compiler *compiler, Dwarf_Die *scope, uint64_t pc, const void *origin,
                         unsigned nest, Dwarf_Die *ret_inlined)
{
    const struct content_entry *content = content_of(compiler, scope);
    bool found = false;
    for (size_t i = 0; i < content->count && nest <= NEST_LIMIT; i++) {
        const struct item *item = &content->items[i];
        Dwarf_Die die = item->die;
        if (!die_holds(compiler, item, pc))
            continue;
        if (item->tag == DW_TAG_inlined_subroutine && (!origin || item->origin == origin)) {
            *ret_inlined = die;
            found = true;
        }
        found |= find_inlined(compiler, &die, pc, origin, nest + 1, ret_inlined);
    }
    return found;
}

bool scopes_inlined(struct capture_compiler *compiler, Dwarf_Die *function, uint64_t pc, Dwarf_Die *origin,
                    Dwarf_Die *ret_inlined)
{
    return find_inlined(compiler, function, pc, origin ? origin_of(origin) : NULL, 0, ret_inlined);
}

static bool find_around(struct capture_compiler *compiler, Dwarf_Die *scope, uint64_t pc, const void *inlined,
                        unsigned nest, Dwarf_Die *ret_around)
{
    const struct content_entry *content = content_of(compiler, scope);
    Dwarf_Die around = *ret_around;
    for (size_t i = 0; i < content->count && nest <= NEST_LIMIT; i++) {
        const struct item *item = &content->items[i];
        Dwarf_Die die = item->die;
        if (!die_holds(compiler, item, pc))
            continue;
        *ret_around = around;
        if (die.addr == inlined)
            return true;
        if (item->tag == DW_TAG_inlined_subroutine)
            *ret_around = die;
        if (find_around(compiler, &die, pc, inlined, nest + 1, ret_around))
            return true;
    }
    return false;
}

void scopes_around(struct capture_compiler *compiler, Dwarf_Die *function, uint64_t pc, Dwarf_Die *inlined,
                   Dwarf_Die *ret_around)
{
    *ret_around = *function;
    if (!find_around(compiler, function, pc, inlined->addr, 0, ret_around))
        *ret_around = *function;
}

/* ---- parameters ---- */

struct parameters {
    struct capture_compiler *compiler;
    Dwarf_Die *scope; /* NULL: the list is its own */
    scopes_variable_fn *fn;
    void *ctx;
};

/* The parameter that is an instance of `abstract`; in a pack, too. */
static const struct item *find_instance(struct capture_compiler *compiler, Dwarf_Die *scope, const void *abstract,
                                        bool in_pack)
{
    const struct content_entry *content = content_of(compiler, scope);
    const struct item *found = NULL;
    for (size_t i = 0; i < content->count && !found; i++) {
        const struct item *item = &content->items[i];
        Dwarf_Die pack = item->die;
        if (item->tag == DW_TAG_formal_parameter && item->origin == abstract)
            found = item;
        else if (item->tag == DW_TAG_GNU_formal_parameter_pack && !in_pack)
            found = find_instance(compiler, &pack, abstract, true);
    }
    return found;
}

/* What gfortran adds: the lengths of texts, and where a result is to be written. Arrays with a descriptor are marked,
 * too, but have names that one can write. */
static bool is_added(const struct item *parameter)
{
    Dwarf_Die die = parameter->die;
    const char *name = parameter->name;
    return die_flag(&die, DW_AT_artificial) && (!name || *name == '_' || *name == '.');
}

static void list_parameters(const struct parameters *parameters, Dwarf_Die *list, const char *pack)
{
    const struct content_entry *content = content_of(parameters->compiler, list);
    bool fortran = die_is_fortran(list);
    for (size_t i = 0; i < content->count; i++) {
        const struct item *item = &content->items[i];
        Dwarf_Die die = item->die;
        if (item->tag == DW_TAG_GNU_formal_parameter_pack && !pack)
            list_parameters(parameters, &die, item->name ? item->name : "...");
        if (item->tag != DW_TAG_formal_parameter || (fortran && is_added(item)))
            continue;
        const struct item *instance =
            parameters->scope ? find_instance(parameters->compiler, parameters->scope, die.addr, false) : NULL;
        if (instance)
            die = instance->die;
        parameters->fn(parameters->ctx, &die, item->name ? item->name : pack);
    }
}

void scopes_parameters(struct capture_compiler *compiler, Dwarf_Die *scope, scopes_variable_fn *fn, void *ctx)
{
    Dwarf_Die list = *scope;
    Dwarf_Attribute attribute;
    /* an instance may lack parameters that were not needed; the abstract function has them all */
    for (int i = 0; i < 16 && dwarf_attr(&list, DW_AT_abstract_origin, &attribute); i++)
        if (!dwarf_formref_die(&attribute, &list))
            return;
    const struct parameters parameters = {compiler, list.addr == scope->addr ? NULL : scope, fn, ctx};
    list_parameters(&parameters, &list, NULL);
}

/* ---- local variables ---- */

struct locals {
    const struct item *variables[LOCALS_MAX];
    size_t count;
};

static void variables_collect(struct capture_compiler *compiler, struct locals *locals, Dwarf_Die *scope, uint64_t pc,
                              unsigned nest)
{
    const struct content_entry *content = content_of(compiler, scope);
    if (nest > NEST_LIMIT)
        return;
    for (size_t i = 0; i < content->count; i++)
        if (content->items[i].tag == DW_TAG_variable && locals->count < LOCALS_MAX && !content->items[i].elsewhere)
            locals->variables[locals->count++] = &content->items[i];
    for (size_t i = 0; i < content->count; i++) {
        Dwarf_Die block = content->items[i].die;
        if (content->items[i].tag == DW_TAG_lexical_block && die_holds(compiler, &content->items[i], pc))
            variables_collect(compiler, locals, &block, pc, nest + 1);
    }
}

void scopes_locals(struct capture_compiler *compiler, Dwarf_Die *scope, uint64_t pc, scopes_variable_fn *fn, void *ctx)
{
    struct locals locals;
    locals.count = 0;
    variables_collect(compiler, &locals, scope, pc, 0);
    for (size_t i = 0; i < locals.count; i++) {
        Dwarf_Die die = locals.variables[i]->die;
        const char *name = locals.variables[i]->name;
        bool hidden = !name || die_flag(&die, DW_AT_artificial);
        for (size_t k = i + 1; k < locals.count && !hidden; k++)
            hidden = locals.variables[k]->name && strcmp(locals.variables[k]->name, name) == 0;
        if (!hidden)
            fn(ctx, &die, name);
    }
}
