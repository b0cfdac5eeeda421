/* SPDX-License-Identifier: Apache-2.0 */
/* Of an MPI area: where calls come from, and whom messages are exchanged with: the tables of all threads, added up. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/mpi/stats_take.h"

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

int take_modules(struct take *take)
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

static void gather(const struct take *take, struct gathered *out, bool sites)
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

int take_sites(struct take *take, struct mpi_stats *stats)
{
    struct gathered all;
    gather(take, &all, true);
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
void take_place(const struct take *take, struct mpi_stats_site *site, uint32_t call, uint64_t address)
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

uint32_t take_call_at(const struct take *take, uint64_t address)
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

int take_peers(struct take *take, struct mpi_stats *stats)
{
    struct gathered all;
    gather(take, &all, false);
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
