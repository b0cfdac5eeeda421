/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs compared. */
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum { COMPARED = 6 };

static void compare(const struct job_report *a, const struct job_report *b, struct report_compared ret_rows[COMPARED])
{
    struct job_result left = job_report_total(a), right = job_report_total(b);
    const struct report_compared rows[COMPARED] = {
        {"wall_seconds", "wall time", left.wall_seconds, right.wall_seconds, COMPARED_SECONDS},
        {"cpu_seconds", "cpu time", left.cpu_seconds, right.cpu_seconds, COMPARED_SECONDS},
        {"peak_rss_bytes", "peak of one process", (double)left.peak_rss_bytes, (double)right.peak_rss_bytes,
         COMPARED_BYTES},
        {"peak_tree_rss_bytes", "peak in all", (double)left.peak_tree_rss_bytes, (double)right.peak_tree_rss_bytes,
         COMPARED_BYTES},
        {"process_count", "processes", (double)left.processes, (double)right.processes},
        {"threads_at_once", "threads at once", (double)left.threads_at_once, (double)right.threads_at_once},
    };
    memcpy(ret_rows, rows, sizeof rows);
}

static void put_value(struct buf *out, const void *at, const void *row, const void *all)
{
    double value = *(const double *)at;
    if (value < 0) {
        buf_putc(out, '-');
        return;
    }
    switch (((const struct report_compared *)row)->kind) {
    case COMPARED_NS:
        text_ns(out, value);
        break;
    case COMPARED_SECONDS:
        text_seconds(out, value);
        break;
    case COMPARED_BYTES:
        text_size(out, (uint64_t)value);
        break;
    case COMPARED_SHARE:
        buf_printf(out, "%.1f %%", 100 * value);
        break;
    default:
        buf_printf(out, "%.0f", value);
    }
}

static void put_change(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct report_compared *compared = row;
    if (compared->a >= 0 && compared->b >= 0)
        report_change_text(out, compared->a, compared->b);
}

static json_t *ratio_json(const void *row, const void *all)
{
    const struct report_compared *compared = row;
    return compared->a > 0 && compared->b >= 0 ? json_real(compared->b / compared->a) : json_null();
}

const struct field report_compared_fields[] = {
    {.type = FIELD_TEXT, FIELD_AT(struct report_compared, label), .column = {1, 0, -22}},
    {"a", FIELD_NUMBER, FIELD_AT(struct report_compared, a), FIELD_NEGATIVE_IS_NULL, .about = "null: not measured",
     .column = {2, 1, 14, "A", .text = put_value}},
    {"b", FIELD_NUMBER, FIELD_AT(struct report_compared, b), FIELD_NEGATIVE_IS_NULL,
     .column = {3, 1, 14, "B", .text = put_value}},
    {"ratio", FIELD_NUMBER, .flags = FIELD_OR_NULL, .json = ratio_json,
     .about = "b / a; null when a is 0, or one is null", .column = {4, 1, 10, "change", .text = put_change}},
    {0}};

static const struct field value_fields[] = {
    {"name", FIELD_CHOICE, FIELD_AT(struct report_compared, name),
     .choices = "wall_seconds|cpu_seconds|peak_rss_bytes|peak_tree_rss_bytes|process_count|threads_at_once"},
    {"", FIELD_PART, .of = report_compared_fields},
    {0}};

struct run {
    const char *id, *status;
    int exit_code, signal;
    const struct job_functions *functions; /* NULL: none was traced */
};

static json_t *complete_json(const void *row, const void *all)
{
    const struct run *run = row;
    return run->functions ? json_boolean(job_functions_complete(run->functions)) : json_null();
}

static const struct field run_fields[] = {
    {"id", FIELD_TEXT, FIELD_AT(struct run, id)},
    {"status", FIELD_TEXT, FIELD_AT(struct run, status)},
    {"exit_code", FIELD_COUNT, FIELD_AT(struct run, exit_code)},
    {"signal", FIELD_COUNT, FIELD_AT(struct run, signal), FIELD_ZERO_IS_NULL,
     .about = "that killed its command; null: none did"},
    {"functions_complete", FIELD_BOOL, .flags = FIELD_OR_NULL, .json = complete_json,
     .about =
         "false: calls of its functions are missing, as trace.complete in report.schema.json; null: none was traced"},
    {0}};

struct diff {
    const char *verdict;
    struct run a, b;
    json_t *values, *functions, *mpi;
};

static const struct field diff_fields[] = {
    {"verdict", FIELD_TEXT, FIELD_AT(struct diff, verdict), FIELD_OR_NULL,
     .about = "one sentence for people: which failed, or how their times differ; "
              "null: one of them has not ended"},
    {"a", FIELD_OBJECT, FIELD_AT(struct diff, a), .of = run_fields},
    {"b", FIELD_OBJECT, FIELD_AT(struct diff, b), .of = run_fields},
    {"values", FIELD_LIST, FIELD_AT(struct diff, values), .of = value_fields},
    {"functions", FIELD_LIST, FIELD_AT(struct diff, functions), .of = report_function_diff_fields,
     .about = "the hottest functions of both, those that changed most first"},
    {"mpi", FIELD_OBJECT, FIELD_AT(struct diff, mpi), FIELD_OR_NULL, .of = report_mpi_diff_fields,
     .about = "null: neither ran an MPI program"},
    {0}};

static struct run run_of(const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    bool traced = report->functions && report->functions->processes;
    return (struct run){report->info.id, job_report_status(report), result.exit_code, result.signal,
                        traced ? report->functions : NULL};
}

static bool has_failed(const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    return report->info.ended && (result.signal || result.exit_code || !result.started);
}

/* Why, or, where that is not known, how. */
static void put_failure(struct buf *out, const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    json_t *last = job_report_last(report);
    const char *reason = json_string_value(json_object_get(json_object_get(last, "reason"), "text"));
    char name[32];
    if (reason)
        buf_puts(out, reason);
    else if (result.signal)
        buf_printf(out, "killed by %s", text_signal(result.signal, name, sizeof name));
    else
        buf_printf(out, "exit status %d", result.exit_code);
    json_decref(last);
}

/* Which failed, else how their times differ. Nothing: one of them has not ended. */
static void put_verdict(struct buf *out, const struct job_report *a, const struct job_report *b)
{
    bool a_failed = has_failed(a), b_failed = has_failed(b);
    if (!a->info.ended || !b->info.ended)
        return;
    if (a_failed && b_failed) {
        buf_puts(out, "both failed; A: ");
        put_failure(out, a);
        buf_puts(out, "; B: ");
        put_failure(out, b);
        return;
    }
    if (a_failed || b_failed) {
        buf_puts(out, a_failed ? "A failed, B did not: " : "B failed, A did not: ");
        put_failure(out, a_failed ? a : b);
        return;
    }
    double left = job_report_total(a).wall_seconds, right = job_report_total(b).wall_seconds;
    if (left <= 0 || right <= 0)
        return;
    if (left < 1.05 * right && right < 1.05 * left)
        buf_puts(out, "B took as long as A: ");
    else if (right > left)
        buf_printf(out, "B took %.3g times as long as A: ", right / left);
    else
        buf_printf(out, "B was %.3g times as fast as A: ", left / right);
    text_seconds(out, right);
    buf_puts(out, ", and A ");
    text_seconds(out, left);
}

json_t *job_report_diff_json(const struct job_report *a, const struct job_report *b)
{
    struct report_compared rows[COMPARED];
    compare(a, b, rows);
    _cleanup_(buf_done) struct buf verdict = BUF_INIT;
    put_verdict(&verdict, a, b);
    const struct report_waited waited = {mpi_messages_waited_ns(a->messages), mpi_messages_waited_ns(b->messages)};
    struct diff diff = {.verdict = verdict.data,
                        .a = run_of(a),
                        .b = run_of(b),
                        .values = fields_list(value_fields, rows, COMPARED, sizeof *rows, NULL),
                        .functions = job_functions_diff_json(a->functions, b->functions),
                        .mpi = mpi_report_diff_json(a->mpi, b->mpi, &waited)};
    json_t *json = fields_json(diff_fields, &diff, NULL);
    json_decref(diff.values);
    json_decref(diff.functions);
    json_decref(diff.mpi);
    return json;
}

json_t *job_report_diff_schema(void)
{
    return fields_schema(diff_fields);
}

/* ---- for people ---- */

void report_change_text(struct buf *out, double a, double b)
{
    if (a > 0)
        buf_printf(out, "%+.1f%%", 100 * (b / a - 1));
    else
        buf_puts(out, b > 0 ? "new" : "");
}

static void put_outcome(struct buf *out, const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    char name[32];
    if (result.signal)
        buf_printf(out, " %14s", text_signal(result.signal, name, sizeof name));
    else if (report->info.ended)
        buf_printf(out, "         exit %2d", result.exit_code);
    else
        buf_printf(out, " %14s", job_report_status(report));
}

void job_report_diff_text(struct buf *out, const struct job_report *a, const struct job_report *b)
{
    struct report_compared rows[COMPARED];
    compare(a, b, rows);
    _cleanup_(buf_done) struct buf verdict = BUF_INIT;
    put_verdict(&verdict, a, b);
    if (verdict.len) {
        text_show(out, verdict.data);
        buf_puts(out, "\n\n");
    }
    for (int i = 0; i < 2; i++) {
        const struct job_info *info = i ? &b->info : &a->info;
        buf_puts(out, i ? "B  " : "A  ");
        text_show(out, info->id);
        buf_putc(out, ' ');
        text_show(out, info->name);
        buf_puts(out, i ? "\n\n" : "\n");
    }
    fields_title(out, report_compared_fields, NULL);
    buf_printf(out, "%-22s", "end");
    put_outcome(out, a);
    put_outcome(out, b);
    buf_putc(out, '\n');
    for (size_t i = 0; i < COMPARED; i++)
        fields_row(out, report_compared_fields, &rows[i], NULL);
    const struct report_waited waited = {mpi_messages_waited_ns(a->messages), mpi_messages_waited_ns(b->messages)};
    mpi_report_diff_text(out, a->mpi, b->mpi, &waited);
    job_functions_diff_text(out, a->functions, b->functions);
}
