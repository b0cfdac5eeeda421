/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/self.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi/comm.h"
#include "mpi/pool.h"
#include "mpi/shape.h"
#include "mpi/site.h"

struct mpi_hot mpi_hot;
_Thread_local struct mpi_tls mpi_tls __attribute__((tls_model("initial-exec")));

static struct mpi_self *selves; /* SELF_THREADS; mapped at the start, touched as threads come */

enum { OWN_BLOCKS = MPIA_THREADS - 1, RETRY_CALLS = 4096, SAME_STACK = 256 << 10 };

bool self_start(struct mpi_area *area, struct doorbell *bell)
{
    if (madvise(&mpi_hot, sizeof mpi_hot, MADV_WIPEONFORK) < 0)
        return false;
    selves = mmap(NULL, SELF_THREADS * sizeof *selves, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (selves == MAP_FAILED)
        return false;
    area->rank = area->world_size = -1;
    mpi_hot.bell = bell;
    mpi_hot.type_generation = 1;
    mpi_hot.area = area;
    return true;
}

/* ---- threads come ---- */

static bool has_ended(uint32_t tid)
{
    int error = errno;
    bool ended = tid && syscall(SYS_tgkill, getpid(), tid, 0) < 0 && errno == ESRCH;
    errno = error;
    return ended;
}

/* A self of [from, to) that nobody has had, or one whose thread has ended. */
static struct mpi_self *self_take(uint32_t from, uint32_t to, bool used, uint32_t tid)
{
    for (uint32_t i = from; i < to; i++) {
        uint32_t was = __atomic_load_n(&selves[i].tid, __ATOMIC_ACQUIRE);
        if (used ? !has_ended(was) || mpi_thread_at(mpi_hot.area, i < OWN_BLOCKS ? i : OWN_BLOCKS)->is_main : was != 0)
            continue;
        if (__atomic_compare_exchange_n(&selves[i].tid, &was, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            selves[i].index = i;
            return &selves[i];
        }
    }
    return NULL;
}

/* Takes over the block: a new one, or that of an ended thread with what it has counted. */
static void self_use(struct mpi_self *self)
{
    self->shared = self->index >= OWN_BLOCKS;
    struct mpi_thread *thread = mpi_thread_at(mpi_hot.area, self->shared ? OWN_BLOCKS : self->index);
    self->thread = thread;
    self->now = self->shared ? &self->own_now : &thread->now;
    self->outermost = self->shared ? &self->own_clocks[0] : &thread->outermost;
    self->blocking = self->shared ? &self->own_clocks[1] : &thread->blocking;
    self->frame = 0;
    self->clock_runs = false;
    self->paused = self->outermost->first ? self->outermost->last : 0;
    self->comm = comm_unknown();
    self->send_peer = self->got_peer = &self_no_peer;
    for (int i = 0; i < 3; i++)
        self->switches[i] = UINT64_MAX;
    self->type_generation = 0;
    site_tables_use(self);
    self->reset_seen = self->shared || thread->state != MPIA_THREAD_FREE
                           ? thread->reset_seen
                           : atomic_load_explicit(&mpi_hot.area->reset, memory_order_relaxed);
    thread->reset_seen = self->reset_seen;
    self->now->call = CALL_NONE;
    self->now->since = ticks_now();
    thread->tid = self->tid;
    prctl(PR_GET_NAME, thread->name);
    atomic_store(&thread->state, self->shared ? MPIA_THREAD_SHARED : MPIA_THREAD_USED);
}

static COLD struct mpi_self *self_attach(void)
{
    struct mpi_area *area = mpi_hot.area;
    if (mpi_tls.refused % RETRY_CALLS == 0) {
        int error = errno;
        uint32_t tid = (uint32_t)syscall(SYS_gettid);
        errno = error;
        struct mpi_self *self = self_take(0, OWN_BLOCKS, false, tid);
        self = self ? self : self_take(0, OWN_BLOCKS, true, tid);
        self = self ? self : self_take(OWN_BLOCKS, SELF_THREADS, false, tid);
        self = self ? self : self_take(OWN_BLOCKS, SELF_THREADS, true, tid);
        if (self) {
            self_use(self);
            atomic_fetch_add(&area->threads_used, 1);
            mpi_tls.self = self;
            return self;
        }
    }
    mpi_tls.refused++;
    __atomic_fetch_add(&mpi_thread_at(area, OWN_BLOCKS)->sites_omitted, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* ---- counts start again ---- */

static void row_clear(const struct mpi_self *self, struct mpi_row *row)
{
    if (!row->count && !row->got_bytes)
        return;
    uint32_t ticks_at = row->ticks_at, bytes_at = row->bytes_at;
    *row = (struct mpi_row){.ticks_at = histogram_clear(self, ticks_at), .bytes_at = histogram_clear(self, bytes_at)};
}

static void clock_clear(const struct mpi_self *self, struct mpi_clock *clock, uint64_t now)
{
    uint32_t compute_at = clock->compute_at, communicate_at = clock->communicate_at;
    *clock = (struct mpi_clock){.last = now,
                                .first = now,
                                .compute_at = histogram_clear(self, compute_at),
                                .communicate_at = histogram_clear(self, communicate_at)};
}

static COLD void self_reset(struct mpi_self *self, uint32_t reset)
{
    struct mpi_thread *thread = self->thread;
    self->reset_seen = reset;
    self->bits = histogram_bits();
    uint32_t seen = thread->reset_seen;
    if (seen == reset ||
        !__atomic_compare_exchange_n(&thread->reset_seen, &seen, reset, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return; /* another thread of the shared block has done it */
    uint64_t now = ticks_now();
    for (uint32_t i = 0; i < CALL_COUNT; i++) {
        row_clear(self, &thread->rows[i]);
        row_clear(self, &thread->spans[i]);
    }
    site_tables_clear(self);
    thread->errors = thread->sites_omitted = thread->peers_omitted = thread->requests_omitted = 0;
    if (self->outermost->first) {
        uint32_t seq = atomic_load_explicit(&self->now->seq, memory_order_relaxed);
        atomic_store_explicit(&self->now->seq, seq + 1, memory_order_relaxed);
        compiler_barrier();
        clock_clear(self, self->outermost, now);
        clock_clear(self, self->blocking, now);
        compiler_barrier();
        atomic_store_explicit(&self->now->seq, seq + 2, memory_order_relaxed);
        if (self->paused)
            self->paused = now;
    }
}

/* ---- clocks ---- */

static void clock_start(struct mpi_clock *clock, uint64_t now, uint64_t paused)
{
    clock->first = clock->first ? clock->first + (now - paused) : now;
    clock->last = now;
}

static void clock_stop(struct mpi_clock *clock, uint64_t now)
{
    if (now < clock->last)
        now = clock->last;
    clock->compute += now - clock->last;
    clock->last = now;
}

COLD void self_clocks_switch(struct mpi_self *self, bool run, uint64_t now)
{
    uint32_t seq = atomic_load_explicit(&self->now->seq, memory_order_relaxed);
    atomic_store_explicit(&self->now->seq, seq + 1, memory_order_relaxed);
    compiler_barrier();
    if (run) {
        clock_start(self->outermost, now, self->paused);
        clock_start(self->blocking, now, self->paused);
    } else {
        clock_stop(self->outermost, now);
        clock_stop(self->blocking, now);
        self->paused = now;
    }
    compiler_barrier();
    atomic_store_explicit(&self->now->seq, seq + 2, memory_order_relaxed);
    self->clock_runs = run;
}

/* A communication from `enter` to `leave`; what was computed before it is the result. */
ALWAYS uint64_t clock_add(struct mpi_clock *clock, uint64_t enter, uint64_t leave)
{
    uint64_t computed = enter - clock->last, communicated = leave - enter;
    if (UNLIKELY((int64_t)computed < 0)) { /* the processors' counters differ a little */
        communicated = leave > clock->last ? leave - clock->last : 0;
        computed = 0;
        leave = clock->last + communicated;
    }
    clock->last = leave;
    clock->compute += computed;
    clock->communicate += communicated;
    clock->count++;
    if (clock->compute_min - 1 >= AT_LEAST_ONE(computed))
        clock->compute_min = AT_LEAST_ONE(computed);
    if (clock->compute_max < computed)
        clock->compute_max = computed;
    if (clock->communicate_min - 1 >= AT_LEAST_ONE(communicated))
        clock->communicate_min = AT_LEAST_ONE(communicated);
    if (clock->communicate_max < communicated)
        clock->communicate_max = communicated;
    return computed;
}

/* ---- a call ---- */

/* Somebody else's call of MPI_Init was not seen: this one is late, but better than never. */
static COLD void self_look_for_init(struct mpi_self *self, uint32_t call)
{
    int initialized = 0, finalized = 0;
    if (call == CALL_MPI_Init || call == CALL_MPI_Init_thread || mpi_library.Initialized(&initialized) != MPI_SUCCESS ||
        mpi_library.Finalized(&finalized) != MPI_SUCCESS || !initialized || finalized)
        return;
    self->counts = false;
    self_init_return(self, true);
}

ALWAYS uint64_t pair_of(const _Atomic uint32_t *first)
{
    return __atomic_load_n((const uint64_t *)(const void *)first, __ATOMIC_RELAXED);
}
_Static_assert(offsetof(struct mpi_area, metrics) == offsetof(struct mpi_area, on) + 4, "");
_Static_assert(offsetof(struct mpi_area, reset) == offsetof(struct mpi_area, bits) + 4, "");
_Static_assert(offsetof(struct mpi_area, pcontrol) == offsetof(struct mpi_area, state) + 4, "");

/* Something was switched since the thread's last call, or MPI does not run (then this is seen each time). */
static COLD void self_switched(struct mpi_self *self, uint32_t call)
{
    struct mpi_area *area = mpi_hot.area;
    if (atomic_load(&area->state) == MPIA_LOADED)
        self_look_for_init(self, call);
    self->switches[0] = pair_of(&area->on);
    self->switches[1] = pair_of(&area->bits);
    self->switches[2] = pair_of(&area->state);
    uint32_t reset = atomic_load(&area->reset), state = atomic_load(&area->state);
    if (!self->bits)
        self->bits = histogram_bits();
    if (reset != self->reset_seen)
        self_reset(self, reset);
    self->counts = atomic_load(&area->on) && !atomic_load(&area->pcontrol) && state != MPIA_OFF;
    self->metrics = self->counts ? atomic_load(&area->metrics) : 0;
    self->timed = self->metrics & MPIA_METRIC_CLOCKS && state == MPIA_RUNNING;
    self->fast = !self->shared && self->timed && (self->metrics & MPIA_METRIC_ALL) == MPIA_METRIC_ALL;
    if (state != MPIA_RUNNING)
        self->switches[2] = UINT64_MAX;
    if (self->timed != self->clock_runs)
        self_clocks_switch(self, self->timed, ticks_now());
}

static uintptr_t return_address(uintptr_t frame)
{
    return ((const uintptr_t *)frame)[-1];
}

/* The outermost call is above us in the stack, if it is still there: an error handler of the program's may have left it
 * by longjmp or an exception. Then something else stands where it was to return to. */
static __attribute__((noinline)) bool is_nested(const struct mpi_self *self, uintptr_t frame)
{
    return self->frame - frame > SAME_STACK || return_address(self->frame) == self->returns;
}

struct mpi_self *mpi_enter_at(uint32_t call, uint64_t site, uintptr_t frame)
{
    struct mpi_area *area = mpi_hot.area;
    if (UNLIKELY(!area))
        return NULL;
    struct mpi_self *self = mpi_tls.self;
    if (UNLIKELY(!self)) {
        self = self_attach();
        if (!self)
            return NULL;
    }
    if (UNLIKELY(self->frame > frame) && is_nested(self, frame))
        return NULL;
    self->returns = return_address(frame);
    self->frame = frame;
    self->call = call;
    self->site = site;
    if (UNLIKELY(pair_of(&area->on) != self->switches[0] || pair_of(&area->bits) != self->switches[1] ||
                 pair_of(&area->state) != self->switches[2]))
        self_switched(self, call);
    return self;
}

/* A child was forked in the call: there is no area any more. */
COLD void self_in_child(struct mpi_self *self)
{
    self->counts = self->fast = self->timed = false;
    self->metrics = 0;
}

/* What the thread is in, and its clocks, at the end of a call. */
ALWAYS void leave_note(struct mpi_self *self, bool timed)
{
    uint64_t enter = self->enter, leave = self->leave;
    if (UNLIKELY(leave < enter))
        self->leave = leave = enter;
    struct mpi_now *now = self->now;
    uint32_t seq = atomic_load_explicit(&now->seq, memory_order_relaxed);
    atomic_store_explicit(&now->seq, seq + 1, memory_order_relaxed);
    compiler_barrier();
    now->call = CALL_NONE;
    now->since = leave;
    if (timed) {
        self->computed = clock_add(self->outermost, enter, leave);
        if (self->is_blocking)
            self->computed_blocking = clock_add(self->blocking, enter, leave);
    }
    compiler_barrier();
    atomic_store_explicit(&now->seq, seq + 2, memory_order_relaxed);
}

void self_left(struct mpi_self *self)
{
    if (self->counts && self->now->call != CALL_NONE)
        leave_note(self, self->timed);
}

ALWAYS bool call_is_selected(uint32_t call)
{
    return atomic_load_explicit(&mpi_hot.area->selected[call / 64], memory_order_relaxed) >> (call % 64) & 1;
}

static void row_add(const struct mpi_self *self, struct mpi_row *row, uint64_t ticks)
{
    self_add(self, &row->count, 1);
    self_add(self, &row->ticks, ticks);
    self_least(self, &row->min, ticks);
    self_most(self, &row->max, ticks);
}

static void note_distributions(struct mpi_self *self, struct mpi_row *row, uint64_t ticks)
{
    if (call_is_selected(self->call)) {
        histogram_add(self, &row->ticks_at, ticks);
        if (self->sized)
            histogram_add(self, &row->bytes_at, self->args_bytes);
    }
    if (!self->timed || self->shared)
        return;
    histogram_add(self, &self->outermost->compute_at, self->computed);
    histogram_add(self, &self->outermost->communicate_at, ticks);
    if (self->is_blocking) {
        histogram_add(self, &self->blocking->compute_at, self->computed_blocking);
        histogram_add(self, &self->blocking->communicate_at, ticks);
    }
}

/* In a shared block, or with a part of it switched off. */
static __attribute__((noinline)) void done_slow(struct mpi_self *self)
{
    self_left(self);
    uint64_t ticks = self->leave - self->enter;
    struct mpi_row *row = &self->thread->rows[self->call];
    row_add(self, row, ticks);
    if (self->sized) {
        self_add(self, &row->args_bytes, self->args_bytes);
        self_add(self, &row->sent_bytes, self->sent);
        self_add(self, &row->got_bytes, self->got);
    }
    if (self->failed)
        self_add(self, &self->thread->errors, 1);
    if (self->metrics & MPIA_METRIC_SITES)
        site_add(self, ticks);
    if (self->metrics & MPIA_METRIC_DISTRIBUTIONS)
        note_distributions(self, row, ticks);
}

/* All of it, in a block of the thread's own. What a value's bucket is is found out once. */
ALWAYS void done_fast(struct mpi_self *self)
{
    leave_note(self, true);
    uint64_t ticks = self->leave - self->enter, bytes = self->args_bytes;
    struct mpi_thread *thread = self->thread;
    uint32_t call = self->call, bits = self->bits, bucket = mpi_bucket(ticks, bits);
    struct mpi_row *row = &thread->rows[call];
    row->count++;
    row->ticks += ticks;
    struct mpi_site *site = site_of(self);
    if (LIKELY(site != NULL)) {
        site->count++;
        site->ticks += ticks;
    }
    if (self->sized) {
        row->args_bytes += bytes;
        row->sent_bytes += self->sent;
        row->got_bytes += self->got;
        if (LIKELY(site != NULL))
            site->args_bytes += bytes;
    }
    /* what is not an extreme of its site is none of its call */
    if (UNLIKELY(!site || site->min - 1 >= AT_LEAST_ONE(ticks) || site->max < ticks)) {
        if (site) {
            self_least(self, &site->min, ticks);
            self_most(self, &site->max, ticks);
        }
        self_least(self, &row->min, ticks);
        self_most(self, &row->max, ticks);
    }
    if (call_is_selected(call)) {
        histogram_put(self, &row->ticks_at, ticks, bucket);
        if (self->sized)
            histogram_put(self, &row->bytes_at, bytes, mpi_bucket(bytes, bits));
    }
    uint32_t computed = mpi_bucket(self->computed, bits);
    histogram_put(self, &thread->outermost.compute_at, self->computed, computed);
    histogram_put(self, &thread->outermost.communicate_at, ticks, bucket);
    if (self->is_blocking) {
        if (UNLIKELY(self->computed_blocking != self->computed))
            computed = mpi_bucket(self->computed_blocking, bits);
        histogram_put(self, &thread->blocking.compute_at, self->computed_blocking, computed);
        histogram_put(self, &thread->blocking.communicate_at, ticks, bucket);
    }
    if (UNLIKELY(self->failed))
        thread->errors++;
}

void mpi_done(struct mpi_self *self)
{
    if (LIKELY(self->fast))
        done_fast(self);
    else if (self->counts)
        done_slow(self);
    self->frame = 0;
}

void mpi_quick(uint32_t call)
{
    struct mpi_area *area = mpi_hot.area;
    if (UNLIKELY(!area) || !atomic_load_explicit(&area->on, memory_order_relaxed) ||
        atomic_load_explicit(&area->pcontrol, memory_order_relaxed))
        return;
    struct mpi_self *self = mpi_tls.self;
    if (UNLIKELY(!self) && !(self = self_attach()))
        return;
    if (!self->frame)
        self_add(self, &self->thread->rows[call].count, 1);
}

void self_span(struct mpi_self *self, uint32_t call, uint64_t since, uint64_t until, uint64_t bytes)
{
    if (!self->counts || call >= CALL_COUNT)
        return;
    struct mpi_row *row = &self->thread->spans[call];
    uint64_t ticks = until > since ? until - since : 0;
    row_add(self, row, ticks);
    self_add(self, &row->args_bytes, bytes);
    if (self->metrics & MPIA_METRIC_DISTRIBUTIONS && call_is_selected(call))
        histogram_add(self, &row->ticks_at, ticks);
}

void *self_scratch(struct mpi_self *self, uint64_t size)
{
    if (size <= self->scratch_size)
        return self->scratch;
    int error = errno;
    if (self->scratch_size)
        munmap(self->scratch, self->scratch_size);
    self->scratch_size = 0;
    size = MPIA_ALIGN(size + size / 2, 4096);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = error;
    if (memory == MAP_FAILED)
        return NULL;
    self->scratch_size = size;
    return self->scratch = memory;
}
