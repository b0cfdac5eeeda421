/* SPDX-License-Identifier: Apache-2.0 */
/* scry top, for programs: doc/reference/top.schema.json. */
#include "cli/top/json.h"

#include "cli/common/now.h"
#include "cli/common/parts.h"
#include "jobdir/text/text.h"

struct row {
    const struct rank_list *ranks;
    const struct top_functions *functions;
    const char *id, *status;
    double wall_seconds;
    const struct job_model *model;
    const struct job_report *report;
    struct now now;
};

static const struct field tree_fields[] = {
    {"processes", FIELD_COUNT, FIELD_AT(struct parts_now, processes)},
    {"threads", FIELD_COUNT, FIELD_AT(struct parts_now, threads)},
    {"rss_bytes", FIELD_BYTES, FIELD_AT(struct parts_now, rss)},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct parts_now, cpu_ns)},
    {"cpu_share", FIELD_NUMBER, FIELD_AT(struct parts_now, cpu_share), .about = "processors in use"},
    {0}};

static json_t *tree_json(const void *row, const void *all)
{
    const struct parts_now now = parts_sum(((const struct row *)row)->report);
    return fields_json(tree_fields, &now, NULL);
}

struct silent_node {
    const char *node;
    double seconds;
};
static const struct field silent_fields[] = {
    {"node", FIELD_TEXT, FIELD_AT(struct silent_node, node)},
    {"seconds", FIELD_NUMBER, FIELD_AT(struct silent_node, seconds), .about = "since its last record"},
    {0}};

static json_t *silent_json(const void *row, const void *all)
{
    const struct job_report *report = ((const struct row *)row)->report;
    json_t *list = json_array();
    for (size_t i = 0; i < report->part_count; i++) {
        const struct silent_node node = {report->parts[i].model.part, parts_silent_seconds(report, &report->parts[i])};
        if (node.seconds > 0)
            json_array_append_new(list, fields_json(silent_fields, &node, NULL));
    }
    return list;
}

static const struct field tree_field[] = {
    {"tree", FIELD_OBJECT, .json = tree_json, .of = tree_fields,
     .about = "all living processes together, on all nodes of the job"},
    {"silent", FIELD_LIST, .json = silent_json, .of = silent_fields,
     .about = "nodes of the job of which nothing is heard: what is said of them is as they last were"},
    {0}};

static const struct field model_fields[] = {{"node", FIELD_OBJECT, FIELD_AT(struct job_model, node_sample),
                                             FIELD_OR_NULL, .about = "the node's last sample; null: none yet"},
                                            {0}};

static json_t *least_json(const void *row, const void *all)
{
    const struct top_function *each = row;
    return each->min_ns <= each->max_ns ? json_integer((json_int_t)each->min_ns) : json_null();
}

static json_t *most_json(const void *row, const void *all)
{
    const struct top_function *each = row;
    return each->min_ns <= each->max_ns ? json_integer((json_int_t)each->max_ns) : json_null();
}

static bool is_wide(const void *all)
{
    return !((const struct top_functions_view *)all)->narrow;
}

static void put_share(struct buf *out, const void *at, const void *row, const void *all)
{
    uint64_t whole_ns = ((const struct top_functions_view *)all)->functions->self_ns;
    buf_printf(out, "%.1f",
               whole_ns ? 100.0 * (double)((const struct top_function *)row)->self_ns / (double)whole_ns : 0);
}

/* The longest is not known while none has ended. */
static void put_time(struct buf *out, const void *at, const void *row, const void *all)
{
    uint64_t ns = *(const uint64_t *)at;
    if (ns || at != &((const struct top_function *)row)->max_ns)
        text_seconds(out, (double)ns / 1e9);
    else
        buf_putc(out, '-');
}

static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct top_function *function = row;
    text_show(out, function->name);
    if (!function->line)
        return;
    buf_puts(out, "  ");
    text_show(out, text_base(function->file));
    buf_printf(out, ":%llu", (unsigned long long)function->line);
}

const struct field top_function_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct top_function, name), .column = {6, 2, 0, "FUNCTION", .text = put_name}},
    {"file", FIELD_TEXT, FIELD_AT(struct top_function, file)},
    {"line", FIELD_COUNT, FIELD_AT(struct top_function, line)},
    {"calls", FIELD_COUNT, FIELD_AT(struct top_function, calls), .column = {5, 1, 11, "CALLS"}},
    {"total_ns", FIELD_NS, FIELD_AT(struct top_function, total_ns),
     .column = {3, 1, 11, "TOTAL", .when = is_wide, .text = put_time}},
    {"self_ns", FIELD_NS, FIELD_AT(struct top_function, self_ns),
     .column = {2, 1, 11, "SELF", .when = is_wide, .text = put_time}},
    {"min_ns", FIELD_NS, .flags = FIELD_OR_NULL, .json = least_json, .about = "null: calls were only counted"},
    {"max_ns", FIELD_NS, .flags = FIELD_OR_NULL, .json = most_json},
    {.type = FIELD_SHOWN, .column = {1, 0, 7, " SELF %", .text = put_share}},
    {.type = FIELD_SHOWN,
     FIELD_AT(struct top_function, max_ns),
     .column = {4, 1, 11, "LONGEST", .when = is_wide, .text = put_time}},
    {0}};

static json_t *processes_json(const void *row, const void *all)
{
    json_t *list = json_array();
    const struct job_report *report = ((const struct row *)row)->report;
    for (size_t i = 0; i <= report->part_count; i++)
        for (const struct job_process *each = job_report_model(report, i)->alive; each; each = each->hh.next)
            json_array_append_new(list, fields_json(job_process_fields, each, NULL));
    return list;
}

static const struct field ranks_list[] = {{"ranks", FIELD_LIST, FIELD_ROWS(struct rank_list, list, count),
                                           .of = ranks_fields, .about = "of its MPI programs"},
                                          {0}};

static const struct field functions_list[] = {
    {"functions", FIELD_LIST, FIELD_ROWS(struct top_functions, list, count), .of = top_function_fields,
     .about = "traced functions of living processes, most time of their own first"},
    {0}};

static const struct field fields[] = {
    {"id", FIELD_TEXT, FIELD_AT(struct row, id)},
    {"status", FIELD_TEXT, FIELD_AT(struct row, status), .about = "as in report.schema.json"},
    {"wall_seconds", FIELD_SECONDS, FIELD_AT(struct row, wall_seconds)},
    {"", FIELD_PART, .of = tree_field},
    {"", FIELD_PART, FIELD_AT(struct row, model), FIELD_POINTER, .of = model_fields},
    {"", FIELD_PART, FIELD_AT(struct row, now), .of = now_fields},
    {"processes", FIELD_LIST, .json = processes_json, .of = job_process_fields, .about = "those that live"},
    {"", FIELD_PART, FIELD_AT(struct row, ranks), FIELD_POINTER, .of = ranks_list},
    {"", FIELD_PART, FIELD_AT(struct row, functions), FIELD_POINTER, .of = functions_list},
    {0}};

json_t *top_json(const struct job_report *report, const struct rank_list *ranks, const struct top_functions *functions)
{
    const struct row row = {.id = report->info.id,
                            .status = job_report_status(report),
                            .wall_seconds = job_report_result(report).wall_seconds,
                            .model = &report->model,
                            .report = report,
                            .now = {&report->model, job_report_result(report).wall_seconds},
                            .ranks = ranks,
                            .functions = functions};
    return fields_json(fields, &row, NULL);
}

json_t *top_schema(void)
{
    return fields_schema(fields);
}
