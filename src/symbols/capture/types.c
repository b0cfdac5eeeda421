/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A type at a place becomes text and instructions. Depth is static: each level of pointers is its own piece of program,
 * so cycles end where the depth does.
 */
#include <dwarf.h>
#include <inttypes.h>
#include <string.h>

#include "symbols/capture/containers.h"
#include "symbols/index/names.h"

enum {
    NEST_LIMIT = 40, /* of types; layouts may have more */
    ENUMERATORS = 512,
    MEMBERS = 1024,
};

void layout_put(struct emitter *emitter, const char *text)
{
    buf_puts(&emitter->text, text);
}

void layout_put_missing(struct emitter *emitter, enum place_kind kind)
{
    layout_put(emitter, kind == PLACE_OPTIMISED_OUT ? "o" : "n");
}

/* Whether all bytes of a value are known: scratch and registers may have only some. */
bool place_is_there(const struct place *place, uint64_t size)
{
    if ((place->kind == PLACE_REGISTER || place->kind == PLACE_CONSTANT || place->kind == PLACE_XMM) && place->size)
        return place->offset >= 0 && (uint64_t)place->offset + size <= place->size;
    if (place->kind != PLACE_MEMORY || (!place->missing[0] && !place->missing[1]))
        return true;
    for (uint64_t i = 0; i < size; i++) {
        uint64_t at = (uint64_t)place->offset + i;
        if (at >= SCRATCH_BITS || place->missing[at / 64] >> at % 64 & 1)
            return false;
    }
    return true;
}

/* ---- scalars ---- */

static void put_enumerators(struct emitter *emitter, Dwarf_Die *type)
{
    Dwarf_Die child;
    unsigned count = 0;
    const char *scope = die_flag(type, DW_AT_enum_class) ? die_name(type) : NULL;
    buf_putc(&emitter->text, '{');
    if (dwarf_child(type, &child) == 0)
        do {
            uint64_t value;
            const char *name = die_name(&child);
            if (dwarf_tag(&child) != DW_TAG_enumerator || !name || !die_number(&child, DW_AT_const_value, &value))
                continue;
            char scoped[256];
            if (scope && snprintf(scoped, sizeof scoped, "%s::%s", scope, name) < (int)sizeof scoped)
                name = scoped;
            if (count++)
                buf_putc(&emitter->text, ',');
            emit_name(&emitter->text, name);
            buf_printf(&emitter->text, "=%" PRId64, (int64_t)value);
        } while (count < ENUMERATORS && dwarf_siblingof(&child, &child) == 0);
    buf_putc(&emitter->text, '}');
}

/* The text of a number's type; false: there is none of that size. */
bool layout_put_scalar(struct emitter *emitter, Dwarf_Die *type, uint64_t size)
{
    bool is_signed = type_is_signed(type);
    bool whole = size == 1 || size == 2 || size == 4 || size == 8;
    char letter;
    switch (type_kind_of(type)) {
    case TYPE_SIGNED:
        letter = 'i';
        whole |= size == 16;
        break;
    case TYPE_UNSIGNED:
        letter = 'u';
        whole |= size == 16;
        break;
    case TYPE_CHAR:
        letter = is_signed ? 'c' : 'C';
        whole &= size < 8;
        break;
    case TYPE_BOOL:
        letter = 'b';
        break;
    case TYPE_FLOAT:
        letter = 'f';
        whole = size == 4 || size == 8 || size == 16;
        break;
    case TYPE_COMPLEX:
        letter = 'z';
        size /= 2;
        whole = size == 4 || size == 8 || size == 16;
        break;
    case TYPE_ENUM:
        letter = is_signed ? 'e' : 'E';
        break;
    default:
        return false;
    }
    if (!whole)
        return false;
    buf_printf(&emitter->text, "%c%u", letter, (unsigned)size);
    if (letter == 'e' || letter == 'E')
        put_enumerators(emitter, type);
    return true;
}

bool type_is_scalar(Dwarf_Die *type)
{
    enum type_kind kind = type_kind_of(type);
    return (kind >= TYPE_SIGNED && kind <= TYPE_FLOAT) || kind == TYPE_ENUM;
}

static void emit_raw(struct emitter *emitter, const struct place *place, uint64_t size)
{
    if (size == 0 || size > emitter->options->bytes) {
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
        return;
    }
    buf_printf(&emitter->text, "r%" PRIu64, size);
    emit_bytes(emitter, place, size);
}

/* ---- pointers ---- */

enum pointee { POINTEE_NOTHING, POINTEE_CODE, POINTEE_STRING, POINTEE_TYPE };

static enum pointee pointee_kind(struct emitter *emitter, Dwarf_Die *type, bool there_is_one, unsigned depth,
                                 unsigned nest)
{
    Dwarf_Die stripped;
    if (!there_is_one || !type_strip(type, &stripped))
        return POINTEE_NOTHING;
    enum type_kind kind = type_kind_of(&stripped);
    if (kind == TYPE_FUNCTION)
        return POINTEE_CODE;
    if ((kind == TYPE_CHAR && type_size(&stripped) == 1) || type_wide(type))
        return emitter->options->string > 0 ? POINTEE_STRING : POINTEE_NOTHING;
    if (depth == 0 || nest > NEST_LIMIT || emitter->blocks >= CAPTURE_BLOCKS - 3)
        return POINTEE_NOTHING;
    if (!type_container(&stripped) && (!type_complete(emitter->types, &stripped, &stripped) ||
                                       (type_size(&stripped) == 0 && kind != TYPE_STRUCT && kind != TYPE_UNION)))
        return POINTEE_NOTHING;
    return POINTEE_TYPE;
}

/* The pointer itself: its eight bytes are emitted, and its value is v[result]; -1: it is nowhere. */
static int emit_pointer_value(struct emitter *emitter, const struct place *place)
{
    int value = emit_load(emitter, place, 8);
    if (value < 0)
        return -1;
    struct place loaded = {.kind = PLACE_REGISTER, .base = (uint8_t)value};
    emit_bytes(emitter, &loaded, 8);
    return value;
}

void emit_pointer(struct emitter *emitter, Dwarf_Die *pointee, bool there_is_one, const struct place *place,
                  bool reference, unsigned depth, unsigned nest)
{
    enum pointee kind = pointee_kind(emitter, pointee, there_is_one, depth, nest);
    if (kind == POINTEE_NOTHING || kind == POINTEE_CODE) {
        layout_put(emitter, kind == POINTEE_CODE ? "x" : "p");
        emit_bytes(emitter, place, 8);
        return;
    }
    unsigned temps = emitter->temps;
    size_t text = emitter->text.len;
    layout_put(emitter, kind == POINTEE_STRING && !reference ? "s" : reference ? "&" : "*");
    int value = emit_pointer_value(emitter, place);
    if (value < 0) {
        emitter->text.len = text;
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
        return;
    }
    if (kind == POINTEE_STRING && !reference)
        emit_expecting(emitter, CAPTURE_STRING, (unsigned)value,
                       CAPTURE_STRING_N(emitter->options->string, type_wide(pointee)));
    else
        emit_followed(emitter, pointee, (unsigned)value, depth > 0 ? depth - 1 : 0, nest + 1);
    emitter->temps = temps;
}

/* ---- structs and unions ---- */

bool member_position(Dwarf_Die *member, uint64_t *ret_bit, uint64_t *ret_bits)
{
    uint64_t location = 0, bit;
    Dwarf_Attribute attribute;
    *ret_bits = 0;
    die_number(member, DW_AT_bit_size, ret_bits);
    if (dwarf_attr_integrate(member, DW_AT_data_member_location, &attribute) &&
        !die_number(member, DW_AT_data_member_location, &location)) {
        Dwarf_Op *ops;
        size_t count;
        if (dwarf_getlocation(&attribute, &ops, &count) != 0 || count != 1 || ops[0].atom != DW_OP_plus_uconst)
            return false; /* of a virtual base */
        location = ops[0].number;
    }
    *ret_bit = location * 8;
    if (die_number(member, DW_AT_data_bit_offset, &bit))
        *ret_bit = bit;
    else if (*ret_bits && die_number(member, DW_AT_bit_offset, &bit)) { /* DWARF 3: counted from the highest bit */
        uint64_t size = 0;
        Dwarf_Die type;
        if (!die_number(member, DW_AT_byte_size, &size) && type_of(member, &type))
            size = type_size(&type);
        *ret_bit = location * 8 + size * 8 - bit - *ret_bits;
    }
    return *ret_bit < UINT64_C(8) * INT32_MAX / 2;
}

void emit_bit_field(struct emitter *emitter, Dwarf_Die *type, const struct place *place, uint64_t bit, uint64_t bits)
{
    Dwarf_Die stripped;
    uint64_t shift = bit % 8, bytes = (shift + bits + 7) / 8;
    struct place at = place_at(place, bit / 8);
    if (!type_strip(type, &stripped) || bytes > 8 || bits > 64 || !place_is_there(&at, bytes)) {
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
        return;
    }
    uint64_t size = type_size(&stripped);
    unsigned temps = emitter->temps;
    if (size > 8 || !layout_put_scalar(emitter, &stripped, size)) {
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
        return;
    }
    int value = emit_load(emitter, &at, (unsigned)bytes);
    if (value < 0)
        emitter->failed = true;
    emit(emitter, CAPTURE_BITS, (unsigned)value & 63, (unsigned)size,
         (int64_t)CAPTURE_BITS_OFF(shift, bits, (uint64_t)type_is_signed(&stripped)));
    emitter->minimum += (unsigned)size;
    emitter->temps = temps;
}

/* A virtual base is where the class's virtual table says: *(*object - n) bytes behind the object, as all compilers
 * describe it. Returns that n. */
static bool virtual_base_entry(Dwarf_Die *base, int64_t *ret_entry)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    if (!dwarf_attr_integrate(base, DW_AT_data_member_location, &attribute) ||
        dwarf_getlocation(&attribute, &ops, &count) != 0 || count != 6 || ops[0].atom != DW_OP_dup ||
        ops[1].atom != DW_OP_deref || ops[3].atom != DW_OP_minus || ops[4].atom != DW_OP_deref ||
        ops[5].atom != DW_OP_plus)
        return false;
    bool small = ops[2].atom >= DW_OP_lit0 && ops[2].atom <= DW_OP_lit31;
    *ret_entry = small ? ops[2].atom - DW_OP_lit0 : (int64_t)ops[2].number;
    return (small || ops[2].atom == DW_OP_constu || ops[2].atom == DW_OP_const1u || ops[2].atom == DW_OP_const2u) &&
           *ret_entry < INT16_MAX;
}

/* The table's address may not be there yet, or no more: distances that no object has are not followed. */
static void emit_virtual_base(struct emitter *emitter, Dwarf_Die *base, Dwarf_Die *type, const struct place *place,
                              unsigned depth, unsigned nest)
{
    enum { FARTHEST = 1 << 20 };
    int64_t entry;
    if (!virtual_base_entry(base, &entry) || place->kind != PLACE_MEMORY || place->scratch ||
        emitter->blocks >= CAPTURE_BLOCKS - 3) {
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
        return;
    }
    unsigned temps = emitter->temps, at = emit_temp(emitter), far = emit_temp(emitter), limit = emit_temp(emitter);
    layout_put(emitter, "?");
    struct emitter_block block = emit_block_begin(emitter, CAPTURE_TRY, 1, NULL);
    emit(emitter, CAPTURE_LOAD, at, 8U << 8 | place->base, place->offset);
    emit(emitter, CAPTURE_LOAD, at, 8U << 8 | at, -entry);
    emit(emitter, CAPTURE_LEA, far, at, FARTHEST);
    emit_constant(emitter, limit, 2 * FARTHEST);
    emit(emitter, CAPTURE_ALU, far, CAPTURE_AT_MOST, limit);
    emit(emitter, CAPTURE_REQUIRE, far, CAPTURE_ODD, 0);
    emit(emitter, CAPTURE_LEA, far, place->base, place->offset);
    emit(emitter, CAPTURE_ALU, at, CAPTURE_ADD, far);
    emitter->temps = far;
    struct place there = {.kind = PLACE_MEMORY, .base = (uint8_t)at};
    emit_type(emitter, type, &there, depth, nest + 1);
    emit_block_end(emitter, block);
    emitter->temps = temps;
}

static void emit_member(struct emitter *emitter, Dwarf_Die *member, const struct place *place, unsigned depth,
                        unsigned nest)
{
    Dwarf_Die type;
    uint64_t bit = 0, bits = 0;
    const char *name = die_name(member);
    bool base = dwarf_tag(member) == DW_TAG_inheritance;
    bool has_type = type_of(member, &type);
    if (base) {
        char bracketed[256];
        const char *base_name = has_type ? die_name(&type) : NULL;
        struct buf name_of_base = BUF_INIT;
        cxx_name_put(&name_of_base, base_name ? base_name : "base");
        snprintf(bracketed, sizeof bracketed, "<%.250s>", name_of_base.data ? name_of_base.data : "");
        buf_done(&name_of_base);
        emit_name(&emitter->text, bracketed);
    } else
        emit_name(&emitter->text, name ? name : "");
    buf_putc(&emitter->text, ':');
    bool has_place = has_type && member_position(member, &bit, &bits);
    if (base && has_type && !has_place)
        emit_virtual_base(emitter, member, &type, place, depth, nest);
    else if (!has_place)
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
    else if (bits)
        emit_bit_field(emitter, &type, place, bit, bits);
    else {
        struct place at = place_at(place, bit / 8);
        emit_type(emitter, &type, &at, depth, nest + 1);
    }
}

/* Base classes that hold nothing but the C++ library's machinery. */
static bool is_empty_of_library(Dwarf_Die *base)
{
    Dwarf_Die type, child;
    const char *name = type_of(base, &type) && type_strip(&type, &type) ? die_name(&type) : NULL;
    if (!name || name[0] != '_' || die_flag(&type, DW_AT_declaration))
        return false;
    if (dwarf_child(&type, &child) == 0)
        do {
            int tag = dwarf_tag(&child);
            if ((tag == DW_TAG_member && !die_flag(&child, DW_AT_external)) || tag == DW_TAG_inheritance)
                return false;
        } while (dwarf_siblingof(&child, &child) == 0);
    return true;
}

static bool is_shown(Dwarf_Die *member)
{
    int tag = dwarf_tag(member);
    if (tag == DW_TAG_inheritance)
        return !is_empty_of_library(member);
    const char *name = dwarf_diename(member);
    uint64_t bits;
    if (tag != DW_TAG_member || die_flag(member, DW_AT_external) || die_flag(member, DW_AT_declaration))
        return false;
    if (!name && die_number(member, DW_AT_bit_size, &bits))
        return false; /* padding */
    return !name || strncmp(name, "_vptr", 5) != 0;
}

static void emit_struct(struct emitter *emitter, Dwarf_Die *type, const struct place *place, unsigned depth,
                        unsigned nest)
{
    Dwarf_Die child;
    unsigned count = 0;
    layout_put(emitter, type_kind_of(type) == TYPE_UNION ? "|{" : "{");
    if (dwarf_child(type, &child) == 0)
        do {
            if (!is_shown(&child))
                continue;
            if (count++)
                buf_putc(&emitter->text, ',');
            emit_member(emitter, &child, place, depth, nest);
        } while (count < MEMBERS && !emitter->failed && dwarf_siblingof(&child, &child) == 0);
    layout_put(emitter, "}");
}

/* ---- any type ---- */

static void emit_compound(struct emitter *emitter, Dwarf_Die *type, const struct place *place, unsigned depth,
                          unsigned nest)
{
    Dwarf_Die element;
    uint64_t counts[DIMENSIONS];
    const struct container *container = type_container(type);
    switch (type_kind_of(type)) {
    case TYPE_STRUCT:
    case TYPE_UNION:
        if (container)
            emit_container(emitter, container, type, place, depth, nest);
        else
            emit_struct(emitter, type, place, depth, nest);
        break;
    case TYPE_ARRAY: {
        unsigned dimensions = array_dimensions(type, counts, DIMENSIONS);
        bool dynamic = dimensions > 1;
        for (unsigned i = 1; i < dimensions; i++)
            dynamic &= counts[i] == UNKNOWN_COUNT;
        bool unknown = false;
        for (unsigned i = 0; i < dimensions; i++)
            unknown |= counts[i] == UNKNOWN_COUNT;
        if (unknown && die_is_fortran(type)) {
            emit_fortran_array(emitter, type, place, depth, nest);
            break;
        }
        if (dimensions == 0 || dynamic || !type_of(type, &element)) {
            layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
            break;
        }
        struct array array = {element, counts, dimensions, 0};
        emit_array(emitter, &array, place, depth, nest);
        break;
    }
    default:
        emit_raw(emitter, place, type_size(type));
    }
}

static void emit_simple(struct emitter *emitter, Dwarf_Die *type, const struct place *place, unsigned depth,
                        unsigned nest)
{
    Dwarf_Die pointee;
    uint64_t size = type_size(type);
    enum type_kind kind = type_kind_of(type);
    switch (kind) {
    case TYPE_POINTER:
    case TYPE_REFERENCE: {
        bool has_pointee = type_of(type, &pointee);
        /* what a parameter refers to is the parameter */
        bool follow = kind == TYPE_REFERENCE && nest == 0;
        emit_pointer(emitter, &pointee, has_pointee, place, kind == TYPE_REFERENCE, follow ? depth + 1 : depth, nest);
        break;
    }
    case TYPE_FUNCTION:
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
        break;
    default:
        if (layout_put_scalar(emitter, type, size))
            emit_bytes(emitter, place, size);
        else
            emit_raw(emitter, place, size);
    }
}

void emit_type(struct emitter *emitter, Dwarf_Die *type, const struct place *place, unsigned depth, unsigned nest)
{
    Dwarf_Die stripped;
    struct place in_memory;
    emitter_saw(emitter, emitter->text.len, emitter->code.len);
    if (emitter->text.len > emitter->text_limit || emitter->code.len > emitter->code_limit)
        emitter->failed = true;
    if (emitter->failed)
        return;
    if (place->kind == PLACE_OPTIMISED_OUT || place->kind == PLACE_NOT_AVAILABLE) {
        layout_put_missing(emitter, place->kind);
        return;
    }
    if (!type_strip(type, &stripped) ||
        (!type_container(&stripped) && !type_complete(emitter->types, &stripped, &stripped)) || nest > NEST_LIMIT) {
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
        return;
    }
    enum type_kind kind = type_kind_of(&stripped);
    uint64_t size = type_size(&stripped);
    bool text = dwarf_tag(&stripped) == DW_TAG_string_type;
    bool compound = kind == TYPE_STRUCT || kind == TYPE_UNION || kind == TYPE_ARRAY || text;
    unsigned temps = emitter->temps, scratch = emitter->scratch;
    if (place->kind == PLACE_PIECES || (place->kind != PLACE_MEMORY && (compound || size > 8))) {
        if (!(place->kind == PLACE_XMM && !compound && size <= 16)) {
            in_memory = emit_place_in_memory(emitter, place, size);
            place = &in_memory;
        }
    }
    if (place->kind == PLACE_NOT_AVAILABLE || (!compound && !place_is_there(place, size)))
        layout_put_missing(emitter, place->kind == PLACE_MEMORY ? PLACE_OPTIMISED_OUT : PLACE_NOT_AVAILABLE);
    else if (text)
        emit_fortran_text(emitter, &stripped, place);
    else if (compound)
        emit_compound(emitter, &stripped, place, depth, nest);
    else
        emit_simple(emitter, &stripped, place, depth, nest);
    emitter->temps = temps;
    emitter->scratch = scratch;
}
