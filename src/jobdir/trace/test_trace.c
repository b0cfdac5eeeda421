/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "jobdir/record/info.h"
#include "jobdir/trace/calls.h"
#include "jobdir/trace/test_trace_events.h"

static void test_description(void **state)
{
    struct place *place = *state;
    static const char modules[] = "0x7000\t0x8000\t0x0\tno-such-index\n0x8000\t0x9000\t0x0\t../outside\nnonsense\n";
    made_file(place->dir, ".modules", modules, sizeof modules - 1);
    struct trace *trace = open_it(place);
    assert_int_equal(trace_pid(trace), 100);
    assert_string_equal(trace_node(trace), "node");
    assert_string_equal(trace_value(trace, "exe"), "/bin/solver");
    assert_null(trace_value(trace, "nothing"));
    assert_int_equal(trace_number(trace, "events"), 40);
    const struct trace_function *function = trace_function(trace, 2);
    assert_string_equal(function->name, "solve");
    assert_string_equal(function->file, "/src/solve.c");
    assert_int_equal(function->line, 20);
    assert_null(trace_function(trace, 0));
    assert_null(trace_function(trace, UINT32_MAX));
    assert_non_null(trace_layout(trace, 1));
    assert_null(trace_layout(trace, 77));
    assert_int_equal(trace_wall_ns(trace, 5000), 6000);
    struct buf name = BUF_INIT;
    assert_true(trace_name_address(trace, 0x1200, &name));
    assert_true(trace_name_address(trace, 0x1210, &name));
    assert_false(trace_name_address(trace, 0x1250, &name));
    assert_false(trace_name_address(trace, 0x500, &name));
    assert_false(trace_name_address(trace, 0x7100, &name));
    assert_false(trace_name_address(trace, 0x8100, &name));
    assert_string_equal(name.data, "stepstep+0x10");
    buf_done(&name);
    trace_close(trace);
}

static void test_lines(void **state)
{
    struct place *place = *state;
    static const char functions[] = "1\t0x10\ta\\tb\\\\c\\n\tf\t1\t2\tm\nnonsense\n9999999999\t0x1\tx\ty\n"
                                    "1\t0x20\tlater\tf\t3\t4\tm\n5\t0x30\tshort\t\n6\t0x40\tcut";
    made_file(place->dir, ".functions", functions, sizeof functions - 1);
    struct trace *trace = open_it(place);
    assert_string_equal(trace_function(trace, 1)->name, "later");
    assert_string_equal(trace_function(trace, 5)->name, "short");
    assert_null(trace_function(trace, 6)); /* not a whole line */
    assert_string_equal(place->problems.data, "/.functions: offset 25: not a line of this file\n"
                                              "/.functions: offset 34: not a line of this file\n");
    trace_close(trace);

    made_text(place->dir, ".process", "version\t3\n");
    struct err err = {0};
    assert_int_equal(trace_open(&trace, place->dir, NULL, NULL, &err), -EPROTO);
    assert_non_null(strstr(err.text, "version 3"));
    assert_int_equal(trace_open(&trace, "/nowhere", NULL, NULL, &err), -ENOENT);
}

static void test_nesting(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 7, 1000);
    made_enter(made, 1000, 1);
    made_count(made, 1001, RECORD_CALLER_VALUES, 3);
    buf_append(&made->records, "\4\0\x2a\0\0\0", 6);
    made_enter_with(made, 1002, 2, 1, 5);
    made_leaf(made, 1010, 1020, 3);
    made_exit_with(made, 1030, 2, 1002, 2, 9);
    made_record(made, RECORD_MARK, 1040);
    buf_append(&made->records, "\3\0abc", 5);
    made_leaf(made, 1000000000000, 1000000000001, 99);
    made_count(made, 1000000000002, RECORD_THINNED, 3);
    made_exit(made, 1000000000003);
    check_stream(place,
                 "1000 7 0 +main <-\n1002 7 1 +solve <main v5 c42\n1010 7 2 +step <solve\n1020 7 2 -step returned 10\n"
                 "1030 7 1 -solve returned 28 v9\n1040 7 1 mark abc\n1000000000000 7 1 +? <main\n"
                 "1000000000001 7 1 -? returned 1\n1000000000002 7 1 thinned step\n"
                 "1000000000003 7 0 -main returned 999999999003\n",
                 "/.functions: nothing about function 99: the file was longer\n");
}

static void test_packets(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    begin_in_step(made);
    made_end(made);
    made->head.events_discarded = 4;
    made_begin(made, 7, 200);
    made_leaf(made, 210, 211, 4);
    made_exit_of(made, 220, 2, 110); /* step's exit was lost */
    made_enter(made, 230, 3);
    made_end(made);
    made_begin(made, 7, 300);
    made_exit_with(made, 310, 3, 230, 2, 1);
    made_exit_of(made, 320, 4, 90); /* never seen */
    check_stream(place,
                 "100 7 0 +main <-\n110 7 1 +solve <main\n115 7 2 +step <solve\n200 7 3 gap 4\n210 7 3 +norm <step\n"
                 "211 7 3 -norm returned 1\n220 7 2 -step lost 105\n220 7 1 -solve returned 110\n230 7 1 +step <main\n"
                 "310 7 1 -step returned 80 v1\n320 7 0 -main lost 220\n320 7 0 -norm returned 230 alone\n",
                 "");
}

static void test_unwinding(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_enter(made, 110, 2);
    made_enter(made, 120, 3);
    made_count(made, 130, RECORD_UNWOUND, 2);
    made_enter(made, 140, 2);
    made_count(made, 150, RECORD_LOST, 1);
    made_stack(made, 160, 5, 0);
    made_enter(made, 170, 4);
    made_stack(made, 180, 0, 1);
    made_enter(made, 190, 3);
    made_record(made, RECORD_SIGNAL, 200);
    buf_put_u32(&made->records, 11);
    buf_put_u32(&made->records, 1);
    buf_put_u64(&made->records, 0xdead);
    buf_put_u64(&made->records, 0x1210);
    check_stream(place,
                 "100 7 0 +main <-\n110 7 1 +solve <main\n120 7 2 +step <solve\n130 7 2 -step unwound 10\n"
                 "130 7 1 -solve unwound 20\n140 7 1 +solve <main\n150 7 1 -solve lost 10\n170 7/5 0 +norm <-\n"
                 "190 7 1 +step <main\n200 7 2 signal 11 dead\n200 7/5 0 -norm open 30\n200 7 1 -step open 10\n"
                 "200 7 0 -main open 100\n",
                 "");
}

/* Calls that are open when the process ends took until then, in whatever thread. */
static void test_open_at_the_end(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_text(place->dir, ".process",
              "version\t1\npid\t100\nticks_per_second\t1000000000\nstate\texited\nuntil\t6000\n");
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_enter(made, 110, 2);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made->bytes.len = 0;
    made_begin(made, 8, 200);
    made_enter(made, 200, 4);
    made_end(made);
    made_stream(made, place->dir, "stream-0001");
    check(place,
          "100 7 0 +main <-\n110 7 1 +solve <main\n200 8 0 +norm <-\n6000 7 1 -solve open 5890\n"
          "6000 7 0 -main open 5900\n6000 8 0 -norm open 5800\n",
          "");
    made_text(place->dir, ".process", /* an end before what it still recorded is none */
              "version\t1\npid\t100\nticks_per_second\t1000000000\nstate\texited\nuntil\t150\n");
    check(place,
          "100 7 0 +main <-\n110 7 1 +solve <main\n200 8 0 +norm <-\n200 7 1 -solve open 90\n"
          "200 7 0 -main open 100\n200 8 0 -norm open 0\n",
          "");
}

/* Of one that still runs here, so far: up to what is surely on disk. */
static void test_open_until_now(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    char text[512], boot[64];
    job_boot_id(boot, sizeof boot);
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    for (unsigned here = 0; here < 2; here++) {
        snprintf(
            text, sizeof text,
            "version\t1\npid\t%d\nboot_id\t%s\nticks_per_second\t1000000000\nclock_offset_ns\t%llu\nstate\trunning\n",
            (int)getpid(), here ? boot : "another",
            (unsigned long long)(clock_wall_ns() - 10 * (uint64_t)NS_PER_SECOND));
        made_text(place->dir, ".process", text);
        struct trace *trace = open_it(place);
        uint64_t until = trace_until(trace);
        if (here)
            assert_in_range(until, 8 * (uint64_t)NS_PER_SECOND, 10 * (uint64_t)NS_PER_SECOND);
        else
            assert_int_equal(until, 0);
        trace_close(trace);
    }
}

static void test_threads(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 7, 100);
    made_leaf(made, 100, 150, 1);
    made_end(made);
    made_begin(made, 7, 151);
    made_enter(made, 151, 2);
    made_end(made);
    made_begin(made, 9, 200); /* another thread has the file now */
    made_leaf(made, 200, 205, 3);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made->bytes.len = 0;
    made_begin(made, 8, 90);
    for (uint64_t i = 0; i < 3; i++) {
        made_leaf(made, 95 + 50 * i, 105 + 50 * i, 4);
    }
    made_end(made);
    made_stream(made, place->dir, "stream-0001");
    check(place,
          "95 8 0 +norm <-\n100 7 0 +main <-\n105 8 0 -norm returned 10\n145 8 0 +norm <-\n150 7 0 -main returned 50\n"
          "151 7 0 +solve <-\n151 7 0 -solve unwound 0\n155 8 0 -norm returned 10\n195 8 0 +norm <-\n"
          "200 9 0 +step <-\n205 9 0 -step returned 5\n205 8 0 -norm returned 10\n",
          "");
}

/* A signal's handler wrote between a record's time being taken and its being written. */
static void test_time_never_goes_back(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 7, 1000);
    made_enter(made, 1000, 1);
    made_enter(made, 1100, 2);
    buf_put_u32(&made->records, 1090u << 5 | RECORD_EXIT);
    made_exit(made, 1200);
    check_stream(place,
                 "1000 7 0 +main <-\n1100 7 1 +solve <main\n1100 7 1 -solve returned 0\n1200 7 0 -main returned 200\n",
                 "");
}

static void test_damage(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    buf_puts(&made->bytes, "rubbish");
    made_begin(made, 7, 100);
    made_leaf(made, 100, 110, 1);
    made_record(made, 29, 120);
    made_exit(made, 130);
    made_end(made);
    made_begin(made, 7, 200);
    made_exit(made, 200);
    made_enter(made, 210, 2);
    buf_put_u32(&made->records, 220u << 5 | RECORD_ENTRY); /* no room for its function */
    made_end(made);
    size_t third = made->bytes.len;
    buf_puts(&made->bytes, "\xc1\x1f\xfc\xc1 is the magic, but nothing else is as it should be");
    made_begin(made, 7, 300);
    made_leaf(made, 300, 310, 3);
    made_enter(made, 320, 3);
    made_end(made);
    made->bytes.len -= 6; /* cut off within the last record */
    made_stream(made, place->dir, "stream-0000");
    char problems[600];
    snprintf(problems, sizeof problems,
             "/stream-0000: offset 0: no packet here: 7 bytes passed over\n"
             "/stream-0000: offset 99: a record of an unknown kind: the rest of the packet is passed over\n"
             "/stream-0000: offset 187: the end of a call that never began\n"
             "/stream-0000: offset 199: a record is cut off: the rest of the packet is passed over\n"
             "/stream-0000: offset %zu: no packet here: 54 bytes passed over\n"
             "/stream-0000: offset %zu: the file ends within a packet: 94 of its 100 bytes are there\n",
             third, third + 54);
    check(place,
          "100 7 0 +main <-\n110 7 0 -main returned 10\n210 7 0 +solve <-\n300 7 1 +step <solve\n"
          "310 7 1 -step returned 10\n310 7 0 -solve open 100\n",
          problems);
}

/* A file that ends between two packets, or is gone: only its length tells. */
static void test_shorter(void **state)
{
    check(*state, "", ": only 0 bytes are left of the 80 of its streams\n");
}

static void test_cut_anywhere(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    for (uint64_t i = 0; i < 4; i++) {
        made_begin(made, 7, 100 * i);
        made_enter(made, 100 * i, 1);
        made_enter_with(made, 100 * i + 10, 2, 1, 5);
        made_exit_with(made, 100 * i + 20, 2, 100 * i + 10, 2, 6);
        made_exit(made, 100 * i + 30);
        made_end(made);
    }
    size_t last = 0;
    for (size_t len = 0; len <= made->bytes.len; len++) {
        made_file(place->dir, "stream-0000", made->bytes.data, len);
        struct trace *trace = open_it(place);
        struct trace_cursor *cursor;
        struct trace_event event;
        size_t entries = 0, exits = 0;
        assert_int_equal(trace_cursor_new(&cursor, trace, false, NULL), 0);
        while (trace_next(cursor, &event) == 1) {
            entries += event.kind == TRACE_ENTRY;
            exits += event.kind == TRACE_EXIT;
        }
        assert_int_equal(entries, exits);
        assert_true(entries >= last);
        last = entries;
        trace_cursor_free(cursor);
        trace_close(trace);
    }
    assert_int_equal(last, 8);
}

static void test_follow(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    struct trace *trace = open_it(place);
    struct trace_cursor *cursor;
    struct buf out = BUF_INIT;
    struct trace_event event;
    assert_int_equal(trace_cursor_new(&cursor, trace, true, NULL), 0);
    assert_int_equal(trace_next(cursor, &event), 0);
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_end(made);
    size_t first = made->bytes.len;
    made_begin(made, 7, 200);
    made_leaf(made, 200, 210, 5);
    made_end(made);
    for (size_t len = 0; len <= made->bytes.len; len += 3) {
        made_file(place->dir, "stream-0000", made->bytes.data, len < first ? len : first);
        put_all(&out, trace, cursor);
    }
    assert_string_equal(out.data, "100 7 0 +main <-\n");
    char name[300];
    snprintf(name, sizeof name, "%s/.functions", place->dir);
    FILE *functions = fopen(name, "a");
    assert_non_null(functions);
    fputs("5\t0x1400\tlate\t\t0\t0\t\n", functions);
    fclose(functions);
    made_stream(made, place->dir, "stream-0000");
    put_all(&out, trace, cursor);
    assert_string_equal(out.data, "100 7 0 +main <-\n200 7 1 +late <main\n210 7 1 -late returned 10\n");
    made_file(place->dir, "stream-0001", made->bytes.data, 50);
    put_all(&out, trace, cursor);
    assert_int_equal(place->problems.len, 0);
    trace_cursor_close(cursor);
    put_all(&out, trace, cursor);
    assert_string_equal(out.data,
                        "100 7 0 +main <-\n200 7 1 +late <main\n210 7 1 -late returned 10\n210 7 0 -main open 110\n");
    assert_string_equal(place->problems.data, "/stream-0001: offset 0: the file ends within the head of a packet\n");
    trace_cursor_free(cursor);
    trace_close(trace);
    buf_done(&out);
}

/* A file that grows while it is read, as a running job's does: what came after it was looked up is left for later. */
static void test_grows_meanwhile(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    struct trace *trace = open_it(place);
    struct trace_cursor *cursor;
    struct buf out = BUF_INIT;
    assert_int_equal(trace_cursor_new(&cursor, trace, false, NULL), 0);
    made_begin(made, 7, 200);
    made_leaf(made, 200, 210, 5);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    put_all(&out, trace, cursor);
    assert_string_equal(out.data, "100 7 0 +main <-\n100 7 0 -main open 0\n");
    trace_cursor_free(cursor);
    trace_close(trace);
    buf_done(&out);
}

static void test_list(void **state)
{
    struct place *place = *state;
    char dir[256], **paths;
    size_t count;
    made_trace(place->root, 50, dir);
    made_trace(place->root, 60, dir);
    char name[300];
    snprintf(name, sizeof name, "%s/.process", dir);
    assert_int_equal(unlink(name), 0); /* started nobody knows when: last */
    assert_int_equal(trace_list(place->root, &paths, &count, NULL), 0);
    assert_int_equal(count, 3);
    assert_string_equal(strrchr(paths[0], '/'), "/50-0");
    assert_string_equal(strrchr(paths[1], '/'), "/100-0");
    assert_string_equal(strrchr(paths[2], '/'), "/60-0");
    struct trace *trace;
    assert_int_equal(trace_open(&trace, paths[2], note, place, NULL), 0);
    assert_int_equal(trace_pid(trace), 60);
    trace_close(trace);
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
    assert_int_equal(trace_list("/nowhere", &paths, &count, NULL), 0);
    assert_int_equal(count, 0);
    free(paths);
}

/* ---- where records are missing: in a packet, or packets ---- */

static void test_lost_exits(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    begin_in_step(made);
    made_end(made);
    made->head.events_discarded = 4;
    made_begin(made, 7, 200);
    made->head.depth = 1;
    check_stream(place,
                 "100 7 0 +main <-\n110 7 1 +solve <main\n115 7 2 +step <solve\n200 7 2 -step lost 85\n"
                 "200 7 1 -solve lost 90\n200 7 1 gap 4\n200 7 0 -main open 100\n",
                 "");
}

/* Packets are missing: what had been open is over unless its end comes later, and what ends later began in the gap. */
static void test_missing_packets(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    begin_in_step(made);
    made_enter(made, 120, 4);
    made_end(made);
    made->head.events_discarded = 9;
    made_begin(made, 7, 300);
    made->head.packet_seq = 5;
    made->head.depth = 4; /* main, solve and two that began in the gap */
    made_end(made);
    made_begin(made, 7, 300);
    made->head.packet_seq = 6;
    made->head.depth = 4;
    made_leaf(made, 310, 311, 4);
    made_count(made, 315, RECORD_UNWOUND, 1); /* which one is not known */
    made_leaf(made, 316, 317, 4);
    made_exit_of(made, 320, 3, 250);
    made_enter(made, 330, 3);
    made_end(made);
    made_begin(made, 7, 400);
    made->head.packet_seq = 7;
    made->head.depth = 3;
    made_exit_of(made, 410, 3, 330);
    made_exit_of(made, 420, 2, 110);
    made_exit_of(made, 430, 1, 100);
    check_stream(place,
                 "100 7 0 +main <-\n110 7 1 +solve <main\n115 7 2 +step <solve\n120 7 3 +norm <step\n"
                 "120 7 3 -norm lost 0\n120 7 2 -step lost 5\n120 7 2 gap 9\n250 7 2 +step <solve\n"
                 "310 7 4 +norm <-\n311 7 4 -norm returned 1\n316 7 3 +norm <step\n317 7 3 -norm returned 1\n"
                 "320 7 2 -step returned 70\n330 7 2 +step <solve\n410 7 2 -step returned 80\n"
                 "420 7 1 -solve returned 310\n430 7 0 -main returned 330\n",
                 "");
}

/* The same at the end of a thread: nothing is known to be open. */
static void test_missing_to_the_end(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_stack(made, 110, 5, 0);
    made_enter(made, 120, 2);
    made_end(made);
    made->head.events_discarded = 1;
    made_begin(made, 7, 300);
    made->head.packet_seq = 3;
    check_stream(
        place, "100 7 0 +main <-\n120 7/5 0 +solve <-\n120 7/5 0 -solve lost 0\n120 7 0 -main lost 20\n120 7 0 gap 1\n",
        "");
}

/* Calls that end after a gap without a name, however many; an exit that names another one is of none of them. */
static void test_missing_names(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_end(made);
    made->head.events_discarded = 1;
    made_begin(made, 7, 200);
    made->head.packet_seq = 3;
    made_enter(made, 210, 4);
    made_exit_of(made, 220, UINT32_MAX, 100);
    made_count(made, 230, RECORD_UNWOUND, 1000000);
    made_exit_of(made, 240, 1, 100);
    check_stream(place,
                 "100 7 0 +main <-\n100 7 1 gap 1\n210 7 1000001 +norm <-\n220 7 1000001 -norm lost 10\n"
                 "220 7 1000001 -? returned 120 alone\n240 7 0 -main returned 140\n",
                 "");
}

/* ---- threads that are read again from points: they give what the first reading gave from there on ---- */

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
        cmocka_unit_test_setup_teardown(test_description, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nesting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_packets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unwinding, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_open_at_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_open_until_now, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_time_never_goes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shorter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_follow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_grows_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_exits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_packets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_to_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stacks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gap_and_lies, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
