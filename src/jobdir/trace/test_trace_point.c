/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that are read again from points: they give what the first reading gave from there on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "jobdir/trace/calls.h"
#include "jobdir/trace/test_trace_events.h"

enum { POINTS = 16 };

struct points {
    struct trace_point *list[POINTS];
    size_t at[POINTS]; /* in the text so far */
    size_t count;
    const struct buf *out;
};

static void keep(void *ctx, const struct trace_point *point)
{
    struct points *points = ctx;
    size_t size = sizeof *point + point->call_count * sizeof *point->calls;
    assert_true(points->count < POINTS);
    points->list[points->count] = malloc(size);
    memcpy(points->list[points->count], point, size);
    points->at[points->count++] = points->out->len;
}

/* The lines of a thread. */
static void only(struct buf *out, const char *text, uint32_t tid)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        if (strtoul(strchr(text, ' '), NULL, 10) == tid)
            buf_append(out, text, (size_t)(end + 1 - text));
}

static size_t check_points(struct place *place)
{
    struct trace *trace = open_it(place);
    struct trace_cursor *cursor, *again;
    struct err err = {0};
    struct buf out = BUF_INIT;
    struct points points = {.out = &out};
    assert_int_equal(trace_cursor_new(&cursor, trace, false, &err), 0);
    trace_cursor_points(cursor, keep, &points);
    put_all(&out, trace, cursor);
    size_t threads = trace_thread_count(trace);
    for (size_t i = 0; i < points.count; i++) {
        struct buf expected = BUF_INIT, got = BUF_INIT;
        only(&expected, out.data + points.at[i], points.list[i]->tid);
        assert_int_equal(trace_cursor_new_at(&again, trace, points.list[i], &err), 0);
        put_all(&got, trace, again);
        assert_string_equal(got.len ? got.data : "", expected.len ? expected.data : "");
        trace_cursor_free(again);
        free(points.list[i]);
        buf_done(&expected);
        buf_done(&got);
    }
    assert_int_equal(trace_thread_count(trace), threads);
    trace_cursor_free(cursor);
    trace_close(trace);
    buf_done(&out);
    return points.count;
}

/* Calls with values that began two packets ago, another thread's packets behind them, a second file. */
static void test_again(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    begin_in_step(made);
    made_enter_with(made, 120, 4, 1, 5);
    made_end(made);
    made_begin(made, 7, 130);
    made->head.depth = 4;
    made->head.packet_seq = 1;
    made_exit_with(made, 140, 4, 120, 2, 9);
    made_leaf(made, 150, 151, 4);
    made_end(made);
    made_begin(made, 7, 160);
    made->head.depth = 3;
    made->head.packet_seq = 2;
    made_exit_of(made, 170, 3, 115);
    made_count(made, 180, RECORD_UNWOUND, 2);
    made_end(made);
    made_begin(made, 9, 200);
    made->head.packet_seq = 3;
    made_enter(made, 210, 1);
    made_exit(made, 220);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made->bytes.len = 0;
    made->head.events_discarded = 0;
    made_begin(made, 8, 105);
    made->head.depth = 0;
    made_leaf(made, 111, 222, 2);
    made_end(made);
    made_stream(made, place->dir, "stream-0001");
    assert_int_equal(check_points(place), 5);
}

/* Calls on two stacks, each of which goes on after the other. */
static void test_stacks(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    begin_in_step(made);
    made_stack(made, 120, 5, 0);
    made_enter(made, 125, 4);
    made_end(made);
    made_begin(made, 7, 130);
    made->head.stack = 5;
    made->head.depth = 1;
    made->head.packet_seq = 1;
    made_stack(made, 131, 0, 3);
    made_exit_of(made, 140, 3, 115);
    made_stack(made, 141, 5, 1);
    made_exit_of(made, 150, 4, 125);
    made_stack(made, 160, 0, 2);
    made_exit_of(made, 170, 2, 110);
    made_exit_of(made, 180, 1, 100);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    assert_int_equal(check_points(place), 2);
}

/* Where packets are missing there is no point, behind them there is. And points that are wrong harm nothing. */
static void test_gap_and_lies(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    begin_in_step(made);
    made_end(made);
    made->head.events_discarded = 9;
    for (unsigned i = 5; i < 7; i++) {
        made_begin(made, 7, 100 * i);
        made->head.packet_seq = i;
        made->head.depth = 1;
        made_leaf(made, 100 * i + 10, 100 * i + 11, 4);
        made_end(made);
    }
    made_stream(made, place->dir, "stream-0000");
    assert_int_equal(check_points(place), 2);
    struct trace *trace = open_it(place);
    struct err err = {0};
    struct trace_event event;
    for (uint32_t i = 0; i < 400; i++) {
        struct trace_cursor *cursor;
        const struct trace_point lie = {
            .tid = 7, .serial = i % 2 ? 7 : 1, .stream = i % 7 == 0, .part = i % 11 == 0, .offset = i, .next_seq = i};
        if (trace_cursor_new_at(&cursor, trace, &lie, &err) < 0)
            continue;
        while (trace_next(cursor, &event) == 1)
            ;
        trace_cursor_free(cursor);
    }
    trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stacks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gap_and_lies, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
