/* SPDX-License-Identifier: Apache-2.0 */
#include "site/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"

/* ---- JSON ---- */

static void put_text(struct buf *out, const char *text)
{
    json_t *string = json_string(text ? text : "");
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
    buf_puts(out, quoted ? quoted : "\"\"");
    free(quoted);
}

static void put_name(struct buf *out, const char *prefix, const char *name, bool *first)
{
    _cleanup_(buf_done) struct buf key = BUF_INIT;
    buf_printf(&key, "%s%s", prefix, name);
    buf_printf(out, "%s{\"key\":", *first ? "" : ",");
    put_text(out, key.data);
    buf_puts(out, ",\"value\":{");
    *first = false;
}

static void put_attribute(struct buf *out, const char *name, const char *text, bool *first)
{
    put_name(out, "", name, first);
    buf_puts(out, "\"stringValue\":");
    put_text(out, text);
    buf_puts(out, "}}");
}

/* 64-bit integers are texts in the JSON of protobuf. What has parts is its JSON. */
static void put_member(struct buf *out, const char *name, const json_t *value, bool *first)
{
    if (json_is_null(value))
        return;
    put_name(out, "scry.", name, first);
    if (json_is_string(value)) {
        buf_puts(out, "\"stringValue\":");
        put_text(out, json_string_value(value));
    } else if (json_is_integer(value)) {
        buf_printf(out, "\"intValue\":\"%" JSON_INTEGER_FORMAT "\"", json_integer_value(value));
    } else if (json_is_real(value)) {
        buf_printf(out, "\"doubleValue\":%.15g", json_real_value(value));
    } else if (json_is_boolean(value)) {
        buf_printf(out, "\"boolValue\":%s", json_is_true(value) ? "true" : "false");
    } else {
        char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15));
        buf_puts(out, "\"stringValue\":");
        put_text(out, text);
        free(text);
    }
    buf_puts(out, "}}");
}

/* ---- records ---- */

enum severity { SEVERITY_DEBUG = 5, SEVERITY_INFO = 9, SEVERITY_WARN = 13, SEVERITY_ERROR = 17 };

static enum severity severity_of(const char *type, const json_t *record)
{
    static const struct {
        const char *type;
        enum severity severity;
    } types[] = {{"sample", SEVERITY_DEBUG},       {"health", SEVERITY_DEBUG}, {"script_line", SEVERITY_DEBUG},
                 {"python_stack", SEVERITY_DEBUG}, {"warning", SEVERITY_WARN}, {"stall", SEVERITY_WARN},
                 {"gap", SEVERITY_WARN},           {"crash", SEVERITY_ERROR},  {"command_failed", SEVERITY_ERROR}};
    const char *level = json_string_value(json_object_get(record, "level"));
    if (level && strcmp(type, "log") == 0)
        return strcmp(level, "error") == 0     ? SEVERITY_ERROR
               : strcmp(level, "warning") == 0 ? SEVERITY_WARN
               : strcmp(level, "debug") == 0   ? SEVERITY_DEBUG
                                               : SEVERITY_INFO;
    if (strcmp(type, "python_exception") == 0)
        return json_is_false(json_object_get(record, "caught")) ? SEVERITY_ERROR : SEVERITY_INFO;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, type) == 0)
            return types[i].severity;
    return SEVERITY_INFO;
}

static const char *severity_text(enum severity severity)
{
    return severity == SEVERITY_ERROR   ? "ERROR"
           : severity == SEVERITY_WARN  ? "WARN"
           : severity == SEVERITY_DEBUG ? "DEBUG"
                                        : "INFO";
}

static unsigned long long nano(double seconds)
{
    return seconds > 0 && seconds < 9e9 ? (unsigned long long)(seconds * 1e6) * 1000 : 0;
}

int otlp_put_record(struct buf *out, double started, double observed, int64_t seq, const char *stream,
                    struct span record)
{
    json_t *json = json_loadb(record.ptr, record.len, 0, NULL), *value;
    const char *type = json_string_value(json_object_get(json, "type")), *key;
    const char *text = json_string_value(json_object_get(json, "text"));
    if (!type) {
        json_decref(json);
        return -EBADMSG;
    }
    enum severity severity = severity_of(type, json);
    bool first = true;
    double time = started > 0 ? started + json_number_value(json_object_get(json, "t")) : 0; /* 0: unknown */
    buf_printf(
        out,
        "{\"timeUnixNano\":\"%llu\",\"observedTimeUnixNano\":\"%llu\",\"severityNumber\":%d,\"severityText\":\"%s\","
        "\"body\":{\"stringValue\":",
        nano(time), nano(observed), severity, severity_text(severity));
    put_text(out, text ? text : type);
    buf_puts(out, "},\"attributes\":[");
    put_attribute(out, "scry.stream", stream, &first);
    put_name(out, "scry.", "seq", &first);
    buf_printf(out, "\"intValue\":\"%lld\"}}", (long long)seq);
    json_object_foreach(json, key, value)
    {
        if (strcmp(key, "seq") != 0 && strcmp(key, "stream") != 0 && !(text && strcmp(key, "text") == 0))
            put_member(out, key, value, &first);
    }
    buf_puts(out, "]}");
    json_decref(json);
    return 0;
}

/* ---- batches ---- */

struct waiting {
    int64_t job, next, last;
    double started;
    char *owner, *id, *name, *node;
};

struct waiting_list {
    struct waiting list[OTLP_JOBS];
    size_t count;
};

static char *text_of(const struct db_value *value)
{
    return strndup(value->text.ptr ? value->text.ptr : "", value->text.ptr ? value->text.len : 0);
}

static int take_waiting(void *ctx, const struct db_value *values, int count)
{
    struct waiting_list *waiting = ctx;
    if (waiting->count == OTLP_JOBS)
        return 0;
    waiting->list[waiting->count++] = (struct waiting){values[0].integer,
                                                       (int64_t)db_number(&values[1]),
                                                       (int64_t)db_number(&values[2]),
                                                       db_number(&values[3]),
                                                       text_of(&values[4]),
                                                       text_of(&values[5]),
                                                       text_of(&values[6]),
                                                       text_of(&values[7])};
    return 0;
}

struct filling {
    struct otlp_batch *batch;
    const struct waiting *waiting;
    double now;
    int64_t next;
    bool first;
};

static int take_record(void *ctx, const struct db_value *values, int count)
{
    struct filling *filling = ctx;
    struct otlp_batch *batch = filling->batch;
    char stream[32];
    if (values[0].integer > filling->waiting->last || batch->records >= OTLP_RECORDS || batch->body.len >= OTLP_BYTES)
        return 1;
    size_t before = batch->body.len;
    snprintf(stream, sizeof stream, "%.*s", SPAN_ARG(values[1].text));
    if (!filling->first)
        buf_putc(&batch->body, ',');
    if (otlp_put_record(&batch->body, filling->waiting->started, filling->now, values[0].integer, stream,
                        values[2].text) == 0) {
        batch->records++;
        filling->first = false;
    } else {
        batch->body.len = before;
    }
    filling->next = values[0].integer + 1;
    return 0;
}

static void put_resource(struct buf *out, const struct waiting *waiting)
{
    const char *const names[][2] = {{"service.name", "scry"},
                                    {"host.name", waiting->node},
                                    {"scry.owner", waiting->owner},
                                    {"scry.job", waiting->id},
                                    {"scry.job.name", waiting->name}};
    bool first = true;
    buf_puts(out, "{\"resource\":{\"attributes\":[");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_attribute(out, names[i][0], names[i][1], &first);
    buf_puts(out, "]},\"scopeLogs\":[{\"scope\":{\"name\":\"scry\",\"version\":\"" SCRY_VERSION "\"},\"logRecords\":[");
}

/* The records of a job that are next, as far as there is room. */
static int fill(struct store *store, struct otlp_batch *batch, const struct waiting *waiting, double now,
                struct err *err)
{
    struct filling filling = {batch, waiting, now, waiting->next, true};
    size_t before = batch->body.len;
    if (!waiting->owner || !waiting->id || !waiting->name || !waiting->node)
        return -ENOMEM;
    if (batch->records)
        buf_putc(&batch->body, ',');
    put_resource(&batch->body, waiting);
    int code = store_read_from(store, waiting->job, waiting->next, take_record, &filling, err);
    if (code < 0)
        return code;
    bool all = batch->records < OTLP_RECORDS && batch->body.len < OTLP_BYTES;
    if (filling.first)
        batch->body.len = before;
    else
        buf_puts(&batch->body, "]}]}");
    /* behind the last one, for there are numbers that nobody has */
    batch->parts[batch->part_count++] = (struct otlp_part){waiting->job, all ? waiting->last + 1 : filling.next};
    return batch->body.failed ? -ENOMEM : 0;
}

int otlp_next(struct store *store, const char *target, struct otlp_batch *ret_batch, struct err *err)
{
    struct waiting_list waiting = {.count = 0};
    struct db_value value = db_string(target);
    double now = (double)clock_wall_ns() / NS_PER_SECOND;
    buf_clear(&ret_batch->body);
    ret_batch->records = ret_batch->part_count = 0;
    int code = db_query(
        store_db(store),
        "SELECT jobs.job, coalesce(exported.seq, 0), last_seq, coalesce(started, 0), owner, id, name, node"
        " FROM jobs LEFT JOIN exported ON exported.target = $1 AND exported.job = jobs.job"
        " WHERE last_seq >= coalesce(exported.seq, 0) AND (started IS NOT NULL OR complete = 1)"
        " ORDER BY last_seq - coalesce(exported.seq, 0) LIMIT 64" /* so that one with much keeps nobody waiting */,
        &value, 1, take_waiting, &waiting, err);
    buf_puts(&ret_batch->body, "{\"resourceLogs\":[");
    for (size_t i = 0; i < waiting.count; i++) {
        if (code == 0 && ret_batch->records < OTLP_RECORDS && ret_batch->body.len < OTLP_BYTES)
            code = fill(store, ret_batch, &waiting.list[i], now, err);
        free(waiting.list[i].owner);
        free(waiting.list[i].id);
        free(waiting.list[i].name);
        free(waiting.list[i].node);
    }
    buf_puts(&ret_batch->body, "]}");
    return code < 0 ? code : ret_batch->body.failed ? -ENOMEM : 0;
}

int otlp_done(struct store *store, const char *target, const struct otlp_batch *batch, struct err *err)
{
    struct db *db = store_db(store);
    int code = db->backend->begin(db, true, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < batch->part_count && code == 0; i++) {
        struct db_value values[] = {db_string(target), db_integer(batch->parts[i].job),
                                    db_integer(batch->parts[i].next)};
        code = db_query(db,
                        "INSERT INTO exported (target, job, seq) VALUES ($1, $2, $3)"
                        " ON CONFLICT (target, job) DO UPDATE SET seq = excluded.seq",
                        values, 3, NULL, NULL, err);
    }
    if (code == 0)
        return db->backend->commit(db, err);
    db->backend->rollback(db);
    return code;
}
