/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_VIEW_LANE_H
#define SCRY_WEB_VIEW_LANE_H

#include "jobdir/trace/calls.h"
#include "web/view/view.h"

/*
 * The calls of a lane: followed as events come (struct open_calls), and read again from a trace for a part of the time.
 * Every call has a row, its depth in the picture: 0 the outermost. Calls on several stacks of one thread (coroutines)
 * have different rows while they are open at once.
 */

struct open_call {
    uint32_t stack, id; /* id: of the function in its trace */
    uint32_t row, place;
    uint64_t entry_time;
};

struct open_calls {
    struct open_call *list;
    size_t count, room;
};

/* An entry. Returns the call, until the next one; NULL: no memory. */
struct open_call *open_calls_enter(struct open_calls *calls, uint32_t stack, uint32_t id, uint64_t entry_time);
/* An exit: *ret_call is the call that has ended, and no longer in the list. Without an entry (event->alone) it gets the
 * row that it would have. False: nothing has ended. */
bool open_calls_leave(struct open_calls *calls, const struct trace_event *event, struct open_call *ret_call);
void open_calls_done(struct open_calls *calls);

/* One call, or what of it is in the part that is read. */
struct lane_call {
    int64_t begin, end;      /* whole, also where it began before the part; of one that is open at its end, unknown: */
    bool open;               /* end: of the part */
    uint32_t row, id, place; /* id: of the function in its trace */
    uint64_t entry_time;     /* ticks */
    enum trace_exit how;
};

struct lane_reader {
    /* In the order in which calls end, those that are open at the end of the part last. False: enough. NULL: not wanted. */
    bool (*call)(void *ctx, const struct lane_call *call);
    /* These three for the part alone; NULL: not wanted. The calls that are open when it begins; each entry and exit in
     * it, before `call`; the calls that are open when it ends. */
    void (*opens)(void *ctx, const struct open_calls *open);
    void (*event)(void *ctx, const struct trace_event *event);
    void (*closes)(void *ctx, const struct open_calls *open);
    void *ctx;
    struct pyramid_lane *fill; /* gets the calls, too; NULL */
};

/* Reads the calls of a lane that are in [from_ns, to_ns) again. 0 or -errno with err. */
int lane_read(struct view *view, const struct view_lane *lane, int64_t from_ns, int64_t to_ns,
              const struct lane_reader *reader, struct err *err);
/* The first tick of the lane's clock that is not before that. */
uint64_t lane_ticks(const struct view *view, const struct view_lane *lane, int64_t ns);
/* When the call with that entry ends. False: it is not found. */
bool lane_call_end(struct view *view, const struct view_lane *lane, const struct lane_call *call,
                   struct lane_call *ret_call);
/* What of the call the thread had a processor, and what not. False: that is not known. */
bool lane_call_time(const struct view *view, const struct view_lane *lane, const struct lane_call *call,
                    struct call_time *ret_time);
/* Keeps a point; by the pass, in their order. 0 or -ENOMEM. */
int lane_add_point(struct view *view, struct view_lane *lane, const struct trace_point *point);
void lane_free_points(struct view_lane *lane);

/*
 * ---- the pass (pass.c) ----
 *
 * The pass over all traces of a job: fills the pyramids of the lanes, and notes the points from which they can be read
 * again. It goes on a slice at a time. Several traces are read side by side, so that the picture grows from the left.
 */

/* Reads a slice. 1: there is more to read now, 0: not at the moment; -errno with err. view->complete: never again. */
int pass_work(struct view *view, struct err *err);

/* The calls of a lane that are open, by what was read; and until when they were, which is never before the lane's last
 * event. NULL, INT64_MAX: all of it was read. */
const struct open_calls *pass_open(const struct view *view, const struct view_lane *lane);
int64_t pass_open_until(const struct view *view, const struct view_lane *lane);

#endif
