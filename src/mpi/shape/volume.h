/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a collective moves, by its rule in the table (column VOLUME), as one process sees it. Two conventions:
 *
 *   args   what the arguments say, as IPM has it: count x size of one block: what this process gives; where only one
 *          process gives (bcast, scatter), what this one gets. v-variants: the process's own block (gatherv: what it
 *          sends, scatterv: what it receives), of alltoallv and alltoallw all that it sends.
 *   sent,  what is transferred, as Score-P has it: N processes, a block of b bytes. A process also sends to itself,
 *   got    unless the data stay where they are (MPI_IN_PLACE): then N - 1.
 *
 *              at the root (or: everywhere)            elsewhere
 *              sent             got                    sent      got
 *   barrier    0                0
 *   bcast      N b              b                      0         b
 *   gather     b                N b                    b         0
 *     in place 0                (N - 1) b
 *   scatter    N b              b                      0         b
 *     in place (N - 1) b        0
 *   reduce     b                N b                    b         0
 *     in place 0                (N - 1) b
 *   allgather  N b              N b'                             b: sent block, b': received one
 *     in place (N - 1) b'       (N - 1) b'
 *   alltoall   N b              N b'
 *     in place (N - 1) b'       (N - 1) b'
 *   allreduce  N b              N b
 *     in place (N - 1) b        (N - 1) b
 *   reduce_scatter_block        N b, N b; in place (N - 1) b both
 *   reduce_scatter              sum of all blocks, N x the own block; in place without the own
 *   scan       (N - r) b        (r + 1) b                        r: the own rank
 *     in place (N - r - 1) b    r b
 *   exscan     (N - r - 1) b    r b
 *   gatherv    b                sum of blocks          b         0       in place: 0, sum without the own
 *   scatterv   sum of blocks    b                      0         b       in place: sum without the own, 0
 *   allgatherv N b              sum of blocks                            in place: (N - 1) own, sum without the own
 *   alltoallv, alltoallw        sums of what is sent, what is received;  in place: the latter without the own, both
 *   neighbor_allgather[v]       outdegree x b, sum over the sources
 *   neighbor_alltoall[v, w]     sums over the neighbours; of Cartesian topologies without those that are MPI_PROC_NULL
 *
 * Of an intercommunicator N is the size of the other group, no rank sends to itself, and only the root (which passes
 * MPI_ROOT) and the other group take part in a rooted one: the root gives (or gets) all of its blocks, each process of
 * the other group gets (or gives) one.
 *
 * Pure arithmetic: callers have found out the numbers.
 */
#ifndef SCRY_MPI_SHAPE_VOLUME_H
#define SCRY_MPI_SHAPE_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/mpi_calls.h"

/* Where the rule is known to the compiler, nothing else is left of it. */
#define VOLUME_INLINE static inline __attribute__((always_inline))

enum volume_place {
    VOLUME_ELSEWHERE, /* of an intercommunicator: in the other group than the root */
    VOLUME_ROOT,
    VOLUME_OUTSIDE, /* MPI_PROC_NULL of an intercommunicator: in the root's group, and not it */
};

struct volume_in {
    uint32_t size, rank; /* size: N */
    bool inter;
    enum volume_place place; /* of rooted ones */
    bool in_place;           /* of this process */
    uint64_t block_sent;     /* bytes: of the sent block; of reductions and bcast: of the block */
    uint64_t block_got;      /* of the received block (of v-variants with many: of the own one) */
    uint64_t all_sent;       /* sum over all blocks: of v-variants */
    uint64_t all_got;
    uint32_t sinks, sources; /* of neighbourhood collectives: neighbours that are not MPI_PROC_NULL */
};

struct volume {
    uint64_t args, sent, got;
};

VOLUME_INLINE bool volume_is_rooted(uint32_t rule)
{
    return rule == CALL_VOLUME_BCAST || rule == CALL_VOLUME_GATHER || rule == CALL_VOLUME_GATHERV ||
           rule == CALL_VOLUME_SCATTER || rule == CALL_VOLUME_SCATTERV || rule == CALL_VOLUME_REDUCE;
}

/* Rooted ones on an intercommunicator. */
static inline struct volume volume_inter(uint32_t rule, const struct volume_in *in)
{
    uint64_t n = in->size, block = in->block_sent;
    bool root = in->place == VOLUME_ROOT;
    if (in->place == VOLUME_OUTSIDE)
        return (struct volume){0, 0, 0};
    switch (rule) {
    case CALL_VOLUME_BCAST:
        return root ? (struct volume){block, n * block, 0} : (struct volume){block, 0, block};
    case CALL_VOLUME_REDUCE:
        return root ? (struct volume){block, 0, n * block} : (struct volume){block, block, 0};
    case CALL_VOLUME_GATHER:
        return root ? (struct volume){in->block_got, 0, n * in->block_got} : (struct volume){block, block, 0};
    case CALL_VOLUME_GATHERV:
        return root ? (struct volume){0, 0, in->all_got} : (struct volume){block, block, 0};
    case CALL_VOLUME_SCATTER:
        return root ? (struct volume){block, n * block, 0} : (struct volume){in->block_got, 0, in->block_got};
    default: /* scatterv */
        return root ? (struct volume){0, in->all_sent, 0} : (struct volume){in->block_got, 0, in->block_got};
    }
}

VOLUME_INLINE struct volume volume_rooted(uint32_t rule, const struct volume_in *in)
{
    uint64_t n = in->size, sent = in->block_sent, got = in->block_got;
    bool root = in->place == VOLUME_ROOT, stays = in->in_place;
    switch (rule) {
    case CALL_VOLUME_BCAST:
        return (struct volume){sent, root ? n * sent : 0, sent};
    case CALL_VOLUME_REDUCE:
        return (struct volume){sent, stays ? 0 : sent, root ? (n - stays) * sent : 0};
    case CALL_VOLUME_GATHER:
        return (struct volume){stays ? got : sent, stays ? 0 : sent, root ? (n - stays) * got : 0};
    case CALL_VOLUME_GATHERV:
        return (struct volume){stays ? got : sent, stays ? 0 : sent, root ? in->all_got - (stays ? got : 0) : 0};
    case CALL_VOLUME_SCATTER:
        return (struct volume){stays ? sent : got, root ? (n - stays) * sent : 0, stays ? 0 : got};
    default: /* scatterv */
        return (struct volume){stays ? sent : got, root ? in->all_sent - (stays ? sent : 0) : 0, stays ? 0 : got};
    }
}

static inline struct volume volume_scan(uint32_t rule, const struct volume_in *in)
{
    uint64_t block = in->block_sent;
    uint32_t self = rule == CALL_VOLUME_SCAN && !in->in_place;
    return (struct volume){block, (in->size - in->rank - 1 + self) * block, (in->rank + self) * block};
}

VOLUME_INLINE struct volume volume_of(uint32_t rule, const struct volume_in *in)
{
    uint64_t n = in->size - (in->in_place && !in->inter), sent = in->block_sent, got = in->block_got;
    uint64_t own_got = in->in_place && !in->inter ? got : 0;
    if (volume_is_rooted(rule))
        return in->inter ? volume_inter(rule, in) : volume_rooted(rule, in);
    switch (rule) {
    case CALL_VOLUME_ALLGATHER:
    case CALL_VOLUME_ALLTOALL:
        if (in->in_place)
            sent = got;
        return (struct volume){sent, n * sent, n * got};
    case CALL_VOLUME_ALLGATHERV:
        if (in->in_place)
            sent = got;
        return (struct volume){sent, n * sent, in->all_got - own_got};
    case CALL_VOLUME_ALLTOALLV:
    case CALL_VOLUME_ALLTOALLW:
        return in->in_place ? (struct volume){in->all_got, in->all_got - own_got, in->all_got - own_got}
                            : (struct volume){in->all_sent, in->all_sent, in->all_got};
    case CALL_VOLUME_ALLREDUCE:
        return (struct volume){sent, n * sent, n * sent};
    case CALL_VOLUME_REDUCE_SCATTER_BLOCK:
        return (struct volume){got, n * got, n * got};
    case CALL_VOLUME_REDUCE_SCATTER:
        return (struct volume){in->all_sent, in->all_sent - own_got, n * got};
    case CALL_VOLUME_SCAN:
    case CALL_VOLUME_EXSCAN:
        return volume_scan(rule, in);
    case CALL_VOLUME_NEIGHBOR_ALLGATHER:
        return (struct volume){sent, in->sinks * sent, in->sources * got};
    case CALL_VOLUME_NEIGHBOR_ALLGATHERV:
        return (struct volume){sent, in->sinks * sent, in->all_got};
    case CALL_VOLUME_NEIGHBOR_ALLTOALL:
        return (struct volume){sent, in->sinks * sent, in->sources * got};
    case CALL_VOLUME_NEIGHBOR_ALLTOALLV:
    case CALL_VOLUME_NEIGHBOR_ALLTOALLW:
        return (struct volume){in->all_sent, in->all_sent, in->all_got};
    default: /* barrier */
        return (struct volume){0, 0, 0};
    }
}

#endif
