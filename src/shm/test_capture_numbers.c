/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that compute: conditions, integers, floating-point numbers of all sizes. */
#include "shm/test_capture.h"

#include <fenv.h>
#include <math.h>

static uint64_t computed(unsigned how, uint64_t a, uint64_t b)
{
    uint8_t out[8];
    uint64_t result;
    struct program program = program_of(8);
    add(&program, I(CAPTURE_LEA, 34, 0, 0));
    add(&program, I(CAPTURE_ALU, 34, (uint16_t)how, 1));
    add(&program, I(CAPTURE_VALUE, 34, 8, 0));
    struct capture_frame frame = frame_here(&frame);
    frame.gpr[0] = a;
    frame.gpr[1] = b;
    assert_int_equal(run(&program, &frame, out, sizeof out), 8);
    memcpy(&result, out, 8);
    return result;
}

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, 8);
    return bits;
}

static uint32_t single_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, 4);
    return bits;
}

static void compares_and_floats(void **state)
{
    enum { SINGLE = CAPTURE_SINGLES - CAPTURE_FLOATS };
    assert_int_equal(computed(CAPTURE_LESS, 1, (uint64_t)-1), 1);
    assert_int_equal(computed(CAPTURE_LESS_SIGNED, 1, (uint64_t)-1), 0);
    assert_int_equal(computed(CAPTURE_EQUAL, 7, 7), 1);
    assert_int_equal(computed(CAPTURE_MUL_HIGH, UINT64_MAX, 3), 2);
    assert_int_equal(computed(CAPTURE_MUL_HIGH_SIGNED, (uint64_t)-1, 3), UINT64_MAX);
    assert_int_equal(computed(CAPTURE_DIV_SIGNED, (uint64_t)-7, 2), (uint64_t)-3);
    assert_int_equal(computed(CAPTURE_DIV_SIGNED, (uint64_t)INT64_MIN, (uint64_t)-1), (uint64_t)INT64_MIN);
    assert_int_equal(computed(CAPTURE_DIV_SIGNED, 7, 0), 0);
    assert_int_equal(computed(CAPTURE_FLOAT_SUB, bits_of(0.3), bits_of(0.1)), bits_of(0.3 - 0.1));
    assert_int_equal((uint32_t)computed(CAPTURE_FLOAT_DIV + SINGLE, single_of(1), single_of(3)), single_of(1.0f / 3));
    assert_int_equal(computed(CAPTURE_FLOAT_SQRT, 0, bits_of(2.25)), bits_of(1.5));
    assert_int_equal(computed(CAPTURE_FLOAT_LESS, bits_of(-1), bits_of(1)), 1);
    assert_int_equal(computed(CAPTURE_FLOAT_LESS, bits_of(1), bits_of(1)), 0);
    assert_int_equal(computed(CAPTURE_FLOAT_LESS_EQUAL, bits_of(__builtin_nan("")), bits_of(1)), 0);
    assert_int_equal(computed(CAPTURE_FLOAT_OF_INT64 + SINGLE, 0, (uint64_t)-3), single_of(-3));
    assert_int_equal(computed(CAPTURE_FLOAT_TO_INT32, 0, bits_of(-3.9)), (uint32_t)-3);
    assert_int_equal(computed(CAPTURE_FLOAT_TO_OTHER + SINGLE, 0, single_of(1.5f)), bits_of(1.5));
}

/* Rounding is the thread's, and its status is as it was: nothing is raised, nothing traps. */
static void leaves_no_trace(void **state)
{
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_DIVBYZERO | FE_INVALID);
    fesetround(FE_UPWARD);
    uint64_t third = computed(CAPTURE_FLOAT_DIV, bits_of(1), bits_of(3));
    uint64_t infinite = computed(CAPTURE_FLOAT_DIV, bits_of(1), bits_of(0));
    int raised = fetestexcept(FE_ALL_EXCEPT), trapping = fegetexcept();
    fesetround(FE_TONEAREST);
    fedisableexcept(FE_ALL_EXCEPT);
    assert_int_equal(third, bits_of(1.0 / 3) + 1);
    assert_int_equal(infinite, bits_of(INFINITY));
    assert_int_equal(raised, 0);
    assert_int_equal(trapping, FE_DIVBYZERO | FE_INVALID);
}

static void computes(void **state)
{
    struct capture_frame frame = frame_here(&frame);
    frame.gpr[0] = 0xffffff7b; /* bits 3..7: -1 = 11111, unsigned 15 of 4 bits */
    frame.xmm[1][0] = 0x3fc00000;
    frame.xmm[1][1] = 0x0102030405060708;
    frame.gpr[2] = 0x1122334455667788;
    struct program program = program_of(2 + 1 + 8 + 8 + 4 + 2);
    program.head.flags = CAPTURE_XMM_USED;
    add(&program, I(CAPTURE_BITS, 0, 2, CAPTURE_BITS_OFF(3, 4, 1)));
    add(&program, I(CAPTURE_BITS, 0, 1, CAPTURE_BITS_OFF(3, 4, 0)));
    add(&program, I(CAPTURE_XREG, 40, 1, 0));
    add(&program, I(CAPTURE_FLOAT, 40, 4, 0));
    add(&program, I(CAPTURE_XREG, 41, 1, 1));
    add(&program, I(CAPTURE_VALUE, 41, 8, 0));
    add(&program, I(CAPTURE_SPILL, 2, 0, 8)); /* rdx */
    add(&program, I(CAPTURE_SCRATCH, 42, 0, 8));
    add(&program, I(CAPTURE_READ, 42, 4, 4));
    add(&program, I(CAPTURE_LOAD, 43, 2 << 8 | 42, 0));
    add(&program, I(CAPTURE_VALUE, 43, 2, 0));
    uint8_t out[64];
    allow(NULL, 0);
    assert_int_equal(run(&program, &frame, out, sizeof out), 25);
    int16_t minus_one;
    memcpy(&minus_one, out, 2);
    assert_int_equal(minus_one, -1);
    assert_int_equal(out[2], 15);
    double number;
    memcpy(&number, out + 3, 8);
    assert_true(number == 1.5);
    assert_memory_equal(out + 11, &frame.xmm[1][1], 8);
    uint32_t high;
    memcpy(&high, out + 19, 4);
    assert_int_equal(high, 0x11223344);
    uint16_t low;
    memcpy(&low, out + 23, 2);
    assert_int_equal(low, 0x7788);
}

/* Two numbers for conditions: *p in rdi, and a register. */
static void emits_numbers_for_conditions(void **state)
{
    struct program program = program_of(18);
    add(&program, I(CAPTURE_NUMBER, 0, 4, CODE_SIGNED));
    add(&program, I(CAPTURE_LEA, 32, 5, 0));
    add(&program, I(CAPTURE_LOAD, 33, 4 << 8 | 32, 0));
    add(&program, I(CAPTURE_BITS, 33, 8, CAPTURE_BITS_OFF(0, 32, 1)));
    add(&program, I(CAPTURE_END, 0, 0, 0));
    add(&program, I(CAPTURE_NUMBER, 0, 2, CODE_UNSIGNED));
    add(&program, I(CAPTURE_VALUE, 0, 8, 0));
    add(&program, I(CAPTURE_END, 0, 0, 0));
    struct capture_frame frame = frame_here(&frame);
    int32_t *number = malloc(4);
    *number = -2;
    frame.gpr[0] = 7;
    frame.gpr[5] = (uint64_t)(uintptr_t)number;
    uint8_t out[18];
    allow(number, 4);
    assert_int_equal(run(&program, &frame, out, sizeof out), 18);
    assert_memory_equal(out, "\0\xfe\xff\xff\xff\xff\xff\xff\xff\1\7\0\0\0\0\0\0\0", 18);
    allow(NULL, 0);
    assert_int_equal(run(&program, &frame, out, sizeof out), 18);
    assert_memory_equal(out, "\4\0\0\0\0\0\0\0\0\1\7\0\0\0\0\0\0\0", 18);
    assert_int_equal(run(&program, &frame, out, 17), 0);
    free(number);
}

static void widens_floats(void **state)
{
    const float floats[] = {0.0f, -0.0f, 1.5f, -3.25e-12f, 1e-45f, 1.1754942e-38f, 3.4028235e38f, 1 / 0.0f, -1 / 0.0f};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        struct capture_frame frame = frame_here(&frame);
        uint32_t bits;
        memcpy(&bits, &floats[i], 4);
        frame.gpr[1] = bits;
        struct program program = program_of(8);
        add(&program, I(CAPTURE_FLOAT, 1, 4, 0));
        double wide, expected = floats[i];
        assert_int_equal(run(&program, &frame, &wide, 8), 8);
        assert_memory_equal(&wide, &expected, 8);
    }
}

static void narrows_long_doubles(void **state)
{
    const long double numbers[] = {0.0L,
                                   -0.0L,
                                   1.0L,
                                   -2.5L,
                                   0.1L,
                                   1e300L,
                                   1e4000L,
                                   -1e4000L,
                                   1e-4000L,
                                   1 / 3.0L,
                                   0x1.fffffffffffff8p0L,
                                   0x1.00000000000008p0L,
                                   0x1.ffffffffffffffp1023L};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct capture_frame frame = frame_here(&frame);
        memcpy(&frame.gpr[1], &numbers[i], 8);
        frame.gpr[2] = 0;
        memcpy(&frame.gpr[2], (const char *)&numbers[i] + 8, 2);
        struct program program = program_of(8);
        add(&program, I(CAPTURE_FLOAT, 1, 10, 2));
        double narrow, expected = (double)numbers[i];
        assert_int_equal(run(&program, &frame, &narrow, 8), 8);
        assert_memory_equal(&narrow, &expected, 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes),
        cmocka_unit_test(emits_numbers_for_conditions),
        cmocka_unit_test(widens_floats),
        cmocka_unit_test(narrows_long_doubles),
        cmocka_unit_test(compares_and_floats),
        cmocka_unit_test(leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
