/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <inttypes.h>
#include <string.h>

#include "symbols/capture/internal.h"
#include "symbols/capture/site.h"
#include "symbols/code/step.h"

/*
 * Bounds of Fortran's arrays of explicit shape (`a(n, m)`). The compiler has a variable for each that is not constant,
 * and works them out as the first thing behind the entry hook. That code is followed until the variable is there; a
 * capture program can compute the same from what the registers and memory are at the hook.
 */

struct bound {
    const struct site *site;
    struct emitter *emitter;
    Dwarf_Attribute *attribute;
    unsigned size;         /* bytes that are wanted */
    struct place slot;     /* in memory: where it is to be stored */
    struct tracked stored; /* what is found */
    struct place place;    /* or this, if there is nothing to be followed */
};

/* The value does not depend on registers, but for what they were when the function was entered. */
static bool is_without_registers(const Dwarf_Op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((ops[i].atom >= DW_OP_reg0 && ops[i].atom <= DW_OP_bregx) || ops[i].atom == DW_OP_call_frame_cfa)
            return false;
    return count > 0 && ops[count - 1].atom == DW_OP_stack_value;
}

static bool slot_is_stored(struct bound *bound, const struct track *now, unsigned base, int64_t offset)
{
    for (unsigned i = 0; i < now->slot_count; i++)
        if (now->slots[i].base == base && now->slots[i].offset == offset) {
            bound->stored = now->slots[i].value;
            return true;
        }
    return false;
}

/* Whether a location list has a location here. */
static bool is_listed(struct bound *bound, const struct track *now, uint64_t at)
{
    struct capture_compiler *compiler = bound->site->job->compiler;
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_getlocation_addr(bound->attribute, at - compiler->dwarf_bias, &ops, &count, 1) != 1 || count == 0)
        return false;
    if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg15) {
        bound->stored = now->values[ops[0].atom - DW_OP_reg0];
        return true;
    }
    struct location location = {.compiler = compiler,
                                .emitter = bound->emitter,
                                .function = (Dwarf_Die *)&bound->site->function,
                                .pc = at,
                                .entry = bound->site->tracked ? &bound->site->track : NULL};
    location_evaluate(&location, ops, count, bound->attribute, &bound->place);
    if (is_without_registers(ops, count) && !now->memory_lost)
        return true;
    bool slot = count == 1 && ops[0].atom == DW_OP_fbreg && bound->place.kind == PLACE_MEMORY;
    struct tracked base = now->values[slot ? bound->place.base : 0];
    if (slot && is_address(base))
        slot_is_stored(bound, now, base.base, base.add + bound->place.offset);
    bound->place.kind = PLACE_NOT_AVAILABLE;
    return true;
}

static bool is_there(void *ctx, const struct track *now, uint64_t at)
{
    struct bound *bound = ctx;
    if (bound->slot.kind == PLACE_MEMORY)
        return slot_is_stored(bound, now, bound->slot.base, bound->slot.offset);
    return is_listed(bound, now, at);
}

/* Follows the code from the site on. */
static bool bound_follow(struct bound *bound, struct place *ret_place)
{
    const struct site *site = bound->site;
    struct capture_compiler *compiler = site->job->compiler;
    struct track_nodes nodes;
    struct track now;
    uint8_t frame;
    int64_t cfa;
    if (site->patched)
        track_start_entry(&now, &nodes, &compiler->code);
    else if (location_cfa(compiler, site->pc, &frame, &cfa))
        track_start_behind(&now, &nodes, &compiler->code, frame);
    else
        return false;
    if (!track_behind(&now, site->returns, is_there, bound))
        return false;
    *ret_place = bound->place;
    return bound->place.kind != PLACE_OPTIMISED_OUT && bound->place.kind != PLACE_NOT_AVAILABLE
               ? true
               : site_place_of(&now, bound->stored, bound->size, bound->emitter, ret_place);
}

bool site_locate_bound(const struct site *site, struct emitter *emitter, Dwarf_Die *variable, struct place *ret_place)
{
    struct capture_compiler *compiler = site->job->compiler;
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    if (site->kind != CAPTURE_ENTRY || !dwarf_attr_integrate(variable, DW_AT_location, &attribute))
        return false;
    struct bound bound = {.site = site, .emitter = emitter, .size = sizeof(uint64_t), .attribute = &attribute};
    if (dwarf_getlocation(&attribute, &ops, &count) == 0) {
        struct location location = {.compiler = compiler,
                                    .emitter = emitter,
                                    .function = (Dwarf_Die *)&site->function,
                                    .pc = site->pc,
                                    .start = site->patched};
        location_evaluate(&location, ops, count, &attribute, &bound.slot);
        if (bound.slot.kind != PLACE_MEMORY || !bound.slot.frame)
            return false;
    }
    return bound_follow(&bound, ret_place);
}

bool site_locate_stored(const struct site *site, struct emitter *emitter, const struct place *slot, unsigned size,
                        struct place *ret_place)
{
    struct bound bound = {.site = site, .emitter = emitter, .slot = *slot, .size = size};
    return slot->kind == PLACE_MEMORY && slot->frame && bound_follow(&bound, ret_place);
}

/* Arrays: as text, as numbers one after the other, or as elements that each have a layout of their own. */

/* Fortran's bounds are any, the first index is the fastest; what has a descriptor (allocatable, part of another array)
 * has its bounds and its place in that. */
static uint64_t fortran_count(Dwarf_Die *array, Dwarf_Die *range)
{
    uint64_t lower = 1, upper;
    if (dwarf_hasattr(array, DW_AT_data_location) || dwarf_hasattr(range, DW_AT_byte_stride) ||
        (dwarf_hasattr(range, DW_AT_lower_bound) && !die_number(range, DW_AT_lower_bound, &lower)) ||
        !die_number(range, DW_AT_upper_bound, &upper))
        return UNKNOWN_COUNT;
    int64_t count;
    if (__builtin_sub_overflow((int64_t)upper, (int64_t)lower, &count) || count == INT64_MAX)
        return UNKNOWN_COUNT;
    return count < 0 ? 0 : (uint64_t)count + 1;
}

unsigned array_dimensions(Dwarf_Die *array, uint64_t *ret_counts, unsigned max)
{
    Dwarf_Die child;
    unsigned count = 0;
    bool fortran = die_is_fortran(array);
    if (dwarf_child(array, &child) != 0)
        return 0;
    do {
        if (dwarf_tag(&child) != DW_TAG_subrange_type)
            continue;
        uint64_t number;
        ret_counts[count] = UNKNOWN_COUNT;
        if (fortran)
            ret_counts[count] = fortran_count(array, &child);
        else if (die_number(&child, DW_AT_count, &number))
            ret_counts[count] = number;
        else if (die_number(&child, DW_AT_upper_bound, &number)) {
            Dwarf_Attribute attribute;
            unsigned form = dwarf_whatform(dwarf_attr(&child, DW_AT_upper_bound, &attribute));
            bool negative = number == UINT64_MAX || (form == DW_FORM_data4 && number == UINT32_MAX);
            ret_counts[count] = negative ? 0 : number + 1;
        }
        count++;
    } while (count < max && dwarf_siblingof(&child, &child) == 0);
    for (unsigned i = 0; fortran && i < count / 2; i++) {
        uint64_t first = ret_counts[i];
        ret_counts[i] = ret_counts[count - 1 - i];
        ret_counts[count - 1 - i] = first;
    }
    if (fortran && count == max) /* perhaps not all of them */
        ret_counts[0] = UNKNOWN_COUNT;
    return count;
}

static void emit_element(struct emitter *emitter, const struct array *array, const struct place *place, unsigned depth,
                         unsigned nest)
{
    if (array->dimensions > 1) {
        struct array inner = {array->element, array->counts + 1, array->dimensions - 1, 0};
        emit_array(emitter, &inner, place, depth, nest + 1);
    } else {
        Dwarf_Die element = array->element;
        emit_type(emitter, &element, place, depth, nest + 1);
    }
}

/* Elements of which parts are missing, each with a text of its own: as a struct without names. */
static void emit_odd_elements(struct emitter *emitter, const struct array *array, uint64_t wanted, bool cut,
                              const struct place *place, unsigned depth, unsigned nest)
{
    layout_put(emitter, "{");
    for (uint64_t n = 0; n < wanted; n++) {
        struct place at = place_at(place, n * array->stride);
        layout_put(emitter, n > 0 ? ",:" : ":");
        emit_element(emitter, array, &at, depth, nest);
    }
    layout_put(emitter, cut ? ",:k}" : "}");
}

/* Elements that are not plain numbers, one after the other: those whose text is that of the first. */
static unsigned emit_elements(struct emitter *emitter, const struct array *array, uint64_t wanted,
                              const struct place *place, unsigned depth, unsigned nest)
{
    size_t text = emitter->text.len, first = 0;
    unsigned n = 0;
    for (; n < wanted; n++) {
        struct emitter_mark mark = emitter_mark(emitter);
        struct place at = place_at(place, n * array->stride);
        emit_element(emitter, array, &at, depth, nest);
        emitter->temps = mark.temps;
        if (n == 0) {
            first = emitter->text.len - text;
            if (emitter->minimum == mark.minimum)
                break; /* elements without bytes */
            continue;
        }
        size_t length = emitter->text.len - mark.text;
        bool same = length == first && memcmp(emitter->text.data + text, emitter->text.data + mark.text, length) == 0;
        bool full = emitter->minimum > emitter->options->bytes / 4 * 3;
        if (emitter->failed || !same || full) {
            emitter->cut |= full && emitter->blocks == 0;
            emitter_reset(emitter, &mark);
            break;
        }
        emitter->text.len = mark.text;
    }
    return n;
}

/* Text of `total` characters. */
static void emit_text(struct emitter *emitter, const struct place *place, uint64_t total)
{
    uint64_t wanted = emitter->options->string < total ? emitter->options->string : total;
    if (wanted > emitter->options->bytes / 4 * 3)
        wanted = emitter->options->bytes / 4 * 3;
    if (!place_is_there(place, wanted)) {
        layout_put_missing(emitter, PLACE_OPTIMISED_OUT);
        return;
    }
    buf_printf(&emitter->text, "t%" PRIu64 "/%" PRIu64, wanted, total);
    emit_bytes(emitter, place, wanted);
}

void emit_array(struct emitter *emitter, const struct array *array_of, const struct place *place, unsigned depth,
                unsigned nest)
{
    struct array array = *array_of;
    struct buf *text = &emitter->text;
    Dwarf_Die stripped;
    if (!type_strip(&array.element, &stripped)) {
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
        return;
    }
    uint64_t size = type_size(&stripped), total = array.counts[0];
    array.stride = size;
    for (unsigned i = 1; i < array.dimensions; i++)
        if (__builtin_mul_overflow(array.stride, array.counts[i], &array.stride))
            array.stride = 0;
    bool last = array.dimensions == 1;
    bool is_text = last && type_kind_of(&stripped) == TYPE_CHAR && size == 1;
    uint64_t wanted = emitter->options->array < total ? emitter->options->array : total;
    /* how many there are, only the program knows (int line[n]), or nobody (char rest[]): not to be shown as none */
    if (total == UNKNOWN_COUNT || array.stride == 0 || array.stride > INT32_MAX / 2) {
        layout_put_missing(emitter, PLACE_NOT_AVAILABLE);
        return;
    }
    if (is_text) {
        emit_text(emitter, place, total);
        return;
    }
    if (wanted * array.stride > emitter->options->bytes / 4 * 3 && type_is_scalar(&stripped))
        wanted = emitter->options->bytes / 4 * 3 / array.stride;
    if (last && type_is_scalar(&stripped) && wanted > 0 && place_is_there(place, wanted * size)) {
        buf_printf(text, "a%" PRIu64 "/%" PRIu64, wanted, total);
        if (layout_put_scalar(emitter, &stripped, size))
            emit_bytes(emitter, place, wanted * size);
        else
            emitter->failed = true;
        return;
    }
    if (place->missing[0] || place->missing[1]) {
        emit_odd_elements(emitter, &array, wanted, wanted < total, place, depth, nest);
        return;
    }
    struct buf inner = BUF_INIT;
    size_t begin = text->len;
    unsigned shown = emit_elements(emitter, &array, wanted, place, depth, nest);
    buf_append(&inner, text->data + begin, text->len - begin);
    text->len = begin;
    buf_printf(text, "a%u/%" PRIu64, shown, total);
    buf_append(text, shown > 0 ? inner.data : "o", shown > 0 ? inner.len : 1);
    emitter->failed |= inner.failed;
    buf_done(&inner);
}

/*
 * Texts and arrays of Fortran, as far as only the program knows how long they are. Arrays of assumed shape, allocatable
 * ones and pointers have a descriptor: where the elements begin, and for each dimension the bounds and the distance of
 * two elements, which may be anything (every second one, backwards). The debug information has it all as expressions.
 */

enum { FORTRAN_DIMENSIONS = 4, FIRST = CAPTURE_LOWEST_ADDR /* where loops begin to count: as if it were an address */ };

static int emit_attribute(struct emitter *emitter, Dwarf_Die *die, unsigned number, const struct place *object)
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
    int length = place->kind == PLACE_MEMORY ? emit_attribute(emitter, type, DW_AT_string_length, place) : -1;
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
    int value = emit_attribute(emitter, die, number, object);
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
