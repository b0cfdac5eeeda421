/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of statistics of MPI (jobdir/mpi/stats.h). For the monitor's loop: no JSON library, and no waiting for the
 * disk. A file is complete or not there; after a power failure the last ones may be missing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "jobdir/mpi/stats_fields.h"
#include "jobdir/text/text.h"

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

static int replace(const char *path, const struct buf *text)
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
                   ? replace(path, &text)
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
    code = replace(path, &text);
    return code < 0 ? err_errno(err, code, "cannot write %s", path) : 0;
}
