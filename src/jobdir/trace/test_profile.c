/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "jobdir/trace/profile.h"

enum { MAIN = 1, A, B, C, FIB };

static int set_up(void **state)
{
    return profile_new((struct profile **)state, 100);
}

static int tear_down(void **state)
{
    profile_free(*state);
    return 0;
}

static struct profile_row row_of(const struct profile *profile, uint32_t function, uint64_t now)
{
    struct profile_row *rows, found = {.function = PROFILE_ROOT};
    size_t count;
    assert_int_equal(profile_rows(profile, now, &rows, &count), 0);
    for (size_t i = 0; i < count; i++) {
        if (i)
            assert_true(rows[i - 1].self >= rows[i].self);
        if (rows[i].function == function)
            found = rows[i];
    }
    free(rows);
    return found;
}

static struct profile_edge edge_of(const struct profile *profile, uint32_t caller, uint32_t function)
{
    struct profile_edge *edges, found = {0};
    size_t count;
    assert_int_equal(profile_edges(profile, &edges, &count), 0);
    for (size_t i = 0; i < count; i++)
        if (edges[i].caller == caller && edges[i].function == function) {
            assert_int_equal(found.calls, 0);
            found = edges[i];
        }
    free(edges);
    return found;
}

#define check_row(profile, now, id, calls_, total_, self_, min_, max_) \
    do { \
        struct profile_row row_ = row_of(profile, id, now); \
        assert_int_equal(row_.calls, calls_); \
        assert_int_equal(row_.total, total_); \
        assert_int_equal(row_.self, self_); \
        assert_int_equal(row_.min, min_); \
        assert_int_equal(row_.max, max_); \
    } while (0)

#define check_edge(profile, caller, id, calls_, total_) \
    do { \
        struct profile_edge edge_ = edge_of(profile, caller, id); \
        assert_int_equal(edge_.calls, calls_); \
        assert_int_equal(edge_.total, total_); \
    } while (0)

static void test_nesting(void **state)
{
    struct profile *p = *state;
    profile_enter(p, 0, 0, MAIN, 100);
    profile_enter(p, 0, 0, A, 110);
    profile_enter(p, 0, 0, B, 115);
    profile_leave(p, 0, 0, 118);
    profile_leave(p, 0, 0, 120);
    profile_enter(p, 0, 0, A, 130);
    profile_leave(p, 0, 0, 150);
    profile_enter(p, 0, 0, B, 160);
    profile_leave(p, 0, 0, 161);
    profile_leave(p, 0, 0, 200);
    check_row(p, 0, MAIN, 1, 100, 69, 100, 100);
    check_row(p, 0, A, 2, 30, 27, 10, 20);
    check_row(p, 0, B, 2, 4, 4, 1, 3);
    check_edge(p, PROFILE_ROOT, MAIN, 1, 100);
    check_edge(p, MAIN, A, 2, 30);
    check_edge(p, A, B, 1, 3);
    check_edge(p, MAIN, B, 1, 1);
    profile_leave(p, 0, 0, 300); /* nothing is open: ignored */
    profile_leave(p, 9, 9, 300);
    check_row(p, 0, MAIN, 1, 100, 69, 100, 100);

    struct profile_node *nodes;
    size_t count;
    assert_int_equal(profile_tree(p, &nodes, &count), 0);
    const struct profile_node expected[] = {{0, MAIN, 1, 100}, {1, A, 2, 30}, {2, B, 1, 3}, {1, B, 1, 1}};
    assert_int_equal(count, 4);
    assert_memory_equal(nodes, expected, sizeof expected);
    free(nodes);
}

static void fib(struct profile *p, unsigned n, uint64_t *now)
{
    profile_enter(p, 0, 0, FIB, (*now)++);
    if (n > 1) {
        fib(p, n - 1, now);
        fib(p, n - 2, now);
    }
    profile_leave(p, 0, 0, (*now)++);
}

static void test_recursion(void **state)
{
    struct profile *p = *state;
    uint64_t now = 10;
    profile_enter(p, 0, 0, MAIN, 0);
    fib(p, 10, &now);
    profile_leave(p, 0, 0, 1000);
    uint64_t span = now - 1 - 10, calls = 177;
    check_row(p, 0, FIB, calls, span, span, 1, span);
    check_edge(p, MAIN, FIB, 1, span);
    /* what is called by itself: its outermost such calls only, less than the whole */
    struct profile_edge own = edge_of(p, FIB, FIB);
    assert_int_equal(own.calls, calls - 1);
    assert_true(own.total < span && own.total > span / 2);
    struct profile_node *nodes;
    size_t count;
    assert_int_equal(profile_tree(p, &nodes, &count), 0);
    assert_int_equal(count, 3);
    assert_int_equal(nodes[2].depth, 2);
    assert_int_equal(nodes[2].calls, calls - 1);
    free(nodes);

    /* A calls B calls A calls B: each total is that of the outermost */
    for (uint64_t i = 0; i < 4; i++)
        profile_enter(p, 0, 0, i % 2 ? B : A, 2000 + i);
    for (uint64_t i = 0; i < 4; i++)
        profile_leave(p, 0, 0, 2010 + i);
    check_row(p, 0, A, 2, 13, 4, 9, 13);
    check_row(p, 0, B, 2, 11, 9, 7, 11);
    check_edge(p, A, B, 2, 11);
    check_edge(p, B, A, 1, 9);
}

static void test_deep(void **state)
{
    struct profile *p = *state;
    for (uint64_t i = 0; i < 100000; i++)
        profile_enter(p, 0, 0, A, i);
    for (uint64_t i = 0; i < 100000; i++)
        profile_leave(p, 0, 0, 100000 + i);
    check_row(p, 0, A, 100000, 199999, 199999, 1, 199999);
    struct profile_node *nodes;
    size_t count;
    assert_int_equal(profile_tree(p, &nodes, &count), 0);
    assert_int_equal(count, 2);
    free(nodes);
}

static void test_unwound_and_lost(void **state)
{
    struct profile *p = *state;
    profile_enter(p, 0, 0, MAIN, 0);
    profile_enter(p, 0, 0, A, 10);
    profile_enter(p, 0, 0, B, 20);
    profile_unwind(p, 0, 0, 2, 30);
    check_row(p, 0, A, 1, 20, 10, 20, 20);
    check_row(p, 0, B, 1, 10, 10, 10, 10);
    assert_int_equal(row_of(p, A, 0).unwound, 1);
    profile_enter(p, 0, 0, C, 40);
    profile_enter(p, 0, 0, B, 41);
    profile_leave(p, 0, 0, 43);
    profile_lost(p, 0, 0, 1);
    check_row(p, 0, C, 1, 0, 0, 0, 0);
    profile_leave(p, 0, 0, 100);
    check_row(p, 0, MAIN, 1, 100, 78, 100, 100); /* without the two ticks of B in C */
    profile_unwind(p, 0, 0, UINT32_MAX, 200);
    profile_lost(p, 0, 0, UINT32_MAX);
    assert_int_equal(row_of(p, MAIN, 0).unwound, 0);
}

static void test_exits_that_name_their_entry(void **state)
{
    struct profile *p = *state;
    profile_enter(p, 0, 0, MAIN, 0);
    profile_enter(p, 0, 0, A, 10);
    profile_enter(p, 0, 0, B, 20);
    profile_leave_of(p, 0, 0, A, 10, 30); /* B's end was lost */
    check_row(p, 0, A, 1, 20, 20, 20, 20);
    check_row(p, 0, B, 1, 0, 0, 0, 0);
    /* an entry that was lost: what has been in it so far is not its own time */
    profile_enter(p, 0, 0, B, 50);
    profile_leave(p, 0, 0, 55);
    profile_leave_of(p, 0, 0, C, 45, 60);
    check_row(p, 0, C, 1, 15, 0, 15, 15);
    profile_leave(p, 0, 0, 100);
    assert_int_equal(row_of(p, MAIN, 0).calls, 1);
    assert_int_equal(row_of(p, MAIN, 0).open, 0);
    profile_leave_of(p, 3, 0, C, 45, 60); /* the first of its thread */
    assert_int_equal(row_of(p, C, 0).calls, 2);
}

/* What threads spent without a processor: of calls inside each other, of recursive ones, of threads together, and of
 * one whose beginning is not there. */
static void test_spent(void **state)
{
    struct profile *p = *state;
    profile_spent_now(p, &(struct profile_spent){1000, 2000, 3000});
    profile_enter(p, 0, 0, MAIN, 100);
    profile_spent_now(p, &(struct profile_spent){1000, 2010, 3000});
    profile_enter(p, 0, 0, A, 120);
    profile_spent_now(p, &(struct profile_spent){1005, 2010, 3000});
    profile_enter(p, 0, 0, A, 130);
    profile_spent_now(p, &(struct profile_spent){1005, 2010, 3002});
    profile_leave(p, 0, 0, 140);
    profile_spent_now(p, &(struct profile_spent){1025, 2010, 3002});
    profile_leave(p, 0, 0, 170);
    profile_spent_now(p, &(struct profile_spent){5, 0, 0});
    profile_enter(p, 1, 0, A, 175);
    profile_spent_now(p, &(struct profile_spent){6, 0, 0});
    profile_leave(p, 1, 0, 180);
    profile_spent_now(p, &(struct profile_spent){1026, 2010, 3002});
    profile_leave_of(p, 0, 0, B, 171, 190);
    profile_spent_now(p, &(struct profile_spent){1030, 2010, 3002});
    profile_leave(p, 0, 0, 200);
    const struct {
        uint32_t function;
        struct profile_spent total, self;
    } wanted[] = {{A, {26, 0, 2}, {26, 0, 2}}, {MAIN, {30, 10, 2}, {5, 10, 0}}, {B, {0, 0, 19}, {0, 0, 19}}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct profile_row row = row_of(p, wanted[i].function, 0);
        assert_memory_equal(&row.total_spent, &wanted[i].total, sizeof row.total_spent);
        assert_memory_equal(&row.self_spent, &wanted[i].self, sizeof row.self_spent);
    }
}

static void test_open_calls(void **state)
{
    struct profile *p = *state;
    profile_enter(p, 0, 0, MAIN, 0);
    profile_enter(p, 0, 0, A, 10);
    profile_enter(p, 0, 0, A, 20);
    check_row(p, 0, A, 2, 0, 0, 0, 0);
    check_row(p, 100, A, 2, 90, 90, 0, 0);
    check_row(p, 100, MAIN, 1, 100, 10, 0, 0);
    assert_int_equal(row_of(p, A, 0).open, 2);
    check_edge(p, MAIN, A, 1, 10); /* until the last event */
    profile_thread_ended(p, 0, 40);
    check_row(p, 0, MAIN, 1, 40, 10, 40, 40);
    assert_int_equal(row_of(p, A, 0).unwound, 2);
}

/* Of a function that calls itself, whose outer calls ended nobody knows when: what is known of the inner ones is in the
 * total, too. */
static void test_lost_around_recursion(void **state)
{
    struct profile *p = *state;
    profile_enter(p, 0, 0, MAIN, 0);
    profile_enter(p, 0, 0, A, 10);
    profile_enter(p, 0, 0, A, 20);
    profile_enter(p, 0, 0, A, 22);
    profile_leave(p, 0, 0, 24);
    profile_leave(p, 0, 0, 30);
    profile_enter(p, 0, 0, A, 40);
    profile_leave(p, 0, 0, 45);
    check_row(p, 100, A, 4, 90, 90, 2, 10); /* so far all of it is inside of the one that is open */
    profile_lost(p, 0, 0, 1);
    profile_leave(p, 0, 0, 100);
    check_row(p, 0, A, 4, 15, 15, 2, 10);
    check_row(p, 0, MAIN, 1, 100, 85, 100, 100);
    check_edge(p, MAIN, A, 1, 0);
    check_edge(p, A, A, 3, 15);
    profile_enter(p, 0, 0, A, 110);
    profile_enter(p, 0, 0, A, 111);
    profile_leave(p, 0, 0, 115);
    profile_leave(p, 0, 0, 120);
    check_row(p, 0, A, 6, 25, 25, 2, 10);
}

static void test_threads_and_stacks(void **state)
{
    struct profile *p = *state;
    profile_enter(p, 1, 0, MAIN, 0);
    profile_enter(p, 2, 0, A, 5);
    profile_enter(p, 1, 7, B, 6); /* a coroutine of thread 1 */
    profile_leave(p, 2, 0, 9);
    profile_leave(p, 1, 0, 10);
    profile_leave(p, 1, 7, 16);
    check_row(p, 0, MAIN, 1, 10, 10, 10, 10);
    check_row(p, 0, B, 1, 10, 10, 10, 10);
    check_edge(p, PROFILE_ROOT, B, 1, 10);
    struct profile_row *rows;
    size_t count;
    assert_int_equal(profile_thread_rows(p, 2, 0, &rows, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].function, A);
    assert_int_equal(rows[0].total, 4);
    free(rows);
    assert_int_equal(profile_thread_rows(p, 99, 0, &rows, &count), 0);
    assert_int_equal(count, 0);
    free(rows);
}

/* More of everything than the limit of 100: sums stay right, memory and rows stay bounded. */
static void test_limits(void **state)
{
    struct profile *p = *state;
    uint64_t now = 0, calls = 0, self = 0;
    for (uint32_t thread = 0; thread < 300; thread++) {
        profile_enter(p, thread, 0, MAIN, now++);
        for (uint32_t i = 0; i < 300; i++) {
            profile_enter(p, thread, i % 3, 1000 + i, now++);
            profile_enter(p, thread, i % 3, 1000 + i * 7 % 300, now++);
            profile_leave(p, thread, i % 3, now++);
            profile_leave(p, thread, i % 3, now++);
        }
        profile_leave(p, thread, 0, now++);
        calls += 601;
        if (thread % 2)
            profile_thread_ended(p, thread, now);
    }
    struct profile_row *rows;
    struct profile_edge *edges;
    struct profile_node *nodes;
    size_t count;
    assert_int_equal(profile_rows(p, 0, &rows, &count), 0);
    assert_true(count <= 401);
    uint64_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        seen += rows[i].calls;
        self += rows[i].self;
        assert_int_equal(rows[i].open, 0);
    }
    free(rows);
    assert_int_equal(self, 300 * (1201 + 200 * 3)); /* of each thread MAIN, and what ran on its other two stacks */
    assert_true(seen <= calls && seen > calls / 3); /* stacks, too, are limited: their events are dropped */
    assert_int_equal(profile_edges(p, &edges, &count), 0);
    uint64_t by_edges = 0;
    for (size_t i = 0; i < count; i++)
        by_edges += edges[i].calls;
    free(edges);
    assert_int_equal(by_edges, seen);
    assert_int_equal(profile_tree(p, &nodes, &count), 0);
    uint64_t by_tree = 0;
    for (size_t i = 0; i < count; i++)
        by_tree += nodes[i].calls;
    free(nodes);
    assert_int_equal(by_tree, seen);
    assert_true(count <= 402);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nesting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_recursion, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unwound_and_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exits_that_name_their_entry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_spent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_open_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_around_recursion, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_and_stacks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
