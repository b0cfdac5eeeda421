/* SPDX-License-Identifier: Apache-2.0 */
/* Section of the report of MPI: its ranks, and how evenly things are spread over them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/look.h"
#include "jobdir/report/mpi_internal.h"
#include "jobdir/text/text.h"

enum { NAMED_RANKS = 4, SHOWN_RANKS = 32, /* singly; of more, the ends of the list by share */ SHOWN_ENDS = 8 };

int mpi_report_only(struct mpi_report *report, int32_t rank)
{
    struct mpi_stats_set *set = &report->set;
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->ranks[i].rank == rank)
            set->ranks[kept++] = set->ranks[i];
    if (!kept)
        return -ENOENT;
    set->count = kept;
    *report = (struct mpi_report){.set = report->set,
                                  .arena = report->arena,
                                  .unreadable = report->unreadable,
                                  .unreadable_count = report->unreadable_count};
    return mpi_report_add_up(report);
}

struct mpi_who mpi_report_who(const struct mpi_report *report, const struct mpi_stats *stats)
{
    size_t index = (size_t)(stats - report->set.ranks);
    return (struct mpi_who){stats->rank, report->worlds > 1 ? report->world_of[index] + 1 : 0};
}

/* ---- threads ---- */

static void put_is_rank(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_puts(out, ((const struct mpi_stats_thread *)row)->is_main ? "the rank" : "");
}

static json_t *outermost_json(const void *row, const void *all)
{
    return mpi_report_time_json(&((const struct mpi_stats_thread *)row)->outermost, all);
}

static json_t *blocking_json(const void *row, const void *all)
{
    return mpi_report_time_json(&((const struct mpi_stats_thread *)row)->blocking, all);
}

static const struct field thread_fields[] = {
    {"tid", FIELD_INTEGER, FIELD_AT(struct mpi_stats_thread, tid), .column = FIELD_COLUMN(1, 2, 8, "Threads")},
    {"is_rank", FIELD_BOOL, FIELD_AT(struct mpi_stats_thread, is_main), .about = "it called MPI_Init",
     .column = FIELD_COLUMN(6, 2, 0, .text = put_is_rank)},
    {"name", FIELD_TEXT, FIELD_AT(struct mpi_stats_thread, name), .column = FIELD_COLUMN(2, 2, -16)},
    {"errors", FIELD_COUNT, FIELD_AT(struct mpi_stats_thread, errors),
     .about = "calls that returned another than MPI_SUCCESS"},
    {"time", FIELD_OBJECT, FIELD_AT(struct mpi_stats_thread, outermost), .flags = FIELD_OR_NULL, .json = outermost_json,
     .of = mpi_time_fields, .column = FIELD_COLUMN(.place = 3), .about = "null: not measured"},
    {"blocking", FIELD_OBJECT, FIELD_AT(struct mpi_stats_thread, blocking), .flags = FIELD_OR_NULL,
     .json = blocking_json, .of = mpi_time_fields},
    {0}};

/* ---- ranks ---- */

struct rank_row {
    const struct mpi_stats *stats;
    const struct mpi_stats_clock *time, *blocking;
    uint32_t world;
};

static json_t *end_signal_json(const void *row, const void *all)
{
    int status = ((const struct mpi_stats_end *)row)->status;
    return status != JOB_STATUS_UNKNOWN && WIFSIGNALED(status) ? json_integer(WTERMSIG(status)) : json_null();
}

static json_t *end_code_json(const void *row, const void *all)
{
    int status = ((const struct mpi_stats_end *)row)->status;
    return status != JOB_STATUS_UNKNOWN && WIFEXITED(status) ? json_integer(WEXITSTATUS(status)) : json_null();
}

static const struct field end_fields[] = {
    {"seconds", FIELD_SECONDS, FIELD_AT(struct mpi_stats_end, seconds), .about = "since the start of the job"},
    {"signal", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = end_signal_json},
    {"exit_code", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = end_code_json},
    {"first", FIELD_BOOL, FIELD_AT(struct mpi_stats_end, first),
     .about = "of its MPI_COMM_WORLD the first that ended, and without MPI_Finalize"},
    {0}};

/* As the records of the job have it. */
static json_t *end_json(const void *row, const void *all)
{
    const struct mpi_stats_end *end = &((const struct mpi_stats *)row)->end;
    return end->known ? fields_json(end_fields, end, all) : json_null();
}

static json_t *state_json(const void *row, const void *all)
{
    const char *fate = mpi_report_fate(row);
    return json_string(*fate ? fate : "ended");
}

static json_t *abort_json(const void *row, const void *all)
{
    const struct mpi_stats *stats = row;
    return stats->aborted ? json_integer(stats->abort_code) : json_null();
}

static json_t *reset_json(const void *row, const void *all)
{
    const struct mpi_stats *stats = row;
    return stats->resets ? json_integer((json_int_t)stats->reset_ns) : json_null();
}

static json_t *calls_json(const void *row, const void *all)
{
    return mpi_report_calls_json(((const struct mpi_stats *)row)->rows, ((const struct mpi_stats *)row)->row_count,
                                 all);
}

static json_t *spans_json(const void *row, const void *all)
{
    return mpi_report_calls_json(((const struct mpi_stats *)row)->spans, ((const struct mpi_stats *)row)->span_count,
                                 all);
}

static void put_end(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_stats *stats = row;
    buf_puts(out, stats->running ? "running" : "");
    mpi_end_text(out, stats);
}

static const struct field stats_fields[] = {
    {"rank", FIELD_INTEGER, FIELD_AT(struct mpi_stats, rank), .column = FIELD_COLUMN(2, 2, 5, "Rank")},
    {"node", FIELD_TEXT, FIELD_AT(struct mpi_stats, node), .column = FIELD_COLUMN(3, 2, -14, "host")},
    {"pid", FIELD_INTEGER, FIELD_AT(struct mpi_stats, pid), .column = FIELD_COLUMN(4, 1, 8, "pid")},
    {"program", FIELD_TEXT, FIELD_AT(struct mpi_stats, exe)},
    {"library", FIELD_TEXT, FIELD_AT(struct mpi_stats, library), .about = "openmpi or mpich"},
    {"thread_level", FIELD_INTEGER, FIELD_AT(struct mpi_stats, thread_level),
     .about = "0 MPI_THREAD_SINGLE to 3 MPI_THREAD_MULTIPLE; -1: not known"},
    {"state", FIELD_TEXT, .json = state_json,
     .about = "ended, running, died without MPI_Finalize, lost with its node, called MPI_Abort, never called MPI_Init, "
              "ended inside of MPI_Init, not counted to the end"},
    {"end", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = end_json, .of = end_fields,
     .about = "how its process ended; null: it runs, or nobody saw it"},
    {"spawned", FIELD_BOOL, FIELD_AT(struct mpi_stats, spawned), .about = "its program was started by MPI_Comm_spawn"},
    {"abort_code", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = abort_json},
    {"fault", FIELD_TEXT, FIELD_AT(struct mpi_stats, fault), FIELD_ZERO_IS_NULL, .about = "why counting stopped"},
    {"omitted", FIELD_COUNT, FIELD_AT(struct mpi_stats, omitted),
     .about = "calls, requests and bytes that found no room; of these:"},
    {"requests_omitted", FIELD_COUNT, FIELD_AT(struct mpi_stats, requests_omitted),
     .about = "non-blocking operations: what these received is in no number, and received_bytes and received_messages "
              "that it would be in are null"},
    {"sites_omitted", FIELD_COUNT, FIELD_AT(struct mpi_stats, sites_omitted),
     .about = "calls that are of no call site"},
    {"peers_omitted", FIELD_COUNT, FIELD_AT(struct mpi_stats, peers_omitted),
     .about = "calls of which nothing is in matrix and communicators"},
    {"polls_untimed", FIELD_COUNT, FIELD_AT(struct mpi_stats, polls_untimed),
     .about = "calls that asked in vain (MPI_Test, MPI_Iprobe ...) and came too fast to be timed one by one: all are "
              "counted, and their times are estimated from those in between that were timed"},
    {"receives_freed", FIELD_COUNT, FIELD_AT(struct mpi_stats, receives_freed),
     .about = "receives given up by MPI_Request_free: what they got is in no number"},
    {"resets", FIELD_COUNT, FIELD_AT(struct mpi_stats, resets),
     .about = "how often counting began anew: what was before is in no number"},
    {"reset_ns", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = reset_json,
     .about = "when, the last time: after MPI_Init; null: never"},
    {"paused_ns", FIELD_NS, FIELD_AT(struct mpi_stats, paused_ns),
     .about = "between MPI_Init and MPI_Finalize, in which nothing was counted; but before a reset"},
    {"init_ns", FIELD_NS, FIELD_AT(struct mpi_stats, init_ns)},
    {"finalize_ns", FIELD_NS, FIELD_AT(struct mpi_stats, finalize_ns)},
    {"started_seconds", FIELD_SECONDS, FIELD_AT(struct mpi_stats, started_wall_ns), .about = "since 1970"},
    {"calls", FIELD_LIST, .json = calls_json, .of = mpi_call_fields},
    {"spans", FIELD_LIST, .json = spans_json, .of = mpi_call_fields,
     .about = "non-blocking operations, from their begin to their completion"},
    {"threads", FIELD_LIST, FIELD_ROWS(struct mpi_stats, threads, thread_count), .of = thread_fields},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(10, 2, 0, .text = put_end)},
    {0}};

static json_t *share_json(const void *row, const void *all)
{
    const struct mpi_stats_clock *clock = row;
    return json_real(clock->total_ns ? (double)clock->communicate_ns / (double)clock->total_ns : 0);
}

static void put_share(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_stats_clock *clock = row;
    buf_printf(out, "%.2f %%", mpi_report_percent(clock->communicate_ns, clock->total_ns));
}

static const struct field share_fields[] = {
    {"run_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, total_ns),
     .about = "from MPI_Init's return to MPI_Finalize's entry",
     .column = FIELD_COLUMN(5, 1, 11, "run time", .none = "-")},
    {"computation_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_ns),
     .column = FIELD_COLUMN(6, 0, 12, "computation", .none = "-")},
    {"communication_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, communicate_ns),
     .about = "inside any outermost call", .column = FIELD_COLUMN(7, 0, 14, "communication", .none = "-")},
    {"share", FIELD_NUMBER, .json = share_json, .about = "of communication",
     .column = FIELD_COLUMN(8, 1, 9, "in MPI", .none = "-", .text = put_share)},
    {0}};

static void put_blocking(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct rank_row *rank = row;
    if (rank->time)
        put_share(out, NULL, rank->blocking, all);
    else
        buf_putc(out, '-');
}

static bool has_programs(const void *all)
{
    return ((const struct mpi_report *)all)->worlds > 1;
}

static void put_program(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%u", ((const struct rank_row *)row)->world + 1);
}

const struct field mpi_rank_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct rank_row, stats), FIELD_POINTER, .of = stats_fields},
    {"", FIELD_PART, FIELD_AT(struct rank_row, time), FIELD_POINTER | FIELD_OR_NULL, .of = share_fields},
    {"world", FIELD_COUNT, FIELD_AT(struct rank_row, world), .about = "which MPI_COMM_WORLD of the job, from 0",
     .column = FIELD_COLUMN(1, 0, 4, "Prog", .when = has_programs, .text = put_program)},
    {"blocking", FIELD_OBJECT, FIELD_AT(struct rank_row, blocking), FIELD_POINTER | FIELD_OR_NULL,
     .of = mpi_time_fields, .about = "inside blocking calls only"},
    {"time", FIELD_OBJECT, FIELD_AT(struct rank_row, time), FIELD_POINTER | FIELD_OR_NULL, .of = mpi_time_fields,
     .about = "null, as run_ns and so on: not measured (--mpi-metrics)"},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(9, 1, 10, "blocking", .text = put_blocking)},
    {0}};

static struct rank_row rank_row_of(const struct mpi_report *report, size_t index)
{
    const struct mpi_stats *stats = &report->set.ranks[index];
    return (struct rank_row){stats, stats->clocks_off ? NULL : mpi_report_clock(stats, false),
                             stats->clocks_off ? NULL : mpi_report_clock(stats, true), report->world_of[index]};
}

json_t *mpi_report_ranks_json(const void *row, const void *all)
{
    const struct mpi_report *report = row;
    json_t *list = json_array();
    for (size_t i = 0; i < report->set.count; i++) {
        const struct rank_row rank = rank_row_of(report, i);
        json_array_append_new(list, fields_json(mpi_rank_fields, &rank, all));
    }
    return list;
}

/* ---- for people ---- */

static void put_rank(struct buf *out, const struct mpi_report *report, size_t index)
{
    struct rank_row row = rank_row_of(report, index);
    row.time = row.time && row.time->total_ns ? row.time : NULL;
    fields_row(out, mpi_rank_fields, &row, report);
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

void mpi_report_put_ranks(struct buf *out, const struct mpi_report *report)
{
    size_t count = report->set.count;
    buf_putc(out, '\n');
    fields_title(out, mpi_rank_fields, report);
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

void mpi_report_put_rank(struct buf *out, const struct mpi_report *report, size_t index)
{
    buf_putc(out, '\n');
    fields_title(out, mpi_rank_fields, report);
    put_rank(out, report, index);
}

void mpi_report_put_threads(struct buf *out, const struct mpi_stats *stats)
{
    size_t count = stats->thread_count > 1 ? stats->thread_count : 0;
    fields_table(out, &(struct field_table){thread_fields}, stats->threads, count, sizeof *stats->threads, stats);
}

/* ---- how evenly things are spread ---- */

void mpi_spread_add(struct mpi_spread *spread, struct mpi_who who, double value)
{
    if (!spread->count || value < spread->least) {
        spread->least = value;
        spread->low = who;
    }
    if (!spread->count || value > spread->most) {
        spread->most = value;
        spread->high = who;
    }
    spread->sum += value;
    spread->count++;
}

static void put_value(struct buf *out, const struct mpi_spread *spread, double value)
{
    if (spread->kind == MPI_SPREAD_NS)
        text_ns(out, value);
    else if (spread->kind == MPI_SPREAD_BYTES)
        text_size(out, (uint64_t)value);
    else
        buf_printf(out, "%.0f", value);
}

static void put_extreme(struct buf *out, const void *at, const void *row, const void *all)
{
    put_value(out, row, *(const double *)at);
}

/* As it is: names were made for people already. */
static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_puts(out, *(const char *const *)at);
}

static void put_average(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_spread *spread = row;
    put_value(out, spread, spread->sum / (double)spread->count);
}

static void put_ratio(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_spread *spread = row;
    if (spread->sum > 0)
        buf_printf(out, "%.2f x", spread->most / (spread->sum / (double)spread->count));
}

static bool one_program(const void *all)
{
    return !*(const bool *)all;
}

static bool many_programs(const void *all)
{
    return *(const bool *)all;
}

/* Of a struct mpi_spread; they belong to a bool: whether there are several programs. */
static const struct field values_fields[] = {
    {.type = FIELD_NUMBER,
     FIELD_AT(struct mpi_spread, least),
     .column = FIELD_COLUMN(2, 0, 12, "least", .text = put_extreme)},
    {.type = FIELD_COUNT,
     FIELD_AT(struct mpi_spread, low.program),
     .column = FIELD_COLUMN(3, 0, 6, "(prog", .when = many_programs)},
    {.type = FIELD_INTEGER,
     FIELD_AT(struct mpi_spread, low.rank),
     .column = FIELD_COLUMN(4, 0, 6, "rank)", .when = many_programs)},
    {.type = FIELD_INTEGER,
     FIELD_AT(struct mpi_spread, low.rank),
     .column = FIELD_COLUMN(4, 0, 7, "(rank)", .when = one_program)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(5, 0, 12, "average", .text = put_average)},
    {.type = FIELD_NUMBER,
     FIELD_AT(struct mpi_spread, most),
     .column = FIELD_COLUMN(6, 0, 12, "most", .text = put_extreme)},
    {.type = FIELD_COUNT,
     FIELD_AT(struct mpi_spread, high.program),
     .column = FIELD_COLUMN(7, 0, 6, "(prog", .when = many_programs)},
    {.type = FIELD_INTEGER,
     FIELD_AT(struct mpi_spread, high.rank),
     .column = FIELD_COLUMN(8, 0, 6, "rank)", .when = many_programs)},
    {.type = FIELD_INTEGER,
     FIELD_AT(struct mpi_spread, high.rank),
     .column = FIELD_COLUMN(8, 0, 7, "(rank)", .when = one_program)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(9, 0, 14, "most/average", .text = put_ratio)},
    {0}};

static const struct field spread_fields[] = {
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(1, 0, -13)},
    {.type = FIELD_PART, .of = values_fields},
    {.type = FIELD_TEXT, FIELD_AT(struct mpi_spread, name), .column = FIELD_COLUMN(10, 2, 0, .text = put_name)},
    {0}};

void mpi_spread_put(struct buf *out, const struct mpi_spread *spread, const char *title, bool programs)
{
    if (title)
        fields_table(out, &(struct field_table){spread_fields, title}, spread, 1, sizeof *spread, &programs);
    else
        fields_row(out, spread_fields, spread, &programs);
}

static uint64_t sent_by(const struct mpi_stats *stats, bool bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < stats->peer_count; i++)
        if (stats->peers[i].call == CALL_NONE)
            sum += bytes ? stats->peers[i].sent_bytes : stats->peers[i].sent_count;
    return sum;
}

static const struct field balance_fields[] = {
    {.type = FIELD_TEXT, FIELD_AT(struct mpi_spread, name), .column = FIELD_COLUMN(1, 2, -15, "Balance over ranks")},
    {.type = FIELD_PART, .of = values_fields},
    {0}};

void mpi_report_put_balance(struct buf *out, const struct mpi_report *report)
{
    enum { BALANCE_MESSAGES = 3 /* from here on of peers, the others of clocks */, BALANCES = 5 };
    struct mpi_spread balances[BALANCES] = {{.name = "run time"},
                                            {.name = "computation"},
                                            {.name = "communication"},
                                            {.name = "messages sent", .kind = MPI_SPREAD_COUNT},
                                            {.name = "bytes sent", .kind = MPI_SPREAD_BYTES}};
    for (size_t i = 0; i < report->set.count; i++) {
        const struct mpi_stats *stats = &report->set.ranks[i];
        const struct mpi_stats_clock *clock = mpi_report_clock(stats, false);
        const double values[BALANCES] = {(double)clock->total_ns, (double)clock->compute_ns,
                                         (double)clock->communicate_ns, (double)sent_by(stats, false),
                                         (double)sent_by(stats, true)};
        for (size_t k = 0; k < BALANCES; k++)
            mpi_spread_add(&balances[k], mpi_report_who(report, stats), values[k]);
    }
    size_t first = report->clocks_off ? BALANCE_MESSAGES : 0, end = report->peers_off ? BALANCE_MESSAGES : BALANCES;
    bool programs = report->worlds > 1;
    if (report->set.count > 1 && first < end)
        fields_table(out, &(struct field_table){balance_fields}, balances + first, end - first, sizeof *balances,
                     &programs);
}

/* ---- who was waited for ---- */

/* What others wait for, on a busy node too, is longer: a tenth of the time of a rank, and of a job of more than a few seconds. */
static const uint64_t UNEVEN_LEAST_NS = 5000000000;
enum { UNEVEN_PART = 10 };

/* Of one MPI_COMM_WORLD, in the order of how long they computed, the longest first. */
struct imbalance {
    const struct mpi_stats **ranks;
    size_t count, late; /* late: so many are waited for */
    uint64_t lost_ns;   /* by all, against the longest */
};

static uint64_t computed_ns(const struct mpi_stats *stats)
{
    return mpi_report_clock(stats, false)->compute_ns;
}

static int by_computed(const void *a, const void *b)
{
    const struct mpi_stats *const *left = a, *const *right = b;
    uint64_t one = computed_ns(*left), other = computed_ns(*right);
    return one != other ? (one < other ? 1 : -1) : ((*left)->rank > (*right)->rank) - ((*left)->rank < (*right)->rank);
}

static int by_number(const void *a, const void *b)
{
    const struct mpi_stats *const *left = a, *const *right = b;
    return ((*left)->rank > (*right)->rank) - ((*left)->rank < (*right)->rank);
}

/* false: it costs nothing worth a word. */
static bool imbalance_measure(struct imbalance *all)
{
    qsort(all->ranks, all->count, sizeof *all->ranks, by_computed);
    if (all->count < 2)
        return false;
    uint64_t most_ns = computed_ns(all->ranks[0]), usual_ns = computed_ns(all->ranks[all->count / 2]);
    uint64_t ran_ns = mpi_report_clock(all->ranks[all->count / 2], false)->total_ns;
    if (most_ns - usual_ns < UNEVEN_LEAST_NS || most_ns - usual_ns < ran_ns / UNEVEN_PART)
        return false;
    for (size_t i = 0; i < all->count; i++) {
        all->lost_ns += most_ns - computed_ns(all->ranks[i]);
        all->late += computed_ns(all->ranks[i]) > usual_ns + (most_ns - usual_ns) / 2;
    }
    return true;
}

/* The call in which ranks were longest; CALL_NONE, where that was less than half of what they were in MPI. */
static uint32_t longest_call(const struct mpi_stats *const *ranks, size_t count, uint64_t *ret_ns)
{
    uint64_t by_call[CALL_COUNT] = {0}, all_ns = 0;
    uint32_t longest = 0;
    for (size_t i = 0; i < count; i++) {
        all_ns += mpi_report_clock(ranks[i], false)->communicate_ns;
        for (size_t k = 0; k < ranks[i]->row_count; k++) {
            const struct mpi_stats_row *row = &ranks[i]->rows[k];
            if (row->call < CALL_COUNT && !mpi_report_is_outside(row->call))
                by_call[row->call] += row->total_ns > row->others_ns ? row->total_ns - row->others_ns : 0;
        }
    }
    for (uint32_t call = 0; call < CALL_COUNT; call++)
        longest = by_call[call] > by_call[longest] ? call : longest;
    bool most = by_call[longest] > all_ns / 2;
    *ret_ns = most ? by_call[longest] : all_ns;
    return most ? longest : CALL_NONE;
}

static void put_late(struct buf *out, const struct mpi_report *report, const struct imbalance *all)
{
    qsort(all->ranks, all->late, sizeof *all->ranks, by_number);
    if (all->late > NAMED_RANKS) {
        buf_printf(out, "%zu ranks", all->late);
    } else if (all->late == 1) {
        mpi_text_who(out, mpi_report_who(report, all->ranks[0]));
        return;
    } else {
        for (size_t i = 0; i < all->late; i++)
            buf_printf(out, "%s%d", !i ? "ranks " : i + 1 == all->late ? " and " : ", ", all->ranks[i]->rank);
    }
    if (report->worlds > 1)
        buf_printf(out, " of program %u", mpi_report_who(report, all->ranks[0]).program);
}

static void put_imbalance(struct buf *out, const struct mpi_report *report, const struct imbalance *all)
{
    const struct mpi_stats *const *others = all->ranks + all->late;
    size_t count = all->count - all->late;
    uint64_t most_ns = computed_ns(all->ranks[0]), other_ns = 0, waited_ns;
    uint32_t call = longest_call(others, count, &waited_ns);
    for (size_t i = 0; i < count; i++)
        other_ns += computed_ns(others[i]);
    put_late(out, report, all);
    buf_puts(out, all->late > 1 ? " computed for up to " : " computed for ");
    text_ns(out, (double)most_ns);
    if (count == 1)
        buf_printf(out, ", rank %d for ", others[0]->rank);
    else
        buf_printf(out, ", the %zu others for ", count);
    text_ns(out, (double)other_ns / (double)count);
    buf_printf(out, "%s; %s waited in %s for ", count > 1 ? " on average" : "", count > 1 ? "they" : "it",
               call == CALL_NONE ? "MPI" : mpi_text_call(call));
    text_ns(out, (double)waited_ns / (double)count);
}

bool mpi_report_put_imbalance(struct buf *out, const struct mpi_report *report)
{
    struct imbalance worst = {0};
    _cleanup_(freep) const struct mpi_stats **ranks = calloc(report->set.count + 1, sizeof *ranks);
    for (size_t i = 0, next; ranks && !report->clocks_off && i < report->set.count; i = next) {
        struct imbalance one = {.ranks = ranks + i};
        for (next = i; next < report->set.count && report->world_of[next] == report->world_of[i]; next++)
            if (mpi_report_clock(&report->set.ranks[next], false)->total_ns)
                one.ranks[one.count++] = &report->set.ranks[next];
        if (imbalance_measure(&one) && one.lost_ns > worst.lost_ns)
            worst = one;
    }
    if (worst.late)
        put_imbalance(out, report, &worst);
    return worst.late;
}
