/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which receive is which send's. Each rank's ends are sorted by channel and order, as indices; a run of sends of a rank
 * has its receives as a run of the other rank's, found by bisection. So memory beyond the ends is 4 bytes for each.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jobdir/mpi_messages_internal.h"

struct sorted { /* one rank's */
    uint32_t *sent, *got;
};

struct match {
    struct mpi_messages *messages;
    struct sorted *sorted;
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
    rank->certain = !rank->from_start ? 0 : UINT64_MAX;
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
    rank->certain = next;
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
    return left->order < right->order ? -1 : left->order > right->order;
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

static size_t run_find(const struct mpi_end *ends, const uint32_t *list, size_t count, uint32_t comm, int32_t peer,
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
    bool found = low < count && compare_channel(comm, peer, tag, &ends[list[low]]) == 0;
    return found ? low : count;
}

static size_t certain_of(const struct mpi_message_rank *rank, const struct mpi_end *ends, const uint32_t *list,
                         size_t count)
{
    size_t certain = 0;
    while (certain < count && ends[list[certain]].order < rank->certain)
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

static void pair(struct mpi_messages *messages, struct mpi_message_rank *from, const uint32_t *sent,
                 struct mpi_message_rank *to, const uint32_t *got, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mpi_end *send = &from->sent[sent[i]], *receive = &to->got[got[i]];
        send->other = got[i];
        receive->other = sent[i];
        messages->matched++;
        messages->matched_bytes += send->bytes;
    }
}

/* Ranks that have a trace and a channel between them. */
static void match_channel(struct match *match, size_t from_index, size_t to_index, const uint32_t *sent, size_t sends,
                          const uint32_t *got, size_t gets)
{
    struct mpi_messages *messages = match->messages;
    struct mpi_message_rank *from = &messages->ranks[from_index], *to = &messages->ranks[to_index];
    const struct mpi_end *first = sends ? &from->sent[sent[0]] : &to->got[got[0]];
    struct mpi_left left = {
        .world = from->world, .comm = first->comm, .from = from->rank, .to = to->rank, .tag = first->tag};
    size_t sure = certain_of(from, from->sent, sent, sends), sure_got = certain_of(to, to->got, got, gets);
    bool whole = sure == sends && sure_got == gets && from->certain == UINT64_MAX && to->certain == UINT64_MAX;
    size_t count = sure < sure_got ? sure : sure_got;
    pair(messages, from, sent, to, got, count);
    leave_alone(from->sent, sent + count, sends - count, whole ? MPI_OTHER_NONE : MPI_OTHER_AMBIGUOUS);
    leave_alone(to->got, got + count, gets - count, whole ? MPI_OTHER_NONE : MPI_OTHER_AMBIGUOUS);
    *(whole ? &left.sent : &left.sent_unsure) = sends - count;
    *(whole ? &left.got : &left.got_unsure) = gets - count;
    note_left(messages, &left);
}

static bool has_no_other(const struct mpi_messages *messages, const struct mpi_end *end, ptrdiff_t other)
{
    return other < 0 || messages->comm_list[end->comm]->key.identity == 0;
}

static void match_sends(struct match *match, size_t rank_index)
{
    struct mpi_messages *messages = match->messages;
    struct mpi_message_rank *rank = &messages->ranks[rank_index];
    const uint32_t *list = match->sorted[rank_index].sent;
    for (size_t at = 0, end; at < rank->sent_count; at = end) {
        end = run_end(rank->sent, list, rank->sent_count, at);
        const struct mpi_end *first = &rank->sent[list[at]];
        ptrdiff_t other = mpi_messages_find(messages, rank->world, first->peer);
        if (has_no_other(messages, first, other)) {
            messages->foreign += end - at;
            leave_alone(rank->sent, list + at, end - at, MPI_OTHER_FOREIGN);
            continue;
        }
        const struct mpi_message_rank *to = &messages->ranks[other];
        const uint32_t *got = match->sorted[other].got;
        size_t found = run_find(to->got, got, to->got_count, first->comm, rank->rank, first->tag);
        size_t gets = found < to->got_count ? run_end(to->got, got, to->got_count, found) - found : 0;
        match_channel(match, rank_index, (size_t)other, list + at, end - at, got + found, gets);
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
        ptrdiff_t other = mpi_messages_find(messages, rank->world, first->peer);
        if (has_no_other(messages, first, other)) {
            messages->foreign += end - at;
            leave_alone(rank->got, list + at, end - at, MPI_OTHER_FOREIGN);
            continue;
        }
        const struct mpi_message_rank *from = &messages->ranks[other];
        const uint32_t *sent = match->sorted[other].sent;
        if (run_find(from->sent, sent, from->sent_count, first->comm, rank->rank, first->tag) == from->sent_count)
            match_channel(match, (size_t)other, rank_index, sent, 0, list + at, end - at);
    }
}

int mpi_messages_match(struct mpi_messages *messages)
{
    struct match match = {messages, calloc(messages->rank_count + 1, sizeof *match.sorted)};
    int code = match.sorted ? 0 : -ENOMEM;
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++) {
        struct mpi_message_rank *rank = &messages->ranks[i];
        code = find_certain(rank);
        match.sorted[i].sent = sort_ends(rank->sent, rank->sent_count);
        match.sorted[i].got = sort_ends(rank->got, rank->got_count);
        if (!match.sorted[i].sent || !match.sorted[i].got)
            code = -ENOMEM;
    }
    /* Orders give way to the other ends only where a channel was dealt with, so bisection over channels stays right. */
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++)
        match_sends(&match, i);
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++)
        match_rest(&match, i);
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
                list[count++] = (struct part_at){part->order, part->comm, (uint32_t)i, (uint32_t)k};
        }
    if (count)
        qsort(list, count, sizeof *list, by_operation);
    return each_of_comm(messages, list, count, fn, ctx);
}
