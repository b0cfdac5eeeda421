/* SPDX-License-Identifier: Apache-2.0 */
/* When a job of MPI stands still, with a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/system/clock.h"
#include "service/mpi/why.c" /* what is decided is its own business alone */

static struct mpi_stall stall;
static uint64_t start_ns;

static int setup(void **state)
{
    start_ns = UINT64_C(5000) * NS_PER_SECOND;
    stall = (struct mpi_stall){.limit_ns = UINT64_C(10) * NS_PER_SECOND};
    return 0;
}

static bool begins(double seconds, uint64_t mark, unsigned in_call)
{
    struct mpi_stall_look look = {.mark = mark, .ranks = 4, .in_call = in_call};
    return mpi_stall_begins(&stall, &look, start_ns + (uint64_t)(seconds * NS_PER_SECOND));
}

static void test_said_once_for_each(void **state)
{
    assert_false(begins(0, 7, 4));
    assert_false(begins(9.9, 7, 4));
    assert_true(begins(10, 7, 4));
    assert_false(begins(12, 7, 4));
    assert_false(begins(100, 7, 4));
    assert_false(begins(101, 8, 4)); /* it goes on, */
    assert_false(begins(110.9, 8, 4));
    assert_true(begins(111, 8, 4)); /* and stands still again */
}

static void test_each_call_begins_anew(void **state)
{
    for (unsigned i = 0; i < 20; i++)
        assert_false(begins(9.0 * i, i, 4));
    assert_true(begins(9.0 * 19 + 10, 19, 4));
}

/* A computing rank stands still for MPI, but nobody waits. */
static void test_somebody_is_in_a_call(void **state)
{
    assert_false(begins(0, 7, 0));
    assert_false(begins(20, 7, 0));
    assert_false(begins(22.5, 7, 1));
    assert_false(begins(29.9, 7, 1));
    assert_true(begins(30, 7, 1)); /* since the last look at which nobody was */
}

/* The time begins with the first look, whatever the clock says then, and whatever the first mark is. */
static void test_first_look(void **state)
{
    assert_false(begins(0, 0, 4));
    assert_false(begins(9, 0, 4));
    assert_true(begins(10, 0, 4));
}

/* Looked at late, by a monitor that had no processor: said then. */
static void test_late_look(void **state)
{
    assert_false(begins(0, 7, 4));
    assert_true(begins(500, 7, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_said_once_for_each, setup),
        cmocka_unit_test_setup(test_each_call_begins_anew, setup),
        cmocka_unit_test_setup(test_somebody_is_in_a_call, setup),
        cmocka_unit_test_setup(test_first_look, setup),
        cmocka_unit_test_setup(test_late_look, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
