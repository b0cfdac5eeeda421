/* SPDX-License-Identifier: Apache-2.0 */
/* What records of context switches mean, with times that are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/switches.h"

static char told[512];

static void tell(void *ctx, enum switch_event what, uint64_t time_ns)
{
    static const char *const names[] = {"in", "out", "sleeps", "wakes"};
    (void)ctx;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s%s %lu", *told ? ", " : "", names[what],
             (unsigned long)time_ns / 1000);
}

static struct switch_state state;

static void begin(enum switch_place place)
{
    switch_state_free(&state);
    state = (struct switch_state){.reported = place};
    *told = 0;
}

/* Times in microseconds. */
static void out(uint64_t time)
{
    switch_take(&state, &(struct switch_record){.time_ns = 1000 * time}, tell, NULL);
}

static void preempted(uint64_t time)
{
    switch_take(&state, &(struct switch_record){.time_ns = 1000 * time, .preempted = true}, tell, NULL);
}

static void in(uint64_t time)
{
    switch_take(&state, &(struct switch_record){.time_ns = 1000 * time, .in = true}, tell, NULL);
}

static void interrupts(uint64_t time)
{
    switch_interrupts(&state, 1000 * time);
}

static void resumes(uint64_t time)
{
    switch_resumes(&state, 1000 * time);
}

static void settle(bool stopped, uint64_t time)
{
    switch_settle(&state, stopped, 1000 * time, tell, NULL);
}

static void expect_switches(const char *expected)
{
    assert_string_equal(told, expected);
    *told = 0;
}

static void nobody_traces(void **unused)
{
    begin(SWITCH_SLEEPS);
    in(10);
    expect_switches("wakes 10, in 10");
    preempted(20);
    in(30);
    expect_switches("out 20, in 30");
    out(40);
    assert_true(switch_asks_stopped(&state));
    settle(false, 41);
    expect_switches("out 40, sleeps 40");
    in(50);
    out(60);
    in(70);
    expect_switches("wakes 50, in 50, out 60, sleeps 60, wakes 70, in 70");
    begin(SWITCH_UNKNOWN);
    in(5);
    expect_switches("in 5");
}

static void stops_of_a_running_thread(void **unused)
{
    begin(SWITCH_RUNS);
    interrupts(10);
    out(12);
    assert_false(switch_asks_stopped(&state));
    settle(false, 13);
    resumes(20);
    in(22);
    expect_switches("");
    out(30); /* at an event, without an interrupt: still there, ... */
    assert_true(switch_asks_stopped(&state));
    settle(true, 31);
    resumes(40);
    in(42);
    out(50); /* ... let go on before the record is read, and after that */
    resumes(52);
    assert_false(switch_asks_stopped(&state));
    settle(false, 54);
    in(55);
    out(60);
    resumes(62);
    in(64);
    expect_switches("");
    assert_int_equal(state.pause_count, 0);
    out(70);
    settle(false, 71);
    expect_switches("out 70, sleeps 70");
}

/* Two interrupts' worth of stops, read long afterwards. */
static void stops_that_are_read_late(void **unused)
{
    begin(SWITCH_RUNS);
    interrupts(10);
    resumes(20);
    interrupts(30);
    resumes(40);
    preempted(5);
    in(7);
    out(12);
    in(21);
    out(25);
    in(28);
    out(33);
    in(41);
    expect_switches("out 5, in 7, out 25, sleeps 25, wakes 28, in 28");
}

static void interrupted_sleep_goes_on(void **unused)
{
    begin(SWITCH_RUNS);
    for (uint64_t at = 0; at < 3000; at += 1000) {
        out(at + 10);
        settle(false, at + 12);
        expect_switches(at ? "" : "out 10, sleeps 10");
        interrupts(at + 20);
        in(at + 21);
        out(at + 24);
        settle(false, at + 25);
        resumes(at + 900);
        in(at + 903);
        settle(false, at + 904);
    }
    expect_switches("");
    settle(false, 4000); /* it does not sleep on this time */
    expect_switches("wakes 2903, in 2903");
}

static void interrupted_sleep_ends(void **unused)
{
    begin(SWITCH_SLEEPS);
    interrupts(20);
    in(21);
    out(24);
    resumes(30);
    in(33);
    out(3000);
    settle(false, 3001);
    expect_switches("wakes 33, in 33, out 3000, sleeps 3000");
    interrupts(3020);
    in(3021);
    out(3024);
    resumes(3030);
    in(3033);
    preempted(3040);
    in(9050);
    settle(false, 9060);
    expect_switches("");
    out(9100); /* it came back to its sleep, late */
    settle(false, 9101);
    expect_switches("");
    interrupts(9200);
    in(9201);
    out(9204);
    resumes(9300);
    in(9303);
    preempted(9310);
    settle(false, 9999);
    in(10050);
    settle(false, 10500);
    expect_switches("");
    settle(false, 10600); /* it goes on */
    expect_switches("wakes 9303, in 9303");
}

static void preempted_when_stopped(void **unused)
{
    begin(SWITCH_RUNS);
    preempted(10);
    settle(false, 11);
    interrupts(20);
    in(30);
    out(31);
    resumes(40);
    in(41);
    expect_switches("out 10, in 41");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_traces),
        cmocka_unit_test(stops_of_a_running_thread),
        cmocka_unit_test(stops_that_are_read_late),
        cmocka_unit_test(interrupted_sleep_goes_on),
        cmocka_unit_test(interrupted_sleep_ends),
        cmocka_unit_test(preempted_when_stopped),
    };
    return cmocka_run_group_tests_name("switch state", tests, NULL, NULL);
}
