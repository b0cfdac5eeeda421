/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controlled logical clock: all sends and receives in an order in which each send comes before its receive and each
 * rank's are as they were. A receive that is too early moves its rank's clock forward; that goes back by one part in
 * TIMELINE_BACK of the time that passes, so that order and about all durations stay. Only done if one is too early.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "jobdir/analysis/messages_internal.h"

struct step {
    int64_t time;
    uint32_t index;
    bool got;
};

struct course { /* of one rank */
    struct step *steps;
    size_t count, at;
    int64_t *sent; /* corrected; INT64_MIN: not yet come to */
};

struct correction {
    struct mpi_messages *messages;
    struct course *courses;
};

static int64_t least_between(const struct mpi_messages *messages, const struct mpi_message_rank *a,
                             const struct mpi_message_rank *b)
{
    const struct timeline *timeline = &messages->timeline;
    return timeline->traces[a->trace].host == timeline->traces[b->trace].host ? 0 : TIMELINE_LEAST_NS;
}

static bool any_too_early(const struct mpi_messages *messages)
{
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i], *from;
        for (size_t k = 0; k < rank->got_count; k++) {
            const struct mpi_end *sent = mpi_sent_of(messages, rank, &rank->got[k], &from);
            if (sent && rank->got[k].end < sent->begin + least_between(messages, from, rank))
                return true;
        }
    }
    return false;
}

/* Receives before sends of the same moment: these get the whole of the shift. */
static int by_time(const void *a, const void *b)
{
    const struct step *left = a, *right = b;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    if (left->got != right->got)
        return left->got ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static int course_init(struct course *course, const struct mpi_message_rank *rank)
{
    course->steps = malloc((rank->sent_count + rank->got_count + 1) * sizeof *course->steps);
    course->sent = malloc((rank->sent_count + 1) * sizeof *course->sent);
    if (!course->steps || !course->sent)
        return -ENOMEM;
    for (size_t i = 0; i < rank->sent_count; i++) {
        course->steps[course->count++] = (struct step){rank->sent[i].begin, (uint32_t)i, false};
        course->sent[i] = INT64_MIN;
    }
    for (size_t i = 0; i < rank->got_count; i++)
        if (rank->got[i].other < MPI_OTHER_FOREIGN)
            course->steps[course->count++] = (struct step){rank->got[i].end, (uint32_t)i, true};
    if (course->count)
        qsort(course->steps, course->count, sizeof *course->steps, by_time);
    return 0;
}

static int add_knot(struct timeline_trace *trace, int64_t at, int64_t shift)
{
    if (!GROW(trace->knots, trace->knot_count, trace->knot_room))
        return -ENOMEM;
    trace->knots[trace->knot_count++] = (struct timeline_knot){at, shift};
    return 0;
}

/* The shift that is left of that of the last knot. */
static int64_t shift_at(const struct timeline_trace *trace, int64_t at)
{
    if (!trace->knot_count)
        return 0;
    const struct timeline_knot *knot = &trace->knots[trace->knot_count - 1];
    int64_t shift = knot->shift - (at - knot->at) / TIMELINE_BACK;
    return shift > 0 ? shift : 0;
}

/* 1: done; 0: its message was not yet sent; -ENOMEM. */
static int take_step(struct correction *correction, size_t index)
{
    struct mpi_messages *messages = correction->messages;
    struct course *course = &correction->courses[index];
    const struct mpi_message_rank *rank = &messages->ranks[index], *from = NULL;
    struct timeline_trace *trace = &messages->timeline.traces[rank->trace];
    const struct step *step = &course->steps[course->at];
    int64_t shift = shift_at(trace, step->time);
    if (!step->got) {
        course->sent[step->index] = step->time + shift;
        return 1;
    }
    const struct mpi_end *got = &rank->got[step->index];
    if (!mpi_sent_of(messages, rank, got, &from))
        return 1;
    int64_t sent = correction->courses[from - messages->ranks].sent[got->other];
    if (sent == INT64_MIN)
        return 0;
    int64_t needed = sent + least_between(messages, from, rank) - step->time;
    if (needed <= shift)
        return 1;
    messages->timeline.corrected++;
    if (needed - shift > messages->timeline.largest_ns)
        messages->timeline.largest_ns = needed - shift;
    int code = add_knot(trace, step->time, needed);
    return code < 0 ? code : 1;
}

/* Each rank as far as it goes, as long as one gets on. A circle can only be of a damaged trace: what it holds stays. */
static int walk(struct correction *correction)
{
    const struct mpi_messages *messages = correction->messages;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < messages->rank_count; i++) {
            struct course *course = &correction->courses[i];
            int code = 1;
            while (course->at < course->count && (code = take_step(correction, i)) == 1) {
                course->at++;
                moved = true;
            }
            if (code < 0)
                return code;
        }
    }
    return 0;
}

static int64_t with_knots(void *ctx, int64_t ns)
{
    return timeline_with_knots(ctx, ns);
}

/* The times are on the common line but for the knots. */
static void apply(struct mpi_messages *messages)
{
    for (size_t i = 0; i < messages->rank_count; i++) {
        struct timeline_trace *trace = &messages->timeline.traces[messages->ranks[i].trace];
        if (trace->knot_count)
            mpi_messages_each_time(&messages->ranks[i], with_knots, trace);
    }
}

int timeline_correct(struct mpi_messages *messages)
{
    if (!any_too_early(messages))
        return 0;
    struct correction correction = {messages, calloc(messages->rank_count + 1, sizeof *correction.courses)};
    int code = correction.courses ? 0 : -ENOMEM;
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++)
        code = course_init(&correction.courses[i], &messages->ranks[i]);
    if (code == 0)
        code = walk(&correction);
    if (code == 0)
        apply(messages);
    for (size_t i = 0; correction.courses && i < messages->rank_count; i++) {
        free(correction.courses[i].steps);
        free(correction.courses[i].sent);
    }
    free(correction.courses);
    return code;
}
