/* SPDX-License-Identifier: Apache-2.0 */
/* Pyramids of made calls, against what the calls add up to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "web/view/pyramid.h"

enum { FUNCTIONS = 6, DEPTHS = 4, LEVELS = 4, CALLS = 4000 };

struct made { /* calls of random lengths inside each other */
    struct {
        uint32_t depth, function;
        int64_t begin, end;
    } calls[CALLS];
    size_t count;
    int64_t now;
    uint64_t seed;
};

static uint64_t random_below(struct made *made, uint64_t most)
{
    made->seed = made->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (made->seed >> 33) % most;
}

static void make_call(struct made *made, struct pyramid_lane *lane, uint32_t depth)
{
    if (made->count == CALLS)
        return;
    size_t own = made->count++;
    made->calls[own].depth = depth;
    made->calls[own].function = (uint32_t)random_below(made, FUNCTIONS);
    made->calls[own].begin = made->now += (int64_t)random_below(made, 40);
    pyramid_begin(lane, depth, made->calls[own].function, made->now);
    for (uint64_t inside = random_below(made, 4); depth + 1 < DEPTHS && inside--;)
        make_call(made, lane, depth + 1);
    made->calls[own].end = made->now += (int64_t)random_below(made, 40);
    pyramid_end(lane, depth, made->now);
}

static int64_t part_of(int64_t begin, int64_t end, int64_t from, int64_t to)
{
    begin = begin > from ? begin : from;
    end = end < to ? end : to;
    return end > begin ? end - begin : 0;
}

/* What a column of a depth should be, out of all calls. */
static uint32_t expected(const struct made *made, uint32_t depth, int64_t from, int64_t to)
{
    int64_t sums[FUNCTIONS] = {0};
    uint32_t best = 0;
    for (size_t i = 0; i < made->count; i++)
        if (made->calls[i].depth == depth)
            sums[made->calls[i].function] += part_of(made->calls[i].begin, made->calls[i].end, from, to);
    for (uint32_t i = 1; i < FUNCTIONS; i++)
        best = sums[i] > sums[best] ? i : best;
    if (!sums[best])
        return 0;
    uint64_t share = ((uint64_t)sums[best] * 255 + (uint64_t)(to - from) / 2) / (uint64_t)(to - from);
    return best << 8 | (uint32_t)(share ? share : 1);
}

static void test_all_levels(void **state)
{
    static struct made made;
    struct pyramid pyramid = {.from = 1000, .to = 150017, .levels = LEVELS, .most_cells = 1 << 20};
    struct pyramid_lane *lane;
    made = (struct made){.now = 1000, .seed = 4};
    assert_int_equal(pyramid_lane_new(&lane, &pyramid), 0);
    while (made.count < CALLS)
        make_call(&made, lane, 0);
    pyramid_finish(lane, pyramid.to);
    assert_int_equal(pyramid_depth(lane), DEPTHS);
    for (unsigned level = 0; level < LEVELS; level++) {
        size_t columns = (size_t)PYRAMID_COLUMNS << level;
        uint64_t calls = 0;
        assert_int_equal(pyramid_known(lane, level), columns);
        for (size_t i = 0; i < columns; i++) {
            int64_t from = pyramid_time(&pyramid, level, i), to = pyramid_time(&pyramid, level, i + 1);
            for (uint32_t depth = 0; depth < DEPTHS; depth++)
                assert_int_equal(*pyramid_cells(lane, level, depth, i), expected(&made, depth, from, to));
            calls += pyramid_calls(lane, level, i, 1);
        }
        uint64_t inside = 0;
        for (size_t i = 0; i < made.count; i++)
            inside += made.calls[i].begin < pyramid.to;
        assert_int_equal(calls, inside);
        assert_int_equal(pyramid_calls(lane, level, 0, columns), inside);
    }
    pyramid_lane_free(lane);
}

/* Columns meet, and tiles are made of whole columns. */
static void test_boundaries(void **state)
{
    const struct pyramid pyramid = {.from = -7, .to = INT64_C(3) << 50, .levels = 3};
    for (unsigned level = 0; level < 20; level++) {
        assert_int_equal(pyramid_time(&pyramid, level, 0), pyramid.from);
        assert_int_equal(pyramid_time(&pyramid, level, (uint64_t)PYRAMID_COLUMNS << level), pyramid.to);
        assert_int_equal(pyramid_part(&pyramid, level, (UINT64_C(1) << level) / 2),
                         pyramid_time(&pyramid, level, ((uint64_t)PYRAMID_COLUMNS << level >> 1) & ~UINT64_C(511)));
    }
}

/* A column is exactly the calls that touch it, also when these begin and end on its edges. */
static void test_edges(void **state)
{
    struct pyramid pyramid = {.from = 0, .to = 512, .levels = 1, .most_cells = 1 << 20};
    struct pyramid_lane *lane;
    assert_int_equal(pyramid_lane_new(&lane, &pyramid), 0);
    pyramid_begin(lane, 0, 9, 10);
    pyramid_begin(lane, 1, 8, 11);
    pyramid_end(lane, 1, 12);
    pyramid_end(lane, 0, 13);
    pyramid_begin(lane, 0, 7, 13); /* no time at all */
    pyramid_end(lane, 0, 13);
    assert_int_equal(pyramid_known(lane, 0), 13);
    pyramid_begin(lane, 0, 6, 500);
    pyramid_end(lane, 0, 499); /* earlier counts as the latest */
    pyramid_begin(lane, 0, 5, 510);
    pyramid_finish(lane, 512);
    const uint32_t *outer = pyramid_cells(lane, 0, 0, 0), *inner = pyramid_cells(lane, 0, 1, 0);
    for (size_t i = 0; i < PYRAMID_COLUMNS; i++) {
        assert_int_equal(outer[i], i >= 10 && i < 13 ? 9 << 8 | 255 : i >= 510 ? 5 << 8 | 255 : 0);
        assert_int_equal(inner[i], i == 11 ? 8 << 8 | 255 : 0);
    }
    assert_null(pyramid_cells(lane, 0, 2, 0));
    pyramid_lane_free(lane);
}

/* Shares of one column add up to no more than all of it. */
static void test_shares(void **state)
{
    struct pyramid pyramid = {.from = 0, .to = 5120, .levels = 1, .most_cells = 1 << 20};
    struct pyramid_lane *lane;
    assert_int_equal(pyramid_lane_new(&lane, &pyramid), 0);
    for (uint32_t i = 0; i < 10; i++) { /* ten functions share the first column; one has two parts */
        pyramid_begin(lane, 0, i == 7 ? 3 : i, i);
        pyramid_end(lane, 0, i + 1);
    }
    pyramid_finish(lane, 5120);
    assert_int_equal(*pyramid_cells(lane, 0, 0, 0), 3 << 8 | 51);
    assert_int_equal(pyramid_calls(lane, 0, 0, 1), 10);
    pyramid_lane_free(lane);
}

/* What there is no room for is left out, and said. */
static void test_limits(void **state)
{
    struct pyramid pyramid = {.from = 0, .to = 1000, .levels = 1, .most_cells = 2 * PYRAMID_COLUMNS};
    struct pyramid_lane *lane;
    assert_int_equal(pyramid_lane_new(&lane, &pyramid), 0);
    for (uint32_t i = 0; i < 4; i++)
        pyramid_begin(lane, i, i, 10);
    pyramid_begin(lane, PYRAMID_DEPTH, 1, 11);
    pyramid_begin(lane, 0, PYRAMID_FUNCTIONS, 12);
    pyramid_end(lane, UINT32_MAX, 13);
    pyramid_end(lane, 0, INT64_MAX);
    assert_true(pyramid.full);
    pyramid_finish(lane, 1000);
    assert_non_null(pyramid_cells(lane, 0, 1, 0));
    assert_null(pyramid_cells(lane, 0, 2, 0));
    pyramid_lane_free(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_levels), cmocka_unit_test(test_boundaries), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_shares),     cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
