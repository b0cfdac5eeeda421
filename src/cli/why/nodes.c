/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/grow.h"
#include "cli/why/why.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <scry/omis.h>

#include "base/data/cleanup.h"
#include "cli/common/nodes.h"
#include "cli/snapshot/snapshot.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/text/text.h"
#include "lang/put.h"
#include "lang/results.h"

/* ---- having them look ---- */

/* `asked`: how people name them; NULL: only this one was asked. */
static int take_answers(struct why_nodes *nodes, const struct job_nodes *asked, struct err *err)
{
    static const struct decode_field graph_fields[] = {{"nodes", DECODE_VALUE, 0}, {0}};
    static const struct decode_field fields[] = {DECODE(struct why_looked, node),
                                                 DECODE(struct why_looked, ranks),
                                                 DECODE(struct why_looked, taken),
                                                 DECODE(struct why_looked, problem),
                                                 {"object", DECODE_TEXT, offsetof(struct why_looked, token)},
                                                 {0}};
    struct decoder graph, decoder;
    const struct omis_value *list = NULL;
    const char *why = omis_reader_first_error(nodes->reply);
    decoder_init(&graph, MPI_WAIT_GRAPH, 0, graph_fields);
    decoder_init(&decoder, MPI_GRAPH_NODE, 0, fields);
    if (why || !omis_reader_find(nodes->reply, 1))
        return err_set(err, -EIO, "%s", why ? why : "the monitor has not answered");
    decode(&graph, omis_reader_values(nodes->reply), 0, &list);
    nodes->list = calloc(decoder_rows(&decoder, list) + 1, sizeof *nodes->list);
    if (!nodes->list)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < decoder_rows(&decoder, list); i++) {
        struct why_looked *looked = &nodes->list[nodes->count];
        decode(&decoder, list, i, looked);
        if (!*looked->problem) {
            nodes->count++;
            continue;
        }
        const char *name = asked ? job_nodes_name(asked, looked->token) : NULL;
        if (!asked || (name && name == job_nodes_name(asked, asked->list[0].token)))
            return err_set(err, -EIO, "%s", looked->problem);
        if (asked && !name && job_nodes_has_problem(asked, looked->node))
            continue; /* it could not be asked, and that is said */
        buf_puts(&nodes->missing, nodes->missing.len ? "; node " : "node ");
        text_show(&nodes->missing, name ? name : looked->node);
        buf_puts(&nodes->missing, " does not answer: ");
        text_show(&nodes->missing, looked->problem);
    }
    return 0;
}

static int nodes_ask(struct why_nodes *nodes, const char *jobdir, const struct job_nodes *asked, struct err *err)
{
    struct buf text = BUF_INIT;
    PUT_CALL(&text, "mpi_get_wait_graph", jobdir, 1);
    nodes->reply = omis_reader_take(client_ask(&text));
    return nodes->reply ? take_answers(nodes, asked, err) : err_set(err, -ENOMEM, "out of memory");
}

int why_nodes_look_there(struct why_nodes *nodes, const char *jobdir, struct err *err)
{
    *nodes = (struct why_nodes){0};
    return nodes_ask(nodes, jobdir, NULL, err);
}

int why_nodes_look(struct why_nodes *nodes, const char *jobdir, struct err *err)
{
    struct job_nodes asked;
    *nodes = (struct why_nodes){0};
    int code = job_nodes_attach(&asked, jobdir, err);
    if (code == 0) {
        job_nodes_put_problems(&nodes->missing, &asked);
        code = nodes_ask(nodes, jobdir, &asked, err);
    }
    job_nodes_done(&asked);
    return code;
}

bool why_nodes_came(const struct why_nodes *nodes, const struct mpi_stats_set *set)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const struct why_looked *looked = &nodes->list[i];
        bool came = !looked->ranks;
        for (size_t k = 0; k < set->count && !came; k++)
            came = set->ranks[k].taken_wall_ns >= looked->taken && strcmp(set->ranks[k].node, looked->node) == 0;
        if (!came)
            return false;
    }
    return true;
}

void why_nodes_done(struct why_nodes *nodes)
{
    free(nodes->list);
    buf_done(&nodes->missing);
    omis_reader_free(nodes->reply);
    *nodes = (struct why_nodes){0};
}

/* ---- where their ranks are ---- */

static bool node_has_process(const struct stack_node *node, uint32_t process)
{
    size_t low = COUNT_BEFORE(node->member_count, i, node->members[i].process < process);
    return low < node->member_count && node->members[low].process == process;
}

static void put_place(struct buf *out, const struct stack_frame *frame)
{
    text_function(out, frame->function, frame->file);
    buf_puts(out, " (");
    text_show(out, text_base(frame->file));
    buf_printf(out, ":%u)", frame->line);
}

static const char *text_keep(struct arena *arena, const struct buf *text)
{
    return text->len && !text->failed ? arena_dup(arena, text->data, text->len) : NULL;
}

/* The way from where its first thread began to where it is. */
static void find_where(struct mpi_why_rank *rank, const struct snapshot *snapshot, uint32_t process,
                       struct arena *arena)
{
    const struct stack_node *at = snapshot->tree.root, *inner = at;
    const struct stack_frame *own = NULL, *python = NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT, line = BUF_INIT;
    while (at) {
        const struct stack_node *child = at->first;
        while (child && !node_has_process(child, process))
            child = child->next;
        at = child;
        if (!at)
            break;
        inner = at;
        bool known = *at->frame.file && at->frame.line && !snapshot_is_library(&at->frame);
        if (known && strcmp(at->frame.language, "python") == 0) {
            python = &at->frame;
            own = NULL;
        } else if (known) {
            own = &at->frame;
        }
    }
    if (python)
        put_place(&line, python);
    rank->python = text_keep(arena, &line);
    bool outside = rank->state == MPI_WHY_COMPUTES || rank->state == MPI_WHY_STARTS || rank->state == MPI_WHY_BLOCKED;
    if (!outside || rank->where || (!own && !python))
        return;
    rank->blocked = !inner->running && snapshot_is_library(&inner->frame) && *inner->frame.function;
    if (rank->blocked) {
        buf_puts(&text, "is in ");
        text_show(&text, inner->frame.function);
        buf_puts(&text, ", called by ");
    } else {
        buf_puts(&text, "in ");
    }
    if (own)
        put_place(&text, own);
    if (python) {
        buf_puts(&text, own ? ", called by " : "");
        buf_append(&text, line.data, line.len);
    }
    rank->where = text_keep(arena, &text);
    rank->blocked &= rank->where != NULL;
}

/* Stacks have no numbers of threads, and only the first thread is asked for: of another one nothing is said. */
static bool shows_first_thread(const struct mpi_why_rank *rank)
{
    const struct mpi_stats_thread *thread = rank->shown < rank->thread_count ? rank->threads[rank->shown].thread : NULL;
    return !thread || thread->tid <= 0 || thread->tid == rank->stats->pid;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

/* "1,3": ranks of several programs may have the same number. */
static bool put_ranks(struct buf *out, const struct mpi_why *mpi, const char *host, size_t most)
{
    _cleanup_(freep) uint32_t *numbers = calloc(mpi->count + 1, sizeof *numbers);
    size_t count = 0;
    for (size_t i = 0; numbers && i < mpi->count && count < most; i++)
        if (mpi->ranks[i].stats->running && mpi->ranks[i].stats->rank >= 0 &&
            strcmp(mpi->ranks[i].stats->node, host) != 0)
            numbers[count++] = (uint32_t)mpi->ranks[i].stats->rank;
    if (count)
        qsort(numbers, count, sizeof *numbers, compare_numbers);
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s%" PRIu32, i ? "," : "", numbers[i]);
    return count > 0 && !out->failed;
}

void why_nodes_wheres(struct mpi_why *mpi, const char *jobdir, const char *host, size_t most, struct arena *arena)
{
    _cleanup_(buf_done) struct buf ranks = BUF_INIT;
    struct snapshot snapshot = {0};
    struct err ignored = {0}; /* then it is not known where they are */
    if (!client_connected() || !put_ranks(&ranks, mpi, host, most))
        return;
    const struct snapshot_options options = {.ranks = ranks.data, .thread = "main"};
    if (snapshot_ask(&snapshot, jobdir, true, &options, &ignored) == 0)
        for (uint32_t i = 0; i < snapshot.count; i++)
            for (size_t k = 0; k < mpi->count && snapshot.list[i].threads; k++) {
                const struct mpi_stats *stats = mpi->ranks[k].stats;
                if (stats->pid == snapshot.list[i].pid && strcmp(stats->node, snapshot.list[i].host) == 0 &&
                    strcmp(stats->node, host) != 0 && shows_first_thread(&mpi->ranks[k]))
                    find_where(&mpi->ranks[k], &snapshot, i, arena);
            }
    snapshot_done(&snapshot);
}
