/* SPDX-License-Identifier: Apache-2.0 */
/* Things of MPI for people: ranks, communicators, call sites, as reports and `scry why` show them. */
#ifndef SCRY_JOBDIR_MPI_TEXT_H
#define SCRY_JOBDIR_MPI_TEXT_H

#include "base/data/buf.h"
#include "jobdir/mpi/stats.h"

const char *mpi_text_call(uint32_t call); /* "MPI_Send"; of an unknown number "?" */
/* "rank 3", "any rank", "nobody" (MPI_PROC_NULL), ... */
void mpi_text_rank(struct buf *out, int32_t rank);
/* A rank, and of which MPI program (MPI_COMM_WORLD) of the job, counted from 1 as the report does; 0: there is only
 * one.
 */
struct mpi_who {
    int32_t rank;
    uint32_t program;
};
/* "rank 3", "rank 3 of program 2". */
void mpi_text_who(struct buf *out, struct mpi_who who);
/* "0-3,7"; sorts the list. */
void mpi_text_ranks(struct buf *out, int32_t *ranks, size_t count);
/* Its name; of one without, what made it: "MPI_Comm_split 2 of MPI_COMM_WORLD". */
void mpi_text_comm(struct buf *out, const struct mpi_stats *stats, uint32_t index);
/* "exchange (halo.c:34)", "libfoo.so+0x1234"; nothing of one that is not known. */
void mpi_text_site(struct buf *out, const struct mpi_stats_site *site);

/* "MPI_Recv of 8 B from rank 0, tag 7 on MPI_COMM_WORLD": what a thread is in, without since when and where. */
void mpi_text_now(struct buf *out, const struct mpi_stats *stats, const struct mpi_stats_now *now);
/* The same without the call: "8 B from rank 0, tag 7 on MPI_COMM_WORLD". */
void mpi_text_details(struct buf *out, const struct mpi_stats *stats, const struct mpi_stats_now *now);

#endif
