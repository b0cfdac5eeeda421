/* SPDX-License-Identifier: Apache-2.0 */
/* When the thread of a lane had no processor, as its tracer has recorded it (jobdir/trace/switches.h). */
#include "jobdir/trace/switches.h"
#include "web/view/lane.h"

struct trace_switches *lane_switches(const struct view *view, const struct view_lane *lane)
{
    struct trace_switches *switches;
    const struct trace *trace = view->list[lane->key.trace];
    uint64_t from = trace_number(trace, "switches_from");
    if (view->running || !from || trace_rest(trace) || trace_switches_new(&switches) < 0)
        return NULL;
    trace_switches_go_on(switches, trace_path(trace), from, trace_number(trace, "switches_until"),
                         trace_number(trace, "switches_bytes"));
    return switches;
}

bool lane_call_time(const struct view *view, const struct view_lane *lane, const struct lane_call *call,
                    struct call_time *ret_time)
{
    struct profile_spent now;
    struct call begun = {.entry_time = call->entry_time, .has_spent = true};
    struct trace_event ended = {
        .entry_time = call->entry_time, .time = lane_ticks(view, lane, call->end), .how = call->how, .spent = &now};
    struct trace_switches *switches = lane_switches(view, lane);
    if (!switches)
        return false;
    trace_switches_spent(switches, lane->key.tid, begun.entry_time, &begun.spent);
    trace_switches_spent(switches, lane->key.tid, ended.time, &now);
    trace_switches_free(switches);
    return call_time(view->list[lane->key.trace], &begun, &ended, ret_time);
}
