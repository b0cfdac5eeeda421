/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/values.h"

#include <stdlib.h>

#include "jobdir/trace/calls.h"

struct taking {
    struct values *values;
    const struct trace *trace;
    const struct lane_call *call;
};

static void put_part(struct buf *out, const struct taking *taking, const struct layout *layout, enum layout_part part,
                     const void *bytes, size_t size)
{
    if (layout && !out->len)
        call_put_json(out, taking->trace, layout, part, bytes, size);
}

static void take_event(void *ctx, const struct trace_event *event)
{
    const struct taking *taking = ctx;
    struct values *values = taking->values;
    if (event->function != taking->call->id || event->entry_time != taking->call->entry_time)
        return;
    if (event->kind == TRACE_ENTRY) {
        put_part(&values->arguments, taking, event->layout, LAYOUT_ARGS, event->values, event->values_size);
        put_part(&values->caller, taking, event->caller_layout, LAYOUT_CALLER, event->caller_values,
                 event->caller_size);
    } else {
        put_part(&values->locals, taking, event->layout, LAYOUT_LOCALS, event->values, event->values_size);
        put_part(&values->result, taking, event->layout, LAYOUT_RESULT, event->values, event->values_size);
    }
}

int values_read(struct values *ret_values, struct view *view, const struct view_lane *lane,
                const struct lane_call *call, struct err *err)
{
    struct taking taking = {ret_values, view->list[lane->key.trace], call};
    const struct lane_reader reader = {.event = take_event, .ctx = &taking};
    int code = lane_read(view, lane, call->begin, call->begin + 1, &reader, err);
    return code == 0 && call->end > call->begin ? lane_read(view, lane, call->end, call->end + 1, &reader, err) : code;
}

void values_done(struct values *values)
{
    buf_done(&values->arguments);
    buf_done(&values->locals);
    buf_done(&values->result);
    buf_done(&values->caller);
}

void values_put_list(struct buf *out, const char *name, const struct buf *json)
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

void values_put_result(struct buf *out, const struct values *values)
{
    const struct buf *json = &values->result;
    json_t *value = json->len ? json_loadb(json->data, json->len, JSON_DECODE_ANY, NULL) : NULL;
    char *text = value && !json_is_string(value) ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    buf_puts(out, ",\"result\":");
    view_put_text(out, text ? text : json_string_value(value));
    free(text);
    json_decref(value);
}
