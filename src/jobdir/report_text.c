/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of a report for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "jobdir/report.h"
#include "jobdir/report_failed.h"
#include "jobdir/rules.h"
#include "jobdir/text.h"

enum {
    SPARK_COLUMNS = 40,
    SPARK_WINDOWS = 8, /* of a quarter of a second; fewer make no picture */
    SUMMARY_COMMANDS = 5,
    SUMMARY_PAUSES = 5,
    SUMMARY_WIDTH = 80,
    SHOWN_FRAMES = 16,
    SUMMARY_CALLS = 6,
    REPORT_COMMANDS = 20,
    REPORT_LINES = 40, /* processes shown singly */
    COMMAND_BYTES = 110,
};

static void put_outcome(struct buf *out, const struct job_report *report, const struct job_result *result)
{
    char name[32];
    const char *status = job_report_status(report);
    if (strcmp(status, "not_started") == 0)
        buf_printf(out, "could not be started: exit status %d", result->exit_code);
    else if (strcmp(status, "signaled") == 0) {
        buf_printf(out, "was killed by %s (%s)%s", text_signal(result->signal, name, sizeof name),
                   strsignal(result->signal), result->core_dumped ? ", core dumped" : "");
        if (result->reason && *result->reason) {
            buf_puts(out, ": ");
            text_show(out, result->reason);
        }
    } else if (strcmp(status, "exited") == 0)
        buf_printf(out, "ended: exit status %d", result->exit_code);
    else if (report->state == JOB_RUNNING)
        buf_puts(out, "is running");
    else if (report->state == JOB_UNWATCHED)
        buf_puts(out, "goes on unwatched: its `scry run` was killed");
    else if (report->state == JOB_UNREACHABLE)
        buf_printf(out, "is out of reach: nothing was heard from %s for a while; it may still be running",
                   report->info.host);
    else
        buf_puts(out, "was lost: neither the command nor its `scry run` is there any more, and no end was recorded");
}

static void put_usage(struct buf *out, const struct job_report *report, const struct job_result *result)
{
    bool watched = report->state == JOB_RUNNING || report->state == JOB_ENDED;
    text_label(out, "time");
    buf_puts(out, watched ? "wall " : "as far as recorded: wall ");
    text_seconds(out, result->wall_seconds);
    buf_puts(out, ", cpu ");
    text_seconds(out, result->cpu_seconds);
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
            text_size(out, result->peak_tree_rss_bytes);
            buf_puts(out, " in all together");
        }
        buf_putc(out, '\n');
    }
}

static void put_processes(struct buf *out, const struct job_report *report, const struct job_result *result)
{
    if (!result->processes)
        return;
    text_label(out, "processes");
    buf_printf(out, "%llu", (unsigned long long)result->processes);
    if (result->processes_at_once && result->processes > 1)
        buf_printf(out, ", at most %llu at once", (unsigned long long)result->processes_at_once);
    if (result->threads_at_once > 1)
        buf_printf(out, ", %llu threads at once", (unsigned long long)result->threads_at_once);
    if (result->left_running)
        buf_printf(out, "; %llu still running", (unsigned long long)result->left_running);
    if (!report->model.singly && report->model.reason[0]) {
        buf_puts(out, "; short ones not counted: ");
        text_show(out, report->model.reason);
    }
    buf_putc(out, '\n');
}

static int by_cpu(const void *a, const void *b)
{
    const struct job_command *left = *(struct job_command *const *)a, *right = *(struct job_command *const *)b;
    if (left->cpu_ns != right->cpu_ns)
        return left->cpu_ns < right->cpu_ns ? 1 : -1;
    return strcmp(left->name, right->name);
}

/* The commands by CPU time, malloc'ed. */
static const struct job_command **sorted_commands(const struct job_model *model, size_t *ret_count)
{
    size_t count = HASH_COUNT(model->commands), used = 0;
    const struct job_command **list = calloc(count + 1, sizeof *list);
    for (struct job_command *command = model->commands; command && list; command = command->hh.next)
        list[used++] = command;
    if (list)
        qsort(list, used, sizeof *list, by_cpu);
    *ret_count = used;
    return list;
}

static void put_commands(struct buf *out, const struct job_model *model)
{
    size_t count;
    _cleanup_(freep) const struct job_command **list = sorted_commands(model, &count);
    if (count < 2)
        return;
    text_label(out, "commands");
    struct buf command = BUF_INIT;
    size_t shown = 0, start = out->len, room = SUMMARY_WIDTH - strlen("  commands   ") - strlen(", 1000 more");
    for (; shown < count && shown < SUMMARY_COMMANDS; shown++) {
        buf_puts(&command, shown ? ", " : "");
        text_show(&command, list[shown]->name);
        if (list[shown]->count > 1)
            buf_printf(&command, " x %llu", (unsigned long long)list[shown]->count);
        buf_putc(&command, ' ');
        text_seconds(&command, (double)list[shown]->cpu_ns / 1e9);
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

static void put_frames(struct buf *out, const json_t *frames)
{
    size_t index;
    json_t *frame;
    json_array_foreach(frames, index, frame)
    {
        if (index == SHOWN_FRAMES && json_array_size(frames) > SHOWN_FRAMES + 1) {
            buf_printf(out, "    ... %zu more frames\n", json_array_size(frames) - index);
            return;
        }
        const char *function = json_string_value(json_object_get(frame, "function"));
        const char *file = json_string_value(json_object_get(frame, "file"));
        const char *module = json_string_value(json_object_get(frame, "module"));
        buf_printf(out, "    #%-2zu ", index);
        if (function)
            text_show(out, function);
        else
            buf_printf(out, "0x%llx", (unsigned long long)json_integer_value(json_object_get(frame, "pc")));
        if (file) {
            buf_puts(out, " at ");
            text_show(out, file);
            buf_printf(out, ":%d", (int)json_integer_value(json_object_get(frame, "line")));
        } else if (module) {
            buf_puts(out, " in ");
            text_show(out, module);
        }
        buf_putc(out, '\n');
    }
}

static void put_fault(struct buf *out, const json_t *crash)
{
    const char *reason = json_string_value(json_object_get(crash, "reason"));
    const json_t *address = json_object_get(crash, "address");
    if (reason) {
        buf_puts(out, ": ");
        text_show(out, reason);
    }
    if (json_is_integer(address))
        buf_printf(out, "%s address 0x%llx", reason ? "," : ":", (unsigned long long)json_integer_value(address));
}

/* `calls`: so many of those that a traced process was in are shown; the report has them all in a place of its own. */
static void put_crashes(struct buf *out, const json_t *crashes, const struct job_functions *functions, size_t calls,
                        struct report_style style)
{
    size_t index;
    json_t *crash;
    json_array_foreach(crashes, index, crash)
    {
        char name[32];
        const char *process = json_string_value(json_object_get(crash, "name"));
        const char *core = json_string_value(json_object_get(crash, "core"));
        const char *note = json_string_value(json_object_get(crash, "note"));
        int signo = (int)json_integer_value(json_object_get(crash, "signal"));
        buf_printf(out, "  %scrash%s      ", style.colour ? "\033[1;31m" : "", style.colour ? "\033[0m" : "");
        text_show(out, process ? process : "?");
        buf_printf(out, " (pid %d): %s (%s)", (int)json_integer_value(json_object_get(crash, "pid")),
                   text_signal(signo, name, sizeof name), strsignal(signo));
        put_fault(out, crash);
        if (core) {
            buf_puts(out, ", core file ");
            text_show(out, core);
        }
        buf_putc(out, '\n');
        const json_t *frames = json_object_get(crash, "frames");
        pid_t pid = (pid_t)json_integer_value(json_object_get(crash, "pid"));
        put_frames(out, frames);
        bool known = job_functions_crash(out, functions, pid, json_array_size(frames) ? 0 : calls);
        if (note && (!known || json_is_true(json_object_get(crash, "core_dumped")))) {
            buf_puts(out, "    ");
            text_show(out, note);
            buf_putc(out, '\n');
        }
    }
}

static void put_warnings(struct buf *out, const json_t *warnings, struct report_style style)
{
    size_t index;
    json_t *warning;
    json_array_foreach(warnings, index, warning)
    {
        const char *text = json_string_value(json_object_get(warning, "text"));
        buf_printf(out, "  %swarning%s    ", style.colour ? "\033[1;33m" : "", style.colour ? "\033[0m" : "");
        text_show(out, text ? text : "?");
        buf_putc(out, '\n');
    }
}

static const json_t *longer(const json_t *a, const json_t *b)
{
    return json_array_size(a) >= json_array_size(b) ? a : b;
}

/* whole: of the report, not of the summary. */
static void put_body(struct buf *out, const struct job_report *report, bool whole, struct report_style style)
{
    size_t crash_calls = whole ? 0 : SUMMARY_CALLS;
    struct job_result result = job_report_result(report);
    if (result.started) {
        put_usage(out, report, &result);
        put_processes(out, report, &result);
    }
    put_commands(out, &report->model);
    put_course(out, &report->model, style);
    report_failed_text(out, report->failed, whole);
    rules_text(out, &report->model);
    snapshots_text(out, report->snapshots);
    put_crashes(out, longer(report->info.crashes, report->model.crashes), report->functions, crash_calls, style);
    put_warnings(out, longer(report->info.warnings, report->model.warnings), style);
}

static void put_head(struct buf *out, const struct job_report *report, struct report_style style)
{
    struct job_result result = job_report_result(report);
    bool bad = report->info.ended ? result.exit_code != 0 : report->state != JOB_RUNNING;
    buf_printf(out, "scry: %sjob ", style.colour ? (bad ? "\033[1;31m" : "\033[1;32m") : "");
    text_show(out, report->info.id[0] ? report->info.id : report->path); /* its description may be damaged */
    if (report->info.name[0]) {
        buf_puts(out, " (");
        text_show(out, report->info.name);
        buf_putc(out, ')');
    }
    buf_putc(out, ' ');
    put_outcome(out, report, &result);
    buf_printf(out, "%s\n", style.colour ? "\033[0m" : "");
}

/* scry set switched recording off, and on again. */
static void put_pauses(struct buf *out, const struct job_report *report)
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

void job_report_summary(struct buf *out, const struct job_report *report, struct report_style style)
{
    put_head(out, report, style);
    put_body(out, report, false, style);
    job_functions_summary(out, report->functions, longer(report->info.warnings, report->model.warnings));
    put_pauses(out, report);
    mpi_report_summary(out, report->mpi);
    if (report->path && !report->path[0])
        return; /* nothing was recorded that could be read */
    text_label(out, "more");
    buf_puts(out, "scry report ");
    text_show(out, report->info.id);
    buf_putc(out, '\n');
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

static void put_command_table(struct buf *out, const struct job_model *model)
{
    size_t count;
    _cleanup_(freep) const struct job_command **list = sorted_commands(model, &count);
    if (!count)
        return;
    buf_puts(out, "\nCommands that ended             count    cpu        largest\n");
    for (size_t i = 0; i < count && i < REPORT_COMMANDS; i++) {
        struct buf name = BUF_INIT, cpu = BUF_INIT;
        text_show(&name, list[i]->name);
        text_seconds(&cpu, (double)list[i]->cpu_ns / 1e9);
        buf_puts(out, "  ");
        text_column(out, name.data ? name.data : "", 28);
        buf_printf(out, " %7llu    %-10s ", (unsigned long long)list[i]->count, cpu.data ? cpu.data : "");
        if (list[i]->peak_rss)
            text_size(out, list[i]->peak_rss);
        else
            buf_puts(out, "-"); /* too short to be sampled */
        buf_putc(out, '\n');
        buf_done(&name);
        buf_done(&cpu);
    }
    if (count > REPORT_COMMANDS)
        buf_printf(out, "  ... and %zu more (--json lists all)\n", count - REPORT_COMMANDS);
}

static int by_process_cpu(const void *a, const void *b)
{
    const struct job_process *left = *(struct job_process *const *)a, *right = *(struct job_process *const *)b;
    if (left->cpu_ns != right->cpu_ns)
        return left->cpu_ns < right->cpu_ns ? 1 : -1;
    return left->pid - right->pid;
}

/* What became of those without a record of their end: there may have been no room for it on the disk. */
static const char *left_over(const struct job_report *report)
{
    uint64_t left_running = report->info.result.left_running;
    if (!left_running)
        return "ended";
    return HASH_COUNT(report->model.alive) <= left_running ? "left running" : "unknown";
}

/* How a process ended, or why that is not known. */
static void put_how(struct buf *out, const struct job_process *process, const struct job_report *report)
{
    enum job_state state = report->state;
    char name[32];
    if (process->end < 0)
        buf_puts(out, state == JOB_ENDED ? left_over(report) : state == JOB_LOST ? "unknown" : "alive");
    else if (process->status == JOB_STATUS_UNKNOWN)
        buf_puts(out, "ended");
    else if (WIFSIGNALED(process->status))
        buf_puts(out, text_signal(WTERMSIG(process->status), name, sizeof name));
    else
        buf_printf(out, "exit %d", WEXITSTATUS(process->status));
}

static void put_process_line(struct buf *out, const struct job_process *process, const struct job_report *report)
{
    struct buf text = BUF_INIT;
    text_show(&text, process->name);
    buf_printf(out, "  %8d %7d  ", process->pid, process->ppid);
    text_column(out, text.data ? text.data : "", 15);
    buf_clear(&text);
    text_seconds(&text, process->start);
    buf_printf(out, " %10s", text.data ? text.data : "");
    buf_clear(&text);
    text_seconds(&text, (double)process->cpu_ns / 1e9);
    buf_printf(out, " %9s", text.data ? text.data : "");
    buf_clear(&text);
    if (process->peak_rss)
        text_size(&text, process->peak_rss);
    else
        buf_putc(&text, '-');
    buf_printf(out, " %8s %4llu  ", text.data ? text.data : "", (unsigned long long)process->peak_threads);
    put_how(out, process, report);
    buf_puts(out, "\n    ");
    if (report_command(out, process->argv, process->argv_cut, COMMAND_BYTES))
        buf_putc(out, '\n');
    else
        out->len -= strlen("    ");
    buf_done(&text);
}

static void put_process_table(struct buf *out, const struct job_report *report)
{
    const struct job_model *model = &report->model;
    size_t count = 0, all = model->ended_count + HASH_COUNT(model->alive);
    _cleanup_(freep) const struct job_process **list = calloc(all + 1, sizeof *list);
    if (!list || !all)
        return;
    size_t without = 0;
    for (size_t i = 0; i < model->ended_count; i++) {
        if (!job_report_has(report, &model->ended[i]))
            continue;
        list[count++] = &model->ended[i];
        without += !model->ended[i].argv;
    }
    for (const struct job_process *process = model->alive; process && count < all; process = process->hh.next)
        if (job_report_has(report, process))
            list[count++] = process;
    qsort(list, count, sizeof *list, by_process_cpu);
    buf_puts(out, "\nProcesses     ppid  name               started       cpu     peak  thr  how\n");
    for (size_t i = 0; i < count && i < REPORT_LINES; i++)
        put_process_line(out, list[i], report);
    if (!report->one_rank && count + model->ended_omitted > REPORT_LINES)
        buf_printf(out, "  ... and %llu more with less cpu (--json lists them)\n",
                   (unsigned long long)(count + model->ended_omitted - REPORT_LINES));
    if (without)
        buf_printf(out, "  of %zu the command line is not known: too short, and static programs or too many at once\n",
                   without);
}

static void put_gaps(struct buf *out, const struct job_report *report)
{
    size_t index;
    json_t *item;
    json_array_foreach(report->model.gaps, index, item)
    {
        const char *reason = json_string_value(json_object_get(item, "reason"));
        buf_printf(out, "%s  not watched from %.1f s to %.1f s: ", index ? "" : "\nGaps\n",
                   json_number_value(json_object_get(item, "from")), json_number_value(json_object_get(item, "to")));
        text_show(out, reason ? reason : "?");
        buf_putc(out, '\n');
    }
    json_array_foreach(report->problems, index, item)
    {
        buf_puts(out, index ? "  " : "\nNot all of the job directory could be read\n  ");
        text_show(out, json_string_value(item));
        buf_putc(out, '\n');
    }
}

void job_report_text(struct buf *out, const struct job_report *report, struct report_style style)
{
    size_t start = out->len;
    put_head(out, report, style);
    if (report->info.json) {
        put_command_line(out, &report->info);
        put_started(out, &report->info);
    } else {
        text_label(out, "command");
        buf_puts(out, "what was run, where and when, is not known: job.json cannot be read (see below)\n");
    }
    put_body(out, report, true, style);
    put_pauses(out, report);
    job_functions_text(out, report->functions, longer(report->info.warnings, report->model.warnings), style.columns);
    mpi_report_text(out, report->mpi, report->one_rank ? report->mpi_rank : -1);
    mpi_messages_text(out, report->messages); /* of all ranks, or not looked at */
    if (!report->one_rank)
        put_command_table(out, &report->model);
    put_process_table(out, report);
    put_gaps(out, report);
    text_wrap(out, start, style.columns);
}
