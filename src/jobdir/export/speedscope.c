/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope's own format (its file-format-schema.json): an evented profile for each stack of calls, in nanoseconds.
 * A profile's events have to be together, but come mixed with those of others: they go through a temporary file, in
 * chunks that are linked to a list for each profile. Calls whose beginning is not in the trace are left out.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/export/export.h"

enum { CHUNK = 16 << 10, COPY = 64 << 10 };

struct chunk_head {      /* in the temporary file, before each chunk */
    uint64_t next, size; /* offset of the next one; 0: the last */
};

struct track {
    uint64_t key; /* thread index << 32 | stack */
    uint32_t tid, stack;
    struct buf events;
    uint64_t first, last; /* chunks; 0: none */
    uint64_t start_ns, end_ns, count;
    UT_hash_handle hh;
};

struct frame_name {
    char *name, *file;
    uint32_t line;
};

struct speedscope {
    FILE *spare;
    uint64_t used; /* of the temporary file */
    struct track *tracks, *latest;
    struct frame_name *frames;
    size_t frame_count, frame_room;
    uint32_t *by_function; /* frame + 1, of this trace */
    size_t by_function_room;
    bool any_profile;
};

static int begin(struct exporter *exporter)
{
    struct speedscope *scope = calloc(1, sizeof *scope);
    exporter->state = scope;
    if (!scope)
        return -ENOMEM;
    scope->spare = tmpfile();
    if (!scope->spare)
        return -errno;
    scope->used = sizeof(struct chunk_head); /* so that no chunk is at 0 */
    buf_puts(&exporter->text, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
                              "\"exporter\":\"scry " SCRY_VERSION "\",\"activeProfileIndex\":0,\"profiles\":[");
    return 0;
}

static void forget_tracks(struct speedscope *scope)
{
    HASH_FREE_ALL(scope->tracks, buf_done(&each->events));
    scope->latest = NULL;
}

static void done(struct exporter *exporter)
{
    struct speedscope *scope = exporter->state;
    if (!scope)
        return;
    forget_tracks(scope);
    for (size_t i = 0; i < scope->frame_count; i++) {
        free(scope->frames[i].name);
        free(scope->frames[i].file);
    }
    free(scope->frames);
    free(scope->by_function);
    if (scope->spare)
        fclose(scope->spare);
    free(scope);
}

static void fail(struct exporter *exporter, int error)
{
    if (!exporter->failed) {
        exporter->failed = true;
        exporter->error = error;
    }
}

/* ---- the temporary file ---- */

static bool put_at(struct speedscope *scope, const void *bytes, size_t size, uint64_t offset)
{
    const char *at = bytes;
    while (size) {
        ssize_t put = pwrite(fileno(scope->spare), at, size, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
        offset += (uint64_t)put;
    }
    return true;
}

static void put_chunk(struct exporter *exporter, struct track *track)
{
    struct speedscope *scope = exporter->state;
    const struct chunk_head head = {0, track->events.len};
    uint64_t at = scope->used;
    bool good = !track->events.failed && put_at(scope, &head, sizeof head, at) &&
                put_at(scope, track->events.data, track->events.len, at + sizeof head) &&
                (!track->last || put_at(scope, &at, sizeof at, track->last));
    if (!good)
        fail(exporter, track->events.failed ? ENOMEM : errno);
    scope->used += sizeof head + track->events.len;
    track->first = track->first ? track->first : at;
    track->last = at;
    buf_clear(&track->events);
}

static bool get_at(struct speedscope *scope, void *bytes, size_t size, uint64_t offset)
{
    char *at = bytes;
    while (size) {
        ssize_t got = pread(fileno(scope->spare), at, size, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
        offset += (uint64_t)got;
    }
    return true;
}

static void copy_chunks(struct exporter *exporter, const struct track *track)
{
    struct speedscope *scope = exporter->state;
    struct chunk_head head;
    for (uint64_t at = track->first; at && !exporter->failed; at = head.next) {
        if (!get_at(scope, &head, sizeof head, at)) {
            fail(exporter, EIO);
            return;
        }
        for (uint64_t done_bytes = 0; done_bytes < head.size && !exporter->failed;) {
            size_t part = head.size - done_bytes < COPY ? (size_t)(head.size - done_bytes) : COPY;
            char *room = buf_reserve(&exporter->text, part);
            if (!room || !get_at(scope, room, part, at + sizeof head + done_bytes)) {
                fail(exporter, room ? EIO : ENOMEM);
                return;
            }
            exporter->text.len += part;
            done_bytes += part;
            export_flush(exporter, false);
        }
    }
}

/* ---- frames ---- */

static uint32_t frame_of(struct exporter *exporter, uint32_t function)
{
    struct speedscope *scope = exporter->state;
    if (function < scope->by_function_room && scope->by_function[function])
        return scope->by_function[function] - 1;
    if (!GROW(scope->frames, scope->frame_count, scope->frame_room)) {
        fail(exporter, ENOMEM);
        return 0;
    }
    char room[32];
    const struct trace_function *known = trace_function(exporter->trace, function);
    scope->frames[scope->frame_count] = (struct frame_name){
        .name = strdup(call_name(exporter->trace, function, room, sizeof room)),
        .file = known && known->file[0] ? strdup(known->file) : NULL,
        .line = known ? known->line : 0,
    };
    if (!scope->frames[scope->frame_count].name) {
        fail(exporter, ENOMEM);
        return 0;
    }
    if (function < scope->by_function_room)
        scope->by_function[function] = (uint32_t)scope->frame_count + 1;
    return (uint32_t)scope->frame_count++;
}

/* ---- events ---- */

static int trace_begin(struct exporter *exporter)
{
    struct speedscope *scope = exporter->state;
    free(scope->by_function);
    scope->by_function_room = trace_function_count(exporter->trace);
    scope->by_function = calloc(scope->by_function_room + 1, sizeof *scope->by_function);
    return scope->by_function ? 0 : -ENOMEM;
}

static void put_profile(struct exporter *exporter, struct track *track)
{
    struct speedscope *scope = exporter->state;
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    if (mpi_trace_number(exporter->mpi) >= 0)
        buf_printf(&name, "rank %d (%s), ", mpi_trace_number(exporter->mpi), trace_node(exporter->trace));
    buf_printf(&name, "%s %d", export_program(exporter->trace), (int)trace_pid(exporter->trace));
    if (track->tid != (uint32_t)trace_pid(exporter->trace))
        buf_printf(&name, " thread %u", track->tid);
    if (track->stack)
        buf_printf(&name, " stack %u", track->stack);
    buf_puts(&exporter->text, scope->any_profile ? ",\n" : "\n");
    scope->any_profile = true;
    buf_puts(&exporter->text, "{\"type\":\"evented\",\"name\":");
    call_put_string(&exporter->text, name.data ? name.data : "", name.len);
    buf_printf(&exporter->text,
               ",\"unit\":\"nanoseconds\",\"startValue\":%" PRIu64 ",\"endValue\":%" PRIu64 ",\"events\":[",
               track->start_ns, track->end_ns);
    put_chunk(exporter, track);
    copy_chunks(exporter, track);
    buf_puts(&exporter->text, "]}");
}

static int trace_end(struct exporter *exporter)
{
    struct speedscope *scope = exporter->state;
    for (struct track *track = scope->tracks; track; track = track->hh.next)
        put_profile(exporter, track);
    forget_tracks(scope);
    scope->used = sizeof(struct chunk_head);
    return 0;
}

static int end(struct exporter *exporter)
{
    const struct speedscope *scope = exporter->state;
    buf_puts(&exporter->text, "\n],\"shared\":{\"frames\":[");
    for (size_t i = 0; i < scope->frame_count; i++) {
        const struct frame_name *frame = &scope->frames[i];
        buf_puts(&exporter->text, i ? ",\n{\"name\":" : "\n{\"name\":");
        call_put_string(&exporter->text, frame->name, strlen(frame->name));
        if (frame->file) {
            buf_puts(&exporter->text, ",\"file\":");
            call_put_string(&exporter->text, frame->file, strlen(frame->file));
        }
        if (frame->line)
            buf_printf(&exporter->text, ",\"line\":%" PRIu32, frame->line);
        buf_putc(&exporter->text, '}');
        export_flush(exporter, false);
    }
    buf_puts(&exporter->text, "\n]}}\n");
    return 0;
}

static struct track *track_of(struct exporter *exporter, const struct call *call, uint64_t ns)
{
    struct speedscope *scope = exporter->state;
    uint64_t key = (uint64_t)call->thread->index << 32 | call->stack;
    if (scope->latest && scope->latest->key == key)
        return scope->latest;
    struct track *track;
    HASH_FIND(hh, scope->tracks, &key, sizeof key, track);
    if (!track) {
        track = calloc(1, sizeof *track);
        if (!track) {
            fail(exporter, ENOMEM);
            return NULL;
        }
        track->key = key;
        track->tid = call->thread->tid;
        track->stack = call->stack;
        track->start_ns = ns;
        HASH_ADD(hh, scope->tracks, key, sizeof track->key, track);
    }
    scope->latest = track;
    return track;
}

static void put_event(struct exporter *exporter, const struct call *call, char type, uint64_t ticks)
{
    uint64_t ns = export_ns(exporter, ticks);
    struct track *track = track_of(exporter, call, ns);
    if (!track)
        return;
    buf_printf(&track->events, "%s{\"type\":\"%c\",\"frame\":%" PRIu32 ",\"at\":%" PRIu64 "}",
               track->count++ ? ",\n" : "\n", type, call->mark - 1, ns);
    track->end_ns = ns;
    if (track->events.len >= CHUNK)
        put_chunk(exporter, track);
}

static void enter(void *ctx, struct call *call, const struct trace_event *event)
{
    call->mark = frame_of(ctx, call->function) + 1;
    put_event(ctx, call, 'O', event->time);
}

static void leave(void *ctx, struct call *call, const struct trace_event *event)
{
    if (!event->alone)
        put_event(ctx, call, 'C', event->time);
}

static void other(void *ctx, const struct call *innermost, const struct trace_event *event)
{
}

const struct export_format export_speedscope = {
    .name = "speedscope",
    .messages = EXPORT_WITH_MESSAGES,
    .begin = begin,
    .trace_begin = trace_begin,
    .trace_end = trace_end,
    .end = end,
    .done = done,
    .visitor = {.enter = enter, .leave = leave, .other = other},
};
