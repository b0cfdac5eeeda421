/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of the report of MPI: its calls, after Table 2 of the paper (mpi_report.h), where they come from, and communicators. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/mpi_internal.h"
#include "jobdir/text/text.h"

enum { NAME_WIDTH = 26, SHOWN_SITES = 20, SHOWN_SPREAD = 10 };

/* "  (2 more open: 3.2 s)": calls that have not ended. */
static void mpi_report_put_open(struct buf *out, uint64_t open, uint64_t open_ns)
{
    if (!open)
        return;
    buf_printf(out, "  (%" PRIu64 " more open: ", open);
    text_ns(out, (double)open_ns);
    buf_putc(out, ')');
}

static json_t *class_json(const void *row, const void *all)
{
    return json_string(call_class_names[call_infos[((const struct mpi_stats_row *)row)->call].class]);
}

/* What is sent and received stands in the table, too. */
static bool moves(const void *all)
{
    return *(const bool *)all;
}

static void put_min(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_stats_row *of = row;
    if (of->max_ns)
        text_ns(out, (double)of->min_ns);
    else
        buf_putc(out, '-');
}

/* Calls that have not ended are in the total only; a total of 0: calls were only counted. */
static void put_average(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_stats_row *of = row;
    if (of->count && of->total_ns)
        text_ns(out, (double)(of->total_ns - of->open_ns) / (double)of->count);
    else
        buf_putc(out, '-');
}

static void put_bytes(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_stats_row *of = row;
    if (of->args_bytes || of->sent_bytes || of->got_bytes)
        text_size(out, *(const uint64_t *)at);
}

void mpi_report_put_received(struct buf *out, const struct mpi_stats_row *row)
{
    if (row->got_unknown) {
        buf_putc(out, '-');
        return;
    }
    buf_puts(out, row->got_least ? "> " : "");
    text_size(out, row->got_bytes);
}

static void put_received(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_stats_row *of = row;
    if (of->args_bytes || of->sent_bytes || of->got_bytes)
        mpi_report_put_received(out, of);
}

static json_t *received_json(const void *row, const void *all)
{
    const struct mpi_stats_row *of = row;
    return of->got_unknown || of->got_least ? json_null() : json_integer((json_int_t)of->got_bytes);
}

static void put_open(struct buf *out, const void *at, const void *row, const void *all)
{
    mpi_report_put_open(out, ((const struct mpi_stats_row *)row)->open, ((const struct mpi_stats_row *)row)->open_ns);
}

const struct field mpi_call_fields[] = {
    {"name", FIELD_TEXT, FIELD_NAMED(struct mpi_stats_row, call, mpi_text_call)},
    {"class", FIELD_TEXT, .json = class_json,
     .about = "p2p, completion, collective, onesided, io, comm, type, group, info, env, other, tool"},
    {"calls", FIELD_COUNT, FIELD_AT(struct mpi_stats_row, count), .column = FIELD_COLUMN(2, 0, 12, "count")},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_stats_row, args_bytes),
     .about = "as the arguments say: count times size of the datatype",
     .column = FIELD_COLUMN(7, 0, 10, "arguments", .text = put_bytes)},
    {"sent_bytes", FIELD_BYTES, FIELD_AT(struct mpi_stats_row, sent_bytes), .about = "transferred",
     .column = FIELD_COLUMN(8, 0, 10, "sent", .when = moves, .text = put_bytes)},
    {"received_bytes", FIELD_BYTES, FIELD_AT(struct mpi_stats_row, got_bytes), .flags = FIELD_OR_NULL,
     .json = received_json,
     .about =
         "null: what arrived later was not measured (requests of --mpi-metrics), or not of all of these operations "
         "(requests_omitted)",
     .column = FIELD_COLUMN(9, 0, 10, "received", .when = moves, .text = put_received)},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, total_ns),
     .column = FIELD_COLUMN(5, 0, 12, "total", .none = "-", .zero = true)},
    {"min_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, min_ns),
     .column = FIELD_COLUMN(3, 0, 12, "min", .text = put_min)},
    {"max_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, max_ns),
     .column = FIELD_COLUMN(4, 0, 12, "max", .none = "-", .zero = true)},
    {"other_threads_calls", FIELD_COUNT, FIELD_AT(struct mpi_stats_row, others_count),
     .about = "of calls, those of threads that are not the rank"},
    {"other_threads_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, others_ns), .about = "of total_ns"},
    {"open", FIELD_COUNT, FIELD_AT(struct mpi_stats_row, open),
     .about = "further calls, that had not ended: in total_ns only"},
    {"open_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, open_ns), .about = "of total_ns",
     .column = FIELD_COLUMN(10, 0, 0, .text = put_open)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(6, 0, 12, "average", .text = put_average)},
    {0}};

json_t *mpi_report_calls_json(const struct mpi_stats_row *rows, size_t count, const void *all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if ((rows[i].count || rows[i].open) && rows[i].call > CALL_NONE && rows[i].call < CALL_COUNT)
            json_array_append_new(list, fields_json(mpi_call_fields, &rows[i], all));
    return list;
}

/* The columns are those of the table of threads. */
const struct field mpi_time_fields[] = {
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, total_ns),
     .about = "computation and communication, to the nanosecond"},
    {"computation_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_ns),
     .column = FIELD_COLUMN(3, 0, 14, "computation", .none = "-", .zero = true)},
    {"communication_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, communicate_ns),
     .column = FIELD_COLUMN(4, 0, 14, "communication", .none = "-", .zero = true)},
    {"count", FIELD_COUNT, FIELD_AT(struct mpi_stats_clock, count), .about = "intervals of communication",
     .column = FIELD_COLUMN(5, 1, 11, "calls")},
    {"computation_min_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_min_ns)},
    {"computation_max_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_max_ns)},
    {"communication_min_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, communicate_min_ns)},
    {"communication_max_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, communicate_max_ns)},
    {"computation_open_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_open_ns),
     .about = "of a running program: of the total, what goes on and has no length yet"},
    {"communication_open_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, communicate_open_ns)},
    {0}};

json_t *mpi_report_time_json(const struct mpi_stats_clock *clock, const void *all)
{
    return clock->total_ns ? fields_json(mpi_time_fields, clock, all) : json_null();
}

/* ---- for people ---- */

struct call_row {
    const char *name;
    const struct mpi_stats_row *row;
};

static const struct field named_fields[] = {
    {.type = FIELD_TEXT, FIELD_AT(struct call_row, name), .column = FIELD_COLUMN(1, 2, -NAME_WIDTH, .whole = true)},
    {"", FIELD_PART, FIELD_AT(struct call_row, row), FIELD_POINTER, .of = mpi_call_fields},
    {0}};

static int by_total(const void *a, const void *b)
{
    const struct mpi_stats_row *left = ((const struct call_row *)a)->row, *right = ((const struct call_row *)b)->row;
    if (mpi_report_is_outside(left->call) != mpi_report_is_outside(right->call))
        return mpi_report_is_outside(left->call) ? 1 : -1;
    if (left->total_ns != right->total_ns)
        return left->total_ns < right->total_ns ? 1 : -1;
    return left->call < right->call ? -1 : left->call > right->call;
}

static void put_table(struct buf *out, const struct mpi_stats_row *rows, size_t count, const char *title, bool moves)
{
    _cleanup_(freep) struct call_row *list = calloc(count + 1, sizeof *list);
    size_t used = 0;
    for (size_t i = 0; list && i < count; i++)
        if (rows[i].count || rows[i].open)
            list[used++] = (struct call_row){mpi_text_call(rows[i].call), &rows[i]};
    if (used)
        qsort(list, used, sizeof *list, by_total);
    fields_table(out, &(struct field_table){named_fields, title}, list, used, sizeof *list, &moves);
}

static void put_sum(struct buf *out, const char *name, struct mpi_stats_row row)
{
    fields_row(out, named_fields, &(struct call_row){name, &row}, &(bool){true});
}

/* What goes on now, of a program that runs, has no length yet: it is in the totals, and in no average. */
static void put_clock(struct buf *out, const struct mpi_stats_clock *clock, uint64_t finalized)
{
    if (!clock->total_ns)
        return;
    put_sum(out, "computation granularity",
            (struct mpi_stats_row){.count = clock->count + finalized,
                                   .min_ns = clock->compute_min_ns,
                                   .max_ns = clock->compute_max_ns,
                                   .total_ns = clock->compute_ns,
                                   .open_ns = clock->compute_open_ns});
    put_sum(out, "communication overhead",
            (struct mpi_stats_row){.count = clock->count,
                                   .min_ns = clock->communicate_min_ns,
                                   .max_ns = clock->communicate_max_ns,
                                   .total_ns = clock->communicate_ns,
                                   .open_ns = clock->communicate_open_ns});
}

void mpi_report_put_calls(struct buf *out, const struct mpi_report_calls *calls)
{
    put_table(out, calls->rows, calls->row_count, "Calls of MPI", true);
    put_clock(out, calls->outermost, calls->finalized);
    const struct mpi_stats_clock *all = calls->outermost, *blocking = calls->blocking;
    if (blocking->count && (blocking->count != all->count || blocking->communicate_ns != all->communicate_ns)) {
        buf_puts(out, "  of blocking calls only:\n");
        put_clock(out, blocking, calls->finalized);
    }
    if (calls->others_count)
        put_sum(out, "calls of other threads",
                (struct mpi_stats_row){.count = calls->others_count, .total_ns = calls->others_ns});
    put_table(out, calls->spans, calls->span_count, "Begun until completed", false);
}

/* ---- call sites ---- */

static json_t *site_world_json(const void *row, const void *all)
{
    const struct mpi_report *report = all;
    return json_integer(report->world_of[((const struct mpi_report_site_rank *)row)->index]);
}

static const struct field site_rank_fields[] = {
    {"rank", FIELD_INTEGER, FIELD_AT(struct mpi_report_site_rank, rank), .about = "-1: it has none (MPI_Session_init)"},
    {"world", FIELD_COUNT, .json = site_world_json, .about = "which MPI_COMM_WORLD of the job, from 0"},
    {"calls", FIELD_COUNT, FIELD_AT(struct mpi_report_site_rank, count)},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_report_site_rank, total_ns)},
    {"open_ns", FIELD_NS, FIELD_AT(struct mpi_report_site_rank, open_ns)},
    {0}};

static const struct field place_fields[] = {
    {"function", FIELD_TEXT, FIELD_AT(struct mpi_stats_site, function), FIELD_ZERO_IS_NULL},
    {"file", FIELD_TEXT, FIELD_AT(struct mpi_stats_site, file), FIELD_ZERO_IS_NULL},
    {"line", FIELD_INTEGER, FIELD_AT(struct mpi_stats_site, line), FIELD_ZERO_IS_NULL},
    {"module", FIELD_TEXT, FIELD_AT(struct mpi_stats_site, module)},
    {"offset", FIELD_COUNT, FIELD_AT(struct mpi_stats_site, offset), .about = "in the module, of the return address"},
    {0}};

static void put_site(struct buf *out, const struct mpi_stats_site *site)
{
    size_t before = out->len;
    mpi_text_site(out, site);
    if (out->len == before)
        buf_puts(out, "?");
}

static void put_site_average(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_report_site *site = row;
    if (site->count)
        text_ns(out, (double)(site->total_ns - site->open_ns) / (double)site->count);
    else
        buf_putc(out, '-');
}

/* A part of the rank's own time in MPI; calls of other threads are not in that. */
static uint64_t own_ns(uint64_t total_ns, uint64_t others_ns)
{
    return total_ns > others_ns ? total_ns - others_ns : 0;
}

static void put_share(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_report_site *site = row;
    uint64_t whole_ns = ((const struct mpi_report *)all)->outermost.communicate_ns;
    uint64_t own = own_ns(site->total_ns, site->others_ns);
    if (mpi_report_is_outside(site->call) || (!own && site->others_ns) || !whole_ns)
        buf_putc(out, '-');
    else
        buf_printf(out, "%.2f %%", mpi_report_percent(own, whole_ns));
}

static bool has_others(const void *all)
{
    return ((const struct mpi_report *)all)->others_ns != 0;
}

static void put_where(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_report_site *site = row;
    put_site(out, site->site);
    mpi_report_put_open(out, site->open, site->open_ns);
}

const struct field mpi_site_fields[] = {
    {"name", FIELD_TEXT, FIELD_NAMED(struct mpi_report_site, call, mpi_text_call), .about = "of the call",
     .column = FIELD_COLUMN(1, 2, -26, "Call sites", .whole = true)},
    {"", FIELD_PART, FIELD_AT(struct mpi_report_site, site), FIELD_POINTER, .of = place_fields},
    {"ranks", FIELD_COUNT, FIELD_AT(struct mpi_report_site, ranks), .about = "how many called from there",
     .column = FIELD_COLUMN(8, 1, 6, "ranks")},
    {"calls", FIELD_COUNT, FIELD_AT(struct mpi_report_site, count), .column = FIELD_COLUMN(2, 0, 12, "count")},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_site, args_bytes)},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, total_ns), .column = FIELD_COLUMN(3, 0, 12, "total")},
    {"min_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, min_ns)},
    {"max_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, max_ns),
     .column = FIELD_COLUMN(5, 0, 12, "max", .none = "-", .zero = true)},
    {"other_threads_calls", FIELD_COUNT, FIELD_AT(struct mpi_report_site, others_count),
     .about = "of calls, those of threads that are not the rank"},
    {"other_threads_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, others_ns), .about = "of total_ns",
     .column = FIELD_COLUMN(7, 0, 12, "others", .none = "-", .zero = true, .when = has_others)},
    {"open", FIELD_COUNT, FIELD_AT(struct mpi_report_site, open),
     .about = "further calls, that had not ended: in total_ns only"},
    {"open_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, open_ns), .about = "of total_ns"},
    {"by_rank", FIELD_LIST, FIELD_ROWS(struct mpi_report_site, by_rank, ranks), .of = site_rank_fields,
     .about = "the ranks that call from there"},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(4, 0, 12, "average", .text = put_site_average)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(6, 0, 9, "in MPI", .text = put_share)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(9, 2, 0, "where", .text = put_where)},
    {0}};

/* Ranks that do not call from there have no time there. */
static void put_sites_by_rank(struct buf *out, const struct mpi_report *report)
{
    size_t shown = 0;
    for (size_t i = 0; i < report->site_count && shown < SHOWN_SPREAD; i++) {
        const struct mpi_report_site *site = &report->sites[i];
        struct mpi_spread spread = {0};
        if (report->set.count < 2 || mpi_report_is_outside(site->call) || !site->total_ns)
            continue;
        for (size_t k = 0, at = 0; k < report->set.count; k++) {
            bool here = at < site->ranks && site->by_rank[at].index == k;
            mpi_spread_add(&spread, mpi_report_who(report, &report->set.ranks[k]),
                           here ? (double)site->by_rank[at].total_ns : 0);
            at += here;
        }
        _cleanup_(buf_done) struct buf name = BUF_INIT;
        buf_printf(&name, "%s  ", mpi_text_call(site->call));
        put_site(&name, site->site);
        spread.name = name.data ? name.data : "";
        mpi_spread_put(out, &spread, shown++ ? NULL : "Call sites by rank", report->worlds > 1);
    }
}

void mpi_report_put_sites(struct buf *out, const struct mpi_report *report)
{
    static const struct field_table table = {mpi_site_fields, .most = SHOWN_SITES,
                                             .more = " with less time (--json lists them)"};
    fields_table(out, &table, report->sites, report->site_count, sizeof *report->sites, report);
    if (report->site_count && report->unnamed[0]) {
        buf_puts(out, "  ");
        text_show(out, report->unnamed);
        buf_putc(out, '\n');
    }
    put_sites_by_rank(out, report);
}

/* ---- communicators ---- */

enum { SHOWN_COMMS = 20 };

static const struct mpi_stats_comm *comm_of(const void *row)
{
    const struct mpi_report_comm *comm = row;
    return &comm->stats->comms[comm->index];
}

static json_t *comm_name_json(const void *row, const void *all)
{
    const struct mpi_report_comm *comm = row;
    struct buf name = BUF_INIT;
    mpi_text_comm(&name, comm->stats, comm->index);
    json_t *json = text_json(name.data ? name.data : "");
    buf_done(&name);
    return json;
}

static json_t *kind_json(const void *row, const void *all)
{
    static const char *const kinds[] = {"free", "intra", "inter", "window", "file"};
    uint32_t kind = comm_of(row)->kind;
    return json_string(kind < 5 ? kinds[kind] : "?");
}

static json_t *size_json(const void *row, const void *all)
{
    return json_integer(comm_of(row)->size);
}

static json_t *remote_size_json(const void *row, const void *all)
{
    return json_integer(comm_of(row)->remote_size);
}

static json_t *members_json(const void *row, const void *all)
{
    const struct mpi_stats_comm *own = comm_of(row);
    if (!own->ranks && (int64_t)own->size == ((const struct mpi_report_comm *)row)->stats->world_size)
        return json_null();
    json_t *ranks = json_array();
    for (uint32_t i = 0; i < own->size; i++)
        json_array_append_new(ranks, json_integer(own->ranks ? own->ranks[i] : (int32_t)i));
    return ranks;
}

/* ---- for people ---- */

static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_report_comm *comm = row;
    mpi_text_comm(out, comm->stats, comm->index);
}

/* Both groups of an intercommunicator together. */
static void put_size(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%u", comm_of(row)->size + comm_of(row)->remote_size);
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

static void put_ranks(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_report_comm *comm = row;
    const struct mpi_report *report = all;
    put_members(out, comm->stats, comm_of(row));
    if (report->worlds > 1)
        buf_printf(out, " of program %u", mpi_report_who(report, comm->stats).program);
}

static bool is_one_sided(const void *all)
{
    const struct mpi_report *report = all;
    for (size_t i = 0; i < report->comm_count; i++)
        if (report->comms[i].moved.one_sided)
            return true;
    return false;
}

static const struct field moved_fields[] = {
    {"messages", FIELD_COUNT, FIELD_AT(struct mpi_report_moved, messages), .about = "of the user",
     .column = FIELD_COLUMN(4, 1, 11, "messages", .none = "-")},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, bytes),
     .column = FIELD_COLUMN(5, 1, 11, "bytes", .none = "-")},
    {"collective_bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, coll_args)},
    {"collective_sent_bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, coll_sent),
     .column = FIELD_COLUMN(6, 0, 17, "of collectives", .none = "-")},
    {"collective_received_bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, coll_got)},
    {"one_sided_bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, one_sided),
     .about = "of one-sided operations on a window, put or got",
     .column = FIELD_COLUMN(7, 0, 11, "one-sided", .when = is_one_sided)},
    {0}};

const struct field mpi_comm_fields[] = {
    {"name", FIELD_TEXT, .json = comm_name_json, .column = FIELD_COLUMN(1, 2, -38, "Communicators", .text = put_name)},
    {"kind", FIELD_TEXT, .json = kind_json, .about = "intra, inter, window, file"},
    {"size", FIELD_COUNT, .json = size_json, .column = FIELD_COLUMN(2, 1, 6, "size", .text = put_size)},
    {"remote_size", FIELD_COUNT, .json = remote_size_json},
    {"ranks", FIELD_LIST, .flags = FIELD_OR_NULL, .json = members_json, .of = fields_integers,
     .about = "of MPI_COMM_WORLD; null: all", .column = FIELD_COLUMN(8, 2, 0, "ranks", .text = put_ranks)},
    {"seen_by", FIELD_COUNT, FIELD_AT(struct mpi_report_comm, ranks), .about = "ranks that have it"},
    {"collectives", FIELD_COUNT, FIELD_AT(struct mpi_report_comm, collectives),
     .column = FIELD_COLUMN(3, 1, 12, "collectives")},
    {"", FIELD_PART, FIELD_AT(struct mpi_report_comm, measured), FIELD_POINTER | FIELD_OR_NULL, .of = moved_fields},
    {0}};

void mpi_report_put_comms(struct buf *out, const struct mpi_report *report)
{
    if (!report->comm_count)
        return;
    buf_putc(out, '\n');
    fields_title(out, mpi_comm_fields, report);
    for (size_t i = 0; i < report->comm_count && i < SHOWN_COMMS; i++)
        fields_row(out, mpi_comm_fields, &report->comms[i], report);
    if (report->comm_count > SHOWN_COMMS)
        buf_printf(out, "  ... and %zu more (--json lists them)\n", report->comm_count - SHOWN_COMMS);
}
