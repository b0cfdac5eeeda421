/* SPDX-License-Identifier: Apache-2.0 */
/* What a space-time picture shows of the calls of each rank. */
#include "jobdir/export/spacetime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "shm/mpi_told.h"

enum { CALL_NOT_LOOKED = UINT16_MAX, MARGIN_SHARE = 50 };

struct gathering {
    struct spacetime spacetime;
    struct spacetime_lane *lane; /* of the trace that is read; NULL: it is no rank's */
    uint32_t thread;             /* that is the rank; 0: not known yet */
    uint16_t *calls;             /* by function */
    size_t call_room;
};

enum spacetime_class spacetime_class_of(uint32_t call)
{
    switch (call_infos[call].class) {
    case CALL_CLASS_P2P:
    case CALL_CLASS_COMPLETION:
        return SPACETIME_P2P;
    case CALL_CLASS_COLLECTIVE:
        return SPACETIME_COLLECTIVE;
    case CALL_CLASS_ONESIDED:
        return SPACETIME_ONESIDED;
    case CALL_CLASS_IO:
        return SPACETIME_IO;
    default:
        return SPACETIME_OTHER;
    }
}

/* ---- the window ---- */

/* Between MPI_Init and MPI_Finalize, if nobody asks for another. */
static void choose_window(struct spacetime *spacetime, const struct exporter *exporter)
{
    const struct mpi_messages *messages = spacetime->messages;
    int64_t from = INT64_MAX, to = INT64_MIN;
    spacetime->whole_from = INT64_MAX;
    spacetime->whole_to = INT64_MIN;
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        int64_t begin = rank->init_end != INT64_MIN ? rank->init_end : rank->begin;
        int64_t end = rank->final_begin != INT64_MIN ? rank->final_begin : rank->finish;
        from = begin < from ? begin : from;
        to = end > to ? end : to;
        spacetime->whole_from = rank->begin < spacetime->whole_from ? rank->begin : spacetime->whole_from;
        spacetime->whole_to = rank->finish > spacetime->whole_to ? rank->finish : spacetime->whole_to;
    }
    if (to <= from) {
        from = spacetime->whole_from;
        to = spacetime->whole_to;
    }
    int64_t margin = (to - from) / MARGIN_SHARE;
    from = from - margin > spacetime->whole_from ? from - margin : spacetime->whole_from;
    to = to + margin < spacetime->whole_to ? to + margin : spacetime->whole_to;
    spacetime->chosen = exporter->from_ns != INT64_MIN || exporter->to_ns != INT64_MAX;
    spacetime->from = exporter->from_ns != INT64_MIN ? exporter->from_ns
                      : spacetime->chosen            ? spacetime->whole_from
                                                     : from;
    spacetime->to = exporter->to_ns != INT64_MAX ? exporter->to_ns : spacetime->chosen ? spacetime->whole_to : to;
    if (spacetime->to <= spacetime->from)
        spacetime->to = spacetime->from + 1;
}

static int begin(struct exporter *exporter)
{
    struct gathering *gathering = calloc(1, sizeof *gathering);
    exporter->state = gathering;
    if (!gathering)
        return -ENOMEM;
    struct spacetime *spacetime = &gathering->spacetime;
    spacetime->messages = exporter->messages;
    spacetime->title = exporter->title;
    spacetime->command = exporter->command;
    spacetime->lane_count = exporter->messages->rank_count;
    spacetime->lanes = calloc(spacetime->lane_count + 1, sizeof *spacetime->lanes);
    if (!spacetime->lanes)
        return -ENOMEM;
    spacetime->lane_calls = spacetime->lane_count ? SPACETIME_CALLS / spacetime->lane_count : 0;
    if (spacetime->lane_calls > 4 * SPACETIME_COLUMNS)
        spacetime->lane_calls = 4 * SPACETIME_COLUMNS;
    choose_window(spacetime, exporter);
    for (size_t i = 0; i < spacetime->lane_count; i++) {
        struct spacetime_lane *lane = &spacetime->lanes[i];
        lane->rank = &exporter->messages->ranks[i];
        lane->columns = calloc(SPACETIME_COLUMNS, sizeof *lane->columns);
        lane->begin = lane->rank->begin > spacetime->from ? lane->rank->begin : spacetime->from;
        lane->end = lane->rank->finish < spacetime->to ? lane->rank->finish : spacetime->to;
        if (!lane->columns)
            return -ENOMEM;
    }
    return 0;
}

static int trace_begin(struct exporter *exporter)
{
    struct gathering *gathering = exporter->state;
    const struct mpi_message_rank *rank = mpi_messages_of_trace(exporter->messages, exporter->number);
    gathering->lane = rank ? &gathering->spacetime.lanes[rank - exporter->messages->ranks] : NULL;
    gathering->thread = mpi_trace_thread(exporter->mpi);
    free(gathering->calls);
    gathering->call_room = trace_function_count(exporter->trace);
    gathering->calls = malloc((gathering->call_room + 1) * sizeof *gathering->calls);
    if (!gathering->calls)
        return -ENOMEM;
    memset(gathering->calls, 0xff, gathering->call_room * sizeof *gathering->calls);
    return 0;
}

static uint32_t call_of(struct gathering *gathering, const struct trace *trace, uint32_t function)
{
    if (function < gathering->call_room && gathering->calls[function] != CALL_NOT_LOOKED)
        return gathering->calls[function];
    const struct trace_function *known = trace_function(trace, function);
    uint32_t call = known ? mpi_function_call(known->address) : (uint32_t)CALL_NONE;
    if (function < gathering->call_room)
        gathering->calls[function] = (uint16_t)call;
    return call;
}

/* ---- calls ---- */

static bool is_inside(struct gathering *gathering, const struct trace *trace, const struct call *call)
{
    for (const struct call *around = call->parent; around; around = around->parent)
        if (call_of(gathering, trace, around->function) != CALL_NONE)
            return true;
    return false;
}

static void add_to_columns(const struct spacetime *spacetime, struct spacetime_lane *lane, int64_t from, int64_t to,
                           enum spacetime_class class)
{
    double scale = SPACETIME_COLUMNS / (double)(spacetime->to - spacetime->from);
    double left = (double)(from - spacetime->from) * scale, right = (double)(to - spacetime->from) * scale;
    size_t first = (size_t)left, last = (size_t)right;
    for (size_t i = first; i <= last && i < SPACETIME_COLUMNS; i++) {
        double begins = i == first ? left : (double)i, ends = i == last ? right : (double)(i + 1);
        lane->columns[i][class] += (float)((ends - begins) / scale);
    }
}

static void keep_call(struct gathering *gathering, struct spacetime_lane *lane, const struct spacetime_call *call)
{
    if (lane->all_calls > gathering->spacetime.lane_calls) {
        free(lane->calls);
        lane->calls = NULL;
        lane->call_count = lane->call_room = 0;
        return;
    }
    if (!GROW(lane->calls, lane->call_count, lane->call_room))
        return; /* their part of the columns is there */
    lane->calls[lane->call_count++] = *call;
}

static void enter(void *ctx, struct call *call, const struct trace_event *event)
{
}

static double in_window(const struct spacetime *spacetime, int64_t from, int64_t to)
{
    from = from > spacetime->from ? from : spacetime->from;
    to = to < spacetime->to ? to : spacetime->to;
    return to > from ? (double)(to - from) : 0;
}

/* What of that is in the window. */
static void add_time(const struct spacetime *spacetime, struct spacetime_lane *lane, int64_t from, int64_t to,
                     enum spacetime_class class)
{
    from = from > spacetime->from ? from : spacetime->from;
    to = to < spacetime->to ? to : spacetime->to;
    if (from >= to)
        return;
    lane->total_ns[class] += (double)(to - from);
    add_to_columns(spacetime, lane, from, to, class);
}

/* Whether, and for whom, the call waited. */
static void find_waited(const struct spacetime *spacetime, const struct spacetime_lane *lane,
                        struct spacetime_call *call)
{
    const struct mpi_waited *list = lane->rank->waited;
    size_t low = 0, high = lane->rank->waited_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].begin < call->begin)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < lane->rank->waited_count && list[low].begin == call->begin; low++)
        if (list[low].call == call->call) {
            call->waited = list[low].until < call->end ? list[low].until : call->end;
            call->rank = spacetime->messages->ranks[list[low].rank].rank;
        }
}

static void leave(void *ctx, struct call *call, const struct trace_event *event)
{
    struct exporter *exporter = ctx;
    struct gathering *gathering = exporter->state;
    struct spacetime *spacetime = &gathering->spacetime;
    struct spacetime_lane *lane = gathering->lane;
    uint32_t number = lane ? call_of(gathering, exporter->trace, call->function) : (uint32_t)CALL_NONE;
    if (number == CALL_NONE || is_inside(gathering, exporter->trace, call))
        return;
    const struct timeline *timeline = &spacetime->messages->timeline;
    struct spacetime_call kept = {.begin = timeline_ns(timeline, exporter->number, event->entry_time),
                                  .end = timeline_ns(timeline, exporter->number, event->time),
                                  .call = number};
    if (!gathering->thread) /* without statistics it is the one with the first call, be that MPI_Init or not */
        gathering->thread = call->thread->tid;
    kept.other = call->thread->tid != gathering->thread;
    kept.waited = kept.begin;
    if (kept.end < spacetime->from || kept.begin > spacetime->to)
        return;
    lane->all_calls++;
    find_waited(spacetime, lane, &kept);
    if (kept.other) {
        lane->other_calls++;
        lane->other_ns += in_window(spacetime, kept.begin, kept.end);
    } else {
        lane->outside_ns += mpi_call_is_untimed(number) ? in_window(spacetime, kept.begin, kept.end) : 0;
        add_time(spacetime, lane, kept.begin, kept.waited, SPACETIME_WAIT);
        add_time(spacetime, lane, kept.waited, kept.end, spacetime_class_of(number));
    }
    keep_call(gathering, lane, &kept);
}

static void other(void *ctx, const struct call *innermost, const struct trace_event *event)
{
}

/* ---- the picture ---- */

static int end(struct exporter *exporter)
{
    struct gathering *gathering = exporter->state;
    struct spacetime *spacetime = &gathering->spacetime;
    for (size_t i = 0; i < spacetime->lane_count; i++) {
        struct spacetime_lane *lane = &spacetime->lanes[i];
        double in_calls = 0;
        for (unsigned class = SPACETIME_P2P; class < SPACETIME_CLASSES; class ++)
            in_calls += lane->total_ns[class];
        double compute = (double)(lane->end - lane->begin) - in_calls;
        lane->total_ns[SPACETIME_COMPUTE] = compute > 0 ? compute : 0;
    }
    spacetime_draw(spacetime, exporter);
    return 0;
}

static void done(struct exporter *exporter)
{
    struct gathering *gathering = exporter->state;
    if (!gathering)
        return;
    for (size_t i = 0; gathering->spacetime.lanes && i < gathering->spacetime.lane_count; i++) {
        free(gathering->spacetime.lanes[i].calls);
        free(gathering->spacetime.lanes[i].columns);
    }
    free(gathering->spacetime.lanes);
    free(gathering->calls);
    free(gathering);
}

const struct export_format export_spacetime = {
    .name = "spacetime",
    .messages = EXPORT_NEEDS_MESSAGES,
    .clips = true,
    .begin = begin,
    .trace_begin = trace_begin,
    .end = end,
    .done = done,
    .visitor = {.enter = enter, .leave = leave, .other = other},
};
