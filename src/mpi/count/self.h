/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread and the outermost MPI call that it is in: what shapes and the counting behind them share. The life of a
 * call: mpi_enter (is it outermost, is it counted), self_begin (publishes what it is in, takes the time; the last thing
 * that shape_*_before does), the call itself, mpi_leave (takes the time, clocks), shape_*_after (bytes, peers,
 * requests), mpi_done (rows, distributions, call sites).
 *
 * Each thread that calls MPI gets a struct mpi_self, which is private, and a block of the area (struct mpi_thread).
 * When there are more threads than blocks, the rest shares the last block, adding atomically; what only makes sense for
 * one thread (now, clocks) then stays private.
 *
 * None of this may be touched in a child of fork: mpi_hot is wiped there, and everything checks it first.
 */
#ifndef SCRY_MPI_COUNT_SELF_H
#define SCRY_MPI_COUNT_SELF_H

#include <mpi.h>
#include <stdatomic.h>

#include "agent/hooks/mpi_host.h"
#include "mpi/count/library.h"
#include "shm/mpi_area.h"
#include "shm/mpi_told.h"

enum {
    SELF_THREADS = 512, /* that have a struct mpi_self at a time; calls of more are only counted as such */
    SELF_INLINE = 64,   /* requests of one call whose handles and statuses need no memory of their own */
    SELF_TYPES = 4,
    SELF_PLACES = 64, /* call sites of a thread that are fast; a power of two */
    SELF_POLLERS = 4, /* of these, that poll between two time stamps */
};

#define SELF_UNSIZED UINT64_MAX
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define COLD __attribute__((noinline, cold))
#define ALWAYS static inline __attribute__((always_inline)) /* on the path of each call */

#pragma GCC visibility push(hidden)

struct comm_info;

struct request_message { /* that MPI_Mprobe has matched */
    struct comm_info *comm;
    uint32_t comm_number;
    int32_t peer, tag;
    uint64_t order, post; /* if messages are reported, numbered (channel.h) */
};

struct self_range { /* values of which none is an extreme: value - least <= span */
    uint64_t least, span;
};

struct self_place {   /* what calls from one site add to, found once (done.c) */
    uint64_t address; /* 0: free */
    uint64_t bytes;   /* calls with another number of them go the long way, and are found then */
    uint32_t call, bytes_bucket;
    struct self_range range; /* of durations */
    const struct self_range *computed;
    struct mpi_row *row;
    struct mpi_site *site;
    struct mpi_histogram *latency;
    struct mpi_histogram *size;   /* NULL: its calls have no size */
    struct mpi_histogram *pieces; /* of calls that do not block: struct mpi_blocking; else NULL */
    uint32_t polls_timed;         /* of its polls in vain, at most POLLS_TIMED_FIRST (poll.c) */
    uint32_t polls_untimed;       /* since the last time stamp */
    uint64_t poll_ticks;          /* how long one usually takes */
    uint64_t poll_key;            /* self_poll_key, of a place whose polls may do without a time stamp */
} __attribute__((aligned(128)));
_Static_assert(offsetof(struct mpi_now, call) == 4 &&
                   offsetof(struct mpi_now, flags) == offsetof(struct mpi_now, comm) + 4 &&
                   offsetof(struct mpi_peer, peer) == 4,
               "are written and compared together");

struct mpi_self {
    struct mpi_thread *thread;
    struct mpi_now *now; /* the thread's, or own_now */
    struct mpi_outermost *outermost;
    struct mpi_blocking *blocking;
    /* the call */
    uintptr_t frame;   /* of the wrapper of the outermost call (its CFA); 0: in none */
    uintptr_t returns; /* the return address that stood there */
    uint32_t call, metrics;
    uint64_t site;
    bool counts, timed, is_blocking, shared;
    bool fast; /* the common case: own block, everything on */
    bool clock_runs;
    uint32_t reset_seen, bits;
    uint64_t switches[3];            /* as they were when `counts` to `fast` were decided */
    bool tells, telling;             /* its calls are reported; this one is, see mpi_tells */
    uint64_t acts;                   /* of such a call: of mpi_host.acts; 0: it has to be reported */
    const _Atomic uint64_t *may_act; /* mpi_host.acts; NULL while messages are numbered */
    struct mpi_told *told;           /* of the call, if it is reported */
    struct mpi_messages messages;    /* to be reported with its begin, or its end */
    uint64_t enter, leave;
    uint64_t args_bytes, sent, got; /* goes to its row; args_bytes: SELF_UNSIZED if the call has no size */
    uint64_t computed, pended;      /* before the call; what was pending then (struct mpi_blocking) */
    struct self_range computed_any, computed_blocking;         /* before any call, before one that blocks */
    struct self_range computed_none_pending, computed_pending; /* computed_blocking if nothing is pending; with that */
    struct mpi_histogram *computations;
    /* caches */
    struct comm_info *comm; /* of the last lookup */
    struct mpi_peer *send_peer, *got_peer;
    struct mpi_site *sites;
    struct mpi_peer *peers;
    uint32_t sites_mask, peers_mask, sites_used, peers_used;
    uint64_t type_generation, last_type, last_size;
    struct {
        uint64_t handle, size;
    } types[SELF_TYPES];
    /* the thread */
    uint64_t paused; /* when the clocks stopped; 0: they run, or never did */
    uint32_t index, tid;
    struct { /* of the call, while messages are numbered (channel.h) */
        uint64_t k, post;
        uint32_t posts;
    } channel;
    struct {                   /* a blocking send, while its call is reported: its post's number, 0: none (tell.c) */
        uint64_t posts, order; /* about to be reported; already reported */
        uint32_t call;
    } said;
    /* of completion calls */
    uint32_t wait_count;
    uint64_t *wait_handles; /* own_handles or memory of `scratch` */
    void *scratch;
    uint64_t scratch_size;
    struct request_message matched;
    MPI_Status status;
    uint64_t own_handles[SELF_INLINE];
    MPI_Status own_statuses[SELF_INLINE];
    struct mpi_now own_now;
    struct mpi_outermost own_outermost;
    struct mpi_blocking own_blocking;
    struct {                                             /* poll.c; what each writes is in one cache line */
        struct self_place *places[SELF_POLLERS], *place; /* which have polls_untimed; of the call */
        uint64_t enter, until;                           /* where it began; no poll that begins later does without */
        uint32_t granted, left;       /* polls that may do without a time stamp, and of these, those yet to come */
        uint32_t place_count, before; /* before: how many polls had none before the last time stamp */
        bool end;                     /* polls_end has to be called */
        uint64_t since;               /* the last poll in vain that was timed */
        uint64_t usual;               /* from one poll to the next, before it */
    } __attribute__((aligned(64))) polls;
    struct self_place places[SELF_PLACES];
} __attribute__((aligned(64)));

/* One page, emptied by the kernel in a child of fork. */
struct mpi_hot {
    struct mpi_area *area; /* NULL: nothing is noted */
    struct doorbell *bell;
    uint64_t type_generation; /* grows when a datatype is made or freed */
    uint64_t threads_multiple;
    bool sealed; /* system calls may kill from now on: nothing is noted any more */
} __attribute__((aligned(4096)));
extern struct mpi_hot mpi_hot;

struct mpi_tls {
    struct mpi_self *counting; /* self while its calls are only counted, else NULL */
    struct mpi_self *polling;  /* self while a poll may do without a time stamp (poll.c); `counting` is NULL then */
    struct mpi_self *self;
    uint64_t refused; /* calls of a thread that there is no struct mpi_self for */
    bool opened;      /* it was in dlopen, or is: what came with that is to be checked */
};
extern _Thread_local struct mpi_tls mpi_tls __attribute__((tls_model("initial-exec")));

ALWAYS uint64_t ticks_now(void)
{
    return __builtin_ia32_rdtsc();
}

ALWAYS void compiler_barrier(void)
{
    __asm__ volatile("" ::: "memory");
}

ALWAYS uint64_t pair_of(const _Atomic uint32_t *first)
{
    return __atomic_load_n((const uint64_t *)(const void *)first, __ATOMIC_RELAXED);
}
_Static_assert(offsetof(struct mpi_area, metrics) == offsetof(struct mpi_area, on) + 4, "");
_Static_assert(offsetof(struct mpi_area, reset) == offsetof(struct mpi_area, bits) + 4, "");
_Static_assert(offsetof(struct mpi_area, pcontrol) == offsetof(struct mpi_area, state) + 4, "");

/* Adds in a block: plainly in a thread's own, atomically in the shared one. */
ALWAYS void self_add(const struct mpi_self *self, uint64_t *value, uint64_t amount)
{
    if (UNLIKELY(self->shared))
        __atomic_fetch_add(value, amount, __ATOMIC_RELAXED);
    else
        *value += amount;
}

/* A least value of 0 is none: the counter may tick less often than a short call is long. */
#define AT_LEAST_ONE(value) ((value) + !(value))

static inline void self_least(const struct mpi_self *self, uint64_t *least, uint64_t value)
{
    uint64_t was = __atomic_load_n(least, __ATOMIC_RELAXED);
    value = AT_LEAST_ONE(value);
    while (was - 1 >= value)
        if (!self->shared) {
            *least = value;
            break;
        } else if (__atomic_compare_exchange_n(least, &was, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
}

static inline void self_most(const struct mpi_self *self, uint64_t *most, uint64_t value)
{
    uint64_t was = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (was < value)
        if (!self->shared) {
            *most = value;
            break;
        } else if (__atomic_compare_exchange_n(most, &was, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
}

/* ---- where a call begins ---- */

ALWAYS bool self_is_switched(const struct mpi_self *self, const struct mpi_area *shared)
{
    return pair_of(&shared->on) != self->switches[0] || pair_of(&shared->bits) != self->switches[1] ||
           pair_of(&shared->state) != self->switches[2];
}

ALWAYS uintptr_t return_address(uintptr_t frame)
{
    return ((const uintptr_t *)frame)[-1];
}

/* The call is the thread's outermost from here on. */
ALWAYS void self_outermost(struct mpi_self *self, uint32_t call, uint64_t site, uintptr_t frame)
{
    self->returns = return_address(frame);
    self->frame = frame;
    self->call = call;
    self->site = site;
}

/* ---- what a call is at ---- */

struct self_target {
    uint32_t comm, flags;
    int32_t peer, tag;
    int32_t source_peer, source_tag;
    uint32_t ordinal, waiting;
    uint64_t bytes, offset;
};
#define SELF_TARGET_NONE \
    { \
        .comm = UINT32_MAX, .peer = MPIA_RANK_NONE, .tag = MPIA_TAG_NONE, .source_peer = MPIA_RANK_NONE, \
        .source_tag = MPIA_TAG_NONE \
    }

/* The call begins: its time stamp, and what it is in, for readers of the area. */
ALWAYS void self_begin(struct mpi_self *self, bool blocking, const struct self_target *target)
{
    self->is_blocking = blocking;
    self->args_bytes = SELF_UNSIZED;
    if (UNLIKELY(!self->counts))
        return;
    struct mpi_now *now = self->now;
    uint32_t seq = atomic_load_explicit(&now->seq, memory_order_relaxed);
    atomic_store_explicit(&now->seq, seq + 1, memory_order_relaxed);
    compiler_barrier();
    now->call = self->call;
    now->site = self->site;
    now->peer = target->peer;
    now->tag = target->tag;
    *(volatile uint64_t *)&now->comm = (uint64_t)target->flags << 32 | target->comm;
    now->bytes = target->bytes;
    now->source_peer = target->source_peer;
    now->source_tag = target->source_tag;
    now->ordinal = target->ordinal;
    now->waiting = target->waiting;
    if (target->flags & MPIA_NOW_OFFSET)
        now->offset = target->offset;
    now->since = self->enter;
    compiler_barrier();
    atomic_store_explicit(&now->seq, seq + 2, memory_order_relaxed);
}

/* The call has returned: its time stamp. Clocks and what the thread is in follow in mpi_done, or with self_left if they
 * have to be right before. */
void self_in_child(struct mpi_self *self);
void self_left(struct mpi_self *self);
void self_failed(struct mpi_self *self);

ALWAYS void mpi_leave(struct mpi_self *self, int result)
{
    if (UNLIKELY(!self->counts))
        return;
    if (UNLIKELY(!mpi_hot.area)) {
        self_in_child(self);
        return;
    }
    self->leave = ticks_now();
    if (UNLIKELY(result != MPI_SUCCESS))
        self_failed(self);
}

/* ---- places ---- */

ALWAYS struct self_place *self_place_at(struct mpi_self *self, uint32_t call, uint64_t site)
{
    return &self->places[(site ^ site >> 6 ^ call) & (SELF_PLACES - 1)];
}

ALWAYS uint64_t self_poll_key(uint32_t call, uint64_t site)
{
    return (uint64_t)call << 48 ^ site;
}

ALWAYS struct self_place *self_place_of(struct mpi_self *self)
{
    return self_place_at(self, self->call, self->site);
}

/* Something was switched, or tables have moved. */
void places_forget(struct mpi_self *self);
/* Something is pending by the second definition (mpi_blocking): the next call that blocks has to look at that. */
void places_pend(struct mpi_self *self);

/* ---- polls (poll.c) ---- */

/* A poll that may do without a time stamp has begun; NULL: it is a call like any other. */
struct mpi_self *mpi_poll_at(uint32_t call, uint64_t site, uintptr_t frame);
ALWAYS struct mpi_self *mpi_poll(uint32_t call, uint64_t site)
{
    return UNLIKELY(mpi_tls.polling != NULL) ? mpi_poll_at(call, site, (uintptr_t)__builtin_dwarf_cfa()) : NULL;
}
/* It brought nothing. */
void mpi_poll_in_vain(struct mpi_self *self);
/* Something has come, or it failed: it becomes a call that has just returned, in place of mpi_leave. */
void mpi_poll_came(struct mpi_self *self, uint32_t call, uint64_t site, int result);
/* A poll that was a call like any other brought nothing; after mpi_done. */
void mpi_poll_had_time(struct mpi_self *self);
ALWAYS void mpi_poll_timed(struct mpi_self *self)
{
    if (LIKELY(mpi_tls.counting != NULL))
        mpi_poll_had_time(self);
}

/* Each poll since the last time stamp gets its time: they were over at `now`. */
void polls_end(struct mpi_self *self, uint64_t now);

/* ---- tables of a thread ---- */

ALWAYS bool peer_is(const struct mpi_peer *row, uint32_t comm, int32_t peer, uint32_t call)
{
    uint64_t both;
    __builtin_memcpy(&both, row, sizeof both);
    return both == ((uint64_t)(uint32_t)peer << 32 | comm) && row->call == call;
}

/* In place of a row that there is none of: is no peer's. */
extern struct mpi_peer self_no_peer;

void self_sent_slow(struct mpi_self *self, uint32_t comm, int32_t peer, uint32_t call, uint64_t count, uint64_t bytes,
                    uint64_t args_bytes);
void self_got_slow(struct mpi_self *self, uint32_t comm, int32_t peer, uint32_t call, uint64_t count, uint64_t bytes);

/* `count` messages of together `bytes` went to, or came from, `peer`. */
ALWAYS void self_sent_to(struct mpi_self *self, uint32_t comm, int32_t peer, uint32_t call, uint64_t count,
                         uint64_t bytes, uint64_t args_bytes)
{
    struct mpi_peer *row = self->send_peer;
    if (LIKELY(peer_is(row, comm, peer, call))) {
        row->sent_count += count;
        row->sent_bytes += bytes;
        row->args_bytes += args_bytes;
    } else
        self_sent_slow(self, comm, peer, call, count, bytes, args_bytes);
}

ALWAYS void self_got_from(struct mpi_self *self, uint32_t comm, int32_t peer, uint32_t call, uint64_t count,
                          uint64_t bytes)
{
    struct mpi_peer *row = self->got_peer;
    if (LIKELY(peer_is(row, comm, peer, call))) {
        row->got_count += count;
        row->got_bytes += bytes;
    } else
        self_got_slow(self, comm, peer, call, count, bytes);
}

/* What the call moves: it has a size. */
ALWAYS void self_bytes(struct mpi_self *self, uint64_t args, uint64_t sent, uint64_t got)
{
    self->args_bytes = args;
    self->sent = sent;
    self->got = got;
}

/* An operation that began at `since` with `call` is complete: its row in spans. */
void self_span(struct mpi_self *self, uint32_t call, uint64_t since, uint64_t until, uint64_t bytes);

/* ---- the listener to single calls and their messages ---- */

/* Set before anything is caught (tell.c); NULL: no listener. Counting knows no more of it than this. Each runs on a
 * thread that calls MPI, before its call. */
struct self_listener {
    bool (*wants)(uint32_t metrics);         /* whether calls are reported from now on; may wait for the agent */
    void (*switched)(struct mpi_self *self); /* something was, and `tells` is decided */
    void (*missed)(struct mpi_self *self);   /* calls have gone by that were not even counted */
    void (*goes_on)(struct mpi_self *self);  /* with what it has begun: see self_pending */
    void (*ends)(void);                      /* MPI_Finalize comes */
    const struct mpi_host *host;             /* its acts, which may be NULL, and call_acts */
};
extern const struct self_listener *self_listener;
/* How much the listener has begun and not completed: while it is not 0, `goes_on` is called before each call that is
 * reported. */
extern uint32_t self_pending;

/* ---- the process ---- */

/* Takes over the area that is mapped at `area`; false: no memory. Before anything is redirected. */
bool self_start(struct mpi_area *area, struct doorbell *bell);

/* The thread goes to dlopen. A library may register itself there, and be called without another call of the dynamic
 * linker: so the thread's next call of MPI calls `self_look`. Only that of the same thread, which has the linker's lock
 * if any thread has. */
void self_opens(void);
extern void (*self_look)(void);

/* Before the program restricts its system calls; see agent/hooks/mpi_host.h. */
bool self_seal(const char *why);

/* Memory of the thread's own of at least `size` bytes, kept for the next time; NULL if there is none. */
void *self_scratch(struct mpi_self *self, uint64_t size);

/* Both clocks stand while nothing is counted; see struct mpi_clock. */
void self_clocks_switch(struct mpi_self *self, bool run, uint64_t now);

/* MPI_Init has returned, MPI_Finalize is entered, MPI_Pcontrol was called. */
/* Before anything is caught: notes whether MPI runs already. */
void self_note_running(void);
void self_init_enter(struct mpi_self *self);
void self_init_return(struct mpi_self *self, bool succeeded);
void self_finalize_enter(struct mpi_self *self);
void self_finalize_return(struct mpi_self *self);
void self_pcontrol(struct mpi_self *self, int level);
void self_abort(int code);

#pragma GCC visibility pop

#endif
