/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/layers.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/data/number.h"
#include "jobdir/text/fields.h"
#include "shm/waits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void join_pairs(struct series *series)
{
    for (size_t i = 0; i < series->used; i += 2)
        series->max[i / 2] = i + 1 < series->used ? number_max(series->max[i], series->max[i + 1]) : series->max[i];
    series->used = (series->used + 1) / 2;
    series->width_seconds *= 2;
}

/* The window that a time is in; they are joined until there is one. */
static size_t window_at(struct series *series, double seconds)
{
    while (seconds / series->width_seconds >= SERIES_WINDOWS)
        join_pairs(series);
    return (size_t)(seconds / series->width_seconds);
}

void series_add_from(struct series *series, double from, double seconds, double value)
{
    if (series->width_seconds == 0)
        series->width_seconds = SERIES_FIRST_SECONDS;
    if (!(seconds >= 0) || !isfinite(seconds) || !(value >= -1) || !isfinite(value))
        return;
    size_t last = window_at(series, seconds), first = from >= 0 && from < seconds ? window_at(series, from) : last;
    if (last + 1 < series->used)
        last = series->used - 1;
    if (last >= series->used && !GROW_TO(series->max, last + 1, series->room))
        return;
    while (series->used <= last)
        series->max[series->used++] = -1;
    for (size_t i = first < last ? first : last; i <= last; i++)
        series->max[i] = number_max(series->max[i], value);
}

void series_add(struct series *series, double seconds, double value)
{
    if (value >= 0)
        series_add_from(series, seconds, seconds, value);
}

void series_done(struct series *series)
{
    free(series->max);
    *series = (struct series){0};
}

double series_max(const struct series *series)
{
    double max = 0;
    for (size_t i = 0; i < series->used; i++)
        max = number_max(max, series->max[i]);
    return max;
}

/* The maximum of the windows that column `column` of `columns` covers. */
static double column_max(const struct series *series, size_t column, size_t columns)
{
    size_t from = column * series->used / columns, to = (column + 1) * series->used / columns;
    if (to == from)
        to = from + 1;
    double max = -1;
    for (size_t i = from; i < to && i < series->used; i++)
        max = number_max(max, series->max[i]);
    return max;
}

void series_sparkline(const struct series *series, struct buf *out, size_t columns, double top, int ascii)
{
    static const char plain[] = ".:-=+*#@";
    if (top <= 0)
        top = series_max(series);
    double value = -1;
    for (size_t i = 0; i < columns && series->used; i++) {
        double here = column_max(series, i, columns);
        /* windows are shorter than the sampling period: what was last measured holds until the next */
        value = here >= 0 ? here : value;
        if (value < 0) {
            buf_putc(out, ' ');
            continue;
        }
        int level = top > 0 ? (int)(value / top * 7.999) : 0;
        level = level < 0 ? 0 : level > 7 ? 7 : level;
        if (ascii)
            buf_putc(out, plain[level]);
        else
            buf_printf(out, "\xe2\x96%c", 0x81 + level);
    }
}

static void drop_place(struct layer_place *place)
{
    json_decref(place->line);
    json_decref(place->stack);
    json_decref(place->trap);
    json_decref(place->trap_only);
    json_decref(place->tested);
    json_decref(place->conditions);
    json_decref(place->piped);
    json_decref(place->prints);
    json_decref(place->kills);
}

void layers_init(struct layers *layers)
{
    *layers = (struct layers){.oom_kills_before = -1};
}

void layers_done(struct layers *layers)
{
    HASH_FREE_ALL(layers->places, drop_place(each));
    HASH_FREE_ALL(layers->lines, free(each->file), free(each->command));
    HASH_FREE_ALL(layers->scripts);
    HASH_FREE_ALL(layers->python, free(each->function), free(each->file));
    HASH_FREE_ALL(layers->windows);
    HASH_FREE_ALL(layers->functions, free(each->function), free(each->file));
    HASH_FREE_ALL(layers->patterns);
    HASH_FREE_ALL(layers->log_files, json_decref(each->record));
    HASH_FREE_ALL(layers->progress, json_decref(each->record));
    HASH_FREE_ALL(layers->metrics);
    HASH_FREE_ALL(layers->filesystems);
    struct layer_list *lists[] = {&layers->failures, &layers->uncaught, &layers->caught,
                                  &layers->logs,     &layers->errors,   &layers->last_words};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        json_decref(lists[i]->records);
    json_decref(layers->health);
    json_decref(layers->last_functions);
    json_decref(layers->last_lines);
    for (size_t i = 0; layers->curves && i < LAYER_CURVES; i++)
        series_done(&layers->curves[i]);
    free(layers->curves);
    layers_init(layers);
}

/* ---- what tables and lists share ---- */

static int64_t get_size(const json_t *json, const char *key)
{
    const json_t *number = json_object_get(json, key);
    return json_is_integer(number) ? json_integer_value(number) : -1;
}

double record_seconds(const json_t *record)
{
    const json_t *time = json_object_get(record, "time");
    return json_is_number(time) ? json_number_value(time) : member_number(record, "t");
}

static const char *const levels[LINE_LEVELS] = {"error", "warning", "info", "debug"};

const char *line_level_name(enum line_level level)
{
    return levels[level];
}

enum line_level line_level_of(const char *name)
{
    for (enum line_level level = 0; name && level < LINE_LEVELS; level++)
        if (strcmp(name, levels[level]) == 0)
            return level;
    return LINE_INFO;
}

static void record_replace(json_t **slot, const json_t *record)
{
    json_decref(*slot);
    *slot = json_incref((json_t *)record);
}

static void list_add(struct layer_list *list, const json_t *record, size_t most)
{
    if (!list->records)
        list->records = json_array();
    list->total++;
    json_array_append(list->records, (json_t *)record);
    if (json_array_size(list->records) > most)
        json_array_remove(list->records, 0);
}

/* The element of a table with this name, which ends it; made where it is missing and there is room. */
#define NAMED(head, member, text, most) \
    ({ \
        __typeof__(head) found_; \
        const char *name_ = (text); \
        HASH_FIND_STR(head, name_, found_); \
        if (!found_ && HASH_COUNT(head) < (most) && \
            (found_ = calloc(1, sizeof *found_ + strlen(name_) + 1)) != NULL) { \
            memcpy(found_->member, name_, strlen(name_) + 1); \
            HASH_ADD_STR(head, member, found_); \
        } \
        found_; \
    })

/* ---- places ---- */

static void place_forget(struct layers *layers, struct layer_place *place)
{
    HASH_DEL(layers->places, place);
    drop_place(place);
    free(place);
}

static struct layer_place *find_place(const struct layers *layers, pid_t pid)
{
    struct layer_place *place;
    HASH_FIND_INT(layers->places, &pid, place);
    return place;
}

void layers_process_ended(struct layers *layers, pid_t pid, double seconds)
{
    struct layer_place *place = find_place(layers, pid);
    if (!place || !place->over || seconds < place->over + SCRIPT_OVER_SECONDS)
        return;
    json_decref(place->line);
    place->line = NULL;
}

void layers_forget(struct layers *layers, pid_t pid, double start)
{
    struct layer_window *window, *next;
    struct layer_place *place = find_place(layers, pid);
    if (place && ((place->line && record_seconds(place->line) >= start) ||
                  (place->stack && record_seconds(place->stack) >= start)))
        return;
    HASH_ITER(hh, layers->windows, window, next) /* their sum never came, so they stay counted */
    if (window->pid == pid) {
        HASH_DEL(layers->windows, window);
        free(window);
    }
    if (place)
        place_forget(layers, place);
}

const struct layer_place *layers_place(const struct layers *layers, pid_t pid)
{
    return find_place(layers, pid);
}

/* It becomes the last of the table. Beyond the limit the first goes. */
static struct layer_place *touch_place(struct layers *layers, json_int_t number)
{
    pid_t pid = (pid_t)number;
    struct layer_place *place = find_place(layers, pid);
    if (place) {
        HASH_DEL(layers->places, place);
    } else {
        place = calloc(1, sizeof *place);
        if (!place)
            return NULL;
        *place = (struct layer_place){
            .pid = pid, .read_bytes = -1, .written_bytes = -1, .open_files = -1, .open_files_limit = -1};
    }
    HASH_ADD_INT(layers->places, pid, place);
    if (HASH_COUNT(layers->places) > LAYER_PLACES)
        place_forget(layers, layers->places);
    return place;
}

/* What a script or a Python program is at: `type` is one of those that touch a place. */
static void apply_place(struct layers *layers, enum record_type type, const json_t *record)
{
    struct layer_place *place = touch_place(layers, (json_int_t)member_count(record, "pid"));
    if (!place)
        return;
    switch (type) {
    case RECORD_script_line:
        record_replace(&place->line, record);
        place->over = 0;
        break;
    case RECORD_python_stack:
        record_replace(&place->stack, record);
        break;
    case RECORD_script_trap:
        record_replace(&place->trap, json_object_get(record, "commands"));
        record_replace(&place->trap_only, json_object_get(record, "only"));
        break;
    case RECORD_script_tested:
        record_replace(&place->tested, json_object_get(record, "commands"));
        record_replace(&place->conditions, json_object_get(record, "conditions"));
        record_replace(&place->piped, json_object_get(record, "piped"));
        record_replace(&place->prints, json_object_get(record, "prints"));
        break;
    default:
        record_replace(&place->kills, record);
    }
}

static int64_t row_size(const json_t *row, size_t index)
{
    const json_t *number = json_array_get(row, index);
    return json_is_integer(number) ? json_integer_value(number) : -1;
}

static void apply_files(struct layers *layers, const json_t *rows)
{
    size_t index;
    json_t *row;
    json_array_foreach(rows, index, row)
    {
        struct layer_place *place = touch_place(layers, json_integer_value(json_array_get(row, 0)));
        if (!place)
            continue;
        place->read_bytes = row_size(row, 1);
        place->written_bytes = row_size(row, 2);
        place->open_files = row_size(row, 3);
        place->open_files_limit = row_size(row, 4);
    }
}

/* ---- scripts and functions ---- */

/* A key of a text and a place, malloc'ed. */
static char *key_of(const char *name, const char *file, int64_t line)
{
    char *key;
    return asprintf(&key, "%s\n%s\n%lld", name, file, (long long)line) < 0 ? NULL : key;
}

static void apply_script_lines(struct layers *layers, const json_t *rows)
{
    size_t index;
    json_t *row;
    json_array_foreach(rows, index, row)
    {
        const char *file = member_text(row, "file"), *command = json_string_value(json_object_get(row, "command"));
        _cleanup_(freep) char *key = key_of("", file, get_size(row, "line"));
        struct layer_line *line = key ? NAMED(layers->lines, key, key, LAYER_LINES) : NULL;
        if (!line) {
            layers->omitted_lines++;
            continue;
        }
        if (!line->file) {
            line->file = strdup(file);
            line->line = get_size(row, "line");
        }
        if (!line->command && command)
            line->command = strdup(command);
        line->count += member_count(row, "count");
        line->failed += member_count(row, "failed");
        line->seconds += member_number(row, "seconds");
    }
}

static void apply_script_end(struct layers *layers, const json_t *record)
{
    struct layer_place *place = find_place(layers, (pid_t)member_count(record, "pid"));
    if (place && place->line && strcmp(member_text(place->line, "file"), member_text(record, "file")) == 0)
        place->over = member_number(record, "t");
    struct layer_script *script = NAMED(layers->scripts, file, member_text(record, "file"), LAYER_SCRIPTS);
    if (script) {
        script->count++;
        script->failed += get_size(record, "status") > 0;
        script->seconds += member_number(record, "seconds");
    }
    apply_script_lines(layers, json_object_get(record, "lines"));
}

static void add_function(struct layers *layers, struct layer_function **table, const json_t *row, const char *name)
{
    const char *file = member_text(row, "file");
    _cleanup_(freep) char *key = key_of(name, file, get_size(row, "line"));
    struct layer_function *function = key ? NAMED(*table, key, key, LAYER_FUNCTIONS) : NULL;
    if (!function) {
        layers->omitted_functions++;
        return;
    }
    if (!function->function) {
        function->function = strdup(name);
        function->file = strdup(file);
        function->line = get_size(row, "line");
    }
    function->calls += member_count(row, "calls");
    function->total_ns += member_count(row, "total_ns");
    function->self_ns += member_count(row, "self_ns");
}

/* false: there is no room. `function` is its key. */
static bool add_window(struct layers *layers, pid_t pid, const char *function, const json_t *row)
{
    _cleanup_(buf_done) struct buf key = BUF_INIT;
    buf_printf(&key, "%d %s", (int)pid, function);
    struct layer_window *window = key.failed ? NULL : NAMED(layers->windows, key, key.data, LAYER_FUNCTIONS);
    if (!window)
        return false;
    window->pid = pid;
    window->calls += member_count(row, "calls");
    window->total_ns += member_count(row, "total_ns");
    window->self_ns += member_count(row, "self_ns");
    return true;
}

/* What the windows of a process told is in the sum of all its time, which has come. */
static void drop_windows(struct layers *layers, pid_t pid)
{
    struct layer_window *window, *next;
    HASH_ITER(hh, layers->windows, window, next)
    {
        const char *key = strchr(window->key, ' ') + 1;
        struct layer_function *function;
        if (window->pid != pid)
            continue;
        HASH_FIND_STR(layers->python, key, function);
        if (!*key)
            layers->python_calls -= window->calls;
        else if (function) {
            function->calls -= window->calls;
            function->total_ns -= window->total_ns;
            function->self_ns -= window->self_ns;
        }
        HASH_DEL(layers->windows, window);
        free(window);
    }
}

static void apply_python_calls(struct layers *layers, const json_t *record)
{
    size_t index;
    json_t *row;
    pid_t pid = (pid_t)member_count(record, "pid");
    bool whole = json_is_true(json_object_get(record, "whole"));
    if (whole)
        drop_windows(layers, pid);
    if (whole || add_window(layers, pid, "", record))
        layers->python_calls += member_count(record, "calls");
    json_array_foreach(json_object_get(record, "functions"), index, row)
    {
        const char *name = member_text(row, "function");
        _cleanup_(freep) char *key = key_of(name, member_text(row, "file"), get_size(row, "line"));
        if (whole || (key && add_window(layers, pid, key, row)))
            add_function(layers, &layers->python, row, name);
        else
            layers->omitted_functions++;
    }
}

static void apply_functions(struct layers *layers, const json_t *record)
{
    size_t index;
    json_t *row;
    layers->function_calls += member_count(record, "calls");
    record_replace(&layers->last_functions, record);
    json_array_foreach(json_object_get(record, "list"), index, row)
        add_function(layers, &layers->functions, row, member_text(row, "name"));
}

/* ---- logs ---- */

static void count_lines(struct layers *layers, const json_t *record, uint64_t lines)
{
    enum line_level level = line_level_of(member_text(record, "level"));
    struct layer_pattern *pattern = NAMED(layers->patterns, pattern, member_text(record, "pattern"), LAYER_NAMED);
    layers->levels[level] += lines;
    if (!pattern)
        return;
    pattern->level = level;
    pattern->lines += lines;
    pattern->last = member_number(record, "t");
}

static void apply_log(struct layers *layers, const json_t *record)
{
    count_lines(layers, record, 1 + member_count(record, "folded"));
    list_add(&layers->logs, record, LAYER_LOG_LINES);
    if (line_level_of(member_text(record, "level")) == LINE_ERROR)
        list_add(&layers->errors, record, LAYER_FAILURES);
}

const struct layer_last *layers_last(const struct layer_last *hash)
{
    while (hash && hash->hh.next)
        hash = hash->hh.next;
    return hash;
}

/* The last record of each name. The name that was told longest ago goes where there are too many. */
static void apply_last(struct layer_last **table, const char *name, const json_t *record)
{
    struct layer_last *last;
    HASH_FIND_STR(*table, name, last);
    if (last) {
        HASH_DEL(*table, last);
    } else {
        last = calloc(1, sizeof *last + strlen(name) + 1);
        if (!last)
            return;
        memcpy(last->name, name, strlen(name) + 1);
    }
    record_replace(&last->record, record);
    HASH_ADD_STR(*table, name, last);
    if (HASH_COUNT(*table) > LAYER_NAMED) {
        struct layer_last *first = *table;
        HASH_DEL(*table, first);
        json_decref(first->record);
        free(first);
    }
}

static void apply_progress(struct layers *layers, const json_t *record)
{
    const char *source = member_text(record, "source");
    struct layer_last *last;
    if (member_number(record, "done") > 0 || member_number(record, "total") > 0) {
        apply_last(&layers->progress, source, record);
        return;
    }
    HASH_FIND_STR(layers->progress, source, last); /* it is not known any more */
    if (last) {
        HASH_DEL(layers->progress, last);
        json_decref(last->record);
        free(last);
    }
}

void layers_over(struct layers *layers)
{
    for (struct layer_last *last = layers->progress; last; last = last->hh.next) {
        json_t *record = json_copy(last->record); /* others have the same one */
        if (!record)
            continue;
        json_object_set_new(record, "left_seconds", json_null());
        json_decref(last->record);
        last->record = record;
    }
}

static void metric_add_point(struct layer_metric *metric, double seconds, double value)
{
    struct metric_point *last = metric->used ? &metric->points[metric->used - 1] : NULL;
    if (metric->used > 1 && seconds < last[-1].seconds + metric->apart) {
        *last = (struct metric_point){seconds, value};
        return;
    }
    if (metric->used == METRIC_POINTS) {
        for (size_t i = 1; 2 * i < METRIC_POINTS; i++)
            metric->points[i] = metric->points[2 * i];
        metric->used /= 2;
        metric->apart *= 2;
    }
    metric->points[metric->used++] = (struct metric_point){seconds, value};
}

static void apply_metric(struct layers *layers, const json_t *record)
{
    const char *name = member_text(record, "name");
    double seconds = member_number(record, "t"), value = member_number(record, "value");
    struct layer_metric *metric;
    HASH_FIND_STR(layers->metrics, name, metric);
    if (!metric) {
        if (HASH_COUNT(layers->metrics) == LAYER_METRICS || !(metric = calloc(1, sizeof *metric + strlen(name) + 1)))
            return;
        memcpy(metric->name, name, strlen(name) + 1);
        metric->apart = 1; /* as they are told */
        metric->undefined_since = -1;
        HASH_ADD_STR(layers->metrics, name, metric);
    }
    metric->undefined += member_count(record, "undefined");
    metric->seconds = seconds;
    if (json_object_get(record, "values") && !member_count(record, "values")) {
        metric->undefined_since = metric->undefined_since < 0 ? seconds : metric->undefined_since;
        return;
    }
    metric->undefined_since = -1;
    double least = member_number(record, "least"), most = member_number(record, "most");
    metric->least = metric->used ? number_min(metric->least, least) : least;
    metric->most = metric->used ? number_max(metric->most, most) : most;
    metric->values += member_count(record, "values");
    metric->value = value;
    metric_add_point(metric, seconds, value);
}

/* ---- health ---- */

static void curve_add(struct layers *layers, enum layer_curve curve, const json_t *record, double value)
{
    double seconds = member_number(record, "t"), passed = member_number(record, "seconds");
    if (value >= 0)
        series_add_from(&layers->curves[curve], seconds - passed, seconds, value);
}

static void curve_of(struct layers *layers, enum layer_curve curve, const json_t *record, const char *part,
                     const char *name)
{
    const json_t *value = json_object_get(json_object_get(record, part), name);
    if (json_is_number(value))
        curve_add(layers, curve, record, json_number_value(value));
}

static void apply_memory(struct layers *layers, const json_t *record)
{
    const json_t *memory = json_object_get(record, "memory"), *group = json_object_get(record, "cgroup");
    int64_t total = get_size(memory, "total_bytes"), least = get_size(memory, "available_least_bytes"),
            swap = get_size(memory, "swap_total_bytes"), swap_free = get_size(memory, "swap_free_bytes"),
            limit = get_size(group, "memory_limit_bytes"), used = get_size(group, "memory_bytes");
    if (least < 0)
        least = get_size(memory, "available_bytes");
    if (total > 0 && least >= 0 && least <= total)
        curve_add(layers, CURVE_MEMORY, record, 1 - (double)least / (double)total);
    if (swap > 0 && swap_free >= 0 && swap_free <= swap)
        curve_add(layers, CURVE_SWAP, record, (double)(swap - swap_free));
    if (limit > 0 && used >= 0)
        curve_add(layers, CURVE_CGROUP_MEMORY, record, (double)used / (double)limit);
}

static void apply_oom_kills(struct layers *layers, const json_t *record)
{
    const json_t *group = json_object_get(record, "cgroup");
    int64_t kills = get_size(group, "job_oom_kills");
    if (kills >= 0 && layers->oom_kills_before < 0)
        layers->oom_kills_before = 0;
    if (kills < 0) /* of versions before: all of the group, so the first record is the base */
        kills = get_size(group, "oom_kills");
    if (kills < 0)
        return;
    if (layers->oom_kills_before >= 0 && kills > layers->oom_kills_before)
        layers->oom_kills += (uint64_t)(kills - layers->oom_kills_before);
    layers->oom_kills_before = kills;
}

static void apply_filesystem(struct layers *layers, const json_t *row, double seconds)
{
    size_t before = HASH_COUNT(layers->filesystems);
    struct layer_filesystem *system = NAMED(layers->filesystems, path, member_text(row, "path"), LAYER_NAMED);
    if (!system)
        return;
    bool first = HASH_COUNT(layers->filesystems) > before;
    system->total_bytes = get_size(row, "total_bytes");
    system->free_bytes = get_size(row, "free_bytes");
    system->inodes = get_size(row, "inodes");
    system->free_inodes = get_size(row, "free_inodes");
    if (first || (system->free_bytes >= 0 && system->free_bytes < system->least_free_bytes)) {
        system->least_free_bytes = system->free_bytes;
        system->least_at = seconds;
    }
    if (first) { /* a short job has only a record of its end */
        int64_t had = get_size(row, "first_free_bytes"), bytes = had >= 0 ? had : system->free_bytes;
        system->was_full = (system->inodes > 0 && system->free_inodes == 0) ||
                           (system->total_bytes > 0 && bytes >= 0 && bytes <= system->total_bytes / 1000);
    }
    if (first || (system->free_inodes >= 0 && system->free_inodes < system->least_free_inodes))
        system->least_free_inodes = system->free_inodes;
}

static void apply_health(struct layers *layers, const json_t *record)
{
    size_t index;
    json_t *row;
    if (!layers->curves && !(layers->curves = calloc(LAYER_CURVES, sizeof *layers->curves)))
        return;
    record_replace(&layers->health, record);
    curve_of(layers, CURVE_CPU, record, "load", "cpu_peak");
    curve_of(layers, CURVE_CPU, record, "load", "cpu");
    curve_of(layers, CURVE_IOWAIT, record, "load", "iowait");
    curve_of(layers, CURVE_STEAL, record, "load", "steal");
    curve_of(layers, CURVE_PRESSURE_CPU, record, "pressure", "cpu");
    curve_of(layers, CURVE_PRESSURE_MEMORY, record, "pressure", "memory");
    curve_of(layers, CURVE_PRESSURE_IO, record, "pressure", "io");
    curve_of(layers, CURVE_DISK_READ, record, "traffic", "disk_read_bytes");
    curve_of(layers, CURVE_DISK_WRITTEN, record, "traffic", "disk_written_bytes");
    curve_of(layers, CURVE_RECEIVED, record, "traffic", "received_bytes");
    curve_of(layers, CURVE_SENT, record, "traffic", "sent_bytes");
    apply_memory(layers, record);
    apply_oom_kills(layers, record);
    json_array_foreach(json_object_get(record, "filesystems"), index, row)
        apply_filesystem(layers, row, member_number(record, "t"));
    apply_files(layers, json_object_get(record, "processes"));
}

void layers_apply(struct layers *layers, enum record_type type, const json_t *record)
{
    layers->records++;
    switch (type) {
    case RECORD_script_line:
    case RECORD_script_trap:
    case RECORD_script_tested:
    case RECORD_script_kills:
    case RECORD_python_stack:
        apply_place(layers, type, record);
        return;
    case RECORD_command_failed:
        list_add(&layers->failures, record, LAYER_FAILURES);
        return;
    case RECORD_script_end:
        apply_script_end(layers, record);
        return;
    case RECORD_python_exception:
        list_add(json_is_true(json_object_get(record, "caught")) ? &layers->caught : &layers->uncaught, record,
                 LAYER_FAILURES);
        return;
    case RECORD_python_calls:
        apply_python_calls(layers, record);
        return;
    case RECORD_functions:
        apply_functions(layers, record);
        return;
    case RECORD_log:
        apply_log(layers, record);
        return;
    case RECORD_log_folded:
        count_lines(layers, record, member_count(record, "lines"));
        return;
    case RECORD_log_file:
        apply_last(&layers->log_files, member_text(record, "file"), record);
        return;
    case RECORD_log_last:
        if (member_count(record, "pid"))
            list_add(&layers->last_words, record, LAYER_FAILURES);
        else
            record_replace(&layers->last_lines, record);
        return;
    case RECORD_progress:
        apply_progress(layers, record);
        return;
    case RECORD_metric:
        apply_metric(layers, record);
        return;
    case RECORD_health:
        apply_health(layers, record);
        return;
    default:
        return;
    }
}
