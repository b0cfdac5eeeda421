/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/count/comm.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "mpi/count/process.h"
#include "shm/mpi_told.h"

enum {
    HANDLE_FREE,
    HANDLE_USED,
    HANDLE_BUSY,
    CHUNK = 256,             /* ranks translated at a time */
    POOL_SHARE = 1536 << 10, /* bytes of the pool that ranks may take: the rest is for counting */
    GROUPS = 256,
    PROBES = 64,
};

static struct comm_info infos[COMM_SLOTS];
static struct comm_info unknown = {.number = UINT32_MAX, .handle = UINT64_MAX};
static MPI_Group world_group;
static uint32_t world_size;
static _Atomic uint64_t pool_share;

struct comm_info *comm_unknown(void)
{
    return &unknown;
}

/* ---- the table ---- */

static uint32_t handle_hash(uint64_t handle)
{
    return (uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (COMM_SLOTS - 1);
}

static struct comm_info *table_find(uint64_t handle)
{
    if (handle <= HANDLE_BUSY)
        return NULL;
    uint32_t at = handle_hash(handle);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct comm_info *info = &infos[(at + i) & (COMM_SLOTS - 1)];
        uint64_t there = atomic_load_explicit(&info->handle, memory_order_acquire);
        if (there == handle)
            return info;
        if (there == HANDLE_FREE)
            return NULL;
    }
    return NULL;
}

struct comm_info *comm_lookup(struct mpi_self *self, uint64_t handle)
{
    struct comm_info *info = table_find(handle);
    if (!info)
        return &unknown;
    self->comm = info;
    return info;
}

struct comm_info *comm_of_number(uint32_t number)
{
    struct mpi_comm *shown = number < MPIA_COMMS - 1 ? mpi_comm_at(mpi_hot.area, number) : NULL;
    struct comm_info *info = shown && !shown->ended ? table_find(shown->handle) : NULL;
    return info && info->number == number ? info : NULL;
}

static struct comm_info *table_take(uint64_t handle)
{
    uint32_t at = handle_hash(handle);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct comm_info *info = &infos[(at + i) & (COMM_SLOTS - 1)];
        uint64_t there = atomic_load_explicit(&info->handle, memory_order_relaxed);
        if (there <= HANDLE_USED && atomic_compare_exchange_strong(&info->handle, &there, HANDLE_BUSY)) {
            if (info->private_size)
                munmap(info->private_ranks, info->private_size);
            memset((uint8_t *)info + sizeof info->handle, 0, sizeof *info - sizeof info->handle);
            return info;
        }
    }
    return NULL;
}

void comm_forget(uint64_t handle)
{
    struct comm_info *info = table_find(handle);
    if (!info)
        return;
    if (info->shown && info->number != MPIA_COMMS - 1)
        info->shown->ended = 1;
    atomic_store(&info->handle, HANDLE_USED);
}

/* ---- what is shown in the area ---- */

static void text_copy(char *to, const char *from, size_t size)
{
    size_t length = 0;
    for (; length < size - 1 && from[length]; length++)
        to[length] = from[length];
    memset(to + length, 0, size - length);
}

void comm_name(struct comm_info *info, const char *name)
{
    if (info->shown && name && info->number != MPIA_COMMS - 1)
        text_copy(info->shown->name, name, sizeof info->shown->name);
}

void comm_met(struct comm_info *info, uint64_t meeting)
{
    if (info->shown && info->number != MPIA_COMMS - 1)
        info->shown->meeting = meeting;
}

/* Gives it a number. Where none is left, the last one stands for all others. */
static void show(struct comm_info *info, uint32_t kind, const struct comm_info *parent, uint32_t call, uint32_t ordinal)
{
    struct mpi_area *area = mpi_hot.area;
    uint32_t number = atomic_fetch_add(&area->comm_count, 1);
    if (number >= MPIA_COMMS) {
        atomic_store(&area->comm_count, MPIA_COMMS);
        number = MPIA_COMMS - 1;
    }
    info->number = number;
    info->kind = kind;
    struct mpi_comm *shown = info->shown = mpi_comm_at(area, number);
    if (number == MPIA_COMMS - 1) {
        text_copy(shown->name, "(others)", sizeof shown->name);
        shown->parent = UINT32_MAX;
        shown->ranks_at = shown->remote_at = MPIA_RANKS_UNKNOWN;
        atomic_store(&shown->kind, MPIA_COMM_INTRA);
        return;
    }
    shown->handle = atomic_load(&info->handle);
    shown->parent = parent ? parent->number : UINT32_MAX;
    shown->ordinal = ordinal;
    shown->call = call;
    shown->created = ticks_now();
    shown->lowest = MPIA_RANK_NONE;
}

static void publish(struct comm_info *info, uint64_t handle)
{
    if (info->number != MPIA_COMMS - 1) {
        info->shown->handle = handle;
        atomic_store(&info->shown->kind, info->kind);
    }
    atomic_store(&info->handle, handle);
}

/* ---- ranks of the world ---- */

struct ranks {
    const int32_t *ranks; /* NULL: rank i is world rank i */
    uint32_t at;          /* as in struct mpi_comm */
    int32_t lowest;
    uint64_t hash; /* of all of them, in their order */
    void *memory;  /* where it is not the pool's */
    uint64_t memory_size;
};

static int32_t *ranks_allocate(struct ranks *ranks, uint32_t size)
{
    uint64_t bytes = (uint64_t)size * sizeof(int32_t);
    if (atomic_fetch_add(&pool_share, bytes) + bytes <= POOL_SHARE && (ranks->at = pool_take(bytes)) != 0)
        return pool_at(ranks->at);
    ranks->at = MPIA_RANKS_UNKNOWN;
    int error = errno;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = error;
    if (memory == MAP_FAILED)
        return NULL;
    ranks->memory_size = bytes;
    return ranks->memory = memory;
}

/* Ranks [from, from + count) of the group; those of another world are foreign. */
static bool translate(MPI_Group group, uint32_t from, uint32_t count, int32_t *ret_ranks)
{
    int in[CHUNK], out[CHUNK];
    for (uint32_t i = 0; i < count; i++)
        in[i] = (int)(from + i);
    if (mpi_library.Group_translate_ranks(group, (int)count, in, world_group, out) != MPI_SUCCESS)
        return false;
    for (uint32_t i = 0; i < count; i++)
        ret_ranks[i] = out[i] == MPI_UNDEFINED ? MPIA_RANK_FOREIGN : out[i];
    return true;
}

static bool ranks_take(MPI_Group group, uint32_t size, struct ranks *ranks)
{
    int32_t chunk[CHUNK];
    bool same = size <= world_size;
    *ranks = (struct ranks){.lowest = INT32_MAX};
    for (uint32_t from = 0; from < size; from += CHUNK) {
        uint32_t count = size - from < CHUNK ? size - from : CHUNK;
        if (!translate(group, from, count, chunk))
            return false;
        for (uint32_t i = 0; i < count; i++) {
            same = same && chunk[i] == (int32_t)(from + i);
            if (chunk[i] >= 0 && chunk[i] < ranks->lowest)
                ranks->lowest = chunk[i];
            ranks->hash = (ranks->hash ^ (uint32_t)chunk[i]) * UINT64_C(0x9e3779b97f4a7c15);
            ranks->hash ^= ranks->hash >> 29;
        }
    }
    if (ranks->lowest == INT32_MAX)
        ranks->lowest = MPIA_RANK_FOREIGN;
    if (same)
        return true;
    int32_t *list = ranks_allocate(ranks, size);
    for (uint32_t from = 0; list && from < size; from += CHUNK)
        translate(group, from, size - from < CHUNK ? size - from : CHUNK, list + from);
    for (uint32_t i = 0; list && i < size; i++)
        if (list[i] == MPIA_RANK_FOREIGN)
            list[i] = MPIA_RANK_OTHERS - (int32_t)i;
    ranks->ranks = list;
    return list != NULL;
}

/* The local or the remote group of a valid communicator. */
static bool group_take(MPI_Comm comm, bool remote, struct ranks *ranks, uint32_t *ret_size)
{
    MPI_Group group = mpi_library.group_null;
    int size = 0;
    if ((remote ? mpi_library.Comm_remote_group(comm, &group) : mpi_library.Comm_group(comm, &group)) != MPI_SUCCESS)
        return false;
    bool taken = mpi_library.Group_size(group, &size) == MPI_SUCCESS && ranks_take(group, (uint32_t)size, ranks);
    *ret_size = (uint32_t)size;
    mpi_library.Group_free(&group);
    return taken;
}

/* ---- topologies: how many neighbours there are ---- */

static void cart_take(struct comm_info *info, MPI_Comm comm)
{
    int dims = 0;
    if (mpi_library.Cartdim_get(comm, &dims) != MPI_SUCCESS)
        return;
    for (int i = 0; i < dims; i++) {
        int source = MPI_PROC_NULL, sink = MPI_PROC_NULL;
        if (mpi_library.Cart_shift(comm, i, 1, &source, &sink) != MPI_SUCCESS)
            return;
        int neighbours[2] = {source, sink}; /* in the order of neighbourhood collectives */
        for (int k = 0; k < 2; k++)
            if (neighbours[k] == MPI_PROC_NULL && 2 * i + k < 64)
                info->null_sources |= UINT64_C(1) << (2 * i + k);
    }
    info->null_sinks = info->null_sources;
    info->sources = info->sinks = (uint32_t)(2 * dims);
}

static void topology_take(struct comm_info *info, MPI_Comm comm)
{
    int kind = MPI_UNDEFINED, in = 0, out = 0, weighted = 0;
    if (mpi_library.Topo_test(comm, &kind) != MPI_SUCCESS)
        return;
    if (kind == MPI_CART)
        cart_take(info, comm);
    else if (kind == MPI_GRAPH && mpi_library.Graph_neighbors_count(comm, (int)info->rank, &in) == MPI_SUCCESS)
        info->sources = info->sinks = (uint32_t)in;
    else if (kind == MPI_DIST_GRAPH &&
             mpi_library.Dist_graph_neighbors_count(comm, &in, &out, &weighted) == MPI_SUCCESS) {
        info->sources = (uint32_t)in;
        info->sinks = (uint32_t)out;
    }
}

/* ---- noting ---- */

static struct {
    _Atomic uint64_t key;
    _Atomic uint32_t count;
} groups[GROUPS]; /* how often each was made */

/* How often this was asked with the same key before; UINT32_MAX: there are too many. */
static uint32_t times_of(uint64_t key)
{
    for (uint32_t i = 0; i < GROUPS; i++) {
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&groups[i].key, &there, key) || there == key)
            return atomic_fetch_add(&groups[i].count, 1);
    }
    return UINT32_MAX;
}

bool comm_begun_late;

static uint64_t made_of(uint64_t parent, uint32_t ordinal, int32_t lowest)
{
    return comm_begun_late ? MPI_IDENTITY_NONE : mpi_comm_identity(parent, ordinal, lowest);
}

/* One between two groups that have no parent in common: by its members, all of which make the same ones. */
static uint64_t identity_between(const struct ranks *own, const struct ranks *remote)
{
    uint64_t key = (own->hash + remote->hash) | 1;
    uint32_t times = times_of(key);
    return times == UINT32_MAX ? MPI_IDENTITY_NONE : made_of(key, times, 0);
}

static uint64_t identity_of(const struct comm_info *info, const struct comm_info *parent, uint32_t ordinal,
                            const struct ranks *own, const struct ranks *remote)
{
    bool inter = info->kind == MPIA_COMM_INTER;
    int32_t lowest = inter && remote->lowest < own->lowest ? remote->lowest : own->lowest;
    if (inter && (!parent || parent->kind != MPIA_COMM_INTER))
        return identity_between(own, remote);
    return parent && parent->shown ? made_of(parent->shown->identity, ordinal, lowest) : MPI_IDENTITY_NONE;
}

static void comm_take(struct comm_info *info, MPI_Comm comm, const struct comm_info *parent, uint32_t ordinal)
{
    struct mpi_comm *shown = info->shown;
    struct mpi_comm others; /* the entry of all others is nobody's own */
    if (info->number == MPIA_COMMS - 1)
        shown = &others;
    struct ranks own = {0}, remote = {0};
    int inter = 0, rank = 0;
    if (mpi_library.Comm_test_inter(comm, &inter) == MPI_SUCCESS && inter)
        info->kind = MPIA_COMM_INTER;
    if (mpi_library.Comm_rank(comm, &rank) == MPI_SUCCESS)
        info->rank = shown->rank = (uint32_t)rank;
    bool known = group_take(comm, false, &own, &info->size);
    shown->size = info->targets = info->size;
    shown->ranks_at = known ? own.at : MPIA_RANKS_UNKNOWN;
    shown->lowest = own.lowest;
    info->ranks = own.ranks;
    struct ranks *wanted = &own;
    if (info->kind == MPIA_COMM_INTER) {
        wanted = &remote;
        known = group_take(comm, true, &remote, &info->targets);
        shown->remote_size = info->targets;
        shown->remote_at = known ? remote.at : MPIA_RANKS_UNKNOWN;
        info->ranks = remote.ranks;
        if (own.memory)
            munmap(own.memory, own.memory_size);
    } else
        topology_take(info, comm);
    info->private_ranks = wanted->memory;
    info->private_size = wanted->memory_size;
    shown->identity = known ? identity_of(info, parent, ordinal, &own, &remote) : MPI_IDENTITY_NONE;
    if (!known)
        info->targets = 0; /* nobody's rank rather than a wrong one */
}

static struct comm_info *note(struct mpi_self *self, uint64_t handle, uint32_t kind, const struct comm_info *parent,
                              uint32_t call, uint32_t ordinal)
{
    if (!mpi_hot.area || !world_size || handle <= HANDLE_BUSY)
        return NULL;
    comm_forget(handle); /* freed out of our sight */
    struct comm_info *info = table_take(handle);
    if (info)
        show(info, kind, parent && parent->shown ? parent : NULL, call, ordinal);
    return info;
}

static struct comm_info *note_comm(struct mpi_self *self, MPI_Comm made, const struct comm_info *parent, uint32_t call,
                                   uint32_t ordinal)
{
    struct comm_info *info = note(self, HANDLE_OF(made), MPIA_COMM_INTRA, parent, call, ordinal);
    if (!info)
        return &unknown;
    comm_take(info, made, parent, ordinal);
    publish(info, HANDLE_OF(made));
    return info;
}

void COLD comm_note(struct mpi_self *self, MPI_Comm made, struct comm_info *parent, uint32_t call, uint32_t ordinal)
{
    note_comm(self, made, parent, call, ordinal);
}

struct comm_info *COLD comm_adopt(struct mpi_self *self, MPI_Comm comm)
{
    if (HANDLE_OF(comm) == HANDLE_OF(mpi_library.comm_null) || !mpi_hot.area ||
        atomic_load(&mpi_hot.area->state) != MPIA_RUNNING || !world_size)
        return &unknown;
    return note_comm(self, comm, NULL, CALL_NONE, 0);
}

/* The same group(s) as another one, whose lists of ranks it shares. */
static void copy_from(struct comm_info *info, const struct comm_info *parent)
{
    struct mpi_comm others = {0}, *shown = info->number == MPIA_COMMS - 1 ? &others : info->shown;
    const struct mpi_comm *from = parent->shown;
    info->size = parent->size;
    info->rank = parent->rank;
    info->targets = parent->private_size ? 0 : parent->targets;
    info->ranks = parent->private_size ? NULL : parent->ranks;
    shown->size = from->size;
    shown->rank = from->rank;
    shown->remote_size = from->remote_size;
    shown->ranks_at = from->ranks_at;
    shown->remote_at = from->remote_at;
    shown->lowest = from->lowest;
    shown->identity = made_of(from->identity, shown->ordinal, parent->kind == MPIA_COMM_INTER ? 0 : from->lowest);
}

void COLD comm_note_copy(struct mpi_self *self, MPI_Comm made, struct comm_info *parent, uint32_t call,
                         uint32_t ordinal)
{
    struct comm_info *info = note(self, HANDLE_OF(made), parent->kind, parent, call, ordinal);
    if (!info)
        return;
    info->sources = parent->sources;
    info->sinks = parent->sinks;
    info->null_sources = parent->null_sources;
    info->null_sinks = parent->null_sinks;
    if (parent->shown)
        copy_from(info, parent);
    publish(info, HANDLE_OF(made));
}

void COLD comm_note_window(struct mpi_self *self, MPI_Win made, struct comm_info *parent, uint32_t call)
{
    struct comm_info *info = note(self, HANDLE_OF(made), MPIA_COMM_WINDOW, parent, call, comm_made(parent));
    if (!info)
        return;
    if (parent->shown)
        copy_from(info, parent);
    publish(info, HANDLE_OF(made));
}

void COLD comm_note_file(struct mpi_self *self, MPI_File made, struct comm_info *parent, uint32_t call,
                         const char *path)
{
    struct comm_info *info = note(self, FILE_OF(made), MPIA_COMM_FILE, parent, call, comm_made(parent));
    if (!info)
        return;
    if (parent->shown)
        copy_from(info, parent);
    size_t length = path ? strlen(path) : 0;
    if (path)
        comm_name(info, length < MPIA_NAME ? path : path + length - (MPIA_NAME - 1));
    publish(info, FILE_OF(made));
}

uint32_t comm_made(struct comm_info *parent)
{
    return parent->shown ? atomic_fetch_add(&parent->made, 1) + 1 : 0;
}

/* ---- groups ---- */

void comm_group_each(MPI_Group group, void (*fn)(void *ctx, int32_t rank), void *ctx)
{
    int size = 0;
    int32_t chunk[CHUNK];
    if (!world_size || mpi_library.Group_size(group, &size) != MPI_SUCCESS)
        return;
    for (uint32_t from = 0; from < (uint32_t)size; from += CHUNK) {
        uint32_t count = (uint32_t)size - from < CHUNK ? (uint32_t)size - from : CHUNK;
        if (!translate(group, from, count, chunk))
            return;
        for (uint32_t i = 0; i < count; i++)
            if (chunk[i] >= 0)
                fn(ctx, chunk[i]);
    }
}

uint32_t COLD comm_made_by_group(struct comm_info *parent, MPI_Group group, int tag)
{
    int size = 0;
    uint64_t key = (uint64_t)(uint32_t)tag * UINT64_C(0x100000001b3);
    if (!parent->shown || !world_size || mpi_library.Group_size(group, &size) != MPI_SUCCESS)
        return 0;
    key += parent->shown->identity; /* numbers differ between the ranks */
    int32_t chunk[CHUNK];
    for (uint32_t from = 0; from < (uint32_t)size; from += CHUNK) {
        uint32_t count = (uint32_t)size - from < CHUNK ? (uint32_t)size - from : CHUNK;
        if (!translate(group, from, count, chunk))
            return 0;
        for (uint32_t i = 0; i < count; i++)
            key = (key ^ (uint32_t)chunk[i]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    key |= 1;
    uint32_t times = times_of(key);
    times = times == UINT32_MAX ? 0 : times;
    return UINT32_C(0x80000000) | (uint32_t)((key >> 20) + times);
}

/* ---- the start ---- */

void comm_start(void)
{
    struct mpi_area *area = mpi_hot.area;
    int size = 0, rank = 0;
    MPI_Comm parent = mpi_library.comm_null;
    if (mpi_library.Comm_size(mpi_library.comm_world, &size) != MPI_SUCCESS ||
        mpi_library.Comm_rank(mpi_library.comm_world, &rank) != MPI_SUCCESS ||
        mpi_library.Comm_group(mpi_library.comm_world, &world_group) != MPI_SUCCESS)
        return;
    world_size = (uint32_t)size;
    area->rank = rank;
    area->world_size = size;
    struct comm_info *world = note_comm(NULL, mpi_library.comm_world, NULL, CALL_MPI_Init, 0);
    comm_name(world, "MPI_COMM_WORLD");
    struct comm_info *own = note_comm(NULL, mpi_library.comm_self, NULL, CALL_MPI_Init, 0);
    comm_name(own, "MPI_COMM_SELF");
    if (world->shown)
        world->shown->identity = MPI_IDENTITY_WORLD;
    if (own->shown)
        own->shown->identity = MPI_IDENTITY_SELF;
    if (mpi_library.Comm_get_parent(&parent) == MPI_SUCCESS && HANDLE_OF(parent) != HANDLE_OF(mpi_library.comm_null)) {
        area->parent_world = 1;
        comm_name(note_comm(NULL, parent, NULL, CALL_MPI_Comm_get_parent, 0), "MPI_COMM_PARENT");
    }
}

void comm_end(void)
{
    if (HANDLE_OF(world_group) && HANDLE_OF(world_group) != HANDLE_OF(mpi_library.group_null))
        mpi_library.Group_free(&world_group);
    world_size = 0; /* nothing is translated from now on */
}
