/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/count/process.h"

#include "mpi/count/comm.h"
#include "mpi/count/type.h"
#include "shm/area.h"

#include <errno.h>
#include <link.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

#pragma GCC visibility pop

#pragma GCC visibility push(hidden)

#pragma GCC visibility pop

uint32_t pool_take(uint64_t size)
{
    struct mpi_area *area = mpi_hot.area;
    size = MPIA_ALIGN(size, 64);
    uint64_t used = atomic_load_explicit(&area->pool_used, memory_order_relaxed);
    do {
        if (used > MPIA_AREA_SIZE - MPIA_POOL_AT || size > MPIA_AREA_SIZE - MPIA_POOL_AT - used) {
            atomic_fetch_add(&area->pool_refused, size);
            return 0;
        }
    } while (!atomic_compare_exchange_weak(&area->pool_used, &used, used + size));
    return (uint32_t)(MPIA_POOL_AT + used);
}

uint32_t histogram_bits(void)
{
    uint32_t bits = atomic_load_explicit(&mpi_hot.area->bits, memory_order_relaxed);
    return bits == 0 ? MPIA_BITS_DEFAULT : bits > MPIA_BITS_MOST ? MPIA_BITS_MOST : bits;
}

void COLD histogram_make(const struct mpi_self *self, uint32_t *at)
{
    uint32_t bits = self->bits, count = mpi_bucket_count(bits);
    uint32_t made = pool_take(sizeof(struct mpi_histogram) + count * sizeof(uint64_t));
    if (made) {
        struct mpi_histogram *histogram = pool_at(made);
        histogram->bits = bits;
        histogram->bucket_count = count;
    }
    /* of the threads that share a block one makes it; what another one has taken meanwhile stays unused */
    uint32_t none = 0;
    __atomic_compare_exchange_n(at, &none, made ? made : POOL_REFUSED, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

uint32_t histogram_clear(const struct mpi_self *self, uint32_t at)
{
    if (at <= POOL_REFUSED)
        return at;
    struct mpi_histogram *histogram = pool_at(at);
    if (histogram->bits != self->bits)
        return 0;
    histogram->total = 0;
    for (uint32_t i = 0; i < histogram->bucket_count; i++)
        histogram->buckets[i] = 0;
    return at;
}

/*
 * The two tables of a thread, of call sites and of peers: open-addressed hashes, doubled when they are 3/4 full. A
 * larger one is filled before it takes the place of the smaller. The tables of the shared block have a fixed size, and
 * a row is made by one thread at a time; who finds another one at it leaves its call out, and counts that.
 */

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

/* The row of (comm, peer, call), or NULL if there is no room; it was counted then. */
static struct mpi_peer *self_peer_find(struct mpi_self *self, uint32_t comm, int32_t peer, uint32_t call)
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

/* What happens once in a process, and what the program says about counting: MPI_Init, MPI_Finalize, MPI_Pcontrol. */

static void ring(void)
{
    int error = errno;
    if (mpi_hot.bell)
        area_ring(mpi_hot.bell);
    errno = error;
}

void self_note_running(void)
{
    int initialized = 0, finalized = 0;
    if (mpi_library.Initialized(&initialized) == MPI_SUCCESS && mpi_library.Finalized(&finalized) == MPI_SUCCESS &&
        initialized && !finalized)
        mpi_hot.area->late = 1;
}

void self_init_enter(struct mpi_self *self)
{
    mpi_hot.area->init_enter = ticks_now();
}

static void names_get(struct mpi_area *area)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING > MPI_MAX_PROCESSOR_NAME ? MPI_MAX_LIBRARY_VERSION_STRING
                                                                      : MPI_MAX_PROCESSOR_NAME];
    int length = 0;
    if (mpi_library.Get_processor_name(text, &length) == MPI_SUCCESS)
        for (int i = 0; i < length && i < (int)sizeof area->processor - 1; i++)
            area->processor[i] = text[i];
    if (mpi_library.Get_library_version(text, &length) == MPI_SUCCESS)
        for (int i = 0; i < length && i < (int)sizeof area->version_text - 1 && text[i] != '\n'; i++)
            area->version_text[i] = text[i] == '\t' ? ' ' : text[i];
}

void self_init_return(struct mpi_self *self, bool succeeded)
{
    struct mpi_area *area = mpi_hot.area;
    if (!succeeded || !area || atomic_load(&area->state) != MPIA_LOADED)
        return;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t now = self->counts ? self->leave : ticks_now();
    area->init_wall_ns = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec;
    int level = 0;
    if (mpi_library.Query_thread(&level) == MPI_SUCCESS)
        area->thread_level = level == MPI_THREAD_SINGLE       ? 0
                             : level == MPI_THREAD_FUNNELED   ? 1
                             : level == MPI_THREAD_SERIALIZED ? 2
                                                              : 3;
    mpi_hot.threads_multiple = area->thread_level == 3;
    comm_start();
    type_start();
    names_get(area);
    area->init_return = now;
    self->thread->is_main = 1;
    atomic_store(&area->state, MPIA_RUNNING);
    if (self->counts && self->metrics & MPIA_METRIC_CLOCKS)
        self_clocks_switch(self, true, now);
    ring();
}

void self_finalize_enter(struct mpi_self *self)
{
    struct mpi_area *area = mpi_hot.area;
    uint64_t now = self->enter; /* as of what it is in */
    if (self->clock_runs)
        self_clocks_switch(self, false, now);
    self->timed = self->fast = false;
    places_forget(self);
    area->finalize_enter = now;
    if (self_listener)
        self_listener->ends();
    atomic_store(&area->state, MPIA_ENDED);
    comm_end();
}

void self_finalize_return(struct mpi_self *self)
{
    if (!mpi_hot.area)
        return;
    mpi_hot.area->finalize_return = ticks_now();
    ring();
}

/* The levels of mpiP. */
void self_pcontrol(struct mpi_self *self, int level)
{
    struct mpi_area *area = mpi_hot.area;
    if (!area)
        return;
    switch (level) {
    case 0:
        atomic_store(&area->pcontrol, 1);
        self_left(self);
        self->fast = false;
        places_forget(self);
        if (self->clock_runs)
            self_clocks_switch(self, false, self->leave);
        break;
    case 1:
        atomic_store(&area->pcontrol, 0);
        if (self->paused && !self->clock_runs && atomic_load(&area->on) && atomic_load(&area->state) == MPIA_RUNNING &&
            atomic_load(&area->metrics) & MPIA_METRIC_CLOCKS)
            self_clocks_switch(self, true, ticks_now());
        break;
    case 2:
        atomic_store(&area->reset_at, ticks_now());
        atomic_fetch_add(&area->reset, 1);
        break;
    case 3:
    case 4:
        atomic_fetch_add(&area->reports, 1);
        ring();
        break;
    default: /* of no meaning here */
        break;
    }
}

void self_abort(int code)
{
    struct mpi_area *area = mpi_hot.area;
    if (!area)
        return;
    area->abort_code = code;
    atomic_store(&area->aborted, 1);
    ring();
}

/*
 * The modules that call sites lie in, each noted at its first one: the file is known even if it was unloaded since. Not
 * on the path of calls: once for each call site.
 */

struct wanted {
    uint64_t address;
    struct mpi_module found; /* end 0: in none */
    uint64_t bias;
};

static void build_id_take(struct mpi_module *module, const uint8_t *notes, uint64_t size)
{
    while (size >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)notes;
        uint64_t name = MPIA_ALIGN((uint64_t)note->n_namesz, 4), value = MPIA_ALIGN((uint64_t)note->n_descsz, 4);
        if (sizeof *note + name + value > size)
            return;
        const uint8_t *id = notes + sizeof *note + name;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz <= sizeof module->build_id) {
            for (uint32_t i = 0; i < note->n_descsz; i++)
                module->build_id[i] = id[i];
            module->build_id_size = note->n_descsz;
            return;
        }
        notes += sizeof *note + name + value;
        size -= sizeof *note + name + value;
    }
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    struct wanted *wanted = data;
    struct mpi_module *module = &wanted->found;
    uint64_t low = UINT64_MAX, high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t at = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD)
            continue;
        low = at < low ? at : low;
        high = at + segment->p_memsz > high ? at + segment->p_memsz : high;
    }
    if (wanted->address < low || wanted->address >= high)
        return 0;
    module->base = low;
    module->end = high;
    wanted->bias = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE && !module->build_id_size)
            build_id_take(module, (const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                          info->dlpi_phdr[i].p_memsz);
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    for (uint32_t i = 0; name[i] && i < sizeof module->path - 1; i++)
        module->path[i] = name[i];
    if (!module->path[0]) {
        int error = errno;
        ssize_t length = readlink("/proc/self/exe", module->path, sizeof module->path - 1);
        module->path[length > 0 ? length : 0] = '\0';
        errno = error;
    }
    return 1;
}

/* Modules are few, and are added by one thread at a time; a reader sees those below module_count. */
static _Atomic uint32_t busy;
enum { TRIES = 100000 };

static uint32_t module_add(struct mpi_area *area, const struct mpi_module *module)
{
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint32_t count = atomic_load(&area->module_count);
        for (uint32_t i = count; i-- > 0;)
            if (mpi_module_at(area, i)->base == module->base && mpi_module_at(area, i)->end == module->end)
                return i;
        if (count >= MPIA_MODULES)
            return UINT32_MAX;
        uint32_t free = 0;
        if (!atomic_compare_exchange_strong(&busy, &free, 1)) {
            __builtin_ia32_pause(); /* it takes the other one as long as a copy */
            continue;
        }
        bool mine = atomic_load(&area->module_count) == count;
        if (mine) {
            *mpi_module_at(area, count) = *module;
            atomic_store(&area->module_count, count + 1);
        }
        atomic_store(&busy, 0);
        if (mine)
            return count;
    }
    return UINT32_MAX;
}

/* Offsets are those of the file's own addresses (as symbols have them): the address less where the file was loaded. */
uint32_t COLD module_of(uint64_t address, uint64_t *ret_offset)
{
    struct wanted wanted = {.address = address};
    *ret_offset = 0;
    if (mpi_hot.sealed || !dl_iterate_phdr(look, &wanted))
        return UINT32_MAX;
    *ret_offset = address - wanted.bias;
    return module_add(mpi_hot.area, &wanted.found);
}
