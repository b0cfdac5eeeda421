/* SPDX-License-Identifier: Apache-2.0 */
/* How long is waited for monitors that run, are stopped, are replaced, or end; they are children that do nothing. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/patience.h"
#include "agent/read_internal.h"

enum { PATIENCE_MS = 200, LONGEST_MS = 30000 };

static struct doorbell bell;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static pid_t monitor_new(void)
{
    pid_t monitor = fork();
    if (monitor == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(monitor > 0);
    return monitor;
}

static void ring_for(pid_t monitor)
{
    const struct outside *outside = outside_look(monitor, OUTSIDE_STAT);
    assert_non_null(outside);
    bell.monitor_start_ticks = outside->ticks;
    bell.monitor_pid = monitor;
    outside_release();
}

static void change(pid_t monitor, int signal, int options)
{
    assert_int_equal(kill(monitor, signal), 0);
    assert_int_equal(waitpid(monitor, NULL, options), monitor);
}

/* A thread that waits so long at most; how long it did. */
static uint64_t waits(struct patience *patience, uint64_t most)
{
    uint64_t begin = now_ms();
    while (patience_lasts(patience) && now_ms() - begin < most)
        usleep(PATIENCE_SLICE_MS * 1000);
    return now_ms() - begin;
}

/* Whoever was late itself, and so has waited long, is told at the end whether it was for nothing. */
static bool waits_for_good(void)
{
    struct patience patience = patience_begin(&bell);
    if (!patience_lasts(&patience)) /* counts from here */
        return false;
    waits(&patience, 2 * PATIENCE_MS);
    return patience_lasts(&patience);
}

static int setup(void **state)
{
    patience_forget();
    return 0;
}

static void test_runs(void **state)
{
    pid_t monitor = monitor_new();
    ring_for(monitor);
    struct patience patience = patience_begin(&bell);
    assert_true(waits(&patience, 1500) >= 1500);
    change(monitor, SIGKILL, 0);
    assert_true(waits(&patience, LONGEST_MS) < LONGEST_MS);
    assert_false(patience_monitor_alive(&bell));
}

/* Nobody has asked for its exit status yet. */
static void test_zombie(void **state)
{
    siginfo_t info;
    pid_t monitor = monitor_new();
    ring_for(monitor);
    struct patience patience = patience_begin(&bell);
    assert_true(patience_lasts(&patience));
    kill(monitor, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)monitor, &info, WEXITED | WNOWAIT), 0);
    assert_true(waits(&patience, LONGEST_MS) < LONGEST_MS);
    assert_false(patience_monitor_alive(&bell));
    assert_int_equal(waitpid(monitor, NULL, 0), monitor);
}

/* It is waited for once; then by nobody, until it runs again. */
static void test_stopped(void **state)
{
    pid_t monitor = monitor_new();
    ring_for(monitor);
    for (int i = 0; i < 2; i++) {
        change(monitor, SIGSTOP, WUNTRACED);
        struct patience patience = patience_begin(&bell);
        uint64_t waited = waits(&patience, LONGEST_MS);
        assert_true(waited >= PATIENCE_MS && waited < LONGEST_MS);
        patience = patience_begin(&bell);
        assert_false(patience_lasts(&patience));
        assert_true(patience_monitor_alive(&bell));
        change(monitor, SIGCONT, WCONTINUED);
        usleep(2 * PATIENCE_SLICE_MS * 1000); /* so often is looked */
        assert_true(waits_for_good());
    }
    change(monitor, SIGKILL, 0);
}

/* Another one is there, which knows nothing of who waits; it is waited for from now on. */
static void test_replaced(void **state)
{
    pid_t monitor = monitor_new(), next = monitor_new();
    ring_for(monitor);
    struct patience patience = patience_begin(&bell);
    assert_true(patience_lasts(&patience));
    ring_for(next);
    assert_false(patience_lasts(&patience));
    assert_true(waits_for_good());
    bell.monitor_start_ticks++; /* the same number, another process */
    struct patience other = patience_begin(&bell);
    assert_false(patience_lasts(&other));
    change(monitor, SIGKILL, 0);
    change(next, SIGKILL, 0);
}

/* What was known of a monitor that was given up does not hold for the next one. */
static void test_replaced_while_stopped(void **state)
{
    pid_t monitor = monitor_new(), next = monitor_new();
    ring_for(monitor);
    change(monitor, SIGSTOP, WUNTRACED);
    assert_false(waits_for_good());
    ring_for(next);
    assert_true(waits_for_good());
    change(monitor, SIGKILL, 0);
    change(next, SIGKILL, 0);
}

/* One that does its work as soon as it has a processor is told from one that has none to do, or is stopped. */
static void test_starved(void **state)
{
    pid_t sleeps = monitor_new(), works = fork();
    if (works == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            continue;
    }
    ring_for(sleeps);
    for (uint64_t begin = now_ms(); patience_monitor_starved(&bell) && now_ms() - begin < LONGEST_MS;)
        usleep(PATIENCE_SLICE_MS * 1000); /* it begins to sleep */
    assert_false(patience_monitor_starved(&bell));
    ring_for(works);
    assert_true(patience_monitor_starved(&bell));
    change(works, SIGSTOP, WUNTRACED);
    usleep(2 * PATIENCE_SLICE_MS * 1000);
    assert_false(patience_monitor_starved(&bell));
    change(works, SIGKILL, 0);
    usleep(2 * PATIENCE_SLICE_MS * 1000);
    assert_false(patience_monitor_starved(&bell));
    assert_false(patience_monitor_starved(NULL));
    change(sleeps, SIGKILL, 0);
}

static void test_none(void **state)
{
    struct patience patience = patience_begin(NULL);
    assert_false(patience_lasts(&patience));
    assert_false(patience_monitor_alive(NULL));
    bell.monitor_pid = 0; /* it has ended in order */
    patience = patience_begin(&bell);
    assert_false(patience_lasts(&patience));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_runs, setup),
        cmocka_unit_test_setup(test_zombie, setup),
        cmocka_unit_test_setup(test_stopped, setup),
        cmocka_unit_test_setup(test_replaced, setup),
        cmocka_unit_test_setup(test_replaced_while_stopped, setup),
        cmocka_unit_test_setup(test_starved, setup),
        cmocka_unit_test_setup(test_none, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
