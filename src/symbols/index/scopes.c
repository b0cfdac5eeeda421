/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which unit, and which functions of it, lie around an address. libdw walks a whole unit for each address
 * (dwarf_getscopes); a trace has tens of thousands. Here each unit is walked once, and its ranges are cut into spans
 * that do not overlap.
 */
#include <dwarf.h>
#include <stdlib.h>

#include "base/data/grow.h"
#include "symbols/index/dwarf_units.h"
#include "symbols/index/lines_internal.h"

enum { DEPTH_MOST = 256 };

struct scope_span {
    uint64_t low, high; /* high: the first behind it */
    uint32_t depth;     /* how deep in other spans, until they are cut */
    uint32_t scope;     /* whose: an index */
};

/* A unit's functions, or a module's units. */
struct scopes {
    const void *key; /* the unit's address in the debug information, or the module */
    struct scope *list;
    size_t count, room;
    struct scope_span *spans;
    size_t span_count, span_room;
    bool failed; /* out of memory */
    UT_hash_handle hh;
};

/* ---- spans ---- */

static int by_start(const void *left, const void *right)
{
    const struct scope_span *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    return a->depth < b->depth ? -1 : a->depth > b->depth;
}

static void span_add(struct scopes *scopes, struct scope_span span)
{
    if (span.low >= span.high)
        return;
    if (GROW(scopes->spans, scopes->span_count, scopes->span_room))
        scopes->spans[scopes->span_count++] = span;
    else
        scopes->failed = true;
}

/* Cuts spans that lie in each other so that each address belongs to the innermost: a span ends where one in it begins,
 * and goes on behind that. */
static void spans_cut(struct scopes *scopes)
{
    struct scope_span *nested = scopes->spans, *open = calloc(scopes->span_count + 1, sizeof *open);
    size_t count = scopes->span_count, depth = 0;
    uint64_t at = 0;
    scopes->spans = NULL;
    scopes->span_count = scopes->span_room = 0;
    if (!open) {
        scopes->failed = true;
        count = 0;
    }
    if (count)
        qsort(nested, count, sizeof *nested, by_start);
    for (size_t i = 0; i <= count && open; i++) {
        uint64_t next = i < count ? nested[i].low : UINT64_MAX;
        while (depth && open[depth - 1].high <= next) {
            const struct scope_span *top = &open[--depth];
            span_add(scopes, (struct scope_span){.low = at, .high = top->high, .scope = top->scope});
            at = top->high > at ? top->high : at;
        }
        if (depth)
            span_add(scopes, (struct scope_span){.low = at, .high = next, .scope = open[depth - 1].scope});
        at = next;
        if (i < count)
            open[depth++] = nested[i];
    }
    free(open);
    free(nested);
}

static const struct scope_span *span_find(const struct scopes *scopes, uint64_t addr)
{
    size_t low = 0, high = scopes->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scopes->spans[middle].high <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low < scopes->span_count && scopes->spans[low].low <= addr ? &scopes->spans[low] : NULL;
}

/* ---- scopes ---- */

/* Adds a scope with its ranges; its index. -1: it has no code, or there is no memory. */
static int32_t scope_add(struct scopes *scopes, Dwarf_Die *die, int32_t parent, uint32_t depth)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t offset = dwarf_ranges(die, 0, &base, &low, &high);
    if (offset <= 0)
        return -1;
    if (scopes->count >= INT32_MAX || !GROW(scopes->list, scopes->count, scopes->room)) {
        scopes->failed = true;
        return -1;
    }
    int32_t index = (int32_t)scopes->count++;
    scopes->list[index] = (struct scope){.die = *die, .parent = parent, .nested = depth > 0};
    for (; offset > 0; offset = dwarf_ranges(die, offset, &base, &low, &high))
        span_add(scopes, (struct scope_span){.low = low, .high = high, .depth = depth, .scope = (uint32_t)index});
    return index;
}

/* Whether there may be functions with code in it. */
static bool may_hold_functions(int tag)
{
    switch (tag) {
    case DW_TAG_module:
    case DW_TAG_namespace:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_lexical_block:
    case DW_TAG_with_stmt:
    case DW_TAG_catch_block:
    case DW_TAG_try_block:
        return true;
    default:
        return false;
    }
}

static void functions_add(struct scopes *scopes, Dwarf_Die *around, int32_t parent, uint32_t depth)
{
    Dwarf_Die die, child;
    if (depth == DEPTH_MOST || dwarf_child(around, &child) != 0)
        return;
    do {
        die = child;
        int32_t inside = parent;
        if (scope_is_function(&die))
            inside = scope_add(scopes, &die, parent, depth);
        else if (!may_hold_functions(dwarf_tag(&die)))
            continue;
        /* A function without code is a declaration, or what is inlined elsewhere. */
        if (inside >= 0 || !scope_is_function(&die))
            functions_add(scopes, &die, inside, depth + 1);
    } while (dwarf_siblingof(&die, &child) == 0);
}

static struct scopes *scopes_of(struct scopes **all, const void *key, bool *ret_new)
{
    struct scopes *scopes;
    HASH_FIND_PTR(*all, &key, scopes);
    *ret_new = !scopes;
    if (scopes || !(scopes = calloc(1, sizeof *scopes)))
        return scopes;
    scopes->key = key;
    HASH_ADD_PTR(*all, key, scopes);
    return scopes;
}

bool scope_is_function(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_entry_point;
}

const struct scope *scope_parent(const struct scopes *scopes, const struct scope *scope)
{
    return scope->parent < 0 ? NULL : &scopes->list[scope->parent];
}

const struct scope *scope_find(struct scopes **all, Dwarf_Die *unit, uint64_t addr, const struct scopes **ret_scopes)
{
    bool is_new;
    Dwarf_Die content;
    struct scopes *scopes = scopes_of(all, unit->addr, &is_new);
    if (!scopes)
        return NULL;
    if (is_new && unit_content(unit, &content)) {
        functions_add(scopes, &content, -1, 0);
        spans_cut(scopes);
    }
    const struct scope_span *span = span_find(scopes, addr);
    *ret_scopes = scopes;
    return span ? &scopes->list[span->scope] : NULL;
}

Dwarf_Die *scope_unit(struct scopes **all, Dwfl_Module *module, uint64_t addr, Dwarf_Addr *ret_bias)
{
    bool is_new;
    Dwarf_Die *unit = dwfl_module_addrdie(module, addr, ret_bias);
    struct scopes *units = unit ? NULL : scopes_of(all, module, &is_new);
    if (!units)
        return unit;
    /* There is no .debug_aranges (clang), or not of this unit. */
    while (is_new && (unit = dwfl_module_nextcu(module, unit, ret_bias)))
        scope_add(units, unit, -1, 0);
    if (is_new)
        spans_cut(units);
    if (!dwfl_module_getdwarf(module, ret_bias))
        return NULL;
    const struct scope_span *span = span_find(units, addr - *ret_bias);
    return span ? &units->list[span->scope].die : NULL;
}

void scopes_free(struct scopes **all)
{
    struct scopes *scopes, *next;
    HASH_ITER(hh, *all, scopes, next)
    {
        HASH_DEL(*all, scopes);
        free(scopes->list);
        free(scopes->spans);
        free(scopes);
    }
}
