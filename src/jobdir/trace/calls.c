/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/trace/calls.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/internal.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* Points of a trace from which one thread can be read again. */

/* ---- taking ---- */

void trace_cursor_points(struct trace_cursor *cursor, trace_point_fn *fn, void *ctx)
{
    cursor->point = fn;
    cursor->point_ctx = ctx;
}

/* Whether the point would say all that is known of the stack. */
static bool is_plain(const struct trace_stack *stack)
{
    return !stack->more && !stack->beyond && stack->depth <= TRACE_POINT_CALLS;
}

static void put_calls(struct trace_point *point, const struct trace_stack *stack)
{
    for (size_t i = 0; i < stack->depth; i++)
        point->calls[point->call_count++] =
            (struct trace_point_call){stack->number, stack->calls[i].function, stack->calls[i].entry_time};
}

void trace_point_take(struct trace_cursor *cursor, const struct trace_stream *stream)
{
    const struct trace_thread_state *thread = stream->thread;
    size_t count = thread->own.depth;
    bool plain = is_plain(&thread->own);
    for (const struct trace_stack *stack = thread->others; stack; stack = stack->hh.next) {
        plain = plain && is_plain(stack);
        count += stack->depth;
    }
    struct trace_point *point =
        plain && count <= TRACE_POINT_CALLS ? malloc(sizeof *point + (count + 1) * sizeof *point->calls) : NULL;
    if (!point)
        return;
    *point = (struct trace_point){.tid = thread->thread.tid,
                                  .serial = thread->thread.serial,
                                  .stream = (uint32_t)strtoul(stream->name + strlen(TRACE_STREAM), NULL, 10),
                                  .offset = stream->packet_at,
                                  .next_seq = stream->head.packet_seq,
                                  .discarded = stream->discarded,
                                  .time = stream->time};
    for (const struct trace *part = cursor->first; part != cursor->trace; part = part->rest)
        point->part++;
    put_calls(point, &thread->own);
    for (const struct trace_stack *stack = thread->others; stack; stack = stack->hh.next)
        put_calls(point, stack);
    cursor->point(cursor->point_ctx, point);
    free(point);
}

/* ---- going on from one ---- */

static int restore_calls(struct trace_cursor *cursor, struct trace_thread_state *thread,
                         const struct trace_point *point)
{
    for (uint32_t i = 0; i < point->call_count; i++) {
        const struct trace_point_call *call = &point->calls[i];
        struct trace_stack *stack = trace_stack_of(cursor, thread, call->stack);
        if (!stack || (stack->depth == stack->room && !trace_stack_grow(cursor, stack)))
            return -ENOMEM;
        stack->calls[stack->depth++] =
            (struct trace_call){.function = call->function, .packet = 0, .entry_time = call->entry_time};
    }
    return 0;
}

static int cursor_restore(struct trace_cursor *cursor, const struct trace_point *point)
{
    char name[32];
    struct packet_head head = {.tid = point->tid, .thread_serial = point->serial};
    for (uint32_t i = 0; i < point->part && cursor->trace; i++)
        cursor->trace = cursor->trace->rest;
    if (!cursor->trace)
        return -EINVAL;
    struct trace_thread_state *thread = trace_thread_of(cursor, &head);
    if (!thread)
        return -ENOMEM;
    cursor->only = thread;
    snprintf(name, sizeof name, TRACE_STREAM "%04" PRIu32, point->stream);
    int code = trace_cursor_add_stream(cursor, name);
    if (code == 0)
        code = restore_calls(cursor, thread, point);
    if (code < 0)
        return code;
    struct trace_stream *stream = cursor->streams[0];
    trace_stream_look(stream, TRACE_WINDOW_MAX, true);
    stream->thread = thread;
    stream->packet_end = point->offset;
    stream->next_seq = point->next_seq;
    stream->discarded = point->discarded;
    stream->time = cursor->last_time = point->time;
    trace_stream_advance(stream, 0, false);
    if (stream->step != STEP_END)
        cursor->heap[cursor->heap_count++] = stream;
    cursor->looked = true;
    return 0;
}

int trace_cursor_new_at(struct trace_cursor **ret_cursor, struct trace *trace, const struct trace_point *point,
                        struct err *err)
{
    struct trace_cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor)
        return err_set(err, -ENOMEM, "out of memory");
    cursor->first = cursor->trace = trace;
    cursor->again = true;
    int code = cursor_restore(cursor, point);
    if (code < 0) {
        trace_cursor_free(cursor);
        return err_errno(err, code, "cannot read the trace %s again", trace->path);
    }
    *ret_cursor = cursor;
    return 0;
}

struct track {    /* one stack of calls */
    uint64_t key; /* thread index << 32 | stack */
    struct call *innermost;
    UT_hash_handle hh;
};

struct calls {
    const struct trace *trace;
    struct call_filter filter;
    const struct call_visitor *visitor;
    uint64_t from_ticks, to_ticks;
    struct track *tracks, *last;
    struct call *spare; /* by parent */
    uint8_t *matches;   /* by function: 0 not yet known, 1 yes, 2 no */
    size_t match_room;
    size_t open;    /* shown calls */
    uint64_t shown; /* in all */
};

/* Wall time to ticks; what lies before the first is 0. */
static uint64_t ticks_of(const struct trace *trace, uint64_t wall_ns)
{
    uint64_t zero = trace_wall_ns(trace, 0);
    double ns_per_tick = trace_ticks_ns(trace, 1);
    if (wall_ns <= zero || ns_per_tick <= 0)
        return 0;
    double ticks = (double)(wall_ns - zero) / ns_per_tick;
    return ticks < 0x1p63 ? (uint64_t)ticks : UINT64_MAX;
}

int calls_new(struct calls **ret_calls, const struct trace *trace, const struct call_filter *filter,
              const struct call_visitor *visitor)
{
    struct calls *calls = calloc(1, sizeof *calls);
    if (!calls)
        return -ENOMEM;
    calls->trace = trace;
    calls->filter = *filter;
    calls->visitor = visitor;
    calls->from_ticks = ticks_of(trace, filter->from_ns);
    calls->to_ticks = filter->to_ns ? ticks_of(trace, filter->to_ns) : UINT64_MAX;
    *ret_calls = calls;
    return 0;
}

static void free_chain(struct call *call)
{
    while (call) {
        struct call *parent = call->parent;
        buf_done(&call->text);
        free(call);
        call = parent;
    }
}

void calls_free(struct calls *calls)
{
    if (!calls)
        return;
    HASH_FREE_ALL(calls->tracks, free_chain(each->innermost));
    free_chain(calls->spare);
    free(calls->matches);
    free(calls);
}

/* ---- the filter ---- */

static bool function_matches_slow(struct calls *calls, uint32_t function)
{
    char room[32];
    bool found = fnmatch(calls->filter.function, call_name(calls->trace, function, room, sizeof room), 0) == 0;
    if (function < trace_function_count(calls->trace) &&
        GROW_ZERO_TO(calls->matches, (size_t)function + 1, calls->match_room))
        calls->matches[function] = found ? 1 : 2;
    return found;
}

static bool function_matches(struct calls *calls, uint32_t function)
{
    if (!calls->filter.function)
        return true;
    if (function < calls->match_room && calls->matches[function])
        return calls->matches[function] == 1;
    return function_matches_slow(calls, function);
}

static bool is_shown(struct calls *calls, const struct trace_event *event, uint64_t time, uint32_t depth)
{
    return time >= calls->from_ticks && time <= calls->to_ticks &&
           (!calls->filter.max_depth || depth < calls->filter.max_depth) && function_matches(calls, event->function);
}

bool calls_are_over(const struct calls *calls, const struct trace_event *event)
{
    return event->time > calls->to_ticks && !calls->open;
}

/* ---- events ---- */

static struct track *track_of(struct calls *calls, const struct trace_event *event)
{
    uint64_t key = (uint64_t)event->thread->index << 32 | event->stack;
    if (calls->last && calls->last->key == key)
        return calls->last;
    struct track *track;
    HASH_FIND(hh, calls->tracks, &key, sizeof key, track);
    if (!track) {
        track = calloc(1, sizeof *track);
        if (!track)
            return NULL;
        track->key = key;
        HASH_ADD(hh, calls->tracks, key, sizeof track->key, track);
    }
    calls->last = track;
    return track;
}

static struct call *call_new(struct calls *calls, const struct trace_event *event, uint64_t entry_time,
                             struct call *parent)
{
    struct call *call = calls->spare;
    struct buf text = BUF_INIT;
    if (call) {
        calls->spare = call->parent;
        text = call->text;
        buf_clear(&text);
    } else if (!(call = malloc(sizeof *call))) {
        return NULL;
    }
    *call = (struct call){.function = event->function,
                          .place = event->kind == TRACE_ENTRY ? event->place : UINT32_MAX,
                          .stack = event->stack,
                          .depth = parent ? parent->depth + parent->shown : 0,
                          .entry_time = entry_time,
                          .thread = event->thread,
                          .parent = parent,
                          .around = parent && !parent->shown ? parent->around : parent,
                          .text = text};
    call->shown = is_shown(calls, event, entry_time, call->depth);
    return call;
}

static int call_enter(struct calls *calls, struct track *track, const struct trace_event *event)
{
    struct call *call = call_new(calls, event, event->time, track->innermost);
    if (!call)
        return -ENOMEM;
    track->innermost = call;
    call->from_exit = event->alone;
    call->has_spent = event->spent && !event->alone;
    if (call->has_spent)
        call->spent = *event->spent;
    if (call->shown) {
        calls->open++;
        calls->shown++;
        call->layout = event->layout;
        call->caller_layout = event->caller_layout;
        if (calls->visitor->enter)
            calls->visitor->enter(calls->visitor->ctx, call, event);
    }
    return 0;
}

static int call_leave(struct calls *calls, struct track *track, const struct trace_event *event)
{
    struct call *call = event->alone ? NULL : track->innermost;
    bool alone = !call;
    if (alone && !(call = call_new(calls, event, event->entry_time, track->innermost)))
        return -ENOMEM;
    if (!alone)
        track->innermost = call->parent;
    if (call->shown) {
        calls->open -= !alone;
        calls->shown += alone;
        calls->visitor->leave(calls->visitor->ctx, call, event);
    }
    call->parent = calls->spare;
    calls->spare = call;
    return 0;
}

int calls_event(struct calls *calls, const struct trace_event *event)
{
    if (calls->filter.thread && event->thread->tid != calls->filter.thread)
        return 0;
    struct track *track = track_of(calls, event);
    if (!track)
        return -ENOMEM;
    if (event->kind == TRACE_ENTRY)
        return call_enter(calls, track, event);
    if (event->kind == TRACE_EXIT)
        return call_leave(calls, track, event);
    if (calls->visitor->other && event->time >= calls->from_ticks && event->time <= calls->to_ticks &&
        (event->kind != TRACE_THINNED || function_matches(calls, event->function)))
        calls->visitor->other(calls->visitor->ctx, track->innermost, event);
    return 0;
}

bool call_time(const struct trace *trace, const struct call *call, const struct trace_event *event,
               struct call_time *ret_time)
{
    if (!call->has_spent || !event->spent || event->how == TRACE_EXIT_LOST)
        return false;
    uint64_t all = event->time - event->entry_time, unknown = event->spent->unknown - call->spent.unknown;
    uint64_t waiting = event->spent->waiting - call->spent.waiting;
    uint64_t preempted = event->spent->preempted - call->spent.preempted, off = waiting + preempted + unknown;
    *ret_time = (struct call_time){.cpu_ns = trace_ticks_ns(trace, all > off ? all - off : 0),
                                   .waiting_ns = trace_ticks_ns(trace, waiting),
                                   .preempted_ns = trace_ticks_ns(trace, preempted)};
    return unknown <= all / 100;
}

uint64_t calls_shown(const struct calls *calls)
{
    return calls->shown;
}

/* ---- how things are written ---- */

const char *call_name(const struct trace *trace, uint32_t function, char *room, size_t size)
{
    const struct trace_function *known = trace_function(trace, function);
    if (known && known->name[0])
        return known->name;
    snprintf(room, size, "function %u", function);
    return room;
}

const char *call_file(const struct trace *trace, uint32_t function)
{
    const struct trace_function *known = trace_function(trace, function);
    if (!known || !known->file[0])
        return "";
    return text_base(known->file);
}

/* Whether two names, of which one may have its parameters, are of the same function. */
static bool same_name(const char *one, const char *other)
{
    size_t len = strcspn(one, "(");
    return len && len == strcspn(other, "(") && strncmp(one, other, len) == 0;
}

bool call_put_place(struct buf *out, const struct trace *trace, const struct call *call, bool whole)
{
    const struct trace_place *place = call->place == UINT32_MAX ? NULL : trace_place(trace, call->place);
    char room[32];
    if (!place || (!*place->module && !*place->caller))
        return false;
    const char *around = call->parent && !whole ? call_name(trace, call->parent->function, room, sizeof room) : "";
    if (*place->caller && !same_name(place->caller, around)) {
        text_show(out, place->caller);
        buf_putc(out, ' ');
    }
    text_show(out, text_base(*place->file ? place->file : place->module));
    if (*place->file)
        buf_printf(out, ":%" PRIu32, place->line);
    else
        buf_printf(out, "+0x%" PRIx64, place->offset);
    return true;
}

void call_put_time(struct buf *out, const struct call_time *time)
{
    double least = (time->cpu_ns + time->waiting_ns + time->preempted_ns) / 100;
    buf_puts(out, "cpu ");
    text_ns(out, time->cpu_ns);
    if (time->waiting_ns > least) {
        buf_puts(out, ", waiting ");
        text_ns(out, time->waiting_ns);
    }
    if (time->preempted_ns > least) {
        buf_puts(out, ", preempted ");
        text_ns(out, time->preempted_ns);
    }
}

static struct layout_style style_for(const struct trace *trace)
{
    return (struct layout_style){.name_address = trace_name_address, .ctx = (void *)(uintptr_t)trace};
}

void call_put_values(struct buf *out, const struct trace *trace, const struct layout *layout, enum layout_part part,
                     const void *bytes, size_t size)
{
    struct layout_style style = style_for(trace);
    if (layout)
        layout_format(layout, part, bytes, size, &style, out);
}

bool call_put_signature(struct buf *out, const struct trace *trace, const struct call *call,
                        const struct trace_event *end)
{
    char room[32];
    const char *name = call_name(trace, call->function, room, sizeof room);
    _cleanup_(buf_done) struct buf result = BUF_INIT;
    if (!call->layout || !layout_has(call->layout, LAYOUT_ARGS))
        return false;
    if (end->layout && layout_has(end->layout, LAYOUT_RESULT))
        layout_declare(end->layout, LAYOUT_RESULT, &result);
    bool joined = result.len && strchr("*&", result.data[result.len - 1]);
    buf_printf(out, "%s%s%.*s(", result.len ? result.data : "", result.len && !joined ? " " : "",
               (int)strcspn(name, "("), name);
    layout_declare(call->layout, LAYOUT_ARGS, out);
    buf_putc(out, ')');
    return true;
}

bool call_put_json(struct buf *out, const struct trace *trace, const struct layout *layout, enum layout_part part,
                   const void *bytes, size_t size)
{
    if (!layout || !layout_has(layout, part))
        return false;
    struct layout_style style = style_for(trace);
    if (part != LAYOUT_RESULT) {
        layout_format_json(layout, part, bytes, size, &style, out);
        return true;
    }
    /* an object of one member: its value */
    _cleanup_(buf_done) struct buf object = BUF_INIT;
    layout_format_json(layout, part, bytes, size, &style, &object);
    const char *colon = object.data ? strstr(object.data, "\":") : NULL;
    if (colon && object.len > 3)
        buf_append(out, colon + 2, object.len - 1 - (size_t)(colon + 2 - object.data));
    else
        buf_puts(out, "null");
    return true;
}

bool call_put_json_values(struct buf *out, const struct trace *trace, const struct layout *layout,
                          enum layout_part part, const void *bytes, size_t size)
{
    if (!layout || !layout_has(layout, part))
        return false;
    struct layout_style style = style_for(trace);
    layout_format_values(layout, part, bytes, size, &style, out);
    return true;
}

void call_put_string(struct buf *out, const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + len;
    buf_putc(out, '"');
    while (at < end) {
        const unsigned char *plain = at;
        while (at < end && *at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\')
            at++;
        buf_append(out, plain, (size_t)(at - plain));
        if (at == end)
            break;
        size_t more = *at >= 0x80 ? utf8_length(at, (size_t)(end - at)) : 0;
        if (more)
            buf_append(out, at, more);
        else if (*at == '"' || *at == '\\')
            buf_printf(out, "\\%c", *at);
        else if (*at < 0x80)
            buf_printf(out, "\\u%04x", *at);
        else
            buf_printf(out, "\\\\x%02x", *at);
        at += more ? more : 1;
    }
    buf_putc(out, '"');
}

const char *call_how(enum trace_exit how)
{
    static const char *const names[] = {
        [TRACE_RETURNED] = "returned", [TRACE_UNWOUND] = "unwound", [TRACE_EXIT_LOST] = "lost", [TRACE_OPEN] = "open"};
    return names[how];
}
