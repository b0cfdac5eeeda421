/* SPDX-License-Identifier: Apache-2.0 */

#include <ctype.h>
#include <dwarf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/number.h"
#include "shm/code.h"
#include "symbols/capture/internal.h"
#include "symbols/client/client.h"

/* Numbers and indexes of conditions. All functions: 0, or -EINVAL with what is wrong, and where, in *parser->problem. */

struct parser { /* of one expression */
    struct emitter *emitter;
    const char *text, *at;
    numbers_find_fn *find;
    void *ctx;
    struct number_problem *problem;
    unsigned nest;
    bool calculates; /* indexes; else they are integers */
};

static inline int parser_fail(struct parser *parser, enum number_problem_kind kind)
{
    *parser->problem = (struct number_problem){.kind = kind, .at = (unsigned)(parser->at - parser->text) + 1};
    return -EINVAL;
}

enum { NEST_LIMIT = 16 };

static inline void skip_blanks(struct parser *parser)
{
    while (*parser->at == ' ' || *parser->at == '\t')
        parser->at++;
}

/* An identifier, with :: in C++; file.c: and function: in front belong to it. */
static inline size_t name_length(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '$' || (unsigned char)at[n] >= 0x80 ||
           (at[n] == ':' && at[n + 1] == ':' && (isalpha((unsigned char)at[n + 2]) || at[n + 2] == '_')) ||
           (n > 0 && at[n] == ':' && at[n - 1] == ':'))
        n++;
    return isdigit((unsigned char)*at) ? 0 : n;
}

static int numbers_unary(struct parser *parser, struct resolved *at);
static int indexes_follow(struct parser *parser, struct resolved *at, unsigned dimensions, const uint64_t *counts);
static bool numbers_is_sizeof(const struct parser *parser);
static int numbers_size_of(struct parser *parser, int64_t *ret_size);

/*
 * Expressions that name a part of a variable:
 *
 *     expression:  ('*' | '&')* ('(' expression ')' | name) ('.' name | '->' name | '[' index ']')*
 *
 * and their values as numbers for conditions. References are what they refer to; members may be those of base classes
 * and of anonymous structs; std::vector can be indexed. Indexes: capture/indexes.c.
 */

/* Of a name that stands here. */
static int parser_fail_unknown(struct parser *parser, enum number_problem_kind kind, size_t length)
{
    int r = parser_fail(parser, kind);
    snprintf(parser->problem->name, sizeof parser->problem->name, "%.*s", (int)length, parser->at);
    return r;
}

/* ---- places ---- */

static int in_memory(struct parser *parser, struct resolved *at)
{
    if (at->place.kind == PLACE_MEMORY)
        return 0;
    if (at->place.kind == PLACE_OPTIMISED_OUT || at->place.kind == PLACE_NOT_AVAILABLE)
        return parser_fail(parser, at->place.kind == PLACE_OPTIMISED_OUT ? NUMBER_OPTIMISED_OUT : NUMBER_NOT_AVAILABLE);
    at->place = emit_place_in_memory(parser->emitter, &at->place, type_size(&at->type));
    return at->place.kind == PLACE_MEMORY ? 0 : parser_fail(parser, NUMBER_NOT_AVAILABLE);
}

/* Goes on behind the pointer at the place. */
static int parser_follow(struct parser *parser, struct resolved *at, Dwarf_Die *pointee)
{
    if (at->bits)
        return parser_fail(parser, NUMBER_NO_POINTER);
    int value = emit_load(parser->emitter, &at->place, 8);
    if (value < 0)
        return parser_fail(parser, at->place.kind == PLACE_OPTIMISED_OUT ? NUMBER_OPTIMISED_OUT : NUMBER_NOT_AVAILABLE);
    at->place = (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)value};
    at->type = *pointee;
    return 0;
}

static int parser_follow_reference(struct parser *parser, struct resolved *at)
{
    Dwarf_Die stripped, pointee;
    if (type_strip(&at->type, &stripped) && type_kind_of(&stripped) == TYPE_REFERENCE && type_of(&stripped, &pointee))
        return parser_follow(parser, at, &pointee);
    return 0;
}

static int parser_dereference(struct parser *parser, struct resolved *at)
{
    Dwarf_Die stripped, pointee;
    if (at->address) {
        at->address = false;
        return 0;
    }
    if (!type_strip(&at->type, &stripped))
        return parser_fail(parser, NUMBER_NO_POINTER);
    enum type_kind kind = type_kind_of(&stripped);
    if (kind == TYPE_ARRAY && type_of(&stripped, &pointee)) {
        at->type = pointee;
        return in_memory(parser, at);
    }
    uint64_t offset;
    if (kind == TYPE_STRUCT && container_pointer(&stripped, false, &offset, &pointee)) {
        at->place = place_at(&at->place, offset);
        return parser_follow(parser, at, &pointee);
    }
    if (kind != TYPE_POINTER || !type_of(&stripped, &pointee))
        return parser_fail(parser, NUMBER_NO_POINTER);
    int r = parser_follow(parser, at, &pointee);
    return r < 0 ? r : parser_follow_reference(parser, at);
}

/* Finds a member by name, also in bases and unnamed members. Adds its position. */
static bool find_member(Dwarf_Die *type, const char *name, size_t length, unsigned nest, struct resolved *at,
                        uint64_t *bit)
{
    Dwarf_Die stripped, child, inner;
    if (nest > NEST_LIMIT || !type_strip(type, &stripped) || dwarf_child(&stripped, &child) != 0)
        return false;
    do {
        uint64_t position, bits;
        int tag = dwarf_tag(&child);
        const char *there = dwarf_diename(&child);
        if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || !type_of(&child, &inner) ||
            !member_position(&child, &position, &bits))
            continue;
        if (tag == DW_TAG_member && there && strlen(there) == length && memcmp(there, name, length) == 0) {
            at->type = inner;
            at->bits = bits;
            *bit += position;
            return true;
        }
        uint64_t inside = *bit + position;
        if ((tag == DW_TAG_inheritance || !there) && find_member(&inner, name, length, nest + 1, at, &inside)) {
            *bit = inside;
            return true;
        }
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

static int parse_member(struct parser *parser, struct resolved *at)
{
    skip_blanks(parser);
    size_t length = name_length(parser->at);
    Dwarf_Die stripped;
    uint64_t bit = 0;
    if (length == 0)
        return parser_fail(parser, NUMBER_NO_EXPRESSION);
    if (!type_strip(&at->type, &stripped) ||
        (type_kind_of(&stripped) != TYPE_STRUCT && type_kind_of(&stripped) != TYPE_UNION))
        return parser_fail(parser, NUMBER_NO_STRUCT);
    int r = in_memory(parser, at);
    if (r < 0)
        return r;
    if (!type_complete(parser->emitter->types, &stripped, &stripped) ||
        !find_member(&stripped, parser->at, length, 0, at, &bit))
        return parser_fail_unknown(parser, NUMBER_NO_MEMBER, length);
    at->place = place_at(&at->place, bit / 8);
    at->bit = bit % 8;
    parser->at += length;
    return at->bits ? 0 : parser_follow_reference(parser, at);
}

/* [i] or, of arrays of arrays, all of [i][j]... at once. */
static int parse_element(struct parser *parser, struct resolved *at)
{
    Dwarf_Die stripped, type;
    if (!type_strip(&at->type, &stripped))
        return parser_fail(parser, NUMBER_NO_ARRAY);
    uint64_t counts[8], pointer_at;
    unsigned dimensions = 1;
    bool array = type_kind_of(&stripped) == TYPE_ARRAY;
    int r = 0;
    if (array) {
        dimensions = array_dimensions(&stripped, counts, 8);
        for (unsigned i = 0; i < dimensions; i++)
            if (counts[i] == UINT64_MAX && die_is_fortran(&stripped))
                return parser_fail(parser, NUMBER_NO_BOUNDS);
        r = type_of(&stripped, &type) ? in_memory(parser, at) : parser_fail(parser, NUMBER_NO_ARRAY);
        at->type = type;
    } else if (type_kind_of(&stripped) == TYPE_STRUCT && container_pointer(&stripped, true, &pointer_at, &type)) {
        at->place = place_at(&at->place, pointer_at);
        r = parser_follow(parser, at, &type);
    } else
        r = parser_dereference(parser, at);
    if (r == 0)
        r = indexes_follow(parser, at, dimensions, counts);
    return r < 0 ? r : parser_follow_reference(parser, at);
}

static int parse_primary(struct parser *parser, struct resolved *at)
{
    skip_blanks(parser);
    if (*parser->at == '(') {
        if (++parser->nest > NEST_LIMIT)
            return parser_fail(parser, NUMBER_TOO_DEEP);
        parser->at++;
        int r = numbers_unary(parser, at);
        skip_blanks(parser);
        if (r == 0 && *parser->at != ')')
            r = parser_fail(parser, NUMBER_NO_EXPRESSION);
        parser->at += r == 0;
        return r;
    }
    size_t length = name_length(parser->at);
    if (length == 0)
        return parser_fail(parser, NUMBER_NO_EXPRESSION);
    *at = (struct resolved){0};
    if (!parser->find(parser->ctx, parser->emitter, parser->at, length, &at->type, &at->place))
        return parser_fail_unknown(parser, NUMBER_NO_VARIABLE, length);
    parser->at += length;
    return parser_follow_reference(parser, at);
}

static int parse_postfix(struct parser *parser, struct resolved *at)
{
    int r = parse_primary(parser, at);
    while (r == 0) {
        skip_blanks(parser);
        if (at->address && (*parser->at == '.' || *parser->at == '['))
            return parser_fail(parser, NUMBER_NO_STRUCT);
        if (*parser->at == '.') {
            parser->at++;
            r = parse_member(parser, at);
        } else if (parser->at[0] == '-' && parser->at[1] == '>') {
            r = parser_dereference(parser, at);
            parser->at += 2;
            if (r == 0)
                r = parse_member(parser, at);
        } else if (*parser->at == '[')
            r = parse_element(parser, at);
        else
            break;
    }
    return r;
}

/* An expression as far as it goes: what it names. Blanks may be left behind it. */
static int numbers_unary(struct parser *parser, struct resolved *at)
{
    skip_blanks(parser);
    char op = *parser->at;
    if (op != '*' && op != '&')
        return parse_postfix(parser, at);
    if (++parser->nest > NEST_LIMIT)
        return parser_fail(parser, NUMBER_TOO_DEEP);
    parser->at++;
    int r = numbers_unary(parser, at);
    if (r < 0)
        return r;
    if (op == '*')
        return parser_dereference(parser, at);
    if (at->place.kind != PLACE_MEMORY || at->bits || at->address)
        return parser_fail(parser, NUMBER_NO_ADDRESS);
    at->address = true;
    return 0;
}

static bool is_all(struct parser *parser)
{
    skip_blanks(parser);
    return *parser->at == 0 || parser_fail(parser, NUMBER_NO_EXPRESSION) == 0;
}

bool numbers_resolve(struct emitter *emitter, const char *expression, numbers_find_fn *find, void *ctx,
                     struct resolved *ret_resolved, struct err *err)
{
    struct number_problem problem = {0};
    struct parser parser = {emitter, expression, expression, find, ctx, &problem, 0, false};
    if (numbers_unary(&parser, ret_resolved) == 0 && is_all(&parser))
        return true;
    struct buf text = BUF_INIT;
    number_problem_print(&problem, expression, &text);
    err_set(err, -EINVAL, "%s", text.failed ? "out of memory" : text.data);
    buf_done(&text);
    return false;
}

/* ---- numbers ---- */

/* What conditions and indexes see as an integer; pointers are none. */
static bool numbers_is_whole(enum type_kind kind)
{
    return kind == TYPE_SIGNED || kind == TYPE_UNSIGNED || kind == TYPE_CHAR || kind == TYPE_BOOL || kind == TYPE_ENUM;
}

static bool emit_address(struct emitter *emitter, const struct place *place)
{
    unsigned temp = emit_temp(emitter);
    emit(emitter, CAPTURE_LEA, temp, place->base, place->offset);
    emit(emitter, CAPTURE_VALUE, temp, 8, 0);
    return place->kind == PLACE_MEMORY;
}

static bool emit_real(struct emitter *emitter, const struct place *place, uint64_t size)
{
    if (size == 16) {
        struct place head = place_at(place, 8);
        if (place->kind != PLACE_MEMORY)
            return false;
        int low = emit_load(emitter, place, 8), high = emit_load(emitter, &head, 2);
        emit(emitter, CAPTURE_FLOAT, (unsigned)low & 63, 10, high);
        return low >= 0 && high >= 0;
    }
    int value = emit_load(emitter, place, (unsigned)size);
    if (value < 0)
        return false;
    emit(emitter, size == 4 ? CAPTURE_FLOAT : CAPTURE_VALUE, (unsigned)value, size == 4 ? 4 : 8, 0);
    return true;
}

/* Eight bytes of what was resolved. */
static int emit_bits_of(struct parser *parser, struct resolved *at, enum code_type *ret_type)
{
    struct emitter *emitter = parser->emitter;
    Dwarf_Die stripped;
    *ret_type = CODE_UNSIGNED;
    if (at->address)
        return emit_address(emitter, &at->place) ? 0 : parser_fail(parser, NUMBER_NO_ADDRESS);
    if (!type_strip(&at->type, &stripped))
        return parser_fail(parser, NUMBER_NO_NUMBER);
    uint64_t size = type_size(&stripped), bits = at->bits ? at->bits : size * 8;
    enum type_kind kind = type_kind_of(&stripped);
    if (kind == TYPE_ARRAY)
        return emit_address(emitter, &at->place) ? 0 : parser_fail(parser, NUMBER_NO_ADDRESS);
    if (kind == TYPE_FLOAT) {
        *ret_type = size == 4 ? CODE_SINGLE : CODE_FLOATING;
        return emit_real(emitter, &at->place, size) ? 0 : parser_fail(parser, NUMBER_NOT_AVAILABLE);
    }
    uint64_t bytes = (at->bit + bits + 7) / 8;
    if (!(numbers_is_whole(kind) || kind == TYPE_POINTER) || bytes == 0 || bytes > 8)
        return parser_fail(parser, NUMBER_NO_NUMBER);
    bool known = at->place.size == 0 || at->place.size >= bytes;
    bool is_signed = kind != TYPE_POINTER && kind != TYPE_BOOL && type_is_signed(&stripped);
    int value = known ? emit_load(emitter, &at->place, (unsigned)bytes) : -1;
    if (value < 0)
        return parser_fail(parser, at->place.kind == PLACE_OPTIMISED_OUT ? NUMBER_OPTIMISED_OUT : NUMBER_NOT_AVAILABLE);
    *ret_type = is_signed ? CODE_SIGNED : CODE_UNSIGNED;
    emit(emitter, CAPTURE_BITS, (unsigned)value, 8, (int64_t)CAPTURE_BITS_OFF(at->bit, bits, (uint64_t)is_signed));
    return 0;
}

static int emit_size_of(struct parser *parser, enum code_type *ret_type)
{
    int64_t size;
    if (numbers_size_of(parser, &size) < 0 || !is_all(parser))
        return -EINVAL;
    unsigned temp = emit_temp(parser->emitter);
    emit_constant(parser->emitter, temp, (uint64_t)size);
    emit(parser->emitter, CAPTURE_VALUE, temp, 8, 0);
    *ret_type = CODE_UNSIGNED;
    return 0;
}

static int emit_number(struct parser *parser, enum code_type *ret_type)
{
    struct resolved at = {0};
    if (numbers_is_sizeof(parser))
        return emit_size_of(parser, ret_type);
    int r = numbers_unary(parser, &at);
    return r < 0 || !is_all(parser) ? -EINVAL : emit_bits_of(parser, &at, ret_type);
}

static void emit_missing(struct emitter *emitter)
{
    struct place type = {.kind = PLACE_CONSTANT, .constant = CODE_MISSING}, zero = {.kind = PLACE_CONSTANT};
    unsigned temps = emitter->temps;
    emit_bytes(emitter, &type, 1);
    emit_bytes(emitter, &zero, 8);
    emitter->temps = temps;
}

bool numbers_emit(struct emitter *emitter, const char *expression, numbers_find_fn *find, void *ctx,
                  struct number_problem *ret_problem)
{
    struct emitter_mark mark = emitter_mark(emitter);
    enum code_type type = CODE_MISSING;
    struct emitter_block block = emit_number_begin(emitter);
    struct parser parser = {emitter, expression, expression, find, ctx, ret_problem, 0, true};
    bool good = emit_number(&parser, &type) == 0;
    if (good && emitter->failed)
        good = parser_fail(&parser, NUMBER_TOO_DEEP) == 0;
    emit_number_end(emitter, block, type);
    if (!good || emitter->failed) {
        emitter_reset(emitter, &mark);
        emit_missing(emitter);
    }
    emitter->temps = mark.temps;
    emitter->scratch = mark.scratch;
    return good;
}

/*
 * What stands in the brackets of an expression, and behind sizeof:
 *
 *     index:   expression | integer | 'x' | sizeof | ('-' | '+' | '~' | '(' type ')') index | '(' index ')' |
 *              index operator index, with C's operators of integers that calculate
 *     sizeof:  'sizeof' '(' (expression | type) ')'
 *
 * Indexes are calculated in 64 bits, with sign.
 */

struct term { /* part of an index */
    bool known;
    int64_t number;
    unsigned value; /* unless it is known: v[value] has it */
};

/* A temporary number of its own that has it. */
static unsigned term_copy(struct parser *parser, struct term term)
{
    unsigned temp = emit_temp(parser->emitter);
    if (term.known)
        emit_constant(parser->emitter, temp, (uint64_t)term.number);
    else
        emit(parser->emitter, CAPTURE_LEA, temp, term.value, 0);
    return temp;
}

static int join_known(struct parser *parser, enum capture_alu how, int64_t a, int64_t b, int64_t *ret_number)
{
    bool large = how == CAPTURE_ADD   ? __builtin_add_overflow(a, b, ret_number)
                 : how == CAPTURE_SUB ? __builtin_sub_overflow(a, b, ret_number)
                 : how == CAPTURE_MUL ? __builtin_mul_overflow(a, b, ret_number)
                                      : false;
    if (large)
        return parser_fail(parser, NUMBER_LARGE_INDEX);
    if ((how == CAPTURE_DIV_SIGNED || how == CAPTURE_MOD) && b == 0)
        return parser_fail(parser, NUMBER_INDEX_BY_0);
    if (how == CAPTURE_MOD)
        *ret_number = b == -1 ? 0 : a % b;
    else if (how > CAPTURE_MUL)
        *ret_number = (int64_t)capture_compute(how, (uint64_t)a, (uint64_t)b);
    return 0;
}

static unsigned emit_join(struct parser *parser, enum capture_alu how, struct term a, unsigned b)
{
    unsigned result = term_copy(parser, a);
    emit(parser->emitter, CAPTURE_ALU, result, how, b);
    return result;
}

/* The lowest temporary number that a and b have, or the next one: what is above is free once they are joined. */
static unsigned terms_lowest(const struct emitter *emitter, struct term a, struct term b)
{
    unsigned low = emitter->temps;
    if (!a.known && a.value >= CAPTURE_TEMP && a.value < low)
        low = a.value;
    return !b.known && b.value >= CAPTURE_TEMP && b.value < low ? b.value : low;
}

/* CAPTURE_MOD has a sign here. */
static int terms_join(struct parser *parser, enum capture_alu how, struct term a, struct term b, struct term *ret_term)
{
    if (a.known && b.known) {
        ret_term->known = true;
        return join_known(parser, how, a.number, b.number, &ret_term->number);
    }
    struct emitter *emitter = parser->emitter;
    unsigned low = terms_lowest(emitter, a, b), right = b.known ? term_copy(parser, b) : b.value;
    if (how == CAPTURE_DIV_SIGNED || how == CAPTURE_MOD)
        emit(emitter, CAPTURE_REQUIRE, right, CAPTURE_INVALID, 0);
    unsigned result = emit_join(parser, how == CAPTURE_MOD ? CAPTURE_DIV_SIGNED : how, a, right);
    if (how == CAPTURE_MOD) {
        emit(emitter, CAPTURE_ALU, result, CAPTURE_MUL, right);
        result = emit_join(parser, CAPTURE_SUB, a, result);
    }
    if (emitter->failed)
        return parser_fail(parser, NUMBER_TOO_DEEP);
    if (result != low)
        emit(emitter, CAPTURE_LEA, low, result, 0);
    emitter->temps = low + 1;
    *ret_term = (struct term){.value = low};
    return 0;
}

/* The number of `bits` bits from bit `bit` on. */
static int terms_cut(struct parser *parser, struct term term, uint64_t bit, uint64_t bits, bool is_signed,
                     struct term *ret_term)
{
    const struct term left = {.known = true, .number = (int64_t)(64 - bits - bit)},
                      right = {.known = true, .number = (int64_t)(64 - bits)};
    int r = terms_join(parser, CAPTURE_SHL, term, left, &term);
    return r < 0 ? r : terms_join(parser, is_signed ? CAPTURE_SAR : CAPTURE_SHR, term, right, ret_term);
}

/* `scratch`: what was used of it before the expression, which is not needed once its value is there. */
static int term_of(struct parser *parser, struct resolved *at, unsigned scratch, struct term *ret_term)
{
    Dwarf_Die stripped;
    uint64_t bits = at->bits;
    if (at->address || !type_strip(&at->type, &stripped) || !numbers_is_whole(type_kind_of(&stripped)))
        return parser_fail(parser, NUMBER_NO_INDEX);
    if (!bits)
        bits = type_size(&stripped) * 8;
    uint64_t bytes = (at->bit + bits + 7) / 8;
    bool known = bytes > 0 && bytes <= 8 && (at->place.size == 0 || at->place.size >= bytes);
    int value = known ? emit_load(parser->emitter, &at->place, (unsigned)bytes) : -1;
    if (value < 0)
        return parser_fail(parser, NUMBER_NOT_AVAILABLE);
    parser->emitter->scratch = scratch;
    return terms_cut(parser, (struct term){.value = (unsigned)value}, at->bit, bits,
                     type_kind_of(&stripped) != TYPE_BOOL && type_is_signed(&stripped), ret_term);
}

/* `sizeof(...)`: nothing is read for it. */
static bool numbers_is_sizeof(const struct parser *parser)
{
    return name_length(parser->at) == 6 && memcmp(parser->at, "sizeof", 6) == 0;
}

static int numbers_size_of(struct parser *parser, int64_t *ret_size)
{
    struct number_type type;
    struct resolved at = {0};
    parser->at += strlen("sizeof");
    skip_blanks(parser);
    size_t length = number_type_read(parser->at, &type);
    parser->at += length;
    if (length) {
        *ret_size = (type.bits + 7) / 8;
        return 0;
    }
    if (*parser->at != '(')
        return parser_fail(parser, NUMBER_NO_EXPRESSION);
    struct emitter_mark mark = emitter_mark(parser->emitter);
    parser->at++;
    int r = numbers_unary(parser, &at);
    emitter_reset(parser->emitter, &mark);
    skip_blanks(parser);
    if (r < 0)
        return r;
    *ret_size = (int64_t)(at.address ? sizeof(uint64_t) : type_size(&at.type));
    if (at.bits || *ret_size == 0 || *parser->at != ')')
        return parser_fail(parser, *parser->at != ')' ? NUMBER_NO_EXPRESSION : NUMBER_NO_SIZE);
    parser->at++;
    return 0;
}

static int index_value(struct parser *parser, unsigned level, struct term *ret_term);

static int index_cast(struct parser *parser, const struct number_type *type, struct term *ret_term)
{
    const struct term zero = {.known = true};
    if (type->is_floating)
        return parser_fail(parser, NUMBER_NO_INDEX);
    int r = index_value(parser, UINT_MAX, ret_term);
    if (r == 0 && type->bits == 1) {
        r = terms_join(parser, CAPTURE_EQUAL, *ret_term, zero, ret_term);
        return r < 0 ? r : terms_join(parser, CAPTURE_EQUAL, *ret_term, zero, ret_term);
    }
    return r < 0 ? r : terms_cut(parser, *ret_term, 0, type->bits, type->is_signed, ret_term);
}

/* (*p).n, or a sum: what stands in them shows at their end. */
static int index_parentheses(struct parser *parser, struct term *ret_term)
{
    const char *begin = parser->at;
    struct emitter_mark mark = emitter_mark(parser->emitter);
    struct number_type type;
    struct resolved at = {0};
    size_t length = number_type_read(begin, &type);
    if (length) {
        parser->at += length;
        return index_cast(parser, &type, ret_term);
    }
    if (numbers_unary(parser, &at) == 0)
        return term_of(parser, &at, mark.scratch, ret_term);
    emitter_reset(parser->emitter, &mark);
    parser->at = begin + 1;
    int r = index_value(parser, 0, ret_term);
    skip_blanks(parser);
    if (r == 0 && *parser->at != ')')
        r = parser_fail(parser, NUMBER_NO_EXPRESSION);
    parser->at += r == 0;
    return r;
}

static int index_number(struct parser *parser, struct term *ret_term)
{
    char *end;
    errno = 0;
    *ret_term = (struct term){.known = true, .number = strtoll(parser->at, &end, 0)};
    if (end == parser->at || errno)
        return parser_fail(parser, NUMBER_NO_INDEX);
    parser->at = end + strspn(end, "uUlL");
    return 0;
}

static int index_operand(struct parser *parser, struct term *ret_term)
{
    static const struct term zero = {.known = true}, ones = {.known = true, .number = -1};
    struct resolved at = {0};
    skip_blanks(parser);
    char c = *parser->at;
    if (!parser->calculates || isdigit((unsigned char)c))
        return index_number(parser, ret_term);
    if (++parser->nest > NEST_LIMIT)
        return parser_fail(parser, NUMBER_TOO_DEEP);
    if (c == '(')
        return index_parentheses(parser, ret_term);
    if (c == '-' || c == '+' || c == '~') {
        parser->at++;
        int r = index_value(parser, UINT_MAX, ret_term);
        return r < 0 || c == '+' ? r
                                 : terms_join(parser, c == '-' ? CAPTURE_SUB : CAPTURE_XOR, c == '-' ? zero : ones,
                                              *ret_term, ret_term);
    }
    if (c == '\'' && parser->at[1] && parser->at[1] != '\\' && parser->at[2] == '\'') {
        *ret_term = (struct term){.known = true, .number = parser->at[1]};
        parser->at += 3;
        return 0;
    }
    if (numbers_is_sizeof(parser)) {
        *ret_term = (struct term){.known = true};
        return numbers_size_of(parser, &ret_term->number);
    }
    unsigned scratch = parser->emitter->scratch;
    int r = numbers_unary(parser, &at);
    return r < 0 ? r : term_of(parser, &at, scratch, ret_term);
}

/* What operators of that level or stronger ones join. */
static int index_value(struct parser *parser, unsigned level, struct term *ret_term)
{
    static const struct {
        const char *token;
        unsigned level;
        enum capture_alu how;
    } operators[] = {{"|", 0, CAPTURE_OR},         {"^", 1, CAPTURE_XOR}, {"&", 2, CAPTURE_AND}, {"<<", 3, CAPTURE_SHL},
                     {">>", 3, CAPTURE_SAR},       {"+", 4, CAPTURE_ADD}, {"-", 4, CAPTURE_SUB}, {"*", 5, CAPTURE_MUL},
                     {"/", 5, CAPTURE_DIV_SIGNED}, {"%", 5, CAPTURE_MOD}};
    struct term right;
    int r = index_operand(parser, ret_term);
    while (r == 0 && parser->calculates) {
        size_t i = 0, count = sizeof operators / sizeof *operators;
        skip_blanks(parser);
        while (i < count && strncmp(parser->at, operators[i].token, strlen(operators[i].token)) != 0)
            i++;
        if (i == count || operators[i].level < level)
            break;
        parser->at += strlen(operators[i].token);
        r = index_value(parser, operators[i].level + 1, &right);
        if (r == 0)
            r = terms_join(parser, operators[i].how, *ret_term, right, ret_term);
    }
    return r;
}

/* Goes on by so many elements. */
static int go_on_by(struct parser *parser, struct resolved *at, struct term index)
{
    const struct term size = {.known = true, .number = (int64_t)type_size(&at->type)};
    int r = terms_join(parser, CAPTURE_MUL, index, size, &index);
    if (r == 0 && index.known && (index.number > INT32_MAX / 2 || index.number < INT32_MIN / 2))
        return parser_fail(parser, NUMBER_LARGE_INDEX);
    if (r < 0 || index.known) {
        at->place.offset += r == 0 ? index.number : 0;
        return r;
    }
    if (at->place.scratch)
        return parser_fail(parser, NUMBER_NOT_AVAILABLE);
    emit(parser->emitter, CAPTURE_ALU, index.value, CAPTURE_ADD, at->place.base);
    at->place = (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)index.value, .offset = at->place.offset};
    return 0;
}

/* From '[' on: so many indexes, or as many as the array has dimensions. The place goes to that element. */
static int indexes_follow(struct parser *parser, struct resolved *at, unsigned dimensions, const uint64_t *counts)
{
    int r = 0;
    struct term index = {.known = true}, number;
    for (unsigned i = 0; i < dimensions && r == 0; i++) {
        const struct term count = {.known = true, .number = i > 0 ? (int64_t)counts[i] : 1};
        skip_blanks(parser);
        if (*parser->at != '[')
            return parser_fail(parser, NUMBER_NO_DIMENSION);
        parser->at++;
        r = index_value(parser, 0, &number);
        skip_blanks(parser);
        if (r == 0 && *parser->at != ']')
            r = parser_fail(parser, NUMBER_NO_INDEX);
        parser->at += r == 0;
        if (r == 0)
            r = terms_join(parser, CAPTURE_MUL, index, count, &index);
        if (r == 0)
            r = terms_join(parser, CAPTURE_ADD, index, number, &index);
    }
    if (r == 0)
        r = go_on_by(parser, at, index);
    return r;
}
