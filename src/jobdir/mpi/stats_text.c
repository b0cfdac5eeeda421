/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of MPI as JSON: one list of fields, of their names and kinds, for writing and reading. */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/text/text.h"

enum mpi_field_kind {
    FIELD_U32,
    FIELD_INDEX, /* uint32_t; UINT32_MAX is null */
    FIELD_I32,
    FIELD_U64,     /* above INT64_MAX as that: readers of JSON stop there */
    FIELD_STATE,   /* enum mpi_state as a word */
    FIELD_KIND,    /* enum mpi_comm_kind as a word */
    FIELD_ATTENDS, /* enum mpi_attends, likewise */
    FIELD_WAIT,    /* enum thread_wait_kind, likewise */
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_CALL,         /* its name; CALL_NONE is null */
    FIELD_RANKS,        /* of a struct mpi_stats_comm: `size` numbers, or null */
    FIELD_REMOTE_RANKS, /* `remote_size` */
    FIELD_WAITS,        /* uint64_t[MPIA_WAITS]; only those that are not 0 */
    FIELD_REAL,         /* double, to the third digit */
    FIELD_CHARS,        /* char[MPI_FIELD_CHARS] */
};

struct mpi_field {
    const char *name; /* NULL: the end of the list */
    enum mpi_field_kind kind;
    size_t offset;
};

enum { MPI_FIELD_CHARS = sizeof((struct thread_seen *)0)->name };

/* Tables: rows of one kind. */
struct mpi_table {
    const char *name;
    const struct mpi_field *fields;
    size_t size;              /* of a row */
    size_t rows_at, count_at; /* in struct mpi_stats */
};
enum { MPI_TABLES = 7, MPI_TABLE_SEEN = 6 /* only of one that was inspected */ };

#define FIELD(type, member, name, kind) \
    { \
        name, kind, offsetof(struct type, member) \
    }
#define END \
    { \
        NULL, FIELD_U32, 0 \
    }

/* The words of those four, by number, ended by NULL. */
static const char *const *mpi_field_words(enum mpi_field_kind kind)
{
    static const char *const states[] = {"loaded", "running", "ended", "off", NULL};
    static const char *const kinds[] = {"", "intra", "inter", "window", "file", NULL};
    static const char *const attends[] = {"unknown", "attends", "starved", "stopped", "unsaid", NULL};
    static const char *const waits[] = {"none", "owner", "end", "others", "ended", NULL};
    return kind == FIELD_STATE ? states : kind == FIELD_KIND ? kinds : kind == FIELD_ATTENDS ? attends : waits;
}

static const struct mpi_field mpi_stats_fields[] = {
#define F(member, kind) FIELD(mpi_stats, member, #member, kind)
    F(node, FIELD_TEXT),
    F(pid, FIELD_I32),
    F(exe, FIELD_TEXT),
    F(namespace, FIELD_TEXT),
    F(rank, FIELD_I32),
    F(world_size, FIELD_I32),
    F(library, FIELD_TEXT),
    F(library_version, FIELD_TEXT),
    F(processor, FIELD_TEXT),
    F(thread_level, FIELD_I32),
    F(state, FIELD_STATE),
    F(running, FIELD_BOOL),
    F(aborted, FIELD_BOOL),
    F(abort_code, FIELD_I32),
    F(status_known, FIELD_BOOL),
    F(status, FIELD_I32),
    F(spawned, FIELD_BOOL),
    F(started_wall_ns, FIELD_U64),
    F(taken_wall_ns, FIELD_U64),
    F(init_ns, FIELD_U64),
    F(finalize_ns, FIELD_U64),
    F(omitted, FIELD_U64),
    F(requests_omitted, FIELD_U64),
    F(sites_omitted, FIELD_U64),
    F(peers_omitted, FIELD_U64),
    F(clocks_off, FIELD_BOOL),
    F(peers_off, FIELD_BOOL),
    F(requests_off, FIELD_BOOL),
    F(polls_untimed, FIELD_U64),
    F(receives_freed, FIELD_U64),
    F(unrecorded, FIELD_BOOL),
    F(looked, FIELD_BOOL),
    F(resets, FIELD_U64),
    F(reset_ns, FIELD_U64),
    F(paused_ns, FIELD_U64),
    F(fault, FIELD_TEXT),
#undef F
    END,
};

static const struct mpi_field mpi_clock_fields[] = {
#define F(member) FIELD(mpi_stats_clock, member, #member, FIELD_U64)
    F(total_ns),
    F(compute_ns),
    F(communicate_ns),
    F(count),
    F(compute_open_ns),
    F(communicate_open_ns),
    F(compute_min_ns),
    F(compute_max_ns),
    F(communicate_min_ns),
    F(communicate_max_ns),
#undef F
    END,
};

static const struct mpi_field mpi_now_fields[] = {
#define F(member, kind) FIELD(mpi_stats_now, member, #member, kind)
    F(call, FIELD_CALL),
    F(age_ns, FIELD_U64),
    F(peer, FIELD_I32),
    F(tag, FIELD_I32),
    F(source_peer, FIELD_I32),
    F(source_tag, FIELD_I32),
    F(comm, FIELD_INDEX),
    F(ordinal, FIELD_U32),
    F(flags, FIELD_U32),
    F(waiting, FIELD_U32),
    F(bytes, FIELD_U64),
    F(offset, FIELD_U64),
    F(waits, FIELD_WAITS),
#undef F
    FIELD(mpi_stats_now, site.module, "module", FIELD_TEXT),
    FIELD(mpi_stats_now, site.build_id, "build_id", FIELD_TEXT),
    FIELD(mpi_stats_now, site.offset, "module_offset", FIELD_U64),
    END,
};

static const struct mpi_field mpi_thread_fields[] = {
#define F(member, kind) FIELD(mpi_stats_thread, member, #member, kind)
    F(tid, FIELD_I32),
    F(is_main, FIELD_BOOL),
    F(ended, FIELD_BOOL),
    F(name, FIELD_TEXT),
    F(held, FIELD_TEXT),
    F(errors, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field mpi_look_fields[] = {
#define F(member, kind) FIELD(mpi_stats_thread, member, #member, kind)
    F(attends, FIELD_ATTENDS),
    F(polls, FIELD_BOOL),
    F(polls_ns, FIELD_U64),
    F(polls_per_second, FIELD_REAL),
#undef F
    END,
};

static const struct mpi_field row_fields[] = {
#define F(member, kind) FIELD(mpi_stats_row, member, #member, kind)
    F(call, FIELD_CALL),
    F(count, FIELD_U64),
    F(total_ns, FIELD_U64),
    F(min_ns, FIELD_U64),
    F(max_ns, FIELD_U64),
    F(args_bytes, FIELD_U64),
    F(sent_bytes, FIELD_U64),
    F(got_bytes, FIELD_U64),
    F(others_count, FIELD_U64),
    F(others_ns, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field site_fields[] = {
#define F(member, kind) FIELD(mpi_stats_site, member, #member, kind)
    F(call, FIELD_CALL),
    F(module, FIELD_TEXT),
    F(build_id, FIELD_TEXT),
    F(offset, FIELD_U64),
    F(function, FIELD_TEXT),
    F(file, FIELD_TEXT),
    F(line, FIELD_U32),
    F(count, FIELD_U64),
    F(total_ns, FIELD_U64),
    F(min_ns, FIELD_U64),
    F(max_ns, FIELD_U64),
    F(args_bytes, FIELD_U64),
    F(others_count, FIELD_U64),
    F(others_ns, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field peer_fields[] = {
#define F(member, kind) FIELD(mpi_stats_peer, member, #member, kind)
    F(comm, FIELD_INDEX),
    F(peer, FIELD_I32),
    F(call, FIELD_CALL),
    F(sent_count, FIELD_U64),
    F(sent_bytes, FIELD_U64),
    F(got_count, FIELD_U64),
    F(got_bytes, FIELD_U64),
    F(args_bytes, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field comm_fields[] = {
#define F(member, kind) FIELD(mpi_stats_comm, member, #member, kind)
    F(kind, FIELD_KIND),
    F(number, FIELD_U32),
    F(parent, FIELD_INDEX),
    F(ordinal, FIELD_U32),
    F(call, FIELD_CALL),
    F(lowest, FIELD_I32),
    F(size, FIELD_U32),
    F(rank, FIELD_U32),
    F(remote_size, FIELD_U32),
    F(ended, FIELD_BOOL),
    F(collectives, FIELD_U32),
    F(ranks, FIELD_RANKS),
    F(remote_ranks, FIELD_REMOTE_RANKS),
    F(name, FIELD_TEXT),
    F(identity, FIELD_U64),
    F(held, FIELD_U32),
    F(meeting, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field request_fields[] = {
#define F(member, kind) FIELD(mpi_stats_request, member, #member, kind)
    F(call, FIELD_CALL),
    F(comm, FIELD_INDEX),
    F(flags, FIELD_U32),
    F(peer, FIELD_I32),
    F(tag, FIELD_I32),
    F(thread, FIELD_INDEX),
    F(ordinal, FIELD_U32),
    F(bytes, FIELD_U64),
    F(age_ns, FIELD_U64),
    F(handle, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field seen_fields[] = {
#define F(member, name, kind) FIELD(thread_seen, member, name, kind)
    F(tid, "tid", FIELD_I32),
    F(name, "name", FIELD_CHARS),
    F(wait.kind, "wait", FIELD_WAIT),
    F(wait.tid, "waits_for", FIELD_I32),
    F(wait.word, "word", FIELD_U64),
    F(wait.limited, "limited", FIELD_BOOL),
    F(wait.unseen, "unseen", FIELD_BOOL),
#undef F
    END,
};

#define TABLE(name, fields, type, rows, count) \
    { \
        name, fields, sizeof(struct type), offsetof(struct mpi_stats, rows), offsetof(struct mpi_stats, count) \
    }

static const struct mpi_table mpi_tables[MPI_TABLES] = {
    TABLE("communicators", comm_fields, mpi_stats_comm, comms, comm_count),
    TABLE("calls", row_fields, mpi_stats_row, rows, row_count),
    TABLE("completions", row_fields, mpi_stats_row, spans, span_count),
    TABLE("sites", site_fields, mpi_stats_site, sites, site_count),
    TABLE("peers", peer_fields, mpi_stats_peer, peers, peer_count),
    TABLE("requests", request_fields, mpi_stats_request, requests, request_count),
    [MPI_TABLE_SEEN] = TABLE("seen", seen_fields, thread_seen, seen, seen_count),
};

/*
 * Statistics of MPI from the bytes of a file (jobdir/mpi/stats.h). It may be of another version of scry, cut, or not
 * ours at all: what does not fit is said.
 */

enum {
    COMM_SIZE_MOST = 1 << 22, /* of a communicator whose ranks are not listed */
    FIELDS_MOST = 40,         /* of an object or a table */
};

/* ---- fields ---- */

static int field_wrong(struct err *err, const char *where, const char *name, const char *expected)
{
    return err_set(err, -EBADMSG, "%s%s%s: expected %s", where, *where ? "." : "", name, expected);
}

static int parse_ranks(const json_t *value, struct arena *arena, const int32_t **ret_ranks, size_t *ret_count)
{
    *ret_ranks = NULL;
    *ret_count = 0;
    if (json_is_null(value))
        return 0;
    if (!json_is_array(value))
        return -EBADMSG;
    size_t count = json_array_size(value);
    int32_t *ranks = arena_alloc(arena, (count + 1) * sizeof *ranks);
    if (!ranks)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        json_int_t rank = json_integer_value(json_array_get(value, i));
        if (!json_is_integer(json_array_get(value, i)) || rank < MPIA_RANK_FOREIGN || rank > INT32_MAX)
            return -EBADMSG;
        ranks[i] = (int32_t)rank;
    }
    *ret_ranks = ranks;
    *ret_count = count;
    return 0;
}

/* As many as the communicator has. The size stands before the ranks in the list of fields. */
static int parse_group(const json_t *value, struct arena *arena, uint32_t *inout_size, const int32_t **ret_ranks)
{
    size_t count;
    int code = parse_ranks(value, arena, ret_ranks, &count);
    if (code == 0 && *ret_ranks && count != *inout_size)
        return -EBADMSG;
    if (code == 0 && !*ret_ranks && *inout_size > COMM_SIZE_MOST)
        return -EBADMSG;
    return code;
}

static int parse_waits(const json_t *value, uint64_t *waits)
{
    if (!json_is_array(value) || json_array_size(value) > MPIA_WAITS)
        return -EBADMSG;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *handle = json_array_get(value, i);
        if (!json_is_integer(handle) || json_integer_value(handle) < 0)
            return -EBADMSG;
        waits[i] = (uint64_t)json_integer_value(handle);
    }
    return 0;
}

static int parse_integer(const json_t *value, int64_t least, int64_t most, int64_t *ret_number)
{
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
        return -EBADMSG;
    *ret_number = json_integer_value(value);
    return 0;
}

static int parse_text(const json_t *value, struct arena *arena, const char **ret_text)
{
    if (!json_is_string(value))
        return -EBADMSG;
    *ret_text = json_string_length(value) ? arena_dup(arena, json_string_value(value), json_string_length(value)) : "";
    return *ret_text ? 0 : -ENOMEM;
}

static int parse_word(const json_t *value, enum mpi_field_kind kind, uint32_t *ret_number)
{
    const char *text = json_string_value(value), *const *words = mpi_field_words(kind);
    for (uint32_t i = 0; text && words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret_number = i;
            return 0;
        }
    return -EBADMSG;
}

static const char *expected_of(enum mpi_field_kind kind)
{
    switch (kind) {
    case FIELD_BOOL:
        return "true or false";
    case FIELD_STATE:
        return "loaded, running, ended or off";
    case FIELD_KIND:
        return "intra, inter, window or file";
    case FIELD_ATTENDS:
    case FIELD_WAIT:
        return "a word that is known";
    case FIELD_TEXT:
    case FIELD_CHARS:
        return "a string";
    case FIELD_CALL:
        return "the name of a call, or null";
    case FIELD_RANKS:
    case FIELD_REMOTE_RANKS:
        return "as many ranks as it has, or null";
    case FIELD_WAITS:
        return "at most 8 numbers";
    default:
        return "a number that fits";
    }
}

static int parse_value(const json_t *value, enum mpi_field_kind kind, void *at, struct mpi_stats_comm *comm,
                       struct arena *arena)
{
    int64_t number = 0;
    int code = 0;
    switch (kind) {
    case FIELD_INDEX:
        if (json_is_null(value)) {
            *(uint32_t *)at = UINT32_MAX;
            return 0;
        }
        /* fall through */
    case FIELD_U32:
        code = parse_integer(value, 0, UINT32_MAX, &number);
        *(uint32_t *)at = (uint32_t)number;
        return code;
    case FIELD_STATE:
    case FIELD_KIND:
    case FIELD_ATTENDS:
    case FIELD_WAIT:
        return parse_word(value, kind, at);
    case FIELD_I32:
        code = parse_integer(value, INT32_MIN, INT32_MAX, &number);
        *(int32_t *)at = (int32_t)number;
        return code;
    case FIELD_U64:
        code = parse_integer(value, 0, INT64_MAX, &number);
        *(uint64_t *)at = (uint64_t)number;
        return code;
    case FIELD_BOOL:
        *(bool *)at = json_is_true(value);
        return json_is_boolean(value) ? 0 : -EBADMSG;
    case FIELD_TEXT:
        return parse_text(value, arena, at);
    case FIELD_CALL:
        *(uint32_t *)at = json_is_string(value) ? call_find(json_string_value(value)) : CALL_NONE;
        return json_is_null(value) || *(uint32_t *)at != CALL_NONE ? 0 : -EBADMSG;
    case FIELD_RANKS:
        return parse_group(value, arena, &comm->size, &comm->ranks);
    case FIELD_REMOTE_RANKS:
        return parse_group(value, arena, &comm->remote_size, &comm->remote_ranks);
    case FIELD_WAITS:
        return parse_waits(value, at);
    case FIELD_REAL:
        *(double *)at = json_number_value(value);
        return json_is_number(value) ? 0 : -EBADMSG;
    case FIELD_CHARS:
        snprintf(at, MPI_FIELD_CHARS, "%s", json_is_string(value) ? json_string_value(value) : "");
        return json_is_string(value) ? 0 : -EBADMSG;
    }
    return -EBADMSG;
}

/* What is not there stays empty. */
static void set_default(const struct mpi_field *field, void *record)
{
    void *at = (char *)record + field->offset;
    if (field->kind == FIELD_TEXT)
        *(const char **)at = "";
    else if (field->kind == FIELD_INDEX)
        *(uint32_t *)at = UINT32_MAX;
}

static int parse_field(const json_t *value, const struct mpi_field *field, void *record, struct arena *arena,
                       const char *where, struct err *err)
{
    int code = parse_value(value, field->kind, (char *)record + field->offset, record, arena);
    if (code == -ENOMEM)
        return err_set(err, -ENOMEM, "out of memory");
    return code < 0 ? field_wrong(err, where, field->name, expected_of(field->kind)) : 0;
}

static int parse_object(const json_t *object, const struct mpi_field *fields, void *record, struct arena *arena,
                        const char *where, struct err *err)
{
    if (!json_is_object(object))
        return field_wrong(err, where, "", "an object");
    for (size_t i = 0; fields[i].name; i++) {
        const json_t *value = json_object_get(object, fields[i].name);
        set_default(&fields[i], record);
        int code = value ? parse_field(value, &fields[i], record, arena, where, err) : 0;
        if (code < 0)
            return code;
    }
    return 0;
}

/* ---- tables ---- */

/* Which column each field stands in: SIZE_MAX, none. */
static int find_columns(const json_t *columns, const struct mpi_table *table, size_t *ret_columns, struct err *err)
{
    if (!json_is_array(columns))
        return field_wrong(err, table->name, "columns", "an array of names");
    for (size_t i = 0; table->fields[i].name; i++) {
        ret_columns[i] = SIZE_MAX;
        for (size_t k = 0; k < json_array_size(columns); k++) {
            const char *name = json_string_value(json_array_get(columns, k));
            if (name && strcmp(name, table->fields[i].name) == 0)
                ret_columns[i] = k;
        }
    }
    return 0;
}

static int parse_row(const json_t *row, const struct mpi_table *table, const size_t *columns, void *record,
                     struct arena *arena, struct err *err)
{
    if (!json_is_array(row))
        return field_wrong(err, table->name, "rows", "arrays");
    for (size_t i = 0; table->fields[i].name; i++) {
        const json_t *value = columns[i] != SIZE_MAX ? json_array_get(row, columns[i]) : NULL;
        set_default(&table->fields[i], record);
        if (!value && columns[i] != SIZE_MAX)
            return field_wrong(err, table->name, "rows", "a value in each column");
        int code = value ? parse_field(value, &table->fields[i], record, arena, table->name, err) : 0;
        if (code < 0)
            return code;
    }
    return 0;
}

static int parse_table(const json_t *json, const struct mpi_table *table, struct mpi_stats *stats, struct arena *arena,
                       struct err *err)
{
    size_t columns[FIELDS_MOST];
    const json_t *object = json_object_get(json, table->name);
    const json_t *rows = json_object_get(object, "rows");
    if (!object)
        return 0;
    int code = find_columns(json_object_get(object, "columns"), table, columns, err);
    if (code == 0 && !json_is_array(rows))
        code = field_wrong(err, table->name, "rows", "an array");
    if (code < 0)
        return code;
    size_t count = json_array_size(rows);
    char *records = arena_zalloc(arena, count + 1, table->size);
    if (!records)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < count && code == 0; i++)
        code = parse_row(json_array_get(rows, i), table, columns, records + i * table->size, arena, err);
    *(void **)(void *)((char *)stats + table->rows_at) = records;
    *(size_t *)(void *)((char *)stats + table->count_at) = code == 0 ? count : 0;
    return code;
}

static int parse_thread(const json_t *object, struct mpi_stats_thread *thread, struct arena *arena, struct err *err)
{
    int code = parse_object(object, mpi_thread_fields, thread, arena, "threads", err);
    if (code == 0)
        code = parse_object(json_object_get(object, "outermost"), mpi_clock_fields, &thread->outermost, arena,
                            "threads.outermost", err);
    if (code == 0)
        code = parse_object(json_object_get(object, "blocking"), mpi_clock_fields, &thread->blocking, arena,
                            "threads.blocking", err);
    if (code == 0)
        code = parse_object(json_object_get(object, "now"), mpi_now_fields, &thread->now, arena, "threads.now", err);
    const json_t *last = json_object_get(object, "last"), *look = json_object_get(object, "look");
    if (code == 0 && look)
        code = parse_object(look, mpi_look_fields, thread, arena, "threads.look", err);
    if (code == 0 && last)
        code = parse_object(last, mpi_now_fields, &thread->last, arena, "threads.last", err);
    thread->now.site.call = thread->now.call;
    thread->now.site.function = thread->now.site.file = "";
    thread->last.site.call = thread->last.call;
    thread->last.site.function = thread->last.site.file = "";
    return code;
}

static int parse_threads(const json_t *json, struct mpi_stats *stats, struct arena *arena, struct err *err)
{
    const json_t *threads = json_object_get(json, "threads");
    if (!threads)
        return 0;
    if (!json_is_array(threads))
        return field_wrong(err, "", "threads", "an array");
    size_t count = json_array_size(threads);
    stats->threads = arena_zalloc(arena, count + 1, sizeof *stats->threads);
    if (!stats->threads)
        return err_set(err, -ENOMEM, "out of memory");
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = parse_thread(json_array_get(threads, i), &stats->threads[i], arena, err);
    stats->thread_count = code == 0 ? count : 0;
    return code;
}

/* ---- one process ---- */

/* Indices that point nowhere. */
static void check_indices(struct mpi_stats *stats)
{
    for (size_t i = 0; i < stats->peer_count; i++)
        if (stats->peers[i].comm >= stats->comm_count)
            stats->peers[i].comm = UINT32_MAX;
    for (size_t i = 0; i < stats->thread_count; i++) {
        struct mpi_stats_thread *thread = &stats->threads[i];
        if (thread->now.comm >= stats->comm_count)
            thread->now.comm = UINT32_MAX;
        if (thread->last.comm >= stats->comm_count)
            thread->last.comm = UINT32_MAX;
    }
    for (size_t i = 0; i < stats->request_count; i++) {
        if (stats->requests[i].comm >= stats->comm_count)
            stats->requests[i].comm = UINT32_MAX;
        if (stats->requests[i].thread >= stats->thread_count)
            stats->requests[i].thread = UINT32_MAX;
    }
}

static int check_version(const json_t *json, struct err *err)
{
    const json_t *version = json_object_get(json, "version");
    if (!json_is_integer(version))
        return err_set(err, -EBADMSG, "these are no statistics of MPI");
    if (json_integer_value(version) != MPI_STATS_VERSION)
        return err_set(err, -EBADMSG, "statistics of version %lld: this is scry with version %d",
                       (long long)json_integer_value(version), MPI_STATS_VERSION);
    return 0;
}

int mpi_stats_parse(struct mpi_stats *ret_stats, const char *bytes, size_t size, struct arena *arena, struct err *err)
{
    json_error_t where;
    struct mpi_stats stats = {.name = ""};
    json_t *json = json_loadb(bytes, size, 0, &where);
    if (!json)
        return err_set(err, -EBADMSG, "line %d: %s", where.line, where.text);
    int code = check_version(json, err);
    if (code == 0)
        code = parse_object(json, mpi_stats_fields, &stats, arena, "", err);
    if (code == 0)
        code = parse_threads(json, &stats, arena, err);
    for (size_t i = 0; i < MPI_TABLES && code == 0; i++)
        code = parse_table(json, &mpi_tables[i], &stats, arena, err);
    json_decref(json);
    if (code < 0)
        return code;
    check_indices(&stats);
    *ret_stats = stats;
    return 0;
}

/* ---- distributions ---- */

static bool parse_number(const char **inout_at, uint64_t *ret_number)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)**inout_at))
        return false;
    *ret_number = strtoull(*inout_at, &end, 10);
    *inout_at = end;
    return errno == 0;
}

static bool parse_bucket(const char *line, struct mpi_stats_bucket *bucket)
{
    if (!parse_number(&line, &bucket->from) || *line++ != ' ' || !parse_number(&line, &bucket->to) || *line++ != ' ' ||
        !parse_number(&line, &bucket->count))
        return false;
    return !*line && bucket->from < bucket->to && bucket->count;
}

static bool parse_note(const char *line, struct mpi_stats_distribution *distribution, struct arena *arena)
{
    const char *total = line + strlen("# total ");
    if (strncmp(line, "# name ", strlen("# name ")) == 0)
        distribution->name = arena_dup(arena, line + strlen("# name "), strlen(line + strlen("# name ")));
    else if (strncmp(line, "# unit ", strlen("# unit ")) == 0)
        distribution->is_time = strcmp(line + strlen("# unit "), "ns") == 0;
    else if (strncmp(line, "# total ", strlen("# total ")) == 0)
        return parse_number(&total, &distribution->total);
    return true;
}

int mpi_stats_parse_distribution(struct mpi_stats_distribution *ret_distribution, const char *text, size_t size,
                                 struct arena *arena, struct err *err)
{
    struct mpi_stats_distribution distribution = {.name = ""};
    char *copy = arena_dup(arena, text, size);
    size_t lines = 1, number = 0;
    for (size_t i = 0; copy && i < size; i++)
        lines += copy[i] == '\n';
    distribution.buckets = copy ? arena_zalloc(arena, lines, sizeof *distribution.buckets) : NULL;
    if (!distribution.buckets)
        return err_set(err, -ENOMEM, "out of memory");
    if (size && memchr(copy, 0, size))
        return err_set(err, -EBADMSG, "this is no distribution");
    if (strncmp(copy, "# scry distribution 1\n", strlen("# scry distribution 1\n")) != 0)
        return err_set(err, -EBADMSG, "this is no distribution of version %d", MPI_STATS_VERSION);
    for (char *line = copy, *end; *line; line = end + 1) {
        struct mpi_stats_bucket *bucket = &distribution.buckets[distribution.count];
        number++;
        if (!(end = strchr(line, '\n')))
            return err_set(err, -EBADMSG, "line %zu is cut", number);
        *end = 0;
        if (*line == '#') {
            if (!parse_note(line, &distribution, arena))
                return err_set(err, -EBADMSG, "line %zu: expected a number", number);
            continue;
        }
        if (!parse_bucket(line, bucket) || (distribution.count && bucket->from < bucket[-1].to))
            return err_set(err, -EBADMSG, "line %zu: expected `from to count`, in order", number);
        distribution.count++;
    }
    if (!distribution.name || arena->failed)
        return err_set(err, -ENOMEM, "out of memory");
    *ret_distribution = distribution;
    return 0;
}

/*
 * The files of statistics of MPI (jobdir/mpi/stats.h). For the monitor's loop: no JSON library, and no waiting for the
 * disk. A file is complete or not there; after a power failure the last ones may be missing.
 */

/* ---- JSON ---- */

static void put_uint(struct buf *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    if (value > INT64_MAX)
        value = INT64_MAX;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    buf_append(out, digits + at, sizeof digits - at);
}

static void put_int(struct buf *out, int64_t value)
{
    if (value < 0)
        buf_putc(out, '-');
    put_uint(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

static void put_text(struct buf *out, const char *text)
{
    _cleanup_(buf_done) struct buf clean = BUF_INIT;
    text_clean(&clean, text ? text : "");
    out->failed |= clean.failed;
    buf_putc(out, '"');
    for (size_t i = 0; i < clean.len; i++) {
        unsigned char c = (unsigned char)clean.data[i];
        if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else
            buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

static void put_ranks(struct buf *out, const int32_t *ranks, uint32_t count)
{
    if (!ranks) {
        buf_puts(out, "null");
        return;
    }
    buf_putc(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            buf_putc(out, ',');
        put_int(out, ranks[i]);
    }
    buf_putc(out, ']');
}

static void put_waits(struct buf *out, const uint64_t *waits)
{
    size_t count = 0;
    buf_putc(out, '[');
    for (size_t i = 0; i < MPIA_WAITS; i++) {
        if (!waits[i])
            continue;
        if (count++)
            buf_putc(out, ',');
        put_uint(out, waits[i]);
    }
    buf_putc(out, ']');
}

static void put_field(struct buf *out, const struct mpi_field *field, const void *record)
{
    const char *at = (const char *)record + field->offset;
    const struct mpi_stats_comm *comm = record;
    uint32_t number = 0, word = 0;
    switch (field->kind) {
    case FIELD_U32:
        put_uint(out, *(const uint32_t *)(const void *)at);
        break;
    case FIELD_STATE:
    case FIELD_KIND:
    case FIELD_ATTENDS:
    case FIELD_WAIT:
        number = *(const uint32_t *)(const void *)at;
        while (word < number && mpi_field_words(field->kind)[word])
            word++;
        buf_printf(out, "\"%s\"", mpi_field_words(field->kind)[mpi_field_words(field->kind)[word] ? word : 0]);
        break;
    case FIELD_INDEX:
        number = *(const uint32_t *)(const void *)at;
        if (number == UINT32_MAX)
            buf_puts(out, "null");
        else
            put_uint(out, number);
        break;
    case FIELD_I32:
        put_int(out, *(const int32_t *)(const void *)at);
        break;
    case FIELD_U64:
        put_uint(out, *(const uint64_t *)(const void *)at);
        break;
    case FIELD_BOOL:
        buf_puts(out, *(const bool *)at ? "true" : "false");
        break;
    case FIELD_TEXT:
        put_text(out, *(const char *const *)(const void *)at);
        break;
    case FIELD_CALL:
        number = *(const uint32_t *)(const void *)at;
        if (number == CALL_NONE || number >= CALL_COUNT)
            buf_puts(out, "null");
        else
            buf_printf(out, "\"%s\"", call_infos[number].name);
        break;
    case FIELD_RANKS:
        put_ranks(out, comm->ranks, comm->size);
        break;
    case FIELD_REMOTE_RANKS:
        put_ranks(out, comm->remote_ranks, comm->remote_size);
        break;
    case FIELD_WAITS:
        put_waits(out, (const uint64_t *)(const void *)at);
        break;
    case FIELD_REAL:
        buf_printf(out, "%.3f", *(const double *)(const void *)at);
        break;
    case FIELD_CHARS:
        put_text(out, at);
        break;
    }
}

static void put_members(struct buf *out, const struct mpi_field *fields, const void *record, const char *separator)
{
    for (size_t i = 0; fields[i].name; i++) {
        buf_printf(out, "%s\"%s\":", i ? separator : "", fields[i].name);
        put_field(out, &fields[i], record);
    }
}

static void put_table(struct buf *out, const struct mpi_table *table, const struct mpi_stats *stats)
{
    const char *rows = *(const char *const *)(const void *)((const char *)stats + table->rows_at);
    size_t count = *(const size_t *)(const void *)((const char *)stats + table->count_at);
    buf_printf(out, ",\n\"%s\":{\"columns\":[", table->name);
    for (size_t i = 0; table->fields[i].name; i++)
        buf_printf(out, "%s\"%s\"", i ? "," : "", table->fields[i].name);
    buf_puts(out, "],\"rows\":[");
    for (size_t row = 0; row < count; row++) {
        buf_puts(out, row ? ",\n[" : "\n[");
        for (size_t i = 0; table->fields[i].name; i++) {
            if (i)
                buf_putc(out, ',');
            put_field(out, &table->fields[i], rows + row * table->size);
        }
        buf_putc(out, ']');
    }
    buf_puts(out, "]}");
}

static void put_thread(struct buf *out, const struct mpi_stats_thread *thread, bool looked)
{
    buf_putc(out, '{');
    put_members(out, mpi_thread_fields, thread, ",");
    buf_puts(out, ",\n \"outermost\":{");
    put_members(out, mpi_clock_fields, &thread->outermost, ",");
    buf_puts(out, "},\n \"blocking\":{");
    put_members(out, mpi_clock_fields, &thread->blocking, ",");
    buf_puts(out, "},\n \"now\":{");
    put_members(out, mpi_now_fields, &thread->now, ",");
    if (looked) {
        buf_puts(out, "},\n \"look\":{");
        put_members(out, mpi_look_fields, thread, ",");
    }
    if (thread->last.call != CALL_NONE) {
        buf_puts(out, "},\n \"last\":{");
        put_members(out, mpi_now_fields, &thread->last, ",");
    }
    buf_puts(out, "}}");
}

void mpi_stats_print(const struct mpi_stats *stats, struct buf *out)
{
    buf_printf(out, "{\"version\":%d,\n", MPI_STATS_VERSION);
    put_members(out, mpi_stats_fields, stats, ",\n");
    buf_puts(out, ",\n\"threads\":[");
    for (size_t i = 0; i < stats->thread_count; i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_thread(out, &stats->threads[i], stats->looked);
    }
    buf_putc(out, ']');
    for (size_t i = 0; i < (size_t)MPI_TABLES - !stats->looked; i++)
        put_table(out, &mpi_tables[i], stats);
    buf_puts(out, "}\n");
}

/* ---- distributions ---- */

static void print_distribution(const struct mpi_stats *stats, const struct mpi_stats_distribution *distribution,
                               struct buf *out)
{
    uint64_t count = 0;
    for (size_t i = 0; i < distribution->count; i++)
        count += distribution->buckets[i].count;
    buf_printf(out,
               "# scry distribution %d\n# name %s\n# unit %s\n# rank %" PRId32 "\n# count %" PRIu64 "\n# total %" PRIu64
               "\n# from to count (to is not in it)\n",
               MPI_STATS_VERSION, distribution->name, distribution->is_time ? "ns" : "bytes", stats->rank, count,
               distribution->total);
    for (size_t i = 0; i < distribution->count; i++) {
        const struct mpi_stats_bucket *bucket = &distribution->buckets[i];
        buf_printf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", bucket->from, bucket->to, bucket->count);
    }
}

/* ---- files ---- */

static int text_replace(const char *path, const struct buf *text)
{
    return text->failed ? -ENOMEM : file_replace_soon(path, text->data, text->len, 0600);
}

static bool has_distribution(const struct mpi_stats *stats, const char *file)
{
    for (size_t i = 0; i < stats->distribution_count; i++) {
        size_t len = strlen(stats->distributions[i].name);
        if (strncmp(file, stats->distributions[i].name, len) == 0 && strcmp(file + len, ".dist") == 0)
            return true;
    }
    return false;
}

/* Files of before a reset. */
static void remove_others(const struct mpi_stats *stats, const char *dir)
{
    DIR *open_dir = opendir(dir);
    if (!open_dir)
        return;
    for (struct dirent *entry; (entry = readdir(open_dir));) {
        size_t len = strlen(entry->d_name);
        if (len > 5 && strcmp(entry->d_name + len - 5, ".dist") == 0 && !has_distribution(stats, entry->d_name))
            unlinkat(dirfd(open_dir), entry->d_name, 0);
    }
    closedir(open_dir);
}

static int write_distributions(const struct mpi_stats *stats, const char *dir, struct err *err)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int code = dirs_make(dir, 0700);
    if (code < 0)
        return err_errno(err, code, "cannot make %s", dir);
    for (size_t i = 0; i < stats->distribution_count; i++) {
        buf_clear(&text);
        print_distribution(stats, &stats->distributions[i], &text);
        code = snprintf(path, sizeof path, "%s/%s.dist", dir, stats->distributions[i].name) < (int)sizeof path
                   ? text_replace(path, &text)
                   : -ENAMETOOLONG;
        if (code < 0)
            return err_errno(err, code, "cannot write %s", path);
    }
    remove_others(stats, dir);
    return 0;
}

int mpi_stats_write(const struct mpi_stats *stats, const char *dir, uint32_t incarnation, struct err *err)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int code = dirs_make(dir, 0700);
    if (code < 0)
        return err_errno(err, code, "cannot make %s", dir);
    if (snprintf(path, sizeof path, "%s/%" PRId32 "-%" PRIu32, dir, stats->pid, incarnation) >=
        (int)(sizeof path - strlen(".json")))
        return err_set(err, -ENAMETOOLONG, "the path %s is too long", dir);
    if (stats->distribution_count && (code = write_distributions(stats, path, err)) < 0)
        return code;
    mpi_stats_print(stats, &text);
    memcpy(path + strlen(path), ".json", sizeof ".json"); /* there is room, see above */
    code = text_replace(path, &text);
    return code < 0 ? err_errno(err, code, "cannot write %s", path) : 0;
}
