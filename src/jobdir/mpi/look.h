/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the ranks of this machine attend to what they wait for. A receive whose message lies there already is not
 * stuck if its thread was stopped, or had no processor, since; and threads that are not in MPI may send, unless they
 * wait for others themselves (jobdir/mpi/thread_wait.h). From /proc, nothing is stopped.
 *
 * Two looks, with some time between, tell who had a processor (or sleeps in the kernel, which wakes it when something
 * comes). The statistics are to be taken again between them: what a thread is in then it was in all the time, and at
 * that moment all waited that wait at both looks.
 */
#ifndef SCRY_JOBDIR_MPI_LOOK_H
#define SCRY_JOBDIR_MPI_LOOK_H

#include "jobdir/mpi/stats.h"

struct mpi_look;

/* The first look, at the running ranks, all of which are of this machine. 0 or -ENOMEM. */
int mpi_look_begin(struct mpi_look **ret_look, const struct mpi_stats_set *set);
/* Whether to wait on, for so long as the row WAIT_RANKS says, until it is asked again: else the second look tells of
 * all threads that they attend, or that they cannot (stopped, ended). */
bool mpi_look_goes_on(const struct mpi_look *look);
/* The second, into `attends` of the threads of `set`, `seen` and `looked`; the set may be taken anew since. Frees; NULL
 * is fine. */
void mpi_look_end(struct mpi_look *look, struct mpi_stats_set *set);
/* The same for who cannot wait: with no time between, two looks tell who is stopped, and what threads outside of MPI
 * wait for, but not who had a processor. */
void mpi_look_end_at_once(struct mpi_look *look, struct mpi_stats_set *set);
/* After mpi_look_end: somebody is stopped by scry of whom the statistics do not say so. They are older than the stop,
 * or it is the moment that a trap takes: look anew. Who stands as before in the next look, too, was stopped by a
 * signal. */
bool mpi_look_is_unsaid(const struct mpi_stats_set *set);

#endif
