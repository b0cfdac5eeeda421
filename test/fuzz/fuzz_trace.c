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
#include "jobdir/export.h"
#include "jobdir/profile.h"
#include "jobdir/replay.h"
#include "jobdir/trace.h"

enum { FILES = 5, STACKS = 64 };

/* A directory whose files are in memory. */
static char directory[64];
static int files[FILES];

static void remove_directory(void)
{
    static const char *const names[FILES] = {".functions", ".layouts", ".process", "stream-0000", "stream-0001"};
    char path[128];
    for (size_t i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

static void make_directory(void)
{
    static const char *const names[FILES] = {".functions", ".layouts", ".process", "stream-0000", "stream-0001"};
    char path[128], target[64];
    snprintf(directory, sizeof directory, "/tmp/scry-fuzz-trace-XXXXXX");
    fuzz_expect(mkdtemp(directory));
    atexit(remove_directory);
    for (size_t i = 0; i < FILES; i++) {
        files[i] = memfd_create(names[i], MFD_CLOEXEC);
        fuzz_expect(files[i] >= 0);
        snprintf(target, sizeof target, "/proc/self/fd/%d", files[i]);
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        fuzz_expect(symlink(target, path) == 0);
    }
}

static void put_file(size_t index, const uint8_t *bytes, size_t size)
{
    fuzz_expect(ftruncate(files[index], 0) == 0);
    fuzz_expect(pwrite(files[index], bytes, size, 0) == (ssize_t)size);
}

static void ignore(void *ctx, const char *text)
{
    ++*(size_t *)ctx;
    fuzz_expect(text && *text);
}

/* ---- what holds of all events ---- */

struct open_stack {
    size_t thread;
    uint32_t stack, depth;
    bool used;
};

static struct open_stack *stack_of(struct open_stack *stacks, const struct trace_event *event)
{
    for (size_t i = 0; i < STACKS; i++)
        if (!stacks[i].used || (stacks[i].thread == event->thread->index && stacks[i].stack == event->stack)) {
            stacks[i] = (struct open_stack){event->thread->index, event->stack, stacks[i].depth, true};
            return &stacks[i];
        }
    return NULL; /* too many to look at all */
}

static void check_event(struct open_stack *stacks, const struct trace_event *event, uint64_t *time)
{
    fuzz_expect(event->time >= *time);
    *time = event->time;
    fuzz_expect(event->thread);
    struct open_stack *stack = stack_of(stacks, event);
    if (!stack)
        return;
    if (event->kind == TRACE_ENTRY)
        fuzz_expect(event->depth == stack->depth++);
    if (event->kind == TRACE_EXIT && !event->alone) {
        fuzz_expect(stack->depth);
        fuzz_expect(event->depth == --stack->depth);
    }
    if (event->kind == TRACE_EXIT)
        fuzz_expect(event->entry_time <= event->time);
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
    for (size_t i = 0; i < STACKS; i++)
        fuzz_expect(stacks[i].depth == 0);
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

static void export_as(const struct export_format *format, struct trace *trace, FILE *out)
{
    struct exporter exporter = {.out = out, .trace = trace};
    struct call_visitor visitor = format->visitor;
    struct trace_cursor *cursor;
    struct calls *calls;
    struct trace_event event;
    visitor.ctx = &exporter;
    fuzz_expect(!format->begin || format->begin(&exporter) == 0);
    fuzz_expect(trace_cursor_new(&cursor, trace, false, NULL) == 0);
    fuzz_expect(calls_new(&calls, trace, &(struct call_filter){.function = "*"}, &visitor) == 0);
    fuzz_expect(!format->trace_begin || format->trace_begin(&exporter) == 0);
    while (trace_next(cursor, &event) == 1)
        fuzz_expect(calls_event(calls, &event) == 0);
    fuzz_expect(!format->trace_end || format->trace_end(&exporter) == 0);
    fuzz_expect(!format->end || format->end(&exporter) == 0);
    export_flush(&exporter, true);
    fuzz_expect(!exporter.failed);
    if (format->done)
        format->done(&exporter);
    buf_done(&exporter.text);
    calls_free(calls);
    trace_cursor_free(cursor);
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
    const struct export_format *format;
    for (size_t i = 0; (format = export_format_at(i)); i++)
        export_as(format, trace, nowhere);
    trace_close(trace);
    return 0;
}
