/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/analysis/why_align.h"

#include <inttypes.h>
#include <string.h>

#include "jobdir/text/text.h"

enum { SHOWN_MISSING = 8 };

static bool is_of(const struct mpi_stats *stats, const struct mpi_why_part *part)
{
    return stats->dir && strcmp(stats->dir, part->dir) == 0;
}

static void shift(uint64_t *inout_ns, int64_t offset_ns)
{
    if (*inout_ns && (offset_ns < 0 || *inout_ns > (uint64_t)offset_ns))
        *inout_ns -= (uint64_t)offset_ns;
}

static void separate(struct buf *note)
{
    buf_puts(note, note->len ? "; " : "");
}

/* `now_ns`: when the others were looked at. */
static void mark_unheard(struct mpi_stats_set *set, const struct mpi_why_part *part, uint64_t since_ns, uint64_t now_ns)
{
    for (size_t i = 0; i < set->count; i++) {
        struct mpi_stats *stats = &set->ranks[i];
        if (is_of(stats, part) && stats->rank >= 0 && stats->running &&
            stats->taken_wall_ns + part->bound_ns < since_ns)
            stats->unheard_ns = now_ns - stats->taken_wall_ns;
    }
}

static void note_part(struct buf *note, const struct mpi_stats_set *set, const struct mpi_why_part *part)
{
    size_t ranks = 0, late = 0;
    uint64_t oldest_ns = 0;
    bool timed = true;
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        if (!is_of(stats, part) || stats->rank < 0)
            continue;
        ranks++;
        late += stats->unheard_ns > 0;
        timed &= !stats->unheard_ns || stats->taken_wall_ns;
        oldest_ns = stats->unheard_ns > oldest_ns ? stats->unheard_ns : oldest_ns;
    }
    if (ranks && !late)
        return;
    separate(note);
    buf_puts(note, "node ");
    text_show(note, part->node);
    if (!ranks) {
        buf_puts(note, " has told of no rank");
        return;
    }
    buf_printf(note, ": what %zu rank%s in is ", late, late == 1 ? " is" : "s are");
    if (timed)
        text_seconds(note, (double)oldest_ns / 1e9);
    buf_puts(note, timed ? " old" : "of an unknown time");
}

static bool is_known(const struct mpi_stats_set *set, const char *namespace, int32_t rank)
{
    size_t low = 0, high = set->count; /* sorted by (namespace, rank, pid) */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct mpi_stats *stats = &set->ranks[middle];
        int order = strcmp(stats->namespace, namespace);
        if (order < 0 || (order == 0 && stats->rank < rank))
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->ranks[low].rank == rank && strcmp(set->ranks[low].namespace, namespace) == 0;
}

/* Of one program; its ranks stand one behind the other, the first at `from`. */
static void note_missing(struct buf *note, const struct mpi_stats_set *set, size_t from)
{
    const struct mpi_stats *first = &set->ranks[from];
    size_t missing = 0;
    if (first->world_size <= 0 || (size_t)first->world_size <= set->count - from) {
        size_t known = 0;
        for (size_t i = from; i < set->count && strcmp(set->ranks[i].namespace, first->namespace) == 0; i++)
            known += i == from || set->ranks[i].rank != set->ranks[i - 1].rank;
        if (first->world_size <= 0 || known >= (size_t)first->world_size)
            return;
    }
    for (int32_t rank = 0; rank < first->world_size; rank++) {
        if (is_known(set, first->namespace, rank))
            continue;
        if (!missing++) {
            separate(note);
            buf_puts(note, "nothing is known of rank ");
        } else if (missing <= SHOWN_MISSING) {
            buf_puts(note, ", ");
        }
        if (missing <= SHOWN_MISSING)
            buf_printf(note, "%" PRId32, rank);
    }
    if (missing > SHOWN_MISSING)
        buf_printf(note, " and %zu more", missing - SHOWN_MISSING);
    buf_printf(note, " (of %" PRId32 ")", first->world_size);
}

uint64_t mpi_why_align(struct mpi_stats_set *set, const struct mpi_why_part *parts, size_t count, uint64_t since_ns,
                       bool asked, struct buf *note)
{
    uint64_t widest = 0, second = 0, now_ns = since_ns;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < set->count; k++)
            if (is_of(&set->ranks[k], &parts[i])) {
                shift(&set->ranks[k].taken_wall_ns, parts[i].offset_ns);
                shift(&set->ranks[k].started_wall_ns, parts[i].offset_ns);
            }
        if (parts[i].bound_ns > widest) {
            second = widest;
            widest = parts[i].bound_ns;
        } else if (parts[i].bound_ns > second) {
            second = parts[i].bound_ns;
        }
    }
    for (size_t k = 0; k < set->count; k++)
        now_ns = set->ranks[k].taken_wall_ns > now_ns ? set->ranks[k].taken_wall_ns : now_ns;
    for (size_t i = 0; i < count; i++) {
        mark_unheard(set, &parts[i], since_ns, now_ns);
        note_part(note, set, &parts[i]);
    }
    for (size_t k = 0; k < set->count && !asked; k++)
        set->ranks[k].unheard_ns = 0;
    for (size_t i = 0; i < set->count; i++)
        if (i == 0 || strcmp(set->ranks[i].namespace, set->ranks[i - 1].namespace) != 0)
            note_missing(note, set, i);
    return widest + second;
}
