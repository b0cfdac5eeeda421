/* SPDX-License-Identifier: Apache-2.0 */
/* How long is waited for monitors that run, are stopped, cannot be seen, are replaced, or end; the clock and the
 * monitor are test_world.h's. That the kernel's are read right: test_waiting.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/safety/timeout.h"
#include "agent/test/test_world.h"

enum { SLICE_MS = 50, STOPPED_MS = 200, UNSEEN_MS = 1000, LONG_MS = 3600000, MONITOR = 100, NEXT = 200 };

static struct doorbell bell;

static int setup(void **state)
{
    timeout_forget();
    world_reset();
    bell.monitor_pid = MONITOR;
    bell.monitor_start_ticks = world.ticks;
    return 0;
}

/* A thread that waits so long at most; how long it did. */
static uint64_t waits_for(struct timeout *timeout, uint64_t most_ms)
{
    uint64_t begin_ns = world.now_ns;
    while (timeout_runs(timeout) && world.now_ns - begin_ns < most_ms * 1000000)
        world_pass(SLICE_MS);
    return (world.now_ns - begin_ns) / 1000000;
}

static uint64_t waits_anew(uint64_t most_ms)
{
    struct timeout timeout = timeout_start(&bell);
    return waits_for(&timeout, most_ms);
}

static void test_runs(void **state)
{
    for (const char *letter = "SRDI"; *letter; letter++) {
        world.state = *letter;
        assert_int_equal(waits_anew(LONG_MS), LONG_MS);
    }
    struct timeout timeout = timeout_start(&bell);
    assert_true(timeout_runs(&timeout));
    world.gone = true;
    assert_true(waits_for(&timeout, LONG_MS) <= SLICE_MS);
    assert_false(doorbell_monitor_alive(&bell));
}

/* Nobody has asked for its exit status yet. */
static void test_zombie(void **state)
{
    for (const char *letter = "ZX"; *letter; letter++) {
        struct timeout timeout = timeout_start(&bell);
        setup(NULL);
        assert_true(timeout_runs(&timeout));
        world.state = *letter;
        assert_true(waits_for(&timeout, LONG_MS) <= SLICE_MS);
        assert_false(doorbell_monitor_alive(&bell));
        assert_int_equal(doorbell_monitor_state(&bell), 'X');
    }
}

/* It is waited for once; then by nobody, until it runs again. The same for one of which nothing can be seen. */
static void check_idle(char letter, uint64_t most_ms)
{
    for (int i = 0; i < 2; i++) {
        world.state = letter;
        world_pass(SLICE_MS);
        assert_int_equal(waits_anew(LONG_MS), most_ms);
        assert_int_equal(waits_anew(LONG_MS), 0);
        world_pass(LONG_MS);
        assert_int_equal(waits_anew(LONG_MS), 0);
        assert_true(doorbell_monitor_alive(&bell));
        world.state = 'S';
        world_pass(SLICE_MS); /* so often is looked */
        assert_int_equal(waits_anew(LONG_MS), LONG_MS);
    }
}

static void test_stopped(void **state)
{
    check_idle('T', STOPPED_MS);
    setup(NULL);
    check_idle('t', STOPPED_MS);
}

static void test_unseen(void **state)
{
    check_idle(0, UNSEEN_MS);
}

/* A stop that is over sooner counts for nothing. */
static void test_short_stops(void **state)
{
    struct timeout timeout = timeout_start(&bell);
    for (int i = 0; i < 100; i++) {
        world.state = i % 2 ? 'S' : 'T';
        assert_true(waits_for(&timeout, STOPPED_MS - SLICE_MS) >= STOPPED_MS - SLICE_MS);
    }
}

/* However often it is asked, /proc is read once a slice. */
static void test_how_often(void **state)
{
    struct timeout timeout = timeout_start(&bell);
    assert_true(timeout_runs(&timeout));
    unsigned looks = world.looks;
    for (int i = 0; i < 1000; i++)
        assert_true(timeout_runs(&timeout));
    assert_int_equal(world.looks, looks);
    world_pass(SLICE_MS);
    assert_true(timeout_runs(&timeout));
    assert_int_equal(world.looks, looks + 1);
}

/* Another one is there, which knows nothing of who waits; it is waited for from now on. */
static void test_replaced(void **state)
{
    struct timeout timeout = timeout_start(&bell);
    assert_true(timeout_runs(&timeout));
    bell.monitor_pid = NEXT;
    assert_false(timeout_runs(&timeout));
    assert_int_equal(waits_anew(LONG_MS), LONG_MS);
    bell.monitor_start_ticks++; /* the same number, another process */
    struct timeout other = timeout_start(&bell);
    assert_false(timeout_runs(&other));
    assert_false(doorbell_monitor_alive(&bell));
}

/* What was known of a monitor that was given up does not hold for the next one. */
static void test_replaced_while_stopped(void **state)
{
    world.state = 'T';
    assert_int_equal(waits_anew(LONG_MS), STOPPED_MS);
    bell.monitor_pid = NEXT;
    world.state = 'S';
    assert_int_equal(waits_anew(LONG_MS), LONG_MS);
    world.state = 'T'; /* nor does it when that one is stopped, too */
    world_pass(SLICE_MS);
    assert_int_equal(waits_anew(LONG_MS), STOPPED_MS);
    bell.monitor_pid = MONITOR;
    assert_int_equal(waits_anew(LONG_MS), STOPPED_MS);
}

/* While another thread looks, what was seen last holds. */
static void test_another_looks(void **state)
{
    world.state = 'T';
    struct timeout timeout = timeout_start(&bell);
    assert_true(timeout_runs(&timeout));
    world.busy = true;
    world.state = 'S';
    assert_int_equal(waits_for(&timeout, LONG_MS), STOPPED_MS);
}

/* Distinguishes a monitor that works when it has a processor from one that has no work, or is stopped. */
static void test_state(void **state)
{
    for (const char *letter = "SRDTt"; *letter; letter++) {
        world.state = *letter;
        world_pass(SLICE_MS);
        assert_int_equal(doorbell_monitor_state(&bell), *letter);
    }
    world.state = 0;
    world_pass(SLICE_MS);
    assert_int_equal(doorbell_monitor_state(&bell), 0);
    assert_true(doorbell_monitor_alive(&bell));
    assert_int_equal(doorbell_monitor_state(NULL), 'X');
}

static void test_none(void **state)
{
    struct timeout timeout = timeout_start(NULL);
    assert_false(timeout_runs(&timeout));
    assert_false(doorbell_monitor_alive(NULL));
    bell.monitor_pid = 0; /* it has ended in order */
    timeout = timeout_start(&bell);
    assert_false(timeout_runs(&timeout));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_runs, setup),          cmocka_unit_test_setup(test_zombie, setup),
        cmocka_unit_test_setup(test_stopped, setup),       cmocka_unit_test_setup(test_unseen, setup),
        cmocka_unit_test_setup(test_short_stops, setup),   cmocka_unit_test_setup(test_how_often, setup),
        cmocka_unit_test_setup(test_replaced, setup),      cmocka_unit_test_setup(test_replaced_while_stopped, setup),
        cmocka_unit_test_setup(test_another_looks, setup), cmocka_unit_test_setup(test_state, setup),
        cmocka_unit_test_setup(test_none, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
