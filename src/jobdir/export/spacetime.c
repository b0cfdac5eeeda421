/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/export/spacetime.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/calls.h"
#include "shm/mpi_told.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The messages and collective operations of a space-time picture. */

enum { TIPS = 400 /* so many messages have an arrow's head */ };

/* ---- messages ---- */

/* The send of a receive, if the message is to be seen in the window. */
static const struct mpi_end *seen(const struct spacetime *spacetime, const struct mpi_message_rank *rank,
                                  const struct mpi_end *got, const struct mpi_message_rank **ret_from)
{
    if (got->other >= MPI_OTHER_FOREIGN || got->end < spacetime->from)
        return NULL;
    ptrdiff_t from = mpi_messages_at(spacetime->messages, rank->world, got->comm, got->peer);
    if (from < 0)
        return NULL;
    *ret_from = &spacetime->messages->ranks[from];
    const struct mpi_end *sent = &(*ret_from)->sent[got->other];
    return sent->begin <= spacetime->to ? sent : NULL;
}

void spacetime_count_lines(const struct spacetime *spacetime, struct spacetime_drawn *drawn)
{
    const struct mpi_message_rank *from;
    for (size_t i = 0; i < spacetime->lane_count; i++) {
        const struct mpi_message_rank *rank = spacetime->lanes[i].rank;
        for (size_t k = 0; k < rank->got_count; k++)
            drawn->messages += seen(spacetime, rank, &rank->got[k], &from) != NULL;
    }
    uint64_t most = SPACETIME_LINES_EACH * spacetime->lane_count;
    most = most < SPACETIME_LINES ? most : SPACETIME_LINES;
    drawn->message_step = most ? (drawn->messages + most - 1) / most : 1;
    drawn->message_step += drawn->message_step == 0;
    drawn->messages_drawn = drawn->messages / drawn->message_step;
}

static bool is_slowest(const struct spacetime *spacetime, const struct mpi_message_rank *from, uint64_t sent)
{
    const struct mpi_messages *messages = spacetime->messages;
    for (size_t i = 0; i < messages->slowest_count; i++)
        if (messages->slowest[i].sent == sent && &messages->ranks[messages->slowest[i].from] == from)
            return true;
    return false;
}

static void put_message(const struct spacetime_frame *frame, const struct mpi_message_rank *from,
                        const struct mpi_message_rank *to, const struct mpi_end *sent, const struct mpi_end *got,
                        bool tips)
{
    const struct spacetime *spacetime = frame->spacetime;
    const struct mpi_messages *messages = spacetime->messages;
    struct buf *out = &frame->exporter->text;
    size_t source = (size_t)(from - messages->ranks), target = (size_t)(to - messages->ranks);
    double half = source == target ? 0 : source < target ? frame->bar / 2 : -frame->bar / 2;
    buf_printf(out, "<path class=\"m\" d=\"M%.2f %.1fL%.2f %.1f\"%s><title>rank %d → rank %d, tag %d, ",
               spacetime_x(frame, sent->begin), spacetime_y(frame, source) + half, spacetime_x(frame, got->end),
               spacetime_y(frame, target) - half, tips ? " marker-end=\"url(#tip)\"" : "", from->rank, to->rank,
               sent->tag);
    text_size(out, sent->bytes);
    buf_puts(out, " on ");
    spacetime_put_text(out, messages->comm_list[sent->comm]->name);
    buf_puts(out, "\nsent ");
    spacetime_put_time(out, spacetime, sent->begin);
    buf_puts(out, ", received ");
    spacetime_put_time(out, spacetime, got->end);
    buf_puts(out, " (");
    text_ns(out, (double)(got->end - sent->begin));
    buf_puts(out, ")\n");
    _cleanup_(buf_done) struct buf places = BUF_INIT;
    mpi_messages_place(&places, messages->place_list[sent->place]);
    buf_puts(&places, " → ");
    mpi_messages_place(&places, messages->place_list[got->place]);
    spacetime_put_text(out, places.data ? places.data : "");
    buf_puts(out, "</title></path>\n");
    export_flush(frame->exporter, false);
}

void spacetime_put_lines(const struct spacetime_frame *frame, struct spacetime_drawn *drawn)
{
    const struct spacetime *spacetime = frame->spacetime;
    const struct mpi_message_rank *from;
    struct buf *out = &frame->exporter->text;
    bool tips = drawn->messages_drawn <= TIPS && frame->pitch >= 18;
    drawn->messages_drawn = 0;
    buf_puts(out,
             "<marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7.2\" refY=\"4\" markerWidth=\"6.5\" markerHeight=\"6.5\" "
             "orient=\"auto\"><path d=\"M0 1L8 4L0 7z\" class=\"tip\"/></marker>\n<g id=\"messages\">\n");
    for (size_t i = 0; i < spacetime->lane_count; i++) {
        const struct mpi_message_rank *rank = spacetime->lanes[i].rank;
        uint64_t number = 0;
        for (size_t k = 0; k < rank->got_count; k++) {
            const struct mpi_end *sent = seen(spacetime, rank, &rank->got[k], &from);
            if (!sent)
                continue;
            if (number++ % drawn->message_step && !is_slowest(spacetime, from, rank->got[k].other))
                continue;
            put_message(frame, from, rank, sent, &rank->got[k], tips);
            drawn->messages_drawn++;
        }
    }
    buf_puts(out, "</g>\n");
}

/* ---- collective operations ---- */

struct bands {
    const struct spacetime_frame *frame;
    struct spacetime_drawn *drawn;
    bool counting;
    uint64_t corners, number;
};

static bool is_seen(const struct spacetime *spacetime, const struct mpi_operation *operation)
{
    bool before = false, after = false;
    for (size_t i = 0; i < operation->count; i++) {
        before |= operation->parts[i]->begin <= spacetime->to;
        after |= operation->parts[i]->end >= spacetime->from;
    }
    return operation->count > 1 && before && after;
}

/* The title of a band: who came when. */
static void put_band_title(const struct bands *bands, const struct mpi_operation *operation)
{
    const struct spacetime *spacetime = bands->frame->spacetime;
    const struct mpi_messages *messages = spacetime->messages;
    const struct mpi_part *part = operation->parts[0];
    struct buf *out = &bands->frame->exporter->text;
    size_t first = 0, last = 0, end = 0;
    for (size_t i = 1; i < operation->count; i++) {
        first = operation->parts[i]->begin < operation->parts[first]->begin ? i : first;
        last = operation->parts[i]->begin > operation->parts[last]->begin ? i : last;
        end = operation->parts[i]->end > operation->parts[end]->end ? i : end;
    }
    buf_printf(out, "<title>%s, number %" PRIu64 " on ", mpi_text_call(part->call), part->order);
    spacetime_put_text(out, messages->comm_list[part->comm]->name);
    buf_printf(out, ", %zu ranks", operation->count);
    if (part->root >= 0)
        buf_printf(out, ", root %d", part->root);
    buf_puts(out, "\nfrom ");
    spacetime_put_time(out, spacetime, operation->parts[first]->begin);
    buf_puts(out, " for ");
    text_ns(out, (double)(operation->parts[end]->end - operation->parts[first]->begin));
    buf_printf(out, "; rank %d came last, ", messages->ranks[operation->ranks[last]].rank);
    text_ns(out, (double)(operation->parts[last]->begin - operation->parts[first]->begin));
    buf_puts(out, " after the first</title>");
}

/* Down along the begins, up along the ends. */
static void put_band(const struct bands *bands, const struct mpi_operation *operation)
{
    const struct spacetime_frame *frame = bands->frame;
    struct buf *out = &frame->exporter->text;
    double half = frame->bar / 2 + (frame->pitch > 20 ? 2 : 0.5);
    buf_puts(out, "<path class=\"b\" d=\"");
    for (size_t i = 0; i < operation->count; i++) {
        double x = spacetime_x(frame, operation->parts[i]->begin), y = spacetime_y(frame, operation->ranks[i]);
        buf_printf(out, "%c%.2f %.1fV%.1f", i ? 'L' : 'M', x, y - half, y + half);
    }
    for (size_t i = operation->count; i; i--) {
        double x = spacetime_x(frame, operation->parts[i - 1]->end), y = spacetime_y(frame, operation->ranks[i - 1]);
        buf_printf(out, "L%.2f %.1fV%.1f", x, y + half, y - half);
    }
    buf_puts(out, "z\">");
    put_band_title(bands, operation);
    buf_puts(out, "</path>\n");
    export_flush(frame->exporter, false);
}

static int take_operation(void *ctx, const struct mpi_operation *operation)
{
    struct bands *bands = ctx;
    if (!is_seen(bands->frame->spacetime, operation))
        return 0;
    if (bands->counting) {
        bands->drawn->bands++;
        bands->corners += 4 * operation->count;
    } else if (bands->number++ % bands->drawn->band_step == 0) {
        bands->drawn->bands_drawn++;
        put_band(bands, operation);
    }
    return 0;
}

int spacetime_put_bands(const struct spacetime_frame *frame, struct spacetime_drawn *drawn)
{
    struct bands bands = {.frame = frame, .drawn = drawn, .counting = true};
    int code = mpi_messages_each_operation(frame->spacetime->messages, take_operation, &bands);
    uint64_t by_count = (drawn->bands + SPACETIME_BANDS - 1) / SPACETIME_BANDS;
    uint64_t by_corners = (bands.corners + SPACETIME_CORNERS - 1) / SPACETIME_CORNERS;
    drawn->band_step = by_count > by_corners ? by_count : by_corners;
    drawn->band_step += drawn->band_step == 0;
    bands.counting = false;
    buf_puts(&frame->exporter->text, "<g id=\"operations\">\n");
    if (code == 0)
        code = mpi_messages_each_operation(frame->spacetime->messages, take_operation, &bands);
    buf_puts(&frame->exporter->text, "</g>\n");
    return code;
}

/* What a space-time picture shows of the calls of each rank. */

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
