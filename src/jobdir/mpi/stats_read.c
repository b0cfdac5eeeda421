/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/record/parts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONCE(field) (*(const volatile __typeof__(field) *)&(field))

struct take {
    const struct mpi_area *area; /* live */
    uint64_t now, latest, rate;  /* ticks; per second */
    bool ticking;                /* its clocks run: after MPI_Init, before MPI_Finalize */
    bool brief;                  /* no lists of ranks */
    struct arena *arena;
    struct mpi_module *modules; /* a copy */
    uint32_t module_count;
    struct mpi_site *sites; /* copies, by address */
    size_t site_count;
    uint32_t main;                       /* the thread that is the rank: its block; MPIA_THREADS: none has called MPI */
    uint32_t comm_index[MPIA_COMMS];     /* by number: index in stats.comms */
    uint32_t thread_index[MPIA_THREADS]; /* likewise, in stats.threads */
};

static int take_distributions(const struct take *take, struct mpi_stats *stats);
static const struct mpi_thread *take_thread(const struct take *take, uint32_t index);
static uint64_t take_ns(const struct take *take, uint64_t ticks);

/* ---- the area of a process: each number of it is read once ---- */

#define ORDERED(field) atomic_load_explicit(&(field), memory_order_acquire)

static inline uint64_t take_plus(uint64_t one, uint64_t other)
{
    uint64_t sum;
    return __builtin_add_overflow(one, other, &sum) ? UINT64_MAX : sum;
}

static void take_stable(void *to, const void *from, size_t size);
static const char *take_text(struct arena *arena, const char *from, size_t size);
static uint32_t take_comm(const struct take *take, uint32_t number);

/* Of an MPI area: where calls come from, and whom messages are exchanged with: the tables of all threads, added up. */

/* A table of `mask` + 1 rows of 64 bytes. NULL: none, or not one. */
static const void *table_at(const struct take *take, uint32_t at, uint32_t mask, uint32_t most)
{
    if (mask >= most || (mask & (mask + 1)))
        return NULL;
    return mpi_pool_at((void *)(uintptr_t)take->area, at, ((uint64_t)mask + 1) * 64);
}

/* ---- modules and places ---- */

/* In module number `module` at `offset`; UINT32_MAX: not known, then `address` is all there is. */
static void put_place(const struct take *take, struct mpi_stats_site *site, uint32_t module, uint64_t address,
                      uint64_t offset)
{
    static const char digits[] = "0123456789abcdef";
    site->module = site->build_id = site->function = site->file = "";
    site->offset = address;
    if (module >= take->module_count)
        return;
    const struct mpi_module *from = &take->modules[module];
    char *id = arena_alloc(take->arena, 2 * sizeof from->build_id + 1);
    if (!id)
        return;
    size_t len = from->build_id_size < sizeof from->build_id ? from->build_id_size : sizeof from->build_id;
    for (size_t i = 0; i < len; i++) {
        id[2 * i] = digits[from->build_id[i] >> 4];
        id[2 * i + 1] = digits[from->build_id[i] & 15];
    }
    id[2 * len] = 0;
    site->build_id = id;
    site->module = take_text(take->arena, from->path, sizeof from->path);
    site->offset = offset;
}

/* 0 or -ENOMEM. */
static int take_modules(struct take *take)
{
    uint32_t count = ORDERED(take->area->module_count);
    take->module_count = count < MPIA_MODULES ? count : MPIA_MODULES;
    take->modules = arena_alloc(take->arena, (take->module_count + 1) * sizeof *take->modules);
    if (!take->modules)
        return -ENOMEM;
    for (uint32_t i = 0; i < take->module_count; i++)
        take->modules[i] = *mpi_module_at((void *)(uintptr_t)take->area, i);
    return 0;
}

/* ---- call sites ---- */

static int by_place(const void *a, const void *b)
{
    const struct mpi_site *one = a, *other = b;
    if (one->address != other->address)
        return one->address < other->address ? -1 : 1;
    return one->call < other->call ? -1 : one->call > other->call;
}

static int by_time(const void *a, const void *b)
{
    const struct mpi_stats_site *one = a, *other = b;
    if (one->total_ns != other->total_ns)
        return one->total_ns < other->total_ns ? 1 : -1;
    if (one->offset != other->offset)
        return one->offset < other->offset ? -1 : 1;
    return one->call < other->call ? -1 : one->call > other->call;
}

/* Copies the used rows of the tables of all threads one after the other. */
struct gathered {
    void *rows; /* 64 bytes each; malloc'ed */
    size_t count;
    size_t main_from, main_count; /* those of the thread that is the rank */
    bool failed;
};

static void places_gather(const struct take *take, struct gathered *out, bool sites)
{
    size_t room = 0;
    *out = (struct gathered){0};
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *thread = take_thread(take, i);
        if (!thread)
            continue;
        if (i == take->main)
            out->main_from = out->count;
        uint32_t mask = sites ? ONCE(thread->sites_mask) : ONCE(thread->peers_mask);
        uint32_t at = sites ? ONCE(thread->sites_at) : ONCE(thread->peers_at);
        const uint8_t *table = at ? table_at(take, at, mask, sites ? MPIA_SITES_MOST : MPIA_PEERS_MOST) : NULL;
        for (uint32_t k = 0; table && k <= mask; k++) {
            union {
                struct mpi_site site;
                struct mpi_peer peer;
            } row;
            const struct mpi_site *site = (const void *)(table + 64 * (size_t)k);
            const struct mpi_peer *peer = (const void *)site;
            if (sites ? !ONCE(site->address) : !ONCE(peer->used))
                continue;
            take_stable(&row, site, sizeof row);
            if (sites ? row.site.call == CALL_NONE || row.site.call >= CALL_COUNT : row.peer.call >= CALL_COUNT)
                continue;
            if (out->count == room) {
                room = room ? 2 * room : 256;
                void *grown = realloc(out->rows, room * 64);
                if (!grown) {
                    out->failed = true;
                    return;
                }
                out->rows = grown;
            }
            memcpy((uint8_t *)out->rows + 64 * out->count++, &row, 64);
            out->main_count += i == take->main;
        }
    }
}

/* What of each site, which are by place, is not the rank's own. */
static void take_others(const struct take *take, struct mpi_stats_site *stats, const struct mpi_site *own,
                        size_t own_count)
{
    for (size_t i = 0; i < take->site_count; i++) {
        const struct mpi_site *all = &take->sites[i];
        const struct mpi_site *rank = own_count ? bsearch(all, own, own_count, sizeof *own, by_place) : NULL;
        stats[i].others_count = all->count - (rank ? rank->count : 0);
        stats[i].others_ns = take_ns(take, all->ticks - (rank ? rank->ticks : 0));
    }
}

static int take_sites(struct take *take, struct mpi_stats *stats)
{
    struct gathered all;
    places_gather(take, &all, true);
    struct mpi_site *sites = all.rows;
    struct mpi_site *own = arena_alloc(take->arena, (all.main_count + 1) * sizeof *own);
    size_t count = 0;
    if (own && all.main_count) {
        memcpy(own, sites + all.main_from, all.main_count * sizeof *own);
        qsort(own, all.main_count, sizeof *own, by_place);
    }
    if (all.count)
        qsort(sites, all.count, sizeof *sites, by_place);
    for (size_t i = 0; i < all.count; i++) {
        if (sites[i].min > sites[i].max)
            sites[i].min = sites[i].max;
        if (!count || by_place(&sites[count - 1], &sites[i]) != 0) {
            sites[count++] = sites[i];
            continue;
        }
        struct mpi_site *sum = &sites[count - 1];
        if (!sites[i].count)
            continue;
        if (!sum->count)
            sum->min = sites[i].min;
        sum->count = take_plus(sum->count, sites[i].count);
        sum->ticks = take_plus(sum->ticks, sites[i].ticks);
        sum->args_bytes = take_plus(sum->args_bytes, sites[i].args_bytes);
        sum->min = sites[i].min < sum->min ? sites[i].min : sum->min;
        sum->max = sites[i].max > sum->max ? sites[i].max : sum->max;
    }
    stats->sites = arena_zalloc(take->arena, count + 1, sizeof *stats->sites);
    take->sites = arena_alloc(take->arena, (count + 1) * sizeof *take->sites);
    if (all.failed || !own || !stats->sites || !take->sites) {
        free(sites);
        return -ENOMEM;
    }
    stats->site_count = take->site_count = count;
    for (size_t i = 0; i < count; i++) {
        const struct mpi_site *from = take->sites + i;
        take->sites[i] = sites[i];
        stats->sites[i] = (struct mpi_stats_site){.call = from->call,
                                                  .count = from->count,
                                                  .total_ns = take_ns(take, from->ticks),
                                                  .min_ns = take_ns(take, from->min),
                                                  .max_ns = take_ns(take, from->max),
                                                  .args_bytes = from->args_bytes};
        put_place(take, &stats->sites[i], from->module, from->address, from->offset);
    }
    free(sites);
    take_others(take, stats->sites, own, all.main_count);
    qsort(stats->sites, count, sizeof *stats->sites, by_time);
    return 0;
}

/* Of an address alone: by the sites that are known. All sites of a module have the same distance to its file's
 * addresses. */
/* Of an address alone: by the sites that are known. All sites of a module have the same distance to its file's
 * addresses. */
static void take_place(const struct take *take, struct mpi_stats_site *site, uint32_t call, uint64_t address)
{
    *site = (struct mpi_stats_site){.call = call, .module = "", .build_id = "", .function = "", .file = ""};
    if (!address)
        return;
    put_place(take, site, UINT32_MAX, address, 0);
    for (size_t i = 0; i < take->site_count; i++) {
        const struct mpi_site *known = &take->sites[i];
        const struct mpi_module *module = known->module < take->module_count ? &take->modules[known->module] : NULL;
        if (!module || address < module->base || address >= module->end)
            continue;
        put_place(take, site, known->module, address, known->offset + (address - known->address));
        return;
    }
}

/* The call that comes from there; CALL_NONE: not known, or several do. */
static uint32_t take_call_at(const struct take *take, uint64_t address)
{
    uint32_t call = CALL_NONE;
    for (size_t i = 0; i < take->site_count && address; i++) {
        if (take->sites[i].address != address)
            continue;
        if (call != CALL_NONE && call != take->sites[i].call)
            return CALL_NONE;
        call = take->sites[i].call;
    }
    return call;
}

/* ---- peers ---- */

static int by_peer(const void *a, const void *b)
{
    const struct mpi_peer *one = a, *other = b;
    if (one->comm != other->comm)
        return one->comm < other->comm ? -1 : 1;
    if (one->call != other->call)
        return one->call < other->call ? -1 : 1;
    return one->peer < other->peer ? -1 : one->peer > other->peer;
}

static int take_peers(struct take *take, struct mpi_stats *stats)
{
    struct gathered all;
    places_gather(take, &all, false);
    struct mpi_peer *peers = all.rows;
    size_t count = 0;
    for (size_t i = 0; i < all.count; i++)
        peers[i].comm = take_comm(take, peers[i].comm);
    if (all.count)
        qsort(peers, all.count, sizeof *peers, by_peer);
    for (size_t i = 0; i < all.count; i++) {
        struct mpi_peer *sum = count ? &peers[count - 1] : NULL;
        if (!sum || by_peer(sum, &peers[i]) != 0) {
            peers[count++] = peers[i];
            continue;
        }
        sum->sent_count = take_plus(sum->sent_count, peers[i].sent_count);
        sum->sent_bytes = take_plus(sum->sent_bytes, peers[i].sent_bytes);
        sum->got_count = take_plus(sum->got_count, peers[i].got_count);
        sum->got_bytes = take_plus(sum->got_bytes, peers[i].got_bytes);
        sum->args_bytes = take_plus(sum->args_bytes, peers[i].args_bytes);
    }
    stats->peers = arena_zalloc(take->arena, count + 1, sizeof *stats->peers);
    for (size_t i = 0; stats->peers && i < count; i++)
        stats->peers[stats->peer_count++] = (struct mpi_stats_peer){.comm = peers[i].comm,
                                                                    .peer = peers[i].peer,
                                                                    .call = peers[i].call,
                                                                    .sent_count = peers[i].sent_count,
                                                                    .sent_bytes = peers[i].sent_bytes,
                                                                    .got_count = peers[i].got_count,
                                                                    .got_bytes = peers[i].got_bytes,
                                                                    .args_bytes = peers[i].args_bytes};
    free(peers);
    return all.failed || !stats->peers ? -ENOMEM : 0;
}

/*
 * From an MPI area to statistics (jobdir/mpi/stats.h). The process may be writing to that memory, or over it: each
 * number is read once and checked before it is used, and what belongs together is read until it agrees.
 */

enum {
    TRIES = 64, /* to read something that is being written */
    RATE_LEAST = 1000000,
    COMM_SIZE_MOST = 1 << 22, /* of a communicator whose ranks are not listed */
};

/* ---- reading ---- */

/* Reads at most 128 bytes until they are the same twice: nothing wrote to them between, or only the last time of many.
 */
/* Until it is the same twice: then nobody wrote to it meanwhile, or only the last time of many. */
static void take_stable(void *to, const void *from, size_t size)
{
    unsigned char again[128];
    for (unsigned i = 0; i < TRIES; i++) {
        memcpy(to, from, size);
        atomic_thread_fence(memory_order_acquire);
        memcpy(again, from, size);
        atomic_thread_fence(memory_order_acquire);
        if (memcmp(to, again, size) == 0)
            return;
    }
}
_Static_assert(sizeof(struct mpi_row) <= 128 && sizeof(struct mpi_request) <= 128, "fit copy_stable");

/* What a thread is in, and its clocks: what happens between two calls changes all of it or nothing. false: it is in the
 * middle of writing, and stays there (it was killed, or the memory was written over). */
struct moment {
    struct mpi_now now;
    struct mpi_outermost outermost;
    struct mpi_blocking blocking;
};

static bool copy_moment(struct moment *to, const struct mpi_thread *live)
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint32_t seq = ORDERED(live->now.seq);
        memcpy(&to->now, &live->now, sizeof to->now);
        memcpy(&to->outermost, &live->outermost, sizeof to->outermost);
        memcpy(&to->blocking, &live->blocking, sizeof to->blocking);
        atomic_thread_fence(memory_order_acquire);
        if (seq % 2 == 0 && atomic_load_explicit(&live->now.seq, memory_order_relaxed) == seq)
            return true;
    }
    return false;
}

static const char *take_text(struct arena *arena, const char *from, size_t size)
{
    const char *text = arena_dup(arena, from, size);
    return text ? text : ""; /* up to its first NUL */
}

static uint64_t take_ns(const struct take *take, uint64_t ticks)
{
    unsigned __int128 ns = (unsigned __int128)ticks * NS_PER_SECOND / take->rate;
    return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

static uint64_t span_ticks(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

/* NULL: not in use. The last one may be that of all threads that found no other: it has counts, but no clocks, and
 * is in no call. */
static const struct mpi_thread *take_thread(const struct take *take, uint32_t index)
{
    const struct mpi_thread *thread = mpi_thread_at((void *)(uintptr_t)take->area, index);
    uint32_t state = ORDERED(thread->state);
    return state == MPIA_THREAD_USED || state == MPIA_THREAD_SHARED ? thread : NULL;
}

static bool take_is_shared(const struct mpi_thread *thread)
{
    return ORDERED(thread->state) == MPIA_THREAD_SHARED;
}

/* As mpi_report_main(). */
static uint32_t find_main(const struct take *take)
{
    uint32_t first = MPIA_THREADS;
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *thread = take_thread(take, i);
        if (!thread || take_is_shared(thread))
            continue;
        if (ONCE(thread->is_main))
            return i;
        first = i < first ? i : first;
    }
    return first;
}

/* The clock never runs backwards, but memory that was written over may say anything. */
static void see_time(struct take *take, uint64_t ticks)
{
    if (ticks > take->latest)
        take->latest = ticks;
}

/* ---- rows ---- */

struct sum {
    uint64_t count, ticks, min, max, args, sent, got, others_count, others_ticks;
};

static void add_row(struct sum *sum, const struct mpi_row *live, bool is_main)
{
    struct mpi_row row;
    if (!ONCE(live->count))
        return;
    take_stable(&row, live, sizeof row);
    if (!row.count)
        return;
    if (row.min > row.max)
        row.min = row.max;
    if (!sum->count || row.min < sum->min)
        sum->min = row.min;
    if (row.max > sum->max)
        sum->max = row.max;
    sum->count = take_plus(sum->count, row.count);
    sum->ticks = take_plus(sum->ticks, row.ticks);
    sum->args = take_plus(sum->args, row.args_bytes);
    sum->sent = take_plus(sum->sent, row.sent_bytes);
    sum->got = take_plus(sum->got, row.got_bytes);
    if (is_main)
        return;
    sum->others_count = take_plus(sum->others_count, row.count);
    sum->others_ticks = take_plus(sum->others_ticks, row.ticks);
}

static int take_rows(const struct take *take, bool spans, struct mpi_stats_row **ret_rows, size_t *ret_count)
{
    struct sum sums[CALL_COUNT] = {0};
    size_t count = 0;
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *thread = take_thread(take, i);
        for (uint32_t call = 1; thread && call < CALL_COUNT; call++)
            add_row(&sums[call], spans ? &thread->spans[call] : &thread->rows[call], i == take->main);
    }
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        count += sums[call].count != 0;
    struct mpi_stats_row *rows = arena_zalloc(take->arena, count + 1, sizeof *rows);
    if (!rows)
        return -ENOMEM;
    *ret_rows = rows;
    *ret_count = count;
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (sums[call].count)
            *rows++ = (struct mpi_stats_row){.call = call,
                                             .count = sums[call].count,
                                             .total_ns = take_ns(take, sums[call].ticks),
                                             .min_ns = take_ns(take, sums[call].min),
                                             .max_ns = take_ns(take, sums[call].max),
                                             .args_bytes = sums[call].args,
                                             .sent_bytes = sums[call].sent,
                                             .got_bytes = sums[call].got,
                                             .others_count = sums[call].others_count,
                                             .others_ns = take_ns(take, sums[call].others_ticks)};
    return 0;
}

/* ---- communicators, peers, requests ---- */

static const int32_t *take_ranks(const struct take *take, uint32_t at, uint32_t size)
{
    const int32_t *from = at ? mpi_pool_at((void *)(uintptr_t)take->area, at, (uint64_t)size * sizeof *from) : NULL;
    int32_t *ranks = from && size ? arena_alloc(take->arena, size * sizeof *ranks) : NULL;
    for (uint32_t i = 0; ranks && i < size; i++) {
        int32_t rank = ONCE(from[i]);
        ranks[i] = rank < MPIA_RANK_FOREIGN ? MPIA_RANK_FOREIGN : rank;
    }
    return ranks;
}

static int take_comms(struct take *take, struct mpi_stats *stats)
{
    uint32_t used = ORDERED(take->area->comm_count);
    if (used > MPIA_COMMS)
        used = MPIA_COMMS;
    stats->comms = arena_zalloc(take->arena, used + 1, sizeof *stats->comms);
    if (!stats->comms)
        return -ENOMEM;
    for (uint32_t i = 0; i < MPIA_COMMS; i++)
        take->comm_index[i] = UINT32_MAX;
    for (uint32_t i = 0; i < used; i++) {
        const struct mpi_comm *live = mpi_comm_at((void *)(uintptr_t)take->area, i);
        uint32_t kind = ORDERED(live->kind);
        if (kind == MPIA_COMM_FREE || kind > MPIA_COMM_FILE)
            continue;
        struct mpi_comm from = *live;
        struct mpi_stats_comm *comm = &stats->comms[stats->comm_count];
        take->comm_index[i] = (uint32_t)stats->comm_count++;
        *comm = (struct mpi_stats_comm){
            .kind = kind,
            .number = i,
            .parent = from.parent < MPIA_COMMS ? from.parent : UINT32_MAX,
            .ordinal = from.ordinal,
            .call = from.call < CALL_COUNT ? from.call : CALL_NONE,
            .lowest = from.lowest,
            .size = from.size,
            .rank = from.rank,
            .remote_size = from.remote_size,
            .ended = from.ended != 0,
            .collectives = from.collectives,
            .held = from.held,
            .ranks = take->brief ? NULL : take_ranks(take, from.ranks_at, from.size),
            .remote_ranks = take->brief ? NULL : take_ranks(take, from.remote_at, from.remote_size),
            .name = take_text(take->arena, from.name, sizeof from.name),
            .identity = from.identity & INT64_MAX,
            .meeting = from.meeting & INT64_MAX,
        };
        if (!comm->ranks && comm->size > COMM_SIZE_MOST)
            comm->size = 0;
        if (!comm->remote_ranks && comm->remote_size > COMM_SIZE_MOST)
            comm->remote_size = 0;
    }
    return 0;
}

static uint32_t take_comm(const struct take *take, uint32_t number)
{
    return number < MPIA_COMMS ? take->comm_index[number] : UINT32_MAX;
}

/* One that is in use, and was not given to another operation while it was copied. */
static bool copy_request(struct mpi_request *to, const struct mpi_request *live)
{
    uint64_t handle = ORDERED(live->handle);
    if (handle <= 1 || ORDERED(live->call) == CALL_NONE)
        return false;
    take_stable(to, live, sizeof *to);
    return to->handle == handle && to->call != CALL_NONE && to->call < CALL_COUNT;
}

static int take_requests(struct take *take, struct mpi_stats *stats)
{
    size_t count = 0;
    struct mpi_request from;
    for (uint32_t i = 0; i < MPIA_REQUESTS; i++)
        count += ORDERED(mpi_request_at((void *)(uintptr_t)take->area, i)->handle) > 1;
    stats->requests = arena_zalloc(take->arena, count + 1, sizeof *stats->requests);
    if (!stats->requests)
        return -ENOMEM;
    for (uint32_t i = 0; i < MPIA_REQUESTS && stats->request_count < count; i++) {
        if (!copy_request(&from, mpi_request_at((void *)(uintptr_t)take->area, i)))
            continue;
        stats->requests[stats->request_count++] = (struct mpi_stats_request){
            .call = from.call,
            .comm = take_comm(take, from.comm),
            .flags = from.flags,
            .peer = mpi_rank_shown(from.peer),
            .tag = from.tag,
            .thread = from.thread < MPIA_THREADS ? take->thread_index[from.thread] : UINT32_MAX,
            .ordinal = from.ordinal,
            .bytes = from.bytes,
            .age_ns = take_ns(take, span_ticks(from.since, take->now)),
            .handle = from.handle,
        };
    }
    return 0;
}

/* ---- threads ---- */

/* With what goes on since the last communication, unless the clock has stopped. */
static void take_clock(const struct take *take, struct mpi_stats_clock *ret_clock, const struct mpi_clock *from,
                       const struct mpi_now *now, bool in_call)
{
    struct mpi_clock clock = *from;
    uint64_t whole = span_ticks(clock.first, clock.last), computes = 0, communicates = 0;
    if (clock.compute + clock.communicate != whole || clock.communicate > whole) { /* memory that was written over */
        clock.communicate = clock.communicate < whole ? clock.communicate : whole;
        clock.compute = whole - clock.communicate;
    }
    if (clock.first && take->ticking && take->now > clock.last) {
        bool inside = in_call && now->since >= clock.last && now->since <= take->now;
        uint64_t until = inside ? now->since : take->now;
        computes = until - clock.last;
        communicates = take->now - until;
    }
    ret_clock->total_ns = take_ns(take, take_plus(whole, computes + communicates));
    ret_clock->communicate_ns = take_ns(take, take_plus(clock.communicate, communicates));
    if (ret_clock->communicate_ns > ret_clock->total_ns)
        ret_clock->communicate_ns = ret_clock->total_ns;
    ret_clock->compute_ns = ret_clock->total_ns - ret_clock->communicate_ns;
    ret_clock->count = clock.count;
    ret_clock->compute_open_ns = take_ns(take, computes);
    ret_clock->communicate_open_ns = take_ns(take, communicates);
    ret_clock->compute_min_ns = take_ns(take, clock.compute_min);
    ret_clock->compute_max_ns = take_ns(take, clock.compute_max);
    ret_clock->communicate_min_ns = take_ns(take, clock.communicate_min);
    ret_clock->communicate_max_ns = take_ns(take, clock.communicate_max);
}

/* What a thread is in; `call`: CALL_NONE, it computes. */
static void take_now(const struct take *take, struct mpi_stats_now *ret_now, const struct mpi_now *from, uint32_t call)
{
    *ret_now = (struct mpi_stats_now){.peer = MPIA_RANK_NONE,
                                      .tag = MPIA_TAG_NONE,
                                      .source_peer = MPIA_RANK_NONE,
                                      .source_tag = MPIA_TAG_NONE,
                                      .comm = UINT32_MAX,
                                      .age_ns = take_ns(take, span_ticks(from->since, take->now))};
    take_place(take, &ret_now->site, CALL_NONE, 0);
    if (call == CALL_NONE)
        return;
    ret_now->call = call;
    ret_now->peer = mpi_rank_shown(from->peer);
    ret_now->tag = from->tag;
    ret_now->source_peer = mpi_rank_shown(from->source_peer);
    ret_now->source_tag = from->source_tag;
    ret_now->comm = take_comm(take, from->comm);
    ret_now->ordinal = from->ordinal;
    ret_now->flags = from->flags;
    ret_now->waiting = from->waiting;
    ret_now->bytes = from->bytes;
    ret_now->offset = from->offset;
    memcpy(ret_now->waits, from->waits, sizeof ret_now->waits);
    take_place(take, &ret_now->site, call, from->site);
}

static void take_one(struct take *take, const struct mpi_thread *live, struct mpi_stats_thread *thread)
{
    struct moment moment;
    bool known = copy_moment(&moment, live);
    struct mpi_now *now = &moment.now;
    bool in_call = known && now->call != CALL_NONE && now->call < CALL_COUNT && now->since >= moment.outermost.last;
    if (!in_call)
        now->since = moment.outermost.last; /* it computes since then */
    *thread = (struct mpi_stats_thread){.tid = (int32_t)ONCE(live->tid),
                                        .is_main = ONCE(live->is_main) != 0,
                                        .name = take_text(take->arena, live->name, sizeof live->name),
                                        .held = "",
                                        .errors = ONCE(live->errors)};
    struct mpi_clock outermost = mpi_clock_outermost(&moment.outermost);
    struct mpi_clock blocking = mpi_clock_blocking(&moment.outermost, &moment.blocking);
    take_clock(take, &thread->outermost, &outermost, now, in_call);
    take_clock(take, &thread->blocking, &blocking, now, in_call && call_infos[now->call].blocking);
    take_now(take, &thread->now, now, in_call ? now->call : CALL_NONE);
    /* All but the call stays until the next one begins; that is known by where it was. */
    take_now(take, &thread->last, now, known && now->call == CALL_NONE ? take_call_at(take, now->site) : CALL_NONE);
}

static int take_threads(struct take *take, struct mpi_stats *stats)
{
    stats->threads = arena_zalloc(take->arena, MPIA_THREADS, sizeof *stats->threads);
    if (!stats->threads)
        return -ENOMEM;
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *live = mpi_thread_at((void *)(uintptr_t)take->area, i);
        bool used = take_thread(take, i), shared = i == MPIA_THREADS - 1;
        take->thread_index[i] = UINT32_MAX;
        if (used && !take_is_shared(live)) {
            take->thread_index[i] = (uint32_t)stats->thread_count;
            take_one(take, live, &stats->threads[stats->thread_count++]);
        }
        if (!used && !shared) /* the shared one says, too, how many calls of threads found no room at all */
            continue;
        stats->sites_omitted = take_plus(stats->sites_omitted, ONCE(live->sites_omitted));
        stats->peers_omitted = take_plus(stats->peers_omitted, ONCE(live->peers_omitted));
        stats->requests_omitted = take_plus(stats->requests_omitted, ONCE(live->requests_omitted));
        stats->polls_untimed = take_plus(stats->polls_untimed, ONCE(live->polls_untimed));
        stats->receives_freed = take_plus(stats->receives_freed, ONCE(live->receives_freed));
    }
    stats->omitted = take_plus(stats->omitted, stats->sites_omitted);
    stats->omitted = take_plus(stats->omitted, stats->peers_omitted);
    stats->omitted = take_plus(stats->omitted, stats->requests_omitted);
    return 0;
}

/* The rank's clock stands while nothing is counted: its begin is moved on by that. */
static uint64_t take_paused(const struct take *take)
{
    const struct mpi_area *area = take->area;
    const struct mpi_thread *live = take->main < MPIA_THREADS ? take_thread(take, take->main) : NULL;
    struct moment moment;
    if (!live || !copy_moment(&moment, live) || !moment.outermost.first)
        return 0;
    uint64_t init_return = ONCE(area->init_return), finalize_enter = ONCE(area->finalize_enter), ticks = 0;
    bool runs = ORDERED(area->state) == MPIA_RUNNING && !(ORDERED(area->on) && !ORDERED(area->pcontrol));
    if (init_return && !ORDERED(area->reset))
        ticks = span_ticks(init_return, moment.outermost.first);
    if (finalize_enter || runs)
        ticks = take_plus(ticks, span_ticks(moment.outermost.last, finalize_enter ? finalize_enter : take->now));
    return take_ns(take, ticks);
}

/* ---- the whole ---- */

/* The last time that stands in the area: when the process ended is not known better. */
static void find_latest(struct take *take)
{
    const struct mpi_area *area = take->area;
    see_time(take, ONCE(area->init_enter));
    see_time(take, ONCE(area->init_return));
    see_time(take, ONCE(area->finalize_enter));
    see_time(take, ONCE(area->finalize_return));
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *thread = take_thread(take, i);
        if (!thread || take_is_shared(thread))
            continue;
        see_time(take, ONCE(thread->outermost.last));
        see_time(take, ONCE(thread->now.since));
    }
    take->now = take->latest;
}

static void take_head(struct take *take, struct mpi_stats *stats)
{
    static const char *const libraries[] = {"", "openmpi", "mpich"};
    const struct mpi_area *area = take->area;
    struct arena *arena = take->arena;
    uint32_t library = ONCE(area->library);
    uint64_t init_enter = ONCE(area->init_enter), init_return = ONCE(area->init_return);
    uint64_t finalize_enter = ONCE(area->finalize_enter), finalize_return = ONCE(area->finalize_return);
    *stats = (struct mpi_stats){
        .name = "",
        .node = "",
        .exe = "",
        .processor = take_text(arena, area->processor, sizeof area->processor),
        .library = library <= MPIA_LIBRARY_MPICH ? libraries[library] : "",
        .library_version = take_text(arena, area->version_text, sizeof area->version_text),
        .namespace = take_text(arena, area->namespace, sizeof area->namespace),
        .fault = take_text(arena, area->fault, sizeof area->fault),
        .pid = area->pid,
        .rank = ONCE(area->rank),
        .world_size = ONCE(area->world_size),
        .thread_level = ONCE(area->thread_level),
        .state = ORDERED(area->state),
        .aborted = ORDERED(area->aborted) != 0,
        .abort_code = ONCE(area->abort_code),
        .spawned = ONCE(area->parent_world) != 0,
        .uncounted = !ORDERED(area->on) || ORDERED(area->pcontrol),
        .late = ONCE(area->late) != 0,
        .unrecorded = ORDERED(area->unrecorded) != 0,
        .started_wall_ns = ONCE(area->init_wall_ns),
        .omitted = ORDERED(area->pool_refused),
    };
    if (stats->state > MPIA_OFF)
        stats->state = MPIA_OFF;
    take->ticking = stats->state == MPIA_RUNNING && ORDERED(area->on) && !ORDERED(area->pcontrol) &&
                    ORDERED(area->metrics) & MPIA_METRIC_CLOCKS;
    if (init_enter)
        stats->init_ns = take_ns(take, span_ticks(init_enter, init_return ? init_return : take->now));
    stats->resets = ORDERED(area->reset);
    if (init_return && ORDERED(area->reset_at))
        stats->reset_ns = take_ns(take, span_ticks(init_return, ORDERED(area->reset_at)));
    if (finalize_enter)
        stats->finalize_ns = take_ns(take, span_ticks(finalize_enter, finalize_return ? finalize_return : take->now));
}

static int take_begin(struct take *take, struct mpi_stats *stats, const void *area, uint64_t now_ticks,
                      struct arena *arena)
{
    *take = (struct take){.area = area, .now = now_ticks, .arena = arena};
    if (take->area->magic != MPIA_AREA_MAGIC || take->area->version != MPIA_AREA_VERSION ||
        take->area->calls_hash != CALLS_HASH || take->area->size != MPIA_AREA_SIZE)
        return -EBADMSG;
    take->rate = ORDERED(take->area->ticks_per_second);
    if (take->rate < RATE_LEAST)
        take->rate = NS_PER_SECOND;
    take->main = find_main(take);
    if (!now_ticks)
        find_latest(take);
    take_head(take, stats);
    return 0;
}

/* What is switched off, and was so all the time. */
static void take_unmeasured(const struct take *take, struct mpi_stats *stats)
{
    uint32_t metrics = ORDERED(take->area->metrics);
    stats->clocks_off = !(metrics & MPIA_METRIC_CLOCKS);
    for (size_t i = 0; i < stats->thread_count; i++)
        stats->clocks_off = stats->clocks_off && !stats->threads[i].outermost.total_ns;
    stats->peers_off = !(metrics & MPIA_METRIC_PEERS) && !stats->peer_count;
    stats->requests_off =
        !(metrics & (MPIA_METRIC_REQUESTS | MPIA_METRIC_TELL | MPIA_METRIC_MESSAGES)) && !stats->span_count;
}

int mpi_stats_take_now(struct mpi_stats *ret_stats, const void *area, uint64_t now_ticks, struct arena *arena)
{
    struct take take;
    struct mpi_stats stats;
    int code = take_begin(&take, &stats, area, now_ticks, arena);
    take.brief = true;
    if (code == 0)
        code = take_comms(&take, &stats);
    if (code == 0)
        code = take_threads(&take, &stats);
    if (code == 0 && arena->failed)
        code = -ENOMEM;
    if (code == 0) {
        take_unmeasured(&take, &stats);
        *ret_stats = stats;
    }
    return code;
}

int mpi_stats_take(struct mpi_stats *ret_stats, const void *area, uint64_t now_ticks, struct arena *arena)
{
    struct take take;
    struct mpi_stats stats;
    int code = take_begin(&take, &stats, area, now_ticks, arena);
    if (code == 0)
        code = take_modules(&take);
    if (code == 0)
        code = take_comms(&take, &stats);
    if (code == 0)
        code = take_rows(&take, false, &stats.rows, &stats.row_count);
    if (code == 0)
        code = take_rows(&take, true, &stats.spans, &stats.span_count);
    if (code == 0)
        code = take_sites(&take, &stats);
    if (code == 0)
        code = take_peers(&take, &stats);
    if (code == 0)
        code = take_threads(&take, &stats);
    if (code == 0)
        stats.paused_ns = take_paused(&take);
    if (code == 0)
        code = take_requests(&take, &stats);
    if (code == 0)
        code = take_distributions(&take, &stats);
    if (code == 0 && arena->failed)
        code = -ENOMEM;
    if (code == 0) {
        take_unmeasured(&take, &stats);
        *ret_stats = stats;
    }
    return code;
}

/*
 * Distributions of an MPI area: the histograms of all threads, added up, with the bounds of their buckets in
 * nanoseconds or bytes. Histograms of different resolution are added at the coarser one: its buckets are unions of the
 * finer one's.
 */

enum { BUCKETS_MOST = (MPIA_OCTAVES - MPIA_BITS_MOST + 1) << MPIA_BITS_MOST };

struct histogram { /* live buckets, checked */
    const uint64_t *buckets;
    uint32_t bits, count;
    uint64_t total;
};

static bool histogram_at(const struct take *take, uint32_t at, struct histogram *ret_histogram)
{
    void *area = (void *)(uintptr_t)take->area;
    const struct mpi_histogram *live = at ? mpi_pool_at(area, at, sizeof *live) : NULL;
    uint32_t bits = live ? ONCE(live->bits) : UINT32_MAX;
    if (bits > MPIA_BITS_MOST || ONCE(live->bucket_count) != mpi_bucket_count(bits))
        return false;
    uint32_t count = mpi_bucket_count(bits);
    if (!mpi_pool_at(area, at, sizeof *live + (uint64_t)count * sizeof *live->buckets))
        return false;
    *ret_histogram = (struct histogram){live->buckets, bits, count, ONCE(live->total)};
    return true;
}

/* What a bucket holds is below this. */
static uint64_t bucket_end(uint32_t bucket, uint32_t bits)
{
    return bucket + 1 < mpi_bucket_count(bits) ? mpi_bucket_low(bucket + 1, bits) : UINT64_MAX;
}

/* ---- adding up ---- */

struct merged {
    uint64_t buckets[BUCKETS_MOST], total;
    uint32_t bits;
    bool any;
};

static void histograms_merge(const struct take *take, struct merged *merged, const uint32_t *at, size_t count)
{
    struct histogram histogram;
    memset(merged, 0, sizeof *merged);
    merged->bits = MPIA_BITS_MOST;
    for (size_t i = 0; i < count; i++)
        if (histogram_at(take, at[i], &histogram) && histogram.bits < merged->bits)
            merged->bits = histogram.bits;
    for (size_t i = 0; i < count; i++) {
        if (!histogram_at(take, at[i], &histogram) || histogram.bits < merged->bits)
            continue;
        merged->total += histogram.total;
        for (uint32_t k = 0; k < histogram.count; k++) {
            uint64_t values = ONCE(histogram.buckets[k]);
            if (!values)
                continue;
            uint64_t low = mpi_bucket_low(k, histogram.bits);
            merged->buckets[histogram.bits == merged->bits ? k : mpi_bucket(low, merged->bits)] += values;
            merged->any = true;
        }
    }
}

/* Buckets that are narrower than a nanosecond fall together. */
static int put_distribution(const struct take *take, struct mpi_stats *stats, struct merged *merged, const char *name,
                            bool is_time)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < mpi_bucket_count(merged->bits); i++) {
        if ((int64_t)merged->buckets[i] < 0)
            merged->buckets[i] = 0; /* its parts are not of one moment */
        used += merged->buckets[i] != 0;
    }
    if (!used)
        return 0;
    if ((int64_t)merged->total < 0)
        merged->total = 0;
    struct mpi_stats_bucket *buckets = arena_alloc(take->arena, used * sizeof *buckets);
    if (!buckets || !name)
        return -ENOMEM;
    struct mpi_stats_distribution *distribution = &stats->distributions[stats->distribution_count++];
    *distribution = (struct mpi_stats_distribution){.name = name,
                                                    .is_time = is_time,
                                                    .total = is_time ? take_ns(take, merged->total) : merged->total,
                                                    .buckets = buckets};
    for (uint32_t i = 0; i < mpi_bucket_count(merged->bits); i++) {
        if (!merged->buckets[i])
            continue;
        uint64_t from = mpi_bucket_low(i, merged->bits), to = bucket_end(i, merged->bits);
        if (is_time) {
            from = take_ns(take, from);
            to = to == UINT64_MAX ? to : take_ns(take, to);
        }
        if (to <= from)
            to = from + 1;
        struct mpi_stats_bucket *last = distribution->count ? &buckets[distribution->count - 1] : NULL;
        if (last && from < last->to) {
            last->to = to > last->to ? to : last->to;
            last->count += merged->buckets[i];
        } else {
            buckets[distribution->count++] = (struct mpi_stats_bucket){from, to, merged->buckets[i]};
        }
    }
    return 0;
}

/* ---- which there are ---- */

static int of_call(const struct take *take, struct mpi_stats *stats, struct merged *merged, uint32_t call)
{
    enum { LATENCY, SIZE, COMPLETION, KINDS };
    static const char *const names[KINDS] = {"latency", "size", "completion"};
    uint32_t at[KINDS][MPIA_THREADS] = {{0}};
    bool any[KINDS] = {false};
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *thread = take_thread(take, i);
        if (!thread)
            continue;
        at[LATENCY][i] = ONCE(thread->rows[call].ticks_at);
        at[SIZE][i] = ONCE(thread->rows[call].bytes_at);
        at[COMPLETION][i] = ONCE(thread->spans[call].ticks_at);
        for (unsigned kind = 0; kind < KINDS; kind++)
            any[kind] |= at[kind][i] != 0;
    }
    int code = 0;
    for (unsigned kind = 0; kind < KINDS && code == 0; kind++) {
        if (!any[kind])
            continue;
        histograms_merge(take, merged, at[kind], MPIA_THREADS);
        if (merged->any)
            code =
                put_distribution(take, stats, merged,
                                 arena_printf(take->arena, "%s.%s", call_infos[call].name, names[kind]), kind != SIZE);
    }
    return code;
}

/* The distributions that make up one of a thread's clocks (struct mpi_blocking): appended to a list. */
enum clock_kind { COMPUTATION, COMMUNICATION, BLOCKING_COMPUTATION, BLOCKING_COMMUNICATION, CLOCK_KINDS };

static size_t parts_of(const struct mpi_thread *thread, enum clock_kind kind, uint32_t *at)
{
    size_t count = 0;
    bool blocking = kind == BLOCKING_COMMUNICATION;
    if (kind == COMPUTATION || kind == BLOCKING_COMPUTATION) {
        at[count++] = ONCE(thread->outermost.compute_at);
        if (kind == BLOCKING_COMPUTATION)
            at[count++] = ONCE(thread->blocking.compute_at);
        return count;
    }
    at[count++] = blocking ? ONCE(thread->blocking.communicate_at) : ONCE(thread->outermost.communicate_at);
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (!mpi_call_is_untimed(call) && (!blocking || call_infos[call].blocking) && ONCE(thread->rows[call].ticks_at))
            at[count++] = thread->rows[call].ticks_at;
    return count;
}

/* Of the thread that is the rank; where none is known to be it, of all. */
static int of_clocks(const struct take *take, struct mpi_stats *stats, struct merged *merged)
{
    static const char *const names[CLOCK_KINDS] = {"computation", "communication", "blocking.computation",
                                                   "blocking.communication"};
    uint32_t *at = arena_alloc(take->arena, (size_t)MPIA_THREADS * (CALL_COUNT + 2) * sizeof *at);
    bool has_main = false;
    int code = at ? 0 : -ENOMEM;
    for (size_t i = 0; i < stats->thread_count; i++)
        has_main |= stats->threads[i].is_main;
    for (unsigned kind = 0; kind < CLOCK_KINDS && code == 0; kind++) {
        size_t count = 0;
        for (uint32_t i = 0; i < MPIA_THREADS; i++) {
            const struct mpi_thread *thread = take_thread(take, i);
            if (thread && !take_is_shared(thread) && (!has_main || ONCE(thread->is_main)))
                count += parts_of(thread, kind, at + count);
        }
        histograms_merge(take, merged, at, count);
        code = put_distribution(take, stats, merged, names[kind], true);
    }
    return code;
}

static int take_distributions(const struct take *take, struct mpi_stats *stats)
{
    struct merged *merged = arena_alloc(take->arena, sizeof *merged);
    stats->distributions = arena_zalloc(take->arena, 3 * CALL_COUNT + 4, sizeof *stats->distributions);
    if (!merged || !stats->distributions)
        return -ENOMEM;
    int code = of_clocks(take, stats, merged);
    for (uint32_t call = 1; call < CALL_COUNT && code == 0; call++)
        code = of_call(take, stats, merged, call);
    return code;
}

/* Statistics of many MPI processes (jobdir/mpi/stats.h): without a JSON library, for the monitor. */

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

/* The files of statistics of MPI in a job directory (jobdir/mpi/stats.h). What cannot be read is said and left out. */

/* ---- all of a job ---- */

struct reading {
    struct mpi_stats_set set;
    bool found;      /* there is a folder of them */
    const char *dir; /* that is read, of the set */
    int unreadable;
    struct err *err; /* of the first */
};

static void note_unreadable(struct reading *reading, const char *path, int code, const struct err *why)
{
    if (!reading->unreadable++ && *why->text)
        err_set(reading->err, code, "%s: %s", path, why->text);
    else if (reading->unreadable == 1)
        err_errno(reading->err, code, "%s", path);
}

/* NODE/PID-N of PID-N.json */
static bool name_of(const char *node, const char *file, char *ret_name, size_t size)
{
    int pid, incarnation, end = 0;
    if (!isdigit((unsigned char)*file) || sscanf(file, "%d-%d%n", &pid, &incarnation, &end) != 2 ||
        strcmp(file + end, ".json") != 0)
        return false;
    return snprintf(ret_name, size, "%s/%.*s", node, end, file) < (int)size;
}

static int read_one(struct reading *reading, const char *path, const char *name)
{
    struct mpi_stats_set *set = &reading->set;
    _cleanup_(freep) char *bytes = NULL;
    size_t size;
    struct err why = {.text = ""};
    struct mpi_stats *stats = mpi_stats_set_next(set);
    if (!stats)
        return -ENOMEM;
    int code = file_read_plain(path, &bytes, &size);
    if (code == 0)
        code = mpi_stats_parse(stats, bytes, size, set->arena, &why);
    if (code == -ENOMEM)
        return code;
    if (code < 0) {
        note_unreadable(reading, path, code, &why);
        return 0;
    }
    stats->name = arena_dup(set->arena, name, strlen(name));
    stats->dir = reading->dir;
    set->count += stats->name != NULL;
    return stats->name ? 0 : -ENOMEM;
}

static int read_node(struct reading *reading, const char *dir, const char *node)
{
    char path[PATH_MAX], name[PATH_MAX];
    int code = 0;
    if (snprintf(path, sizeof path, "%s/%s", dir, node) >= (int)sizeof path)
        return 0;
    DIR *files = opendir(path);
    for (struct dirent *entry; files && code == 0 && (entry = readdir(files));)
        if (name_of(node, entry->d_name, name, sizeof name) &&
            snprintf(path, sizeof path, "%s/%s/%s", dir, node, entry->d_name) < (int)sizeof path)
            code = read_one(reading, path, name);
    if (files)
        closedir(files);
    return code;
}

/* Of the job, or of one of its parts. */
static int read_dir(void *ctx, const char *dir)
{
    struct reading *reading = ctx;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/stats", dir) >= (int)sizeof path)
        return -ENAMETOOLONG;
    DIR *nodes = opendir(path);
    if (!nodes && errno == ENOENT)
        return 0;
    if (!nodes)
        return err_errno(reading->err, -errno, "%s", path);
    reading->found = true;
    reading->dir = mpi_stats_set_text(&reading->set, dir);
    int code = reading->dir ? 0 : -ENOMEM;
    for (struct dirent *entry; code == 0 && (entry = readdir(nodes));)
        if (entry->d_name[0] != '.')
            code = read_node(reading, path, entry->d_name);
    closedir(nodes);
    return code;
}

int mpi_stats_read(struct mpi_stats_set *ret_set, const char *jobdir, struct err *err)
{
    struct reading reading = {.err = err};
    int code = job_dirs_each(jobdir, read_dir, &reading);
    if (code == 0 && !reading.found)
        code = err_errno(err, -ENOENT, "%s/stats", jobdir);
    if (code < 0) {
        mpi_stats_set_done(&reading.set);
        return code == -ENOMEM ? err_set(err, code, "out of memory") : code;
    }
    mpi_stats_set_sort(&reading.set);
    *ret_set = reading.set;
    return reading.unreadable;
}

/* ---- distributions ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mpi_stats_distribution *)a)->name, ((const struct mpi_stats_distribution *)b)->name);
}

static bool is_distribution(const char *file)
{
    size_t len = strlen(file);
    return len > strlen(".dist") && strcmp(file + len - strlen(".dist"), ".dist") == 0;
}

int mpi_stats_read_distributions(struct mpi_stats *stats, const char *jobdir, struct arena *arena, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 256];
    struct reading reading = {.err = err};
    struct mpi_stats_distribution *list = NULL;
    size_t count = 0, room = 0;
    int code = 0;
    if (snprintf(dir, sizeof dir, "%s/stats/%s", stats->dir ? stats->dir : jobdir, stats->name) >= (int)sizeof dir)
        return err_set(err, -ENAMETOOLONG, "%s: the path is too long", jobdir);
    DIR *files = opendir(dir);
    for (struct dirent *entry; files && code == 0 && (entry = readdir(files));) {
        _cleanup_(freep) char *bytes = NULL;
        size_t size;
        struct err why = {.text = ""};
        if (!is_distribution(entry->d_name))
            continue;
        if (count == room) {
            room = room ? 2 * room : 32;
            struct mpi_stats_distribution *grown = arena_alloc(arena, room * sizeof *grown);
            if (!grown) {
                code = -ENOMEM;
                break;
            }
            if (count)
                memcpy(grown, list, count * sizeof *grown);
            list = grown;
        }
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        int bad = file_read_plain(path, &bytes, &size);
        if (bad == 0)
            bad = mpi_stats_parse_distribution(&list[count], bytes, size, arena, &why);
        if (bad == -ENOMEM)
            code = bad;
        else if (bad < 0)
            note_unreadable(&reading, path, bad, &why);
        else
            count++;
    }
    if (files)
        closedir(files);
    if (code < 0)
        return err_set(err, code, "out of memory");
    if (count)
        qsort(list, count, sizeof *list, by_name);
    stats->distributions = list;
    stats->distribution_count = count;
    return reading.unreadable;
}
