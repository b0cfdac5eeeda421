/* SPDX-License-Identifier: Apache-2.0 */
/* Section of the report of MPI: where its calls come from. */
#include "base/data/cleanup.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/mpi_internal.h"
#include "jobdir/text/text.h"

enum { SHOWN_SITES = 20, SHOWN_SPREAD = 10 };

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

/* ---- for people ---- */

static void put_site(struct buf *out, const struct mpi_stats_site *site)
{
    size_t before = out->len;
    mpi_text_site(out, site);
    if (out->len == before)
        buf_puts(out, "?");
}

static void put_average(struct buf *out, const void *at, const void *row, const void *all)
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
     .column = {1, 2, -26, "Call sites", .whole = true}},
    {"", FIELD_PART, FIELD_AT(struct mpi_report_site, site), FIELD_POINTER, .of = place_fields},
    {"ranks", FIELD_COUNT, FIELD_AT(struct mpi_report_site, ranks), .about = "how many called from there",
     .column = {8, 1, 6, "ranks"}},
    {"calls", FIELD_COUNT, FIELD_AT(struct mpi_report_site, count), .column = {2, 0, 12, "count"}},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_site, args_bytes)},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, total_ns), .column = {3, 0, 12, "total"}},
    {"min_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, min_ns)},
    {"max_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, max_ns),
     .column = {5, 0, 12, "max", .none = "-", .zero = true}},
    {"other_threads_calls", FIELD_COUNT, FIELD_AT(struct mpi_report_site, others_count),
     .about = "of calls, those of threads that are not the rank"},
    {"other_threads_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, others_ns), .about = "of total_ns",
     .column = {7, 0, 12, "others", .none = "-", .zero = true, .when = has_others}},
    {"open", FIELD_COUNT, FIELD_AT(struct mpi_report_site, open),
     .about = "further calls, that had not ended: in total_ns only"},
    {"open_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, open_ns), .about = "of total_ns"},
    {"by_rank", FIELD_LIST, FIELD_ROWS(struct mpi_report_site, by_rank, ranks), .of = site_rank_fields,
     .about = "the ranks that call from there"},
    {.type = FIELD_SHOWN, .column = {4, 0, 12, "average", .text = put_average}},
    {.type = FIELD_SHOWN, .column = {6, 0, 9, "in MPI", .text = put_share}},
    {.type = FIELD_SHOWN, .column = {9, 2, 0, "where", .text = put_where}},
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
