/* SPDX-License-Identifier: Apache-2.0 */
/* The messages and collective operations in a part of the picture. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/data/grow.h"
#include "jobdir/mpi/text.h"
#include "web/view/ask.h"

enum {
    LINES = 1500,   /* messages in one answer */
    CORNERS = 8000, /* parts of collective operations in one answer */
    BLOCK = 256,    /* messages whose times are looked at together */
};

/* So many messages that a rank received lie between these times, all together. */
struct block {
    int64_t from, to;
};

struct operation { /* collective */
    int64_t from, to;
    const struct mpi_part **parts; /* and behind them: */
    const uint32_t *ranks;
    size_t count;
};

struct lines {
    struct block **blocks; /* by rank */
    struct operation *operations;
    size_t operation_count, operation_room;
    uint32_t *lanes; /* by rank in the list of ranks: the number of its lane; UINT32_MAX */
};

/* ---- once ---- */

static const struct mpi_end *sent_of(const struct mpi_messages *messages, const struct mpi_message_rank *rank,
                                     const struct mpi_end *got, ptrdiff_t *ret_from)
{
    if (got->other >= MPI_OTHER_FOREIGN)
        return NULL;
    *ret_from = mpi_messages_at(messages, rank->world, got->comm, got->peer);
    return *ret_from < 0 ? NULL : &messages->ranks[*ret_from].sent[got->other];
}

static struct block *make_blocks(const struct mpi_messages *messages, const struct mpi_message_rank *rank)
{
    ptrdiff_t from;
    struct block *blocks = calloc(rank->got_count / BLOCK + 1, sizeof *blocks);
    for (size_t i = 0; blocks && i < rank->got_count; i++) {
        struct block *block = &blocks[i / BLOCK];
        if (i % BLOCK == 0)
            *block = (struct block){INT64_MAX, INT64_MIN};
        const struct mpi_end *got = &rank->got[i], *sent = sent_of(messages, rank, got, &from);
        if (!sent)
            continue;
        block->from = sent->begin < block->from ? sent->begin : block->from;
        block->to = got->end > block->to ? got->end : block->to;
    }
    return blocks;
}

static int keep_operation(void *ctx, const struct mpi_operation *operation)
{
    struct lines *lines = ctx;
    if (operation->count < 2)
        return 0;
    size_t count = operation->count;
    const struct mpi_part **parts = malloc(count * (sizeof *parts + sizeof *operation->ranks));
    if (!parts || !GROW(lines->operations, lines->operation_count, lines->operation_room)) {
        free(parts);
        return -ENOMEM;
    }
    memcpy(parts, operation->parts, count * sizeof *parts);
    memcpy(parts + count, operation->ranks, count * sizeof *operation->ranks);
    struct operation *kept = &lines->operations[lines->operation_count++];
    *kept = (struct operation){INT64_MAX, INT64_MIN, parts, (const uint32_t *)(parts + count), count};
    for (size_t i = 0; i < count; i++) {
        kept->from = parts[i]->begin < kept->from ? parts[i]->begin : kept->from;
        kept->to = parts[i]->end > kept->to ? parts[i]->end : kept->to;
    }
    return 0;
}

void lines_free(struct view *view)
{
    struct lines *lines = view->lines;
    if (!lines)
        return;
    for (size_t i = 0; lines->blocks && i < view->messages->rank_count; i++)
        free(lines->blocks[i]);
    for (size_t i = 0; i < lines->operation_count; i++)
        free(lines->operations[i].parts);
    free(lines->operations);
    free(lines->blocks);
    free(lines->lanes);
    free(lines);
    view->lines = NULL;
}

int lines_make(struct view *view)
{
    const struct mpi_messages *messages = view->messages;
    struct lines *lines = view->lines = calloc(1, sizeof *lines);
    if (!lines)
        return -ENOMEM;
    lines->blocks = calloc(messages->rank_count + 1, sizeof(struct block *));
    lines->lanes = calloc(messages->rank_count + 1, sizeof *lines->lanes);
    if (!lines->blocks || !lines->lanes)
        return -ENOMEM;
    for (size_t i = 0; i < messages->rank_count; i++) {
        lines->lanes[i] = UINT32_MAX;
        lines->blocks[i] = make_blocks(messages, &messages->ranks[i]);
        if (!lines->blocks[i])
            return -ENOMEM;
    }
    for (size_t i = view->lane_count; i--;) {
        const struct view_lane *lane = view->lane_list[i];
        const struct mpi_message_rank *rank = mpi_messages_of_trace(messages, lane->key.trace);
        if (rank && (lane->rank >= 0 || lines->lanes[rank - messages->ranks] == UINT32_MAX))
            lines->lanes[rank - messages->ranks] = lane->number;
    }
    return mpi_messages_each_operation(messages, keep_operation, lines);
}

/* ---- a part ---- */

struct line {
    uint32_t from, to; /* lanes */
    const struct mpi_end *sent, *got;
    uint64_t number; /* the same in each tile */
};
typedef void line_fn(void *ctx, const struct line *line);

/* Calls `fn` with each message that is under way in the part, from or to one of the lanes. */
static void each_line(const struct view *view, const bool *lanes, int64_t from, int64_t to, line_fn *fn, void *ctx)
{
    const struct mpi_messages *messages = view->messages;
    uint64_t before = 0;
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        uint32_t target = view->lines->lanes[i];
        for (size_t k = 0; k < rank->got_count && target != UINT32_MAX; k++) {
            const struct block *block = &view->lines->blocks[i][k / BLOCK];
            if (k % BLOCK == 0 && (block->to < from || block->from >= to)) {
                k += BLOCK - 1;
                continue;
            }
            ptrdiff_t source;
            const struct mpi_end *got = &rank->got[k], *sent = sent_of(messages, rank, got, &source);
            uint32_t lane = sent ? view->lines->lanes[source] : UINT32_MAX;
            if (lane == UINT32_MAX || got->end < from || sent->begin >= to || !(lanes[lane] || lanes[target]))
                continue;
            fn(ctx, &(struct line){lane, target, sent, got, before + k});
        }
        before += rank->got_count;
    }
}

struct putting {
    struct buf *out;
    uint64_t count, bytes, step;
    bool first;
};

static void count_line(void *ctx, const struct line *line)
{
    struct putting *putting = ctx;
    putting->count++;
    putting->bytes += line->got->bytes;
}

static void put_line(void *ctx, const struct line *line)
{
    struct putting *putting = ctx;
    if (line->number % putting->step)
        return;
    buf_printf(putting->out, "%s%" PRIu32 ",%" PRIu32 ",%" PRId64 ",%" PRId64 ",%" PRIu64, putting->first ? "" : ",",
               line->from, line->to, line->sent->begin, line->got->end, line->got->bytes);
    putting->first = false;
}

static bool is_seen(const struct view *view, const struct operation *operation, const bool *lanes, int64_t from,
                    int64_t to)
{
    if (operation->to < from || operation->from >= to)
        return false;
    for (size_t i = 0; i < operation->count; i++) {
        uint32_t lane = view->lines->lanes[operation->ranks[i]];
        if (lane != UINT32_MAX && lanes[lane])
            return true;
    }
    return false;
}

static void put_list(struct buf *out, const char *name, const struct view *view, const struct operation *operation,
                     int64_t (*value)(const struct mpi_part *part))
{
    bool first = true;
    buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < operation->count; i++) {
        uint32_t lane = view->lines->lanes[operation->ranks[i]];
        if (lane == UINT32_MAX)
            continue;
        buf_printf(out, "%s%" PRId64, first ? "" : ",", value ? value(operation->parts[i]) : (int64_t)lane);
        first = false;
    }
    buf_putc(out, ']');
}

static int64_t begin_of(const struct mpi_part *part)
{
    return part->begin;
}

static int64_t end_of(const struct mpi_part *part)
{
    return part->end;
}

static void put_operations(struct buf *out, const struct view *view, const bool *lanes, int64_t from, int64_t to)
{
    uint64_t corners = 0, step = 1;
    for (size_t i = 0; i < view->lines->operation_count; i++)
        if (is_seen(view, &view->lines->operations[i], lanes, from, to))
            corners += view->lines->operations[i].count;
    while (corners / step > CORNERS)
        step *= 2;
    bool first = true;
    for (size_t i = 0; i < view->lines->operation_count; i += step) {
        const struct operation *operation = &view->lines->operations[i];
        if (!is_seen(view, operation, lanes, from, to))
            continue;
        buf_printf(out, "%s{\"name\":\"%s\",\"comm\":", first ? "" : ",", mpi_text_call(operation->parts[0]->call));
        first = false;
        view_put_text(out, view->messages->comm_list[operation->parts[0]->comm]->name);
        put_list(out, "lanes", view, operation, NULL);
        put_list(out, "begin", view, operation, begin_of);
        put_list(out, "end", view, operation, end_of);
        buf_putc(out, '}');
    }
    buf_printf(out, "],\"collective_step\":%" PRIu64, step);
}

int lines_put(struct buf *out, const struct view *view, const bool *lanes, int64_t from, int64_t to)
{
    struct putting putting = {.out = out, .step = 1, .first = true};
    buf_puts(out, ",\"messages\":[");
    if (view->lines)
        each_line(view, lanes, from, to, count_line, &putting);
    while (putting.count / putting.step > LINES)
        putting.step *= 2;
    if (view->lines)
        each_line(view, lanes, from, to, put_line, &putting);
    buf_printf(out, "],\"message_step\":%" PRIu64 ",\"collectives\":[", putting.step);
    if (view->lines)
        put_operations(out, view, lanes, from, to);
    else
        buf_puts(out, "],\"collective_step\":1");
    return 0;
}

void lines_sum(const struct view *view, const bool *lanes, int64_t from, int64_t to, uint64_t *ret_count,
               uint64_t *ret_bytes)
{
    struct putting putting = {0};
    if (view->lines)
        each_line(view, lanes, from, to, count_line, &putting);
    *ret_count = putting.count;
    *ret_bytes = putting.bytes;
}
