/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of a report: when nothing was recorded, and what cannot be read. */
#include <inttypes.h>

#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum { SUMMARY_PAUSES = 5 };

/* scry set switched recording off, and on again. */
void report_pauses_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    size_t index;
    json_t *pause;
    json_array_foreach(report->model.pauses, index, pause)
    {
        const json_t *to = json_object_get(pause, "to");
        text_label(out, "tracing");
        if (index >= SUMMARY_PAUSES) {
            buf_printf(out, "recording was off %zu times more (--json lists them)\n",
                       json_array_size(report->model.pauses) - index);
            return;
        }
        buf_printf(out, "recording was off from %.2f s", json_number_value(json_object_get(pause, "from")));
        if (json_is_number(to))
            buf_printf(out, " to %.2f s", json_number_value(to));
        else
            buf_puts(out, " on");
        buf_puts(out, " (scry set)\n");
    }
}

static const struct field pause_fields[] = {{"from", FIELD_NUMBER}, {"to", FIELD_NUMBER, .flags = FIELD_OR_NULL}, {0}};

const struct field report_pause_fields[] = {
    {"recording_off", FIELD_LIST, FIELD_AT(struct job_report, model.pauses), .of = pause_fields}, {0}};

void report_gaps_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    size_t index;
    json_t *item;
    json_array_foreach(report->model.gaps.records, index, item)
    {
        const char *reason = json_string_value(json_object_get(item, "reason"));
        buf_printf(out, "%s  not watched from %.1f s to %.1f s: ", index ? "" : "\nGaps\n",
                   json_number_value(json_object_get(item, "from")), json_number_value(json_object_get(item, "to")));
        text_show(out, reason ? reason : "?");
        buf_putc(out, '\n');
    }
    uint64_t listed = json_array_size(report->model.gaps.records);
    if (report->model.gaps.total > listed)
        buf_printf(out, "  and %" PRIu64 " more times, which are not listed\n", report->model.gaps.total - listed);
    json_array_foreach(report->problems, index, item)
    {
        buf_puts(out, index ? "  " : "\nNot all of the job directory could be read\n  ");
        text_show(out, json_string_value(item));
        buf_putc(out, '\n');
    }
}

static json_t *gaps_json(const void *row, const void *all)
{
    return report_records_json(((const struct job_report *)row)->model.gaps.records);
}

static json_t *gaps_omitted_json(const void *row, const void *all)
{
    const struct kept *gaps = &((const struct job_report *)row)->model.gaps;
    return json_integer((json_int_t)(gaps->total - json_array_size(gaps->records)));
}

static const struct field gap_fields[] = {
    {"from", FIELD_NUMBER}, {"to", FIELD_NUMBER}, {"reason", FIELD_TEXT}, {"t", FIELD_NUMBER}, {0}};

const struct field report_gap_fields[] = {
    {"gaps", FIELD_LIST, .json = gaps_json, .of = gap_fields, .about = "times not watched, seconds since the start"},
    {"gaps_omitted", FIELD_COUNT, .json = gaps_omitted_json, .about = "those that are not listed"},
    {"problems", FIELD_LIST, FIELD_AT(struct job_report, problems), .of = fields_texts,
     .about = "what could not be read of the job directory"},
    {0}};
