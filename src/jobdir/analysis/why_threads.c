/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads of a rank may act for it: those in MPI by what they wait for there, others by what was seen of them. */
#include "jobdir/analysis/why_internal.h"

enum { THREAD_MULTIPLE = 3 }; /* of mpi_stats.thread_level */

/* ---- who they are ---- */

static const struct thread_seen *seen_of(const struct mpi_stats *stats, int32_t tid)
{
    for (size_t i = 0; i < stats->seen_count; i++)
        if (stats->seen[i].tid == tid)
            return &stats->seen[i];
    return NULL;
}

bool why_joins(const struct mpi_stats *stats, int32_t tid)
{
    const struct thread_seen *seen = seen_of(stats, tid);
    return seen && seen->wait.kind == THREAD_WAITS_END;
}

/* A circle that its threads make among themselves. */
static void find_circle(struct why_work *work, struct mpi_why_rank *rank, const struct mpi_stats *stats)
{
    size_t *circle = arena_zalloc(work->arena, stats->seen_count + 1, sizeof *circle), count = 0;
    work->failed |= !circle;
    for (size_t i = 0; i < stats->seen_count && !count && !work->failed; i++)
        count = threads_circle(stats->seen, stats->seen_count, i, circle);
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < rank->actor_count && rank->actors[at].seen != &stats->seen[circle[i]])
            at++;
        if (at == rank->actor_count || (rank->actors[at].thread && rank->actors[at].thread->state != MPI_WHY_COMPUTES))
            return; /* it is in MPI */
        circle[i] = at;
    }
    rank->circle = circle;
    rank->circle_count = count;
}

/* The threads that called MPI, and those that were seen beside them. */
void why_actors(struct why_work *work, struct mpi_why_rank *rank, struct mpi_why_thread *threads)
{
    const struct mpi_stats *stats = rank->stats;
    size_t count = 0;
    rank->actors = arena_zalloc(work->arena, stats->thread_count + stats->seen_count + 1, sizeof *rank->actors);
    work->failed |= !rank->actors;
    for (size_t i = 0; i < stats->thread_count && !work->failed; i++)
        if (threads[i].state != MPI_WHY_ENDED)
            rank->actors[count++] =
                (struct mpi_why_actor){.thread = &threads[i], .seen = seen_of(stats, threads[i].thread->tid)};
    size_t called = count;
    for (size_t i = 0; i < stats->seen_count && !work->failed; i++) {
        size_t k = 0;
        while (k < called && rank->actors[k].seen != &stats->seen[i])
            k++;
        if (k == called)
            rank->actors[count++] = (struct mpi_why_actor){.seen = &stats->seen[i]};
    }
    rank->actor_count = stats->thread_count ? count : 0;
    if (stats->thread_count && !work->failed)
        find_circle(work, rank, stats);
}

/* ---- who may act ---- */

bool mpi_why_is_unseen(const struct mpi_why_rank *rank)
{
    bool others = rank->stats->thread_level >= THREAD_MULTIPLE;
    for (size_t i = 0; i < rank->actor_count && others; i++)
        if (rank->actors[i].seen && rank->actors[i].seen->wait.unseen && !rank->actors[i].thread)
            return true;
    return others && !rank->stats->seen_count;
}

static const struct mpi_why_actor *actor_with(const struct mpi_why_rank *rank, int32_t tid)
{
    for (size_t i = 0; i < rank->actor_count; i++)
        if (rank->actors[i].seen && rank->actors[i].seen->tid == tid)
            return &rank->actors[i];
    return NULL;
}

static bool is_outside(const struct mpi_why_actor *actor)
{
    return !actor->thread || actor->thread->state == MPI_WHY_COMPUTES;
}

static bool may_go_on(const struct why_work *work, const struct mpi_why_rank *rank, const struct mpi_why_actor *actor,
                      const bool *live)
{
    if (!is_outside(actor))
        return why_may_act(work, actor->thread, live);
    enum thread_wait_kind gone = rank->stats->seen_count ? THREAD_HAS_ENDED : THREAD_MAY_ACT;
    enum thread_wait_kind kind = actor->seen ? actor->seen->wait.kind : gone;
    if (kind == THREAD_WAITS_OWNER || kind == THREAD_WAITS_END) {
        const struct mpi_why_actor *other = actor_with(rank, actor->seen->wait.tid);
        return !other || other->free;
    }
    for (size_t i = 0; kind == THREAD_WAITS_OTHERS && i < rank->actor_count; i++)
        if (rank->actors[i].free && &rank->actors[i] != actor)
            return true;
    return kind == THREAD_MAY_ACT;
}

/* With less than MPI_THREAD_MULTIPLE nobody may call MPI while another thread is in a call. */
static bool may_call_beside(const struct mpi_why_rank *rank)
{
    return rank->stats->thread_level >= THREAD_MULTIPLE || rank->thread_count != 1 ||
           is_outside(&(struct mpi_why_actor){.thread = (struct mpi_why_thread *)&rank->threads[0]});
}

/* Some thread is held up by what nobody will undo. All others can be told so only if there is one: what waits for a
 * condition may be woken by a signal's handler yet. */
static bool is_held_up(const struct why_work *work, const struct mpi_why_rank *rank, const bool *live)
{
    for (size_t i = 0; i < rank->actor_count; i++)
        if (!is_outside(&rank->actors[i]) && rank->actors[i].thread->state != MPI_WHY_ENDED &&
            !why_may_act(work, rank->actors[i].thread, live))
            return true;
    return rank->circle_count > 0;
}

bool why_rank_may_act(const struct why_work *work, const struct mpi_why_rank *rank, const bool *live)
{
    if (rank->state == MPI_WHY_ENDED || rank->state == MPI_WHY_DIED)
        return false;
    if (rank->actor_count == 0)
        return true;
    if (!may_call_beside(rank))
        return why_may_act(work, &rank->threads[0], live);
    if (rank->stats->thread_level >= THREAD_MULTIPLE && !rank->stats->seen_count)
        return true;
    bool any = false;
    for (size_t i = 0; i < rank->actor_count; i++)
        rank->actors[i].free = false;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < rank->actor_count; i++)
            if (!rank->actors[i].free && may_go_on(work, rank, &rank->actors[i], live))
                rank->actors[i].free = changed = any = true;
    }
    return any || !is_held_up(work, rank, live);
}

bool why_is_asleep(const struct mpi_why_rank *rank)
{
    bool waits = false;
    for (size_t i = 0; i < rank->actor_count; i++) {
        if (rank->actors[i].free)
            return false;
        waits |= rank->actors[i].seen && rank->actors[i].seen->wait.kind == THREAD_WAITS_OTHERS;
    }
    return waits;
}

/* All of a rank that is stuck; else those of its circle. */
void why_block_threads(struct mpi_why_rank *rank)
{
    for (size_t i = 0; i < rank->thread_count && rank->stuck; i++) {
        struct mpi_why_thread *thread = (struct mpi_why_thread *)&rank->threads[i];
        thread->stuck = true;
        thread->state = thread->state == MPI_WHY_COMPUTES ? MPI_WHY_BLOCKED : thread->state;
    }
    for (size_t i = 0; i < rank->circle_count; i++) {
        struct mpi_why_thread *thread = rank->actors[rank->circle[i]].thread;
        if (thread && thread->state == MPI_WHY_COMPUTES)
            thread->state = MPI_WHY_BLOCKED;
        if (thread)
            thread->stuck = true;
    }
}
