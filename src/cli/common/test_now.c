/* SPDX-License-Identifier: Apache-2.0 */
/* Where a job is, from its records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/common/now.h"
#include "jobdir/record/kinds.h"

static struct job_model model;

static void put(double seconds, enum record_type type, const void *row)
{
    json_t *record = record_json(type, row);
    json_object_set_new(record, "t", json_real(seconds));
    job_model_apply(&model, record);
    json_decref(record);
}

static int start(void **state)
{
    return job_model_init(&model, 0);
}

static int stop(void **state)
{
    job_model_done(&model);
    return 0;
}

static void put_process(int32_t pid, int32_t ppid, const char *name)
{
    put(0, RECORD(process, .pid = pid, .ppid = ppid, .name = name));
}

/* All lines, one below the other. */
static void assert_now(double seconds, const char *wanted)
{
    struct now_line lines[NOW_LINES];
    struct buf text = BUF_INIT;
    size_t count = now_lines(&model, 9, lines);
    for (size_t i = 0; i < count; i++) {
        now_text(&text, &lines[i], seconds);
        buf_putc(&text, '\n');
    }
    assert_string_equal(text.data ? text.data : "", wanted);
    buf_done(&text);
}

/* A script that runs another one is at the line that does so; the inner one says more. One that ended says nothing. */
static void innermost_scripts(void **state)
{
    assert_now(0, "");
    put_process(10, 1, "bash");
    put_process(11, 10, "make");
    put_process(12, 11, "bash");
    put_process(20, 10, "sh");
    put(1, RECORD(script_line, .at = {10, "bash", "run.sh", 3, NULL, "make"}, .how = "trap", .time = -1));
    put(2, RECORD(script_line, .at = {12, "bash", "in.sh", 7, "build", "a\x1b"}, .how = "trap", .time = -1));
    put(3, RECORD(script_line, .at = {20, "sh", "side.sh", 1, NULL, NULL}, .how = "outside", .time = 1.5));
    put(3, RECORD(script_line, .at = {99, "sh", "gone.sh", 1, NULL, NULL}, .how = "outside", .time = -1));
    assert_now(3, "script 12 in.sh:7 in build: a\\x1b\nscript 20 side.sh:1\n");
    assert_now(300, "script 12 in.sh:7 in build: a\\x1b  for 4 min 58 s\nscript 20 side.sh:1  for 4 min 59 s\n");
    put(4, RECORD(process_end, .process = {.pid = 12, .ppid = 11, .name = "bash"}, .status = 0));
    put(4, RECORD(process_end, .process = {.pid = 20, .ppid = 10, .name = "sh"}, .status = 0));
    assert_now(4, "script 10 run.sh:3: make  for 3.00 s\n");
}

/* A Python program below a shell is in another layer; what was seen last counts. */
static void python_has_a_layer(void **state)
{
    put_process(10, 1, "bash");
    put_process(11, 10, "python3");
    put(1, RECORD(script_line, .at = {10, "bash", "run.sh", 3, NULL, NULL}, .how = "trap", .time = -1));
    put(1, RECORD(script_line, .at = {11, "python", "a.py", 9, "f", NULL}, .how = "trap", .time = -1));
    assert_now(1, "script 10 run.sh:3\npython 11 a.py:9 in f\n");
    json_t *threads = json_pack("[{s:i, s:[]}, {s:i, s:[{s:s, s:s, s:i}, {s:s, s:s, s:i}]}]", "tid", 11, "frames",
                                "tid", 12, "frames", "function", "g", "file", "/x/a.py", "line", 4, "function", "f",
                                "file", "/x/a.py", "line", 9);
    put(2, RECORD(python_stack, .pid = 11, .threads = threads));
    json_decref(threads);
    assert_now(2, "script 10 run.sh:3\npython 11 g (a.py:4) < f (a.py:9), 2 threads\n");
}

static void other_layers(void **state)
{
    put(1, RECORD(progress, .source = "/x/out.log", .done = 1, .total = 4, .left_seconds = 90));
    put(2, RECORD(log, .file = "stderr", .pattern = "p", .level = "error", .text = "disk full", .line = 8));
    put(3, RECORD(warning, .kind = "k", .text = "beware"));
    assert_now(3, "done   25 %, 88 s left  out.log\nlog    stderr:8 error: disk full\nwarn   beware\n");
    assert_now(200, "done   25 %  out.log\nlog    stderr:8 error: disk full  3 min 18 s ago\n"
                    "warn   beware  3 min 17 s ago\n");
    assert_true(now_left(now_progress(&model), -1) < 0); /* it is over */
    put(3, RECORD(progress, .source = "stdout", .done = 5, .total = 9, .left_seconds = -1));
    put(4,
        RECORD(progress, .source = "stdout", .done = 0, .total = 0, .left_seconds = -1)); /* it is not known any more */
    assert_true(now_share(now_progress(&model)) == 0.25);
    put(4, RECORD(progress, .source = "/x/two.log", .done = 5, .total = 0, .left_seconds = -1));
    assert_true(now_share(now_progress(&model)) < 0);
    put(5, RECORD(progress, .source = "/x/out.log", .done = 8, .total = 4, .left_seconds = -1));
    assert_true(now_share(now_progress(&model)) == 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(innermost_scripts), TEST(python_has_a_layer), TEST(other_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
