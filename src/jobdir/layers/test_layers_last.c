/* SPDX-License-Identifier: Apache-2.0 */
/* The time line of the last records of a job that failed, and the sections of its layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/last.h"
#include "jobdir/layers/sections.h"
#include "jobdir/layers/test_job.h"

static json_t *last_of(const char *chain_text)
{
    json_t *chain = chain_of(chain_text);
    const struct job_end end = {.model = &model,
                                .warnings = model.warnings.records,
                                .crashes = model.crashes,
                                .chain = chain,
                                .exit_code = 1,
                                .seconds = 100};
    json_t *last = last_json(&end);
    json_decref(chain);
    assert_non_null(last);
    return last;
}

static void put_process(double seconds, int pid, const char *name, int status)
{
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", seconds, "pid", pid,
        "ppid", 10, "name", name, "start", 1.0, "end", seconds, "cpu_ns", 1, "threads", 1, "peak_rss", 0, "status",
        status);
}

static void put_place(double seconds, int pid, int line)
{
    PUT("{s:s, s:f, s:i, s:i, s:f, s:s}", "type", "process", "t", 1.0, "pid", pid, "ppid", 1, "start", 1.0, "name",
        "bash");
    PUT("{s:s, s:f, s:i, s:s, s:i, s:s}", "type", "script_line", "t", seconds, "pid", pid, "file", "/home/u/job.sh",
        "line", line, "how", "inside");
}

/* Python's importer is no place of the program, and a request is said in words. */
static void test_words(void **state)
{
    static const struct {
        const char *request, *said;
    } rows[] = {{":job_send_signal(\"/a,9)/\\\"b\",\"stop\",15)", "scry sent SIGTERM to the job"},
                {": proc_send_signal([p_1_1, p_1_2], 10)", "scry sent SIGUSR1 to processes of the job"},
                {": job_set([], \"sample\", \"1\")", "scry asked for job_set"}};
    put_place(99.4, 33, 8);
    PUT("{s:s, s:f, s:i, s:s, s:i, s:s}", "type", "script_line", "t", 99.5, "pid", 33, "file",
        "<frozen importlib._bootstrap>", "line", 405, "how", "outside");
    PUT("{s:s, s:f, s:i, s:[{s:i, s:s, s:[{s:s, s:s, s:i}, {s:s, s:s, s:i}]}]}", "type", "python_stack", "t", 99.6,
        "pid", 33, "threads", "tid", 33, "name", "main", "frames", "function", "f", "file",
        "<frozen importlib._bootstrap>", "line", 405, "function", "g", "file", "/home/u/a.py", "line", 3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        PUT("{s:s, s:f, s:s, s:s, s:s}", "type", "request", "t", 90.0, "who", "scry", "request", rows[i].request,
            "status", "OMIS_OK");
        json_t *last = last_of(ONE);
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        last_text(&text, last, true, NULL);
        if (!strstr(text.data, rows[i].said) || strstr(text.data, "OMIS_OK") ||
            strstr(text.data, "script    33 <frozen") || strstr(text.data, "was in f at <frozen") ||
            !strstr(text.data, "33 was in g at /home/u/a.py:3"))
            fail_msg("%s", text.data);
        json_decref(last);
    }
}

/* Scripts that ended well have done their work; a program that fails in a script that goes on has answered a question. */
static void test_asides(void **state)
{
    put_place(99.1, 30, 3);
    put_process(99.2, 30, "bash", 0);
    put_process(99.3, 31, "grep", 1 << 8);
    for (int i = 0; i < 9; i++) /* of a shim, which are no others that failed */
        put_process(98.9, 40 + i, "readlink", 1 << 8);
    put_process(99.4, 32, "cat", 9);
    put_process(99.5, 34, "yes", 13); /* nobody has read on */
    put_place(99.6, 10, 7);
    put_place(99.7, 33, 8);
    put_process(99.8, 33, "bash", 2 << 8);
    put_process(99.9, 20, "worker", 1 << 8);
    json_t *last = last_of(TWO);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    last_text(&text, last, false, NULL);
    assert_string_equal(text.data, "  reason     probably worker (pid 20), which ended with exit status 1, when its "
                                   "script was at job.sh:7\n"
                                   "  last          -0.60 s  process   cat (pid 32) ended by SIGKILL\n"
                                   "                -0.40 s  script    10 /home/u/job.sh:7\n"
                                   "                -0.30 s  script    33 /home/u/job.sh:8\n");
    _cleanup_(buf_done) struct buf whole = BUF_INIT;
    last_text(&whole, last, true, NULL);
    assert_non_null(strstr(whole.data, "yes (pid 34)"));
    assert_null(strstr(whole.data, "readlink"));
    json_decref(last);
}

static void test_line(void **state)
{
    put_log(20, "error", "of long ago");
    put_log(98, "info", "step 7");
    put_failure(99.9, 10, 4, 1);
    put_exception(99.5, 20, "ValueError", "bad");
    put_process(99.8, 20, "wor\nker", 1 << 8);
    PUT("{s:s, s:f, s:b, s:i, s:i}", "type", "end", "t", 100.0, "started", 1, "exit_code", 1, "signal", 0);
    json_t *last = last_of(TWO);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    last_text(&text, last, true, NULL);
    assert_string_equal(text.data,
                        "  reason     an exception of Python that nothing caught, at steer.py:12: ValueError: bad\n"
                        "  last          -2.00 s  log       stderr:7 info: step 7\n"
                        "                -0.50 s  python    20 /home/u/steer.py:12 in step: ValueError: bad\n"
                        "                                     step at steer.py:12\n"
                        "                -0.20 s  process   wor ker (pid 20) ended with exit status 1\n"
                        "                -0.10 s  script    10 /home/u/job.sh:4 failed with 1: make all\n");
    json_decref(last);
}

/* For whom ranks had waited when they were ended: the last event, unless a record of the stall has it. */
static void test_waited(void **state)
{
    static const char waited[] = "rank 1 computed for 14 s while 2 ranks waited for it";
    const struct job_end end = {.model = &model, .exit_code = 1, .seconds = 100, .waited = waited};
    for (int stalled = 0; stalled < 2; stalled++) {
        if (stalled)
            PUT("{s:s, s:f, s:f, s:i, s:s}", "type", "stall", "t", 50.0, "seconds", 60.0, "ranks", 2, "why",
                "they wait");
        json_t *last = last_json(&end);
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        last_text(&text, last, true, NULL);
        assert_int_equal(text.data && strstr(text.data, waited), !stalled);
        json_decref(last);
    }
}

#define ENDED "  reason     a.out (pid 10) ended with exit status 1\n"

/* An exit status alone needs no more than the line that says it. */
static void test_quiet(void **state)
{
    put_disk(99, 100000, 5000);
    PUT("{s:s, s:f, s:b, s:i, s:i}", "type", "end", "t", 100.0, "started", 1, "exit_code", 1, "signal", 0);
    json_t *last = last_of(ONE);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    last_text(&text, last, false, NULL);
    assert_string_equal(text.data, ENDED "             nothing that was recorded says why\n");
    buf_clear(&text);
    last_text(&text, last, true, NULL);
    assert_null(strstr(text.data, "the command ended")); /* the head of the report says it */
    assert_non_null(strstr(text.data, "  node  "));
    json_decref(last);
}

static void expect_said(const char *expected)
{
    json_t *last = last_of(TWO);
    char *said = json_dumps(json_object_get(last, "said_last"), JSON_COMPACT);
    assert_string_equal(said, expected);
    free(said);
    json_decref(last);
}

static void put_last(const char *first, const char *second)
{
    PUT("{s:s, s:f, s:s, s:[s, s]}", "type", "log_last", "t", 100.0, "file", "stderr", "lines", first, second);
}

static void expect_text(const char *chain, const char *text)
{
    json_t *last = last_of(chain);
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    last_text(&out, last, false, NULL);
    assert_string_equal(out.data ? out.data : "", text);
    json_decref(last);
}

/* Where nothing says why, it says how the command ended, what it said last, and what would have said why. */
static void test_unknown(void **state)
{
    static const char python[] = "[{\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"exit_code\": 1}]";
#define PYTHON "  reason     python3 (pid 10) ended with exit status 1\n"
    expect_text(ONE, ENDED "             nothing that was recorded says why\n");
    expect_text(python, PYTHON "             nothing that was recorded says why; scry run --script calls records "
                               "exceptions of Python, also those that are caught\n");
    PUT("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.0, "file", "stderr", "state", "unwatched");
    expect_text(ONE, ENDED "             what it wrote to standard output and standard error was not read, because "
                           "they are not files: run it with scry run --tee, or with >out.txt 2>err.txt\n");
    PUT("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.0, "file", "stdout", "state", "watched");
    expect_text(ONE,
                ENDED "             what it wrote to standard error was not read, because it is not a file: run it "
                      "with scry run --tee, or with 2>err.txt\n");
    expect_text(python, PYTHON
                "             what it wrote to standard error was not read, because it is not a file: run it with "
                "scry run --tee, or with 2>err.txt, or with scry run --script calls, which "
                "records exceptions of Python\n");
    put_last("worker", "bash");
    expect_text(ONE, "  reason     a.out (pid 10) ended with exit status 1; it said last: worker / bash\n");
    put_last("step 7 of 9", "step 8 of 9");
    expect_text(ONE, "  reason     a.out (pid 10) ended with exit status 1; it said last: step 8 of 9\n"
                     "  said last  step 7 of 9\n             step 8 of 9\n");
    PUT("{s:s, s:f, s:s, s:f, s:[s, s]}", "type", "log_last", "t", 100.0, "file", "stdout", "quiet_seconds", 40.0,
        "lines", "mesh is empty", "*****");
    expect_text(ONE,
                "  reason     a.out (pid 10) ended with exit status 1; it said last, 40 s before it ended: mesh is "
                "empty\n  said last  mesh is empty\n             *****\n");
}

/* Of a script whose shell failed by itself, as set -e does at a builtin: how to know where, also where something was said. */
static void test_unknown_script(void **state)
{
#define OF_SHELL(argv) \
    "[{\"pid\": 10, \"name\": \"job.sh\", \"argv\": [" argv "], \"end_seconds\": 100, \"exit_code\": 1}]"
#define MORE "scry run --script calls records which command of a script fails"
#define OF_JOB "  reason     job.sh (pid 10) ended with exit status 1"
#define NONE "\n             nothing that was recorded says why"
    static const char bash[] = OF_SHELL("\"/bin/bash\", \"-e\", \"./job.sh\"");
    expect_text(bash, OF_JOB NONE "; " MORE "\n");
    expect_text(OF_SHELL("\"sh\", \"job.sh\""), OF_JOB NONE "; " MORE ", if bash executes it\n");
    expect_text(OF_SHELL("\"bash\", \"-ec\", \"exit 1\""), OF_JOB NONE "\n");
    expect_text(OF_SHELL("\"make\", \"all\""), OF_JOB NONE "\n");
    PUT("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.0, "file", "stderr", "state", "unwatched");
    PUT("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.0, "file", "stdout", "state", "watched");
    expect_text(bash,
                OF_JOB "\n             what it wrote to standard error was not read, because it is not a file: run "
                       "it with scry run --tee, or with 2>err.txt; " MORE "\n");
    put_last("failed in step 7", "bye");
    expect_text(bash, OF_JOB "; it said last: failed in step 7 / bye\n             " MORE "\n");
    PUT("{s:s, s:f, s:i, s:s, s:i, s:s}", "type", "script_line", "t", 40.0, "pid", 10, "file", "job.sh", "line", 3,
        "how", "inside");
    json_t *last = last_of(bash);
    assert_true(json_is_null(json_object_get(last, "unknown")));
    json_decref(last);
}

/* An error that was handled does not hide what was said last; the reason is not said twice. */
static void test_said_last(void **state)
{
    expect_said("[]");
    put_last("worker", "bash");
    expect_said("[\"worker\",\"bash\"]");
    put_matched(60, "exception", "error", "ValueError: no cache, which is handled");
    put_last("step 99", "giving up: the mesh has no cells");
    expect_said("[\"step 99\",\"giving up: the mesh has no cells\"]");
    put_matched(99.5, "error", "error", "[rank 2] Error in mesh(): it has no cells");
    expect_said("[\"step 99\",\"giving up: the mesh has no cells\"]");
    put_last("Error in mesh(): it has no cells", "99");
    expect_said("[]");
    put_exception(99.6, 20, "ValueError", "no such grid");
    expect_said("[\"Error in mesh(): it has no cells\",\"99\"]");
    put_last("  File \"steer.py\", line 12, in step", "ValueError: no such grid");
    expect_said("[]");
}

/* What matters less goes where there is no room: there are many lines of logs, one of them an error. */
static void test_room(void **state)
{
    put_log(99, "error", "the \033[1mcause");
    for (int i = 0; i < 500; i++)
        put_log(99.1 + i * 0.001, i % 2 ? "warning" : "info", "step");
    json_t *last = last_of(ONE);
    assert_int_equal(json_array_size(json_object_get(last, "events")), 200);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    last_text(&text, last, false, NULL);
    size_t lines = 0;
    for (const char *at = text.data; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 1 + 6);
    assert_string_equal(strtok(text.data, "\n"), "  reason     probably what stderr says: the \\x1b[1mcause");
    assert_null(strstr(text.data, "info"));
    json_decref(last);
}

/* What the reason says is told once: its line of a log, its command, its process; of long before the end it says when that was. */
static void test_once(void **state)
{
    put_failure(99.9, 10, 4, 1);
    put_log(99.5, "error", "make all");
    put_log(80, "error", "make all");
    json_t *last = last_of(TWO);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    last_text(&text, last, true, NULL);
    assert_string_equal(text.data,
                        "  reason     the command at job.sh:4, which failed with 1: make all, which said: make all\n"
                        "  last         -20.00 s  log       stderr:7 error: make all\n");
    json_decref(last);
    put_log(99.6, "warning", "gzip: x.gz: not there");
    put_log(99.7, "warning", "tar: unexpected end");
    put_log(99.8, "warning", "gzip: x.gz: not there, at main.c:7");
    put_last("gzip: x.gz: not there", "99");
    last = last_of(TWO);
    buf_clear(&text);
    last_text(&text, last, false, NULL);
    assert_non_null(strstr(text.data, "  said last  gzip: x.gz: not there\n             99\n"));
    assert_null(strstr(text.data, "warning: gzip: x.gz: not there\n"));
    assert_non_null(strstr(text.data, "warning: gzip: x.gz: not there, at main.c:7\n"));
    assert_non_null(strstr(text.data, "stderr:7 warning: tar: unexpected end\n"));
    json_decref(last);
}

/* All sections of records that are nonsense, and none of a job without any. */
static void test_sections(void **state)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    scripts_text(&text, &model.layers);
    logs_text(&text, &model.layers, false);
    health_text(&text, &model.layers, true);
    assert_int_equal(text.len, 0);
    for (enum record_type type = 0; type < RECORD_TYPES; type++) {
        const char *name = record_kinds[type].type;
        PUT("{s:s, s:f}", "type", name, "t", 99.0);
        PUT("{s:s, s:s, s:i, s:[i, s, [], {}, n], s:[{}], s:[{}]}", "type", name, "t", "x", "pid", -5, "threads", 1,
            "x", "lines", "functions");
        PUT("{s:s, s:f, s:[{s:[{}]}], s:[{}]}", "type", name, "t", 99.0, "threads", "frames", "frames");
    }
    json_decref(last_of(TWO));
    scripts_text(&text, &model.layers);
    logs_text(&text, &model.layers, false);
    health_text(&text, &model.layers, true);
    json_t *json = json_object();
    fields_add(json, scripts_fields, &model.layers, NULL);
    fields_add(json, logs_fields, &model.layers, NULL);
    fields_add(json, health_fields, &model.layers, NULL);
    assert_non_null(json_object_get(json, "curves"));
    json_decref(json);
}

static void test_section_texts(void **state)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    PUT("{s:s, s:f, s:i, s:s, s:i, s:f, s:[{s:s, s:i, s:s, s:i, s:i, s:f}]}", "type", "script_end", "t", 1.0, "pid", 10,
        "file", "job.sh", "status", 1, "seconds", 2.0, "lines", "file", "job.sh", "line", 7, "command", "make", "count",
        2, "failed", 1, "seconds", 1.5);
    put_failure(50, 10, 3, 1);
    scripts_text(&text, &model.layers);
    assert_string_equal(text.data, "\n"
                                   "Scripts that ended                           count  failed        time\n"
                                   "  job.sh                                         1       1      2.00 s\n"
                                   "\n"
                                   "Lines of scripts             count  failed        time  command\n"
                                   "  job.sh:7                       2       1      1.50 s  make\n"
                                   "\n"
                                   "Commands of scripts that failed\n"
                                   "      50.00 s  10 /home/u/job.sh:3 failed with 1: make all\n");
    buf_clear(&text);
    put_log(60, "error", "bad");
    put_matched(61, "other", "warning", "so what");
    logs_text(&text, &model.layers, false);
    assert_string_equal(text.data, "\n"
                                   "Patterns of logs                level        lines     last at\n"
                                   "  some                          error            1      60.0 s\n"
                                   "  other                         warning          1      61.0 s\n"
                                   "\n"
                                   "Errors in logs\n"
                                   "      60.00 s  stderr:7 error: bad\n"
                                   "\n"
                                   "Other lines of logs\n"
                                   "      61.00 s  stderr:7 warning: so what\n");
    buf_clear(&text);
    put_disk(60, 100000, 5000);
    health_text(&text, &model.layers, true);
    assert_string_equal(text.data, "\n"
                                   "Health of the node\n"
                                   "\n"
                                   "File systems                         size  least free    at last\n"
                                   "  /work                             98 KB      4.9 KB     4.9 KB\n");
}

/* An abort says why on standard error. */
static void test_abort_unread(void **state)
{
    static const char chain[] = "[{\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"signal\": 6}]";
    static const char crash[] = "  reason     python3 crashed by SIGABRT\n",
                      hint[] = "             what it wrote to standard error was not read, "
                               "because it is not a file: run it with scry run --tee";
    for (int unread = 0; unread < 2; unread++) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        if (unread)
            PUT("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.1, "file", "stderr", "state", "unwatched");
        else
            PUT("{s:s, s:f, s:i, s:s, s:i}", "type", "crash", "t", 100.0, "pid", 10, "name", "python3", "signal", 6);
        json_t *last = last_of(chain);
        last_text(&text, last, false, NULL);
        assert_memory_equal(text.data, crash, sizeof crash - 1);
        assert_int_equal(strstr(text.data, hint) != NULL, unread);
        json_decref(last);
    }
}

/* That a program ended with a status does not say why: it did so where nobody read. */
static void test_end_unread(void **state)
{
    static const char script[] = "[{\"pid\": 11, \"name\": \"solver\", \"end_seconds\": 100, \"exit_code\": 3},"
                                 " {\"pid\": 10, \"name\": \"PARENT\", \"end_seconds\": 100, \"exit_code\": 3}]";
    for (int unread = 0; unread < 2; unread++)
        for (int launcher = 0; launcher < 2; launcher++) {
            char chain[sizeof script + 8], expected[400];
            const char *at = strstr(script, "PARENT");
            snprintf(chain, sizeof chain, "%.*s%s%s", (int)(at - script), script, launcher ? "mpirun" : "bash",
                     at + strlen("PARENT"));
            if (unread)
                PUT("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.1, "file", "stderr", "state", "unwatched");
            snprintf(expected, sizeof expected,
                     "  reason     probably solver (pid 11), which ended with exit status 3\n%s",
                     unread ? "             what it wrote to standard output and standard error was not read, because "
                              "they are not files: run it with scry run --tee, or with >out.txt 2>err.txt\n"
                            : "");
            expect_text(chain, expected);
        }
    put_last("no mesh", "bye"); /* it was read */
    expect_text(
        "[{\"pid\": 11, \"name\": \"solver\", \"end_seconds\": 100, \"exit_code\": 3},"
        " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 3}]",
        "  reason     probably solver (pid 11), which ended with exit status 3; the job said last: no mesh / bye\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(test_end_unread), ROW(test_abort_unread),   ROW(test_line),   ROW(test_said_last),
        ROW(test_unknown),    ROW(test_unknown_script), ROW(test_asides), ROW(test_once),
        ROW(test_room),       ROW(test_waited),         ROW(test_quiet),  ROW(test_words),
        ROW(test_sections),   ROW(test_section_texts),
    };
    return cmocka_run_group_tests_name("layers last", tests, NULL, NULL);
}
