/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of a report: the processes of the job, and its commands, which are the processes of one name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "jobdir/report/failed.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum {
    REPORT_COMMANDS = 20,
    REPORT_LINES = 40, /* processes shown singly */
    COMMAND_BYTES = 110,
};

/* ---- commands ---- */

static bool bytes_known(const void *all)
{
    const struct job_report *report = all;
    for (size_t i = 0; i <= report->part_count; i++) {
        const struct job_model *model = i ? &report->parts[i - 1].model : &report->model;
        for (const struct job_command *command = model->commands; command; command = command->hh.next)
            if (command->bytes.read >= 0)
                return true;
    }
    return false;
}

#define BYTES(member) FIELD_AT(struct process_bytes, member), FIELD_NEGATIVE_IS_NULL
static const struct field bytes_fields[] = {
    {"read_bytes", FIELD_BYTES, BYTES(read),
     .about = "by itself and its calls, at least, of files, pipes and sockets, in whole kilobytes of each thread; "
              "null: not known"},
    {"written_bytes", FIELD_BYTES, BYTES(written)},
    {"disk_read_bytes", FIELD_BYTES, BYTES(disk_read), .about = "came from disks, of that and of mapped files"},
    {"disk_written_bytes", FIELD_BYTES, BYTES(disk_written)},
    {0}};
#undef BYTES

static void put_bytes(struct buf *out, const void *at, const void *row, const void *all)
{
    int64_t bytes = *(const int64_t *)at;
    if (bytes < 0)
        buf_putc(out, '-');
    else
        text_size(out, (uint64_t)bytes);
}

static const struct field command_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct job_command, name), .column = FIELD_COLUMN(1, 2, -28, "Commands that ended")},
    {"count", FIELD_COUNT, FIELD_AT(struct job_command, count), .column = FIELD_COLUMN(2, 1, 7, "count")},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct job_command, cpu_ns), .column = FIELD_COLUMN(3, 4, -10, "cpu")},
    {"peak_rss_bytes", FIELD_BYTES, FIELD_AT(struct job_command, peak_rss),
     .column = FIELD_COLUMN(6, 1, 0, "largest", .none = "-", .zero = true)}, /* 0: too short to be sampled */
    {"", FIELD_PART, FIELD_AT(struct job_command, bytes), .of = bytes_fields},
    {"bytes_sampled", FIELD_BOOL, FIELD_AT(struct job_command, bytes_sampled),
     .about =
         "of some of them as they were seen last, which may be long before their end: the kernel tells all to root"},
    {.type = FIELD_SHOWN,
     FIELD_AT(struct job_command, bytes.read),
     .column = FIELD_COLUMN(4, 1, -9, "read", .when = bytes_known, .text = put_bytes)},
    {.type = FIELD_SHOWN,
     FIELD_AT(struct job_command, bytes.written),
     .column = FIELD_COLUMN(5, 1, -9, "written", .when = bytes_known, .text = put_bytes)},
    {0}};

static json_t *commands_json(const void *row, const void *all)
{
    const struct job_model *model = &((const struct job_report *)row)->model;
    json_t *list = json_array();
    for (const struct job_command *command = model->commands; command; command = command->hh.next)
        json_array_append_new(list, fields_json(command_fields, command, all));
    return list;
}

const struct field report_command_fields[] = {
    {"commands", FIELD_LIST, .json = commands_json, .of = command_fields, .about = "ended processes by name"}, {0}};

static int by_cpu(const void *a, const void *b)
{
    const struct job_command *left = a, *right = b;
    if (left->cpu_ns != right->cpu_ns)
        return left->cpu_ns < right->cpu_ns ? 1 : -1;
    return strcmp(left->name, right->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct job_command *)a)->name, ((const struct job_command *)b)->name);
}

static const struct job_model *model_at(const struct job_report *report, size_t i)
{
    return i ? &report->parts[i - 1].model : &report->model;
}

struct job_command *report_commands(const struct job_report *report, size_t *ret_count)
{
    size_t room = 1, used = 0, count = 0;
    for (size_t i = 0; i <= report->part_count; i++)
        room += HASH_COUNT(model_at(report, i)->commands);
    struct job_command *list = calloc(room, sizeof *list);
    for (size_t i = 0; i <= report->part_count && list; i++)
        for (const struct job_command *each = model_at(report, i)->commands; each; each = each->hh.next)
            list[used++] = *each;
    if (list)
        qsort(list, used, sizeof *list, by_name);
    for (size_t i = 0; i < used; i++) {
        if (!count || strcmp(list[count - 1].name, list[i].name) != 0) {
            list[count++] = list[i];
            continue;
        }
        struct job_command *sum = &list[count - 1];
        sum->count += list[i].count;
        sum->cpu_ns += list[i].cpu_ns;
        job_bytes_add(&sum->bytes, &list[i].bytes);
        sum->bytes_sampled |= list[i].bytes_sampled;
        sum->peak_rss = job_most(sum->peak_rss, list[i].peak_rss);
    }
    if (list)
        qsort(list, count, sizeof *list, by_cpu);
    *ret_count = count;
    return list;
}

void report_commands_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    size_t count;
    _cleanup_(freep) struct job_command *list = report_commands(report, &count);
    const struct job_model *model = &report->model;
    bool told = count == 1 && list[0].count == 1 && model->ended_count == 1 &&
                model->ended[0].ppid == report->info.supervisor; /* by the head, and below as the only process */
    if (!count || told || report->one_rank)
        return;
    buf_putc(out, '\n');
    fields_title(out, command_fields, report);
    for (size_t i = 0; i < count && i < REPORT_COMMANDS; i++)
        fields_row(out, command_fields, &list[i], report);
    if (count > REPORT_COMMANDS)
        buf_printf(out, "  ... and %zu more (--json lists all)\n", count - REPORT_COMMANDS);
    bool sampled = false;
    for (size_t i = 0; i < count; i++)
        sampled |= list[i].bytes_sampled;
    if (sampled)
        buf_puts(out, "  read and written: at least, as they were seen last\n");
}

/* ---- processes ---- */

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
static void put_how(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_process *process = row;
    const struct job_report *report = all;
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

static json_t *source_json(const void *row, const void *all)
{
    const char *source = job_status_source_name(((const struct job_process *)row)->source);
    return source ? json_string(source) : json_null();
}

const struct field job_process_fields[] = {
    {"pid", FIELD_COUNT, FIELD_AT(struct job_process, pid), .column = FIELD_COLUMN(1, 2, 8, "Processes")},
    {"ppid", FIELD_COUNT, FIELD_AT(struct job_process, ppid), .about = "parent, as last seen",
     .column = FIELD_COLUMN(2, 1, 7, "ppid")},
    {"node", FIELD_TEXT, FIELD_AT(struct job_process, node), FIELD_OR_NULL,
     .about = "of one on another node than the job's: which; null: the job's own"},
    {"name", FIELD_TEXT, FIELD_AT(struct job_process, name),
     .about = "the kernel's name of the command, at most 15 bytes", .column = FIELD_COLUMN(3, 2, -15, "name")},
    {"start_seconds", FIELD_SECONDS, FIELD_AT(struct job_process, start), .about = "since the job's start",
     .column = FIELD_COLUMN(4, 1, 10, "started")},
    {"end_seconds", FIELD_SECONDS, FIELD_AT(struct job_process, end), FIELD_NEGATIVE_IS_NULL,
     .about = "null: alive, as far as is known"},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct job_process, cpu_ns), .column = FIELD_COLUMN(5, 1, 9, "cpu")},
    {"peak_rss_bytes", FIELD_BYTES, FIELD_AT(struct job_process, peak_rss), .about = "0: too short to be sampled",
     .column = FIELD_COLUMN(6, 1, 8, "peak", .none = "-", .zero = true)},
    {"threads", FIELD_COUNT, FIELD_AT(struct job_process, peak_threads), .about = "at most at once",
     .column = FIELD_COLUMN(7, 1, 4, "thr")},
    {"", FIELD_PART, .of = report_status_fields},
    {"status_source", FIELD_CHOICE, .flags = FIELD_OR_NULL, .json = source_json, .choices = "event|pidfd|wait",
     .about = "who told exit_code or signal: the kernel's process events, a descriptor held on the process, scry run "
              "as its parent"},
    {"status_unknown", FIELD_TEXT, FIELD_AT(struct job_process, why), FIELD_OR_NULL,
     .about = "why it is not known how it ended; null: it is, or the process lives"},
    {"", FIELD_PART, FIELD_AT(struct job_process, bytes), .of = bytes_fields},
    {"bytes_sampled", FIELD_BOOL, FIELD_AT(struct job_process, bytes_sampled),
     .about = "as they were seen last, which may be long before its end"},
    {"", FIELD_PART, .of = report_argv_fields},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(8, 2, 0, "how", .text = put_how)},
    {0}};

static json_t *processes_json(const void *row, const void *all)
{
    const struct job_report *report = row;
    const struct job_model *model = &report->model;
    json_t *list = json_array();
    for (size_t i = 0; i < model->ended_count; i++)
        if (job_report_has(report, &model->ended[i]))
            json_array_append_new(list, fields_json(job_process_fields, &model->ended[i], all));
    for (const struct job_process *process = model->alive; process; process = process->hh.next)
        if (job_report_has(report, process))
            json_array_append_new(list, fields_json(job_process_fields, process, all));
    return list;
}

const struct field report_process_fields[] = {
    {"processes_listed_singly", FIELD_BOOL, FIELD_AT(struct job_report, model.singly),
     .about = "false: those too short to be sampled are missing in processes and process_count"},
    {"processes", FIELD_LIST, .json = processes_json, .of = job_process_fields},
    {"processes_omitted", FIELD_COUNT, FIELD_AT(struct job_report, model.ended_omitted),
     .about = "ended processes beyond those listed"},
    {0}};

static void put_process_line(struct buf *out, const struct job_process *process, const struct job_report *report)
{
    fields_row(out, job_process_fields, process, report);
    if (process->argv && json_equal(process->argv, report->info.argv))
        return; /* the head of the report says it */
    buf_puts(out, "    ");
    if (report_command(out, process->argv, process->argv_cut, COMMAND_BYTES))
        buf_putc(out, '\n');
    else
        out->len -= strlen("    ");
}

void report_processes_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
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
    buf_putc(out, '\n');
    fields_title(out, job_process_fields, report);
    for (size_t i = 0; i < count && i < REPORT_LINES; i++)
        put_process_line(out, list[i], report);
    if (!report->one_rank && count + model->ended_omitted > REPORT_LINES)
        buf_printf(out, "  ... and %llu more with less cpu (--json lists them)\n",
                   (unsigned long long)(count + model->ended_omitted - REPORT_LINES));
    if (without)
        buf_printf(out, "  of %zu the command line is not known: too short, and static programs or too many at once\n",
                   without);
}
