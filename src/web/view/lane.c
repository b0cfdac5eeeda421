/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "web/view/saved.h"

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

static void tell(struct again *again, const struct open_call *call, int64_t end, enum trace_exit how, bool open)
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
    tell(again, &call, now, event->how, event->how == TRACE_OPEN);
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
        tell(&again, &again.open.list[i], to_ns, TRACE_OPEN, true);
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
