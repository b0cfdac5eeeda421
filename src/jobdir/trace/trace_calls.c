/* SPDX-License-Identifier: Apache-2.0 */
/* What packets and records say of calls: entries and exits paired by thread and stack. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/trace/internal.h"

/* ---- threads and stacks ---- */

struct trace_thread_state *trace_thread_of(struct trace_cursor *cursor, const struct packet_head *head)
{
    uint64_t key = (uint64_t)head->thread_serial << 32 | head->tid;
    struct trace_thread_state *thread;
    HASH_FIND(hh, cursor->threads, &key, sizeof key, thread);
    if (thread || HASH_COUNT(cursor->threads) >= TRACE_THREADS)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    thread->key = key;
    thread->thread = (struct trace_thread){head->tid, head->thread_serial, HASH_COUNT(cursor->threads)};
    HASH_ADD(hh, cursor->threads, key, sizeof thread->key, thread);
    if (!cursor->again)
        cursor->first->thread_count = HASH_COUNT(cursor->threads);
    return thread;
}

struct trace_stack *trace_stack_of(struct trace_cursor *cursor, struct trace_thread_state *thread, uint32_t number)
{
    if (number == 0)
        return &thread->own;
    struct trace_stack *stack;
    HASH_FIND(hh, thread->others, &number, sizeof number, stack);
    if (stack || cursor->stack_count >= TRACE_STACKS)
        return stack;
    stack = calloc(1, sizeof *stack);
    if (!stack)
        return NULL;
    stack->number = number;
    HASH_ADD(hh, thread->others, number, sizeof stack->number, stack);
    cursor->stack_count++;
    return stack;
}

/* A stack of the thread with open calls, or NULL. */
struct trace_stack *trace_busy_stack(struct trace_thread_state *thread)
{
    for (struct trace_stack *stack = thread->others; stack; stack = stack->hh.next)
        if (stack->depth)
            return stack;
    return thread->own.depth ? &thread->own : NULL;
}

bool trace_stack_grow(struct trace_cursor *cursor, struct trace_stack *stack)
{
    size_t room = stack->room ? stack->room * 2 : 32;
    if (room > TRACE_DEPTH || cursor->call_count + room > TRACE_CALLS)
        return false;
    struct trace_call *calls = realloc(stack->calls, room * sizeof *calls);
    if (!calls)
        return false;
    cursor->call_count += room - stack->room;
    stack->calls = calls;
    stack->room = room;
    return true;
}

/* ---- events ---- */

static inline bool is_unknown(const struct trace_call *call)
{
    return call->packet == TRACE_UNKNOWN_CALLS;
}

static inline void event_init(struct trace_event *event, enum trace_event_kind kind, uint64_t time,
                              const struct trace_thread_state *thread, const struct trace_stack *stack)
{
    const struct trace_call *around = stack->depth ? &stack->calls[stack->depth - 1] : NULL;
    *event = (struct trace_event){.kind = kind,
                                  .time = time,
                                  .thread = &thread->thread,
                                  .stack = stack->number,
                                  .depth = (uint32_t)(stack->depth + stack->more),
                                  .function = UINT32_MAX,
                                  .place = UINT32_MAX,
                                  .caller = around && !is_unknown(around) ? around->function : UINT32_MAX};
}

/* The innermost call of a stack ends. */
static inline void event_pop(struct trace_event *event, uint64_t time, const struct trace_thread_state *thread,
                             struct trace_stack *stack, enum trace_exit how)
{
    const struct trace_call *call = &stack->calls[--stack->depth];
    event_init(event, TRACE_EXIT, time, thread, stack);
    event->function = call->function;
    event->entry_time = call->entry_time;
    event->how = how;
}

bool trace_pop_next(struct trace_cursor *cursor, struct trace_event *event)
{
    struct trace_pops *pops = &cursor->pops;
    struct trace_stack *stack = pops->stack;
    /* those that nothing is known of have told no beginning */
    while (pops->count && stack->depth && is_unknown(&stack->calls[stack->depth - 1])) {
        struct trace_call *calls = &stack->calls[stack->depth - 1];
        uint32_t over = pops->count < calls->unknown ? (uint32_t)pops->count : calls->unknown;
        pops->count -= over;
        calls->unknown -= over;
        stack->more -= over;
        if (!calls->unknown) {
            stack->more++; /* that one was counted by the depth */
            stack->depth--;
        }
    }
    if (!pops->count || !stack->depth) {
        pops->count = 0;
        return false;
    }
    pops->count--;
    event_pop(event, pops->time, pops->thread, pops->stack, pops->how);
    return true;
}

void trace_pop_later(struct trace_cursor *cursor, struct trace_thread_state *thread, struct trace_stack *stack,
                     uint64_t count, enum trace_exit how, uint64_t time)
{
    uint64_t beyond = stack->beyond < count ? stack->beyond : count;
    stack->beyond -= beyond;
    count -= beyond;
    uint64_t open = stack->depth + stack->more;
    cursor->pops = (struct trace_pops){thread, stack, count < open ? count : open, how, time, false};
}

/* What the calls from an index on stand for, but for one each. */
static uint64_t more_from(const struct trace_stack *stack, size_t index)
{
    uint64_t more = 0;
    for (size_t i = index; stack->more && i < stack->depth; i++)
        more += is_unknown(&stack->calls[i]) ? stack->calls[i].unknown - 1 : 0;
    return more;
}

/* Calls beyond so many on the stack are over. */
static void pop_down_to(struct trace_cursor *cursor, struct trace_stream *stream, uint32_t depth, enum trace_exit how)
{
    struct trace_stack *stack = stream->stack;
    uint64_t open = stack->depth + stack->more + stack->beyond;
    if (open > depth)
        trace_pop_later(cursor, stream->thread, stack, open - depth, how, stream->time);
}

/* ---- records ---- */

static void tell_unpaired(struct trace_cursor *cursor, const struct trace_stream *stream)
{
    if (!cursor->unpaired_told)
        trace_tell(cursor->trace, "%s/%s: offset %" PRIu64 ": the end of a call that never began", cursor->trace->path,
                   stream->name, stream->offset + stream->at);
    cursor->unpaired_told = true;
}

/* What the files of an ended trace should say and do not: they were cut off, or damaged. Told once each. */
static void tell_unknown(struct trace_cursor *cursor, bool *told, const char *file, const char *what, uint32_t id)
{
    const char *state = trace_own_value(cursor->trace, "state");
    if (*told || cursor->followed || !state || strcmp(state, "running") == 0)
        return;
    *told = true;
    trace_tell(cursor->trace, "%s/%s: nothing about %s %" PRIu32 ": the file was longer", cursor->trace->path, file,
               what, id);
}

static const struct layout *layout_of(struct trace_cursor *cursor, uint32_t id)
{
    const struct trace *trace = cursor->trace;
    if (id >= trace->layout_room || !trace->layouts[id].text)
        tell_unknown(cursor, &cursor->layout_told, ".layouts", "the values of layout", id);
    return trace_layout(trace, id);
}

static bool take_entry(struct trace_cursor *cursor, struct trace_stream *stream, uint32_t function,
                       struct trace_event *event)
{
    struct trace_stack *stack = stream->stack;
    if (stack->beyond || (stack->depth == stack->room && !trace_stack_grow(cursor, stack))) {
        if (!cursor->too_deep_told)
            trace_tell(cursor->trace, "%s/%s: offset %" PRIu64 ": calls deeper than %zu are passed over",
                       cursor->trace->path, stream->name, stream->offset + stream->at, stack->depth);
        cursor->too_deep_told = true;
        stack->beyond++;
        return false;
    }
    event_init(event, TRACE_ENTRY, stream->time, stream->thread, stack);
    event->function = function;
    if (function != UINT32_MAX && !trace_function(cursor->first, function))
        tell_unknown(cursor, &cursor->function_told, ".functions", "function", function);
    event->entry_time = stream->time;
    stack->calls[stack->depth++] = (struct trace_call){{function}, stream->packet_number, stream->time};
    if (stream->has_caller) {
        stream->has_caller = false;
        event->caller_layout = layout_of(cursor, stream->caller_layout);
        event->caller_values = stream->caller;
        event->caller_size = stream->caller_size;
    }
    return true;
}

static bool take_exit(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    struct trace_stack *stack = stream->stack;
    if (stack->beyond) {
        stack->beyond--;
        return false;
    }
    if (!stack->depth || stack->calls[stack->depth - 1].packet != stream->packet_number) {
        tell_unpaired(cursor, stream);
        return false;
    }
    event_pop(event, stream->time, stream->thread, stack, TRACE_RETURNED);
    return true;
}

/* How many calls stay open when the call with this entry ends. *ret_known: it is among the open ones. Of one
 * whose entry names a place that is not in its file the function is not known. */
static size_t depth_of(const struct trace_stack *stack, uint32_t function, uint64_t entry_time, bool *ret_known)
{
    size_t depth = stack->depth;
    while (depth && stack->calls[depth - 1].entry_time > entry_time)
        depth--;
    for (size_t at = depth; at && stack->calls[at - 1].entry_time == entry_time; at--)
        if ((stack->calls[at - 1].function == function || stack->calls[at - 1].function == UINT32_MAX) &&
            !is_unknown(&stack->calls[at - 1])) {
            *ret_known = true;
            return at - 1;
        }
    *ret_known = false;
    return depth;
}

/* An exit that names its entry. The calls that were open inside it end before it. */
static bool take_exit_of(struct trace_cursor *cursor, struct trace_stream *stream, uint32_t function,
                         uint64_t entry_time, struct trace_event *event)
{
    struct trace_stack *stack = stream->stack;
    bool known;
    if (stack->beyond && (!stack->depth || entry_time > stack->calls[stack->depth - 1].entry_time)) {
        stack->beyond--;
        return false;
    }
    size_t stay = depth_of(stack, function, entry_time, &known);
    uint64_t more = more_from(stack, stay), inside = stack->depth - stay - known + more;
    stack->beyond = 0;
    if (inside)
        trace_pop_later(cursor, stream->thread, stack, inside, TRACE_EXIT_LOST, stream->time);
    size_t depth = stack->depth;
    stack->depth = stay;
    stack->more -= more;
    event_init(event, TRACE_EXIT, stream->time, stream->thread, stack);
    stack->depth = depth;
    stack->more += more;
    event->function = function;
    event->entry_time = entry_time < stream->time ? entry_time : stream->time;
    event->alone = !known;
    if (!inside) {
        stack->depth = stay;
        return true;
    }
    cursor->pops.drop = known;
    cursor->held = *event;
    cursor->has_held = true;
    return false;
}

/* The values of a record: u32 layout, u16 size, bytes, from `at` on in the payload. Returns the bytes of the payload, 0
 * if the packet has not so many. */
static size_t take_values(struct trace_stream *stream, size_t at, uint32_t *ret_layout, size_t *ret_size)
{
    if (!trace_stream_need(stream, at + 6))
        return 0;
    *ret_layout = trace_u32(stream->payload + at);
    *ret_size = trace_u16(stream->payload + at + 4);
    return trace_stream_need(stream, at + 6 + *ret_size) ? at + 6 + *ret_size : 0;
}

static void set_values(struct trace_cursor *cursor, struct trace_event *event, uint32_t layout, const uint8_t *bytes,
                       size_t size)
{
    event->layout = layout_of(cursor, layout);
    event->values = bytes;
    event->values_size = size;
}

/* An entry, by its first word: a function, or a place. */
static bool take_entry_of(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    uint32_t word = trace_u32(stream->payload), place = word & RECORD_PLACE ? word & ~RECORD_PLACE : UINT32_MAX;
    if (place != UINT32_MAX)
        word = trace_place_function(cursor->first, place, (uint64_t)stream->index << 44 ^ (stream->packet_at + 1));
    if (word == UINT32_MAX)
        tell_unknown(cursor, &cursor->place_told, ".places", "the place of calls", place);
    if (!take_entry(cursor, stream, word, event))
        return false;
    event->place = place;
    return true;
}

static bool record_entry(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    cursor->consumed = 4;
    return stream->stack && take_entry_of(cursor, stream, event);
}

static bool record_exit(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    return stream->stack && take_exit(cursor, stream, event);
}

static bool record_exit_of(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    cursor->consumed = 12;
    return stream->stack &&
           take_exit_of(cursor, stream, trace_u32(stream->payload), trace_u64(stream->payload + 4), event);
}

static bool record_entry_values(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    uint32_t layout;
    size_t size, used = take_values(stream, 4, &layout, &size);
    cursor->consumed = used;
    if (!used || !stream->stack || !take_entry_of(cursor, stream, event))
        return false;
    set_values(cursor, event, layout, stream->payload + 10, size);
    return true;
}

static bool record_exit_values(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    uint32_t layout;
    size_t size, used = take_values(stream, 12, &layout, &size);
    cursor->consumed = used;
    if (!used || !stream->stack)
        return false;
    bool now = take_exit_of(cursor, stream, trace_u32(stream->payload), trace_u64(stream->payload + 4), event);
    if (now || cursor->has_held)
        set_values(cursor, now ? event : &cursor->held, layout, stream->payload + 18, size);
    return now;
}

static bool record_caller_values(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    uint32_t layout;
    size_t size, used = take_values(stream, 0, &layout, &size);
    cursor->consumed = used;
    if (!used)
        return false;
    uint8_t *copy =
        size > stream->caller_size || !stream->caller ? realloc(stream->caller, UINT16_MAX) : stream->caller;
    if (!copy)
        return false;
    stream->caller = copy;
    memcpy(copy, stream->payload + 6, size);
    stream->caller_layout = layout;
    stream->caller_size = (uint32_t)size;
    stream->has_caller = true;
    return false;
}

static bool record_unwound(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    cursor->consumed = 4;
    if (stream->stack)
        trace_pop_later(cursor, stream->thread, stream->stack, trace_u32(stream->payload), TRACE_UNWOUND, stream->time);
    return false;
}

static bool record_lost(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    cursor->consumed = 4;
    if (stream->stack)
        trace_pop_later(cursor, stream->thread, stream->stack, trace_u32(stream->payload), TRACE_EXIT_LOST,
                        stream->time);
    return false;
}

static bool record_stack(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    cursor->consumed = 8;
    stream->stack = trace_stack_of(cursor, stream->thread, trace_u32(stream->payload));
    if (stream->stack)
        pop_down_to(cursor, stream, trace_u32(stream->payload + 4), TRACE_UNWOUND);
    return false;
}

static bool record_signal(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    cursor->consumed = 24;
    event_init(event, TRACE_SIGNAL, stream->time, stream->thread, stream->stack ? stream->stack : &stream->thread->own);
    event->number = (int32_t)trace_u32(stream->payload);
    event->code = (int32_t)trace_u32(stream->payload + 4);
    event->address = trace_u64(stream->payload + 8);
    event->pc = trace_u64(stream->payload + 16);
    return true;
}

static bool record_mark(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    size_t size = trace_u16(stream->payload);
    cursor->consumed = trace_stream_need(stream, 2 + size) ? 2 + size : 0;
    if (!cursor->consumed)
        return false;
    event_init(event, TRACE_MARK, stream->time, stream->thread, stream->stack ? stream->stack : &stream->thread->own);
    event->text = (const char *)stream->payload + 2;
    event->text_len = size;
    return true;
}

static bool record_thinned(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    cursor->consumed = 4;
    event_init(event, TRACE_THINNED, stream->time, stream->thread,
               stream->stack ? stream->stack : &stream->thread->own);
    event->function = trace_u32(stream->payload);
    return true;
}

static bool record_message(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    const struct record_message *message = (const struct record_message *)stream->payload; /* packed: at any address */
    const struct trace_stack *stack = stream->stack ? stream->stack : &stream->thread->own;
    cursor->consumed = sizeof *message;
    if (message->kind >= MESSAGE_KINDS)
        return false;
    event_init(event, TRACE_MESSAGE, stream->time, stream->thread, stack);
    event->entry_time = stack->depth ? stack->calls[stack->depth - 1].entry_time : stream->time;
    event->message = message;
    event->message_number = cursor->messages[message->kind]++;
    return true;
}

static const struct {
    size_t size; /* bytes of the payload, at least */
    bool (*take)(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event);
    bool values; /* takes more than `size`; nothing consumed: it was cut off */
} records[RECORD_IDS] = {
    [RECORD_ENTRY] = {4, record_entry},
    [RECORD_EXIT] = {0, record_exit},
    [RECORD_EXIT_OF] = {12, record_exit_of},
    [RECORD_ENTRY_VALUES] = {10, record_entry_values, true},
    [RECORD_EXIT_VALUES] = {18, record_exit_values, true},
    [RECORD_CALLER_VALUES] = {6, record_caller_values, true},
    [RECORD_UNWOUND] = {4, record_unwound},
    [RECORD_LOST] = {4, record_lost},
    [RECORD_STACK] = {8, record_stack},
    [RECORD_SIGNAL] = {24, record_signal},
    [RECORD_MARK] = {2, record_mark, true},
    [RECORD_THINNED] = {4, record_thinned},
    [RECORD_MESSAGE] = {sizeof(struct record_message), record_message},
};

/* ---- steps: true if there is an event ---- */

bool trace_step_record(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    cursor->go_on = true;
    if (stream->id >= RECORD_IDS) {
        trace_stream_skip_packet(stream, "a record of an unknown kind");
        return false;
    }
    if (!trace_stream_need(stream, records[stream->id].size)) {
        trace_stream_skip_packet(stream, stream->cut ? NULL : "a record is cut off");
        return false;
    }
    bool found = records[stream->id].take(cursor, stream, event);
    if (records[stream->id].values && !cursor->consumed)
        trace_stream_skip_packet(stream, stream->cut ? NULL : "a record is cut off");
    return found;
}

/* A stack of the thread that has calls which may have ended in the gap; NULL. */
static struct trace_stack *stack_beyond_gap(struct trace_thread_state *thread)
{
    for (struct trace_stack *stack = thread->others; stack; stack = stack->hh.next)
        if (stack->depth + stack->beyond > stack->keep)
            return stack;
    return thread->own.depth + thread->own.beyond > thread->own.keep ? &thread->own : NULL;
}

/* Calls whose ends come after the gap were open all the time, with those around them. The others that end after it
 * began in it: those stay in stream->restored. */
static void match_restored(struct trace_cursor *cursor, struct trace_stream *stream)
{
    struct trace_thread_state *thread = stream->thread;
    size_t left = 0;
    thread->own.keep = 0;
    for (struct trace_stack *stack = thread->others; stack; stack = stack->hh.next)
        stack->keep = 0;
    for (size_t i = 0; i < stream->restored_count; i++) {
        struct trace_restored call = stream->restored[i];
        struct trace_stack *stack = trace_stack_of(cursor, thread, call.stack);
        bool known = false;
        size_t stay = stack && !call.unknown ? depth_of(stack, call.function, call.entry_time, &known) : 0;
        if (known)
            stack->keep = stay < stack->keep ? stack->keep : stay + 1;
        else if (call.unknown || call.entry_time > stream->time) /* others began before the trace */
            stream->restored[left++] = call;
    }
    stream->restored_count = left;
}

/* Calls of which nothing is known but that they end. They are there so that those around them do not end for them. */
static void open_unknown(struct trace_cursor *cursor, struct trace_stack *stack, uint32_t count, uint64_t time)
{
    bool fits = !stack->beyond && stack->more + count <= TRACE_DEPTH;
    if (!fits || (stack->depth == stack->room && !trace_stack_grow(cursor, stack))) {
        stack->beyond += count;
        return;
    }
    stack->calls[stack->depth++] =
        (struct trace_call){.unknown = count, .packet = TRACE_UNKNOWN_CALLS, .entry_time = time};
    stack->more += count - 1;
}

/* The next of the calls that began in the gap. */
static bool step_restored(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    const struct trace_restored *call = &stream->restored[stream->restored_at++];
    struct trace_stack *stack = stream->stack = trace_stack_of(cursor, stream->thread, call->stack);
    bool found = false;
    if (stack && !call->unknown && take_entry(cursor, stream, call->function, event)) {
        stack->calls[stack->depth - 1].packet = 0;
        stack->calls[stack->depth - 1].entry_time = call->entry_time;
        event->alone = true;
        found = true;
    } else if (stack && call->unknown) {
        open_unknown(cursor, stack, call->unknown, stream->time);
    }
    if (stream->restored_at == stream->restored_count)
        stream->stack = trace_stack_of(cursor, stream->thread, stream->head.stack);
    return found;
}

/* How many records are missing before the packet, if any are. */
static bool take_gap(struct trace_stream *stream, struct trace_event *event)
{
    uint64_t before = stream->discarded;
    stream->discarded = stream->head.events_discarded;
    if (stream->discarded <= before)
        return false;
    event_init(event, TRACE_GAP, stream->time, stream->thread, stream->stack ? stream->stack : &stream->thread->own);
    event->lost = stream->discarded - before;
    return true;
}

/* Packets are missing before this one: calls that are not known to be open afterwards have ended; then comes how many
 * records there were; then, each at its time, the calls that began there and end later. */
static bool step_gap(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    if (!stream->gap_looked) {
        stream->gap_looked = true;
        trace_gap_look(stream);
        match_restored(cursor, stream);
    }
    struct trace_stack *stack = stream->gap_closed ? NULL : stack_beyond_gap(stream->thread);
    if (stack) {
        trace_pop_later(cursor, stream->thread, stack,
                        stack->depth - stack->keep + more_from(stack, stack->keep) + stack->beyond, TRACE_EXIT_LOST,
                        stream->time);
        return false;
    }
    cursor->go_on = true;
    if (stream->gap_closed)
        return step_restored(cursor, stream, event);
    stream->gap_closed = true;
    stream->stack = trace_stack_of(cursor, stream->thread, stream->head.stack);
    return take_gap(stream, event);
}

bool trace_step_packet(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event)
{
    cursor->go_on = true;
    stream->thread = trace_thread_of(cursor, &stream->head);
    if (!stream->thread) {
        trace_stream_skip_packet(stream, "too many threads");
        return false;
    }
    if (cursor->only && stream->thread != cursor->only) {
        stream->broken = true; /* another one's packets: nothing more is read */
        return false;
    }
    if (stream->gap) {
        cursor->go_on = false;
        return step_gap(cursor, stream, event);
    }
    stream->stack = trace_stack_of(cursor, stream->thread, stream->head.stack);
    if (stream->stack)
        pop_down_to(cursor, stream, stream->head.depth, TRACE_EXIT_LOST);
    if (cursor->pops.count) {
        cursor->go_on = false; /* once more when these have ended */
        return false;
    }
    if (cursor->point)
        trace_point_take(cursor, stream);
    return take_gap(stream, event);
}
