/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in the brackets of an expression, and behind sizeof:
 *
 *     index:   expression | integer | 'x' | sizeof | ('-' | '+' | '~' | '(' type ')') index | '(' index ')' |
 *              index operator index, with C's operators of integers that calculate
 *     sizeof:  'sizeof' '(' (expression | type) ')'
 *
 * Indexes are calculated in 64 bits, with sign.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/number.h"
#include "symbols/capture/numbers.h"

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
        return bad(parser, NUMBER_LARGE_INDEX);
    if ((how == CAPTURE_DIV_SIGNED || how == CAPTURE_MOD) && b == 0)
        return bad(parser, NUMBER_INDEX_BY_0);
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
static unsigned lowest(const struct emitter *emitter, struct term a, struct term b)
{
    unsigned low = emitter->temps;
    if (!a.known && a.value >= CAPTURE_TEMP && a.value < low)
        low = a.value;
    return !b.known && b.value >= CAPTURE_TEMP && b.value < low ? b.value : low;
}

/* CAPTURE_MOD has a sign here. */
static int join(struct parser *parser, enum capture_alu how, struct term a, struct term b, struct term *ret_term)
{
    if (a.known && b.known) {
        ret_term->known = true;
        return join_known(parser, how, a.number, b.number, &ret_term->number);
    }
    struct emitter *emitter = parser->emitter;
    unsigned low = lowest(emitter, a, b), right = b.known ? term_copy(parser, b) : b.value;
    if (how == CAPTURE_DIV_SIGNED || how == CAPTURE_MOD)
        emit(emitter, CAPTURE_REQUIRE, right, CAPTURE_INVALID, 0);
    unsigned result = emit_join(parser, how == CAPTURE_MOD ? CAPTURE_DIV_SIGNED : how, a, right);
    if (how == CAPTURE_MOD) {
        emit(emitter, CAPTURE_ALU, result, CAPTURE_MUL, right);
        result = emit_join(parser, CAPTURE_SUB, a, result);
    }
    if (emitter->failed)
        return bad(parser, NUMBER_TOO_DEEP);
    if (result != low)
        emit(emitter, CAPTURE_LEA, low, result, 0);
    emitter->temps = low + 1;
    *ret_term = (struct term){.value = low};
    return 0;
}

/* The number of `bits` bits from bit `bit` on. */
static int cut(struct parser *parser, struct term term, uint64_t bit, uint64_t bits, bool is_signed,
               struct term *ret_term)
{
    const struct term left = {.known = true, .number = (int64_t)(64 - bits - bit)},
                      right = {.known = true, .number = (int64_t)(64 - bits)};
    int r = join(parser, CAPTURE_SHL, term, left, &term);
    return r < 0 ? r : join(parser, is_signed ? CAPTURE_SAR : CAPTURE_SHR, term, right, ret_term);
}

/* `scratch`: what was used of it before the expression, which is not needed once its value is there. */
static int term_of(struct parser *parser, struct resolved *at, unsigned scratch, struct term *ret_term)
{
    Dwarf_Die stripped;
    uint64_t bits = at->bits;
    if (at->address || !type_strip(&at->type, &stripped) || !numbers_is_whole(type_kind_of(&stripped)))
        return bad(parser, NUMBER_NO_INDEX);
    if (!bits)
        bits = type_size(&stripped) * 8;
    uint64_t bytes = (at->bit + bits + 7) / 8;
    bool known = bytes > 0 && bytes <= 8 && (at->place.size == 0 || at->place.size >= bytes);
    int value = known ? emit_load(parser->emitter, &at->place, (unsigned)bytes) : -1;
    if (value < 0)
        return bad(parser, NUMBER_NOT_AVAILABLE);
    parser->emitter->scratch = scratch;
    return cut(parser, (struct term){.value = (unsigned)value}, at->bit, bits,
               type_kind_of(&stripped) != TYPE_BOOL && type_is_signed(&stripped), ret_term);
}

bool numbers_is_sizeof(const struct parser *parser)
{
    return name_length(parser->at) == 6 && memcmp(parser->at, "sizeof", 6) == 0;
}

int numbers_size_of(struct parser *parser, int64_t *ret_size)
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
        return bad(parser, NUMBER_NO_EXPRESSION);
    struct emitter_mark mark = emitter_mark(parser->emitter);
    parser->at++;
    int r = numbers_unary(parser, &at);
    emitter_reset(parser->emitter, &mark);
    skip_blanks(parser);
    if (r < 0)
        return r;
    *ret_size = (int64_t)(at.address ? sizeof(uint64_t) : type_size(&at.type));
    if (at.bits || *ret_size == 0 || *parser->at != ')')
        return bad(parser, *parser->at != ')' ? NUMBER_NO_EXPRESSION : NUMBER_NO_SIZE);
    parser->at++;
    return 0;
}

static int index_value(struct parser *parser, unsigned level, struct term *ret_term);

static int index_cast(struct parser *parser, const struct number_type *type, struct term *ret_term)
{
    const struct term zero = {.known = true};
    if (type->is_floating)
        return bad(parser, NUMBER_NO_INDEX);
    int r = index_value(parser, UINT_MAX, ret_term);
    if (r == 0 && type->bits == 1) {
        r = join(parser, CAPTURE_EQUAL, *ret_term, zero, ret_term);
        return r < 0 ? r : join(parser, CAPTURE_EQUAL, *ret_term, zero, ret_term);
    }
    return r < 0 ? r : cut(parser, *ret_term, 0, type->bits, type->is_signed, ret_term);
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
        r = bad(parser, NUMBER_NO_EXPRESSION);
    parser->at += r == 0;
    return r;
}

static int index_number(struct parser *parser, struct term *ret_term)
{
    char *end;
    errno = 0;
    *ret_term = (struct term){.known = true, .number = strtoll(parser->at, &end, 0)};
    if (end == parser->at || errno)
        return bad(parser, NUMBER_NO_INDEX);
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
        return bad(parser, NUMBER_TOO_DEEP);
    if (c == '(')
        return index_parentheses(parser, ret_term);
    if (c == '-' || c == '+' || c == '~') {
        parser->at++;
        int r = index_value(parser, UINT_MAX, ret_term);
        return r < 0 || c == '+'
                   ? r
                   : join(parser, c == '-' ? CAPTURE_SUB : CAPTURE_XOR, c == '-' ? zero : ones, *ret_term, ret_term);
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
            r = join(parser, operators[i].how, *ret_term, right, ret_term);
    }
    return r;
}

/* Goes on by so many elements. */
static int go_on_by(struct parser *parser, struct resolved *at, struct term index)
{
    const struct term size = {.known = true, .number = (int64_t)type_size(&at->type)};
    int r = join(parser, CAPTURE_MUL, index, size, &index);
    if (r == 0 && index.known && (index.number > INT32_MAX / 2 || index.number < INT32_MIN / 2))
        return bad(parser, NUMBER_LARGE_INDEX);
    if (r < 0 || index.known) {
        at->place.offset += r == 0 ? index.number : 0;
        return r;
    }
    if (at->place.scratch)
        return bad(parser, NUMBER_NOT_AVAILABLE);
    emit(parser->emitter, CAPTURE_ALU, index.value, CAPTURE_ADD, at->place.base);
    at->place = (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)index.value, .offset = at->place.offset};
    return 0;
}

int indexes_follow(struct parser *parser, struct resolved *at, unsigned dimensions, const uint64_t *counts)
{
    int r = 0;
    struct term index = {.known = true}, number;
    for (unsigned i = 0; i < dimensions && r == 0; i++) {
        const struct term count = {.known = true, .number = i > 0 ? (int64_t)counts[i] : 1};
        skip_blanks(parser);
        if (*parser->at != '[')
            return bad(parser, NUMBER_NO_DIMENSION);
        parser->at++;
        r = index_value(parser, 0, &number);
        skip_blanks(parser);
        if (r == 0 && *parser->at != ']')
            r = bad(parser, NUMBER_NO_INDEX);
        parser->at += r == 0;
        if (r == 0)
            r = join(parser, CAPTURE_MUL, index, count, &index);
        if (r == 0)
            r = join(parser, CAPTURE_ADD, index, number, &index);
    }
    if (r == 0)
        r = go_on_by(parser, at, index);
    return r;
}
