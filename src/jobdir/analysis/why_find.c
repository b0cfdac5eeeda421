/* SPDX-License-Identifier: Apache-2.0 */
/* Findings: circles among those that are stuck, those they wait for in vain, and those that only take long. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/mpi/look.h"
#include "jobdir/analysis/why_internal.h"

struct marks { /* of ranks, by index */
    bool *in, *done;
    uint32_t *queue, *from;
};

static uint32_t *indices_alloc(struct why_work *work, size_t count)
{
    uint32_t *list = arena_alloc(work->arena, (count + 1) * sizeof *list);
    if (!list)
        work->failed = true;
    return list;
}

void why_add_finding(struct why_work *work, const struct mpi_why_finding *finding)
{
    struct mpi_why *why = work->why;
    struct mpi_why_finding *larger = arena_alloc(work->arena, (why->finding_count + 1) * sizeof *larger);
    if (!larger || !finding->text) {
        work->failed = true;
        return;
    }
    if (why->finding_count)
        memcpy(larger, why->findings, why->finding_count * sizeof *larger);
    larger[why->finding_count++] = *finding;
    why->findings = larger;
}

/* The conditions that hold a stuck rank: those sure to be open, else all. The ranks that they name, one after another.
 */
struct needs {
    const struct mpi_why_rank *rank;
    bool weak;   /* also what it polls for */
    bool likely; /* without what is unlikely */
    size_t thread, condition;
    uint32_t at;
};

static bool has_sure(const struct mpi_why_thread *thread)
{
    for (size_t i = 0; i < thread->condition_count && !thread->any; i++)
        if (!thread->conditions[i].maybe)
            return true;
    return false;
}

static const struct mpi_why_condition *needs_next(struct needs *needs, uint32_t *ret_index)
{
    for (; needs->thread < needs->rank->thread_count; needs->thread++, needs->condition = needs->at = 0) {
        const struct mpi_why_thread *thread = &needs->rank->threads[needs->thread];
        bool sure = has_sure(thread);
        if (thread->state != MPI_WHY_WAITS && !(needs->weak && thread->state == MPI_WHY_POLLS))
            continue;
        for (; needs->condition < thread->condition_count; needs->condition++, needs->at = 0) {
            const struct mpi_why_condition *condition = &thread->conditions[needs->condition];
            if (needs->at < condition->for_count && !(sure && condition->maybe) &&
                !(needs->likely && condition->unlikely)) {
                *ret_index = condition->for_ranks[needs->at++];
                return condition;
            }
        }
    }
    return NULL;
}

/* As long as those that poll may do something else, they and who waits for them are not stuck. */
static bool is_stuck(const struct why_work *work, uint32_t index)
{
    const struct mpi_why_rank *rank = &work->why->ranks[index];
    return rank->stuck || (work->weak && rank->in_vain);
}

/* All ranks that need one of `marks->in`, directly or over others, and wait or poll in vain, become marked in `done`
 * and are listed. */
static uint32_t *victims_of(struct why_work *work, struct marks *marks, size_t *ret_count)
{
    struct mpi_why *why = work->why;
    uint32_t *list = indices_alloc(work, why->count);
    size_t count = 0;
    if (!list)
        return NULL;
    memcpy(marks->done, marks->in, why->count);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < why->count; i++) {
            struct needs needs = {.rank = &why->ranks[i], .weak = true};
            uint32_t other;
            if (!(why->ranks[i].stuck || why->ranks[i].in_vain) || marks->done[i])
                continue;
            while (needs_next(&needs, &other))
                if (marks->done[other]) {
                    marks->done[i] = changed = true;
                    list[count++] = i;
                    break;
                }
        }
    }
    *ret_count = count;
    return list;
}

/* ---- circles ---- */

/* The shortest way from a rank back to itself over stuck ranks, or 0. In order, into ret_circle. */
static size_t circle_from(struct why_work *work, struct marks *marks, uint32_t start, bool likely, uint32_t *ret_circle)
{
    struct mpi_why *why = work->why;
    size_t head = 0, tail = 0, count = 0;
    memset(marks->from, 0xff, why->count * sizeof *marks->from);
    marks->queue[tail++] = start;
    while (head < tail) {
        uint32_t i = marks->queue[head++], other;
        struct needs needs = {.rank = &why->ranks[i], .weak = work->weak, .likely = likely};
        while (needs_next(&needs, &other)) {
            if (other == start) {
                for (; i != start; i = marks->from[i])
                    ret_circle[count++] = i;
                ret_circle[count++] = start;
                for (size_t k = 0; k < count / 2; k++) {
                    uint32_t swap = ret_circle[k];
                    ret_circle[k] = ret_circle[count - 1 - k];
                    ret_circle[count - 1 - k] = swap;
                }
                return count;
            }
            if (is_stuck(work, other) && marks->from[other] == MPI_WHY_NONE) {
                marks->from[other] = i;
                marks->queue[tail++] = other;
            }
        }
    }
    return 0;
}

/* Ranks that need any of many: all that can be reached from them are in it. */
static size_t knot_from(struct why_work *work, struct marks *marks, uint32_t start, uint32_t *ret_knot)
{
    struct mpi_why *why = work->why;
    size_t head = 0, tail = 0;
    memset(marks->in, 0, why->count);
    ret_knot[tail++] = start;
    marks->in[start] = true;
    while (head < tail) {
        struct needs needs = {.rank = &why->ranks[ret_knot[head++]], .weak = work->weak};
        for (uint32_t other; needs_next(&needs, &other);)
            if (is_stuck(work, other) && !marks->in[other]) {
                marks->in[other] = true;
                ret_knot[tail++] = other;
            }
    }
    return tail;
}

static bool needs_any(const struct mpi_why_rank *rank)
{
    for (size_t i = 0; i < rank->thread_count; i++)
        for (size_t j = 0; j < rank->threads[i].condition_count; j++)
            if ((rank->threads[i].any && rank->threads[i].condition_count > 1) ||
                (!rank->threads[i].conditions[j].all && rank->threads[i].conditions[j].for_count > 1))
                return true;
    return false;
}

static bool has_polls(const struct mpi_why_rank *rank)
{
    for (size_t i = 0; i < rank->thread_count; i++)
        if (rank->threads[i].state == MPI_WHY_POLLS)
            return true;
    return false;
}

/* A message for which one of a circle waits, and which the next one has not sent. */
struct missing {
    const struct mpi_why_rank *rank; /* NULL: there is none, or not one that says more than the others */
    const struct mpi_why_condition *condition;
    uint64_t age_ns;
};

/* How many receives it has posted for messages of the other one. */
static uint64_t posted_for(const struct mpi_stats *stats, uint32_t comm, int32_t peer)
{
    uint64_t count = 0;
    for (size_t i = 0; i < stats->peer_count; i++)
        if (stats->peers[i].call == CALL_NONE && stats->peers[i].comm == comm && stats->peers[i].peer == peer)
            count += stats->peers[i].got_count;
    for (size_t i = 0; i < stats->request_count; i++)
        count += stats->requests[i].flags & MPIA_REQUEST_RECEIVE &&
                 !(stats->requests[i].flags & MPIA_REQUEST_INACTIVE) && stats->requests[i].comm == comm &&
                 stats->requests[i].peer == peer;
    return count;
}

/* Of two that exchange messages, the one has come further than the other. */
static bool is_behind(const struct missing *one, const struct missing *other)
{
    uint64_t its = posted_for(one->rank->stats, one->condition->comm, one->condition->peer);
    uint64_t others = posted_for(other->rank->stats, other->condition->comm, other->condition->peer);
    return its != others ? its < others : one->age_ns > other->age_ns;
}

/* The only one; or where they wait for several things at once that of the one which is behind: because of it the others wait, too. */
static struct missing missing_of(struct why_work *work, const uint32_t *ranks, size_t count, bool likely)
{
    struct missing found = {0};
    size_t all = 0;
    bool many = false;
    for (size_t i = 0; i < count && count > 1; i++) {
        const struct mpi_why_rank *rank = &work->why->ranks[ranks[i]];
        struct needs needs = {.rank = rank, .weak = work->weak, .likely = likely};
        const struct mpi_why_condition *condition;
        uint32_t other = MPI_WHY_NONE;
        while ((condition = needs_next(&needs, &other)) && other != ranks[(i + 1) % count])
            ;
        if (!condition || condition->reason != MPI_WHY_FOR_SEND || condition->for_count != 1)
            continue;
        const struct mpi_why_thread *thread = &rank->threads[needs.thread];
        const struct missing missing = {rank, condition, mpi_why_age_of(thread)};
        many |= mpi_why_call_of(thread)->waiting > 1;
        if (!all++ || (count == 2 ? is_behind(&missing, &found) : missing.age_ns > found.age_ns))
            found = missing;
    }
    return all == 1 || many ? found : (struct missing){0};
}

static const char *missing_text(struct why_work *work, const uint32_t *ranks, size_t count, bool likely)
{
    struct missing missing = missing_of(work, ranks, count, likely);
    if (!missing.rank)
        return "";
    int rank = missing.rank->stats->rank, peer = missing.condition->peer, tag = missing.condition->tag;
    const char *text =
        tag < 0 ? arena_printf(work->arena, "; rank %d waits for a message that rank %d has not sent", rank, peer)
                : arena_printf(work->arena, "; rank %d waits for a message with tag %d that rank %d has not sent", rank,
                               tag, peer);
    return text ? text : "";
}

/* A circle of which some parts only poll. */
static const char *weak_circle_text(struct why_work *work, const uint32_t *ranks, size_t count, const char *missing)
{
    struct mpi_why *why = work->why;
    const char *many, *may = "may do something else meanwhile";
    int first = why->ranks[ranks[0]].stats->rank, polls = first;
    size_t polling = 0;
    for (size_t i = 0; i < count; i++)
        if (has_polls(&why->ranks[ranks[i]]) && polling++ == 0)
            polls = why->ranks[ranks[i]].stats->rank;
    if (count == 1)
        return arena_printf(work->arena, "rank %d polls for itself, and %s", first, may);
    many = count == 2 ? arena_printf(work->arena, "ranks %d and %d wait for each other", first,
                                     why->ranks[ranks[1]].stats->rank)
                      : arena_printf(work->arena, "%zu ranks wait for each other", count);
    if (polling == count)
        return arena_printf(work->arena, "%s, by polling: each %s%s", many ? many : "", may, missing);
    if (polling == 1)
        return arena_printf(work->arena, "%s, but rank %d polls, and %s%s", many ? many : "", polls, may, missing);
    return arena_printf(work->arena, "%s, but %zu of them poll, and %s%s", many ? many : "", polling, may, missing);
}

static const char *circle_text(struct why_work *work, const uint32_t *ranks, size_t count, bool likely, bool knot)
{
    struct mpi_why *why = work->why;
    const char *missing = knot ? "" : missing_text(work, ranks, count, likely);
    if (work->weak)
        return weak_circle_text(work, ranks, count, missing);
    if (count == 1)
        return arena_printf(work->arena, "deadlock: rank %d waits for itself", why->ranks[ranks[0]].stats->rank);
    if (count == 2)
        return arena_printf(work->arena, "deadlock: ranks %d and %d wait for each other%s",
                            why->ranks[ranks[0]].stats->rank, why->ranks[ranks[1]].stats->rank, missing);
    return arena_printf(work->arena, "deadlock: %zu ranks wait for each other%s%s", count,
                        knot ? ", some for any of the others" : " in a circle", missing);
}

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static uint64_t age_of(const struct mpi_why_rank *rank)
{
    return rank->shown < rank->thread_count ? mpi_why_age_of(&rank->threads[rank->shown]) : 0;
}

struct aged {
    uint64_t age_ns;
    uint32_t index;
};

static int longest_first(const void *a, const void *b)
{
    const struct aged *left = a, *right = b;
    return left->age_ns != right->age_ns ? (left->age_ns < right->age_ns ? 1 : -1)
           : left->index < right->index  ? -1
                                         : left->index > right->index;
}

/* Those first that have waited longest: the others do since, because of them. */
static struct aged *by_age(struct why_work *work)
{
    const struct mpi_why *why = work->why;
    struct aged *order = arena_alloc(work->arena, (why->count + 1) * sizeof *order);
    work->failed |= !order;
    for (uint32_t i = 0; i < why->count && order; i++)
        order[i] = (struct aged){age_of(&why->ranks[i]), i};
    if (order)
        qsort(order, why->count, sizeof *order, longest_first);
    return order;
}

/* Begins with the lowest. */
static void circle_turn(uint32_t *circle, size_t count, uint32_t *room)
{
    size_t lowest = 0;
    for (size_t i = 1; i < count; i++)
        lowest = circle[i] < circle[lowest] ? i : lowest;
    for (size_t i = 0; i < count; i++)
        room[i] = circle[(lowest + i) % count];
    memcpy(circle, room, count * sizeof *circle);
}

/* likely: only those that are made of what is likely. */
static void find_circles(struct why_work *work, struct marks *marks, bool likely, bool *explained)
{
    struct mpi_why *why = work->why;
    uint32_t *circle = indices_alloc(work, why->count);
    const struct aged *order = by_age(work);
    for (uint32_t n = 0; n < why->count && !work->failed; n++) {
        const uint32_t i = order[n].index;
        if (!is_stuck(work, i) || explained[i])
            continue;
        size_t count = circle_from(work, marks, i, likely, circle);
        bool knot = false;
        for (size_t k = 0; k < count; k++)
            knot |= needs_any(&why->ranks[circle[k]]);
        if (knot) {
            count = knot_from(work, marks, i, circle);
            qsort(circle, count, sizeof *circle, by_value);
        } else
            circle_turn(circle, count, marks->queue);
        if (!count)
            continue; /* leads into a circle, or to ranks that ended: found from there */
        memset(marks->in, 0, why->count);
        for (size_t k = 0; k < count; k++)
            marks->in[circle[k]] = true;
        struct mpi_why_finding finding = {.kind = work->weak ? MPI_WHY_POLLS_IN_VAIN : MPI_WHY_DEADLOCK,
                                          .rank_count = count};
        uint32_t *ranks = indices_alloc(work, count);
        finding.victims = victims_of(work, marks, &finding.victim_count);
        if (work->failed)
            return;
        memcpy(ranks, circle, count * sizeof *ranks);
        finding.ranks = ranks;
        finding.text = circle_text(work, ranks, count, likely, knot);
        why_add_finding(work, &finding);
        for (size_t k = 0; k < why->count; k++)
            explained[k] |= marks->done[k];
    }
}

/* ---- circles inside of a rank ---- */

static const char *locked_text(struct why_work *work, const struct mpi_why_rank *rank)
{
    const struct mpi_why_actor *first = rank->circle_count ? &rank->actors[rank->circle[0]] : NULL;
    int number = rank->stats->rank;
    if (rank->circle_count > 1)
        return arena_printf(work->arena, "deadlock: %zu threads of rank %d wait for each other", rank->circle_count,
                            number);
    if (first->thread && first->thread == &rank->threads[rank->shown])
        return arena_printf(work->arena, "deadlock: rank %d waits for a mutex that it holds itself", number);
    return arena_printf(work->arena, "deadlock: thread %d of rank %d waits for a mutex that it holds itself",
                        first->seen->tid, number);
}

static void find_locked(struct why_work *work, struct marks *marks, bool *explained)
{
    struct mpi_why *why = work->why;
    for (uint32_t i = 0; i < why->count && !work->failed; i++) {
        if (!why->ranks[i].circle_count)
            continue;
        memset(marks->in, 0, why->count);
        marks->in[i] = true;
        struct mpi_why_finding finding = {.kind = MPI_WHY_DEADLOCK, .rank_count = 1};
        uint32_t *one = indices_alloc(work, 1);
        if (why->ranks[i].stuck)
            finding.victims = victims_of(work, marks, &finding.victim_count);
        if (work->failed)
            return;
        *one = i;
        finding.ranks = one;
        finding.text = locked_text(work, &why->ranks[i]);
        why_add_finding(work, &finding);
        for (size_t k = 0; k < why->count && why->ranks[i].stuck; k++)
            explained[k] |= marks->done[k];
    }
}

/* ---- waiting for those that are no more, or for what nobody will do ---- */

static const char *died_text(struct why_work *work, const struct mpi_stats *stats, size_t victims)
{
    struct buf end = BUF_INIT;
    mpi_end_predicate(&end, stats);
    const char *how = end.len && !end.failed ? end.data : "died without MPI_Finalize";
    const char *text = victims ? arena_printf(work->arena, "rank %d %s, and %zu rank%s wait%s for it", stats->rank, how,
                                              victims, victims == 1 ? "" : "s", victims == 1 ? "s" : "")
                               : arena_printf(work->arena, "rank %d %s", stats->rank, how);
    buf_done(&end);
    return text;
}

static void find_dead_peers(struct why_work *work, struct marks *marks, bool *explained)
{
    struct mpi_why *why = work->why;
    for (uint32_t i = 0; i < why->count && !work->failed; i++) {
        const struct mpi_why_rank *rank = &why->ranks[i];
        if (rank->state != MPI_WHY_DIED || !work->world_of[i] || !work->world_of[i]->running)
            continue;
        memset(marks->in, 0, why->count);
        marks->in[i] = true;
        struct mpi_why_finding finding = {.rank_count = 1};
        uint32_t *one = indices_alloc(work, 1);
        finding.victims = victims_of(work, marks, &finding.victim_count);
        if (work->failed)
            return;
        *one = i;
        finding.ranks = one;
        finding.kind = finding.victim_count ? MPI_WHY_DEAD_PEER : MPI_WHY_DIED_RANK;
        finding.text = died_text(work, rank->stats, finding.victim_count);
        why_add_finding(work, &finding);
        for (size_t k = 0; k < why->count; k++)
            explained[k] |= marks->done[k];
    }
}

/* The condition of a rank that nobody who is left can make true, not even indirectly; NULL: there is none. */
static const struct mpi_why_condition *hopeless_condition(const struct why_work *work, const struct mpi_why_rank *rank,
                                                          const struct mpi_why_thread **ret_thread)
{
    for (size_t i = 0; i < rank->thread_count; i++) {
        const struct mpi_why_thread *thread = &rank->threads[i];
        bool sure = has_sure(thread);
        *ret_thread = thread;
        if (thread->state != MPI_WHY_WAITS && !(work->weak && thread->state == MPI_WHY_POLLS))
            continue;
        for (size_t j = 0; j < thread->condition_count; j++) {
            const struct mpi_why_condition *condition = &thread->conditions[j];
            size_t gone = 0;
            for (uint32_t k = 0; k < condition->for_count; k++)
                gone += work->why->ranks[condition->for_ranks[k]].state == MPI_WHY_ENDED ||
                        work->why->ranks[condition->for_ranks[k]].state == MPI_WHY_DIED;
            if ((sure && condition->maybe) || condition->peer == MPIA_RANK_FOREIGN)
                continue;
            if (condition->all ? gone > 0 : gone == condition->for_count)
                return condition;
        }
    }
    return NULL;
}

static const char *hopeless_text(struct why_work *work, const struct mpi_why_rank *rank,
                                 const struct mpi_why_thread *thread, const struct mpi_why_condition *condition)
{
    const char *call = call_infos[mpi_why_call_of(thread)->call].name;
    const char *waits = thread->state == MPI_WHY_POLLS ? "polls with" : "waits in";
    int own = rank->stats->rank;
    if (condition->reason == MPI_WHY_FOR_COLLECTIVE)
        return arena_printf(work->arena, "rank %d %s %s for ranks that have called MPI_Finalize", own, waits, call);
    if (condition->reason == MPI_WHY_FOR_POST || condition->reason == MPI_WHY_FOR_COMPLETE)
        return arena_printf(work->arena, "rank %d %s %s for ranks that have ended", own, waits, call);
    const char *what = condition->reason == MPI_WHY_FOR_SEND ? "receive" : "send";
    const struct mpi_stats *stats = rank->stats;
    if (condition->for_count == 0 && condition->comm < stats->comm_count && stats->comms[condition->comm].size <= 1)
        return arena_printf(work->arena,
                            "a %s that nothing can match: rank %d %s %s for a message on %s, on which nobody else is",
                            what, own, waits, call, stats->comms[condition->comm].name);
    if (condition->peer == MPIA_RANK_ANY)
        return arena_printf(work->arena, "a %s that nothing can match: rank %d %s %s, and all others have ended", what,
                            own, waits, call);
    return arena_printf(work->arena, "a %s that nothing can match: rank %d %s %s for rank %d, which has ended", what,
                        own, waits, call, condition->peer);
}

static void find_hopeless(struct why_work *work, struct marks *marks, bool *explained)
{
    struct mpi_why *why = work->why;
    for (uint32_t i = 0; i < why->count && !work->failed; i++) {
        const struct mpi_why_thread *thread;
        if (!is_stuck(work, i) || explained[i])
            continue;
        const struct mpi_why_condition *condition = hopeless_condition(work, &why->ranks[i], &thread);
        if (!condition)
            continue;
        memset(marks->in, 0, why->count);
        marks->in[i] = true;
        struct mpi_why_finding finding = {.kind = work->weak ? MPI_WHY_POLLS_IN_VAIN : MPI_WHY_UNMATCHED,
                                          .rank_count = 1};
        uint32_t *one = indices_alloc(work, 1);
        finding.victims = victims_of(work, marks, &finding.victim_count);
        if (work->failed)
            return;
        *one = i;
        finding.ranks = one;
        finding.text = hopeless_text(work, &why->ranks[i], thread, condition);
        why_add_finding(work, &finding);
        for (size_t k = 0; k < why->count; k++)
            explained[k] |= marks->done[k];
    }
}

static void explain_mismatches(struct why_work *work, struct marks *marks, bool *explained)
{
    struct mpi_why *why = work->why;
    for (size_t f = 0; f < why->finding_count && !work->failed; f++) {
        struct mpi_why_finding *finding = &why->findings[f];
        memset(marks->in, 0, why->count);
        for (size_t i = 0; i < finding->rank_count; i++)
            marks->in[finding->ranks[i]] = true;
        finding->victims = victims_of(work, marks, &finding->victim_count);
        for (size_t k = 0; k < why->count; k++)
            explained[k] |= marks->done[k];
    }
}

/* ---- those that others wait for, and that go on ---- */

/* Its node does not answer: what it is in now nobody knows. */
static bool is_unheard(const struct why_work *work, uint32_t index)
{
    return work->why->ranks[index].stats->unheard_ns > 0;
}

/* What another program has to call for the two to meet. */
static uint32_t counterpart(uint32_t call)
{
    return call == CALL_MPI_Comm_accept    ? CALL_MPI_Comm_connect
           : call == CALL_MPI_Comm_connect ? CALL_MPI_Comm_accept
           : call == CALL_MPI_Comm_join    ? CALL_MPI_Comm_join
                                           : CALL_NONE;
}

/* The call in which a rank waits for another program, where all of its own that belong to it do, and no program of this job comes;
 * CALL_NONE. One of another job may. */
static uint32_t unmet_call(const struct mpi_why *why, uint32_t index)
{
    const struct mpi_why_rank *rank = &why->ranks[index];
    const struct mpi_why_thread *thread = rank->shown < rank->thread_count ? &rank->threads[rank->shown] : NULL;
    uint32_t call = thread ? thread->thread->now.call : CALL_NONE, other = counterpart(call);
    if (rank->state != MPI_WHY_WAITS || rank->stuck || rank->stats->unheard_ns || other == CALL_NONE ||
        thread->condition_count)
        return CALL_NONE;
    for (size_t i = 0; i < why->count; i++) {
        const struct mpi_stats *stats = why->ranks[i].stats;
        /* those of which it is not known may call it; and who was not watched from the start may wait for its own */
        if (stats->late ||
            ((stats->unheard_ns || stats->uncounted) && strcmp(stats->namespace, rank->stats->namespace) != 0))
            return CALL_NONE;
        for (size_t k = 0; k < stats->thread_count && stats->running && i != index; k++)
            if (!stats->threads[k].ended && stats->threads[k].now.call == other)
                return CALL_NONE;
    }
    return call;
}

/* The next rank on the way to who keeps a rank waiting: one that computes, if there is any. */
static uint32_t next_on_the_way(const struct why_work *work, const struct mpi_why_rank *rank)
{
    uint32_t best = MPI_WHY_NONE, other;
    struct needs needs = {.rank = rank, .weak = true};
    while (needs_next(&needs, &other)) {
        enum mpi_why_state state = work->why->ranks[other].state;
        if (state != MPI_WHY_WAITS && state != MPI_WHY_ENDED && state != MPI_WHY_BLOCKED)
            return other;
        if ((best == MPI_WHY_NONE || (is_unheard(work, other) && !is_unheard(work, best))) &&
            !work->why->ranks[other].stuck)
            best = other;
    }
    return best;
}

static void find_roots(struct why_work *work)
{
    struct mpi_why *why = work->why;
    for (uint32_t i = 0; i < why->count; i++) {
        uint32_t at = i;
        if ((why->ranks[i].state != MPI_WHY_WAITS && why->ranks[i].state != MPI_WHY_POLLS) || why->ranks[i].stuck ||
            why->ranks[i].in_vain || is_unheard(work, i))
            continue;
        for (size_t steps = 0; steps <= why->count && at != MPI_WHY_NONE; steps++) {
            if (at != i && why->ranks[at].root != MPI_WHY_NONE && why->ranks[at].state == MPI_WHY_WAITS) {
                why->ranks[i].root = why->ranks[at].root;
                break;
            }
            if (at != i &&
                (why->ranks[at].state != MPI_WHY_WAITS || is_unheard(work, at) || unmet_call(why, at) != CALL_NONE)) {
                why->ranks[i].root = at;
                break;
            }
            at = next_on_the_way(work, &why->ranks[at]);
        }
    }
}

/* Others for which the same collective waits: they are late, too. */
static size_t late_with(const struct why_work *work, const struct mpi_why_rank *victim, uint32_t root, uint32_t *list)
{
    size_t count = 0;
    uint32_t other;
    bool with_root = false;
    struct needs needs = {.rank = victim, .weak = true};
    for (const struct mpi_why_condition *condition; (condition = needs_next(&needs, &other));) {
        enum mpi_why_state state = work->why->ranks[other].state;
        if (!condition->all || state == MPI_WHY_WAITS || state == MPI_WHY_ENDED)
            continue;
        with_root |= other == root;
        if (other != root)
            list[count++] = other;
    }
    return with_root ? count : 0;
}

static const char *polls_for(struct arena *arena, const struct mpi_why_rank *rank)
{
    const struct mpi_why_thread *thread = &rank->threads[rank->shown];
    if (thread->condition_count == 1 && thread->conditions[0].peer >= 0 && !thread->conditions[0].all) {
        const char *text = arena_printf(arena, "polls for rank %d", thread->conditions[0].peer);
        return text ? text : "polls";
    }
    if (mpi_why_call_of(thread)->call == CALL_MPI_Win_sync) /* any rank may store what it looks for */
        return "polls a window with MPI_Win_sync";
    return thread->condition_count == 1 && thread->conditions[0].peer == MPIA_RANK_ANY ? "polls for any rank" : "polls";
}

static const char *stopped_by(struct arena *arena, const struct mpi_why_rank *rank)
{
    const struct mpi_why_thread *thread = rank->shown < rank->thread_count ? &rank->threads[rank->shown] : NULL;
    bool held = thread && thread->thread->held && *thread->thread->held;
    const char *text = held ? arena_printf(arena, "is stopped by %s", thread->thread->held) : NULL;
    return text ? text : "is stopped (by a signal or a debugger)";
}

static const char *doing_text(struct arena *arena, const struct mpi_why_rank *rank)
{
    switch (rank->state) {
    case MPI_WHY_POLLS:
        return polls_for(arena, rank);
    case MPI_WHY_IO:
        return "does I/O";
    case MPI_WHY_STOPPED:
        return stopped_by(arena, rank);
    case MPI_WHY_STARTS:
        return rank->shown < rank->thread_count && rank->threads[rank->shown].thread->now.call != CALL_NONE
                   ? "has not come out of MPI_Init"
                   : "has not called MPI_Init";
    case MPI_WHY_MOVES:
        return "is in a call of MPI that just began";
    default:
        return rank->blocked ? rank->where : rank->where ? "computes" : "is outside of MPI"; /* nobody has looked */
    }
}

static const char *unmet_text(struct arena *arena, const struct mpi_why *why, const struct mpi_why_finding *finding,
                              uint32_t call)
{
    size_t victims = finding->victim_count;
    bool several = finding->rank_count > 1;
    char wait[48] = "", ranks[32];
    if (victims)
        snprintf(wait, sizeof wait, victims == 1 ? "%zu rank waits for " : "%zu ranks wait for ", victims);
    snprintf(ranks, sizeof ranks, several ? "%d ranks" : "rank %d",
             several ? (int)finding->rank_count : why->ranks[finding->ranks[0]].stats->rank);
    return arena_printf(arena, "%s%s%s wait%s in %s, and no program of this job calls %s", wait, ranks,
                        victims ? ", which" : "", several ? "" : "s", call_infos[call].name,
                        call_infos[counterpart(call)].name);
}

static const char *straggler_text(struct arena *arena, const struct mpi_why *why, const struct mpi_why_finding *finding)
{
    bool plural = finding->victim_count != 1;
    const struct mpi_why_rank *rank = &why->ranks[finding->ranks[0]];
    const char *wait = "poll";
    uint32_t unmet = unmet_call(why, finding->ranks[0]);
    if (unmet != CALL_NONE)
        return unmet_text(arena, why, finding, unmet);
    for (size_t i = 0; i < finding->victim_count; i++)
        if (why->ranks[finding->victims[i]].state != MPI_WHY_POLLS)
            wait = "wait";
    if (rank->stats->unheard_ns) {
        char ranks[32];
        snprintf(ranks, sizeof ranks, finding->rank_count == 1 ? "rank %d" : "%d ranks",
                 finding->rank_count == 1 ? rank->stats->rank : (int)finding->rank_count);
        char since[64] = "";
        if (rank->stats->taken_wall_ns)
            snprintf(since, sizeof since, ": for %.1f s nothing is known of %s", (double)rank->stats->unheard_ns / 1e9,
                     finding->rank_count == 1 ? "it" : "them");
        return arena_printf(arena, "%zu rank%s %s%s for %s on node %s, which does not answer%s", finding->victim_count,
                            plural ? "s" : "", wait, plural ? "" : "s", ranks, rank->stats->node, since);
    }
    if (finding->rank_count == 1)
        return arena_printf(arena, "%zu rank%s %s%s for rank %d, which %s", finding->victim_count, plural ? "s" : "",
                            wait, plural ? "" : "s", rank->stats->rank, doing_text(arena, rank));
    return arena_printf(arena, "%zu rank%s %s%s for %zu ranks that are later than the others", finding->victim_count,
                        plural ? "s" : "", wait, plural ? "" : "s", finding->rank_count);
}

void mpi_why_found_where(struct mpi_why *why, struct arena *arena)
{
    for (size_t i = 0; i < why->finding_count; i++) {
        struct mpi_why_finding *finding = &why->findings[i];
        const char *text = finding->kind == MPI_WHY_STRAGGLER ? straggler_text(arena, why, finding) : NULL;
        finding->text = text ? text : finding->text;
    }
}

/* Both on one node, and that does not answer. */
static bool are_unheard_alike(const struct why_work *work, uint32_t a, uint32_t b)
{
    return a != MPI_WHY_NONE && b != MPI_WHY_NONE && is_unheard(work, a) && is_unheard(work, b) &&
           strcmp(work->why->ranks[a].stats->node, work->why->ranks[b].stats->node) == 0;
}

/* Of a node that does not answer, all of its ranks for which these wait, but `root`: that is said once. */
static size_t unheard_with(struct why_work *work, const uint32_t *victims, size_t count, uint32_t root, uint32_t *list)
{
    bool *seen = arena_zalloc(work->arena, work->why->count + 1, sizeof *seen);
    size_t used = 0;
    work->failed |= !seen;
    for (size_t i = 0; i < count && seen; i++) {
        struct needs needs = {.rank = &work->why->ranks[victims[i]], .weak = true};
        for (uint32_t other; needs_next(&needs, &other);) {
            if (other != root && !seen[other] && are_unheard_alike(work, other, root))
                list[used++] = other;
            seen[other] = true;
        }
    }
    return used;
}

/* Whether this rank waits for another program in that call, as `root` does, which is of the same one. */
static bool is_unmet_with(const struct mpi_why *why, uint32_t index, uint32_t root, uint32_t call)
{
    return index != MPI_WHY_NONE &&
           strcmp(why->ranks[index].stats->namespace, why->ranks[root].stats->namespace) == 0 &&
           unmet_call(why, index) == call;
}

/* Those that wait for another program, and who waits for these. */
static void find_unmet(struct why_work *work, bool *told)
{
    struct mpi_why *why = work->why;
    for (uint32_t i = 0; i < why->count && !work->failed; i++) {
        uint32_t call = unmet_call(why, i);
        if (call == CALL_NONE || told[i])
            continue;
        struct mpi_why_finding finding = {.kind = MPI_WHY_STRAGGLER};
        uint32_t *ranks = indices_alloc(work, why->count), *victims = indices_alloc(work, why->count);
        for (uint32_t k = 0; k < why->count && !work->failed; k++) {
            if (is_unmet_with(why, k, i, call))
                told[ranks[finding.rank_count++] = k] = true;
            if (is_unmet_with(why, why->ranks[k].root, i, call))
                victims[finding.victim_count++] = k;
        }
        finding.ranks = ranks;
        finding.victims = victims;
        if (!work->failed)
            finding.text = straggler_text(work->arena, why, &finding);
        why_add_finding(work, &finding);
    }
}

static void find_stragglers(struct why_work *work)
{
    struct mpi_why *why = work->why;
    bool *told = arena_zalloc(work->arena, why->count + 1, sizeof *told);
    work->failed |= !told;
    if (told)
        find_unmet(work, told);
    for (uint32_t i = 0; i < why->count && !work->failed; i++) {
        uint32_t root = why->ranks[i].root;
        if (root == MPI_WHY_NONE || told[root])
            continue;
        struct mpi_why_finding finding = {.kind = MPI_WHY_STRAGGLER, .rank_count = 1};
        uint32_t *ranks = indices_alloc(work, why->count), *victims = indices_alloc(work, why->count);
        if (work->failed)
            return;
        ranks[0] = root;
        for (uint32_t k = i; k < why->count; k++)
            if (why->ranks[k].root == root || are_unheard_alike(work, why->ranks[k].root, root)) {
                victims[finding.victim_count++] = k;
                told[why->ranks[k].root] = true;
            }
        finding.rank_count += is_unheard(work, root)
                                  ? unheard_with(work, victims, finding.victim_count, root, ranks + 1)
                                  : late_with(work, &why->ranks[i], root, ranks + 1);
        for (size_t k = 0; k < finding.rank_count; k++)
            told[ranks[k]] = true;
        finding.ranks = ranks;
        finding.victims = victims;
        finding.text = straggler_text(work->arena, why, &finding);
        why_add_finding(work, &finding);
    }
}

/* Gravest first; alike ones stay in their order. */
static void sort_findings(struct mpi_why *why)
{
    for (size_t i = 1; i < why->finding_count; i++)
        for (size_t j = i; j > 0 && why->findings[j].kind < why->findings[j - 1].kind; j--) {
            struct mpi_why_finding swap = why->findings[j];
            why->findings[j] = why->findings[j - 1];
            why->findings[j - 1] = swap;
        }
}

void why_findings(struct why_work *work)
{
    size_t count = work->why->count;
    struct marks marks = {arena_zalloc(work->arena, count + 1, 1), arena_zalloc(work->arena, count + 1, 1),
                          indices_alloc(work, count), indices_alloc(work, count)};
    bool *explained = arena_zalloc(work->arena, count + 1, 1);
    if (!marks.in || !marks.done || !explained || work->failed) {
        work->failed = true;
        return;
    }
    explain_mismatches(work, &marks, explained);
    find_locked(work, &marks, explained);
    find_dead_peers(work, &marks, explained);
    find_hopeless(work, &marks, explained);
    for (int likely = 1; likely >= 0; likely--) /* what is left: nobody is to blame but the circle itself */
        find_circles(work, &marks, likely, explained);
    work->weak = true;
    find_hopeless(work, &marks, explained);
    for (int likely = 1; likely >= 0; likely--)
        find_circles(work, &marks, likely, explained);
    work->weak = false;
    find_roots(work);
    find_stragglers(work);
    sort_findings(work->why);
}
