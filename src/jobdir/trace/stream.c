/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/record/info.h"
#include "jobdir/trace/internal.h"
#include "shm/record.h"
#include "shm/waits.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Up to when the calls took that are open at the end of a trace. */

/* Its monitor writes on, here: what is still open is so until now, as far as that can be known. */
static uint64_t until_now(const struct trace *trace)
{
    const char *boot = trace_own_value(trace, "boot_id");
    char here[64];
    if (!trace->running || !boot || trace->pid <= 0 || (kill(trace->pid, 0) < 0 && errno != EPERM))
        return 0;
    job_boot_id(here, sizeof here);
    uint64_t now = clock_wall_ns() - WRITTEN_AFTER_NS;
    if (!*here || strcmp(here, boot) != 0 || now < trace->tick_zero_ns)
        return 0;
    return (uint64_t)((unsigned __int128)(now - trace->tick_zero_ns) * trace->ticks_per_second / NS_PER_SECOND);
}

uint64_t trace_until(const struct trace *trace)
{
    while (trace->rest)
        trace = trace->rest;
    uint64_t until = trace_number(trace, "until"), now = until_now(trace);
    return until > now ? until : now;
}

/*
 * What can be known of calls where packets are missing (a number of a packet was passed over). Ends of calls that were
 * entered before the packet they stand in name function and entry, so the records after a gap tell which calls were
 * open at its end: up to the next gap, or the end of the thread.
 */

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
static void restored_add(struct ahead *ahead, const struct trace_restored *call)
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
    restored_add(ahead, &(struct trace_restored){ahead->at->stack, function, entry_time, 0});
}

/* Calls that end without being named. */
static void ahead_count_ends(struct ahead *ahead, uint64_t count)
{
    uint64_t inner = count < ahead->at->count ? count : ahead->at->count;
    uint64_t depth = ahead->to->head.depth, most = depth > ahead->head_count ? depth - ahead->head_count : 0;
    ahead->at->count -= inner;
    count -= inner;
    most = most < TRACE_DEPTH ? most : TRACE_DEPTH;
    if (count && most)
        restored_add(
            ahead, &(struct trace_restored){ahead->at->stack, UINT32_MAX, 0, (uint32_t)(count < most ? count : most)});
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
        ahead_count_ends(ahead, 1);
        break;
    case RECORD_EXIT_OF:
    case RECORD_EXIT_VALUES:
        end_of(ahead, trace_u32(stream->payload), trace_u64(stream->payload + 4));
        break;
    case RECORD_UNWOUND:
    case RECORD_LOST:
        ahead_count_ends(ahead, trace_u32(stream->payload));
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

static struct trace_stream *trace_stream_new(struct trace *trace, const char *name);

static void trace_stream_free(struct trace_stream *stream);

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

/*
 * One stream of a trace. Any bytes may come: what does not fit is told with file and offset, and passed over up to the
 * next packet.
 */

enum { HEAD = sizeof(struct packet_head) };
#define TIME_MASK ((UINT64_C(1) << RECORD_TIME_BITS) - 1)

static struct trace_stream *trace_stream_new(struct trace *trace, const char *name)
{
    struct trace_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->trace = trace;
    stream->fd = -1;
    stream->name = strdup(name);
    if (stream->name)
        return stream;
    free(stream);
    return NULL;
}

static void trace_stream_free(struct trace_stream *stream)
{
    if (!stream)
        return;
    if (stream->fd >= 0)
        close(stream->fd);
    free(stream->name);
    free(stream->window);
    free(stream->caller);
    free(stream->restored);
    free(stream);
}

/* ---- reading ---- */

static void stream_fail(struct trace_stream *stream, int code)
{
    trace_tell(stream->trace, "%s/%s: cannot be read: %s", stream->trace->path, stream->name, strerror(-code));
    stream->broken = true;
    stream->step = STEP_END;
}

static int open_file(struct trace_stream *stream)
{
    char path[PATH_MAX];
    if (stream->fd >= 0)
        return 0;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", stream->trace->path, stream->name) >= sizeof path)
        return -ENAMETOOLONG;
    int fd = file_open_read(path);
    stream->fd = fd < 0 ? -1 : fd;
    return fd < 0 ? fd : 0;
}

static void done_with_file(struct trace_stream *stream)
{
    if (!stream->kept_open && stream->fd >= 0) {
        close(stream->fd);
        stream->fd = -1;
    }
}

void trace_stream_look(struct trace_stream *stream, size_t window, bool keep_open)
{
    struct stat st;
    if (stream->broken)
        return;
    stream->kept_open = keep_open;
    int code = open_file(stream);
    if (code == 0 && fstat(stream->fd, &st) < 0)
        code = -errno;
    if (code == 0 && stream->room < window) {
        uint8_t *grown = realloc(stream->window, window);
        code = grown ? 0 : -ENOMEM;
        stream->window = grown ? grown : stream->window;
        stream->room = grown ? window : stream->room;
    }
    if (code < 0) {
        stream_fail(stream, code);
        return;
    }
    stream->size = (uint64_t)st.st_size;
    done_with_file(stream);
}

/* Puts bytes from `at` on into the window so that there are `size`; false: the file has not so many. */
static bool stream_fill(struct trace_stream *stream, size_t size)
{
    if (stream->have - stream->at >= size)
        return true;
    uint64_t from = stream->offset + stream->at;
    if (stream->broken || from > stream->size || stream->size - from < size)
        return false;
    memmove(stream->window, stream->window + stream->at, stream->have - stream->at);
    stream->have -= stream->at;
    stream->offset = from;
    stream->at = 0;
    if (size > stream->room) {
        uint8_t *grown = realloc(stream->window, size);
        if (!grown) {
            stream_fail(stream, -ENOMEM);
            return false;
        }
        stream->window = grown;
        stream->room = size;
    }
    int code = open_file(stream);
    while (code == 0 && stream->have < size) {
        /* Not beyond the size that was looked up: the file may grow meanwhile, and half a packet is none. */
        uint64_t rest = stream->size - stream->offset - stream->have, room = stream->room - stream->have;
        ssize_t got = pread(stream->fd, stream->window + stream->have, rest < room ? rest : room,
                            (off_t)(stream->offset + stream->have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            code = got < 0 ? -errno : -ENODATA;
        else
            stream->have += (size_t)got;
    }
    done_with_file(stream);
    if (code < 0)
        stream_fail(stream, code);
    return code == 0;
}

/* Moves to an offset of the file, in the window or not. */
static void move_to(struct trace_stream *stream, uint64_t offset)
{
    if (offset >= stream->offset && offset - stream->offset <= stream->have) {
        stream->at = (size_t)(offset - stream->offset);
        return;
    }
    stream->offset = offset;
    stream->at = stream->have = 0;
}

static uint64_t position(const struct trace_stream *stream)
{
    return stream->offset + stream->at;
}

/* ---- packets ---- */

/* No writer makes packets of more than AREA_PACKET_SIZE; a file may say that the rest of it, terabytes of nothing, is one. */
enum { PACKET_MOST = 64 << 20 };

static bool head_fits(const struct packet_head *head)
{
    return head->magic == PACKET_MAGIC && head->packet_size / 8 <= PACKET_MOST && head->stream_class == 0 &&
           head->content_size % 8 == 0 && head->packet_size % 8 == 0 && head->content_size >= 8 * (uint64_t)HEAD &&
           head->packet_size >= head->content_size && head->time_end >= head->time_begin;
}

/* The first byte from there on that is in no hole: a file may have one of any size. */
static uint64_t find_data(struct trace_stream *stream, uint64_t from)
{
    if (open_file(stream) < 0)
        return from; /* fill() says so */
    off_t data = lseek(stream->fd, (off_t)from, SEEK_DATA);
    uint64_t at = data >= 0 ? (uint64_t)data : errno == ENXIO ? stream->size : from;
    done_with_file(stream);
    return at < stream->size ? at : stream->size;
}

/* Looks for the next packet from an offset on; the size of the file if there is none. */
static uint64_t find_packet(struct trace_stream *stream, uint64_t from)
{
    const uint32_t magic = PACKET_MAGIC;
    for (;;) {
        move_to(stream, from);
        if (!stream_fill(stream, HEAD))
            return stream->size;
        const uint8_t *found = memmem(stream->window + stream->at, stream->have - stream->at, &magic, sizeof magic);
        if (!found) {
            from = find_data(stream, stream->offset + stream->have - (sizeof magic - 1));
            continue;
        }
        from = stream->offset + (uint64_t)(found - stream->window);
        move_to(stream, from);
        struct packet_head head;
        if (!stream_fill(stream, HEAD))
            return stream->size;
        memcpy(&head, stream->window + stream->at, HEAD);
        if (head_fits(&head))
            return from;
        from++;
    }
}

static void end_here(struct trace_stream *stream, bool follow, const char *what)
{
    stream->step = STEP_END;
    if (!follow && !stream->told && !stream->trace->running && !stream->broken && stream->packet_end < stream->size) {
        stream->told = true;
        trace_tell(stream->trace, "%s/%s: offset %" PRIu64 ": %s", stream->trace->path, stream->name,
                   stream->packet_end, what);
    }
}

/* What is at packet_end becomes the packet, or the step is the end. */
static void next_packet(struct trace_stream *stream, bool follow)
{
    uint64_t at = stream->packet_end;
    struct packet_head head;
    stream->skip = stream->cut = false;
    stream->has_caller = false;
    move_to(stream, at);
    if (!stream_fill(stream, HEAD)) {
        end_here(stream, follow, "the file ends within the head of a packet");
        return;
    }
    memcpy(&head, stream->window + stream->at, HEAD);
    if (!head_fits(&head)) {
        at = find_packet(stream, at + 1);
        if (stream->broken)
            return;
        trace_tell(stream->trace, "%s/%s: offset %" PRIu64 ": no packet here: %" PRIu64 " bytes passed over",
                   stream->trace->path, stream->name, stream->packet_end, at - stream->packet_end);
        stream->packet_end = at;
        if (at >= stream->size) {
            stream->step = STEP_END;
            return;
        }
        memcpy(&head, stream->window + stream->at, HEAD);
    }
    uint64_t rest = stream->size - at, content = head.content_size / 8, whole = head.packet_size / 8;
    if (whole > rest) {
        if (follow) {
            stream->step = STEP_END;
            return;
        }
        if (!stream->trace->running)
            trace_tell(stream->trace,
                       "%s/%s: offset %" PRIu64 ": the file ends within a packet: %" PRIu64 " of its %" PRIu64
                       " bytes are there",
                       stream->trace->path, stream->name, at, rest, whole);
        stream->cut = true;
        whole = rest;
        content = content < rest ? content : rest;
    }
    bool other = stream->thread && stream->thread->key != ((uint64_t)head.thread_serial << 32 | head.tid);
    stream->head = head;
    stream->packet_at = at;
    stream->records_end = at + content;
    stream->packet_end = at + whole;
    stream->packet_number++;
    stream->clock = head.time_begin;
    stream->step = other ? STEP_THREAD_ENDS : STEP_PACKET;
    stream->gap = stream->packet_number > 1 && head.packet_seq > stream->next_seq;
    stream->gap_looked = stream->gap_closed = false;
    stream->restored_count = stream->restored_at = 0;
    stream->next_seq = head.packet_seq + 1;
    if (!other && !stream->gap && head.time_begin > stream->time) /* the calls that are open end where a gap begins */
        stream->time = head.time_begin;
}

void trace_stream_skip_packet(struct trace_stream *stream, const char *reason)
{
    if (reason)
        trace_tell(stream->trace, "%s/%s: offset %" PRIu64 ": %s: the rest of the packet is passed over",
                   stream->trace->path, stream->name, position(stream), reason);
    stream->skip = true;
}

/* ---- records ---- */

bool trace_stream_need(struct trace_stream *stream, size_t size)
{
    if (size <= stream->left)
        return true;
    /* from the record's start, so that the payload's place in it stays */
    size_t head = (size_t)(stream->payload - stream->window) - stream->at;
    if (stream->records_end - position(stream) < head + size || !stream_fill(stream, head + size))
        return false;
    uint64_t rest = stream->records_end - position(stream) - head;
    stream->payload = stream->window + stream->at + head;
    stream->left = stream->have - stream->at - head;
    if (stream->left > rest)
        stream->left = (size_t)rest;
    return true;
}

/* The time of a record from its low bits. Never backwards: a signal's handler may write before what it interrupted. */
static inline uint64_t record_time(const struct trace_stream *stream, uint32_t low)
{
    uint64_t ahead = (low - stream->clock) & TIME_MASK;
    bool back = ahead > TIME_MASK / 2 && stream->clock + ahead > stream->head.time_end;
    return back ? stream->clock : stream->clock + ahead;
}

static void cut_off(struct trace_stream *stream, bool follow)
{
    if (stream->cut)
        stream->skip = true; /* said already */
    else
        trace_stream_skip_packet(stream, "a record is cut off");
    next_packet(stream, follow);
}

static void read_record(struct trace_stream *stream, bool follow)
{
    uint64_t rest = stream->records_end - position(stream);
    if (rest == 0) {
        next_packet(stream, follow);
        return;
    }
    size_t head = RECORD_HEAD;
    if (rest < head || !stream_fill(stream, head)) {
        cut_off(stream, follow);
        return;
    }
    uint32_t word = trace_u32(stream->window + stream->at);
    stream->id = word & 31;
    if (stream->id == RECORD_EXTENDED) {
        head = RECORD_EXTENDED_HEAD;
        if (rest < head || !stream_fill(stream, head)) {
            cut_off(stream, follow);
            return;
        }
        stream->id = trace_u32(stream->window + stream->at + 4);
        uint64_t time = trace_u64(stream->window + stream->at + 8);
        if (time > stream->clock)
            stream->clock =
                time > stream->head.time_end && stream->head.time_end > stream->clock ? stream->head.time_end : time;
    } else {
        stream->clock = record_time(stream, word >> 5);
    }
    if (stream->clock > stream->time)
        stream->time = stream->clock;
    stream->payload = stream->window + stream->at + head;
    stream->left = stream->have - stream->at - head;
    if (stream->left > rest - head)
        stream->left = (size_t)(rest - head);
    stream->step = STEP_RECORD;
}

void trace_stream_advance(struct trace_stream *stream, size_t consumed, bool follow)
{
    if (stream->broken) {
        stream->step = STEP_END;
        return;
    }
    if (stream->skip) {
        next_packet(stream, follow);
        return;
    }
    switch (stream->step) {
    case STEP_END:
        next_packet(stream, follow);
        return;
    case STEP_THREAD_ENDS:
        stream->step = STEP_PACKET;
        if (!stream->gap && stream->head.time_begin > stream->time)
            stream->time = stream->head.time_begin;
        return;
    case STEP_PACKET:
        if (stream->restored_at < stream->restored_count) {
            if (stream->restored[stream->restored_at].entry_time > stream->time)
                stream->time = stream->restored[stream->restored_at].entry_time;
            return;
        }
        move_to(stream, stream->packet_at + HEAD);
        break;
    case STEP_RECORD:
        stream->at = (size_t)(stream->payload - stream->window);
        stream->at += consumed;
        break;
    }
    read_record(stream, follow);
}

/* All streams of a trace merged by time, entries and exits paired as shm/record.h says. */

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
