/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_MPI_LOOK_H
#define SCRY_JOBDIR_MPI_LOOK_H

#include "base/data/buf.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/record/model.h"

/*
 * Whether the ranks of this machine attend to what they wait for. A receive whose message has arrived already is not
 * stuck if its thread was stopped, or had no processor, since then. Threads that are not in MPI may send, unless they
 * wait for others themselves (jobdir/mpi/thread_wait.h). All of this comes from /proc; nothing is stopped.
 *
 * The threads are inspected twice, with some time between. This shows which had a processor (or sleep in the kernel,
 * which wakes them when something comes). Read the statistics again between the two: what a thread is in then, it was
 * in all the time, and all threads that wait in both inspections waited at that moment.
 */

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

/*
 * How the ranks of MPI programs ended: what the interposer knows (MPI_Finalize, MPI_Abort), what the records of the job
 * say of their processes (signal or exit status, and when), and, until these do, what the monitor saw of them. A
 * launcher ends all ranks as soon as one has died, so which was the first says more than what became of the others.
 */

/* The records of a job, or of its part on another node. */
struct mpi_ends_of {
    const struct job_model *model;
    const char *host;    /* whose processes they are; NULL: any */
    const char *dir;     /* of the part; statistics that are in it are of its processes, too. NULL: none */
    uint64_t started_ns; /* wall clock of its start, there */
    double shift;        /* of its times, to those of the job */
    bool lost;           /* the part: nobody will say any more how its ranks ended, or when */
};

/* Fills `end` of the ranks that have ended, which then do not run. A process that the model does not know, or that ran
 * elsewhere, stays as it is. For a job with parts, call it for each of them. 0 or -ENOMEM (then nothing is). */
int mpi_ends_find(struct mpi_stats_set *set, const struct mpi_ends_of *of);

/* After that, where a node was lost: of programs with ranks of which nothing is known, as their statistics went with it, none that was
 * killed is said to be the first. */
void mpi_ends_lost(struct mpi_stats_set *set);

/* Not by MPI_Finalize: MPI_Abort, or without. */
bool mpi_ended_badly(const struct mpi_stats *stats);
/* By MPI_Abort, by its own exit, or by a fault; else by a signal, of its launcher or from outside. How it ended is known. */
bool mpi_ended_by_itself(const struct mpi_stats *stats);

/* "killed by SIGKILL", "exited with status 5 without MPI_Finalize", "called MPI_Abort with 7", "never called MPI_Init",
 * ...; nothing of one that runs or has ended as it should. For any number of ranks. */
void mpi_end_text(struct buf *out, const struct mpi_stats *stats);
/* The same behind a subject: "was killed by SIGKILL". */
void mpi_end_predicate(struct buf *out, const struct mpi_stats *stats);

/* Of one whose MPI_Init did not return: "never called MPI_Init", "ended inside of MPI_Init", or that it used sessions
 * of MPI 4, which are in no world, without which there are no ranks, messages and clocks. */
const char *mpi_ended_before(const struct mpi_stats *stats);

/* "rank 1 was killed by SIGKILL, the first of 4 ranks that ended without MPI_Finalize": a line for each MPI_COMM_WORLD
 * (which stand together in the set) that ended badly. */
void mpi_ends_text(struct buf *out, const struct mpi_stats_set *set, const char *indent);

#endif
