/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of any bytes: three lengths of two bytes each, then what is in .functions, .layouts and .process, then two
 * streams, split in the middle. Whatever comes: each entry gets its exit, time never goes back, the calls of each stack
 * nest, and all that shows traces copes.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "jobdir/export/export.h"
#include "jobdir/analysis/messages.h"
#include "jobdir/trace/profile.h"
#include "jobdir/export/replay.h"
#include "jobdir/trace/trace.h"

enum { FILES = 6, PROCESS_OF_PEER = 5, STACKS = 64 };

static const char *const names[FILES] = {".functions",  ".layouts",    ".process",
                                         "stream-0000", "stream-0001", ".process"};

/* A directory whose files are in memory, and one of another rank on another host, which has its second stream. */
static char directory[64], peer_directory[64];
static int files[FILES];

static void remove_directory(void)
{
    char path[128];
    for (size_t i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
        snprintf(path, sizeof path, "%s/%s", peer_directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
    rmdir(peer_directory);
}

static void link_file(const char *where, size_t index)
{
    char path[128], target[64];
    snprintf(target, sizeof target, "/proc/self/fd/%d", files[index]);
    snprintf(path, sizeof path, "%s/%s", where, names[index]);
    fuzz_expect(symlink(target, path) == 0);
}

static void put_file(size_t index, const uint8_t *bytes, size_t size)
{
    fuzz_expect(ftruncate(files[index], 0) == 0);
    fuzz_expect(pwrite(files[index], bytes, size, 0) == (ssize_t)size);
}

static void make_directory(void)
{
    static const char peer[] = "version\t1\npid\t6\nhost\to\nboot_id\to\nstart_ns\t2000\nticks_per_second\t1000000000\n"
                               "clock_offset_ns\t5000000\nstate\texited\nmpi_rank\t1\nmpi_world\tw\n";
    snprintf(directory, sizeof directory, "/tmp/scry-fuzz-trace-XXXXXX");
    snprintf(peer_directory, sizeof peer_directory, "/tmp/scry-fuzz-trace-XXXXXX");
    fuzz_expect(mkdtemp(directory) && mkdtemp(peer_directory));
    atexit(remove_directory);
    for (size_t i = 0; i < FILES; i++) {
        files[i] = memfd_create(names[i], MFD_CLOEXEC);
        fuzz_expect(files[i] >= 0);
        if (i != PROCESS_OF_PEER)
            link_file(directory, i);
        if (i != 2 && i != 3)
            link_file(peer_directory, i);
    }
    put_file(PROCESS_OF_PEER, (const uint8_t *)peer, sizeof peer - 1);
}

static void ignore(void *ctx, const char *text)
{
    ++*(size_t *)ctx;
    fuzz_expect(text && *text);
}

/* ---- what holds of all events ---- */

struct open_call {
    uint32_t function, depth;
    uint64_t entry_time;
};

struct open_stack {
    size_t thread;
    uint32_t stack;
    bool used;
    struct open_call *calls;
    size_t count, room;
};

static struct open_stack *stack_of(struct open_stack *stacks, const struct trace_event *event)
{
    for (size_t i = 0; i < STACKS; i++) {
        if (!stacks[i].used)
            stacks[i] = (struct open_stack){.thread = event->thread->index, .stack = event->stack, .used = true};
        if (stacks[i].thread == event->thread->index && stacks[i].stack == event->stack)
            return &stacks[i];
    }
    return NULL; /* too many to look at all */
}

static void check_entry(struct open_stack *stack, const struct trace_event *event)
{
    if (stack->count == stack->room) {
        stack->room = stack->room ? 2 * stack->room : 16;
        stack->calls = realloc(stack->calls, stack->room * sizeof *stack->calls);
        fuzz_expect(stack->calls);
    }
    stack->calls[stack->count++] = (struct open_call){event->function, event->depth, event->entry_time};
}

static void check_exit(struct open_stack *stack, const struct trace_event *event)
{
    fuzz_expect(event->entry_time <= event->time);
    if (event->alone)
        return;
    fuzz_expect(stack->count);
    const struct open_call *call = &stack->calls[--stack->count];
    /* of a place that is not in its file the function is known from the return, if that names it */
    fuzz_expect((event->function == call->function || call->function == UINT32_MAX) && event->depth == call->depth);
    fuzz_expect(event->entry_time <= call->entry_time); /* of one that began where packets are missing it is before */
}

/* Calls that began where packets are missing and end without a name have no events, but count for the depth: right
 * inside of them the caller is not known. */
static void check_event(struct open_stack *stacks, const struct trace_event *event, uint64_t *time)
{
    fuzz_expect(event->time >= *time);
    *time = event->time;
    fuzz_expect(event->thread);
    struct open_stack *stack = stack_of(stacks, event);
    if (!stack)
        return;
    if (event->kind == TRACE_EXIT)
        check_exit(stack, event);
    const struct open_call *around = stack->count ? &stack->calls[stack->count - 1] : NULL;
    uint32_t depth = around ? around->depth + 1 : 0;
    fuzz_expect(event->depth >= depth);
    fuzz_expect(event->caller == (event->depth == depth && around ? around->function : UINT32_MAX));
    if (event->kind == TRACE_ENTRY)
        check_entry(stack, event);
}

static void check_all(struct trace *trace)
{
    struct trace_cursor *cursor;
    struct trace_event event;
    struct open_stack stacks[STACKS] = {0};
    uint64_t time = 0;
    int code;
    fuzz_expect(trace_cursor_new(&cursor, trace, false, NULL) == 0);
    while ((code = trace_next(cursor, &event)) == 1)
        check_event(stacks, &event, &time);
    fuzz_expect(code == 0);
    for (size_t i = 0; i < STACKS; i++) {
        fuzz_expect(stacks[i].count == 0);
        free(stacks[i].calls);
    }
    trace_cursor_free(cursor);
}

/* ---- what shows them ---- */

static void show(struct trace *trace, bool json, FILE *out)
{
    struct replay *replay;
    struct trace_cursor *cursor;
    struct trace_event event;
    const struct replay_options options = {.json = json, .threads = true, .min_ns = json ? 0 : 3};
    fuzz_expect(replay_new(&replay, trace, &options, out) == 0);
    fuzz_expect(trace_cursor_new(&cursor, trace, false, NULL) == 0);
    while (trace_next(cursor, &event) == 1)
        fuzz_expect(replay_event(replay, &event) == 0);
    fuzz_expect(replay_idle(replay) == 0);
    replay_free(replay);
    trace_cursor_free(cursor);
}

static void export_as(const struct export_format *format, struct trace *trace, const struct mpi_messages *messages,
                      FILE *out)
{
    struct exporter exporter = {.out = out,
                                .trace = trace,
                                .messages = messages->rank_count ? messages : NULL,
                                .from_ns = INT64_MIN,
                                .to_ns = INT64_MAX};
    struct call_visitor visitor = format->visitor;
    struct trace_cursor *cursor;
    struct calls *calls;
    struct trace_event event;
    visitor.ctx = &exporter;
    if (format->messages >= EXPORT_NEEDS_MESSAGES && !exporter.messages)
        return;
    fuzz_expect(!format->begin || format->begin(&exporter) == 0);
    if (format->messages < EXPORT_MESSAGES_ONLY) {
        fuzz_expect(trace_cursor_new(&cursor, trace, false, NULL) == 0);
        fuzz_expect(calls_new(&calls, trace, &(struct call_filter){.function = "*"}, &visitor) == 0);
        fuzz_expect(!format->trace_begin || format->trace_begin(&exporter) == 0);
        while (trace_next(cursor, &event) == 1)
            fuzz_expect(calls_event(calls, &event) == 0);
        fuzz_expect(!format->trace_end || format->trace_end(&exporter) == 0);
        calls_free(calls);
        trace_cursor_free(cursor);
    }
    fuzz_expect(!format->end || format->end(&exporter) == 0);
    export_flush(&exporter, true);
    fuzz_expect(!exporter.failed);
    if (format->done)
        format->done(&exporter);
    buf_done(&exporter.text);
}

/* ---- messages ---- */

/* Each end that has another one is that one's; none arrives before it was sent. */
static void check_messages(const struct mpi_messages *messages)
{
    uint64_t matched = 0;
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        for (size_t k = 0; k < rank->got_count; k++) {
            const struct mpi_end *got = &rank->got[k];
            if (got->other >= MPI_OTHER_FOREIGN)
                continue;
            const struct mpi_message_rank *from = mpi_messages_rank(messages, rank->world, got->peer);
            fuzz_expect(from && got->other < from->sent_count);
            fuzz_expect(from->sent[got->other].other == k && from->sent[got->other].peer == rank->rank);
            matched++;
        }
    }
    fuzz_expect(matched == messages->matched);
}

static struct mpi_messages *load_messages(struct trace *trace)
{
    struct mpi_messages *messages;
    struct trace *traces[2] = {trace};
    struct err err = {0};
    size_t problems = 0;
    fuzz_expect(trace_open(&traces[1], peer_directory, ignore, &problems, &err) == 0);
    fuzz_expect(mpi_messages_load(&messages, traces, 2, &(struct mpi_messages_options){.start_ns = 1000}, &err) == 0);
    trace_close(traces[1]);
    check_messages(messages);
    struct buf text = BUF_INIT;
    json_t *json = json_object();
    mpi_messages_text(&text, messages);
    mpi_messages_json(json, messages);
    json_decref(json);
    buf_done(&text);
    return messages;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    size_t lengths[3], at = sizeof(uint16_t) * 3, problems = 0;
    if (size < at)
        return 0;
    if (!nowhere) {
        make_directory();
        nowhere = fopen("/dev/null", "we");
        fuzz_expect(nowhere);
    }
    for (size_t i = 0; i < 3; i++) {
        lengths[i] = data[2 * i] | (size_t)data[2 * i + 1] << 8;
        if (lengths[i] > size - at)
            lengths[i] = size - at;
        put_file(i, data + at, lengths[i]);
        at += lengths[i];
    }
    size_t half = (size - at) / 2;
    put_file(3, data + at, half);
    put_file(4, data + at + half, size - at - half);
    struct trace *trace;
    struct err err = {0};
    if (trace_open(&trace, directory, ignore, &problems, &err) < 0) {
        fuzz_expect(err.text[0]);
        return 0;
    }
    check_all(trace);
    trace_threads(trace);
    show(trace, false, nowhere);
    show(trace, true, nowhere);
    struct mpi_messages *messages = load_messages(trace);
    const struct export_format *format;
    for (size_t i = 0; (format = export_format_at(i)); i++)
        export_as(format, trace, messages, nowhere);
    mpi_messages_free(messages);
    trace_close(trace);
    return 0;
}
