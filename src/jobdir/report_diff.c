/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs compared. */
#include <string.h>

#include "jobdir/report.h"
#include "jobdir/text.h"

struct compared {
    const char *name;
    double a, b;
    bool bytes, seconds;
};

enum { COMPARED = 6 };

static void compare(const struct job_report *a, const struct job_report *b, struct compared ret_rows[COMPARED])
{
    struct job_result left = job_report_result(a), right = job_report_result(b);
    const struct compared rows[COMPARED] = {
        {"wall_seconds", left.wall_seconds, right.wall_seconds, .seconds = true},
        {"cpu_seconds", left.cpu_seconds, right.cpu_seconds, .seconds = true},
        {"peak_rss_bytes", (double)left.peak_rss_bytes, (double)right.peak_rss_bytes, .bytes = true},
        {"peak_tree_rss_bytes", (double)left.peak_tree_rss_bytes, (double)right.peak_tree_rss_bytes, .bytes = true},
        {"process_count", (double)left.processes, (double)right.processes},
        {"threads_at_once", (double)left.threads_at_once, (double)right.threads_at_once},
    };
    memcpy(ret_rows, rows, sizeof rows);
}

json_t *job_report_diff_json(const struct job_report *a, const struct job_report *b)
{
    struct compared rows[COMPARED];
    compare(a, b, rows);
    json_t *values = json_array();
    for (size_t i = 0; i < COMPARED; i++)
        json_array_append_new(values,
                              json_pack("{s:s, s:f, s:f, s:o}", "name", rows[i].name, "a", rows[i].a, "b", rows[i].b,
                                        "ratio", rows[i].a > 0 ? json_real(rows[i].b / rows[i].a) : json_null()));
    return json_pack("{s:{s:s, s:s, s:i}, s:{s:s, s:s, s:i}, s:o, s:o, s:o}", "a", "id", a->info.id, "status",
                     job_report_status(a), "exit_code", job_report_result(a).exit_code, "b", "id", b->info.id, "status",
                     job_report_status(b), "exit_code", job_report_result(b).exit_code, "values", values, "functions",
                     job_functions_diff_json(a->functions, b->functions), "mpi", mpi_report_diff_json(a->mpi, b->mpi));
}

static void put_value(struct buf *out, const struct compared *row, double value)
{
    struct buf text = BUF_INIT;
    if (row->bytes)
        text_size(&text, (uint64_t)value);
    else if (row->seconds)
        text_seconds(&text, value);
    else
        buf_printf(&text, "%.0f", value);
    buf_printf(out, " %14s", text.data ? text.data : "");
    buf_done(&text);
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
    static const char *const labels[COMPARED] = {"wall time",   "cpu time",  "peak of one process",
                                                 "peak in all", "processes", "threads at once"};
    struct compared rows[COMPARED];
    compare(a, b, rows);
    buf_printf(out, "A  %s %s\nB  %s %s\n\n%-22s %14s %14s %10s\n", a->info.id, a->info.name, b->info.id, b->info.name,
               "", "A", "B", "change");
    buf_printf(out, "%-22s", "end");
    put_outcome(out, a);
    put_outcome(out, b);
    buf_putc(out, '\n');
    for (size_t i = 0; i < COMPARED; i++) {
        buf_printf(out, "%-22s", labels[i]);
        put_value(out, &rows[i], rows[i].a);
        put_value(out, &rows[i], rows[i].b);
        if (rows[i].a > 0)
            buf_printf(out, " %+9.1f%%", 100 * (rows[i].b / rows[i].a - 1));
        buf_putc(out, '\n');
    }
    mpi_report_diff_text(out, a->mpi, b->mpi);
    job_functions_diff_text(out, a->functions, b->functions);
}
