/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes are the ranks of one MPI_COMM_WORLD, and which of their communicators are the same. */
#include <string.h>

#include "jobdir/analysis/why_internal.h"
#include "shm/mpi_told.h"

/* ---- worlds ---- */

static struct why_world *world_named(struct why_work *work, const char *namespace)
{
    struct why_world *world = work->worlds;
    while (world && strcmp(world->namespace, namespace) != 0)
        world = world->next;
    if (!world && (world = arena_zalloc(work->arena, 1, sizeof *world))) {
        *world = (struct why_world){.namespace = namespace, .next = work->worlds};
        work->worlds = world;
    }
    work->failed |= !world;
    return world;
}

static void make_room(struct why_work *work, struct why_world *world)
{
    world->by_rank = arena_alloc(work->arena, (world->size + 1) * sizeof *world->by_rank);
    if (!world->by_rank)
        work->failed = true;
    else
        memset(world->by_rank, 0xff, (world->size + 1) * sizeof *world->by_rank);
}

/* Two processes that live are no two tries of one rank: programs started without an mpirun, with one process number on two
 * nodes, call their worlds by one name. The second one is in a world of its own. */
static struct why_world *world_apart(struct why_work *work, const struct mpi_stats *stats)
{
    struct why_world *world = arena_zalloc(work->arena, 1, sizeof *world);
    work->failed |= !world;
    if (world) {
        *world = (struct why_world){.namespace = stats->namespace, .size = (uint32_t)stats->rank + 1, .running = true};
        make_room(work, world);
    }
    return work->failed ? NULL : world;
}

/* Of two processes with one number, the one that lives, or the later: a job may run a program many times. */
static bool is_newer(const struct mpi_stats *one, const struct mpi_stats *other)
{
    return one->running != other->running ? one->running : one->started_wall_ns > other->started_wall_ns;
}

static void find_worlds(struct why_work *work)
{
    enum { WORLD_MOST = 1 << 22 }; /* a damaged number is not believed */
    const struct mpi_stats_set *set = work->set;
    for (size_t i = 0; i < set->count && !work->failed; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        struct why_world *world = world_named(work, stats->namespace ? stats->namespace : "");
        if (world && stats->rank >= 0 && stats->rank < WORLD_MOST && (uint32_t)stats->rank >= world->size)
            world->size = (uint32_t)stats->rank + 1;
    }
    for (struct why_world *world = work->worlds; world && !work->failed; world = world->next)
        make_room(work, world);
    for (size_t i = 0; i < set->count && !work->failed; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        struct why_world *world = world_named(work, stats->namespace ? stats->namespace : "");
        world->running |= stats->running;
        if (stats->rank < 0 || (uint32_t)stats->rank >= world->size)
            continue;
        uint32_t *place = &world->by_rank[stats->rank];
        if (*place != MPI_WHY_NONE && stats->running && set->ranks[*place].running) {
            if (!(world = world_apart(work, stats)))
                return;
            place = &world->by_rank[stats->rank];
        }
        if (*place != MPI_WHY_NONE && !is_newer(stats, &set->ranks[*place]))
            continue;
        if (*place != MPI_WHY_NONE)
            work->world_of[*place] = NULL;
        *place = (uint32_t)i;
        work->world_of[i] = world;
    }
}

/* ---- communicators, the same for all their ranks ---- */

static size_t hash_of(const struct why_key *key)
{
    uint64_t hash = (uintptr_t)key->world ^ (uintptr_t)key->parent * 31;
    hash = (hash ^ key->ordinal) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ key->identity) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ (uint32_t)key->lowest ^ (uint64_t)key->kind << 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 20);
}

static struct why_group *group_with(struct why_work *work, const struct why_key *key)
{
    struct why_group **bucket = &work->table[hash_of(key) % work->table_size];
    for (struct why_group *group = *bucket; group; group = group->bucket)
        if (group->key.world == key->world && group->key.parent == key->parent && group->key.kind == key->kind &&
            group->key.ordinal == key->ordinal && group->key.lowest == key->lowest &&
            group->key.identity == key->identity)
            return group;
    struct why_group *group = arena_zalloc(work->arena, 1, sizeof *group);
    if (!group) {
        work->failed = true;
        return NULL;
    }
    group->key = *key;
    group->bucket = *bucket;
    group->next = work->groups;
    return *bucket = work->groups = group;
}

static void add_member(struct why_work *work, struct why_group *group, uint32_t index)
{
    if (group->count && group->members[group->count - 1] == index)
        return;
    if (group->count == group->room) {
        uint32_t room = group->room ? 2 * group->room : 8;
        uint32_t *larger = arena_alloc(work->arena, room * sizeof *larger);
        if (!larger) {
            work->failed = true;
            return;
        }
        if (group->count)
            memcpy(larger, group->members, group->count * sizeof *larger);
        group->members = larger;
        group->room = room;
    }
    group->members[group->count++] = index;
}

/* Parents are made before their children and stand before them, as their numbers do. */
static void find_groups_of(struct why_work *work, uint32_t index)
{
    const struct mpi_stats *stats = &work->set->ranks[index];
    struct why_group **groups = arena_zalloc(work->arena, stats->comm_count + 1, sizeof *groups);
    if (!groups) {
        work->failed = true;
        return;
    }
    work->comm_groups[index] = groups;
    for (size_t i = 0; i < stats->comm_count && work->world_of[index]; i++) {
        const struct mpi_stats_comm *comm = &stats->comms[i];
        struct why_key key = {
            .world = work->world_of[index], .kind = comm->kind, .ordinal = comm->ordinal, .lowest = comm->lowest};
        bool orphan = comm->parent != UINT32_MAX;
        for (size_t j = i; j-- > 0 && orphan;)
            if (stats->comms[j].number == comm->parent) {
                key.parent = groups[j];
                orphan = !groups[j];
                break;
            }
        if (comm->parent == UINT32_MAX)
            key.ordinal = comm->number; /* MPI_COMM_WORLD and MPI_COMM_SELF */
        if (comm->identity)
            key = (struct why_key){.world = key.world,
                                   .kind = key.kind,
                                   .identity = comm->identity,
                                   .lowest = comm->identity == MPI_IDENTITY_SELF ? comm->lowest : 0};
        else if (orphan || (comm->parent == UINT32_MAX && comm->number > 1)) /* made out of sight */
            continue;
        groups[i] = group_with(work, &key);
        if (groups[i])
            add_member(work, groups[i], index);
    }
}

struct why_group *why_group_of(const struct why_work *work, uint32_t index, uint32_t comm)
{
    const struct mpi_stats *stats = &work->set->ranks[index];
    return comm < stats->comm_count && work->comm_groups[index] ? work->comm_groups[index][comm] : NULL;
}

uint32_t why_group_in(const struct why_work *work, uint32_t index, const struct why_group *group)
{
    size_t count = work->set->ranks[index].comm_count;
    for (uint32_t i = 0; i < count; i++)
        if (work->comm_groups[index][i] == group)
            return i;
    return MPI_WHY_NONE;
}

void why_groups(struct why_work *work)
{
    find_worlds(work);
    for (uint32_t i = 0; i < work->set->count && !work->failed; i++)
        find_groups_of(work, i);
}
