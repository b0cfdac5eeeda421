/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sent how many messages and bytes to whom: the user's messages and one-sided operations, from both sides. The
 * counts of the sender and of the receiver are kept apart: they differ by what was never received, and by what is not
 * known of ranks without statistics.
 */
#ifndef SCRY_JOBDIR_MPI_MATRIX_H
#define SCRY_JOBDIR_MPI_MATRIX_H

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "jobdir/mpi/stats.h"

struct mpi_matrix_cell {
    uint32_t world;
    int32_t from, to;                                      /* world ranks, or MPIA_RANK_FOREIGN */
    uint64_t sent_count, sent_bytes, got_count, got_bytes; /* as the sender, as the receiver counted */
    uint64_t put_count, put_bytes; /* one-sided, by caller: `from` called, whichever way the bytes went */
    bool got_least; /* `to` got more: some of its operations found no room (mpi_stats.requests_omitted) */
};

struct mpi_matrix {
    struct mpi_matrix_cell *cells; /* those that are not empty, by world, from, to */
    size_t count;
    uint64_t messages, bytes, got_messages, got_bytes;
    uint64_t freed;   /* receives given up by MPI_Request_free: each may have got a message that nobody counted, */
    uint64_t omitted; /* as operations that found no room */
};

/* 0 or -ENOMEM. */
int mpi_matrix_make(struct mpi_matrix *ret_matrix, const struct mpi_stats_set *set, const uint32_t *world_of,
                    struct arena *arena);

/* Few ranks: a table; many: a picture of blocks of ranks, and the pairs with the most bytes. */
void mpi_matrix_text(struct buf *out, const struct mpi_matrix *matrix, uint32_t worlds);

#endif
