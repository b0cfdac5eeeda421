/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_ANALYSIS_MESSAGES_WAITS_H
#define SCRY_JOBDIR_ANALYSIS_MESSAGES_WAITS_H

#include "jobdir/mpi/stats.h"

/*
 * Threads that poll: between two readings of the statistics they called MPI_Test, MPI_Iprobe or similar calls again and
 * again. Nothing completed, and they called nothing else that makes progress. Such a thread waits for what these calls
 * ask for. But it may do other things at any moment, so it never counts as stuck for that.
 */

/* Into polls, polls_ns, polls_per_second and last of the threads of `set`; `before`: the same job, a little earlier. */
void mpi_polls_find(struct mpi_stats_set *set, const struct mpi_stats_set *before);

#endif
