/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane of a picture at all scales: for each column of time and each depth the function that had most of the time, and
 * its share. Level 0 has PYRAMID_COLUMNS columns over the window, each further one twice as many. Calls are fed as they
 * begin and end; a column of a coarse level is exactly what its calls add up to, not what its finer columns are
 * dominated by. Pure: no files, no clocks.
 */
#ifndef SCRY_WEB_VIEW_PYRAMID_H
#define SCRY_WEB_VIEW_PYRAMID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PYRAMID_COLUMNS = 512, /* of a tile: of level 0 */
    PYRAMID_LEVELS = 12,   /* at most */
    PYRAMID_DEPTH = 256,   /* deeper calls are not shown */
    PYRAMID_RIVALS = 1024, /* functions of one column and depth that are told apart; then the rest counts for none */
    PYRAMID_FUNCTIONS = 1 << 24,
};

/* What all lanes share. */
struct pyramid {
    int64_t from, to; /* the window, ns */
    unsigned levels;
    size_t cells, most_cells; /* that are there, and may be: deeper depths get none then */
    bool full;                /* that has happened */
};

struct pyramid_lane;

int pyramid_lane_new(struct pyramid_lane **ret_lane, struct pyramid *pyramid); /* 0 or -ENOMEM */
void pyramid_lane_free(struct pyramid_lane *lane);                             /* NULL is fine */

/* Times of one lane never go back: an earlier one counts as the latest. Calls at different depths are independent; a
 * call that begins at a depth where one is open ends that one. */
void pyramid_begin(struct pyramid_lane *lane, uint32_t depth, uint32_t function, int64_t time);
void pyramid_end(struct pyramid_lane *lane, uint32_t depth, int64_t time);
/* Nothing more comes: all columns are finished. Calls that are open end at `time`. */
void pyramid_finish(struct pyramid_lane *lane, int64_t time);

/* Depths that have cells. */
uint32_t pyramid_depth(const struct pyramid_lane *lane);
/* The latest time that was fed; INT64_MAX: all was. */
int64_t pyramid_now(const struct pyramid_lane *lane);
/* Columns of a level that are finished: what is behind them is not known yet. */
size_t pyramid_known(const struct pyramid_lane *lane, unsigned level);
/* The cells of a depth from a column on: function << 8 | share, the share of 255; 0: nothing. NULL: none at all. */
const uint32_t *pyramid_cells(const struct pyramid_lane *lane, unsigned level, uint32_t depth, size_t column);
/* Such a cell, of a function that has so much of a column of that width, both above 0. */
uint32_t pyramid_cell(uint32_t function, int64_t ns, int64_t width);
/* Calls that begin in `count` columns from `column` on. */
uint64_t pyramid_calls(const struct pyramid_lane *lane, unsigned level, size_t column, size_t count);

/* Where column `column` of a level begins; the last one's end is that of the window. And part `index` of 2^level. */
int64_t pyramid_time(const struct pyramid *pyramid, unsigned level, uint64_t column);
int64_t pyramid_part(const struct pyramid *pyramid, unsigned level, uint64_t index);

#endif
