/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of the analysis of analysis/why.h: who waits for whom (graph), and what follows from it (find). */
#ifndef SCRY_JOBDIR_ANALYSIS_WHY_INTERNAL_H
#define SCRY_JOBDIR_ANALYSIS_WHY_INTERNAL_H

#include "jobdir/analysis/why.h"

struct why_world { /* the ranks of one MPI_COMM_WORLD */
    const char *namespace;
    uint32_t *by_rank; /* index of the set, or MPI_WHY_NONE */
    uint32_t size;
    bool running; /* some process of it lives */
    struct why_world *next;
};

struct why_group { /* a communicator, window or file: one over all of its ranks */
    struct why_key {
        const struct why_world *world;
        const struct why_group *parent; /* NULL: none */
        uint32_t kind, ordinal;
        int32_t lowest;
        uint64_t identity; /* where it is known, nothing else counts */
    } key;
    uint32_t *members; /* indices of the set; those that say they have it, in order */
    uint32_t count, room;
    struct why_late *late; /* lists that were asked for */
    struct why_group *next, *bucket;
};

struct why_work {
    struct mpi_why *why;
    const struct mpi_stats_set *set;
    struct arena *arena;
    uint64_t settled_ns, came_ns; /* struct mpi_why_options; the latter is no less, or 0 */
    struct why_world *worlds;
    struct why_group *groups;
    struct why_group **table;
    size_t table_size;
    struct why_group ***comm_groups; /* by index of the set, by index in its comms */
    const struct why_world *
        *world_of;     /* by index of the set; NULL: an older process of the same number, or it has none */
    bool late;         /* some rank's calls were not watched from the start: their numbers mean nothing */
    bool unheard_move; /* ranks of nodes that do not answer may have gone on since they were looked at */
    bool weak;         /* a thread that polls counts as one that waits */
    bool failed;
};

/* Fills why->ranks but for stuck and root. */
void why_graph(struct why_work *work);

/* NULL: the rank has no such communicator. */
struct why_group *why_group_of(const struct why_work *work, uint32_t index, uint32_t comm);
/* Its place in the rank's comms, or MPI_WHY_NONE. */
uint32_t why_group_in(const struct why_work *work, uint32_t index, const struct why_group *group);

/* It was counted from the start: what was not says nothing about what is open. */
bool why_is_exact(const struct mpi_stats *stats);

/* The ranks (indices) for which a call of one-sided epochs waits, and what they have to do; none where it is another
 * call, or not known. */
uint32_t *why_epochs(struct why_work *work, uint32_t index, uint32_t window, uint32_t call, uint32_t *ret_count,
                     enum mpi_why_reason *ret_reason);

/* Waits so long that what was sent to it has surely come. */
bool why_has_waited(const struct why_work *work, const struct mpi_stats_thread *thread);
/* Given the ranks that may: may a thread that is in MPI act, or any of the rank's threads? */
bool why_may_act(const struct why_work *work, const struct mpi_why_thread *thread, const bool *live);
bool why_rank_may_act(const struct why_work *work, const struct mpi_why_rank *rank, const bool *live);
/* None of its threads goes on by itself (mpi_why_rank.asleep); after why_rank_may_act. */
bool why_is_asleep(const struct mpi_why_rank *rank);
/* Sets the states of the threads of a stuck rank; otherwise of those in its circle. */
void why_block_threads(struct mpi_why_rank *rank);

void why_findings(struct why_work *work);
/* A copy of the finding; its text may be NULL when out of memory. */
void why_add_finding(struct why_work *work, const struct mpi_why_finding *finding);

#endif
