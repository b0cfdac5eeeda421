/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which receive is which send's. Each rank's ends are sorted by channel and order, as indices; a run of sends of a rank
 * has its receives as a run of the other rank's, found by bisection. So memory beyond the ends is 4 bytes for each.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/analysis/messages_internal.h"

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
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_channel(comm, peer, tag, &ends[list[middle]]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
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

static void leave_alone(struct mpi_end *ends, const uint32_t *list, size_t count, uint64_t why)
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

static void pair(struct mpi_messages *messages, struct mpi_end *send, uint32_t sent, struct mpi_end *receive,
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
static void left_alone(struct mpi_end *end, bool stopped, uint64_t *alone, uint64_t *unsure)
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
            pair(messages, send, sends->list[i++], receive, gets->list[k++]);
        } else if (send) {
            left_alone(send, messages->ranks[gets->rank].stopped, &left->sent, &left->sent_unsure);
            i++;
        } else {
            left_alone(receive, messages->ranks[sends->rank].stopped, &left->got, &left->got_unsure);
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
        pair(messages, &from->sent[sends->list[i]], sends->list[i], &to->got[gets->list[i]], gets->list[i]);
    if (whole) {
        for (size_t i = count; i < sends->count; i++)
            left_alone(&from->sent[sends->list[i]], to->stopped, &left.sent, &left.sent_unsure);
        for (size_t i = count; i < gets->count; i++)
            left_alone(&to->got[gets->list[i]], from->stopped, &left.got, &left.got_unsure);
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
        leave_alone(ends, side->list, side->count, MPI_OTHER_FAILED);
        return true;
    }
    if (other >= 0 && messages->comm_list[side->comm]->key.identity != 0)
        return false;
    messages->foreign += side->count;
    leave_alone(ends, side->list, side->count, MPI_OTHER_FOREIGN);
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
