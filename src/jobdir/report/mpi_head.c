/* SPDX-License-Identifier: Apache-2.0 */
/* What MPI programs did, for people: its head, and what went wrong. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/trace/calls.h"
#include "jobdir/mpi/look.h"
#include "jobdir/report/mpi_internal.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"

enum { SHOWN_PROBLEMS = 8, SHOWN_PROGRAMS = 10, SHOWN_NAMES = 3, PAUSED_LEAST_NS = 1000 };

double mpi_report_percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

const struct mpi_stats_clock *mpi_report_clock(const struct mpi_stats *stats, bool blocking)
{
    static const struct mpi_stats_clock none;
    const struct mpi_stats_thread *thread = mpi_report_main(stats);
    return !thread ? &none : blocking ? &thread->blocking : &thread->outermost;
}

double mpi_report_share(const struct mpi_stats *stats)
{
    const struct mpi_stats_clock *clock = mpi_report_clock(stats, false);
    return mpi_report_percent(clock->communicate_ns, clock->total_ns);
}

/* ---- the head ---- */

static void put_ends(struct buf *out, const struct mpi_report *report, const struct mpi_stats *low,
                     const struct mpi_stats *high)
{
    buf_printf(out, " (%.1f %% ", mpi_report_share(low));
    mpi_text_who(out, mpi_report_who(report, low));
    buf_printf(out, " to %.1f %% ", mpi_report_share(high));
    mpi_text_who(out, mpi_report_who(report, high));
    buf_putc(out, ')');
}

static void put_share(struct buf *out, const struct mpi_report *report)
{
    const struct mpi_stats *low = NULL, *high = NULL;
    for (size_t i = 0; i < report->set.count; i++) {
        const struct mpi_stats *stats = &report->set.ranks[i];
        if (!mpi_report_clock(stats, false)->total_ns)
            continue;
        low = !low || mpi_report_share(stats) < mpi_report_share(low) ? stats : low;
        high = !high || mpi_report_share(stats) > mpi_report_share(high) ? stats : high;
    }
    if (!report->outermost.total_ns) {
        buf_printf(out, "their time in MPI is not known: %s",
                   report->clocks_off ? "it was not measured (--mpi-metrics)" : "no rank came out of MPI_Init");
        return;
    }
    buf_printf(out, "%.1f %% of the ranks' time in MPI",
               mpi_report_percent(report->outermost.communicate_ns, report->outermost.total_ns));
    if (low && high && low != high)
        put_ends(out, report, low, high);
}

/* The commonest mistake of all. */
static void put_alone(struct buf *out, const struct mpi_report *report, const char *indent)
{
    const struct mpi_stats_set *set = &report->set;
    for (size_t i = 0; i < set->count; i++)
        if (set->ranks[i].world_size != 1 || set->ranks[i].spawned)
            return;
    if (set->count > 1)
        buf_printf(out,
                   "%s%zu programs of one rank each: were they started by the mpirun of another MPI than theirs?\n",
                   indent, set->count);
}

void mpi_report_summary(struct buf *out, const struct mpi_report *report)
{
    size_t count = report ? report->set.count : 0;
    if (!count || !report->outermost.total_ns)
        return;
    text_label(out, "MPI");
    buf_printf(out, "%zu rank%s, ", count, count == 1 ? "" : "s");
    put_share(out, report);
    if (report->others_ns) {
        buf_puts(out, ", without ");
        text_ns_in(out, (double)report->others_ns, 0);
        buf_puts(out, " in other threads");
    }
    buf_putc(out, '\n');
    put_alone(out, report, "             ");
    mpi_ends_text(out, &report->set, "             ");
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

static void put_under(struct buf *out, const struct mpi_stats *stats)
{
    static const char *const levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED",
                                         "MPI_THREAD_MULTIPLE"};
    buf_puts(out, " under ");
    put_library(out, stats);
    if (stats->thread_level >= 0 && stats->thread_level < 4)
        buf_printf(out, ", %s", levels[stats->thread_level]);
}

/* Of these ranks: "solver", "solver, viewer", "solver, viewer, ..." */
static void put_names(struct buf *out, const struct mpi_stats *ranks, size_t count)
{
    const char *names[SHOWN_NAMES];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < used && strcmp(names[k], ranks[i].exe) != 0)
            k++;
        if (k < used)
            continue;
        if (used == SHOWN_NAMES) {
            buf_puts(out, ", ...");
            return;
        }
        buf_puts(out, used ? ", " : "");
        text_show(out, text_base(ranks[i].exe));
        names[used++] = ranks[i].exe;
    }
}

/* Of several: which is which. */
static void put_programs(struct buf *out, const struct mpi_report *report)
{
    const struct mpi_stats_set *set = &report->set;
    size_t shown = 0;
    for (size_t i = 0, next; i < set->count; i = next) {
        bool spawned = false;
        for (next = i; next < set->count && report->world_of[next] == report->world_of[i]; next++)
            spawned |= set->ranks[next].spawned;
        if (shown++ >= SHOWN_PROGRAMS)
            continue;
        buf_printf(out, "  program %u: %zu rank%s of ", report->world_of[i] + 1, next - i, next - i == 1 ? "" : "s");
        put_names(out, &set->ranks[i], next - i);
        put_under(out, &set->ranks[i]);
        buf_puts(out, spawned ? ", started by MPI_Comm_spawn\n" : "\n");
    }
    if (shown > SHOWN_PROGRAMS)
        buf_printf(out, "  ... and %zu more programs\n", shown - SHOWN_PROGRAMS);
}

void mpi_report_put_head(struct buf *out, const struct mpi_report *report)
{
    buf_printf(out, "\nMPI: %zu rank%s", report->set.count, report->set.count == 1 ? "" : "s");
    if (report->worlds > 1)
        buf_printf(out, " of %u programs\n", report->worlds);
    else
        put_under(out, &report->set.ranks[0]);
    if (report->worlds > 1)
        put_programs(out, report);
    else
        buf_putc(out, '\n');
    buf_puts(out, "  ");
    put_share(out, report);
    double all = mpi_report_percent(report->outermost.communicate_ns, report->outermost.total_ns);
    double blocking = mpi_report_percent(report->blocking.communicate_ns, report->blocking.total_ns);
    if (report->blocking.total_ns && fabs(all - blocking) >= 0.1)
        buf_printf(out, "; counting blocking calls only: %.1f %%", blocking);
    buf_putc(out, '\n');
    if (!report->others_count)
        return;
    buf_printf(out, "  %" PRIu64 " calls of other threads took ", report->others_count);
    text_ns_in(out, (double)report->others_ns, 0);
    buf_puts(out, "; they are in no time of a rank, which is that of the thread that called MPI_Init\n");
}

/* ---- problems ---- */

static void put_problem(struct buf *out, size_t *shown, const struct mpi_report *report, const struct mpi_stats *stats,
                        const char *text)
{
    if ((*shown)++ >= SHOWN_PROBLEMS)
        return;
    buf_puts(out, "  ");
    mpi_text_who(out, mpi_report_who(report, stats));
    buf_puts(out, " (");
    text_show(out, stats->node);
    buf_printf(out, ", process %d): ", stats->pid);
    text_show(out, text);
    buf_putc(out, '\n');
}

/* It was called before, or while counting was off. */
static bool has_counted_init(const struct mpi_stats *stats)
{
    for (size_t i = 0; i < stats->row_count; i++)
        if (call_info(stats->rows[i].call)->waits == CALL_WAITS_START)
            return true;
    return stats->resets > 0;
}

static void put_paused(struct buf *out, const struct mpi_report *report)
{
    uint64_t sum = 0;
    size_t late = 0;
    for (size_t i = 0; i < report->set.count; i++) {
        const struct mpi_stats *stats = &report->set.ranks[i];
        bool paused = stats->paused_ns > PAUSED_LEAST_NS, counted = has_counted_init(stats);
        late += paused && !counted;
        sum += paused && counted ? stats->paused_ns : 0;
    }
    if (late)
        buf_printf(
            out,
            "  %zu rank%s came out of MPI_Init before counting began (called by a library's constructor, or with "
            "counting off): what was called until then is in no number\n",
            late, late == 1 ? "" : "s");
    if (!sum)
        return;
    buf_puts(out, "  counting was off for ");
    text_ns_in(out, (double)sum, 0);
    buf_puts(out, " of the ranks' time together (MPI_Pcontrol(0), or `scry set`): that is in no number\n");
}

void mpi_report_own(const struct mpi_report *report, uint64_t ret_calls[CALL_COUNT])
{
    memset(ret_calls, 0, CALL_COUNT * sizeof *ret_calls);
    for (size_t i = 0; i < report->site_count; i++) {
        const char *function = report->sites[i].site->function;
        if (function && strncmp(function, "MPI_", 4) == 0)
            ret_calls[call_find(function)] += report->sites[i].count;
    }
    ret_calls[CALL_NONE] = 0;
}

static void put_tool(struct buf *out, const struct mpi_report *report)
{
    uint64_t own[CALL_COUNT], calls = 0;
    uint32_t names = 0, shown = 0;
    mpi_report_own(report, own);
    for (uint32_t call = 0; call < CALL_COUNT; call++) {
        calls += own[call];
        names += own[call] > 0;
    }
    if (!calls)
        return;
    buf_printf(out, "  %" PRIu64 " of these calls are of function%s ", calls, names == 1 ? "" : "s");
    for (uint32_t call = 0; call < CALL_COUNT && shown < SHOWN_NAMES; call++)
        if (own[call]) {
            shown++;
            buf_printf(out, "%s%s", shown == 1 ? "" : shown == names ? " and " : ", ", call_infos[call].name);
        }
    if (names > shown)
        buf_printf(out, " and %u more", names - shown);
    buf_puts(out,
             " that the program itself has, a tool that is linked into it: what that calls is counted, not what the "
             "program calls of it (as a shared library, by LD_PRELOAD, it would be the other way round)\n");
}

static uint64_t errors_of(const struct mpi_stats *stats)
{
    uint64_t errors = 0;
    for (size_t i = 0; i < stats->thread_count; i++)
        errors += stats->threads[i].errors;
    return errors;
}

/* Nobody sees their completion. */
static uint64_t freed_of(const struct mpi_stats *stats)
{
    return stats->receives_freed;
}

/* How many of them on which ranks, if any. */
static void put_many(struct buf *out, const struct mpi_report *report, uint64_t (*of)(const struct mpi_stats *stats),
                     const char *one, const char *several, const char *rest)
{
    const struct mpi_stats_set *set = &report->set;
    uint64_t sum = 0;
    _cleanup_(freep) int32_t *ranks = calloc(set->count + 1, sizeof *ranks);
    for (size_t i = 0; i < set->count; i++)
        sum += of(&set->ranks[i]);
    if (!sum || !ranks)
        return;
    buf_printf(out, "  %" PRIu64 " %s, on", sum, sum == 1 ? one : several);
    const char *between = " ";
    for (size_t i = 0, next; i < set->count; i = next) { /* a program */
        size_t used = 0;
        for (next = i; next < set->count && report->world_of[next] == report->world_of[i]; next++)
            if (of(&set->ranks[next]))
                ranks[used++] = set->ranks[next].rank;
        if (!used)
            continue;
        buf_printf(out, "%srank%s ", between, used == 1 ? "" : "s");
        mpi_text_ranks(out, ranks, used);
        if (report->worlds > 1)
            buf_printf(out, " of program %u", report->world_of[i] + 1);
        between = ", ";
    }
    buf_puts(out, rest);
}

/* Who asks for that gets it from all ranks, as a rule. */
static void put_resets(struct buf *out, const struct mpi_report *report)
{
    size_t ranks = 0;
    uint64_t most = 0, last_ns = 0;
    for (size_t i = 0; i < report->set.count; i++) {
        const struct mpi_stats *stats = &report->set.ranks[i];
        ranks += stats->resets != 0;
        most = stats->resets > most ? stats->resets : most;
        last_ns = stats->resets && stats->reset_ns > last_ns ? stats->reset_ns : last_ns;
    }
    if (!ranks)
        return;
    buf_printf(out, "  counting began anew on %zu rank%s (MPI_Pcontrol(2), or a tool), ", ranks, ranks == 1 ? "" : "s");
    if (most > 1)
        buf_printf(out, "up to %" PRIu64 " times, the last time ", most);
    text_ns_in(out, (double)last_ns, 0);
    buf_puts(out,
             " after MPI_Init: what was before is in none of these numbers, but for collectives of communicators\n");
}

/* What it was in, and when. */
static void put_death(struct buf *out, const struct mpi_stats *stats)
{
    const struct mpi_stats_thread *thread = mpi_report_main(stats);
    if (thread && thread->now.call != CALL_NONE) {
        buf_puts(out, ", in ");
        mpi_text_now(out, stats, &thread->now);
        size_t before = out->len;
        buf_puts(out, ", ");
        mpi_text_site(out, &thread->now.site);
        if (out->len == before + 2 && !out->failed)
            out->data[out->len = before] = '\0';
    }
    if (stats->end.known)
        buf_printf(out, ", %.3f s after the start%s", stats->end.seconds, stats->end.first ? ": the first" : "");
}

static void put_problems_of(struct buf *out, size_t *shown, const struct mpi_report *report,
                            const struct mpi_stats *stats)
{
    _cleanup_(buf_done) struct buf end = BUF_INIT;
    char text[256];
    mpi_end_text(&end, stats);
    if (end.len && mpi_ended_badly(stats))
        put_death(&end, stats);
    if (end.len && !end.failed)
        put_problem(out, shown, report, stats, end.data);
    if (stats->fault && *stats->fault)
        put_problem(out, shown, report, stats, stats->fault);
    uint64_t calls = stats->sites_omitted, peers = stats->peers_omitted, requests = stats->requests_omitted;
    if (requests) {
        snprintf(text, sizeof text,
                 "%" PRIu64 " non-blocking operations found no room, as more than %d were under way: what they "
                 "received, and how long they took, is in no number",
                 requests, MPIA_REQUESTS);
        put_problem(out, shown, report, stats, text);
    }
    if (calls) {
        snprintf(text, sizeof text, "%" PRIu64 " calls are of no call site, as there are too many", calls);
        put_problem(out, shown, report, stats, text);
    }
    if (peers) {
        snprintf(text, sizeof text,
                 "what %" PRIu64 " calls sent or received is of no pair of ranks, as there are too many", peers);
        put_problem(out, shown, report, stats, text);
    }
    if (stats->omitted > calls + peers + requests) {
        snprintf(text, sizeof text,
                 "%" PRIu64 " bytes found no room in its 8 MB: its sites, peers or distributions are incomplete",
                 stats->omitted - calls - peers - requests);
        put_problem(out, shown, report, stats, text);
    }
}

void mpi_report_put_problems(struct buf *out, const struct mpi_report *report)
{
    size_t shown = 0;
    put_alone(out, report, "  ");
    mpi_ends_text(out, &report->set, "  ");
    for (size_t i = 0; i < report->set.count; i++)
        if (report->set.ranks[i].end.first)
            put_problems_of(out, &shown, report, &report->set.ranks[i]);
    for (size_t i = 0; i < report->set.count; i++)
        if (!report->set.ranks[i].end.first)
            put_problems_of(out, &shown, report, &report->set.ranks[i]);
    if (shown > SHOWN_PROBLEMS)
        buf_printf(out, "  ... and %zu more such ranks\n", shown - SHOWN_PROBLEMS);
    put_many(out, report, errors_of, "call returned an error", "calls returned an error", "\n");
    put_many(out, report, freed_of, "receive was given up by MPI_Request_free",
             "receives were given up by MPI_Request_free",
             ": what was received is not known, and in none of these numbers\n");
    put_resets(out, report);
    put_paused(out, report);
    put_tool(out, report);
    if (report->unreadable_count) {
        buf_printf(out, "  %zu file%s of statistics could not be read: ", report->unreadable_count,
                   report->unreadable_count == 1 ? "" : "s");
        text_show(out, report->unreadable.text);
        buf_putc(out, '\n');
    }
}
