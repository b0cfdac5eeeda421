/* SPDX-License-Identifier: Apache-2.0 */
/* From the traces of a job to the messages of its ranks, step by step; who is which rank, and what things are called.
 */
#include "jobdir/mpi_messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jobdir/mpi_messages_internal.h"
#include "jobdir/mpi_text.h"
#include "shm/mpi_told.h"

/* ---- who is which rank ---- */

/* "NODE/PID-N" of a trace's directory. */
static const char *name_of(const struct trace *trace)
{
    const char *path = trace_path(trace), *slash = strrchr(path, '/');
    while (slash && slash > path && slash[-1] != '/')
        slash--;
    return slash ? slash : path;
}

static const struct mpi_stats *stats_of(const struct mpi_stats_set *set, const struct trace *trace)
{
    const struct mpi_stats *found = NULL;
    for (size_t i = 0; set && i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        if (strcmp(stats->name, name_of(trace)) == 0)
            return stats;
        if (stats->pid == trace_pid(trace) && strcmp(stats->node, trace_node(trace)) == 0)
            found = stats;
    }
    return found;
}

static bool has_calls(const struct trace *trace)
{
    for (uint32_t id = 0; id < trace_function_count(trace); id++) {
        const struct trace_function *function = trace_function(trace, id);
        if (function && mpi_function_is(function->address))
            return true;
    }
    return false;
}

struct worlds {
    char *names[256]; /* more are taken for the last */
    uint32_t generation[256], count;
};

static uint32_t world_of(struct worlds *worlds, const char *name)
{
    for (uint32_t i = worlds->count; i; i--)
        if (strcmp(worlds->names[i - 1], name) == 0)
            return i - 1;
    if (worlds->count < sizeof worlds->names / sizeof *worlds->names) {
        char *copy = strdup(name);
        if (copy)
            worlds->names[worlds->count++] = copy;
    }
    return worlds->count ? worlds->count - 1 : 0;
}

static bool is_taken(const struct mpi_messages *messages, uint32_t world, int32_t rank)
{
    for (size_t i = 0; i < messages->rank_count; i++)
        if (messages->ranks[i].world == world && messages->ranks[i].rank == rank)
            return true;
    return false;
}

/* Where two programs that ran one after the other cannot be told apart by their name, the second is a world, too. */
static uint32_t free_world(struct worlds *worlds, const struct mpi_messages *messages, const char *name, int32_t rank)
{
    char other[512];
    uint32_t world = world_of(worlds, name);
    for (unsigned i = 2; is_taken(messages, world, rank) && i < 256; i++) {
        snprintf(other, sizeof other, "%.480s\n%u", name, i);
        world = world_of(worlds, other);
    }
    return world;
}

static int add_rank(struct mpi_messages *messages, struct worlds *worlds, const struct trace *trace, size_t number,
                    const struct mpi_stats_set *set)
{
    const struct mpi_stats *stats = stats_of(set, trace);
    const char *said = trace_value(trace, "mpi_rank"), *world = trace_value(trace, "mpi_world");
    char *end = NULL;
    long rank = said ? strtol(said, &end, 10) : stats ? stats->rank : -1;
    if ((said && (!*said || *end)) || rank < 0 || rank > INT32_MAX) {
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
    world = world ? world : stats ? stats->namespace : "";
    uint32_t free = free_world(worlds, messages, world, (int32_t)rank);
    ranks[messages->rank_count++] = (struct mpi_message_rank){.trace = number,
                                                              .pid = trace_pid(trace),
                                                              .rank = (int32_t)rank,
                                                              .world = free,
                                                              .node = node,
                                                              .begin = INT64_MIN,
                                                              .finish = INT64_MIN,
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
    struct worlds worlds = {0};
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++)
        if (has_calls(traces[i]))
            code = add_rank(messages, &worlds, traces[i], i, set);
    messages->worlds = worlds.count;
    for (uint32_t i = 0; i < worlds.count; i++)
        free(worlds.names[i]);
    if (messages->rank_count)
        qsort(messages->ranks, messages->rank_count, sizeof *messages->ranks, by_rank);
    return code;
}

ptrdiff_t mpi_messages_find(const struct mpi_messages *messages, uint32_t world, int32_t rank)
{
    size_t low = 0, high = messages->rank_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct mpi_message_rank *at = &messages->ranks[middle];
        if (at->world < world || (at->world == world && at->rank < rank))
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < messages->rank_count && messages->ranks[low].world == world && messages->ranks[low].rank == rank;
    return found ? (ptrdiff_t)low : -1;
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

static void name_place(struct mpi_place *place, const struct mpi_stats_set *set)
{
    struct buf where = BUF_INIT;
    for (size_t i = 0; place->key.site && set && !where.len && i < set->count; i++)
        for (size_t k = 0; k < set->ranks[i].site_count && !where.len; k++) {
            const struct mpi_stats_site *site = &set->ranks[i].sites[k];
            if (site->offset == place->key.site && site->call == place->key.call)
                mpi_text_site(&where, site);
        }
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

static void make_common(struct mpi_messages *messages)
{
    for (size_t i = 0; i < messages->rank_count; i++) {
        struct mpi_message_rank *rank = &messages->ranks[i];
        rank->begin = timeline_map(&messages->timeline, rank->trace, rank->begin);
        rank->finish = timeline_map(&messages->timeline, rank->trace, rank->finish);
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
        code = mpi_messages_match(messages);
    if (code == 0)
        code = timeline_estimate(messages);
    if (code == 0)
        code = timeline_correct(messages);
    if (code == 0) {
        make_common(messages);
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
    (void)ctx;
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

void mpi_messages_free(struct mpi_messages *messages)
{
    if (!messages)
        return;
    for (size_t i = 0; i < messages->rank_count; i++) {
        free(messages->ranks[i].node);
        free(messages->ranks[i].sent);
        free(messages->ranks[i].got);
        free(messages->ranks[i].parts);
    }
    free(messages->ranks);
    struct mpi_place *place, *next_place;
    HASH_ITER(hh, messages->places, place, next_place)
    {
        HASH_DEL(messages->places, place);
        free(place->where);
        free(place);
    }
    struct mpi_message_comm *comm, *next_comm;
    HASH_ITER(hh, messages->comms, comm, next_comm)
    {
        HASH_DEL(messages->comms, comm);
        free(comm->name);
        free(comm);
    }
    free(messages->place_list);
    free(messages->comm_list);
    mpi_messages_waits_free(messages);
    timeline_done(&messages->timeline);
    free(messages);
}
