/* SPDX-License-Identifier: Apache-2.0 */
/* What a report says of where a job ran: its batch system, and the nodes of one that ran on several, with what its parts
 * (jobdir/record/parts.h) say. */
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/record/mirror.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum { NODES_SHOWN = 64, NODES_NAMED = 8, DETAILS_SHOWN = 8 };

/* ---- the member "batch" of job.json ---- */

const struct field job_batch_fields[] = {
    {"system", FIELD_TEXT, .about = "slurm, htcondor, pbs, lsf, sge"},
    {"id", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "its number of the job; null, here and below: it does not say"},
    {"array", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "12_3: the task 3 of the array of jobs 12"},
    {"step", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "of Slurm; null: the batch script"},
    {"partition", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "or queue"},
    {"nodes", FIELD_COUNT, .flags = FIELD_OR_NULL},
    {"cpus", FIELD_COUNT, .flags = FIELD_OR_NULL, .about = "that the job has on this node"},
    {"memory_bytes", FIELD_BYTES, .flags = FIELD_OR_NULL, .about = "that it asked for, on this node"},
    {"time_limit_seconds", FIELD_COUNT, .flags = FIELD_OR_NULL, .about = "that it may run"},
    {0}};

static void put_word(struct buf *out, const json_t *batch, const char *key, const char *label)
{
    const char *text = json_string_value(json_object_get(batch, key));
    if (!text)
        return;
    buf_puts(out, label);
    text_show(out, text);
}

static void put_count(struct buf *out, json_int_t count, const char *one)
{
    buf_printf(out, ", %lld %s%s", (long long)count, one, count == 1 ? "" : "s");
}

void report_batch_text(struct buf *out, const json_t *batch)
{
    json_int_t nodes = json_integer_value(json_object_get(batch, "nodes")),
               cpus = json_integer_value(json_object_get(batch, "cpus")),
               memory = json_integer_value(json_object_get(batch, "memory_bytes")),
               limit = json_integer_value(json_object_get(batch, "time_limit_seconds"));
    if (!batch)
        return;
    text_label(out, "batch");
    put_word(out, batch, "system", "");
    put_word(out, batch, "id", " job ");
    put_word(out, batch, "array", ", array ");
    put_word(out, batch, "step", ", step ");
    put_word(out, batch, "partition", ", ");
    if (nodes > 0)
        put_count(out, nodes, "node");
    if (cpus > 0)
        put_count(out, cpus, "processor");
    if (nodes > 1 && cpus > 0)
        buf_puts(out, " here");
    if (memory > 0) {
        buf_puts(out, ", ");
        text_size(out, (uint64_t)memory);
        buf_puts(out, " of memory asked for");
    }
    if (limit > 0) {
        buf_puts(out, ", at most ");
        text_seconds(out, (double)limit);
    }
    buf_putc(out, '\n');
}

/* ---- nodes ---- */

static const char *name_of(const struct job_report *part)
{
    return part->info.host && *part->info.host ? part->info.host : text_base(part->path);
}

/* What is missing of a part, for people: "" of one that is whole. `over`: the job is. The caller frees it. */
static char *missing_of(const struct job_report *part, bool over)
{
    json_t *remote = mirror_read_remote(part->path);
    const char *note = json_string_value(json_object_get(remote, "note"));
    const char *why = !part->info.json                 ? "nothing of it has come here"
                      : part->state == JOB_ENDED       ? ""
                      : part->state == JOB_RUNNING     ? (over ? "it still ran when the job ended" : "it still runs")
                      : part->state == JOB_UNREACHABLE ? "nothing is heard from it any more"
                                                       : "its scry run was killed, or the node died";
    char *text = strdup(note ? note : why);
    json_decref(remote);
    return text;
}

/* Of the whole job it is a loss that a part has no end only when the job has one. */
static bool is_over(const struct job_report *report)
{
    return report->info.ended || report->state == JOB_LOST;
}

/* ---- for people ---- */

/* A node may have several parts, of several steps of a batch system. They are sorted by name. */
static bool is_new_node(const struct job_report *report, size_t i)
{
    const char *name = name_of(&report->parts[i]);
    return strcmp(name, name_of(report)) != 0 && (i == 0 || strcmp(name, name_of(&report->parts[i - 1])) != 0);
}

static void put_names(struct buf *out, const struct job_report *report)
{
    size_t count = 1, named = 1;
    for (size_t i = 0; i < report->part_count; i++)
        count += is_new_node(report, i);
    text_label(out, "nodes");
    buf_printf(out, "%zu: ", count);
    text_show(out, name_of(report));
    for (size_t i = 0; i < report->part_count && named < NODES_NAMED; i++) {
        if (!is_new_node(report, i))
            continue;
        buf_puts(out, ", ");
        text_show(out, name_of(&report->parts[i]));
        named++;
    }
    if (count > named)
        buf_printf(out, " and %zu more", count - named);
    buf_putc(out, '\n');
}

static void put_missing(struct buf *out, const struct job_report *report)
{
    size_t shown = 0, missing = 0;
    for (size_t i = 0; i < report->part_count && is_over(report); i++) {
        _cleanup_(freep) char *why = missing_of(&report->parts[i], true);
        if (!why || !*why || ++missing > NODES_NAMED)
            continue;
        text_label(out, shown++ ? "" : "incomplete");
        text_show(out, name_of(&report->parts[i]));
        buf_printf(out, ": its records end at ");
        text_seconds(out, report->parts[i].shift + report->parts[i].model.last_seconds);
        buf_puts(out, "; ");
        text_show(out, why);
        buf_putc(out, '\n');
    }
    if (missing > NODES_NAMED) {
        text_label(out, "");
        buf_printf(out, "and %zu more nodes\n", missing - NODES_NAMED);
    }
}

struct node_row {
    const char *node, *status;
    struct job_result result;
    double cpu, memory; /* shares, the greatest; -1: not measured */
    uint64_t failed, warnings;
};

static double most_of(const struct job_report *report, enum layer_curve curve)
{
    const struct series *series = report->model.layers.curves ? &report->model.layers.curves[curve] : NULL;
    return series && series->used ? series_max(series) : -1;
}

static void put_percent(struct buf *out, const void *at, const void *row, const void *all)
{
    double share = *(const double *)at;
    if (share < 0)
        buf_putc(out, '-');
    else
        buf_printf(out, "%.0f", 100 * share);
}

static const struct field row_fields[] = {
    {.type = FIELD_TEXT, FIELD_AT(struct node_row, node), .column = FIELD_COLUMN(1, 2, -24, "Nodes")},
    {.type = FIELD_TEXT, FIELD_AT(struct node_row, status), .column = FIELD_COLUMN(2, 1, -11, "state")},
    {.type = FIELD_COUNT, FIELD_AT(struct node_row, result.processes), .column = FIELD_COLUMN(3, 1, 9, "processes")},
    {.type = FIELD_SECONDS, FIELD_AT(struct node_row, result.cpu_seconds), .column = FIELD_COLUMN(4, 1, 9, "cpu")},
    {.type = FIELD_BYTES,
     FIELD_AT(struct node_row, result.peak_tree_rss_bytes),
     .column = FIELD_COLUMN(5, 1, 9, "peak")},
    {.type = FIELD_NUMBER,
     FIELD_AT(struct node_row, cpu),
     .column = FIELD_COLUMN(6, 1, 6, "busy %", .text = put_percent)},
    {.type = FIELD_NUMBER,
     FIELD_AT(struct node_row, memory),
     .column = FIELD_COLUMN(7, 1, 8, "memory %", .text = put_percent)},
    {.type = FIELD_COUNT, FIELD_AT(struct node_row, failed), .column = FIELD_COLUMN(8, 1, 6, "failed", .zero = true)},
    {.type = FIELD_COUNT,
     FIELD_AT(struct node_row, warnings),
     .column = FIELD_COLUMN(9, 1, 8, "warnings", .zero = true)},
    {0}};

static struct node_row row_of(const struct job_report *report)
{
    return (struct node_row){.node = name_of(report),
                             .status = job_state_name(report->state),
                             .result = job_report_result(report),
                             .cpu = most_of(report, CURVE_CPU),
                             .memory = most_of(report, CURVE_MEMORY),
                             .failed = report->model.failed,
                             .warnings = job_report_warning_count(report)};
}

/* Something there needs a person's eyes. */
static bool is_notable(const struct job_report *part)
{
    return json_array_size(job_report_warnings(part)) || json_array_size(part->model.crashes) ||
           json_array_size(part->model.firings) || json_array_size(part->problems) || part->model.layers.errors.total ||
           part->model.layers.failures.total;
}

static void put_details(struct buf *out, const struct job_report *part, struct report_style style)
{
    static report_section_fn *const sections[] = {report_rules_text,  report_crashes_text, report_warnings_text,
                                                  report_pauses_text, report_scripts_text, report_logs_text,
                                                  report_health_text, report_gaps_text};
    buf_puts(out, "\nOn node ");
    text_show(out, name_of(part));
    buf_putc(out, '\n');
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        sections[i](out, part, style, true);
}

static void put_table(struct buf *out, const struct job_report *report, struct report_style style)
{
    size_t shown = 0, notable = 0, count = report->part_count + 1;
    _cleanup_(freep) struct node_row *rows = calloc(count, sizeof *rows);
    for (size_t i = 0; rows && i < count; i++)
        rows[i] = row_of(i ? &report->parts[i - 1] : report);
    if (rows)
        fields_table(out, &(struct field_table){row_fields, .most = NODES_SHOWN, .more = " (--json lists them)"}, rows,
                     count, sizeof *rows, report);
    for (size_t i = 0; i < report->part_count; i++) {
        if (!is_notable(&report->parts[i]) || ++notable > DETAILS_SHOWN)
            continue;
        put_details(out, &report->parts[i], style);
        shown++;
    }
    if (notable > shown)
        buf_printf(out, "\n%zu more nodes have warnings or failures (--json lists them)\n", notable - shown);
}

void report_nodes_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    if (!report->part_count)
        return;
    put_names(out, report);
    put_missing(out, report);
}

void report_node_table_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    if (report->part_count && !report->one_rank)
        put_table(out, report, style);
}

/* ---- for programs ---- */

/* The fields of the job itself are of its own node, as those of a part are of that. */
static const struct field total_fields[] = {
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct job_result, cpu_seconds)},
    {"peak_rss_bytes", FIELD_BYTES, FIELD_AT(struct job_result, peak_rss_bytes), .about = "of the largest process"},
    {"sum_of_peaks_bytes", FIELD_BYTES, FIELD_AT(struct job_result, peak_tree_rss_bytes),
     .about = "of peak_tree_rss_bytes of the nodes, which need not be of the same moment"},
    {"process_count", FIELD_COUNT, FIELD_AT(struct job_result, processes)},
    {"left_running", FIELD_COUNT, FIELD_AT(struct job_result, left_running)},
    {"lost_records", FIELD_COUNT, FIELD_AT(struct job_result, lost_records)},
    {0}};

static json_t *node_json(const void *row, const void *all)
{
    return text_json(name_of(row));
}

static json_t *missing_json(const void *row, const void *all)
{
    _cleanup_(freep) char *why = missing_of(row, false);
    return why && *why ? text_json(why) : json_null();
}

static json_t *head_json(const void *row, const void *all)
{
    json_t *json = json_object();
    report_head_json(json, row);
    return json;
}

static json_t *total_json(const void *row, const void *all)
{
    const struct job_result total = job_report_total(row);
    return fields_json(total_fields, &total, all);
}

static const struct field clock_fields[] = {
    {"offset_ns", FIELD_INTEGER, FIELD_AT(struct part_clock, offset_ns),
     .about = "the node's clock minus the job's; 0: not known"},
    {"bound_ns", FIELD_COUNT, FIELD_AT(struct part_clock, bound_ns), .about = "so far that may be off"},
    {0}};

static const struct field part_fields[] = {
    {"name", FIELD_TEXT, .json = node_json, .about = "of the node"},
    {"started_at", FIELD_NUMBER, FIELD_AT(struct job_report, shift),
     .about = "seconds from the start of the job until that of the part; times of the part count from there"},
    {"incomplete", FIELD_TEXT, .flags = FIELD_OR_NULL, .json = missing_json,
     .about = "what is missing of it, for people; null: nothing"},
    {"clock", FIELD_OBJECT, FIELD_AT(struct job_report, clock), .of = clock_fields},
    {"job", FIELD_OBJECT, .json = head_json, .of = report_head_fields},
    {"", FIELD_PART, .of = report_timeline_fields},
    {"", FIELD_PART, .of = report_failed_fields},
    {"", FIELD_PART, .of = report_rule_fields},
    {"", FIELD_PART, .of = report_crash_fields},
    {"", FIELD_PART, .of = report_warning_fields},
    {"", FIELD_PART, .of = report_layer_fields},
    {"", FIELD_PART, .of = report_command_fields},
    {"", FIELD_PART, .of = report_process_fields},
    {"", FIELD_PART, .of = report_gap_fields},
    {0}};

static json_t *parts_json(const void *row, const void *all)
{
    const struct job_report *report = row;
    json_t *list = json_array();
    for (size_t i = 0; i < report->part_count; i++)
        json_array_append_new(list, fields_json(part_fields, &report->parts[i], &report->parts[i]));
    return list;
}

const struct field report_node_fields[] = {
    {"all_nodes", FIELD_OBJECT, .json = total_json, .of = total_fields,
     .about = "sums over the job's own node, which the other members are of, and its parts"},
    {"parts", FIELD_LIST, .json = parts_json, .of = part_fields,
     .about = "the other nodes of a job that ran on several: what was recorded there"},
    {0}};
