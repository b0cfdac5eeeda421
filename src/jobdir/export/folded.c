/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks for flame graphs: `program;main;solve 1234`, a line a path with the time spent there itself, in
 * nanoseconds; or with the part of it that threads had a processor for, or that they waited; or with the number of samples. Memory grows with the
 * number of different paths; when there are too many, or they are too deep, time counts for the path as far as it is
 * kept.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "jobdir/export/export.h"
#include "jobdir/text/text.h"

enum { PATHS = 4 << 20, DEEPEST = 500, NONE = 0 };

struct path {
    uint32_t function, parent;
    uint32_t depth;
    uint64_t self_ticks;
};

enum folded_part { FOLDED_TIME, FOLDED_CPU, FOLDED_WAITING };

struct folded {
    enum folded_part part;
    uint64_t unknown;   /* calls of which the part is not known */
    struct path *paths; /* of this trace; 0 is the root */
    size_t count, room;
    uint32_t *slots; /* hash of indexes + 1 */
    size_t mask;
    bool too_deep, too_many; /* some path was cut: said */
};

static size_t slot_of(const struct folded *folded, uint32_t parent, uint32_t function)
{
    uint64_t hash = ((uint64_t)parent << 32 ^ function) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & folded->mask;
    for (; folded->slots[at]; at = (at + 1) & folded->mask) {
        const struct path *path = &folded->paths[folded->slots[at] - 1];
        if (path->parent == parent && path->function == function)
            break;
    }
    return at;
}

static bool folded_grow(struct folded *folded)
{
    size_t room = folded->room ? folded->room * 2 : 256;
    struct path *paths = realloc(folded->paths, room * sizeof *paths);
    if (!paths)
        return false;
    folded->paths = paths;
    uint32_t *slots = calloc(2 * room, sizeof *slots);
    if (!slots)
        return false;
    free(folded->slots);
    folded->slots = slots;
    folded->mask = 2 * room - 1;
    folded->room = room;
    for (size_t i = 1; i < folded->count; i++)
        slots[slot_of(folded, paths[i].parent, paths[i].function)] = (uint32_t)i + 1;
    return true;
}

static void tell_cut(struct folded *folded, bool many)
{
    bool *told = many ? &folded->too_many : &folded->too_deep;
    if (!*told && many)
        log_warning(
            "there are more than %d different paths of calls: the time of the others counts for the path around "
            "them",
            PATHS);
    else if (!*told)
        log_warning("calls more than %d deep inside each other are cut off: their time counts for the call around them",
                    DEEPEST);
    *told = true;
}

/* The path below `parent`; the parent itself if there is no room for more. */
static uint32_t path_of(struct exporter *exporter, uint32_t parent, uint32_t function)
{
    struct folded *folded = exporter->state;
    size_t slot = slot_of(folded, parent, function);
    if (folded->slots[slot])
        return folded->slots[slot] - 1;
    if (folded->count >= PATHS || folded->paths[parent].depth >= DEEPEST) {
        tell_cut(folded, folded->count >= PATHS);
        return parent;
    }
    if (folded->count == folded->room) {
        if (!folded_grow(folded)) {
            exporter->text.failed = true;
            return parent;
        }
        slot = slot_of(folded, parent, function);
    }
    uint32_t made = (uint32_t)folded->count++;
    folded->paths[made] = (struct path){function, parent, folded->paths[parent].depth + 1, 0};
    folded->slots[slot] = made + 1;
    return made;
}

static int begin_part(struct exporter *exporter, enum folded_part part)
{
    struct folded *folded = exporter->state = calloc(1, sizeof *folded);
    if (folded)
        folded->part = part;
    return folded ? 0 : -ENOMEM;
}

static int folded_begin(struct exporter *exporter)
{
    return begin_part(exporter, FOLDED_TIME);
}

static int begin_cpu(struct exporter *exporter)
{
    return begin_part(exporter, FOLDED_CPU);
}

static int begin_waiting(struct exporter *exporter)
{
    return begin_part(exporter, FOLDED_WAITING);
}

static int folded_end(struct exporter *exporter)
{
    const struct folded *folded = exporter->state;
    if (folded->unknown)
        log_warning("of %" PRIu64 " calls it is not known when they had a processor, so their own time is in no path: "
                    "`scry report` says why",
                    folded->unknown);
    return 0;
}

static void folded_done(struct exporter *exporter)
{
    struct folded *folded = exporter->state;
    if (!folded)
        return;
    free(folded->paths);
    free(folded->slots);
    free(folded);
}

static int folded_trace_begin(struct exporter *exporter)
{
    struct folded *folded = exporter->state;
    if (!folded->room && !folded_grow(folded))
        return -ENOMEM;
    folded->paths[0] = (struct path){.function = UINT32_MAX, .parent = UINT32_MAX};
    folded->count = 1;
    memset(folded->slots, 0, (folded->mask + 1) * sizeof *folded->slots);
    return 0;
}

static void put_path(struct exporter *exporter, uint32_t at)
{
    const struct folded *folded = exporter->state;
    uint32_t chain[DEEPEST + 1];
    size_t depth = 0;
    char room[32];
    folded_put_step(&exporter->text, export_program(exporter->trace));
    for (uint32_t i = at; i && depth <= DEEPEST; i = folded->paths[i].parent)
        chain[depth++] = folded->paths[i].function;
    while (depth) {
        buf_putc(&exporter->text, ';');
        folded_put_step(&exporter->text, call_name(exporter->trace, chain[--depth], room, sizeof room));
    }
}

static int folded_trace_end(struct exporter *exporter)
{
    const struct folded *folded = exporter->state;
    for (uint32_t i = 1; i < folded->count; i++) {
        double exact = trace_ticks_ns(exporter->trace, folded->paths[i].self_ticks) + 0.5;
        if (exact < 1)
            continue;
        uint64_t ns = exact < 0x1p64 ? (uint64_t)exact : UINT64_MAX; /* a damaged trace says anything */
        put_path(exporter, i);
        buf_printf(&exporter->text, " %" PRIu64 "\n", ns);
        export_flush(exporter, false);
    }
    return 0;
}

/* How much of its time counts; what is not known of a call counts only for those inside. */
static uint64_t part_of(struct folded *folded, const struct trace *trace, const struct call *call,
                        const struct trace_event *event)
{
    struct call_time time;
    uint64_t span = event->time - event->entry_time;
    if (folded->part == FOLDED_TIME)
        return span;
    if (!call_time(trace, call, event, &time)) {
        folded->unknown++;
        return call->value;
    }
    uint64_t waiting = event->spent->waiting - call->spent.waiting;
    uint64_t off = waiting + event->spent->preempted - call->spent.preempted;
    return folded->part == FOLDED_WAITING ? waiting : span > off ? span - off : 0;
}

/* call->mark is its path, call->value the time inside the calls it made. */
static void folded_enter(void *ctx, struct call *call, const struct trace_event *event)
{
    call->mark = path_of(ctx, call->around ? call->around->mark : 0, call->function);
}

static void folded_leave(void *ctx, struct call *call, const struct trace_event *event)
{
    struct exporter *exporter = ctx;
    struct folded *folded = exporter->state;
    if (event->alone)
        call->mark = path_of(exporter, call->around ? call->around->mark : 0, call->function);
    if (event->how == TRACE_EXIT_LOST) {
        if (call->around)
            call->around->value += call->value;
        return;
    }
    uint64_t span = part_of(folded, exporter->trace, call, event);
    folded->paths[call->mark].self_ticks += span > call->value ? span - call->value : 0;
    if (call->around)
        call->around->value += span;
}

#define FOLDED(name_, begin_) \
    { \
        .name = (name_), .begin = (begin_), .trace_begin = folded_trace_begin, .trace_end = folded_trace_end, \
        .end = folded_end, .done = folded_done, .visitor = {.enter = folded_enter, .leave = folded_leave}, \
    }
const struct export_format export_folded = FOLDED("folded", folded_begin);
const struct export_format export_folded_cpu = FOLDED("folded-cpu", begin_cpu);
const struct export_format export_folded_waiting = FOLDED("folded-waiting", begin_waiting);

static int samples_begin(struct exporter *exporter)
{
    if (exporter->sampled)
        sampled_put_folded(&exporter->text, exporter->sampled);
    return 0;
}

const struct export_format export_samples = {
    .name = "folded-samples", .messages = EXPORT_SAMPLES, .begin = samples_begin};

static int pprof_begin(struct exporter *exporter)
{
    if (exporter->sampled)
        sampled_put_pprof(&exporter->text, exporter->sampled);
    return 0;
}

const struct export_format export_pprof = {.name = "pprof", .messages = EXPORT_SAMPLES, .begin = pprof_begin};

static int speedscope_begin(struct exporter *exporter)
{
    if (exporter->sampled)
        sampled_put_speedscope(&exporter->text, exporter->sampled, exporter->title);
    return 0;
}

const struct export_format export_speedscope = {
    .name = "speedscope", .messages = EXPORT_SAMPLES, .begin = speedscope_begin};
