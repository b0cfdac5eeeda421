/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of a report: the files with the most bytes (--files), and system calls (--syscalls). */
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum { REPORT_FILES = 20, REPORT_SYSCALLS = 15 };

static const struct job_model *model_at(const struct job_report *report, size_t i)
{
    return i ? &report->parts[i - 1].model : &report->model;
}

/* Of all nodes; a list of its own. NULL: nobody counted any. */
static json_t *files_json(const void *row, const void *all)
{
    const struct job_report *report = row;
    json_t *list = NULL;
    for (size_t i = 0; i <= report->part_count; i++) {
        const json_t *files = json_object_get(model_at(report, i)->files, "files");
        if (!json_is_array(files))
            continue;
        list = list ? list : json_array();
        json_array_extend(list, (json_t *)files);
    }
    return list ? list : json_null();
}

const struct field report_file_fields[] = {
    {"files", FIELD_LIST, .flags = FIELD_OR_NULL, .json = files_json, .of = record_file_fields,
     .about =
         "with most bytes, of all nodes, with --files: by calls of programs that are not static, not of mapped files"},
    {0}};

static const struct field file_columns[] = {
    {"read_bytes", FIELD_BYTES, FIELD_AT(struct file_row, read_bytes),
     .column = FIELD_COLUMN(1, 2, -13, "Files: read", .none = "-", .zero = true)},
    {"written_bytes", FIELD_BYTES, FIELD_AT(struct file_row, written_bytes),
     .column = FIELD_COLUMN(2, 1, -9, "written", .none = "-", .zero = true)},
    {"program", FIELD_TEXT, FIELD_AT(struct file_row, program), .column = FIELD_COLUMN(3, 1, -15, "by")},
    {"pid", FIELD_COUNT, FIELD_AT(struct file_row, pid), .column = FIELD_COLUMN(4, 1, 8, "pid")},
    {"path", FIELD_TEXT, FIELD_AT(struct file_row, path), .column = FIELD_COLUMN(5, 2, 0, "file")},
    {0}};

static int by_bytes(const void *a, const void *b)
{
    const struct file_row *left = a, *right = b;
    uint64_t first = left->read_bytes + left->written_bytes, second = right->read_bytes + right->written_bytes;
    return first < second ? 1 : first > second ? -1 : 0;
}

void report_files_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    json_t *list = files_json(report, report);
    size_t count = json_array_size(list);
    _cleanup_(freep) struct file_row *rows = calloc(count + 1, sizeof *rows);
    for (size_t i = 0; rows && i < count; i++)
        fields_read(record_file_fields, json_array_get(list, i), &rows[i], sizeof rows[i]);
    if (rows && count) {
        qsort(rows, count, sizeof *rows, by_bytes);
        buf_putc(out, '\n');
        fields_title(out, file_columns, report);
    }
    for (size_t i = 0; rows && i < count && i < REPORT_FILES; i++)
        fields_row(out, file_columns, &rows[i], report);
    if (count > REPORT_FILES)
        buf_printf(out, "  ... and %zu more with less bytes (--json lists them)\n", count - REPORT_FILES);
    json_decref(list);
}

/* ---- system calls ---- */

/* The name of a process of the job's own node; NULL: not known. */
static const char *name_of(const struct job_model *model, const json_t *process)
{
    pid_t pid = (pid_t)json_integer_value(json_object_get(process, "pid"));
    const struct job_process *alive, *ended = job_model_ended(model, pid);
    HASH_FIND_INT(model->alive, &pid, alive);
    return alive ? alive->name : ended ? ended->name : NULL;
}

static json_t *named_json(const void *row, const void *all)
{
    const char *name = name_of(&((const struct job_report *)all)->model, row);
    return name ? text_json(name) : json_null();
}

static const struct field named_fields[] = {
    {"program", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "the name of the process; null: not known"},
    {"", FIELD_PART, .of = record_syscall_process_fields},
    {0}};

static json_t *syscalls_json(const void *row, const void *all)
{
    const struct job_model *model = &((const struct job_report *)row)->model;
    const json_t *processes = json_object_get(model->syscalls, "processes"), *each;
    json_t *list = json_array();
    size_t index;
    if (!model->syscalls) {
        json_decref(list);
        return json_null();
    }
    json_array_foreach(processes, index, each)
    {
        json_t *process = json_copy((json_t *)each);
        json_object_set_new(process, "program", named_json(each, all));
        json_array_append_new(list, process);
    }
    return json_pack("{s:O, s:o}", "calls", json_object_get(model->syscalls, "calls"), "processes", list);
}

static const struct field syscalls_member_fields[] = {
    {"calls", FIELD_LIST, .of = record_syscall_fields, .about = "of all processes, those that took longest first"},
    {"processes", FIELD_LIST, .of = named_fields, .about = "by process; at most 300"},
    {0}};
const struct field report_syscalls_fields[] = {{"syscalls", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = syscalls_json,
                                                .of = syscalls_member_fields,
                                                .about = "with --syscalls, of the job's own node"},
                                               {0}};

/* Of a call the process in which it took longest, which comes first. */
static void put_whose(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct syscall_count_row *call = row;
    const json_t *processes = json_object_get(((const struct job_report *)all)->model.syscalls, "processes"), *each;
    size_t index;
    json_array_foreach(processes, index, each)
    {
        struct syscall_count_row its;
        fields_read(record_syscall_process_fields, each, &its, sizeof its);
        if (!its.call || strcmp(its.call, call->call) != 0)
            continue;
        const char *name = name_of(&((const struct job_report *)all)->model, each);
        text_show(out, name ? name : "process");
        buf_printf(out, " (%d) ", (int)its.pid);
        text_seconds(out, (double)its.ns / 1e9);
        return;
    }
}

static const struct field syscall_columns[] = {
    {"call", FIELD_TEXT, FIELD_AT(struct syscall_count_row, call), .column = FIELD_COLUMN(1, 2, -18, "System calls")},
    {"count", FIELD_COUNT, FIELD_AT(struct syscall_count_row, count), .column = FIELD_COLUMN(2, 1, 9, "count")},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct syscall_count_row, ns), .column = FIELD_COLUMN(3, 3, -10, "time")},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(4, 1, 0, "longest in", .text = put_whose)},
    {0}};

void report_syscalls_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    const json_t *calls = json_object_get(report->model.syscalls, "calls"), *each;
    size_t index, count = json_array_size(calls);
    if (!count)
        return;
    buf_putc(out, '\n');
    fields_title(out, syscall_columns, report);
    json_array_foreach(calls, index, each)
    {
        struct syscall_count_row row;
        fields_read(record_syscall_fields, each, &row, sizeof row);
        if (index < REPORT_SYSCALLS && row.call)
            fields_row(out, syscall_columns, &row, report);
    }
    if (count > REPORT_SYSCALLS)
        buf_printf(out, "  ... and %zu more that took less time (--json lists them)\n", count - REPORT_SYSCALLS);
}
