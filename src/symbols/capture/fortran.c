/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts and arrays of Fortran, as far as only the program knows how long they are. Arrays of assumed shape, allocatable
 * ones and pointers have a descriptor: where the elements begin, and for each dimension the bounds and the distance of
 * two elements, which may be anything (every second one, backwards). The debug information has it all as expressions.
 */
#include <dwarf.h>

#include "symbols/capture/values.h"

enum { FORTRAN_DIMENSIONS = 4, FIRST = CAPTURE_LOWEST_ADDR /* where loops begin to count: as if it were an address */ };

static int attribute(struct emitter *emitter, Dwarf_Die *die, unsigned number, const struct place *object)
{
    return emitter->attribute ? emitter->attribute(emitter->attribute_ctx, emitter, die, number, object) : -1;
}

void emit_fortran_text(struct emitter *emitter, Dwarf_Die *type, const struct place *place)
{
    unsigned temps = emitter->temps;
    if (!dwarf_hasattr(type, DW_AT_string_length) && dwarf_hasattr(type, DW_AT_byte_size)) {
        emit_text(emitter, place, type_size(type));
        return;
    }
    int length = place->kind == PLACE_MEMORY ? attribute(emitter, type, DW_AT_string_length, place) : -1;
    if (length < 0) {
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
    } else {
        unsigned begin = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, begin, place->base, place->offset);
        layout_put(emitter, "S");
        emit_counted(emitter, CAPTURE_BYTES, begin, emitter->options->string, (unsigned)length, 1);
    }
    emitter->temps = temps;
}

/* ---- arrays ---- */

struct dimension {
    unsigned count, stride; /* numbers of values; the stride in bytes */
};

/* v[to] = an attribute; what is not there is `otherwise`. False: it is not to be had. */
static bool attribute_to(struct emitter *emitter, unsigned to, Dwarf_Die *die, unsigned number,
                         const struct place *object, const uint64_t *otherwise)
{
    unsigned temps = emitter->temps;
    if (otherwise && !dwarf_hasattr(die, number)) {
        emit_constant(emitter, to, *otherwise);
        return true;
    }
    int value = attribute(emitter, die, number, object);
    if (value >= 0)
        emit(emitter, CAPTURE_LEA, to, (unsigned)value, 0);
    emitter->temps = temps;
    return value >= 0;
}

/* v[count] = upper - lower + 1, and 0 if that is negative. */
static bool put_count(struct emitter *emitter, Dwarf_Die *range, const struct place *object, unsigned count)
{
    static const uint64_t first = 1;
    unsigned temps = emitter->temps, lower = emit_temp(emitter), bits = emit_temp(emitter);
    if (!attribute_to(emitter, lower, range, DW_AT_lower_bound, object, &first) ||
        !attribute_to(emitter, count, range, DW_AT_upper_bound, object, NULL))
        return false;
    emit(emitter, CAPTURE_ALU, count, CAPTURE_SUB, lower);
    emit(emitter, CAPTURE_LEA, count, count, 1);
    emit(emitter, CAPTURE_LEA, lower, count, 0);
    emit_constant(emitter, bits, 63);
    emit(emitter, CAPTURE_ALU, lower, CAPTURE_SAR, bits);
    emit_constant(emitter, bits, UINT64_MAX);
    emit(emitter, CAPTURE_ALU, lower, CAPTURE_XOR, bits);
    emit(emitter, CAPTURE_ALU, count, CAPTURE_AND, lower);
    emitter->temps = temps;
    return true;
}

/* Distances: given, or elements lie one behind the other. A given one of 0 was not set: v[data] becomes no address. */
static bool put_stride(struct emitter *emitter, Dwarf_Die *range, const struct place *object,
                       const struct dimension *before, uint64_t size, unsigned stride, unsigned data)
{
    unsigned temps = emitter->temps, good = emit_temp(emitter);
    if (!dwarf_hasattr(range, DW_AT_byte_stride)) {
        emit_constant(emitter, stride, size);
        if (before) {
            emit(emitter, CAPTURE_LEA, stride, before->stride, 0);
            emit(emitter, CAPTURE_ALU, stride, CAPTURE_MUL, before->count);
        }
    } else {
        if (!attribute_to(emitter, stride, range, DW_AT_byte_stride, object, NULL))
            return false;
        emit(emitter, CAPTURE_LEA, good, stride, 0);
        emit(emitter, CAPTURE_ALU, good, CAPTURE_DIV, stride); /* 0 or 1 */
        emit(emitter, CAPTURE_ALU, data, CAPTURE_MUL, good);
    }
    emitter->temps = temps;
    return true;
}

static int put_dimensions(struct emitter *emitter, Dwarf_Die *type, const struct place *object, uint64_t size,
                          unsigned data, struct dimension *ret_dimensions)
{
    Dwarf_Die child;
    int count = 0;
    if (dwarf_child(type, &child) != 0)
        return -1;
    do {
        if (dwarf_tag(&child) != DW_TAG_subrange_type)
            continue;
        if (count == FORTRAN_DIMENSIONS)
            return -1;
        struct dimension *dimension = &ret_dimensions[count];
        *dimension = (struct dimension){emit_temp(emitter), emit_temp(emitter)};
        if (!put_count(emitter, &child, object, dimension->count) ||
            !put_stride(emitter, &child, object, count > 0 ? dimension - 1 : NULL, size, dimension->stride, data))
            return -1;
        count++;
    } while (dwarf_siblingof(&child, &child) == 0);
    return count;
}

/* The last dimension is the outermost. False: there is nothing to be shown of the elements. */
static bool emit_dimensions(struct emitter *emitter, const struct dimension *dimensions, int count, Dwarf_Die *element,
                            unsigned data, unsigned depth, unsigned nest)
{
    if (count == 0) {
        struct place at = {.kind = PLACE_MEMORY, .base = (uint8_t)data};
        unsigned before = emitter->minimum;
        emit_type(emitter, element, &at, depth, nest + 1);
        return emitter->minimum > before;
    }
    const struct dimension *dimension = &dimensions[count - 1];
    unsigned index = emit_temp(emitter), at = emit_temp(emitter), max = emitter->options->array;
    struct capture_operand operand = {
        .stride = 1, .max = (uint16_t)(max < UINT16_MAX ? max : UINT16_MAX), .count = (uint8_t)dimension->count};
    layout_put(emitter, "v");
    emit_constant(emitter, index, FIRST);
    struct emitter_block block = emit_block_begin(emitter, CAPTURE_LOOP, index, &operand);
    emit(emitter, CAPTURE_LEA, at, index, -(int64_t)FIRST);
    emit(emitter, CAPTURE_ALU, at, CAPTURE_MUL, dimension->stride);
    emit(emitter, CAPTURE_ALU, at, CAPTURE_ADD, data);
    bool shown = emit_dimensions(emitter, dimensions, count - 1, element, at, depth, nest + 1);
    emit_block_end(emitter, block);
    return shown;
}

/* Of assumed size (`a(*)`): the last dimension has no upper bound, and nothing else says how many there are. */
static bool has_no_end(Dwarf_Die *type)
{
    Dwarf_Die child;
    bool endless = false;
    if (dwarf_hasattr(type, DW_AT_data_location) || dwarf_child(type, &child) != 0)
        return false;
    do
        if (dwarf_tag(&child) == DW_TAG_subrange_type)
            endless = !dwarf_hasattr(&child, DW_AT_upper_bound) && !dwarf_hasattr(&child, DW_AT_count);
    while (dwarf_siblingof(&child, &child) == 0);
    return endless;
}

void emit_fortran_array(struct emitter *emitter, Dwarf_Die *type, const struct place *place, unsigned depth,
                        unsigned nest)
{
    Dwarf_Die element, stripped;
    struct dimension dimensions[FORTRAN_DIMENSIONS];
    struct emitter_mark mark = emitter_mark(emitter);
    bool shown = false;
    if (has_no_end(type)) {
        layout_put(emitter, "w");
        return;
    }
    uint64_t size = type_of(type, &element) && type_strip(&element, &stripped) ? type_size(&stripped) : 0;
    if (size > 0 && place->kind == PLACE_MEMORY && !place->missing[0] && !place->missing[1] &&
        emitter->blocks + FORTRAN_DIMENSIONS + 4 < CAPTURE_BLOCKS) {
        unsigned data = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, data, place->base, place->offset);
        bool found = !dwarf_hasattr(type, DW_AT_data_location) ||
                     attribute_to(emitter, data, type, DW_AT_data_location, place, NULL);
        int count = found ? put_dimensions(emitter, type, place, size, data, dimensions) : -1;
        if (count > 0) {
            layout_put(emitter, "?");
            struct emitter_block block = emit_block_begin(emitter, CAPTURE_FOLLOW, data, NULL);
            shown = emit_dimensions(emitter, dimensions, count, &element, data, depth, nest);
            emit_block_end(emitter, block);
        }
    }
    if (!shown) {
        bool failed = emitter->failed;
        emitter_reset(emitter, &mark);
        emitter->failed |= failed;
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
    }
    emitter->temps = mark.temps;
}
