/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions, built-in patterns, limits of records, progress: with a clock of the test's own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "job/logs/match.h"
#include "job/logs/patterns.h"

/* ---- --log ---- */

static void assert_rule(const char *text, const char *file, const char *expression, enum log_severity severity)
{
    struct log_rule rule;
    struct err err = {0};
    assert_int_equal(log_rule_parse(&rule, text, &err), 0);
    assert_string_equal(rule.file, file);
    if (expression)
        assert_string_equal(rule.expression, expression);
    else
        assert_null(rule.expression);
    assert_int_equal(rule.severity, severity);
    log_rule_done(&rule);
}

static void test_rules(void **state)
{
    assert_rule("out.log=a=b:c", "out.log", "a=b:c", LOG_SEVERITY_INFO);
    assert_rule("C:x.log=fail:error", "C:x.log", "fail", LOG_SEVERITY_ERROR);
    assert_rule("n\\=3/*.log=x:debugs", "n\\=3/*.log", "x:debugs", LOG_SEVERITY_INFO);
    assert_rule("f=x:info:info", "f", "x:info", LOG_SEVERITY_INFO);
    assert_rule("stdout", "stdout", NULL, LOG_SEVERITY_INFO);
    assert_rule("f=ERROR", "f", "ERROR", LOG_SEVERITY_ERROR);
    assert_rule("f=Warning", "f", "Warning", LOG_SEVERITY_WARNING);
    assert_rule("f=ERROR:debug", "f", "ERROR", LOG_SEVERITY_DEBUG);
    assert_rule("f=ERRORS", "f", "ERRORS", LOG_SEVERITY_INFO);
    static const char *const wrong[] = {"", "=x", "f=", "f=:error"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct log_rule rule;
        struct err err = {0};
        assert_int_equal(log_rule_parse(&rule, wrong[i], &err), -EINVAL);
        assert_string_not_equal(err.text, "");
    }
}

/* ---- expressions ---- */

static enum log_match match(const char *expression, const char *line, size_t len)
{
    struct log_regex *regex;
    struct err err = {0};
    if (log_regex_new(&regex, expression, &err) < 0)
        fail_msg("%s: %s", expression, err.text);
    enum log_match found = log_regex_match(regex, line, len);
    log_regex_free(regex);
    return found;
}

static void test_expressions_match_bytes(void **state)
{
    assert_int_equal(match("b.d", "a\0b\0d", 5), LOG_MATCH_YES);
    assert_int_equal(match("^x$", "x\xff", 2), LOG_MATCH_NO);
    assert_int_equal(match("^.$", "\xc3\xa4", 2), LOG_MATCH_NO);        /* two bytes, */
    assert_int_equal(match("(*UTF)^.$", "\xc3\xa4", 2), LOG_MATCH_YES); /* one character */
    assert_int_equal(match("(*UTF)x", "\xff\xfex", 3), LOG_MATCH_YES);
    assert_int_equal(match("", "", 0), LOG_MATCH_YES);
    struct log_regex *regex;
    struct err err = {0};
    assert_int_equal(log_regex_new(&regex, "a(b", &err), -EINVAL);
    assert_non_null(strstr(err.text, "character 4"));
}

/* A line is tried in parts: matches across them, and at each part's edges, are found. */
static void test_long_lines(void **state)
{
    char *line = malloc(LINE_MOST);
    memset(line, 'a', LINE_MOST);
    assert_int_equal(match("b", line, LINE_MOST), LOG_MATCH_NO);
    assert_int_equal(match("^a+$", line, LINE_MOST), LOG_MATCH_YES);
    for (size_t at = 1022; at < 1027; at++) {
        line[at] = 'b';
        assert_int_equal(match("(?<=a)bab", line, LINE_MOST), LOG_MATCH_NO);
        assert_int_equal(match("(?<=a)ba", line, LINE_MOST), LOG_MATCH_YES);
        line[at] = 'a';
    }
    line[LINE_MOST - 1] = 'b';
    assert_int_equal(match("b$", line, LINE_MOST), LOG_MATCH_YES);
    for (size_t i = 0; i + 3 < LINE_MOST; i += 3) /* characters of three bytes: the parts begin inside of some */
        memcpy(line + i, "\xe2\x82\xac", 3);
    for (size_t at = 0; at < 3000; at += 300)
        assert_int_equal(match("(*UTF)\xe2\x82\xac"
                               "b$",
                               line + at, LINE_MOST - at),
                         LOG_MATCH_YES);
    free(line);
}

static void test_expressions_that_explode(void **state)
{
    enum { MOST_NS = NS_PER_SECOND };
    char *line = malloc(LINE_MOST);
    memset(line, 'a', LINE_MOST);
    memcpy(line + LINE_MOST - 8, "!z!y!x!b", 8);
    static const char *const slow[] = {"(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(?=(a+))a*b\\1"};
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        uint64_t start_ns = clock_now_ns();
        assert_int_equal(match(slow[i], line, LINE_MOST), LOG_MATCH_TOO_LONG);
        assert_true(clock_now_ns() - start_ns < MOST_NS);
    }
    free(line);
}

/* ---- built-in patterns ---- */

static const struct example {
    const char *name, *line, *other;
} examples[] = {
    {"oom_kill", "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0", "the oom score is 3"},
    {"batch_limit", "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024 DUE TO TIME LIMIT ***", "time limit: 3600"},
    {"out_of_memory", "fork: Cannot allocate memory", "outofmemory=no"},
    {"out_of_memory", "libc++abi: terminating due to uncaught exception of type std::bad_alloc: std::bad_alloc",
     "bad_alloc is caught"},
    {"out_of_memory", "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space", "heap space: 3 GB"},
    {"out_of_memory", "forrtl: severe (41): insufficient virtual memory", "virtual memory: 3 GB"},
    {"no_space", "write: No space left on device", "space left: 3 GB"},
    {"disk_quota", "cp: Disk quota exceeded", "quota: 3 GB"},
    {"read_only", "touch: Read-only file system", "the file is read-only"},
    {"io_error", "cat: x: Input/output error", "input/output errors: 0"},
    {"too_many_files", "open: Too many open files", "many open files"},
    {"shared_object", "./a.out: error while loading shared libraries: libx.so.1: cannot open shared object file",
     "loading shared libraries: done"},
    {"command_not_found", "run.sh: 3: foo: not found", "key: not found in the table"},
    {"command_not_found", "mpirun was unable to launch the specified application as it could not access",
     "launched the specified application"},
    {"command_not_found", "mpirun was unable to find the specified executable file, and therefore",
     "found the specified executable"},
    {"command_not_found",
     "[proxy:0:2@n3] HYDU_create_process (utils/launch/launch.c:73): execvp error on file ./x (No such file or "
     "directory)",
     "execvp error on file ./x"},
    {"command_not_found", "slurmstepd: error: execve(): x: No such file or directory", "execve(): 3 calls"},
    {"gpu_error", "CUDA error: an illegal memory access was encountered", "cudaError_t is a type"},
    {"mpi_error", "Fatal error in PMPI_Recv: Message truncated", "MPI_ERRORS_ARE_FATAL is set"},
    {"mpi_abort", "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD", "calls of MPI_Abort: 0"},
    {"fortran_backtrace", "Backtrace for this error:", "the backtrace is off"},
    {"gave_up", "Execution halted", "exited with exit code 0"},
    {"stack_smashing", "*** stack smashing detected ***: terminated", "built with stack smashing protection"},
    {"heap_corruption", "malloc(): invalid size (unsorted)", "uses malloc() and free()"},
    {"sanitizer", "==12==ERROR: AddressSanitizer: heap-use-after-free", "AddressSanitizer is on"},
    {"segfault", "./run.sh: line 3: 123 Segmentation fault      (core dumped) ./a.out", "segmentation of images"},
    {"bus_error", "Bus error (core dumped)", "bus errors: 0"},
    {"illegal_instruction", "Illegal instruction", "illegal instructions: 0"},
    {"floating_point_exception", "Floating point exception", "the following floating-point exceptions are signalling"},
    {"cxx_exception", "terminate called after throwing an instance of 'std::runtime_error'", "to terminate call us"},
    {"assertion", "a.out: a.c:3: main: Assertion `x > 0' failed.", "assertions are on"},
    {"abort", "./run.sh: line 1: 12 Aborted                 ./a.out", "transactions aborted: 0"},
    {"traceback", "Traceback (most recent call last):", "traceback is on"},
    {"java_exception", "Exception in thread \"main\" java.lang.NullPointerException", "no exception in threads"},
    {"notebook", "CellExecutionError: An error occurred while executing the following cell:", "CellExecutionErrors: 0"},
    {"python_unraised", "Exception in thread reader:", "Exception in threads: none"},
    {"python_unraised", "Task exception was never retrieved", "the mail was never retrieved"},
    {"python_chained", "During handling of the above exception, another exception occurred:",
     "the direct cause of the following exception: none"},
    {"python_place", "  File \"run.py\", line 3", "  File \"run.py\", line 3, in solve"},
    {"fault_place", "Current thread 0x00007fcd17db59c0 (most recent call first):", "the most recent call first"},
    {"command_said", "Command error:", "Command error: none"},
    {"made_anyway", "make[1]: [Makefile:3: lint] Error 1 (ignored)", "make: [lint] (ignored)"},
    {"recovered", "INFO: reconnected to db1", "waits until it is reconnected"},
    {"recovered", "the upload succeeded after 2 attempts", "the upload succeeded"},
    {"tests", "==== 3 passed in 0.12s ====", "3 passed, 1 failed in 0.12s"},
    {"tests", "Ran 2 tests in 0.001s", "Ran 2 tests in all"},
    {"panic", "thread 'main' panicked at src/main.rs:2:5:", "do not panic: all is well"},
    {"fortran_error", "forrtl: severe (64): input conversion error", "forrtl: info (1)"},
    {"fortran_place", "At line 3 of file a.f90", "look at line 3 of file a.f90"},
    {"library_error", "NetCDF: Variable not found", "NetCDF: yes"},
    {"petsc_error", "[0]PETSC ERROR: Argument out of range", "PETSC ERRORS: 0"},
    {"link_error", "a.c:(.text+0x9): undefined reference to `solve'", "no undefined reference to it"},
    {"shell_error", "job.sh: line 3: MESH: unbound variable", "the unbound variable is x"},
    {"shell_error", "bash: ./x: Permission denied", "job.sh: line 3: x is allowed"},
    {"shell_error", "job.sh: line 3: ./solver: No such file or directory", "job.sh: line 3: solver"},
    {"perl_die", "no mesh at ./prepare.pl line 7.", "read 3 values from line 7."},
    {"killed", "./run.sh: line 3: 123 Killed                  ./a.out", "killed 3 monsters"},
    {"scheduler_error", "srun: error: Unable to create step", "srun: job 3 queued"},
    {"validation", "1 validation error for Config", "no validation errors"},
    {"exception", "numpy.linalg.LinAlgError: Singular matrix", "LinAlgErrors: none"},
    {"error", "steer.py: error: no such grid", "errors: 0, error: tolerance 3"},
    {"not_converged", "scf: failed to converge", "converged in 3 steps"},
    {"tests_failed", "The following tests FAILED:", "which tests failed is in tests.log"},
    {"test_failed", "FAIL: test_heat", "XFAIL: test_known"},
    {"test_failed", "not ok 2 - heat is conserved", "not ok 2 - heat is conserved # TODO"},
    {"failure", "wget: unable to resolve host", "could not find it, using another one"},
    {"permission_denied", "cp: x: Permission denied", "permissions: all"},
    {"connection_refused", "curl: (7) Connection refused", "refused connections: 0"},
    {"connection_timeout", "ssh: connect to host x port 22: Connection timed out", "connection timeouts: 0"},
    {"connection_lost", "read: Connection reset by peer", "reset by peers"},
    {"host_not_found", "ping: x: Temporary failure in name resolution", "name resolution took 3 ms"},
    {"no_file", "cat: x: No such file or directory", "no such files"},
    {"nan", "residual = NaN", "[INFO] nano info banana infinite"},
};

/* What a test has seen. */
static struct seen {
    unsigned records, folded_records, progress, notes;
    char pattern[64], text[64], place[64], above[64]; /* of the last */
    int64_t line;
    uint64_t folded, lines_folded;
    bool cut;
    double left_seconds;
    unsigned metrics;
    double value, least, most;
    uint64_t values;
    json_t *fields;
    size_t len;
} seen;

static void see(void *ctx, enum record_type type, const void *row)
{
    if (type == RECORD_log) {
        const struct log_record *record = row;
        seen.records++;
        seen.line = record->line;
        seen.folded += record->folded;
        seen.cut = record->text_cut;
        snprintf(seen.pattern, sizeof seen.pattern, "%s", record->pattern);
        snprintf(seen.text, sizeof seen.text, "%s", record->text);
        snprintf(seen.place, sizeof seen.place, "%s", record->place ? record->place : "");
        snprintf(seen.above, sizeof seen.above, "%s", record->above ? record->above : "");
        seen.len = strlen(record->text);
        json_decref(seen.fields);
        seen.fields = json_incref(record->fields);
    } else if (type == RECORD_log_folded) {
        seen.folded_records++;
        seen.lines_folded += ((const struct log_folded_record *)row)->lines;
    } else if (type == RECORD_metric) {
        const struct metric_record *metric = row;
        seen.metrics++;
        seen.value = metric->value;
        seen.least = metric->least;
        seen.most = metric->most;
        seen.values = metric->values;
    } else if (type == RECORD_progress) {
        seen.progress++;
        seen.left_seconds = ((const struct progress_record *)row)->left_seconds;
    }
}

static void see_note(void *ctx, struct note note)
{
    seen.notes++;
}

static const struct log_sink sink = {NULL, see, see_note};
static struct log_expressions expressions;

static int forget(void **state)
{
    json_decref(seen.fields);
    log_expressions_done(&expressions);
    seen = (struct seen){0};
    expressions = (struct log_expressions){.sink = &sink};
    return 0;
}

static struct log_matcher matcher_of(const char *expression)
{
    struct log_matcher matcher = {.file = "f", .expressions = &expressions};
    if (expression) {
        expressions.given = calloc(1, sizeof *expressions.given);
        expressions.given_count = 1;
        expressions.given->name = expression;
        matcher.given = 1;
        assert_int_equal(log_regex_new(&expressions.given->regex, expression, NULL), 0);
    } else {
        matcher.rows = LOG_PATTERNS_ALL;
    }
    return matcher;
}

static void match_text(struct log_matcher *matcher, uint64_t now_ns, const char *text)
{
    log_match_lines(matcher, now_ns, text, strlen(text), false);
}

static void test_each_pattern(void **state)
{
    struct log_matcher matcher = matcher_of(NULL);
    size_t row = 0;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        seen.records = 0;
        row += i && strcmp(examples[i].name, examples[i - 1].name) != 0;
        assert_true(row < log_pattern_count);
        assert_string_equal(examples[i].name, log_patterns[row].name);
        match_text(&matcher, i * NS_PER_SECOND, examples[i].line);
        log_match_rest(&matcher, i * NS_PER_SECOND, true); /* some announce a message, which does not come */
        if (seen.records != 1)
            fail_msg("%u records of: %s", seen.records, examples[i].line);
        assert_string_equal(seen.pattern, examples[i].name);
        match_text(&matcher, i * NS_PER_SECOND, examples[i].other);
        if (seen.records != 1)
            fail_msg("%s is found in: %s", seen.pattern, examples[i].other);
    }
    assert_int_equal(row + 1, log_pattern_count);
    log_matcher_done(&matcher);
}

/* Lines are found where they stand in a block, whatever stands around them; of a line, one record. */
static void test_lines_of_a_block(void **state)
{
    struct log_matcher matcher = matcher_of(NULL);
    match_text(&matcher, 0, "a\nb\r\nsegfault: bus error\n\nSegm");
    assert_int_equal(seen.records, 1);
    assert_int_equal(seen.line, 3);
    assert_string_equal(seen.text, "segfault: bus error");
    match_text(&matcher, 0, "entation fault\nscry run: out of memory\nx\rNaN\r");
    assert_int_equal(seen.records, 2);
    assert_int_equal(seen.line, 7);
    assert_string_equal(seen.text, "NaN");
    log_match_lines(&matcher, 0, "a\0nan\0", 6, true);
    assert_int_equal(seen.records, 3);
    assert_true(seen.cut);
    assert_string_equal(seen.text, "a\\x00nan\\x00");
    log_match_lines(&matcher, 0, "\0\0nan", 5, false);
    assert_int_equal(seen.records, 4);
    assert_string_equal(seen.text, "nan");
    match_text(&matcher, 0, "\n[node7:09874] Failing at address: 0x18\nfailing at address: home\n");
    assert_int_equal(seen.records, 5);
    assert_string_equal(seen.pattern, "segfault");
    log_matcher_done(&matcher);
}

/* Data of which nothing is looked for yet, before anything else was read. */
static void test_nothing_to_look_for(void **state)
{
    struct log_expressions none = {.sink = expressions.sink};
    struct log_matcher matcher = {.file = "data", .expressions = &none};
    log_match_lines(&matcher, 0, "Bus error\n", 10, false);
    assert_int_equal(seen.records, 0);
    log_matcher_done(&matcher);
    log_expressions_done(&none);
}

/* A line that announces a message has that in its record; lines of other ranks stand between. Of the two, one record. */
static void test_messages(void **state)
{
    struct log_matcher matcher = matcher_of(NULL);
    match_text(&matcher, 0, "[3] Traceback (most recent call last):\n[3]   File \"x.py\", line 1\n[1] bus error\n");
    assert_int_equal(seen.records, 1); /* that of the other rank */
    match_text(&matcher, 0, "[3] ERROR: x\n");
    assert_int_equal(seen.records, 2);
    assert_string_equal(seen.text, "[3] ERROR: x");
    assert_int_equal(seen.line, 4);
    match_text(&matcher, 0, "[3] model.GridError: no cells\n");
    assert_int_equal(seen.records, 3);
    assert_string_equal(seen.text, "[3] model.GridError: no cells");
    match_text(&matcher, 0, "Fatal error:\n\n  no grid\nmore\n");
    assert_int_equal(seen.records, 4);
    assert_string_equal(seen.text, "Fatal error: no grid");
    assert_int_equal(seen.line, 6);
    match_text(&matcher, 0, "ERROR:\n");
    log_match_rest(&matcher, NS_PER_SECOND, false);
    assert_int_equal(seen.records, 4);
    log_match_rest(&matcher, 3 * (uint64_t)NS_PER_SECOND, false); /* it does not come */
    assert_int_equal(seen.records, 5);
    match_text(&matcher, 0, "\033[1;31mERROR\033[0m no grid\n");
    assert_int_equal(seen.records, 6);
    assert_string_equal(seen.text, "ERROR no grid");
    log_matcher_done(&matcher);
}

static void begin_traceback(struct log_matcher *matcher)
{
    seen.records = 0;
    match_text(matcher, 0, "Traceback (most recent call last):\n  File \"x.py\", line 1\n    raise MemoryError\n");
    assert_int_equal(seen.records, 0);
}

static void match_traceback(struct log_matcher *matcher, const char *text, const char *place)
{
    seen.records = 0;
    match_text(matcher, 0, text);
    assert_int_equal(seen.records, 1);
    assert_string_equal(seen.place, place);
}

/* The innermost line of the user's own code goes with the exception. */
static void test_places(void **state)
{
    struct log_matcher matcher = matcher_of(NULL);
    match_traceback(&matcher,
                    "Traceback (most recent call last):\n  File \"/home/u/a b.py\", line 9, in <module>\n    load()\n"
                    "  File \"/home/u/key.py\", line 3, in load\n    json.loads(x)\n"
                    "  File \"/usr/lib/python3.11/json/__init__.py\", line 346, in loads\n    return f(x)\n"
                    "           ^^^^\nKeyError: 'gamma'\n",
                    "/home/u/key.py:3");
    match_traceback(
        &matcher,
        "[2] Traceback (most recent call last):\n[2]   File \"/x.py\", line 4, in f\n[1]   File \"/y.py\", line 5, "
        "in g\n[2] KeyError: 1\n",
        "/x.py:4");
    match_traceback(
        &matcher,
        "Traceback (most recent call last):\n  File \"/usr/lib/python3.11/runpy.py\", line 1, in f\nKeyError: 1\n", "");
    match_traceback(
        &matcher,
        "Traceback (most recent call last):\n  File \"/home/u/a.py\", line 9, in <module>\n    solve(a, b)\n"
        "  File \"<__array_function__ internals>\", line 200, in solve\n"
        "  File \"/usr/lib/python3/dist-packages/numpy/linalg.py\", line 386, in solve\nLinAlgError: Singular\n",
        "/home/u/a.py:9");
    match_traceback(&matcher,
                    "Traceback (most recent call last):\n  File \"<stdin>\", line 2, in <module>\nKeyError: 1\n",
                    "<stdin>:2");
    match_traceback(&matcher, "Traceback (most recent call last):\n  File \"/x.py\", line\n  File \"/y\nKeyError: 1\n",
                    "");
    log_matcher_done(&matcher);
}

/* Of an exception that tells that a command failed, what stands above is probably what that said. */
static void test_above(void **state)
{
    static const char traceback[] = "Traceback (most recent call last):\n  File \"/w/x.py\", line 1\n";
    static const char told[] = "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 3.\n";
    static const struct {
        const char *before, *same, *message, *above;
    } rows[] = {
        {"x\n", "no such station\n", told, "no such station"},
        {"no such station\n", "", told, "no such station"},
        {"no such station\n", "\n", told, ""},
        {"x\nno such station\n", "", "ValueError: x\n", ""},
        {"", "", told, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400];
        struct log_matcher matcher = matcher_of(NULL);
        match_text(&matcher, 0, rows[i].before);
        snprintf(text, sizeof text, "%s%s", rows[i].same, traceback);
        match_text(&matcher, 0, text);
        match_text(&matcher, 0, rows[i].message);
        assert_string_equal(seen.place, "/w/x.py:1");
        assert_string_equal(seen.above, rows[i].above);
        log_matcher_done(&matcher);
    }
}

/* The name of an exception comes before what only stands there; errors of another kind are recorded meanwhile; the next
 * traceback ends the one before. */
static void test_tracebacks(void **state)
{
    struct log_matcher matcher = matcher_of(NULL);
    begin_traceback(&matcher);
    match_text(&matcher, 0, "all is well\nx: Permission denied\ncp: No space left on device\n");
    assert_int_equal(seen.records, 1);
    assert_string_equal(seen.pattern, "no_space");
    match_text(&matcher, 0, "model.grid.EmptyError: no cells\n");
    assert_int_equal(seen.records, 2);
    assert_string_equal(seen.text, "model.grid.EmptyError: no cells");
    begin_traceback(&matcher);
    match_text(&matcher, 0, "model.Diverged: step 3\n");
    assert_int_equal(seen.records, 0);
    match_text(&matcher, 0, "\nTraceback (most recent call last):\n");
    assert_int_equal(seen.records, 1);
    assert_string_equal(seen.text, "model.Diverged: step 3");
    match_text(&matcher, 0, "KeyboardInterrupt\n");
    assert_int_equal(seen.records, 2);
    assert_string_equal(seen.text, "KeyboardInterrupt");
    begin_traceback(&matcher);
    match_text(&matcher, 0, "model.Diverged: step 4\na\nb\nc\n");
    assert_int_equal(seen.records, 0);
    match_text(&matcher, 0, "d\n");
    assert_int_equal(seen.records, 1);
    assert_string_equal(seen.text, "model.Diverged: step 4");
    begin_traceback(&matcher);
    match_text(&matcher, 0, "MPI_ABORT was invoked on rank 1\n"); /* recorded once */
    assert_int_equal(seen.records, 1);
    log_match_rest(&matcher, 3 * (uint64_t)NS_PER_SECOND, true);
    assert_int_equal(seen.records, 2);
    assert_string_equal(seen.pattern, "traceback");
    log_matcher_done(&matcher);
}

static void test_excluded_message(void **state)
{
    struct log_matcher matcher = matcher_of(NULL);
    struct err err = {0};
    assert_int_equal(log_patterns_select("!exception", &matcher.rows, &err), 0);
    begin_traceback(&matcher);
    match_text(&matcher, 0, "ValueError: no cells\n");
    assert_int_equal(seen.records, 1);
    assert_string_equal(seen.pattern, "traceback");
    assert_string_equal(seen.text, "ValueError: no cells");
    begin_traceback(&matcher);
    matcher.rows = 0; /* scry set, meanwhile */
    log_match_rest(&matcher, 3 * (uint64_t)NS_PER_SECOND, true);
    assert_int_equal(seen.records, 0);
    log_matcher_done(&matcher);
}

/* What stands far behind the beginning of a line is data; all of the line is in the record. */
static void test_long_line(void **state)
{
    enum { LINE = 10000, NEAR = 4000, FAR = 4200 };
    static const char text[] = " ERROR: no grid";
    struct log_matcher matcher = matcher_of(NULL);
    char *line = malloc(LINE);
    memset(line, 'a', LINE);
    memcpy(line + FAR, text, sizeof text - 1);
    log_match_lines(&matcher, 0, line, LINE, false);
    assert_int_equal(seen.records, 0);
    memcpy(line + NEAR, text, sizeof text - 1);
    log_match_lines(&matcher, 0, line, LINE, false);
    assert_int_equal(seen.records, 1);
    assert_false(seen.cut);
    assert_int_equal(seen.len, LINE);
    free(line);
    log_matcher_done(&matcher);
}

static void test_harmless_stays(void **state)
{
    struct log_matcher matcher = matcher_of(NULL);
    expressions.harmless.too_long = 2 * TOO_LONG_MOST;
    match_text(&matcher, 0, "ERROR: 0\nerror count: 0\n");
    assert_int_equal(seen.records, 0);
    match_text(&matcher, 0, "ERROR: no grid\n");
    assert_int_equal(seen.records, 1);
    log_matcher_done(&matcher);
}

/* The most severe pattern is what a line is about. */
static void test_severity(void **state)
{
    struct log_matcher matcher = matcher_of(NULL);
    match_text(&matcher, 0, "ERROR: cannot open in.dat: No such file or directory\n");
    assert_string_equal(seen.pattern, "error");
    match_text(&matcher, 0, "cat: in.dat: No such file or directory\n");
    assert_string_equal(seen.pattern, "no_file");
    log_matcher_done(&matcher);
}

static void test_words(void **state)
{
    static const char *const rows[] = {"he|hers", "she", "<his>", "xx"};
    struct words *words = words_new(rows, 4);
    assert_int_equal(words_find(words, "usHErs", 6, 0), 3);
    assert_int_equal(words_rows(words, "usHErs", 6), 3);
    assert_int_equal(words_rows(words, "this his_ 3his", 14), 0);
    assert_int_equal(words_rows(words, "his", 3), 4);
    assert_int_equal(words_find(words, "x x", 3, 0), 3);
    assert_int_equal(words_find(words, "xxx", 3, 1), 2);
    words_free(words);
}

static void test_selections(void **state)
{
    uint64_t rows, all = LOG_PATTERNS_ALL;
    struct err err = {0};
    assert_int_equal(log_patterns_select("all", &rows, &err), 0);
    assert_true(rows == all);
    assert_int_equal(log_patterns_select("off", &rows, &err), 0);
    assert_true(rows == 0);
    assert_int_equal(log_patterns_select("!oom_kill", &rows, &err), 0);
    assert_true(rows == (all & ~UINT64_C(1)));
    assert_int_equal(log_patterns_select("oom_kill, out_of_memory", &rows, &err), 0);
    assert_true(rows == 5);
    assert_int_equal(log_patterns_select("segfualt", &rows, &err), -EINVAL);
    assert_non_null(strstr(err.text, "did you mean segfault?"));
}

/* ---- limits ---- */

static void test_folding(void **state)
{
    struct log_matcher matcher = matcher_of("x");
    for (unsigned i = 0; i < 1000; i++)
        match_text(&matcher, 0, "x\n");
    assert_int_equal(seen.records, FOLD_SECOND_MOST);
    match_text(&matcher, NS_PER_SECOND, "x\n");
    assert_int_equal(seen.folded, 1000 - FOLD_SECOND_MOST);
    for (uint64_t i = 0; i < 59 * 20; i++) /* 20 a second for the rest of a minute */
        match_text(&matcher, NS_PER_SECOND + i * NS_PER_SECOND / 20, "x\n");
    assert_in_range(seen.records, FOLD_MINUTE_MOST, 2 * FOLD_MINUTE_MOST);
    log_match_rest(&matcher, 61 * (uint64_t)NS_PER_SECOND, false);
    assert_int_equal(seen.folded_records, 0);
    log_match_rest(&matcher, 121 * (uint64_t)NS_PER_SECOND, false);
    assert_int_equal(seen.records + seen.folded + seen.lines_folded, 1001 + 59 * 20);
    log_match_rest(&matcher, 200 * (uint64_t)NS_PER_SECOND, true);
    assert_int_equal(seen.folded_records, 1);
    log_matcher_done(&matcher);
}

static void test_progress(void **state)
{
    struct log_matcher matcher = matcher_of("step (?<n>\\d+) of (?<total>\\d+)(?<rest>.*)");
    match_text(&matcher, 0, "step 10 of 100\n");
    assert_int_equal(seen.progress, 1);
    assert_true(seen.left_seconds < 0); /* unknown */
    assert_string_equal(json_string_value(json_object_get(seen.fields, "n")), "10");
    assert_null(json_object_get(seen.fields, "rest"));
    for (uint64_t n = 11; n <= 20; n++) /* one in two seconds */
        match_text(&matcher, (n - 10) * 2 * NS_PER_SECOND, n == 20 ? "step 20 of 100\n" : "step 11 of 100\n");
    assert_in_range((unsigned)seen.left_seconds, 159, 160);
    unsigned before = seen.progress;
    match_text(&matcher, 20 * (uint64_t)NS_PER_SECOND + 1, "step 21 of 100\nstep 22 of 100\n");
    assert_int_equal(seen.progress, before); /* within a second */
    log_match_rest(&matcher, 21 * (uint64_t)NS_PER_SECOND, false);
    assert_int_equal(seen.progress, before + 1);
    match_text(&matcher, 30 * (uint64_t)NS_PER_SECOND, "step 1 of 50\n"); /* another part of the job */
    assert_true(seen.left_seconds < 0);
    log_matcher_done(&matcher);
}

/* The forms in which programs say how far they are, and what only looks like them. */
static void test_progress_forms(void **state)
{
    static const struct {
        const char *text;
        enum log_progress_form form;
        double done, total;
    } rows[] = {{"step 3/100", LOG_PROGRESS_STEPS, 3, 100},
                {"  Step: 3 of 100, residual 1e-3", LOG_PROGRESS_STEPS, 3, 100},
                {"Iteration #12 (of 500)", LOG_PROGRESS_STEPS, 12, 500},
                {"timestep 7 / 20", LOG_PROGRESS_STEPS, 7, 20},
                {"frames 7/20", LOG_PROGRESS_STEPS, 7, 20},
                {"Epoch 3/10 - batch 20/100: loss 0.5", LOG_PROGRESS_EPOCHS, 3, 10},
                {"Epoch [3/10], Step [20/100]", LOG_PROGRESS_EPOCHS, 3, 10},
                {"epoch 3: step 20/100", LOG_PROGRESS_STEPS, 20, 100},
                {" 34%|###4      | 34/100 [00:03<00:06, 10.1it/s]", LOG_PROGRESS_BAR, 34, 100},
                {"train:  34%|###4      | 340/1000 [00:03<00:06, 10.1it/s, loss=3]", LOG_PROGRESS_BAR, 340, 1000},
                {"[ 45%] Building C object a.o", LOG_PROGRESS_BRACKETS, 45, 100},
                {"[12/345] Compiling C object a.o", LOG_PROGRESS_BRACKETS, 12, 345},
                {"progress: 45.5 %", LOG_PROGRESS_PERCENT, 45.5, 100},
                {"... 45% done", LOG_PROGRESS_PERCENT, 45, 100},
                {"completed 100%", LOG_PROGRESS_PERCENT, 100, 100},
                /* of a time */
                {"step 7: t = 0.350 / 2.000, dt = 5.0e-02", LOG_PROGRESS_STEPS, 0.35, 2},
                {" t=0.35/1.0", LOG_PROGRESS_STEPS, 0.35, 1},
                {"simulated time: 12.5 of 20 ns", LOG_PROGRESS_STEPS, 12.5, 20},
                {"day 3 of 365", LOG_PROGRESS_STEPS, 3, 365},
                /* of things */
                {"12:01:02 Processing file 7 of 30: x.nc", LOG_PROGRESS_ITEMS, 7, 30},
                {"INFO  Completed 120 of 400 samples (30.0 %)", LOG_PROGRESS_ITEMS, 120, 400},
                {"Processing sample 7/20", LOG_PROGRESS_ITEMS, 7, 20},
                {"2024-03-01 12:00:00,123 INFO app: processed 12/30", LOG_PROGRESS_ITEMS, 12, 30},
                {"image 3/100", LOG_PROGRESS_ITEMS, 3, 100},
                {"3 of 12 steps (25%) done", LOG_PROGRESS_ITEMS, 3, 12}, /* Snakemake */
                {"12/30 files processed", LOG_PROGRESS_ITEMS, 12, 30},
                {"Downloading era5.grib (3/12)", LOG_PROGRESS_ITEMS, 3, 12},
                {"Converting x.nc [3/12]", LOG_PROGRESS_ITEMS, 3, 12},
                {"Epoch 3/10, sample 200/1000", LOG_PROGRESS_EPOCHS, 3, 10},
                /* bars, and what stands beside a rate */
                {"data.tar.gz  60%[============        ]  72.0M  12.0MB/s  eta 8s", LOG_PROGRESS_BAR, 60, 100},
                {"[=====>              ]  25%", LOG_PROGRESS_BAR, 25, 100},
                {"  |=====               |  45%", LOG_PROGRESS_BAR, 45, 100},
                {"######################                  55.3%", LOG_PROGRESS_BAR, 55.3, 100}, /* curl -# */
                {"Rendering: 45%|####      |", LOG_PROGRESS_BAR, 45, 100},
                {"x.tar    45%  123MB  12.3MB/s   00:12 ETA", LOG_PROGRESS_PERCENT, 45, 100},   /* scp */
                {"      1,234,567  45%   12.30MB/s    0:00:12", LOG_PROGRESS_PERCENT, 45, 100}, /* rsync */
                {"12.5%, 3 min remaining", LOG_PROGRESS_PERCENT, 12.5, 100},
                {"Receiving objects:  45% (450/1000), 3.20 MiB", LOG_PROGRESS_ITEMS, 450, 1000},      /* git */
                {"tests/test_flux.py::test_a PASSED         [ 34%]", LOG_PROGRESS_BRACKETS, 34, 100}, /* pytest */
                {"12:01:02 INFO [3/40] solving", LOG_PROGRESS_BRACKETS, 3, 40},
                {"(3/10) installing zlib", LOG_PROGRESS_BRACKETS, 3, 10},
                {" nstep =    47 / 120   max u = 1.770", LOG_PROGRESS_STEPS, 47, 120},
                {"it = 30/100", LOG_PROGRESS_STEPS, 30, 100},
                {"Iter   34 of max 60  cost 0.798", LOG_PROGRESS_STEPS, 34, 60},
                {"iteration 3 of at most 200", LOG_PROGRESS_STEPS, 3, 200},
                {"Timestep 33  t = 1.650 s (end: 3.0 s)  CFL 0.4", LOG_PROGRESS_STEPS, 1.65, 3},
                {"time = 12 ps of 20 ps", LOG_PROGRESS_STEPS, 12, 20},
                {"t = 1.5s / 3.0s", LOG_PROGRESS_STEPS, 1.5, 3},
                {"Training \u2501\u2501\u2578\u2501\u2501  34% 0:00:06", LOG_PROGRESS_BAR, 34, 100}, /* rich */
                {"Training \u2501\u2501\u2501\u2501\u2501   0% -:--:--", LOG_PROGRESS_BAR, 0, 100},
                /* in thousands; beside their share */
                {"1000 of 12,000 (8.3%)", LOG_PROGRESS_PERCENT, 1000, 12000},
                {"records: 1,500,000/12,000,000 [12 %]", LOG_PROGRESS_PERCENT, 1500000, 12000000},
                {"12:01:02 INFO rows 450/1000, 45.0%", LOG_PROGRESS_PERCENT, 450, 1000},
                {"sweeping  45% (450 of 1000)", LOG_PROGRESS_PERCENT, 450, 1000},
                {"Train Epoch: 1 [6400/60000 (11%)]\tLoss: 0.5", LOG_PROGRESS_PERCENT, 6400, 60000},
                {"1_500_000_000 of 12_000_000_000 (12.5%)", LOG_PROGRESS_PERCENT, 1.5e9, 12e9},
                {"step 1,000 of 12,000", LOG_PROGRESS_STEPS, 1000, 12000},
                {"[450/1000 (45%)] loss 0.3, acc 0.9", LOG_PROGRESS_PERCENT, 450, 1000},
                {"1000 of 12,000 (9.3%)", LOG_PROGRESS_NONE},
                {"8/16 (50%) of memory", LOG_PROGRESS_NONE},
                {"450/1000 (45%) mapped", LOG_PROGRESS_NONE},
                {"1000 of 12,000", LOG_PROGRESS_NONE},
                {"450 of 1000 correct (45%)", LOG_PROGRESS_NONE},
                {"correct: 450 of 1000 (45%)", LOG_PROGRESS_NONE},
                {"memory used 8/16 (50%)", LOG_PROGRESS_NONE},
                {"t = 0,350 / 2,000", LOG_PROGRESS_NONE},
                {"step 3,00 of 12,000", LOG_PROGRESS_NONE},
                {"step 3", LOG_PROGRESS_NONE},
                {"day 3 (max 31.5)", LOG_PROGRESS_NONE},
                {"day 3 (end: Monday)", LOG_PROGRESS_NONE},
                {"step 3 end 5", LOG_PROGRESS_NONE},
                {"t = 1.5 m / 3.0 s", LOG_PROGRESS_NONE},
                {"t = 1.5 s / 3.0 m", LOG_PROGRESS_NONE},
                {"it 3 of 4", LOG_PROGRESS_NONE},
                {"time = 3 steps (end: 5)", LOG_PROGRESS_NONE},
                {"snow \u2588\u2588\u2588\u2588\u2588 34%", LOG_PROGRESS_NONE},
                {"\u2502 disk \u2502     45% 0:12", LOG_PROGRESS_NONE},
                {"step 103/100", LOG_PROGRESS_NONE},
                {"step 1/1", LOG_PROGRESS_NONE},
                {"step 10/12/2024", LOG_PROGRESS_NONE},
                {"footstep 3/100", LOG_PROGRESS_NONE},
                {"disk 45% full", LOG_PROGRESS_NONE},
                {"cpu 45%|x| 3/4", LOG_PROGRESS_NONE},
                {"[2024-01-02] started", LOG_PROGRESS_NONE},
                {"passed 3/100 tests", LOG_PROGRESS_NONE},
                {"3/4 passed", LOG_PROGRESS_NONE},
                {"Finished: 3 of 4 succeeded", LOG_PROGRESS_NONE},
                {"75% tests passed, 1 tests failed out of 4", LOG_PROGRESS_NONE},
                {"iter 7 refined 3/40 cells, quality 2/5, disk 34% used", LOG_PROGRESS_NONE},
                {"Accuracy: 9834/10000 (98%)", LOG_PROGRESS_NONE},
                {"Hello from rank 3 of 4", LOG_PROGRESS_NONE},
                {"task 3 of 4 on node7", LOG_PROGRESS_NONE},
                {"attempt 2 of 5", LOG_PROGRESS_NONE},
                {"3 bytes in 1 blocks are definitely lost in loss record 2 of 7", LOG_PROGRESS_NONE},
                {"Retrying x.tar (2/5)", LOG_PROGRESS_NONE},
                {"Using 3 of 4 processors", LOG_PROGRESS_NONE},
                {"1 of 3 files could not be read", LOG_PROGRESS_NONE},
                {"file 03/04/2024", LOG_PROGRESS_NONE},
                {"processed 2024-01-02", LOG_PROGRESS_NONE},
                {"memory 3.2/16 GB", LOG_PROGRESS_NONE},
                {"load 0.35/0.40/0.50", LOG_PROGRESS_NONE},
                {"don't 3/4", LOG_PROGRESS_NONE},
                {"/dev/sda1  45%  /home", LOG_PROGRESS_NONE},
                {"cpu 45% [user]", LOG_PROGRESS_NONE},
                {"confidence interval: 95% [1.2, 3.4]", LOG_PROGRESS_NONE},
                {"cache hit rate 45%, 12 MB/s", LOG_PROGRESS_NONE},
                {"Loss [3/4]", LOG_PROGRESS_NONE},
                {"progress: 450 %", LOG_PROGRESS_NONE},
                {"step 1234567890123/99999999999999", LOG_PROGRESS_NONE},
                {"", LOG_PROGRESS_NONE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double done = 0, total = 0;
        enum log_progress_form form = log_progress_parse(rows[i].text, &done, &total);
        if (form != rows[i].form || (form && (fabs(done - rows[i].done) > 1e-9 || fabs(total - rows[i].total) > 1e-9)))
            fail_msg("%s: %d %g %g", rows[i].text, form, done, total);
    }
}

/* Said without --log; what begins anew counts parts of something, and is known no more; epochs are more than their steps. */
static void test_progress_said(void **state)
{
    struct log_matcher matcher = {.file = "stdout", .expressions = &expressions, .rows = 1, .line = -1};
    match_text(&matcher, 0, "step 10/100\nx\n\n");
    assert_int_equal(seen.progress, 1);
    match_text(&matcher, 2 * (uint64_t)NS_PER_SECOND, "step 19/100\rstep 20/100\r");
    assert_int_equal(seen.progress, 2);
    assert_in_range((unsigned)seen.left_seconds, 15, 17);
    match_text(&matcher, 4 * (uint64_t)NS_PER_SECOND, "step 19/100\n"); /* of another rank */
    assert_int_equal(seen.progress, 2);
    match_text(&matcher, 6 * (uint64_t)NS_PER_SECOND, "step 1/100\n");
    assert_int_equal(seen.progress, 3);
    assert_true(seen.left_seconds < 0);
    assert_true(matcher.said.progress.total == 0);
    match_text(&matcher, 8 * (uint64_t)NS_PER_SECOND, "step 2/100\n");
    assert_int_equal(seen.progress, 3);
    match_text(&matcher, 10 * (uint64_t)NS_PER_SECOND, "Epoch 2/5\n");
    match_text(&matcher, 12 * (uint64_t)NS_PER_SECOND, " 34%|#  | 34/100 [\n");
    assert_int_equal(seen.progress, 4);
    assert_true(matcher.said.progress.done == 2 && matcher.said.progress.total == 5);
    struct log_said said = {0};
    log_said_take(&said, 0, "Processing efficiency: 45 %"); /* what does not grow is none */
    assert_int_equal(said.form, LOG_PROGRESS_NONE);
    log_said_take(&said, 0, "mapped 40 of 100 (40%)");
    assert_int_equal(said.form, LOG_PROGRESS_NONE);
    log_said_take(&said, 0, "Downloading: 46 %");
    assert_int_equal(said.form, LOG_PROGRESS_PERCENT);
    log_said_take(&said, 0, "reading file 3 of 3");
    log_said_take(&said, 0, "50 % done"); /* all of them are read */
    log_said_take(&said, 0, "51 % done");
    assert_true(said.form == LOG_PROGRESS_PERCENT && said.progress.done == 51);
    struct log_expression given = {.name = "x"}; /* somebody says which lines count */
    expressions.given = &given;
    expressions.given_count = 1;
    assert_int_equal(log_regex_new(&given.regex, "x", NULL), 0);
    match_text(&matcher, 14 * (uint64_t)NS_PER_SECOND, "Epoch 3/5\n");
    assert_int_equal(seen.progress, 4);
    log_regex_free(given.regex);
    given.regex = NULL; /* or only which file is read */
    match_text(&matcher, 16 * (uint64_t)NS_PER_SECOND, "Epoch 4/5\n");
    assert_int_equal(seen.progress, 5);
    /* what is drawn over is not looked at */
    match_text(&matcher, 18 * (uint64_t)NS_PER_SECOND, "Epoch 5/5\na\rb\rc\rd\re\rf\rg\rh\ri\rj\rk\r\n");
    assert_int_equal(seen.progress, 6);
    expressions.given_count = 0;
    expressions.given = NULL;
    log_matcher_done(&matcher);
}

/* Of counters in one another the outer one is told, in whatever order they come, and it never goes back. */
static void test_progress_nested(void **state)
{
    static const struct {
        const char *texts[12];
        double done, total;
    } rows[] = {
        {{"Epoch 1/3", "step 50/100", "step 100/100", "Epoch 2/3", "step 50/100"}, 2, 3},
        {{"Run 1/4", "step 1/100", "step 100/100", "Run 2/4", "step 1/100", "step 90/100"}, 2, 4},
        {{"fold 1/5", "epoch 1/10", "epoch 10/10", "fold 2/5", "epoch 1/10", "epoch 9/10"}, 2, 5},
        {{"iteration 3/10: step 40/100", "iteration 3/10: step 80/100", "iteration 4/10: step 1/100"}, 4, 10},
        {{"step 40/100 of iteration 3/10", "step 80/100 of iteration 3/10"}, 80, 100}, /* nobody knows */
        {{"iteration 3/10", "step 40/100", "step 99/100", "iteration 4/10", "step 2/100"}, 4, 10},
        {{"reading file 3 of 3", "step 1/100", "step 2/100"}, 2, 100}, /* then it went on */
        /* bars, by what stands before them and by how many they count */
        {{"all: 0%|  | 0/3 [", "50%|# | 50/100 [", "100%|##| 100/100 [", "all: 33%|# | 1/3 [", "2%|  | 2/100 ["}, 1, 3},
        {{"0%|  | 0/3 [", "50%|# | 50/100 [", "100%|##| 100/100 [", "33%|# | 1/3 [", "2%|  | 2/100 ["}, 1, 3},
        {{"loss 3: 1%|  | 1/100 [", "loss 2: 50%|# | 50/100 ["}, 50, 100},
        {{"fit: 100%|##| 9/9 [", "test: 50%|# | 3/6 [", "test: 100%|##| 6/6 [", "fit: 11%|# | 1/9 ["}, 0, 0},
        {{"100%|##| 2/2 [", "100%|##| 3/3 [", "100%|##| 4/4 [", "100%|##| 5/5 [", "100%|##| 6/6 [", "100%|##| 7/7 [",
          "12%|# | 1/8 ["},
         0,
         0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct log_said said = {0};
        double share = 0;
        for (size_t k = 0; rows[i].texts[k]; k++) {
            log_said_take(&said, k * NS_PER_SECOND, rows[i].texts[k]);
            double now = said.progress.done / said.progress.total;
            if (now < share && share < 1)
                fail_msg("row %zu: %s: from %g to %g", i, rows[i].texts[k], share, now);
            share = now;
        }
        if (said.progress.done != rows[i].done || said.progress.total != rows[i].total)
            fail_msg("row %zu: %g of %g", i, said.progress.done, said.progress.total);
    }
}

/* The rate is that of the recent past, not that of a slow beginning. */
static void test_progress_recent(void **state)
{
    struct log_progress progress = {0};
    for (uint64_t second = 0; second < 1000; second++)
        log_progress_take(&progress, second * NS_PER_SECOND, (double)second / 100, 1000);
    for (uint64_t second = 1000; second < 1200; second++)
        log_progress_take(&progress, second * NS_PER_SECOND, (double)second - 990, 1000);
    assert_in_range((unsigned)log_progress_left_seconds(&progress), 790, 792);
}

static void test_metric_forms(void **state)
{
    static const struct {
        const char *line, *said; /* NAME VALUE, ... */
    } rows[] = {
        {"epoch 3 loss=0.12", "loss 0.12"},
        {"Epoch 3: train_loss: 1.5e-3, val_loss: -2", "train_loss 0.0015, val_loss -2"},
        {"{'loss': 0.5, 'lr': 1}", "loss 0.5"},
        {"{\"step\":20,\"val_loss\" : 1e-3}", "val_loss 0.001"},
        {"the 'loss' 3 of all", ""},
        {"  17 KSP Residual norm 3.25e-07", "Residual 3.25e-07"},
        {"| accuracy 93.1% |", "accuracy 93.1"},
        {"test acc 0.5 loss 2", "test_acc 0.5, loss 2"},
        /* two of a kind are not one */
        {"train loss 0.5 | val loss: 0.7", "train_loss 0.5, val_loss 0.7"},
        {"Initial residual = 0.1, Final residual = 1e-06", "Initial_residual 0.1, Final_residual 1e-06"},
        {"smoothSolver:  Solving for Ux, Initial residual = 0.1, Final residual = 1e-06, No Iterations 2",
         "Ux.Initial_residual 0.1, Ux.Final_residual 1e-06"},
        {"DICPCG:  Solving for alpha.water, Initial residual = 1", "alpha.water.Initial_residual 1"},
        {"Solving for a_quantity_with_a_very_long_name, Final residual = 1", ""},
        {"the initial, residual = 3", "residual 3"},
        {"RMSE = 4", "RMSE 4"},
        {"loss 1 loss 2", "loss 2"},
        {"glossloss=1", ""},
        {"at a loss 3/4", ""},
        {"loss=0x10", ""},
        {"loss=nan", "loss undefined"},
        {"loss: -Infinity", "loss undefined"},
        {"loss=1e999", "loss undefined"},
        {"loss=nano", ""},
        {"loss=3.4.5", ""},
        {"loss12", ""},
        {"loss at 12", ""},
        {"accuracy:10:30", ""},
        {"0% packet loss", ""},
        /* what is everywhere, only where it has become undefined */
        {"step 2 energy nan", "energy undefined"},
        {"kinetic_energy=-NaN, pressure: nan", "kinetic_energy undefined, pressure undefined"},
        {"CFL NaN", "CFL undefined"},
        {"mean energy nan; mean energy 2", "mean_energy undefined"},
        {"step 2 energy 1.5", ""},
        {"pressure: inf", ""},
        {"energy nan values replaced: 0", ""},
        {"norm nan-safe", ""},
        {"energy: NaN, energy 3", "energy undefined"},
        {"loss=", ""},
        {"loss", ""},
        {"a_name_that_is_longer_than_names_are_loss=1", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct log_metrics metrics = {0};
        char said[200] = "";
        log_metrics_parse(&metrics, rows[i].line);
        for (size_t k = 0; k < metrics.used; k++)
            snprintf(said + strlen(said), sizeof said - strlen(said),
                     metrics.all[k].undefined ? "%s%s undefined" : "%s%s %g", k ? ", " : "", metrics.all[k].name,
                     metrics.all[k].value);
        if (strcmp(said, rows[i].said) != 0)
            fail_msg("%s: %s, expected: %s", rows[i].line, said, rows[i].said);
    }
}

static void test_metrics_said(void **state)
{
    struct log_metrics metrics = {0};
    struct err err = {0};
    struct log_rule rule;
    assert_int_equal(log_metric_rule(&rule, "E.tot", &err), 0);
    struct log_matcher matcher = matcher_of(rule.expression);
    expressions.given->metric = rule.file;
    match_text(&matcher, NS_PER_SECOND, "E.tot = -2\nE_tot = 9\nE.tot 5\nE.tot = 1\nloss=3\n");
    assert_int_equal(seen.records + seen.metrics, 0);
    log_match_rest(&matcher, NS_PER_SECOND, false);
    assert_int_equal(seen.metrics, 1);
    assert_true(seen.value == 1 && seen.least == -2 && seen.most == 5 && seen.values == 3);
    match_text(&matcher, NS_PER_SECOND + 1, "E.tot = 7\n");
    log_match_rest(&matcher, NS_PER_SECOND + 1, false); /* at most once a second */
    assert_int_equal(seen.metrics, 1);
    log_match_rest(&matcher, NS_PER_SECOND + 2, true);
    log_match_rest(&matcher, NS_PER_SECOND + 3, true);
    assert_int_equal(seen.metrics, 2);
    assert_true(seen.value == 7 && seen.least == 7 && seen.values == 1);
    log_matcher_done(&matcher);
    log_expressions_done(&expressions);
    log_rule_done(&rule);
    expressions = (struct log_expressions){.sink = &sink};
    /* the group says all of the number, and there is none where it takes no part */
    matcher = matcher_of("loss (?:is (\\d)|none)");
    expressions.given->metric = "loss";
    match_text(&matcher, NS_PER_SECOND, "5 loss none\n17 loss is 34\n");
    log_match_rest(&matcher, NS_PER_SECOND, true);
    assert_true(seen.metrics == 3 && seen.value == 3 && seen.values == 1);
    log_matcher_done(&matcher);
    for (int i = 0; i < 2 * LOG_METRICS; i++) {
        char name[8];
        snprintf(name, sizeof name, "m%d", i);
        log_metric_take(&metrics, name, i);
    }
    assert_int_equal(metrics.used, LOG_METRICS);
    assert_int_equal(log_metric_rule(&rule, "", &err), -EINVAL);
    assert_int_equal(log_metric_rule(&rule, "a b=(.)", &err), -EINVAL);
    assert_int_equal(log_metric_rule(&rule, "a_name_that_is_longer_than_a_name_is=(.)", &err), -EINVAL);
}

static void test_slow_expression_is_switched_off(void **state)
{
    struct log_matcher matcher = matcher_of("^(([a-z])+.)+[A-Z]([a-z])+$");
    for (unsigned i = 0; i < 2 * TOO_LONG_MOST; i++)
        match_text(&matcher, 0, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n");
    assert_int_equal(seen.notes, 2); /* the first, and the end */
    assert_int_equal(expressions.given->too_long, TOO_LONG_MOST);
    log_matcher_done(&matcher);
}

/* What Open MPI's and MPICH's launchers write below what a rank has said; nothing of what programs say. */
static void test_launchers(void **state)
{
    static const char *const banners[] = {
        "--------------------------------------------------------------------------",
        "===================================================================================",
        "Primary job  terminated normally, but 1 process returned",
        "a non-zero exit code. Per user-direction, the job has been aborted.",
        "mpiexec.openmpi detected that one or more processes exited with non-zero status, thus causing",
        "the job to be terminated. The first process to do so was:",
        "  Process name: [[31867,1],1]",
        "  Exit code:    2",
        "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 11 (Segmentation fault).",
        "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD",
        "with errorcode 4.",
        "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.",
        "You may or may not see output from other processes, depending on",
        "exactly when Open MPI kills them.",
        "Abort(4) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 4) - process 1",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   PID 4267 RUNNING AT vm",
        "=   RANK 0 PID 4267 RUNNING AT vm",
        "=   EXIT CODE: 11",
        "=   CLEANING UP REMAINING PROCESSES",
        "=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)",
        "This typically refers to a problem with your application.",
        "Please see the FAQ page for debugging suggestions",
        "[n1:8423] [[19481,0],0] ORTE_ERROR_LOG: Data unpack would read past end of buffer in file show_help.c at line "
        "507",
        "[n1:8423] 1 more process has sent help message help-mpi-api.txt / mpi-abort",
        "mpirun.openmpi has exited due to process rank 1 with PID 0 on",
        "node vm exiting improperly. There are three reasons this could occur:",
        "exiting or it will be considered an \"abnormal termination\"",
        "You can avoid this message by specifying -quiet on the mpirun command line.",
        "srun: error: n7: task 3: Exited with exit code 2",
        "srun: Terminating StepId=77.0",
    };
    static const char *const others[] = {"rank 1: cannot read restart.nc",
                                         "---",
                                         "--- step 7 ---",

                                         "=   3 x",
                                         "mpirun was unable to launch the specified application",
                                         "",
                                         "the exit code is 2"};
    for (size_t i = 0; i < sizeof banners / sizeof *banners; i++)
        if (!log_is_of_launcher(banners[i], strlen(banners[i])))
            fail_msg("%s", banners[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (log_is_of_launcher(others[i], strlen(others[i])))
            fail_msg("%s", others[i]);
}

/* A sanitizer takes seconds to find the names of functions. */
static void test_slow_message(void **state)
{
    struct log_matcher matcher = matcher_of(NULL);
    match_text(&matcher, NS_PER_SECOND, "==12==ERROR: AddressSanitizer: heap-use-after-free\nREAD of size 4\n");
    log_match_rest(&matcher, 9 * (uint64_t)NS_PER_SECOND, false);
    assert_int_equal(seen.records, 0);
    match_text(&matcher, 9 * (uint64_t)NS_PER_SECOND, "SUMMARY: AddressSanitizer: heap-use-after-free a.c:3 in main\n");
    assert_int_equal(seen.records, 1);
    assert_string_equal(seen.text, "SUMMARY: AddressSanitizer: heap-use-after-free a.c:3 in main");
    log_matcher_done(&matcher);
}

static void test_keys(void **state)
{
    static const char *const keys[] = {"^C", "^C^C", "^\\", "^Z^D"}, *const others[] = {"",          "^",  "^^^^",
                                                                                        "^Cno mesh", "^c", "x ^C",
                                                                                        "^~"};
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_true(log_is_of_keys(keys[i], strlen(keys[i])));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(log_is_of_keys(others[i], strlen(others[i])));
}

static void test_traces(void **state)
{
    static const char *const traces[] = {"+ exit 1", "+++ ./convert --strict"};
    static const char *const others[] = {"", "+", "+ ", "+3", "+  | x", "convert: + exit 1"};
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++)
        assert_true(log_is_of_trace(traces[i], strlen(traces[i])));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(log_is_of_trace(others[i], strlen(others[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_expressions_match_bytes),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_expressions_that_explode),
        cmocka_unit_test_setup_teardown(test_each_pattern, forget, forget),
        cmocka_unit_test_setup_teardown(test_lines_of_a_block, forget, forget),
        cmocka_unit_test_setup_teardown(test_nothing_to_look_for, forget, forget),
        cmocka_unit_test_setup_teardown(test_messages, forget, forget),
        cmocka_unit_test_setup_teardown(test_severity, forget, forget),
        cmocka_unit_test_setup_teardown(test_tracebacks, forget, forget),
        cmocka_unit_test_setup_teardown(test_places, forget, forget),
        cmocka_unit_test_setup_teardown(test_above, forget, forget),
        cmocka_unit_test_setup_teardown(test_excluded_message, forget, forget),
        cmocka_unit_test_setup_teardown(test_long_line, forget, forget),
        cmocka_unit_test_setup_teardown(test_harmless_stays, forget, forget),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_launchers),
        cmocka_unit_test_setup_teardown(test_slow_message, forget, forget),
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_selections),
        cmocka_unit_test_setup_teardown(test_folding, forget, forget),
        cmocka_unit_test_setup_teardown(test_progress, forget, forget),
        cmocka_unit_test(test_progress_recent),
        cmocka_unit_test(test_progress_forms),
        cmocka_unit_test(test_progress_nested),
        cmocka_unit_test_setup_teardown(test_progress_said, forget, forget),
        cmocka_unit_test(test_metric_forms),
        cmocka_unit_test_setup_teardown(test_metrics_said, forget, forget),
        cmocka_unit_test_setup_teardown(test_slow_expression_is_switched_off, forget, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
