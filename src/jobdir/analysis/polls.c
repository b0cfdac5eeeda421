/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/analysis/polls.h"

#include <string.h>

enum { POLLS_LEAST = 3 /* times between the looks: else it computes, and asks now and then */ };

static const struct mpi_stats *same_process(const struct mpi_stats_set *before, size_t index,
                                            const struct mpi_stats *stats)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct mpi_stats *other = &before->ranks[(index + i) % before->count]; /* most are in the same place */
        if (other->pid == stats->pid && other->rank == stats->rank &&
            other->started_wall_ns == stats->started_wall_ns && other->node && stats->node &&
            strcmp(other->node, stats->node) == 0)
            return other;
    }
    return NULL;
}

static uint64_t of_part(const struct mpi_stats_row *row, bool main)
{
    uint64_t others = row->others_count < row->count ? row->others_count : row->count;
    return main ? row->count - others : others;
}

static uint64_t count_before(const struct mpi_stats_row *rows, size_t count, uint32_t call, bool main)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].call == call)
            return of_part(&rows[i], main);
    return 0;
}

/* The thread that is the rank, or all others: between the looks it did nothing but ask. Whatever is less than it was,
 * was set to nothing meanwhile. */
static bool only_asked(const struct mpi_stats *stats, const struct mpi_stats *before, bool main)
{
    for (size_t i = 0; i < stats->row_count; i++) {
        const struct mpi_stats_row *row = &stats->rows[i];
        if (row->call < CALL_COUNT && !call_is(row->call, CALL_IS_LOCAL) && !call_info(row->call)->polls &&
            of_part(row, main) != count_before(before->rows, before->row_count, row->call, main))
            return false;
    }
    for (size_t i = 0; i < stats->span_count; i++)
        if (of_part(&stats->spans[i], main) !=
            count_before(before->spans, before->span_count, stats->spans[i].call, main))
            return false; /* something came */
    return true;
}

/* Since it came out of a call that blocks, or began what it asks for: whichever was later. */
static uint64_t in_vain_for(const struct mpi_stats *stats, const struct mpi_stats_thread *thread)
{
    uint64_t ns = thread->blocking.compute_open_ns;
    size_t known = thread->last.flags & MPIA_NOW_REQUESTS ? thread->last.waiting : 0;
    for (size_t i = 0; i < known && i < MPIA_WAITS; i++)
        for (size_t k = 0; k < stats->request_count; k++)
            if (stats->requests[k].handle == thread->last.waits[i] && stats->requests[k].age_ns < ns)
                ns = stats->requests[k].age_ns;
    return ns;
}

static void look_at(const struct mpi_stats *stats, struct mpi_stats_thread *thread,
                    const struct mpi_stats_thread *before, uint64_t passed_ns)
{
    uint64_t calls = thread->outermost.count - before->outermost.count;
    if (thread->ended || thread->tid != before->tid || thread->outermost.count < before->outermost.count ||
        calls < POLLS_LEAST)
        return;
    if (thread->now.call != CALL_NONE)
        thread->last = thread->now;
    if (!call_info(thread->last.call)->polls)
        return;
    thread->polls = true;
    thread->polls_ns = in_vain_for(stats, thread);
    thread->polls_per_second = (double)calls * 1e9 / (double)passed_ns;
}

void mpi_polls_find(struct mpi_stats_set *set, const struct mpi_stats_set *before)
{
    for (size_t i = 0; i < set->count; i++) {
        struct mpi_stats *stats = &set->ranks[i];
        const struct mpi_stats *old = stats->running ? same_process(before, i, stats) : NULL;
        if (!old || stats->state != MPIA_RUNNING || stats->taken_wall_ns <= old->taken_wall_ns ||
            stats->resets != old->resets)
            continue;
        bool asked[2] = {only_asked(stats, old, false), only_asked(stats, old, true)};
        for (size_t k = 0; k < stats->thread_count && k < old->thread_count; k++)
            if (asked[stats->threads[k].is_main])
                look_at(stats, &stats->threads[k], &old->threads[k], stats->taken_wall_ns - old->taken_wall_ns);
    }
}
