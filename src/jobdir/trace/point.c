/* SPDX-License-Identifier: Apache-2.0 */
/* Points of a trace from which one thread can be read again. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/trace/internal.h"

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

static int restore(struct trace_cursor *cursor, const struct trace_point *point)
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
    int code = restore(cursor, point);
    if (code < 0) {
        trace_cursor_free(cursor);
        return err_errno(err, code, "cannot read the trace %s again", trace->path);
    }
    *ret_cursor = cursor;
    return 0;
}
