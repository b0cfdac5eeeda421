/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/analysis/messages_internal.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Communicators that programs have in common, of which one has started the other (MPI_Comm_spawn), or that have met
 * (below). Each program names them its own way, and MPI does not say who the other one is. But both
 * know how many ranks there are on each side, and a child comes to MPI_Init while the root of those who started it is
 * in its call, of which there is one at a time. What is made from such a communicator (merged, copied, split) is found
 * by its parent, its sequence number there, and because each program knows the ranks of its own. Only what can be
 * nothing else is joined.
 */

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
static int join_add(struct join *join, uint32_t index, const struct mpi_stats_comm *comm)
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

static int join_gather(struct join *join)
{
    int code = 0;
    for (uint32_t i = 0; code == 0 && i < join->messages->rank_count; i++) {
        const struct mpi_stats *stats = join->messages->ranks[i].stats;
        for (size_t k = 0; code == 0 && stats && k < stats->comm_count; k++)
            if (is_shared(&stats->comms[k]))
                code = join_add(join, i, &stats->comms[k]);
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

/* Two worlds' views fit: sides are mirrored; of each rank of an intracommunicator one world at most says that it is its
 * own. */
static bool mpi_shared_fit(const struct shared *a, const struct shared *b)
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

static struct shared *join_find(const struct join *join, uint32_t world, uint64_t identity)
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
    const struct shared *parent = join_find(join, a->world, a->parent), *twin = join_find(join, b->world, b->parent);
    return parent && twin && parent->same && parent->same == twin->same && a->comm->call == b->comm->call &&
           a->comm->ordinal == b->comm->ordinal;
}

/* The one that it can be in that world; NULL: there is none, or more than one. */
static struct shared *join_find_only(const struct join *join, const struct shared *of, uint32_t world)
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

static bool join_worlds(const struct join *join, struct shared *shared)
{
    bool united = false;
    for (uint32_t world = 0; world < join->messages->worlds; world++) {
        struct shared *other = world == shared->world ? NULL : join_find_only(join, shared, world);
        if (!other || join_find_only(join, other, shared->world) != shared ||
            (other->same && other->same == shared->same))
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

static int join_store(const struct join *join)
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
    int code = messages->worlds > 1 ? join_gather(&join) : 0;
    if (code == 0)
        find_times(&join);
    if (code == 0)
        mpi_messages_meet(&join);
    for (bool more = code == 0; more;) { /* parents before what was made of them */
        more = false;
        for (size_t i = 0; i < join.count; i++)
            if (!call_is(join.list[i].comm->call, CALL_IS_MEETS))
                more = join_worlds(&join, &join.list[i]) || more;
    }
    if (code == 0)
        code = join_store(&join);
    for (size_t i = 0; i < join.count; i++)
        free(join.list[i].own);
    free(join.list);
    return code;
}

/*
 * Programs that meet: one waits in MPI_Comm_accept for the others, which come by MPI_Comm_connect with the name of its
 * port; or two processes have a socket in common (MPI_Comm_join). The interposer has noted what both sides know.
 *
 * A port is that of one process, so whoever connected with its name is in one of its communicators: that whose sizes
 * fit, and whose call was under way at some time together with the other one, which neither can leave before the other
 * has come. If that is one alone, it is the one, and nobody else's. The other way round that is not so: who was
 * accepted may have no trace here. A socket has two ends; what was made over it has an order.
 */

static void unite_shared(struct shared *one, struct shared *other)
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
static bool join_connect(const struct join *join)
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
        unite_shared(shared, shared->claimed);
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
        unite_shared(shared, found);
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
    while (join_connect(join))
        ;
}

/*
 * Which receive is which send's. Each rank's ends are sorted by channel and order, as indices; a run of sends of a rank
 * has its receives as a run of the other rank's, found by bisection. So memory beyond the ends is 4 bytes for each.
 */

struct sorted { /* one rank's */
    uint32_t *sent, *got;
};

struct match {
    struct mpi_messages *messages;
    struct sorted *sorted;
    struct { /* of the pair of ranks looked at last: since when nothing is unknown */
        size_t from, to;
        uint32_t comm;
        bool looked;
        int known; /* as mpi_messages_quiet says */
        int64_t since;
    } quiet;
    int code;
};

/* ---- what is certain ---- */

static int by_number(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Posts are numbered from 1 on: the first number that is nowhere is of a record that is missing (or of an operation
 * that failed, was cancelled or never completed: then too little is called certain, never too much). */
static int find_certain(struct mpi_message_rank *rank)
{
    bool gap = rank->gap_end != INT64_MIN;
    rank->counted = (gap ? rank->counted : rank->from_start) && !rank->lost;
    rank->certain = !rank->from_start ? 0 : gap ? rank->gap_order + 1 : UINT64_MAX;
    if (!rank->lost || !rank->from_start)
        return 0;
    size_t count = rank->sent_count + rank->got_count, at = 0;
    uint64_t *orders = malloc((count + 1) * sizeof *orders);
    if (!orders)
        return -ENOMEM;
    for (size_t i = 0; i < rank->sent_count; i++)
        orders[at++] = rank->sent[i].order;
    for (size_t i = 0; i < rank->got_count; i++)
        orders[at++] = rank->got[i].order;
    qsort(orders, count, sizeof *orders, by_number);
    uint64_t next = 1;
    for (size_t i = 0; i < count && orders[i] <= next; i++)
        next += orders[i] == next;
    rank->certain = next < rank->certain ? next : rank->certain;
    free(orders);
    return 0;
}

/* ---- sorting ---- */

static int compare_channel(uint32_t comm, int32_t peer, int32_t tag, const struct mpi_end *end)
{
    if (comm != end->comm)
        return comm < end->comm ? -1 : 1;
    if (peer != end->peer)
        return peer < end->peer ? -1 : 1;
    return tag < end->tag ? -1 : tag > end->tag;
}

static int by_channel(const void *a, const void *b, void *ctx)
{
    const struct mpi_end *ends = ctx, *left = &ends[*(const uint32_t *)a], *right = &ends[*(const uint32_t *)b];
    int order = compare_channel(left->comm, left->peer, left->tag, right);
    if (order)
        return order;
    int64_t first = (int64_t)left->order,
            second = (int64_t)right->order; /* negative: posted before there were numbers */
    return first < second ? -1 : first > second;
}

static uint32_t *sort_ends(struct mpi_end *ends, size_t count)
{
    uint32_t *list = calloc(count + 1, sizeof *list);
    if (!list)
        return NULL;
    for (size_t i = 0; i < count; i++)
        list[i] = (uint32_t)i;
    if (count)
        qsort_r(list, count, sizeof *list, by_channel, ends);
    return list;
}

/* The run of ends of one channel that begins at `at`. */
static size_t run_end(const struct mpi_end *ends, const uint32_t *list, size_t count, size_t at)
{
    const struct mpi_end *first = &ends[list[at]];
    while (at < count && compare_channel(first->comm, first->peer, first->tag, &ends[list[at]]) == 0)
        at++;
    return at;
}

static size_t run_begin(const struct mpi_end *ends, const uint32_t *list, size_t count, uint32_t comm, int32_t peer,
                        int32_t tag)
{
    return COUNT_BEFORE(count, i, compare_channel(comm, peer, tag, &ends[list[i]]) > 0);
}

static size_t run_find(const struct mpi_end *ends, const uint32_t *list, size_t count, uint32_t comm, int32_t peer,
                       int32_t tag)
{
    size_t at = run_begin(ends, list, count, comm, peer, tag);
    bool found = at < count && compare_channel(comm, peer, tag, &ends[list[at]]) == 0;
    return found ? at : count;
}

static size_t certain_of(const struct mpi_message_rank *rank, const struct mpi_end *ends, const uint32_t *list,
                         size_t count)
{
    size_t certain = 0;
    while (certain < count && ends[list[certain]].order < rank->certain &&
           ends[list[certain]].order != MPI_ORDER_UNKNOWN)
        certain++;
    return certain;
}

/* ---- what is left over ---- */

static void note_left(struct mpi_messages *messages, const struct mpi_left *left)
{
    uint64_t size = left->sent + left->got + left->sent_unsure + left->got_unsure;
    if (!size)
        return;
    messages->left_channels++;
    messages->unreceived += left->sent;
    messages->unsent += left->got;
    messages->sent_unsure += left->sent_unsure;
    messages->got_unsure += left->got_unsure;
    size_t place = messages->left_count;
    for (; place; place--) {
        const struct mpi_left *before = &messages->left[place - 1];
        if (before->sent + before->got + before->sent_unsure + before->got_unsure >= size)
            break;
    }
    if (place == MPI_LEFT_SHOWN)
        return;
    size_t last = messages->left_count < MPI_LEFT_SHOWN ? messages->left_count++ : MPI_LEFT_SHOWN - 1;
    memmove(&messages->left[place + 1], &messages->left[place], (last - place) * sizeof *messages->left);
    messages->left[place] = *left;
}

static void ends_leave(struct mpi_end *ends, const uint32_t *list, size_t count, uint64_t why)
{
    for (size_t i = 0; i < count; i++)
        ends[list[i]].other = why;
}

/* ---- channels ---- */

struct side {      /* of a channel */
    size_t rank;   /* in the list of ranks */
    uint32_t comm; /* as the ends of that rank have it; UINT32_MAX: it is in no trace of that program */
    int32_t peer;  /* likewise: the other rank */
    const uint32_t *list;
    size_t count;
};

static void ends_pair(struct mpi_messages *messages, struct mpi_end *send, uint32_t sent, struct mpi_end *receive,
                      uint32_t got)
{
    send->other = got;
    receive->other = sent;
    messages->matched++;
    messages->matched_bytes += send->bytes;
}

/* The ends between two ranks on a communicator, of all tags. */
static void run_of_pair(const struct mpi_end *ends, const uint32_t *list, size_t count, const struct side *side,
                        const uint32_t **ret_list, size_t *ret_count)
{
    size_t low = run_begin(ends, list, count, side->comm, side->peer, INT32_MIN), high = low;
    while (high < count && ends[list[high]].comm == side->comm && ends[list[high]].peer == side->peer)
        high++;
    *ret_list = list + low;
    *ret_count = high - low;
}

static void before_of(const struct mpi_message_rank *rank, const struct side *side, uint64_t *ret_sent,
                      uint64_t *ret_got)
{
    for (size_t i = 0; i < rank->before_count; i++)
        if (rank->before[i].comm == side->comm && rank->before[i].peer == side->peer) {
            *ret_sent += rank->before[i].sent;
            *ret_got += rank->before[i].got;
        }
}

static bool quiet_since(struct match *match, const struct side *sends, const struct side *gets, int64_t *ret_ns)
{
    const struct mpi_messages *messages = match->messages;
    if (!match->quiet.looked || match->quiet.from != sends->rank || match->quiet.to != gets->rank ||
        match->quiet.comm != sends->comm) {
        struct mpi_pair pair = {.from = &messages->ranks[sends->rank], .to = &messages->ranks[gets->rank]};
        uint64_t unused = 0;
        run_of_pair(pair.from->sent, match->sorted[sends->rank].sent, pair.from->sent_count, sends, &pair.sent,
                    &pair.sends);
        run_of_pair(pair.to->got, match->sorted[gets->rank].got, pair.to->got_count, gets, &pair.got, &pair.gets);
        before_of(pair.from, sends, &pair.sent_before, &unused);
        before_of(pair.to, gets, &unused, &pair.got_before);
        match->quiet.looked = true;
        match->quiet.from = sends->rank;
        match->quiet.to = gets->rank;
        match->quiet.comm = sends->comm;
        match->quiet.known = mpi_messages_quiet(messages, &pair, &match->quiet.since);
    }
    if (match->quiet.known < 0)
        match->code = match->quiet.known;
    *ret_ns = match->quiet.since;
    return match->quiet.known > 0;
}

static bool all_have_orders(const struct mpi_end *ends, const struct side *side, size_t from, int64_t since)
{
    for (size_t i = from; i < side->count; i++)
        if (ends[side->list[i]].end > since && ends[side->list[i]].order == MPI_ORDER_UNKNOWN)
            return false;
    return true;
}

/* Nothing is recorded at the other end. If that went on without being recorded, it may have been there all the same. */
static void end_leave(struct mpi_end *end, bool stopped, uint64_t *alone, uint64_t *unsure)
{
    end->other = stopped ? MPI_OTHER_AMBIGUOUS : MPI_OTHER_NONE;
    ++*(stopped ? unsure : alone);
}

/* Of what is not certain from the start: what was sent, and received, after a moment of silence. */
static void match_late(struct match *match, const struct side *sends, const struct side *gets, size_t done,
                       struct mpi_left *left)
{
    struct mpi_messages *messages = match->messages;
    struct mpi_end *sent = messages->ranks[sends->rank].sent, *got = messages->ranks[gets->rank].got;
    int64_t since = INT64_MAX;
    bool known = quiet_since(match, sends, gets, &since) && all_have_orders(got, gets, done, since);
    size_t i = done, k = done;
    while (i < sends->count || k < gets->count) {
        struct mpi_end *send = i < sends->count ? &sent[sends->list[i]] : NULL;
        struct mpi_end *receive = k < gets->count ? &got[gets->list[k]] : NULL;
        if (send && (!known || send->begin <= since)) {
            send->other = MPI_OTHER_AMBIGUOUS;
            left->sent_unsure++;
            i++;
        } else if (receive && (!known || receive->end <= since)) {
            receive->other = MPI_OTHER_AMBIGUOUS;
            left->got_unsure++;
            k++;
        } else if (send && receive) {
            ends_pair(messages, send, sends->list[i++], receive, gets->list[k++]);
        } else if (send) {
            end_leave(send, messages->ranks[gets->rank].stopped, &left->sent, &left->sent_unsure);
            i++;
        } else {
            end_leave(receive, messages->ranks[sends->rank].stopped, &left->got, &left->got_unsure);
            k++;
        }
    }
}

/* Ranks that have a trace and a channel between them. */
static void match_channel(struct match *match, const struct side *sends, const struct side *gets, int32_t tag)
{
    struct mpi_messages *messages = match->messages;
    struct mpi_message_rank *from = &messages->ranks[sends->rank], *to = &messages->ranks[gets->rank];
    struct mpi_left left = {.world = from->world,
                            .to_world = to->world,
                            .comm = sends->count ? sends->comm : gets->comm,
                            .from = from->rank,
                            .to = to->rank,
                            .tag = tag};
    size_t sure = certain_of(from, from->sent, sends->list, sends->count),
           sure_got = certain_of(to, to->got, gets->list, gets->count);
    bool whole =
        sure == sends->count && sure_got == gets->count && from->certain == UINT64_MAX && to->certain == UINT64_MAX;
    size_t count = sure < sure_got ? sure : sure_got;
    for (size_t i = 0; i < count; i++)
        ends_pair(messages, &from->sent[sends->list[i]], sends->list[i], &to->got[gets->list[i]], gets->list[i]);
    if (whole) {
        for (size_t i = count; i < sends->count; i++)
            end_leave(&from->sent[sends->list[i]], to->stopped, &left.sent, &left.sent_unsure);
        for (size_t i = count; i < gets->count; i++)
            end_leave(&to->got[gets->list[i]], from->stopped, &left.got, &left.got_unsure);
    } else {
        match_late(match, sends, gets, count, &left);
    }
    note_left(messages, &left);
}

/* What the rank at `other` has in place of this side's communicator and of its rank. */
static struct side far_side(const struct mpi_messages *messages, const struct side *side, size_t other)
{
    uint32_t world = messages->ranks[other].world, same = messages->comm_list[side->comm]->same;
    struct side far = {.rank = other, .comm = side->comm, .peer = messages->ranks[side->rank].rank};
    if (world == messages->ranks[side->rank].world)
        return far;
    far.comm = UINT32_MAX;
    for (const struct mpi_message_comm *comm = messages->comms; comm; comm = comm->hh.next)
        for (size_t i = 0; comm->same == same && comm->key.world == world && i < comm->other_count; i++)
            if (comm->others[i] == side->rank) {
                far.comm = comm->index;
                far.peer = MPIA_RANK_OTHERS - (int32_t)i;
            }
    return far;
}

/* Nothing is matched of ends that failed, or whose other rank is not here. */
static bool has_no_other(struct mpi_messages *messages, struct mpi_end *ends, const struct side *side, ptrdiff_t other)
{
    if (side->peer == MPIA_RANK_NULL) {
        ends_leave(ends, side->list, side->count, MPI_OTHER_FAILED);
        return true;
    }
    if (other >= 0 && messages->comm_list[side->comm]->key.identity != 0)
        return false;
    messages->foreign += side->count;
    ends_leave(ends, side->list, side->count, MPI_OTHER_FOREIGN);
    return true;
}

static void match_sends(struct match *match, size_t rank_index)
{
    struct mpi_messages *messages = match->messages;
    struct mpi_message_rank *rank = &messages->ranks[rank_index];
    const uint32_t *list = match->sorted[rank_index].sent;
    for (size_t at = 0, end; at < rank->sent_count; at = end) {
        end = run_end(rank->sent, list, rank->sent_count, at);
        const struct mpi_end *first = &rank->sent[list[at]];
        const struct side sends = {rank_index, first->comm, first->peer, list + at, end - at};
        int32_t tag = first->tag;
        ptrdiff_t other = mpi_messages_at(messages, rank->world, first->comm, first->peer);
        if (has_no_other(messages, rank->sent, &sends, other))
            continue;
        struct side gets = far_side(messages, &sends, (size_t)other);
        const struct mpi_message_rank *to = &messages->ranks[other];
        const uint32_t *got = match->sorted[other].got;
        size_t found = run_find(to->got, got, to->got_count, gets.comm, gets.peer, tag);
        gets.list = got + found;
        gets.count = found < to->got_count ? run_end(to->got, got, to->got_count, found) - found : 0;
        match_channel(match, &sends, &gets, tag);
    }
}

/* Receives of channels on which nothing was sent, as far as the traces go. */
static void match_rest(struct match *match, size_t rank_index)
{
    struct mpi_messages *messages = match->messages;
    struct mpi_message_rank *rank = &messages->ranks[rank_index];
    const uint32_t *list = match->sorted[rank_index].got;
    for (size_t at = 0, end; at < rank->got_count; at = end) {
        end = run_end(rank->got, list, rank->got_count, at);
        const struct mpi_end *first = &rank->got[list[at]];
        const struct side gets = {rank_index, first->comm, first->peer, list + at, end - at};
        ptrdiff_t other = mpi_messages_at(messages, rank->world, first->comm, first->peer);
        if (has_no_other(messages, rank->got, &gets, other))
            continue;
        struct side sends = far_side(messages, &gets, (size_t)other);
        const struct mpi_message_rank *from = &messages->ranks[other];
        const uint32_t *sent = sends.list = match->sorted[other].sent; /* none of them */
        if (run_find(from->sent, sent, from->sent_count, sends.comm, sends.peer, first->tag) == from->sent_count)
            match_channel(match, &sends, &gets, first->tag);
    }
}

int mpi_messages_match(struct mpi_messages *messages)
{
    struct match match = {.messages = messages, .sorted = calloc(messages->rank_count + 1, sizeof *match.sorted)};
    int code = match.sorted ? 0 : -ENOMEM;
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++) {
        struct mpi_message_rank *rank = &messages->ranks[i];
        code = find_certain(rank);
        match.sorted[i].sent = sort_ends(rank->sent, rank->sent_count);
        match.sorted[i].got = sort_ends(rank->got, rank->got_count);
        if (!match.sorted[i].sent || !match.sorted[i].got)
            code = -ENOMEM;
        else
            mpi_messages_probes(rank, match.sorted[i].got);
    }
    /* Orders give way to the other ends only where a channel was dealt with, so bisection over channels stays right. */
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++)
        match_sends(&match, i);
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++)
        match_rest(&match, i);
    code = code ? code : match.code;
    for (size_t i = 0; match.sorted && i < messages->rank_count; i++) {
        free(match.sorted[i].sent);
        free(match.sorted[i].got);
    }
    free(match.sorted);
    return code;
}

/* ---- collective operations ---- */

struct part_at {
    uint64_t order;
    uint32_t comm, rank, index;
};

static int by_operation(const void *a, const void *b)
{
    const struct part_at *left = a, *right = b;
    if (left->comm != right->comm)
        return left->comm < right->comm ? -1 : 1;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static int each_of_comm(const struct mpi_messages *messages, const struct part_at *list, size_t count,
                        mpi_operation_fn *fn, void *ctx)
{
    _cleanup_(freep) const struct mpi_part **parts = calloc(messages->rank_count + 1, sizeof(struct mpi_part *));
    _cleanup_(freep) uint32_t *ranks = calloc(messages->rank_count + 1, sizeof *ranks);
    if (!parts || !ranks)
        return -ENOMEM;
    int code = 0;
    for (size_t at = 0; code == 0 && at < count;) {
        struct mpi_operation operation = {parts, ranks, 0};
        size_t first = at;
        for (; at < count && list[at].comm == list[first].comm && list[at].order == list[first].order; at++) {
            if (operation.count && ranks[operation.count - 1] == list[at].rank)
                continue; /* the same twice: a damaged trace */
            parts[operation.count] = &messages->ranks[list[at].rank].parts[list[at].index];
            ranks[operation.count++] = list[at].rank;
        }
        code = fn(ctx, &operation);
    }
    return code;
}

int mpi_messages_each_operation(const struct mpi_messages *messages, mpi_operation_fn *fn, void *ctx)
{
    size_t count = 0;
    _cleanup_(freep) struct part_at *list = malloc((messages->parts + 1) * sizeof *list);
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < messages->rank_count; i++)
        for (size_t k = 0; k < messages->ranks[i].part_count; k++) {
            const struct mpi_part *part = &messages->ranks[i].parts[k];
            uint64_t identity = messages->comm_list[part->comm]->key.identity;
            if (identity != 0 && identity != 2) /* MPI_COMM_SELF is each one's own */
                list[count++] =
                    (struct part_at){part->order, messages->comm_list[part->comm]->same, (uint32_t)i, (uint32_t)k};
        }
    if (count)
        qsort(list, count, sizeof *list, by_operation);
    return each_of_comm(messages, list, count, fn, ctx);
}
