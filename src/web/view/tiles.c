/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of the picture: calls one by one where there are few, else what a column is mostly filled with. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "web/view/ask.h"
#include "web/view/lane.h"

enum {
    TILE_CALLS = 512, /* of a lane, that are given one by one */
    TILE_LANES = 256, /* of one answer */
    TILE_DEPTH = 64,  /* rows of columns in one answer, of a lane */
    TILE_LEVELS = 40, /* a job of days down to single nanoseconds */
};

/* ---- columns ---- */

/* While the job runs: the calls of a lane that have not ended, by their depth. */
struct still {
    struct {
        uint32_t function; /* UINT32_MAX: none */
        int64_t since;
    } rows[TILE_DEPTH];
    int64_t until; /* known to be open; INT64_MIN: there are none */
};

static void find_still(struct still *ret_still, struct view *view, const struct view_lane *lane)
{
    const struct open_calls *open = pass_open(view, lane);
    ret_still->until = open ? pass_open_until(view, lane) : INT64_MIN;
    for (size_t i = 0; i < TILE_DEPTH; i++)
        ret_still->rows[i].function = UINT32_MAX;
    for (size_t i = 0; open && i < open->count; i++) {
        const struct open_call *call = &open->list[i];
        if (call->row >= TILE_DEPTH)
            continue;
        ret_still->rows[call->row].function = view_function(view, lane->key.trace, call->id);
        ret_still->rows[call->row].since = timeline_ns(&view->timeline, lane->key.trace, call->entry_time);
    }
}

/* What such a call has of a column that is not finished. */
static uint32_t still_cell(const struct still *still, uint32_t row, int64_t begin, int64_t end)
{
    int64_t from = still->rows[row].since > begin ? still->rows[row].since : begin,
            to = still->until < end ? still->until : end;
    bool is = still->rows[row].function < PYRAMID_FUNCTIONS && to > from;
    return is ? pyramid_cell(still->rows[row].function, to - from, end - begin) : 0;
}

struct columns {
    const struct pyramid *pyramid;
    const struct pyramid_lane *lane;
    unsigned level;
    size_t first;
    const struct still *still; /* NULL: all is finished */
};

/* Column by column, each depth after depth. What is empty at the end, or not known yet, is not there. */
static void put_columns(struct buf *out, const struct columns *columns)
{
    const struct pyramid_lane *lane = columns->lane;
    uint32_t depth = pyramid_depth(lane) < TILE_DEPTH ? pyramid_depth(lane) : TILE_DEPTH;
    size_t known = pyramid_known(lane, columns->level);
    const uint32_t *rows[TILE_DEPTH];
    for (uint32_t i = 0; i < depth; i++)
        rows[i] = pyramid_cells(lane, columns->level, i, columns->first);
    buf_printf(out, ",\"depth\":%" PRIu32 ",\"columns\":[", depth ? depth : 1);
    for (size_t i = 0; i < PYRAMID_COLUMNS; i++) {
        bool is_known = columns->first + i < known;
        int64_t begin = pyramid_time(columns->pyramid, columns->level, columns->first + i),
                end = pyramid_time(columns->pyramid, columns->level, columns->first + i + 1);
        if (!is_known && (!columns->still || columns->still->until <= begin))
            break;
        for (uint32_t row = 0; row < depth; row++) {
            uint32_t cell = !is_known ? still_cell(columns->still, row, begin, end) : rows[row] ? rows[row][i] : 0;
            buf_printf(out, i || row ? ",%" PRId64 ",%" PRIu32 : "%" PRId64 ",%" PRIu32,
                       cell ? (int64_t)(cell >> 8) : -1, cell & 255);
        }
    }
    buf_printf(out, "],\"calls\":%" PRIu64, pyramid_calls(lane, columns->level, columns->first, PYRAMID_COLUMNS));
}

/* ---- calls ---- */

struct tile_calls {
    struct view *view;
    const struct view_lane *lane;
    int64_t from, to;
    int64_t cut;   /* what is open then is cut off */
    int64_t until; /* not all was read yet: what is open ends then; INT64_MAX: all of the tile was */
    struct lane_call *list;
    size_t count, room;
    bool many, failed;
};

static bool keep_call(void *ctx, const struct lane_call *call)
{
    struct tile_calls *calls = ctx;
    struct lane_call kept = *call;
    if (calls->until < INT64_MAX && call->open) {
        kept.end = calls->until;
        kept.open = calls->view->running && calls->until < calls->to;
    } else {
        kept.open = call->open && call->end < calls->cut;
    }
    if (kept.end < calls->from || (kept.end == calls->from && kept.begin < kept.end))
        return true;
    kept.end = kept.end < calls->to ? kept.end : calls->to;
    calls->many |= calls->count == TILE_CALLS;
    if (calls->many)
        return true;
    calls->failed |= !GROW(calls->list, calls->count, calls->room);
    if (!calls->failed)
        calls->list[calls->count++] = kept;
    return !calls->failed;
}

static int by_begin(const void *a, const void *b)
{
    const struct lane_call *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

static void put_calls(struct buf *out, struct tile_calls *calls)
{
    bool first = true;
    if (calls->count)
        qsort(calls->list, calls->count, sizeof *calls->list, by_begin);
    buf_puts(out, ",\"calls\":[");
    for (size_t i = 0; i < calls->count; i++) {
        const struct lane_call *call = &calls->list[i];
        uint32_t function = view_function(calls->view, calls->lane->key.trace, call->id);
        if (function == UINT32_MAX)
            continue;
        buf_printf(out, "%s%" PRId64 ",%" PRId64 ",%" PRIu32 ",%" PRIu32, first ? "" : ",", call->begin, call->end,
                   function, call->row);
        first = false;
    }
    buf_putc(out, ']');
    first = true;
    for (size_t i = 0; i < calls->count; i++)
        if (calls->list[i].open) {
            buf_printf(out, first ? ",\"open\":[%" PRIu32 : ",%" PRIu32, calls->list[i].row);
            first = false;
        }
    buf_puts(out, first ? "" : "]");
}

/* Reads the part again: its calls, and the columns in case that there are too many. */
static int put_again(struct buf *out, struct view *view, const struct view_lane *lane, int64_t from, int64_t to,
                     struct err *err)
{
    int64_t now = pyramid_now(lane->pyramid), until = pass_open_until(view, lane); /* the pass goes before */
    if (until < from) {
        buf_puts(out, ",\"calls\":[]");
        return 0;
    }
    /* what begins or ends with the picture is in its last tile */
    int64_t cut = now < to ? now + 1 : to + (to == view->to_ns), begin = from < now ? from : now;
    struct tile_calls calls = {
        .view = view, .lane = lane, .from = from, .to = to, .cut = cut, .until = now < to ? until : INT64_MAX};
    struct pyramid pyramid = {.from = from, .to = to, .levels = 1, .most_cells = PYRAMID_DEPTH * PYRAMID_COLUMNS};
    struct lane_reader reader = {.call = keep_call, .ctx = &calls};
    int code = pyramid_lane_new(&reader.fill, &pyramid);
    if (code == 0)
        code = lane_read(view, lane, begin, cut, &reader, err);
    if (code == 0 && calls.failed)
        code = -ENOMEM;
    if (code == 0 && calls.many) {
        pyramid_finish(reader.fill, until < to ? until : to);
        put_columns(out, &(struct columns){&pyramid, reader.fill, 0, 0, NULL});
    } else if (code == 0) {
        put_calls(out, &calls);
    }
    free(calls.list);
    pyramid_lane_free(reader.fill);
    return code == -ENOMEM ? err_set(err, code, "out of memory") : code;
}

/* ---- tiles ---- */

struct tile {
    unsigned level;
    uint64_t index;
    int64_t from, to;
};

static void put_summed(struct buf *out, struct view *view, const struct view_lane *lane, const struct tile *tile)
{
    struct still still;
    find_still(&still, view, lane);
    put_columns(out,
                &(struct columns){&view->pyramid, lane->pyramid, tile->level, tile->index * PYRAMID_COLUMNS, &still});
}

static int put_lane(struct buf *out, struct view *view, const struct view_lane *lane, const struct tile *tile,
                    struct err *err)
{
    buf_printf(out, "{\"lane\":%" PRIu32, lane->number);
    int code = 0;
    if (!lane->pyramid)
        buf_puts(out, ",\"calls\":[]");
    else if (tile->level < view->pyramid.levels &&
             pyramid_calls(lane->pyramid, tile->level, tile->index * PYRAMID_COLUMNS, PYRAMID_COLUMNS) > TILE_CALLS)
        put_summed(out, view, lane, tile);
    else
        code = put_again(out, view, lane, tile->from, tile->to, err);
    buf_putc(out, '}');
    return code;
}

unsigned tile_levels(const struct view *view)
{
    uint64_t length = (uint64_t)(view->to_ns - view->from_ns);
    unsigned levels = 1;
    while (levels < TILE_LEVELS && length >> (levels - 1) > PYRAMID_COLUMNS)
        levels++;
    return levels;
}

int answer_tiles(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    struct tile tile = {.level = (unsigned)asked->level, .index = (uint64_t)asked->index};
    if (tile.level >= tile_levels(view) || tile.index >> tile.level)
        return err_set(err, -EINVAL, "there is no tile %" PRIu64 " of level %u: the picture has %u levels", tile.index,
                       tile.level, tile_levels(view));
    _cleanup_(freep) bool *lanes = calloc(view->lane_count + 1, sizeof *lanes);
    if (!lanes)
        return err_set(err, -ENOMEM, "out of memory");
    int code = asked_numbers(asked->lanes, view->lane_count, lanes, err);
    const struct pyramid whole = {.from = view->from_ns, .to = view->to_ns};
    tile.from = pyramid_part(&whole, tile.level, tile.index);
    tile.to = pyramid_part(&whole, tile.level, tile.index + 1);
    buf_printf(out, "{\"from_ns\":%" PRId64 ",\"to_ns\":%" PRId64 ",\"complete\":%s,\"lanes\":[", tile.from, tile.to,
               view->complete ? "true" : "false");
    size_t count = 0;
    for (size_t i = 0; code == 0 && i < view->lane_count; i++) {
        if (!lanes[i])
            continue;
        if (count == TILE_LANES)
            code = err_set(err, -EINVAL, "more than %d lanes at once: ask for a part of them", TILE_LANES);
        buf_puts(out, count++ ? "," : "");
        if (code == 0)
            code = put_lane(out, view, view->lane_list[i], &tile, err);
    }
    buf_puts(out, "]");
    if (code == 0)
        code = lines_put(out, view, lanes, tile.from, tile.to);
    buf_puts(out, "}");
    return code;
}
