/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/pass.h"

#include <errno.h>
#include <stdlib.h>

#include <string.h>

#include "base/data/grow.h"

enum {
    ABREAST = 64,           /* traces that are read side by side, of a job that has ended */
    CELLS = 48 << 20,       /* of all pyramids, four bytes each */
    DEPTH_GUESS = 12,       /* so many depths a lane has, when the levels are chosen */
    EVENT_BYTES = 10,       /* about, in a trace */
    COLUMN_EVENTS = 8,      /* fewer events of a lane in a column are as soon read again */
    POINT_BYTES = 32 << 10, /* between two points, at least; */
    POINTS = 1 << 16,       /* about as many there are at most */
};

struct pass {
    struct reading {
        struct trace_cursor *cursor;
        struct view_lane **lanes; /* by thread->index */
        size_t lane_room;
        bool done;
    } * readings;            /* by trace */
    size_t first;            /* those before are done */
    bool grown;              /* the job has gone beyond the window */
    struct open_calls *open; /* by lane */
    size_t open_room;
};

/* As many levels as there is room for, and as there are events for. */
static unsigned levels_for(const struct view *view)
{
    uint64_t lanes = view->lane_count ? view->lane_count : 1, events = view->bytes / EVENT_BYTES;
    uint64_t most = CELLS / (lanes * DEPTH_GUESS), useful = events / (lanes * COLUMN_EVENTS);
    unsigned levels = 1;
    while (levels < PYRAMID_LEVELS && (UINT64_C(2) << levels) * PYRAMID_COLUMNS <= most &&
           ((uint64_t)PYRAMID_COLUMNS << levels) <= useful)
        levels++;
    return levels;
}

static int begin(struct view *view)
{
    view->pass = calloc(1, sizeof *view->pass);
    if (!view->pass || !(view->pass->readings = calloc(view->trace_count + 1, sizeof *view->pass->readings)))
        return -ENOMEM;
    view->pyramid =
        (struct pyramid){.from = view->from_ns, .to = view->to_ns, .levels = levels_for(view), .most_cells = CELLS};
    for (size_t i = 0; i < view->trace_count; i++)
        view->traces[i].until_ns = INT64_MIN;
    view->point_bytes = view->bytes / POINTS > POINT_BYTES ? view->bytes / POINTS : POINT_BYTES;
    return 0;
}

/* What is read of one trace. */
static void done_with(struct reading *reading)
{
    trace_cursor_free(reading->cursor);
    free(reading->lanes);
    *reading = (struct reading){.done = true};
}

void pass_free(struct view *view)
{
    struct pass *pass = view->pass;
    for (size_t i = 0; i < view->lane_count; i++) {
        struct view_lane *lane = view->lane_list[i];
        pyramid_lane_free(lane->pyramid);
        lane_free_points(lane);
        lane->pyramid = NULL;
        lane->calls = lane->depth = 0;
    }
    if (!pass)
        return;
    for (size_t i = 0; pass->readings && i < view->trace_count; i++)
        done_with(&pass->readings[i]);
    for (size_t i = 0; i < pass->open_room; i++)
        open_calls_done(&pass->open[i]);
    free(pass->open);
    free(pass->readings);
    free(pass);
    view->pass = NULL;
    view->complete = false;
}

/* ---- events ---- */

static struct view_lane *lane_of(struct view *view, size_t trace, const struct trace_thread *thread)
{
    struct reading *reading = &view->pass->readings[trace];
    if (thread->index < reading->lane_room && reading->lanes[thread->index])
        return reading->lanes[thread->index];
    struct view_lane *lane = view_lane(view, trace, thread->tid, thread->serial);
    if (!lane || !GROW_ZERO_TO(reading->lanes, thread->index + 1, reading->lane_room) ||
        !GROW_ZERO_TO(view->pass->open, (size_t)lane->number + 1, view->pass->open_room) ||
        (!lane->pyramid && pyramid_lane_new(&lane->pyramid, &view->pyramid) < 0))
        return NULL;
    reading->lanes[thread->index] = lane;
    return lane;
}

struct pointing {
    struct view *view;
    size_t trace;
};

static void take_point(void *ctx, const struct trace_point *point)
{
    const struct pointing *pointing = ctx;
    struct view_lane *lane = view_lane(pointing->view, pointing->trace, point->tid, point->serial);
    if (lane)
        lane_add_point(pointing->view, lane, point);
}

static void mark_valued(struct view *view, size_t trace, uint32_t id)
{
    uint32_t function = view_function(view, trace, id);
    if (function != UINT32_MAX)
        view->function_list[function]->valued = 1;
}

static void take_event(struct view *view, size_t trace, const struct trace_event *event)
{
    if (event->kind != TRACE_ENTRY && event->kind != TRACE_EXIT)
        return;
    struct view_lane *lane = lane_of(view, trace, event->thread);
    if (!lane)
        return;
    struct open_calls *open = &view->pass->open[lane->number];
    int64_t now = timeline_ns(&view->timeline, trace, event->time);
    view->until_ns = now > view->until_ns ? now : view->until_ns;
    view->pass->grown |= now > view->to_ns;
    lane->to_ns = now > lane->to_ns ? now : lane->to_ns;
    if (event->layout)
        mark_valued(view, trace, event->function);
    if (event->kind == TRACE_ENTRY) {
        struct open_call *call = open_calls_enter(open, event->stack, event->function, event->entry_time);
        uint32_t function = view_function(view, trace, event->function);
        if (call && function != UINT32_MAX)
            pyramid_begin(lane->pyramid, call->row, function, now);
        lane->calls++;
        lane->depth = call && call->row >= lane->depth ? call->row + 1 : lane->depth;
        return;
    }
    struct open_call call;
    if (!open_calls_leave(open, event, &call))
        return;
    if (event->alone) {
        uint32_t function = view_function(view, trace, event->function);
        if (function != UINT32_MAX)
            pyramid_begin(lane->pyramid, call.row, function, timeline_ns(&view->timeline, trace, event->entry_time));
        lane->calls++;
    }
    pyramid_end(lane->pyramid, call.row, now);
}

/* ---- calls that are open ---- */

/* All was read that there was when that was asked for, trace_until: calls that are open go on until then. On other nodes
 * that is not known of a process alone. */
static void see_until(struct view *view, size_t trace, uint64_t ticks)
{
    const struct reading *reading = &view->pass->readings[trace];
    const char *state = trace_value(view->list[trace], "state");
    int64_t until = ticks                                    ? timeline_ns(&view->timeline, trace, ticks)
                    : state && strcmp(state, "running") == 0 ? INT64_MAX
                                                             : INT64_MIN;
    view->traces[trace].until_ns = until;
    for (size_t i = 0; i < reading->lane_room && until < INT64_MAX; i++) {
        struct view_lane *lane = reading->lanes[i];
        if (!lane || !view->pass->open[lane->number].count || until <= lane->to_ns)
            continue;
        lane->to_ns = until;
        view->until_ns = until > view->until_ns ? until : view->until_ns;
        view->pass->grown |= until > view->to_ns;
    }
}

const struct open_calls *pass_open(const struct view *view, const struct view_lane *lane)
{
    bool over = !view->pass || pyramid_now(lane->pyramid) == INT64_MAX;
    return over || lane->number >= view->pass->open_room ? NULL : &view->pass->open[lane->number];
}

int64_t pass_open_until(const struct view *view, const struct view_lane *lane)
{
    int64_t now = pyramid_now(lane->pyramid), until = view->traces[lane->key.trace].until_ns;
    until = until < view->until_ns ? until : view->until_ns;
    return until > now ? until : now;
}

/* ---- traces ---- */

static int open_reading(struct view *view, size_t trace, struct err *err)
{
    return trace_cursor_new(&view->pass->readings[trace].cursor, view->list[trace], view->running, err);
}

/* All that a trace has is read; its lanes have nothing more. */
static void finish(struct view *view, size_t trace)
{
    struct reading *reading = &view->pass->readings[trace];
    for (size_t i = 0; i < reading->lane_room; i++)
        if (reading->lanes[i])
            pyramid_finish(reading->lanes[i]->pyramid, view->to_ns);
    done_with(reading);
}

/* 1: there is more; 0: not now. */
static int read_slice(struct view *view, size_t trace, struct err *err)
{
    struct reading *reading = &view->pass->readings[trace];
    struct pointing pointing = {view, trace};
    struct trace_event event;
    uint64_t until = view->running ? trace_until(view->list[trace]) : 0; /* before its files are looked at */
    int code = reading->cursor ? 0 : open_reading(view, trace, err);
    if (code < 0) {
        view_note(view, err->text);
        reading->done = true;
        return code == -ENOMEM ? code : 0;
    }
    trace_cursor_points(reading->cursor, take_point, &pointing);
    for (unsigned i = 0; i < VIEW_SLICE && (code = trace_next(reading->cursor, &event)) == 1; i++)
        take_event(view, trace, &event);
    trace_cursor_points(reading->cursor, NULL, NULL);
    if (code == 1)
        return 1;
    if (code < 0)
        view_note(view, strerror(-code));
    if (code < 0 || !view->running)
        finish(view, trace);
    else
        see_until(view, trace, until);
    return 0;
}

static void see_progress(struct view *view)
{
    double read = 0;
    for (size_t i = 0; i < view->trace_count; i++) {
        uint64_t done, all;
        const struct reading *reading = &view->pass->readings[i];
        if (reading->cursor)
            trace_cursor_progress(reading->cursor, &done, &all);
        else
            done = reading->done ? view->traces[i].bytes : 0;
        read += (double)done;
    }
    view->progress = view->bytes && read < (double)view->bytes ? read / (double)view->bytes : view->complete;
}

/* The window grows with the job: by doubling it, so that reading all of it again is seldom. */
static void grow(struct view *view)
{
    int64_t length = view->until_ns - view->from_ns;
    pass_free(view);
    view->to_ns = view->from_ns + 2 * length;
}

int pass_work(struct view *view, struct err *err)
{
    int code = view->pass ? 0 : begin(view);
    if (code < 0)
        return err_set(err, code, "out of memory");
    struct pass *pass = view->pass;
    size_t last = view->running ? view->trace_count : pass->first + ABREAST;
    last = last < view->trace_count ? last : view->trace_count;
    bool more = false;
    for (size_t i = pass->first; i < last && code >= 0; i++)
        if (!pass->readings[i].done) {
            code = read_slice(view, i, err);
            more |= code == 1;
        }
    if (code < 0)
        return code;
    while (pass->first < view->trace_count && pass->readings[pass->first].done)
        pass->first++;
    view->complete = pass->first == view->trace_count;
    see_progress(view);
    if (pass->grown && view->running) {
        grow(view);
        return 1;
    }
    if (view->pyramid.full)
        view_note(view,
                  "there are more calls inside each other than the picture has room for: the innermost are not in "
                  "its overview");
    return more || (!view->complete && !view->running);
}
