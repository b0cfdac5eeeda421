/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two tables of a thread, of call sites and of peers: open-addressed hashes, doubled when they are 3/4 full. A
 * larger one is filled before it takes the place of the smaller. The tables of the shared block have a fixed size, and
 * a row is made by one thread at a time; who finds another one at it leaves its call out, and counts that.
 */
#include "mpi/count/site.h"

enum { SHARED_ROWS = 1024 };

/* ---- growing ---- */

static void table_set(uint32_t *at, uint32_t *mask, uint32_t new_at, uint32_t new_mask)
{
    *at = 0;
    compiler_barrier();
    *mask = new_mask;
    compiler_barrier();
    *at = new_at;
}

static struct mpi_site *site_place(struct mpi_site *sites, uint32_t mask, uint64_t address, uint32_t call)
{
    for (uint32_t i = site_hash(address, call);; i++) {
        struct mpi_site *site = &sites[i & mask];
        if (!site->address || (site->address == address && site->call == call))
            return site;
    }
}

static bool sites_grow(struct mpi_self *self)
{
    struct mpi_thread *thread = self->thread;
    uint32_t rows = self->shared ? SHARED_ROWS : self->sites ? (self->sites_mask + 1) * 2 : MPIA_SITES_FIRST;
    if ((self->shared && self->sites) || rows > MPIA_SITES_MOST)
        return false;
    uint32_t at = pool_take(rows * sizeof(struct mpi_site));
    if (!at)
        return false;
    struct mpi_site *sites = pool_at(at);
    for (uint32_t i = 0; self->sites && i <= self->sites_mask; i++)
        if (self->sites[i].address)
            *site_place(sites, rows - 1, self->sites[i].address, self->sites[i].call) = self->sites[i];
    self->sites = sites;
    self->sites_mask = rows - 1;
    places_forget(self);
    table_set(&thread->sites_at, &thread->sites_mask, at, rows - 1);
    return true;
}

static uint32_t peer_hash(uint32_t comm, int32_t peer, uint32_t call)
{
    return (uint32_t)(((uint64_t)(uint32_t)peer + ((uint64_t)comm << 32 | (uint64_t)call << 20)) *
                          UINT64_C(0x9e3779b97f4a7c15) >>
                      40);
}

static struct mpi_peer *peer_place(struct mpi_peer *peers, uint32_t mask, uint32_t comm, int32_t peer, uint32_t call)
{
    for (uint32_t i = peer_hash(comm, peer, call);; i++) {
        struct mpi_peer *row = &peers[i & mask];
        if (!row->used || peer_is(row, comm, peer, call))
            return row;
    }
}

static bool peers_grow(struct mpi_self *self)
{
    struct mpi_thread *thread = self->thread;
    uint32_t rows = self->shared ? SHARED_ROWS : self->peers ? (self->peers_mask + 1) * 2 : MPIA_PEERS_FIRST;
    if ((self->shared && self->peers) || rows > MPIA_PEERS_MOST)
        return false;
    uint32_t at = pool_take(rows * sizeof(struct mpi_peer));
    if (!at)
        return false;
    struct mpi_peer *peers = pool_at(at);
    for (uint32_t i = 0; self->peers && i <= self->peers_mask; i++) {
        const struct mpi_peer *row = &self->peers[i];
        if (row->used)
            *peer_place(peers, rows - 1, row->comm, row->peer, row->call) = *row;
    }
    self->peers = peers;
    self->peers_mask = rows - 1;
    self->send_peer = self->got_peer = &self_no_peer;
    table_set(&thread->peers_at, &thread->peers_mask, at, rows - 1);
    return true;
}

/* ---- taking over, starting again ---- */

void site_tables_use(struct mpi_self *self)
{
    const struct mpi_thread *thread = self->thread;
    self->sites = thread->sites_at ? pool_at(thread->sites_at) : NULL;
    self->sites_mask = thread->sites_mask;
    self->peers = thread->peers_at ? pool_at(thread->peers_at) : NULL;
    self->peers_mask = thread->peers_mask;
    self->sites_used = self->peers_used = 0;
    for (uint32_t i = 0; self->sites && i <= self->sites_mask; i++)
        self->sites_used += self->sites[i].address != 0;
    for (uint32_t i = 0; self->peers && i <= self->peers_mask; i++)
        self->peers_used += self->peers[i].used != 0;
}

void site_tables_clear(struct mpi_self *self)
{
    for (uint32_t i = 0; self->sites && i <= self->sites_mask; i++) {
        struct mpi_site *site = &self->sites[i];
        site->count = site->ticks = site->min = site->max = site->args_bytes = 0;
    }
    for (uint32_t i = 0; self->peers && i <= self->peers_mask; i++) {
        struct mpi_peer *row = &self->peers[i];
        row->sent_count = row->sent_bytes = row->got_count = row->got_bytes = row->args_bytes = 0;
    }
}

/* ---- making rows ---- */

static _Atomic uint32_t shared_busy;

static bool shared_try(struct mpi_self *self, uint64_t *omitted)
{
    if (!self->shared)
        return true;
    uint32_t free = 0;
    if (!atomic_compare_exchange_strong(&shared_busy, &free, 1)) {
        self_add(self, omitted, 1);
        return false;
    }
    site_tables_use(self); /* another thread may have made them, or filled them up */
    return true;
}

static void shared_done(const struct mpi_self *self)
{
    if (self->shared)
        atomic_store(&shared_busy, 0);
}

static struct mpi_site *site_insert(struct mpi_self *self)
{
    if (!self->sites || self->sites_used >= (self->sites_mask + 1) / 4 * 3)
        if (!sites_grow(self))
            return NULL;
    struct mpi_site *site = site_place(self->sites, self->sites_mask, self->site, self->call);
    if (site->address)
        return site;
    site->call = self->call;
    site->module = module_of(self->site, &site->offset);
    __atomic_store_n(&site->address, self->site, __ATOMIC_RELEASE);
    self->sites_used++;
    return site;
}

struct mpi_site *site_make(struct mpi_self *self)
{
    if (self->sites && self->site) {
        struct mpi_site *site = site_place(self->sites, self->sites_mask, self->site, self->call);
        if (site->address)
            return site;
    }
    struct mpi_site *site = NULL;
    if (!self->site || !shared_try(self, &self->thread->sites_omitted))
        return NULL;
    site = site_insert(self);
    if (!site)
        self_add(self, &self->thread->sites_omitted, 1);
    shared_done(self);
    return site;
}

static struct mpi_peer *peer_insert(struct mpi_self *self, uint32_t comm, int32_t peer, uint32_t call)
{
    if (!self->peers || self->peers_used >= (self->peers_mask + 1) / 4 * 3)
        if (!peers_grow(self))
            return NULL;
    struct mpi_peer *row = peer_place(self->peers, self->peers_mask, comm, peer, call);
    if (row->used)
        return row;
    row->comm = comm;
    row->peer = peer;
    row->call = call;
    __atomic_store_n(&row->used, 1, __ATOMIC_RELEASE);
    self->peers_used++;
    return row;
}

struct mpi_peer *self_peer_find(struct mpi_self *self, uint32_t comm, int32_t peer, uint32_t call)
{
    if (self->peers) {
        struct mpi_peer *row = peer_place(self->peers, self->peers_mask, comm, peer, call);
        if (row->used)
            return row;
    }
    if (!shared_try(self, &self->thread->peers_omitted))
        return NULL;
    struct mpi_peer *row = peer_insert(self, comm, peer, call);
    if (!row)
        self_add(self, &self->thread->peers_omitted, 1);
    shared_done(self);
    return row;
}

struct mpi_peer self_no_peer = {.comm = UINT32_MAX, .call = UINT32_MAX};

void self_sent_slow(struct mpi_self *self, uint32_t comm, int32_t peer, uint32_t call, uint64_t count, uint64_t bytes,
                    uint64_t args_bytes)
{
    struct mpi_peer *row = self->metrics & MPIA_METRIC_PEERS ? self_peer_find(self, comm, peer, call) : NULL;
    if (!row)
        return;
    if (self->fast)
        self->send_peer = row;
    self_add(self, &row->sent_count, count);
    self_add(self, &row->sent_bytes, bytes);
    self_add(self, &row->args_bytes, args_bytes);
}

void self_got_slow(struct mpi_self *self, uint32_t comm, int32_t peer, uint32_t call, uint64_t count, uint64_t bytes)
{
    struct mpi_peer *row = self->metrics & MPIA_METRIC_PEERS ? self_peer_find(self, comm, peer, call) : NULL;
    if (!row)
        return;
    if (self->fast)
        self->got_peer = row;
    self_add(self, &row->got_count, count);
    self_add(self, &row->got_bytes, bytes);
}
