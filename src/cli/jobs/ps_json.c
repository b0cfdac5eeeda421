/* SPDX-License-Identifier: Apache-2.0 */
/* scry ps, for programs: doc/reference/ps.schema.json. */
#include "cli/jobs/ps_json.h"

#include "cli/common/now.h"
#include "jobdir/record/mirror.h"
#include "jobdir/text/text.h"

static json_t *state_json(const void *row, const void *all)
{
    return json_stringn(&((const struct job_process *)row)->state, 1);
}

static const struct field process_fields[] = {{"", FIELD_PART, .of = job_process_fields},
                                              {"state", FIELD_TEXT, .json = state_json, .about = "the kernel's letter"},
                                              {"rss_bytes", FIELD_BYTES, FIELD_AT(struct job_process, rss)},
                                              {"cpus", FIELD_NUMBER, FIELD_AT(struct job_process, cpu_share),
                                               .about = "processors used between the last two samples"},
                                              {0}};

/* Also for a job that cannot be read. */
struct row {
    const char *id, *path, *state, *reason, *cause;
    const struct job_report *report;
    struct job_result result;
    const char *status;
    const struct rank_now *ranks;
    size_t rank_count;
};

static const struct field place_fields[] = {{"id", FIELD_TEXT, FIELD_AT(struct row, id)},
                                            {"path", FIELD_TEXT, FIELD_AT(struct row, path)},
                                            {"state", FIELD_CHOICE, FIELD_AT(struct row, state),
                                             .choices = "running|ended|unwatched|lost|unreachable|unreadable"},
                                            {0}};

static const struct field reason_fields[] = {
    {"reason", FIELD_TEXT, FIELD_AT(struct row, reason), FIELD_OPTIONAL, .about = "why it is unreadable"}, {0}};

static const struct field info_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct job_report, info.name), FIELD_OPTIONAL},
    {"host", FIELD_TEXT, FIELD_AT(struct job_report, info.host), FIELD_OPTIONAL},
    {"user", FIELD_TEXT, FIELD_AT(struct job_report, info.user), FIELD_OPTIONAL, .about = "who ran it"},
    {"argv", FIELD_LIST, FIELD_AT(struct job_report, info.argv), FIELD_OPTIONAL, .of = fields_texts},
    {"started_seconds", FIELD_SECONDS, FIELD_AT(struct job_report, info.started_ns), FIELD_OPTIONAL},
    {"batch", FIELD_OBJECT, FIELD_AT(struct job_report, info.batch), FIELD_OR_NULL | FIELD_OPTIONAL,
     .of = job_batch_fields, .about = "as in report.schema.json"},
    {"task", FIELD_TEXT, FIELD_AT(struct job_report, info.task), FIELD_ZERO_IS_NULL | FIELD_OPTIONAL,
     .about = "as in report.schema.json"},
    {0}};

static json_t *exit_code_json(const void *row, const void *all)
{
    const struct row *job = row;
    return job->report->info.ended ? json_integer(job->result.exit_code) : json_null();
}

static json_t *processes_json(const void *row, const void *all)
{
    const struct row *job = row;
    bool over = job->report->state == JOB_ENDED || job->report->state == JOB_LOST;
    json_t *list = json_array();
    for (size_t i = 0; !over && i <= job->report->part_count; i++)
        for (const struct job_process *each = job_report_model(job->report, i)->alive; each; each = each->hh.next)
            json_array_append_new(list, fields_json(process_fields, each, NULL));
    return list;
}

static json_t *its_ranks_json(const void *row, const void *all)
{
    return ranks_json(((const struct row *)row)->ranks, ((const struct row *)row)->rank_count);
}

const json_t *ps_progress(const struct job_report *report)
{
    return report->info.progress ? report->info.progress : now_progress(&report->model);
}

static json_t *progress_json(const void *row, const void *all)
{
    const struct row *job = row;
    bool over = job->report->state == JOB_ENDED || job->report->state == JOB_LOST;
    return now_progress_json(ps_progress(job->report), over ? -1 : job->result.wall_seconds);
}

bool ps_is_signed(const struct job_report *report, bool *ret_known)
{
    json_t *remote = mirror_read_remote(report->path), *said = json_object_get(remote, "signed");
    bool is_signed = json_is_true(said);
    *ret_known = json_is_boolean(said);
    json_decref(remote);
    return is_signed;
}

static json_t *signed_json(const void *row, const void *all)
{
    bool known, is_signed = ps_is_signed(((const struct row *)row)->report, &known);
    return known ? json_boolean(is_signed) : json_null();
}

static const struct field result_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct row, report), FIELD_POINTER, .of = info_fields},
    {"status", FIELD_TEXT, FIELD_AT(struct row, status), FIELD_OPTIONAL, .about = "as in report.schema.json"},
    {"exit_code", FIELD_INTEGER, .flags = FIELD_OR_NULL | FIELD_OPTIONAL, .json = exit_code_json},
    {"cause", FIELD_TEXT, FIELD_AT(struct row, cause), FIELD_ZERO_IS_NULL | FIELD_OPTIONAL,
     .about = "why it failed, or what its exit status of 0 hides; null: not known, or it did not"},
    {"signal", FIELD_INTEGER, FIELD_AT(struct row, result.signal), FIELD_ZERO_IS_NULL | FIELD_OPTIONAL},
    {"wall_seconds", FIELD_SECONDS, FIELD_AT(struct row, result.wall_seconds), FIELD_OPTIONAL},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct row, result.cpu_seconds), FIELD_OPTIONAL},
    {"peak_tree_rss_bytes", FIELD_BYTES, FIELD_AT(struct row, result.peak_tree_rss_bytes), FIELD_OPTIONAL},
    {"progress", FIELD_OBJECT, .flags = FIELD_OR_NULL | FIELD_OPTIONAL, .json = progress_json,
     .of = now_progress_fields, .about = "how far the job says it is, or was at its end; null: it does not"},
    {"signed", FIELD_BOOL, .flags = FIELD_OR_NULL | FIELD_OPTIONAL, .json = signed_json,
     .about = "of a job at a broker: as mirror.signed in report.schema.json"},
    {"processes", FIELD_LIST, .flags = FIELD_OPTIONAL, .json = processes_json, .of = process_fields,
     .about = "that live"},
    {"ranks", FIELD_LIST, .flags = FIELD_OPTIONAL, .json = its_ranks_json, .of = ranks_fields,
     .about = "of its MPI programs"},
    {0}};

bool ps_is_measured(const struct job_report *report, const struct job_result *result)
{
    return report->state == JOB_ENDED || report->state == JOB_LOST || result->processes;
}

const char *ps_reason(const struct job_report *report)
{
    return json_string_value(json_object_get(report->info.cause, "text"));
}

json_t *ps_job_json(const struct job_report *report, const struct rank_now *ranks, size_t rank_count)
{
    const struct row row = {.id = report->info.id,
                            .path = report->path,
                            .state = job_state_name(report->state),
                            .report = report,
                            .result = job_report_total(report),
                            .status = job_report_status(report),
                            .cause = ps_reason(report),
                            .ranks = ranks,
                            .rank_count = rank_count};
    json_t *json = fields_json(place_fields, &row, NULL);
    fields_add(json, result_fields, &row, NULL);
    if (!ps_is_measured(report, &row.result)) {
        json_object_del(json, "cpu_seconds");
        json_object_del(json, "peak_tree_rss_bytes");
    }
    return json;
}

json_t *ps_unreadable_json(const char *path, const char *reason)
{
    const struct row row = {.id = text_base(path), .path = path, .state = "unreadable", .reason = reason};
    json_t *json = fields_json(place_fields, &row, NULL);
    fields_add(json, reason_fields, &row, NULL);
    return json;
}

json_t *ps_schema(void)
{
    static const struct field job[] = {{"", FIELD_PART, .of = place_fields},
                                       {"", FIELD_PART, .of = reason_fields},
                                       {"", FIELD_PART, .of = result_fields},
                                       {0}},
                              whole[] = {{"jobs", FIELD_LIST, .of = job, .about = "newest first"}, {0}};
    return fields_schema(whole);
}
