/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "job/watch/raise.h"

/* A request is under way, so what comes waits. */
static struct raises start(void)
{
    return (struct raises){.dir = "/j", .up = true, .asking = true, .wanted = ~0u};
}

static void give(struct raises *raises, enum record_type type, const void *row)
{
    json_t *record = record_json(type, row);
    raise_record(raises, type, record);
    json_decref(record);
}

/* Its outputs, by the names of the record's members. */
static void records_become_events(void **state)
{
    struct raises raises = start();
    json_t *fields = json_pack("{s:s}", "step", "7");
    give(&raises, RECORD(log, .file = "/l", .pattern = "p", .level = "error", .text = "a\nb\x1b\"", .line = 4,
                         .fields = fields));
    json_decref(fields);
    assert_string_equal(raises.waiting.data, "job_raise(\"/j\",\"job_log_matched\",[\"/l\",4,\"error\",\"p\","
                                             "\"a\\nb\\033\\\"\",0,\"{\\\"step\\\":\\\"7\\\"}\"])\n");
    buf_clear(&raises.waiting);
    give(&raises, RECORD(progress, .source = "log", .done = 1, .total = 4, .left_seconds = -1));
    assert_string_equal(raises.waiting.data, "job_raise(\"/j\",\"job_progress\",[\"log\",1.0,4.0,-1.0])\n");
    buf_clear(&raises.waiting);
    give(&raises, RECORD(command_failed, .at = {7, "bash", "/run.sh", -1, NULL, "false"}, .status = 1, .seconds = 2,
                         .time = -1));
    assert_string_equal(raises.waiting.data, "job_raise(\"/j\",\"job_command_failed\",[7,\"bash\",\"/run.sh\",-1,\"\","
                                             "\"false\",1,2.0])\n");
    raise_done(&raises);
}

static struct script_line_record in(const char *function, int64_t line)
{
    return (struct script_line_record){.at = {7, "bash", "/run.sh", line, function, NULL}, .how = "trap", .time = -1};
}

/* A shell is in another function than at the line before. */
static void functions_are_called_once(void **state)
{
    struct raises raises = start();
    static const char *const places[] = {NULL, "main", "main", "step", "main", NULL};
    unsigned called = 0, lines = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct script_line_record line = in(places[i], (int64_t)i + 1);
        give(&raises, RECORD_script_line, &line);
    }
    for (const char *at = raises.waiting.data; (at = strstr(at, "job_function_called")); at++)
        called++;
    for (const char *at = raises.waiting.data; (at = strstr(at, "job_script_line")); at++)
        lines++;
    assert_int_equal(lines, 6);
    assert_int_equal(called, 3);
    raise_done(&raises);
}

/* Windows tell of the calls of Python; the sum at the end does only where there were none. */
static void sums_are_told_once(void **state)
{
    struct raises raises = start();
    static const struct {
        int32_t pid;
        bool whole;
    } records[] = {{1, false}, {1, false}, {1, true}, {2, true}};
    unsigned called = 0;
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        json_t *list = json_pack("[{s:s, s:s, s:i, s:i}]", "function", "f", "file", "a.py", "line", 3, "calls", 2);
        give(&raises,
             RECORD(python_calls, .pid = records[i].pid, .whole = records[i].whole, .calls = 2, .functions = list));
        json_decref(list);
    }
    for (const char *at = raises.waiting.data; (at = strstr(at, "job_function_called")); at++)
        called++;
    assert_int_equal(called, 3);
    raise_done(&raises);
}

/* Only what is wanted, and not too much of it. */
static void the_rest_is_counted(void **state)
{
    struct raises raises = start();
    static char text[3 * RAISE_TEXT];
    raises.wanted = 0;
    give(&raises, RECORD(log, .text = "x"));
    assert_int_equal(raises.waiting.len, 0);
    assert_int_equal(raises.omitted, 0);
    raises = start();
    for (size_t i = 0; i + 2 < sizeof text; i += 2) /* two bytes each, and one before them */
        memcpy(text + 1 + i, "\xc3\xa4", 2);
    text[0] = 'x';
    for (unsigned i = 0; i < RAISE_RATE + 30; i++)
        give(&raises, RECORD(log, .text = text));
    assert_true(raises.omitted >= 30); /* 4 kB each: not all of them find room */
    assert_non_null(strstr(raises.waiting.data, "\xc3\xa4\",0"));
    assert_true(raises.waiting.len < (300 << 10));
    raise_done(&raises);
}

/* Many lines of scripts keep away no failure. */
static void kinds_have_their_own_rate(void **state)
{
    struct raises raises = start();
    for (unsigned i = 0; i < 3 * RAISE_RATE; i++) {
        struct script_line_record line = in(NULL, i);
        give(&raises, RECORD_script_line, &line);
    }
    assert_true(raises.omitted >= RAISE_RATE);
    give(&raises, RECORD(command_failed, .at = {7, "bash", "/run.sh", 3, NULL, "false"}, .status = 1, .time = -1));
    assert_non_null(strstr(raises.waiting.data, "job_command_failed"));
    raise_done(&raises);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_become_events),     cmocka_unit_test(functions_are_called_once),
        cmocka_unit_test(sums_are_told_once),        cmocka_unit_test(the_rest_is_counted),
        cmocka_unit_test(kinds_have_their_own_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
