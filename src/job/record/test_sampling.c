/* SPDX-License-Identifier: Apache-2.0 */
/* When a job is sampled, with a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "job/record/scribe.h"

enum { START_NS = 123456789, NS_PER_MS = 1000000 };

static uint64_t next_ms(double now_ms, double period)
{
    uint64_t next = sampling_next_ns(START_NS, START_NS + (uint64_t)(now_ms * NS_PER_MS), period) - START_NS;
    return (next + NS_PER_MS / 2) / NS_PER_MS;
}

static void test_close_together_at_first(void **state)
{
    assert_int_equal(next_ms(0, 1), 20);
    assert_int_equal(next_ms(20, 1), 40);
    assert_int_equal(next_ms(40.5, 1), 81);
    assert_int_equal(next_ms(640, 1), 1280);
    assert_int_equal(next_ms(0, 0.01), 10); /* a period that is shorter still */
}

static void test_at_multiples_of_the_period(void **state)
{
    assert_int_equal(next_ms(1280, 1), 2000);
    assert_int_equal(next_ms(2000.1, 1), 3000);
    assert_int_equal(next_ms(600000, 0.5), 600500);
}

static void test_missed_ones_are_not_made_up_for(void **state)
{
    assert_int_equal(next_ms(2000, 1), 3000);
    assert_int_equal(next_ms(7800, 1), 8000); /* five were missed: stopped, or without a processor */
}

/* Time goes on, however the figures are rounded. */
static void test_always_later(void **state)
{
    static const double periods[] = {0.001, 0.01, 0.1, 1.0 / 3, 1, 60};
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++) {
        uint64_t now = START_NS;
        for (unsigned n = 0; n < 2000; n++) {
            uint64_t next = sampling_next_ns(START_NS, now, periods[i]);
            assert_true(next > now);
            assert_true(next - now <= (uint64_t)(periods[i] * NS_PER_SECOND) + 1);
            now = next;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_together_at_first),
        cmocka_unit_test(test_at_multiples_of_the_period),
        cmocka_unit_test(test_missed_ones_are_not_made_up_for),
        cmocka_unit_test(test_always_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
