/* SPDX-License-Identifier: Apache-2.0 */
/* The report of one rank alone, and how evenly things are spread over all of them. */
#include <errno.h>
#include <inttypes.h>

#include "jobdir/mpi_report_internal.h"

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

void mpi_spread_add(struct mpi_spread *spread, int32_t rank, double value)
{
    if (!spread->count || value < spread->least) {
        spread->least = value;
        spread->low = rank;
    }
    if (!spread->count || value > spread->most) {
        spread->most = value;
        spread->high = rank;
    }
    spread->sum += value;
    spread->count++;
}

void mpi_spread_title(struct buf *out, const char *title)
{
    buf_printf(out, "\n%-18s  least (rank)     average        most (rank)  most/average\n", title);
}

void mpi_spread_put(struct buf *out, const struct mpi_spread *spread)
{
    double average = spread->sum / (double)spread->count;
    mpi_report_put_time(out, spread->least, 25);
    buf_printf(out, "%7" PRId32, spread->low);
    mpi_report_put_time(out, average, 12);
    mpi_report_put_time(out, spread->most, 12);
    buf_printf(out, "%7" PRId32 "%12.2f x  ", spread->high, average > 0 ? spread->most / average : 1.0);
}
