/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/count/self.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/system/sys.h"
#include "mpi/count/call.h"
#include "mpi/count/comm.h"
#include "mpi/count/process.h"
#include "shm/area.h"

struct mpi_hot mpi_hot;
const struct self_listener *self_listener;
uint32_t self_pending;
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
    self->outermost = self->shared ? &self->own_outermost : &thread->outermost;
    self->blocking = self->shared ? &self->own_blocking : &thread->blocking;
    self->frame = 0;
    self->clock_runs = false;
    self->paused = self->outermost->first ? self->outermost->last : 0;
    self->comm = comm_unknown();
    self->send_peer = self->got_peer = &self_no_peer;
    for (int i = 0; i < 3; i++)
        self->switches[i] = UINT64_MAX;
    self->type_generation = 0;
    self->polls.end = false;
    self->polls.place_count = 0;
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
            mpi_tls.self = mpi_tls.counting = self;
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

static void clocks_clear(const struct mpi_self *self, uint64_t now)
{
    struct mpi_outermost *outermost = self->outermost;
    struct mpi_blocking *blocking = self->blocking;
    *outermost = (struct mpi_outermost){.last = now,
                                        .first = now,
                                        .compute_at = histogram_clear(self, outermost->compute_at),
                                        .communicate_at = histogram_clear(self, outermost->communicate_at)};
    *blocking = (struct mpi_blocking){.compute_at = histogram_clear(self, blocking->compute_at),
                                      .communicate_at = histogram_clear(self, blocking->communicate_at)};
}

/* One thread clears the shared block for all. What the others do there meanwhile may still count as before: waiting for
 * a thread that has no processor would cost the program more than that is worth. */
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
    thread->polls_untimed = thread->receives_freed = 0;
    if (self->outermost->first) {
        uint32_t seq = atomic_load_explicit(&self->now->seq, memory_order_relaxed);
        atomic_store_explicit(&self->now->seq, seq + 1, memory_order_relaxed);
        compiler_barrier();
        clocks_clear(self, now);
        compiler_barrier();
        atomic_store_explicit(&self->now->seq, seq + 2, memory_order_relaxed);
        if (self->paused)
            self->paused = now;
    }
}

/* ---- clocks ---- */

COLD void self_clocks_switch(struct mpi_self *self, bool run, uint64_t now)
{
    uint32_t seq = atomic_load_explicit(&self->now->seq, memory_order_relaxed);
    atomic_store_explicit(&self->now->seq, seq + 1, memory_order_relaxed);
    compiler_barrier();
    struct mpi_outermost *clock = self->outermost;
    if (run) {
        clock->first = clock->first ? clock->first + (now - self->paused) : now;
        clock->last = now;
    } else {
        clock->last = now > clock->last ? now : clock->last;
        self->paused = now;
    }
    self->blocking->pending = 0;
    compiler_barrier();
    atomic_store_explicit(&self->now->seq, seq + 2, memory_order_relaxed);
    self->clock_runs = run;
}

/* ---- a call ---- */

/* Somebody else's call of MPI_Init was not seen: this one is late, but better than never. */
static COLD void self_look_for_init(struct mpi_self *self, uint32_t call)
{
    int initialized = 0, finalized = 0;
    if (call_info(call)->waits == CALL_WAITS_START || mpi_library.Initialized(&initialized) != MPI_SUCCESS ||
        mpi_library.Finalized(&finalized) != MPI_SUCCESS || !initialized || finalized)
        return;
    self->counts = false;
    comm_begun_late = mpi_hot.area->late;
    self_init_return(self, true);
    if (self_listener)
        self_listener->missed(self);
}

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
    self->told = NULL;
    self->telling = false;
    self->tells = self->metrics & (MPIA_METRIC_TELL | MPIA_METRIC_MESSAGES) && self_listener &&
                  self_listener->wants(self->metrics);
    if (state != MPIA_RUNNING)
        self->switches[2] = UINT64_MAX;
    bool acts = self->tells && !(self->metrics & MPIA_METRIC_MESSAGES) && self_listener->host;
    self->may_act = acts ? self_listener->host->acts : NULL;
    mpi_tls.counting = self->tells ? NULL : self;
    places_forget(self);
    if (self->timed != self->clock_runs)
        self_clocks_switch(self, self->timed, ticks_now());
    if (self_listener)
        self_listener->switched(self);
}

/* The outermost call is above us in the stack, if it is still there: an error handler of the program's may have left it
 * by longjmp or an exception. Then something else stands where it was to return to. */
static __attribute__((noinline)) bool is_nested(const struct mpi_self *self, uintptr_t frame)
{
    return self->frame - frame > SAME_STACK || return_address(self->frame) == self->returns;
}

/* true: that took its time. */
static bool look_at_switches(struct mpi_self *self, uint32_t call)
{
    if (UNLIKELY(self->polls.end))
        polls_end(self, ticks_now());
    if (self_is_switched(self, mpi_hot.area))
        self_switched(self, call);
    else if (self->tells && self_pending)
        self_listener->goes_on(self);
    else
        return false;
    return true;
}

/* Somebody wants to hear of it, or its messages are numbered. */
ALWAYS bool call_is_told(const struct mpi_self *self, uint32_t call)
{
    const _Atomic uint64_t *untold = &mpi_hot.area->untold[call / 64];
    return self->tells && (self->metrics & MPIA_METRIC_MESSAGES ||
                           !(atomic_load_explicit(untold, memory_order_relaxed) >> (call % 64) & 1));
}

/* NULL: the call is inside of another, or nothing is noted. */
static struct mpi_self *begin_slow(uint32_t call, uint64_t site, uintptr_t frame)
{
    if (!mpi_hot.area || UNLIKELY(mpi_hot.sealed))
        return NULL;
    struct mpi_self *self = mpi_tls.self ? mpi_tls.self : self_attach();
    if (!self || (self->frame > frame && is_nested(self, frame)))
        return NULL;
    self_outermost(self, call, site, frame);
    return self;
}

bool self_seal(const char *why)
{
    struct mpi_area *area = mpi_hot.area;
    if (!area)
        return true;
    if (area->pid != (int32_t)sys_call0(SYS_getpid))
        return false;
    mpi_hot.sealed = true;
    for (size_t i = 0; why[i] && i < sizeof area->fault - 1; i++)
        area->fault[i] = why[i];
    atomic_store(&area->state, MPIA_OFF); /* every thread's next call goes the long way, and finds nothing to do */
    area_ring(mpi_hot.bell);
    return true;
}

void (*self_look)(void);

void self_opens(void)
{
    mpi_tls.opened = true;
    if (mpi_hot.area) /* so that its next call goes the long way */
        atomic_fetch_add(&mpi_hot.area->metrics, MPIA_METRIC_POKE);
}

static __attribute__((noinline)) struct mpi_self *enter_slow(uint32_t call, uint64_t site, uintptr_t frame)
{
    struct mpi_self *self = begin_slow(call, site, frame);
    if (!self)
        return NULL;
    if (mpi_tls.opened && self_look) {
        mpi_tls.opened = false;
        self_look();
    }
    look_at_switches(self, call);
    self->telling = call_is_told(self, call);
    self->acts = 0;
    self->enter = ticks_now();
    return self->telling ? NULL : self;
}

/* NULL: it is to be reported: its time begins when that is done, or what it acts is. Until then it is as if it had begun
 * where the last one ended. */
static __attribute__((noinline)) struct mpi_self *begin_told(struct mpi_self *self, uint32_t call)
{
    uint64_t acts = self->may_act ? atomic_load_explicit(&self->may_act[call], memory_order_acquire) : 0;
    self->acts = acts;
    self->telling = !acts || acts & MPI_ACTS_ALL || !self_listener->host->call_acts(call, NULL, acts);
    self->enter = self->telling ? self->outermost->last : ticks_now();
    return self->telling ? NULL : self;
}

/* The thread polled, and this call has its time stamp again. */
static __attribute__((noinline)) struct mpi_self *enter_after_polls(uint32_t call, uint64_t site, uintptr_t frame)
{
    uint64_t enter = ticks_now();
    struct mpi_self *self = mpi_tls.self;
    if (UNLIKELY(!mpi_hot.area || self->frame > frame || self_is_switched(self, mpi_hot.area)))
        return enter_slow(call, site, frame);
    polls_end(self, enter);
    self_outermost(self, call, site, frame);
    self->enter = enter;
    return self;
}

/* Calls are reported, but not all need be. */
static __attribute__((noinline)) struct mpi_self *enter_told(uint32_t call, uint64_t site, uintptr_t frame)
{
    struct mpi_area *area = mpi_hot.area;
    struct mpi_self *self = mpi_tls.self;
    if (self && self->polls.end)
        return enter_after_polls(call, site, frame);
    if (UNLIKELY(!area || !self || !self->tells))
        return enter_slow(call, site, frame);
    bool told = call_is_told(self, call);
    uint64_t enter = told ? 0 : ticks_now();
    if (UNLIKELY(self->frame > frame || self_is_switched(self, area) || self_pending || mpi_tls.opened))
        return enter_slow(call, site, frame);
    self_outermost(self, call, site, frame);
    self->told = NULL; /* of a call that was left by longjmp */
    if (told)
        return begin_told(self, call);
    self->enter = enter;
    return self;
}

bool mpi_acts(struct mpi_self *self, const struct mpi_told *told, uint32_t given)
{
    uint64_t acts = self->acts;
    bool all = acts && !(acts & MPI_ACTS_ALL & ~given) && mpi_hot.area &&
               self_listener->host->call_acts(self->call, told, acts);
    if (all && given == MPI_ACTS_PARS)
        self->enter = ticks_now();
    return all;
}

struct mpi_self *mpi_enter_at(uint32_t call, uint64_t site, uintptr_t frame)
{
    struct mpi_self *self = mpi_tls.counting;
    if (UNLIKELY(!self))
        return enter_told(call, site, frame);
    uint64_t enter = ticks_now(); /* early: the processor does what follows while the call goes on */
    struct mpi_area *area = mpi_hot.area;
    if (UNLIKELY(!area || self->frame > frame || self_is_switched(self, area)))
        return enter_slow(call, site, frame);
    self_outermost(self, call, site, frame);
    self->enter = enter;
    return self;
}

COLD struct mpi_self *mpi_quick_tells(uint32_t call, uint64_t site, uintptr_t frame)
{
    struct mpi_self *self = begin_slow(call, site, frame);
    if (self)
        look_at_switches(self, call);
    if (!self || (self->metrics & MPIA_METRIC_TELL && call_is_told(self, call)))
        return self;
    self->frame = 0;
    return NULL;
}

COLD void self_failed(struct mpi_self *self)
{
    self_add(self, &self->thread->errors, 1);
}

/* A child was forked in the call: there is no area any more. */
COLD void self_in_child(struct mpi_self *self)
{
    self->counts = self->fast = self->timed = false;
    places_forget(self);
    self->metrics = 0;
}

bool mpi_quick(uint32_t call)
{
    struct mpi_area *area = mpi_hot.area;
    if (UNLIKELY(!area))
        return false;
    uint64_t switches = pair_of(&area->on);
    if (!(uint32_t)switches || atomic_load_explicit(&area->pcontrol, memory_order_relaxed))
        return false;
    struct mpi_self *self = mpi_tls.self;
    if (UNLIKELY(!self) && !(self = self_attach()))
        return false;
    if (!self->frame)
        self_add(self, &self->thread->rows[call].count, 1);
    return switches >> 32 & MPIA_METRIC_TELL;
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
