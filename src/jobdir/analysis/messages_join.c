/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators that programs have in common, of which one has started the other (MPI_Comm_spawn), or that have met
 * (analysis/messages_meet.c). Each program names them its own way, and MPI does not say who the other one is. But both
 * know how many ranks there are on each side, and a child comes to MPI_Init while the root of those who started it is
 * in its call, of which there is one at a time. What is made from such a communicator (merged, copied, split) is found
 * by its parent, its sequence number there, and because each program knows the ranks of its own. Only what can be
 * nothing else is joined.
 */
#include "jobdir/analysis/messages_join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"

/* ---- what there is ---- */

static bool has_foreign(const int32_t *ranks, uint32_t count)
{
    for (uint32_t i = 0; ranks && i < count; i++)
        if (ranks[i] == MPIA_RANK_FOREIGN)
            return true;
    return false;
}

static bool is_shared(const struct mpi_stats_comm *comm)
{
    if (comm->identity == 0 || comm->size == 0 || (comm->kind != MPIA_COMM_INTER && comm->kind != MPIA_COMM_INTRA))
        return false;
    return comm->kind == MPIA_COMM_INTER
               ? has_foreign(comm->remote_ranks, comm->remote_size) && !has_foreign(comm->ranks, comm->size)
               : has_foreign(comm->ranks, comm->size);
}

static const struct mpi_stats_comm *parent_of(const struct mpi_stats *stats, const struct mpi_stats_comm *comm)
{
    for (size_t i = 0; comm->parent != UINT32_MAX && i < stats->comm_count; i++)
        if (stats->comms[i].number == comm->parent)
            return &stats->comms[i];
    return NULL;
}

/* In a world, all have one of their ranks in the place of that rank. */
static int note(struct join *join, uint32_t index, const struct mpi_stats_comm *comm)
{
    const struct mpi_message_rank *rank = &join->messages->ranks[index];
    struct shared *shared = NULL;
    for (size_t i = 0; i < join->count && !shared; i++)
        if (join->list[i].world == rank->world && join->list[i].comm->identity == comm->identity)
            shared = &join->list[i];
    if (!shared) {
        if (!GROW(join->list, join->count, join->room))
            return -ENOMEM;
        uint32_t *own = malloc(comm->size * sizeof *own);
        if (!own)
            return -ENOMEM;
        memset(own, 0xff, comm->size * sizeof *own);
        const struct mpi_stats_comm *parent = parent_of(rank->stats, comm);
        shared = &join->list[join->count++];
        *shared = (struct shared){.world = rank->world,
                                  .comm = comm,
                                  .parent = parent ? parent->identity : 0,
                                  .own = own,
                                  .from = INT64_MAX,
                                  .to = INT64_MIN};
    }
    if (comm->rank < shared->comm->size)
        shared->own[comm->rank] = index;
    return 0;
}

static int gather(struct join *join)
{
    int code = 0;
    for (uint32_t i = 0; code == 0 && i < join->messages->rank_count; i++) {
        const struct mpi_stats *stats = join->messages->ranks[i].stats;
        for (size_t k = 0; code == 0 && stats && k < stats->comm_count; k++)
            if (is_shared(&stats->comms[k]))
                code = note(join, i, &stats->comms[k]);
    }
    return code;
}

/* ---- when ---- */

static bool is_same_kind(uint32_t one, uint32_t other)
{
    return one == other || (call_is(one, CALL_IS_SPAWNS) && call_is(other, CALL_IS_SPAWNS));
}

/* The sequence number of the call that made it, among those of its kind of its rank, if each has made one. */
static const struct mpi_part *maker_of(const struct mpi_message_rank *rank, const struct mpi_stats_comm *comm)
{
    size_t before = 0, made = 0, seen = 0;
    const struct mpi_part *part = NULL;
    for (size_t i = 0; i < rank->stats->comm_count; i++) {
        const struct mpi_stats_comm *other = &rank->stats->comms[i];
        made += is_same_kind(other->call, comm->call);
        before += is_same_kind(other->call, comm->call) && other->number < comm->number;
    }
    for (size_t i = 0; i < rank->part_count; i++)
        if (is_same_kind(rank->parts[i].call, comm->call) && seen++ == before)
            part = &rank->parts[i];
    return made == seen ? part : NULL;
}

static const struct mpi_stats_comm *comm_of(const struct mpi_message_rank *rank, uint64_t identity)
{
    for (size_t i = 0; rank->stats && i < rank->stats->comm_count; i++)
        if (rank->stats->comms[i].identity == identity)
            return &rank->stats->comms[i];
    return NULL;
}

/* What the root of the call knows of it. */
static void when_made(const struct mpi_messages *messages, struct shared *shared)
{
    for (uint32_t i = 0; i < shared->comm->size; i++) {
        const struct mpi_message_rank *rank = shared->own[i] == UINT32_MAX ? NULL : &messages->ranks[shared->own[i]];
        const struct mpi_stats_comm *comm = rank ? comm_of(rank, shared->comm->identity) : NULL;
        const struct mpi_part *part =
            comm && (comm->meeting || call_is(comm->call, CALL_IS_SPAWNS)) ? maker_of(rank, comm) : NULL;
        if (comm && comm->meeting) {
            shared->meeting = comm->meeting;
            shared->root = shared->own[i];
        }
        if (part && part->root == rank->rank) {
            shared->from = part->begin;
            shared->to = part->end;
        }
    }
}

static void when_started(const struct mpi_messages *messages, struct shared *shared)
{
    for (uint32_t i = 0; i < shared->comm->size; i++) {
        const struct mpi_message_rank *rank = shared->own[i] == UINT32_MAX ? NULL : &messages->ranks[shared->own[i]];
        if (!rank || rank->init_begin == INT64_MIN)
            continue;
        shared->from = rank->init_begin < shared->from ? rank->init_begin : shared->from;
        shared->to = rank->init_begin > shared->to ? rank->init_begin : shared->to;
    }
}

static void find_times(const struct join *join)
{
    for (size_t i = 0; i < join->count; i++)
        if (call_is(join->list[i].comm->call, CALL_IS_SPAWNS) || call_is(join->list[i].comm->call, CALL_IS_MEETS))
            when_made(join->messages, &join->list[i]);
        else if (join->list[i].comm->call == CALL_MPI_Comm_get_parent)
            when_started(join->messages, &join->list[i]);
}

/* ---- which are one ---- */

bool mpi_shared_fit(const struct shared *a, const struct shared *b)
{
    const struct mpi_stats_comm *one = a->comm, *other = b->comm;
    if (a->world == b->world || one->kind != other->kind)
        return false;
    if (one->kind == MPIA_COMM_INTER)
        return one->size == other->remote_size && one->remote_size == other->size;
    if (one->size != other->size)
        return false;
    for (uint32_t i = 0; i < one->size; i++)
        if (one->ranks[i] >= 0 && other->ranks[i] >= 0)
            return false;
    return true;
}

static struct shared *find(const struct join *join, uint32_t world, uint64_t identity)
{
    for (size_t i = 0; identity && i < join->count; i++)
        if (join->list[i].world == world && join->list[i].comm->identity == identity)
            return &join->list[i];
    return NULL;
}

static bool is_pair(const struct join *join, const struct shared *a, const struct shared *b)
{
    if (call_is(b->comm->call, CALL_IS_SPAWNS))
        return !call_is(a->comm->call, CALL_IS_SPAWNS) && is_pair(join, b, a);
    if (!mpi_shared_fit(a, b))
        return false;
    if (call_is(a->comm->call, CALL_IS_SPAWNS))
        return b->comm->call == CALL_MPI_Comm_get_parent && a->from <= b->from && b->from <= b->to && b->to <= a->to;
    const struct shared *parent = find(join, a->world, a->parent), *twin = find(join, b->world, b->parent);
    return parent && twin && parent->same && parent->same == twin->same && a->comm->call == b->comm->call &&
           a->comm->ordinal == b->comm->ordinal;
}

/* The one that it can be in that world; NULL: there is none, or more than one. */
static struct shared *only(const struct join *join, const struct shared *of, uint32_t world)
{
    struct shared *found = NULL;
    for (size_t i = 0; i < join->count; i++) {
        if (join->list[i].world != world || !is_pair(join, of, &join->list[i]))
            continue;
        if (found)
            return NULL;
        found = &join->list[i];
    }
    return found;
}

static bool unite(const struct join *join, struct shared *shared)
{
    bool united = false;
    for (uint32_t world = 0; world < join->messages->worlds; world++) {
        struct shared *other = world == shared->world ? NULL : only(join, shared, world);
        if (!other || only(join, other, shared->world) != shared || (other->same && other->same == shared->same))
            continue;
        if (other->same && shared->same) /* three worlds, which have found two of the three pairs already */
            continue;
        struct shared *same = shared->same ? shared->same : other->same ? other->same : shared;
        shared->same = other->same = same;
        united = true;
    }
    return united;
}

/* ---- what comes of it ---- */

static struct mpi_message_comm *message_comm(const struct mpi_messages *messages, const struct shared *shared)
{
    for (struct mpi_message_comm *comm = messages->comms; comm; comm = comm->hh.next)
        if (comm->key.world == shared->world && (comm->key.identity & INT64_MAX) == shared->comm->identity)
            return comm;
    return NULL;
}

static int others_set(struct mpi_message_comm *comm, const struct join *join, const struct shared *shared)
{
    bool inter = shared->comm->kind == MPIA_COMM_INTER;
    uint32_t count = inter ? shared->comm->remote_size : shared->comm->size;
    comm->others = malloc((count + 1) * sizeof *comm->others);
    if (!comm->others)
        return -ENOMEM;
    comm->other_count = count;
    memset(comm->others, 0xff, count * sizeof *comm->others);
    for (size_t k = 0; k < join->count; k++) {
        const struct shared *other = &join->list[k];
        for (uint32_t i = 0; other != shared && other->same == shared->same && i < count; i++)
            if (other->own[i] != UINT32_MAX)
                comm->others[i] = other->own[i];
    }
    return 0;
}

static int spread(const struct join *join)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < join->count; i++) {
        const struct shared *shared = &join->list[i];
        struct mpi_message_comm *comm = shared->same ? message_comm(join->messages, shared) : NULL, *first = NULL;
        for (size_t k = 0; comm && k < join->count && !first; k++)
            first = join->list[k].same == shared->same ? message_comm(join->messages, &join->list[k]) : NULL;
        if (!comm)
            continue;
        comm->same = first->index;
        code = others_set(comm, join, shared);
    }
    return code;
}

int mpi_messages_join(struct mpi_messages *messages)
{
    struct join join = {.messages = messages};
    int code = messages->worlds > 1 ? gather(&join) : 0;
    if (code == 0)
        find_times(&join);
    if (code == 0)
        mpi_messages_meet(&join);
    for (bool more = code == 0; more;) { /* parents before what was made of them */
        more = false;
        for (size_t i = 0; i < join.count; i++)
            if (!call_is(join.list[i].comm->call, CALL_IS_MEETS))
                more = unite(&join, &join.list[i]) || more;
    }
    if (code == 0)
        code = spread(&join);
    for (size_t i = 0; i < join.count; i++)
        free(join.list[i].own);
    free(join.list);
    return code;
}
