/* SPDX-License-Identifier: Apache-2.0 */
#include "job/parts/fetch.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/process.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "lang/results.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <omis.h>
#include <scry/omis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define FETCH_BYTES ((uint64_t)32 << 30) /* in all, also of files that were replaced */

static const char NODE[] = "node ";

const char *awaited_begin(struct awaited *awaited, char *line, size_t size)
{
    static char name[] = "scry-link", await[] = "await", *const argv[] = {name, await, NULL};
    char path[PATH_MAX];
    struct err err = {0};
    int ends[3];
    *awaited = (struct awaited){0};
    struct spawn spawn = {.path = path,
                          .argv = argv,
                          .in = SPAWN_PIPE,
                          .out = SPAWN_PIPE,
                          .error = SPAWN_NULL,
                          .group = SPAWN_OWN_SESSION};
    if (dirs_libexec(name, path, sizeof path, &err) < 0 || spawn_piped(&spawn, &awaited->pid, ends) < 0)
        return NULL;
    awaited->in = ends[STDIN_FILENO];
    awaited->said = fdopen(ends[STDOUT_FILENO], "r");
    if (!awaited->said) {
        close(ends[STDOUT_FILENO]);
        close(awaited->in); /* which ends it */
        child_reap(awaited->pid);
        return NULL;
    }
    const char *value = fgets(line, (int)size, awaited->said) ? strchr(line, '=') : NULL;
    fcntl(ends[STDOUT_FILENO], F_SETFL, O_NONBLOCK);
    return value ? value + 1 : NULL;
}

bool awaited_next(struct awaited *awaited, char *ret_token, size_t size)
{
    char line[300];
    while (awaited->said && fgets(line, sizeof line, awaited->said)) {
        line[strcspn(line, "\n")] = '\0';
        const char *token = line + sizeof NODE - 1;
        if (strncmp(line, NODE, sizeof NODE - 1) == 0 && (size_t)snprintf(ret_token, size, "%s", token) < size)
            return true;
    }
    if (awaited->said)
        clearerr(awaited->said); /* there is nothing yet */
    return false;
}

void awaited_end(struct awaited *awaited)
{
    if (!awaited->said)
        return;
    close(awaited->in);
    fclose(awaited->said);
    waitpid(awaited->pid, NULL, 0);
    *awaited = (struct awaited){0};
}

enum { CHUNK = 512 << 10, WHOLE_MOST = 64 << 20, CLOCK_ASKS = 3 /* in a round */ };

struct fetched {
    uint64_t size; /* that is here */
    int64_t changed;
    UT_hash_handle hh;
    char name[];
};

/* ---- names ---- */

bool fetch_is_good_name(const char *name)
{
    static const char *const ours[] = {"remote.json", "mirror.lock", "clock.json",   PART_BROUGHT,
                                       "parts",       ".reserve",    "spool/reserve"};
    size_t len = strlen(name);
    if (!len || len >= PATH_MAX / 2 || *name == '/' || name[len - 1] == '/')
        return false;
    for (const char *at = name; at; at = (at = strchr(at, '/')) ? at + 1 : NULL)
        if (*at == '/' || !*at || strncmp(at, "./", 2) == 0 || strncmp(at, "../", 3) == 0 || strcmp(at, "..") == 0 ||
            strcmp(at, ".") == 0)
            return false;
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < ' ')
            return false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        size_t own = strlen(ours[i]);
        if (strncmp(name, ours[i], own) == 0 && (!name[own] || name[own] == '/'))
            return false;
    }
    return true;
}

bool fetch_only_grows(const char *name)
{
    static const char *const names[] = {"records.jsonl", ".functions", ".places", ".layouts", ".switches", NULL};
    const char *base = text_base(name);
    return text_is_one(base, names) || strncmp(base, "stream-", strlen("stream-")) == 0;
}

/* ---- asking ---- */

/* Without the name of the status, which says nothing to people. */
static const char *plain(const char *why)
{
    const char *text = strncmp(why, "OMIS_", strlen("OMIS_")) == 0 ? strstr(why, ": ") : NULL;
    return text ? text + 2 : why;
}

/* The values of the only answer; NULL with err. The reader owns them. */
static const struct omis_value *values_of(struct omis_reader *reader, struct fetch *fetch)
{
    const char *why = omis_reader_first_error(reader);
    if (!why && omis_reader_find(reader, 1))
        return omis_reader_values(reader);
    err_set(&fetch->err, -EIO, "%s", why ? plain(why) : "its monitor does not answer");
    return NULL;
}

static int attach(struct fetch *fetch)
{
    struct buf text = BUF_INIT;
    if (fetch->came)
        buf_printf(&text, ":node_attach([%s])", fetch->name);
    else
        PUT_CALL(&text, "node_attach2", fetch->name);
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_take(client_ask(&text));
    const struct omis_value *values = values_of(reader, fetch);
    if (!values)
        return -EIO;
    snprintf(fetch->token, sizeof fetch->token, "%.31s",
             fetch->came ? fetch->name : omis_text(omis_item(values, 0), NULL));
    return *fetch->token ? 0 : err_set(&fetch->err, -EIO, "%s: its monitor gave no token", fetch->name);
}

/* ---- files ---- */

static int path_of(const struct fetch *fetch, const char *name, char *ret_path, size_t size)
{
    if ((size_t)snprintf(ret_path, size, "%s/%s", fetch->dir, name) >= size)
        return -ENAMETOOLONG;
    char *slash = strrchr(ret_path, '/');
    *slash = '\0';
    int code = dirs_make(ret_path, 0700);
    *slash = '/';
    return code;
}

/* Appends up to `count` bytes of the file from `offset` on to *out. Fewer: it ends there. */
static int64_t read_piece(struct fetch *fetch, const char *name, uint64_t offset, uint64_t count, struct buf *out)
{
    struct buf text = BUF_INIT;
    size_t len;
    buf_printf(&text, ":job_part_read([%s],", fetch->token);
    PUT(&text, fetch->id, fetch->number, name, offset, count);
    buf_putc(&text, ')');
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_take(client_ask(&text));
    const struct omis_value *values = values_of(reader, fetch);
    if (!values)
        return -EIO;
    const char *bytes = omis_text(omis_item(values, 0), &len);
    if (omis_kind(omis_item(values, 0)) != OMIS_KIND_BINARY || len > count)
        return err_set(&fetch->err, -EBADMSG, "%s: its monitor sent something else than was asked for", fetch->name);
    buf_append(out, bytes, len);
    return out->failed ? -ENOMEM : (int64_t)len;
}

static int append(const char *path, uint64_t at, const struct buf *bytes)
{
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT);
    if (fd < 0)
        return fd;
    ssize_t put = bytes->len ? pwrite(fd, bytes->data, bytes->len, (off_t)at) : 0;
    return put < 0 ? -errno : (size_t)put < bytes->len ? -ENOSPC : 0;
}

int fetch_check_limits(struct fetch *fetch, uint64_t free_bytes)
{
    if (fetch->end_ns && clock_now_ns() > fetch->end_ns)
        return err_set(&fetch->err, -ETIMEDOUT, "%s needed too long to send the rest", fetch->name);
    if (fetch->brought >= FETCH_BYTES)
        return err_set(&fetch->err, -EFBIG, "%s sent more than %u GB of its part: the rest stays there", fetch->name,
                       (unsigned)(FETCH_BYTES >> 30));
    if (free_bytes < FETCH_KEEP_FREE)
        return err_set(&fetch->err, -ENOSPC, "less than %d MB are free here: the rest stays on %s",
                       FETCH_KEEP_FREE >> 20, fetch->name);
    return 0;
}

static int check_limits(struct fetch *fetch)
{
    struct statvfs disk;
    bool known = statvfs(fetch->dir, &disk) == 0;
    return fetch_check_limits(fetch, known ? (uint64_t)disk.f_bavail * disk.f_frsize : UINT64_MAX);
}

/* Brings one file up to what it was when it was listed. Returns the bytes read. */
static int64_t bring(struct fetch *fetch, struct fetched *file, uint64_t size, int64_t changed, uint64_t most)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf bytes = BUF_INIT;
    bool grows = fetch_only_grows(file->name) && size > file->size;
    uint64_t from = grows ? file->size : 0, wanted = size - from;
    most = most < WHOLE_MOST ? most : WHOLE_MOST;
    wanted = grows && wanted > most ? most : wanted; /* else the rest comes in the next round */
    int64_t code = wanted > WHOLE_MOST ? -EFBIG : check_limits(fetch);
    if (code == 0)
        code = path_of(fetch, file->name, path, sizeof path);
    for (uint64_t got = 0; code >= 0 && got < wanted; got += (uint64_t)code) {
        code = check_limits(fetch);
        if (code == 0)
            code = read_piece(fetch, file->name, from + got, wanted - got < CHUNK ? wanted - got : CHUNK, &bytes);
        if (code == 0)
            break; /* it has become shorter */
    }
    if (code >= 0)
        code = grows ? append(path, from, &bytes) : file_replace(path, bytes.data ? bytes.data : "", bytes.len, 0600);
    if (code < 0) {
        if (!fetch->err.code)
            err_errno(&fetch->err, (int)code, "cannot bring %s of %s", file->name, fetch->name);
        return code;
    }
    file->size = from + bytes.len;
    fetch->brought += bytes.len;
    if (file->size >= size) /* else the rest comes in the next round */
        file->changed = changed;
    return (int64_t)bytes.len;
}

static struct fetched *file_of(struct fetch *fetch, const char *name)
{
    struct fetched *file;
    HASH_FIND_STR(fetch->files, name, file);
    if (file)
        return file;
    file = HASH_COUNT(fetch->files) < FETCH_FILES ? calloc(1, sizeof *file + strlen(name) + 1) : NULL;
    if (!file)
        return NULL;
    memcpy(file->name, name, strlen(name) + 1);
    HASH_ADD_STR(fetch->files, name, file);
    return file;
}

/* ---- the node's clock ---- */

/* Asks once, and notes when. What the network or the monitor needs longer than usual only makes it less precise. false:
 * the node does not answer. */
static bool ask_clock(struct fetch *fetch)
{
    struct buf text = BUF_INIT;
    buf_printf(&text, ":scry_node_get_clock([%s])", fetch->token);
    uint64_t asked_ns = clock_wall_ns();
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_take(client_ask(&text));
    uint64_t came_ns = clock_wall_ns();
    const struct omis_value *values =
        !omis_reader_first_error(reader) && omis_reader_find(reader, 1) ? omis_reader_values(reader) : NULL;
    uint64_t there_ns = omis_unsigned(omis_item(values, 1));
    if (there_ns)
        clock_offset_add(&fetch->clock, asked_ns, there_ns, there_ns, came_ns);
    return there_ns != 0;
}

bool fetch_is_better_clock(const struct part_clock *now, const struct part_clock *written)
{
    int64_t apart;
    bool set = __builtin_sub_overflow(now->offset_ns, written->offset_ns, &apart) ||
               (uint64_t)(apart < 0 ? -(uint64_t)apart : (uint64_t)apart) > now->bound_ns + written->bound_ns;
    return !written->at_ns || now->bound_ns < written->bound_ns || set ||
           now->bound_ns + PARTS_CLOCK_STALE_NS < job_part_clock_bound(written, now->at_ns);
}

/* A directory that its own node writes. */
static bool is_own(const char *dir)
{
    char path[PATH_MAX];
    return (size_t)snprintf(path, sizeof path, "%s/remote.json", dir) < sizeof path && access(path, F_OK) < 0;
}

struct clocked {
    struct fetch *fetch;
    struct part_clock now;
    bool put;
};

/* In a part that the node has put here itself. */
static int put_clock(void *ctx, const char *dir)
{
    struct clocked *clocked = ctx;
    struct job_info info;
    if (!is_own(dir) || strcmp(dir, clocked->fetch->job) == 0)
        return 0;
    if (job_info_read(dir, &info, NULL) == 0 && info.host && strcmp(info.host, clocked->fetch->host) == 0)
        clocked->put |= job_part_set_clock(dir, &clocked->now) == 0;
    job_info_done(&info);
    return 0;
}

/* Says in clock.json how far the node's clock is from this one, when it is known better, or one of them was set. */
static void compare_clocks(struct fetch *fetch)
{
    for (int i = 0; i < CLOCK_ASKS; i++)
        if (!ask_clock(fetch) && fetch->shared)
            *fetch->token = '\0'; /* nothing else finds out that the node is gone */
    struct clocked clocked = {.fetch = fetch, .now = {.at_ns = clock_wall_ns()}};
    if (!clock_offset_now(&fetch->clock, clocked.now.at_ns, &clocked.now.offset_ns, &clocked.now.bound_ns) ||
        !fetch_is_better_clock(&clocked.now, &fetch->clock_written))
        return;
    if (fetch->shared)
        job_dirs_each(fetch->job, put_clock, &clocked);
    else
        clocked.put = job_part_set_clock(fetch->dir, &clocked.now) == 0;
    if (clocked.put)
        fetch->clock_written = clocked.now;
}

/* ---- a round ---- */

static int is_meant(void *ctx, const char *dir)
{
    static const char *const same[] = {"host", "started_ns", "supervisor"};
    const json_t *there = ctx;
    struct job_info info;
    if (!is_own(dir))
        return 0;
    bool meant = job_info_read(dir, &info, NULL) == 0;
    for (size_t i = 0; i < sizeof same / sizeof *same && meant; i++)
        meant = json_equal(json_object_get(info.json, same[i]), json_object_get(there, same[i]));
    job_info_done(&info);
    return meant;
}

/* On a shared file system the node finds the job's own directory, or its part in it: then that is where it belongs. */
static bool is_ours(struct fetch *fetch)
{
    _cleanup_(buf_done) struct buf bytes = BUF_INIT;
    if (read_piece(fetch, "job.json", 0, CHUNK, &bytes) <= 0)
        return false;
    json_t *there = json_loadb(bytes.data, bytes.len, 0, NULL);
    bool ours = json_is_object(there) && job_dirs_each(fetch->job, is_meant, there) > 0;
    json_decref(there);
    return ours;
}

static int make_dir(struct fetch *fetch)
{
    const char *at = strrchr(fetch->name, '@'), *name = fetch->came ? fetch->host : at ? at + 1 : fetch->name;
    return *fetch->dir ? 0 : job_part_make(fetch->job, name, fetch->dir, sizeof fetch->dir, &fetch->err);
}

struct listed {
    const char *name;
    uint64_t size;
    int64_t changed;
};

static int64_t bring_all(struct fetch *fetch, const struct omis_value *list, uint64_t most)
{
    static const struct decode_field fields[] = {
        DECODE(struct listed, name), DECODE(struct listed, size), DECODE(struct listed, changed), {0}};
    struct decoder decoder;
    uint64_t all = 0;
    decoder_init(&decoder, JOB_PART_FILE, 0, fields);
    fetch->complete = true;
    for (size_t i = 0; i < decoder_rows(&decoder, list); i++) {
        struct listed row = {0};
        decode(&decoder, list, i, &row);
        bool good = fetch_is_good_name(row.name);
        struct fetched *file = good ? file_of(fetch, row.name) : NULL;
        fetch->complete &= !good || file;
        if (!file || (file->changed == row.changed && file->size == row.size))
            continue;
        int64_t got = all < most ? bring(fetch, file, row.size, row.changed, most - all) : 0;
        if (got < 0 && got != -EFBIG && got != -EBADMSG && !client_connected())
            return got;
        all += got > 0 ? (uint64_t)got : 0;
        fetch->complete &= file->size >= row.size;
    }
    return (int64_t)all;
}

int64_t fetch_round(struct fetch *fetch, uint64_t most_bytes)
{
    struct buf text = BUF_INIT;
    fetch->complete = fetch->answered = false;
    fetch->err = (struct err){0};
    if (!*fetch->token && attach(fetch) < 0)
        return fetch->err.code;
    buf_printf(&text, ":job_part_files([%s],", fetch->token);
    PUT(&text, fetch->id, fetch->number);
    buf_putc(&text, ')');
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_take(client_ask(&text));
    const struct omis_value *values = values_of(reader, fetch);
    if (!values) {
        if (!*fetch->dir && ask_clock(fetch)) /* it answers, but does not have the job */
            err_set(&fetch->err, -ENOENT, FETCH_NO_PART, fetch->name);
        *fetch->token = '\0';
        return fetch->err.code;
    }
    fetch->answered = true;
    snprintf(fetch->there, sizeof fetch->there, "%s", omis_text(omis_item(values, 0), NULL));
    snprintf(fetch->host, sizeof fetch->host, "%s", omis_text(omis_item(values, 2), NULL));
    fetch->parts = omis_unsigned(omis_item(values, 3));
    fetch->shared = !*fetch->dir && is_ours(fetch);
    int code = fetch->shared ? 0 : make_dir(fetch);
    if (code == 0 && !(fetch->shared && fetch->end_ns)) /* somebody waits for the end */
        compare_clocks(fetch);
    return code < 0 ? code : fetch->shared ? 0 : bring_all(fetch, omis_item(values, 1), most_bytes);
}

void fetch_compare(struct fetch *fetch)
{
    if (fetch->unclocked)
        return;
    if (fetch->shared && *fetch->token)
        compare_clocks(fetch);
    else
        fetch->unclocked = fetch_round(fetch, 0) < 0; /* clocks are not worth more logins */
}

static bool has_ended(const char *dir)
{
    struct job_info info;
    bool ended = job_info_read(dir, &info, NULL) == 0 && info.ended;
    job_info_done(&info);
    return ended;
}

bool fetch_is_whole(const struct fetch *fetch)
{
    return fetch->complete && *fetch->dir && has_ended(fetch->dir);
}

bool fetch_is_refused(const struct fetch *fetch)
{
    return fetch->err.code && !fetch->came && !fetch->shared && !*fetch->dir && fetch->number == 1;
}

void fetch_set(struct fetch *fetch)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    struct buf request = BUF_INIT;
    fetch->is_set = true;
    if ((size_t)snprintf(path, sizeof path, "%s/parts/" PARTS_OPTIONS, fetch->job) >= sizeof path ||
        file_read(path, &text, NULL) < 0)
        return;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, '=');
        if (!rest || !value || strncmp(line, "--", 2) != 0)
            continue;
        *value++ = '\0';
        buf_printf(&request, ":job_part_set([%s],", fetch->token);
        PUT(&request, fetch->job, line + 2, value);
        buf_putc(&request, ')');
    }
    if (request.len)
        omis_reader_free(omis_reader_take(client_ask(&request)));
    else
        buf_done(&request);
}

void fetch_release(struct fetch *fetch)
{
    struct buf text = BUF_INIT;
    buf_printf(&text, ":job_part_brought([%s],", fetch->token);
    PUT(&text, fetch->id, fetch->number);
    buf_putc(&text, ')');
    omis_reader_free(omis_reader_take(client_ask(&text)));
}

void fetch_say(const struct fetch *fetch, bool over)
{
    char path[PATH_MAX], via[300];
    bool whole = fetch_is_whole(fetch);
    if (fetch->shared || !*fetch->dir ||
        (size_t)snprintf(path, sizeof path, "%s/remote.json", fetch->dir) >= sizeof path)
        return;
    snprintf(via, sizeof via, "node %s", fetch->came ? fetch->host : fetch->name);
    json_t *json = json_pack("{s:o, s:s, s:o, s:f, s:i, s:b, s:b, s:b, s:s}", "via", text_json(via), "owner", "", "dir",
                             text_json(fetch->there), "heard", (double)clock_wall_ns() / NS_PER_SECOND, "lease_seconds",
                             PARTS_LEASE_SECONDS, "connected", fetch->answered, "complete", whole, "watched", true,
                             "state", whole ? "ended" : "running");
    if (!whole && (over || fetch->err.code))
        json_object_set_new(json, "note",
                            text_json(fetch->err.code ? fetch->err.text : "not all of it was brought here"));
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    json_decref(json);
    if (text)
        file_replace(path, text, strlen(text), 0600);
}

void fetch_done(struct fetch *fetch)
{
    HASH_FREE_ALL(fetch->files);
}
