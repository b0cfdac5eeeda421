/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "jobdir/text/fields.h"
#include "shm/waits.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 4096, INFO_MOST = 512 << 10 };

enum kind { WHOLE, NULLABLE, REAL, NULLABLE_REAL, TEXT, NULLABLE_TEXT };

static const struct column {
    const char *name;
    enum kind kind;
    size_t at;
} columns[] = {
#define COLUMN(kind, name) \
    { \
#name, kind, offsetof(struct job_row, name) \
    }
    COLUMN(TEXT, name),
    COLUMN(TEXT, node),
    COLUMN(TEXT, command),
    COLUMN(TEXT, state),
    COLUMN(NULLABLE_TEXT, reason),
    COLUMN(TEXT, dir),
    COLUMN(TEXT, boot_id),
    COLUMN(NULLABLE_TEXT, address),
    COLUMN(NULLABLE_TEXT, info),
    COLUMN(NULLABLE_TEXT, batch_system),
    COLUMN(NULLABLE_TEXT, batch_id),
    COLUMN(NULLABLE_TEXT, last_warning),
    COLUMN(NULLABLE_TEXT, last_stall),
    COLUMN(NULLABLE_TEXT, stalled_text),
    COLUMN(NULLABLE_TEXT, cause),
    COLUMN(NULLABLE_TEXT, cause_text),
    COLUMN(NULLABLE_REAL, started),
    COLUMN(NULLABLE_REAL, ended),
    COLUMN(REAL, last_t),
    COLUMN(REAL, age),
    COLUMN(REAL, heard),
    COLUMN(REAL, lease_seconds),
    COLUMN(REAL, clock),
    COLUMN(NULLABLE_REAL, wall_seconds),
    COLUMN(REAL, cpu_seconds),
    COLUMN(NULLABLE_REAL, cpus_asked),
    COLUMN(NULLABLE_REAL, time_asked_seconds),
    COLUMN(NULLABLE_REAL, cpus_limit),
    COLUMN(NULLABLE_REAL, progress_done),
    COLUMN(NULLABLE_REAL, progress_total),
    COLUMN(NULLABLE_REAL, progress_left_seconds),
    COLUMN(NULLABLE_REAL, stalled_t),
    COLUMN(NULLABLE, exit_code),
    COLUMN(NULLABLE, signal),
    COLUMN(WHOLE, complete),
    COLUMN(WHOLE, known_seq),
    COLUMN(WHOLE, last_seq),
    COLUMN(WHOLE, records),
    COLUMN(WHOLE, lost),
    COLUMN(WHOLE, refused),
    COLUMN(WHOLE, connected),
    COLUMN(WHOLE, rss_bytes),
    COLUMN(WHOLE, peak_rss_bytes),
    COLUMN(WHOLE, peak_tree_rss_bytes),
    COLUMN(WHOLE, processes),
    COLUMN(WHOLE, processes_at_once),
    COLUMN(WHOLE, threads_at_once),
    COLUMN(WHOLE, failed_processes),
    COLUMN(NULLABLE, node_cpus),
    COLUMN(NULLABLE, node_memory_bytes),
    COLUMN(NULLABLE, memory_asked_bytes),
    COLUMN(NULLABLE, memory_limit_bytes),
    COLUMN(NULLABLE, memory_peak_bytes),
    COLUMN(WHOLE, warnings),
    COLUMN(WHOLE, log_errors),
    COLUMN(WHOLE, crashes),
    COLUMN(WHOLE, commands_failed),
    COLUMN(WHOLE, stalls),
    COLUMN(WHOLE, oom_kills),
    COLUMN(NULLABLE, is_signed),
#undef COLUMN
};
enum { COLUMNS = sizeof columns / sizeof *columns };
_Static_assert((int)COLUMNS < (int)DB_PARAMETERS, "the row and its number are parameters of one statement");

static void *row_member(const struct job_row *row, const struct column *column)
{
    return (char *)row + column->at;
}

void row_init(struct job_row *row)
{
    *row = (struct job_row){.known_seq = -1, .last_seq = -1};
    for (const struct column *each = columns; each < columns + COLUMNS; each++) {
        if (each->kind == NULLABLE)
            *(int64_t *)row_member(row, each) = ROW_NULL;
        else if (each->kind == NULLABLE_REAL)
            *(double *)row_member(row, each) = NAN;
    }
    row_set_text(&row->state, "running");
}

void row_done(struct job_row *row)
{
    for (const struct column *each = columns; each < columns + COLUMNS; each++)
        if (each->kind >= TEXT)
            free(*(char **)row_member(row, each));
    row_init(row);
    free(row->state);
    row->state = NULL;
}

void row_set_text(char **text, const char *value)
{
    size_t len = value ? strlen(value) : 0;
    if (len > TEXT_MOST) { /* not within a character */
        for (len = TEXT_MOST; len && ((unsigned char)value[len] & 0xc0) == 0x80;)
            len--;
    }
    if (*text && value && strncmp(*text, value, len) == 0 && (*text)[len] == '\0')
        return;
    free(*text);
    *text = value ? strndup(value, len) : NULL;
}

/* ---- the table ---- */

static int take_row(void *ctx, const struct db_value *values, int count)
{
    struct job_row *row = ctx;
    for (int i = 0; i < COLUMNS && i < count; i++) {
        void *at = row_member(row, &columns[i]);
        bool none = values[i].type == DB_NULL;
        if (columns[i].kind >= TEXT) {
            free(*(char **)at);
            *(char **)at = none ? NULL : strndup(values[i].text.ptr, values[i].text.len);
        } else if (columns[i].kind >= REAL) {
            *(double *)at = none ? NAN : db_number(&values[i]);
        } else {
            *(int64_t *)at = none ? ROW_NULL : (int64_t)db_number(&values[i]);
        }
    }
    return 0;
}

int row_read(struct job_row *row, struct db *db, int64_t job, struct err *err)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT;
    struct db_value number = db_integer(job);
    row_done(row);
    row_init(row);
    buf_puts(&sql, "SELECT ");
    for (int i = 0; i < COLUMNS; i++)
        buf_printf(&sql, "%s%s", i ? ", " : "", columns[i].name);
    buf_puts(&sql, " FROM jobs WHERE job = $1");
    return sql.failed ? -ENOMEM : db_query(db, sql.data, &number, 1, take_row, row, err);
}

int row_load(struct job_row *row, struct db *db, const char *owner, const char *id, int64_t *ret_job, struct err *err)
{
    struct db_value names[] = {db_string(owner), db_string(id)};
    int code = db_query_integer(db,
                                "INSERT INTO jobs (owner, id) VALUES ($1, $2)"
                                " ON CONFLICT (owner, id) DO UPDATE SET owner = excluded.owner RETURNING job",
                                names, 2, ret_job, err);
    return code < 0 ? code : row_read(row, db, *ret_job, err);
}

int row_save(const struct job_row *row, struct db *db, int64_t job, struct err *err)
{
    struct db_value values[COLUMNS + 1];
    _cleanup_(buf_done) struct buf sql = BUF_INIT;
    buf_puts(&sql, "UPDATE jobs SET ");
    for (int i = 0; i < COLUMNS; i++) {
        void *at = row_member(row, &columns[i]);
        enum kind kind = columns[i].kind;
        values[i] = kind >= TEXT   ? db_string(*(char **)at)
                    : kind >= REAL ? db_real(*(double *)at)
                                   : db_integer(*(int64_t *)at);
        if (kind == TEXT && values[i].type == DB_NULL)
            values[i] = db_string("");
        if ((kind == NULLABLE && *(int64_t *)at < 0) || (kind == NULLABLE_REAL && !isfinite(*(double *)at)))
            values[i] = (struct db_value){DB_NULL};
        buf_printf(&sql, "%s%s = $%d", i ? ", " : "", columns[i].name, i + 1);
    }
    buf_printf(&sql, " WHERE job = $%d", COLUMNS + 1);
    values[COLUMNS] = db_integer(job);
    return sql.failed ? -ENOMEM : db_query(db, sql.data, values, COLUMNS + 1, NULL, NULL, err);
}

/* ---- minutes ---- */

void minutes_done(struct minute **minutes)
{
    HASH_FREE_ALL(*minutes);
}

static struct db_value value_whole(int64_t number)
{
    return number < 0 ? (struct db_value){DB_NULL} : db_integer(number);
}

static struct db_value value_real(double number)
{
    return number < 0 || !isfinite(number) ? (struct db_value){DB_NULL} : db_real(number);
}

int minutes_save(struct minute **minutes, struct db *db, int64_t job, struct err *err)
{
    /* clang-format off */
#define FURTHEST(which, name) \
    "," #name " = @" #which "(coalesce(minutes." #name ", excluded." #name "), coalesce(excluded." #name ", minutes." #name "))@"
    static const char sql[] =
        "INSERT INTO minutes (job, minute, records, warnings, log_errors, cpu_ns, rss_bytes, processes, threads,"
        " node_load, node_cpu, node_iowait, node_memory_pressure, node_available_bytes, node_swap_used_bytes, throttled)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
        " ON CONFLICT (job, minute) DO UPDATE SET records = minutes.records + excluded.records,"
        " warnings = minutes.warnings + excluded.warnings, log_errors = minutes.log_errors + excluded.log_errors"
        FURTHEST(MOST, cpu_ns) FURTHEST(MOST, rss_bytes) FURTHEST(MOST, processes) FURTHEST(MOST, threads)
        FURTHEST(MOST, node_load) FURTHEST(MOST, node_cpu) FURTHEST(MOST, node_iowait)
        FURTHEST(MOST, node_memory_pressure) FURTHEST(LEAST, node_available_bytes)
        FURTHEST(MOST, node_swap_used_bytes) FURTHEST(MOST, throttled);
    /* clang-format on */
#undef FURTHEST
    struct minute *each, *next;
    int code = 0;
    HASH_ITER(hh, *minutes, each, next)
    {
        struct db_value values[] = {db_integer(job),
                                    db_integer(each->number),
                                    db_integer(each->records),
                                    db_integer(each->warnings),
                                    db_integer(each->log_errors),
                                    value_whole(each->cpu_ns),
                                    value_whole(each->rss_bytes),
                                    value_whole(each->processes),
                                    value_whole(each->threads),
                                    value_real(each->load),
                                    value_real(each->cpu),
                                    value_real(each->iowait),
                                    value_real(each->memory_pressure),
                                    value_whole(each->available_bytes),
                                    value_whole(each->swap_used_bytes),
                                    value_real(each->throttled)};
        if (code == 0)
            code = db_query(db, sql, values, sizeof values / sizeof *values, NULL, NULL, err);
    }
    minutes_done(minutes);
    return code;
}

static struct minute *minute_of(struct minute **minutes, double t)
{
    int64_t number = (int64_t)(t / 60);
    struct minute *minute;
    HASH_FIND(hh, *minutes, &number, sizeof number, minute);
    if (!minute && (minute = malloc(sizeof *minute))) {
        *minute = (struct minute){.number = number,
                                  .cpu_ns = -1,
                                  .rss_bytes = -1,
                                  .processes = -1,
                                  .threads = -1,
                                  .available_bytes = -1,
                                  .swap_used_bytes = -1,
                                  .throttled = -1,
                                  .load = -1,
                                  .cpu = -1,
                                  .iowait = -1,
                                  .memory_pressure = -1};
        HASH_ADD(hh, *minutes, number, sizeof number, minute);
    }
    return minute;
}

/* ---- records ---- */

static void keep_most(int64_t *number, uint64_t value)
{
    if (value <= INT64_MAX && (int64_t)value > *number)
        *number = (int64_t)value;
}

static void keep_most_real(double *number, double value)
{
    if (value > *number && value < 1e15)
        *number = value;
}

static void apply_sample(struct job_row *row, struct minute *minute, double t, const json_t *record)
{
    struct sample_record sample;
    record_read(record, RECORD_sample, &sample);
    const json_t *system = json_object_get(record, "system");
    if (t >= row->last_t)
        row->rss_bytes = sample.tree.rss <= INT64_MAX ? (int64_t)sample.tree.rss : 0;
    keep_most_real(&row->cpu_seconds, (double)sample.tree.cpu_ns / 1e9);
    keep_most(&row->peak_tree_rss_bytes, sample.tree.rss);
    keep_most(&row->processes, sample.tree.started);
    keep_most(&row->processes_at_once, sample.tree.peak_processes);
    keep_most(&row->threads_at_once, sample.tree.peak_threads);
    keep_most(&minute->cpu_ns, sample.tree.cpu_ns);
    keep_most(&minute->rss_bytes, sample.tree.rss);
    keep_most(&minute->processes, sample.tree.processes);
    keep_most(&minute->threads, sample.tree.threads);
    keep_most_real(&minute->load, system ? json_number_value(json_object_get(system, "load")) : -1);
}

static void apply_health(struct job_row *row, struct minute *minute, const json_t *record)
{
    struct health_record health;
    record_read(record, RECORD_health, &health);
    json_t *cgroup = json_object_get(record, "cgroup");
    const json_t *limit = json_object_get(cgroup, "memory_limit_bytes"), *cpus = json_object_get(cgroup, "cpus_limit");
    if (json_is_integer(limit) && json_integer_value(limit) > 0)
        row->memory_limit_bytes = json_integer_value(limit);
    if (json_is_number(cpus) && json_number_value(cpus) > 0)
        row->cpus_limit = json_number_value(cpus);
    /* What the group has had before the job is none of the job's. */
    const json_t *peak = json_object_get(cgroup, "job_memory_peak_bytes");
    if (json_is_integer(peak))
        keep_most(&row->memory_peak_bytes, (uint64_t)json_integer_value(peak));
    keep_most(&row->oom_kills, (uint64_t)json_integer_value(json_object_get(cgroup, "job_oom_kills")));
    if (json_is_number(json_object_get(cgroup, "throttled")))
        keep_most_real(&minute->throttled, json_number_value(json_object_get(cgroup, "throttled")));
    if (health.memory.swap_total_bytes >= 0 && health.memory.swap_free_bytes >= 0 &&
        health.memory.swap_free_bytes <= health.memory.swap_total_bytes)
        keep_most(&minute->swap_used_bytes, (uint64_t)(health.memory.swap_total_bytes - health.memory.swap_free_bytes));
    keep_most_real(&minute->load, health.load.load);
    keep_most_real(&minute->cpu, health.load.cpu_peak > health.load.cpu ? health.load.cpu_peak : health.load.cpu);
    keep_most_real(&minute->iowait, health.load.iowait);
    keep_most_real(&minute->memory_pressure, health.pressure.memory);
    int64_t least =
        health.memory.available_least_bytes >= 0 ? health.memory.available_least_bytes : health.memory.available_bytes;
    if (least >= 0 && (minute->available_bytes < 0 || least < minute->available_bytes))
        minute->available_bytes = least;
}

/* The last time that nothing of it moved. */
static void apply_stalled(struct job_row *row, double t, const char *text)
{
    if (isfinite(row->stalled_t) && t < row->stalled_t)
        return;
    row->stalled_t = t;
    row_set_text(&row->stalled_text, text);
}

/* What would overflow in somebody's question is nobody's figure. */
static double figure_known(double number)
{
    return number >= 0 && number < 1e15 ? number : NAN;
}

static double figure_known_seconds(double number)
{
    return number >= 0 && number < ROW_MOST_SECONDS ? number : NAN;
}

static void apply_end(struct job_row *row, const json_t *record)
{
    struct end_record end;
    record_read(record, RECORD_end, &end);
    row->exit_code = end.exit_code;
    row->signal = end.signal;
    row_set_text(&row->reason, end.reason && *end.reason ? end.reason : NULL);
    row->wall_seconds = figure_known_seconds(end.wall_seconds);
    keep_most_real(&row->cpu_seconds, end.cpu_seconds);
    if (isfinite(row->started))
        row->ended = row->started + row->wall_seconds;
}

int row_apply(struct job_row *row, struct minute **minutes, enum record_type type, double t, const json_t *record)
{
    struct minute *minute = minute_of(minutes, t);
    if (!minute)
        return -ENOMEM;
    row->records++;
    minute->records++;
    if (type == RECORD_sample) {
        apply_sample(row, minute, t, record);
    } else if (type == RECORD_health) {
        apply_health(row, minute, record);
    } else if (type == RECORD_node) {
        struct node_record node;
        record_read(record, type, &node);
        row->node_cpus = node.cpus;
        row->node_memory_bytes = node.memory_bytes;
    } else if (type == RECORD_warning) {
        row->warnings++;
        minute->warnings++;
        if (json_string_value(json_object_get(record, "text")))
            row_set_text(&row->last_warning, json_string_value(json_object_get(record, "text")));
        const char *kind = json_string_value(json_object_get(record, "kind"));
        if (kind && strcmp(kind, "stalled") == 0)
            apply_stalled(row, t, json_string_value(json_object_get(record, "text")));
    } else if (type == RECORD_log) {
        struct log_record log;
        record_read(record, type, &log);
        int64_t lines = 1 + (log.folded < INT32_MAX ? (int64_t)log.folded : INT32_MAX);
        if (log.level && strcmp(log.level, "error") == 0) {
            row->log_errors += lines;
            minute->log_errors += lines;
        }
    } else if (type == RECORD_process_end) {
        struct process_end_record end;
        record_read(record, type, &end);
        row->failed_processes += end.status > 0;
        keep_most(&row->peak_rss_bytes, end.peak_rss);
    } else if (type == RECORD_stall) {
        row->stalls++;
        row_set_text(&row->last_stall, json_string_value(json_object_get(record, "why")));
        apply_stalled(row, t, row->last_stall);
    } else if (type == RECORD_progress) {
        struct progress_record progress;
        record_read(record, type, &progress);
        row->progress_done = figure_known(progress.done);
        row->progress_total = figure_known(progress.total);
        row->progress_left_seconds = figure_known(progress.left_seconds);
    } else if (type == RECORD_end) {
        apply_end(row, record);
    }
    row->crashes += type == RECORD_crash;
    row->commands_failed += type == RECORD_command_failed;
    if (t > row->last_t)
        row->last_t = t;
    return 0;
}

/* ---- job.json ---- */

static int64_t count_of(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);
    return json_is_integer(number) && json_integer_value(number) >= 0 ? (int64_t)json_integer_value(number) : ROW_NULL;
}

static double real_of(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);
    return json_is_number(number) ? figure_known(json_number_value(number)) : NAN;
}

static void set_command(struct job_row *row, json_t *argv)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    size_t index;
    json_t *word;
    json_array_foreach(argv, index, word)
    {
        if (line.len < TEXT_MOST)
            buf_printf(&line, "%s%s", index ? " " : "", json_string_value(word) ? json_string_value(word) : "?");
    }
    row_set_text(&row->command, line.data ? line.data : "");
}

static void apply_result(struct job_row *row, const json_t *result)
{
    row->exit_code = count_of(result, "exit_code");
    row->signal = count_of(result, "signal") > 0 ? count_of(result, "signal") : 0;
    row_set_text(&row->reason, *member_text(result, "reason") ? member_text(result, "reason") : NULL);
    row->wall_seconds = figure_known_seconds(json_number_value(json_object_get(result, "wall_seconds")));
    if (isfinite(row->started) && isfinite(row->wall_seconds))
        row->ended = row->started + row->wall_seconds;
    keep_most_real(&row->cpu_seconds, real_of(result, "cpu_seconds"));
    static const struct {
        const char *key;
        size_t at;
    } counts[] = {{"peak_rss_bytes", offsetof(struct job_row, peak_rss_bytes)},
                  {"peak_tree_rss_bytes", offsetof(struct job_row, peak_tree_rss_bytes)},
                  {"processes", offsetof(struct job_row, processes)},
                  {"processes_at_once", offsetof(struct job_row, processes_at_once)},
                  {"threads_at_once", offsetof(struct job_row, threads_at_once)}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (count_of(result, counts[i].key) >= 0)
            keep_most((int64_t *)((char *)row + counts[i].at), (uint64_t)count_of(result, counts[i].key));
}

void row_apply_info(struct job_row *row, const json_t *info)
{
    const json_t *batch = json_object_get(info, "batch"), *result = json_object_get(info, "result");
    const json_t *cause = json_object_get(info, "cause");
    double started = json_number_value(json_object_get(info, "started_ns")) / 1e9;
    char *text = json_dumps(info, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (text && strlen(text) <= INFO_MOST) {
        free(row->info);
        row->info = TAKE_PTR(text);
    }
    free(text);
    row_set_text(&row->name, member_text(info, "name"));
    if (*member_text(info, "host"))
        row_set_text(&row->node, member_text(info, "host"));
    if (*member_text(info, "boot_id"))
        row_set_text(&row->boot_id, member_text(info, "boot_id"));
    set_command(row, json_object_get(info, "argv"));
    if (started > 0 && started < 100.0 * ROW_MOST_SECONDS)
        row->started = started;
    if (json_is_object(result))
        apply_result(row, result);
    row_set_text(&row->cause, json_string_value(json_object_get(cause, "note")));
    row_set_text(&row->cause_text, json_string_value(json_object_get(cause, "text")));
    if (json_is_object(batch)) {
        row_set_text(&row->batch_system, member_text(batch, "system"));
        row_set_text(&row->batch_id, member_text(batch, "id"));
        row->cpus_asked = real_of(batch, "cpus");
        row->memory_asked_bytes = count_of(batch, "memory_bytes");
        row->time_asked_seconds = real_of(batch, "time_limit_seconds");
    }
}

/* ---- ranges ---- */

void ranges_done(struct ranges *ranges)
{
    free(ranges->list);
    *ranges = (struct ranges){.changed = INT64_MAX};
}

/* How many begin at seq or before. */
static size_t ranges_begun(const struct ranges *ranges, int64_t seq)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->list[middle].first <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool ranges_have(const struct ranges *ranges, int64_t seq)
{
    size_t at = ranges_begun(ranges, seq);
    return at && seq < ranges->list[at - 1].behind;
}

static void ranges_touch(struct ranges *ranges, int64_t first)
{
    if (first < ranges->changed)
        ranges->changed = first;
}

static int ranges_insert(struct ranges *ranges, size_t at, int64_t first, int64_t behind, const char *day)
{
    if (ranges->count >= RANGES_MOST)
        return -E2BIG;
    if (ranges->count == ranges->room) {
        size_t room = ranges->room ? 2 * ranges->room : 8;
        struct range *list = realloc(ranges->list, room * sizeof *list);
        if (!list)
            return -ENOMEM;
        ranges->list = list;
        ranges->room = room;
    }
    memmove(&ranges->list[at + 1], &ranges->list[at], (ranges->count - at) * sizeof *ranges->list);
    ranges->list[at] = (struct range){.first = first, .behind = behind};
    snprintf(ranges->list[at].day, DB_DAY_SIZE, "%s", day);
    ranges->count++;
    return 0;
}

/* That none of them is there is known. */
static int ranges_join(struct ranges *ranges, int64_t first, int64_t behind, const char *day)
{
    size_t at = ranges_begun(ranges, first);
    struct range *before = at ? &ranges->list[at - 1] : NULL, *next = at < ranges->count ? &ranges->list[at] : NULL;
    bool joins = before && before->behind == first && strcmp(before->day, day) == 0;
    bool joined = next && next->first == behind && strcmp(next->day, day) == 0;
    if (joins) {
        ranges_touch(ranges, before->first);
        before->behind = joined ? next->behind : behind;
        if (joined) {
            memmove(next, next + 1, (ranges->count - at - 1) * sizeof *next);
            ranges->count--;
        }
        return 0;
    }
    if (joined) {
        ranges_touch(ranges, first);
        next->first = first;
        return 0;
    }
    int code = ranges_insert(ranges, at, first, behind, day);
    if (code == 0)
        ranges_touch(ranges, first);
    return code;
}

int ranges_add(struct ranges *ranges, int64_t seq, const char *day)
{
    return ranges_have(ranges, seq) ? -EEXIST : ranges_join(ranges, seq, seq + 1, day);
}

int64_t ranges_missing(const struct ranges *ranges, int64_t from, int64_t end, int64_t *ret_behind)
{
    size_t at = ranges_begun(ranges, from);
    if (at && from < ranges->list[at - 1].behind)
        from = ranges->list[at - 1].behind;
    while (at < ranges->count && ranges->list[at].first == from)
        from = ranges->list[at++].behind;
    *ret_behind = at < ranges->count && ranges->list[at].first < end ? ranges->list[at].first : end;
    return from < end ? from : (*ret_behind = end);
}

int ranges_fill(struct ranges *ranges, int64_t first, int64_t behind, int64_t *ret_added)
{
    int64_t end;
    *ret_added = 0;
    for (int64_t at; (at = ranges_missing(ranges, first, behind, &end)) < behind; first = end) {
        int code = ranges_join(ranges, at, end, "");
        if (code < 0)
            return code;
        *ret_added += end - at;
    }
    return 0;
}

void ranges_cut(struct ranges *ranges, int64_t behind)
{
    while (ranges->count && ranges->list[ranges->count - 1].behind > behind) {
        struct range *last = &ranges->list[ranges->count - 1];
        ranges_touch(ranges, last->first);
        if (last->first < behind)
            last->behind = behind;
        else
            ranges->count--;
    }
}

static int ranges_take_row(void *ctx, const struct db_value *values, int count)
{
    struct ranges *ranges = ctx;
    char day[DB_DAY_SIZE];
    snprintf(day, sizeof day, "%.*s", SPAN_ARG(values[2].text));
    return ranges_insert(ranges, ranges->count, values[0].integer, values[1].integer, day);
}

int ranges_load(struct ranges *ranges, struct db *db, int64_t job, struct err *err)
{
    struct db_value value = db_integer(job);
    ranges_done(ranges);
    return db_query(db, "SELECT first, behind, day FROM ranges WHERE job = $1 ORDER BY first", &value, 1,
                    ranges_take_row, ranges, err);
}

int ranges_save(struct ranges *ranges, struct db *db, int64_t job, struct err *err)
{
    if (ranges->changed == INT64_MAX)
        return 0;
    struct db_value from[] = {db_integer(job), db_integer(ranges->changed)};
    int code = db_query(db, "DELETE FROM ranges WHERE job = $1 AND first >= $2", from, 2, NULL, NULL, err);
    for (size_t at = ranges_begun(ranges, ranges->changed - 1); at < ranges->count && code == 0; at++) {
        struct range *range = &ranges->list[at];
        struct db_value values[] = {db_integer(job), db_integer(range->first), db_integer(range->behind),
                                    db_string(range->day)};
        code = db_query(db, "INSERT INTO ranges (job, first, behind, day) VALUES ($1, $2, $3, $4)", values, 4, NULL,
                        NULL, err);
    }
    if (code == 0)
        ranges->changed = INT64_MAX;
    return code;
}
