/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static bool state_known(const char *state);

/* ---- opening ---- */

int store_place(const char *said, char *ret_where, size_t size, struct err *err)
{
    const char *own = getenv("SCRY_RECORD");
    char state[PATH_MAX];
    if (!said || !*said)
        said = own && *own ? own : NULL;
    int code = said ? 0 : dirs_state(state, sizeof state, err);
    if (code < 0)
        return code;
    int len = said ? snprintf(ret_where, size, "%s", said) : snprintf(ret_where, size, "%s/record", state);
    return (size_t)len < size ? 0 : err_set(err, -ENAMETOOLONG, "%.40s...: too long", said ? said : state);
}

int store_open(struct store **ret_store, const char *where, enum db_access access, struct err *err)
{
    struct store *store = calloc(1, sizeof *store);
    int code = store ? db_open(&store->db, where, access, err) : err_set(err, -ENOMEM, "out of memory");
    if (code < 0) {
        free(store);
        return code;
    }
    store->writes = -1;
    *ret_store = store;
    return 0;
}

static void op_done(struct op *op)
{
    json_decref(op->json);
    free(op->text);
    free(op->path);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < store->count; i++)
        op_done(&store->ops[i]);
    free(store->ops);
    free(store->rows);
    HASH_FREE_ALL(store->jobs, {
        row_done(&each->row);
        ranges_done(&each->ranges);
        minutes_done(&each->minutes);
        free(each->owner);
        free(each->id);
    });
    db_close(store->db);
    free(store);
}

int store_own(struct store *store, struct err *err)
{
    return store->db->backend->own(store->db, err);
}

const char *store_name(const struct store *store)
{
    return store->db->name;
}

struct db *store_db(struct store *store)
{
    return store->db;
}

uint64_t store_written(const struct store *store)
{
    return store->written;
}

uint64_t store_repeated(const struct store *store)
{
    return store->repeated;
}

size_t store_pending(const struct store *store)
{
    return store->pending_bytes;
}

/* ---- jobs ---- */

static char *text_clean_dup(const char *bytes)
{
    struct buf text = BUF_INIT;
    text_clean(&text, bytes);
    return text.failed ? NULL : buf_take(&text);
}

struct stored_job *store_job(struct store *store, const char *owner, const char *id)
{
    size_t own = strlen(owner) + 1, len = own + strlen(id);
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    struct stored_job *job;
    buf_append(&name, owner, own);
    buf_puts(&name, id);
    if (name.failed)
        return NULL;
    HASH_FIND(hh, store->jobs, name.data, len, job);
    if (job || !(job = calloc(1, sizeof *job + len + 1)))
        return job;
    memcpy(job->name, name.data, len + 1);
    job->owner = text_clean_dup(owner);
    job->id = text_clean_dup(id);
    row_init(&job->row);
    job->ranges.changed = INT64_MAX;
    job->stale = true;
    if (!job->owner || !job->id || !job->row.state) {
        free(job->owner);
        free(job->id);
        row_done(&job->row);
        free(job);
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, store->jobs, job->name, len, job);
    return job;
}

int store_look(struct store *store, struct stored_job *job, struct err *err)
{
    struct db_value names[] = {db_string(job->owner), db_string(job->id)};
    if (!job->stale)
        return 0;
    int64_t key = 0;
    int code = db_query_integer(store->db, "SELECT job FROM jobs WHERE owner = $1 AND id = $2", names, 2, &key, err);
    if (code < 0 || !key)
        return code;
    code = row_read(&job->row, store->db, key, err);
    if (code == 0)
        code = ranges_load(&job->ranges, store->db, key, err);
    job->key = key; /* stays stale: a flush reads it again, in its transaction */
    return code;
}

/* ---- putting in ---- */

static int add_op(struct store *store, struct op *op, size_t bytes)
{
    /* what a parsed record takes, is some times its text */
    op->bytes = 200 + (op->json ? 9 * bytes : bytes);
    if (store->pending_bytes + op->bytes > STORE_PENDING_BYTES || !GROW(store->ops, store->count, store->room)) {
        op_done(op);
        return store->pending_bytes + op->bytes > STORE_PENDING_BYTES ? -EAGAIN : -ENOMEM;
    }
    store->pending_bytes += op->bytes;
    store->ops[store->count++] = *op;
    return 0;
}

static int record_refuse(struct store *store, struct stored_job *job, json_t *record)
{
    json_decref(record);
    store_put_refused(store, job);
    return -EBADMSG;
}

/* Published records begin with job, node and stream, and go on as the spool has them: that text, where it is so (NULL: it
 * is not), costs less than making it again. */
static char *text_behind(const json_t *record, struct span line)
{
    static const char *const names[] = {"job", "node", "stream"};
    _cleanup_(buf_done) struct buf head = BUF_INIT;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        _cleanup_(freep) char *value = json_dumps(json_object_get(record, names[i]), JSON_ENCODE_ANY);
        buf_printf(&head, "%c\"%s\":%s", i ? ',' : '{', names[i], value ? value : "");
    }
    buf_putc(&head, ',');
    if (head.failed || line.len <= head.len || memcmp(line.ptr, head.data, head.len) != 0)
        return NULL;
    char *text = malloc(line.len - head.len + 2);
    if (text) {
        text[0] = '{';
        memcpy(text + 1, line.ptr + head.len, line.len - head.len);
        text[line.len - head.len + 1] = '\0';
    }
    return text;
}

static int put_record_take(struct store *store, struct stored_job *job, const char *stream, json_t *record,
                           struct span line)
{
    const char *type = json_string_value(json_object_get(record, "type"));
    const json_t *number = json_object_get(record, "seq"), *time = json_object_get(record, "t");
    double t = json_number_value(time);
    int64_t seq = json_integer_value(number);
    if (!type || strlen(type) > 64 || !json_is_integer(number) || seq < 0 || seq >= SPOOL_MOST_SEQ ||
        !json_is_number(time) || !(t >= 0 && t < ROW_MOST_SECONDS))
        return record_refuse(store, job, record);
    enum record_type known = record_type(record);
    if (!stream)
        stream = json_string_value(json_object_get(record, "stream"));
    stream = stream_of(stream);
    if (known < RECORD_TYPES)
        stream = record_stream_name(record_kinds[known].stream);
    struct op op = {OP_RECORD, job, .json = record, .type = known, .seq = seq, .t = t};
    op.text = line.len ? text_behind(record, line) : NULL;
    json_object_del(record, "job");
    json_object_del(record, "node");
    json_object_del(record, "stream");
    if (!op.text)
        op.text = json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (!op.text) {
        json_decref(record);
        return -ENOMEM;
    }
    size_t len = strlen(op.text);
    if (len > STORE_RECORD_BYTES) {
        free(op.text);
        return record_refuse(store, job, record);
    }
    op.stream = stream;
    return add_op(store, &op, len);
}

int store_put_record(struct store *store, struct stored_job *job, const char *stream, struct span line)
{
    json_t *record = line.len <= STORE_RECORD_BYTES ? json_loadb(line.ptr, line.len, 0, NULL) : NULL;
    return put_record_take(store, job, stream, record, line);
}

int store_put_record_take(struct store *store, struct stored_job *job, const char *stream, json_t *record)
{
    return put_record_take(store, job, stream, record, (struct span){0});
}

static int put_state(struct store *store, struct stored_job *job, const json_t *state, double now, bool is_signed)
{
    json_t *copy = json_deep_copy(state);
    return copy ? add_op(store, &(struct op){OP_STATE, job, .json = copy, .t = now, .seq = is_signed}, 2048) : -ENOMEM;
}

int store_put_state(struct store *store, struct stored_job *job, const json_t *state, double now)
{
    return put_state(store, job, state, now, false);
}

int store_put_signed_state(struct store *store, struct stored_job *job, const json_t *state, double now)
{
    return put_state(store, job, state, now, true);
}

int store_put_signed(struct store *store, struct stored_job *job, enum signed_by by)
{
    return add_op(store, &(struct op){OP_SIGNED, job, .seq = by}, 0);
}

int store_put_refused(struct store *store, struct stored_job *job)
{
    return add_op(store, &(struct op){OP_REFUSED, job}, 0);
}

int store_put_beat(struct store *store, struct stored_job *job, const json_t *beat, double now)
{
    json_t *copy = json_deep_copy(beat);
    return copy ? add_op(store, &(struct op){OP_BEAT, job, .json = copy, .t = now}, 100) : -ENOMEM;
}

int store_put_file(struct store *store, struct stored_job *job, const char *path, int64_t version, struct span bytes)
{
    if (bytes.len > STORE_FILE_BYTES || strlen(path) > 1024 || version < 0 || version >= SPOOL_MOST_SEQ)
        return record_refuse(store, job, NULL);
    struct op op = {
        OP_FILE, job, .seq = version, .len = bytes.len, .path = text_clean_dup(path), .text = malloc(bytes.len + 1)};
    if (!op.path || !op.text) {
        op_done(&op);
        return -ENOMEM;
    }
    if (bytes.len)
        memcpy(op.text, bytes.ptr, bytes.len);
    return add_op(store, &op, bytes.len);
}

int store_put_lost(struct store *store, struct stored_job *job, int64_t first, int64_t behind)
{
    return add_op(store, &(struct op){OP_LOST, job, .seq = first, .behind = behind}, 0);
}

int store_put_complete(struct store *store, struct stored_job *job)
{
    return add_op(store, &(struct op){OP_COMPLETE, job}, 0);
}

void store_changed(struct store *store, void (*fn)(void *ctx, struct stored_job *job), void *ctx)
{
    struct stored_job *job, *next;
    HASH_ITER(hh, store->jobs, job, next)
    {
        if (job->pending) {
            job->pending = 0;
            fn(ctx, job);
        }
    }
}

/* What was put into the store becomes rows: one transaction for all of it. */

/* Within a transaction that may write. */
static int job_load(struct store *store, struct stored_job *job, struct err *err)
{
    minutes_done(&job->minutes);
    int code = row_load(&job->row, store->db, job->owner, job->id, &job->key, err);
    if (code == 0)
        code = ranges_load(&job->ranges, store->db, job->key, err);
    job->stale = job->uncommitted = code < 0;
    return code;
}

static void row_know(struct job_row *row, const json_t *last)
{
    int64_t seq = json_is_integer(last) ? json_integer_value(last) : -1;
    if (seq > row->known_seq && seq < SPOOL_MOST_SEQ)
        row->known_seq = seq;
}

static int apply_record(struct store *store, struct op *op)
{
    struct stored_job *job = op->job;
    int code = ranges_add(&job->ranges, op->seq, store->day);
    if (code == -EEXIST) {
        store->flushed_repeated++;
        return 0;
    }
    if (code == -E2BIG) {
        job->row.refused++;
        return 0;
    }
    if (code < 0 || !GROW(store->rows, store->row_count, store->row_room))
        return -ENOMEM;
    const char *type = json_string_value(json_object_get(op->json, "type"));
    store->rows[store->row_count++] =
        (struct db_record){job->key, op->seq, op->t, op->stream, span_str(type), span_str(op->text)};
    if (op->seq > job->row.known_seq)
        job->row.known_seq = op->seq;
    return row_apply(&job->row, &job->minutes, op->type, op->t, op->json);
}

/* A message that the broker has kept (-now) says when it was heard only if nothing else does. */
static void row_hear(struct job_row *row, double now)
{
    if (now > 0)
        row->heard = now;
    else if (row->heard == 0)
        row->heard = -now;
}

static void apply_state(struct op *op)
{
    struct job_row *row = &op->job->row;
    const char *state = json_string_value(json_object_get(op->json, "state"));
    const char *dir = json_string_value(json_object_get(op->json, "dir"));
    const char *node = json_string_value(json_object_get(op->json, "node"));
    const char *boot_id = json_string_value(json_object_get(op->json, "boot_id"));
    const json_t *info = json_object_get(op->json, "info"), *address = json_object_get(op->json, "address");
    if (state_known(state))
        row_set_text(&row->state, state);
    if (dir)
        row_set_text(&row->dir, dir);
    if (node)
        row_set_text(&row->node, node);
    if (boot_id)
        row_set_text(&row->boot_id, boot_id);
    if (json_is_object(info))
        row_apply_info(row, info);
    row_set_text(&row->address, json_string_value(address));
    row_know(row, json_object_get(op->json, "last_seq"));
    row_hear(row, op->t);
    if (op->seq && json_is_true(json_object_get(op->json, "complete"))) { /* signed: whatever others said before */
        row->known_seq = -1;
        row_know(row, json_object_get(op->json, "last_seq"));
        ranges_cut(&op->job->ranges, row->known_seq + 1);
    }
}

static void apply_signed(struct job_row *row, enum signed_by by)
{
    bool is_first = !row->records && row->is_signed != ROW_SIGNED_PARTLY;
    if (by == SIGNED_JOB)
        row->is_signed = row->is_signed == ROW_SIGNED || is_first ? ROW_SIGNED : ROW_SIGNED_PARTLY;
    else if (by == SIGNED_NOT && row->is_signed == ROW_NULL)
        row->is_signed = ROW_UNSIGNED;
    else if (by == SIGNED_UNKNOWN && row->is_signed == ROW_SIGNED) /* from now on without the key */
        row->is_signed = ROW_SIGNED_PARTLY;
}

static void apply_beat(struct op *op)
{
    struct job_row *row = &op->job->row;
    const json_t *time = json_object_get(op->json, "time"), *lease = json_object_get(op->json, "lease_seconds");
    row->connected = json_is_true(json_object_get(op->json, "connected"));
    row_know(row, json_object_get(op->json, "last_seq"));
    if (json_is_number(lease) && json_number_value(lease) >= 0 && json_number_value(lease) < 1e6)
        row->lease_seconds = json_number_value(lease);
    if (op->t > 0 && json_is_number(time) && json_number_value(time) > 0 && json_number_value(time) < 1e11)
        row->clock = json_number_value(time) - op->t;
    double age = json_number_value(json_object_get(op->json, "age"));
    if (op->t > 0 && age > 0 && age < ROW_MOST_SECONDS)
        row->age = age;
    if (row->connected) /* the last will says nothing new of the job */
        row_hear(row, op->t);
}

static int apply_file(struct store *store, struct op *op, struct err *err)
{
    struct db_value bytes = {DB_BYTES, .text = span_of(op->text, op->len)};
    struct db_value values[] = {db_integer(op->job->key), db_string(op->path), db_integer(op->seq),
                                db_integer((int64_t)op->len), bytes};
    return db_query(store->db,
                    "INSERT INTO files (job, path, version, bytes, content) VALUES ($1, $2, $3, $4, $5)"
                    " ON CONFLICT (job, path) DO UPDATE SET version = excluded.version, bytes = excluded.bytes,"
                    " content = excluded.content WHERE files.version <= excluded.version",
                    values, 5, NULL, NULL, err);
}

/* Of a file of statistics: what its rank of MPI did. Another file is none, and 0. */
static int apply_rank(struct store *store, struct op *op, struct err *err)
{
    enum { MOST_BYTES = 4 << 20 };
    const char *in = strncmp(op->path, "parts/", 6) == 0 ? strchr(op->path + 6, '/') : NULL;
    if (strncmp(in ? in + 1 : op->path, "stats/", 6) != 0 || op->len > MOST_BYTES)
        return 0;
    json_t *stats = json_loadb(op->text, op->len, 0, NULL), *threads = json_object_get(stats, "threads"), *thread;
    json_int_t rank =
        json_is_integer(json_object_get(stats, "rank")) ? json_integer_value(json_object_get(stats, "rank")) : -1;
    const char *node = json_string_value(json_object_get(stats, "node"));
    json_int_t compute_ns = -1, mpi_ns = -1;
    size_t index;
    json_array_foreach(threads, index, thread)
    {
        const json_t *times = json_object_get(thread, "outermost");
        if (json_is_true(json_object_get(thread, "is_main")) && json_is_object(times)) {
            compute_ns = json_integer_value(json_object_get(times, "compute_ns"));
            mpi_ns = json_integer_value(json_object_get(times, "communicate_ns"));
        }
    }
    struct db_value values[] = {db_integer(op->job->key),
                                db_string(op->path),
                                db_integer(rank),
                                db_integer(json_integer_value(json_object_get(stats, "world_size"))),
                                db_string(node ? node : ""),
                                db_integer(json_integer_value(json_object_get(stats, "pid"))),
                                db_real((double)compute_ns / NS_PER_SECOND),
                                db_real((double)mpi_ns / NS_PER_SECOND)};
    int code = rank < 0 || compute_ns < 0 || mpi_ns < 0
                   ? 0
                   : db_query(store->db,
                              "INSERT INTO ranks (job, path, rank, world_size, node, pid, compute_seconds, mpi_seconds)"
                              " VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, path) DO UPDATE SET"
                              " rank = excluded.rank, world_size = excluded.world_size, node = excluded.node,"
                              " pid = excluded.pid, compute_seconds = excluded.compute_seconds,"
                              " mpi_seconds = excluded.mpi_seconds",
                              values, 8, NULL, NULL, err);
    json_decref(stats);
    return code;
}

static int op_apply(struct store *store, struct op *op, struct err *err)
{
    struct stored_job *job = op->job;
    int64_t lost = 0;
    int code = job->stale ? job_load(store, job, err) : 0;
    if (code < 0)
        return code;
    job->touched = true;
    switch (op->kind) {
    case OP_RECORD:
        return apply_record(store, op);
    case OP_STATE:
        apply_state(op);
        return 0;
    case OP_BEAT:
        apply_beat(op);
        return 0;
    case OP_FILE:
        code = apply_file(store, op, err);
        return code == 0 ? apply_rank(store, op, err) : code;
    case OP_LOST:
        code = ranges_fill(&job->ranges, op->seq, op->behind, &lost);
        job->row.lost += lost;
        return code == -E2BIG ? 0 : code;
    case OP_REFUSED:
        job->row.refused++;
        return 0;
    case OP_SIGNED:
        apply_signed(&job->row, (enum signed_by)op->seq);
        return 0;
    case OP_COMPLETE: {
        int64_t behind;
        int64_t end = job->row.known_seq + 1;
        job->row.complete = ranges_missing(&job->ranges, 0, end, &behind) >= end;
        return 0;
    }
    }
    return 0;
}

static int job_save(struct store *store, struct stored_job *job, struct err *err)
{
    int64_t behind;
    job->row.last_seq = ranges_missing(&job->ranges, 0, SPOOL_MOST_SEQ, &behind) - 1;
    int code = row_save(&job->row, store->db, job->key, err);
    if (code == 0)
        code = ranges_save(&job->ranges, store->db, job->key, err);
    if (code == 0)
        code = minutes_save(&job->minutes, store->db, job->key, err);
    return code;
}

/* Counts up the writers' number. If it is not the one behind our last, others wrote, and what we know of jobs is old. */
static int see_writers(struct store *store, int64_t *ret_writes, struct err *err)
{
    int code =
        db_query_integer(store->db, "UPDATE meta SET writes = writes + 1 RETURNING writes", NULL, 0, ret_writes, err);
    if (code == 0 && *ret_writes != store->writes + 1) {
        struct stored_job *job, *next;
        HASH_ITER(hh, store->jobs, job, next)
        {
            job->stale = true;
        }
    }
    return code;
}

static bool is_wanted(const struct op *op, const struct stored_job *only)
{
    return !op->done && (!only || op->job == only);
}

static int write_all(struct store *store, const struct stored_job *only, int64_t *ret_writes, struct err *err)
{
    int code = see_writers(store, ret_writes, err);
    for (size_t i = 0; i < store->count && code == 0; i++)
        if (is_wanted(&store->ops[i], only))
            code = op_apply(store, &store->ops[i], err);
    if (code == 0)
        code = store->db->backend->day_put(store->db, store->day, store->rows, store->row_count, err);
    for (size_t i = 0; i < store->count && code == 0; i++) {
        struct stored_job *job = store->ops[i].job;
        if (job->touched) { /* once for each */
            job->touched = false;
            job->pending = 1; /* for store_changed */
            code = job_save(store, job, err);
        }
    }
    return code == -ENOMEM && err && !err->code ? err_set(err, code, "out of memory") : code;
}

static void day_today(char day[DB_DAY_SIZE])
{
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(day, DB_DAY_SIZE, "%Y-%m-%d", &tm);
}

static void forget_ops(struct store *store)
{
    for (size_t i = 0; i < store->count; i++)
        op_done(&store->ops[i]);
    store->count = 0;
    store->pending_bytes = 0;
}

/* What was changed in memory is not so. */
static void jobs_distrust(struct store *store, const struct stored_job *only)
{
    for (size_t i = 0; i < store->count; i++) {
        struct stored_job *job = store->ops[i].job;
        if (!is_wanted(&store->ops[i], only))
            continue;
        job->stale = job->uncommitted = true;
        job->touched = false;
        job->pending = 0;
    }
}

/* One transaction, of all jobs or of one. */
static int flush_of(struct store *store, const struct stored_job *only, struct err *err)
{
    int64_t writes = 0;
    store->row_count = 0;
    store->flushed_repeated = 0;
    int code = store->db->backend->begin(store->db, true, err);
    if (code == 0) {
        code = write_all(store, only, &writes, err);
        if (code == 0)
            code = store->db->backend->commit(store->db, err);
        else
            store->db->backend->rollback(store->db);
    }
    if (code < 0) {
        jobs_distrust(store, only);
        return code;
    }
    store->writes = writes;
    store->written += store->row_count;
    store->repeated += store->flushed_repeated;
    return 0;
}

static void give_up(struct store *store, struct stored_job *job, const struct err *why)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    size_t dropped = 0;
    for (size_t i = 0; i < store->count; i++) {
        dropped += is_wanted(&store->ops[i], job) && store->ops[i].kind == OP_RECORD;
        store->ops[i].done |= store->ops[i].job == job;
    }
    text_show(&name, job->id);
    log_warning("%zu records of job %s are refused by the database, and left out: %s", dropped,
                name.data ? name.data : "", why->text);
}

/* One job after the other, so that one of them does not hold up the rest. */
static int flush_singly(struct store *store, struct err *err)
{
    int code = 0;
    for (size_t i = 0; i < store->count && code == 0; i++) {
        struct stored_job *job = store->ops[i].job;
        struct err why = {0};
        if (store->ops[i].done)
            continue;
        code = flush_of(store, job, &why);
        if (code == -EPROTO)
            give_up(store, job, &why);
        else if (code < 0)
            return err_set(err, code, "%s", why.text);
        code = 0;
        for (size_t at = i; at < store->count; at++)
            store->ops[at].done |= store->ops[at].job == job;
    }
    return code;
}

int store_flush(struct store *store, struct err *err)
{
    struct err own = {0};
    if (!store->count)
        return 0;
    day_today(store->day);
    int code = store->db->backend->day_make(store->db, store->day, &own);
    if (code == 0) {
        code = flush_of(store, NULL, &own);
        if (code == -EPROTO)
            code = flush_singly(store, &own);
    }
    if (code < 0)
        return err_set(err, code, "%s", own.text);
    forget_ops(store);
    return 0;
}

/* What is in the store: finding a job, reading its records, and what goes in the end. */

static bool state_known(const char *state)
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
static int store_run(struct store *store, const char *const *statements, const struct db_value *value, struct err *err)
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
    return code == 0 ? store_run(store, all, &value, err) : code;
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
    int code = store_run(store, forget, &value, err);
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
    return code == 0 && minutes_seconds > 0 ? store_run(store, minutes, &heard, err) : code;
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
