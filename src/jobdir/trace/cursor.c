/* SPDX-License-Identifier: Apache-2.0 */
/* All streams of a trace merged by time, entries and exits paired as shm/record.h says. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "jobdir/trace/internal.h"

/* ---- the heap ---- */

static inline bool stream_is_before(const struct trace_stream *a, const struct trace_stream *b)
{
    return a->time < b->time || (a->time == b->time && a->index < b->index);
}

static void heap_sift_down(struct trace_cursor *cursor)
{
    struct trace_stream **heap = cursor->heap, *stream = heap[0];
    size_t at = 0, count = cursor->heap_count;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && stream_is_before(heap[child + 1], heap[child]))
            child++;
        if (!stream_is_before(heap[child], stream))
            break;
        heap[at] = heap[child];
    }
    heap[at] = stream;
}

static void heap_push(struct trace_cursor *cursor, struct trace_stream *stream)
{
    size_t at = cursor->heap_count++;
    for (; at && stream_is_before(stream, cursor->heap[(at - 1) / 2]); at = (at - 1) / 2)
        cursor->heap[at] = cursor->heap[(at - 1) / 2];
    cursor->heap[at] = stream;
}

static void advance_first(struct trace_cursor *cursor)
{
    struct trace_stream *stream = cursor->heap[0];
    trace_stream_advance(stream, cursor->consumed, cursor->follow);
    cursor->consumed = 0;
    cursor->go_on = false;
    if (stream->step == STEP_END)
        cursor->heap[0] = cursor->heap[--cursor->heap_count];
    if (cursor->heap_count > 1)
        heap_sift_down(cursor);
}

/* ---- streams ---- */

static bool is_known(const struct trace_cursor *cursor, const char *name)
{
    for (size_t i = 0; i < cursor->stream_count; i++)
        if (strcmp(cursor->streams[i]->name, name) == 0)
            return true;
    return false;
}

int trace_cursor_add_stream(struct trace_cursor *cursor, const char *name)
{
    size_t count = cursor->stream_count;
    struct trace_stream **streams = realloc(cursor->streams, (count + 1) * sizeof *streams);
    if (!streams)
        return -ENOMEM;
    cursor->streams = streams;
    struct trace_stream **heap = realloc(cursor->heap, (count + 1) * sizeof *heap);
    if (!heap)
        return -ENOMEM;
    cursor->heap = heap;
    streams[count] = trace_stream_new(cursor->trace, name);
    if (!streams[count])
        return -ENOMEM;
    streams[count]->index = count;
    cursor->stream_count++;
    return 0;
}

static int is_stream(const struct dirent *entry)
{
    return strncmp(entry->d_name, "stream-", 7) == 0 && entry->d_name[7];
}

/* Looks which streams there are and how long they are; those with something to read come into the heap. */
static int cursor_look(struct trace_cursor *cursor)
{
    struct dirent **entries;
    int count = scandir(cursor->trace->path, &entries, is_stream, versionsort), code = 0;
    if (count < 0)
        return -errno;
    bool first = !cursor->looked;
    for (int i = 0; i < count; i++) {
        if (code == 0 && (first || !is_known(cursor, entries[i]->d_name)))
            code = trace_cursor_add_stream(cursor, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    cursor->looked = true;
    size_t window = cursor->stream_count ? TRACE_WINDOWS / cursor->stream_count : 0;
    window = window < TRACE_WINDOW_MIN ? TRACE_WINDOW_MIN : window > TRACE_WINDOW_MAX ? TRACE_WINDOW_MAX : window;
    for (size_t i = 0; code == 0 && i < cursor->stream_count; i++) {
        struct trace_stream *stream = cursor->streams[i];
        trace_stream_look(stream, window, i < TRACE_OPEN_FILES);
        trace_stream_advance(stream, 0, cursor->follow);
        if (stream->step != STEP_END)
            heap_push(cursor, stream);
    }
    return code;
}

static void check_switches(const struct trace_cursor *cursor)
{
    char path[PATH_MAX];
    struct stat st = {0};
    uint64_t written = trace_number(cursor->trace, "switches_bytes");
    snprintf(path, sizeof path, "%s/.switches", cursor->trace->path);
    if (!cursor->followed && (stat(path, &st) < 0 || (uint64_t)st.st_size < written) && written)
        trace_tell(cursor->trace, "%s: only %" PRIu64 " bytes are left of %" PRIu64, path, (uint64_t)st.st_size,
                   written);
}

/* When threads had a processor in the trace that the cursor has come to. */
static int look_at_switches(struct trace_cursor *cursor)
{
    const struct trace *trace = cursor->trace;
    bool has = false;
    for (const struct trace *part = trace; part; part = part->rest)
        has |= trace_number(part, "switches_from") != 0;
    if (!cursor->switches && (cursor->follow || !has))
        return 0;
    int code = cursor->switches ? 0 : trace_switches_new(&cursor->switches);
    check_switches(cursor);
    if (code == 0)
        trace_switches_go_on(cursor->switches, trace->path, trace_number(trace, "switches_from"),
                             trace_number(trace, "switches_until"), trace_number(trace, "switches_bytes"));
    return code;
}

int trace_cursor_new(struct trace_cursor **ret_cursor, struct trace *trace, bool follow, struct err *err)
{
    struct trace_cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor)
        return err_set(err, -ENOMEM, "out of memory");
    cursor->first = cursor->trace = trace;
    cursor->follow = cursor->followed = follow;
    trace->thread_count = 0;
    int code = follow ? trace_update(trace, err) : 0;
    if (code == 0)
        code = cursor_look(cursor);
    if (code == 0)
        code = look_at_switches(cursor);
    if (code < 0) {
        trace_cursor_free(cursor);
        return err_errno(err, code, "cannot read the trace %s", trace->path);
    }
    *ret_cursor = cursor;
    return 0;
}

static void free_threads(struct trace_cursor *cursor)
{
    struct trace_thread_state *thread, *next;
    HASH_ITER(hh, cursor->threads, thread, next)
    {
        HASH_FREE_ALL(thread->others, free(each->calls));
        HASH_DEL(cursor->threads, thread);
        free(thread->own.calls);
        free(thread);
    }
}

static void free_streams(struct trace_cursor *cursor)
{
    for (size_t i = 0; i < cursor->stream_count; i++)
        trace_stream_free(cursor->streams[i]);
    cursor->stream_count = cursor->heap_count = 0;
}

void trace_cursor_free(struct trace_cursor *cursor)
{
    if (!cursor)
        return;
    free_threads(cursor);
    free_streams(cursor);
    trace_switches_free(cursor->switches);
    free(cursor->streams);
    free(cursor->heap);
    free(cursor);
}

void trace_cursor_close(struct trace_cursor *cursor)
{
    cursor->look_once_more = cursor->follow;
    cursor->follow = false;
}

void trace_cursor_progress(const struct trace_cursor *cursor, uint64_t *ret_read, uint64_t *ret_all)
{
    *ret_read = *ret_all = 0;
    for (size_t i = 0; i < cursor->stream_count; i++) {
        *ret_read += cursor->streams[i]->offset + cursor->streams[i]->at;
        *ret_all += cursor->streams[i]->size;
    }
}

/* The heads of one of the traces that follow each other. */
static void see_packets(struct trace *trace, void (*fn)(void *ctx, const struct packet_head *head), void *ctx)
{
    struct dirent **entries;
    int count = scandir(trace->path, &entries, is_stream, versionsort);
    trace_problem_fn *problem = trace->problem;
    trace->problem = NULL; /* told when the packets are read */
    for (int i = 0; i < count; i++) {
        struct trace_stream *stream = trace_stream_new(trace, entries[i]->d_name);
        if (stream) {
            trace_stream_look(stream, TRACE_HEADS, true);
            do {
                stream->skip = true;
                trace_stream_advance(stream, 0, false);
                if (stream->step == STEP_PACKET)
                    fn(ctx, &stream->head);
            } while (stream->step != STEP_END);
        }
        trace_stream_free(stream);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    trace->problem = problem;
}

void trace_each_packet(struct trace *trace, void (*fn)(void *ctx, const struct packet_head *head), void *ctx)
{
    for (struct trace *part = trace; part; part = part->rest)
        see_packets(part, fn, ctx);
}

static void see_thread(void *ctx, const struct packet_head *head)
{
    trace_thread_of(ctx, head);
}

size_t trace_threads(struct trace *trace)
{
    struct trace_cursor seen = {.first = trace, .trace = trace};
    trace_each_packet(trace, see_thread, &seen);
    size_t threads = HASH_COUNT(seen.threads);
    free_threads(&seen);
    return threads;
}

/* ---- steps ---- */

static void step_thread_ends(struct trace_cursor *cursor, struct trace_stream *stream)
{
    struct trace_stack *stack = trace_busy_stack(stream->thread);
    if (stack)
        trace_pop_later(cursor, stream->thread, stack, UINT64_MAX, TRACE_UNWOUND, stream->time);
    else
        cursor->go_on = true;
}

/* The writer says how long its files are: where one was cut off between two packets nothing else tells. */
static void check_length(const struct trace_cursor *cursor)
{
    uint64_t unused, there, written = trace_number(cursor->trace, "bytes");
    const char *state = trace_own_value(cursor->trace, "state");
    trace_cursor_progress(cursor, &unused, &there);
    if (!cursor->followed && !cursor->again && state && strcmp(state, "running") != 0 && there < written)
        trace_tell(cursor->trace, "%s: only %" PRIu64 " bytes are left of the %" PRIu64 " of its streams",
                   trace_path(cursor->trace), there, written);
}

/* The calls that are still open when everything was read. */
static bool step_close(struct trace_cursor *cursor)
{
    if (!cursor->closing) {
        cursor->closing = true;
        check_length(cursor);
        uint64_t until = trace_until(cursor->trace);
        cursor->last_time = until > cursor->last_time ? until : cursor->last_time;
        cursor->closing_at = cursor->threads;
    }
    for (; cursor->closing_at; cursor->closing_at = cursor->closing_at->hh.next) {
        struct trace_stack *stack = trace_busy_stack(cursor->closing_at);
        if (stack) {
            trace_pop_later(cursor, cursor->closing_at, stack, UINT64_MAX, TRACE_OPEN, cursor->last_time);
            return true;
        }
    }
    return false;
}

/* Calls that were entered in the trace before: in no packet of this one. */
static void leave_packets(struct trace_stack *stack)
{
    for (size_t i = 0; i < stack->depth; i++)
        if (stack->calls[i].packet != TRACE_UNKNOWN_CALLS)
            stack->calls[i].packet = 0;
}

/* On to the trace that follows. */
static int cursor_go_on(struct trace_cursor *cursor)
{
    struct err err;
    check_length(cursor);
    free_streams(cursor);
    for (struct trace_thread_state *thread = cursor->threads; thread; thread = thread->hh.next) {
        leave_packets(&thread->own);
        for (struct trace_stack *stack = thread->others; stack; stack = stack->hh.next)
            leave_packets(stack);
    }
    cursor->trace = cursor->trace->rest;
    cursor->looked = false;
    int code = cursor->followed ? trace_update(cursor->trace, &err) : 0;
    if (code == 0)
        code = look_at_switches(cursor);
    return code < 0 ? code : cursor_look(cursor);
}

/* In follow mode: what came since. */
static int cursor_look_again(struct trace_cursor *cursor)
{
    struct err err;
    int code = trace_update(cursor->trace, &err);
    return code < 0 ? code : cursor_look(cursor);
}

static int next_event(struct trace_cursor *cursor, struct trace_event *ret_event)
{
    bool looked = false;
    for (;;) {
        if (cursor->pops.count && trace_pop_next(cursor, ret_event))
            return 1;
        if (cursor->has_held) {
            cursor->has_held = false;
            cursor->pops.stack->depth -= cursor->pops.drop;
            cursor->pops.drop = false;
            *ret_event = cursor->held;
            return 1;
        }
        if (cursor->go_on)
            advance_first(cursor);
        if (!cursor->heap_count) {
            if (cursor->closing || (!cursor->follow && !cursor->look_once_more)) {
                if (cursor->again && cursor->trace->rest)
                    return 0;
                if (cursor->trace->rest) {
                    int code = cursor_go_on(cursor);
                    if (code < 0)
                        return code;
                    continue;
                }
                if (!step_close(cursor))
                    return 0;
                continue;
            }
            int code = looked ? 0 : cursor_look_again(cursor);
            looked = true;
            if (code == 0 && !cursor->heap_count && cursor->trace->rest)
                code = cursor_go_on(cursor);
            if (code < 0 || (!cursor->heap_count && !cursor->look_once_more))
                return code;
            cursor->look_once_more = false;
            continue;
        }
        struct trace_stream *stream = cursor->heap[0];
        bool found = false;
        if (stream->time > cursor->last_time)
            cursor->last_time = stream->time;
        if (stream->step == STEP_RECORD)
            found = trace_step_record(cursor, stream, ret_event);
        else if (stream->step == STEP_PACKET)
            found = trace_step_packet(cursor, stream, ret_event);
        else
            step_thread_ends(cursor, stream);
        if (found)
            return 1;
    }
}

int trace_next(struct trace_cursor *cursor, struct trace_event *ret_event)
{
    int code = next_event(cursor, ret_event);
    if (code == 1 && cursor->switches) {
        trace_switches_spent(cursor->switches, ret_event->thread->tid, ret_event->time, &cursor->spent);
        ret_event->spent = &cursor->spent;
    }
    return code;
}
