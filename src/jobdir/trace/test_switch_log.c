/* SPDX-License-Identifier: Apache-2.0 */
/* From context switches to the time that calls had a processor: what is written is read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jobdir/trace/switches.h"

enum { BEGIN = 1000000, THREAD = 7, OTHER = 8 };

static struct switch_log log_;
static char directory[] = "/tmp/switch-log-XXXXXX", path[sizeof directory + 16];

static int set_up(void **state)
{
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/.switches", directory);
    switch_log_init(&log_, BEGIN);
    return 0;
}

static int tear_down(void **state)
{
    switch_log_done(&log_);
    unlink(path);
    rmdir(directory);
    return 0;
}

static bool lives(void *ctx, uint32_t tid)
{
    return true;
}

static void in(uint32_t tid, uint64_t time)
{
    switch_log_take(&log_, tid, true, false, BEGIN + time);
}

static void out(uint32_t tid, uint64_t time, bool preempted)
{
    switch_log_take(&log_, tid, false, preempted, BEGIN + time);
}

static struct trace_switches *read_until(uint64_t until, size_t missing)
{
    struct trace_switches *switches;
    switch_log_until(&log_, BEGIN + until, lives, NULL);
    assert_false(log_.failed);
    FILE *file = fopen(path, "w");
    assert_int_equal(fwrite(log_.entries.data, 1, log_.entries.len - missing, file), log_.entries.len - missing);
    fclose(file);
    assert_int_equal(trace_switches_new(&switches), 0);
    trace_switches_go_on(switches, directory, BEGIN, BEGIN + until, log_.entries.len);
    return switches;
}

#define check(switches, tid, from, to, waiting_, preempted_, unknown_) \
    do { \
        struct profile_spent before_, after_; \
        trace_switches_spent(switches, tid, BEGIN + (from), &before_); \
        trace_switches_spent(switches, tid, BEGIN + (to), &after_); \
        assert_int_equal(after_.waiting - before_.waiting, waiting_); \
        assert_int_equal(after_.preempted - before_.preempted, preempted_); \
        assert_int_equal(after_.unknown - before_.unknown, unknown_); \
    } while (0)

static void test_plain(void **state)
{
    switch_log_thread(&log_, THREAD, true);
    in(THREAD, 100);
    out(THREAD, 200, false);
    in(OTHER, 250);
    in(THREAD, 500);
    out(THREAD, 600, true);
    in(THREAD, 650);
    out(THREAD, 1000, false);
    out(OTHER, 1100, true);
    struct trace_switches *switches = read_until(2000, 0);
    check(switches, THREAD, 0, 150, 100, 0, 0);
    check(switches, THREAD, 150, 160, 0, 0, 0);
    check(switches, THREAD, 160, 700, 300, 50, 0); /* across two */
    check(switches, THREAD, 900, 1500, 500, 0, 0); /* it never comes back */
    check(switches, OTHER, 1500, 2000, 0, 500, 0);
    check(switches, THREAD, 2000, 2100, 0, 0, 100); /* nothing is known of that */
    trace_switches_free(switches);
}

/* Times are found whatever they are, and threads without records ran. */
static void test_large(void **state)
{
    const uint64_t hour = UINT64_C(3600) * 3000000000;
    out(THREAD, hour, false);
    in(THREAD, 3 * hour);
    for (uint64_t i = 1; i < 1000; i++) {
        out(OTHER, 3 * hour + 1000 * i, true);
        in(OTHER, 3 * hour + 1000 * i + 10);
    }
    struct trace_switches *switches = read_until(4 * hour, 0);
    check(switches, 99, 0, 10, 0, 0, 0);
    check(switches, THREAD, 10, 3 * hour + 5000, 2 * hour, 0, 0);
    check(switches, OTHER, 3 * hour + 10000, 3 * hour + 999000 + 10, 0, 9900, 0);
    trace_switches_free(switches);
}

/* What does not fit together is not known, and nothing else. */
static void test_lost(void **state)
{
    in(THREAD, 0);
    in(THREAD, 300); /* it left in between */
    out(THREAD, 400, false);
    out(THREAD, 500, false); /* it came in between */
    in(THREAD, 600);
    out(OTHER, 700, false);
    switch_log_gap(&log_, BEGIN + 1000, BEGIN + 2000);
    switch_log_gap(&log_, BEGIN + 1500, BEGIN + 2100); /* of another processor */
    out(THREAD, 1700, false);                          /* told, but others may be missing */
    in(OTHER, 2600);
    struct trace_switches *switches = read_until(4000, 0);
    check(switches, THREAD, 0, 350, 0, 0, 300);
    check(switches, THREAD, 350, 650, 100, 0, 100);
    check(switches, OTHER, 650, 900, 200, 0, 0);
    check(switches, OTHER, 900, 3000, 100, 0, 1600);
    trace_switches_free(switches);
}

/* A file that is not whole says nothing. */
static void test_cut(void **state)
{
    out(THREAD, 100, false);
    in(THREAD, 200);
    out(THREAD, 300, false);
    struct trace_switches *switches = read_until(1000, 1);
    check(switches, THREAD, 0, 150, 0, 0, 150);
    trace_switches_free(switches);
}

/* Behind what was written is a hole of the size of a disk: nobody reads it to its end. */
static void test_hole(void **state)
{
    out(THREAD, 100, false);
    in(THREAD, 200);
    struct trace_switches *switches = read_until(1000, 0);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    check(switches, THREAD, 0, 150, 50, 0, 0);
    check(switches, THREAD, 150, 900, 50, 0, 700);
    trace_switches_free(switches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hole, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
