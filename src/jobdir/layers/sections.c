/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/layers/sections.h"

#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/number.h"
#include "jobdir/text/text.h"

enum {
    LINE_COLUMNS = 200,
    SHOWN_SCRIPTS = 10,
    SHOWN_SCRIPT_LINES = 20,
    SHOWN_FAILURES = 10,
    SHOWN_FUNCTIONS = 15,
    SHOWN_PATTERNS = 15,
    SHOWN_ERRORS = 10,
    SHOWN_LOG_LINES = 10,
    SHOWN_FILESYSTEMS = 10,
    METRIC_COLUMNS = 22,
    SPARK_COLUMNS = 40,
    SPARK_WINDOWS = 8,
};

/* The elements of a table of uthash in the order of `by`, which gets pointers to pointers; malloc'ed, NULL without any.
 */
#define SORTED(head, ret_count, by) \
    ({ \
        size_t used_ = 0, count_ = HASH_COUNT(head); \
        const __typeof__(*(head)) **list_ = count_ ? calloc(count_, sizeof *list_) : NULL; \
        for (const __typeof__(*(head)) *each_ = (head); each_ && list_; each_ = each_->hh.next) \
            list_[used_++] = each_; \
        if (used_) \
            qsort(list_, used_, sizeof *list_, by); \
        *(ret_count) = used_; \
        list_; \
    })

/* A list of such elements as JSON. */
#define SORTED_JSON(head, by, fields) \
    ({ \
        size_t rows_count_; \
        const __typeof__(*(head)) **rows_ = SORTED(head, &rows_count_, by); \
        json_t *json_ = json_array(); \
        for (size_t i_ = 0; i_ < rows_count_; i_++) \
            json_array_append_new(json_, fields_json(fields, rows_[i_], NULL)); \
        free(rows_); \
        json_; \
    })

/* Copies of records without what only the spool needs: a new reference. */
static json_t *records_json(const struct layer_list *list)
{
    static const char *const spool_only[] = {"seq", "type", "job", "node", "stream"};
    json_t *copy = list->records ? json_deep_copy(list->records) : json_array(), *record;
    size_t index;
    json_array_foreach(copy, index, record)
    {
        for (size_t i = 0; i < sizeof spool_only / sizeof *spool_only; i++)
            json_object_del(record, spool_only[i]);
    }
    return copy;
}

/* A line a record, as scry watch says them: the last `most`. */
static void put_records(struct buf *out, const char *title, const struct layer_list *list, size_t most)
{
    size_t count = json_array_size(list->records), first = count > most ? count - most : 0;
    if (!count)
        return;
    buf_printf(out, "\n%s\n", title);
    if (list->total > count - first)
        buf_printf(out, "  ... %llu before\n", (unsigned long long)(list->total - (count - first)));
    for (size_t i = first; i < count; i++) {
        const json_t *record = json_array_get(list->records, i);
        _cleanup_(buf_done) struct buf text = BUF_INIT, cut = BUF_INIT;
        record_text(&text, record);
        if (text.data)
            buf_append(&cut, text.data, text_fit(text.data, text.len, LINE_COLUMNS));
        buf_printf(out, "  %9.2f s  ", record_seconds(record));
        text_show(out, cut.data ? cut.data : "?");
        buf_putc(out, '\n');
    }
}

/* ---- scripts: their lines by time, commands that failed ---- */

static const struct field script_fields[] = {
    {"file", FIELD_TEXT, FIELD_AT(struct layer_script, file), .column = FIELD_COLUMN(1, 2, -40, "Scripts that ended")},
    {"count", FIELD_COUNT, FIELD_AT(struct layer_script, count), .about = "processes that ran it and ended",
     .column = FIELD_COLUMN(2, 1, 7, "count")},
    {"failed", FIELD_COUNT, FIELD_AT(struct layer_script, failed), .column = FIELD_COLUMN(3, 1, 7, "failed")},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct layer_script, seconds), .column = FIELD_COLUMN(4, 2, 10, "time")},
    {0}};

static const struct field script_line_fields[] = {
    {"file", FIELD_TEXT, FIELD_AT(struct layer_line, file)},
    {"line", FIELD_INTEGER, FIELD_AT(struct layer_line, line), FIELD_NEGATIVE_IS_NULL},
    {"command", FIELD_TEXT, FIELD_AT(struct layer_line, command), FIELD_OR_NULL,
     .about = "as it is written, not expanded; null: not known",
     .column = FIELD_COLUMN(5, 2, 0, "command", .none = "?")},
    {"count", FIELD_COUNT, FIELD_AT(struct layer_line, count), .about = "0: not counted, it was only seen",
     .column = FIELD_COLUMN(2, 1, 7, "count", .none = "-", .zero = true)},
    {"failed", FIELD_COUNT, FIELD_AT(struct layer_line, failed),
     .column = FIELD_COLUMN(3, 1, 7, "failed", .none = "-", .zero = true)},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct layer_line, seconds), .column = FIELD_COLUMN(4, 2, 10, "time")},
    {0}};

static int by_seconds(double left, double right)
{
    return left < right ? 1 : left > right ? -1 : 0;
}

static int by_script(const void *a, const void *b)
{
    const struct layer_script *left = *(struct layer_script *const *)a, *right = *(struct layer_script *const *)b;
    int order = by_seconds(left->seconds, right->seconds);
    return order ? order : strcmp(left->file, right->file);
}

static int by_script_line(const void *a, const void *b)
{
    const struct layer_line *left = *(struct layer_line *const *)a, *right = *(struct layer_line *const *)b;
    int order = by_seconds(left->seconds, right->seconds);
    return order ? order : strcmp(left->key, right->key);
}

static void put_script_line(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct layer_line *line = row;
    text_show(out, text_base(line->file ? line->file : "?"));
    if (line->line >= 0)
        buf_printf(out, ":%lld", (long long)line->line);
}

static const struct field shown_script_line_fields[] = {
    {"", FIELD_PART, .of = script_line_fields},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(1, 2, -24, "Lines of scripts", .text = put_script_line)},
    {0}};

static void put_scripts(struct buf *out, const struct layers *layers)
{
    size_t count;
    _cleanup_(freep) const struct layer_script **scripts = SORTED(layers->scripts, &count, by_script);
    fields_table(out, &(struct field_table){script_fields, .most = SHOWN_SCRIPTS, .more = " (--json lists them)"},
                 scripts, count, 0, layers);
    _cleanup_(freep) const struct layer_line **lines = SORTED(layers->lines, &count, by_script_line);
    fields_table(out,
                 &(struct field_table){shown_script_line_fields, .most = SHOWN_SCRIPT_LINES, .more = " with less time"},
                 lines, count, 0, layers);
}

/* ---- what Python did ---- */

static const struct field python_function_fields[] = {
    {"function", FIELD_TEXT, FIELD_AT(struct layer_function, function),
     .column = FIELD_COLUMN(1, 2, -28, "Functions of Python")},
    {"file", FIELD_TEXT, FIELD_AT(struct layer_function, file)},
    {"line", FIELD_INTEGER, FIELD_AT(struct layer_function, line), FIELD_NEGATIVE_IS_NULL},
    {"calls", FIELD_COUNT, FIELD_AT(struct layer_function, calls), .column = FIELD_COLUMN(2, 1, 10, "calls")},
    {"total_ns", FIELD_NS, FIELD_AT(struct layer_function, total_ns), .column = FIELD_COLUMN(3, 1, 10, "total")},
    {"self_ns", FIELD_NS, FIELD_AT(struct layer_function, self_ns), .column = FIELD_COLUMN(4, 1, 10, "self")},
    {0}};

static int by_self(const void *a, const void *b)
{
    const struct layer_function *left = *(struct layer_function *const *)a, *right = *(struct layer_function *const *)b;
    if (left->self_ns != right->self_ns)
        return left->self_ns < right->self_ns ? 1 : -1;
    return strcmp(left->key, right->key);
}

static void put_python_function(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct layer_function *function = row;
    if (function->file && *function->file) {
        text_show(out, text_base(function->file));
        buf_printf(out, ":%lld", (long long)function->line);
    }
}

static const struct field shown_python_function_fields[] = {
    {"", FIELD_PART, .of = python_function_fields},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(5, 2, 0, "at", .text = put_python_function)},
    {0}};

static void put_python(struct buf *out, const struct layers *layers)
{
    size_t count;
    _cleanup_(freep) const struct layer_function **functions = SORTED(layers->python, &count, by_self);
    fields_table(out,
                 &(struct field_table){shown_python_function_fields, .most = SHOWN_FUNCTIONS,
                                       .more = " with less time of their own"},
                 functions, count, 0, layers);
}

void scripts_text(struct buf *out, const struct layers *layers)
{
    put_scripts(out, layers);
    put_records(out, "Commands of scripts that failed", &layers->failures, SHOWN_FAILURES);
    put_records(out, "Exceptions of Python that nothing caught", &layers->uncaught, SHOWN_FAILURES);
    put_records(out, "Exceptions of Python that were caught", &layers->caught, SHOWN_FAILURES);
    put_python(out, layers);
}

static json_t *scripts_json(const void *row, const void *all)
{
    return SORTED_JSON(((const struct layers *)row)->scripts, by_script, script_fields);
}

static json_t *script_lines_json(const void *row, const void *all)
{
    return SORTED_JSON(((const struct layers *)row)->lines, by_script_line, script_line_fields);
}

json_t *scripts_python_functions(const struct layers *layers)
{
    return SORTED_JSON(layers->python, by_self, python_function_fields);
}

static json_t *python_functions_json(const void *row, const void *all)
{
    return scripts_python_functions(row);
}

static json_t *failures_json(const void *row, const void *all)
{
    return records_json(&((const struct layers *)row)->failures);
}

static json_t *uncaught_json(const void *row, const void *all)
{
    return records_json(&((const struct layers *)row)->uncaught);
}

static json_t *caught_json(const void *row, const void *all)
{
    return records_json(&((const struct layers *)row)->caught);
}

/* Where each process was, as it was seen last. */
static json_t *places_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct layer_place *place = ((const struct layers *)row)->places; place; place = place->hh.next)
        if (place->line)
            json_array_append(list, place->line);
    struct layer_list last = {.records = list};
    json_t *copy = records_json(&last);
    json_decref(list);
    return copy;
}

const struct field scripts_fields[] = {
    {"files", FIELD_LIST, .json = scripts_json, .of = script_fields, .about = "scripts that ended, of most time first"},
    {"lines", FIELD_LIST, .json = script_lines_json, .of = script_line_fields,
     .about = "of all runs together, of most time first"},
    {"places", FIELD_LIST, .json = places_json, .about = "where each process was seen last: records script_line"},
    {"failed_commands", FIELD_LIST, .json = failures_json, .about = "the last ones: records command_failed"},
    {"failed_commands_total", FIELD_COUNT, FIELD_AT(struct layers, failures.total)},
    {"exceptions", FIELD_LIST, .json = uncaught_json,
     .about = "that nothing caught, the last ones: records python_exception"},
    {"exceptions_total", FIELD_COUNT, FIELD_AT(struct layers, uncaught.total)},
    {"caught", FIELD_LIST, .json = caught_json, .about = "exceptions that were caught, the last ones"},
    {"caught_total", FIELD_COUNT, FIELD_AT(struct layers, caught.total)},
    {"python_functions", FIELD_LIST, .json = python_functions_json, .of = python_function_fields,
     .about = "of most time of their own first"},
    {"python_calls", FIELD_COUNT, FIELD_AT(struct layers, python_calls)},
    {0}};

/* ---- logs: lines that matched, counted and the last ones; progress; what became of the files ---- */

static const char *level_name(uint32_t level)
{
    return line_level_name((enum line_level)level);
}

static const struct field pattern_fields[] = {
    {"pattern", FIELD_TEXT, FIELD_AT(struct layer_pattern, pattern),
     .column = FIELD_COLUMN(1, 2, -28, "Patterns of logs")},
    {"level", FIELD_CHOICE, FIELD_NAMED(struct layer_pattern, level, level_name), .choices = "error|warning|info|debug",
     .column = FIELD_COLUMN(2, 2, -8, "level")},
    {"lines", FIELD_COUNT, FIELD_AT(struct layer_pattern, lines), .about = "that matched, also those not listed",
     .column = FIELD_COLUMN(3, 1, 9, "lines")},
    {"last_seconds", FIELD_SECONDS, FIELD_AT(struct layer_pattern, last), .about = "when the last one was seen",
     .column = FIELD_COLUMN(4, 2, 10, "last at")},
    {0}};

/* The level, then the number of lines. */
static int by_lines(const void *a, const void *b)
{
    const struct layer_pattern *left = *(struct layer_pattern *const *)a, *right = *(struct layer_pattern *const *)b;
    if (left->level != right->level)
        return left->level < right->level ? -1 : 1;
    if (left->lines != right->lines)
        return left->lines < right->lines ? 1 : -1;
    return strcmp(left->pattern, right->pattern);
}

static void put_lasts(struct buf *out, const char *title, const struct layer_last *list)
{
    if (list)
        buf_printf(out, "\n%s\n", title);
    for (; list; list = list->hh.next) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        record_text(&text, list->record);
        buf_puts(out, "  ");
        text_show(out, text.data ? text.data : "?");
        buf_putc(out, '\n');
    }
}

void metric_put_last(struct buf *out, const struct layer_metric *metric, int digits)
{
    if (metric->undefined_since < 0) {
        buf_printf(out, "%.*g", digits, metric->value);
        return;
    }
    buf_puts(out, "nan, seen since ");
    text_seconds(out, metric->undefined_since);
}

bool metrics_brief_text(struct buf *out, const struct layers *layers)
{
    enum { SHOWN = 4 };
    const struct layer_metric *metric = layers->metrics;
    size_t count = HASH_COUNT(metric);
    for (size_t i = 0; i < SHOWN && metric; i++, metric = metric->hh.next) {
        buf_puts(out, i ? ", " : "");
        text_show(out, metric->name);
        buf_putc(out, ' ');
        metric_put_last(out, metric, 4);
        if (metric->most > metric->least)
            buf_printf(out, " (from %.4g to %.4g)", metric->least, metric->most);
    }
    if (count > SHOWN)
        buf_printf(out, " and %zu more", count - SHOWN);
    return count;
}

/* From its least value up, whatever that is. */
static void put_metrics(struct buf *out, const struct layers *layers, bool ascii)
{
    if (layers->metrics)
        buf_puts(out, "\nMetrics\n");
    for (const struct layer_metric *metric = layers->metrics; metric; metric = metric->hh.next) {
        struct series course = {0};
        double begin = metric->points[0].seconds;
        for (size_t i = 0; i < metric->used; i++)
            series_add_from(&course, i ? metric->points[i - 1].seconds - begin : -1, metric->points[i].seconds - begin,
                            metric->points[i].value - metric->least);
        size_t columns = course.used < SPARK_COLUMNS ? course.used : SPARK_COLUMNS;
        buf_puts(out, "  ");
        text_show(out, metric->name);
        buf_printf(out, "%*s ",
                   (int)(strlen(metric->name) < METRIC_COLUMNS ? METRIC_COLUMNS - strlen(metric->name) : 0), "");
        if (columns >= SPARK_WINDOWS && metric->most > metric->least) {
            series_sparkline(&course, out, columns, 0, ascii);
            buf_putc(out, ' ');
        }
        series_done(&course);
        metric_put_last(out, metric, 6);
        if (metric->most > metric->least)
            buf_printf(out, ", from %.6g to %.6g", metric->least, metric->most);
        buf_putc(out, '\n');
    }
}

/* Those that are not among the errors, which stand above. */
static void put_other_lines(struct buf *out, const struct layers *layers)
{
    struct layer_list others = {.records = json_array(),
                                .total = layers->levels[LINE_WARNING] + layers->levels[LINE_INFO] +
                                         layers->levels[LINE_DEBUG]};
    size_t index;
    json_t *record;
    json_array_foreach(layers->logs.records, index, record)
    {
        if (line_level_of(member_string(record, "level")) != LINE_ERROR)
            json_array_append(others.records, record);
    }
    put_records(out, "Other lines of logs", &others, SHOWN_LOG_LINES);
    json_decref(others.records);
}

void logs_text(struct buf *out, const struct layers *layers, bool ascii)
{
    size_t count;
    _cleanup_(freep) const struct layer_pattern **patterns = SORTED(layers->patterns, &count, by_lines);
    fields_table(out, &(struct field_table){pattern_fields, .most = SHOWN_PATTERNS, .more = " (--json lists them)"},
                 patterns, count, 0, layers);
    put_records(out, "Errors in logs", &layers->errors, SHOWN_ERRORS);
    put_other_lines(out, layers);
    put_lasts(out, "Progress", layers->progress);
    put_metrics(out, layers, ascii);
    put_lasts(out, "Log files", layers->log_files);
}

static json_t *patterns_json(const void *row, const void *all)
{
    return SORTED_JSON(((const struct layers *)row)->patterns, by_lines, pattern_fields);
}

static json_t *log_lines_json(const void *row, const void *all)
{
    return records_json(&((const struct layers *)row)->logs);
}

static json_t *log_errors_json(const void *row, const void *all)
{
    return records_json(&((const struct layers *)row)->errors);
}

static json_t *lasts_json(const struct layer_last *last)
{
    json_t *list = json_array();
    for (; last; last = last->hh.next)
        json_array_append(list, last->record);
    struct layer_list all = {.records = list};
    json_t *copy = records_json(&all);
    json_decref(list);
    return copy;
}

static json_t *log_files_json(const void *row, const void *all)
{
    return lasts_json(((const struct layers *)row)->log_files);
}

static json_t *progress_json(const void *row, const void *all)
{
    return lasts_json(((const struct layers *)row)->progress);
}

/* Of its values, if there was one yet. */
static json_t *metric_number(const struct layer_metric *metric, double number)
{
    return metric->used ? json_real(number) : json_null();
}

static json_t *metric_value_json(const void *row, const void *all)
{
    return metric_number(row, ((const struct layer_metric *)row)->value);
}

static json_t *metric_least_json(const void *row, const void *all)
{
    return metric_number(row, ((const struct layer_metric *)row)->least);
}

static json_t *metric_most_json(const void *row, const void *all)
{
    return metric_number(row, ((const struct layer_metric *)row)->most);
}

static json_t *metric_since_json(const void *row, const void *all)
{
    double since = ((const struct layer_metric *)row)->undefined_since;
    return since < 0 ? json_null() : json_real(since);
}

static json_t *metric_course_json(const void *row, const void *all)
{
    const struct layer_metric *metric = row;
    json_t *seconds = json_array(), *values = json_array();
    for (size_t i = 0; i < metric->used; i++) {
        json_array_append_new(seconds, json_real(metric->points[i].seconds));
        json_array_append_new(values, json_real(metric->points[i].value));
    }
    return json_pack("{s:o, s:o}", "seconds", seconds, "values", values);
}

static const struct field metric_course_fields[] = {
    {"seconds", FIELD_LIST, .of = fields_numbers}, {"values", FIELD_LIST, .of = fields_numbers}, {0}};

static const struct field metric_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct layer_metric, name)},
    {"value", FIELD_NUMBER, .json = metric_value_json, .flags = FIELD_OR_NULL,
     .about = "the last number; null: there was none yet"},
    {"least", FIELD_NUMBER, .json = metric_least_json, .flags = FIELD_OR_NULL},
    {"most", FIELD_NUMBER, .json = metric_most_json, .flags = FIELD_OR_NULL},
    {"values", FIELD_COUNT, FIELD_AT(struct layer_metric, values), .about = "that were looked at"},
    {"undefined", FIELD_COUNT, FIELD_AT(struct layer_metric, undefined),
     .about = "so often it was not a number, or infinite"},
    {"undefined_since_seconds", FIELD_SECONDS, .json = metric_since_json, .flags = FIELD_OR_NULL,
     .about = "since when it has been nothing else; null: the last one was a number"},
    {"last_seconds", FIELD_SECONDS, FIELD_AT(struct layer_metric, seconds), .about = "when the last one was seen"},
    {"course", FIELD_OBJECT, .json = metric_course_json, .of = metric_course_fields,
     .about = "at most 240 of the values, and when they were said"},
    {0}};

static json_t *metrics_list(const struct layers *layers, const struct field *fields)
{
    json_t *list = json_array();
    for (const struct layer_metric *metric = layers->metrics; metric; metric = metric->hh.next)
        json_array_append_new(list, fields_json(fields, metric, NULL));
    return list;
}

static json_t *metrics_json(const void *row, const void *all)
{
    return metrics_list(row, metric_fields);
}

static const struct field metric_brief_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct layer_metric, name)},
    {"value", FIELD_NUMBER, .json = metric_value_json, .flags = FIELD_OR_NULL,
     .about = "the last number; null: there was none yet"},
    {"undefined_since_seconds", FIELD_SECONDS, .json = metric_since_json, .flags = FIELD_OR_NULL,
     .about = "since when it has been nan or infinite; null: the last one was a number"},
    {"last_seconds", FIELD_SECONDS, FIELD_AT(struct layer_metric, seconds), .about = "when the last one was seen"},
    {0}};

static json_t *metrics_brief_json(const void *row, const void *all)
{
    return metrics_list(row, metric_brief_fields);
}

const struct field metrics_brief_fields[] = {
    {"metrics", FIELD_LIST, .json = metrics_brief_json, .of = metric_brief_fields,
     .about = "numbers that were said again and again, such as a loss; *scry report* has their course"},
    {0}};

const struct field logs_fields[] = {
    {"error_lines", FIELD_COUNT, FIELD_AT(struct layers, levels[LINE_ERROR]),
     .about = "lines that matched a pattern of this level"},
    {"warning_lines", FIELD_COUNT, FIELD_AT(struct layers, levels[LINE_WARNING])},
    {"info_lines", FIELD_COUNT, FIELD_AT(struct layers, levels[LINE_INFO])},
    {"debug_lines", FIELD_COUNT, FIELD_AT(struct layers, levels[LINE_DEBUG])},
    {"patterns", FIELD_LIST, .json = patterns_json, .of = pattern_fields},
    {"errors", FIELD_LIST, .json = log_errors_json, .about = "the last ones: records log"},
    {"lines", FIELD_LIST, .json = log_lines_json, .about = "the last ones of any level: records log"},
    {"progress", FIELD_LIST, .json = progress_json, .about = "of each source the last: records progress"},
    {"metrics", FIELD_LIST, .json = metrics_json, .of = metric_fields,
     .about = "numbers that were said again and again, such as a loss"},
    {"files", FIELD_LIST, .json = log_files_json, .about = "what became of each last: records log_file"},
    {0}};

/* ---- health of the node: curves ---- */

/* How its values look, and what is not worth a line. */
static const struct {
    enum layer_curve curve;
    const char *name, *label;
    enum { AS_SHARE, AS_SIZE, AS_RATE } as;
    double least;
} curves[] = {
    {CURVE_CPU, "cpu", "processors busy", AS_SHARE, 0},
    {CURVE_IOWAIT, "iowait", "waiting for disks", AS_SHARE, 0.05},
    {CURVE_STEAL, "steal", "taken by other guests", AS_SHARE, 0.02},
    {CURVE_MEMORY, "memory", "memory used", AS_SHARE, 0},
    {CURVE_CGROUP_MEMORY, "cgroup_memory", "memory of the limit", AS_SHARE, 0},
    {CURVE_SWAP, "swap_bytes", "swap used", AS_SIZE, 1},
    {CURVE_PRESSURE_CPU, "pressure_cpu", "tasks short of CPU", AS_SHARE, 0.05},
    {CURVE_PRESSURE_MEMORY, "pressure_memory", "tasks short of memory", AS_SHARE, 0.01},
    {CURVE_PRESSURE_IO, "pressure_io", "tasks short of disks", AS_SHARE, 0.05},
    {CURVE_DISK_READ, "disk_read_bytes", "disks read", AS_RATE, 1 << 20},
    {CURVE_DISK_WRITTEN, "disk_written_bytes", "disks written", AS_RATE, 1 << 20},
    {CURVE_RECEIVED, "received_bytes", "network received", AS_RATE, 1 << 20},
    {CURVE_SENT, "sent_bytes", "network sent", AS_RATE, 1 << 20},
};
enum { CURVES = sizeof curves / sizeof *curves };
_Static_assert((int)CURVES == (int)LAYER_CURVES, "each curve has a row");

static void put_curves(struct buf *out, const struct layers *layers, bool ascii)
{
    for (size_t i = 0; i < CURVES && layers->curves; i++) {
        const struct series *series = &layers->curves[curves[i].curve];
        double most = series_max(series);
        size_t columns = series->used < SPARK_COLUMNS ? series->used : SPARK_COLUMNS;
        if (!series->used || most < curves[i].least)
            continue;
        buf_printf(out, "  %-22s ", curves[i].label);
        if (columns >= SPARK_WINDOWS) {
            series_sparkline(series, out, columns, curves[i].as == AS_SHARE ? 1 : 0, ascii);
            buf_putc(out, ' ');
        }
        buf_puts(out, "up to ");
        if (curves[i].as == AS_SHARE)
            buf_printf(out, "%.0f %%", 100 * most);
        else
            text_size(out, (uint64_t)number_min(most, 1e18));
        buf_puts(out, curves[i].as == AS_RATE ? "/s\n" : "\n");
    }
}

/* ---- health of the node: file systems ---- */

static const struct field filesystem_fields[] = {
    {"path", FIELD_TEXT, FIELD_AT(struct layer_filesystem, path), .column = FIELD_COLUMN(1, 2, -28, "File systems")},
    {"total_bytes", FIELD_BYTES, FIELD_AT(struct layer_filesystem, total_bytes), FIELD_NEGATIVE_IS_NULL,
     .column = FIELD_COLUMN(2, 1, 10, "size", .none = "?")},
    {"least_free_bytes", FIELD_BYTES, FIELD_AT(struct layer_filesystem, least_free_bytes), FIELD_NEGATIVE_IS_NULL,
     .column = FIELD_COLUMN(3, 1, 11, "least free", .none = "?")},
    {"least_free_at", FIELD_SECONDS, FIELD_AT(struct layer_filesystem, least_at), .about = "when that was"},
    {"free_bytes", FIELD_BYTES, FIELD_AT(struct layer_filesystem, free_bytes), FIELD_NEGATIVE_IS_NULL,
     .about = "as last seen", .column = FIELD_COLUMN(4, 1, 10, "at last", .none = "?")},
    {"inodes", FIELD_INTEGER, FIELD_AT(struct layer_filesystem, inodes), FIELD_NEGATIVE_IS_NULL},
    {"least_free_inodes", FIELD_INTEGER, FIELD_AT(struct layer_filesystem, least_free_inodes), FIELD_NEGATIVE_IS_NULL},
    {"free_inodes", FIELD_INTEGER, FIELD_AT(struct layer_filesystem, free_inodes), FIELD_NEGATIVE_IS_NULL},
    {0}};

static double free_share(const struct layer_filesystem *system)
{
    return system->total_bytes > 0 ? (double)system->least_free_bytes / (double)system->total_bytes : 1;
}

static int by_free(const void *a, const void *b)
{
    const struct layer_filesystem *left = *(struct layer_filesystem *const *)a,
                                  *right = *(struct layer_filesystem *const *)b;
    double left_share = free_share(left), right_share = free_share(right);
    if (left_share != right_share)
        return left_share < right_share ? -1 : 1;
    return strcmp(left->path, right->path);
}

void health_text(struct buf *out, const struct layers *layers, bool ascii)
{
    size_t count;
    if (!layers->health)
        return;
    buf_puts(out, "\nHealth of the node\n");
    put_curves(out, layers, ascii);
    _cleanup_(freep) const struct layer_filesystem **systems = SORTED(layers->filesystems, &count, by_free);
    fields_table(out,
                 &(struct field_table){filesystem_fields, .most = SHOWN_FILESYSTEMS, .more = " (--json lists them)"},
                 systems, count, 0, layers);
}

static json_t *windows_json(const struct series *series)
{
    json_t *list = json_array();
    for (size_t i = 0; i < series->used; i++)
        json_array_append_new(list, series->max[i] >= 0 ? json_real(series->max[i]) : json_null());
    return list;
}

static json_t *curves_json(const void *row, const void *all)
{
    const struct layers *layers = row;
    json_t *list = json_array();
    for (size_t i = 0; i < CURVES && layers->curves; i++) {
        const struct series *series = &layers->curves[curves[i].curve];
        if (series->used)
            json_array_append_new(list,
                                  json_pack("{s:s, s:f, s:f, s:o}", "name", curves[i].name, "most", series_max(series),
                                            "window_seconds", series->width_seconds, "max", windows_json(series)));
    }
    return list;
}

static const struct field curve_fields[] = {
    {"name", FIELD_CHOICE,
     .choices = "cpu|iowait|steal|memory|cgroup_memory|swap_bytes|pressure_cpu|pressure_memory|pressure_io|"
                "disk_read_bytes|disk_written_bytes|received_bytes|sent_bytes"},
    {"most", FIELD_NUMBER, .about = "the greatest value; shares are from 0 to 1, of disks and network bytes a second"},
    {"window_seconds", FIELD_NUMBER},
    {"max", FIELD_LIST, .of = fields_numbers, .about = "the greatest value in each window; null: not measured"},
    {0}};

static json_t *filesystems_json(const void *row, const void *all)
{
    return SORTED_JSON(((const struct layers *)row)->filesystems, by_free, filesystem_fields);
}

const struct field health_fields[] = {
    {"curves", FIELD_LIST, .json = curves_json, .of = curve_fields, .about = "that were measured"},
    {"filesystems", FIELD_LIST, .json = filesystems_json, .of = filesystem_fields,
     .about = "with the least left first"},
    {"oom_kills", FIELD_COUNT, FIELD_AT(struct layers, oom_kills),
     .about = "processes of the control group that the kernel killed for lack of memory"},
    {0}};
