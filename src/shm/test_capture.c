/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shm/capture.h"
#include "shm/code.h"

/* The only memory there is: everything else is a bad address. */
static const uint8_t *good_memory;
static size_t good_size;
static unsigned reads;

static int read_good(void *dst, uint64_t address, size_t size)
{
    reads++;
    uint64_t from = address - (uint64_t)(uintptr_t)good_memory;
    if (!good_memory || from > good_size || size > good_size - from)
        return -1;
    memcpy(dst, good_memory + from, size);
    return 0;
}

static void allow(const void *memory, size_t size)
{
    good_memory = memory;
    good_size = size;
    reads = 0;
}

struct program {
    struct capture_head head;
    struct capture_insn insns[64];
    unsigned count;
};

#define I(...) ((struct capture_insn){__VA_ARGS__})

static void add(struct program *program, struct capture_insn insn)
{
    program->insns[program->count++] = insn;
}

static void add_operand(struct program *program, struct capture_operand operand)
{
    memcpy(&program->insns[program->count++], &operand, sizeof operand);
}

static size_t size_of(const struct program *program)
{
    return sizeof program->head + program->count * sizeof program->insns[0];
}

static size_t run(const struct program *program, const struct capture_frame *frame, void *out, size_t room)
{
    assert_true(capture_check(program, size_of(program)));
    return capture_run(program, size_of(program), frame, read_good, out, room);
}

static struct program program_of(unsigned minimum)
{
    return (struct program){
        .head = {.version = CAPTURE_VERSION, .minimum = (uint16_t)minimum, .temps = 32, .scratch = 128}};
}

static struct capture_frame frame_here(void *sp)
{
    struct capture_frame frame = {.has_xmm = true};
    for (unsigned i = 0; i < 17; i++)
        frame.gpr[i] = 0x1000000000000000u + i * 0x0101010101010101u;
    frame.gpr[7] = (uint64_t)(uintptr_t)sp;
    return frame;
}

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

static size_t run_string(const char *text, size_t size, size_t max, size_t room, uint8_t *out)
{
    struct program program = program_of(1 + 1);
    add(&program, I(CAPTURE_LEA, 33, 5, 0));
    add(&program, I(CAPTURE_STRING, 33, (uint16_t)max, 1));
    add(&program, I(CAPTURE_REG, 0, 1, 0));
    struct capture_frame frame = frame_here(&frame);
    frame.gpr[5] = (uint64_t)(uintptr_t)text;
    frame.gpr[0] = 0x5a;
    allow(text, size);
    memset(out, 0, 600); /* what lies there must not end a string */
    size_t n = run(&program, &frame, out, room);
    assert_int_equal(out[n - 1], 0x5a);
    return n;
}

static void reads_strings(void **state)
{
    uint8_t out[600];
    const char *abc = "abc";
    assert_int_equal(run_string(abc, 4, 3, 600, out), 1 + 2 + 3 + 1);
    assert_memory_equal(out, "\0\3\0abc\x5a", 7);
    assert_int_equal(run_string(abc, 4, 2, 600, out), 6);
    assert_memory_equal(out, "\1\2\0ab\x5a", 6);
    assert_int_equal(run_string(abc, 4, 100, 6, out), 6); /* room for two */
    assert_memory_equal(out, "\1\2\0ab\x5a", 6);
    assert_int_equal(run_string(abc, 4, 100, 3, out), 2);
    assert_int_equal(out[0], CAPTURE_CUT);
    assert_int_equal(run_string(abc, 0, 100, 600, out), 2);
    assert_int_equal(out[0], CAPTURE_INVALID);
    assert_int_equal(run_string(NULL, 0, 100, 600, out), 2);
    assert_int_equal(out[0], CAPTURE_NULL);

    static _Alignas(4096) char text[2 * 4096];
    memset(text, 'x', sizeof text); /* it runs into a page that is not there */
    assert_int_equal(run_string(text + 4096 - 200, 200, 500, 600, out), 1 + 2 + 200 + 1);
    assert_int_equal(out[0], CAPTURE_PART);
    text[4096 + 99] = 0;
    assert_int_equal(run_string(text + 4096 - 200, 200 + 4096, 500, 600, out), 1 + 2 + 299 + 1);
    assert_int_equal(out[0], CAPTURE_OK);
    assert_int_equal(run_string(text + 4096 - 200, 200 + 4096, 64, 600, out), 1 + 2 + 64 + 1);
    assert_int_equal(out[0], CAPTURE_PART);
}

static size_t run_wide(const void *text, size_t size, unsigned wide, size_t max, uint8_t *out)
{
    struct program program = program_of(1 + 1);
    add(&program, I(CAPTURE_LEA, 33, 5, 0));
    add(&program, I(CAPTURE_STRING, 33, (uint16_t)CAPTURE_STRING_N(max, wide), 1));
    add(&program, I(CAPTURE_REG, 0, 1, 0));
    struct capture_frame frame = frame_here(&frame);
    frame.gpr[5] = (uint64_t)(uintptr_t)text;
    allow(text, size);
    return run(&program, &frame, out, 600);
}

static void check_wide(const void *text, size_t size, unsigned wide, size_t max, const char *expected, size_t length)
{
    static _Alignas(4096) uint8_t page[4096]; /* whole pages are readable, or not at all */
    uint8_t out[600];
    memset(page, 0xff, sizeof page);
    memcpy(page, text, size);
    assert_int_equal(run_wide(page, sizeof page, wide, max, out), length + 1);
    assert_memory_equal(out, expected, length);
}

#define CHECK_WIDE(text, wide, max, expected) check_wide(text, sizeof text, wide, max, expected, sizeof expected - 1)

static void reads_wide_strings(void **state)
{
    uint8_t out[600];
    static const uint16_t small[] = {'a', 0xe4, 0x20ac, 0xd83d, 0xde00, 'z', 0};
    static const uint32_t large[] = {'a', 0xe4, 0x20ac, 0x1f600, 0x110000, 0xd800, 0};
    static const uint16_t halves[] = {0xd83d, 'x', 0xde00, 0xd83d, 0};
    CHECK_WIDE(small, 1, 100, "\0\13\0a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z");
    CHECK_WIDE(large, 2, 100, "\0\20\0a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd");
    CHECK_WIDE(halves, 1, 100,
               "\0\12\0\xef\xbf\xbd"
               "x\xef\xbf\xbd\xef\xbf\xbd");
    /* no character is cut, and what fits exactly is whole */
    CHECK_WIDE(small, 1, 11, "\0\13\0a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z");
    CHECK_WIDE(small, 1, 9, "\1\6\0a\xc3\xa4\xe2\x82\xac");
    CHECK_WIDE(large, 2, 2, "\1\1\0a");
    assert_int_equal(run_wide(small, 0, 1, 100, out), 2);
    assert_int_equal(out[0], CAPTURE_INVALID);
    assert_int_equal(run_wide(NULL, 0, 2, 100, out), 2);
    assert_int_equal(out[0], CAPTURE_NULL);

    static _Alignas(4096) uint8_t pages[2 * 4096]; /* into a page that is not there, its units across the border */
    uint8_t *start = pages + 4096 - 202;
    for (size_t i = 0; i < 60; i++)
        start[4 * i] = 'x';
    assert_int_equal(run_wide(start, 202, 2, 500, out), 1 + 2 + 50 + 1);
    assert_int_equal(out[0], CAPTURE_PART);
    assert_int_equal(run_wide(start, 4096, 2, 500, out), 1 + 2 + 60 + 1);
    assert_int_equal(out[0], CAPTURE_OK);
    assert_int_equal(run_wide(start, 1, 2, 500, out), 2);
    assert_int_equal(out[0], CAPTURE_INVALID);
}

struct node {
    const struct node *left, *right, *parent;
    uint8_t value[8];
};

/* The bytes of nodes from rdi on as elements, `count` of them, until rsi; of a tree, or of a list by `left`. */
static size_t run_nodes(bool tree, const struct node *first, const struct node *end, uint64_t count, uint8_t *out)
{
    struct program program = program_of(1);
    add(&program, I(CAPTURE_LEA, 33, 5, 0));
    add(&program, I(CAPTURE_TRY, 1, 11, 0));
    add(&program, I(CAPTURE_CONST, 34, 0, 0));
    memcpy(&program.insns[program.count++], &count, sizeof count);
    add(&program, I(CAPTURE_LOOP, 35, 6, 0));
    add_operand(&program, (struct capture_operand){1, 16, 34, 1});
    add(&program, I(CAPTURE_LEA, 36, 33, 0));
    add(&program, I(CAPTURE_ALU, 36, CAPTURE_SUB, 4));
    add(&program, I(CAPTURE_REQUIRE, 36, CAPTURE_ODD, 0));
    add(&program, I(CAPTURE_READ, 33, 1, offsetof(struct node, value)));
    if (tree)
        add(&program, I(CAPTURE_NEXT, 33, 4, 0 | 8 << 8 | 16 << 16));
    else
        add(&program, I(CAPTURE_LOAD, 33, 8 << 8 | 33, 0));
    add(&program, I(CAPTURE_END, 0, 0, 0));
    add(&program, I(CAPTURE_END, 0, 0, 0));
    struct capture_frame frame = frame_here(&frame);
    frame.gpr[5] = (uint64_t)(uintptr_t)first;
    frame.gpr[4] = (uint64_t)(uintptr_t)end;
    return run(&program, &frame, out, 600);
}

static void walks_nodes(void **state)
{
    /* n[0] is the one before all, n[1] the root:  d(b(a, c), e) */
    static struct node n[6] = {{.left = &n[1]},          {&n[2], &n[3], &n[0], "d"}, {&n[4], &n[5], &n[1], "b"},
                               {NULL, NULL, &n[1], "e"}, {NULL, NULL, &n[2], "a"},   {NULL, NULL, &n[2], "c"}};
    uint8_t out[600];
    allow(n, sizeof n);
    assert_int_equal(run_nodes(true, &n[4], &n[0], 5, out), 1 + 7 + 5);
    assert_memory_equal(out, "\0\0\5\0\0\0\5\0abcde", 13);
    assert_int_equal(run_nodes(true, &n[4], &n[0], 9, out), 1 + 7 + 5); /* it says that there are more: cut */
    assert_memory_equal(out, "\0\1\11\0\0\0\5\0abcde", 13);
    assert_int_equal(run_nodes(true, &n[0], &n[0], 9, out), 2);
    assert_memory_equal(out, "\0\6", 2);
    n[3].parent = (const struct node *)0x1000; /* nobody's: what came before is good */
    assert_int_equal(run_nodes(true, &n[4], &n[0], 5, out), 1 + 7 + 4);
    n[3].parent = &n[3]; /* circles end */
    n[3].right = &n[3];
    n[3].left = &n[3];
    assert_int_equal(run_nodes(true, &n[4], &n[0], 5, out), 1 + 7 + 3);
    n[3].right = NULL;
    assert_int_equal(run_nodes(true, &n[3], &n[0], 5, out), 1 + 7 + 5);
    n[4].left = &n[5];
    assert_int_equal(run_nodes(false, &n[1], NULL, 4, out), 1 + 7 + 4);
    assert_memory_equal(out + 8, "dbac", 4);
}

/* v[33], counted from rdi on until rsi; -1: odd */
static int64_t count_chain(const struct node *first, const struct node *end, unsigned limit)
{
    struct program program = program_of(1);
    add(&program, I(CAPTURE_LEA, 33, 5, 0));
    add(&program, I(CAPTURE_TRY, 1, 3, 0));
    add(&program, I(CAPTURE_CHAIN, 33, (uint16_t)(4 << 10 | limit), 8));
    add(&program, I(CAPTURE_VALUE, 33, 8, 0));
    add(&program, I(CAPTURE_END, 0, 0, 0));
    struct capture_frame frame = frame_here(&frame);
    uint8_t out[600];
    int64_t count;
    frame.gpr[5] = (uint64_t)(uintptr_t)first;
    frame.gpr[4] = (uint64_t)(uintptr_t)end;
    size_t size = run(&program, &frame, out, 600);
    memcpy(&count, out + 1, sizeof count);
    return size == 9 ? count : out[0] == CAPTURE_ODD ? -1 : -2;
}

static void counts_chains(void **state)
{
    static struct node n[4] = {{.right = &n[1]}, {.right = &n[2]}, {.right = &n[3]}, {.right = NULL}};
    allow(n, sizeof n);
    assert_int_equal(count_chain(&n[0], NULL, 10), 4);
    assert_int_equal(count_chain(NULL, NULL, 10), 0);
    assert_int_equal(count_chain(&n[0], &n[2], 10), 2);
    assert_int_equal(count_chain(&n[0], NULL, 3), 3);
    assert_int_equal(count_chain(&n[1], &n[0], 10), -1); /* it does not come back */
    n[3].right = &n[1];
    assert_int_equal(count_chain(&n[0], NULL, 1000), 1000);
    n[3].right = &n[3] + 1;
    assert_int_equal(count_chain(&n[0], NULL, 10), -1);
}

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

/* begin in rdi, end in rsi; elements of `stride` bytes of which the first four are shown */
static size_t run_vector(bool loop, const void *begin, size_t count, size_t stride, size_t readable, size_t max,
                         size_t room, uint8_t *out)
{
    struct program program = program_of(1 + 1);
    add(&program, I(CAPTURE_LEA, 34, 5, 0));
    add(&program, I(CAPTURE_LEA, 35, 4, 0));
    add(&program, I(CAPTURE_ALU, 35, CAPTURE_SUB, 34));
    add(&program, I(CAPTURE_CONST, 36, 0, 0));
    program.insns[program.count++] = I(.op = (uint8_t)stride);
    add(&program, I(CAPTURE_ALU, 35, CAPTURE_DIV, 36));
    if (loop) {
        add(&program, I(CAPTURE_LOOP, 34, 2, 1));
        add_operand(&program, (struct capture_operand){(uint32_t)stride, (uint16_t)max, 35, 0});
        add(&program, I(CAPTURE_READ, 34, 4, 0));
        add(&program, I(CAPTURE_END, 0, 0, 0));
    } else {
        add(&program, I(CAPTURE_ITEMS, 34, (uint16_t)max, 1));
        add_operand(&program, (struct capture_operand){(uint32_t)stride, 0, 35, 0});
    }
    add(&program, I(CAPTURE_REG, 0, 1, 0));
    struct capture_frame frame = frame_here(&frame);
    frame.gpr[5] = (uint64_t)(uintptr_t)begin;
    frame.gpr[4] = frame.gpr[5] + count * stride;
    frame.gpr[0] = 0x5a;
    allow(begin, readable);
    size_t n = run(&program, &frame, out, room);
    assert_int_equal(out[n - 1], 0x5a);
    return n;
}

static void counts_elements(void **state)
{
    uint8_t out[600];
    static const uint32_t numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int loop = 0; loop < 2; loop++) {
        assert_int_equal(run_vector(loop, numbers, 3, 4, 32, 100, 600, out), 7 + 12 + 1);
        assert_memory_equal(out, "\0\3\0\0\0\3\0\1\0\0\0\2\0\0\0\3\0\0\0", 19);
        assert_int_equal(run_vector(loop, numbers, 8, 4, 32, 2, 600, out), 7 + 8 + 1);
        assert_memory_equal(out, "\1\x8\0\0\0\2\0\1\0\0\0\2\0\0\0", 15);
        assert_int_equal(run_vector(loop, numbers, 8, 4, 32, 100, 7 + 11 + 1, out), 7 + 8 + 1); /* room for two */
        assert_memory_equal(out, "\1\x8\0\0\0\2\0\1\0\0\0\2\0\0\0", 15);
        assert_int_equal(run_vector(loop, numbers, 0, 4, 32, 100, 600, out), 8);
        assert_memory_equal(out, "\0\0\0\0\0\0\0", 7);
        assert_int_equal(run_vector(loop, NULL, 0, 4, 0, 100, 600, out), 8);
        assert_int_equal(run_vector(loop, numbers, 3, 4, 0, 100, 600, out), 2);
        assert_int_equal(out[0], CAPTURE_INVALID);
        assert_int_equal(run_vector(loop, numbers, (size_t)1 << 50, 4, 32, 8, 600, out), 2);
        assert_int_equal(out[0], CAPTURE_INVALID);
        assert_int_equal(run_vector(loop, numbers, 3, 4, 32, 100, 3, out), 2);
        assert_int_equal(out[0], CAPTURE_CUT);
    }
    assert_int_equal(run_vector(true, numbers, 4, 8, 16, 100, 600, out), 7 + 8 + 1); /* the third is not readable */
    assert_memory_equal(out, "\1\4\0\0\0\2\0\1\0\0\0\3\0\0\0", 15);
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
        cmocka_unit_test(reads_strings),
        cmocka_unit_test(reads_wide_strings),
        cmocka_unit_test(counts_elements),
        cmocka_unit_test(walks_nodes),
        cmocka_unit_test(counts_chains),
        cmocka_unit_test(computes),
        cmocka_unit_test(emits_numbers_for_conditions),
        cmocka_unit_test(widens_floats),
        cmocka_unit_test(narrows_long_doubles),
        cmocka_unit_test(compares_and_floats),
        cmocka_unit_test(leaves_no_trace),
        cmocka_unit_test(peeks),
        cmocka_unit_test(refuses_what_it_could_not_run),
        cmocka_unit_test(ends),
        cmocka_unit_test(is_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
