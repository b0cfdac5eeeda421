/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/report/report.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "jobdir/mpi/look.h"
#include "jobdir/report/failed.h"
#include "jobdir/report/internal.h"
#include "jobdir/report/rules.h"
#include "jobdir/text/text.h"

static int load_one(struct job_report *ret_report, const char *path, struct err *err)
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
    if (ret_report->state == JOB_ENDED || ret_report->state == JOB_LOST)
        layers_over(&ret_report->model.layers);
    ret_report->snapshots = snapshots_json(path, ret_report->info.started_ns);
    ret_report->failed = report_failed_json(&ret_report->model, ret_report->info.supervisor);
    return 0;
}

int job_report_load(struct job_report *ret_report, const char *path, struct err *err)
{
    int code = load_one(ret_report, path, err);
    if (code == 0 && job_report_load_parts(ret_report) < 0)
        code = err_set(err, -ENOMEM, "out of memory");
    return code;
}

struct job_report *job_report_add_part(struct job_report *report, const char *dir)
{
    struct job_report *grown = realloc(report->parts, (report->part_count + 1) * sizeof *grown);
    char *path = strdup(dir);
    report->parts = grown ? grown : report->parts;
    if (!grown || !path) {
        free(path);
        return NULL;
    }
    struct job_report *part = &report->parts[report->part_count];
    *part = (struct job_report){.path = path, .state = JOB_LOST, .problems = json_array()};
    report->part_count++;
    if (job_model_init(&part->model, 0) < 0 || !part->problems)
        return NULL;
    part->model.part = text_base(path);
    job_report_look_at_part(report, part);
    return part;
}

void job_report_look_at_part(const struct job_report *report, struct job_report *part)
{
    struct err err = {0};
    struct job_info info;
    enum job_state state;
    if (job_info_read_state(part->path, &info, &state, &err) < 0) {
        job_info_done(&info);
        if (!part->info.json && !json_array_size(part->problems))
            json_array_append_new(part->problems, json_string(err.text));
        return;
    }
    job_info_done(&part->info);
    part->info = info;
    part->state = state;
    job_part_clock(part->path, &part->clock);
    if (report->info.started_ns && info.started_ns)
        part->shift = ((double)info.started_ns - (double)part->clock.offset_ns - (double)report->info.started_ns) / 1e9;
}

/* A part that cannot be read is there all the same, with what is known of it. */
static int load_part(void *ctx, const char *dir)
{
    struct job_report *report = ctx, *part = dir == report->path ? NULL : job_report_add_part(report, dir);
    struct err err = {0};
    if (!part)
        return dir == report->path ? 0 : -ENOMEM;
    part->model.keep_limit = REPORT_PROCESSES;
    if (job_model_read(&part->model, part->path, part->problems, &err) < 0)
        json_array_append_new(part->problems, json_string(err.text));
    double broke;
    if (!part->info.ended && report_node_broke(&report->model, text_base(part->path), &broke))
        part->state = JOB_LOST;
    part->snapshots = snapshots_json(part->path, part->info.started_ns);
    part->failed = report_failed_json(&part->model, part->info.supervisor);
    return 0;
}

int job_report_load_parts(struct job_report *report)
{
    return report->path && report->path[0] ? job_dirs_each(report->path, load_part, report) : 0;
}

void job_report_parts_done(struct job_report *report)
{
    for (size_t i = 0; i < report->part_count; i++) {
        char *path = (char *)report->parts[i].path;
        job_report_done(&report->parts[i]);
        free(path);
    }
    free(report->parts);
    report->parts = NULL;
    report->part_count = 0;
}

int job_report_find_ends(const struct job_report *report, struct mpi_stats_set *set)
{
    struct mpi_ends_of of = {.model = &report->model, .host = report->info.host, .started_ns = report->info.started_ns};
    int code = mpi_ends_find(set, &of);
    bool lost = false;
    for (size_t i = 0; i < report->part_count && code == 0; i++) {
        const struct job_report *part = &report->parts[i];
        of = (struct mpi_ends_of){.model = &part->model,
                                  .host = part->info.host ? part->info.host : "",
                                  .dir = part->path,
                                  .started_ns = part->info.started_ns,
                                  .shift = part->shift,
                                  .lost = part->state == JOB_LOST ||
                                          (part->state == JOB_UNREACHABLE && report->info.ended && !part->info.ended)};
        code = mpi_ends_find(set, &of);
        lost |= of.lost;
    }
    if (code == 0 && lost)
        mpi_ends_lost(set);
    return code;
}

void job_report_done(struct job_report *report)
{
    job_report_parts_done(report);
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
    json_decref(report->last);
    report->failed = report->last = NULL;
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
    int code = job_functions_load(&report->functions, report->path, &with_start, err);
    size_t index;
    const json_t *warning;
    json_array_foreach(job_report_warnings(report), index, warning)
    {
        uint64_t processes =
            (uint64_t)json_integer_value(json_object_get(json_object_get(warning, "fields"), "processes"));
        enum note_kind kind = note_json_kind(warning);
        if (code == 0 && (kind == NOTE_left_alone || kind == NOTE_unreached))
            report->functions->children_omitted += processes;
        if (code == 0 && (kind == NOTE_refused || kind == NOTE_late))
            report->functions->processes_omitted += processes;
        if (code == 0 && kind == NOTE_unwatched_to_end) /* what children of fork said then, nobody has read */
            report->functions->cut_off = true;
    }
    return code;
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

struct job_result job_report_total(const struct job_report *report)
{
    struct job_result all = job_report_result(report);
    for (size_t i = 0; i < report->part_count; i++) {
        struct job_result part = job_report_result(&report->parts[i]);
        all.cpu_seconds += part.cpu_seconds;
        all.processes += part.processes;
        all.peak_rss_bytes = job_most(all.peak_rss_bytes, part.peak_rss_bytes);
        if (all.peak_tree_pss_bytes || part.peak_tree_pss_bytes)
            all.peak_tree_pss_bytes = job_result_memory(&all) + job_result_memory(&part);
        all.peak_tree_rss_bytes += part.peak_tree_rss_bytes;
        all.io.known &= part.io.known;
        all.io.read_bytes += part.io.read_bytes;
        all.io.written_bytes += part.io.written_bytes;
        all.io.disk_read_bytes += part.io.disk_read_bytes;
        all.io.disk_written_bytes += part.io.disk_written_bytes;
        all.processes_at_once = job_most(all.processes_at_once, part.processes_at_once);
        all.threads_at_once = job_most(all.threads_at_once, part.threads_at_once);
        all.left_running += part.left_running;
        all.lost_records += part.lost_records;
    }
    return all;
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
        .peak_tree_rss_bytes = job_most(model->peak_tree_rss, model->peak_rss),
        .peak_tree_pss_bytes = job_model_peak_memory(model, model->peak_rss),
        .processes = job_most(model->started_total, model->ended_count + HASH_COUNT(model->alive)),
        .processes_at_once = model->peak_processes,
        .threads_at_once = model->peak_threads,
        .lost_records = model->missing_records,
    };
    if (report->state == JOB_RUNNING)
        result.wall_seconds = job_age_seconds(report->path, &report->info, model->last_seconds);
    result_from_spool(report, &result);
    return result;
}

bool job_report_is_lost(const struct job_report *report)
{
    return report->state == JOB_LOST && !report->info.ended && !report->model.end;
}

const char *job_report_stall(const struct job_report *report)
{
    const char *text = NULL;
    size_t index;
    const json_t *warning;
    json_array_foreach(job_report_warnings(report), index, warning)
    {
        enum note_kind kind = note_json_kind(warning);
        if (kind == NOTE_stuck || kind == NOTE_mpi_stalled)
            text = json_string_value(json_object_get(warning, "text"));
    }
    return text;
}

/* NULL: it does not, or has ended. */
static const json_t *standing_of(const struct job_report *report)
{
    return report->state == JOB_RUNNING && !report->info.ended && !report->model.end ? report->model.standing : NULL;
}

static double standing_seconds(const struct job_report *report)
{
    const json_t *standing = standing_of(report);
    double since = record_seconds(standing) - member_number(standing, "seconds");
    return job_report_result(report).wall_seconds - since;
}

bool job_report_put_standing(struct buf *out, const struct job_report *report)
{
    const json_t *standing = standing_of(report);
    const char *text = member_text(standing, "text");
    if (!standing)
        return false;
    buf_puts(out, json_is_true(json_object_get(standing, "deadlock")) ? "deadlock for " : "has stood still for ");
    text_seconds(out, standing_seconds(report));
    buf_puts(out, ": ");
    text_show(out, text);
    return true;
}

struct standing {
    double seconds;
    bool deadlock;
    const char *text;
};

static const struct field standing_fields[] = {
    {"seconds", FIELD_SECONDS, FIELD_AT(struct standing, seconds), .about = "for which it has done nothing"},
    {"deadlock", FIELD_BOOL, FIELD_AT(struct standing, deadlock), .about = "it can never go on"},
    {"text", FIELD_TEXT, FIELD_AT(struct standing, text), .about = "what it waits for, and where"},
    {0}};

static json_t *standing_json(const void *row, const void *all)
{
    const struct job_report *report = row;
    const json_t *record = standing_of(report);
    if (!record)
        return json_null();
    const struct standing standing = {standing_seconds(report), json_is_true(json_object_get(record, "deadlock")),
                                      member_text(record, "text")};
    return fields_json(standing_fields, &standing, NULL);
}

const struct field report_standing_fields[] = {
    {"standing", FIELD_OBJECT, .flags = FIELD_OR_NULL | FIELD_OPTIONAL, .json = standing_json, .of = standing_fields,
     .about = "what a running job stands still in; null: it goes on, or nothing is known of that"},
    {0}};

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
    struct report_style style = {.columns = text_columns(fd), .colour = text_has_colours(fd)};
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

/* A copy of an array of records without what only the spool needs. */
json_t *report_records_json(const json_t *records)
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

const json_t *report_longer(const json_t *a, const json_t *b)
{
    return json_array_size(a) >= json_array_size(b) ? a : b;
}

static uint64_t info_warnings(const struct job_report *report)
{
    uint64_t count = json_array_size(report->info.warnings);
    size_t index;
    json_t *kind;
    json_array_foreach(report->info.warnings_omitted, index, kind) count +=
        (uint64_t)json_integer_value(json_object_get(kind, "count"));
    return count;
}

/* Those that came when nothing could be recorded any more are in job.json only. */
static bool info_has_more(const struct job_report *report)
{
    return info_warnings(report) > report->model.warnings.total;
}

const json_t *job_report_warnings(const struct job_report *report)
{
    return info_has_more(report) ? report->info.warnings : report->model.warnings.records;
}

uint64_t job_report_warning_count(const struct job_report *report)
{
    return info_has_more(report) ? info_warnings(report) : report->model.warnings.total;
}

json_t *job_report_warnings_omitted(const struct job_report *report)
{
    json_t *omitted = report->info.warnings_omitted;
    if (!info_has_more(report))
        return kept_omitted(&report->model.warnings);
    return omitted ? json_incref(omitted) : json_array();
}

/* ---- the sections ---- */

enum section_in { IN_SUMMARY = 1, IN_REPORT = 2, IN_BOTH = IN_SUMMARY | IN_REPORT };

/* In the order in which people see them, which is that of the JSON's members, too. */
static const struct {
    unsigned in;
    report_section_fn *text;                                       /* NULL: for programs only */
    const struct field *fields;                                    /* of the struct job_report; NULL: none */
    void (*json)(json_t *object, const struct job_report *report); /* in place of that: fields of something else */
} sections[] = {
    {IN_BOTH, report_head_text, report_head_fields, report_head_json},
    {IN_BOTH, report_last_text, report_last_fields},
    {IN_BOTH, report_usage_text, report_growth_fields},
    {IN_SUMMARY, report_profile_text},
    {IN_SUMMARY, report_metrics_text},
    {IN_BOTH, report_nodes_text, report_node_fields},
    {0, NULL, report_timeline_fields},
    {IN_BOTH, report_failures_text, report_failed_fields},
    {IN_BOTH, report_rules_text, report_rule_fields},
    {IN_BOTH, report_crashes_text, report_crash_fields},
    {IN_BOTH, report_warnings_text, report_warning_fields},
    {IN_SUMMARY, report_trace_text},
    {IN_BOTH, report_pauses_text, report_pause_fields},
    {IN_REPORT, report_profile_text, report_profile_fields},
    {IN_REPORT, report_trace_text, report_trace_fields, report_trace_json},
    {IN_BOTH, report_mpi_text, report_mpi_fields, report_mpi_json},
    {IN_REPORT, report_messages_text, report_messages_fields, report_messages_json},
    {IN_REPORT, report_scripts_text},
    {IN_REPORT, report_logs_text},
    {IN_REPORT, report_health_text, report_layer_fields},
    {IN_REPORT, report_node_table_text},
    {IN_REPORT, report_commands_text, report_command_fields},
    {IN_REPORT, report_files_text, report_file_fields},
    {IN_REPORT, report_syscalls_text, report_syscalls_fields},
    {IN_REPORT, report_processes_text, report_process_fields},
    {IN_REPORT, report_gaps_text, report_gap_fields},
};

static void put_sections(struct buf *out, const struct job_report *report, struct report_style style,
                         enum section_in in)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (sections[i].in & in)
            sections[i].text(out, report, style, in == IN_REPORT);
}

void job_report_summary(struct buf *out, const struct job_report *report, struct report_style style)
{
    size_t start = out->len;
    put_sections(out, report, style, IN_SUMMARY);
    if (!report->path || report->path[0]) { /* else nothing was recorded that could be read */
        text_label(out, "more");
        buf_puts(out, "scry report ");
        text_show(out, report->info.id);
        buf_putc(out, '\n');
    }
    text_wrap(out, start, style.columns);
}

void job_report_text(struct buf *out, const struct job_report *report, struct report_style style)
{
    size_t start = out->len;
    put_sections(out, report, style, IN_REPORT);
    text_wrap(out, start, style.columns);
}

json_t *job_report_json(const struct job_report *report)
{
    json_t *json = json_object();
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (sections[i].json)
            sections[i].json(json, report);
        else if (sections[i].fields)
            fields_add(json, sections[i].fields, report, report);
    return json;
}

json_t *job_report_schema(void)
{
    struct field parts[sizeof sections / sizeof *sections + 1] = {0};
    size_t count = 0;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (sections[i].fields)
            parts[count++] = (struct field){"", FIELD_PART, .of = sections[i].fields};
    return fields_schema(parts);
}
