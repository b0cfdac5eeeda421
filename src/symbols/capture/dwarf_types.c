/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "symbols/capture/internal.h"
#include "symbols/index/names.h"
#include "symbols/index/lines.h"

#include <dwarf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/*
 * Names of types. DWARF has the last part of each only; where it stands, in which namespaces and classes, is found by
 * one walk through its unit, at first need.
 */

/* CHAIN_LIMIT: typedefs, qualifiers, origins: corrupt debug information goes round in circles. */
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
    /* the last that begins before it */
    size_t low = COUNT_BEFORE(unit ? unit->count : 0, i, unit->scopes[i].begin < address);
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

/* Questions about types in DWARF (DWARF 4 and 5, chapter 5). */

const char *die_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attribute));
}

bool die_flag(Dwarf_Die *die, unsigned number)
{
    Dwarf_Attribute attribute;
    bool flag = false;
    /* a definition that names its declaration is none */
    Dwarf_Attribute *found = number == DW_AT_declaration ? dwarf_attr(die, number, &attribute)
                                                         : dwarf_attr_integrate(die, number, &attribute);
    return dwarf_formflag(found, &flag) == 0 && flag;
}

bool die_number(Dwarf_Die *die, unsigned number, uint64_t *ret_number)
{
    Dwarf_Attribute attribute;
    Dwarf_Word word;
    Dwarf_Sword sword;
    if (!dwarf_attr_integrate(die, number, &attribute))
        return false;
    unsigned form = dwarf_whatform(&attribute);
    if (form == DW_FORM_sdata || form == DW_FORM_implicit_const) {
        if (dwarf_formsdata(&attribute, &sword) != 0)
            return false;
        *ret_number = (uint64_t)sword;
        return true;
    }
    if (form == DW_FORM_exprloc || form == DW_FORM_block || form == DW_FORM_block1 || form == DW_FORM_ref4 ||
        dwarf_formudata(&attribute, &word) != 0)
        return false;
    *ret_number = word;
    return true;
}

bool die_is_fortran(Dwarf_Die *die)
{
    enum { FORTRAN18 = 0x2d, FORTRAN23 = 0x43 }; /* not yet known to every dwarf.h */
    Dwarf_Die unit;
    switch (dwarf_diecu(die, &unit, NULL, NULL) ? dwarf_srclang(&unit) : 0) {
    case DW_LANG_Fortran77:
    case DW_LANG_Fortran90:
    case DW_LANG_Fortran95:
    case DW_LANG_Fortran03:
    case DW_LANG_Fortran08:
    case FORTRAN18:
    case FORTRAN23:
        return true;
    default:
        return false;
    }
}

bool type_of(Dwarf_Die *die, Dwarf_Die *ret_type)
{
    Dwarf_Attribute attribute, signature;
    if (!dwarf_attr_integrate(die, DW_AT_type, &attribute) || !dwarf_formref_die(&attribute, ret_type))
        return false;
    Dwarf_Die whole; /* -fdebug-types-section: what it is stands in a unit of its own */
    if (dwarf_attr(ret_type, DW_AT_signature, &signature) && dwarf_formref_die(&signature, &whole))
        *ret_type = whole;
    return true;
}

bool type_strip(Dwarf_Die *type, Dwarf_Die *ret_type)
{
    Dwarf_Die at = *type;
    for (int i = 0; i < CHAIN_LIMIT; i++) {
        switch (dwarf_tag(&at)) {
        case DW_TAG_typedef:
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
        case DW_TAG_atomic_type:
        case DW_TAG_template_alias: {
            Dwarf_Die next;
            if (!type_of(&at, &next))
                return false; /* const void */
            at = next;
            break;
        }
        default:
            *ret_type = at;
            return true;
        }
    }
    return false;
}

static unsigned encoding_of(Dwarf_Die *die)
{
    uint64_t encoding = 0;
    die_number(die, DW_AT_encoding, &encoding);
    return (unsigned)encoding;
}

static enum type_kind base_kind(Dwarf_Die *die)
{
    const char *name = die_name(die);
    uint64_t size = type_size(die);
    name = name ? name : "";
    switch (encoding_of(die)) {
    case DW_ATE_boolean:
        return TYPE_BOOL;
    case DW_ATE_signed_char:
    case DW_ATE_unsigned_char:
        if (strcmp(name, "char") == 0)
            return TYPE_CHAR;
        return encoding_of(die) == DW_ATE_signed_char ? TYPE_SIGNED : TYPE_UNSIGNED;
    case DW_ATE_UTF:
        return TYPE_CHAR;
    case DW_ATE_signed:
        return strcmp(name, "wchar_t") == 0 ? TYPE_CHAR : TYPE_SIGNED;
    case DW_ATE_unsigned:
    case DW_ATE_address:
        return TYPE_UNSIGNED;
    case DW_ATE_float:
        if (size == 16 && strcmp(name, "long double") != 0 && strcmp(name, "_Float64x") != 0 &&
            strcmp(name, "real(kind=10)") != 0)
            return TYPE_OTHER; /* 128 bits of IEEE */
        return size == 4 || size == 8 || size == 16 ? TYPE_FLOAT : TYPE_OTHER;
    case DW_ATE_complex_float:
        if (strstr(name, "kind=16") || strstr(name, "128"))
            return TYPE_OTHER;
        return size == 8 || size == 16 || size == 32 ? TYPE_COMPLEX : TYPE_OTHER;
    default:
        return TYPE_OTHER;
    }
}

enum type_kind type_kind_of(Dwarf_Die *stripped)
{
    switch (dwarf_tag(stripped)) {
    case DW_TAG_base_type:
        return base_kind(stripped);
    case DW_TAG_enumeration_type:
        return TYPE_ENUM;
    case DW_TAG_pointer_type:
    case DW_TAG_unspecified_type:
        return TYPE_POINTER;
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
        return TYPE_REFERENCE;
    case DW_TAG_ptr_to_member_type:
        return TYPE_MEMBER_POINTER;
    case DW_TAG_array_type:
        return TYPE_ARRAY;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_interface_type:
        return TYPE_STRUCT;
    case DW_TAG_union_type:
        return TYPE_UNION;
    case DW_TAG_subroutine_type:
        return TYPE_FUNCTION;
    default:
        return TYPE_OTHER;
    }
}

unsigned type_wide(Dwarf_Die *type)
{
    static const char *const names[] = {"wchar_t", "char16_t", "char32_t"};
    Dwarf_Die at = *type;
    bool named = false;
    for (int i = 0; i < CHAIN_LIMIT; i++) {
        const char *name = die_name(&at);
        for (size_t k = 0; name && k < sizeof names / sizeof *names; k++)
            named |= strcmp(name, names[k]) == 0;
        int tag = dwarf_tag(&at);
        bool is_name = tag == DW_TAG_typedef || tag == DW_TAG_const_type || tag == DW_TAG_volatile_type ||
                       tag == DW_TAG_restrict_type || tag == DW_TAG_atomic_type || tag == DW_TAG_template_alias;
        if (!is_name || !type_of(&at, &at))
            break;
    }
    uint64_t size = type_size(&at);
    bool is_base = dwarf_tag(&at) == DW_TAG_base_type && (named || encoding_of(&at) == DW_ATE_UTF);
    return !is_base ? 0 : size == 2 ? 1 : size == 4 ? 2 : 0;
}

bool type_is_signed(Dwarf_Die *stripped)
{
    if (dwarf_tag(stripped) == DW_TAG_enumeration_type) {
        Dwarf_Die type, child;
        if (type_of(stripped, &type) && type_strip(&type, &type))
            return type_is_signed(&type);
        if (dwarf_child(stripped, &child) != 0)
            return false;
        do {
            Dwarf_Attribute attribute;
            Dwarf_Sword value;
            if (dwarf_attr(&child, DW_AT_const_value, &attribute) && dwarf_whatform(&attribute) == DW_FORM_sdata &&
                dwarf_formsdata(&attribute, &value) == 0 && value < 0)
                return true;
        } while (dwarf_siblingof(&child, &child) == 0);
        return false;
    }
    unsigned encoding = encoding_of(stripped);
    return encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
}

uint64_t type_size(Dwarf_Die *type)
{
    Dwarf_Die stripped;
    Dwarf_Word size;
    if (!type_strip(type, &stripped))
        return 0;
    switch (dwarf_tag(&stripped)) {
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
    case DW_TAG_unspecified_type:
        return 8;
    case DW_TAG_ptr_to_member_type: {
        Dwarf_Die pointee;
        return type_of(&stripped, &pointee) && type_strip(&pointee, &pointee) && type_kind_of(&pointee) == TYPE_FUNCTION
                   ? 16
                   : 8;
    }
    default:
        return dwarf_aggregate_size(&stripped, &size) == 0 ? size : 0;
    }
}

/* ---- C++ ---- */

static bool template_argument(Dwarf_Die *parent, unsigned *left, Dwarf_Die *ret_type)
{
    Dwarf_Die child;
    if (dwarf_child(parent, &child) != 0)
        return false;
    do {
        if (dwarf_tag(&child) == DW_TAG_template_type_parameter && (*left)-- == 0)
            return type_of(&child, ret_type);
        if (dwarf_tag(&child) == DW_TAG_GNU_template_parameter_pack && template_argument(&child, left, ret_type))
            return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

bool type_enumerator(Dwarf_Die *type, const char *name, size_t length, uint64_t *ret_value)
{
    Dwarf_Die child;
    if (dwarf_child(type, &child) != 0)
        return false;
    do
        if (dwarf_tag(&child) == DW_TAG_enumerator && die_is_named(&child, name, length))
            return die_number(&child, DW_AT_const_value, ret_value);
    while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

bool type_template_argument(Dwarf_Die *stripped, unsigned index, Dwarf_Die *ret_type)
{
    return template_argument(stripped, &index, ret_type);
}

static bool is_class(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

/* Definitions of classes by name, as one walk over the top of all units and their namespaces finds them. */
struct type_definition {
    char *name;
    Dwarf_Die die;
    UT_hash_handle hh;
};

enum { DEFINITIONS_LIMIT = 1 << 20 };

static void index_definitions(struct type_definition **index, Dwarf_Die *parent, unsigned nest)
{
    Dwarf_Die child;
    if (nest > 8 || dwarf_child(parent, &child) != 0)
        return;
    do {
        const char *name = is_class(&child) ? dwarf_diename(&child) : NULL;
        if (dwarf_tag(&child) == DW_TAG_namespace)
            index_definitions(index, &child, nest + 1);
        if (!name || die_flag(&child, DW_AT_declaration))
            continue;
        struct type_definition *entry;
        HASH_FIND_STR(*index, name, entry);
        if (entry || HASH_COUNT(*index) > DEFINITIONS_LIMIT)
            continue;
        entry = malloc(sizeof *entry);
        if (!entry)
            return;
        *entry = (struct type_definition){.name = strdup(name), .die = child};
        if (entry->name)
            HASH_ADD_KEYPTR(hh, *index, entry->name, strlen(entry->name), entry);
        else
            free(entry);
    } while (dwarf_siblingof(&child, &child) == 0);
}

void type_index_done(struct type_index *index)
{
    HASH_FREE_ALL(index->definitions, free(each->name));
    HASH_FREE_ALL(index->units, free(each->scopes));
    *index = (struct type_index){0};
}

bool type_complete(struct type_index *index, Dwarf_Die *stripped, Dwarf_Die *ret_type)
{
    *ret_type = *stripped;
    if (!is_class(stripped) || !die_flag(stripped, DW_AT_declaration))
        return true;
    const char *name = die_name(stripped);
    if (!name || !index)
        return false;
    if (!index->definitions_known) {
        index->definitions_known = true;
        Dwarf_CU *cu = NULL;
        Dwarf_Die unit;
        while (dwarf_get_units(index->dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0)
            if (unit_content(&unit, &unit))
                index_definitions(&index->definitions, &unit, 0);
    }
    struct type_definition *entry;
    HASH_FIND_STR(index->definitions, name, entry);
    if (!entry || dwarf_tag(&entry->die) != dwarf_tag(stripped))
        return false;
    *ret_type = entry->die;
    return true;
}

static bool method_is_special(Dwarf_Die *method, const char *class_name)
{
    uint64_t number;
    if (die_number(method, DW_AT_virtuality, &number) && number != DW_VIRTUALITY_none)
        return true;
    const char *name = die_name(method);
    if (!name || !class_name || (die_number(method, DW_AT_defaulted, &number) && number == DW_DEFAULTED_in_class))
        return false;
    if (die_flag(method, DW_AT_artificial)) /* by the compiler: says nothing */
        return false;
    if (name[0] == '~')
        return true;
    size_t length = strcspn(class_name, "<");
    if (strncmp(name, class_name, length) != 0 || (name[length] && name[length] != '<'))
        return false;
    /* a constructor: of one parameter behind `this` that is a reference to the class? */
    Dwarf_Die child, type, pointee;
    unsigned count = 0;
    bool copies = false;
    if (dwarf_child(method, &child) != 0)
        return false;
    do {
        if (dwarf_tag(&child) != DW_TAG_formal_parameter || die_flag(&child, DW_AT_artificial))
            continue;
        count++;
        copies = type_of(&child, &type) && type_strip(&type, &type) && type_kind_of(&type) == TYPE_REFERENCE &&
                 type_of(&type, &pointee) && type_strip(&pointee, &pointee) && die_name(&pointee) &&
                 strcmp(die_name(&pointee), class_name) == 0;
    } while (dwarf_siblingof(&child, &child) == 0);
    return count == 1 && copies;
}

static bool die_is_nontrivial(Dwarf_Die *type, unsigned nest)
{
    uint64_t convention;
    Dwarf_Die child, inner;
    if (nest > CHAIN_LIMIT || !is_class(type))
        return false;
    if (die_number(type, DW_AT_calling_convention, &convention)) {
        if (convention == DW_CC_pass_by_reference)
            return true;
        if (convention == DW_CC_pass_by_value)
            return false;
    }
    if (container_owns(type_container(type)))
        return true;
    if (dwarf_child(type, &child) != 0)
        return false;
    do {
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_subprogram && method_is_special(&child, die_name(type)))
            return true;
        uint64_t number;
        if (tag == DW_TAG_inheritance && die_number(&child, DW_AT_virtuality, &number) && number != DW_VIRTUALITY_none)
            return true;
        if (tag != DW_TAG_member && tag != DW_TAG_inheritance)
            continue;
        if (die_flag(&child, DW_AT_external) || !type_of(&child, &inner) || !type_strip(&inner, &inner))
            continue;
        for (int i = 0; i < 8 && dwarf_tag(&inner) == DW_TAG_array_type; i++)
            if (!type_of(&inner, &inner) || !type_strip(&inner, &inner))
                break;
        if (die_is_nontrivial(&inner, nest + 1))
            return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

bool type_is_nontrivial(Dwarf_Die *stripped)
{
    return die_is_nontrivial(stripped, 0);
}

static bool die_destructs(Dwarf_Die *type, unsigned nest)
{
    Dwarf_Die child, inner;
    if (nest > CHAIN_LIMIT || !type_strip(type, &inner))
        return false;
    Dwarf_Die stripped = inner;
    for (int i = 0; i < 8 && dwarf_tag(&stripped) == DW_TAG_array_type; i++)
        if (!type_of(&stripped, &stripped) || !type_strip(&stripped, &stripped))
            return false;
    if (container_owns(type_container(&stripped)))
        return true;
    if (!is_class(&stripped) || dwarf_child(&stripped, &child) != 0)
        return false;
    do {
        int tag = dwarf_tag(&child);
        const char *name = tag == DW_TAG_subprogram ? dwarf_diename(&child) : NULL;
        uint64_t defaulted = 0;
        if (name && name[0] == '~' && !die_flag(&child, DW_AT_artificial) &&
            !(die_number(&child, DW_AT_defaulted, &defaulted) && defaulted == DW_DEFAULTED_in_class))
            return true;
        if ((tag == DW_TAG_member || tag == DW_TAG_inheritance) && !die_flag(&child, DW_AT_external) &&
            type_of(&child, &inner) && die_destructs(&inner, nest + 1))
            return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

bool type_has_destructor(Dwarf_Die *type)
{
    return die_destructs(type, 0);
}
