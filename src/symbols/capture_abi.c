/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which registers or stack slots arguments and results are passed in (System V ABI, AMD64, 3.2.3; Itanium C++ ABI,
 * 3.1 for classes that are passed by address).
 */
#include <dwarf.h>
#include <string.h>

#include "symbols/capture_internal.h"

enum { NEST_LIMIT = 32, INTEGER_REGISTERS = 6, FLOAT_REGISTERS = 8 };

/* What is found out about the two eightbytes. */
struct eightbytes {
    enum abi_class classes[2];
    uint8_t used[2]; /* bytes up to the end of the last member: what is behind is not passed by everybody */
};

static void merge(struct eightbytes *eightbytes, uint64_t offset, uint64_t size, enum abi_class class)
{
    for (uint64_t i = offset / 8; i <= (offset + (size ? size : 1) - 1) / 8 && i < 2; i++) {
        if (eightbytes->classes[i] == ABI_NONE || class == ABI_INTEGER)
            eightbytes->classes[i] = class;
        uint64_t end = offset + size - 8 * i;
        end = end < 8 ? end : 8;
        if (eightbytes->used[i] < end)
            eightbytes->used[i] = (uint8_t)end;
    }
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
            merge(eightbytes, offset + bit / 8, (bit % 8 + bits + 7) / 8, ABI_INTEGER);
            continue;
        }
        uint64_t align = align_of(&member, 0);
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
        merge(eightbytes, offset, size, ABI_SSE);
        return true;
    case TYPE_COMPLEX:
        if (size > 16)
            return false;
        merge(eightbytes, offset, size, ABI_SSE);
        return true;
    case TYPE_STRUCT:
    case TYPE_UNION:
        return classify_members(&stripped, offset, eightbytes, nest);
    case TYPE_ARRAY:
        if (die_flag(&stripped, DW_AT_GNU_vector)) {
            merge(eightbytes, offset, size, ABI_SSE);
            return true;
        }
        if (!array_of(&stripped, &element, &count))
            return false;
        for (uint64_t i = 0; i < count; i++)
            if (!classify(&element, offset + i * type_size(&element), eightbytes, nest + 1))
                return false;
        return true;
    case TYPE_OTHER: {
        uint64_t encoding = 0;
        bool is_float = die_number(&stripped, DW_AT_encoding, &encoding) && encoding == DW_ATE_float;
        merge(eightbytes, offset, size, is_float ? ABI_SSE : ABI_INTEGER);
        return size <= 16 && size > 0;
    }
    default:
        merge(eightbytes, offset, size, ABI_INTEGER);
        return true;
    }
}

static uint64_t align_of(Dwarf_Die *type, unsigned nest)
{
    Dwarf_Die stripped, child, member;
    uint64_t align = 1, given;
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
    case TYPE_STRUCT:
    case TYPE_UNION:
        if (dwarf_child(&stripped, &child) != 0)
            return 1;
        do {
            if ((dwarf_tag(&child) != DW_TAG_member && dwarf_tag(&child) != DW_TAG_inheritance) ||
                die_flag(&child, DW_AT_external) || !type_of(&child, &member))
                continue;
            uint64_t own = align_of(&member, nest + 1);
            align = own > align ? own : align;
        } while (dwarf_siblingof(&child, &child) == 0);
        return align;
    default:
        return size && size <= 16 ? size : 1;
    }
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
    ret->size = type_size(&stripped);
    ret->align = align_of(&stripped, 0);
    if (type_is_nontrivial(&stripped)) {
        ret->classes[0] = ABI_BY_ADDRESS;
        return;
    }
    if (is_x87(&stripped)) {
        ret->classes[0] = ABI_X87;
        return;
    }
    struct eightbytes eightbytes = {0};
    if (ret->size > 16 || !classify(&stripped, 0, &eightbytes, 0))
        return;
    memcpy(ret->classes, eightbytes.classes, sizeof ret->classes);
    memcpy(ret->used, eightbytes.used, sizeof ret->used);
    enum type_kind kind = type_kind_of(&stripped);
    ret->wide = ret->size == 16 && ret->classes[0] == ABI_SSE && (kind == TYPE_ARRAY || kind == TYPE_OTHER);
}

void abi_next(struct abi_arguments *arguments, const struct abi_type *type, struct abi_place *ret_place)
{
    static const uint8_t integers[INTEGER_REGISTERS] = {5, 4, 1, 2, 8, 9};
    unsigned need_integers = 0, need_floats = 0;
    *ret_place = (struct abi_place){.size = type->size, .used = {type->used[0], type->used[1]}, .wide = type->wide};
    if (type->classes[0] == ABI_BY_ADDRESS) {
        ret_place->by_address = true;
        if (arguments->integers < INTEGER_REGISTERS) {
            ret_place->registers[ret_place->count++] = integers[arguments->integers++];
            return;
        }
        ret_place->in_memory = true;
        ret_place->stack = 8 + arguments->stack;
        arguments->stack += 8;
        return;
    }
    unsigned parts = type->wide ? 1 : 2;
    for (unsigned i = 0; i < parts; i++) {
        need_integers += type->classes[i] == ABI_INTEGER;
        need_floats += type->classes[i] == ABI_SSE;
    }
    if (type->classes[0] == ABI_MEMORY || type->classes[0] == ABI_X87 ||
        arguments->integers + need_integers > INTEGER_REGISTERS || arguments->floats + need_floats > FLOAT_REGISTERS) {
        if (type->align >= 16)
            arguments->stack = (arguments->stack + 15) / 16 * 16;
        ret_place->in_memory = true;
        ret_place->stack = 8 + arguments->stack;
        arguments->stack += (type->size + 7) / 8 * 8;
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
    unsigned integers = 0, floats = 0;
    *ret_place = (struct abi_place){.size = type->size, .used = {type->used[0], type->used[1]}, .wide = type->wide};
    if (type->classes[0] == ABI_MEMORY || type->classes[0] == ABI_BY_ADDRESS) {
        ret_place->by_address = true;
        ret_place->registers[ret_place->count++] = 0;
        return true;
    }
    if (type->classes[0] == ABI_X87)
        return false;
    for (unsigned i = 0; i < (type->wide ? 1 : 2); i++)
        if (type->classes[i] == ABI_INTEGER)
            ret_place->registers[ret_place->count++] = (uint8_t)integers++;
        else if (type->classes[i] == ABI_SSE)
            ret_place->registers[ret_place->count++] = (uint8_t)(16 + floats++);
    return true;
}
