/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_MPI_STATS_TAKE_H
#define SCRY_JOBDIR_MPI_STATS_TAKE_H

#include "jobdir/mpi/stats.h"

/*
 * Inside of jobdir: what reads an MPI area: its distributions are in mpi/stats_read.c, all else in mpi/stats_take.c.
 * Each number of the area is read once.
 */

#define ONCE(field) (*(const volatile __typeof__(field) *)&(field))

struct take {
    const struct mpi_area *area; /* live */
    uint64_t now, latest, rate;  /* ticks; per second */
    bool ticking;                /* its clocks run: after MPI_Init, before MPI_Finalize */
    bool brief;                  /* no lists of ranks */
    struct arena *arena;
    struct mpi_module *modules; /* a copy */
    uint32_t module_count;
    struct mpi_site *sites; /* copies, by address */
    size_t site_count;
    uint32_t main;                       /* the thread that is the rank: its block; MPIA_THREADS: none has called MPI */
    uint32_t comm_index[MPIA_COMMS];     /* by number: index in stats.comms */
    uint32_t thread_index[MPIA_THREADS]; /* likewise, in stats.threads */
};

uint64_t take_ns(const struct take *take, uint64_t ticks);
/* NULL: not in use. The last one may be that of all threads that found no other: it has counts, but no clocks, and
 * is in no call. */
const struct mpi_thread *take_thread(const struct take *take, uint32_t index);
bool take_is_shared(const struct mpi_thread *thread);
int take_distributions(const struct take *take, struct mpi_stats *stats);

#endif
