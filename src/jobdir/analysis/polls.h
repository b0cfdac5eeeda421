/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that poll: between two looks at the statistics they called MPI_Test, MPI_Iprobe or their likes again and
 * again, nothing came of it, and they called nothing else that moves anything. What such a thread waits for is what
 * these ask for; but it may do other things any moment, so it never counts as stuck for that.
 */
#ifndef SCRY_JOBDIR_ANALYSIS_POLLS_H
#define SCRY_JOBDIR_ANALYSIS_POLLS_H

#include "jobdir/mpi/stats.h"

/* Into polls, polls_ns, polls_per_second and last of the threads of `set`; `before`: the same job, a little earlier. */
void mpi_polls_find(struct mpi_stats_set *set, const struct mpi_stats_set *before);

#endif
