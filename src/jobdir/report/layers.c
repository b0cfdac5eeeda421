/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of a report: what happened last, scripts, logs, health. jobdir/layers makes them. */
#include "jobdir/layers/last.h"
#include "jobdir/layers/sections.h"
#include "jobdir/report/failed.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

/* Whether it ended as nobody wants it; of a job that runs nothing is known yet. */
static bool has_failed(const struct job_report *report, const struct job_result *result)
{
    if (report->info.ended || report->model.end)
        return result->exit_code != 0 || result->signal;
    return report->state == JOB_LOST || report->state == JOB_UNWATCHED;
}

/* The crashes as job.json has them, which knows their places, with the numbers that their records have in the spool. */
static json_t *numbered_crashes(const struct job_report *report)
{
    json_t *crashes = json_deep_copy(report_longer(report->info.crashes, report->model.crashes)), *crash, *record;
    size_t index, at;
    json_array_foreach(crashes, index, crash)
    {
        json_array_foreach(report->model.crashes, at, record)
        {
            json_t *seq = json_object_get(record, "seq");
            if (seq && json_equal(json_object_get(record, "pid"), json_object_get(crash, "pid")))
                json_object_set(crash, "seq", seq);
        }
    }
    return crashes;
}

json_t *job_report_last(const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    if (report->last)
        return json_incref(report->last);
    if (!report->model.layers.records || report->one_rank || !has_failed(report, &result))
        return NULL;
    json_t *failed =
        report->failed ? json_incref(report->failed) : report_failed_json(&report->model, report->info.supervisor);
    json_t *crashes = numbered_crashes(report);
    const struct job_end end = {.model = &report->model,
                                .dir = report->path,
                                .warnings = report_longer(report->model.warnings, report->info.warnings),
                                .crashes = crashes,
                                .chain = json_object_get(failed, "chain"),
                                .exit_code = result.exit_code,
                                .signal = result.signal,
                                .reason = result.reason,
                                .seconds = result.wall_seconds};
    json_t *last = last_json(&end);
    json_decref(failed);
    json_decref(crashes);
    return last;
}

void report_last_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    json_t *last = job_report_last(report);
    last_text(out, last, whole, style.colour ? TEXT_RED : NULL);
    json_decref(last);
}

void report_scripts_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    scripts_text(out, &report->model.layers);
}

void report_logs_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    logs_text(out, &report->model.layers);
}

void report_health_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    health_text(out, &report->model.layers, style.ascii);
}

static json_t *last_member(const void *row, const void *all)
{
    json_t *last = job_report_last(row);
    return last ? last : json_null();
}

const struct field report_last_fields[] = {
    {"last", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = last_member, .of = last_fields,
     .about = "what happened last in all layers; null: the job did not fail, or nothing but processes was recorded"},
    {0}};

const struct field report_layer_fields[] = {
    {"scripts", FIELD_OBJECT, FIELD_AT(struct job_report, model.layers), .of = scripts_fields},
    {"logs", FIELD_OBJECT, FIELD_AT(struct job_report, model.layers), .of = logs_fields},
    {"health", FIELD_OBJECT, FIELD_AT(struct job_report, model.layers), .of = health_fields},
    {0}};
