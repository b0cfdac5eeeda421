/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/now.h"

#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/layers.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum { LABEL_COLUMNS = 6, PARENTS_MOST = 64, JSON_EACH = 16 };

static const char *const labels[NOW_LAYERS] = {
    [NOW_PROGRESS] = "done", [NOW_SCRIPT] = "script", [NOW_PYTHON] = "python", [NOW_FUNCTION] = "calls",
    [NOW_MPI] = "mpi",       [NOW_LOG] = "log",       [NOW_HEALTH] = "health", [NOW_WARNING] = "warn",
};

/* ---- places ---- */

/* The last thing known of a process in this layer; NULL: nothing. */
static const json_t *place_in(const struct layer_place *place, enum now_layer layer)
{
    bool python = strcmp(member_text(place->line, "language"), "python") == 0;
    if (layer == NOW_SCRIPT)
        return python || place->over ? NULL : place->line;
    if (!python || !place->stack)
        return python ? place->line : place->stack;
    return record_seconds(place->stack) > record_seconds(place->line) ? place->stack : place->line;
}

static const struct job_process *process_living(const struct job_model *model, pid_t pid)
{
    const struct job_process *process;
    HASH_FIND_INT(model->alive, &pid, process);
    return process;
}

struct found {
    pid_t pid;
    const json_t *record;
    bool outer; /* another one runs below it */
};

static int by_pid(const void *a, const void *b)
{
    pid_t left = ((const struct found *)a)->pid, right = ((const struct found *)b)->pid;
    return (left > right) - (left < right);
}

static int by_time(const void *a, const void *b)
{
    double left = record_seconds(((const struct found *)a)->record),
           right = record_seconds(((const struct found *)b)->record);
    return left != right ? (left < right ? 1 : -1) : by_pid(a, b);
}

static void mark_outer(const struct job_model *model, struct found *list, size_t count)
{
    qsort(list, count, sizeof *list, by_pid);
    for (size_t i = 0; i < count; i++) {
        const struct job_process *process = process_living(model, list[i].pid);
        for (int steps = 0; process && steps < PARENTS_MOST; steps++) {
            const struct found parent = {.pid = process->ppid};
            struct found *outer = bsearch(&parent, list, count, sizeof *list, by_pid);
            if (outer)
                outer->outer = true;
            process = process_living(model, process->ppid);
        }
    }
}

/* What the innermost processes of the layer are at, the last change first. */
static size_t places_last(const struct job_model *model, enum now_layer layer, size_t each, struct now_line *ret_lines)
{
    size_t count = 0, used = 0, all = HASH_COUNT(model->layers.places);
    _cleanup_(freep) struct found *list = all ? calloc(all, sizeof *list) : NULL;
    for (const struct layer_place *place = list ? model->layers.places : NULL; place; place = place->hh.next) {
        const json_t *record = place_in(place, layer);
        if (record && process_living(model, place->pid))
            list[count++] = (struct found){place->pid, record, false};
    }
    if (!count)
        return 0;
    mark_outer(model, list, count);
    qsort(list, count, sizeof *list, by_time);
    for (size_t i = 0; i < count && used < each; i++)
        if (!list[i].outer)
            ret_lines[used++] = (struct now_line){layer, list[i].record};
    return used;
}

/* ---- all layers ---- */

static const json_t *last_of(const json_t *list)
{
    size_t count = json_array_size(list);
    return count ? json_array_get(list, count - 1) : NULL;
}

/* The last one of each source. */
static size_t all_progress(const struct job_model *model, size_t each, struct now_line *ret_lines)
{
    size_t used = 0;
    for (const struct layer_last *last = layers_last(model->layers.progress); last && used < each; last = last->hh.prev)
        ret_lines[used++] = (struct now_line){NOW_PROGRESS, last->record};
    return used;
}

static const json_t *layer_record(const struct job_model *model, enum now_layer layer)
{
    switch (layer) {
    case NOW_FUNCTION:
        return model->layers.last_functions;
    case NOW_MPI:
        return model->stall;
    case NOW_LOG:
        return last_of(model->layers.logs.records);
    case NOW_HEALTH:
        return model->layers.health;
    case NOW_WARNING:
        return last_of(model->warnings.records);
    default:
        return NULL;
    }
}

size_t now_lines(const struct job_model *model, size_t each, struct now_line ret_lines[NOW_LINES])
{
    size_t most = (NOW_LINES - NOW_LAYERS) / 3, used = 0; /* three layers have several */
    each = each < most ? each : most;
    for (enum now_layer layer = 0; layer < NOW_LAYERS; layer++) {
        const json_t *record = layer_record(model, layer);
        if (layer == NOW_PROGRESS)
            used += all_progress(model, each, ret_lines + used);
        else if (layer == NOW_SCRIPT || layer == NOW_PYTHON)
            used += places_last(model, layer, each, ret_lines + used);
        else if (record)
            ret_lines[used++] = (struct now_line){layer, record};
    }
    return used;
}

/* ---- as text ---- */

/* Where the thread that was found first is: all threads take too much room. */
static void put_stack(struct buf *out, const json_t *record)
{
    enum { CALLERS = 3 };
    const json_t *threads = json_object_get(record, "threads"), *frames = NULL, *frame;
    size_t i;
    for (i = 0; i < json_array_size(threads) && !json_array_size(frames); i++)
        frames = json_object_get(json_array_get(threads, i), "frames");
    buf_printf(out, "%lld", (long long)json_integer_value(json_object_get(record, "pid")));
    json_array_foreach(frames, i, frame)
    {
        const char *function = json_string_value(json_object_get(frame, "function"));
        const char *file = json_string_value(json_object_get(frame, "file"));
        if (i == CALLERS)
            break;
        buf_printf(out, "%s %s", i ? " <" : "", function ? function : "?");
        if (file && *file)
            buf_printf(out, " (%s:%lld)", text_base(file),
                       (long long)json_integer_value(json_object_get(frame, "line")));
    }
    if (json_array_size(frames) > CALLERS)
        buf_puts(out, " < ...");
    if (json_array_size(threads) > 1)
        buf_printf(out, ", %zu threads", json_array_size(threads));
}

static void put_said(struct buf *out, const struct now_line *line, double seconds)
{
    double since = seconds - record_seconds(line->record);
    bool stack = record_type(line->record) == RECORD_python_stack;
    if (line->layer == NOW_PROGRESS) {
        const char *source = json_string_value(json_object_get(line->record, "source"));
        now_progress_text(out, line->record, seconds);
        buf_printf(out, "  %s", source ? text_base(source) : "");
        return;
    }
    if (stack)
        put_stack(out, line->record);
    else
        record_text(out, line->record);
    if (since < NOW_TOLD_SECONDS || line->layer == NOW_HEALTH || stack)
        return;
    bool lasts = line->layer == NOW_SCRIPT || line->layer == NOW_PYTHON;
    buf_puts(out, lasts ? "  for " : "  ");
    text_seconds(out, since);
    buf_puts(out, lasts ? "" : " ago");
}

void now_text(struct buf *out, const struct now_line *line, double seconds)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    text_column(out, labels[line->layer], LABEL_COLUMNS);
    buf_putc(out, ' ');
    put_said(&text, line, seconds);
    text_show(out, text.data ? text.data : "");
}

/* ---- progress ---- */

const json_t *now_progress(const struct job_model *model)
{
    const struct layer_last *last = layers_last(model->layers.progress);
    return last ? last->record : NULL;
}

double now_share(const json_t *progress)
{
    double done = member_number(progress, "done");
    double total = member_number(progress, "total");
    double share = total > 0 ? done / total : -1;
    return share > 1 ? 1 : share >= 0 ? share : -1;
}

double now_left(const json_t *progress, double seconds)
{
    const json_t *left = json_object_get(progress, "left_seconds");
    double since = seconds - record_seconds(progress);
    if (!json_is_number(left) || json_number_value(left) < 0 || seconds < 0)
        return -1;
    double rest = json_number_value(left) - (since > 0 ? since : 0);
    return rest > 0 ? rest : -1; /* it takes longer than it looked like: nobody knows */
}

void now_progress_text(struct buf *out, const json_t *progress, double seconds)
{
    double share = now_share(progress), left = now_left(progress, seconds);
    if (share >= 0)
        buf_printf(out, "%.0f %%", (double)(int)(share * 100)); /* 100 % is said of nothing less */
    if (left < 0)
        return;
    buf_puts(out, share >= 0 ? ", " : "");
    if (left < NOW_ROUNDED_SECONDS) /* it is a guess: no decimals */
        buf_printf(out, "%.0f s", left);
    else
        text_seconds(out, left);
    buf_puts(out, " left");
}

/* ---- for programs ---- */

const struct field now_progress_fields[] = {
    {"source", FIELD_TEXT, FIELD_AT(struct now_done, source), .about = "the log, or the script, that tells it"},
    {"done", FIELD_NUMBER, FIELD_AT(struct now_done, done)},
    {"total", FIELD_NUMBER, FIELD_AT(struct now_done, total)},
    {"share", FIELD_NUMBER, FIELD_AT(struct now_done, share), .flags = FIELD_NEGATIVE_IS_NULL, .about = "0 to 1"},
    {"left_seconds", FIELD_NUMBER, FIELD_AT(struct now_done, left_seconds), .flags = FIELD_NEGATIVE_IS_NULL,
     .about = "from now until it is done, at the rate until now"},
    {0}};

static json_t *done_json(const json_t *record, double seconds)
{
    const struct now_done row = {.source = member_text(record, "source"),
                                 .done = member_number(record, "done"),
                                 .total = member_number(record, "total"),
                                 .share = now_share(record),
                                 .left_seconds = now_left(record, seconds)};
    return fields_json(now_progress_fields, &row, NULL);
}

json_t *now_progress_json(const json_t *progress, double seconds)
{
    return progress ? done_json(progress, seconds) : json_null();
}

static json_t *progress_json(const void *row, const void *all)
{
    const struct now *now = row;
    struct now_line lines[JSON_EACH];
    json_t *list = json_array();
    size_t count = all_progress(now->model, JSON_EACH, lines);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, done_json(lines[i].record, now->seconds));
    return list;
}

static json_t *places_json(const struct now *now, enum now_layer layer)
{
    struct now_line lines[JSON_EACH];
    json_t *list = json_array();
    size_t count = places_last(now->model, layer, JSON_EACH, lines);
    for (size_t i = 0; i < count; i++)
        json_array_append(list, (json_t *)lines[i].record);
    return list;
}

static json_t *scripts_json(const void *row, const void *all)
{
    return places_json(row, NOW_SCRIPT);
}

static json_t *python_json(const void *row, const void *all)
{
    return places_json(row, NOW_PYTHON);
}

static json_t *record_or_null(const void *row, enum now_layer layer)
{
    const json_t *record = layer_record(((const struct now *)row)->model, layer);
    return record ? json_incref((json_t *)record) : json_null();
}

static json_t *functions_json(const void *row, const void *all)
{
    return record_or_null(row, NOW_FUNCTION);
}

static json_t *log_json(const void *row, const void *all)
{
    return record_or_null(row, NOW_LOG);
}

static json_t *health_json(const void *row, const void *all)
{
    return record_or_null(row, NOW_HEALTH);
}

static json_t *warning_json(const void *row, const void *all)
{
    return record_or_null(row, NOW_WARNING);
}

static const struct field layer_fields[] = {
    {"progress", FIELD_LIST, .json = progress_json, .of = now_progress_fields, .about = "the last told first"},
    {"scripts", FIELD_LIST, .json = scripts_json,
     .about = "records script_line: where the innermost shell scripts are, the last change first"},
    {"python", FIELD_LIST, .json = python_json, .about = "records script_line or python_stack of Python programs"},
    {"functions", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = functions_json, .about = "the last such record"},
    {"log", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = log_json, .about = "the last such record"},
    {"health", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = health_json, .about = "the last such record"},
    {"warning", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = warning_json, .about = "the last such record"},
    {0}};

static json_t *layers_json(const void *row, const void *all)
{
    return fields_json(layer_fields, row, NULL);
}

const struct field now_fields[] = {{"layers", FIELD_OBJECT, .json = layers_json, .of = layer_fields,
                                    .about = "where each layer is now; records are those of records.schema.json"},
                                   {0}};
