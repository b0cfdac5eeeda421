/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/pyramid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "web/view/picture.h"

/* Of one column at one depth, while it is being filled. */
struct rivals {
    struct rival {
        uint32_t function;
        int64_t ns;
    } * list;
    size_t count, room, latest;
};

struct depth {
    uint32_t *cells; /* level by level; NULL: no call was that deep yet */
    struct rivals filling[PYRAMID_LEVELS];
    uint32_t function; /* of the call that is open; */
    int64_t since;     /* what is before is in `filling`; INT64_MIN: none is open */
};

struct pyramid_lane {
    struct pyramid *pyramid;
    int64_t now, column_end; /* of the finest level */
    uint64_t column;         /* of the finest level, that is being filled */
    uint32_t *calls;         /* that begin in each column of the finest level */
    struct depth *depths;
    size_t depth_count, depth_room;
    bool finished;
};

static size_t columns_of(unsigned level)
{
    return (size_t)PYRAMID_COLUMNS << level;
}

/* Cells of the levels before. */
static size_t offset_of(unsigned level)
{
    return columns_of(level) - PYRAMID_COLUMNS;
}

int64_t pyramid_part(const struct pyramid *pyramid, unsigned level, uint64_t index)
{
    uint64_t length = (uint64_t)(pyramid->to - pyramid->from);
    return pyramid->from + (int64_t)((unsigned __int128)length * index >> level);
}

int64_t pyramid_time(const struct pyramid *pyramid, unsigned level, uint64_t column)
{
    return pyramid_part(pyramid, level + 9, column);
}
_Static_assert(PYRAMID_COLUMNS == 1 << 9, "pyramid_time counts on it");

int pyramid_lane_new(struct pyramid_lane **ret_lane, struct pyramid *pyramid)
{
    struct pyramid_lane *lane = calloc(1, sizeof *lane);
    uint32_t *calls = calloc(columns_of(pyramid->levels - 1), sizeof *calls);
    if (!lane || !calls) {
        free(lane);
        free(calls);
        return -ENOMEM;
    }
    *lane = (struct pyramid_lane){.pyramid = pyramid,
                                  .now = pyramid->from,
                                  .column_end = pyramid_time(pyramid, pyramid->levels - 1, 1),
                                  .calls = calls};
    *ret_lane = lane;
    return 0;
}

static void free_filling(struct depth *depth)
{
    for (unsigned i = 0; i < PYRAMID_LEVELS; i++) {
        free(depth->filling[i].list);
        depth->filling[i] = (struct rivals){0};
    }
}

void pyramid_lane_free(struct pyramid_lane *lane)
{
    if (!lane)
        return;
    for (size_t i = 0; i < lane->depth_count; i++) {
        free_filling(&lane->depths[i]);
        free(lane->depths[i].cells);
    }
    free(lane->depths);
    free(lane->calls);
    free(lane);
}

/* ---- a column is filled ---- */

static void rivals_add(struct rivals *rivals, uint32_t function, int64_t ns)
{
    if (rivals->latest < rivals->count && rivals->list[rivals->latest].function == function) {
        rivals->list[rivals->latest].ns += ns;
        return;
    }
    for (size_t i = 0; i < rivals->count; i++)
        if (rivals->list[i].function == function) {
            rivals->list[i].ns += ns;
            rivals->latest = i;
            return;
        }
    if (rivals->count < PYRAMID_RIVALS && GROW(rivals->list, rivals->count, rivals->room)) {
        rivals->latest = rivals->count;
        rivals->list[rivals->count++] = (struct rival){function, ns};
    }
}

uint32_t pyramid_cell(uint32_t function, int64_t ns, int64_t width)
{
    uint64_t share = ((uint64_t)ns * 255 + (uint64_t)width / 2) / (uint64_t)width;
    share = share < 1 ? 1 : share > 255 ? 255 : share;
    return function << 8 | (uint32_t)share;
}

static uint32_t cell_of(const struct rivals *rivals, int64_t width)
{
    const struct rival *best = NULL;
    for (size_t i = 0; i < rivals->count; i++) {
        const struct rival *rival = &rivals->list[i];
        if (rival->ns > 0 &&
            (!best || rival->ns > best->ns || (rival->ns == best->ns && rival->function < best->function)))
            best = rival;
    }
    return best && width > 0 ? pyramid_cell(best->function, best->ns, width) : 0;
}

/* The finest column is over, and those of coarser levels that end with it. */
static void close_column(struct pyramid_lane *lane, struct depth *depth)
{
    const struct pyramid *pyramid = lane->pyramid;
    uint64_t column = lane->column;
    for (unsigned level = pyramid->levels; level--; column /= 2) {
        struct rivals *rivals = &depth->filling[level];
        int64_t width = pyramid_time(pyramid, level, column + 1) - pyramid_time(pyramid, level, column);
        if (rivals->count)
            depth->cells[offset_of(level) + column] = cell_of(rivals, width);
        for (size_t i = 0; level && i < rivals->count; i++)
            rivals_add(&depth->filling[level - 1], rivals->list[i].function, rivals->list[i].ns);
        rivals->count = rivals->latest = 0;
        if (!(column & 1))
            return;
    }
}

static void next_column(struct pyramid_lane *lane)
{
    for (size_t i = 0; i < lane->depth_count; i++) {
        struct depth *depth = &lane->depths[i];
        if (!depth->cells)
            continue;
        if (depth->since != INT64_MIN) {
            rivals_add(&depth->filling[lane->pyramid->levels - 1], depth->function, lane->column_end - depth->since);
            depth->since = lane->column_end;
        }
        close_column(lane, depth);
    }
    lane->column++;
    lane->column_end = pyramid_time(lane->pyramid, lane->pyramid->levels - 1, lane->column + 1);
}

/* Nothing happened up to then. */
static void pyramid_until(struct pyramid_lane *lane, int64_t time)
{
    size_t count = columns_of(lane->pyramid->levels - 1);
    while (lane->column < count && time >= lane->column_end)
        next_column(lane);
    lane->now = time > lane->now ? time : lane->now;
}

/* ---- calls ---- */

static struct depth *depth_at(struct pyramid_lane *lane, uint32_t number)
{
    size_t before = lane->depth_count;
    if (number >= PYRAMID_DEPTH || !GROW_ZERO_TO(lane->depths, (size_t)number + 1, lane->depth_room))
        return NULL;
    for (size_t i = before; i <= number; i++)
        lane->depths[i] = (struct depth){.since = INT64_MIN};
    lane->depth_count = number < before ? before : (size_t)number + 1;
    return &lane->depths[number];
}

static bool give_cells(struct pyramid *pyramid, struct depth *depth)
{
    size_t cells = offset_of(pyramid->levels);
    if (pyramid->cells + cells > pyramid->most_cells || !(depth->cells = calloc(cells, sizeof *depth->cells))) {
        pyramid->full = true;
        return false;
    }
    pyramid->cells += cells;
    return true;
}

/* With cells. */
static struct depth *depth_of(struct pyramid_lane *lane, uint32_t number)
{
    struct depth *depth = depth_at(lane, number);
    return depth && (depth->cells || give_cells(lane->pyramid, depth)) ? depth : NULL;
}

static void end_call(const struct pyramid_lane *lane, struct depth *depth)
{
    if (depth->since == INT64_MIN)
        return;
    if (lane->now > depth->since)
        rivals_add(&depth->filling[lane->pyramid->levels - 1], depth->function, lane->now - depth->since);
    depth->since = INT64_MIN;
}

void pyramid_begin(struct pyramid_lane *lane, uint32_t depth, uint32_t function, int64_t time)
{
    pyramid_until(lane, time);
    if (lane->column < columns_of(lane->pyramid->levels - 1) && time >= lane->pyramid->from)
        lane->calls[lane->column] += lane->calls[lane->column] != UINT32_MAX;
    struct depth *at = function < PYRAMID_FUNCTIONS ? depth_of(lane, depth) : NULL;
    if (!at)
        return;
    end_call(lane, at);
    at->function = function;
    at->since = lane->now;
}

void pyramid_end(struct pyramid_lane *lane, uint32_t depth, int64_t time)
{
    pyramid_until(lane, time);
    if (depth < lane->depth_count)
        end_call(lane, &lane->depths[depth]);
}

void pyramid_finish(struct pyramid_lane *lane, int64_t time)
{
    pyramid_until(lane, time);
    for (size_t i = 0; i < lane->depth_count; i++)
        end_call(lane, &lane->depths[i]);
    pyramid_until(lane, lane->pyramid->to);
    for (size_t i = 0; i < lane->depth_count; i++)
        free_filling(&lane->depths[i]);
    lane->finished = true;
}

/* ---- what is known ---- */

uint32_t pyramid_depth(const struct pyramid_lane *lane)
{
    return (uint32_t)lane->depth_count;
}

int64_t pyramid_now(const struct pyramid_lane *lane)
{
    return lane->finished ? INT64_MAX : lane->now;
}

size_t pyramid_known(const struct pyramid_lane *lane, unsigned level)
{
    return (size_t)(lane->column >> (lane->pyramid->levels - 1 - level));
}

const uint32_t *pyramid_cells(const struct pyramid_lane *lane, unsigned level, uint32_t depth, size_t column)
{
    const uint32_t *cells = depth < lane->depth_count ? lane->depths[depth].cells : NULL;
    return cells ? cells + offset_of(level) + column : NULL;
}

uint64_t pyramid_calls(const struct pyramid_lane *lane, unsigned level, size_t column, size_t count)
{
    unsigned shift = lane->pyramid->levels - 1 - level;
    uint64_t calls = 0;
    for (size_t i = column << shift; i < (column + count) << shift; i++)
        calls += lane->calls[i];
    return calls;
}

/* ---- saved ---- */

void pyramid_save(struct saving *saving, struct pyramid *pyramid)
{
    SAVED(saving, pyramid->from);
    SAVED(saving, pyramid->to);
    SAVED(saving, pyramid->levels);
    SAVED(saving, pyramid->most_cells);
    pyramid->full = saved_flag(saving, pyramid->full);
    saved_check(saving, pyramid->from < pyramid->to && pyramid->from >= -TIMELINE_LIMIT_NS &&
                            pyramid->to <= TIMELINE_LIMIT_NS + 1 && pyramid->levels >= 1 &&
                            pyramid->levels <= PYRAMID_LEVELS);
    if (!saving->out)
        pyramid->cells = 0; /* they are counted as they come */
}

void pyramid_lane_save(struct saving *saving, struct pyramid_lane **lane, struct pyramid *pyramid)
{
    if (!saved_flag(saving, *lane) || saving->failed)
        return;
    saved_check(saving, saving->out || pyramid_lane_new(lane, pyramid) == 0);
    size_t columns = columns_of(pyramid->levels - 1), depths = saving->failed ? 0 : (*lane)->depth_count;
    SAVED(saving, depths);
    if (!saving->failed)
        saved_bytes(saving, (*lane)->calls, columns * sizeof *(*lane)->calls);
    for (uint32_t i = 0; i < depths && !saving->failed; i++) {
        struct depth *depth = depth_at(*lane, i);
        bool filled = saved_flag(saving, depth && depth->cells);
        saved_check(saving, depth && (!filled || depth->cells || give_cells(pyramid, depth)));
        if (filled && !saving->failed)
            saved_bytes(saving, depth->cells, offset_of(pyramid->levels) * sizeof *depth->cells);
    }
    if (saving->out || saving->failed)
        return;
    (*lane)->column = columns;
    (*lane)->finished = true;
}
