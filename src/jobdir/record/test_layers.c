/* SPDX-License-Identifier: Apache-2.0 */
/* What the model keeps of scripts, Python, logs and the node's health, and that it forgets the oldest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/data/buf.h"
#include "base/data/hash.h"
#include "jobdir/layers/sections.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/model.h"

static void apply_new(struct job_model *model, json_t *record)
{
    assert_non_null(record);
    job_model_apply(model, record);
    json_decref(record);
}

#define APPLY(...) apply_new(model, json_pack(__VA_ARGS__))

static int set_up(void **state)
{
    static struct job_model model;
    *state = &model;
    return job_model_init(&model, 10);
}

static int tear_down(void **state)
{
    job_model_done(*state);
    return 0;
}

static void at_line(struct job_model *model, int pid, int line)
{
    APPLY("{s:s, s:f, s:i, s:s, s:i}", "type", "script_line", "t", 1.0, "pid", pid, "file", "job.sh", "line", line);
}

static json_int_t line_of(const struct job_model *model, int pid)
{
    const struct layer_place *place = layers_place(&model->layers, pid);
    return place && place->line ? json_integer_value(json_object_get(place->line, "line")) : -1;
}

/* The last line of each process; of a number that is used again, and of the longest unchanged, nothing is left. */
static void test_places(void **state)
{
    struct job_model *model = *state;
    at_line(model, 10, 3);
    at_line(model, 10, 4);
    APPLY("{s:s, s:f, s:i, s:[]}", "type", "python_stack", "t", 1.0, "pid", 10, "threads");
    assert_int_equal(line_of(model, 10), 4);
    assert_non_null(layers_place(&model->layers, 10)->stack);
    APPLY("{s:s, s:f, s:i, s:i, s:f, s:s}", "type", "process", "t", 2.0, "pid", 10, "ppid", 1, "start", 1.5, "name",
          "sh");
    assert_null(layers_place(&model->layers, 10));
    at_line(model, 15, 1); /* of a process of which nothing had come yet */
    APPLY("{s:s, s:f, s:i, s:i, s:f, s:s}", "type", "process", "t", 2.0, "pid", 15, "ppid", 1, "start", 0.9, "name",
          "sh");
    assert_int_equal(line_of(model, 15), 1);
    for (int pid = 13; pid <= 14; pid++) {
        APPLY("{s:s, s:f, s:i, s:i, s:f, s:s}", "type", "process", "t", 2.0, "pid", pid, "ppid", 1, "start", 1.5,
              "name", "sh");
        at_line(model, pid, 1);
    }
    for (int pid = 13; pid <= 14; pid++) /* the first at its end, the second executes another program */
        APPLY("{s:s, s:f, s:i, s:s, s:i, s:f}", "type", "script_end", "t", 2.5, "pid", pid, "file", "job.sh", "status",
              0, "seconds", 1.0);
    for (int pid = 13; pid <= 14; pid++)
        APPLY("{s:s, s:f, s:i, s:i, s:f, s:s, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", 3.0, "pid", pid,
              "ppid", 1, "start", 1.5, "name", "sh", "end", pid == 13 ? 2.4 : 2.9, "cpu_ns", 1, "threads", 1,
              "peak_rss", 1, "status", 0);
    assert_int_equal(line_of(model, 13), 1);
    assert_int_equal(line_of(model, 14), -1);
    at_line(model, 11, 1);
    at_line(model, 12, 1);
    at_line(model, 11, 2);
    for (int i = 1; i < LAYER_PLACES; i++)
        at_line(model, 1000 + i, i);
    assert_int_equal(HASH_COUNT(model->layers.places), LAYER_PLACES);
    assert_null(layers_place(&model->layers, 12));
    assert_int_equal(line_of(model, 11), 2);
}

/* Errors are not pushed out by what is less; all are counted. */
static void test_logs(void **state)
{
    struct job_model *model = *state;
    APPLY("{s:s, s:f, s:s, s:s, s:s, s:s, s:i}", "type", "log", "t", 1.0, "file", "stderr", "pattern", "full", "level",
          "error", "text", "No space left on device", "folded", 3);
    for (int i = 0; i < 1000; i++)
        APPLY("{s:s, s:f, s:s, s:s, s:s, s:s, s:i}", "type", "log", "t", 2.0, "file", "out", "pattern", "step", "level",
              "info", "text", "step", "folded", 0);
    APPLY("{s:s, s:f, s:s, s:s, s:s, s:i}", "type", "log_folded", "t", 3.0, "file", "out", "pattern", "step", "level",
          "info", "lines", 500);
    const struct layers *layers = &model->layers;
    assert_int_equal(json_array_size(layers->logs.records), LAYER_LOG_LINES);
    assert_int_equal(layers->logs.total, 1001);
    assert_int_equal(json_array_size(layers->errors.records), 1);
    assert_int_equal(layers->levels[LINE_ERROR], 4);
    assert_int_equal(layers->levels[LINE_INFO], 1500);
    struct layer_pattern *pattern;
    HASH_FIND_STR(layers->patterns, "full", pattern);
    assert_int_equal(pattern->lines, 4);
    assert_int_equal(pattern->level, LINE_ERROR);
}

static void test_scripts(void **state)
{
    struct job_model *model = *state;
    for (int i = 0; i < 2; i++)
        APPLY("{s:s, s:f, s:i, s:s, s:i, s:f, s:[{s:s, s:i, s:s, s:i, s:i, s:f}]}", "type", "script_end", "t", 1.0,
              "pid", 10 + i, "file", "job.sh", "status", i, "seconds", 2.0, "lines", "file", "job.sh", "line", 7,
              "command", "make", "count", 2, "failed", i, "seconds", 1.5);
    const struct layers *layers = &model->layers;
    assert_int_equal(layers->scripts->count, 2);
    assert_int_equal(layers->scripts->failed, 1);
    assert_int_equal(HASH_COUNT(layers->lines), 1);
    assert_int_equal(layers->lines->count, 4);
    assert_int_equal(layers->lines->failed, 1);
    assert_string_equal(layers->lines->command, "make");
    assert_true(layers->lines->seconds > 2.99 && layers->lines->seconds < 3.01);
    for (int i = 0; i < LAYER_FAILURES + 20; i++) {
        APPLY("{s:s, s:f, s:i, s:b}", "type", "python_exception", "t", 1.0, "line", i, "caught", i % 2);
        APPLY("{s:s, s:f, s:i}", "type", "command_failed", "t", 1.0, "line", i);
    }
    assert_int_equal(layers->failures.total, LAYER_FAILURES + 20);
    assert_int_equal(json_array_size(layers->failures.records), LAYER_FAILURES);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(layers->failures.records, 0), "line")), 20);
    assert_int_equal(layers->uncaught.total, (LAYER_FAILURES + 20) / 2);
}

/* Windows of the same functions are added up; beyond the limit they are counted. */
static void test_functions(void **state)
{
    struct job_model *model = *state;
    for (int i = 0; i < 3; i++)
        APPLY("{s:s, s:f, s:i, s:i, s:[{s:s, s:s, s:i, s:i, s:i, s:i}]}", "type", "python_calls", "t", 1.0, "pid", i,
              "calls", 5, "functions", "function", "step", "file", "a.py", "line", 3, "calls", 5, "total_ns", 20,
              "self_ns", 10);
    for (int i = 0; i < 2; i++) /* the sum of all the time of a process has its windows in it */
        APPLY("{s:s, s:f, s:i, s:b, s:i, s:[{s:s, s:s, s:i, s:i, s:i, s:i}]}", "type", "python_calls", "t", 1.0, "pid",
              2, "whole", i, "calls", 5 + i, "functions", "function", "step", "file", "a.py", "line", 3, "calls", 5 + i,
              "total_ns", 20, "self_ns", 10);
    assert_int_equal(model->layers.python->calls, 5 + 5 + 6);
    assert_int_equal(model->layers.python->self_ns, 30);
    assert_int_equal(model->layers.python_calls, 16);
    for (int i = 0; i < LAYER_FUNCTIONS + 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "f%d", i);
        APPLY("{s:s, s:f, s:i, s:[{s:s, s:i, s:i}]}", "type", "functions", "t", 1.0, "calls", 1, "list", "name", name,
              "calls", 1, "self_ns", 7);
    }
    const struct layers *layers = &model->layers;
    assert_int_equal(HASH_COUNT(layers->python), 1);
    assert_int_equal(layers->python->calls, 16);
    assert_int_equal(HASH_COUNT(layers->functions), LAYER_FUNCTIONS);
    assert_int_equal(layers->omitted_functions, 5);
    assert_int_equal(layers->function_calls, LAYER_FUNCTIONS + 5);
}

static void test_health(void **state)
{
    struct job_model *model = *state;
    for (int i = 0; i < 3; i++)
        APPLY(
            "{s:s, s:f, s:f, s:{s:f, s:n}, s:{s:i, s:i}, s:[{s:s, s:i, s:i}], s:{s:i, s:i, s:i}, s:[[i, i, i, i, i]]}",
            "type", "health", "t", 1.0 + i, "seconds", 1.0, "load", "cpu", 0.25 * i, "iowait", "memory", "total_bytes",
            1000, "available_bytes", 900 - 300 * i, "filesystems", "path", "/work", "total_bytes", 100, "free_bytes",
            i == 1 ? 0 : 50, "cgroup", "memory_bytes", 10 * i, "memory_limit_bytes", 40, "oom_kills", 5 + i,
            "processes", 10, 1, 2, 3, 1024);
    const struct layers *layers = &model->layers;
    assert_true(series_max(&layers->curves[CURVE_CPU]) == 0.5);
    assert_int_equal(layers->curves[CURVE_IOWAIT].used, 0);
    assert_true(series_max(&layers->curves[CURVE_MEMORY]) == 0.7);
    assert_true(series_max(&layers->curves[CURVE_CGROUP_MEMORY]) == 0.5);
    assert_int_equal(layers->oom_kills, 2);
    assert_int_equal(layers->filesystems->least_free_bytes, 0);
    assert_true(layers->filesystems->least_at == 2.0);
    assert_int_equal(layers->filesystems->free_bytes, 50);
    assert_int_equal(layers_place(layers, 10)->open_files, 3);
}

/* What the job had of the kills of its group is said by each record, also by the only one of a short job. */
static void test_own_kills(void **state)
{
    struct job_model *model = *state;
    static const int own[] = {1, 3, 0, 1}; /* the observer was started again */
    for (int i = 0; i < 4; i++)
        APPLY("{s:s, s:f, s:{s:i, s:i}}", "type", "health", "t", 1.0 + i, "cgroup", "oom_kills", 7 + i, "job_oom_kills",
              own[i]);
    assert_int_equal(model->layers.oom_kills, 4);
}

static void test_last(void **state)
{
    struct job_model *model = *state;
    for (int i = 0; i < LAYER_NAMED + 1; i++) {
        char name[32];
        snprintf(name, sizeof name, "log%d", i);
        APPLY("{s:s, s:f, s:s, s:f, s:f}", "type", "progress", "t", 1.0, "source", i == 1 ? "log0" : name, "done",
              (double)i, "total", 500.0);
    }
    assert_int_equal(HASH_COUNT(model->layers.progress), LAYER_NAMED);
    assert_true(json_real_value(json_object_get(model->layers.progress->record, "done")) == 1.0);
}

/* How far a job is, and when it is over how far it came. */
static void test_over(void **state)
{
    struct job_model *model = *state;
    for (int over = 0; over < 2; over++) {
        struct buf text = BUF_INIT;
        if (over)
            APPLY("{s:s, s:f, s:b, s:i, s:i}", "type", "end", "t", 2.0, "started", 1, "exit_code", 0, "signal", 0);
        else
            APPLY("{s:s, s:f, s:s, s:f, s:f, s:f}", "type", "progress", "t", 1.0, "source", "out.log", "done", 29.0,
                  "total", 30.0, "left_seconds", 0.4);
        record_text(&text, model->layers.progress->record);
        assert_string_equal(text.data, over ? "out.log: 29 of 30" : "out.log: 29 of 30, 0 s left");
        buf_done(&text);
    }
}

/* In bounded memory from the begin to the last value, with all extremes. */
static void test_metrics(void **state)
{
    struct job_model *model = *state;
    for (int i = 0; i <= 10 * METRIC_POINTS; i++)
        APPLY("{s:s, s:f, s:s, s:s, s:f, s:f, s:f, s:i}", "type", "metric", "t", (double)i, "source", "stdout", "name",
              "loss", "value", (double)i, "least", i == 7 ? -3.0 : (double)i, "most", (double)i, "values", 2);
    const struct layer_metric *metric = model->layers.metrics;
    assert_non_null(metric);
    assert_true(metric->used > METRIC_POINTS / 2 - 1 && metric->used <= METRIC_POINTS);
    assert_true(metric->points[0].seconds == 0);
    for (size_t i = 1; i < metric->used; i++)
        assert_true(metric->points[i].seconds > metric->points[i - 1].seconds);
    assert_true(metric->points[metric->used - 1].value == 10 * METRIC_POINTS);
    assert_true(metric->least == -3 && metric->most == 10 * METRIC_POINTS && metric->value == metric->most);
    assert_int_equal(metric->values, 2 * (10 * METRIC_POINTS + 1));
    double last = metric->value;
    assert_true(metric->undefined_since == -1);
    for (int i = 0; i < 2; i++)
        APPLY("{s:s, s:f, s:s, s:s, s:f, s:f, s:f, s:i, s:i}", "type", "metric", "t", 1e5 + i, "source", "stdout",
              "name", metric->name, "value", 0.0, "least", 0.0, "most", 0.0, "values", 0, "undefined", 3);
    assert_true(metric->value == last && metric->undefined_since == 1e5 && metric->undefined == 6);
    APPLY("{s:s, s:f, s:s, s:s, s:f, s:f, s:f, s:i, s:i}", "type", "metric", "t", 1e5 + 2, "source", "stdout", "name",
          metric->name, "value", 1.0, "least", 1.0, "most", 1.0, "values", 1, "undefined", 1);
    assert_true(metric->value == 1 && metric->undefined_since == -1 && metric->undefined == 7);
    for (int i = 0; i < 2 * LAYER_METRICS; i++) {
        char name[32];
        snprintf(name, sizeof name, "m%d", i);
        APPLY("{s:s, s:f, s:s, s:f}", "type", "metric", "t", 1.0, "name", name, "value", 1.0);
    }
    assert_int_equal(HASH_COUNT(model->layers.metrics), LAYER_METRICS);
    struct buf text = BUF_INIT;
    char wanted[128]; /* a line of few */
    snprintf(wanted, sizeof wanted, "loss 1 (from -3 to %.4g), m0 1, m1 1, m2 1 and %d more", 10.0 * METRIC_POINTS,
             LAYER_METRICS - 4);
    assert_true(metrics_brief_text(&text, &model->layers));
    assert_string_equal(text.data, wanted);
    buf_done(&text);
}

/* Nonsense harms nobody. */
static void test_nonsense(void **state)
{
    struct job_model *model = *state;
    for (enum record_type type = 0; type < RECORD_TYPES; type++) {
        const char *name = record_kinds[type].type;
        APPLY("{s:s}", "type", name);
        APPLY("{s:s, s:s, s:i, s:[i], s:{s:i}, s:s, s:[i, s, [], {}, n]}", "type", name, "t", "x", "pid", -5, "file", 1,
              "memory", "total_bytes", -1, "cgroup", "x", "processes", 1, "x");
        APPLY("{s:s, s:[[], [s], n], s:[n, i], s:[{}], s:[{s:i}]}", "type", name, "processes", "x", "filesystems", 3,
              "functions", "lines", "file", 3);
    }
}

/* ---- of any number of warnings the first and the last of each kind are kept, and all are counted ---- */

static void add(struct kept *kept, const char *member, const char *kind, int number)
{
    json_t *record = json_pack("{s:s, s:i}", member, kind, "number", number);
    kept_add(kept, record);
    json_decref(record);
}

static json_int_t number_at(const struct kept *kept, size_t at)
{
    return json_integer_value(json_object_get(json_array_get(kept->records, at), "number"));
}

static void test_few(void **state)
{
    struct kept kept;
    assert_int_equal(kept_init(&kept), 0);
    for (int i = 0; i < 2 * KEPT_EACH; i++)
        add(&kept, "note", "disk", i);
    json_t *omitted = kept_omitted(&kept);
    assert_int_equal(json_array_size(kept.records), 2 * KEPT_EACH);
    assert_int_equal(json_array_size(omitted), 0);
    json_decref(omitted);
    kept_done(&kept);
}

/* One that came once amidst is there; so are the first and the last ones, in their order. */
static void test_many(void **state)
{
    enum { MANY = 100000 };
    struct kept kept;
    assert_int_equal(kept_init(&kept), 0);
    const json_t *borrowed = kept.records;
    for (int i = 0; i < MANY; i++)
        add(&kept, i == MANY / 2 ? "kind" : "note", i == MANY / 2 ? "memory" : i % 2 ? "disk" : "lost", i);
    size_t count = json_array_size(kept.records);
    assert_ptr_equal(borrowed, kept.records);
    assert_true(count > 2 * 2 * KEPT_EACH && count <= 2 * 3 * KEPT_EACH + 1);
    assert_int_equal(kept.total, MANY);
    bool seen = false;
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || number_at(&kept, i) > number_at(&kept, i - 1));
        seen |= number_at(&kept, i) == MANY / 2;
        if (i < (size_t)2 * KEPT_EACH)
            assert_int_equal(number_at(&kept, i), i);
        if (count - i <= (size_t)2 * KEPT_EACH)
            assert_int_equal(number_at(&kept, i), MANY - (int)(count - i));
    }
    assert_true(seen);
    json_t *omitted = kept_omitted(&kept), *kind;
    size_t index, sum = count;
    json_array_foreach(omitted, index, kind) sum += (size_t)json_integer_value(json_object_get(kind, "count"));
    assert_int_equal(json_array_size(omitted), 2);
    assert_int_equal(sum, MANY);
    json_decref(omitted);
    kept_done(&kept);
}

/* Kinds come from files, too: there are never more than so many. */
static void test_many_kinds(void **state)
{
    struct kept kept;
    char name[32];
    assert_int_equal(kept_init(&kept), 0);
    for (int i = 0; i < 10 * KEPT_KINDS; i++) {
        snprintf(name, sizeof name, "kind%d", i);
        add(&kept, "kind", name, i);
    }
    assert_true(HASH_COUNT(kept.kinds) <= KEPT_KINDS + 1);
    assert_true(json_array_size(kept.records) <= KEPT_KINDS + 3 * KEPT_EACH);
    assert_int_equal(number_at(&kept, 0), 0);
    assert_int_equal(number_at(&kept, json_array_size(kept.records) - 1), 10 * KEPT_KINDS - 1);
    kept_done(&kept);
}

int main(void)
{
#define KEPT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        KEPT(test_places),
        KEPT(test_logs),
        KEPT(test_scripts),
        KEPT(test_functions),
        KEPT(test_health),
        KEPT(test_own_kills),
        KEPT(test_last),
        KEPT(test_over),
        KEPT(test_metrics),
        KEPT(test_nonsense),
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_many_kinds),
    };
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
