/* SPDX-License-Identifier: Apache-2.0 */
/* Cells are noted as they come, and put together when there is no more room. */
#include <stdlib.h>

#include "base/data/grow.h"
#include "base/system/clock.h"
#include "profile/profile.h"
#include "shm/waits.h"

enum {
    SPANS_MOST = 200,
    CELLS_MOST = 1 << 13, /* after they were put together, */
    CELLS_ROOM = 1 << 14, /* and before */
};

void spans_init(struct spans *spans)
{
    *spans = (struct spans){.start_ns = clock_now_ns(), .width_ns = PROFILE_SPAN_NS};
}

void spans_done(struct spans *spans)
{
    free(spans->cells);
}

static int by_place(const void *a, const void *b)
{
    const struct span_cell *left = a, *right = b;
    if (left->span != right->span)
        return left->span < right->span ? -1 : 1;
    return left->node < right->node ? -1 : left->node > right->node;
}

static void cells_join(struct spans *spans)
{
    size_t used = 0;
    if (spans->count)
        qsort(spans->cells, spans->count, sizeof *spans->cells, by_place);
    for (size_t i = 0; i < spans->count; i++)
        if (used && by_place(&spans->cells[used - 1], &spans->cells[i]) == 0) {
            spans->cells[used - 1].samples += spans->cells[i].samples;
            spans->cells[used - 1].waited_ns += spans->cells[i].waited_ns;
        } else {
            spans->cells[used++] = spans->cells[i];
        }
    spans->count = used;
}

static void spans_double(struct spans *spans)
{
    spans->width_ns *= 2;
    for (size_t i = 0; i < spans->count; i++)
        spans->cells[i].span /= 2;
}

static void spans_tidy(struct spans *spans)
{
    cells_join(spans);
    while (spans->count > CELLS_MOST && spans->cells[spans->count - 1].span) {
        spans_double(spans);
        cells_join(spans);
    }
    if (spans->count > CELLS_MOST) /* in one span: then that is all of the time */
        spans->count = CELLS_MOST;
}

/* In which span a moment is; there is one for each. */
static uint64_t span_at(struct spans *spans, uint64_t time_ns)
{
    uint64_t since = time_ns > spans->start_ns ? time_ns - spans->start_ns : 0;
    while (since / spans->width_ns >= SPANS_MOST)
        spans_double(spans);
    return since / spans->width_ns;
}

static bool has_room(struct spans *spans)
{
    if (spans->count >= CELLS_ROOM)
        spans_tidy(spans);
    return GROW(spans->cells, spans->count, spans->room);
}

void spans_add(struct spans *spans, uint64_t time_ns, uint32_t node, unsigned samples)
{
    if (has_room(spans))
        spans->cells[spans->count++] = (struct span_cell){(uint32_t)span_at(spans, time_ns), node, samples, 0};
}

void spans_wait(struct spans *spans, uint64_t until_ns, uint64_t waited_ns, uint32_t node)
{
    uint64_t at_ns = until_ns > spans->start_ns + waited_ns ? until_ns - waited_ns : spans->start_ns;
    span_at(spans, until_ns);
    while (at_ns < until_ns && has_room(spans)) {
        uint64_t span = span_at(spans, at_ns), end_ns = spans->start_ns + (span + 1) * spans->width_ns;
        end_ns = end_ns < until_ns ? end_ns : until_ns;
        spans->cells[spans->count++] = (struct span_cell){(uint32_t)span, node, 0, end_ns - at_ns};
        at_ns = end_ns;
    }
}

json_t *spans_json(struct spans *spans)
{
    json_t *cells = json_array();
    spans_tidy(spans);
    for (size_t i = 0; i < spans->count; i++) {
        json_array_append_new(cells, json_integer(spans->cells[i].span));
        json_array_append_new(cells, json_integer(spans->cells[i].node));
        json_array_append_new(cells, json_integer(spans->cells[i].samples));
        json_array_append_new(cells, json_integer((json_int_t)(spans->cells[i].waited_ns / WAITS_NS_PER_MS)));
    }
    return json_pack("{s:f, s:o}", "seconds", (double)spans->width_ns / NS_PER_SECOND, "cells", cells);
}
