/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/system/clock.h"

enum { US = 1000, MS = 1000 * US };
#define SECOND (UINT64_C(1000) * MS)

/* Asks at t0; the way there and the way back take so long, and the other one needs some time to answer. */
static bool ask(struct clock_offset *clock, uint64_t t0, int64_t offset, uint64_t there, uint64_t takes, uint64_t back)
{
    uint64_t t1 = t0 + there + (uint64_t)offset, t2 = t1 + takes;
    return clock_offset_add(clock, t0, t1, t2, t0 + there + takes + back);
}

static void assert_within(const struct clock_offset *clock, uint64_t now, int64_t offset, uint64_t least, uint64_t most)
{
    int64_t found;
    uint64_t bound;
    assert_true(clock_offset_now(clock, now, &found, &bound));
    int64_t wrong = found - offset;
    assert_true((uint64_t)(wrong < 0 ? -wrong : wrong) <= bound);
    assert_in_range(bound, least, most);
}

static void nothing_is_known_at_first(void **state)
{
    struct clock_offset clock = {0};
    int64_t offset;
    uint64_t bound;
    assert_false(clock_offset_now(&clock, 5, &offset, &bound));
}

static void the_offset_is_within_the_bound(void **state)
{
    static const int64_t offsets[] = {0, 1, -1, 5 * MS, -5 * MS, INT64_C(86400000000000), -INT64_C(86400000000000)};
    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++)
        for (uint64_t there = 0; there <= 2 * MS; there += MS / 2) {
            struct clock_offset clock = {0};
            uint64_t now = 100000 * SECOND;
            assert_true(ask(&clock, now, offsets[i], there, 3 * MS, 2 * MS - there)); /* ways of different length */
            assert_within(&clock, now + 5 * MS, offsets[i], MS, MS + 2 * US);
        }
}

static void the_least_round_trip_counts(void **state)
{
    struct clock_offset clock = {0};
    uint64_t now = 1000 * SECOND;
    assert_true(ask(&clock, now, 7 * MS, 9 * MS, 0, MS));
    assert_within(&clock, now + 10 * MS, 7 * MS, 5 * MS, 5 * MS + 2 * US);
    assert_true(ask(&clock, now + SECOND, 7 * MS, 30 * US, MS, 10 * US));
    assert_within(&clock, now + 2 * SECOND, 7 * MS, 20 * US, 140 * US);
    assert_true(ask(&clock, now + 2 * SECOND, 7 * MS, 9 * MS, 0, MS));
    assert_within(&clock, now + 3 * SECOND, 7 * MS, 20 * US, 240 * US);
}

static void the_bound_grows_until_a_newer_one_is_better(void **state)
{
    struct clock_offset clock = {0};
    uint64_t now = 1000 * SECOND;
    assert_true(ask(&clock, now, 7 * MS, 10 * US, 0, 10 * US));
    assert_within(&clock, now + 10 * SECOND, 7 * MS, 1010 * US, 1011 * US);
    assert_true(ask(&clock, now + 10 * SECOND, 7 * MS, 400 * US, 0, 100 * US));
    assert_within(&clock, now + 10 * SECOND + MS, 7 * MS, 250 * US, 251 * US);
    for (unsigned i = 0; i < 2 * CLOCK_SAMPLES; i++)
        assert_true(ask(&clock, now + (11 + i) * SECOND, 7 * MS, 10 * US, 0, 900 * US));
    assert_int_equal(clock.count, CLOCK_SAMPLES);
    assert_within(&clock, now + 43 * SECOND, 7 * MS, 455 * US, 556 * US);
}

/* 40 us a second away from each other, and jitter: the truth is always within the bound. */
static void clocks_drift(void **state)
{
    struct clock_offset clock = {0};
    uint32_t random = 1;
    for (uint64_t second = 0; second < 2000; second++) {
        uint64_t now = (5000 + second) * SECOND;
        int64_t offset = 3 * (int64_t)SECOND + (int64_t)second * 40 * US;
        random = random * 1664525 + 1013904223;
        assert_true(ask(&clock, now, offset, random >> 12, random % 5000, random >> 8 & 0xfffff));
        assert_within(&clock, now + SECOND, offset + 40 * US, 100 * US, 2 * MS);
        assert_int_equal(clock.count, second < CLOCK_SAMPLES ? second + 1 : CLOCK_SAMPLES); /* none was dropped */
    }
}

static void a_clock_that_was_set(void **state)
{
    struct clock_offset clock = {0};
    uint64_t now = 1000 * SECOND;
    for (unsigned i = 0; i < CLOCK_SAMPLES; i++)
        assert_true(ask(&clock, now + i * SECOND, 7 * MS, 10 * US, 0, 10 * US));
    assert_true(ask(&clock, now + 20 * SECOND, -SECOND, 50 * US, 0, 50 * US)); /* theirs */
    assert_int_equal(clock.count, 1);
    assert_within(&clock, now + 20 * SECOND + MS, -(int64_t)SECOND, 50 * US, 51 * US);
    assert_true(ask(&clock, now - SECOND, 7 * MS, 10 * US, 0, 10 * US)); /* ours, back */
    assert_int_equal(clock.count, 1);
    assert_within(&clock, now, 7 * MS, 10 * US, 120 * US);
    int64_t offset;
    uint64_t bound;
    assert_false(clock_offset_now(&clock, now - 2 * SECOND, &offset, &bound));
}

static void times_that_cannot_be(void **state)
{
    static const uint64_t impossible[][4] = {
        {100, 200, 200, 99},                        /* ours went back meanwhile */
        {100, 200, 199, 300},                       /* theirs */
        {100, 0, 1000, 300},                        /* it took longer than all of it */
        {UINT64_MAX, 0, UINT64_MAX, 0},             /* foreign bytes */
        {0, 0, UINT64_MAX, UINT64_MAX / 1000 * 999} /* 0.1 per cent more than it took */
    };
    for (unsigned i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        struct clock_offset clock = {0};
        int64_t offset;
        uint64_t bound;
        assert_true(ask(&clock, 10, 5, 1, 0, 1));
        assert_false(clock_offset_add(&clock, impossible[i][0], impossible[i][1], impossible[i][2], impossible[i][3]));
        assert_false(clock_offset_now(&clock, 500, &offset, &bound));
    }
    struct clock_offset clock = {0};
    int64_t offset;
    uint64_t bound;
    assert_true(clock_offset_add(&clock, 0, UINT64_MAX, UINT64_MAX, UINT64_MAX)); /* no overflow */
    assert_true(clock_offset_add(&clock, 0, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX));
    assert_true(clock_offset_add(&clock, UINT64_MAX, 0, 0, UINT64_MAX));
    assert_true(clock_offset_now(&clock, UINT64_MAX, &offset, &bound));
    /* a long answer, and a clock there that is faster: no time seems to be left for the ways */
    clock = (struct clock_offset){0};
    assert_true(clock_offset_add(&clock, SECOND, 5 * SECOND, 15 * SECOND + 500 * US, 11 * SECOND));
    assert_true(clock_offset_now(&clock, 11 * SECOND, &offset, &bound));
    assert_true(offset == 4 * (int64_t)SECOND && bound >= 1000 * US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_at_first),
        cmocka_unit_test(the_offset_is_within_the_bound),
        cmocka_unit_test(the_least_round_trip_counts),
        cmocka_unit_test(the_bound_grows_until_a_newer_one_is_better),
        cmocka_unit_test(clocks_drift),
        cmocka_unit_test(a_clock_that_was_set),
        cmocka_unit_test(times_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
