/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/data/arena.h"

static void blocks_are_aligned_and_apart(void **state)
{
    struct arena arena = ARENA_INIT;
    char *blocks[2000];
    for (size_t i = 0; i < 2000; i++) {
        blocks[i] = arena_alloc(&arena, i % 97);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)i, i % 97);
    }
    for (size_t i = 0; i < 2000; i++)
        for (size_t j = 0; j < i % 97; j++)
            assert_int_equal((unsigned char)blocks[i][j], i & 0xff);
    arena_done(&arena);
}

static void nothing_is_something(void **state)
{
    struct arena arena = ARENA_INIT;
    assert_non_null(arena_alloc(&arena, 0)); /* NULL would mean: out of memory */
    assert_non_null(arena_zalloc(&arena, 0, 8));
    struct span empty = arena_span(&arena, span_of(NULL, 0));
    assert_non_null(empty.ptr);
    assert_int_equal(empty.len, 0);
    assert_false(arena.failed);
    arena_done(&arena);
}

static void large_blocks_fit(void **state)
{
    struct arena arena = ARENA_INIT;
    char *small = arena_dup(&arena, "small", 5), *large = arena_alloc(&arena, 5 << 20);
    assert_non_null(large);
    memset(large, 1, 5 << 20);
    assert_string_equal(small, "small");
    char *after = arena_alloc(&arena, 100);
    assert_true(after + 100 <= large || after >= large + (5 << 20));
    arena_done(&arena);
}

static void memory_is_zeroed_and_copied(void **state)
{
    struct arena arena = ARENA_INIT;
    memset(arena_alloc(&arena, 4000), 0xff, 4000);
    arena_reset(&arena);
    char *zeros = arena_zalloc(&arena, 10, 10);
    for (int i = 0; i < 100; i++)
        assert_int_equal(zeros[i], 0);
    char *copy = arena_dup(&arena, "a\0b", 3);
    assert_memory_equal(copy, "a\0b\0", 4);
    assert_string_equal(arena_printf(&arena, "%s-%d", "x", 42), "x-42");
    arena_done(&arena);
}

static void resetting_reuses_and_gives_back(void **state)
{
    struct arena arena = ARENA_INIT;
    arena_reset(&arena);
    char *first = arena_alloc(&arena, 64);
    arena_reset(&arena);
    assert_ptr_equal(arena_alloc(&arena, 64), first);
    assert_non_null(arena_alloc(&arena, 10 << 20));
    arena_reset(&arena);
    assert_null(arena.chunks); /* one huge request holds nothing */
    assert_non_null(arena_alloc(&arena, 64));
    arena_done(&arena);
    assert_null(arena.chunks);
}

static void failure_is_sticky_until_reset(void **state)
{
    struct arena arena = ARENA_INIT;
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_true(arena.failed);
    assert_null(arena_alloc(&arena, 1));
    arena_reset(&arena);
    assert_non_null(arena_alloc(&arena, 1));
    assert_null(arena_zalloc(&arena, SIZE_MAX / 2, 3)); /* the product overflows */
    assert_true(arena.failed);
    assert_null(arena_dup(&arena, "x", 1));
    assert_null(arena_printf(&arena, "x"));
    assert_null(arena_span(&arena, span_str("x")).ptr);
    arena_reset(&arena);
    assert_false(arena.failed);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_apart),
        cmocka_unit_test(nothing_is_something),
        cmocka_unit_test(large_blocks_fit),
        cmocka_unit_test(memory_is_zeroed_and_copied),
        cmocka_unit_test(resetting_reuses_and_gives_back),
        cmocka_unit_test(failure_is_sticky_until_reset),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
