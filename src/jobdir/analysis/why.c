/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/analysis/why.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/pause.h"
#include "jobdir/analysis/why_internal.h"
#include "jobdir/mpi/look.h"
#include "jobdir/mpi/text.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"

enum {
    STUCK_MS = 5000,       /* ranks that were ended had waited for each other for so long at least, */
    LATE_MS = 60000,       /* or for one that was outside of MPI: sooner that is only told, and no reason of an end */
    THREAD_SERIALIZED = 2, /* of mpi_stats.thread_level */
    ASKED_NS = 100000000   /* before its end, who asked again and again had done so last */
};
static const double TOGETHER_SECONDS =
    30; /* within which the ranks of one program are ended; others were earlier ones */

/*
 * One-sided epochs of MPI_Win_start and MPI_Win_post: who has begun, and ended, how many with whom. Each side counts by
 * pairs, so that groups may be different ones each time: an origin waits for targets for which it has begun more epochs
 * than these have posted for it, a target for origins for which it has posted more than these have completed.
 */

struct epochs {
    uint64_t begun, completed, posted;
};

bool why_is_exact(const struct mpi_stats *stats)
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
    if (!why_is_exact(peer))
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
        !why_group_of(work, index, window) || !why_is_exact(own))
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

/* ---- what follows from who waits for whom: who is stuck for good, who waits for whom in the end ---- */

static const char *const state_names[] = {"computes", "moves",  "polls", "waits", "io",
                                          "stopped",  "starts", "ended", "died",  "blocked"};
static const char *const reason_names[] = {"send", "receive", "collective", "target", "finalize", "post", "complete"};
static const char *const kind_names[] = {"mismatch", "deadlock",  "dead_peer", "unmatched",
                                         "polls",    "straggler", "died"};

const char *mpi_why_state_name(enum mpi_why_state state)
{
    return (size_t)state < sizeof state_names / sizeof *state_names ? state_names[state] : "?";
}

const char *mpi_why_reason_name(enum mpi_why_reason reason)
{
    return (size_t)reason < sizeof reason_names / sizeof *reason_names ? reason_names[reason] : "?";
}

const char *mpi_why_kind_name(enum mpi_why_kind kind)
{
    return (size_t)kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : "?";
}

const char *mpi_why_stopper(const struct mpi_why_thread *thread)
{
    const char *held = thread ? thread->thread->held : NULL;
    return held && *held ? held : "a signal or a debugger";
}

const struct mpi_stats_now *mpi_why_call_of(const struct mpi_why_thread *thread)
{
    return thread->state == MPI_WHY_POLLS ? &thread->thread->last : &thread->thread->now;
}

uint64_t mpi_why_age_of(const struct mpi_why_thread *thread)
{
    return thread->state == MPI_WHY_POLLS ? thread->thread->polls_ns : thread->thread->now.age_ns;
}

/* May any (all) of the ranks that it waits for act? */
static bool why_satisfiable(const struct why_work *work, const struct mpi_why_condition *condition, const bool *live)
{
    for (uint32_t i = 0; i < condition->for_count; i++)
        if (live[condition->for_ranks[i]] != condition->all)
            return !condition->all;
    /* Who is not known, of another MPI_COMM_WORLD for instance, may do anything. */
    bool unknown = condition->peer == MPIA_RANK_FOREIGN || (condition->for_count == 0 && condition->peer >= 0);
    return condition->for_count == 0 ? unknown : condition->all;
}

bool mpi_why_is_starved(const struct mpi_why_thread *thread)
{
    bool asks = thread->state == MPI_WHY_WAITS || thread->state == MPI_WHY_POLLS;
    return asks && thread->thread->attends == MPI_STARVED;
}

/* All that are sure to be open must come true; where none is sure, one of them is not. */
bool why_may_act(const struct why_work *work, const struct mpi_why_thread *thread, const bool *live)
{
    bool some_sure = false;
    if (thread->state != MPI_WHY_WAITS && !(work->weak && thread->state == MPI_WHY_POLLS))
        return thread->state <= MPI_WHY_STARTS;
    if (mpi_why_is_starved(thread))
        return true; /* what it waits for may lie there */
    if (thread->stuck)
        return false; /* in a collective that cannot come to an end */
    if (thread->condition_count == 0)
        return true; /* for whom is not known */
    for (size_t i = 0; i < thread->condition_count; i++)
        some_sure |= !thread->conditions[i].maybe;
    bool any = thread->any || !some_sure;
    for (size_t i = 0; i < thread->condition_count; i++) {
        const struct mpi_why_condition *condition = &thread->conditions[i];
        if (!any && condition->maybe)
            continue;
        if (why_satisfiable(work, condition, live) == any)
            return any;
    }
    return !any;
}

/* Whatever can be set free by those that may act. Both ways in turn, so that long chains do not take as many rounds. */
static void spread_live(const struct why_work *work, bool *live)
{
    size_t count = work->why->count;
    for (bool changed = true, up = true; changed; up = !up) {
        changed = false;
        for (size_t n = 0; n < count; n++) {
            size_t i = up ? n : count - 1 - n;
            if (!live[i] && why_rank_may_act(work, &work->why->ranks[i], live))
                live[i] = changed = true;
        }
    }
}

/* ---- collectives on which ranks disagree ---- */

struct told { /* one rank's part in a collective */
    uint32_t index;
    struct mpi_why_thread *thread;
};

/* Threads that wait in some collective on this communicator: into `told`. */
static size_t in_collective(const struct why_work *work, const struct why_group *group, struct told *told)
{
    size_t count = 0;
    for (uint32_t i = 0; i < group->count && !work->late; i++) {
        struct mpi_why_rank *rank = &work->why->ranks[group->members[i]];
        for (size_t j = 0; j < rank->thread_count; j++) {
            struct mpi_why_thread *thread = (struct mpi_why_thread *)&rank->threads[j];
            const struct mpi_stats_now *now = &thread->thread->now;
            if ((thread->state == MPI_WHY_WAITS || thread->state == MPI_WHY_IO) && now->ordinal &&
                call_info(now->call)->waits != CALL_WAITS_REQUESTS &&
                why_group_of(work, group->members[i], now->comm) == group) {
                told[count++] = (struct told){group->members[i], thread};
                break;
            }
        }
    }
    return count;
}

static const char *comm_name(const struct why_work *work, uint32_t index, uint32_t comm)
{
    const struct mpi_stats *stats = &work->set->ranks[index];
    const char *name = comm < stats->comm_count ? stats->comms[comm].name : NULL;
    return name && *name ? name : "a communicator";
}

/* How often a rank has completed a collective on a communicator. */
static uint64_t collectives_completed(const struct mpi_stats *stats, uint32_t comm, uint32_t call)
{
    uint64_t count = 0;
    for (size_t i = 0; i < stats->peer_count; i++)
        if (stats->peers[i].comm == comm && stats->peers[i].call == call)
            count += stats->peers[i].sent_count > stats->peers[i].got_count ? stats->peers[i].sent_count
                                                                            : stats->peers[i].got_count;
    return count;
}

/* A rank went on to later collectives, and none of those it did since is the one that the other still is in. */
static bool went_past_another(const struct why_work *work, const struct why_group *group, const struct told *behind,
                              const struct told *ahead)
{
    uint32_t call = behind->thread->thread->now.call;
    uint32_t here = why_group_in(work, behind->index, group), there = why_group_in(work, ahead->index, group);
    const struct mpi_stats *slow = &work->set->ranks[behind->index], *fast = &work->set->ranks[ahead->index];
    if (ahead->thread->thread->now.ordinal <= behind->thread->thread->now.ordinal || here == MPI_WHY_NONE ||
        there == MPI_WHY_NONE || slow->omitted || fast->omitted || behind->thread->condition_count)
        return false;
    return collectives_completed(fast, there, call) <= collectives_completed(slow, here, call);
}

static const char *mismatch_text(struct why_work *work, const struct told *one, const struct told *other)
{
    const struct mpi_stats_now *a = &one->thread->thread->now, *b = &other->thread->thread->now;
    const struct mpi_stats *stats = &work->set->ranks[one->index], *others = &work->set->ranks[other->index];
    const char *comm = comm_name(work, one->index, a->comm);
    if (a->ordinal != b->ordinal)
        return arena_printf(work->arena,
                            "the ranks disagree about collective %u on %s: rank %d is in %s, and rank %d has done "
                            "another call in its place and is in %s (collective %u) already",
                            a->ordinal, comm, stats->rank, call_infos[a->call].name, others->rank,
                            call_infos[b->call].name, b->ordinal);
    if (a->call != b->call)
        return arena_printf(work->arena,
                            "the ranks disagree about collective %u on %s: rank %d is in %s, rank %d in %s", a->ordinal,
                            comm, stats->rank, call_infos[a->call].name, others->rank, call_infos[b->call].name);
    return arena_printf(work->arena,
                        "the ranks disagree about collective %u on %s, %s: its root is rank %d for rank %d, rank %d "
                        "for rank %d",
                        a->ordinal, comm, call_infos[a->call].name, a->peer, stats->rank, b->peer, others->rank);
}

/* Of an intercommunicator's groups the roots are different things on both sides. */
static bool same_call(const struct why_group *group, const struct mpi_stats_now *a, const struct mpi_stats_now *b)
{
    return a->call == b->call &&
           (a->peer == b->peer || group->key.kind == MPIA_COMM_INTER || a->peer < 0 || b->peer < 0);
}

static void find_mismatch(struct why_work *work, const struct why_group *group, struct told *told, uint32_t *disagree)
{
    size_t count = in_collective(work, group, told), parts = 0;
    const struct told *one = NULL, *other = NULL;
    for (size_t i = 0; i < count && !other; i++)
        for (size_t j = 0; j < count && j != i && !other; j++) {
            const struct mpi_stats_now *a = &told[i].thread->thread->now, *b = &told[j].thread->thread->now;
            if (a->ordinal == b->ordinal ? !same_call(group, a, b)
                                         : went_past_another(work, group, &told[i], &told[j])) {
                one = a->ordinal == b->ordinal && told[j].index < told[i].index ? &told[j] : &told[i];
                other = one == &told[i] ? &told[j] : &told[i];
            }
            if (count > 64 && j > i + 64)
                break; /* two that are alike are enough of them */
        }
    if (!other)
        return;
    for (size_t i = 0; i < count; i++)
        if (told[i].thread->thread->now.ordinal == one->thread->thread->now.ordinal || &told[i] == other) {
            told[i].thread->stuck = true;
            if (told[i].thread->state == MPI_WHY_IO) /* it waits for the others, whatever it does with the file */
                told[i].thread->state = work->why->ranks[told[i].index].state = MPI_WHY_WAITS;
            disagree[parts++] = told[i].index;
        }
    const struct mpi_why_finding finding = {
        .kind = MPI_WHY_MISMATCH, .ranks = disagree, .rank_count = parts, .text = mismatch_text(work, one, other)};
    why_add_finding(work, &finding);
}

/* Whether a rank is in this collective, in a call or by a request. */
static bool is_in(const struct mpi_stats *stats, uint32_t comm, uint32_t ordinal)
{
    for (size_t i = 0; i < stats->thread_count; i++) {
        const struct mpi_stats_now *now = &stats->threads[i].now;
        if (!stats->threads[i].ended && now->call != CALL_NONE && now->comm == comm && now->ordinal == ordinal)
            return true;
    }
    for (size_t i = 0; i < stats->request_count; i++)
        if (stats->requests[i].comm == comm && stats->requests[i].ordinal == ordinal)
            return true;
    return false;
}

/* "rank 2 has", "ranks 0,1 have" */
static void put_ranks(struct buf *out, const struct why_work *work, const uint32_t *list, size_t count, const char *one,
                      const char *several)
{
    int32_t *ranks = arena_alloc(work->arena, (count + 1) * sizeof *ranks);
    for (size_t i = 0; i < count && ranks; i++)
        ranks[i] = work->set->ranks[list[i]].rank;
    buf_puts(out, count == 1 ? "rank " : "ranks ");
    if (ranks)
        mpi_text_ranks(out, ranks, count);
    buf_puts(out, count == 1 ? one : several);
}

/* Who waits where, and what the others have done instead; where they did the same as those that wait, they may have done it otherwise. */
static const char *left_text(struct why_work *work, const struct why_group *group, const struct told *first,
                             const uint32_t *left, size_t parts)
{
    const struct mpi_stats_now *now = &first->thread->thread->now;
    uint64_t completed = collectives_completed(&work->set->ranks[first->index], now->comm, now->call);
    uint32_t *gone = arena_alloc(work->arena, (group->count + 1) * sizeof *gone);
    size_t others = 0, next = 0;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    for (uint32_t i = 0; i < group->count && gone; i++) {
        uint32_t member = group->members[i];
        bool waits = next < parts && left[next] == member;
        next += waits;
        if (!waits &&
            collectives_completed(&work->set->ranks[member], why_group_in(work, member, group), now->call) <= completed)
            gone[others++] = member;
    }
    buf_printf(&text, "the ranks disagree about collective %u on %s: ", now->ordinal,
               comm_name(work, first->index, now->comm));
    put_ranks(&text, work, left, parts, " waits in ", " wait in ");
    buf_puts(&text, call_infos[now->call].name);
    if (now->peer >= 0)
        buf_printf(&text, " with rank %d as its root", now->peer);
    buf_puts(&text, ", and ");
    if (others)
        put_ranks(&text, work, gone, others, " has done another call in its place",
                  " have done another call in its place");
    else
        buf_printf(&text, "all others have left it: they may have %s another size",
                   now->peer >= 0 ? "named another root, or" : "given");
    return text.failed ? NULL : arena_printf(work->arena, "%s", text.data);
}

/* Ranks that wait in a collective that all others have left, long enough for what these sent to have come: the others
 * did something else in it. Where ranks were left in several, the first one explains all. */
static void find_left_behind(struct why_work *work, const struct why_group *group, struct told *told, uint32_t *left)
{
    size_t count = in_collective(work, group, told), parts = 0;
    const struct told *first = NULL;
    for (size_t i = 0; i < count; i++)
        if (!first || told[i].thread->thread->now.ordinal < first->thread->thread->now.ordinal)
            first = &told[i];
    if (!first || group->key.kind != MPIA_COMM_INTRA || first->thread->condition_count)
        return;
    const struct mpi_stats_now *now = &first->thread->thread->now;
    const struct mpi_stats *stats = &work->set->ranks[first->index];
    if (group->count != stats->comms[now->comm].size)
        return; /* of some nothing is known */
    for (size_t i = 0; i < count; i++) {
        const struct mpi_stats_thread *thread = told[i].thread->thread;
        if (thread->now.ordinal != now->ordinal)
            continue;
        if (!same_call(group, now, &thread->now) || mpi_why_is_starved(told[i].thread) || !why_has_waited(work, thread))
            return;
        left[parts++] = told[i].index;
    }
    size_t next = 0; /* of those, which are in the order of members */
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t member = group->members[i], comm = why_group_in(work, member, group);
        const struct mpi_stats *other = &work->set->ranks[member];
        bool waits = next < parts && left[next] == member;
        next += waits;
        if (!waits && (other->omitted || other->uncounted || comm == MPI_WHY_NONE ||
                       other->comms[comm].collectives < now->ordinal || is_in(other, comm, now->ordinal)))
            return;
    }
    if (parts == group->count)
        return; /* it goes on as slowly as it does */
    for (size_t i = 0; i < count; i++)
        if (told[i].thread->thread->now.ordinal == now->ordinal) {
            told[i].thread->stuck = true;
            told[i].thread->state = work->why->ranks[told[i].index].state = MPI_WHY_WAITS;
        }
    const struct mpi_why_finding finding = {.kind = MPI_WHY_MISMATCH,
                                            .ranks = left,
                                            .rank_count = parts,
                                            .text = left_text(work, group, first, left, parts)};
    work->failed |= !finding.text;
    why_add_finding(work, &finding);
}

static void find_mismatches(struct why_work *work)
{
    for (struct why_group *group = work->groups; group && !work->failed; group = group->next) {
        if (group->count < 2)
            continue;
        struct told *told = arena_alloc(work->arena, group->count * sizeof *told);
        uint32_t *disagree = arena_alloc(work->arena, group->count * sizeof *disagree);
        size_t before = work->why->finding_count;
        if (told && disagree)
            find_mismatch(work, group, told, disagree);
        else
            work->failed = true;
        if (!work->failed && work->why->finding_count == before)
            find_left_behind(work, group, told, disagree);
    }
}

/* ---- the whole ---- */

static void find_live(struct why_work *work, bool *live)
{
    memset(live, 0, work->why->count);
    for (size_t i = 0; i < work->why->count; i++)
        live[i] = why_rank_may_act(work, &work->why->ranks[i], live);
    spread_live(work, live);
}

static void find_in_vain(struct why_work *work, bool *live)
{
    struct mpi_why *why = work->why;
    work->weak = true;
    find_live(work, live);
    work->weak = false;
    for (size_t i = 0; i < why->count; i++)
        why->ranks[i].in_vain =
            !live[i] && (why->ranks[i].state == MPI_WHY_WAITS || why->ranks[i].state == MPI_WHY_POLLS);
}

bool mpi_why_is_stuck(const struct mpi_why *why)
{
    for (size_t i = 0; i < why->count; i++)
        if (why->ranks[i].stuck || why->ranks[i].circle_count)
            return true;
    return false;
}

static void find_stuck(struct why_work *work, bool *live)
{
    struct mpi_why *why = work->why;
    find_live(work, live);
    for (size_t i = 0; i < why->count; i++) {
        struct mpi_why_rank *rank = &why->ranks[i];
        if (!live[i] && rank->state == MPI_WHY_COMPUTES)
            rank->state = MPI_WHY_BLOCKED;
        rank->asleep = rank->state == MPI_WHY_COMPUTES && why_rank_may_act(work, rank, live) && why_is_asleep(rank);
        rank->stuck = !live[i] && (rank->state == MPI_WHY_WAITS || rank->state == MPI_WHY_BLOCKED);
        why_block_threads(rank);
        why->stuck += rank->stuck;
        if (rank->stats->unheard_ns && !rank->stuck) {
            why->unheard++;
            continue;
        }
        why->waiting += rank->state == MPI_WHY_WAITS || rank->state == MPI_WHY_BLOCKED;
        why->polling += rank->state == MPI_WHY_POLLS;
        why->computing += rank->state == MPI_WHY_COMPUTES;
    }
    find_in_vain(work, live);
}

static uint64_t unchanged_for(const struct mpi_why *why, uint64_t settled_ns)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < why->count; i++)
        for (size_t j = 0; j < why->ranks[i].thread_count; j++)
            if (why->ranks[i].threads[j].thread->now.age_ns < least)
                least = why->ranks[i].threads[j].thread->now.age_ns;
    return least == UINT64_MAX || least < settled_ns || why->unheard ? 0 : least;
}

/* The processes were not all looked at at one moment. `all`: also those of nodes that do not answer. */
static uint64_t spread_of(const struct mpi_stats_set *set, bool all)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < set->count; i++) {
        bool counts = set->ranks[i].running && (all || !set->ranks[i].unheard_ns);
        uint64_t taken = counts ? set->ranks[i].taken_wall_ns : 0;
        if (taken && taken < first)
            first = taken;
        last = taken > last ? taken : last;
    }
    return last > first ? last - first : 0;
}

/* Whether something that waits now did not yet when those were looked at last whose nodes do not answer: they may have gone on since. */
static bool some_wait_since(const struct mpi_stats_set *set, uint64_t settled_ns, uint64_t before_ns)
{
    for (size_t i = 0; i < set->count; i++)
        for (size_t j = 0; j < set->ranks[i].thread_count && set->ranks[i].running && !set->ranks[i].unheard_ns; j++) {
            const struct mpi_stats_now *now = &set->ranks[i].threads[j].now;
            if (now->call != CALL_NONE && now->age_ns >= settled_ns && now->age_ns < before_ns)
                return true;
        }
    return false;
}

int mpi_why_find(struct mpi_why *ret_why, const struct mpi_stats_set *set, const struct mpi_why_options *options,
                 struct arena *arena)
{
    struct why_work work = {.why = ret_why,
                            .set = set,
                            .arena = arena,
                            .settled_ns = options && options->settled_ns ? options->settled_ns : MPI_WHY_SETTLED_NS,
                            .table_size = 64 + 4 * set->count};
    *ret_why = (struct mpi_why){.count = set->count};
    const uint64_t apart = options ? options->apart_ns : 0, spread = spread_of(set, false) + apart;
    if (work.settled_ns < spread)
        work.settled_ns = spread;
    if (options && options->came_ns)
        work.came_ns = options->came_ns > work.settled_ns ? options->came_ns : work.settled_ns;
    work.unheard_move = some_wait_since(set, work.settled_ns, spread_of(set, true) + apart);
    ret_why->ranks = arena_zalloc(arena, set->count + 1, sizeof *ret_why->ranks);
    work.table = arena_zalloc(arena, work.table_size, sizeof(struct why_group *));
    work.comm_groups = arena_zalloc(arena, set->count + 1, sizeof(struct why_group **));
    work.world_of = arena_zalloc(arena, set->count + 1, sizeof(struct why_world *));
    bool *live = arena_zalloc(arena, set->count + 1, sizeof *live);
    if (!ret_why->ranks || !work.table || !work.comm_groups || !work.world_of || !live)
        return -ENOMEM;
    why_graph(&work);
    if (!work.failed)
        find_mismatches(&work);
    if (!work.failed)
        find_stuck(&work, live);
    if (!work.failed)
        why_findings(&work);
    if (work.failed) {
        ret_why->count = 0;
        ret_why->finding_count = 0;
        return -ENOMEM;
    }
    ret_why->still_ns = unchanged_for(ret_why, work.settled_ns);
    return 0;
}

static const struct mpi_why_finding *waited(const struct mpi_why *why, uint64_t least_ms)
{
    const struct mpi_why_finding *finding = why->finding_count ? &why->findings[0] : NULL;
    if (!finding || finding->kind != MPI_WHY_STRAGGLER || finding->rank_count != 1 || !finding->victim_count ||
        why->still_ns < time_hasten(least_ms) * 1000000)
        return NULL;
    bool waits = why->ranks[finding->ranks[0]].state == MPI_WHY_COMPUTES &&
                 why->ranks[finding->victims[0]].state == MPI_WHY_WAITS;
    return waits ? finding : NULL;
}

const struct mpi_why_finding *mpi_why_late(const struct mpi_why *why)
{
    return waited(why, LATE_MS);
}

const struct mpi_why_finding *mpi_why_waited(const struct mpi_why *why)
{
    return waited(why, STUCK_MS);
}

uint64_t mpi_why_finalizing_ns(const struct mpi_why *why)
{
    uint64_t longest = 0;
    bool others = false;
    for (size_t i = 0; i < why->count; i++) {
        const struct mpi_why_rank *rank = &why->ranks[i];
        const struct mpi_stats_now *now = rank->stuck ? mpi_why_call_of(&rank->threads[rank->shown]) : NULL;
        bool there = now && now->call == CALL_MPI_Finalize;
        others |= now && !there;
        longest = there && now->age_ns > longest ? now->age_ns : longest;
    }
    return others ? longest : 0;
}

bool mpi_why_asked(const struct mpi_why *why)
{
    return why->finding_count && why->findings[0].kind == MPI_WHY_POLLS_IN_VAIN;
}

/* ---- at the end ---- */

static bool is_end_known(const struct mpi_stats *stats)
{
    return stats->end.known && stats->end.status != JOB_STATUS_UNKNOWN;
}

/* Since it came out of a call that blocks, or began what it asks for: whichever was later. */
static uint64_t in_vain_for(const struct mpi_stats *stats, const struct mpi_stats_thread *thread)
{
    uint64_t ns = thread->blocking.compute_open_ns;
    size_t known = thread->last.flags & MPIA_NOW_REQUESTS ? thread->last.waiting : 0;
    for (size_t i = 0; i < known && i < MPIA_WAITS; i++)
        for (size_t k = 0; k < stats->request_count; k++)
            if (stats->requests[k].handle == thread->last.waits[i] && stats->requests[k].age_ns < ns)
                ns = stats->requests[k].age_ns;
    return ns;
}

/* What asked until it ended, and had got nothing for so long: nobody has seen it do so, but its last call was to ask, a moment before. */
static void find_last_polls(struct mpi_stats *stats, uint64_t settled_ns, struct arena *arena)
{
    struct mpi_stats_thread *threads = (void *)arena_dup(arena, stats->threads, stats->thread_count * sizeof *threads);
    for (size_t i = 0; threads && i < stats->thread_count; i++) {
        struct mpi_stats_thread *thread = &threads[i];
        if (thread->now.call != CALL_NONE)
            thread->last = thread->now;
        if (thread->ended || !call_info(thread->last.call)->polls ||
            (thread->now.call == CALL_NONE && thread->outermost.compute_open_ns > ASKED_NS))
            continue;
        thread->polls_ns = in_vain_for(stats, thread);
        thread->polls = thread->polls_ns >= settled_ns;
    }
    stats->threads = threads ? threads : stats->threads;
}

/* It lived when the job ended, and nothing says that it went on after that. */
static bool was_left(const struct mpi_stats *stats)
{
    bool killed = WIFSIGNALED(stats->status) && !job_signal_is_fault(WTERMSIG(stats->status));
    return stats->end.left && !stats->aborted && (!stats->status_known || killed);
}

/* As they were in their last moment; `polls`: who asked then, asked all the time. false: one ended by itself, or not all ends are known. */
static bool find_at_end(struct mpi_why *ret_why, const struct mpi_stats_set *set, uint64_t settled_ns, bool polls,
                        struct arena *arena)
{
    const struct mpi_why_options options = {.settled_ns = settled_ns, .came_ns = settled_ns};
    struct mpi_stats_set living = {.ranks = arena_zalloc(arena, set->count + 1, sizeof *living.ranks),
                                   .count = set->count};
    double last = 0;
    *ret_why = (struct mpi_why){0};
    if (!living.ranks)
        return false;
    for (size_t i = 0; i < set->count; i++)
        if (set->ranks[i].end.known && set->ranks[i].end.seconds > last)
            last = set->ranks[i].end.seconds;
    for (size_t i = 0; i < set->count; i++) {
        struct mpi_stats *stats = &living.ranks[i];
        *stats = set->ranks[i];
        bool ended = is_end_known(stats), left = was_left(stats);
        if (ended && (mpi_ended_by_itself(stats) || stats->end.seconds < last - TOGETHER_SECONDS))
            continue;
        if (ended || left) {
            stats->running = true;
            stats->end = (struct mpi_stats_end){0};
        }
        if (stats->thread_count == 1 &&
            stats->thread_level > THREAD_SERIALIZED) /* no other thread has ever called MPI */
            stats->thread_level = THREAD_SERIALIZED;
        if (polls)
            find_last_polls(stats, settled_ns, arena);
    }
    mpi_stats_set_forget_ended(&living); /* earlier programs of the job */
    for (size_t i = 0; i < living.count; i++) {
        const struct mpi_stats *stats = &living.ranks[i];
        if (!stats->running && (!is_end_known(stats) || mpi_ended_badly(stats) || stats->end.status))
            return false;
    }
    return mpi_why_find(ret_why, &living, &options, arena) == 0;
}

bool mpi_why_find_at_end(struct mpi_why *ret_why, const struct mpi_stats_set *set, struct arena *arena)
{
    const uint64_t stuck_ns =
        time_hasten(STUCK_MS) * 1000000; /* so long a rank that lives waits for a message that lies there */
    if (find_at_end(ret_why, set, stuck_ns, false, arena) && (mpi_why_is_stuck(ret_why) || mpi_why_waited(ret_why)))
        return true;
    return find_at_end(ret_why, set, stuck_ns, true, arena) && mpi_why_asked(ret_why);
}

/* Whether it waits in a call of MPI for the other one. */
static bool waits_for_rank(const struct mpi_why_rank *rank, uint32_t other)
{
    const struct mpi_why_thread *thread = rank->state == MPI_WHY_WAITS ? &rank->threads[rank->shown] : NULL;
    for (size_t i = 0; thread && i < thread->condition_count; i++)
        for (uint32_t k = 0; k < thread->conditions[i].for_count; k++)
            if (thread->conditions[i].for_ranks[k] == other)
                return true;
    return false;
}

uint32_t mpi_why_failed_at_end(struct mpi_why *ret_why, const struct mpi_stats_set *set, struct arena *arena)
{
    uint32_t found = MPI_WHY_NONE;
    bool known = find_at_end(ret_why, set, 1, false, arena);
    for (uint32_t i = 0; known && i < ret_why->count; i++) {
        const struct mpi_why_rank *rank = &ret_why->ranks[i];
        bool alone = rank->state == MPI_WHY_WAITS && !rank->threads[rank->shown].condition_count, awaited = false;
        for (size_t k = 0; alone && k < ret_why->count && !awaited; k++)
            awaited = k != i && waits_for_rank(&ret_why->ranks[k], i);
        if (awaited && found != MPI_WHY_NONE)
            return MPI_WHY_NONE;
        found = awaited ? i : found;
    }
    return found;
}

/* ---- threads that poll ---- */

enum { POLLS_LEAST = 3 /* times between the looks: else it computes, and asks now and then */ };

static const struct mpi_stats *same_process(const struct mpi_stats_set *before, size_t index,
                                            const struct mpi_stats *stats)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct mpi_stats *other = &before->ranks[(index + i) % before->count]; /* most are in the same place */
        if (other->pid == stats->pid && other->rank == stats->rank &&
            other->started_wall_ns == stats->started_wall_ns && other->node && stats->node &&
            strcmp(other->node, stats->node) == 0)
            return other;
    }
    return NULL;
}

static uint64_t of_part(const struct mpi_stats_row *row, bool main)
{
    uint64_t others = row->others_count < row->count ? row->others_count : row->count;
    return main ? row->count - others : others;
}

static uint64_t count_before(const struct mpi_stats_row *rows, size_t count, uint32_t call, bool main)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].call == call)
            return of_part(&rows[i], main);
    return 0;
}

/* The thread that is the rank, or all others: between the looks it did nothing but ask. Whatever is less than it was,
 * was set to nothing meanwhile. */
static bool only_asked(const struct mpi_stats *stats, const struct mpi_stats *before, bool main)
{
    for (size_t i = 0; i < stats->row_count; i++) {
        const struct mpi_stats_row *row = &stats->rows[i];
        if (row->call < CALL_COUNT && !call_is(row->call, CALL_IS_LOCAL) && !call_info(row->call)->polls &&
            of_part(row, main) != count_before(before->rows, before->row_count, row->call, main))
            return false;
    }
    for (size_t i = 0; i < stats->span_count; i++)
        if (of_part(&stats->spans[i], main) !=
            count_before(before->spans, before->span_count, stats->spans[i].call, main))
            return false; /* something came */
    return true;
}

static void thread_find_polls(const struct mpi_stats *stats, struct mpi_stats_thread *thread,
                              const struct mpi_stats_thread *before, uint64_t passed_ns)
{
    uint64_t calls = thread->outermost.count - before->outermost.count;
    if (thread->ended || thread->tid != before->tid || thread->outermost.count < before->outermost.count ||
        calls < POLLS_LEAST)
        return;
    if (thread->now.call != CALL_NONE)
        thread->last = thread->now;
    if (!call_info(thread->last.call)->polls)
        return;
    thread->polls = true;
    thread->polls_ns = in_vain_for(stats, thread);
    thread->polls_per_second = (double)calls * 1e9 / (double)passed_ns;
}

void mpi_polls_find(struct mpi_stats_set *set, const struct mpi_stats_set *before)
{
    for (size_t i = 0; i < set->count; i++) {
        struct mpi_stats *stats = &set->ranks[i];
        const struct mpi_stats *old = stats->running ? same_process(before, i, stats) : NULL;
        if (!old || stats->state != MPIA_RUNNING || stats->taken_wall_ns <= old->taken_wall_ns ||
            stats->resets != old->resets)
            continue;
        bool asked[2] = {only_asked(stats, old, false), only_asked(stats, old, true)};
        for (size_t k = 0; k < stats->thread_count && k < old->thread_count; k++)
            if (asked[stats->threads[k].is_main])
                thread_find_polls(stats, &stats->threads[k], &old->threads[k],
                                  stats->taken_wall_ns - old->taken_wall_ns);
    }
}

/* ---- records of several nodes' monitors ---- */

enum { SHOWN_MISSING = 8 };

static bool is_of_part(const struct mpi_stats *stats, const struct mpi_why_part *part)
{
    return stats->dir && strcmp(stats->dir, part->dir) == 0;
}

static void time_shift(uint64_t *inout_ns, int64_t offset_ns)
{
    if (*inout_ns && (offset_ns < 0 || *inout_ns > (uint64_t)offset_ns))
        *inout_ns -= (uint64_t)offset_ns;
}

static void note_separate(struct buf *note)
{
    buf_puts(note, note->len ? "; " : "");
}

/* `now_ns`: when the others were looked at. */
static void mark_unheard(struct mpi_stats_set *set, const struct mpi_why_part *part, uint64_t since_ns, uint64_t now_ns)
{
    for (size_t i = 0; i < set->count; i++) {
        struct mpi_stats *stats = &set->ranks[i];
        if (is_of_part(stats, part) && stats->rank >= 0 && stats->running &&
            stats->taken_wall_ns + part->bound_ns < since_ns)
            stats->unheard_ns = now_ns - stats->taken_wall_ns;
    }
}

static void note_part(struct buf *note, const struct mpi_stats_set *set, const struct mpi_why_part *part)
{
    size_t ranks = 0, late = 0;
    uint64_t oldest_ns = 0;
    bool timed = true;
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        if (!is_of_part(stats, part) || stats->rank < 0)
            continue;
        ranks++;
        late += stats->unheard_ns > 0;
        timed &= !stats->unheard_ns || stats->taken_wall_ns;
        oldest_ns = stats->unheard_ns > oldest_ns ? stats->unheard_ns : oldest_ns;
    }
    if (ranks && !late)
        return;
    note_separate(note);
    buf_puts(note, "node ");
    text_show(note, part->node);
    if (!ranks) {
        buf_puts(note, " has told of no rank");
        return;
    }
    buf_printf(note, ": what %zu rank%s in is ", late, late == 1 ? " is" : "s are");
    if (timed)
        text_seconds(note, (double)oldest_ns / 1e9);
    buf_puts(note, timed ? " old" : "of an unknown time");
}

static bool is_known(const struct mpi_stats_set *set, const char *namespace, int32_t rank)
{
    int order; /* sorted by (namespace, rank, pid) */
    size_t low = COUNT_BEFORE(set->count, i,
                              (order = strcmp(set->ranks[i].namespace, namespace)) < 0 ||
                                  (order == 0 && set->ranks[i].rank < rank));
    return low < set->count && set->ranks[low].rank == rank && strcmp(set->ranks[low].namespace, namespace) == 0;
}

/* Of one program; its ranks stand one behind the other, the first at `from`. */
static void note_missing(struct buf *note, const struct mpi_stats_set *set, size_t from)
{
    const struct mpi_stats *first = &set->ranks[from];
    size_t missing = 0;
    if (first->world_size <= 0 || (size_t)first->world_size <= set->count - from) {
        size_t known = 0;
        for (size_t i = from; i < set->count && strcmp(set->ranks[i].namespace, first->namespace) == 0; i++)
            known += i == from || set->ranks[i].rank != set->ranks[i - 1].rank;
        if (first->world_size <= 0 || known >= (size_t)first->world_size)
            return;
    }
    for (int32_t rank = 0; rank < first->world_size; rank++) {
        if (is_known(set, first->namespace, rank))
            continue;
        if (!missing++) {
            note_separate(note);
            buf_puts(note, "nothing is known of rank ");
        } else if (missing <= SHOWN_MISSING) {
            buf_puts(note, ", ");
        }
        if (missing <= SHOWN_MISSING)
            buf_printf(note, "%" PRId32, rank);
    }
    if (missing > SHOWN_MISSING)
        buf_printf(note, " and %zu more", missing - SHOWN_MISSING);
    buf_printf(note, " (of %" PRId32 ")", first->world_size);
}

uint64_t mpi_why_align(struct mpi_stats_set *set, const struct mpi_why_part *parts, size_t count, uint64_t since_ns,
                       bool asked, struct buf *note)
{
    uint64_t widest = 0, second = 0, now_ns = since_ns;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < set->count; k++)
            if (is_of_part(&set->ranks[k], &parts[i])) {
                time_shift(&set->ranks[k].taken_wall_ns, parts[i].offset_ns);
                time_shift(&set->ranks[k].started_wall_ns, parts[i].offset_ns);
            }
        if (parts[i].bound_ns > widest) {
            second = widest;
            widest = parts[i].bound_ns;
        } else if (parts[i].bound_ns > second) {
            second = parts[i].bound_ns;
        }
    }
    for (size_t k = 0; k < set->count; k++)
        now_ns = set->ranks[k].taken_wall_ns > now_ns ? set->ranks[k].taken_wall_ns : now_ns;
    for (size_t i = 0; i < count; i++) {
        mark_unheard(set, &parts[i], since_ns, now_ns);
        note_part(note, set, &parts[i]);
    }
    for (size_t k = 0; k < set->count && !asked; k++)
        set->ranks[k].unheard_ns = 0;
    for (size_t i = 0; i < set->count; i++)
        if (i == 0 || strcmp(set->ranks[i].namespace, set->ranks[i - 1].namespace) != 0)
            note_missing(note, set, i);
    return widest + second;
}
