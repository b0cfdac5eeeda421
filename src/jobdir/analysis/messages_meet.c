/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that meet: one waits in MPI_Comm_accept for the others, which come by MPI_Comm_connect with the name of its
 * port; or two processes have a socket in common (MPI_Comm_join). The interposer has noted what both sides know.
 *
 * A port is that of one process, so whoever connected with its name is in one of its communicators: that whose sizes
 * fit, and whose call was under way at some time together with the other one, which neither can leave before the other
 * has come. If that is one alone, it is the one, and nobody else's. The other way round that is not so: who was
 * accepted may have no trace here. A socket has two ends; what was made over it has an order.
 */
#include "jobdir/analysis/messages_join.h"

static void unite(struct shared *one, struct shared *other)
{
    one->same = other->same = one;
}

static uint32_t host_of(const struct join *join, const struct shared *shared)
{
    return join->messages->timeline.traces[join->messages->ranks[shared->root].trace].host;
}

/* One has left before the other came: that is known of one clock only. */
static bool have_missed(const struct join *join, const struct shared *a, const struct shared *b)
{
    if (a->from > a->to || b->from > b->to || host_of(join, a) != host_of(join, b))
        return false;
    return a->to < b->from || b->to < a->from;
}

static bool may_meet(const struct join *join, const struct shared *a, const struct shared *b, uint32_t call)
{
    return b->comm->call == call && !b->same && a->meeting == b->meeting && mpi_shared_fit(a, b) &&
           !have_missed(join, a, b);
}

/* What is to be united with `shared`; NULL: there is none, or more than one. */
static struct shared *accepted_by(const struct join *join, const struct shared *shared)
{
    struct shared *found = NULL;
    for (size_t i = 0; i < join->count; i++) {
        if (!may_meet(join, shared, &join->list[i], CALL_MPI_Comm_accept))
            continue;
        if (found)
            return NULL;
        found = &join->list[i];
    }
    return found;
}

static bool is_to_connect(const struct shared *shared)
{
    return shared->meeting && !shared->same && shared->comm->call == CALL_MPI_Comm_connect;
}

/* All who have one left; who has met one has not met another, so that others may have one left then. */
static bool connect(const struct join *join)
{
    bool united = false;
    for (size_t i = 0; i < join->count; i++)
        join->list[i].claims = 0;
    for (size_t i = 0; i < join->count; i++) {
        struct shared *shared = &join->list[i];
        shared->claimed = is_to_connect(shared) ? accepted_by(join, shared) : NULL;
        if (shared->claimed)
            shared->claimed->claims++;
    }
    for (size_t i = 0; i < join->count; i++) {
        struct shared *shared = &join->list[i];
        if (!shared->claimed || shared->claimed->claims != 1) /* both cannot be */
            continue;
        unite(shared, shared->claimed);
        united = true;
    }
    return united;
}

/* Of those made over its socket, by one of the two processes: how many before it, and in all. */
static size_t place_of(const struct join *join, const struct shared *shared, const struct shared *of, size_t *ret_count)
{
    size_t before = 0;
    *ret_count = 0;
    for (size_t i = 0; i < join->count; i++) {
        const struct shared *other = &join->list[i];
        if (other->comm->call != CALL_MPI_Comm_join || other->meeting != shared->meeting || other->root != of->root)
            continue;
        ++*ret_count;
        before += other->comm->number < of->comm->number;
    }
    return before;
}

static void meet_on_socket(const struct join *join, struct shared *shared)
{
    struct shared *found = NULL;
    size_t count, other_count, place = place_of(join, shared, shared, &count);
    for (size_t i = 0; i < join->count; i++) {
        struct shared *other = &join->list[i];
        if (other->root == shared->root || other->comm->call != CALL_MPI_Comm_join || other->meeting != shared->meeting)
            continue;
        if ((shared->meeting & MPIA_MEETING_HERE) && host_of(join, other) != host_of(join, shared))
            return;
        if (place_of(join, shared, other, &other_count) != place)
            continue;
        if (found || count != other_count || other->same || !mpi_shared_fit(shared, other))
            return;
        found = other;
    }
    if (found)
        unite(shared, found);
}

/* Some have no entry of their own: the one that is meant may be among them. */
static bool is_crowded(const struct join *join)
{
    for (size_t i = 0; i < join->messages->rank_count; i++) {
        const struct mpi_stats *stats = join->messages->ranks[i].stats;
        for (size_t k = 0; stats && k < stats->comm_count; k++)
            if (stats->comms[k].number >= MPIA_COMMS - 1)
                return true;
    }
    return false;
}

void mpi_messages_meet(const struct join *join)
{
    if (is_crowded(join))
        return;
    for (size_t i = 0; i < join->count; i++) {
        struct shared *shared = &join->list[i];
        if (shared->meeting && !shared->same && shared->comm->call == CALL_MPI_Comm_join)
            meet_on_socket(join, shared);
    }
    while (connect(join))
        ;
}
