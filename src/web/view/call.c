/* SPDX-License-Identifier: Apache-2.0 */
/* One call: what is around it, its values, and where it came from. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/calls.h"
#include "web/view/ask.h"
#include "web/view/lane.h"

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

/* ---- its values ---- */

struct values {
    struct view *view;
    const struct view_lane *lane;
    const struct lane_call *call;
    struct buf arguments, locals, result, caller; /* as JSON; empty: not recorded */
};

static void put_values(struct buf *out, const struct values *values, const struct layout *layout, enum layout_part part,
                       const void *bytes, size_t size)
{
    if (layout && !out->len)
        call_put_json(out, values->view->list[values->lane->key.trace], layout, part, bytes, size);
}

static void take_event(void *ctx, const struct trace_event *event)
{
    struct values *values = ctx;
    if (event->function != values->call->id || event->entry_time != values->call->entry_time)
        return;
    if (event->kind == TRACE_ENTRY) {
        put_values(&values->arguments, values, event->layout, LAYOUT_ARGS, event->values, event->values_size);
        put_values(&values->caller, values, event->caller_layout, LAYOUT_CALLER, event->caller_values,
                   event->caller_size);
    } else {
        put_values(&values->locals, values, event->layout, LAYOUT_LOCALS, event->values, event->values_size);
        put_values(&values->result, values, event->layout, LAYOUT_RESULT, event->values, event->values_size);
    }
}

/* An object of values as the list of its members, each value as text. */
static void put_list(struct buf *out, const char *name, const struct buf *json)
{
    const char *key;
    json_t *value, *object = json->len ? json_loadb(json->data, json->len, 0, NULL) : NULL;
    bool first = true;
    buf_printf(out, ",\"%s\":[", name);
    json_object_foreach(object, key, value)
    {
        char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
        buf_puts(out, first ? "{\"name\":" : ",{\"name\":");
        view_put_text(out, key);
        buf_puts(out, ",\"value\":");
        view_put_text(out, text ? text : json_string_value(value));
        buf_putc(out, '}');
        free(text);
        first = false;
    }
    buf_putc(out, ']');
    json_decref(object);
}

static void put_result(struct buf *out, const struct buf *json)
{
    json_t *value = json->len ? json_loadb(json->data, json->len, JSON_DECODE_ANY, NULL) : NULL;
    char *text = value && !json_is_string(value) ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    buf_puts(out, ",\"result\":");
    view_put_text(out, text ? text : json_string_value(value));
    free(text);
    json_decref(value);
}

/* Where it was called, as far as the trace says: a place in a file, or in a module. */
static void put_place(struct buf *out, const struct values *values)
{
    const struct trace *trace = values->view->list[values->lane->key.trace];
    const struct call call = {.function = values->call->id, .place = values->call->place};
    _cleanup_(buf_done) struct buf place = BUF_INIT;
    bool known = values->call->place != UINT32_MAX && call_put_place(&place, trace, &call, true);
    buf_puts(out, ",\"from\":");
    view_put_text(out, known ? place.data : NULL);
}

/* What of its time was on a processor, and what not. */
static void put_time(struct buf *out, const struct values *values)
{
    struct call_time time;
    if (lane_call_time(values->view, values->lane, values->call, &time))
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
    struct values values = {.view = view, .lane = lane, .call = &around->list[at]};
    const struct lane_reader reader = {.event = take_event, .ctx = &values};
    const struct lane_call *call = values.call;
    int code = lane_read(view, lane, call->begin, call->begin + 1, &reader, err);
    if (code == 0 && call->end > call->begin)
        code = lane_read(view, lane, call->end, call->end + 1, &reader, err);
    if (code == 0) {
        buf_putc(out, '{');
        put_call(out, view, lane, call);
        buf_printf(out, ",\"how\":\"%s\"", call_how(call->how));
        put_list(out, "arguments", &values.arguments);
        put_list(out, "locals", &values.locals);
        put_list(out, "caller_locals", &values.caller);
        put_result(out, &values.result);
        put_place(out, &values);
        put_time(out, &values);
        buf_puts(out, ",\"callers\":[");
        for (size_t i = at; i--;) {
            buf_puts(out, i + 1 == at ? "{" : ",{");
            put_call(out, view, lane, &around->list[i]);
            buf_putc(out, '}');
        }
        buf_puts(out, "]}");
    }
    buf_done(&values.arguments);
    buf_done(&values.locals);
    buf_done(&values.result);
    buf_done(&values.caller);
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
