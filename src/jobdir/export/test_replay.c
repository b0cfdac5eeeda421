/* SPDX-License-Identifier: Apache-2.0 */
/* What replay, exports and reports make of made traces. */
#include "jobdir/export/test_replay.h"

/* ---- replay ---- */

static void test_tree(void **state)
{
    struct place *place = *state;
    make_solver(place);
    check_replay(place, (struct replay_options){0},
                 "   0.001000  main()  main.c:10\n"
                 "   0.001001    solve(n = 5)  in before {k = 42}  solve.c:20\n"
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
                 "   0.001001  [100]      solve(n = 5)  in before {k = 42}  {i = 12}  = 13  12.3 us  solve.c:20\n"
                 "   0.001020  [100]      -- half\n"
                 "   0.002000  [100]      solve(n = 6)  unwound (exception, longjmp or end of the thread)  1.00 us  "
                 "solve.c:20\n");
    check_replay(place, (struct replay_options){.filter.max_depth = 1},
                 "   0.001000  main()  main.c:10\n"
                 "   0.001020    -- half\n"
                 "   0.002001  end of main  still open at the end  1.00 ms\n");
    check_replay(place, (struct replay_options){.filter.max_depth = 1, .start_ns = START + 1500000}, /* of the job */
                 "-  0.000500  main()  main.c:10\n"
                 "-  0.000480    -- half\n"
                 "   0.000501  end of main  still open at the end  1.00 ms\n");
    check_replay(place, (struct replay_options){.filter.thread = 99}, "");
    check_replay(place,
                 (struct replay_options){.filter = {.function = "solve", .to_ns = START + 1002000}, .value_columns = 4},
                 "   0.001001  solve(n...)  in before {k...}  {i...}  = 13  12.3 us  solve.c:20\n");
    check_replay(place, (struct replay_options){.filter = {.from_ns = START + 1001500, .to_ns = START + 1100000}},
                 "   0.001002  norm()  310 ns\n   0.001020  -- half\n");
    check_replay(place, (struct replay_options){.min_ns = 5000, .filter.to_ns = START + 1020001},
                 "   0.001000  main()  main.c:10\n"
                 "   0.001001    solve(n = 5)  in before {k = 42}  {i = 12}  = 13  12.3 us  solve.c:20\n"
                 "   0.001020    -- half\n"
                 "   0.002001  end of main  still open at the end  1.00 ms\n");
}

/* Entries that name where they are called from; one whose place nobody knows; and the declaration, if asked for. */
static void test_places(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_text(place->dir, ".layouts", "1\targs(n:i4\"int\")\n2\tlocals(i:i4) result(:i4\"int\")\n");
    made_text(place->dir, ".places", "7\t2\t0x5120\t0x120\t/lib/libx.so.1\tabcd\t0\n9\t3\t0x6000\t0x1000\t\t\t0\n");
    made_begin(made, 100, 1000000);
    made_enter_with(made, 1001010, RECORD_PLACE | 7, 1, 5);
    made_leaf(made, 1002000, 1002310, RECORD_PLACE | 9);
    made_leaf(made, 1003000, 1003310, RECORD_PLACE | 8);
    made_exit_with(made, 1013355, 2, 1001010, 2, 12);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    check_replay(place, (struct replay_options){.types = true},
                 "   0.001001  solve(n = 5)  solve.c:20 from libx.so.1+0x120\n"
                 "   0.001002    step()  310 ns  solve.c:40\n"
                 "   0.001003    function 4294967295()  310 ns\n"
                 "   0.001013  end of solve  {i = 12}  = 13  12.3 us  int solve(int n)\n");
    _cleanup_(freep) char *text = replayed(place, (struct replay_options){.json = true});
    assert_non_null(strstr(text, "\"from_function\":\"\",\"from_file\":\"\",\"from_line\":0,\"from_module\":"
                                 "\"/lib/libx.so.1\",\"from_offset\":288"));
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
    made_leaf(made, 10000000, 30000000, 1);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made->bytes.len = 0;
    made_begin(made, 101, 20000000);
    made_leaf(made, 20000000, 20000100, 4);
    made_end(made);
    made_stream(made, place->dir, "stream-0001");
    check_replay(place, (struct replay_options){.threads = true},
                 "   0.010000  [100]      main()  main.c:10\n"
                 "   0.020000  [101]      norm()  100 ns\n"
                 "   0.030000  [100]      end of main  20.0 ms\n");
}

/* Lines of other threads wait for a call that began before and may still end on its line; but not when nothing comes.
 */
static void test_order_of_threads(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 100, 1000000);
    made_leaf(made, 1000000, 1900000, 1);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made->bytes.len = 0;
    made_begin(made, 101, 1000000);
    made_leaf(made, 1100000, 1100100, 4);
    made_enter(made, 1200000, 2);
    made_leaf(made, 1300000, 1300100, 4);
    made_exit(made, 1400000);
    made_record(made, RECORD_MARK, 1950000);
    buf_append(&made->records, "\4\0half", 6);
    made_end(made);
    made_stream(made, place->dir, "stream-0001");
    check_replay(place, (struct replay_options){.threads = true},
                 "   0.001000  [100]      main()  900 us  main.c:10\n"
                 "   0.001100  [101]      norm()  100 ns\n"
                 "   0.001200  [101]      solve()  solve.c:20\n"
                 "   0.001300  [101]        norm()  100 ns\n"
                 "   0.001400  [101]      end of solve  200 us\n"
                 "   0.001950  [101]      -- half\n");
    check_replay(place, (struct replay_options){.threads = true, .min_ns = 200000},
                 "   0.001000  [100]      main()  900 us  main.c:10\n"
                 "   0.001200  [101]      solve()  200 us  solve.c:20\n"
                 "   0.001950  [101]      -- half\n");
    /* a mark that comes while a call waits, and then nothing */
    struct replay *replay;
    struct trace_cursor *cursor;
    struct trace_event event;
    char *text = NULL;
    size_t len;
    open_trace(place);
    FILE *out = open_memstream(&text, &len);
    const struct replay_options options = {.start_ns = START, .threads = true, .min_ns = 100000};
    assert_int_equal(replay_new(&replay, place->trace, &options, out), 0);
    assert_int_equal(trace_cursor_new(&cursor, place->trace, false, NULL), 0);
    for (int i = 0; i < 7; i++) { /* until solve has ended */
        assert_int_equal(trace_next(cursor, &event), 1);
        assert_int_equal(replay_event(replay, &event), 0);
    }
    assert_int_equal(replay_idle(replay), 0);
    fflush(out);
    assert_non_null(strstr(text, "   0.001200  [101]      solve()"));
    replay_free(replay);
    trace_cursor_free(cursor);
    fclose(out);
    free(text);
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
            assert_string_equal(json_string_value(json_object_get(json, "caller_locals_of")), "before");
            assert_string_equal(json_string_value(json_object_get(json, "caller")), "main");
            assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "locals"), "i")), 12);
            assert_int_equal(json_integer_value(json_object_get(json, "result")), 13);
            assert_int_equal(json_integer_value(json_object_get(json, "duration_ns")), 12345);
        }
        json_decref(json);
    }
    assert_int_equal(lines, 6);
}

/* ---- exports ---- */

static void test_csv(void **state)
{
    struct place *place = *state;
    made_text(place->dir, ".layouts",
              "1\targs(n:i4\"int\")\n2\tlocals(i:i4) result(:i4\"int\")\n3\tcaller\"before\"(k:i4)\n"
              "4\targs(a:i2\"short\",b:i2\"short\")\n");
    make_solver(place);
    struct made *made = &place->made;
    made_begin(made, 101, 3000000);
    made_enter_with(made, 3000000, 4, 4, 0x20001);
    made_exit(made, 3000001);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    _cleanup_(freep) char *text = exported(place, "csv");
    assert_string_equal(
        text,
        "process,thread,depth,function,file,line,start_s,duration_ns,how,args,locals,result,rank,caller,signature,"
        "from_function,from_file,from_line,statics,cpu_ns,waiting_ns,preempted_ns\r\n"
        "100,100,2,norm,,0,0.001002000,310,returned,,,,,solve,,,,,,,,\r\n"
        "100,100,1,solve,/src/solve.c,20,0.001001010,12345,returned,n = 5,i = 12,13,,before,int solve(int n),,,,,,,\r\n"
        "100,100,2,step,/src/solve.c,40,0.002000500,500,unwound,,,,,solve,,,,,,,,\r\n"
        "100,100,1,solve,/src/solve.c,20,0.002000000,1000,unwound,n = 6,,,,main,solve(int n),,,,,,,\r\n"
        "100,100,0,main,/src/main.c,10,0.001000000,1001000,unwound,,,,,,,,,,,,,\r\n"
        "100,101,0,norm,,0,0.003000000,1,returned,\"a = 1, b = 2\",,,,,\"norm(short a, short b)\",,,,,,,\r\n");
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
    assert_non_null(strstr(
        text,
        "{\"ph\":\"B\",\"pid\":100,\"tid\":100,\"ts\":1001.010,\"name\":\"solve\",\"args\":{"
        "\"arguments\":{\"n\":5},\"caller_locals\":{\"k\":42},\"caller\":\"before\",\"source\":\"/src/solve.c:20\"}}"));
    assert_non_null(strstr(text, "\"ts\":1013.355,\"args\":{\"locals\":{\"i\":12},\"result\":13}}"));
    assert_non_null(strstr(text, "\"args\":{\"ended\":\"unwound\"}}"));
    json_decref(json);
}

static void test_formats(void **state)
{
    assert_null(export_format_find("paper"));
    size_t count = 0;
    for (const struct export_format *format; (format = export_format_at(count)); count++)
        assert_ptr_equal(export_format_find(format->name), format); /* no name stands twice */
    assert_int_equal(count, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_filters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_order_of_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_depth_and_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_csv, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_chrome, set_up, tear_down),
        cmocka_unit_test(test_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
