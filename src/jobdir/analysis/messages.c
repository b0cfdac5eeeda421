/* SPDX-License-Identifier: Apache-2.0 */
/* From the traces of a job to the messages of its ranks, step by step; who is which rank, and what things are called.
 */
#include "jobdir/analysis/messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/analysis/messages_internal.h"
#include "jobdir/mpi/text.h"
#include "jobdir/mpi/trace.h"
#include "shm/mpi_told.h"

/* ---- who is which rank ---- */

static bool has_calls(const struct trace *trace)
{
    for (uint32_t id = 0; id < trace_function_count(trace); id++) {
        const struct trace_function *function = trace_function(trace, id);
        if (function && mpi_function_is(function->address))
            return true;
    }
    return false;
}

static bool is_taken(const struct mpi_messages *messages, uint32_t world, int32_t rank)
{
    for (size_t i = 0; i < messages->rank_count; i++)
        if (messages->ranks[i].world == world && messages->ranks[i].rank == rank)
            return true;
    return false;
}

/* Where two programs that ran one after the other cannot be told apart by their name, the second is a world, too. */
static uint32_t free_world(struct mpi_programs *worlds, const struct mpi_messages *messages, const char *name,
                           int32_t rank)
{
    char other[512];
    uint32_t world = mpi_programs_number(worlds, name);
    for (unsigned i = 2; is_taken(messages, world, rank) && i < 256; i++) {
        snprintf(other, sizeof other, "%.480s\n%u", name, i);
        world = mpi_programs_number(worlds, other);
    }
    return world;
}

static int add_rank(struct mpi_messages *messages, struct mpi_programs *worlds, const struct trace *trace,
                    size_t number, const struct mpi_stats_set *set)
{
    const struct mpi_stats *stats = mpi_trace_stats(set, trace);
    int32_t rank = mpi_trace_rank(trace, stats);
    if (rank < 0) {
        messages->unranked++;
        return 0;
    }
    struct mpi_message_rank *ranks = realloc(messages->ranks, (messages->rank_count + 1) * sizeof *ranks);
    if (!ranks)
        return -ENOMEM;
    messages->ranks = ranks;
    char *node = strdup(trace_node(trace));
    if (!node)
        return -ENOMEM;
    uint32_t free = free_world(worlds, messages, mpi_trace_world(trace, stats), rank);
    ranks[messages->rank_count++] = (struct mpi_message_rank){.trace = number,
                                                              .pid = trace_pid(trace),
                                                              .rank = rank,
                                                              .world = free,
                                                              .node = node,
                                                              .stats = stats,
                                                              .begin = INT64_MIN,
                                                              .finish = INT64_MIN,
                                                              .gap_end = INT64_MIN,
                                                              .init_begin = INT64_MIN,
                                                              .init_end = INT64_MIN,
                                                              .final_begin = INT64_MIN};
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct mpi_message_rank *left = a, *right = b;
    if (left->world != right->world)
        return left->world < right->world ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static int find_ranks(struct mpi_messages *messages, struct trace *const *traces, size_t count,
                      const struct mpi_stats_set *set)
{
    struct mpi_programs worlds;
    int code = 0;
    mpi_programs_init(&worlds, set);
    for (size_t i = 0; code == 0 && i < count; i++)
        if (has_calls(traces[i]))
            code = add_rank(messages, &worlds, traces[i], i, set);
    messages->worlds = worlds.count;
    mpi_programs_done(&worlds);
    if (messages->rank_count)
        qsort(messages->ranks, messages->rank_count, sizeof *messages->ranks, by_rank);
    return code;
}

/* The rank with that number in a world, or -1. */
static ptrdiff_t mpi_messages_find(const struct mpi_messages *messages, uint32_t world, int32_t rank)
{
    const struct mpi_message_rank *ranks = messages->ranks;
    size_t low = COUNT_BEFORE(messages->rank_count, i,
                              ranks[i].world < world || (ranks[i].world == world && ranks[i].rank < rank));
    bool found = low < messages->rank_count && ranks[low].world == world && ranks[low].rank == rank;
    return found ? (ptrdiff_t)low : -1;
}

ptrdiff_t mpi_messages_at(const struct mpi_messages *messages, uint32_t world, uint32_t comm, int32_t peer)
{
    if (peer >= 0)
        return mpi_messages_find(messages, world, peer);
    const struct mpi_message_comm *in = messages->comm_list[comm];
    size_t i = peer <= MPIA_RANK_OTHERS ? (size_t)((int64_t)MPIA_RANK_OTHERS - peer) : SIZE_MAX;
    return i < in->other_count && in->others[i] != UINT32_MAX ? (ptrdiff_t)in->others[i] : -1;
}

const struct mpi_message_rank *mpi_messages_rank(const struct mpi_messages *messages, uint32_t world, int32_t rank)
{
    ptrdiff_t at = mpi_messages_find(messages, world, rank);
    return at < 0 ? NULL : &messages->ranks[at];
}

const struct mpi_message_rank *mpi_messages_of_trace(const struct mpi_messages *messages, size_t trace)
{
    for (size_t i = 0; messages && i < messages->rank_count; i++)
        if (messages->ranks[i].trace == trace)
            return &messages->ranks[i];
    return NULL;
}

/* ---- names ---- */

uint32_t mpi_messages_program(const char *exe)
{
    uint32_t hash = 0;
    for (const char *c = exe; c && *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    return hash;
}

/* By the first rank of its program that knows it. The same place in two files has no name: which it is, is not known.
 */
static void name_place(struct mpi_place *place, const struct mpi_stats_set *set)
{
    struct buf where = BUF_INIT;
    const struct mpi_stats_site *found = NULL;
    bool several = false;
    for (size_t i = 0; place->key.site && set && !found && i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        if (mpi_messages_program(stats->exe) != place->key.program)
            continue;
        for (size_t k = 0; k < stats->site_count; k++)
            if (stats->sites[k].offset == place->key.site && stats->sites[k].call == place->key.call) {
                several |= found != NULL;
                found = &stats->sites[k];
            }
    }
    if (found && !several)
        mpi_text_site(&where, found);
    place->where = where.len && !where.failed ? buf_take(&where) : strdup("");
    buf_done(&where);
}

static void name_comm(struct mpi_message_comm *comm, const struct mpi_messages *messages,
                      const struct mpi_stats_set *set)
{
    struct buf name = BUF_INIT;
    for (size_t i = 0; comm->key.identity > 2 && set && !name.len && i < set->count; i++)
        for (uint32_t k = 0; k < set->ranks[i].comm_count && !name.len; k++)
            if (set->ranks[i].comms[k].identity == (comm->key.identity & INT64_MAX))
                mpi_text_comm(&name, &set->ranks[i], k);
    if (!name.len && comm->key.identity <= 2)
        buf_puts(&name, comm->key.identity == 1   ? "MPI_COMM_WORLD"
                        : comm->key.identity == 2 ? "MPI_COMM_SELF"
                                                  : "an unknown communicator");
    else if (!name.len)
        buf_printf(&name, "communicator %08llx", (unsigned long long)(comm->key.identity >> 32));
    comm->name = name.failed ? NULL : buf_take(&name);
    buf_done(&name);
}

static int make_lists(struct mpi_messages *messages, const struct mpi_stats_set *set)
{
    messages->place_list = calloc(HASH_COUNT(messages->places) + 1, sizeof *messages->place_list);
    messages->comm_list = calloc(HASH_COUNT(messages->comms) + 1, sizeof *messages->comm_list);
    if (!messages->place_list || !messages->comm_list)
        return -ENOMEM;
    for (struct mpi_place *place = messages->places; place; place = place->hh.next) {
        name_place(place, set);
        messages->place_list[place->index] = place;
        if (!place->where)
            return -ENOMEM;
    }
    for (struct mpi_message_comm *comm = messages->comms; comm; comm = comm->hh.next) {
        name_comm(comm, messages, set);
        messages->comm_list[comm->index] = comm;
        comm->same = comm->index;
        if (!comm->name)
            return -ENOMEM;
    }
    return 0;
}

/* ---- all of them ---- */

static int read_ranks(struct mpi_messages *messages, struct trace *const *traces, size_t count,
                      const struct mpi_messages_options *options, struct err *err)
{
    size_t kept = 0;
    int code = 0;
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++) {
        struct mpi_message_rank *rank = &messages->ranks[i];
        struct trace *trace = traces[rank->trace];
        uint64_t start_ns = trace_number(trace, "start_ns");
        rank->begin = start_ns ? timeline_limit((int64_t)(start_ns - options->start_ns)) : 0;
        code = mpi_messages_read(messages, rank, trace, count, &kept, options, err);
        if (rank->finish == INT64_MIN)
            rank->finish = rank->begin;
        rank->sent_before = messages->sent;
        messages->sent += rank->sent_count;
        messages->got += rank->got_count;
        messages->parts += rank->part_count;
        messages->unkept += rank->unkept;
    }
    return code;
}

static void each_end(struct mpi_end *list, size_t count, mpi_time_fn *fn, void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        list[i].begin = fn(ctx, list[i].begin);
        list[i].end = fn(ctx, list[i].end);
    }
}

void mpi_messages_each_time(struct mpi_message_rank *rank, mpi_time_fn *fn, void *ctx)
{
    each_end(rank->sent, rank->sent_count, fn, ctx);
    each_end(rank->got, rank->got_count, fn, ctx);
    each_end(rank->probes, rank->probe_count, fn, ctx);
    for (size_t i = 0; i < rank->part_count; i++) {
        rank->parts[i].begin = fn(ctx, rank->parts[i].begin);
        rank->parts[i].end = fn(ctx, rank->parts[i].end);
    }
    for (size_t i = 0; i < rank->post_count; i++)
        rank->posts[i].begin = fn(ctx, rank->posts[i].begin);
    for (size_t i = 0; i < rank->done_count; i++) {
        rank->dones[i].begin = fn(ctx, rank->dones[i].begin);
        rank->dones[i].end = fn(ctx, rank->dones[i].end);
    }
}

static void make_common(struct mpi_messages *messages)
{
    for (size_t i = 0; i < messages->rank_count; i++) {
        struct mpi_message_rank *rank = &messages->ranks[i];
        rank->begin = timeline_map(&messages->timeline, rank->trace, rank->begin);
        rank->finish = timeline_map(&messages->timeline, rank->trace, rank->finish);
        rank->in_since = rank->in_call ? timeline_map(&messages->timeline, rank->trace, rank->in_since) : 0;
        if (rank->init_end != INT64_MIN)
            rank->init_end = timeline_map(&messages->timeline, rank->trace, rank->init_end);
        if (rank->final_begin != INT64_MIN)
            rank->final_begin = timeline_map(&messages->timeline, rank->trace, rank->final_begin);
    }
}

int mpi_messages_load(struct mpi_messages **ret_messages, struct trace *const *traces, size_t count,
                      const struct mpi_messages_options *options, struct err *err)
{
    struct mpi_messages *messages = calloc(1, sizeof *messages);
    if (!messages)
        return err_set(err, -ENOMEM, "out of memory");
    int code = timeline_init(&messages->timeline, traces, count, options->start_ns);
    if (code == 0)
        code = find_ranks(messages, traces, count, options->stats);
    if (code == 0)
        code = read_ranks(messages, traces, count, options, err);
    if (code == 0)
        code = make_lists(messages, options->stats);
    if (code == 0)
        code = mpi_messages_join(messages);
    if (code == 0)
        code = mpi_messages_match(messages);
    if (code == 0)
        code = timeline_estimate(messages);
    if (code == 0)
        code = timeline_correct(messages);
    if (code == 0) {
        make_common(messages);
        for (size_t i = 0; i < messages->rank_count; i++)
            messages->ranks[i].stats = NULL;
        code = mpi_messages_waits(messages);
    }
    if (code < 0) {
        mpi_messages_free(messages);
        return code == -ENOMEM ? err_set(err, code, "out of memory for the messages of MPI") : code;
    }
    *ret_messages = messages;
    return 0;
}

static void ignore_problem(void *ctx, const char *text)
{
    (void)text; /* the functions' part of the report tells them */
}

int mpi_messages_load_job(struct mpi_messages **ret_messages, const char *jobdir,
                          const struct mpi_messages_options *options, struct err *err)
{
    char **paths;
    size_t count, opened = 0;
    int code = trace_list(jobdir, &paths, &count, err);
    if (code < 0)
        return code;
    struct trace **traces = calloc(count + 1, sizeof(struct trace *));
    if (!traces)
        code = err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        if (code == 0 && paths[i] && trace_open(&traces[opened], paths[i], ignore_problem, NULL, NULL) == 0)
            trace_append_all(traces[opened++], paths + i + 1, count - i - 1, ignore_problem, NULL);
        free(paths[i]);
    }
    free(paths);
    if (code == 0)
        code = mpi_messages_load(ret_messages, traces, opened, options, err);
    for (size_t i = 0; i < opened; i++)
        trace_close(traces[i]);
    free(traces);
    return code;
}

int64_t mpi_messages_waited_ns(const struct mpi_messages *messages)
{
    int64_t sum = 0;
    if (!messages || !messages->rank_count)
        return -1;
    for (const struct mpi_wait *wait = messages->waits; wait; wait = wait->hh.next)
        sum += wait->total_ns;
    return sum;
}

void mpi_messages_free(struct mpi_messages *messages)
{
    if (!messages)
        return;
    for (size_t i = 0; i < messages->rank_count; i++) {
        free(messages->ranks[i].node);
        free(messages->ranks[i].sent);
        free(messages->ranks[i].got);
        free(messages->ranks[i].parts);
        free(messages->ranks[i].before);
        free(messages->ranks[i].probes);
        free(messages->ranks[i].posts);
        free(messages->ranks[i].dones);
        free(messages->ranks[i].waited);
    }
    free(messages->ranks);
    HASH_FREE_ALL(messages->places, free(each->where));
    HASH_FREE_ALL(messages->comms, free(each->name); free(each->others));
    free(messages->place_list);
    free(messages->comm_list);
    mpi_messages_waits_free(messages);
    timeline_done(&messages->timeline);
    free(messages);
}
