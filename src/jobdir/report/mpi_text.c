/* SPDX-License-Identifier: Apache-2.0 */
/* What MPI programs did, for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jobdir/trace/calls.h"
#include "jobdir/mpi/ends.h"
#include "jobdir/report/mpi_internal.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum {
    SHOWN_RANKS = 32, /* singly; of more, the ends of the list by share */
    SHOWN_ENDS = 8,
    SHOWN_SITES = 20,
    SHOWN_SPREAD = 10,
    NAME_WIDTH = 26,
};

/* ---- ranks ---- */

static void put_rank(struct buf *out, const struct mpi_report *report, size_t index)
{
    const struct mpi_stats *stats = &report->set.ranks[index];
    const struct mpi_stats_clock *clock = mpi_report_clock(stats, false), *blocking = mpi_report_clock(stats, true);
    if (report->worlds > 1)
        buf_printf(out, "%4u", report->world_of[index] + 1);
    buf_printf(out, "  %5d  ", stats->rank);
    struct buf text = BUF_INIT;
    text_show(&text, stats->node);
    text_column(out, text.data ? text.data : "", 14);
    buf_done(&text);
    buf_printf(out, " %8d ", stats->pid);
    if (clock->total_ns) {
        text_ns_in(out, (double)clock->total_ns, 11);
        text_ns_in(out, (double)clock->compute_ns, 12);
        text_ns_in(out, (double)clock->communicate_ns, 14);
        buf_printf(out, " %7.2f %%", mpi_report_percent(clock->communicate_ns, clock->total_ns));
        buf_printf(out, " %8.2f %%", mpi_report_percent(blocking->communicate_ns, blocking->total_ns));
    } else {
        buf_printf(out, "%11s%12s%14s%10s%11s", "-", "-", "-", "-", "-");
    }
    size_t before = out->len;
    buf_puts(out, stats->running ? "  running" : "  ");
    mpi_end_text(out, stats);
    if (out->len == before + 2 && !out->failed)
        out->data[out->len = before] = '\0';
    buf_putc(out, '\n');
}

struct ordered {
    double share;
    size_t index;
};

static int by_share(const void *a, const void *b)
{
    const struct ordered *left = a, *right = b;
    if (left->share != right->share)
        return left->share < right->share ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static void put_ranks_title(struct buf *out, const struct mpi_report *report)
{
    buf_printf(out, "\n%sRank   host                pid    run time computation communication   in MPI  blocking\n",
               report->worlds > 1 ? "Prog " : "");
}

static void put_ranks(struct buf *out, const struct mpi_report *report)
{
    size_t count = report->set.count;
    put_ranks_title(out, report);
    if (count <= SHOWN_RANKS) {
        for (size_t i = 0; i < count; i++)
            put_rank(out, report, i);
        return;
    }
    _cleanup_(freep) struct ordered *list = calloc(count, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        list[i] = (struct ordered){mpi_report_share(&report->set.ranks[i]), i};
    if (!list)
        return;
    qsort(list, count, sizeof *list, by_share);
    for (size_t i = 0; i < SHOWN_ENDS; i++)
        put_rank(out, report, list[i].index);
    buf_printf(out, "    ... %zu ranks between these (--json lists them, --rank N shows one)\n",
               count - 2 * SHOWN_ENDS);
    for (size_t i = count - SHOWN_ENDS; i < count; i++)
        put_rank(out, report, list[i].index);
}

/* ---- balance ---- */

struct balance {
    const struct mpi_stats *low, *high;
    double least, most, sum;
    size_t count;
};

static void weigh(struct balance *balance, const struct mpi_stats *stats, double value)
{
    if (!balance->count || value < balance->least) {
        balance->least = value;
        balance->low = stats;
    }
    if (!balance->count || value > balance->most) {
        balance->most = value;
        balance->high = stats;
    }
    balance->sum += value;
    balance->count++;
}

static uint64_t sent_by(const struct mpi_stats *stats, bool bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < stats->peer_count; i++)
        if (stats->peers[i].call == CALL_NONE)
            sum += bytes ? stats->peers[i].sent_bytes : stats->peers[i].sent_count;
    return sum;
}

enum { BALANCE_RUN, BALANCE_COMPUTE, BALANCE_COMMUNICATE, BALANCE_MESSAGES, BALANCE_BYTES, BALANCES };

static void put_value(struct buf *out, int kind, double value)
{
    if (kind <= BALANCE_COMMUNICATE)
        text_ns_in(out, value, 12);
    else if (kind == BALANCE_BYTES)
        text_size_in(out, (uint64_t)value, 12);
    else
        buf_printf(out, "%12.0f", value);
}

static void put_balance(struct buf *out, const struct mpi_report *report)
{
    static const char *const names[BALANCES] = {"run time", "computation", "communication", "messages sent",
                                                "bytes sent"};
    struct balance balances[BALANCES] = {0};
    for (size_t i = 0; i < report->set.count; i++) {
        const struct mpi_stats *stats = &report->set.ranks[i];
        const struct mpi_stats_clock *clock = mpi_report_clock(stats, false);
        weigh(&balances[BALANCE_RUN], stats, (double)clock->total_ns);
        weigh(&balances[BALANCE_COMPUTE], stats, (double)clock->compute_ns);
        weigh(&balances[BALANCE_COMMUNICATE], stats, (double)clock->communicate_ns);
        weigh(&balances[BALANCE_MESSAGES], stats, (double)sent_by(stats, false));
        weigh(&balances[BALANCE_BYTES], stats, (double)sent_by(stats, true));
    }
    if (report->set.count < 2)
        return;
    const char *column = mpi_text_who_title(report->worlds > 1);
    buf_printf(out, "\nBalance over ranks      least%s     average        most%s  most/average\n", column, column);
    for (int i = 0; i < BALANCES; i++) {
        const struct balance *balance = &balances[i];
        double average = balance->sum / (double)balance->count;
        buf_printf(out, "  %-15s", names[i]);
        put_value(out, i, balance->least);
        mpi_text_who_cell(out, mpi_report_who(report, balance->low));
        put_value(out, i, average);
        put_value(out, i, balance->most);
        mpi_text_who_cell(out, mpi_report_who(report, balance->high));
        if (average > 0)
            buf_printf(out, "  %10.2f x", balance->most / average);
        buf_putc(out, '\n');
    }
}

/* ---- calls: Table 2 ---- */

static int by_total(const void *a, const void *b)
{
    const struct mpi_stats_row *left = *(struct mpi_stats_row *const *)a, *right = *(struct mpi_stats_row *const *)b;
    if (mpi_report_is_outside(left->call) != mpi_report_is_outside(right->call))
        return mpi_report_is_outside(left->call) ? 1 : -1;
    if (left->total_ns != right->total_ns)
        return left->total_ns < right->total_ns ? 1 : -1;
    return left->call < right->call ? -1 : left->call > right->call;
}

/* Long names take of the room before the number. */
static void put_counted(struct buf *out, const char *name, uint64_t count)
{
    char number[24];
    int len = snprintf(number, sizeof number, "%" PRIu64, count), room = NAME_WIDTH + 12 - (int)strlen(name);
    buf_printf(out, "  %s%*s", name, room > len ? room : len + 1, number);
}

static void put_average(struct buf *out, uint64_t ns, uint64_t count)
{
    if (count)
        text_ns_in(out, (double)ns / (double)count, 12);
    else
        buf_printf(out, "%12s", "-");
}

static void put_row(struct buf *out, const char *name, uint64_t count, uint64_t min_ns, uint64_t max_ns,
                    uint64_t total_ns, uint64_t open_ns)
{
    put_counted(out, name, count);
    if (min_ns || max_ns) {
        text_ns_in(out, (double)min_ns, 12);
        text_ns_in(out, (double)max_ns, 12);
    } else {
        buf_printf(out, "%12s%12s", "-", "-");
    }
    if (total_ns) {
        text_ns_in(out, (double)total_ns, 12);
        put_average(out, total_ns - open_ns, count);
    } else { /* only counted */
        buf_printf(out, "%12s%12s", "-", "-");
    }
}

/* Calls that have not ended: they are in the total only. */
static void put_open(struct buf *out, uint64_t open, uint64_t open_ns)
{
    if (!open)
        return;
    buf_printf(out, "  (%" PRIu64 " more open: ", open);
    text_ns(out, (double)open_ns);
    buf_putc(out, ')');
}

/* `moves`: what is sent and received stands there, too. */
static void put_row_bytes(struct buf *out, const struct mpi_stats_row *row, bool moves)
{
    if (row->args_bytes || row->sent_bytes || row->got_bytes)
        text_size_in(out, row->args_bytes, 10);
    if (moves && (row->args_bytes || row->sent_bytes || row->got_bytes)) {
        text_size_in(out, row->sent_bytes, 10);
        text_size_in(out, row->got_bytes, 10);
    }
    put_open(out, row->open, row->open_ns);
    buf_putc(out, '\n');
}

/* What goes on now, of a program that runs, has no length yet: it is in the totals, and in no average. */
static void put_clock(struct buf *out, const struct mpi_stats_clock *clock, uint64_t finalized)
{
    put_row(out, "computation granularity", clock->count + finalized, clock->compute_min_ns, clock->compute_max_ns,
            clock->compute_ns, clock->compute_open_ns);
    buf_putc(out, '\n');
    put_row(out, "communication overhead", clock->count, clock->communicate_min_ns, clock->communicate_max_ns,
            clock->communicate_ns, clock->communicate_open_ns);
    buf_putc(out, '\n');
}

static void put_table(struct buf *out, const struct mpi_stats_row *rows, size_t count, const char *title, bool moves)
{
    const struct mpi_stats_row **list = calloc(count + 1, sizeof *list);
    size_t used = 0;
    for (size_t i = 0; list && i < count; i++)
        if (rows[i].count || rows[i].open)
            list[used++] = &rows[i];
    if (used) {
        qsort(list, used, sizeof *list, by_total);
        buf_printf(out, "\n%-28s       count         min         max       total     average %9s", title, "arguments");
        buf_puts(out, moves ? "      sent  received\n" : "\n");
    }
    for (size_t i = 0; i < used; i++) {
        put_row(out, mpi_text_call(list[i]->call), list[i]->count, list[i]->min_ns, list[i]->max_ns, list[i]->total_ns,
                list[i]->open_ns);
        put_row_bytes(out, list[i], moves);
    }
    free(list);
}

static void put_calls(struct buf *out, const struct mpi_stats_row *rows, size_t row_count,
                      const struct mpi_stats_row *spans, size_t span_count, const struct mpi_stats_clock *outermost,
                      const struct mpi_stats_clock *blocking, uint64_t finalized, uint64_t others_count,
                      uint64_t others_ns)
{
    put_table(out, rows, row_count, "Calls of MPI", true);
    put_clock(out, outermost, finalized);
    if (blocking->count) {
        buf_puts(out, "  of blocking calls only:\n");
        put_clock(out, blocking, finalized);
    }
    if (others_count) {
        put_row(out, "calls of other threads", others_count, 0, 0, others_ns, 0);
        buf_putc(out, '\n');
    }
    put_table(out, spans, span_count, "Begun until completed", false);
}

/* ---- call sites ---- */

static void put_site(struct buf *out, const struct mpi_stats_site *site)
{
    size_t before = out->len;
    mpi_text_site(out, site);
    if (out->len == before)
        buf_puts(out, "?");
}

/* A part of the rank's own time in MPI; calls of other threads are not in that. */
static uint64_t own_ns(uint64_t total_ns, uint64_t others_ns)
{
    return total_ns > others_ns ? total_ns - others_ns : 0;
}

static void put_others(struct buf *out, uint64_t ns)
{
    if (ns)
        text_ns_in(out, (double)ns, 12);
    else
        buf_printf(out, "%12s", "-");
}

static void put_sites(struct buf *out, const struct mpi_report *report)
{
    if (!report->site_count)
        return;
    buf_printf(
        out,
        "\nCall sites                         count       total     average         max   in MPI%s  ranks  where\n",
        report->others_ns ? "      others" : "");
    for (size_t i = 0; i < report->site_count && i < SHOWN_SITES; i++) {
        const struct mpi_report_site *site = &report->sites[i];
        put_counted(out, mpi_text_call(site->call), site->count);
        text_ns_in(out, (double)site->total_ns, 12);
        put_average(out, site->total_ns - site->open_ns, site->count);
        put_average(out, site->max_ns, site->count != 0);
        uint64_t own = own_ns(site->total_ns, site->others_ns);
        if (mpi_report_is_outside(site->call) || (!own && site->others_ns) || !report->outermost.communicate_ns)
            buf_puts(out, "        -");
        else
            buf_printf(out, " %6.2f %%", mpi_report_percent(own, report->outermost.communicate_ns));
        if (report->others_ns)
            put_others(out, site->others_ns);
        buf_printf(out, " %6u  ", site->ranks);
        put_site(out, site->site);
        put_open(out, site->open, site->open_ns);
        buf_putc(out, '\n');
    }
    if (report->site_count > SHOWN_SITES)
        buf_printf(out, "  ... and %zu more with less time (--json lists them)\n", report->site_count - SHOWN_SITES);
    if (report->unnamed[0]) {
        buf_puts(out, "  ");
        text_show(out, report->unnamed);
        buf_putc(out, '\n');
    }
}

/* ---- volume ---- */

struct volume {
    const char *name;
    uint64_t args_bytes, sent_bytes, got_bytes;
};

static const struct field volume_fields[] = {
    {.type = FIELD_TEXT, FIELD_AT(struct volume, name), .column = {1, 2, -22, "Volume"}},
    {.type = FIELD_BYTES, FIELD_AT(struct volume, args_bytes), .column = {2, 1, 12, "as arguments"}},
    {.type = FIELD_BYTES, FIELD_AT(struct volume, sent_bytes), .column = {3, 0, 11, "sent"}},
    {.type = FIELD_BYTES, FIELD_AT(struct volume, got_bytes), .column = {4, 0, 11, "received"}},
    {0}};

static void put_volume(struct buf *out, const struct mpi_report *report)
{
    static const struct {
        uint8_t class;
        const char *name;
    } classes[] = {{CALL_CLASS_P2P, "the user's messages"},
                   {CALL_CLASS_COLLECTIVE, "collectives"},
                   {CALL_CLASS_ONESIDED, "one-sided"},
                   {CALL_CLASS_IO, "files"}};
    bool titled = false;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        struct volume sum = {.name = classes[i].name};
        for (uint32_t call = 1; call < CALL_COUNT; call++)
            if (call_infos[call].class == classes[i].class) {
                sum.args_bytes += report->calls[call].args_bytes;
                sum.sent_bytes += report->calls[call].sent_bytes;
                sum.got_bytes += report->calls[call].got_bytes;
            }
        if (classes[i].class == CALL_CLASS_P2P) { /* also what was received by non-blocking and persistent receives */
            sum.sent_bytes = report->matrix.bytes;
            sum.got_bytes = report->matrix.got_bytes;
        }
        if (!sum.args_bytes && !sum.sent_bytes && !sum.got_bytes)
            continue;
        if (!titled) {
            buf_putc(out, '\n');
            fields_title(out, volume_fields, report);
        }
        titled = true;
        fields_row(out, volume_fields, &sum, report);
    }
}

/* Ranks that do not call from there have no time there. */
static void put_sites_by_rank(struct buf *out, const struct mpi_report *report)
{
    size_t shown = 0;
    for (size_t i = 0; i < report->site_count && shown < SHOWN_SPREAD; i++) {
        const struct mpi_report_site *site = &report->sites[i];
        struct mpi_spread spread = {0};
        if (report->set.count < 2 || mpi_report_is_outside(site->call) || !site->total_ns)
            continue;
        if (!shown++)
            mpi_spread_title(out, "Call sites by rank", report->worlds > 1);
        for (size_t k = 0, at = 0; k < report->set.count; k++) {
            bool here = at < site->ranks && site->by_rank[at].index == k;
            mpi_spread_add(&spread, mpi_report_who(report, &report->set.ranks[k]),
                           here ? (double)site->by_rank[at].total_ns : 0);
            at += here;
        }
        mpi_spread_put(out, &spread);
        buf_printf(out, "%s  ", mpi_text_call(site->call));
        put_site(out, site->site);
        buf_putc(out, '\n');
    }
}

/* ---- one rank ---- */

static void put_threads(struct buf *out, const struct mpi_stats *stats)
{
    if (stats->thread_count < 2)
        return;
    buf_puts(out, "\nThreads                        computation communication       calls\n");
    for (size_t i = 0; i < stats->thread_count; i++) {
        const struct mpi_stats_thread *thread = &stats->threads[i];
        buf_printf(out, "  %8d  ", thread->tid);
        text_column(out, thread->name ? thread->name : "", 16);
        text_ns_in(out, (double)thread->outermost.compute_ns, 14);
        text_ns_in(out, (double)thread->outermost.communicate_ns, 14);
        buf_printf(out, " %11" PRIu64 "%s\n", thread->outermost.count, thread->is_main ? "  the rank" : "");
    }
}

static void put_one(struct buf *out, const struct mpi_report *report, size_t index)
{
    const struct mpi_stats *stats = &report->set.ranks[index];
    uint64_t others_count, others_ns;
    mpi_report_others(stats, &others_count, &others_ns);
    put_ranks_title(out, report);
    put_rank(out, report, index);
    put_calls(out, stats->rows, stats->row_count, stats->spans, stats->span_count, mpi_report_clock(stats, false),
              mpi_report_clock(stats, true), stats->state == MPIA_ENDED, others_count, others_ns);
    put_threads(out, stats);
}

void mpi_report_text(struct buf *out, const struct mpi_report *report, int rank)
{
    if (!report)
        return;
    if (!report->set.count) {
        buf_puts(out, "\nMPI\n");
        mpi_report_put_problems(out, report);
        return;
    }
    mpi_report_put_head(out, report);
    mpi_report_put_problems(out, report);
    for (size_t i = 0; i < report->set.count && rank >= 0; i++)
        if (report->set.ranks[i].rank == rank)
            put_one(out, report, i);
    if (rank < 0) {
        put_ranks(out, report);
        put_balance(out, report);
        put_calls(out, report->calls, CALL_COUNT, report->spans, CALL_COUNT, &report->outermost, &report->blocking,
                  report->finalized, report->others_count, report->others_ns);
    }
    put_sites(out, report);
    put_sites_by_rank(out, report);
    put_volume(out, report);
    mpi_report_put_comms(out, report);
    mpi_matrix_text(out, &report->matrix, report->worlds);
}

void report_mpi_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    if (whole)
        mpi_report_text(out, report->mpi, report->one_rank ? report->mpi_rank : -1);
    else
        mpi_report_summary(out, report->mpi);
}
