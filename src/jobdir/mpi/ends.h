/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks of MPI programs ended: what the interposer knows (MPI_Finalize, MPI_Abort), what the records of the job
 * say of their processes (signal or exit status, and when), and, until these do, what the monitor saw of them. A
 * launcher ends all ranks as soon as one has died, so which was the first says more than what became of the others.
 */
#ifndef SCRY_JOBDIR_MPI_ENDS_H
#define SCRY_JOBDIR_MPI_ENDS_H

#include "base/data/buf.h"
#include "jobdir/record/model.h"
#include "jobdir/mpi/stats.h"

/* The records of a job, or of its part on another node. */
struct mpi_ends_of {
    const struct job_model *model;
    const char *host;    /* whose processes they are; NULL: any */
    const char *dir;     /* of the part; statistics that are in it are of its processes, too. NULL: none */
    uint64_t started_ns; /* wall clock of its start, there */
    double shift;        /* of its times, to those of the job */
};

/* Fills `end` of the ranks that have ended, which then do not run. A process that the model does not know, or that ran
 * elsewhere, stays as it is. For a job with parts, call it for each of them. 0 or -ENOMEM (then nothing is). */
int mpi_ends_find(struct mpi_stats_set *set, const struct mpi_ends_of *of);

/* Not by MPI_Finalize: MPI_Abort, or without. */
bool mpi_ended_badly(const struct mpi_stats *stats);

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
