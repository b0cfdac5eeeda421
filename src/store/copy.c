/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "jobdir/record/info.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int fetch_file(void *ctx, const struct db_value *values, int count)
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

static int fetch_fill(struct store *store, struct fetch *fetch, bool whole, struct err *err)
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
        code = db_query(store_db(store), "SELECT path, content FROM files WHERE job = $1", &job, 1, fetch_file, fetch,
                        err);
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
        code = fetch_fill(store, &fetch, whole, &own);
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

/* Job directories into the record. */

enum { DEPTH = 4, AT_ONCE = 4 << 20 };

struct import {
    struct store *store;
    struct stored_job *job;
    const char *path;
    int dir; /* the same, opened */
    uid_t owner;
    bool foreign; /* another user's: it may be made to have us read and store what that user cannot read */
    double now;
};

static int flush_some(struct import *import, size_t most, struct err *err)
{
    return store_pending(import->store) > most ? store_flush(import->store, err) : 0;
}

/* A link may lead to a file that only we can read. */
static bool may_read(const struct import *import, const struct stat *st)
{
    return S_ISREG(st->st_mode) && (!import->foreign || st->st_uid == import->owner);
}

static int put_records(struct import *import, struct err *err)
{
    struct spool_reader reader;
    int code = spool_reader_open(&reader, import->path, err);
    struct stat st;
    if (code == 0 && (fstat(reader.fd, &st) < 0 || !may_read(import, &st)))
        code = err_set(err, -EPERM, "%s/spool/records.jsonl is no file of the job's owner", import->path);
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

static int import_file(struct import *import, const char *name, int fd, const struct stat *st, struct err *err)
{
    size_t size = (size_t)st->st_size, len = 0;
    if (st->st_size > STORE_FILE_BYTES)
        return 0;
    _cleanup_(freep) char *bytes = malloc(size + 1);
    for (ssize_t got = 1; bytes && got && len<size; len += got> 0 ? (size_t)got : 0)
        if ((got = read(fd, bytes + len, size - len)) < 0 && errno != EINTR)
            return 0;
    if (!bytes)
        return -ENOMEM;
    int64_t version = (int64_t)st->st_mtim.tv_sec * 1000000 + st->st_mtim.tv_nsec / 1000;
    int code = store_put_file(import->store, import->job, name, version, span_of(bytes, len));
    if (code == -EAGAIN && (code = store_flush(import->store, err)) == 0)
        code = store_put_file(import->store, import->job, name, version, span_of(bytes, len));
    return code == -EBADMSG ? 0 : code == 0 ? flush_some(import, AT_ONCE, err) : code;
}

/* All regular files below; links are not followed. `name` is the path in the job directory, its last part is in `at`. */
static int import_files(struct import *import, int at, const char *name, int depth, struct err *err)
{
    const char *slash = strrchr(name, '/');
    struct stat st;
    int code = 0;
    _cleanup_(closep) int fd =
        openat(at, slash ? slash + 1 : name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    if (may_read(import, &st))
        return import_file(import, name, fd, &st, err);
    DIR *dir = S_ISDIR(st.st_mode) && depth ? fdopendir(fd) : NULL;
    if (dir)
        TAKE_FD(fd);
    for (struct dirent *entry; dir && code == 0 && (entry = readdir(dir));) {
        char inner[PATH_MAX];
        if (entry->d_name[0] != '.' &&
            (size_t)snprintf(inner, sizeof inner, "%s/%s", name, entry->d_name) < sizeof inner)
            code = import_files(import, dirfd(dir), inner, depth - 1, err);
    }
    if (dir)
        closedir(dir);
    return code;
}

/* As a publisher cuts it (jobdir/record/mirror.h). */
static int put_pieces(struct import *import, int at, const char *name, struct err *err)
{
    char piece[PATH_MAX], bytes[MIRROR_PIECE];
    struct stat st;
    int code = 0;
    _cleanup_(closep) int fd = file_open_own(at, "spool/records.jsonl", O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0 || !may_read(import, &st))
        return 0;
    int64_t version = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
    ssize_t got = 1;
    for (off_t offset = 0; code == 0 && got > 0 && offset / MIRROR_PIECE < MIRROR_PIECES; offset += MIRROR_PIECE) {
        got = pread(fd, bytes, sizeof bytes, offset);
        if (got <= 0 || (size_t)snprintf(piece, sizeof piece, "%s/" MIRROR_PART_SPOOL "%lld", name,
                                         (long long)offset) >= sizeof piece)
            break;
        struct span span = span_of(bytes, (size_t)got);
        code = store_put_file(import->store, import->job, piece, version, span);
        if (code == -EAGAIN && (code = store_flush(import->store, err)) == 0)
            code = store_put_file(import->store, import->job, piece, version, span);
    }
    return code;
}

static int put_part(struct import *import, int parts, const char *entry, struct err *err)
{
    static const char *const files[] = {"stats", "job.json", "report.txt", "profile.json", "clock.json", "remote.json"};
    char name[PATH_MAX], file[PATH_MAX];
    int code = 0;
    _cleanup_(closep) int fd = openat(parts, entry, O_RDONLY | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (size_t)snprintf(name, sizeof name, "parts/%s", entry) >= sizeof name)
        return 0;
    for (size_t i = 0; code == 0 && i < sizeof files / sizeof *files; i++)
        if ((size_t)snprintf(file, sizeof file, "%s/%s", name, files[i]) < sizeof file)
            code = import_files(import, fd, file, i ? 0 : DEPTH, err);
    return code == 0 ? put_pieces(import, fd, name, err) : code;
}

static int put_parts(struct import *import, struct err *err)
{
    int code = 0, fd = openat(import->dir, "parts", O_RDONLY | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        closep(&fd);
    for (struct dirent *entry; dir && code == 0 && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            code = put_part(import, dirfd(dir), entry->d_name, err);
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
    json_t *beat =
        json_pack("{s:b, s:f, s:i}", "connected", runs, "time", import->now, "lease_seconds", IMPORT_LEASE_SECONDS);
    int code = said && beat ? store_put_state(import->store, import->job, said, import->now) : -ENOMEM;
    if (code == 0)
        code = store_put_beat(import->store, import->job, beat, import->now);
    if (code == 0 && (state == JOB_ENDED || state == JOB_LOST))
        code = store_put_complete(import->store, import->job);
    json_decref(said);
    json_decref(beat);
    return code;
}

/* Whose directory it is. */
static int look_at(struct import *import, struct err *err)
{
    struct stat st;
    import->dir = open(import->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (import->dir < 0 || fstat(import->dir, &st) < 0)
        return err_errno(err, -errno, "%s", import->path);
    import->owner = st.st_uid;
    import->foreign = st.st_uid != geteuid();
    if (fstatat(import->dir, "job.json", &st, 0) == 0 && !may_read(import, &st))
        return err_set(err, -EPERM, "%s/job.json is no file of the directory's owner", import->path);
    return 0;
}

/* Nobody makes jobs for others: in the record, the owner is what access and accounts go by. */
static int check_user(const struct import *import, const char *user, struct err *err)
{
    char owner[USER_NAME_BYTES];
    if (!import->foreign || strcmp(user_name(import->owner, owner, sizeof owner), user) == 0)
        return 0;
    return err_set(err, -EPERM, "%s is a directory of %s, and its job.json says that the job is %.64s's: import a copy",
                   import->path, owner, user);
}

int import_job(struct store *store, const char *path, struct stored_job **ret_job, struct err *err)
{
    struct job_info info = {.json = NULL};
    enum job_state state;
    char whole[PATH_MAX];
    struct import import = {.store = store, .path = realpath(path, whole) ? whole : path, .dir = -1};
    int code = look_at(&import, err);
    if (code == 0)
        code = job_info_read_state(import.path, &info, &state, err);
    import.now = (double)clock_wall_ns() / NS_PER_SECOND;
    if (code == 0 && (!*info.id || !*info.user))
        code = err_set(err, -EBADMSG, "%s/job.json names neither a job nor its user", path);
    if (code == 0)
        code = check_user(&import, info.user, err);
    if (code == 0) {
        import.job = store_job(store, info.user, info.id);
        code = import.job ? put_records(&import, err) : -ENOMEM;
        if (code == 0)
            code = import_files(&import, import.dir, "stats", DEPTH, err);
        if (code == 0)
            code = import_files(&import, import.dir, "report.txt", 0, err);
        if (code == 0)
            code = import_files(&import, import.dir, "profile.json", 0, err);
        if (code == 0)
            code = put_parts(&import, err);
        if (code == 0 && (code = store_flush(store, err)) == 0 && (code = put_state(&import, &info, state)) == 0)
            code = store_flush(store, err);
        if (code < 0 && err && !err->code)
            err_errno(err, code, "cannot import %s", path);
    }
    job_info_done(&info);
    if (import.dir >= 0)
        close(import.dir);
    *ret_job = import.job;
    return code;
}
