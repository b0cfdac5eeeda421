/* SPDX-License-Identifier: Apache-2.0 */
/* What replay, exports and reports make of made traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "jobdir/export.h"
#include "jobdir/replay.h"
#include "jobdir/report_functions.h"
#include "jobdir/test_trace.h"

enum { START = 1000 }; /* wall time of tick 0, as made_trace has it */

struct place {
    char root[64], dir[256];
    struct made made;
    struct trace *trace;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    made_root(place->root, place->dir);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    made_root_remove(place->root);
    made_done(&place->made);
    trace_close(place->trace);
    free(place);
    return 0;
}

/* main calls solve(5) twice: once it calls norm, then it is unwound from step; main never returns. */
static void make_solver(struct place *place)
{
    struct made *made = &place->made;
    made_begin(made, 100, 1000000);
    made_enter(made, 1000000, 1);
    made_count(made, 1001000, RECORD_CALLER_VALUES, 3);
    buf_append(&made->records, "\4\0\x2a\0\0\0", 6);
    made_enter_with(made, 1001010, 2, 1, 5);
    made_enter(made, 1002000, 4);
    made_exit(made, 1002310);
    made_exit_with(made, 1013355, 2, 1001010, 2, 12);
    made_record(made, RECORD_MARK, 1020000);
    buf_append(&made->records, "\4\0half", 6);
    made_enter_with(made, 2000000, 2, 1, 6);
    made_enter(made, 2000500, 3);
    made_count(made, 2001000, RECORD_UNWOUND, 2);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
}

static void open_trace(struct place *place)
{
    struct err err = {0};
    trace_close(place->trace);
    assert_int_equal(trace_open(&place->trace, place->dir, NULL, NULL, &err), 0);
}

/* ---- replay ---- */

static char *replayed(struct place *place, struct replay_options options)
{
    struct replay *replay;
    struct trace_cursor *cursor;
    struct trace_event event;
    char *text = NULL;
    size_t len;
    open_trace(place);
    FILE *out = open_memstream(&text, &len);
    options.start_ns = START;
    assert_int_equal(replay_new(&replay, place->trace, &options, out), 0);
    assert_int_equal(trace_cursor_new(&cursor, place->trace, false, NULL), 0);
    int code = 0;
    while (code == 0 && trace_next(cursor, &event) == 1)
        code = replay_event(replay, &event);
    assert_true(code >= 0);
    assert_int_equal(replay_idle(replay), 0);
    replay_free(replay);
    trace_cursor_free(cursor);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void check_replay(struct place *place, struct replay_options options, const char *expected)
{
    _cleanup_(freep) char *text = replayed(place, options);
    assert_string_equal(text, expected);
}

static void test_tree(void **state)
{
    struct place *place = *state;
    make_solver(place);
    check_replay(place, (struct replay_options){0},
                 "   0.001000  main()  main.c:10\n"
                 "   0.001001    solve(n = 5)  in main {k = 42}  solve.c:20\n"
                 "   0.001002      norm()  310 ns\n"
                 "   0.001013    end of solve  {i = 12}  = 13  12.3 us\n"
                 "   0.001020    -- half\n"
                 "   0.002000    solve(n = 6)  solve.c:20\n"
                 "   0.002000      step()  unwound (exception, longjmp or end of the thread)  500 ns  solve.c:40\n"
                 "   0.002001    end of solve  unwound (exception, longjmp or end of the thread)  1.00 us\n"
                 "   0.002001  end of main  still open at the end  1.00 ms\n");
}

static void test_filters(void **state)
{
    struct place *place = *state;
    make_solver(place);
    check_replay(place, (struct replay_options){.filter.function = "s*e", .threads = true},
                 "   0.001001  [100]      solve(n = 5)  in main {k = 42}  {i = 12}  = 13  12.3 us  solve.c:20\n"
                 "   0.001020  [100]      -- half\n"
                 "   0.002000  [100]      solve(n = 6)  unwound (exception, longjmp or end of the thread)  1.00 us  "
                 "solve.c:20\n");
    check_replay(place, (struct replay_options){.filter.max_depth = 1},
                 "   0.001000  main()  main.c:10\n"
                 "   0.001020    -- half\n"
                 "   0.002001  end of main  still open at the end  1.00 ms\n");
    check_replay(place, (struct replay_options){.filter.thread = 99}, "");
    check_replay(place, (struct replay_options){.filter = {.from_ns = START + 1001500, .to_ns = START + 1100000}},
                 "   0.001002  norm()  310 ns\n   0.001020  -- half\n");
    check_replay(place, (struct replay_options){.min_ns = 5000, .filter.to_ns = START + 1020001},
                 "   0.001000  main()  main.c:10\n"
                 "   0.001001    solve(n = 5)  in main {k = 42}  {i = 12}  = 13  12.3 us  solve.c:20\n"
                 "   0.001020    -- half\n"
                 "   0.002001  end of main  still open at the end  1.00 ms\n");
}

/* What is unusual is said; a crash shows what led there however short it was. */
static void test_words(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made->head.events_discarded = 3;
    made_begin(made, 100, 1000);
    made_exit_of(made, 1500, 2, 900);
    made_enter(made, 2000, 1);
    made_enter(made, 2100, 77);
    made_count(made, 2200, RECORD_LOST, 1);
    made_count(made, 2300, RECORD_THINNED, 4);
    made_enter(made, 2400, 3);
    made_record(made, RECORD_SIGNAL, 2500);
    buf_put_u32(&made->records, 11);
    buf_put_u32(&made->records, 1);
    buf_put_u64(&made->records, 0x10);
    buf_put_u64(&made->records, 0x1204);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    check_replay(place, (struct replay_options){.min_ns = 1000000},
                 "   0.000001  ... 3 records are missing here: there was no room for them\n"
                 "   0.000002  main()  main.c:10\n"
                 "   0.000002    function 77()  returned, when is not known: the record was lost\n"
                 "   0.000002    ... norm is called so often that from here on not every call is recorded\n"
                 "   0.000002    step()  solve.c:40\n"
                 "   0.000002      SIGSEGV (Segmentation fault) at address 0x10, in step+0x4\n"
                 "   0.000002    end of step  still open at the end  100 ns\n"
                 "   0.000002  end of main  still open at the end  500 ns\n");
    check_replay(place, (struct replay_options){.filter.to_ns = START + 1600},
                 "   0.000001  ... 3 records are missing here: there was no room for them\n"
                 "   0.000001  end of solve  600 ns  (its beginning was not recorded)  solve.c:20\n");
}

/* A tree that is deeper than can be indented, and lines of two threads in the order of time. */
static void test_depth_and_threads(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 100, 1000);
    for (uint64_t i = 0; i < 43; i++)
        made_enter(made, 1000 + i, 2);
    for (uint64_t i = 0; i < 43; i++)
        made_exit(made, 2000 + i);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    _cleanup_(freep) char *text = replayed(place, (struct replay_options){0});
    char expected[160];
    snprintf(expected, sizeof expected, "   0.000001%*s(+2) solve()  958 ns  solve.c:20\n", 82, "");
    assert_non_null(strstr(text, expected));

    made->bytes.len = 0;
    made_begin(made, 100, 10000000);
    made_enter(made, 10000000, 1);
    made_exit(made, 30000000);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made->bytes.len = 0;
    made_begin(made, 101, 20000000);
    made_enter(made, 20000000, 4);
    made_exit(made, 20000100);
    made_end(made);
    made_stream(made, place->dir, "stream-0001");
    check_replay(place, (struct replay_options){.threads = true},
                 "   0.010000  [100]      main()  main.c:10\n"
                 "   0.020000  [101]      norm()  100 ns\n"
                 "   0.030000  [100]      end of main  20.0 ms\n");
}

static void test_json(void **state)
{
    struct place *place = *state;
    make_solver(place);
    _cleanup_(freep) char *text = replayed(place, (struct replay_options){.json = true});
    size_t lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        assert_int_equal(json_integer_value(json_object_get(json, "process")), 100);
        if (lines == 1) {
            assert_string_equal(json_string_value(json_object_get(json, "function")), "solve");
            assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "args"), "n")), 5);
            assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "caller_locals"), "k")), 42);
            assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "locals"), "i")), 12);
            assert_int_equal(json_integer_value(json_object_get(json, "result")), 13);
            assert_int_equal(json_integer_value(json_object_get(json, "duration_ns")), 12345);
        }
        json_decref(json);
    }
    assert_int_equal(lines, 6);
}

/* ---- exports ---- */

static char *exported(struct place *place, const char *name)
{
    const struct export_format *format = export_format_find(name);
    struct trace_cursor *cursor;
    struct calls *calls;
    struct trace_event event;
    char *text = NULL;
    size_t len;
    assert_non_null(format);
    open_trace(place);
    struct exporter exporter = {.out = open_memstream(&text, &len), .trace = place->trace, .start_ns = START};
    struct call_visitor visitor = format->visitor;
    visitor.ctx = &exporter;
    assert_int_equal(format->begin(&exporter), 0);
    assert_int_equal(trace_cursor_new(&cursor, place->trace, false, NULL), 0);
    assert_int_equal(calls_new(&calls, place->trace, &(struct call_filter){0}, &visitor), 0);
    assert_true(!format->trace_begin || format->trace_begin(&exporter) == 0);
    while (trace_next(cursor, &event) == 1)
        assert_int_equal(calls_event(calls, &event), 0);
    assert_true(!format->trace_end || format->trace_end(&exporter) == 0);
    assert_true(!format->end || format->end(&exporter) == 0);
    export_flush(&exporter, true);
    assert_false(exporter.failed);
    if (format->done)
        format->done(&exporter);
    fclose(exporter.out);
    buf_done(&exporter.text);
    calls_free(calls);
    trace_cursor_free(cursor);
    return text;
}

static void test_csv(void **state)
{
    struct place *place = *state;
    made_text(place->dir, ".layouts",
              "1\targs(n:i4)\n2\tlocals(i:i4) result(:i4)\n3\tcaller(k:i4)\n4\targs(a:i2,b:i2)\n");
    make_solver(place);
    struct made *made = &place->made;
    made_begin(made, 101, 3000000);
    made_enter_with(made, 3000000, 4, 4, 0x20001);
    made_exit(made, 3000001);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    _cleanup_(freep) char *text = exported(place, "csv");
    assert_string_equal(text, "process,thread,depth,function,file,line,start_s,duration_ns,how,args,locals,result\r\n"
                              "100,100,2,norm,,0,0.001002000,310,returned,,,\r\n"
                              "100,100,1,solve,/src/solve.c,20,0.001001010,12345,returned,n = 5,i = 12,13\r\n"
                              "100,100,2,step,/src/solve.c,40,0.002000500,500,unwound,,,\r\n"
                              "100,100,1,solve,/src/solve.c,20,0.002000000,1000,unwound,n = 6,,\r\n"
                              "100,100,0,main,/src/main.c,10,0.001000000,1001000,unwound,,,\r\n"
                              "100,101,0,norm,,0,0.003000000,1,returned,\"a = 1, b = 2\",,\r\n");
}

static void test_folded(void **state)
{
    struct place *place = *state;
    make_solver(place);
    _cleanup_(freep) char *text = exported(place, "folded");
    assert_string_equal(text, "solver;main 987655\nsolver;main;solve 12535\nsolver;main;solve;norm 310\n"
                              "solver;main;solve;step 500\n");
}

static void test_chrome(void **state)
{
    struct place *place = *state;
    make_solver(place);
    _cleanup_(freep) char *text = exported(place, "chrome");
    json_error_t where;
    json_t *json = json_loads(text, 0, &where);
    assert_non_null(json);
    json_t *events = json_object_get(json, "traceEvents"), *event;
    size_t index;
    int open = 0, instants = 0;
    json_array_foreach(events, index, event)
    {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        open += *phase == 'B' ? 1 : *phase == 'E' ? -1 : 0;
        instants += *phase == 'i';
        assert_true(open >= 0);
    }
    assert_int_equal(open, 0);
    assert_int_equal(instants, 1);
    assert_non_null(strstr(text, "{\"ph\":\"B\",\"pid\":100,\"tid\":100,\"ts\":1001.010,\"name\":\"solve\",\"args\":{"
                                 "\"arguments\":{\"n\":5},\"caller\":{\"k\":42},\"source\":\"/src/solve.c:20\"}}"));
    assert_non_null(strstr(text, "\"ts\":1013.355,\"args\":{\"locals\":{\"i\":12},\"result\":13}}"));
    assert_non_null(strstr(text, "\"args\":{\"ended\":\"unwound\"}}"));
    json_decref(json);
}

static void test_speedscope(void **state)
{
    struct place *place = *state;
    make_solver(place);
    _cleanup_(freep) char *text = exported(place, "speedscope");
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    json_t *profiles = json_object_get(json, "profiles");
    json_t *frames = json_object_get(json_object_get(json, "shared"), "frames");
    assert_int_equal(json_array_size(profiles), 1);
    assert_int_equal(json_array_size(frames), 4);
    json_t *events = json_object_get(json_array_get(profiles, 0), "events"), *event;
    json_int_t at = 0, stack[8];
    size_t index, depth = 0;
    json_array_foreach(events, index, event)
    {
        assert_true(json_integer_value(json_object_get(event, "at")) >= at);
        at = json_integer_value(json_object_get(event, "at"));
        json_int_t frame = json_integer_value(json_object_get(event, "frame"));
        if (*json_string_value(json_object_get(event, "type")) == 'O')
            stack[depth++] = frame;
        else
            assert_int_equal(stack[--depth], frame);
    }
    assert_int_equal(depth, 0);
    assert_int_equal(index, 10);
    json_decref(json);
}

static void test_formats(void **state)
{
    assert_null(export_format_find("paper"));
    size_t count = 0;
    while (export_format_at(count))
        count++;
    assert_int_equal(count, 4);
}

/* ---- reports ---- */

static void test_functions(void **state)
{
    struct place *place = *state;
    make_solver(place);
    char other[256];
    made_trace(place->root, 200, other); /* the same program once more */
    made_stream(&place->made, other, "stream-0000");
    struct job_functions *functions;
    const struct job_functions_options options = {.start_ns = START};
    assert_int_equal(job_functions_load(&functions, place->root, &options, NULL), 0);
    assert_int_equal(functions->processes, 2);
    assert_int_equal(functions->events, 80); /* as .process says */
    assert_int_equal(HASH_COUNT(functions->functions), 4);
    const struct job_function *main_function = functions->functions, *solve = main_function->hh.next;
    assert_string_equal(main_function->name, "main");
    assert_int_equal(main_function->calls, 2);
    assert_int_equal(main_function->open, 2);
    assert_int_equal((int)main_function->total_ns, 2 * 1001000);
    assert_int_equal((int)main_function->self_ns, 2 * 987655);
    assert_string_equal(solve->name, "solve");
    assert_int_equal(solve->line, 20);
    assert_int_equal(solve->calls, 4);
    assert_int_equal(solve->unwound, 2);
    assert_int_equal((int)solve->min_ns, 1000);
    assert_int_equal((int)solve->max_ns, 12345);
    assert_int_equal(functions->slowest_count, 9);
    assert_string_equal(functions->slowest[2].arguments, "n = 5");
    assert_string_equal(functions->slowest[2].result, "13");

    struct buf text = BUF_INIT;
    job_functions_summary(&text, functions, NULL);
    assert_non_null(strstr(text.data, "main  x 2  main.c:10"));
    assert_non_null(
        strstr(text.data, "80 events, 160 B of 2 processes; recording took about 3.00 ms; 14 events found no"));
    job_functions_text(&text, functions, NULL);
    assert_non_null(strstr(text.data, "solve(n = 5) = 13  solve.c:20  pid 100"));
    buf_done(&text);
    json_t *json = json_object();
    job_functions_json(json, functions);
    assert_int_equal(json_array_size(json_object_get(json, "functions")), 4);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "trace"), "discarded")), 14);
    json_decref(json);
    job_functions_free(functions);

    const struct job_functions_options one = {.process = 200};
    assert_int_equal(job_functions_load(&functions, place->root, &one, NULL), 0);
    assert_int_equal(functions->processes, 1);
    assert_int_equal(functions->functions->calls, 1);
    job_functions_free(functions);
}

static void load_all(struct place *place, struct job_functions **ret_functions)
{
    assert_int_equal(job_functions_load(ret_functions, place->root, &(struct job_functions_options){0}, NULL), 0);
}

static const struct job_function *find_function(const struct job_functions *functions, const char *name)
{
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (strcmp(each->name, name) == 0)
            return each;
    fail_msg("no function %s", name);
    return NULL;
}

static void make_continued(struct place *place)
{
    struct made *made = &place->made;
    char next[300];
    made->bytes.len = 0;
    made_begin(made, 100, 1000);
    made_enter(made, 1000, 1);
    made_enter(made, 1100, 2);
    made_enter(made, 1200, 3);
    made_exit(made, 1300);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made_text(place->dir, ".process",
              "version\t1\npid\t100\nnode\tnode\nstart_ns\t100\nticks_per_second\t1000000000\n"
              "clock_offset_ns\t1000\nevents\t4\nstate\tcontinued\n");
    made_text(place->dir, ".counts", "4\t70\t700\t0\n");
    snprintf(next, sizeof next, "%.200s/trace/node/100-1", place->root);
    assert_int_equal(mkdir(next, 0700), 0);
    made->bytes.len = 0;
    made_begin(made, 100, 2000);
    made_exit_of(made, 2000, 2, 1100); /* what began in the trace before */
    made_enter(made, 2100, 2);
    made_exit(made, 2200);
    made_end(made);
    made_stream(made, next, "stream-0000");
    made_text(next, ".process",
              "version\t1\npid\t100\nnode\tnode\nstart_ns\t200\nticks_per_second\t1000000000\n"
              "clock_offset_ns\t1000\nevents\t3\nstate\texited\n");
    made_text(place->dir, ".functions",
              "1\t0x1000\tmain\t/src/main.c\t10\t256\t/bin/solver\n"
              "2\t0x1100\tsolve\t/src/solve.c\t20\t64\t/bin/solver\n"
              "3\t0x1200\t0x1200\t\t0\t0\t\n4\t0x1300\tnorm\t\t0\t0\t/lib/libnorm.so\n");
    made_text(
        next, ".functions",
        "3\t0x1200\tstep\t/src/solve.c\t40\t64\t/bin/solver\n2\t0x1100\tsolve\t/src/solve.c\t20\t64\t/bin/solver\n");
    made_text(next, ".counts", "4\t80\t800\t0\n"); /* from the beginning on */
}

/* The monitor was started again: calls that lie across its end are one call each, with what they called. */
static void test_continued(void **state)
{
    struct place *place = *state;
    make_continued(place);
    struct job_functions *functions;
    load_all(place, &functions);
    assert_int_equal(functions->processes, 1);
    assert_int_equal(functions->events, 7);
    const struct job_function *solve = find_function(functions, "solve"), *main_function;
    assert_int_equal(solve->calls, 2);
    assert_int_equal(solve->open, 0);
    assert_int_equal((int)solve->total_ns, 900 + 100);
    assert_int_equal((int)solve->self_ns, 900 - 100 + 100);
    main_function = find_function(functions, "main"); /* named in the first trace only */
    assert_int_equal(main_function->calls, 1);
    assert_int_equal(main_function->open, 1);
    assert_int_equal((int)main_function->total_ns, 1200);
    assert_int_equal((int)main_function->self_ns, 1200 - 1000);
    assert_int_equal(find_function(functions, "step")->calls, 1); /* named in the second one only */
    assert_int_equal(HASH_COUNT(functions->functions), 4);
    job_functions_free(functions);
    check_replay(place, (struct replay_options){.filter.function = "solve"},
                 "   0.000001  solve()  goes on in the next trace of this process  200 ns  solve.c:20\n");

    /* nothing followed: it stays open, and counts */
    char path[300];
    snprintf(path, sizeof path, "%.200s/trace/node/100-1", place->root);
    made_text(path, ".process", "version\t9\n");
    load_all(place, &functions);
    assert_int_equal(find_function(functions, "solve")->calls, 1);
    assert_int_equal(find_function(functions, "solve")->open, 1);
    assert_int_equal(find_function(functions, "norm")->calls, 70);
    job_functions_free(functions);
}

/* A trace that still says that its process runs when the job is over was not written to its end. */
static void test_unfinished(void **state)
{
    struct place *place = *state;
    made_text(place->dir, ".process",
              "version\t1\npid\t100\nnode\tnode\nticks_per_second\t1000000000\nstate\trunning\n");
    for (unsigned ended = 0; ended < 2; ended++) {
        struct job_functions *functions;
        const struct job_functions_options options = {.all_ended = ended};
        assert_int_equal(job_functions_load(&functions, place->root, &options, NULL), 0);
        assert_int_equal(json_array_size(functions->problems), ended);
        struct buf text = BUF_INIT;
        job_functions_summary(&text, functions, NULL);
        assert_int_equal(strstr(text.data, "the trace of process 100 was not written to its end") != NULL, ended);
        buf_done(&text);
        job_functions_free(functions);
    }
}

/* What was left out because it was asked for is said, and a call that was open at the last record has no time. */
static void test_left_out(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made->bytes.len = 0;
    made_begin(made, 100, 1000);
    made_enter(made, 1000, 1);
    made_enter(made, 1010, 4);
    made_exit(made, 1020);
    made_enter(made, 1100, 2);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made_text(place->dir, ".counts", "4\t0\t0\t2999\n");
    made_text(place->dir, ".process",
              "version\t1\npid\t100\nnode\tnode\nticks_per_second\t1000000000\nstate\texited\nevents\t4\n"
              "thinned\t2999\nmin_time\t5000\nmax_depth\t3\n");
    struct job_functions *functions;
    load_all(place, &functions);
    struct buf text = BUF_INIT;
    job_functions_summary(&text, functions, NULL);
    assert_non_null(strstr(text.data, "norm  x 1  (of 3000: --rate)\n"));
    assert_non_null(strstr(text.data, "       ?         solve  x 1  solve.c:20  (1 open at the end)\n"));
    assert_non_null(strstr(text.data,
                           "; 2999 calls were left out to keep the rate (--rate); calls shorter than 5.00 us "
                           "are left out (--min-time); calls more than 3 deep are left out (--max-depth)"));
    job_functions_text(&text, functions, NULL);
    assert_null(strstr(text.data, " 0 ns  at"));
    buf_done(&text);
    json_t *json = json_object();
    job_functions_json(json, functions);
    json_t *trace = json_object_get(json, "trace");
    assert_int_equal(json_integer_value(json_object_get(trace, "thinned")), 2999);
    assert_int_equal(json_integer_value(json_object_get(trace, "min_time_ns")), 5000);
    assert_int_equal(json_integer_value(json_object_get(trace, "max_depth")), 3);
    json_decref(json);
    job_functions_free(functions);
}

static void test_crash_and_problems(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 100, 1000);
    made_enter(made, 1000, 1);
    made_enter(made, 1010, 4);
    made_exit(made, 1020);
    made_enter_with(made, 1100, 2, 1, 9);
    made_record(made, RECORD_SIGNAL, 1200);
    buf_put_u32(&made->records, 11);
    buf_put_u32(&made->records, 1);
    buf_put_u64(&made->records, 0);
    buf_put_u64(&made->records, 0x1100);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made_text(place->dir, ".counts", "3\t1000\t5000\n");
    struct job_functions *functions;
    assert_int_equal(job_functions_load(&functions, place->root, &(struct job_functions_options){0}, NULL), 0);
    assert_int_equal(functions->crash_count, 1);
    assert_string_equal(functions->crashes[0].stack, "solve(n = 9)  solve.c:20\nmain()  main.c:10\n");
    assert_string_equal(functions->crashes[0].last, "norm()  took 10 ns, ended 180 ns before\n");
    struct buf text = BUF_INIT;
    job_functions_text(&text, functions, NULL);
    assert_non_null(strstr(text.data, "only counted    5.00 us       1000       5 ns"));
    assert_non_null(strstr(text.data, "Crash of process 100, thread 100: SIGSEGV"));
    buf_done(&text);
    job_functions_free(functions);

    made_text(place->dir, ".process", "version\t9\n");
    assert_int_equal(job_functions_load(&functions, place->root, &(struct job_functions_options){0}, NULL), 0);
    assert_int_equal(functions->processes, 0);
    assert_int_equal(json_array_size(functions->problems), 1);
    job_functions_free(functions);
    assert_int_equal(job_functions_load(&functions, "/nowhere", &(struct job_functions_options){0}, NULL), 0);
    text = BUF_INIT;
    job_functions_text(&text, functions, NULL);
    job_functions_summary(&text, functions, NULL);
    assert_int_equal(text.len, 0);
    job_functions_free(functions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_filters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_depth_and_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_csv, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_chrome, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_speedscope, set_up, tear_down),
        cmocka_unit_test(test_formats),
        cmocka_unit_test_setup_teardown(test_functions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_continued, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unfinished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_crash_and_problems, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
