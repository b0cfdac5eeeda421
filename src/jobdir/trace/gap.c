/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be known of calls where packets are missing (a number of a packet was passed over). Ends of calls that were
 * entered before the packet they stand in name function and entry, so the records after a gap tell which calls were
 * open at its end: up to the next gap, or the end of the thread.
 */
#include <stdlib.h>

#include "jobdir/trace/internal.h"
#include "shm/record_shape.h"

enum { STACKS = 16 };

struct open_now { /* calls entered after the gap that are open */
    uint32_t stack;
    uint64_t count;
};

struct ahead {
    struct trace_stream *stream; /* that is read; begins at the gap */
    struct trace_stream *to;
    uint64_t begin; /* calls entered before it are those in question */
    size_t room;
    uint64_t head_count;
    struct open_now stacks[STACKS], *at;
    size_t stack_count;
    bool full;
};

static void on_stack(struct ahead *ahead, uint32_t stack)
{
    for (size_t i = 0; i < ahead->stack_count; i++)
        if (ahead->stacks[i].stack == stack) {
            ahead->at = &ahead->stacks[i];
            return;
        }
    size_t index = ahead->stack_count < STACKS ? ahead->stack_count++ : STACKS - 1;
    ahead->at = &ahead->stacks[index];
    *ahead->at = (struct open_now){stack, 0};
}

/* Innermost first. */
static void add(struct ahead *ahead, const struct trace_restored *call)
{
    struct trace_stream *to = ahead->to;
    if (to->restored_count == ahead->room) {
        size_t room = ahead->room ? 2 * ahead->room : 64;
        struct trace_restored *grown = room <= TRACE_DEPTH ? realloc(to->restored, room * sizeof *grown) : NULL;
        ahead->full = !grown;
        if (!grown)
            return;
        to->restored = grown;
        ahead->room = room;
    }
    to->restored[to->restored_count++] = *call;
    if (call->stack == to->head.stack)
        ahead->head_count += call->unknown ? call->unknown : 1;
}

static void end_of(struct ahead *ahead, uint32_t function, uint64_t entry_time)
{
    if (entry_time >= ahead->begin) {
        ahead->at->count -= ahead->at->count > 0;
        return;
    }
    ahead->at->count = 0;
    add(ahead, &(struct trace_restored){ahead->at->stack, function, entry_time, 0});
}

/* Calls that end without being named. */
static void ends(struct ahead *ahead, uint64_t count)
{
    uint64_t inner = count < ahead->at->count ? count : ahead->at->count;
    uint64_t depth = ahead->to->head.depth, most = depth > ahead->head_count ? depth - ahead->head_count : 0;
    ahead->at->count -= inner;
    count -= inner;
    most = most < TRACE_DEPTH ? most : TRACE_DEPTH;
    if (count && most)
        add(ahead, &(struct trace_restored){ahead->at->stack, UINT32_MAX, 0, (uint32_t)(count < most ? count : most)});
}

/* Returns the bytes of the payload; SIZE_MAX: it is no record. */
static size_t take_record(struct ahead *ahead)
{
    struct trace_stream *stream = ahead->stream;
    if (stream->id >= RECORD_IDS || !trace_stream_need(stream, record_shapes[stream->id].fixed))
        return SIZE_MAX;
    size_t size = record_shapes[stream->id].fixed;
    if (record_shapes[stream->id].bytes)
        size += trace_u16(stream->payload + size - 2);
    if (!trace_stream_need(stream, size))
        return SIZE_MAX;
    switch (stream->id) {
    case RECORD_ENTRY:
    case RECORD_ENTRY_VALUES:
        ahead->at->count++;
        break;
    case RECORD_EXIT:
        ends(ahead, 1);
        break;
    case RECORD_EXIT_OF:
    case RECORD_EXIT_VALUES:
        end_of(ahead, trace_u32(stream->payload), trace_u64(stream->payload + 4));
        break;
    case RECORD_UNWOUND:
    case RECORD_LOST:
        ends(ahead, trace_u32(stream->payload));
        break;
    case RECORD_STACK:
        on_stack(ahead, trace_u32(stream->payload));
        break;
    default:
        break;
    }
    return size;
}

static void read_on(struct ahead *ahead)
{
    struct trace_stream *stream = ahead->stream;
    for (size_t consumed = 0; !ahead->full;) {
        trace_stream_advance(stream, consumed, false);
        consumed = 0;
        if (stream->step == STEP_END || stream->step == STEP_THREAD_ENDS || stream->gap)
            return;
        if (stream->step == STEP_PACKET) {
            on_stack(ahead, stream->head.stack);
            continue;
        }
        consumed = take_record(ahead);
        if (consumed == SIZE_MAX)
            stream->skip = true;
        if (ahead->stack_count == 1 && ahead->head_count >= ahead->to->head.depth)
            return; /* all that were open at the gap's end */
    }
}

void trace_gap_look(struct trace_stream *stream)
{
    struct trace *trace = stream->trace;
    stream->restored_count = stream->restored_at = 0;
    free(stream->restored);
    stream->restored = NULL;
    struct ahead ahead = {.to = stream, .begin = stream->head.time_begin};
    ahead.stream = trace_stream_new(trace, stream->name);
    if (!ahead.stream)
        return;
    trace_problem_fn *problem = trace->problem;
    trace->problem = NULL; /* told when the packets are read */
    trace_stream_look(ahead.stream, TRACE_WINDOW_MAX, true);
    ahead.stream->size = stream->size < ahead.stream->size ? stream->size : ahead.stream->size;
    ahead.stream->packet_end = stream->packet_at;
    ahead.stream->thread = stream->thread;
    read_on(&ahead);
    trace->problem = problem;
    trace_stream_free(ahead.stream);
    for (size_t i = 0, k = stream->restored_count; i + 1 < k; i++) { /* outermost first */
        struct trace_restored call = stream->restored[i];
        stream->restored[i] = stream->restored[--k];
        stream->restored[k] = call;
    }
}
