/* SPDX-License-Identifier: Apache-2.0 */
/* A trace for programs: a JSON object a line for each call when it ends, and for each event. */
#include <inttypes.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/text.h"
#include "jobdir/export/replay_internal.h"

static void put_json_head(struct replay *replay, const struct trace_event *event, uint64_t ticks)
{
    uint64_t wall = trace_wall_ns(replay->trace, ticks);
    buf_printf(&replay->out, "{\"process\":%d,\"node\":", (int)trace_pid(replay->trace));
    const char *node = trace_node(replay->trace);
    call_put_string(&replay->out, node, strlen(node));
    if (mpi_trace_number(replay->options.mpi) >= 0)
        buf_printf(&replay->out, ",\"rank\":%d", mpi_trace_number(replay->options.mpi));
    buf_printf(
        &replay->out, ",\"thread\":%u,\"stack\":%u,\"start_seconds\":%s%.9f", event->thread->tid, event->stack,
        wall < replay->options.start_ns ? "-" : "",
        (double)(wall < replay->options.start_ns ? replay->options.start_ns - wall : wall - replay->options.start_ns) /
            1e9);
}

static void put_json_part(struct buf *out, const struct trace *trace, const char *name, const struct layout *layout,
                          enum layout_part part, const void *bytes, size_t size)
{
    size_t before = out->len;
    buf_printf(out, ",\"%s\":", name);
    if (!call_put_json(out, trace, layout, part, bytes, size)) {
        out->len = before;
        return;
    }
    buf_printf(out, ",\"%s_values\":", name);
    call_put_json_values(out, trace, layout, part, bytes, size);
}

static void json_enter(void *ctx, struct call *call, const struct trace_event *event)
{
    struct replay *replay = ctx;
    call->site = mpi_trace_site(replay->options.mpi, event);
    put_json_part(&call->text, replay->trace, "args", event->layout, LAYOUT_ARGS, event->values, event->values_size);
    put_json_part(&call->text, replay->trace, "caller_locals", event->caller_layout, LAYOUT_CALLER,
                  event->caller_values, event->caller_size);
    const char *caller = event->caller_layout ? layout_function(event->caller_layout, LAYOUT_CALLER) : NULL;
    if (caller) {
        buf_puts(&call->text, ",\"caller_locals_of\":");
        call_put_string(&call->text, caller, strlen(caller));
    }
}

static void json_leave(void *ctx, struct call *call, const struct trace_event *event)
{
    struct replay *replay = ctx;
    struct buf *out = &replay->out;
    char room[32];
    if (event->time - event->entry_time < replay->min_ticks && event->how == TRACE_RETURNED)
        return;
    put_json_head(replay, event, call->entry_time);
    const char *name = call_name(replay->trace, call->function, room, sizeof room);
    const struct trace_function *known = trace_function(replay->trace, call->function);
    buf_printf(out, ",\"depth\":%u,\"event\":\"call\",\"function\":", call->depth);
    call_put_string(out, name, strlen(name));
    const struct mpi_stats_site *site = call->site;
    const char *file = site ? site->file : known ? known->file : "";
    buf_puts(out, ",\"file\":");
    call_put_string(out, file, strlen(file));
    buf_printf(out, ",\"line\":%u,\"caller\":", site ? site->line : known ? known->line : 0);
    if (event->caller == UINT32_MAX && site && *site->function) {
        call_put_string(out, site->function, strlen(site->function));
    } else if (event->caller == UINT32_MAX) {
        buf_puts(out, "null");
    } else {
        name = call_name(replay->trace, event->caller, room, sizeof room);
        call_put_string(out, name, strlen(name));
    }
    const struct trace_place *place = call->place == UINT32_MAX ? NULL : trace_place(replay->trace, call->place);
    if (place) {
        buf_puts(out, ",\"from_function\":");
        call_put_string(out, place->caller, strlen(place->caller));
        buf_puts(out, ",\"from_file\":");
        call_put_string(out, place->file, strlen(place->file));
        buf_printf(out, ",\"from_line\":%" PRIu32 ",\"from_module\":", place->line);
        call_put_string(out, place->module, strlen(place->module));
        buf_printf(out, ",\"from_offset\":%" PRIu64, place->offset);
    }
    if (event->how == TRACE_EXIT_LOST)
        buf_puts(out, ",\"duration_ns\":null");
    else
        buf_printf(out, ",\"duration_ns\":%.0f", trace_ticks_ns(replay->trace, event->time - event->entry_time));
    struct call_time time;
    if (call_time(replay->trace, call, event, &time))
        buf_printf(out, ",\"cpu_ns\":%.0f,\"waiting_ns\":%.0f,\"preempted_ns\":%.0f", time.cpu_ns, time.waiting_ns,
                   time.preempted_ns);
    buf_printf(out, ",\"how\":\"%s\",\"beginning_recorded\":%s", call_how(event->how),
               event->alone || call->from_exit ? "false" : "true");
    buf_append(out, call->text.data ? call->text.data : "", call->text.len);
    _cleanup_(buf_done) struct buf signature = BUF_INIT;
    if (!mpi_trace_is_call(replay->options.mpi, call->function) &&
        call_put_signature(&signature, replay->trace, call, event) && signature.data) {
        buf_puts(out, ",\"signature\":");
        call_put_string(out, signature.data, signature.len);
    }
    put_json_part(out, replay->trace, "locals", event->layout, LAYOUT_LOCALS, event->values, event->values_size);
    put_json_part(out, replay->trace, "result", event->layout, LAYOUT_RESULT, event->values, event->values_size);
    put_json_part(out, replay->trace, "statics", event->layout, LAYOUT_STATICS, event->values, event->values_size);
    buf_puts(out, "}\n");
}

static void put_json_message(struct replay *replay, const struct trace_event *event)
{
    static const char *const kinds[] = {
        [MESSAGE_SENT] = "sent",
        [MESSAGE_RECEIVED] = "received",
        [MESSAGE_COLLECTIVE] = "collective",
        [MESSAGE_COLLECTIVE_DONE] = "collective_done",
        [MESSAGE_UNSENT] = "unsent",
        [MESSAGE_BEGIN] = "begin",
        [MESSAGE_SENT_BEFORE] = "sent_before",
        [MESSAGE_RECEIVED_BEFORE] = "received_before",
        [MESSAGE_PROBED] = "probed",
        [MESSAGE_POSTED] = "posted",
        [MESSAGE_SENT_DONE] = "sent_done",
        [MESSAGE_FREED] = "freed",
    };
    const struct record_message *message = event->message;
    put_json_head(replay, event, event->time);
    buf_printf(&replay->out, ",\"event\":\"message\",\"kind\":\"%s\",\"call\":\"%s\",\"comm\":\"%016" PRIx64 "\"",
               kinds[message->kind], mpi_text_call(message->call), message->comm);
    _cleanup_(buf_done) struct buf comm = BUF_INIT;
    mpi_trace_comm(&comm, replay->options.mpi, message->comm);
    if (comm.len) {
        buf_puts(&replay->out, ",\"comm_name\":");
        call_put_string(&replay->out, comm.data, comm.len);
    }
    if (message->peer >= 0)
        buf_printf(&replay->out, ",\"peer\":%d", message->peer);
    else
        buf_puts(&replay->out, ",\"peer\":null");
    if (message->kind <= MESSAGE_RECEIVED || (message->kind >= MESSAGE_PROBED && message->tag >= 0))
        buf_printf(&replay->out, ",\"tag\":%d", message->tag);
    buf_printf(&replay->out, ",\"bytes\":%" PRIu64 ",\"order\":%" PRIu64 "}\n", message->bytes, message->order);
}

static void json_other(void *ctx, const struct call *innermost, const struct trace_event *event)
{
    struct replay *replay = ctx;
    struct buf *out = &replay->out;
    char room[32];
    if (event->kind == TRACE_MESSAGE) {
        if (innermost && innermost->shown)
            put_json_message(replay, event);
        return;
    }
    put_json_head(replay, event, event->time);
    if (event->kind == TRACE_SIGNAL) {
        buf_printf(out, ",\"event\":\"signal\",\"signal\":%d,\"code\":%d,\"address\":%" PRIu64 ",\"pc\":%" PRIu64,
                   event->number, event->code, event->address, event->pc);
    } else if (event->kind == TRACE_MARK) {
        buf_puts(out, ",\"event\":\"mark\",\"text\":");
        call_put_string(out, event->text, event->text_len);
    } else if (event->kind == TRACE_GAP) {
        buf_printf(out, ",\"event\":\"gap\",\"missing\":%" PRIu64, event->lost);
    } else {
        const char *name = call_name(replay->trace, event->function, room, sizeof room);
        buf_puts(out, ",\"event\":\"thinned\",\"function\":");
        call_put_string(out, name, strlen(name));
    }
    buf_puts(out, "}\n");
}

const struct call_visitor replay_json = {.enter = json_enter, .leave = json_leave, .other = json_other};
