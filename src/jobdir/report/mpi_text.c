/* SPDX-License-Identifier: Apache-2.0 */
/* Section of a report: what MPI programs did; how it begins, and what went wrong. Ranks and calls have files of their own. What all
 * rows belong to is the struct mpi_report. */
#include "base/data/cleanup.h"
#include "jobdir/mpi/look.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/internal.h"
#include "jobdir/report/mpi_internal.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/calls.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A line of its own. */
static void put_imbalance(struct buf *out, const struct mpi_report *report, const char *indent)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (mpi_report_put_imbalance(&text, report))
        buf_printf(out, "%s%s\n", indent, text.data);
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
    put_imbalance(out, report, "             ");
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

static void mpi_report_put_head(struct buf *out, const struct mpi_report *report)
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
    put_imbalance(out, report, "  ");
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

/* Calls that were made inside of functions with names of MPI that the program itself has: a tool by MPI's profiling
 * interface that is linked into it. Its MPI_Send calls PMPI_Send, which is counted, but is itself called without the
 * dynamic linker. As a shared library it is seen through. By the function's name. */
static void mpi_report_own(const struct mpi_report *report, uint64_t ret_calls[CALL_COUNT])
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

static uint64_t untimed_of(const struct mpi_stats *stats)
{
    return stats->polls_untimed;
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

static void mpi_report_put_problems(struct buf *out, const struct mpi_report *report)
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
    put_many(out, report, untimed_of, "call that asked in vain", "calls that asked in vain",
             ": too fast to be timed one by one, so their times are estimated (how many there were is exact)\n");
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

/* ---- volume ---- */

struct volume {
    const char *name;
    struct mpi_stats_row sum; /* only its bytes */
};

static void put_got(struct buf *out, const void *at, const void *row, const void *all)
{
    mpi_report_put_received(out, &((const struct volume *)row)->sum);
}

static const struct field volume_fields[] = {
    {.type = FIELD_TEXT, FIELD_AT(struct volume, name), .column = FIELD_COLUMN(1, 2, -22, "Volume")},
    {.type = FIELD_BYTES, FIELD_AT(struct volume, sum.args_bytes), .column = FIELD_COLUMN(2, 1, 12, "as arguments")},
    {.type = FIELD_BYTES, FIELD_AT(struct volume, sum.sent_bytes), .column = FIELD_COLUMN(3, 0, 11, "sent")},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(4, 0, 11, "received", .text = put_got)},
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
        struct volume volume = {.name = classes[i].name};
        struct mpi_stats_row *sum = &volume.sum;
        for (uint32_t call = 1; call < CALL_COUNT; call++)
            if (call_infos[call].class == classes[i].class) {
                sum->args_bytes += report->calls[call].args_bytes;
                sum->sent_bytes += report->calls[call].sent_bytes;
                sum->got_bytes += report->calls[call].got_bytes;
                sum->got_unknown |= report->calls[call].got_unknown;
                sum->got_least |= report->calls[call].got_least;
            }
        /* also what was received by non-blocking and persistent receives */
        if (classes[i].class == CALL_CLASS_P2P && !report->peers_off) {
            sum->sent_bytes = report->matrix.bytes;
            sum->got_bytes = report->matrix.got_bytes;
        }
        if (!sum->args_bytes && !sum->sent_bytes && !sum->got_bytes)
            continue;
        if (!titled) {
            buf_putc(out, '\n');
            fields_title(out, volume_fields, report);
        }
        titled = true;
        fields_row(out, volume_fields, &volume, report);
    }
}

/* ---- for people ---- */

static void put_one(struct buf *out, const struct mpi_report *report, size_t index)
{
    const struct mpi_stats *stats = &report->set.ranks[index];
    struct mpi_report_calls calls = {.rows = stats->rows,
                                     .row_count = stats->row_count,
                                     .spans = stats->spans,
                                     .span_count = stats->span_count,
                                     .outermost = mpi_report_clock(stats, false),
                                     .blocking = mpi_report_clock(stats, true),
                                     .finalized = stats->state == MPIA_ENDED};
    mpi_report_others(stats, &calls.others_count, &calls.others_ns);
    mpi_report_put_rank(out, report, index);
    mpi_report_put_calls(out, &calls);
    mpi_report_put_threads(out, stats);
}

static void put_all(struct buf *out, const struct mpi_report *report)
{
    const struct mpi_report_calls calls = {.rows = report->calls,
                                           .row_count = CALL_COUNT,
                                           .spans = report->spans,
                                           .span_count = CALL_COUNT,
                                           .outermost = &report->outermost,
                                           .blocking = &report->blocking,
                                           .finalized = report->finalized,
                                           .others_count = report->others_count,
                                           .others_ns = report->others_ns};
    mpi_report_put_ranks(out, report);
    mpi_report_put_balance(out, report);
    mpi_report_put_calls(out, &calls);
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
    if (rank < 0)
        put_all(out, report);
    mpi_report_put_sites(out, report);
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

/* ---- for programs ---- */

static const struct field own_fields[] = {{"name", FIELD_TEXT}, {"calls", FIELD_COUNT, .about = "made in it"}, {0}};

static json_t *own_json(const void *row, const void *all)
{
    uint64_t own[CALL_COUNT];
    json_t *list = json_array();
    mpi_report_own(row, own);
    for (uint32_t call = 0; call < CALL_COUNT; call++)
        if (own[call])
            json_array_append_new(
                list, json_pack("{s:s, s:I}", "name", call_infos[call].name, "calls", (json_int_t)own[call]));
    return list;
}

/* ---- who sends to whom ---- */

static json_t *got_json(const void *row, uint64_t number)
{
    return ((const struct mpi_matrix_cell *)row)->got_least ? json_null() : json_integer((json_int_t)number);
}

static json_t *got_count_json(const void *row, const void *all)
{
    return got_json(row, ((const struct mpi_matrix_cell *)row)->got_count);
}

static json_t *got_bytes_json(const void *row, const void *all)
{
    return got_json(row, ((const struct mpi_matrix_cell *)row)->got_bytes);
}

static const struct field cell_fields[] = {
    {"world", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, world)},
    {"from", FIELD_INTEGER, FIELD_AT(struct mpi_matrix_cell, from), FIELD_NEGATIVE_IS_NULL,
     .about = "rank of MPI_COMM_WORLD; null: of another one"},
    {"to", FIELD_INTEGER, FIELD_AT(struct mpi_matrix_cell, to), FIELD_NEGATIVE_IS_NULL},
    {"messages", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, sent_count),
     .about = "of the user, as the sender counted"},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_matrix_cell, sent_bytes)},
    {"received_messages", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, got_count), .flags = FIELD_OR_NULL,
     .json = got_count_json,
     .about = "as the receiver counted; a receive that failed, as one whose buffer was too short (MPI_ERR_TRUNCATE), "
              "is none: it is among the errors. null: some of its operations found no room (requests_omitted)"},
    {"received_bytes", FIELD_BYTES, FIELD_AT(struct mpi_matrix_cell, got_bytes), .flags = FIELD_OR_NULL,
     .json = got_bytes_json},
    {"one_sided", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, put_count), .about = "operations of `from` on `to`"},
    {"one_sided_bytes", FIELD_BYTES, FIELD_AT(struct mpi_matrix_cell, put_bytes)},
    {0}};

/* ---- all ---- */

static json_t *all_calls_json(const void *row, const void *all)
{
    return mpi_report_calls_json(((const struct mpi_report *)row)->calls, CALL_COUNT, all);
}

static json_t *all_spans_json(const void *row, const void *all)
{
    return mpi_report_calls_json(((const struct mpi_report *)row)->spans, CALL_COUNT, all);
}

static json_t *time_json(const void *row, const void *all)
{
    return mpi_report_time_json(&((const struct mpi_report *)row)->outermost, all);
}

static json_t *blocking_json(const void *row, const void *all)
{
    return mpi_report_time_json(&((const struct mpi_report *)row)->blocking, all);
}

static json_t *unmeasured_json(const void *row, const void *all)
{
    const struct mpi_report *report = row;
    json_t *list = json_array();
    if (report->clocks_off)
        json_array_append_new(list, json_string("clocks"));
    if (report->peers_off)
        json_array_append_new(list, json_string("peers"));
    if (report->requests_off)
        json_array_append_new(list, json_string("requests"));
    return list;
}

/* What a page says of a job that ended well. */
static json_t *summary_json(const void *row, const void *all)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const struct mpi_report *report = row;
    if (report->set.count && report->outermost.total_ns && !mpi_report_put_imbalance(&text, report))
        put_share(&text, report);
    return text.len ? text_json(text.data) : json_null();
}

static const struct field others_fields[] = {{"calls", FIELD_COUNT, FIELD_AT(struct mpi_report, others_count)},
                                             {"total_ns", FIELD_NS, FIELD_AT(struct mpi_report, others_ns)},
                                             {0}};

static const struct field mpi_fields[] = {
    {"summary", FIELD_TEXT, .flags = FIELD_OR_NULL, .json = summary_json,
     .about =
         "what the time of its ranks went into, in a sentence: which of them computed longer, and in which call the "
         "others waited, where that cost 5 s and a tenth of the time; else how much of it was in MPI. null: not "
         "measured"},
    {"ranks", FIELD_LIST, .json = mpi_report_ranks_json, .of = mpi_rank_fields},
    {"calls", FIELD_LIST, .json = all_calls_json, .of = mpi_call_fields, .about = "of all ranks"},
    {"spans", FIELD_LIST, .json = all_spans_json, .of = mpi_call_fields},
    {"time", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = time_json, .of = mpi_time_fields,
     .about = "null: not measured, or no rank came out of MPI_Init"},
    {"blocking", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = blocking_json, .of = mpi_time_fields},
    {"unmeasured", FIELD_LIST, .json = unmeasured_json, .of = fields_texts,
     .about = "what was switched off (--mpi-metrics): clocks, peers (matrix is empty then), requests"},
    {"sites", FIELD_LIST, FIELD_ROWS(struct mpi_report, sites, site_count), .of = mpi_site_fields},
    {"matrix", FIELD_LIST, FIELD_ROWS(struct mpi_report, matrix.cells, matrix.count), .of = cell_fields},
    {"communicators", FIELD_LIST, FIELD_ROWS(struct mpi_report, comms, comm_count), .of = mpi_comm_fields},
    {"in_own_functions", FIELD_LIST, .json = own_json, .of = own_fields,
     .about = "functions of MPI that the program itself has, a tool that is linked into it: its calls are counted, not "
              "what the program calls of it"},
    {"unreadable", FIELD_COUNT, FIELD_AT(struct mpi_report, unreadable_count),
     .about = "files of statistics that could not be read"},
    {"other_threads", FIELD_OBJECT, .of = others_fields,
     .about = "calls of threads that are not the rank; in calls and sites, but in no time"},
    {0}};

const struct field report_mpi_fields[] = {
    {"mpi", FIELD_OBJECT, .flags = FIELD_OR_NULL, .of = mpi_fields, .about = "programs that use MPI; null: none"}, {0}};

void mpi_report_json(json_t *json, const struct mpi_report *report)
{
    json_object_set_new(json, "mpi", report ? fields_json(mpi_fields, report, report) : json_null());
}

void report_mpi_json(json_t *object, const struct job_report *report)
{
    mpi_report_json(object, report->mpi);
}
