/* SPDX-License-Identifier: Apache-2.0 */
/* What MPI programs did, for people. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jobdir/calls.h"
#include "jobdir/mpi_report.h"
#include "jobdir/mpi_text.h"
#include "jobdir/text.h"

enum {
    SHOWN_RANKS = 32, /* singly; of more, the ends of the list by share */
    SHOWN_ENDS = 8,
    SHOWN_SITES = 20,
    SHOWN_COMMS = 20,
    SHOWN_PROBLEMS = 8,
    NAME_WIDTH = 26,
};

static void put_time(struct buf *out, double ns, int columns)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    call_put_ns(&text, ns);
    buf_printf(out, "%*s", columns, text.data ? text.data : "");
}

static void put_size(struct buf *out, uint64_t bytes, int columns)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    text_size(&text, bytes);
    buf_printf(out, "%*s", columns, text.data ? text.data : "");
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static const struct mpi_stats_clock *clock_of(const struct mpi_stats *stats, bool blocking)
{
    static const struct mpi_stats_clock none;
    const struct mpi_stats_thread *thread = mpi_report_main(stats);
    return !thread ? &none : blocking ? &thread->blocking : &thread->outermost;
}

static double rank_share(const struct mpi_stats *stats)
{
    const struct mpi_stats_clock *clock = clock_of(stats, false);
    return share(clock->communicate_ns, clock->total_ns);
}

/* ---- the head ---- */

static void put_share(struct buf *out, const struct mpi_report *report)
{
    const struct mpi_stats *low = NULL, *high = NULL;
    for (size_t i = 0; i < report->set.count; i++) {
        const struct mpi_stats *stats = &report->set.ranks[i];
        if (!clock_of(stats, false)->total_ns)
            continue;
        low = !low || rank_share(stats) < rank_share(low) ? stats : low;
        high = !high || rank_share(stats) > rank_share(high) ? stats : high;
    }
    buf_printf(out, "%.1f %% of the ranks' time in MPI",
               share(report->outermost.communicate_ns, report->outermost.total_ns));
    if (low && high && low != high)
        buf_printf(out, " (%.1f %% rank %d to %.1f %% rank %d)", rank_share(low), low->rank, rank_share(high),
                   high->rank);
}

void mpi_report_summary(struct buf *out, const struct mpi_report *report)
{
    size_t count = report ? report->set.count : 0;
    if (!count || !report->outermost.total_ns)
        return;
    buf_printf(out, "  %-10s %zu rank%s, ", "MPI", count, count == 1 ? "" : "s");
    put_share(out, report);
    buf_putc(out, '\n');
}

/* "Open MPI v4.1.4, package: ..."; "MPICH Version:      4.0.2". */
static void put_library(struct buf *out, const struct mpi_stats *stats)
{
    char text[128] = "";
    const char *version = stats->library_version && *stats->library_version ? stats->library_version : stats->library;
    for (size_t used = 0; *version && *version != ',' && used + 1 < sizeof text; version++)
        if (*version != ' ' || (used && text[used - 1] != ' '))
            text[used++] = *version;
    text_show(out, text);
}

/* Which of the programs were started by another one. */
static void put_spawned(struct buf *out, const struct mpi_report *report)
{
    const struct mpi_stats_set *set = &report->set;
    for (size_t i = 0, next; i < set->count; i = next) {
        bool spawned = false;
        for (next = i; next < set->count && report->world_of[next] == report->world_of[i]; next++)
            spawned |= set->ranks[next].spawned;
        if (spawned)
            buf_printf(out, "program %u, of %zu rank%s, was started by MPI_Comm_spawn\n  ", report->world_of[i],
                       next - i, next - i == 1 ? "" : "s");
    }
}

static void put_head(struct buf *out, const struct mpi_report *report)
{
    const struct mpi_stats *first = &report->set.ranks[0];
    static const char *const levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED",
                                         "MPI_THREAD_MULTIPLE"};
    buf_printf(out, "\nMPI: %zu rank%s", report->set.count, report->set.count == 1 ? "" : "s");
    if (report->worlds > 1)
        buf_printf(out, " of %u programs", report->worlds);
    buf_puts(out, " under ");
    put_library(out, first);
    if (first->thread_level >= 0 && first->thread_level < 4)
        buf_printf(out, ", %s", levels[first->thread_level]);
    buf_puts(out, "\n  ");
    put_spawned(out, report);
    put_share(out, report);
    buf_printf(out, "; counting blocking calls only: %.1f %%\n",
               share(report->blocking.communicate_ns, report->blocking.total_ns));
}

/* ---- problems ---- */

static void put_problem(struct buf *out, size_t *shown, const struct mpi_stats *stats, const char *text)
{
    if ((*shown)++ >= SHOWN_PROBLEMS)
        return;
    buf_printf(out, "  rank %d (", stats->rank);
    text_show(out, stats->node);
    buf_printf(out, ", process %d): ", stats->pid);
    text_show(out, text);
    buf_putc(out, '\n');
}

static void put_problems(struct buf *out, const struct mpi_report *report)
{
    size_t shown = 0;
    char text[256];
    for (size_t i = 0; i < report->set.count; i++) {
        const struct mpi_stats *stats = &report->set.ranks[i];
        const char *fate = mpi_report_fate(stats);
        if (stats->aborted) {
            snprintf(text, sizeof text, "called MPI_Abort with %d", stats->abort_code);
            put_problem(out, &shown, stats, text);
        } else if (*fate && !stats->running) {
            put_problem(out, &shown, stats, fate);
        }
        if (stats->fault && *stats->fault)
            put_problem(out, &shown, stats, stats->fault);
        if (stats->omitted) {
            snprintf(text, sizeof text,
                     "%" PRIu64 " calls, requests or bytes found no room in its 8 MB: its sites, "
                     "peers or distributions are incomplete",
                     stats->omitted);
            put_problem(out, &shown, stats, text);
        }
    }
    if (shown > SHOWN_PROBLEMS)
        buf_printf(out, "  ... and %zu more such ranks\n", shown - SHOWN_PROBLEMS);
    if (report->unreadable_count) {
        buf_printf(out, "  %zu file%s of statistics could not be read: ", report->unreadable_count,
                   report->unreadable_count == 1 ? "" : "s");
        text_show(out, report->unreadable.text);
        buf_putc(out, '\n');
    }
}

/* ---- ranks ---- */

static void put_rank(struct buf *out, const struct mpi_report *report, size_t index)
{
    const struct mpi_stats *stats = &report->set.ranks[index];
    const struct mpi_stats_clock *clock = clock_of(stats, false), *blocking = clock_of(stats, true);
    if (report->worlds > 1)
        buf_printf(out, "%4u", report->world_of[index]);
    buf_printf(out, "  %5d  ", stats->rank);
    struct buf text = BUF_INIT;
    text_show(&text, stats->node);
    text_column(out, text.data ? text.data : "", 14);
    buf_done(&text);
    buf_printf(out, " %8d ", stats->pid);
    put_time(out, (double)clock->total_ns, 11);
    put_time(out, (double)clock->compute_ns, 12);
    put_time(out, (double)clock->communicate_ns, 14);
    buf_printf(out, " %7.2f %%", share(clock->communicate_ns, clock->total_ns));
    buf_printf(out, " %8.2f %%", share(blocking->communicate_ns, blocking->total_ns));
    const char *fate = mpi_report_fate(stats);
    if (*fate)
        buf_printf(out, "  %s", fate);
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

static void put_ranks(struct buf *out, const struct mpi_report *report)
{
    size_t count = report->set.count;
    buf_printf(out, "\n%sRank   host                pid    run time computation communication   in MPI  blocking\n",
               report->worlds > 1 ? "Prog " : "");
    if (count <= SHOWN_RANKS) {
        for (size_t i = 0; i < count; i++)
            put_rank(out, report, i);
        return;
    }
    _cleanup_(freep) struct ordered *list = calloc(count, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        list[i] = (struct ordered){rank_share(&report->set.ranks[i]), i};
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
        put_time(out, value, 12);
    else if (kind == BALANCE_BYTES)
        put_size(out, (uint64_t)value, 12);
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
        const struct mpi_stats_clock *clock = clock_of(stats, false);
        weigh(&balances[BALANCE_RUN], stats, (double)clock->total_ns);
        weigh(&balances[BALANCE_COMPUTE], stats, (double)clock->compute_ns);
        weigh(&balances[BALANCE_COMMUNICATE], stats, (double)clock->communicate_ns);
        weigh(&balances[BALANCE_MESSAGES], stats, (double)sent_by(stats, false));
        weigh(&balances[BALANCE_BYTES], stats, (double)sent_by(stats, true));
    }
    if (report->set.count < 2)
        return;
    buf_puts(out, "\nBalance over ranks      least  (rank)     average        most  (rank)   most/average\n");
    for (int i = 0; i < BALANCES; i++) {
        const struct balance *balance = &balances[i];
        double average = balance->sum / (double)balance->count;
        buf_printf(out, "  %-15s", names[i]);
        put_value(out, i, balance->least);
        buf_printf(out, "  %6d", balance->low->rank);
        put_value(out, i, average);
        put_value(out, i, balance->most);
        buf_printf(out, "  %6d", balance->high->rank);
        if (average > 0)
            buf_printf(out, "   %11.2f x", balance->most / average);
        buf_putc(out, '\n');
    }
}

/* ---- calls: Table 2 ---- */

/* Those that are outside of what is counted as run time. */
static bool is_outside(uint32_t call)
{
    return call == CALL_MPI_Init || call == CALL_MPI_Init_thread || call == CALL_MPI_Finalize;
}

static int by_total(const void *a, const void *b)
{
    const struct mpi_stats_row *left = *(struct mpi_stats_row *const *)a, *right = *(struct mpi_stats_row *const *)b;
    if (is_outside(left->call) != is_outside(right->call))
        return is_outside(left->call) ? 1 : -1;
    if (left->total_ns != right->total_ns)
        return left->total_ns < right->total_ns ? 1 : -1;
    return left->call < right->call ? -1 : left->call > right->call;
}

static void put_row(struct buf *out, const char *name, uint64_t count, uint64_t min_ns, uint64_t max_ns,
                    uint64_t total_ns, uint64_t open_ns)
{
    buf_puts(out, "  ");
    text_column(out, name, NAME_WIDTH);
    buf_printf(out, " %11" PRIu64, count);
    if (min_ns || max_ns) {
        put_time(out, (double)min_ns, 12);
        put_time(out, (double)max_ns, 12);
    } else {
        buf_printf(out, "%12s%12s", "-", "-");
    }
    if (total_ns) {
        put_time(out, (double)total_ns, 12);
        put_time(out, count ? (double)(total_ns - open_ns) / (double)count : 0, 12);
    } else { /* only counted */
        buf_printf(out, "%12s%12s", "-", "-");
    }
}

static void put_row_bytes(struct buf *out, const struct mpi_stats_row *row)
{
    if (row->args_bytes || row->sent_bytes || row->got_bytes) {
        put_size(out, row->args_bytes, 10);
        put_size(out, row->sent_bytes, 10);
        put_size(out, row->got_bytes, 10);
    }
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

static void put_table(struct buf *out, const struct mpi_stats_row *rows, size_t count, const char *title)
{
    const struct mpi_stats_row **list = calloc(count + 1, sizeof *list);
    size_t used = 0;
    for (size_t i = 0; list && i < count; i++)
        if (rows[i].count)
            list[used++] = &rows[i];
    if (used) {
        qsort(list, used, sizeof *list, by_total);
        buf_printf(out, "\n%-28s       count         min         max       total     average %9s %9s %9s\n", title,
                   "arguments", "sent", "received");
    }
    for (size_t i = 0; i < used; i++) {
        put_row(out, mpi_text_call(list[i]->call), list[i]->count, list[i]->min_ns, list[i]->max_ns, list[i]->total_ns,
                0);
        put_row_bytes(out, list[i]);
    }
    free(list);
}

static void put_calls(struct buf *out, const struct mpi_stats_row *rows, size_t row_count,
                      const struct mpi_stats_row *spans, size_t span_count, const struct mpi_stats_clock *outermost,
                      const struct mpi_stats_clock *blocking, uint64_t finalized)
{
    put_table(out, rows, row_count, "Calls of MPI");
    put_clock(out, outermost, finalized);
    if (blocking->count) {
        buf_puts(out, "  of blocking calls only:\n");
        put_clock(out, blocking, finalized);
    }
    put_table(out, spans, span_count, "Begun until completed");
}

/* ---- call sites ---- */

static void put_site(struct buf *out, const struct mpi_stats_site *site)
{
    size_t before = out->len;
    mpi_text_site(out, site);
    if (out->len == before)
        buf_puts(out, "?");
}

static void put_sites(struct buf *out, const struct mpi_report *report)
{
    if (!report->site_count)
        return;
    buf_puts(out,
             "\nCall sites                         count       total     average         max   in MPI  ranks  where\n");
    for (size_t i = 0; i < report->site_count && i < SHOWN_SITES; i++) {
        const struct mpi_report_site *site = &report->sites[i];
        buf_puts(out, "  ");
        text_column(out, mpi_text_call(site->call), NAME_WIDTH);
        buf_printf(out, " %11" PRIu64, site->count);
        put_time(out, (double)site->total_ns, 12);
        put_time(out, site->count ? (double)site->total_ns / (double)site->count : 0, 12);
        put_time(out, (double)site->max_ns, 12);
        if (is_outside(site->call))
            buf_printf(out, "        - %6u  ", site->ranks);
        else
            buf_printf(out, " %6.2f %% %6u  ", share(site->total_ns, report->outermost.communicate_ns), site->ranks);
        put_site(out, site->site);
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

/* ---- volume and communicators ---- */

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
        struct mpi_stats_row sum = {0};
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
        if (!titled)
            buf_puts(out, "\nVolume                   as arguments       sent   received\n");
        titled = true;
        buf_printf(out, "  %-22s ", classes[i].name);
        put_size(out, sum.args_bytes, 12);
        put_size(out, sum.sent_bytes, 11);
        put_size(out, sum.got_bytes, 11);
        buf_putc(out, '\n');
    }
}

static void put_members(struct buf *out, const struct mpi_stats *stats, const struct mpi_stats_comm *comm)
{
    enum { SHOWN = 64 };
    if (!comm->ranks && (int64_t)comm->size == stats->world_size) {
        buf_puts(out, "all");
        return;
    }
    int32_t ranks[SHOWN];
    uint32_t count = comm->size < SHOWN ? comm->size : SHOWN;
    for (uint32_t i = 0; i < count; i++)
        ranks[i] = comm->ranks ? comm->ranks[i] : (int32_t)i;
    mpi_text_ranks(out, ranks, count);
    buf_puts(out, comm->size > SHOWN ? "..." : "");
}

static void put_comms(struct buf *out, const struct mpi_report *report)
{
    if (!report->comm_count)
        return;
    buf_puts(out,
             "\nCommunicators                              size  collectives    messages       bytes   of collectives  "
             "ranks\n");
    for (size_t i = 0; i < report->comm_count && i < SHOWN_COMMS; i++) {
        const struct mpi_report_comm *comm = &report->comms[i];
        const struct mpi_stats_comm *own = &comm->stats->comms[comm->index];
        struct buf name = BUF_INIT;
        mpi_text_comm(&name, comm->stats, comm->index);
        buf_puts(out, "  ");
        text_column(out, name.data ? name.data : "", 38);
        buf_done(&name);
        buf_printf(out, " %6u %12" PRIu64 " %11" PRIu64 " ", own->size + own->remote_size, comm->collectives,
                   comm->messages);
        put_size(out, comm->bytes, 11);
        put_size(out, comm->coll_sent, 17);
        buf_puts(out, "  ");
        put_members(out, comm->stats, own);
        buf_putc(out, '\n');
    }
    if (report->comm_count > SHOWN_COMMS)
        buf_printf(out, "  ... and %zu more (--json lists them)\n", report->comm_count - SHOWN_COMMS);
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
        put_time(out, (double)thread->outermost.compute_ns, 14);
        put_time(out, (double)thread->outermost.communicate_ns, 14);
        buf_printf(out, " %11" PRIu64 "%s\n", thread->outermost.count, thread->is_main ? "  the rank" : "");
    }
}

static void put_one(struct buf *out, const struct mpi_report *report, size_t index)
{
    const struct mpi_stats *stats = &report->set.ranks[index];
    buf_puts(out, "\nRank   host                pid    run time computation communication   in MPI  blocking\n");
    put_rank(out, report, index);
    put_calls(out, stats->rows, stats->row_count, stats->spans, stats->span_count, clock_of(stats, false),
              clock_of(stats, true), stats->state == MPIA_ENDED);
    put_threads(out, stats);
}

void mpi_report_text(struct buf *out, const struct mpi_report *report, int rank)
{
    if (!report)
        return;
    if (!report->set.count) {
        buf_puts(out, "\nMPI\n");
        put_problems(out, report);
        return;
    }
    put_head(out, report);
    put_problems(out, report);
    for (size_t i = 0; i < report->set.count && rank >= 0; i++)
        if (report->set.ranks[i].rank == rank)
            put_one(out, report, i);
    if (rank >= 0)
        return;
    put_ranks(out, report);
    put_balance(out, report);
    put_calls(out, report->calls, CALL_COUNT, report->spans, CALL_COUNT, &report->outermost, &report->blocking,
              report->finalized);
    put_sites(out, report);
    put_volume(out, report);
    put_comms(out, report);
    mpi_matrix_text(out, &report->matrix, report->worlds);
}
