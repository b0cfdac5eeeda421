/* SPDX-License-Identifier: Apache-2.0 */
/* Job directories into the record. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "jobdir/record/info.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/text.h"
#include "store/import.h"

enum { DEPTH = 4, LEASE_SECONDS = 60, AT_ONCE = 4 << 20 };

struct import {
    struct store *store;
    struct stored_job *job;
    const char *path;
    double now;
};

static int flush_some(struct import *import, size_t most, struct err *err)
{
    return store_pending(import->store) > most ? store_flush(import->store, err) : 0;
}

static int put_records(struct import *import, struct err *err)
{
    struct spool_reader reader;
    int code = spool_reader_open(&reader, import->path, err);
    for (json_t *record; code == 0 && (record = spool_reader_next(&reader));) {
        code = store_put_record_take(import->store, import->job, NULL, record);
        if (code == 0)
            code = flush_some(import, AT_ONCE, err);
        else if (code == -EBADMSG)
            code = 0;
        else
            err_errno(err, code, "cannot take the records of %s", import->path);
    }
    if (code == 0 && reader.unread)
        log_warning("%s: %llu lines of the spool are no records, and are left out", import->path,
                    (unsigned long long)reader.unread);
    spool_reader_close(&reader);
    return code == -ENOENT ? 0 : code;
}

static int put_file(struct import *import, const char *name, const struct stat *st, struct err *err)
{
    _cleanup_(freep) char *bytes = NULL;
    char path[PATH_MAX];
    size_t len;
    if (st->st_size > STORE_FILE_BYTES ||
        (size_t)snprintf(path, sizeof path, "%s/%s", import->path, name) >= sizeof path ||
        file_read(path, &bytes, &len) < 0)
        return 0;
    int64_t version = (int64_t)st->st_mtim.tv_sec * 1000000 + st->st_mtim.tv_nsec / 1000;
    int code = store_put_file(import->store, import->job, name, version, span_of(bytes, len));
    if (code == -EAGAIN && (code = store_flush(import->store, err)) == 0)
        code = store_put_file(import->store, import->job, name, version, span_of(bytes, len));
    return code == -EBADMSG ? 0 : code == 0 ? flush_some(import, AT_ONCE, err) : code;
}

/* All regular files below; links are not followed. */
static int put_files(struct import *import, const char *name, int depth, struct err *err)
{
    char path[PATH_MAX], inner[PATH_MAX];
    struct stat st;
    int code = 0;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", import->path, name) >= sizeof path || lstat(path, &st) < 0)
        return 0;
    if (S_ISREG(st.st_mode))
        return put_file(import, name, &st, err);
    DIR *dir = S_ISDIR(st.st_mode) && depth ? opendir(path) : NULL;
    for (struct dirent *entry; dir && code == 0 && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' &&
            (size_t)snprintf(inner, sizeof inner, "%s/%s", name, entry->d_name) < sizeof inner)
            code = put_files(import, inner, depth - 1, err);
    if (dir)
        closedir(dir);
    return code;
}

static const char *state_of(const struct job_info *info, enum job_state state)
{
    return state == JOB_ENDED ? job_end_name(&info->result) : state == JOB_LOST ? "lost" : "running";
}

static int put_state(struct import *import, const struct job_info *info, enum job_state state)
{
    bool runs = state == JOB_RUNNING || state == JOB_UNWATCHED;
    json_t *dir = text_json(import->path);
    json_t *said = json_pack("{s:s, s:s, s:o, s:s, s:O}", "state", state_of(info, state), "node", info->host, "dir",
                             dir, "boot_id", info->boot_id, "info", info->json);
    json_t *beat = json_pack("{s:b, s:f, s:i}", "connected", runs, "time", import->now, "lease_seconds", LEASE_SECONDS);
    int code = said && beat ? store_put_state(import->store, import->job, said, import->now) : -ENOMEM;
    if (code == 0)
        code = store_put_beat(import->store, import->job, beat, import->now);
    if (code == 0 && (state == JOB_ENDED || state == JOB_LOST))
        code = store_put_complete(import->store, import->job);
    json_decref(said);
    json_decref(beat);
    return code;
}

int import_job(struct store *store, const char *path, struct stored_job **ret_job, struct err *err)
{
    struct job_info info;
    enum job_state state;
    char whole[PATH_MAX];
    int code = job_info_read_state(path, &info, &state, err);
    struct import import = {.store = store, .path = realpath(path, whole) ? whole : path};
    import.now = (double)clock_wall_ns() / NS_PER_SECOND;
    if (code == 0 && (!*info.id || !*info.user))
        code = err_set(err, -EBADMSG, "%s/job.json names neither a job nor its user", path);
    if (code == 0) {
        import.job = store_job(store, info.user, info.id);
        code = import.job ? put_records(&import, err) : -ENOMEM;
        if (code == 0)
            code = put_files(&import, "stats", DEPTH, err);
        if (code == 0)
            code = put_files(&import, "report.txt", 0, err);
        if (code == 0 && (code = store_flush(store, err)) == 0 && (code = put_state(&import, &info, state)) == 0)
            code = store_flush(store, err);
        if (code < 0 && err && !err->code)
            err_errno(err, code, "cannot import %s", path);
    }
    job_info_done(&info);
    *ret_job = import.job;
    return code;
}
