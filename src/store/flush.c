/* SPDX-License-Identifier: Apache-2.0 */
/* What was put into the store becomes rows: one transaction for all of it. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "store/internal.h"

/* Within a transaction that may write. */
static int load(struct store *store, struct stored_job *job, struct err *err)
{
    minutes_done(&job->minutes);
    int code = row_load(&job->row, store->db, job->owner, job->id, &job->key, err);
    if (code == 0)
        code = ranges_load(&job->ranges, store->db, job->key, err);
    job->stale = job->uncommitted = code < 0;
    return code;
}

static void know(struct job_row *row, const json_t *last)
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
static void hear(struct job_row *row, double now)
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
    know(row, json_object_get(op->json, "last_seq"));
    hear(row, op->t);
    if (op->seq && json_is_true(json_object_get(op->json, "complete"))) { /* signed: whatever others said before */
        row->known_seq = -1;
        know(row, json_object_get(op->json, "last_seq"));
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
    know(row, json_object_get(op->json, "last_seq"));
    if (json_is_number(lease) && json_number_value(lease) >= 0 && json_number_value(lease) < 1e6)
        row->lease_seconds = json_number_value(lease);
    if (op->t > 0 && json_is_number(time) && json_number_value(time) > 0 && json_number_value(time) < 1e11)
        row->clock = json_number_value(time) - op->t;
    double age = json_number_value(json_object_get(op->json, "age"));
    if (op->t > 0 && age > 0 && age < ROW_MOST_SECONDS)
        row->age = age;
    if (row->connected) /* the last will says nothing new of the job */
        hear(row, op->t);
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

static int apply(struct store *store, struct op *op, struct err *err)
{
    struct stored_job *job = op->job;
    int64_t lost = 0;
    int code = job->stale ? load(store, job, err) : 0;
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

static int save(struct store *store, struct stored_job *job, struct err *err)
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
            code = apply(store, &store->ops[i], err);
    if (code == 0)
        code = store->db->backend->day_put(store->db, store->day, store->rows, store->row_count, err);
    for (size_t i = 0; i < store->count && code == 0; i++) {
        struct stored_job *job = store->ops[i].job;
        if (job->touched) { /* once for each */
            job->touched = false;
            job->pending = 1; /* for store_changed */
            code = save(store, job, err);
        }
    }
    return code == -ENOMEM && err && !err->code ? err_set(err, code, "out of memory") : code;
}

static void today(char day[DB_DAY_SIZE])
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
static void distrust(struct store *store, const struct stored_job *only)
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
        distrust(store, only);
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
    today(store->day);
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
