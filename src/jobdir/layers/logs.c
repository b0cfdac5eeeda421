/* SPDX-License-Identifier: Apache-2.0 */
/* Section of a report: lines of logs that matched, counted and the last ones, progress, what became of the files. */
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/sections.h"
#include "jobdir/text/text.h"

enum { SHOWN_PATTERNS = 15, SHOWN_ERRORS = 10, SHOWN_LINES = 10 };

static const char *level_name(uint32_t level)
{
    return line_level_name((enum line_level)level);
}

static const struct field pattern_fields[] = {
    {"pattern", FIELD_TEXT, FIELD_AT(struct layer_pattern, pattern), .column = {1, 2, -28, "Patterns of logs"}},
    {"level", FIELD_CHOICE, FIELD_NAMED(struct layer_pattern, level, level_name), .choices = "error|warning|info|debug",
     .column = {2, 2, -8, "level"}},
    {"lines", FIELD_COUNT, FIELD_AT(struct layer_pattern, lines), .about = "that matched, also those not listed",
     .column = {3, 1, 9, "lines"}},
    {"last_seconds", FIELD_SECONDS, FIELD_AT(struct layer_pattern, last), .about = "when the last one was seen",
     .column = {4, 2, 10, "last at"}},
    {0}};

/* The level, then the number of lines. */
static int by_lines(const void *a, const void *b)
{
    const struct layer_pattern *left = *(struct layer_pattern *const *)a, *right = *(struct layer_pattern *const *)b;
    if (left->level != right->level)
        return left->level < right->level ? -1 : 1;
    if (left->lines != right->lines)
        return left->lines < right->lines ? 1 : -1;
    return strcmp(left->pattern, right->pattern);
}

static void put_lasts(struct buf *out, const char *title, const struct layer_last *list)
{
    if (list)
        buf_printf(out, "\n%s\n", title);
    for (; list; list = list->hh.next) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        record_text(&text, list->record);
        buf_puts(out, "  ");
        text_show(out, text.data ? text.data : "?");
        buf_putc(out, '\n');
    }
}

/* Those that are not among the errors, which stand above. */
static void put_other_lines(struct buf *out, const struct layers *layers)
{
    struct layer_list others = {.records = json_array(),
                                .total = layers->levels[LINE_WARNING] + layers->levels[LINE_INFO] +
                                         layers->levels[LINE_DEBUG]};
    size_t index;
    json_t *record;
    json_array_foreach(layers->logs.records, index, record)
    {
        if (line_level_of(json_string_value(json_object_get(record, "level"))) != LINE_ERROR)
            json_array_append(others.records, record);
    }
    sections_put_records(out, "Other lines of logs", &others, SHOWN_LINES);
    json_decref(others.records);
}

void logs_text(struct buf *out, const struct layers *layers)
{
    size_t count;
    _cleanup_(freep) const struct layer_pattern **patterns = SORTED(layers->patterns, &count, by_lines);
    fields_table(out, &(struct field_table){pattern_fields, .most = SHOWN_PATTERNS, .more = " (--json lists them)"},
                 patterns, count, 0, layers);
    sections_put_records(out, "Errors in logs", &layers->errors, SHOWN_ERRORS);
    put_other_lines(out, layers);
    put_lasts(out, "Progress", layers->progress);
    put_lasts(out, "Log files", layers->log_files);
}

/* ---- for programs ---- */

static json_t *patterns_json(const void *row, const void *all)
{
    return SORTED_JSON(((const struct layers *)row)->patterns, by_lines, pattern_fields);
}

static json_t *lines_json(const void *row, const void *all)
{
    return sections_records(&((const struct layers *)row)->logs);
}

static json_t *errors_json(const void *row, const void *all)
{
    return sections_records(&((const struct layers *)row)->errors);
}

static json_t *lasts_json(const struct layer_last *last)
{
    json_t *list = json_array();
    for (; last; last = last->hh.next)
        json_array_append(list, last->record);
    struct layer_list all = {.records = list};
    json_t *copy = sections_records(&all);
    json_decref(list);
    return copy;
}

static json_t *files_json(const void *row, const void *all)
{
    return lasts_json(((const struct layers *)row)->log_files);
}

static json_t *progress_json(const void *row, const void *all)
{
    return lasts_json(((const struct layers *)row)->progress);
}

const struct field logs_fields[] = {
    {"error_lines", FIELD_COUNT, FIELD_AT(struct layers, levels[LINE_ERROR]),
     .about = "lines that matched a pattern of this level"},
    {"warning_lines", FIELD_COUNT, FIELD_AT(struct layers, levels[LINE_WARNING])},
    {"info_lines", FIELD_COUNT, FIELD_AT(struct layers, levels[LINE_INFO])},
    {"debug_lines", FIELD_COUNT, FIELD_AT(struct layers, levels[LINE_DEBUG])},
    {"patterns", FIELD_LIST, .json = patterns_json, .of = pattern_fields},
    {"errors", FIELD_LIST, .json = errors_json, .about = "the last ones: records log"},
    {"lines", FIELD_LIST, .json = lines_json, .about = "the last ones of any level: records log"},
    {"progress", FIELD_LIST, .json = progress_json, .about = "of each source the last: records progress"},
    {"files", FIELD_LIST, .json = files_json, .about = "what became of each last: records log_file"},
    {0}};
