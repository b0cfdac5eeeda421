/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/dirs.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "store/internal.h"

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

void op_done(struct op *op)
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

static char *clean(const char *bytes)
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
    job->owner = clean(owner);
    job->id = clean(id);
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

static int refuse(struct store *store, struct stored_job *job, json_t *record)
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
        return refuse(store, job, record);
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
        return refuse(store, job, record);
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
        return refuse(store, job, NULL);
    struct op op = {OP_FILE, job, .seq = version, .len = bytes.len, .path = clean(path), .text = malloc(bytes.len + 1)};
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
