/* SPDX-License-Identifier: Apache-2.0 */
/* The report of one rank alone, and how evenly things are spread over all of them. */
#include <errno.h>
#include <inttypes.h>

#include "jobdir/report/mpi_internal.h"
#include "jobdir/text/text.h"

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

void mpi_spread_title(struct buf *out, const char *title, bool programs)
{
    const char *column = mpi_text_who_title(programs);
    buf_printf(out, "\n%-18s  least%s     average        most%s  most/average\n", title, column, column);
}

void mpi_spread_put(struct buf *out, const struct mpi_spread *spread)
{
    double average = spread->sum / (double)spread->count;
    text_ns_in(out, spread->least, 25);
    mpi_text_who_cell(out, spread->low);
    text_ns_in(out, average, 12);
    text_ns_in(out, spread->most, 12);
    mpi_text_who_cell(out, spread->high);
    buf_printf(out, "%12.2f x  ", average > 0 ? spread->most / average : 1.0);
}
