/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions by address. Units are found by their own ranges (clang writes no .debug_aranges); the functions of a unit
 * are listed when the first of them is asked for.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/capture/internal.h"
#include "symbols/index/dwarf_units.h"

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
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (((const struct address_range *)(const void *)(first + middle * size))->low <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const void *found = low > 0 ? first + (low - 1) * size : NULL;
    return found && address < ((const struct address_range *)found)->high ? found : NULL;
}

/* Doubles where the count is a power of two. */
static bool grow(void *array, size_t count, size_t size)
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
        if (high <= low || !grow(&compiler->units, compiler->unit_count, sizeof *compiler->units))
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
                if (high > low && grow(&functions->entries, functions->count, sizeof *functions->entries))
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
