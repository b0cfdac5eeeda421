/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the store: finding a job, reading its records, and what goes in the end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "store/internal.h"

bool state_known(const char *state)
{
    static const char *const states[] = {"running", "finished", "failed", "crashed", "killed", "lost", "unwatched"};
    for (size_t i = 0; state && i < sizeof states / sizeof *states; i++)
        if (strcmp(states[i], state) == 0)
            return true;
    return false;
}

const char *stream_of(const char *name)
{
    for (int i = 0; name && i < STREAM_COUNT; i++)
        if (strcmp(record_stream_name((enum record_stream)i), name) == 0)
            return record_stream_name((enum record_stream)i);
    return record_stream_name(STREAM_JOB);
}

/* ---- finding ---- */

struct search {
    struct store_found *found;
    size_t count;
    char others[256];
};

static int take_found(void *ctx, const struct db_value *values, int count)
{
    struct search *search = ctx;
    if (search->count++ == 0) {
        search->found->key = values[0].integer;
        snprintf(search->found->owner, sizeof search->found->owner, "%.*s", SPAN_ARG(values[1].text));
        snprintf(search->found->id, sizeof search->found->id, "%.*s", SPAN_ARG(values[2].text));
    }
    size_t used = strlen(search->others);
    snprintf(search->others + used, sizeof search->others - used, "%s%.*s/%.*s", used ? ", " : "",
             SPAN_ARG(values[1].text), SPAN_ARG(values[2].text));
    return 0;
}

/* Of one owner, or of all others. 1: found. */
static int find_of(struct store *store, const char *job, const char *owner, bool others, struct store_found *found,
                   struct err *err)
{
    static const char *const ways[] = {
        "$1 = id AND owner %s $2 ORDER BY started DESC LIMIT 4",
        "$1 = name AND owner %s $2 ORDER BY started DESC LIMIT 1",
        "$1 = substr(id, 1, length($1)) AND owner %s $2 ORDER BY started DESC LIMIT 4",
    };
    static const char newest[] = "$1 <> '' AND owner %s $2 ORDER BY started DESC LIMIT 1";
    bool last = strcmp(job, "@last") == 0;
    for (size_t way = 0; way < (last ? 1 : sizeof ways / sizeof *ways); way++) {
        struct search search = {.found = found};
        struct db_value values[] = {db_string(job), db_string(owner)};
        _cleanup_(buf_done) struct buf sql = BUF_INIT;
        buf_puts(&sql, "SELECT job, owner, id FROM jobs WHERE ");
        for (const char *c = last ? newest : ways[way]; *c; c++) {
            if (c[0] == '%' && c[1] == 's')
                buf_puts(&sql, others ? "<>" : "="), c++;
            else
                buf_putc(&sql, *c);
        }
        int code = sql.failed ? -ENOMEM : db_query(store->db, sql.data, values, 2, take_found, &search, err);
        if (code < 0)
            return code;
        if (search.count > 1)
            return err_set(err, -ENOTUNIQ, "\"%s\" may be several jobs of the record: %s", job, search.others);
        if (search.count == 1)
            return 1;
    }
    return 0;
}

int store_find(struct store *store, const char *job, const char *owner, struct store_found *ret_found, struct err *err)
{
    const char *slash = strchr(job, '/');
    char named[512];
    int code;
    if (slash && (size_t)(slash - job) < sizeof named) {
        snprintf(named, sizeof named, "%.*s", (int)(slash - job), job);
        code = find_of(store, slash + 1, named, false, ret_found, err);
    } else {
        code = find_of(store, job, owner, false, ret_found, err);
        if (code == 0)
            code = find_of(store, job, owner, true, ret_found, err);
    }
    if (code == 0)
        return err_set(err, -ENOENT, "there is no job \"%s\" in the record %s", job, store->db->name);
    return code < 0 ? code : 0;
}

/* ---- reading ---- */

struct part {
    db_row_fn *fn;
    void *ctx;
    int64_t behind;
    bool over;
};

static int take_row(void *ctx, const struct db_value *values, int count)
{
    struct part *part = ctx;
    if (values[0].integer >= part->behind) {
        part->over = true;
        return 1;
    }
    return part->fn(part->ctx, values, count);
}

int store_read(struct store *store, int64_t job, db_row_fn *fn, void *ctx, struct err *err)
{
    return store_read_from(store, job, 0, fn, ctx, err);
}

int store_read_from(struct store *store, int64_t job, int64_t from, db_row_fn *fn, void *ctx, struct err *err)
{
    struct ranges ranges = {.changed = INT64_MAX};
    int code = ranges_load(&ranges, store->db, job, err);
    for (size_t i = 0; i < ranges.count && code == 0;) {
        const struct range *first = &ranges.list[i];
        struct part part = {fn, ctx, .behind = first->behind};
        size_t next = i + 1; /* all that follows of the same day at once, so that holes cost nothing */
        while (next < ranges.count && strcmp(ranges.list[next].day, first->day) == 0)
            part.behind = ranges.list[next++].behind;
        i = next;
        if (!*first->day || part.behind <= from)
            continue;
        code = store->db->backend->day_read(store->db, first->day, job, from > first->first ? from : first->first,
                                            take_row, &part, err);
        if (code == 1 && part.over)
            code = 0;
    }
    ranges_done(&ranges);
    return code;
}

/* ---- removing ---- */

struct day_list {
    char (*days)[DB_DAY_SIZE];
    size_t count, room;
};

static int take_day(void *ctx, const struct db_value *values, int count)
{
    struct day_list *list = ctx;
    if (!GROW(list->days, list->count, list->room))
        return -ENOMEM;
    snprintf(list->days[list->count++], DB_DAY_SIZE, "%.*s", SPAN_ARG(values[0].text));
    return 0;
}

/* These statements as one transaction, which other writers see. */
static int change(struct store *store, const char *const *statements, const struct db_value *value, struct err *err)
{
    int code = store->db->backend->begin(store->db, true, err);
    if (code < 0)
        return code;
    code = db_query(store->db, "UPDATE meta SET writes = writes + 1", NULL, 0, NULL, NULL, err);
    for (; *statements && code == 0; statements++)
        code = db_query(store->db, *statements, value, 1, NULL, NULL, err);
    if (code == 0)
        return store->db->backend->commit(store->db, err);
    store->db->backend->rollback(store->db);
    return code;
}

int store_remove(struct store *store, int64_t job, struct err *err)
{
    static const char *const all[] = {"DELETE FROM ranges WHERE job = $1",
                                      "DELETE FROM minutes WHERE job = $1",
                                      "DELETE FROM files WHERE job = $1",
                                      "DELETE FROM ranks WHERE job = $1",
                                      "DELETE FROM exported WHERE job = $1",
                                      "DELETE FROM jobs WHERE job = $1",
                                      NULL};
    struct day_list list = {0};
    struct db_value value = db_integer(job);
    int code = db_query(store->db, "SELECT DISTINCT day FROM ranges WHERE job = $1 AND day <> ''", &value, 1, take_day,
                        &list, err);
    for (size_t i = 0; i < list.count && code == 0; i++)
        code = store->db->backend->day_drop(store->db, list.days[i], job, err);
    free(list.days);
    return code == 0 ? change(store, all, &value, err) : code;
}

static int drop_day(struct store *store, const char *day, struct err *err)
{
    static const char *const forget[] = {
        "UPDATE ranges SET day = '' WHERE day = $1",
        "DELETE FROM files WHERE $1 <> '' AND NOT EXISTS"
        " (SELECT 1 FROM ranges WHERE ranges.job = files.job AND ranges.day <> '')"
        " AND EXISTS (SELECT 1 FROM jobs WHERE jobs.job = files.job AND jobs.state <> 'running')",
        NULL};
    struct db_value value = db_string(day);
    int code = change(store, forget, &value, err);
    return code == 0 ? store->db->backend->day_drop(store->db, day, -1, err) : code;
}

int store_keep(struct store *store, double records_seconds, double minutes_seconds, double now, size_t *ret_days,
               struct err *err)
{
    static const char *const minutes[] = {"DELETE FROM minutes WHERE job IN (SELECT job FROM jobs WHERE heard < $1)",
                                          NULL};
    struct day_list list = {0};
    char oldest[DB_DAY_SIZE];
    time_t before = (time_t)(now - records_seconds);
    struct tm tm;
    gmtime_r(&before, &tm);
    strftime(oldest, sizeof oldest, "%Y-%m-%d", &tm);
    *ret_days = 0;
    int code = records_seconds > 0 ? store->db->backend->days(store->db, take_day, &list, err) : 0;
    for (size_t i = 0; i < list.count && code == 0; i++) {
        if (strcmp(list.days[i], oldest) >= 0)
            continue;
        code = drop_day(store, list.days[i], err);
        *ret_days += code == 0;
    }
    free(list.days);
    struct db_value heard = db_real(now - minutes_seconds);
    return code == 0 && minutes_seconds > 0 ? change(store, minutes, &heard, err) : code;
}

/* ---- what goes on to others ---- */

int store_export_begin(struct store *store, const char *target, struct err *err)
{
    struct db *db = store->db;
    struct db_value value = db_string(target);
    int64_t begun = -1;
    int code = db_query_integer(db, "SELECT seq FROM exported WHERE target = $1 AND job = 0", &value, 1, &begun, err);
    if (code < 0 || begun >= 0 || (code = db->backend->begin(db, true, err)) < 0)
        return code;
    code = db_query(db,
                    "INSERT INTO exported (target, job, seq) SELECT $1, job, last_seq + 1 FROM jobs WHERE last_seq >= 0"
                    " ON CONFLICT DO NOTHING",
                    &value, 1, NULL, NULL, err);
    if (code == 0)
        code = db_query(db, "INSERT INTO exported (target, job, seq) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING", &value,
                        1, NULL, NULL, err);
    if (code == 0)
        return db->backend->commit(db, err);
    db->backend->rollback(db);
    return code;
}
