/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/lane.h"

#include "base/data/grow.h"
#include "jobdir/mpi/text.h"
#include "web/view/ask.h"
#include "web/view/picture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls that are open ---- */

static bool is_taken(const struct open_calls *calls, uint32_t row)
{
    for (size_t i = calls->count; i--;)
        if (calls->list[i].row == row)
            return true;
    return false;
}

/* The first row that is free, below the call around on its stack. */
static uint32_t row_for(const struct open_calls *calls, uint32_t stack)
{
    uint32_t row = 0;
    size_t at = calls->count;
    if (at && calls->list[at - 1].stack == stack && calls->list[at - 1].row == at - 1)
        return (uint32_t)at; /* nothing but this stack, as nearly always */
    while (at && calls->list[at - 1].stack != stack)
        at--;
    row = at ? calls->list[at - 1].row + 1 : 0;
    while (is_taken(calls, row))
        row++;
    return row;
}

struct open_call *open_calls_enter(struct open_calls *calls, uint32_t stack, uint32_t id, uint64_t entry_time)
{
    if (!GROW(calls->list, calls->count, calls->room))
        return NULL;
    calls->list[calls->count] = (struct open_call){
        .stack = stack, .id = id, .row = row_for(calls, stack), .place = UINT32_MAX, .entry_time = entry_time};
    return &calls->list[calls->count++];
}

bool open_calls_leave(struct open_calls *calls, const struct trace_event *event, struct open_call *ret_call)
{
    size_t at = calls->count;
    while (at && calls->list[at - 1].stack != event->stack)
        at--;
    bool known = at && calls->list[at - 1].entry_time == event->entry_time && calls->list[at - 1].id == event->function;
    if (!known && event->alone) {
        *ret_call = (struct open_call){.stack = event->stack,
                                       .id = event->function,
                                       .row = row_for(calls, event->stack),
                                       .place = UINT32_MAX,
                                       .entry_time = event->entry_time};
        return true;
    }
    if (!at)
        return false;
    *ret_call = calls->list[at - 1];
    memmove(calls->list + at - 1, calls->list + at, (calls->count - at) * sizeof *calls->list);
    calls->count--;
    return true;
}

void open_calls_done(struct open_calls *calls)
{
    free(calls->list);
    *calls = (struct open_calls){0};
}

/* ---- points ---- */

int lane_add_point(struct view *view, struct view_lane *lane, const struct trace_point *point)
{
    const struct view_point *last = lane->point_count ? &lane->points[lane->point_count - 1] : NULL;
    if (last && last->point->part == point->part && last->point->stream == point->stream &&
        point->offset < last->point->offset + view->point_bytes)
        return 0;
    size_t size = sizeof *point + point->call_count * sizeof *point->calls;
    struct trace_point *copy = malloc(size);
    if (!copy || !GROW(lane->points, lane->point_count, lane->point_room)) {
        free(copy);
        return -ENOMEM;
    }
    memcpy(copy, point, size);
    lane->points[lane->point_count++] =
        (struct view_point){timeline_ns(&view->timeline, lane->key.trace, point->time), copy};
    return 0;
}

void lane_free_points(struct view_lane *lane)
{
    for (size_t i = 0; i < lane->point_count; i++)
        free(lane->points[i].point);
    free(lane->points);
    lane->points = NULL;
    lane->point_count = lane->point_room = 0;
}

static struct trace_point *save_point(struct saving *saving, struct trace_point *point)
{
    struct trace_point head = point ? *point : (struct trace_point){0};
    SAVED(saving, head);
    saved_check(saving, head.call_count <= TRACE_POINT_CALLS);
    size_t size = head.call_count * sizeof *head.calls;
    if (!point && !saving->failed && (point = malloc(sizeof head + size)))
        memcpy(point, &head, sizeof head);
    saved_check(saving, point);
    if (!saving->failed)
        saved_bytes(saving, point->calls, size);
    return point;
}

void lane_save(struct saving *saving, struct view *view, struct view_lane *lane)
{
    size_t count = lane->point_count;
    struct view_lane_key key = lane->key;
    SAVED(saving, key);
    saved_check(saving, memcmp(&key, &lane->key, sizeof key) == 0);
    SAVED(saving, lane->from_ns);
    SAVED(saving, lane->to_ns);
    SAVED(saving, lane->depth);
    SAVED(saving, lane->calls);
    saved_check(saving, lane->from_ns >= -TIMELINE_LIMIT_NS && lane->from_ns <= lane->to_ns &&
                            lane->to_ns <= TIMELINE_LIMIT_NS && lane->calls <= INT64_MAX);
    SAVED(saving, count);
    for (size_t i = 0; i < count && !saving->failed; i++) {
        if (i == lane->point_count && !GROW(lane->points, lane->point_count, lane->point_room)) {
            saving->failed = true;
            return;
        }
        if (i == lane->point_count)
            lane->points[lane->point_count++] = (struct view_point){0};
        SAVED(saving, lane->points[i].ns);
        lane->points[i].point = save_point(saving, lane->points[i].point);
    }
    pyramid_lane_save(saving, &lane->pyramid, &view->pyramid);
}

/* The last one that is not later; the first if all are. */
static size_t point_before(const struct view_lane *lane, int64_t ns)
{
    size_t low = 0, high = lane->point_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lane->points[middle].ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : 0;
}

/* ---- reading again ---- */

struct again {
    struct view *view;
    const struct view_lane *lane;
    const struct lane_reader *reader;
    int64_t from, to;
    struct open_calls open;
    bool enough, begun; /* begun: the part */
};

static void again_tell(struct again *again, const struct open_call *call, int64_t end, enum trace_exit how, bool open)
{
    int64_t begin = timeline_ns(&again->view->timeline, again->lane->key.trace, call->entry_time);
    if (!again->reader->call || end < again->from || begin >= again->to || (end == again->from && begin < end))
        return;
    again->enough |= !again->reader->call(again->reader->ctx, &(struct lane_call){.begin = begin,
                                                                                  .end = end,
                                                                                  .open = open,
                                                                                  .row = call->row,
                                                                                  .id = call->id,
                                                                                  .place = call->place,
                                                                                  .entry_time = call->entry_time,
                                                                                  .how = how});
}

static void fill_begin(const struct again *again, const struct open_call *call, int64_t at)
{
    uint32_t function = again->reader->fill ? view_function(again->view, again->lane->key.trace, call->id) : UINT32_MAX;
    if (function != UINT32_MAX)
        pyramid_begin(again->reader->fill, call->row, function, at);
}

static void begin_part(struct again *again)
{
    if (!again->begun && again->reader->opens)
        again->reader->opens(again->reader->ctx, &again->open);
    again->begun = true;
}

/* 1: go on; 0: the part is over. */
static int take_event(struct again *again, const struct trace_event *event)
{
    int64_t now = timeline_ns(&again->view->timeline, again->lane->key.trace, event->time);
    if (now >= again->to)
        return 0;
    if (event->kind != TRACE_ENTRY && event->kind != TRACE_EXIT)
        return 1;
    if (now >= again->from)
        begin_part(again);
    if (now >= again->from && again->reader->event)
        again->reader->event(again->reader->ctx, event);
    if (event->kind == TRACE_ENTRY) {
        struct open_call *call = open_calls_enter(&again->open, event->stack, event->function, event->entry_time);
        if (!call)
            return -ENOMEM;
        call->place = event->place;
        fill_begin(again, call, now);
        return 1;
    }
    struct open_call call;
    if (!open_calls_leave(&again->open, event, &call))
        return 1;
    if (event->alone)
        fill_begin(again, &call, timeline_ns(&again->view->timeline, again->lane->key.trace, call.entry_time));
    if (again->reader->fill)
        pyramid_end(again->reader->fill, call.row, now);
    again_tell(again, &call, now, event->how, event->how == TRACE_OPEN);
    return !again->enough;
}

/* From a point to the end of the part, or of the thread in this trace. 1: the trace is continued. */
static int read_from(struct again *again, const struct view_point *point, struct err *err)
{
    struct trace_cursor *cursor;
    struct trace_event event;
    struct trace *trace = again->view->list[again->lane->key.trace];
    again->open.count = 0;
    for (uint32_t i = 0; i < point->point->call_count; i++) {
        const struct trace_point_call *each = &point->point->calls[i];
        struct open_call *call = open_calls_enter(&again->open, each->stack, each->function, each->entry_time);
        if (!call)
            return err_set(err, -ENOMEM, "out of memory");
        fill_begin(again, call, point->ns);
    }
    int code = trace_cursor_new_at(&cursor, trace, point->point, err);
    if (code < 0)
        return code;
    int more = 1;
    while (more > 0 && (code = trace_next(cursor, &event)) == 1) {
        more = take_event(again, &event);
        if (++again->view->events_again % VIEW_SLICE == 0 && more >= 0 && (code = view_between(again->view)) < 0)
            break;
    }
    trace_cursor_free(cursor);
    code = code < 0 ? code : more < 0 ? more : 0;
    return code < 0 ? err_errno(err, code, "cannot read %s again", trace_path(trace)) : more;
}

int lane_read(struct view *view, const struct view_lane *lane, int64_t from_ns, int64_t to_ns,
              const struct lane_reader *reader, struct err *err)
{
    struct again again = {.view = view, .lane = lane, .reader = reader, .from = from_ns, .to = to_ns};
    size_t at = point_before(lane, from_ns);
    int more = 1;
    while (more > 0 && at < lane->point_count) {
        uint32_t part = lane->points[at].point->part;
        more = read_from(&again, &lane->points[at], err);
        while (at < lane->point_count && lane->points[at].point->part == part)
            at++;
    }
    if (more >= 0 && !again.enough) {
        begin_part(&again);
        if (reader->closes)
            reader->closes(reader->ctx, &again.open);
    }
    for (size_t i = again.open.count; more >= 0 && !again.enough && i--;)
        again_tell(&again, &again.open.list[i], to_ns, TRACE_OPEN, true);
    open_calls_done(&again.open);
    return more < 0 ? more : 0;
}

uint64_t lane_ticks(const struct view *view, const struct view_lane *lane, int64_t ns)
{
    uint64_t low = 0, high = UINT64_MAX;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (timeline_ns(&view->timeline, lane->key.trace, middle) < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct ending {
    const struct lane_call *of;
    struct lane_call *found;
    bool is;
};

static bool look_for_end(void *ctx, const struct lane_call *call)
{
    struct ending *ending = ctx;
    if (call->entry_time != ending->of->entry_time || call->row != ending->of->row || call->id != ending->of->id)
        return true;
    *ending->found = *call;
    ending->is = true;
    return false;
}

bool lane_call_end(struct view *view, const struct view_lane *lane, const struct lane_call *call,
                   struct lane_call *ret_call)
{
    struct ending ending = {call, ret_call, false};
    const struct lane_reader reader = {.call = look_for_end, .ctx = &ending};
    lane_read(view, lane, call->begin, INT64_MAX, &reader, NULL);
    return ending.is;
}

/* The messages and collective operations in a part of the picture. */

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
static void lines_check(struct saving *saving, const struct view *view, const struct lines *lines)
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
    lines_check(saving, view, lines);
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
