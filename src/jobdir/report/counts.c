/* SPDX-License-Identifier: Apache-2.0 */
/* A section of a report: the files with the most bytes (--files). */
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum { REPORT_FILES = 20 };

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
