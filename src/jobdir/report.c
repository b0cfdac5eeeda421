/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/report.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "jobdir/report_failed.h"
#include "jobdir/rules.h"
#include "jobdir/text.h"

int job_report_load(struct job_report *ret_report, const char *path, struct err *err)
{
    *ret_report = (struct job_report){.path = path, .state = JOB_LOST};
    struct err here = {0};
    int code = job_info_read_state(path, &ret_report->info, &ret_report->state, &here);
    if (code == -EPROTO)
        return err_set(err, code, "%s", here.text);
    ret_report->problems = json_array();
    if (job_model_init(&ret_report->model, REPORT_PROCESSES) < 0 || !ret_report->problems)
        return err_set(err, -ENOMEM, "out of memory");
    int described = code;
    if (described < 0)
        json_array_append_new(ret_report->problems, json_string(here.text));
    code = job_model_read(&ret_report->model, path, ret_report->problems, err);
    if (code < 0)
        return code;
    if (described < 0 && ret_report->model.records == 0)
        return err_set(err, described, "%s", here.text);
    ret_report->snapshots = snapshots_json(path, ret_report->info.started_ns);
    ret_report->failed = report_failed_json(&ret_report->model, ret_report->info.supervisor);
    return 0;
}

void job_report_done(struct job_report *report)
{
    job_info_done(&report->info);
    job_model_done(&report->model);
    job_functions_free(report->functions);
    report->functions = NULL;
    mpi_report_free(report->mpi);
    report->mpi = NULL;
    mpi_messages_free(report->messages);
    report->messages = NULL;
    json_decref(report->snapshots);
    report->snapshots = NULL;
    json_decref(report->failed);
    report->failed = NULL;
    json_decref(report->problems);
    report->problems = NULL;
}

int job_report_load_functions(struct job_report *report, const struct job_functions_options *options, struct err *err)
{
    struct job_functions_options with_start = *options;
    with_start.start_ns = report->info.started_ns;
    with_start.stats = report->mpi ? &report->mpi->set : NULL;
    with_start.only_stats = report->one_rank;
    with_start.all_ended =
        report->info.ended ? !report->info.result.left_running : report->model.end && !HASH_COUNT(report->model.alive);
    with_start.cpu_seconds = with_start.all_ended ? job_report_result(report).cpu_seconds : 0;
    return job_functions_load(&report->functions, report->path, &with_start, err);
}

int job_report_load_messages(struct job_report *report, void (*progress)(void *ctx, double share), void *ctx,
                             struct err *err)
{
    const struct mpi_messages_options options = {.start_ns = report->info.started_ns,
                                                 .stats = report->mpi ? &report->mpi->set : NULL,
                                                 .progress = progress,
                                                 .ctx = ctx};
    return mpi_messages_load_job(&report->messages, report->path, &options, err);
}

static uint64_t max_count(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The result as the spool's last record has it: job.json could not be written, or is damaged. */
static bool result_from_spool(const struct job_report *report, struct job_result *ret_result)
{
    const json_t *end = report->model.end;
    if (!end)
        return false;
    ret_result->started = json_is_true(json_object_get(end, "started"));
    ret_result->exit_code = (int)json_integer_value(json_object_get(end, "exit_code"));
    ret_result->signal = (int)json_integer_value(json_object_get(end, "signal"));
    ret_result->reason = json_string_value(json_object_get(end, "reason"));
    ret_result->core_dumped = json_is_true(json_object_get(end, "core_dumped"));
    ret_result->wall_seconds = json_number_value(json_object_get(end, "wall_seconds"));
    ret_result->cpu_seconds = json_number_value(json_object_get(end, "cpu_seconds"));
    return true;
}

struct job_result job_report_result(const struct job_report *report)
{
    if (report->info.ended)
        return report->info.result;
    const struct job_model *model = &report->model;
    struct job_result result = {
        .started = true,
        .wall_seconds = model->last_seconds,
        .cpu_seconds = (double)model->cpu_ns / 1e9,
        .peak_rss_bytes = model->peak_rss,
        .peak_tree_rss_bytes = max_count(model->peak_tree_rss, model->peak_rss),
        .processes = max_count(model->started_total, model->ended_count + HASH_COUNT(model->alive)),
        .processes_at_once = model->peak_processes,
        .threads_at_once = model->peak_threads,
        .lost_records = model->missing_records,
    };
    if (report->state == JOB_RUNNING && report->info.started_ns) {
        uint64_t now_ns = clock_wall_ns();
        if (now_ns > report->info.started_ns)
            result.wall_seconds = (double)(now_ns - report->info.started_ns) / 1e9;
    }
    result_from_spool(report, &result);
    return result;
}

const char *job_report_status(const struct job_report *report)
{
    struct job_result result;
    if (report->info.ended)
        result = report->info.result;
    else if (!result_from_spool(report, &result))
        return job_state_name(report->state);
    return !result.started ? "not_started" : result.signal ? "signaled" : "exited";
}

struct report_style report_style_for(int fd)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    struct report_style style = {.columns = text_columns(fd)};
    style.colour = isatty(fd) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    style.ascii = !locale || strcasecmp(nl_langinfo_l(CODESET, locale), "UTF-8") != 0;
    if (locale)
        freelocale(locale);
    return style;
}

bool job_report_has(const struct job_report *report, const struct job_process *process)
{
    bool found = !report->one_rank;
    for (size_t i = 0; !found && report->mpi && i < report->mpi->set.count; i++)
        found = report->mpi->set.ranks[i].pid == process->pid;
    return found;
}

json_t *job_process_json(const struct job_process *process)
{
    const char *source = job_status_source_name(process->source);
    json_t *json = json_pack("{s:i, s:i, s:o, s:f, s:o, s:f, s:I, s:I, s:o, s:o, s:o, s:o}", "pid", process->pid,
                             "ppid", process->ppid, "name", text_json(process->name), "start_seconds", process->start,
                             "end_seconds", process->end >= 0 ? json_real(process->end) : json_null(), "cpu_seconds",
                             (double)process->cpu_ns / 1e9, "peak_rss_bytes", (json_int_t)process->peak_rss, "threads",
                             (json_int_t)process->peak_threads, "exit_code", report_exit_code_json(process), "signal",
                             report_signal_json(process), "status_source", source ? json_string(source) : json_null(),
                             "status_unknown", process->why ? json_string(process->why) : json_null());
    if (json)
        report_command_json(json, process);
    return json;
}

static json_t *processes_json(const struct job_report *report)
{
    const struct job_model *model = &report->model;
    json_t *list = json_array();
    for (size_t i = 0; i < model->ended_count; i++)
        if (job_report_has(report, &model->ended[i]))
            json_array_append_new(list, job_process_json(&model->ended[i]));
    for (const struct job_process *process = model->alive; process; process = process->hh.next)
        if (job_report_has(report, process))
            json_array_append_new(list, job_process_json(process));
    return list;
}

static json_t *commands_json(const struct job_model *model)
{
    json_t *list = json_array();
    for (const struct job_command *command = model->commands; command; command = command->hh.next)
        json_array_append_new(list, json_pack("{s:o, s:I, s:f, s:I}", "name", text_json(command->name), "count",
                                              (json_int_t)command->count, "cpu_seconds", (double)command->cpu_ns / 1e9,
                                              "peak_rss_bytes", (json_int_t)command->peak_rss));
    return list;
}

static json_t *series_json(const struct series *series)
{
    json_t *list = json_array();
    for (size_t i = 0; i < series->used; i++)
        json_array_append_new(list, series->max[i] >= 0 ? json_real(series->max[i]) : json_null());
    return list;
}

static json_t *timeline_json(const struct job_model *model)
{
    return json_pack("{s:o, s:o, s:o}", "rss_bytes",
                     json_pack("{s:f, s:o}", "window_seconds", model->rss_series.width_seconds, "max",
                               series_json(&model->rss_series)),
                     "cpus",
                     json_pack("{s:f, s:o}", "window_seconds", model->cpu_series.width_seconds, "max",
                               series_json(&model->cpu_series)),
                     "processes",
                     json_pack("{s:f, s:o}", "window_seconds", model->processes_series.width_seconds, "max",
                               series_json(&model->processes_series)));
}

/* A copy of an array of records without what only the spool needs. */
static json_t *records_json(const json_t *records)
{
    json_t *list = json_deep_copy(records);
    size_t index;
    json_t *record;
    json_array_foreach(list, index, record)
    {
        json_object_del(record, "seq");
        json_object_del(record, "type");
    }
    return list ? list : json_array();
}

static const json_t *or_empty(const json_t *preferred, const json_t *other)
{
    return preferred && json_array_size(preferred) >= json_array_size(other) ? preferred : other;
}

static void add_times(json_t *json, const struct job_report *report, const struct job_result *result)
{
    json_t *values = json_pack(
        "{s:o, s:o, s:o, s:b, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "exit_code",
        report->info.ended || report->model.end ? json_integer(result->exit_code) : json_null(), "signal",
        result->signal ? json_integer(result->signal) : json_null(), "reason",
        result->reason && *result->reason ? text_json(result->reason) : json_null(), "core_dumped", result->core_dumped,
        "wall_seconds", result->wall_seconds, "cpu_seconds", result->cpu_seconds, "peak_rss_bytes",
        (json_int_t)result->peak_rss_bytes, "peak_tree_rss_bytes", (json_int_t)result->peak_tree_rss_bytes,
        "process_count", (json_int_t)result->processes, "processes_at_once", (json_int_t)result->processes_at_once,
        "threads_at_once", (json_int_t)result->threads_at_once, "left_running", (json_int_t)result->left_running,
        "lost_records", (json_int_t)result->lost_records);
    json_object_update(json, values);
    json_decref(values);
}

json_t *job_report_json(const struct job_report *report)
{
    const struct job_info *info = &report->info;
    const struct job_model *model = &report->model;
    struct job_result result = job_report_result(report);
    json_t *json =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:O?, s:o, s:s}", "id", info->id, "name", text_json(info->name),
                  "path", text_json(report->path), "host", text_json(info->host), "user", text_json(info->user), "cwd",
                  text_json(info->cwd), "argv", info->argv, "started_seconds",
                  json_real((double)info->started_ns / 1e9), "status", job_report_status(report));
    if (!json)
        return NULL;
    add_times(json, report, &result);
    json_object_set_new(json, "processes_listed_singly", json_boolean(model->singly));
    json_object_set_new(json, "processes", processes_json(report));
    json_object_set_new(json, "processes_omitted", json_integer((json_int_t)model->ended_omitted));
    json_object_set_new(json, "commands", commands_json(model));
    json_object_set(json, "failed", report->failed ? report->failed : json_null());
    json_object_set_new(json, "timeline", timeline_json(model));
    json_object_set(json, "node", model->node ? model->node : json_null());
    json_object_set_new(json, "warnings", records_json(or_empty(info->warnings, model->warnings)));
    json_object_set_new(json, "crashes", records_json(or_empty(info->crashes, model->crashes)));
    json_object_set_new(json, "gaps", records_json(model->gaps));
    json_object_set(json, "recording_off", model->pauses);
    json_object_set(json, "problems", report->problems ? report->problems : json_null());
    json_object_set_new(json, "rules", rules_json(model));
    json_object_set_new(json, "snapshots", report->snapshots ? json_incref(report->snapshots) : json_array());
    job_functions_json(json, report->functions);
    mpi_report_json(json, report->mpi);
    mpi_messages_json(json, report->messages);
    return json;
}
