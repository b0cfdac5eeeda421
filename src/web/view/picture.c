/* SPDX-License-Identifier: Apache-2.0 */
/* What a space-time picture begins with: its window, lanes and functions. */
#include <inttypes.h>

#include "jobdir/text/text.h"
#include "web/view/ask.h"

static void put_label(struct buf *out, const struct view *view, const struct view_lane *lane)
{
    const struct trace *trace = view->list[lane->key.trace];
    char label[128], own[32];
    const char *exe = trace_value(trace, "exe");
    bool first = lane->key.tid == (uint32_t)trace_pid(trace);
    if (lane->rank >= 0) {
        snprintf(own, sizeof own, " of program %" PRIu32, lane->world + 1);
        snprintf(label, sizeof label, "rank %" PRId32 "%s", lane->rank, view->programs.count > 1 ? own : "");
    } else {
        snprintf(own, sizeof own, ", thread %" PRIu32, lane->key.tid);
        snprintf(label, sizeof label, "%.60s %d%s", exe ? text_base(exe) : "process", (int)trace_pid(trace),
                 first ? "" : own);
    }
    view_put_text(out, label);
}

static void put_lane(struct buf *out, const struct view *view, const struct view_lane *lane)
{
    const struct trace *trace = view->list[lane->key.trace];
    buf_printf(out, "%s{\"lane\":%" PRIu32 ",\"label\":", lane->number ? "," : "", lane->number);
    put_label(out, view, lane);
    if (lane->rank >= 0)
        buf_printf(out, ",\"rank\":%" PRId32 ",\"world\":%" PRIu32, lane->rank, lane->world);
    else
        buf_puts(out, ",\"rank\":null,\"world\":null");
    buf_puts(out, ",\"node\":");
    view_put_text(out, trace_node(trace));
    buf_printf(out, ",\"pid\":%d,\"thread\":%" PRIu32 ",\"depth\":%" PRIu32 ",\"calls\":%" PRIu64 "}",
               (int)trace_pid(trace), lane->key.tid, lane->depth, lane->calls);
}

static void put_functions(struct buf *out, const struct view *view)
{
    buf_puts(out, "\"functions\":[");
    for (size_t i = 0; i < view->function_count; i++) {
        const struct view_function *function = view->function_list[i];
        buf_printf(out, "%s{\"id\":%zu,\"name\":", i ? "," : "", i);
        view_put_text(out, function->name);
        buf_puts(out, ",\"file\":");
        view_put_text(out, function->file);
        buf_printf(out, ",\"line\":%" PRIu32 ",\"class\":\"%s\"%s}", function->line, view_class_name(function->class),
                   function->valued ? ",\"values\":true" : "");
    }
    buf_putc(out, ']');
}

/* How far the clocks of two nodes may be apart at most, as far as that is known. */
static void put_clocks(struct buf *out, const struct view *view)
{
    const struct timeline *timeline = &view->timeline;
    double bound = 0;
    bool known = true;
    for (size_t i = 0; timeline->host_count > 1 && i < timeline->host_count; i++) {
        known = known && timeline->hosts[i].bound_ns >= 0;
        bound = timeline->hosts[i].bound_ns > bound ? timeline->hosts[i].bound_ns : bound;
    }
    if (known)
        buf_printf(out, "\"clock_bound_ns\":%.0f", bound);
    else
        buf_puts(out, "\"clock_bound_ns\":null");
}

int answer_picture(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    uint64_t messages, collectives;
    (void)asked, (void)err;
    buf_printf(out, "{\"from_ns\":%" PRId64 ",\"to_ns\":%" PRId64 ",\"levels\":%u,\"columns\":%d,\"lanes\":[",
               view->from_ns, view->to_ns, tile_levels(view), PYRAMID_COLUMNS);
    for (size_t i = 0; i < view->lane_count; i++)
        put_lane(out, view, view->lane_list[i]);
    buf_puts(out, "],");
    put_functions(out, view);
    buf_putc(out, ',');
    put_clocks(out, view);
    lines_count(view, &messages, &collectives);
    buf_printf(out, ",\"messages\":%" PRIu64 ",\"collectives\":%" PRIu64, messages, collectives);
    buf_printf(out, ",\"complete\":%s,\"progress\":%.3f,\"running\":%s,\"until_ns\":%" PRId64 ",\"notes\":",
               view->complete && view->messages_done ? "true" : "false", view->progress,
               view->running ? "true" : "false", view->running ? view->until_ns : view->to_ns);
    view_put_notes(out, view);
    buf_putc(out, '}');
    return 0;
}
