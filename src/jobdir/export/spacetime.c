/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/number.h"
#include "jobdir/analysis/timeline.h"
#include "jobdir/export/export.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/calls.h"
#include "shm/mpi_told.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum spacetime_class {
    SPACETIME_COMPUTE, /* outside of calls of MPI */
    SPACETIME_P2P,     /* sends and receives, and their completion: MPI_Wait ... */
    SPACETIME_WAIT,    /* in whatever call, for another rank, where that can be judged (analysis/messages_waits.c) */
    SPACETIME_COLLECTIVE,
    SPACETIME_ONESIDED,
    SPACETIME_IO,
    SPACETIME_OTHER, /* MPI_Init, communicators, types ... */
    SPACETIME_CLASSES,
};

enum {
    SPACETIME_COLUMNS = 1100,
    SPACETIME_CALLS = 40000,    /* kept one by one, of all lanes together; a lane has its part */
    SPACETIME_LINES = 3000,     /* messages drawn */
    SPACETIME_LINES_EACH = 150, /* for each rank; more only darken the picture */
    SPACETIME_BANDS = 110,      /* operations drawn, with so many corners together: */
    SPACETIME_CORNERS = 60000,
};

struct spacetime_call {
    int64_t begin, end;
    int64_t waited; /* until then, from its begin; begin: not */
    uint32_t call;
    int32_t rank; /* for that one */
    bool other;   /* in a thread that is not the rank */
};

struct spacetime_lane {
    const struct mpi_message_rank *rank;
    struct spacetime_call *calls; /* NULL: there are too many */
    size_t call_count, call_room;
    uint64_t all_calls;                  /* in the window */
    float (*columns)[SPACETIME_CLASSES]; /* ns in each */
    double total_ns[SPACETIME_CLASSES];  /* in the window; of computation it is what remains */
    double outside_ns;    /* of that, in MPI_Init and MPI_Finalize: in no time in MPI, as in the report */
    uint64_t other_calls; /* of threads that are not the rank: these are in all_calls only */
    double other_ns;
    int64_t begin, end; /* of the process, in the window */
};

struct spacetime {
    const struct mpi_messages *messages;
    struct spacetime_lane *lanes;  /* as the ranks */
    size_t lane_count, lane_calls; /* calls kept of each lane */
    int64_t from, to;
    bool chosen; /* the window: by whoever asked, not by us */
    int64_t whole_from, whole_to;
    const char *title, *command;
};

struct spacetime_frame { /* where things are, in pixels */
    double left, right, top, bottom, pitch, bar;
    const struct spacetime *spacetime;
    struct exporter *exporter;
};

struct spacetime_drawn { /* what is left out */
    uint64_t messages, messages_drawn, message_step;
    uint64_t bands, bands_drawn, band_step;
};

static void spacetime_put_time(struct buf *out, const struct spacetime *spacetime, int64_t ns);
static void spacetime_draw(const struct spacetime *spacetime, struct exporter *exporter);
static double spacetime_y(const struct spacetime_frame *frame, size_t lane);
static double spacetime_x(const struct spacetime_frame *frame, int64_t ns);
static void spacetime_put_text(struct buf *out, const char *text);

/*
 * A space-time picture of an MPI program: one lane for each rank from top to bottom, time from left to right; bars show
 * in which kind of call a rank is, lines are messages, bands through the lanes collective operations. spacetime.c
 * gathers what the lanes show, and finds the lines of messages and operations; spacetime_svg.c draws.
 *
 * Much is gathered in little: calls are kept one by one as long as a lane has few of them, beyond that only how much of
 * each column's time they took. Of messages and operations every k-th is drawn where there are too many. The picture
 * says so.
 */

/* ---- between the files ---- */

/* The messages and collective operations of a space-time picture. */

enum { TIPS = 400 /* so many messages have an arrow's head */ };

/* ---- messages ---- */

/* The send of a receive, if the message is to be seen in the window. */
static const struct mpi_end *send_seen(const struct spacetime *spacetime, const struct mpi_message_rank *rank,
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

static void spacetime_count_lines(const struct spacetime *spacetime, struct spacetime_drawn *drawn)
{
    const struct mpi_message_rank *from;
    for (size_t i = 0; i < spacetime->lane_count; i++) {
        const struct mpi_message_rank *rank = spacetime->lanes[i].rank;
        for (size_t k = 0; k < rank->got_count; k++)
            drawn->messages += send_seen(spacetime, rank, &rank->got[k], &from) != NULL;
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

static void spacetime_put_lines(const struct spacetime_frame *frame, struct spacetime_drawn *drawn)
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
            const struct mpi_end *sent = send_seen(spacetime, rank, &rank->got[k], &from);
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

static int spacetime_put_bands(const struct spacetime_frame *frame, struct spacetime_drawn *drawn)
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

static enum spacetime_class spacetime_class_of(uint32_t call)
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

static int spacetime_begin(struct exporter *exporter)
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

static int spacetime_trace_begin(struct exporter *exporter)
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
    size_t low = COUNT_BEFORE(lane->rank->waited_count, i, list[i].begin < call->begin);
    for (; low < lane->rank->waited_count && list[low].begin == call->begin; low++)
        if (list[low].call == call->call) {
            call->waited = list[low].until < call->end ? list[low].until : call->end;
            call->rank = spacetime->messages->ranks[list[low].rank].rank;
        }
}

static void spacetime_leave(void *ctx, struct call *call, const struct trace_event *event)
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

/* ---- the picture ---- */

static int spacetime_end(struct exporter *exporter)
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

static void spacetime_done(struct exporter *exporter)
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
    .begin = spacetime_begin,
    .trace_begin = spacetime_trace_begin,
    .end = spacetime_end,
    .done = spacetime_done,
    .visitor = {.leave = spacetime_leave},
};

/* Drawing a space-time picture as SVG 1.1: no scripts, tooltips are <title> elements; dark on light. */

enum {
    PLOT_WIDTH = SPACETIME_COLUMNS,
    LEFT = 128,
    RIGHT = 84,
    HEAD = 112,
    AXIS = 52,
    NOTE_LINE = 17,
    LEVELS = 16, /* steps of a column's parts */
    TITLE_COLUMNS = 100,
    COMMAND_COLUMNS = 150,
    NOTE_COLUMNS = 200,
};

#define INK "#1d2935"
#define SOFT_INK "#51606e"
#define GRID "#e3e8ec"

static const struct {
    const char *name, *colour;
} looks[SPACETIME_CLASSES] = {
    [SPACETIME_COMPUTE] = {"computation", "#d3e4da"}, [SPACETIME_P2P] = {"send, receive", "#2f74b5"},
    [SPACETIME_WAIT] = {"waiting", "#e0912b"},        [SPACETIME_COLLECTIVE] = {"collective", "#8f62b3"},
    [SPACETIME_ONESIDED] = {"one-sided", "#1a9a93"},  [SPACETIME_IO] = {"file I/O", "#b4553f"},
    [SPACETIME_OTHER] = {"other MPI", "#8b97a3"}};

static void spacetime_put_text(struct buf *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '&')
            buf_puts(out, "&amp;");
        else if (*c == '<')
            buf_puts(out, "&lt;");
        else if (*c == '>')
            buf_puts(out, "&gt;");
        else if (*c == '"')
            buf_puts(out, "&quot;");
        else if (*c < 0x20 || *c == 0x7f)
            buf_putc(out, ' ');
        else
            buf_putc(out, (char)*c);
    }
}

/* Whatever bytes: what is not UTF-8 becomes \xNN; cut to so many characters. */
static void put_shown(struct buf *out, const char *text, size_t columns)
{
    _cleanup_(buf_done) struct buf clean = BUF_INIT;
    text_clean(&clean, text ? text : "");
    size_t len = clean.data ? strlen(clean.data) : 0, fits = text_fit(clean.data ? clean.data : "", len, columns);
    if (!clean.data)
        return;
    clean.data[fits] = '\0';
    spacetime_put_text(out, clean.data);
    if (fits < len)
        buf_puts(out, "…");
}

/* ---- places ---- */

static double spacetime_x(const struct spacetime_frame *frame, int64_t ns)
{
    const struct spacetime *spacetime = frame->spacetime;
    double share = (double)(ns - spacetime->from) / (double)(spacetime->to - spacetime->from);
    return frame->left + share * (frame->right - frame->left);
}

static double spacetime_y(const struct spacetime_frame *frame, size_t lane)
{
    return frame->top + ((double)lane + 0.5) * frame->pitch;
}

static double pitch_of(size_t lanes)
{
    static const struct {
        size_t most;
        double pitch;
    } steps[] = {{2, 96}, {4, 76}, {8, 56}, {16, 38}, {32, 26}, {64, 18}, {128, 13}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (lanes <= steps[i].most)
            return steps[i].pitch;
    return 9;
}

/* What is left between the bars is for the messages; shares of time want height. */
static double bar_share(const struct spacetime *spacetime, double pitch)
{
    size_t dense = 0;
    for (size_t i = 0; i < spacetime->lane_count; i++)
        dense += spacetime->lanes[i].all_calls > spacetime->lane_calls;
    return 2 * dense > spacetime->lane_count || pitch < 20 ? 0.66 : pitch > 50 ? 0.42 : 0.52;
}

/* ---- time ---- */

static const struct unit {
    double ns;
    const char *name;
} units[] = {{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}};

static const struct unit *unit_of(double span)
{
    return &units[span < 2e3 ? 0 : span < 2e6 ? 1 : span < 2e9 ? 2 : 3];
}

static int digits_for(double value) /* behind the point, to see a part in it */
{
    int digits = 0;
    for (; digits < 9 && value < 1 - 2e-9; digits++)
        value *= 10;
    return digits;
}

static void spacetime_put_time(struct buf *out, const struct spacetime *spacetime, int64_t ns)
{
    const struct unit *unit = unit_of((double)(spacetime->to - spacetime->from));
    double fine = (double)(spacetime->to - spacetime->from) / unit->ns / 10000;
    buf_printf(out, "%.*f %s", digits_for(fine), (double)ns / unit->ns, unit->name);
}

/* 1, 2 or 5 times a power of ten, about a tenth of the span. */
static double step_of(double span)
{
    double rough = span / 11, power = 1;
    while (power * 10 <= rough)
        power *= 10;
    while (power > rough && power > 1e-9)
        power /= 10;
    const double part = rough / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void put_axis(const struct spacetime_frame *frame)
{
    const struct spacetime *spacetime = frame->spacetime;
    struct buf *out = &frame->exporter->text;
    double from = (double)spacetime->from, to = (double)spacetime->to, step = step_of(to - from);
    const struct unit *unit = unit_of(to - from);
    double base = fabs(from) / step > 1e5 ? floor(from / (step * 10)) * step * 10 : 0;
    int digits = digits_for(step / unit->ns);
    double first = ceil(from / step - 1e-9) * step;
    int marks = (int)floor((to - first) / step + 1e-6);
    buf_puts(out, "<g id=\"axis\">\n");
    for (int i = 0; i <= marks; i++) {
        double at = first + i * step;
        double x = spacetime_x(frame, number_round(at));
        buf_printf(out,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>"
                   "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\">%.*f</text>\n",
                   x, frame->top - 4, x, frame->bottom + 5, x, frame->bottom + 19, digits,
                   fabs(at - base) < step * 1e-6 ? 0 : (at - base) / unit->ns);
    }
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"axis\">%s after ", (frame->left + frame->right) / 2,
               frame->bottom + 38, unit->name);
    if (base != 0)
        buf_printf(out, "%.*f s after ", digits_for(step * 10 / 1e9), base / 1e9);
    buf_puts(out, "the start of the job</text>\n</g>\n");
}

/* ---- lanes ---- */

static void put_bar(const struct spacetime_frame *frame, double y, int64_t from, int64_t to, enum spacetime_class class)
{
    double left = spacetime_x(frame, from), right = spacetime_x(frame, to);
    left = left < frame->left ? frame->left : left;
    right = right > frame->right ? frame->right : right;
    double width = right - left > 0.12 ? right - left : 0.12;
    buf_printf(&frame->exporter->text,
               "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"c%u\"><title>", left, y, width,
               frame->bar, (unsigned)class);
}

static void put_call(const struct spacetime_frame *frame, double y, const struct spacetime_call *call)
{
    const struct spacetime *spacetime = frame->spacetime;
    struct buf *out = &frame->exporter->text;
    struct spacetime_frame lower = *frame;
    if (call->other) {
        lower.bar /= 3;
        y += frame->bar - lower.bar;
        frame = &lower;
    }
    put_bar(frame, y, call->begin, call->end, spacetime_class_of(call->call));
    buf_printf(out, "%s%s, ", mpi_text_call(call->call), call->other ? " in another thread" : "");
    text_ns(out, (double)(call->end - call->begin));
    buf_puts(out, " from ");
    spacetime_put_time(out, spacetime, call->begin);
    buf_puts(out, "</title></rect>\n");
    if (call->waited > call->begin && call->waited > spacetime->from) {
        put_bar(frame, y, call->begin, call->waited, SPACETIME_WAIT);
        buf_printf(out, "waiting for rank %d in %s, ", call->rank, mpi_text_call(call->call));
        text_ns(out, (double)(call->waited - call->begin));
        buf_puts(out, "</title></rect>\n");
    }
    export_flush(frame->exporter, false);
}

/* The parts of one column above each other, in sixteenths, from the bottom: where that of `class` begins and ends. */
static void levels_of(const float *shares, double whole, enum spacetime_class class, int *ret_low, int *ret_high)
{
    double below = 0;
    for (unsigned other = SPACETIME_P2P; other < (unsigned)class; other++)
        below += (double)shares[other];
    double low = below / whole, high = (below + (double)shares[class]) / whole;
    *ret_low = (int)number_round((low > 1 ? 1 : low) * LEVELS);
    *ret_high = (int)number_round((high > 1 ? 1 : high) * LEVELS);
}

/* One path for a class: neighbouring columns with the same parts are one rectangle. */
static void put_columns(const struct spacetime_frame *frame, const struct spacetime_lane *lane, double y,
                        enum spacetime_class class)
{
    struct buf *out = &frame->exporter->text;
    double whole = (double)(frame->spacetime->to - frame->spacetime->from) / SPACETIME_COLUMNS;
    bool any = false;
    for (size_t i = 0; i < SPACETIME_COLUMNS;) {
        int low, high, next_low, next_high;
        size_t end = i + 1;
        levels_of(lane->columns[i], whole, class, &low, &high);
        for (; end < SPACETIME_COLUMNS; end++) {
            levels_of(lane->columns[end], whole, class, &next_low, &next_high);
            if (next_low != low || next_high != high)
                break;
        }
        if (high > low) {
            double top = y + frame->bar * (LEVELS - high) / LEVELS;
            if (!any)
                buf_printf(out, "<path class=\"c%u\" d=\"", (unsigned)class);
            any = true;
            buf_printf(out, "M%.0f %.1fh%zuv%.1fh-%zuz", frame->left + (double)i, top, end - i,
                       frame->bar * (high - low) / LEVELS, end - i);
        }
        i = end;
    }
    if (any)
        buf_puts(out, "\"/>\n");
    export_flush(frame->exporter, false);
}

static double share_of(const struct spacetime_lane *lane, double part)
{
    return lane->end > lane->begin ? 100 * part / (double)(lane->end - lane->begin) : 0;
}

/* As the report has it: of the time between MPI_Init and MPI_Finalize. */
static double share_in_mpi(const struct spacetime_lane *lane)
{
    double whole = (double)(lane->end - lane->begin) - lane->outside_ns;
    return whole > 0 ? 100 * (whole - lane->total_ns[SPACETIME_COMPUTE]) / whole : 0;
}

static void put_lane_title(struct buf *out, const struct spacetime_lane *lane)
{
    buf_printf(out, "<title>rank %d, process %d on ", lane->rank->rank, (int)lane->rank->pid);
    spacetime_put_text(out, lane->rank->node);
    for (unsigned class = 0; class < SPACETIME_CLASSES; class ++) {
        if (lane->total_ns[class] <= 0)
            continue;
        buf_printf(out, "\n%s: ", looks[class].name);
        text_ns(out, lane->total_ns[class]);
        buf_printf(out, " (%.1f %%)", share_of(lane, lane->total_ns[class]));
    }
    if (lane->other_calls) {
        buf_printf(out, "\n%" PRIu64 " calls in other threads: ", lane->other_calls);
        text_ns(out, lane->other_ns);
    }
    buf_puts(out, "</title>");
}

static void put_label(const struct spacetime_frame *frame, size_t index)
{
    const struct spacetime *spacetime = frame->spacetime;
    const struct spacetime_lane *lane = &spacetime->lanes[index];
    const struct timeline *timeline = &spacetime->messages->timeline;
    struct buf *out = &frame->exporter->text;
    double y = spacetime_y(frame, index);
    size_t every = frame->pitch < 11 ? 4 : 1;
    uint32_t host = timeline->traces[lane->rank->trace].host;
    bool first = index == 0 || timeline->traces[lane->rank[-1].trace].host != host;
    bool room = frame->pitch >= 26, below = timeline->host_count > 1 && (first || room);
    if (index % every && !below)
        return;
    double size = frame->pitch < 13 ? 9 : frame->pitch < 18 ? 10 : 12;
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"lane\" font-size=\"%.0f\">", frame->left - 10,
               y + size * 0.36 - (below && room ? 6 : 0), size);
    if (below && !room) {
        buf_puts(out, "<tspan class=\"soft\">");
        put_shown(out, timeline->hosts[host].name, 12);
        buf_puts(out, "</tspan> ");
    }
    buf_printf(out, "%s%d", frame->pitch < 18 ? "" : "rank ", lane->rank->rank);
    if (spacetime->messages->worlds > 1)
        buf_printf(out, " <tspan class=\"soft\">(%" PRIu32 ")</tspan>", lane->rank->world + 1);
    buf_puts(out, "</text>");
    if (below && room) {
        buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"lane soft\" font-size=\"10\">", frame->left - 10, y + 11);
        put_shown(out, timeline->hosts[host].name, 18);
        buf_puts(out, "</text>");
    }
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"share\" font-size=\"%.0f\">%.1f %%</text>\n",
               frame->right + 62, y + size * 0.36, size, share_in_mpi(lane));
}

static void put_lane(const struct spacetime_frame *frame, size_t index)
{
    const struct spacetime *spacetime = frame->spacetime;
    const struct spacetime_lane *lane = &spacetime->lanes[index];
    struct buf *out = &frame->exporter->text;
    double y = spacetime_y(frame, index) - frame->bar / 2;
    buf_printf(out, "<g class=\"rank\" id=\"rank-%" PRIu32 "-%d\">\n", lane->rank->world, lane->rank->rank);
    if (lane->end > lane->begin) {
        double left = spacetime_x(frame, lane->begin), right = spacetime_x(frame, lane->end);
        buf_printf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"c0\">", left, y,
                   right - left, frame->bar);
        put_lane_title(out, lane);
        buf_puts(out, "</rect>\n");
    }
    if (lane->all_calls <= spacetime->lane_calls) {
        for (int other = 0; other < 2; other++) /* those on top */
            for (size_t i = 0; i < lane->call_count; i++)
                if (lane->calls[i].other == other)
                    put_call(frame, y, &lane->calls[i]);
    } else {
        buf_puts(out, "<g>");
        put_lane_title(out, lane);
        for (unsigned class = SPACETIME_P2P; class < SPACETIME_CLASSES; class ++)
            put_columns(frame, lane, y, (enum spacetime_class) class);
        buf_puts(out, "</g>\n");
    }
    buf_puts(out, "</g>\n");
    export_flush(frame->exporter, false);
}

/* ---- around it ---- */

static void put_title(const struct spacetime_frame *frame)
{
    const struct spacetime *spacetime = frame->spacetime;
    struct buf *out = &frame->exporter->text;
    size_t hosts = spacetime->messages->timeline.host_count;
    buf_printf(out, "<text x=\"24\" y=\"36\" class=\"title\">");
    put_shown(out, spacetime->title, TITLE_COLUMNS);
    buf_printf(out, "<tspan class=\"subtitle\" dx=\"14\">%zu rank%s", spacetime->lane_count,
               spacetime->lane_count == 1 ? "" : "s");
    if (hosts > 1)
        buf_printf(out, " on %zu hosts", hosts);
    if (spacetime->messages->worlds > 1)
        buf_printf(out, " of %" PRIu32 " programs", spacetime->messages->worlds);
    buf_puts(out, ", ");
    text_ns(out, (double)(spacetime->to - spacetime->from));
    buf_puts(out, "</tspan></text>\n<text x=\"24\" y=\"58\" class=\"command\">");
    put_shown(out, spacetime->command, COMMAND_COLUMNS);
    buf_puts(out, "</text>\n");
}

static void put_legend(const struct spacetime_frame *frame)
{
    const struct spacetime *spacetime = frame->spacetime;
    struct buf *out = &frame->exporter->text;
    double x = 24, y = HEAD - 27;
    double all = 0, totals[SPACETIME_CLASSES] = {0};
    for (size_t i = 0; i < spacetime->lane_count; i++)
        for (unsigned class = 0; class < SPACETIME_CLASSES; class ++) {
            totals[class] += spacetime->lanes[i].total_ns[class];
            all += spacetime->lanes[i].total_ns[class];
        }
    buf_puts(out, "<g id=\"legend\">\n");
    for (unsigned class = 0; class < SPACETIME_CLASSES; class ++) {
        if (class != SPACETIME_COMPUTE && totals[class] == 0)
            continue;
        buf_printf(out,
                   "<rect x=\"%.1f\" y=\"%.1f\" width=\"13\" height=\"13\" rx=\"2.5\" class=\"c%u\"/>"
                   "<text x=\"%.1f\" y=\"%.1f\" class=\"legend\">%s <tspan class=\"soft\">%.1f %%</tspan></text>\n",
                   x, y - 11, class, x + 19, y, looks[class].name, all > 0 ? 100 * totals[class] / all : 0);
        x += 19 + 6.9 * (double)strlen(looks[class].name) + 62;
    }
    buf_printf(out,
               "<path d=\"M%.1f %.1fl26 -10\" class=\"m\" stroke-opacity=\".85\"/><text x=\"%.1f\" y=\"%.1f\" "
               "class=\"legend\">message</text>\n",
               x, y, x + 32, y);
    buf_printf(out,
               "<path d=\"M%.1f %.1fl5 13h12l-3 -13z\" class=\"b\"/><text x=\"%.1f\" y=\"%.1f\" "
               "class=\"legend\">collective operation</text>\n",
               x + 98, y - 11, x + 122, y);
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"share soft\" font-size=\"11\">in MPI</text>\n</g>\n",
               frame->right + 62, frame->top - 8);
}

struct notes {
    const struct spacetime_frame *frame;
    double y;
};

static void put_note(void *ctx, const char *line)
{
    struct notes *notes = ctx;
    struct buf *out = &notes->frame->exporter->text;
    buf_printf(out, "<text x=\"24\" y=\"%.1f\" class=\"note\">", notes->y);
    put_shown(out, line, NOTE_COLUMNS);
    buf_puts(out, "</text>\n");
    notes->y += NOTE_LINE;
}

static void note_window(struct notes *notes, const struct spacetime *spacetime)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    if (spacetime->from <= spacetime->whole_from && spacetime->to >= spacetime->whole_to)
        return;
    if (spacetime->chosen)
        buf_puts(&line, "A part of the run: ");
    else
        buf_puts(&line, "From MPI_Init to MPI_Finalize: ");
    if (spacetime->from > spacetime->whole_from) {
        text_ns(&line, (double)(spacetime->from - spacetime->whole_from));
        buf_puts(&line, " before that");
    }
    if (spacetime->to < spacetime->whole_to) {
        buf_puts(&line, spacetime->from > spacetime->whole_from ? " and " : "");
        text_ns(&line, (double)(spacetime->whole_to - spacetime->to));
        buf_puts(&line, " after it");
    }
    buf_puts(&line, " are not shown (--from 0 --to 1e6 shows all).");
    put_note(notes, line.data ? line.data : "");
}

static void note_thinned(struct notes *notes, const struct spacetime *spacetime, const struct spacetime_drawn *drawn)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    size_t dense = 0, threads = 0;
    double others_ns = 0;
    for (size_t i = 0; i < spacetime->lane_count; i++)
        dense += spacetime->lanes[i].all_calls > spacetime->lane_calls;
    buf_printf(&line, "%" PRIu64 " message%s", drawn->messages, drawn->messages == 1 ? "" : "s");
    if (drawn->message_step > 1)
        buf_printf(&line,
                   ", of which one in %" PRIu64 " is drawn (of those each rank received in turn, and the slowest)",
                   drawn->message_step);
    buf_printf(&line, "; %" PRIu64 " collective operation%s", drawn->bands, drawn->bands == 1 ? "" : "s");
    if (drawn->band_step > 1)
        buf_printf(&line, ", of which one in %" PRIu64 " is drawn", drawn->band_step);
    buf_putc(&line, '.');
    put_note(notes, line.data ? line.data : "");
    buf_clear(&line);
    if (dense)
        buf_printf(&line, "%zu lane%s more than %zu calls: there the height of a colour is its share of the time.",
                   dense, dense == 1 ? " has" : "s have", spacetime->lane_calls);
    if (line.len)
        put_note(notes, line.data);
    buf_clear(&line);
    for (size_t i = 0; i < spacetime->lane_count; i++)
        threads += spacetime->lanes[i].other_calls != 0;
    for (size_t i = 0; i < spacetime->lane_count; i++)
        others_ns += spacetime->lanes[i].other_ns;
    if (threads) {
        buf_printf(&line, "%zu rank%s calls of MPI in other threads, ", threads, threads == 1 ? " has" : "s have");
        text_ns(&line, others_ns);
        buf_puts(&line, ": they are in no percentage; where single calls are drawn, theirs are the lower bars.");
    }
    if (line.len)
        put_note(notes, line.data);
}

static void count_note(void *ctx, const char *line)
{
    ++*(size_t *)ctx;
}

static void put_style(struct buf *out, const struct spacetime_frame *frame, double message_opacity)
{
    buf_puts(out, "<style>\n"
                  "text{font-family:system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",Arial,sans-serif;fill:" INK
                  "}\n.title{font-size:20px;font-weight:600}.subtitle{font-size:15px;font-weight:400;fill:" SOFT_INK
                  "}\n.command{font-size:12px;font-family:ui-monospace,\"DejaVu Sans Mono\",monospace;fill:" SOFT_INK
                  "}\n.legend{font-size:12px}.soft{fill:" SOFT_INK "}.note{font-size:12px;fill:" SOFT_INK
                  "}\n.lane{text-anchor:end}.share{text-anchor:end;font-variant-numeric:tabular-nums;fill:" SOFT_INK
                  "}\n.tick{font-size:11px;text-anchor:middle;fill:" SOFT_INK
                  ";font-variant-numeric:tabular-nums}.axis{font-size:12px;text-anchor:middle;fill:" SOFT_INK
                  "}\n.grid{stroke:" GRID ";stroke-width:1;shape-rendering:crispEdges}\n"
                  ".rank rect:hover{stroke:" INK ";stroke-width:.8}\n");
    for (unsigned class = 0; class < SPACETIME_CLASSES; class ++)
        buf_printf(out, ".c%u{fill:%s}", class, looks[class].colour);
    buf_printf(out,
               "\n.m{stroke:" INK ";stroke-width:%.2f;fill:none}#messages{stroke-opacity:%.2f}"
               ".m:hover{stroke:#c2185b;stroke-width:2.2;stroke-opacity:1}\n"
               ".b{fill:#8f62b3;fill-opacity:.13;stroke:#7b4fa0;stroke-width:.7;stroke-opacity:.55}"
               ".b:hover{fill-opacity:.3;stroke-opacity:1}\n.tip{fill:" INK ";stroke:none}\n</style>\n",
               frame->pitch >= 26 ? 1.0 : 0.7, message_opacity);
}

/* The whole picture. */
static void spacetime_draw(const struct spacetime *spacetime, struct exporter *exporter)
{
    struct spacetime_frame frame = {.left = LEFT,
                                    .right = LEFT + PLOT_WIDTH,
                                    .top = HEAD,
                                    .pitch = pitch_of(spacetime->lane_count),
                                    .spacetime = spacetime,
                                    .exporter = exporter};
    struct buf *out = &exporter->text;
    struct spacetime_drawn drawn = {0};
    size_t notes = 4;
    mpi_messages_notes(spacetime->messages, count_note, &notes);
    frame.bar = frame.pitch * bar_share(spacetime, frame.pitch);
    frame.bottom = frame.top + frame.pitch * (double)spacetime->lane_count;
    double width = LEFT + PLOT_WIDTH + RIGHT, height = frame.bottom + AXIS + NOTE_LINE * (double)notes + 26;
    spacetime_count_lines(spacetime, &drawn);
    buf_printf(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
               "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n",
               width, height, width, height);
    put_style(out, &frame, drawn.messages_drawn < 150 ? 0.85 : drawn.messages_drawn < 800 ? 0.55 : 0.3);
    buf_printf(out, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", width, height);
    put_title(&frame);
    put_axis(&frame);
    put_legend(&frame);
    buf_printf(out,
               "<clipPath id=\"plot\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n"
               "<g clip-path=\"url(#plot)\">\n",
               frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
    if (spacetime_put_bands(&frame, &drawn) < 0)
        out->failed = true;
    buf_puts(out, "</g>\n<g id=\"lanes\">\n");
    for (size_t i = 0; i < spacetime->lane_count; i++)
        put_lane(&frame, i);
    buf_puts(out, "</g>\n<g id=\"labels\">\n");
    for (size_t i = 0; i < spacetime->lane_count; i++)
        put_label(&frame, i);
    buf_puts(out, "</g>\n<g clip-path=\"url(#plot)\">\n");
    spacetime_put_lines(&frame, &drawn);
    buf_puts(out, "</g>\n<g id=\"notes\">\n");
    struct notes under = {&frame, frame.bottom + AXIS + NOTE_LINE};
    note_window(&under, spacetime);
    note_thinned(&under, spacetime, &drawn);
    mpi_messages_notes(spacetime->messages, put_note, &under);
    buf_puts(out, "</g>\n</svg>\n");
}
