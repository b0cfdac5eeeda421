/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which registers or stack slots arguments and results are passed in (System V ABI, AMD64, 3.2.3; Itanium C++ ABI,
 * 3.1 for classes that are passed by address).
 */
#include <dwarf.h>
#include <string.h>

#include "symbols/capture/internal.h"

enum { NEST_LIMIT = 32, INTEGER_REGISTERS = 6, FLOAT_REGISTERS = 8 };

static const uint8_t integers[INTEGER_REGISTERS] = {5, 4, 1, 2, 8, 9};

/* What is found out about the two eightbytes. */
struct eightbytes {
    enum abi_class classes[2];
    uint8_t used[2]; /* bytes up to the end of the last member: what is behind is not passed by everybody */
    bool uncertain;  /* compilers differ here, or debug information does not say what it is */
};

static void class_merge(struct eightbytes *eightbytes, uint64_t offset, uint64_t size, enum abi_class class)
{
    for (uint64_t i = offset / 8; i <= (offset + (size ? size : 1) - 1) / 8 && i < 2; i++) {
        enum abi_class *old = &eightbytes->classes[i];
        if (*old == ABI_NONE || class == ABI_INTEGER)
            *old = class;
        else if (*old == ABI_SSEUP && class == ABI_SSE)
            *old = ABI_SSE;
        uint64_t end = offset + size - 8 * i;
        end = end < 8 ? end : 8;
        if (eightbytes->used[i] < end)
            eightbytes->used[i] = (uint8_t)end;
    }
}

/* Of 16 bytes: one register has them all. */
static void class_merge_wide(struct eightbytes *eightbytes, uint64_t offset, uint64_t size)
{
    class_merge(eightbytes, offset, size < 8 ? size : 8, ABI_SSE);
    if (size > 8)
        class_merge(eightbytes, offset + 8, size - 8, ABI_SSEUP);
}

static uint64_t align_of(Dwarf_Die *type, unsigned nest);

/* False: in memory. */
static bool classify(Dwarf_Die *type, uint64_t offset, struct eightbytes *eightbytes, unsigned nest);

static bool classify_members(Dwarf_Die *type, uint64_t offset, struct eightbytes *eightbytes, unsigned nest)
{
    Dwarf_Die child, member;
    if (dwarf_child(type, &child) != 0)
        return true;
    do {
        uint64_t bit, bits;
        int tag = dwarf_tag(&child);
        if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || die_flag(&child, DW_AT_external) ||
            die_flag(&child, DW_AT_declaration) || !type_of(&child, &member))
            continue;
        if (!member_position(&child, &bit, &bits))
            return false;
        if (bits) {
            if (offset * 8 + bit + bits > 128)
                return false;
            class_merge(eightbytes, offset + bit / 8, (bit % 8 + bits + 7) / 8, ABI_INTEGER);
            continue;
        }
        uint64_t align = align_of(&member, nest);
        if (align && (offset + bit / 8) % align)
            return false; /* packed */
        if (!classify(&member, offset + bit / 8, eightbytes, nest + 1))
            return false;
    } while (dwarf_siblingof(&child, &child) == 0);
    return true;
}

static bool array_of(Dwarf_Die *type, Dwarf_Die *ret_element, uint64_t *ret_count)
{
    if (!type_of(type, ret_element))
        return false;
    uint64_t size = type_size(type), one = type_size(ret_element);
    *ret_count = one ? size / one : 0;
    return true;
}

/* Vectors of other sizes than a register has, and of one element: each compiler has ways of its own. */
static bool is_odd_vector(Dwarf_Die *stripped)
{
    Dwarf_Die element;
    uint64_t count;
    return !array_of(stripped, &element, &count) || count < 2 ||
           (type_size(stripped) != 8 && type_size(stripped) != 16);
}

static void classify_other(Dwarf_Die *stripped, uint64_t offset, uint64_t size, struct eightbytes *eightbytes)
{
    uint64_t encoding = 0;
    die_number(stripped, DW_AT_encoding, &encoding);
    if (encoding == DW_ATE_float || encoding == DW_ATE_decimal_float)
        class_merge_wide(eightbytes, offset, size);
    else
        class_merge(eightbytes, offset, size, encoding == DW_ATE_complex_float ? ABI_SSE : ABI_INTEGER);
    eightbytes->uncertain |= size == 0 || encoding == 0;
}

static bool classify(Dwarf_Die *type, uint64_t offset, struct eightbytes *eightbytes, unsigned nest)
{
    Dwarf_Die stripped, element;
    uint64_t count;
    if (nest > NEST_LIMIT || !type_strip(type, &stripped))
        return false;
    uint64_t size = type_size(&stripped);
    if (offset + size > 16)
        return false;
    switch (type_kind_of(&stripped)) {
    case TYPE_FLOAT:
        if (size == 16)
            return false; /* x87, in an aggregate of at most 16 bytes: in memory as an argument */
        class_merge(eightbytes, offset, size, ABI_SSE);
        return true;
    case TYPE_COMPLEX:
        if (size > 16)
            return false;
        class_merge(eightbytes, offset, size, ABI_SSE);
        return true;
    case TYPE_STRUCT:
    case TYPE_UNION:
        eightbytes->uncertain |= die_flag(&stripped, DW_AT_declaration);
        return classify_members(&stripped, offset, eightbytes, nest);
    case TYPE_ARRAY:
        if (die_flag(&stripped, DW_AT_GNU_vector)) {
            class_merge_wide(eightbytes, offset, size);
            eightbytes->uncertain |= is_odd_vector(&stripped);
            return true;
        }
        if (!array_of(&stripped, &element, &count))
            return false;
        for (uint64_t i = 0; i < count; i++)
            if (!classify(&element, offset + i * type_size(&element), eightbytes, nest + 1))
                return false;
        return true;
    case TYPE_OTHER:
        classify_other(&stripped, offset, size, eightbytes);
        return size > 0;
    default:
        class_merge(eightbytes, offset, size, ABI_INTEGER);
        return true;
    }
}

/* Of a member: its own, or that of a name of its type, counts before the type's. */
static uint64_t align_of_member(Dwarf_Die *member, unsigned nest)
{
    Dwarf_Die type;
    uint64_t given;
    if (die_number(member, DW_AT_alignment, &given) && given)
        return given;
    if (!type_of(member, &type))
        return 1;
    Dwarf_Die at = type;
    for (int i = 0; i < NEST_LIMIT && (dwarf_tag(&at) == DW_TAG_typedef || dwarf_tag(&at) == DW_TAG_const_type ||
                                       dwarf_tag(&at) == DW_TAG_volatile_type || dwarf_tag(&at) == DW_TAG_atomic_type);
         i++) {
        if (die_number(&at, DW_AT_alignment, &given) && given)
            return given;
        if (!type_of(&at, &at))
            return 1;
    }
    return align_of(&type, nest);
}

static uint64_t align_of_members(Dwarf_Die *type, unsigned nest)
{
    Dwarf_Die child;
    uint64_t align = 1, size = type_size(type);
    if (dwarf_child(type, &child) != 0)
        return 1;
    do {
        if ((dwarf_tag(&child) != DW_TAG_member && dwarf_tag(&child) != DW_TAG_inheritance) ||
            die_flag(&child, DW_AT_external))
            continue;
        uint64_t own = align_of_member(&child, nest + 1);
        align = own > align ? own : align;
    } while (dwarf_siblingof(&child, &child) == 0);
    return size % align ? 1 : align; /* packed */
}

static uint64_t align_of(Dwarf_Die *type, unsigned nest)
{
    Dwarf_Die stripped, member;
    uint64_t given;
    if (nest > NEST_LIMIT || !type_strip(type, &stripped))
        return 1;
    if (die_number(&stripped, DW_AT_alignment, &given) && given)
        return given;
    uint64_t size = type_size(&stripped);
    switch (type_kind_of(&stripped)) {
    case TYPE_ARRAY:
        if (die_flag(&stripped, DW_AT_GNU_vector))
            return size;
        return type_of(&stripped, &member) ? align_of(&member, nest + 1) : 1;
    case TYPE_COMPLEX:
        return size / 2;
    case TYPE_MEMBER_POINTER:
        return 8;
    case TYPE_STRUCT:
    case TYPE_UNION:
        if (die_flag(&stripped, DW_AT_declaration))
            return type_container(&stripped) ? 8 : 1;
        return align_of_members(&stripped, nest);
    default:
        return size && size <= 16 ? size : 1;
    }
}

static bool is_whole(Dwarf_Die *type, unsigned nest)
{
    Dwarf_Die stripped, child, inner;
    if (nest > NEST_LIMIT || !type_strip(type, &stripped))
        return false;
    enum type_kind kind = type_kind_of(&stripped);
    if (kind == TYPE_ARRAY)
        return type_of(&stripped, &inner) && is_whole(&inner, nest + 1);
    if (kind != TYPE_STRUCT && kind != TYPE_UNION)
        return true;
    const struct container *container = type_container(&stripped); /* clang only declares the allocators of some */
    if (container_owns(container) || die_flag(&stripped, DW_AT_declaration))
        return container;
    if (dwarf_child(&stripped, &child) != 0)
        return true;
    do
        if ((dwarf_tag(&child) == DW_TAG_member || dwarf_tag(&child) == DW_TAG_inheritance) &&
            !die_flag(&child, DW_AT_external) && !die_flag(&child, DW_AT_declaration) &&
            !(type_of(&child, &inner) && is_whole(&inner, nest + 1)))
            return false;
    while (dwarf_siblingof(&child, &child) == 0);
    return true;
}

bool abi_is_whole(Dwarf_Die *type)
{
    return is_whole(type, 0);
}

/* Whether there is a vector somewhere that a register of more than 16 bytes might have. */
static bool has_long_vector(Dwarf_Die *type, unsigned nest)
{
    Dwarf_Die stripped, child, inner;
    if (nest > NEST_LIMIT || !type_strip(type, &stripped) || type_size(&stripped) < 32)
        return false;
    enum type_kind kind = type_kind_of(&stripped);
    if (kind == TYPE_ARRAY)
        return die_flag(&stripped, DW_AT_GNU_vector) ||
               (type_of(&stripped, &inner) && has_long_vector(&inner, nest + 1));
    if ((kind != TYPE_STRUCT && kind != TYPE_UNION) || dwarf_child(&stripped, &child) != 0)
        return false;
    do
        if ((dwarf_tag(&child) == DW_TAG_member || dwarf_tag(&child) == DW_TAG_inheritance) &&
            !die_flag(&child, DW_AT_external) && type_of(&child, &inner) && has_long_vector(&inner, nest + 1))
            return true;
    while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

/* A long double and nothing else, in however many structures. */
static bool is_wrapped_x87(Dwarf_Die *type, unsigned nest)
{
    Dwarf_Die stripped, child, member;
    unsigned members = 0;
    if (nest > NEST_LIMIT || !type_strip(type, &stripped) || type_size(&stripped) != 16)
        return false;
    if (type_kind_of(&stripped) == TYPE_FLOAT)
        return true;
    if (type_kind_of(&stripped) != TYPE_STRUCT || dwarf_child(&stripped, &child) != 0)
        return false;
    do {
        if ((dwarf_tag(&child) != DW_TAG_member && dwarf_tag(&child) != DW_TAG_inheritance) ||
            die_flag(&child, DW_AT_external))
            continue;
        if (++members > 1 || !type_of(&child, &member) || !is_wrapped_x87(&member, nest + 1))
            return false;
    } while (dwarf_siblingof(&child, &child) == 0);
    return members == 1;
}

/* A single member all the way down: a struct of one long double is returned as one. */
static bool is_x87(Dwarf_Die *stripped)
{
    return type_kind_of(stripped) == TYPE_FLOAT && type_size(stripped) == 16;
}

void abi_classify(Dwarf_Die *type, struct abi_type *ret)
{
    Dwarf_Die stripped;
    *ret = (struct abi_type){.classes = {ABI_MEMORY}};
    if (!type_strip(type, &stripped))
        return;
    enum type_kind kind = type_kind_of(&stripped);
    ret->size = type_size(&stripped);
    ret->align = align_of(&stripped, 0);
    ret->align_given = die_number(&stripped, DW_AT_alignment, &(uint64_t){0});
    ret->aggregate = kind == TYPE_STRUCT || kind == TYPE_UNION;
    if (type_is_nontrivial(&stripped)) {
        ret->classes[0] = ABI_BY_ADDRESS;
        return;
    }
    if (is_x87(&stripped)) {
        ret->classes[0] = ABI_X87;
        return;
    }
    struct eightbytes eightbytes = {0};
    ret->uncertain = has_long_vector(&stripped, 0);
    ret->on_x87 = is_wrapped_x87(&stripped, 0) || (kind == TYPE_COMPLEX && ret->size == 32);
    if (ret->size > 16)
        return;
    bool in_registers = classify(&stripped, 0, &eightbytes, 0);
    ret->uncertain |= eightbytes.uncertain;
    if (!in_registers)
        return;
    memcpy(ret->classes, eightbytes.classes, sizeof ret->classes);
    memcpy(ret->used, eightbytes.used, sizeof ret->used);
    ret->wide = ret->classes[0] == ABI_SSE && ret->classes[1] == ABI_SSEUP;
    if (ret->classes[1] == ABI_SSEUP && !ret->wide)
        ret->classes[1] = ABI_SSE;
}

bool abi_has_hidden_pointer(const struct abi_type *result)
{
    return (result->classes[0] == ABI_MEMORY && !result->on_x87) || result->classes[0] == ABI_BY_ADDRESS;
}

static void arguments_lose(struct abi_arguments *arguments, unsigned what, struct abi_place *place)
{
    arguments->lost |= what;
    place->unknown = true;
}

/* On the stack. Where a structure could be packed, its alignment is not known. */
static void next_on_stack(struct abi_arguments *arguments, const struct abi_type *type, struct abi_place *place)
{
    uint64_t align = type->align > 8 ? type->align : 8, at = (arguments->stack + align - 1) / align * align;
    bool doubtful = (type->aggregate && !type->align_given) || (arguments->clang && type->classes[0] == ABI_INTEGER);
    if (arguments->lost & ABI_LOST_STACK || (at != arguments->stack && (doubtful || (align & (align - 1))))) {
        arguments_lose(arguments, ABI_LOST_STACK, place);
        return;
    }
    place->in_memory = true;
    place->stack = 8 + at;
    arguments->stack = at + (type->size + 7) / 8 * 8;
}

static void next_by_address(struct abi_arguments *arguments, struct abi_place *place)
{
    place->by_address = true;
    if (arguments->lost & ABI_LOST_INTEGERS) {
        arguments_lose(arguments, ABI_LOST_STACK, place);
    } else if (arguments->integers < INTEGER_REGISTERS) {
        place->registers[place->count++] = integers[arguments->integers++];
    } else if (arguments->lost & ABI_LOST_STACK) {
        place->unknown = true;
    } else {
        place->in_memory = true;
        place->stack = 8 + arguments->stack;
        arguments->stack += 8;
    }
}

/* True if it is not certain what happens to an argument that wants so many registers. */
static bool is_lost(struct abi_arguments *arguments, const struct abi_type *type, unsigned need_integers,
                    unsigned need_floats, struct abi_place *place)
{
    /* LLVM gives a number of 16 bytes the last register and 8 bytes of the stack */
    bool split =
        arguments->clang && !type->aggregate && need_integers == 2 && arguments->integers == INTEGER_REGISTERS - 1;
    if (split)
        arguments->lost |= ABI_LOST_INTEGERS;
    unsigned wanted = (need_integers ? ABI_LOST_INTEGERS : 0) | (need_floats ? ABI_LOST_FLOATS : 0);
    if (!(arguments->lost & wanted))
        return false;
    arguments_lose(arguments, wanted | ABI_LOST_STACK, place);
    place->doubted = split; /* only its first half is described */
    return true;
}

void abi_next(struct abi_arguments *arguments, const struct abi_type *type, struct abi_place *ret_place)
{
    unsigned need_integers = 0, need_floats = 0, parts = type->wide ? 1 : 2;
    *ret_place = (struct abi_place){.size = type->size, .used = {type->used[0], type->used[1]}, .wide = type->wide};
    if (type->uncertain) { /* more than 16 bytes of a vector, or anything */
        arguments_lose(arguments, ABI_LOST_FLOATS | ABI_LOST_STACK | (type->size > 16 ? 0 : ABI_LOST_INTEGERS),
                       ret_place);
        return;
    }
    if (type->classes[0] == ABI_BY_ADDRESS) {
        next_by_address(arguments, ret_place);
        return;
    }
    for (unsigned i = 0; i < parts; i++) {
        need_integers += type->classes[i] == ABI_INTEGER;
        need_floats += type->classes[i] == ABI_SSE;
    }
    if (is_lost(arguments, type, need_integers, need_floats, ret_place))
        return;
    if (type->classes[0] == ABI_MEMORY || type->classes[0] == ABI_X87 ||
        arguments->integers + need_integers > INTEGER_REGISTERS || arguments->floats + need_floats > FLOAT_REGISTERS) {
        next_on_stack(arguments, type, ret_place);
        return;
    }
    for (unsigned i = 0; i < parts; i++)
        if (type->classes[i] == ABI_INTEGER)
            ret_place->registers[ret_place->count++] = integers[arguments->integers++];
        else if (type->classes[i] == ABI_SSE)
            ret_place->registers[ret_place->count++] = (uint8_t)(16 + arguments->floats++);
}

bool abi_result(const struct abi_type *type, struct abi_place *ret_place)
{
    unsigned general = 0, floats = 0;
    *ret_place = (struct abi_place){.size = type->size, .used = {type->used[0], type->used[1]}, .wide = type->wide};
    bool wrapped = type->on_x87 && type->size == 16; /* of two numbers, the second one is below the first */
    ret_place->unknown = type->uncertain || (type->on_x87 && type->classes[0] != ABI_X87 && !wrapped);
    if (ret_place->unknown)
        return true;
    if (wrapped)
        return false;
    if (type->classes[0] == ABI_MEMORY || type->classes[0] == ABI_BY_ADDRESS) {
        ret_place->by_address = true;
        ret_place->registers[ret_place->count++] = 0;
        return true;
    }
    if (type->classes[0] == ABI_X87)
        return false;
    for (unsigned i = 0; i < (type->wide ? 1 : 2); i++)
        if (type->classes[i] == ABI_INTEGER)
            ret_place->registers[ret_place->count++] = (uint8_t)general++;
        else if (type->classes[i] == ABI_SSE)
            ret_place->registers[ret_place->count++] = (uint8_t)(16 + floats++);
    return true;
}
