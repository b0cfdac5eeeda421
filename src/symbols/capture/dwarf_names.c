/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of types. DWARF has the last part of each only; where it stands, in which namespaces and classes, is found by
 * one walk through its unit, at first need.
 */
#include <dwarf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "symbols/capture/internal.h"
#include "symbols/index/cxx_names.h"

enum { CHAIN_LIMIT = 64, SCOPES_LIMIT = 1 << 20, SCOPE_NEST = 16, NAME_LIMIT = 4096 };

/* ---- scopes ---- */

struct name_scope { /* a namespace or class: what is in it, by addresses of DIEs */
    const char *begin, *end;
    size_t around; /* index of the scope that it is in; SIZE_MAX: none */
    const char *name;
};

struct name_unit {
    const void *die;           /* the unit's address */
    struct name_scope *scopes; /* by their beginnings */
    size_t count, room;
    UT_hash_handle hh;
};

void name_units_free(struct name_unit *units)
{
    struct name_unit *unit, *next;
    HASH_ITER(hh, units, unit, next)
    {
        HASH_DEL(units, unit);
        free(unit->scopes);
        free(unit);
    }
}

static bool is_scope(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_namespace || tag == DW_TAG_structure_type || tag == DW_TAG_class_type ||
           tag == DW_TAG_union_type;
}

/* Adds the scopes in `parent`. */
static void find_scopes(struct name_unit *unit, Dwarf_Die *parent, size_t around, unsigned nest)
{
    Dwarf_Die child, next;
    bool more = nest < SCOPE_NEST && dwarf_child(parent, &child) == 0;
    for (size_t last = SIZE_MAX; more; child = next) {
        next = child;
        const char *at = child.addr;
        if (last != SIZE_MAX)
            unit->scopes[last].end = at;
        last = SIZE_MAX;
        if (is_scope(&child) && dwarf_haschildren(&child) == 1) {
            if (unit->count == unit->room) {
                size_t room = unit->room ? 2 * unit->room : 64;
                void *scopes = room > SCOPES_LIMIT ? NULL : realloc(unit->scopes, room * sizeof *unit->scopes);
                if (!scopes)
                    return;
                unit->scopes = scopes;
                unit->room = room;
            }
            last = unit->count++;
            const char *end = around == SIZE_MAX ? (const char *)UINTPTR_MAX : unit->scopes[around].end;
            unit->scopes[last] = (struct name_scope){at, end, around, dwarf_diename(&child)};
            find_scopes(unit, &child, last, nest + 1);
        }
        more = dwarf_siblingof(&child, &next) == 0;
    }
}

static struct name_unit *unit_of(struct type_index *index, Dwarf_Die *type)
{
    Dwarf_Die die;
    struct name_unit *unit;
    if (!index || !dwarf_diecu(type, &die, NULL, NULL))
        return NULL;
    HASH_FIND_PTR(index->units, &die.addr, unit);
    if (unit || !(unit = calloc(1, sizeof *unit)))
        return unit;
    unit->die = die.addr;
    find_scopes(unit, &die, SIZE_MAX, 0);
    HASH_ADD_PTR(index->units, die, unit);
    return unit;
}

static void put_scope(const struct name_unit *unit, size_t index, struct buf *out)
{
    const struct name_scope *scope = &unit->scopes[index];
    if (scope->around != SIZE_MAX)
        put_scope(unit, scope->around, out);
    if (scope->name)
        buf_printf(out, "%s::", scope->name);
}

static void put_scopes(struct type_index *index, Dwarf_Die *type, struct buf *out)
{
    Dwarf_Attribute attribute;
    Dwarf_Die declared; /* a definition may stand outside of the scope that it belongs to */
    if (dwarf_formref_die(dwarf_attr(type, DW_AT_specification, &attribute), &declared))
        type = &declared;
    const struct name_unit *unit = unit_of(index, type);
    const char *address = type->addr;
    size_t low = 0, high = unit ? unit->count : 0; /* the last that begins before it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (unit->scopes[middle].begin < address)
            low = middle + 1;
        else
            high = middle;
    }
    size_t at = low - 1;                                           /* SIZE_MAX: none */
    for (size_t i = at; i != SIZE_MAX; i = unit->scopes[i].around) /* the last of a scope ends where that does */
        if (unit->scopes[i].end <= address)
            at = unit->scopes[i].around;
    if (at != SIZE_MAX)
        put_scope(unit, at, out);
}

/* ---- names ---- */

static bool is_cxx(Dwarf_Die *die)
{
    Dwarf_Die unit;
    return dwarf_diecu(die, &unit, NULL, NULL) && dwarf_srclang(&unit) != DW_LANG_C11 &&
           dwarf_srclang(&unit) != DW_LANG_C99 && dwarf_srclang(&unit) != DW_LANG_C89 &&
           dwarf_srclang(&unit) != DW_LANG_C;
}

static void put_words(struct type_index *index, Dwarf_Die *type, struct buf *out, const char *word)
{
    const char *name = die_name(type);
    buf_puts(out, word);
    if (name && is_cxx(type))
        put_scopes(index, type, out);
    buf_puts(out, name ? name : "{...}");
}

static void put_name(struct type_index *index, Dwarf_Die *type, bool there_is_one, const char *declarator,
                     struct buf *out, unsigned nest);

/* "(int, ...)", as they stand behind a function. What a member function is called on is none of them. */
static void put_parameters(struct type_index *index, Dwarf_Die *function, struct buf *out, unsigned nest)
{
    Dwarf_Die child, type;
    unsigned count = 0;
    buf_putc(out, '(');
    for (bool more = dwarf_child(function, &child) == 0; more; more = dwarf_siblingof(&child, &child) == 0) {
        int tag = dwarf_tag(&child);
        if ((tag != DW_TAG_formal_parameter && tag != DW_TAG_unspecified_parameters) ||
            die_flag(&child, DW_AT_artificial))
            continue;
        buf_puts(out, count++ ? ", " : "");
        if (tag == DW_TAG_unspecified_parameters)
            buf_puts(out, "...");
        else
            put_name(index, &type, type_of(&child, &type), "", out, nest);
    }
    buf_puts(out, !count && die_flag(function, DW_AT_prototyped) && !is_cxx(function) ? "void)" : ")");
}

/* A name of its own, and what is declared with it. */
static void put_base(struct type_index *index, Dwarf_Die *type, const char *word, const char *declarator,
                     struct buf *out)
{
    put_words(index, type, out, word);
    buf_printf(out, "%s%s", *declarator ? " " : "", declarator);
}

/* What goes around a pointer or reference to `inner`: functions and arrays bind closer. */
static void put_indirect(struct type_index *index, Dwarf_Die *inner, bool has_inner, const char *sign,
                         const char *declarator, struct buf *out, unsigned nest)
{
    struct buf whole = BUF_INIT;
    int tag = has_inner ? dwarf_tag(inner) : DW_TAG_unspecified_type;
    bool closer = tag == DW_TAG_subroutine_type || tag == DW_TAG_array_type;
    buf_printf(&whole, "%s%s%s%s", closer ? "(" : "", sign, declarator, closer ? ")" : "");
    put_name(index, inner, has_inner, whole.data ? whole.data : "", out, nest);
    buf_done(&whole);
}

/* As C writes it: what a type is made of stands around `declarator`, which is what is declared so far. */
static void put_name(struct type_index *index, Dwarf_Die *type, bool there_is_one, const char *declarator,
                     struct buf *out, unsigned nest)
{
    if (!there_is_one || nest > CHAIN_LIMIT || strlen(declarator) + out->len > NAME_LIMIT) {
        buf_printf(out, "%s%s%s", there_is_one ? "..." : "void", *declarator ? " " : "", declarator);
        return;
    }
    Dwarf_Die inner, class;
    bool has_inner = type_of(type, &inner);
    struct buf whole = BUF_INIT;
    switch (dwarf_tag(type)) {
    case DW_TAG_const_type:
    case DW_TAG_volatile_type: {
        bool behind = has_inner && dwarf_tag(&inner) == DW_TAG_pointer_type;
        const char *word = dwarf_tag(type) == DW_TAG_const_type ? "const" : "volatile";
        if (behind) {
            bool apart = *declarator && !strchr("[(", *declarator);
            buf_printf(&whole, "%s%s%s", word, apart ? " " : "", declarator);
        } else {
            buf_printf(out, "%s ", word);
        }
        put_name(index, &inner, has_inner, whole.data ? whole.data : declarator, out, nest + 1);
        break;
    }
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
        put_name(index, &inner, has_inner, declarator, out, nest + 1);
        break;
    case DW_TAG_pointer_type:
        put_indirect(index, &inner, has_inner, "*", declarator, out, nest + 1);
        break;
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
        put_indirect(index, &inner, has_inner, dwarf_tag(type) == DW_TAG_reference_type ? "&" : "&&", declarator, out,
                     nest + 1);
        break;
    case DW_TAG_ptr_to_member_type: {
        struct buf sign = BUF_INIT;
        Dwarf_Attribute attribute;
        if (dwarf_formref_die(dwarf_attr(type, DW_AT_containing_type, &attribute), &class))
            put_name(index, &class, true, "", &sign, nest + 1);
        buf_puts(&sign, "::*");
        put_indirect(index, &inner, has_inner, sign.data ? sign.data : "::*", declarator, out, nest + 1);
        buf_done(&sign);
        break;
    }
    case DW_TAG_array_type: {
        uint64_t counts[8];
        unsigned dimensions = array_dimensions(type, counts, 8);
        buf_puts(&whole, declarator);
        for (unsigned i = 0; i < dimensions; i++)
            if (counts[i] == UINT64_MAX)
                buf_puts(&whole, "[]");
            else
                buf_printf(&whole, "[%" PRIu64 "]", counts[i]);
        put_name(index, &inner, has_inner, whole.data ? whole.data : declarator, out, nest + 1);
        break;
    }
    case DW_TAG_subroutine_type:
        buf_puts(&whole, declarator);
        put_parameters(index, type, &whole, nest + 1);
        put_name(index, &inner, has_inner, whole.data ? whole.data : declarator, out, nest + 1);
        break;
    case DW_TAG_structure_type:
        put_base(index, type, is_cxx(type) ? "" : "struct ", declarator, out);
        break;
    case DW_TAG_union_type:
        put_base(index, type, is_cxx(type) ? "" : "union ", declarator, out);
        break;
    case DW_TAG_enumeration_type:
        put_base(index, type, is_cxx(type) ? "" : "enum ", declarator, out);
        break;
    case DW_TAG_string_type: {
        Dwarf_Word length;
        if (dwarf_hasattr(type, DW_AT_string_length) || dwarf_aggregate_size(type, &length) != 0)
            buf_puts(out, "character(len=*)");
        else
            buf_printf(out, "character(len=%" PRIu64 ")", (uint64_t)length);
        buf_printf(out, "%s%s", *declarator ? " " : "", declarator);
        break;
    }
    default:
        put_base(index, type, "", declarator, out);
    }
    buf_done(&whole);
}

void type_put_name(struct type_index *index, Dwarf_Die *type, bool there_is_one, struct buf *out)
{
    struct buf name = BUF_INIT;
    put_name(index, type, there_is_one, "", &name, 0);
    if (name.data && !name.failed)
        cxx_name_put(out, name.data);
    buf_done(&name);
}
