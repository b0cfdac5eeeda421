/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of strings, and of containers with many elements. */
#include "shm/test_capture.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_strings), cmocka_unit_test(reads_wide_strings), cmocka_unit_test(counts_elements),
        cmocka_unit_test(walks_nodes),   cmocka_unit_test(counts_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
