/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of MPI that a rank was in when its statistics were taken, as it was killed: in the rows and call sites with the
 * others, so that what the clocks have of communication has a name. */
#include <errno.h>
#include <string.h>

#include "jobdir/report/mpi_internal.h"

static struct mpi_stats_row *row_of(struct mpi_stats *stats, uint32_t call)
{
    for (size_t i = 0; i < stats->row_count; i++)
        if (stats->rows[i].call == call)
            return &stats->rows[i];
    stats->rows[stats->row_count] = (struct mpi_stats_row){.call = call};
    return &stats->rows[stats->row_count++];
}

static struct mpi_stats_site *site_of(struct mpi_stats *stats, const struct mpi_stats_site *from, uint32_t call)
{
    for (size_t i = 0; i < stats->site_count; i++) {
        const struct mpi_stats_site *site = &stats->sites[i];
        if (site->call == call && site->offset == from->offset && strcmp(site->module, from->module) == 0)
            return &stats->sites[i];
    }
    struct mpi_stats_site *made = &stats->sites[stats->site_count++];
    *made = *from;
    made->call = call;
    made->count = made->total_ns = made->min_ns = made->max_ns = made->args_bytes = 0;
    made->others_count = made->others_ns = 0;
    return made;
}

static void add_open(struct mpi_stats *stats, const struct mpi_stats_thread *thread)
{
    const struct mpi_stats_now *now = &thread->now;
    bool other = thread != mpi_report_main(stats);
    struct mpi_stats_row *row = row_of(stats, now->call);
    row->open++;
    row->open_ns += now->age_ns;
    row->total_ns += now->age_ns;
    row->others_ns += other ? now->age_ns : 0;
    if (!now->site.module)
        return;
    struct mpi_stats_site *site = site_of(stats, &now->site, now->call);
    site->open++;
    site->open_ns += now->age_ns;
    site->total_ns += now->age_ns;
    site->others_ns += other ? now->age_ns : 0;
}

/* A copy with room for one more of each thread. */
static int make_room(struct mpi_stats *stats, struct arena *arena)
{
    size_t rows = stats->row_count, sites = stats->site_count;
    struct mpi_stats_row *row = arena_zalloc(arena, rows + stats->thread_count + 1, sizeof *row);
    struct mpi_stats_site *site = arena_zalloc(arena, sites + stats->thread_count + 1, sizeof *site);
    if (!row || !site)
        return -ENOMEM;
    if (rows)
        memcpy(row, stats->rows, rows * sizeof *row);
    if (sites)
        memcpy(site, stats->sites, sites * sizeof *site);
    stats->rows = row;
    stats->sites = site;
    return 0;
}

int mpi_report_add_open(struct mpi_stats *stats, struct arena *arena)
{
    bool room = stats->open_added;
    if (room)
        return 0;
    stats->open_added = true;
    for (size_t i = 0; i < stats->thread_count && !stats->uncounted; i++) {
        const struct mpi_stats_thread *thread = &stats->threads[i];
        if (thread->ended || thread->now.call <= CALL_NONE || thread->now.call >= CALL_COUNT)
            continue;
        if (!room && make_room(stats, arena) < 0)
            return -ENOMEM;
        room = true;
        add_open(stats, thread);
    }
    return 0;
}
