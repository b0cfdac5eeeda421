/* SPDX-License-Identifier: Apache-2.0 */
/* One call: what is around it, its values, and where it came from. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "jobdir/trace/calls.h"
#include "web/view/ask.h"
#include "web/view/lane.h"
#include "web/view/values.h"

/* ---- the calls at a time ---- */

struct around {
    struct lane_call *list;
    size_t count, room;
    int64_t at;
    bool failed;
};

static bool take_call(void *ctx, const struct lane_call *call)
{
    struct around *around = ctx;
    if (call->begin > around->at || (call->end <= around->at && call->begin != around->at))
        return true;
    if (!GROW(around->list, around->count, around->room)) {
        around->failed = true;
        return false;
    }
    around->list[around->count++] = *call;
    return true;
}

static int by_row(const void *a, const void *b)
{
    const struct lane_call *left = a, *right = b;
    return left->row < right->row ? -1 : left->row > right->row;
}

/* ---- what is known of it ---- */

/* Where it was called, as far as the trace says: a place in a file, or in a module. */
static void put_place(struct buf *out, const struct view *view, const struct view_lane *lane,
                      const struct lane_call *of)
{
    const struct call call = {.function = of->id, .place = of->place};
    _cleanup_(buf_done) struct buf place = BUF_INIT;
    bool known = of->place != UINT32_MAX && call_put_place(&place, view->list[lane->key.trace], &call, true);
    buf_puts(out, ",\"from\":");
    view_put_text(out, known ? place.data : NULL);
}

/* What of its time was on a processor, and what not. */
static void put_time(struct buf *out, const struct view *view, const struct view_lane *lane,
                     const struct lane_call *call)
{
    struct call_time time;
    if (lane_call_time(view, lane, call, &time))
        buf_printf(out, ",\"cpu_ns\":%" PRId64 ",\"waiting_ns\":%" PRId64 ",\"preempted_ns\":%" PRId64,
                   view_ns(time.cpu_ns), view_ns(time.waiting_ns), view_ns(time.preempted_ns));
    else
        buf_puts(out, ",\"cpu_ns\":null,\"waiting_ns\":null,\"preempted_ns\":null");
}

/* ---- the answer ---- */

static void put_call(struct buf *out, struct view *view, const struct view_lane *lane, const struct lane_call *call)
{
    buf_printf(out, "\"function\":%" PRIu32 ",\"begin\":%" PRId64 ",\"end\":%" PRId64 ",\"depth\":%" PRIu32,
               view_function(view, lane->key.trace, call->id), call->begin, call->end, call->row);
}

static int put_all(struct buf *out, struct view *view, const struct view_lane *lane, const struct around *around,
                   size_t at, struct err *err)
{
    const struct lane_call *call = &around->list[at];
    _cleanup_(values_done) struct values values = {0};
    int code = values_read(&values, view, lane, call, err);
    if (code == 0) {
        buf_putc(out, '{');
        put_call(out, view, lane, call);
        buf_printf(out, ",\"how\":\"%s\"", call_how(call->how));
        values_put_list(out, "arguments", &values.arguments);
        values_put_list(out, "locals", &values.locals);
        values_put_list(out, "caller_locals", &values.caller);
        values_put_result(out, &values);
        put_place(out, view, lane, call);
        put_time(out, view, lane, call);
        buf_puts(out, ",\"callers\":[");
        for (size_t i = at; i--;) {
            buf_puts(out, i + 1 == at ? "{" : ",{");
            put_call(out, view, lane, &around->list[i]);
            buf_putc(out, '}');
        }
        buf_puts(out, "]}");
    }
    return code;
}

int answer_call(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    if ((uint64_t)asked->lane >= view->lane_count)
        return err_set(err, -ENOENT, "there is no lane %" PRId64 ": the picture has %zu", asked->lane,
                       view->lane_count);
    const struct view_lane *lane = view->lane_list[asked->lane];
    struct around around = {.at = asked->at};
    const struct lane_reader reader = {.call = take_call, .ctx = &around};
    int code = lane_read(view, lane, asked->at, asked->at + 1, &reader, err);
    if (code == 0 && around.failed)
        code = err_set(err, -ENOMEM, "out of memory");
    if (code == 0 && around.count)
        qsort(around.list, around.count, sizeof *around.list, by_row);
    size_t at = around.count;
    for (size_t i = 0; code == 0 && i < around.count; i++) {
        struct lane_call whole = around.list[i];
        if (around.list[i].open && lane_call_end(view, lane, &around.list[i], &whole))
            around.list[i] = whole;
        if (asked->depth < 0 || around.list[i].row == (uint64_t)asked->depth)
            at = i;
    }
    if (code == 0 && at == around.count)
        code = err_set(err, -ENOENT, "no recorded call is at this place: lane %" PRId64 ", %" PRId64 " ns", asked->lane,
                       asked->at);
    if (code == 0)
        code = put_all(out, view, lane, &around, at, err);
    free(around.list);
    return code;
}
