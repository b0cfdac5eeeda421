/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/loop.h"

static struct loop *loop;
static char trail[64];    /* what was called, in order */
static char letters[128]; /* each is itself: a context can point to one */

static void leave(char c)
{
    size_t len = strlen(trail);
    assert_true(len + 1 < sizeof trail);
    trail[len] = c;
    trail[len + 1] = 0;
}

static int setup(void **state)
{
    trail[0] = 0;
    for (int i = 0; i < 128; i++)
        letters[i] = (char)i;
    return loop_new(&loop);
}

static int teardown(void **state)
{
    loop_free(loop);
    return 0;
}

static void leave_letter(void *ctx)
{
    leave(*(const char *)ctx);
}

static void stop(void *ctx)
{
    loop_stop(loop);
}

static void leave_and_drain(void *ctx, int fd, uint32_t events)
{
    char byte;
    assert_true(events & EPOLLIN);
    assert_int_equal(read(fd, &byte, 1), 1);
    leave(byte);
}

static void descriptors_are_served(void **state)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    struct loop_source *source = loop_add_fd(loop, pipes[0], EPOLLIN, leave_and_drain, NULL);
    assert_non_null(source);
    assert_int_equal(loop_step(loop, 0), 0);
    assert_string_equal(trail, "");
    assert_int_equal(write(pipes[1], "ab", 2), 2);
    assert_int_equal(loop_step(loop, -1), 0);
    assert_int_equal(loop_step(loop, -1), 0);
    assert_string_equal(trail, "ab");
    assert_int_equal(write(pipes[1], "c", 1), 1);
    assert_int_equal(loop_set_events(source, 0), 0);
    assert_int_equal(loop_step(loop, 0), 0);
    assert_string_equal(trail, "ab");
    assert_int_equal(loop_set_events(source, EPOLLIN), 0);
    assert_int_equal(loop_step(loop, -1), 0);
    assert_string_equal(trail, "abc");
    loop_remove(source);
    loop_remove(NULL);
    assert_int_equal(write(pipes[1], "d", 1), 1);
    assert_int_equal(loop_step(loop, 0), 0);
    assert_string_equal(trail, "abc");
    assert_true(fcntl(pipes[0], F_GETFD) >= 0); /* not the loop's to close */
    close(pipes[0]);
    close(pipes[1]);
    assert_null(loop_add_fd(loop, -1, EPOLLIN, leave_and_drain, NULL));
}

static void timers_run_in_time(void **state)
{
    uint64_t start = clock_now_ns();
    assert_non_null(loop_add_timer(loop, 20000000, 0, stop, NULL));
    assert_non_null(loop_add_timer(loop, 0, 0, leave_letter, &letters['a']));
    assert_int_equal(loop_run(loop), 0);
    assert_string_equal(trail, "a"); /* once */
    assert_true(clock_now_ns() - start >= 20000000);
}

static struct loop_source *ticking;
static int ticks;

static void tick(void *ctx)
{
    if (++ticks == 5) {
        loop_remove(ticking); /* its own */
        ticking = NULL;
        loop_stop(loop);
    }
}

static void periodic_timers_repeat_until_removed(void **state)
{
    ticks = 0;
    ticking = loop_add_timer(loop, 1000000, 1000000, tick, NULL);
    assert_int_equal(loop_run(loop), 0);
    assert_int_equal(ticks, 5);
    assert_int_equal(loop_step(loop, 5000000), 0);
    assert_int_equal(ticks, 5);
}

static void a_timer_is_set_again(void **state)
{
    struct loop_source *timer = loop_add_timer(loop, UINT64_C(3600) * NS_PER_SECOND, 0, stop, NULL);
    assert_int_equal(loop_step(loop, 0), 0);
    loop_set_timer(timer, 1, 0);
    assert_int_equal(loop_run(loop), 0);
    loop_set_timer(timer, 1, 0); /* a timer that has run */
    assert_int_equal(loop_run(loop), 0);
}

static void defer_again(void *ctx)
{
    leave('x');
    loop_add_deferred(loop, leave_letter, &letters['y']);
}

static void deferred_calls_run_in_order(void **state)
{
    loop_add_deferred(loop, leave_letter, &letters['a']);
    loop_add_deferred(loop, defer_again, NULL);
    loop_add_deferred(loop, leave_letter, &letters['b']);
    loop_remove(loop_add_deferred(loop, leave_letter, &letters['n']));
    assert_int_equal(loop_step(loop, -1), 0); /* does not wait: one more was added */
    assert_string_equal(trail, "axb");
    assert_int_equal(loop_step(loop, 0), 0);
    assert_string_equal(trail, "axby");
}

static void a_stop_before_the_run_counts(void **state)
{
    loop_stop(loop);
    assert_int_equal(loop_run(loop), 0);
    loop_add_deferred(loop, leave_letter, &letters['a']);
    loop_add_timer(loop, 1000000, 0, stop, NULL);
    assert_int_equal(loop_run(loop), 0); /* and only once */
    assert_string_equal(trail, "a");
}

static struct loop_source *pair[2];

static void remove_other(void *ctx, int fd, uint32_t events)
{
    int self = ctx == &pair[1];
    leave('r');
    loop_remove(pair[!self]);
    pair[!self] = NULL;
}

static void a_source_removed_in_the_same_batch_is_not_called(void **state)
{
    int pipes[2][2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        assert_int_equal(write(pipes[i][1], "x", 1), 1);
        pair[i] = loop_add_fd(loop, pipes[i][0], EPOLLIN, remove_other, &pair[i]);
        assert_non_null(pair[i]);
    }
    assert_int_equal(loop_step(loop, -1), 0); /* both are ready */
    assert_string_equal(trail, "r");
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
}

static void step_inside(void *ctx, int fd, uint32_t events)
{
    char byte;
    assert_int_equal(read(fd, &byte, 1), 1);
    leave(byte);
    loop_remove(pair[0]);
    loop_remove(pair[1]);
    assert_int_equal(loop_step(loop, 0), 0);
}

static void a_callback_may_step_the_loop(void **state)
{
    int pipes[2][2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        assert_int_equal(write(pipes[i][1], "x", 1), 1);
        pair[i] = loop_add_fd(loop, pipes[i][0], EPOLLIN, step_inside, NULL);
    }
    assert_int_equal(loop_step(loop, -1), 0); /* the other one is in the outer step's batch, and removed */
    assert_string_equal(trail, "x");
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
}

static void on_signal(void *ctx, int fd, uint32_t events)
{
    assert_int_equal(fd, -1);
    assert_int_equal(events, SIGUSR1);
    leave('s');
}

static void signals_are_served(void **state)
{
    struct loop_source *source = loop_add_signal(loop, SIGUSR1, on_signal, NULL);
    assert_non_null(source);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(loop_step(loop, -1), 0);
    assert_string_equal(trail, "s");
    loop_remove(source);
}

static void an_idle_loop_waits(void **state)
{
    uint64_t start = clock_now_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    assert_int_equal(loop_step(loop, 30000000), 0);
    assert_true(clock_now_ns() - start >= 30000000);
    assert_true(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu < 20000000);
    loop_add_deferred(loop, leave_letter, &letters['a']);
    start = clock_now_ns();
    assert_int_equal(loop_step(loop, 1), 0); /* less than the clock of epoll: rounded up, not down to a poll */
    assert_true(clock_now_ns() - start >= 1);
    loop_add_timer(loop, 1000000, 0, leave_letter, &letters['t']);
    assert_int_equal(loop_step(loop, INT64_MAX), 0); /* too large for milliseconds in an int */
    assert_string_equal(trail, "at");
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static void read_one(void *ctx)
{
    char c;
    if (read(*(int *)ctx, &c, 1) == 1)
        leave(c);
}

/* Later arrivals are neither reported before the rest is over, nor forgotten. */
static void what_comes_soon_is_told_later(void **state)
{
    static const uint64_t rest_ns = 30000000;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct throttle *throttle = throttle_new(loop, ends[0], rest_ns, read_one, &ends[0]);
    assert_non_null(throttle);
    assert_int_equal(write(ends[1], "ab", 2), 2);
    while (!trail[0])
        assert_int_equal(loop_step(loop, -1), 0);
    uint64_t first_ns = clock_now_ns();
    while (!trail[1])
        assert_int_equal(loop_step(loop, -1), 0);
    assert_true(clock_now_ns() - first_ns > rest_ns / 2);
    assert_string_equal(trail, "ab");
    throttle_free(throttle);
    throttle_free(NULL);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(descriptors_are_served),
        EACH(timers_run_in_time),
        EACH(periodic_timers_repeat_until_removed),
        EACH(a_timer_is_set_again),
        EACH(deferred_calls_run_in_order),
        EACH(a_stop_before_the_run_counts),
        EACH(a_source_removed_in_the_same_batch_is_not_called),
        EACH(a_callback_may_step_the_loop),
        EACH(signals_are_served),
        EACH(an_idle_loop_waits),
        EACH(what_comes_soon_is_told_later),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
