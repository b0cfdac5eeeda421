/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

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
    REFUSED(comparison, CODE_COMPARISON_COUNT);
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
        struct code_program program = {.count = 2};
        struct code_event event = {.time_ns = random, .param_count = random >> 60};
        for (uint32_t k = 0; k < program.count; k++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            struct code_insn *insn = &program.insns[k];
            insn->op = random >> 20 & 7;
            insn->comparison = random >> 23 & 7;
            insn->a_kind = random >> 26 & 3;
            insn->b_kind = random >> 28 & 3;
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
                  {.op = CODE_UNLESS, .comparison = CODE_GT, .a_kind = CODE_PARAM, .a = 0, .b = 10},
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
                .count = 2, .insns = {{.op = CODE_UNLESS, .comparison = c, .a = a, .b = b}, {.op = CODE_ADD, .a = 1}}};
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
                .insns = {{.op = CODE_UNLESS, .comparison = c, .a_kind = CODE_PARAM, .b_kind = CODE_PARAM, .b = 1}}};
            struct code_event event = {
                .params = {all[l].bits, all[r].bits}, .types = {all[l].type, all[r].type}, .param_count = 2};
            assert_int_equal(code_run(&program, &event, NULL), floating ? as_doubles[c] : as_integers[c]);
            event.types[1] = CODE_MISSING;
            assert_int_equal(code_run(&program, &event, NULL), 0);
        }
    }
}

/* (par0 == 1 && par1 == 1) || par2 == 1, then an addition and a post. */
static void skips(void **state)
{
    const struct code_program program = {
        .count = 5,
        .insns = {{.op = CODE_SKIP_UNLESS, .a_kind = CODE_PARAM, .b = 1, .other = 1},
                  {.op = CODE_SKIP_IF, .a_kind = CODE_PARAM, .a = 1, .b = 1, .other = 1},
                  {.op = CODE_UNLESS, .a_kind = CODE_PARAM, .a = 2, .b = 1},
                  {.op = CODE_SET, .cell = 1, .a_kind = CODE_CELL, .a = 0},
                  {.op = CODE_POST}}};
    assert_true(code_check(&program, 2));
    for (int i = 0; i < 8; i++) {
        code_cell cells[2] = {41, 0};
        struct code_event event = {.params = {i & 1, i >> 1 & 1, i >> 2 & 1}, .param_count = 3};
        bool passes = (i & 3) == 3 || (i & 4);
        assert_int_equal(code_run(&program, &event, cells), passes ? CODE_PASSED | CODE_POSTED : 0);
        assert_int_equal(cells[0], passes ? 42 : 41);
        assert_int_equal(cells[1], passes ? 41 : 0);
    }
    struct code_program beyond = program;
    beyond.insns[4] = (struct code_insn){.op = CODE_SKIP_IF, .other = 1};
    assert_false(code_check(&beyond, 2));
    beyond.insns[4].other = 0;
    assert_true(code_check(&beyond, 2));
    beyond.insns[0].other = UINT32_MAX;
    assert_false(code_check(&beyond, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares_by_type),
        cmocka_unit_test(skips),
        cmocka_unit_test(refuses_what_it_could_not_run),
        cmocka_unit_test(bounds_the_length),
        cmocka_unit_test(random_programs_stay_in_their_cells),
        cmocka_unit_test(runs),
        cmocka_unit_test(timers),
        cmocka_unit_test(compares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
