/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of MPI from the bytes of a file (jobdir/mpi/stats.h). It may be of another version of scry, cut, or not
 * ours at all: what does not fit is said.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "jobdir/mpi/stats_fields.h"

enum {
    COMM_SIZE_MOST = 1 << 22, /* of a communicator whose ranks are not listed */
    FIELDS_MOST = 40,         /* of an object or a table */
};

/* ---- fields ---- */

static int wrong(struct err *err, const char *where, const char *name, const char *expected)
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
    return code < 0 ? wrong(err, where, field->name, expected_of(field->kind)) : 0;
}

static int parse_object(const json_t *object, const struct mpi_field *fields, void *record, struct arena *arena,
                        const char *where, struct err *err)
{
    if (!json_is_object(object))
        return wrong(err, where, "", "an object");
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
        return wrong(err, table->name, "columns", "an array of names");
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
        return wrong(err, table->name, "rows", "arrays");
    for (size_t i = 0; table->fields[i].name; i++) {
        const json_t *value = columns[i] != SIZE_MAX ? json_array_get(row, columns[i]) : NULL;
        set_default(&table->fields[i], record);
        if (!value && columns[i] != SIZE_MAX)
            return wrong(err, table->name, "rows", "a value in each column");
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
        code = wrong(err, table->name, "rows", "an array");
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
        return wrong(err, "", "threads", "an array");
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
