/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided epochs of MPI_Win_start and MPI_Win_post: who has begun, and ended, how many with whom. Each side counts by
 * pairs, so that groups may be different ones each time: an origin waits for targets for which it has begun more epochs
 * than these have posted for it, a target for origins for which it has posted more than these have completed.
 */
#include "jobdir/analysis/why_internal.h"

struct epochs {
    uint64_t begun, completed, posted;
};

/* What was not counted from the start says nothing about what is open. */
static bool is_exact(const struct mpi_stats *stats)
{
    return !stats->resets && !stats->omitted && !stats->uncounted && !stats->paused_ns;
}

static struct epochs epochs_with(const struct mpi_stats *stats, uint32_t window, int32_t peer)
{
    struct epochs epochs = {0};
    for (size_t i = 0; i < stats->peer_count; i++) {
        const struct mpi_stats_peer *row = &stats->peers[i];
        if (row->comm != window || row->peer != peer)
            continue;
        if (row->call == CALL_MPI_Win_start) {
            epochs.begun += row->sent_count;
            epochs.completed += row->got_count;
        } else if (row->call == CALL_MPI_Win_post) {
            epochs.posted += row->sent_count;
        }
    }
    return epochs;
}

static bool is_outside(const struct mpi_why_rank *rank, const struct mpi_stats *stats)
{
    if (!stats->running || rank->state == MPI_WHY_ENDED)
        return false;
    for (size_t i = 0; i < stats->thread_count; i++)
        if (!stats->threads[i].ended && stats->threads[i].now.call != CALL_NONE)
            return false;
    return true;
}

/* Does the rank, in a call that waits for `reason`, wait for the one that this row of its own is about? */
static bool waits_for(const struct why_work *work, uint32_t index, uint32_t window, uint32_t other,
                      enum mpi_why_reason reason)
{
    const struct mpi_stats *own = &work->set->ranks[index], *peer = &work->set->ranks[other];
    struct epochs here = epochs_with(own, window, peer->rank), there = {0};
    uint32_t same = why_group_in(work, other, why_group_of(work, index, window));
    if (!is_exact(peer))
        return false;
    if (same != MPI_WHY_NONE)
        there = epochs_with(peer, same, own->rank);
    return reason == MPI_WHY_FOR_POST ? here.begun > here.completed && here.begun > there.posted
                                      : here.posted > there.completed;
}

uint32_t *why_epochs(struct why_work *work, uint32_t index, uint32_t window, uint32_t call, uint32_t *ret_count,
                     enum mpi_why_reason *ret_reason)
{
    const struct mpi_stats *own = &work->set->ranks[index];
    const struct why_world *world = work->world_of[index];
    bool waits = call == CALL_MPI_Win_wait;
    uint32_t kind = waits ? CALL_MPI_Win_post : CALL_MPI_Win_start, targets = 0;
    *ret_count = 0;
    *ret_reason = waits ? MPI_WHY_FOR_COMPLETE : MPI_WHY_FOR_POST;
    if ((!waits && call != CALL_MPI_Win_start && call != CALL_MPI_Win_complete) || !world ||
        !why_group_of(work, index, window) || !is_exact(own))
        return NULL;
    uint32_t *ranks = arena_alloc(work->arena, (own->peer_count + 1) * sizeof *ranks);
    uint32_t *late = arena_alloc(work->arena, (own->peer_count + 1) * sizeof *late);
    if (!ranks || !late) {
        work->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < own->peer_count; i++) {
        const struct mpi_stats_peer *row = &own->peers[i];
        if (row->comm != window || row->call != kind || row->peer < 0 || (uint32_t)row->peer >= world->size ||
            world->by_rank[row->peer] == MPI_WHY_NONE)
            continue;
        uint32_t other = world->by_rank[row->peer];
        if (waits_for(work, index, window, other, *ret_reason))
            ranks[(*ret_count)++] = other;
        else if (call == CALL_MPI_Win_complete && row->sent_count > row->got_count &&
                 is_outside(&work->why->ranks[other], &work->set->ranks[other]))
            late[targets++] = other; /* has posted, but its library answers only inside of MPI */
    }
    if (*ret_count || !targets)
        return ranks;
    *ret_count = targets;
    *ret_reason = MPI_WHY_FOR_TARGET;
    return late;
}
