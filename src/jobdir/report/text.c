/* SPDX-License-Identifier: Apache-2.0 */
/* Section of a report: its head, which says what the job was and how it ended, and its course over time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/record/mirror.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum {
    SPARK_COLUMNS = 40,
    SPARK_WINDOWS = 8, /* of a quarter of a second; fewer make no picture */
    SUMMARY_COMMANDS = 5,
    SUMMARY_PAUSES = 5,
    SUMMARY_WIDTH = 80,
    SUMMARY_IO = 100 << 20, /* bytes; from there on it is said */
    SHOWN_FRAMES = 16,
    SUMMARY_CALLS = 6,
    REPORT_COMMANDS = 20,
    REPORT_LINES = 40, /* processes shown singly */
    COMMAND_BYTES = 110,
};

static void put_lost(struct buf *out, const struct job_report *report)
{
    const char *stall = job_report_stall(report);
    buf_puts(out, "was lost: " JOB_LOST_TEXT);
    buf_puts(out, stall ? "; before: " : "");
    text_show(out, stall ? stall : "");
}

void job_report_outcome(struct buf *out, const struct job_report *report)
{
    char name[32];
    struct job_result result = job_report_result(report);
    const char *status = job_report_status(report);
    if (strcmp(status, "not_started") == 0)
        buf_printf(out, "could not be started: exit status %d", result.exit_code);
    else if (strcmp(status, "signaled") == 0) {
        buf_printf(out, "was killed by %s (%s)%s", text_signal(result.signal, name, sizeof name),
                   strsignal(result.signal), result.core_dumped ? ", core dumped" : "");
        if (result.reason && *result.reason) {
            buf_puts(out, ": ");
            text_show(out, result.reason);
        }
    } else if (strcmp(status, "exited") == 0)
        buf_printf(out, "ended: exit status %d", result.exit_code);
    else if (report->state == JOB_RUNNING)
        buf_puts(out, job_is_stopped(report->path, &report->info) ? "is stopped by a signal, as by ^Z" : "is running");
    else if (report->state == JOB_UNWATCHED)
        buf_puts(out, "goes on unwatched: its `scry run` was killed");
    else if (report->state == JOB_UNREACHABLE) {
        buf_puts(out, "is out of reach: nothing was heard from ");
        text_show(out, report->info.host);
        buf_puts(out, " for a while; it may still be running");
    } else
        put_lost(out, report);
}

/* What the same memory is if pages that processes share count for each. */
static void put_unshared(struct buf *out, const struct job_report *report, const struct job_result *result)
{
    const struct memory_record *peak = &report->model.peak_memory;
    if (!result->peak_tree_pss_bytes)
        return;
    bool less = result->peak_tree_pss_bytes < result->peak_tree_rss_bytes;
    if (less) {
        buf_puts(out, " (");
        text_size(out, result->peak_tree_rss_bytes);
        buf_puts(out, " if shared pages count for each process");
    }
    if (peak->unread)
        buf_printf(out, "%s of %llu process%s are not told apart", less ? "; those" : " (shared pages",
                   (unsigned long long)peak->unread, peak->unread == 1 ? "" : "es");
    if (less || peak->unread)
        buf_putc(out, ')');
}

/* Of a job that runs, or failed. */
static void put_growth(struct buf *out, const struct job_report *report, const struct job_result *result)
{
    _cleanup_(buf_done) struct buf growth = BUF_INIT;
    if ((report->info.ended && !result->exit_code) || !job_report_put_growth(&growth, report))
        return;
    text_label(out, "");
    buf_printf(out, "%s\n", growth.data ? growth.data : "");
}

/* Of a job that has read or written much. */
static void put_io(struct buf *out, const struct job_io *io)
{
    if (!io->known || (io->read_bytes < SUMMARY_IO && io->written_bytes < SUMMARY_IO &&
                       io->disk_read_bytes < SUMMARY_IO && io->disk_written_bytes < SUMMARY_IO))
        return;
    text_label(out, "data");
    buf_puts(out, "read ");
    text_size(out, io->read_bytes);
    buf_puts(out, ", wrote ");
    text_size(out, io->written_bytes);
    buf_puts(out, "; from disks ");
    text_size(out, io->disk_read_bytes);
    buf_puts(out, ", to disks ");
    text_size(out, io->disk_written_bytes);
    buf_putc(out, '\n');
}

static void put_usage(struct buf *out, const struct job_report *report, const struct job_result *result)
{
    bool watched = report->state == JOB_RUNNING || report->state == JOB_ENDED;
    text_label(out, "time");
    buf_puts(out, watched ? "wall " : "as far as recorded: wall ");
    text_seconds(out, result->wall_seconds);
    buf_puts(out, ", cpu ");
    text_seconds(out, result->cpu_seconds);
    if (report->part_count)
        buf_puts(out, " on all nodes");
    if (result->wall_seconds > 0.05)
        buf_printf(out, " (%.2f processors busy)", result->cpu_seconds / result->wall_seconds);
    buf_putc(out, '\n');
    if (result->peak_rss_bytes) {
        text_label(out, "memory");
        buf_puts(out, "peak ");
        text_size(out, result->peak_rss_bytes);
        buf_puts(out, " in one process");
        if (result->processes != 1 && result->peak_tree_rss_bytes > result->peak_rss_bytes) {
            buf_puts(out, ", ");
            text_size(out, job_result_memory(result));
            buf_puts(out, report->part_count ? " as the sum of the nodes' peaks" : " in all together");
            put_unshared(out, report, result);
        }
        buf_putc(out, '\n');
    }
    put_growth(out, report, result);
    put_io(out, &result->io);
}

static void put_processes(struct buf *out, const struct job_report *report, const struct job_result *result)
{
    if (!result->processes)
        return;
    text_label(out, "processes");
    buf_printf(out, "%llu", (unsigned long long)result->processes);
    if (result->processes_at_once && result->processes > 1)
        buf_printf(out, "%s, at most %llu at once%s", report->part_count ? " on all nodes" : "",
                   (unsigned long long)result->processes_at_once, report->part_count ? " on one" : "");
    if (result->threads_at_once > 1)
        buf_printf(out, ", %llu threads at once%s", (unsigned long long)result->threads_at_once,
                   report->part_count ? " on one" : "");
    if (result->left_running)
        buf_printf(out, "; %llu still running", (unsigned long long)result->left_running);
    if (!report->model.singly && report->model.reason[0]) {
        buf_puts(out, "; short ones not counted: ");
        text_show(out, report->model.reason);
    }
    buf_putc(out, '\n');
}

static void put_commands(struct buf *out, const struct job_report *report)
{
    size_t count;
    _cleanup_(freep) struct job_command *list = report_commands(report, &count);
    if (count < 2)
        return;
    text_label(out, "commands");
    struct buf command = BUF_INIT;
    size_t shown = 0, start = out->len, room = SUMMARY_WIDTH - strlen("  commands   ") - strlen(", 1000 more");
    for (; shown < count && shown < SUMMARY_COMMANDS; shown++) {
        buf_puts(&command, shown ? ", " : "");
        text_show(&command, list[shown].name);
        if (list[shown].count > 1)
            buf_printf(&command, " x %llu", (unsigned long long)list[shown].count);
        buf_putc(&command, ' ');
        text_seconds(&command, (double)list[shown].cpu_ns / 1e9);
        if (shown && out->len - start + command.len > room)
            break;
        buf_append(out, command.data ? command.data : "", command.len);
        buf_clear(&command);
    }
    buf_done(&command);
    if (count > shown)
        buf_printf(out, ", %zu more", count - shown);
    buf_putc(out, '\n');
}

static void put_course(struct buf *out, const struct job_model *model, struct report_style style)
{
    if (model->rss_series.used < SPARK_WINDOWS)
        return;
    size_t columns = model->rss_series.used < SPARK_COLUMNS ? model->rss_series.used : SPARK_COLUMNS;
    text_label(out, "");
    buf_puts(out, "memory ");
    series_sparkline(&model->rss_series, out, columns, 0, style.ascii);
    buf_puts(out, " up to ");
    text_size(out, (uint64_t)series_max(&model->rss_series));
    buf_putc(out, '\n');
    text_label(out, "");
    buf_puts(out, "cpu    ");
    series_sparkline(&model->cpu_series, out, columns, 0, style.ascii);
    buf_printf(out, " up to %.1f processors\n", series_max(&model->cpu_series));
}

static void put_standing(struct buf *out, const struct job_report *report)
{
    _cleanup_(buf_done) struct buf standing = BUF_INIT;
    if (!job_report_put_standing(&standing, report))
        return;
    text_label(out, "now");
    buf_printf(out, "%s\n", standing.data ? standing.data : "");
}

static void put_head(struct buf *out, const struct job_report *report, struct report_style style)
{
    struct job_result result = job_report_result(report);
    bool bad = report->info.ended ? result.exit_code != 0 : report->state != JOB_RUNNING;
    buf_printf(out, "scry: %sjob ", style.colour ? (bad ? TEXT_RED : TEXT_GREEN) : "");
    text_show(out, report->info.id[0] ? report->info.id : report->path); /* its description may be damaged */
    if (report->info.name[0]) {
        buf_puts(out, " (");
        text_show(out, report->info.name);
        buf_putc(out, ')');
    }
    buf_putc(out, ' ');
    job_report_outcome(out, report);
    buf_printf(out, "%s\n", style.colour ? TEXT_PLAIN : "");
    put_standing(out, report);
}

static void put_command_line(struct buf *out, const struct job_info *info)
{
    size_t index;
    json_t *arg;
    struct buf line = BUF_INIT;
    text_label(out, "command");
    json_array_foreach(info->argv, index, arg)
    {
        buf_puts(&line, index ? " " : "");
        text_show(&line, json_string_value(arg) ? json_string_value(arg) : "?");
        if (line.len > 300) {
            line.len = 300;
            buf_puts(&line, "...");
            break;
        }
    }
    buf_append(out, line.data ? line.data : "", line.len);
    buf_done(&line);
    buf_putc(out, '\n');
    text_label(out, "where");
    text_show(out, info->user);
    buf_putc(out, '@');
    text_show(out, info->host);
    buf_putc(out, ':');
    text_show(out, info->cwd);
    buf_putc(out, '\n');
}

static void put_started(struct buf *out, const struct job_info *info)
{
    char text[64];
    time_t seconds = (time_t)(info->started_ns / 1000000000u);
    struct tm tm;
    localtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%a %d %b %Y, %H:%M:%S %Z", &tm);
    text_label(out, "started");
    buf_printf(out, "%s\n", text);
}

/* Of a mirror: where it is from, and what it lacks. */
static void put_from(struct buf *out, const char *path)
{
    json_t *remote = path ? mirror_read_remote(path) : NULL;
    const char *via = json_string_value(json_object_get(remote, "via"));
    const char *note = json_string_value(json_object_get(remote, "note"));
    double heard = json_number_value(json_object_get(remote, "heard"));
    if (remote) {
        text_label(out, "from");
        text_show(out, via ? via : "a mirror");
        if (json_is_true(json_object_get(remote, "complete"))) {
            buf_puts(out, ", all of it but the traces");
        } else if (heard > 0) {
            double ago = (double)clock_wall_ns() / NS_PER_SECOND - heard;
            buf_puts(out, ", heard ");
            text_seconds(out, ago > 0 ? ago : 0);
            buf_puts(out, " ago");
        }
        if (json_is_false(json_object_get(remote, "signed")))
            buf_puts(out, "; unsigned");
        if (note) {
            buf_puts(out, "; ");
            text_show(out, note);
        }
        buf_putc(out, '\n');
    }
    json_decref(remote);
}

void report_head_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    put_head(out, report, style);
    if (whole && report->info.json) {
        put_command_line(out, &report->info);
        put_started(out, &report->info);
        report_batch_text(out, report->info.batch);
        put_from(out, report->path);
    } else if (whole) {
        text_label(out, "command");
        buf_puts(out, "what was run, where and when, is not known: job.json cannot be read (see below)\n");
    }
}

void report_usage_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    struct job_result result = job_report_total(report);
    if (result.started) {
        put_usage(out, report, &result);
        put_processes(out, report, &result);
    }
    put_commands(out, report);
    put_course(out, &report->model, style);
}

/* ---- for programs ---- */

struct head {
    const struct job_info *info;
    const char *path, *status;
    struct job_result result;
    bool ended;
};

static json_t *exit_code_json(const void *row, const void *all)
{
    const struct head *head = row;
    return head->ended ? json_integer(head->result.exit_code) : json_null();
}

static const struct field info_fields[] = {
    {"id", FIELD_TEXT, FIELD_AT(struct job_info, id)},
    {"name", FIELD_TEXT, FIELD_AT(struct job_info, name), .about = "from --name, or the batch system"},
    {"host", FIELD_TEXT, FIELD_AT(struct job_info, host)},
    {"user", FIELD_TEXT, FIELD_AT(struct job_info, user)},
    {"cwd", FIELD_TEXT, FIELD_AT(struct job_info, cwd)},
    {"argv", FIELD_LIST, FIELD_AT(struct job_info, argv), .of = fields_texts},
    {"started_seconds", FIELD_SECONDS, FIELD_AT(struct job_info, started_ns), .about = "since 1970"},
    {"batch", FIELD_OBJECT, FIELD_AT(struct job_info, batch), FIELD_OR_NULL, .of = job_batch_fields,
     .about = "the job in the batch system that started it; null: there is none"},
    {"task", FIELD_TEXT, FIELD_AT(struct job_info, task), FIELD_ZERO_IS_NULL,
     .about = "of which it is a run: its id; null: of none"},
    {0}};

#define IO(member) FIELD_AT(struct job_io, member)
static const struct field io_fields[] = {
    {"read_bytes", FIELD_BYTES, IO(read_bytes), .about = "by calls, of files, pipes and sockets"},
    {"written_bytes", FIELD_BYTES, IO(written_bytes)},
    {"disk_read_bytes", FIELD_BYTES, IO(disk_read_bytes),
     .about = "what of that, and of mapped files, came from disks"},
    {"disk_written_bytes", FIELD_BYTES, IO(disk_written_bytes), .about = "went to disks, or will"},
    {0}};

static json_t *io_json(const void *row, const void *all)
{
    const struct job_io *io = &((const struct job_result *)row)->io;
    return io->known ? fields_json(io_fields, io, NULL) : json_null();
}

static const struct field result_fields[] = {
    {"signal", FIELD_INTEGER, FIELD_AT(struct job_result, signal), FIELD_ZERO_IS_NULL,
     .about = "that killed the command"},
    {"reason", FIELD_TEXT, FIELD_AT(struct job_result, reason), FIELD_ZERO_IS_NULL,
     .about = "why it got that signal, where it is known: \"out of memory\", \"stack overflow\", \"a NULL pointer\", a "
              "limit; or why it could not be started"},
    {"core_dumped", FIELD_BOOL, FIELD_AT(struct job_result, core_dumped)},
    {"wall_seconds", FIELD_SECONDS, FIELD_AT(struct job_result, wall_seconds)},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct job_result, cpu_seconds),
     .about = "user and system time of all processes"},
    {"peak_rss_bytes", FIELD_BYTES, FIELD_AT(struct job_result, peak_rss_bytes), .about = "of the largest process"},
    {"peak_tree_rss_bytes", FIELD_BYTES, FIELD_AT(struct job_result, peak_tree_rss_bytes),
     .about = "of all processes together; shared pages count for each"},
    {"peak_tree_pss_bytes", FIELD_BYTES, FIELD_AT(struct job_result, peak_tree_pss_bytes), FIELD_ZERO_IS_NULL,
     .about = "of all processes together; shared pages count once (PSS); null: not known, for little can be shared"},
    {"io", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = io_json, .of = io_fields,
     .about = "what the command, and all that was waited for, have read and written; null: not known, or not yet"},
    {"process_count", FIELD_COUNT, FIELD_AT(struct job_result, processes)},
    {"processes_at_once", FIELD_COUNT, FIELD_AT(struct job_result, processes_at_once)},
    {"threads_at_once", FIELD_COUNT, FIELD_AT(struct job_result, threads_at_once)},
    {"left_running", FIELD_COUNT, FIELD_AT(struct job_result, left_running),
     .about = "processes that outlived the command"},
    {"lost_records", FIELD_COUNT, FIELD_AT(struct job_result, lost_records),
     .about = "not recorded: a full disk, a limit"},
    {0}};

static const struct field mirror_fields[] = {
    {"via", FIELD_TEXT, .about = "the broker, or \"record\""},
    {"complete", FIELD_BOOL, .about = "it has all but the traces"},
    {"heard_seconds", FIELD_NUMBER, .flags = FIELD_OR_NULL, .about = "since 1970: when the job was heard last"},
    {"note", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "what it lacks, for people"},
    {"signed", FIELD_BOOL, .flags = FIELD_OR_NULL,
     .about = "the job has signed all of it; null: there is no key of its user here to tell by"},
    {0}};

static json_t *mirror_json(const void *row, const void *all)
{
    const struct head *head = row;
    json_t *remote = head->path ? mirror_read_remote(head->path) : NULL;
    json_t *via = json_object_get(remote, "via");
    json_t *json = remote ? json_pack("{s:O?, s:b, s:O?, s:O?, s:O?}", "via", via, "complete",
                                      json_is_true(json_object_get(remote, "complete")), "heard_seconds",
                                      json_object_get(remote, "heard"), "note", json_object_get(remote, "note"),
                                      "signed", json_object_get(remote, "signed"))
                          : NULL;
    for (size_t i = 0; json && mirror_fields[i].name; i++)
        if (!json_object_get(json, mirror_fields[i].name))
            json_object_set_new(json, mirror_fields[i].name, i ? json_null() : json_string("unknown"));
    json_decref(remote);
    return json ? json : json_null();
}

/* Of a struct head. */
const struct field report_head_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct head, info), FIELD_POINTER, .of = info_fields},
    {"path", FIELD_TEXT, FIELD_AT(struct head, path), .about = "the job directory"},
    {"status", FIELD_CHOICE, FIELD_AT(struct head, status),
     .choices = "running|exited|signaled|not_started|unwatched|lost|unreachable",
     .about = "how it ended; of a job that has not: running; unwatched: its scry run was killed; lost: no end was "
              "recorded; unreachable: on another host, not heard of"},
    {"exit_code", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = exit_code_json,
     .about = "what scry run exited with: the command's, or 128 + signal; null: not ended"},
    {"mirror", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = mirror_json, .of = mirror_fields,
     .about = "of a job that is elsewhere: where this is from; null: its own directory"},
    {"", FIELD_PART, FIELD_AT(struct head, result), .of = result_fields},
    {0}};

void report_head_json(json_t *object, const struct job_report *report)
{
    const struct head head = {.info = &report->info,
                              .path = report->path,
                              .status = job_report_status(report),
                              .result = job_report_result(report),
                              .ended = report->info.ended || report->model.end};
    fields_add(object, report_head_fields, &head, report);
}

static json_t *windows_json(const void *row, const void *all)
{
    const struct series *series = row;
    json_t *list = json_array();
    for (size_t i = 0; i < series->used; i++)
        json_array_append_new(list, series->max[i] >= 0 ? json_real(series->max[i]) : json_null());
    return list;
}

static const struct field series_fields[] = {{"window_seconds", FIELD_SECONDS, FIELD_AT(struct series, width_seconds)},
                                             {"max", FIELD_LIST, .json = windows_json, .of = fields_numbers,
                                              .about = "the greatest value in each window; null: not measured"},
                                             {0}};

static const struct field timeline_fields[] = {
    {"rss_bytes", FIELD_OBJECT, FIELD_AT(struct job_model, rss_series), .of = series_fields},
    {"cpus", FIELD_OBJECT, FIELD_AT(struct job_model, cpu_series), .of = series_fields},
    {"processes", FIELD_OBJECT, FIELD_AT(struct job_model, processes_series), .of = series_fields},
    {0}};

/* As the record has it. */
static const struct field node_fields[] = {{"host", FIELD_TEXT},
                                           {"os", FIELD_TEXT, .flags = FIELD_OPTIONAL},
                                           {"release", FIELD_TEXT, .flags = FIELD_OPTIONAL},
                                           {"arch", FIELD_TEXT, .flags = FIELD_OPTIONAL},
                                           {"cpus", FIELD_INTEGER, .flags = FIELD_OR_NULL},
                                           {"memory_bytes", FIELD_INTEGER, .flags = FIELD_OR_NULL},
                                           {0}};

const struct field report_timeline_fields[] = {
    {"timeline", FIELD_OBJECT, FIELD_AT(struct job_report, model), .of = timeline_fields},
    {"node", FIELD_OBJECT, FIELD_AT(struct job_report, model.node), FIELD_OR_NULL | FIELD_OPEN, .of = node_fields},
    {0}};
