/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the ranks of this machine attend to what they wait for. A receive whose message has arrived already is not
 * stuck if its thread was stopped, or had no processor, since then. Threads that are not in MPI may send, unless they
 * wait for others themselves (jobdir/mpi/thread_wait.h). All of this comes from /proc; nothing is stopped.
 *
 * The threads are inspected twice, with some time between. This shows which had a processor (or sleep in the kernel,
 * which wakes them when something comes). Read the statistics again between the two: what a thread is in then, it was
 * in all the time, and all threads that wait in both inspections waited at that moment.
 */
#ifndef SCRY_JOBDIR_MPI_LOOK_H
#define SCRY_JOBDIR_MPI_LOOK_H

#include "jobdir/mpi/stats.h"

struct mpi_look;

/* Inspects the running ranks for the first time. All of them are of this machine. 0 or -ENOMEM. */
int mpi_look_begin(struct mpi_look **ret_look, const struct mpi_stats_set *set);
/* Whether to wait on, for as long as the row WAIT_RANKS says, and to ask again then. False: the second inspection will
 * show of all threads that they attend, or that they cannot (stopped, ended). */
bool mpi_look_goes_on(const struct mpi_look *look);
/* Inspects them for the second time: fills `attends` of the threads of `set`, `seen` and `looked`. The set may be newer
 * than that of the first. Frees; NULL is fine. */
void mpi_look_end(struct mpi_look *look, struct mpi_stats_set *set);
/* The same for callers that cannot wait. With no time between, it finds which threads are stopped, and what threads
 * outside of MPI wait for, but not which had a processor. */
void mpi_look_end_at_once(struct mpi_look *look, struct mpi_stats_set *set);
/* After mpi_look_end: scry has stopped a thread of which the statistics do not say so. They are older than the stop, or
 * it is the moment that a trap takes: inspect again. A thread that is still like this in the next inspection was
 * stopped by a signal. */
bool mpi_look_is_unsaid(const struct mpi_stats_set *set);

#endif
