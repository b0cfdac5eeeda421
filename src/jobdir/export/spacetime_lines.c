/* SPDX-License-Identifier: Apache-2.0 */
/* The messages and collective operations of a space-time picture. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "jobdir/trace/calls.h"
#include "jobdir/mpi/text.h"
#include "jobdir/export/spacetime.h"
#include "jobdir/text/text.h"

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
