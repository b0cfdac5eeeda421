/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shm/code.h"

enum { CELLS = 8 };

static struct code_program program_of(struct code_insn insn)
{
    struct code_program program = {.count = 1, .insns = {insn}};
    return program;
}

static void refuses_what_it_could_not_run(void **state)
{
    const struct code_insn good = {
        .op = CODE_ADD, .cell = CELLS - 1, .other = CELLS - 1, .a_kind = CODE_PARAM, .a = CODE_PARAMS - 1};
    struct code_program program = program_of(good);
    assert_true(code_check(&program, CELLS));

#define REFUSED(member, value) \
    do { \
        program = program_of(good); \
        program.insns[0].member = (value); \
        assert_false(code_check(&program, CELLS)); \
    } while (0)
    REFUSED(op, CODE_OP_COUNT);
    REFUSED(op, UINT8_MAX);
    REFUSED(operation, CODE_OPERATION_COUNT);
    REFUSED(cell, CELLS);
    REFUSED(cell, UINT32_MAX);
    REFUSED(other, CELLS);
    REFUSED(a_kind, CODE_OPERAND_COUNT);
    REFUSED(b_kind, UINT8_MAX);
    REFUSED(a, CODE_PARAMS);
    REFUSED(a, -1);
    REFUSED(a, INT64_MIN);
#undef REFUSED

    program = program_of(good);
    program.insns[0].b_kind = CODE_PARAM;
    program.insns[0].b = CODE_PARAMS;
    assert_false(code_check(&program, CELLS));
    program = program_of(good);
    program.insns[0].a_kind = CODE_IMMEDIATE; /* an immediate may be anything */
    program.insns[0].a = INT64_MIN;
    assert_true(code_check(&program, CELLS));
    assert_false(code_check(&program, 0));
}

static void bounds_the_length(void **state)
{
    struct code_program program = {.count = CODE_INSN_LIMIT};
    assert_true(code_check(&program, CELLS));
    program.insns[CODE_INSN_LIMIT - 1].cell = CELLS; /* the last one is looked at, too */
    assert_false(code_check(&program, CELLS));
    program.count = CODE_INSN_LIMIT + 1;
    assert_false(code_check(&program, CELLS));
    program.count = UINT32_MAX;
    assert_false(code_check(&program, CELLS));
    program.count = 0;
    assert_true(code_check(&program, CELLS));
}

/* Any bytes: refused, or run within the cells (the sanitizers look on). */
static void random_programs_stay_in_their_cells(void **state)
{
    code_cell *cells = calloc(CELLS, sizeof *cells);
    uint64_t random = 1;
    unsigned accepted = 0;
    for (int i = 0; i < 200000; i++) {
        struct code_program program = {.count = 3};
        struct code_event event = {.time_ns = random, .param_count = random >> 60};
        for (uint32_t k = 0; k < program.count; k++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            struct code_insn *insn = &program.insns[k];
            insn->op = random >> 20 & 7;
            insn->operation = random >> 46 & 31;
            insn->a_kind = random >> 23 & 7;
            insn->b_kind = random >> 26 & 7;
            insn->cell = random >> 30 & 15;
            insn->other = random >> 34 & 15;
            insn->a = (int64_t)(random >> 38 & 15) - 2;
            insn->b = insn->b_kind == CODE_IMMEDIATE ? (int64_t)random : (int64_t)(random >> 42 & 15);
        }
        if (!code_check(&program, CELLS))
            continue;
        accepted++;
        code_run(&program, &event, cells);
    }
    assert_true(accepted > 0);
    free(cells);
}

static void runs(void **state)
{
    code_cell cells[CELLS] = {0};
    struct code_program program = {
        .count = 5,
        .insns = {{.op = CODE_ADD, .cell = 0, .a = 3},
                  {.op = CODE_ADD, .cell = 1, .a_kind = CODE_PARAM, .a = 1},
                  {.op = CODE_ADD, .cell = 2, .a_kind = CODE_TIME},
                  {.op = CODE_UNLESS, .operation = CODE_GT, .a_kind = CODE_PARAM, .a = 0, .b = 10},
                  {.op = CODE_ADD, .cell = 3, .a = 1}}};
    struct code_event event = {.time_ns = 1000, .params = {10, 20}, .param_count = 2};
    code_run(&program, &event, cells);
    event.params[0] = 11;
    code_run(&program, &event, cells);
    event.param_count = 1; /* parameters that are not there are 0 */
    code_run(&program, &event, cells);
    assert_int_equal(cells[0], 9);
    assert_int_equal(cells[1], 40);
    assert_int_equal(cells[2], 3000);
    assert_int_equal(cells[3], 2);
}

static void timers(void **state)
{
    enum { STARTED, TOTAL };
    code_cell cells[CELLS] = {0};
    struct code_program start = program_of((struct code_insn){.op = CODE_TIMER_START, .cell = STARTED});
    struct code_program stop = program_of((struct code_insn){.op = CODE_TIMER_STOP, .cell = STARTED, .other = TOTAL});
    struct code_event event = {.time_ns = 100};
    code_run(&stop, &event, cells); /* it does not run */
    code_run(&start, &event, cells);
    event.time_ns = 130;
    code_run(&start, &event, cells); /* it runs already */
    assert_int_equal(cells[STARTED], 100);
    event.time_ns = 150;
    code_run(&stop, &event, cells);
    code_run(&stop, &event, cells);
    assert_int_equal(cells[STARTED], 0);
    assert_int_equal(cells[TOTAL], 50);
}

static void compares(void **state)
{
    static const int64_t numbers[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    for (int i = 0; i < COUNT * COUNT; i++) {
        int64_t a = numbers[i / COUNT], b = numbers[i % COUNT];
        const bool expected[CODE_COMPARISON_COUNT] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
        for (uint8_t c = 0; c < CODE_COMPARISON_COUNT; c++) {
            code_cell cells[1] = {0};
            struct code_program program = {
                .count = 2, .insns = {{.op = CODE_UNLESS, .operation = c, .a = a, .b = b}, {.op = CODE_ADD, .a = 1}}};
            struct code_event event = {0};
            code_run(&program, &event, cells);
            assert_int_equal(cells[0], expected[c]);
        }
    }
}

/* Integers and doubles of every kind beside each other, as C compares them. */
static void compares_by_type(void **state)
{
    static const int64_t integers[] = {INT64_MIN, -3, -1, 0, 1, 7, (INT64_C(1) << 53) + 1, INT64_MAX - 511, INT64_MAX};
    static const double doubles[] = {-1e300, -9223372036854775808.0, -1,   -0.0, 0, 0.5,
                                     1,      9007199254740992.0,     1e19, 1e300};
    enum { INTEGERS = sizeof integers / sizeof *integers, DOUBLES = sizeof doubles / sizeof *doubles + 3 };
    struct {
        int64_t bits;
        uint8_t type;
        double value;
        __int128 exact;
    } all[2 * INTEGERS + DOUBLES];
    size_t count = 0;
    for (size_t i = 0; i < INTEGERS; i++) {
        all[count].bits = integers[i], all[count].type = CODE_SIGNED, all[count].exact = integers[i];
        all[count++].value = (double)integers[i];
        all[count].bits = integers[i], all[count].type = CODE_UNSIGNED, all[count].exact = (uint64_t)integers[i];
        all[count++].value = (double)(uint64_t)integers[i];
    }
    for (size_t i = 0; i < DOUBLES; i++) {
        double value = i == DOUBLES - 1   ? __builtin_nan("")
                       : i == DOUBLES - 2 ? __builtin_inf()
                       : i == DOUBLES - 3 ? -__builtin_inf()
                                          : doubles[i];
        memcpy(&all[count].bits, &value, sizeof value);
        all[count].type = CODE_FLOATING;
        all[count++].value = value;
    }
    for (size_t i = 0; i < count * count; i++) {
        size_t l = i / count, r = i % count;
        bool floating = all[l].type == CODE_FLOATING || all[r].type == CODE_FLOATING;
        double a = all[l].value, b = all[r].value;
        __int128 x = all[l].exact, y = all[r].exact;
        const bool as_doubles[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
        const bool as_integers[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
        for (uint8_t c = 0; c < CODE_COMPARISON_COUNT; c++) {
            struct code_program program = {
                .count = 1,
                .insns = {{.op = CODE_UNLESS, .operation = c, .a_kind = CODE_PARAM, .b_kind = CODE_PARAM, .b = 1}}};
            struct code_event event = {
                .params = {all[l].bits, all[r].bits}, .types = {all[l].type, all[r].type}, .param_count = 2};
            assert_int_equal(code_run(&program, &event, NULL), floating ? as_doubles[c] : as_integers[c]);
            event.types[1] = CODE_MISSING;
            assert_int_equal(code_run(&program, &event, NULL), 0);
        }
    }
}

static struct code_event pair(int64_t a, uint8_t a_type, int64_t b, uint8_t b_type)
{
    return (struct code_event){.params = {a, b}, .types = {a_type, b_type}, .param_count = 2};
}

/* Whether par0 `operation` par1 is the expected number, of the same type. */
static bool comes_to(uint8_t operation, const struct code_event *operands, int64_t expected, uint8_t type)
{
    struct code_event event = *operands;
    event.params[2] = expected, event.types[2] = type, event.param_count = 3;
    struct code_program program = {
        .count = 2,
        .insns = {{.op = CODE_CALCULATE,
                   .operation = operation,
                   .other = 3,
                   .a_kind = CODE_PARAM,
                   .b_kind = CODE_PARAM,
                   .b = 1},
                  {.op = CODE_UNLESS, .a_kind = CODE_TEMP, .a = 3, .b_kind = CODE_PARAM, .b = 2}}};
    assert_true(code_check(&program, 1));
    if (type == CODE_MISSING) { /* equal to nothing, and different from nothing */
        event.params[2] = 0, event.types[2] = CODE_SIGNED;
        unsigned equal = code_run(&program, &event, NULL);
        program.insns[1].operation = CODE_NE;
        return !equal && !code_run(&program, &event, NULL);
    }
    return code_run(&program, &event, NULL) == CODE_PASSED;
}

static void calculates_integers(void **state)
{
    static const struct {
        uint8_t operation;
        int64_t a, b, expected;
        uint8_t type;
    } rows[] = {
        {CODE_PLUS, 3, -5, -2, CODE_SIGNED},
        {CODE_PLUS, INT64_MAX, 1, INT64_MIN, CODE_UNSIGNED}, /* 2^63 */
        {CODE_PLUS, INT64_MIN, -1, 0, CODE_MISSING},
        {CODE_MINUS, 3, 5, -2, CODE_SIGNED},
        {CODE_TIMES, -3, 5, -15, CODE_SIGNED},
        {CODE_TIMES, INT64_C(1) << 62, 2, INT64_MIN, CODE_UNSIGNED},
        {CODE_TIMES, INT64_C(1) << 62, 4, 0, CODE_MISSING},
        {CODE_TIMES, INT64_MIN, 1, INT64_MIN, CODE_SIGNED},
        {CODE_DIVIDED, -7, 2, -3, CODE_SIGNED},
        {CODE_DIVIDED, 7, 0, 0, CODE_MISSING},
        {CODE_DIVIDED, INT64_MIN, -1, INT64_MIN, CODE_UNSIGNED},
        {CODE_MODULO, -7, 2, -1, CODE_SIGNED},
        {CODE_MODULO, 7, -2, 1, CODE_SIGNED},
        {CODE_MODULO, 7, 0, 0, CODE_MISSING},
        {CODE_SHIFTED_LEFT, 1, 63, INT64_MIN, CODE_UNSIGNED},
        {CODE_SHIFTED_LEFT, 1, 64, 0, CODE_MISSING},
        {CODE_SHIFTED_LEFT, 1, -1, 0, CODE_MISSING},
        {CODE_SHIFTED_RIGHT, -8, 1, -4, CODE_SIGNED},
        {CODE_BITS_AND, -1, 255, 255, CODE_SIGNED},
        {CODE_BITS_OR, 5, 10, 15, CODE_SIGNED},
        {CODE_BITS_XOR, 5, -1, -6, CODE_SIGNED},
        {CODE_LT, -1, 0, 1, CODE_SIGNED},
        {CODE_AND, 5, 0, 0, CODE_SIGNED},
        {CODE_OR, 5, 0, 1, CODE_SIGNED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct code_event operands = pair(rows[i].a, CODE_SIGNED, rows[i].b, CODE_SIGNED);
        if (!comes_to(rows[i].operation, &operands, rows[i].expected, rows[i].type))
            fail_msg("row %zu", i);
    }
    struct code_event huge = pair(-1, CODE_UNSIGNED, 1, CODE_SIGNED);
    assert_true(comes_to(CODE_PLUS, &huge, 0, CODE_MISSING));
    assert_true(comes_to(CODE_DIVIDED, &huge, -1, CODE_UNSIGNED));
    assert_true(comes_to(CODE_SHIFTED_RIGHT, &huge, INT64_MAX, CODE_SIGNED));
}

static void calculates_doubles_as_the_processor(void **state)
{
    uint64_t random = 1;
    for (int i = 0; i < 20000; i++) {
        double a, b;
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t a_bits = random, b_bits = random << 13 ^ random >> 17; /* also tiny ones and infinities */
        memcpy(&a, &a_bits, sizeof a);
        memcpy(&b, &b_bits, sizeof b);
        const double expected[] = {a + b, a - b, a * b, a / b};
        for (uint8_t k = 0; k < 4; k++) {
            struct code_event operands = pair((int64_t)a_bits, CODE_FLOATING, (int64_t)b_bits, CODE_FLOATING);
            int64_t bits;
            memcpy(&bits, &expected[k], sizeof bits);
            if (expected[k] == expected[k]) /* a number */
                assert_true(comes_to(CODE_PLUS + k, &operands, bits, CODE_FLOATING));
        }
    }
    double half = 0.5, sum = 3.5;
    struct code_event mixed = pair(3, CODE_SIGNED, 0, CODE_FLOATING);
    memcpy(&mixed.params[1], &half, sizeof half);
    int64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    assert_true(comes_to(CODE_PLUS, &mixed, bits, CODE_FLOATING));
    assert_true(comes_to(CODE_MODULO, &mixed, 0, CODE_MISSING)); /* as of bits: of integers only */
    assert_true(comes_to(CODE_BITS_AND, &mixed, 0, CODE_MISSING));
}

/* Beside floats and integers a float stays one; the numbers are floats as doubles. */
static void calculates_floats_as_the_processor(void **state)
{
    uint32_t random = 1;
    for (int i = 0; i < 20000; i++) {
        float a, b;
        random = random * 1664525 + 1013904223;
        uint32_t a_bits = random, b_bits = random << 13 ^ random >> 7;
        memcpy(&a, &a_bits, sizeof a);
        memcpy(&b, &b_bits, sizeof b);
        const double sides[] = {(double)a, (double)b};
        const float floats[] = {a + b, a - b, a * b, a / b}, mixed[] = {a + (float)(int)b_bits, a - (float)(int)b_bits};
        for (uint8_t k = 0; k < 6; k++) {
            struct code_event operands = pair(0, CODE_SINGLE, (int)b_bits, k < 4 ? CODE_SINGLE : CODE_SIGNED);
            const double expected = (double)(k < 4 ? floats[k] : mixed[k - 4]);
            int64_t bits;
            memcpy(operands.params, sides, k < 4 ? sizeof sides : sizeof sides[0]);
            memcpy(&bits, &expected, sizeof bits);
            if (expected == expected)
                assert_true(comes_to(CODE_PLUS + k % 4, &operands, bits, CODE_SINGLE));
        }
        struct code_event operands = pair(0, CODE_SINGLE, 0, CODE_FLOATING);
        const double sum = sides[0] + sides[1];
        int64_t bits;
        memcpy(operands.params, sides, sizeof sides);
        memcpy(&bits, &sum, sizeof bits);
        if (sum == sum)
            assert_true(comes_to(CODE_PLUS, &operands, bits, CODE_FLOATING));
    }
}

static void casts(void **state)
{
    static const struct {
        double from;
        int64_t bits, to; /* bits: as CODE_AS_INTEGER has them */
        uint8_t type;
    } rows[] = {
        {-1.99, -32, -1, CODE_SIGNED},  {255.9, 8, 255, CODE_UNSIGNED},         {256, 8, 0, CODE_MISSING},
        {-1, 32, 0, CODE_MISSING},      {-0.5, 32, 0, CODE_UNSIGNED},           {1e-310, -8, 0, CODE_SIGNED},
        {0x1p63, -64, 0, CODE_MISSING}, {0x1p63, 64, INT64_MIN, CODE_UNSIGNED}, {-0x1p63, -64, INT64_MIN, CODE_SIGNED},
        {0x1p64, 64, 0, CODE_MISSING},  {(double)NAN, -64, 0, CODE_MISSING},    {(double)INFINITY, 64, 0, CODE_MISSING},
        {7, 7, 0, CODE_MISSING},        {7, INT64_MIN, 0, CODE_MISSING},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct code_event operands = pair(0, CODE_FLOATING, rows[i].bits, CODE_SIGNED);
        memcpy(&operands.params[0], &rows[i].from, sizeof rows[i].from);
        assert_true(comes_to(CODE_AS_INTEGER, &operands, rows[i].to, rows[i].type));
    }
    struct code_event whole = pair(INT64_C(0x1234567890), CODE_SIGNED, -8, CODE_SIGNED);
    assert_true(comes_to(CODE_AS_INTEGER, &whole, (int8_t)0x90, CODE_SIGNED));
    whole.params[1] = 32;
    assert_true(comes_to(CODE_AS_INTEGER, &whole, 0x34567890, CODE_UNSIGNED));
    const double nearest = (double)(float)INT64_C(0x1234567890);
    int64_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    assert_true(comes_to(CODE_AS_FLOATING, &whole, bits, CODE_SINGLE));
}

/* The way it rounds, and what it remembers of former operations, are the program's. */
static void leaves_the_vector_unit_alone(void **state)
{
    struct code_event operands =
        pair(INT64_C(1) << 52 /* the smallest normal double */, CODE_FLOATING, 3, CODE_FLOATING);
    const struct code_program program = {
        .count = 1,
        .insns = {{.op = CODE_CALCULATE, .operation = CODE_TIMES, .a_kind = CODE_PARAM, .b_kind = CODE_PARAM, .b = 1}}};
    assert_int_equal(fesetround(FE_UPWARD), 0);
    feclearexcept(FE_ALL_EXCEPT);
    assert_int_equal(code_run(&program, &operands, NULL), CODE_PASSED);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
}

/* What is missing decides nothing, unless the other one decides it. */
static void missing_is_neither_true_nor_false(void **state)
{
    for (int value = 0; value < 2; value++) {
        struct code_event operands = pair(value, CODE_SIGNED, 0, CODE_MISSING);
        assert_true(comes_to(CODE_AND, &operands, 0, value ? CODE_MISSING : CODE_SIGNED));
        assert_true(comes_to(CODE_OR, &operands, 1, value ? CODE_SIGNED : CODE_MISSING));
        assert_true(comes_to(CODE_PLUS, &operands, 0, CODE_MISSING));
        assert_true(comes_to(CODE_EQ, &operands, 0, CODE_MISSING));
    }
}

static void temporary_numbers_are_set_before_they_are_read(void **state)
{
    struct code_program program = {.count = 2,
                                   .insns = {{.op = CODE_CALCULATE, .operation = CODE_PLUS, .other = 1, .a = 1},
                                             {.op = CODE_ADD, .a_kind = CODE_TEMP, .a = 1}}};
    assert_true(code_check(&program, 1));
    program.insns[1].a = 0;
    assert_false(code_check(&program, 1));
    program.insns[1].a = CODE_TEMPS;
    assert_false(code_check(&program, 1));
    program.insns[1].a = 1;
    program.insns[0].other = CODE_TEMPS;
    assert_false(code_check(&program, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares_by_type),
        cmocka_unit_test(calculates_integers),
        cmocka_unit_test(calculates_doubles_as_the_processor),
        cmocka_unit_test(calculates_floats_as_the_processor),
        cmocka_unit_test(casts),
        cmocka_unit_test(leaves_the_vector_unit_alone),
        cmocka_unit_test(missing_is_neither_true_nor_false),
        cmocka_unit_test(temporary_numbers_are_set_before_they_are_read),
        cmocka_unit_test(refuses_what_it_could_not_run),
        cmocka_unit_test(bounds_the_length),
        cmocka_unit_test(random_programs_stay_in_their_cells),
        cmocka_unit_test(runs),
        cmocka_unit_test(timers),
        cmocka_unit_test(compares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
