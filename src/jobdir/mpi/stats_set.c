/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of many MPI processes (jobdir/mpi/stats.h): without a JSON library, for the monitor. */
#include <stdlib.h>
#include <string.h>

#include "jobdir/mpi/stats.h"

static bool has_arena(struct mpi_stats_set *set)
{
    return set->arena || (set->arena = calloc(1, sizeof *set->arena));
}

const char *mpi_stats_set_text(struct mpi_stats_set *set, const char *text)
{
    return has_arena(set) ? arena_dup(set->arena, text, strlen(text)) : NULL;
}

struct mpi_stats *mpi_stats_set_next(struct mpi_stats_set *set)
{
    if (!has_arena(set))
        return NULL;
    if (set->count == set->room) {
        size_t room = set->room ? 2 * set->room : 64;
        struct mpi_stats *grown = arena_alloc(set->arena, room * sizeof *grown);
        if (!grown)
            return NULL;
        if (set->count)
            memcpy(grown, set->ranks, set->count * sizeof *grown);
        set->ranks = grown;
        set->room = room;
    }
    return &set->ranks[set->count];
}

static int by_rank(const void *a, const void *b)
{
    const struct mpi_stats *one = a, *other = b;
    int order = strcmp(one->namespace, other->namespace);
    if (order == 0)
        order = one->rank < other->rank ? -1 : one->rank > other->rank;
    if (order == 0)
        order = one->pid < other->pid ? -1 : one->pid > other->pid;
    return order ? order : strcmp(one->name, other->name);
}

void mpi_stats_set_sort(struct mpi_stats_set *set)
{
    if (set->count)
        qsort(set->ranks, set->count, sizeof *set->ranks, by_rank);
}

void mpi_stats_set_forget_ended(struct mpi_stats_set *set)
{
    bool any = false;
    size_t used = 0;
    for (size_t i = 0; i < set->count; i++)
        any |= set->ranks[i].running;
    for (size_t i = 0, next; i < set->count && any; i = next) {
        bool runs = false;
        for (next = i; next < set->count && strcmp(set->ranks[next].namespace, set->ranks[i].namespace) == 0; next++)
            runs |= set->ranks[next].running;
        for (size_t k = i; k < next && runs; k++)
            set->ranks[used++] = set->ranks[k];
    }
    if (any)
        set->count = used;
}

void mpi_stats_set_done(struct mpi_stats_set *set)
{
    if (set->arena)
        arena_done(set->arena);
    free(set->arena);
    *set = (struct mpi_stats_set){0};
}
