/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_ANALYSIS_MESSAGES_MATCH_H
#define SCRY_JOBDIR_ANALYSIS_MESSAGES_MATCH_H

#include "jobdir/analysis/messages_internal.h"
#include "jobdir/mpi/stats.h"

/* Inside jobdir: communicators that several programs (worlds) have in common. */

struct shared { /* a communicator of one world with ranks of another */
    uint32_t world;
    const struct mpi_stats_comm *comm; /* as one of its ranks has it */
    uint64_t parent;                   /* identity of what it was made from; 0 */
    uint32_t *own;                     /* by rank in the own group: where in the list of ranks; UINT32_MAX */
    int64_t from, to;       /* the call of its root; the first and last MPI_Init of children. from > to: not known */
    uint64_t meeting;       /* struct mpi_stats_comm, of its root; 0: not known */
    uint32_t root;          /* where in the list of ranks, with `meeting` */
    struct shared *same;    /* the first of those that are one; NULL: not found */
    struct shared *claimed; /* the only one it can have met */
    size_t claims;          /* how many say that of it */
};

struct join {
    struct mpi_messages *messages;
    struct shared *list;
    size_t count, room;
};

/* Unites what was made where two programs met. */
void mpi_messages_meet(const struct join *join);

#endif
