/* SPDX-License-Identifier: Apache-2.0 */
/* What reports make of made traces. */
#include "jobdir/mpi/test_mpi_trace.h"
#include "jobdir/export/test_replay.h"
#include "jobdir/report/report.h"

/* What took all of the time leaves a blank between its time and its share. */
static void test_all_of_the_time(void **state)
{
    struct place *place = *state;
    struct job_functions *functions;
    struct buf text = BUF_INIT;
    made_begin(&place->made, 100, 1000);
    made_enter(&place->made, 1000, 1);
    made_exit(&place->made, 7780);
    made_end(&place->made);
    made_stream(&place->made, place->dir, "stream-0000");
    assert_int_equal(
        job_functions_load(&functions, place->root, &(struct job_functions_options){.start_ns = START}, NULL), 0);
    job_functions_text(&text, functions, NULL, 80);
    assert_non_null(strstr(text.data, "\n  6.78 us 100.0%"));
    buf_done(&text);
    job_functions_free(functions);
}

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
        strstr(text.data, "80 events, 160 B of 2 processes; recording took about 3.00 ms; 14 events are missing"));
    job_functions_text(&text, functions, NULL, 0);
    assert_non_null(strstr(text.data, "solve(n = 5) = 13  solve.c:20  pid 100"));
    buf_done(&text);
    json_t *json = json_object();
    job_functions_json(json, functions);
    assert_int_equal(json_array_size(json_object_get(json, "functions")), 4);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "trace"), "discarded")), 14);
    json_decref(json);
    job_functions_free(functions);

    const struct job_functions_options by_process = {.by_process = true};
    assert_int_equal(job_functions_load(&functions, place->root, &by_process, NULL), 0);
    uint64_t calls = 0;
    for (const struct job_traced *each = functions->traced; each; each = each->hh.next) {
        const struct job_function_process *cell = job_functions_of(functions, functions->functions, each);
        assert_true(each->key && strncmp(each->key, "node/", 5) == 0 && cell && cell->calls == 1);
        calls += cell->calls;
    }
    assert_int_equal(calls, functions->functions->calls);
    job_functions_free(functions);

    /* more than the whole job used cannot be */
    const struct job_functions_options little = {.cpu_seconds = 0.002};
    assert_int_equal(job_functions_load(&functions, place->root, &little, NULL), 0);
    text = (struct buf)BUF_INIT;
    job_functions_summary(&text, functions, NULL);
    assert_null(strstr(text.data, "recording took"));
    assert_non_null(strstr(text.data, "; what recording cost could not be measured"));
    buf_done(&text);
    assert_true(functions->cost_seconds == 0.002);
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

static struct buf summary_of(struct place *place, struct job_functions **ret_functions)
{
    struct buf text = BUF_INIT;
    load_all(place, ret_functions);
    job_functions_summary(&text, *ret_functions, NULL);
    return text;
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
    made_leaf(made, 1200, 1300, 3);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made_process(place->dir, 100,
                 "start_ns\t100\n"
                 "clock_offset_ns\t1000\nevents\t4\nstate\tcontinued\n");
    made_text(place->dir, ".counts", "4\t70\t700\t0\n");
    snprintf(next, sizeof next, "%.200s/trace/node/100-1", place->root);
    assert_int_equal(mkdir(next, 0700), 0);
    made->bytes.len = 0;
    made_begin(made, 100, 2000);
    made_exit_of(made, 2000, 2, 1100); /* what began in the trace before */
    made_leaf(made, 2100, 2200, 2);
    made_end(made);
    made_stream(made, next, "stream-0000");
    made_process(next, 100,
                 "start_ns\t200\n"
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
    check_replay(place, (struct replay_options){0},
                 "   0.000001  main()  main.c:10\n"
                 "   0.000001    solve()  solve.c:20\n"
                 "   0.000001      step()  100 ns  solve.c:40\n"
                 "   0.000002    end of solve  900 ns\n"
                 "   0.000002    solve()  100 ns  solve.c:20\n"
                 "   0.000002  end of main  still open at the end  1.20 us\n");
    _cleanup_(freep) char *csv = exported(place, "csv");
    assert_string_equal(
        csv, "process,thread,depth,function,file,line,start_s,duration_ns,how,args,locals,result,rank,caller,signature,"
             "from_function,from_file,from_line,statics,cpu_ns,waiting_ns,preempted_ns\r\n"
             "100,100,2,step,/src/solve.c,40,0.000001200,100,returned,,,,,solve,,,,,,,,\r\n"
             "100,100,1,solve,/src/solve.c,20,0.000001100,900,returned,,,,,main,,,,,,,,\r\n"
             "100,100,1,solve,/src/solve.c,20,0.000002100,100,returned,,,,,main,,,,,,,,\r\n"
             "100,100,0,main,/src/main.c,10,0.000001000,1200,open,,,,,,,,,,,,,\r\n");
    _cleanup_(freep) char *folded = exported(place, "folded");
    assert_string_equal(folded, "?;main 200\n?;main;solve 900\n?;main;solve;step 100\n");

    /* nothing followed: it stays open, and counts */
    char path[300];
    snprintf(path, sizeof path, "%.200s/trace/node/100-1", place->root);
    made_text(path, ".process", "version\t9\n");
    load_all(place, &functions);
    assert_int_equal(find_function(functions, "solve")->calls, 1);
    assert_int_equal(find_function(functions, "solve")->open, 1);
    assert_int_equal(find_function(functions, "norm")->calls, 70);
    job_functions_free(functions);
    check_replay(place, (struct replay_options){.filter.function = "solve"},
                 "   0.000001  solve()  goes on in a later trace, which is not there  200 ns  solve.c:20\n");
}

/* A trace that still says that its process runs when the job is over was not written to its end. */
static void test_unfinished(void **state)
{
    struct place *place = *state;
    made_process(place->dir, 100, "state\trunning\noverwritten\t6\n");
    char other[256];
    made_trace(place->root, 200, other);
    made_process(other, 200, "state\trunning\n");
    for (unsigned ended = 0; ended < 2; ended++) {
        struct job_functions *functions;
        const struct job_functions_options options = {.all_ended = ended};
        assert_int_equal(job_functions_load(&functions, place->root, &options, NULL), 0);
        assert_int_equal(json_array_size(functions->problems), 2 * ended);
        struct buf text = BUF_INIT;
        job_functions_summary(&text, functions, NULL);
        assert_int_equal(strstr(text.data, "; at least 6 others were counted but not kept; how many more are "
                                           "missing is not known\n") != NULL,
                         ended);
        assert_int_equal(strstr(text.data, "\n  tracing    2 traces were not written to their ends: does the "
                                           "monitor still write them, was it killed, or is the disk full?\n") != NULL,
                         ended);
        assert_null(strstr(text.data, "process 100"));
        buf_done(&text);
        job_functions_free(functions);
    }
}

/* The record of an end is missing (the buffer or the disk was full): no time is made up. */
static void test_lost_ends(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made->bytes.len = 0;
    made_begin(made, 100, 1000);
    made_enter(made, 1000, 1);
    made_leaf(made, 1010, 1020, 2);
    made_enter(made, 1030, 2);
    made_count(made, 1040, RECORD_LOST, 2);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    struct job_functions *functions;
    struct buf text = summary_of(place, &functions);
    assert_non_null(strstr(text.data, "       ?         main  x 1  main.c:10  (of 1 the end is missing)\n"));
    assert_non_null(strstr(text.data, "solve  x 2  solve.c:20  (of 1 the end is missing)\n"));
    buf_done(&text);
    json_t *json = json_object();
    job_functions_json(json, functions);
    json_t *function = json_array_get(json_object_get(json, "functions"), 0);
    assert_int_equal(json_integer_value(json_object_get(function, "end_missing")), 1);
    json_decref(json);
    job_functions_free(functions);
}

/* What was left out because it was asked for is said, and a call that was open at the last record has no time. */
static void test_left_out(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made->bytes.len = 0;
    made_begin(made, 100, 1000);
    made_enter(made, 1000, 1);
    made_leaf(made, 1010, 1020, 4);
    made_enter(made, 1100, 2);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made_text(place->dir, ".counts", "4\t0\t0\t2999\n");
    made_process(place->dir, 100,
                 "state\texited\nevents\t4\n"
                 "thinned\t2999\nmin_time\t5000\nmax_depth\t3\n");
    struct job_functions *functions;
    struct buf text = summary_of(place, &functions);
    assert_non_null(strstr(text.data, "norm  x 1  (of 3000: --rate)\n"));
    assert_non_null(strstr(text.data, "       ?         solve  x 1  solve.c:20  (1 open at the end)\n"));
    assert_non_null(strstr(text.data,
                           "; 2999 calls were left out to keep the rate (--rate); calls shorter than 5.00 us "
                           "are left out (--min-time); calls more than 3 deep are left out (--max-depth)"));
    job_functions_text(&text, functions, NULL, 0);
    assert_null(strstr(text.data, " 0 ns  at"));
    buf_clear(&text);
    functions->too_deep = 12; /* the limit is named */
    job_functions_summary(&text, functions, NULL);
    assert_non_null(
        strstr(text.data, "; 12 calls are missing: more than 131072 are inside each other, or there was no memory"));
    buf_clear(&text);
    functions->too_deep = 0;
    functions->events = 0; /* calls that are only counted are all counted */
    functions->functions->counted = 7;
    job_functions_summary(&text, functions, NULL);
    assert_non_null(strstr(text.data, "7 calls were only counted (--count-only)"));
    assert_null(strstr(text.data, "are left out (--m"));
    buf_done(&text);
    json_t *json = json_object();
    job_functions_json(json, functions);
    json_t *trace = json_object_get(json, "trace");
    assert_int_equal(json_integer_value(json_object_get(trace, "thinned")), 2999);
    assert_int_equal(json_integer_value(json_object_get(trace, "min_time_ns")), 5000);
    assert_int_equal(json_integer_value(json_object_get(trace, "max_depth")), 3);
    json_decref(json);
    job_functions_free(functions);

    made_process(place->dir, 100,
                 "state\texited\nevents\t4\n"
                 "min_time\t5000\nmin_time_least\t0\n");
    text = summary_of(place, &functions);
    assert_non_null(
        strstr(text.data, "; calls shorter than 5.00 us were left out for a part of the time (--min-time)"));
    buf_done(&text);
    job_functions_free(functions);
}

/* Two runs compared: of which of them calls are missing. */
static void test_compared(void **state)
{
    struct place *place = *state;
    struct job_functions *functions;
    make_solver(place);
    made_process(place->dir, 100, "state\texited\nevents\t10\n");
    struct buf text = summary_of(place, &functions);
    struct job_functions lacking = *functions;
    lacking.discarded = 3;
    const struct {
        const struct job_functions *a, *b;
        const char *said; /* NULL: nothing */
    } rows[] = {
        {functions, functions, NULL},
        {&lacking, functions, "\n  of A calls are missing: `scry report` says why\n"},
        {functions, &lacking, "\n  of B calls are missing: `scry report` says why\n"},
        {&lacking, &lacking, "\n  of both calls are missing: `scry report` says why\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct job_report a = {.info = {.id = "a", .name = "a", .ended = true}, .functions = (void *)rows[i].a},
                                b = {.info = {.id = "b", .name = "b", .ended = true}, .functions = (void *)rows[i].b};
        buf_clear(&text);
        job_report_diff_text(&text, &a, &b);
        buf_putc(&text, '\0');
        assert_non_null(strstr(text.data, "Functions: own A"));
        if (rows[i].said)
            assert_non_null(strstr(text.data, rows[i].said));
        else
            assert_null(strstr(text.data, "missing"));
        json_t *json = job_report_diff_json(&a, &b);
        assert_int_equal(json_is_true(json_object_get(json_object_get(json, "a"), "functions_complete")),
                         rows[i].a == functions);
        assert_int_equal(json_is_false(json_object_get(json_object_get(json, "b"), "functions_complete")),
                         rows[i].b != functions);
        json_decref(json);
    }
    struct mpi_message_rank rank = {.rank = 0};
    struct mpi_wait wait = {.total_ns = 7000000000};
    struct mpi_messages traced = {.ranks = &rank, .rank_count = 1}, waited = traced;
    HASH_ADD(hh, waited.waits, key, sizeof wait.key, &wait);
    const struct mpi_report mpi = {.world_of = NULL};
    const struct job_report with = {.info = {.id = "a", .name = "a", .ended = true},
                                    .mpi = (void *)&mpi,
                                    .messages = &waited},
                            none = {.info = {.id = "b", .name = "b", .ended = true}, .mpi = (void *)&mpi};
    buf_clear(&text);
    job_report_diff_text(&text, &with, &none); /* what ranks lost, where messages were traced */
    buf_putc(&text, '\0');
    assert_non_null(strstr(text.data, "lost waiting"));
    assert_non_null(strstr(text.data, " 7.00 s"));
    buf_clear(&text);
    job_report_diff_text(&text, &none, &none);
    buf_putc(&text, '\0');
    assert_null(strstr(text.data, "lost waiting"));
    HASH_CLEAR(hh, waited.waits);
    static const struct {
        double seconds;
        const char *change;
    } changes[] = {{30, "3000x\n"}, {0.1, "10x\n"}, {0.05, "+400.0%\n"}, {0.001, "-90.0%\n"}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct job_report a = {.info = {.id = "a", .name = "a", .ended = true}}, b = a;
        a.info.result.wall_seconds = 0.01;
        b.info.result.wall_seconds = changes[i].seconds;
        buf_clear(&text);
        job_report_diff_text(&text, &a, &b);
        buf_putc(&text, '\0');
        const char *line = strstr(text.data, "wall time ");
        assert_non_null(line);
        assert_int_equal(
            strncmp(strchr(line, '\n') + 1 - strlen(changes[i].change), changes[i].change, strlen(changes[i].change)),
            0);
    }
    buf_done(&text);
    job_functions_free(functions);
}

/* How long it took on a node that others used is not what the program did. */
static void test_compared_on_a_shared_node(void **state)
{
    static const struct {
        double cpu;
        bool a, b;
        const char *verdict;
    } rows[] = {
        {10.1, false, true,
         "B used as much processor time as A: 10.1 s, and A 10.0 s; B took 4 times as long as A: 40.0 s, and A 10.0 s, "
         "but the node of B was shared with others"},
        {20, true, true,
         "B used 2 times as much processor time as A: 20.0 s, and A 10.0 s; B took 4 times as long as A: 40.0 s, and A "
         "10.0 s, but the node of both was shared with others"},
        {20, false, false, "B took 4 times as long as A: 40.0 s, and A 10.0 s"},
        {0, true, false, "B took 4 times as long as A: 40.0 s, and A 10.0 s"},
    };
    json_t *shared = json_array();
    const struct note note = NOTE(processors_taken, .percent = 90, .seconds = 10, .others = 2, .cpus = 2);
    json_array_append_new(shared, note_json(&note));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_report a = {.info = {.id = "a", .name = "a", .ended = true, .warnings = rows[i].a ? shared : NULL}},
                          b = {.info = {.id = "b", .name = "b", .ended = true, .warnings = rows[i].b ? shared : NULL}};
        a.info.result = (struct job_result){.started = true, .wall_seconds = 10, .cpu_seconds = 10};
        b.info.result = (struct job_result){.started = true, .wall_seconds = 40, .cpu_seconds = rows[i].cpu};
        json_t *json = job_report_diff_json(&a, &b);
        assert_string_equal(json_string_value(json_object_get(json, "verdict")), rows[i].verdict);
        json_decref(json);
    }
    json_decref(shared);
}

/* Some calls of a function were recorded, others only counted: its own time is that of those recorded, and that is
 * said.
 */
static void test_partly_counted(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made->bytes.len = 0;
    made_begin(made, 100, 1000);
    made_enter(made, 1000, 1);
    made_leaf(made, 1010, 1020, 4);
    made_exit(made, 2000);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
    made_text(place->dir, ".counts", "4\t1530\t20000\t0\n");
    struct job_functions *functions;
    struct buf text = summary_of(place, &functions);
    assert_non_null(strstr(text.data, "norm  x 1531  (1530 only counted)\n"));
    assert_non_null(strstr(text.data, "main  x 1  main.c:10\n"));
    assert_non_null(strstr(text.data, "; 1530 calls were only counted (--count-only): how much of their time was their "
                                      "own, and who called them, is not known"));
    buf_clear(&text);
    job_functions_text(&text, functions, NULL, 0);
    assert_non_null(strstr(text.data, "20.0 us      1531     10 ns"));
    assert_non_null(strstr(text.data, "norm  (1530 only counted)\n"));
    buf_done(&text);
    job_functions_free(functions);
}

/* A process that executes another program has a trace of each, and is one. */
static void test_executed(void **state)
{
    struct place *place = *state;
    char next[300];
    make_solver(place);
    snprintf(next, sizeof next, "%.200s/trace/node/100-1", place->root);
    assert_int_equal(mkdir(next, 0700), 0);
    made_process(next, 100, "state\texited\n");
    made_stream(&place->made, next, "stream-0000");
    struct job_functions *functions;
    load_all(place, &functions);
    assert_int_equal(functions->processes, 1);
    struct buf text = BUF_INIT;
    job_functions_summary(&text, functions, NULL);
    assert_null(strstr(text.data, "processes"));
    buf_done(&text);
    job_functions_free(functions);
}

static void test_crash_and_problems(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 100, 1000);
    made_enter(made, 1000, 1);
    made_leaf(made, 1010, 1020, 4);
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
    job_functions_text(&text, functions, NULL, 0);
    assert_non_null(strstr(text.data, "only counted                        5.00 us      1000      5 ns"));
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
    job_functions_text(&text, functions, NULL, 0);
    job_functions_summary(&text, functions, NULL);
    assert_int_equal(text.len, 0);
    job_functions_free(functions);
}

/* Ranks of two MPI programs, of which one has started the other: both have a rank 0 and a rank 1. */
static void test_ranks_of_programs(void **state)
{
    struct place *place = *state;
    struct made_rank ranks[4];
    struct job_functions *functions;
    for (int32_t i = 0; i < 4; i++) {
        made_rank_begin(&ranks[i], place->root, "node", i % 2, i < 2 ? "a" : "b", 1000);
        made_call(&ranks[i], CALL_MPI_Barrier, 2000, 2100 + 100 * (uint64_t)i);
        made_rank_end(&ranks[i]);
    }
    load_all(place, &functions);
    struct buf text = BUF_INIT;
    job_functions_text(&text, functions, NULL, 0);
    assert_non_null(strstr(text.data, "\nFunctions by rank   least (prog rank)     average        most (prog rank)"));
    assert_non_null(
        strstr(text.data, "100 ns     1     0      250 ns      400 ns     2     1        1.60 x  MPI_Barrier"));
    assert_non_null(strstr(text.data, "MPI_Barrier()  rank 1 of program 2\n"));
    assert_non_null(strstr(text.data, "MPI_Barrier()  rank 1 of program 1\n"));
    buf_done(&text);
    json_t *json = json_object();
    job_functions_json(json, functions);
    json_t *cells = json_object_get(json_array_get(json_object_get(json, "functions"), 0), "ranks");
    assert_int_equal(json_array_size(cells), 4);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(cells, 3), "world")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(cells, 3), "total_ns")), 400);
    json_decref(json);
    job_functions_free(functions);
}

/* A line for each reason, whatever the number of processes; programs have all of them. */
static void test_unwatched(void **state)
{
    struct place *place = *state;
    struct job_functions *functions;
    make_solver(place);
    for (int pid = 200; pid < 213; pid++) {
        char other[256], process[256];
        made_trace(place->root, pid, other);
        snprintf(process, sizeof process,
                 "version\t1\npid\t%d\nnode\tnode\nexe\t/bin/%s\nticks_per_second\t1000000000\nstate\texited\n"
                 "switches_missing\tprocess %d is gone\nswitches_gone\t1\n",
                 pid, pid < 210 ? "short" : "brief", pid);
        made_text(other, ".process", process);
    }
    load_all(place, &functions);
    struct buf text = BUF_INIT;
    job_functions_text(&text, functions, NULL, 0);
    assert_non_null(strstr(text.data, "\n  cpu and waiting: not known of all of solver: its trace does not have it\n"));
    assert_non_null(strstr(text.data,
                           "\n  cpu and waiting: not known of all of 13 processes (short, brief): gone before "
                           "they could be watched\n"));
    assert_null(strstr(text.data, " is gone"));
    buf_done(&text);
    assert_int_equal(json_array_size(functions->unwatched), 14);
    job_functions_free(functions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_of_the_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_functions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_continued, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unfinished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_compared, set_up, tear_down),
        cmocka_unit_test(test_compared_on_a_shared_node),
        cmocka_unit_test_setup_teardown(test_partly_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_executed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ranks_of_programs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unwatched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_crash_and_problems, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("report-functions", tests, NULL, NULL);
}
