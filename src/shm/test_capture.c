/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: registers, memory, blocks, and programs that are refused. */
#include "shm/test_capture.h"

#include <time.h>

static void emits_registers_and_slots(void **state)
{
    uint64_t stack[4] = {11, 22, 33, 44};
    struct capture_frame frame = frame_here(stack);
    frame.xmm[3][0] = 0x4000000000000000;
    frame.gpr[5] = 0x1122334455667788;
    struct program program = program_of(4 + 2 + 8 + 8 + 8 + 16);
    program.head.flags = CAPTURE_XMM_USED;
    add(&program, I(CAPTURE_REG, 5, 4, 0));
    add(&program, I(CAPTURE_REG, 5, 2, 6));
    add(&program, I(CAPTURE_MEM, 7, 8, 16));
    add(&program, I(CAPTURE_XMM, 3, 8, 0));
    add(&program, I(CAPTURE_ADDRESS, 7, 0, -8));
    add(&program, I(CAPTURE_REGS, 4, 2, 0));
    uint8_t out[64];
    allow(NULL, 0);
    assert_int_equal(run(&program, &frame, out, sizeof out), 46);
    const uint8_t expected[] = {0x88, 0x77, 0x66, 0x55, 0x22, 0x11, 33, 0, 0, 0, 0, 0, 0, 0};
    assert_memory_equal(out, expected, sizeof expected);
    assert_memory_equal(out + 14, &frame.xmm[3][0], 8);
    uint64_t below = frame.gpr[7] - 8;
    assert_memory_equal(out + 22, &below, 8);
    assert_memory_equal(out + 30, &frame.gpr[4], 16);
    assert_int_equal(reads, 0); /* the frame needs no doubt */

    assert_int_equal(run(&program, &frame, out, 45), 0); /* less than the minimum: nothing */
    frame.has_xmm = false;
    assert_int_equal(run(&program, &frame, out, sizeof out), 0);
}

static void looks_twice_at_what_is_not_the_frame(void **state)
{
    uint64_t stack[4] = {0}, far[1] = {99};
    struct capture_frame frame = frame_here(stack);
    struct program program = program_of(8);
    add(&program, I(CAPTURE_MEM, 6, 8, 0));
    uint64_t out = 0;
    frame.gpr[6] = 0x123456789000;
    allow(NULL, 0);
    assert_int_equal(run(&program, &frame, &out, 8), 0);
    assert_int_equal(reads, 1);
    uint64_t *heap = malloc(8);
    *heap = far[0];
    frame.gpr[6] = (uint64_t)(uintptr_t)heap;
    allow(heap, 8);
    assert_int_equal(run(&program, &frame, &out, 8), 8);
    assert_int_equal(out, 99);
    free(heap);
}

/* p in rdi: value, status, then two ints if it can be followed; then a byte that is always there */
static struct program pointer_program(void)
{
    struct program program = program_of(8 + 1 + 1);
    add(&program, I(CAPTURE_REG, 5, 8, 0));
    add(&program, I(CAPTURE_LEA, 32, 5, 0));
    add(&program, I(CAPTURE_FOLLOW, 32, 3, 1));
    add(&program, I(CAPTURE_READ, 32, 4, 0));
    add(&program, I(CAPTURE_READ, 32, 4, 4));
    add(&program, I(CAPTURE_END, 0, 0, 0));
    add(&program, I(CAPTURE_REG, 0, 1, 0));
    return program;
}

static void follows_pointers(void **state)
{
    uint32_t *pair = malloc(8);
    pair[0] = 7;
    pair[1] = 8;
    struct capture_frame frame = frame_here(&frame);
    frame.gpr[0] = 0x5a;
    frame.gpr[5] = (uint64_t)(uintptr_t)pair;
    struct program program = pointer_program();
    uint8_t out[32];
    allow(pair, 8);
    assert_int_equal(run(&program, &frame, out, sizeof out), 18);
    assert_int_equal(out[8], CAPTURE_OK);
    assert_memory_equal(out + 9, pair, 8);
    assert_int_equal(out[17], 0x5a);

    allow(pair, 4); /* half of it is gone: none of it is shown */
    assert_int_equal(run(&program, &frame, out, sizeof out), 10);
    assert_int_equal(out[8], CAPTURE_INVALID);
    assert_int_equal(out[9], 0x5a);

    allow(pair, 8); /* no room for it and what comes after */
    assert_int_equal(run(&program, &frame, out, 17), 10);
    assert_int_equal(out[8], CAPTURE_CUT);
    assert_int_equal(out[9], 0x5a);
    assert_int_equal(run(&program, &frame, out, 9), 0);

    frame.gpr[5] = 0;
    assert_int_equal(run(&program, &frame, out, sizeof out), 10);
    assert_int_equal(out[8], CAPTURE_NULL);
    frame.gpr[5] = 8;
    reads = 0;
    assert_int_equal(run(&program, &frame, out, sizeof out), 10);
    assert_int_equal(out[8], CAPTURE_INVALID);
    assert_int_equal(reads, 0);
    free(pair);
}

struct shared { /* a block, and behind it a program that has it twice */
    struct capture_insn block[3];
    struct program program;
};

static struct shared shared_program(void)
{
    struct shared shared = {
        .block = {I(CAPTURE_LOAD, 34, 8 << 8 | 33, 0), I(CAPTURE_VALUE, 34, 8, 0), I(CAPTURE_END, 0, 0, 0)},
        .program = program_of(1 + 1 + 1)};
    const uint64_t distance = offsetof(struct shared, program);
    for (unsigned i = 0; i < 2; i++) {
        add(&shared.program, I(CAPTURE_LEA, 33, 5, (int32_t)i * 64));
        add(&shared.program, I(CAPTURE_SHARED, 33, 3, i ? 1 : 2)); /* behind it: a status and the register, or that */
        memcpy(&shared.program.insns[shared.program.count++], &distance, sizeof distance);
    }
    add(&shared.program, I(CAPTURE_REG, 0, 1, 0));
    return shared;
}

static size_t run_shared(const struct shared *shared, const struct capture_frame *frame, void *out, size_t room)
{
    return capture_run_sharing(&shared->program, size_of(&shared->program), offsetof(struct shared, program), frame,
                               read_good, out, room);
}

static bool check_shared(const struct shared *shared, size_t before)
{
    return capture_check_sharing(&shared->program, size_of(&shared->program), before);
}

static void shares_blocks(void **state)
{
    uint64_t numbers[9] = {7, [8] = 8};
    struct shared shared = shared_program();
    struct capture_frame frame = frame_here(&frame);
    uint8_t out[32];
    frame.gpr[0] = 0x5a;
    frame.gpr[5] = (uint64_t)(uintptr_t)numbers;
    assert_true(check_shared(&shared, offsetof(struct shared, program)));
    allow(numbers, sizeof numbers);
    assert_int_equal(run_shared(&shared, &frame, out, sizeof out), 19);
    assert_true(out[0] == CAPTURE_OK && out[1] == 7 && out[9] == CAPTURE_OK && out[10] == 8 && out[18] == 0x5a);
    allow(numbers, 8); /* the second is gone, and it goes on behind it */
    assert_int_equal(run_shared(&shared, &frame, out, sizeof out), 11);
    assert_true(out[0] == CAPTURE_OK && out[9] == CAPTURE_INVALID && out[10] == 0x5a);
    allow(numbers, sizeof numbers); /* no room for the first, but for the second */
    assert_int_equal(run_shared(&shared, &frame, out, 11), 11);
    assert_true(out[0] == CAPTURE_OK && out[9] == CAPTURE_CUT && out[10] == 0x5a);
    frame.gpr[5] = 0;
    assert_int_equal(run_shared(&shared, &frame, out, sizeof out), 3);
    assert_true(out[0] == CAPTURE_NULL && out[1] == CAPTURE_INVALID && out[2] == 0x5a);
}

static void refuses_blocks_that_are_not_there(void **state)
{
    struct shared shared = shared_program();
    struct capture_frame frame = frame_here(&frame);
    uint64_t distances[] = {0, 8, 16, 20, 32, UINT64_MAX, UINT64_MAX - 7};
    uint8_t out[32];
    frame.gpr[5] = (uint64_t)(uintptr_t)&shared;
    allow(&shared, sizeof shared);
    assert_false(check_shared(&shared, 16));
    for (size_t i = 0; i < sizeof distances / sizeof *distances; i++) {
        memcpy(&shared.program.insns[2], &distances[i], 8);
        assert_false(check_shared(&shared, offsetof(struct shared, program)));
        assert_int_equal(run_shared(&shared, &frame, out, sizeof out), 0);
        assert_true(capture_check_apart(&shared.program, size_of(&shared.program))); /* it is a number yet */
    }
    shared = shared_program();
    assert_true(capture_check_block(shared.block, sizeof shared.block));
    assert_false(capture_check_block(shared.block, sizeof shared.block - 8));
    shared.block[0] = I(CAPTURE_SHARED, 33, 3, 0); /* one in itself */
    memcpy(&shared.block[1], &(uint64_t){16}, 8);
    assert_false(capture_check_block(shared.block, sizeof shared.block));
    assert_false(check_shared(&shared, offsetof(struct shared, program)));
    assert_int_equal(run_shared(&shared, &frame, out, sizeof out), 0);
}

/* What only one of two ways would have read. */
static void peeks(void **state)
{
    uint64_t number = 42, result[2];
    struct program program = program_of(16);
    add(&program, I(CAPTURE_PEEK, 34, 8 << 8 | 5, 0));
    add(&program, I(CAPTURE_PEEK, 35, 8 << 8 | 4, 0));
    add(&program, I(CAPTURE_VALUE, 34, 8, 0));
    add(&program, I(CAPTURE_VALUE, 35, 8, 0));
    struct capture_frame frame = frame_here(&frame);
    frame.gpr[5] = (uint64_t)(uintptr_t)&number;
    frame.gpr[4] = 0;
    allow(&number, sizeof number);
    assert_int_equal(run(&program, &frame, (uint8_t *)result, sizeof result), 16);
    assert_int_equal(result[0], 42);
    assert_int_equal(result[1], 0);
}

static void refuses_what_it_could_not_run(void **state)
{
    struct program program = pointer_program();
    assert_true(capture_check(&program, size_of(&program)));
    assert_false(capture_check(&program, size_of(&program) - 1));
    assert_false(capture_check(&program, 0));
#define REFUSED(change) \
    do { \
        program = pointer_program(); \
        change; \
        assert_false(capture_check(&program, size_of(&program))); \
    } while (0)
    REFUSED(program.head.version++);
    REFUSED(program.head.flags = 0x80);
    REFUSED(program.insns[0].r = 17);
    REFUSED((program.head.temps = 1, program.insns[1].r = 33));
    REFUSED(program.head.temps = 33);
    REFUSED(program.head.scratch = 136);
    REFUSED(program.insns[0].n = 9);
    REFUSED(program.insns[0].off = 1);
    REFUSED(program.insns[1].r = 3);  /* registers are not written to */
    REFUSED(program.insns[2].n = 2);  /* the block ends elsewhere */
    REFUSED(program.insns[2].n = 60); /* behind the program */
    REFUSED(program.insns[5].op = CAPTURE_READ);
    REFUSED(program.insns[6].op = CAPTURE_END);
    REFUSED(program.insns[6].op = CAPTURE_OPS);
    REFUSED(program.insns[6] = I(CAPTURE_XMM, 0, 8, 0)); /* unannounced */
    REFUSED(program.insns[6] = I(CAPTURE_CONST, 40, 0, 0));
    struct program endless = program_of(0);
    for (int i = 0; i < 25; i++)
        add(&endless, I(CAPTURE_TRY, 0, 25, 0));
    assert_false(capture_check(&endless, size_of(&endless)));
}

/* Loops in loops over nothing end. */
static void ends(void **state)
{
    struct program program = program_of(0);
    struct capture_frame frame = frame_here(&frame);
    frame.gpr[1] = (uint64_t)(uintptr_t)&program;
    add(&program, I(CAPTURE_CONST, 40, 0, 0));
    program.insns[program.count++] = I(.n = 0xffff);
    enum { NESTED = 8 };
    for (int i = 0; i < NESTED; i++) {
        add(&program, I(CAPTURE_LEA, (uint8_t)(41 + i), 1, 0));
        add(&program, I(CAPTURE_LOOP, (uint8_t)(41 + i), (uint16_t)(4 * (NESTED - i) - 3), 0));
        add_operand(&program, (struct capture_operand){.stride = 0, .max = UINT16_MAX, .count = 40});
    }
    for (int i = 0; i < NESTED; i++)
        add(&program, I(CAPTURE_END, 0, 0, 0));
    uint8_t out[4096];
    allow(NULL, 0);
    assert_true(run(&program, &frame, out, sizeof out) <= sizeof out);
}

static void *volatile sink;

/* What two scalar arguments cost: told, not judged. */
static void is_fast(void **state)
{
    uint64_t stack[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct capture_frame frame = frame_here(stack);
    frame.gpr[6] = (uint64_t)(uintptr_t)(stack + 4);
    struct program program = program_of(12);
    add(&program, I(CAPTURE_MEM, 6, 4, -20));
    add(&program, I(CAPTURE_MEM, 6, 8, -16));
    uint8_t out[64];
    sink = out;
    enum { RUNS = 1000000 };
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int i = 0; i < RUNS; i++) {
            capture_run(&program, size_of(&program), &frame, read_good, out, sizeof out);
            __asm__ volatile("" : : : "memory");
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        double ns = ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / RUNS;
        best = ns < best ? ns : best;
    }
    print_message("# two scalars of the frame: %.2f ns\n", best);
    assert_int_equal(run(&program, &frame, out, sizeof out), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emits_registers_and_slots),
        cmocka_unit_test(looks_twice_at_what_is_not_the_frame),
        cmocka_unit_test(follows_pointers),
        cmocka_unit_test(shares_blocks),
        cmocka_unit_test(refuses_blocks_that_are_not_there),
        cmocka_unit_test(peeks),
        cmocka_unit_test(refuses_what_it_could_not_run),
        cmocka_unit_test(ends),
        cmocka_unit_test(is_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
