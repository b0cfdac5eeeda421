/* SPDX-License-Identifier: Apache-2.0 */
#include "store/fetch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/spool.h"
#include "store/internal.h"

struct fetch {
    struct mirror *mirror;
    const struct store_found *found;
    const struct job_row *row;
    char *job_text, *node_text; /* JSON */
    uint64_t count;
    int code;
};

/* What the store has taken out, comes back from its columns. */
static int put_record(void *ctx, const struct db_value *values, int count)
{
    struct fetch *fetch = ctx;
    struct span text = values[2].text;
    if ((uint64_t)values[0].integer < mirror_next(fetch->mirror))
        return 0;
    char stream[64];
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    snprintf(stream, sizeof stream, "%.*s", SPAN_ARG(values[1].text));
    if (text.len < 3)
        return 0;
    if (values[0].integer == 0) /* the head of the file, as the spool has it */
        buf_printf(&line,
                   "{\"stream\":\"job\",\"seq\":0,\"type\":\"spool\",\"format\":\"scry-spool\",\"version\":%d,"
                   "\"job\":%s,\"node\":%s,\"t\":0.0}",
                   SPOOL_VERSION, fetch->job_text, fetch->node_text);
    else
        buf_printf(&line, "{\"job\":%s,\"node\":%s,\"stream\":\"%s\",", fetch->job_text, fetch->node_text,
                   stream_of(stream));
    if (values[0].integer)
        buf_append(&line, text.ptr + 1, text.len - 1);
    if (line.failed)
        return fetch->code = -ENOMEM;
    /* what lies before and did not come in order of numbers is missing for good */
    if ((uint64_t)values[0].integer > mirror_next(fetch->mirror))
        fetch->code = mirror_skip(fetch->mirror, (uint64_t)values[0].integer, "not in the record");
    if (fetch->code == 0)
        fetch->code = mirror_record(fetch->mirror, span_of(line.data, line.len));
    if (fetch->code == -EBADMSG || fetch->code == -EEXIST)
        fetch->code = 0;
    fetch->count++;
    return fetch->code;
}

static int put_file(void *ctx, const struct db_value *values, int count)
{
    struct fetch *fetch = ctx;
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.*s", SPAN_ARG(values[0].text));
    int code = mirror_file(fetch->mirror, name, values[1].text);
    return code == -EINVAL ? 0 : code; /* a name that leads elsewhere is nobody's file */
}

static json_t *remote_of(const struct fetch *fetch)
{
    const struct job_row *row = fetch->row;
    json_t *remote =
        json_pack("{s:s, s:s, s:s, s:f, s:f, s:b, s:b, s:s?, s:f, s:s, s:b}", "via", "record", "owner",
                  fetch->found->owner, "dir", row->dir ? row->dir : "", "heard", row->heard, "lease_seconds",
                  row->lease_seconds, "connected", (int)row->connected, "complete", (int)row->complete, "address",
                  row->address, "clock", row->clock, "state", row->state ? row->state : "running", "caught_up", 1);
    if (remote && row->is_signed != ROW_NULL)
        json_object_set_new(remote, "signed", json_boolean(row->is_signed == ROW_SIGNED));
    if (remote && row->age > 0) {
        json_object_set_new(remote, "age", json_real(row->age));
        json_object_set_new(remote, "age_heard", json_real(row->heard));
    }
    if (remote && row->last_seq < row->known_seq)
        json_object_set_new(remote, "note",
                            json_sprintf("the record has it up to record %lld of %lld", (long long)row->last_seq,
                                         (long long)row->known_seq));
    else if (remote && row->lost)
        json_object_set_new(remote, "note", json_sprintf("%lld records are not in the record", (long long)row->lost));
    return remote;
}

static int put_description(const struct fetch *fetch)
{
    json_t *remote = remote_of(fetch);
    int code = remote ? mirror_remote(fetch->mirror, remote) : -ENOMEM;
    if (code == 0 && fetch->row->info)
        code = mirror_file(fetch->mirror, "job.json", span_str(fetch->row->info));
    json_decref(remote);
    return code;
}

static int fill(struct store *store, struct fetch *fetch, bool whole, struct err *err)
{
    struct db_value job = db_integer(fetch->found->key);
    int code = put_description(fetch);
    if (code == 0 && whole && !(fetch->job_text && fetch->node_text))
        code = -ENOMEM;
    if (code == 0 && whole)
        code = store_read(store, fetch->found->key, put_record, fetch, err);
    if (code == 0 && whole && fetch->row->last_t > 0 && fetch->row->records && !fetch->count &&
        mirror_next(fetch->mirror) == 0)
        return err_set(err, -ENODATA,
                       "the records of %s are not kept any more; its summary is in the record, see job_list",
                       fetch->found->id);
    if (code == 0 && whole)
        code =
            db_query(store_db(store), "SELECT path, content FROM files WHERE job = $1", &job, 1, put_file, fetch, err);
    return code == 0 ? mirror_flush(fetch->mirror) : code;
}

static char *json_text(const char *text)
{
    json_t *json = json_string(text ? text : "");
    char *dumped = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(json);
    return dumped;
}

/* It was made before, and nothing can come. */
static bool is_whole(const char *path)
{
    json_t *remote = mirror_read_remote(path);
    bool whole = json_is_true(json_object_get(remote, "complete"));
    json_decref(remote);
    return whole;
}

int fetch_job(struct store *store, const struct store_found *found, bool whole, char *ret_path, size_t size,
              struct err *err)
{
    struct job_row row = {0};
    struct fetch fetch = {.found = found, .row = &row};
    struct err own = {0};
    int code = row_read(&row, store_db(store), found->key, &own);
    if (code == 0 && !row.info)
        code = err_set(&own, -ENODATA, "the record has no description of job %s", found->id);
    if (code == 0)
        code = mirror_path("record", found->owner, found->id, ret_path, size, &own);
    if (code == 0 && !whole && is_whole(ret_path)) {
        row_done(&row);
        return 0;
    }
    if (code == 0)
        code = mirror_open(&fetch.mirror, ret_path, &own);
    if (code == -EWOULDBLOCK) { /* somebody else makes the same */
        row_done(&row);
        return 0;
    }
    if (code == 0) {
        fetch.job_text = json_text(found->id);
        fetch.node_text = json_text(row.node);
        code = fill(store, &fetch, whole, &own);
    }
    free(fetch.job_text);
    free(fetch.node_text);
    mirror_close(fetch.mirror);
    row_done(&row);
    if (code < 0)
        return own.code ? err_set(err, code, "%s", own.text)
                        : err_errno(err, code, "cannot make a copy of job %s", found->id);
    return 0;
}
