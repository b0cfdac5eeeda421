/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks' statistics of MPI say, by process: the numbers that the report adds up. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"
#include "web/view/ask.h"

static void put_rank(struct buf *out, const struct mpi_report *report, size_t i)
{
    const struct mpi_stats *stats = &report->set.ranks[i];
    buf_printf(out, "%s{\"process\":%zu,\"node\":", i ? "," : "", i);
    view_put_text(out, stats->node);
    buf_printf(out, ",\"pid\":%" PRId32 ",\"rank\":%" PRId32 ",\"world\":%" PRIu32 ",\"name\":", stats->pid,
               stats->rank, report->world_of[i]);
    view_put_text(out, text_base(stats->exe ? stats->exe : ""));
    buf_putc(out, '}');
}

static const struct mpi_stats_row *row_of(const struct mpi_stats *stats, uint32_t call)
{
    static const struct mpi_stats_row none;
    for (size_t i = 0; i < stats->row_count; i++)
        if (stats->rows[i].call == call)
            return &stats->rows[i];
    return &none;
}

static void put_call(struct buf *out, const struct mpi_report *report, uint32_t call)
{
    static const struct {
        const char *name;
        size_t at;
    } members[] = {{"calls", offsetof(struct mpi_stats_row, count)},
                   {"total_ns", offsetof(struct mpi_stats_row, total_ns)},
                   {"sent_bytes", offsetof(struct mpi_stats_row, sent_bytes)},
                   {"received_bytes", offsetof(struct mpi_stats_row, got_bytes)},
                   {"bytes", offsetof(struct mpi_stats_row, args_bytes)}};
    buf_printf(out, "{\"name\":\"%s\",\"class\":\"%s\"", mpi_text_call(call), view_class_name(view_class_of(call)));
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        buf_printf(out, ",\"%s\":[", members[k].name);
        for (size_t i = 0; i < report->set.count; i++) {
            const struct mpi_stats_row *row = row_of(&report->set.ranks[i], call);
            bool known =
                members[k].at != offsetof(struct mpi_stats_row, got_bytes) || !(row->got_least || row->got_unknown);
            buf_puts(out, i ? "," : "");
            buf_printf(out, known ? "%" PRIu64 : "null", *(const uint64_t *)((const char *)row + members[k].at));
        }
        buf_putc(out, ']');
    }
    buf_putc(out, '}');
}

static int need_ranks(const struct view *view, struct err *err)
{
    if (view->report.mpi)
        return 0;
    return err_set(err, -ENODATA, "the job has no statistics of MPI: it ran no MPI program, or was run without --mpi");
}

/* Of the statistics only: what traces lack, changes nothing here. `also` may be NULL. */
static void put_notes(struct buf *out, struct view *view, const char *also)
{
    const struct mpi_report *report = view->report.mpi;
    int64_t ranks = view_ranks_wanted(view), counted = (int64_t)report->set.count;
    char note[128];
    buf_puts(out, "],\"notes\":[");
    if (counted < ranks) {
        snprintf(note, sizeof note,
                 "%" PRId64 " of %" PRId64 " ranks have no statistics of MPI here: they are left out", ranks - counted,
                 ranks);
        view_put_text(out, note);
        buf_puts(out, report->unreadable_count || also ? "," : "");
    }
    if (report->unreadable_count)
        view_put_text(out, report->unreadable.text);
    if (also) {
        buf_puts(out, report->unreadable_count ? "," : "");
        view_put_text(out, also);
    }
    buf_puts(out, "]}");
}

int answer_volume(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    (void)asked;
    const struct mpi_report *report = view->report.mpi;
    bool first = true;
    if (need_ranks(view, err) < 0)
        return err->code;
    buf_puts(out, "{\"processes\":[");
    for (size_t i = 0; i < report->set.count; i++)
        put_rank(out, report, i);
    buf_puts(out, "],\"calls\":[");
    for (uint32_t call = CALL_NONE + 1; call < CALL_COUNT; call++)
        if (report->calls[call].count || report->calls[call].open) {
            buf_puts(out, first ? "" : ",");
            first = false;
            put_call(out, report, call);
        }
    put_notes(out, view, NULL);
    return 0;
}

/* ---- distributions ---- */

enum { DISTRIBUTIONS = 4096, BUCKETS = 4096 };

struct spread { /* one distribution over all ranks */
    const struct mpi_stats_distribution *of;
    uint64_t total, ranks;
    struct mpi_stats_bucket *buckets;
    size_t count;
};

static int by_from(const void *a, const void *b)
{
    const struct mpi_stats_bucket *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

/* Buckets with the same bounds become one. */
static size_t join(struct mpi_stats_bucket *buckets, size_t count)
{
    size_t used = 0;
    qsort(buckets, count, sizeof *buckets, by_from);
    for (size_t i = 0; i < count; i++)
        if (used && by_from(&buckets[used - 1], &buckets[i]) == 0)
            buckets[used - 1].count += buckets[i].count;
        else
            buckets[used++] = buckets[i];
    return used;
}

static int add_distribution(struct spread *list, size_t *count, const struct mpi_stats_distribution *of)
{
    size_t at = 0;
    while (at < *count && strcmp(list[at].of->name, of->name) != 0)
        at++;
    if (at == DISTRIBUTIONS)
        return 0;
    if (at == *count)
        list[(*count)++] = (struct spread){.of = of};
    struct spread *spread = &list[at];
    struct mpi_stats_bucket *grown = reallocarray(spread->buckets, spread->count + of->count + 1, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    for (size_t i = 0; i < of->count; i++)
        grown[spread->count + i] = of->buckets[i];
    spread->buckets = grown;
    spread->count = join(grown, spread->count + of->count);
    spread->total += of->total;
    spread->ranks++;
    return 0;
}

static void put_distribution(struct buf *out, const struct spread *spread)
{
    buf_puts(out, "{\"name\":");
    view_put_text(out, spread->of->name);
    buf_printf(out, ",\"unit\":\"%s\",\"total\":%" PRIu64 ",\"ranks\":%" PRIu64 ",\"buckets\":[",
               spread->of->is_time ? "ns" : "bytes", spread->total, spread->ranks);
    for (size_t i = 0; i < spread->count && i < BUCKETS; i++)
        buf_printf(out, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", i ? "," : "", spread->buckets[i].from,
                   spread->buckets[i].to, spread->buckets[i].count);
    buf_puts(out, "]}");
}

int answer_distributions(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    (void)asked;
    size_t count = 0;
    int code = 0;
    struct err unread = {0};
    if (need_ranks(view, err) < 0)
        return err->code;
    struct mpi_report *report = view->report.mpi;
    _cleanup_(freep) struct spread *list = calloc(DISTRIBUTIONS + 1, sizeof *list);
    struct arena *arena = report->set.arena;
    for (size_t i = 0; list && i < report->set.count && code >= 0; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        if (!stats->distribution_count)
            code = mpi_stats_read_distributions(stats, stats->dir ? stats->dir : view->job, arena, &unread);
        for (size_t k = 0; k < stats->distribution_count && code >= 0; k++)
            code = add_distribution(list, &count, &stats->distributions[k]);
    }
    buf_puts(out, "{\"distributions\":[");
    for (size_t i = 0; i < count; i++) {
        buf_puts(out, i ? "," : "");
        put_distribution(out, &list[i]);
        free(list[i].buckets);
    }
    put_notes(out, view,
              *unread.text ? unread.text
              : count      ? NULL
                           : "no distributions were recorded: scry run --mpi stats --mpi-distributions all records "
                             "sizes and durations in buckets");
    return !list || code < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}
