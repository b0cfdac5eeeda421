/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/analysis/why_internal.h"
#include "shm/mpi_told.h"

#include <string.h>

/* Which processes are the ranks of one MPI_COMM_WORLD, and which of their communicators are the same. */

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

/* Fills worlds, groups, comm_groups and world_of. */
static void why_groups(struct why_work *work)
{
    find_worlds(work);
    for (uint32_t i = 0; i < work->set->count && !work->failed; i++)
        find_groups_of(work, i);
}

/* Which threads of a rank may act for it: those in MPI by what they wait for there, others by what was seen of them. */

enum { THREAD_MULTIPLE = 3 }; /* of mpi_stats.thread_level */

/* ---- who they are ---- */

static const struct thread_seen *seen_of(const struct mpi_stats *stats, int32_t tid)
{
    for (size_t i = 0; i < stats->seen_count; i++)
        if (stats->seen[i].tid == tid)
            return &stats->seen[i];
    return NULL;
}

/* Waits for the end of another one. */
static bool why_joins(const struct mpi_stats *stats, int32_t tid)
{
    const struct thread_seen *seen = seen_of(stats, tid);
    return seen && seen->wait.kind == THREAD_WAITS_END;
}

/* A circle that its threads make among themselves. */
static void find_circle(struct why_work *work, struct mpi_why_rank *rank, const struct mpi_stats *stats)
{
    size_t *circle = arena_zalloc(work->arena, stats->seen_count + 1, sizeof *circle), count = 0;
    work->failed |= !circle;
    for (size_t i = 0; i < stats->seen_count && !count && !work->failed; i++)
        count = threads_circle(stats->seen, stats->seen_count, i, circle);
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < rank->actor_count && rank->actors[at].seen != &stats->seen[circle[i]])
            at++;
        if (at == rank->actor_count || (rank->actors[at].thread && rank->actors[at].thread->state != MPI_WHY_COMPUTES))
            return; /* it is in MPI */
        circle[i] = at;
    }
    rank->circle = circle;
    rank->circle_count = count;
}

/* The threads that called MPI, and those that were seen beside them. */
static void why_actors(struct why_work *work, struct mpi_why_rank *rank, struct mpi_why_thread *threads)
{
    const struct mpi_stats *stats = rank->stats;
    size_t count = 0;
    rank->actors = arena_zalloc(work->arena, stats->thread_count + stats->seen_count + 1, sizeof *rank->actors);
    work->failed |= !rank->actors;
    for (size_t i = 0; i < stats->thread_count && !work->failed; i++)
        if (threads[i].state != MPI_WHY_ENDED)
            rank->actors[count++] =
                (struct mpi_why_actor){.thread = &threads[i], .seen = seen_of(stats, threads[i].thread->tid)};
    size_t called = count;
    for (size_t i = 0; i < stats->seen_count && !work->failed; i++) {
        size_t k = 0;
        while (k < called && rank->actors[k].seen != &stats->seen[i])
            k++;
        if (k == called)
            rank->actors[count++] = (struct mpi_why_actor){.seen = &stats->seen[i]};
    }
    rank->actor_count = stats->thread_count ? count : 0;
    if (stats->thread_count && !work->failed)
        find_circle(work, rank, stats);
}

/* ---- who may act ---- */

bool mpi_why_is_unseen(const struct mpi_why_rank *rank)
{
    bool others = rank->stats->thread_level >= THREAD_MULTIPLE;
    for (size_t i = 0; i < rank->actor_count && others; i++)
        if (rank->actors[i].seen && rank->actors[i].seen->wait.unseen && !rank->actors[i].thread)
            return true;
    return others && !rank->stats->seen_count;
}

static const struct mpi_why_actor *actor_with(const struct mpi_why_rank *rank, int32_t tid)
{
    for (size_t i = 0; i < rank->actor_count; i++)
        if (rank->actors[i].seen && rank->actors[i].seen->tid == tid)
            return &rank->actors[i];
    return NULL;
}

static bool is_outside(const struct mpi_why_actor *actor)
{
    return !actor->thread || actor->thread->state == MPI_WHY_COMPUTES;
}

static bool may_go_on(const struct why_work *work, const struct mpi_why_rank *rank, const struct mpi_why_actor *actor,
                      const bool *live)
{
    if (!is_outside(actor))
        return why_may_act(work, actor->thread, live);
    enum thread_wait_kind gone = rank->stats->seen_count ? THREAD_HAS_ENDED : THREAD_MAY_ACT;
    enum thread_wait_kind kind = actor->seen ? actor->seen->wait.kind : gone;
    if (kind == THREAD_WAITS_OWNER || kind == THREAD_WAITS_END) {
        const struct mpi_why_actor *other = actor_with(rank, actor->seen->wait.tid);
        return !other || other->free;
    }
    for (size_t i = 0; kind == THREAD_WAITS_OTHERS && i < rank->actor_count; i++)
        if (rank->actors[i].free && &rank->actors[i] != actor)
            return true;
    return kind == THREAD_MAY_ACT;
}

/* With less than MPI_THREAD_MULTIPLE nobody may call MPI while another thread is in a call. */
static bool may_call_beside(const struct mpi_why_rank *rank)
{
    return rank->stats->thread_level >= THREAD_MULTIPLE || rank->thread_count != 1 ||
           is_outside(&(struct mpi_why_actor){.thread = (struct mpi_why_thread *)&rank->threads[0]});
}

/* Some thread is held up by what nobody will undo. All others can be told so only if there is one: what waits for a
 * condition may be woken by a signal's handler yet. */
static bool is_held_up(const struct why_work *work, const struct mpi_why_rank *rank, const bool *live)
{
    for (size_t i = 0; i < rank->actor_count; i++)
        if (!is_outside(&rank->actors[i]) && rank->actors[i].thread->state != MPI_WHY_ENDED &&
            !why_may_act(work, rank->actors[i].thread, live))
            return true;
    return rank->circle_count > 0;
}

bool why_rank_may_act(const struct why_work *work, const struct mpi_why_rank *rank, const bool *live)
{
    if (rank->state == MPI_WHY_ENDED || rank->state == MPI_WHY_DIED)
        return false;
    if (rank->actor_count == 0)
        return true;
    if (!may_call_beside(rank))
        return why_may_act(work, &rank->threads[0], live);
    if (rank->stats->thread_level >= THREAD_MULTIPLE && !rank->stats->seen_count)
        return true;
    bool any = false;
    for (size_t i = 0; i < rank->actor_count; i++)
        rank->actors[i].free = false;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < rank->actor_count; i++)
            if (!rank->actors[i].free && may_go_on(work, rank, &rank->actors[i], live))
                rank->actors[i].free = changed = any = true;
    }
    return any || !is_held_up(work, rank, live);
}

bool why_is_asleep(const struct mpi_why_rank *rank)
{
    bool waits = false;
    for (size_t i = 0; i < rank->actor_count; i++) {
        if (rank->actors[i].free)
            return false;
        waits |= rank->actors[i].seen && rank->actors[i].seen->wait.kind == THREAD_WAITS_OTHERS;
    }
    return waits;
}

/* All of a rank that is stuck; else those of its circle. */
void why_block_threads(struct mpi_why_rank *rank)
{
    for (size_t i = 0; i < rank->thread_count && rank->stuck; i++) {
        struct mpi_why_thread *thread = (struct mpi_why_thread *)&rank->threads[i];
        thread->stuck = true;
        thread->state = thread->state == MPI_WHY_COMPUTES ? MPI_WHY_BLOCKED : thread->state;
    }
    for (size_t i = 0; i < rank->circle_count; i++) {
        struct mpi_why_thread *thread = rank->actors[rank->circle[i]].thread;
        if (thread && thread->state == MPI_WHY_COMPUTES)
            thread->state = MPI_WHY_BLOCKED;
        if (thread)
            thread->stuck = true;
    }
}

/* Who waits for whom: what each rank's calls need from others. */

/* Of the time after which calls count as waiting, for messages that were sent: so much later those that lie there are
 * others than what is waited for; sooner where the thread is known to have looked meanwhile. */
enum { SLOW_FACTOR = 25, LOOKED_FACTOR = 5 };

static void *work_alloc(struct why_work *work, size_t count, size_t size)
{
    static uint64_t nothing[64];
    void *memory = work->failed ? NULL : arena_zalloc(work->arena, count ? count : 1, size);
    if (!memory)
        work->failed = true;
    return memory ? memory : size <= sizeof nothing ? nothing : NULL;
}

/* ---- what a call needs ---- */

struct list { /* of one thread's conditions, while they are made */
    struct mpi_why_condition *items;
    size_t count, room;
};

static struct mpi_why_condition *condition_add(struct why_work *work, struct list *list, enum mpi_why_reason reason)
{
    static struct mpi_why_condition lost;
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 2;
        struct mpi_why_condition *larger = work_alloc(work, room, sizeof *larger);
        if (work->failed)
            return &lost;
        if (list->count)
            memcpy(larger, list->items, list->count * sizeof *larger);
        list->items = larger;
        list->room = room;
    }
    struct mpi_why_condition *condition = &list->items[list->count++];
    *condition = (struct mpi_why_condition){
        .reason = reason, .peer = MPIA_RANK_NONE, .tag = MPIA_TAG_NONE, .comm = MPI_WHY_NONE};
    return condition;
}

static uint32_t rank_index(const struct why_work *work, uint32_t index, int32_t rank)
{
    const struct why_world *world = work->world_of[index];
    return world && rank >= 0 && (uint32_t)rank < world->size ? world->by_rank[rank] : MPI_WHY_NONE;
}

static void wait_for_one(struct why_work *work, struct mpi_why_condition *condition, uint32_t index)
{
    uint32_t *one = work_alloc(work, 1, sizeof *one);
    *one = index;
    condition->for_ranks = one;
    condition->for_count = index != MPI_WHY_NONE;
}

/* All the ranks of a communicator that are known but itself. Of one made by MPI_Comm_split the list says who they are;
 * ranks that have not said they have it do not send on it. */
static void wait_for_any(struct why_work *work, struct mpi_why_condition *condition, uint32_t index,
                         const struct why_group *group)
{
    uint32_t *others = work_alloc(work, group->count, sizeof *others), count = 0;
    for (uint32_t i = 0; i < group->count && !work->failed; i++)
        if (group->members[i] != index)
            others[count++] = group->members[i];
    condition->for_ranks = others;
    condition->for_count = count;
}

static void count_between(const struct mpi_stats *stats, uint32_t comm, int32_t peer, uint64_t *ret_sent,
                          uint64_t *ret_got)
{
    for (size_t i = 0; i < stats->peer_count; i++) {
        const struct mpi_stats_peer *row = &stats->peers[i];
        if (row->call == CALL_NONE && row->comm == comm && row->peer == peer) {
            *ret_sent += row->sent_count;
            *ret_got += row->got_count;
        }
    }
}

/* Messages from one to the other that have been sent and not been received. */
static uint64_t under_way(const struct why_work *work, uint32_t from, uint32_t to, const struct why_group *group)
{
    uint64_t sent = 0, got = 0, unused = 0;
    const struct mpi_stats *sender = &work->set->ranks[from], *receiver = &work->set->ranks[to];
    uint32_t there = why_group_in(work, from, group), here = why_group_in(work, to, group);
    if (there == MPI_WHY_NONE || here == MPI_WHY_NONE)
        return 0;
    count_between(sender, there, receiver->rank, &sent, &unused);
    count_between(receiver, here, sender->rank, &unused, &got);
    return sent > got ? sent - got : 0;
}

/* ---- operations of the other side that would match ---- */

struct message { /* as one side sees it */
    const struct why_group *group;
    int32_t peer, tag; /* world rank of the other side; MPIA_TAG_ANY */
    bool receive;      /* this side receives, the other one sends */
};

static bool tags_match(int32_t one, int32_t other)
{
    return one == other || one == MPIA_TAG_ANY || other == MPIA_TAG_ANY;
}

static bool sends_or_receives(const struct why_work *work, uint32_t index, const struct message *message, int32_t self,
                              uint32_t comm, int32_t peer, int32_t tag)
{
    return (peer == self || peer == MPIA_RANK_ANY) && tags_match(message->tag, tag) &&
           why_group_of(work, index, comm) == message->group;
}

/* All that one has sent to the other has been received, though its own call that waits for many has not returned yet. What it sends
 * counts when it is posted, so where less was counted than is open, messages are not counted. */
static bool is_all_received(const struct why_work *work, uint32_t from, uint32_t to, const struct why_group *group)
{
    const struct mpi_stats *sender = &work->set->ranks[from], *receiver = &work->set->ranks[to];
    uint32_t comm = why_group_in(work, from, group);
    uint64_t sent = 0, unused = 0, open = 0;
    if (comm == MPI_WHY_NONE || !why_is_exact(sender) || !why_is_exact(receiver))
        return false;
    count_between(sender, comm, receiver->rank, &sent, &unused);
    for (size_t i = 0; i < sender->request_count; i++) {
        const struct mpi_stats_request *request = &sender->requests[i];
        open += request->flags & MPIA_REQUEST_SEND && !(request->flags & MPIA_REQUEST_INACTIVE) &&
                request->comm == comm && request->peer == receiver->rank;
    }
    return sent >= open && !under_way(work, from, to, group);
}

/* Both sides have begun it: then it is under way, however long that takes. */
static bool is_met(const struct why_work *work, uint32_t other, const struct message *message, uint32_t index)
{
    const struct mpi_stats *stats = &work->set->ranks[other];
    const int32_t self = work->set->ranks[index].rank;
    uint32_t wanted = message->receive ? MPIA_REQUEST_SEND : MPIA_REQUEST_RECEIVE;
    for (size_t i = 0; i < stats->thread_count; i++) {
        const struct mpi_stats_now *now = &stats->threads[i].now;
        enum call_waits waits = call_info(now->call)->waits;
        if (stats->threads[i].ended)
            continue;
        if ((waits == (message->receive ? CALL_WAITS_SEND : CALL_WAITS_RECEIVE) ||
             (waits == CALL_WAITS_BOTH && message->receive)) &&
            sends_or_receives(work, other, message, self, now->comm, now->peer, now->tag))
            return true;
        if (waits == CALL_WAITS_BOTH && !message->receive &&
            sends_or_receives(work, other, message, self, now->comm, now->source_peer, now->source_tag))
            return true;
    }
    if (message->receive && is_all_received(work, other, index, message->group))
        return false;
    for (size_t i = 0; i < stats->request_count; i++) {
        const struct mpi_stats_request *request = &stats->requests[i];
        if (request->flags & wanted && !(request->flags & MPIA_REQUEST_INACTIVE) &&
            sends_or_receives(work, other, message, self, request->comm, request->peer, request->tag))
            return true;
    }
    return false;
}

static bool is_under_way(const struct why_work *work, uint32_t index, const struct message *message)
{
    if (message->peer != MPIA_RANK_ANY) {
        uint32_t other = rank_index(work, index, message->peer);
        return other != MPI_WHY_NONE && other != index && work->set->ranks[other].running &&
               is_met(work, other, message, index);
    }
    for (uint32_t i = 0; i < message->group->count; i++)
        if (message->group->members[i] != index && work->set->ranks[message->group->members[i]].running &&
            is_met(work, message->group->members[i], message, index))
            return true;
    return false;
}

/* Whether a thread of that rank is just sending to the other one on a communicator. */
static bool is_sending(const struct why_work *work, uint32_t from, uint32_t to, const struct why_group *group)
{
    const struct mpi_stats *sender = &work->set->ranks[from];
    for (size_t i = 0; i < sender->thread_count; i++) {
        const struct mpi_stats_now *now = &sender->threads[i].now;
        if (!sender->threads[i].ended && call_info(now->call)->waits == CALL_WAITS_SEND &&
            now->peer == work->set->ranks[to].rank && why_group_of(work, from, now->comm) == group)
            return true;
    }
    return false;
}

/* A receive for which nothing lies there, while something lies on another communicator: mostly that was meant. */
static void look_elsewhere(const struct why_work *work, struct mpi_why_condition *condition, uint32_t from, uint32_t to)
{
    const struct mpi_stats *receiver = &work->set->ranks[to];
    for (uint32_t i = 0; i < receiver->comm_count && !condition->elsewhere; i++) {
        const struct why_group *group = why_group_of(work, to, i);
        if (!group || i == condition->comm || receiver->comms[i].kind > MPIA_COMM_INTER)
            continue;
        condition->elsewhere = under_way(work, from, to, group);
        if (!condition->elsewhere && is_sending(work, from, to, group))
            condition->elsewhere = 1;
        condition->elsewhere_comm = i;
    }
}

static void need_message(struct why_work *work, struct list *list, uint32_t index, uint32_t call, uint32_t comm,
                         int32_t peer, int32_t tag, bool receive)
{
    const struct why_group *group = why_group_of(work, index, comm);
    const struct message message = {group, peer, tag, receive};
    if (peer == MPIA_RANK_NULL || peer == MPIA_RANK_NONE || (peer == MPIA_RANK_ANY && !group))
        return;
    if (group && is_under_way(work, index, &message))
        return;
    struct mpi_why_condition *condition = condition_add(work, list, receive ? MPI_WHY_FOR_SEND : MPI_WHY_FOR_RECEIVE);
    condition->call = call;
    condition->comm = comm;
    condition->peer = peer;
    condition->tag = tag;
    if (peer == MPIA_RANK_ANY)
        wait_for_any(work, condition, index, group);
    else
        wait_for_one(work, condition, rank_index(work, index, peer));
    for (uint32_t i = 0; receive && group && i < condition->for_count && !work->failed; i++)
        condition->unmatched += under_way(work, condition->for_ranks[i], index, group);
    if (receive && group && condition->for_count == 1 && !condition->unmatched && !work->failed)
        look_elsewhere(work, condition, condition->for_ranks[0], index);
}

bool why_has_waited(const struct why_work *work, const struct mpi_stats_thread *thread)
{
    bool looked = thread->attends == MPI_ATTENDS || thread->polls;
    uint64_t age_ns = thread->polls ? thread->polls_ns : thread->now.age_ns;
    if (work->came_ns && age_ns >= work->came_ns)
        return true;
    return age_ns >= (looked ? LOOKED_FACTOR : SLOW_FACTOR) * work->settled_ns;
}

/* A message may lie there that the receive takes as soon as its thread looks, or is on its way. */
static bool may_have_come(const struct why_work *work, const struct mpi_stats_thread *thread,
                          const struct mpi_why_condition *condition)
{
    if (condition->reason != MPI_WHY_FOR_SEND || !condition->unmatched)
        return false;
    return condition->tag == MPIA_TAG_ANY || !why_has_waited(work, thread);
}

/* The conditions are void where a receive may have its message, and the call ends by that; or may, as far as it is
 * known. */
static void forget_what_may_have_come(const struct why_work *work, const struct mpi_stats_thread *thread,
                                      struct list *list, bool all)
{
    size_t sure = 0, come = 0;
    for (size_t i = 0; i < list->count; i++) {
        come += may_have_come(work, thread, &list->items[i]);
        sure += !list->items[i].maybe;
    }
    if (come && !(all && sure))
        list->count = 0;
}

/* ---- collectives ---- */

struct why_late { /* who has not begun so many collectives on a communicator */
    uint32_t ordinal, *ranks, count;
    struct why_late *next;
};

static bool has_begun(const struct why_work *work, uint32_t index, const struct why_group *group, uint32_t ordinal)
{
    uint32_t comm = why_group_in(work, index, group);
    return comm != MPI_WHY_NONE && work->set->ranks[index].comms[comm].collectives >= ordinal;
}

/* Members are those that a rank's lists name, and those that say they have the communicator. */
static const struct why_late *late_ones(struct why_work *work, uint32_t index, uint32_t comm, uint32_t ordinal)
{
    struct why_group *group = why_group_of(work, index, comm);
    const struct mpi_stats_comm *own = &work->set->ranks[index].comms[comm];
    for (struct why_late *late = group->late; late; late = late->next)
        if (late->ordinal == ordinal)
            return late;
    struct why_late *late = work_alloc(work, 1, sizeof *late);
    uint32_t known = work->world_of[index] ? work->world_of[index]->size : 0;
    uint32_t size = own->size < known ? own->size : known, remote = own->remote_ranks ? own->remote_size : 0;
    remote = remote < known ? remote : known;
    uint32_t *ranks = work_alloc(work, (size_t)size + remote + group->count, sizeof *ranks);
    if (work->failed)
        return NULL;
    *late = (struct why_late){.ordinal = ordinal, .ranks = ranks, .next = group->late};
    bool *seen = work_alloc(work, work->set->count, sizeof *seen);
    for (uint32_t i = 0; i < size + group->count && !work->failed; i++) {
        uint32_t member =
            i < size ? rank_index(work, index, own->ranks ? own->ranks[i] : (int32_t)i) : group->members[i - size];
        if (member == MPI_WHY_NONE || seen[member])
            continue;
        seen[member] = true;
        if (!has_begun(work, member, group, ordinal))
            ranks[late->count++] = member;
    }
    return group->late = late;
}

static void need_collective(struct why_work *work, struct list *list, uint32_t index, uint32_t call, uint32_t comm,
                            int32_t root, uint32_t ordinal)
{
    if (!why_group_of(work, index, comm) || ordinal == 0)
        return;
    const struct why_late *late = late_ones(work, index, comm, ordinal);
    if (!late || !late->count)
        return; /* all are in it */
    struct mpi_why_condition *condition = condition_add(work, list, MPI_WHY_FOR_COLLECTIVE);
    condition->call = call;
    condition->comm = comm;
    condition->peer = root;
    condition->all = true;
    condition->for_ranks = late->ranks;
    condition->for_count = late->count;
}

/* ---- requests ---- */

static const struct mpi_stats_request *request_with(const struct mpi_stats *stats, uint64_t handle)
{
    for (size_t i = 0; i < stats->request_count; i++)
        if (stats->requests[i].handle == handle && !(stats->requests[i].flags & MPIA_REQUEST_INACTIVE))
            return &stats->requests[i];
    return NULL;
}

static void need_request(struct why_work *work, struct list *list, uint32_t index,
                         const struct mpi_stats_request *request)
{
    size_t before = list->count;
    if (request->flags & (MPIA_REQUEST_SEND | MPIA_REQUEST_RECEIVE))
        need_message(work, list, index, request->call, request->comm, request->peer, request->tag,
                     request->flags & MPIA_REQUEST_RECEIVE);
    else if (request->call < CALL_COUNT && request->ordinal)
        need_collective(work, list, index, request->call, request->comm, request->peer, request->ordinal);
    /* Of several, only a receive whose message has not been sent is sure to be open. */
    for (size_t i = before; i < list->count; i++) {
        struct mpi_why_condition *condition = &list->items[i];
        condition->maybe =
            condition->reason == MPI_WHY_FOR_RECEIVE ||
            (condition->reason == MPI_WHY_FOR_SEND && (condition->unmatched || condition->peer == MPIA_RANK_ANY));
    }
}

/* Where none is sure to be open, from some more has been sent beyond what is waited for than from others: they may have gone on. */
static void find_unlikely(struct list *list)
{
    enum { COMPARED_MOST = 256 };
    int64_t least = INT64_MAX;
    for (int pass = 0; pass < 2 && list->count <= COMPARED_MOST; pass++)
        for (size_t i = 0; i < list->count; i++) {
            struct mpi_why_condition *condition = &list->items[i];
            int64_t spare = (int64_t)condition->unmatched;
            for (size_t k = 0; k < list->count; k++)
                spare -= list->items[k].reason == MPI_WHY_FOR_SEND && list->items[k].peer == condition->peer &&
                         list->items[k].comm == condition->comm;
            if (!condition->maybe || condition->reason != MPI_WHY_FOR_SEND)
                continue;
            condition->unlikely = pass && spare > least;
            least = spare < least ? spare : least;
        }
}

/* Of a rank that waits for more than can be listed: that these are all it has open. */
static bool waits_for_all(const struct mpi_stats *stats, const struct mpi_stats_now *now)
{
    size_t open = 0;
    for (size_t i = 0; i < stats->request_count; i++)
        open += !(stats->requests[i].flags & (MPIA_REQUEST_INACTIVE | MPIA_REQUEST_FREED));
    return now->waiting > MPIA_WAITS && open == now->waiting;
}

static void need_requests(struct why_work *work, struct list *list, uint32_t index, const struct mpi_stats_now *now)
{
    const struct mpi_stats *stats = &work->set->ranks[index];
    bool all = waits_for_all(stats, now);
    size_t known = all ? stats->request_count : now->waiting < MPIA_WAITS ? now->waiting : MPIA_WAITS;
    for (size_t i = 0; i < known; i++) {
        const struct mpi_stats_request *request = request_with(stats, all ? stats->requests[i].handle : now->waits[i]);
        if (request)
            need_request(work, list, index, request);
    }
    if (list->count == 1 && now->waiting == 1)
        list->items[0].maybe = false; /* the only one: it is open, for the call waits */
    find_unlikely(list);
}

/* ---- one-sided ---- */

static bool is_in_mpi(const struct mpi_stats *stats)
{
    for (size_t i = 0; i < stats->thread_count; i++)
        if (!stats->threads[i].ended && stats->threads[i].now.call != CALL_NONE)
            return true;
    return false;
}

/* Of a target: for those that hold a lock on the window (MPI_Win_lock, and where the library takes locks late, what
 * comes after it), or for the target itself as long as it is outside of MPI: its library answers only inside. One that
 * waits in a call answers, whatever it waits for. Nobody of these: not known for whom. */
static void need_target(struct why_work *work, struct list *list, uint32_t index, const struct mpi_stats_now *now)
{
    const struct why_group *group = why_group_of(work, index, now->comm);
    uint32_t target = now->peer >= 0 ? rank_index(work, index, now->peer) : MPI_WHY_NONE, count = 0;
    uint32_t *ranks = work_alloc(work, (group ? group->count : 0) + 1, sizeof *ranks);
    if (work->failed)
        return;
    for (uint32_t i = 0; group && i < group->count; i++) {
        uint32_t member = group->members[i], comm = why_group_in(work, member, group);
        const struct mpi_stats *stats = &work->set->ranks[member];
        if (member != index && stats->running && comm != MPI_WHY_NONE && stats->comms[comm].held)
            ranks[count++] = member;
    }
    if (!count && target != MPI_WHY_NONE && target != index && !is_in_mpi(&work->set->ranks[target]))
        ranks[count++] = target;
    if (!count)
        return;
    struct mpi_why_condition *condition = condition_add(work, list, MPI_WHY_FOR_TARGET);
    condition->call = now->call;
    condition->comm = now->comm;
    condition->peer = now->peer;
    condition->for_ranks = ranks;
    condition->for_count = count;
}

/* false: it is no call of an epoch, or not known for whom it waits. */
static bool need_epoch(struct why_work *work, struct list *list, uint32_t index, const struct mpi_stats_now *now,
                       uint32_t call)
{
    enum mpi_why_reason reason;
    uint32_t count, *ranks = why_epochs(work, index, now->comm, call, &count, &reason);
    if (!count)
        return false;
    struct mpi_why_condition *condition = condition_add(work, list, reason);
    condition->all = true;
    condition->call = now->call;
    condition->comm = now->comm;
    condition->for_ranks = ranks;
    condition->for_count = count;
    if (count == 1)
        condition->peer = work->set->ranks[*ranks].rank;
    return true;
}

/* ---- threads and ranks ---- */

static void need_finalize(struct why_work *work, struct list *list, uint32_t index)
{
    const struct why_world *world = work->world_of[index];
    uint32_t *others = work_alloc(work, world ? world->size : 0, sizeof *others), count = 0;
    for (uint32_t rank = 0; world && rank < world->size && !work->failed; rank++) {
        uint32_t other = world->by_rank[rank];
        if (other != MPI_WHY_NONE && other != index && work->set->ranks[other].state < MPIA_ENDED)
            others[count++] = other;
    }
    if (!count)
        return;
    struct mpi_why_condition *condition = condition_add(work, list, MPI_WHY_FOR_FINALIZE);
    condition->all = true;
    condition->call = CALL_MPI_Finalize;
    condition->for_ranks = others;
    condition->for_count = count;
}

/* MPI_Init takes its time, and most have all ranks meet in it: after that long, for those that have not called it. */
static void need_start(struct why_work *work, struct list *list, uint32_t index, const struct mpi_stats_now *now)
{
    const struct why_world *world = work->world_of[index];
    uint32_t *others = work_alloc(work, world ? world->size : 0, sizeof *others), count = 0;
    for (uint32_t rank = 0; world && rank < world->size && !work->failed; rank++) {
        uint32_t other = world->by_rank[rank];
        const struct mpi_stats *stats = other == MPI_WHY_NONE ? NULL : &work->set->ranks[other];
        if (stats && other != index && stats->running && stats->state == MPIA_LOADED && !is_in_mpi(stats))
            others[count++] = other;
    }
    if (!count || now->age_ns < LOOKED_FACTOR * work->settled_ns)
        return;
    struct mpi_why_condition *condition = condition_add(work, list, MPI_WHY_FOR_FINALIZE);
    condition->all = true;
    condition->call = CALL_MPI_Init;
    condition->for_ranks = others;
    condition->for_count = count;
}

/* thread->state: MPI_WHY_POLLS, for what it polls for. */
static void find_conditions(struct why_work *work, struct mpi_why_thread *thread, uint32_t index)
{
    bool polls = thread->state == MPI_WHY_POLLS;
    const struct mpi_stats_now *now = mpi_why_call_of(thread);
    struct list list = {0};
    uint32_t call = polls ? call_info(now->call)->polls : now->call;
    enum call_waits waits = call_info(call)->waits;
    thread->state = MPI_WHY_WAITS;
    switch (waits) {
    case CALL_WAITS_NONE:
        thread->state = MPI_WHY_MOVES;
        break;
    case CALL_WAITS_SEND:
        need_message(work, &list, index, now->call, now->comm, now->peer, now->tag, false);
        break;
    case CALL_WAITS_RECEIVE:
        need_message(work, &list, index, now->call, now->comm, now->peer, now->tag, true);
        forget_what_may_have_come(work, thread->thread, &list, false);
        break;
    case CALL_WAITS_BOTH:
        need_message(work, &list, index, now->call, now->comm, now->source_peer, now->source_tag, true);
        need_message(work, &list, index, now->call, now->comm, now->peer, now->tag, false);
        for (size_t i = 0; i < list.count && list.count > 1; i++) /* one of the halves may be done */
            list.items[i].maybe = list.items[i].reason == MPI_WHY_FOR_RECEIVE || list.items[i].unmatched;
        forget_what_may_have_come(work, thread->thread, &list, false);
        break;
    case CALL_WAITS_REQUESTS:
    case CALL_WAITS_ANY_REQUEST:
        thread->any = waits == CALL_WAITS_ANY_REQUEST;
        need_requests(work, &list, index, now);
        forget_what_may_have_come(work, thread->thread, &list, !thread->any && list.count > 1);
        break;
    case CALL_WAITS_COLLECTIVE:
        need_collective(work, &list, index, now->call, now->comm, now->peer, now->ordinal);
        break;
    case CALL_WAITS_FINALIZE:
        need_finalize(work, &list, index);
        break;
    case CALL_WAITS_START:
        need_start(work, &list, index, now);
        thread->state = list.count ? MPI_WHY_WAITS : MPI_WHY_STARTS;
        break;
    case CALL_WAITS_TARGET:
        if (now->ordinal)
            need_collective(work, &list, index, now->call, now->comm, now->peer, now->ordinal);
        else if (!need_epoch(work, &list, index, now, call))
            need_target(work, &list, index, now);
        break;
    case CALL_WAITS_IO:
        thread->state = MPI_WHY_IO;
        need_collective(work, &list, index, now->call, now->comm, now->peer, now->ordinal);
        if (list.count)
            thread->state = MPI_WHY_WAITS;
        break;
    case CALL_WAITS_OTHERS:
        need_collective(work, &list, index, now->call, now->comm, now->peer, now->ordinal);
        break;
    }
    if (polls)
        thread->state = MPI_WHY_POLLS;
    thread->conditions = list.items;
    thread->condition_count = work->late ? 0 : list.count;
}

static enum mpi_why_state state_of_ended(const struct mpi_stats *stats)
{
    return stats->state == MPIA_RUNNING || stats->aborted ? MPI_WHY_DIED : MPI_WHY_ENDED;
}

static void rank_examine(struct why_work *work, uint32_t index)
{
    const struct mpi_stats *stats = &work->set->ranks[index];
    struct mpi_why_rank *rank = &work->why->ranks[index];
    struct mpi_why_thread *threads = arena_zalloc(work->arena, stats->thread_count + 1, sizeof *threads);
    *rank = (struct mpi_why_rank){.stats = stats, .root = MPI_WHY_NONE, .threads = threads};
    if (!threads) {
        work->failed = true;
        return;
    }
    rank->state = !stats->running               ? state_of_ended(stats)
                  : stats->state == MPIA_LOADED ? MPI_WHY_STARTS
                                                : MPI_WHY_COMPUTES;
    if (rank->state == MPI_WHY_ENDED || rank->state == MPI_WHY_DIED)
        return;
    rank->thread_count = stats->thread_count;
    for (size_t i = 0; i < stats->thread_count && !work->failed; i++) {
        struct mpi_why_thread *thread = &threads[i];
        thread->thread = &stats->threads[i];
        if (thread->thread->ended) { /* what it was in last means nothing any more */
            thread->state = MPI_WHY_ENDED;
            continue;
        }
        const struct mpi_stats_now *now = &thread->thread->now;
        if (thread->thread->attends == MPI_STOPPED || (thread->thread->held && *thread->thread->held))
            thread->state = MPI_WHY_STOPPED;
        else if (thread->thread->polls && thread->thread->polls_ns >= work->settled_ns) {
            thread->state = MPI_WHY_POLLS;
            find_conditions(work, thread, index);
        } else if (now->call == CALL_NONE)
            thread->state = MPI_WHY_COMPUTES;
        else if (now->age_ns < work->settled_ns)
            thread->state = MPI_WHY_MOVES;
        else
            find_conditions(work, thread, index);
        if (stats->unheard_ns && work->unheard_move &&
            (thread->state == MPI_WHY_WAITS || thread->state == MPI_WHY_POLLS)) {
            thread->state = MPI_WHY_MOVES;
            thread->condition_count = 0;
        }
        if (thread->thread->is_main || (stats->state == MPIA_LOADED && now->call != CALL_NONE))
            rank->shown = i;
    }
    why_actors(work, rank, threads);
    /* The one to tell of. One that polls may be there for the progress of all the others, while the rank computes. */
    for (size_t i = 0; i < stats->thread_count && stats->state != MPIA_LOADED; i++) {
        const struct mpi_why_thread *own = &threads[rank->shown];
        if (own->state == MPI_WHY_COMPUTES &&
            (threads[i].state == MPI_WHY_WAITS || threads[i].state == MPI_WHY_IO ||
             (threads[i].state == MPI_WHY_POLLS && why_joins(stats, own->thread->tid))))
            rank->shown = i;
    }
    enum mpi_why_state shown = stats->thread_count ? threads[rank->shown].state : rank->state;
    if (stats->state != MPIA_LOADED || shown == MPI_WHY_WAITS || shown == MPI_WHY_STOPPED)
        rank->state = shown;
    if (stats->state == MPIA_ENDED && rank->state == MPI_WHY_COMPUTES)
        rank->state = MPI_WHY_ENDED; /* MPI_Finalize returned, the process goes on without MPI */
}

void why_graph(struct why_work *work)
{
    why_groups(work);
    for (uint32_t i = 0; i < work->set->count; i++)
        work->late |= work->set->ranks[i].late;
    for (uint32_t i = 0; i < work->set->count && !work->failed; i++)
        rank_examine(work, i);
}
