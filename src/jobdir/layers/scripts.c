/* SPDX-License-Identifier: Apache-2.0 */
/* Section of a report: scripts, their lines by time, commands that failed, and what Python did. */
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/sections.h"
#include "jobdir/text/text.h"

enum { SHOWN_SCRIPTS = 10, SHOWN_LINES = 20, SHOWN_FAILURES = 10, SHOWN_FUNCTIONS = 15 };

/* ---- scripts and their lines ---- */

static const struct field script_fields[] = {
    {"file", FIELD_TEXT, FIELD_AT(struct layer_script, file), .column = {1, 2, -40, "Scripts that ended"}},
    {"count", FIELD_COUNT, FIELD_AT(struct layer_script, count), .about = "processes that ran it and ended",
     .column = {2, 1, 7, "count"}},
    {"failed", FIELD_COUNT, FIELD_AT(struct layer_script, failed), .column = {3, 1, 7, "failed"}},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct layer_script, seconds), .column = {4, 2, 10, "time"}},
    {0}};

static const struct field line_fields[] = {
    {"file", FIELD_TEXT, FIELD_AT(struct layer_line, file)},
    {"line", FIELD_INTEGER, FIELD_AT(struct layer_line, line), FIELD_NEGATIVE_IS_NULL},
    {"command", FIELD_TEXT, FIELD_AT(struct layer_line, command), FIELD_OR_NULL,
     .about = "as it is written, not expanded; null: not known", .column = {5, 2, 0, "command", .none = "?"}},
    {"count", FIELD_COUNT, FIELD_AT(struct layer_line, count), .about = "0: not counted, it was only seen",
     .column = {2, 1, 7, "count", .none = "-", .zero = true}},
    {"failed", FIELD_COUNT, FIELD_AT(struct layer_line, failed),
     .column = {3, 1, 7, "failed", .none = "-", .zero = true}},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct layer_line, seconds), .column = {4, 2, 10, "time"}},
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

static int by_line(const void *a, const void *b)
{
    const struct layer_line *left = *(struct layer_line *const *)a, *right = *(struct layer_line *const *)b;
    int order = by_seconds(left->seconds, right->seconds);
    return order ? order : strcmp(left->key, right->key);
}

static void put_line(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct layer_line *line = row;
    text_show(out, text_base(line->file ? line->file : "?"));
    if (line->line >= 0)
        buf_printf(out, ":%lld", (long long)line->line);
}

static const struct field shown_line_fields[] = {
    {"", FIELD_PART, .of = line_fields},
    {.type = FIELD_SHOWN, .column = {1, 2, -24, "Lines of scripts", .text = put_line}},
    {0}};

static void put_scripts(struct buf *out, const struct layers *layers)
{
    size_t count;
    _cleanup_(freep) const struct layer_script **scripts = SORTED(layers->scripts, &count, by_script);
    fields_table(out, &(struct field_table){script_fields, .most = SHOWN_SCRIPTS, .more = " (--json lists them)"},
                 scripts, count, 0, layers);
    _cleanup_(freep) const struct layer_line **lines = SORTED(layers->lines, &count, by_line);
    fields_table(out, &(struct field_table){shown_line_fields, .most = SHOWN_LINES, .more = " with less time"}, lines,
                 count, 0, layers);
}

/* ---- Python ---- */

static const struct field function_fields[] = {
    {"function", FIELD_TEXT, FIELD_AT(struct layer_function, function), .column = {1, 2, -28, "Functions of Python"}},
    {"file", FIELD_TEXT, FIELD_AT(struct layer_function, file)},
    {"line", FIELD_INTEGER, FIELD_AT(struct layer_function, line), FIELD_NEGATIVE_IS_NULL},
    {"calls", FIELD_COUNT, FIELD_AT(struct layer_function, calls), .column = {2, 1, 10, "calls"}},
    {"total_ns", FIELD_NS, FIELD_AT(struct layer_function, total_ns), .column = {3, 1, 10, "total"}},
    {"self_ns", FIELD_NS, FIELD_AT(struct layer_function, self_ns), .column = {4, 1, 10, "self"}},
    {0}};

static int by_self(const void *a, const void *b)
{
    const struct layer_function *left = *(struct layer_function *const *)a, *right = *(struct layer_function *const *)b;
    if (left->self_ns != right->self_ns)
        return left->self_ns < right->self_ns ? 1 : -1;
    return strcmp(left->key, right->key);
}

static void put_function(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct layer_function *function = row;
    if (function->file && *function->file) {
        text_show(out, text_base(function->file));
        buf_printf(out, ":%lld", (long long)function->line);
    }
}

static const struct field shown_function_fields[] = {
    {"", FIELD_PART, .of = function_fields},
    {.type = FIELD_SHOWN, .column = {5, 2, 0, "at", .text = put_function}},
    {0}};

static void put_python(struct buf *out, const struct layers *layers)
{
    size_t count;
    _cleanup_(freep) const struct layer_function **functions = SORTED(layers->python, &count, by_self);
    fields_table(
        out,
        &(struct field_table){shown_function_fields, .most = SHOWN_FUNCTIONS, .more = " with less time of their own"},
        functions, count, 0, layers);
}

void scripts_text(struct buf *out, const struct layers *layers)
{
    put_scripts(out, layers);
    sections_put_records(out, "Commands of scripts that failed", &layers->failures, SHOWN_FAILURES);
    sections_put_records(out, "Exceptions of Python that nothing caught", &layers->uncaught, SHOWN_FAILURES);
    sections_put_records(out, "Exceptions of Python that were caught", &layers->caught, SHOWN_FAILURES);
    put_python(out, layers);
}

/* ---- for programs ---- */

static json_t *files_json(const void *row, const void *all)
{
    return SORTED_JSON(((const struct layers *)row)->scripts, by_script, script_fields);
}

static json_t *lines_json(const void *row, const void *all)
{
    return SORTED_JSON(((const struct layers *)row)->lines, by_line, line_fields);
}

json_t *scripts_python_functions(const struct layers *layers)
{
    return SORTED_JSON(layers->python, by_self, function_fields);
}

static json_t *functions_json(const void *row, const void *all)
{
    return scripts_python_functions(row);
}

static json_t *failures_json(const void *row, const void *all)
{
    return sections_records(&((const struct layers *)row)->failures);
}

static json_t *uncaught_json(const void *row, const void *all)
{
    return sections_records(&((const struct layers *)row)->uncaught);
}

static json_t *caught_json(const void *row, const void *all)
{
    return sections_records(&((const struct layers *)row)->caught);
}

/* Where each process was, as it was seen last. */
static json_t *places_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct layer_place *place = ((const struct layers *)row)->places; place; place = place->hh.next)
        if (place->line)
            json_array_append(list, place->line);
    struct layer_list last = {.records = list};
    json_t *copy = sections_records(&last);
    json_decref(list);
    return copy;
}

const struct field scripts_fields[] = {
    {"files", FIELD_LIST, .json = files_json, .of = script_fields, .about = "scripts that ended, of most time first"},
    {"lines", FIELD_LIST, .json = lines_json, .of = line_fields, .about = "of all runs together, of most time first"},
    {"places", FIELD_LIST, .json = places_json, .about = "where each process was seen last: records script_line"},
    {"failed_commands", FIELD_LIST, .json = failures_json, .about = "the last ones: records command_failed"},
    {"failed_commands_total", FIELD_COUNT, FIELD_AT(struct layers, failures.total)},
    {"exceptions", FIELD_LIST, .json = uncaught_json,
     .about = "that nothing caught, the last ones: records python_exception"},
    {"exceptions_total", FIELD_COUNT, FIELD_AT(struct layers, uncaught.total)},
    {"caught", FIELD_LIST, .json = caught_json, .about = "exceptions that were caught, the last ones"},
    {"caught_total", FIELD_COUNT, FIELD_AT(struct layers, caught.total)},
    {"python_functions", FIELD_LIST, .json = functions_json, .of = function_fields,
     .about = "of most time of their own first"},
    {"python_calls", FIELD_COUNT, FIELD_AT(struct layers, python_calls)},
    {0}};
