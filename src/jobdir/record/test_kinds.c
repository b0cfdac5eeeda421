/* SPDX-License-Identifier: Apache-2.0 */
/* Records: from a row to JSON, back to the row, and to a line for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jobdir/record/kinds.h"

static void assert_said(enum record_type type, const void *row, const char *wanted)
{
    struct buf out = BUF_INIT;
    json_t *record = record_json(type, row);
    record_text(&out, record);
    assert_string_equal(out.data, wanted);
    json_decref(record);
    buf_done(&out);
}

static void test_lines(void **state)
{
    (void)state;
    assert_said(RECORD(gap, .from = 1.25, .to = 3, .reason = "it hung"), "nothing was seen from 1.2 to 3.0 s: it hung");
    assert_said(RECORD(crash, .pid = 7, .name = "a.out", .signal = 11), "7 a.out crashed: SIGSEGV");
    assert_said(RECORD(crash, .pid = 7, .name = "a.out", .signal = 6, .core_dumped = true),
                "7 a.out crashed: SIGABRT, with a core file");
    assert_said(RECORD(setting, .key = "rate", .value = "5", .taken = false), "rate = 5, refused");
    assert_said(RECORD(stall, .seconds = 60, .ranks = 2,
                       .why = "deadlock: ranks 0 and 1 wait for each other\n  rank 0: MPI_Recv"),
                "2 ranks stand still for 60.0 s: deadlock: ranks 0 and 1 wait for each other");
    struct process_end_record end = {{7, 1, 0.5, "sh", {0}}, .cpu_ns = 1500000, .peak_rss = 2048, .status = 0};
    assert_said(RECORD_process_end, &end, "7 sh ended: 1.50 ms of CPU time, 2.0 KB");
    end.status = 3 << 8;
    assert_said(RECORD_process_end, &end, "7 sh ended with exit status 3: 1.50 ms of CPU time, 2.0 KB");
    end.status = 9;
    assert_said(RECORD_process_end, &end, "7 sh ended with SIGKILL: 1.50 ms of CPU time, 2.0 KB");
    end.status = -1;
    end.why = "nobody saw it";
    assert_said(RECORD_process_end, &end, "7 sh ended, nobody saw it: 1.50 ms of CPU time, 2.0 KB");
    json_t *argv = json_pack("[s, s]", "ls", "-l");
    assert_said(RECORD(process, .pid = 7, .ppid = 1, .name = "ls", .command = {.argv = argv, .cwd = "/tmp"}),
                "7 ls, of 1: ls -l (/tmp)");
    assert_said(RECORD(process, .pid = 7, .ppid = 1, .name = "ls"), "7 ls, of 1");
    json_decref(argv);
    argv = json_pack("[s, s, s, s, s]", "sh", "-c", "a; b", "it's", "");
    assert_said(RECORD(process, .pid = 7, .ppid = 1, .name = "sh", .command = {.argv = argv, .argv_cut = true}),
                "7 sh, of 1: sh -c 'a; b' 'it'\\''s' '' ...");
    json_decref(argv);
    json_t *list = json_pack("[{s:s, s:i, s:i}, {s:s, s:i, s:i}]", "rule", "a : b", "fired", 1, "failed", 0, "rule",
                             "c", "fired", 3, "failed", 1);
    assert_said(RECORD(rules, .list = list), "a : b fired 1 time; c fired 3 times, an action failed 1 time");
    json_decref(list);
    list = json_pack("[{s:i, s:s, s:[{s:s, s:s, s:i}, {s:s, s:s, s:i}]}]", "tid", 7, "name", "main", "frames",
                     "function", "f", "file", "a.py", "line", 3, "function", "g", "file", "", "line", 0);
    assert_said(RECORD(python_stack, .pid = 7, .threads = list), "7 thread 7 main: f (a.py:3) < g");
    json_decref(list);
    struct system_fields system = {.load = 0.5, .memory_free_bytes = 1 << 10, .memory_available_bytes = 1 << 20};
    struct sample_record sample = {.tree = {.processes = 1, .threads = 4, .rss = 4096}};
    assert_said(RECORD_sample, &sample, "1 process, 4 threads, 4.0 KB, 0 ns of CPU time");
    sample.system = &system;
    assert_said(RECORD_sample, &sample,
                "1 process, 4 threads, 4.0 KB, 0 ns of CPU time; load 0.5, 1.0 MB of memory "
                "available");
    assert_said(RECORD(end, .started = true, .wall_seconds = 1.5), "exit status 0, 1.50 s, 0.00 s of CPU time");
}

/* What a later version writes is shown, too. */
static void test_unknown(void **state)
{
    (void)state;
    struct buf out = BUF_INIT;
    json_t *record = json_pack("{s:s, s:i, s:[s, s], s:n}", "type", "flood", "level", 3, "rivers", "a", "b", "end");
    assert_int_equal(record_type(record), RECORD_TYPES);
    record_text(&out, record);
    assert_string_equal(out.data, "type=flood, level=3, rivers=a b, end=?");
    json_decref(record);
    buf_done(&out);
}

static void test_back(void **state)
{
    (void)state;
    struct process_end_record read;
    json_t *record = record_json(RECORD(process_end, .process = {7, 1, 0.5, "sh", .command = {.cwd = "/"}}, .end = 2,
                                        .cpu_ns = UINT64_C(1) << 40, .status = -1, .why = "x"));
    assert_true(json_is_null(json_object_get(record, "status")));
    assert_null(json_object_get(record, "argv"));
    assert_null(json_object_get(record, "source"));
    record_read(record, RECORD_process_end, &read);
    assert_int_equal(read.process.pid, 7);
    assert_string_equal(read.process.name, "sh");
    assert_string_equal(read.process.command.cwd, "/");
    assert_null(read.process.command.argv);
    assert_int_equal(read.cpu_ns, UINT64_C(1) << 40);
    assert_int_equal(read.status, -1);
    assert_null(read.source);
    assert_string_equal(read.why, "x");
    json_decref(record);
    /* of other types than these, and half of it */
    record = json_pack("{s:s, s:i, s:[]}", "pid", "seven", "name", 3, "cpu_ns");
    record_read(record, RECORD_process_end, &read);
    assert_int_equal(read.process.pid, 0);
    assert_null(read.process.name);
    assert_int_equal(read.cpu_ns, 0);
    json_decref(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
