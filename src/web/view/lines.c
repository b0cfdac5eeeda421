/* SPDX-License-Identifier: Apache-2.0 */
/* The messages and collective operations in a part of the picture. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/data/grow.h"
#include "jobdir/mpi/text.h"
#include "web/view/ask.h"
#include "web/view/saved.h"

enum {
    LINES = 1500,   /* messages in one answer */
    CORNERS = 8000, /* parts of collective operations in one answer */
    BLOCK = 256,    /* messages whose times are looked at together */
};

struct line { /* a message; lanes */
    int64_t sent, received;
    uint64_t bytes;
    uint32_t from, to;
};

/* So many messages, one behind the other, lie between these times. */
struct block {
    int64_t from, to;
};

struct corner { /* of a collective operation */
    int64_t begin, end;
    uint32_t lane, unused;
};

struct operation { /* collective */
    int64_t from, to;
    size_t first, count; /* of the corners */
    uint32_t call, comm;
};

struct lines {
    uint64_t matched, collectives; /* also those of which no line is drawn */
    struct line *list;             /* rank by rank that received them, by time */
    size_t count, room;
    struct block *blocks;
    size_t block_count, block_room;
    struct corner *corners;
    size_t corner_count, corner_room;
    struct operation *operations;
    size_t operation_count, operation_room;
    char **comms; /* names */
    size_t comm_count;
    struct line_wait *waits; /* by lane */
    size_t wait_count, wait_room;
};

/* ---- once ---- */

struct making {
    struct lines *lines;
    const struct mpi_messages *messages;
    uint32_t *lanes; /* by rank in the list of ranks: the number of its lane; UINT32_MAX */
};

/* The lane of the thread that is the rank; if that has none, another one of the process. */
static bool find_lanes(const struct view *view, struct making *making)
{
    const struct mpi_messages *messages = making->messages;
    making->lanes = calloc(messages->rank_count + 1, sizeof *making->lanes);
    for (size_t i = 0; making->lanes && i < messages->rank_count; i++)
        making->lanes[i] = UINT32_MAX;
    for (size_t i = view->lane_count; making->lanes && i--;) {
        const struct view_lane *lane = view->lane_list[i];
        const struct mpi_message_rank *rank = mpi_messages_of_trace(messages, lane->key.trace);
        if (rank && (lane->rank >= 0 || making->lanes[rank - messages->ranks] == UINT32_MAX))
            making->lanes[rank - messages->ranks] = lane->number;
    }
    return making->lanes;
}

/* A message that was received, if it is known who sent it. */
static int keep_line(struct making *making, size_t rank, const struct mpi_end *got)
{
    struct lines *lines = making->lines;
    const struct mpi_messages *messages = making->messages;
    ptrdiff_t from = got->other >= MPI_OTHER_FOREIGN
                         ? -1
                         : mpi_messages_at(messages, messages->ranks[rank].world, got->comm, got->peer);
    if (from < 0 || making->lanes[from] == UINT32_MAX || making->lanes[rank] == UINT32_MAX)
        return 0;
    const struct mpi_end *sent = &messages->ranks[from].sent[got->other];
    if (!GROW(lines->list, lines->count, lines->room) || !GROW(lines->blocks, lines->block_count, lines->block_room))
        return -ENOMEM;
    if (lines->count % BLOCK == 0)
        lines->blocks[lines->block_count++] = (struct block){INT64_MAX, INT64_MIN};
    struct block *block = &lines->blocks[lines->block_count - 1];
    block->from = sent->begin < block->from ? sent->begin : block->from;
    block->to = got->end > block->to ? got->end : block->to;
    lines->list[lines->count++] =
        (struct line){sent->begin, got->end, got->bytes, making->lanes[from], making->lanes[rank]};
    return 0;
}

static int keep_operation(void *ctx, const struct mpi_operation *operation)
{
    struct making *making = ctx;
    struct lines *lines = making->lines;
    struct operation kept = {
        INT64_MAX, INT64_MIN, lines->corner_count, 0, operation->parts[0]->call, operation->parts[0]->comm};
    for (size_t i = 0; operation->count > 1 && i < operation->count; i++) {
        const struct mpi_part *part = operation->parts[i];
        uint32_t lane = making->lanes[operation->ranks[i]];
        if (lane == UINT32_MAX)
            continue;
        if (!GROW(lines->corners, lines->corner_count, lines->corner_room))
            return -ENOMEM;
        lines->corners[lines->corner_count++] = (struct corner){part->begin, part->end, lane, 0};
        kept.from = part->begin < kept.from ? part->begin : kept.from;
        kept.to = part->end > kept.to ? part->end : kept.to;
        kept.count++;
    }
    if (kept.count && !GROW(lines->operations, lines->operation_count, lines->operation_room))
        return -ENOMEM;
    if (kept.count)
        lines->operations[lines->operation_count++] = kept;
    return 0;
}

static int keep_waits(struct making *making, const struct view_lane *lane)
{
    struct lines *lines = making->lines;
    const struct mpi_message_rank *rank = mpi_messages_of_trace(making->messages, lane->key.trace);
    for (size_t i = 0; lane->rank >= 0 && rank && i < rank->waited_count; i++) {
        const struct mpi_waited *waited = &rank->waited[i];
        if (!GROW(lines->waits, lines->wait_count, lines->wait_room))
            return -ENOMEM;
        lines->waits[lines->wait_count++] =
            (struct line_wait){waited->begin, waited->until, lane->number, view_class_of(waited->call)};
    }
    return 0;
}

static int copy_comms(struct lines *lines, const struct mpi_messages *messages)
{
    size_t count = HASH_COUNT(messages->comms);
    lines->comms = calloc(count + 1, sizeof(char *));
    for (size_t i = 0; lines->comms && i < count; i++)
        if ((lines->comms[i] = strdup(messages->comm_list[i]->name)))
            lines->comm_count++;
    return lines->comm_count < count ? -ENOMEM : 0;
}

int lines_make(struct view *view, const struct mpi_messages *messages)
{
    lines_free(view);
    struct lines *lines = view->lines = calloc(1, sizeof *lines);
    struct making making = {lines, messages, NULL};
    int code = lines && find_lanes(view, &making) ? copy_comms(lines, messages) : -ENOMEM;
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++)
        for (size_t k = 0; code == 0 && k < messages->ranks[i].got_count; k++)
            code = keep_line(&making, i, &messages->ranks[i].got[k]);
    for (size_t i = 0; code == 0 && i < view->lane_count; i++)
        code = keep_waits(&making, view->lane_list[i]);
    if (code == 0)
        code = mpi_messages_each_operation(messages, keep_operation, &making);
    free(making.lanes);
    if (code < 0) {
        lines_free(view);
        return code;
    }
    lines->matched = messages->matched;
    lines->collectives = messages->collectives;
    return 0;
}

void lines_free(struct view *view)
{
    struct lines *lines = view->lines;
    if (!lines)
        return;
    for (size_t i = 0; i < lines->comm_count; i++)
        free(lines->comms[i]);
    free(lines->comms);
    free(lines->list);
    free(lines->blocks);
    free(lines->corners);
    free(lines->operations);
    free(lines->waits);
    free(lines);
    view->lines = NULL;
}

/* What is read is used as it is: to count, and to find a lane, a corner, a name. */
static void check(struct saving *saving, const struct view *view, const struct lines *lines)
{
    saved_check(saving, lines->matched <= INT64_MAX && lines->collectives <= INT64_MAX);
    saved_check(saving, lines->block_count == (lines->count + BLOCK - 1) / BLOCK);
    for (size_t i = 0; i < lines->count; i++)
        saved_check(saving, lines->list[i].from < view->lane_count && lines->list[i].to < view->lane_count);
    for (size_t i = 0; i < lines->corner_count; i++)
        saved_check(saving, lines->corners[i].lane < view->lane_count);
    for (size_t i = 0; i < lines->operation_count; i++) {
        const struct operation *operation = &lines->operations[i];
        saved_check(saving, operation->first <= lines->corner_count &&
                                operation->count <= lines->corner_count - operation->first &&
                                operation->comm < lines->comm_count && operation->call < CALL_COUNT);
    }
    for (size_t i = 0; i < lines->wait_count; i++)
        saved_check(saving, lines->waits[i].lane < view->lane_count && lines->waits[i].class < VIEW_CLASSES);
}

static void save_comms(struct saving *saving, struct lines *lines)
{
    size_t count = lines->comm_count;
    SAVED(saving, count);
    if (!saving->out) {
        saved_check(saving, count <= saving->left);
        lines->comms = saving->failed ? NULL : calloc(count + 1, sizeof(char *));
        saved_check(saving, lines->comms);
    }
    for (size_t i = 0; i < count && !saving->failed; i++) {
        lines->comms[i] = saved_text(saving, lines->comms[i]);
        lines->comm_count = i < lines->comm_count ? lines->comm_count : i + 1;
    }
}

void lines_save(struct saving *saving, struct view *view)
{
    if (!saved_flag(saving, view->lines) || saving->failed)
        return;
    if (!view->lines && !(view->lines = calloc(1, sizeof *view->lines))) {
        saving->failed = true;
        return;
    }
    struct lines *lines = view->lines;
    SAVED(saving, lines->matched);
    SAVED(saving, lines->collectives);
    lines->list = saved_list(saving, lines->list, &lines->count, sizeof *lines->list);
    lines->blocks = saved_list(saving, lines->blocks, &lines->block_count, sizeof *lines->blocks);
    lines->corners = saved_list(saving, lines->corners, &lines->corner_count, sizeof *lines->corners);
    lines->operations = saved_list(saving, lines->operations, &lines->operation_count, sizeof *lines->operations);
    lines->waits = saved_list(saving, lines->waits, &lines->wait_count, sizeof *lines->waits);
    save_comms(saving, lines);
    check(saving, view, lines);
}

/* ---- a part ---- */

typedef void line_fn(void *ctx, const struct line *line, size_t number); /* number: the same in each tile */

/* Calls `fn` with each message that is under way in the part, from or to one of the lanes. */
static void each_line(const struct lines *lines, const bool *lanes, int64_t from, int64_t to, line_fn *fn, void *ctx)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct block *block = &lines->blocks[i / BLOCK];
        const struct line *line = &lines->list[i];
        if (i % BLOCK == 0 && (block->to < from || block->from >= to))
            i += BLOCK - 1;
        else if (line->received >= from && line->sent < to && (lanes[line->from] || lanes[line->to]))
            fn(ctx, line, i);
    }
}

const struct line_wait *lines_waits(const struct view *view, size_t *ret_count)
{
    *ret_count = view->lines ? view->lines->wait_count : 0;
    return view->lines ? view->lines->waits : NULL;
}

struct putting {
    struct buf *out;
    uint64_t count, bytes, step;
    bool first;
};

static void count_line(void *ctx, const struct line *line, size_t number)
{
    struct putting *putting = ctx;
    (void)number;
    putting->count++;
    putting->bytes += line->bytes;
}

static void put_line(void *ctx, const struct line *line, size_t number)
{
    struct putting *putting = ctx;
    if (number % putting->step)
        return;
    buf_printf(putting->out, "%s%" PRIu32 ",%" PRIu32 ",%" PRId64 ",%" PRId64 ",%" PRIu64, putting->first ? "" : ",",
               line->from, line->to, line->sent, line->received, line->bytes);
    putting->first = false;
}

static bool is_seen(const struct lines *lines, const struct operation *operation, const bool *lanes, int64_t from,
                    int64_t to)
{
    if (operation->to < from || operation->from >= to)
        return false;
    for (size_t i = 0; i < operation->count; i++)
        if (lanes[lines->corners[operation->first + i].lane])
            return true;
    return false;
}

static void put_operation(struct buf *out, const struct lines *lines, const struct operation *operation)
{
    static const char *const names[] = {"lanes", "begin", "end"};
    const struct corner *corners = &lines->corners[operation->first];
    buf_printf(out, "{\"name\":\"%s\",\"comm\":", mpi_text_call(operation->call));
    view_put_text(out, lines->comms[operation->comm]);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        buf_printf(out, ",\"%s\":[", names[k]);
        for (size_t i = 0; i < operation->count; i++) {
            const int64_t values[] = {corners[i].lane, corners[i].begin, corners[i].end};
            buf_printf(out, "%s%" PRId64, i ? "," : "", values[k]);
        }
        buf_putc(out, ']');
    }
    buf_putc(out, '}');
}

static void put_operations(struct buf *out, const struct lines *lines, const bool *lanes, int64_t from, int64_t to)
{
    uint64_t corners = 0, step = 1;
    bool first = true;
    for (size_t i = 0; i < lines->operation_count; i++)
        if (is_seen(lines, &lines->operations[i], lanes, from, to))
            corners += lines->operations[i].count;
    while (corners / step > CORNERS)
        step *= 2;
    for (size_t i = 0; i < lines->operation_count; i += step) {
        if (!is_seen(lines, &lines->operations[i], lanes, from, to))
            continue;
        buf_puts(out, first ? "" : ",");
        first = false;
        put_operation(out, lines, &lines->operations[i]);
    }
    buf_printf(out, "],\"collective_step\":%" PRIu64, step);
}

int lines_put(struct buf *out, const struct view *view, const bool *lanes, int64_t from, int64_t to)
{
    static const struct lines none;
    const struct lines *lines = view->lines ? view->lines : &none;
    struct putting putting = {.out = out, .step = 1, .first = true};
    buf_puts(out, ",\"messages\":[");
    each_line(lines, lanes, from, to, count_line, &putting);
    while (putting.count / putting.step > LINES)
        putting.step *= 2;
    each_line(lines, lanes, from, to, put_line, &putting);
    buf_printf(out, "],\"message_step\":%" PRIu64 ",\"collectives\":[", putting.step);
    put_operations(out, lines, lanes, from, to);
    return 0;
}

void lines_sum(const struct view *view, const bool *lanes, int64_t from, int64_t to, uint64_t *ret_count,
               uint64_t *ret_bytes)
{
    struct putting putting = {0};
    if (view->lines)
        each_line(view->lines, lanes, from, to, count_line, &putting);
    *ret_count = putting.count;
    *ret_bytes = putting.bytes;
}

void lines_count(const struct view *view, uint64_t *ret_messages, uint64_t *ret_collectives)
{
    *ret_messages = view->lines ? view->lines->matched : 0;
    *ret_collectives = view->lines ? view->lines->collectives : 0;
}
