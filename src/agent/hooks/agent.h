/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: libscry-agent.so, loaded into traced programs. This header is what its parts share.
 *
 * Rules of the room. On the paths of a hook: no allocation, no lock that can block, no libc function (sys.h has what is
 * needed), general registers only, errno untouched; everything may be interrupted by a signal whose handler runs hooks
 * itself, and may never be resumed (siglongjmp). Nothing is ever printed, no descriptor stays open, there is no thread
 * of our own. On a fault of its own the agent switches itself off (agent_fault) and the program runs on.
 *
 * The way of a call: hooks_x86_64.S looks at the filter byte, and for a function that is plainly recorded does all of
 * it; everything else comes to hooks.c, enter.c and leave.c. stack.c pairs entries and exits on shadow stacks, record.c
 * writes into packets, recover.c sets right what hooks that never come back have left.
 *
 * What guards what: area_thread.pending is not 0 while a hook of the thread is at its shadow stack or packet, and
 * agent_thread.writer is then the stack pointer of that hook. A hook that finds it so runs in a signal handler (or the
 * one before was left by siglongjmp, see thread_guard): it may add records that fit and frames on the same stack, but
 * neither changes the packet nor the stack.
 */
#ifndef SCRY_AGENT_HOOKS_AGENT_H
#define SCRY_AGENT_HOOKS_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/safety/moves.h"
#include "agent/system/offsets.h"
#include "agent/system/sys.h"
#include "shm/area.h"
#include "shm/capture.h"
#include "shm/record.h"

enum {
    AGENT_INSERTING = 8,
    AGENT_QUIET = 128,
    AGENT_FRAMES_PAGES = 4,      /* with which a shadow stack begins */
    AGENT_FRAMES_KEPT = 16,      /* places that shadow stacks have left while hooks were interrupted */
    AGENT_STACKS = 1024,         /* of a thread, */
    AGENT_STACKS_FEW = 64,       /* and as many to begin with */
    AGENT_SCRATCH = 8256,        /* bytes for captured values: a caller's and those of the call */
    AGENT_WAITING = 1 << 20,     /* bytes of values that wait for --min-time */
    AGENT_CONTEXTS = 4096,       /* stacks given to makecontext that are remembered */
    AGENT_NO_PACKET = INT32_MAX, /* packet_seq while there is none */
    AGENT_LEVELS = 30,           /* hooks in handlers that interrupted a hook in a handler that ... */
};

/* FORK_NEW: perhaps the child of a fork, which was not looked at yet; see fork_noticed(). */
enum agent_noticed { FORK_NEW, FORK_NOTICED, FORK_LEFT_ALONE };

/* What hooks look at first. A page of its own that a fork wipes, whichever way it was made: a child finds area NULL. */
struct agent_hot {
    struct area *area;
    struct area_slot *slots;
    uint64_t slot_mask;
    struct area_place *places;
    uint64_t place_mask;
    /* Functions that are AREA_QUIET, by some bits of their filter index. None of their calls that are on a shadow stack
     * has its exit below `above`. */
    _Alignas(64) struct agent_quiet {
        _Atomic uint64_t function, above;
    } quiet[AGENT_QUIET];
    /* from here on not seen by hooks_x86_64.S */
    struct area_view view;
    struct doorbell *bell;
    code_cell *cells;
    int32_t pid;
    _Atomic uint32_t noticed; /* enum agent_noticed */
    bool valgrind;            /* see valgrind.h */
    _Atomic uint32_t thread_serial;
    _Atomic bool has_stacks; /* some thread has, or had, another one than its own */
    _Atomic uint32_t packet_hint, packet_freed;
    _Atomic bool packets_refused;      /* there was no memory for one: the monitor alone has it */
    _Atomic uint32_t vain, vain_freed; /* waits for room that ran out one after the other; area.freed meanwhile */
    _Atomic uint64_t vain_at;          /* when the last one of these did, ns */
    _Atomic uint64_t first_packet;     /* when the first one that became full was begun, ticks; 0: none yet */
    _Atomic uint64_t taken;            /* bytes of address space that threads' memory takes */
    /* functions that are being put into the slots, see slot_new */
    _Alignas(64) _Atomic uint64_t inserting[AGENT_INSERTING];
} __attribute__((aligned(AREA_PAGE)));

/* One stack that a thread has run on. The current one's values are in agent_thread. */
struct agent_stack {
    uint64_t low, size;
    struct agent_frame *frames; /* NULL: nothing is recorded there. As limit, depth: as it was when it was left */
    uint32_t limit, most;       /* frames that there is room for, and may be at all */
    uint32_t depth, plain, waiting;
    uint32_t lost; /* exits not reported yet */
    uint32_t id;
    uint64_t used; /* when it was switched to, for reuse */
};

/* A hook at work in a signal's handler, while the one that the handler interrupted waits. */
struct agent_level {
    uint64_t writer;           /* its stack pointer */
    uint64_t at, size, before; /* its last record: place, size, time of what was there before; at 0: none yet */
    uint64_t upper;            /* the first record behind it of a handler that interrupted this one; 0: none */
    struct agent_frame *frame; /* whose entry or exit that is */
    uint32_t id;
    uint32_t ending, ending_to; /* see struct agent_thread */
    uint32_t scratch_used;
    bool reserved;
};

/* Memory that grows with what is in it, see stack_room. */
struct agent_room {
    uint8_t *at; /* NULL: nothing yet */
    uint64_t size;
};

/* Private memory of a thread: a page. A program may have thousands of threads and a limit of its address space. */
struct agent_store {
    struct agent_level levels[AGENT_LEVELS];
    struct agent_room stacks;  /* struct agent_stack[] */
    struct agent_room scratch; /* two of AGENT_SCRATCH bytes */
    struct agent_room waiting;
    struct agent_room thin; /* record.c */
    /* Where the current shadow stack was before it grew: the same memory, for hooks that are interrupted. */
    struct agent_kept {
        struct agent_frame *_Atomic frames;
        uint32_t limit;
    } kept[AGENT_FRAMES_KEPT];
    _Atomic uint32_t kept_count;
};

enum agent_thread_state {
    AGENT_THREAD_NEW,
    AGENT_THREAD_ATTACHING,
    AGENT_THREAD_LIVE,
    AGENT_THREAD_REFUSED,
    AGENT_THREAD_ENDED
};

/* The thread's own state; initial-exec TLS. Field order is known to hooks_x86_64.S (offsets.h). */
struct agent_thread {
    struct area_thread *block; /* NULL: not attached */
    uint64_t stack_low;
    uint64_t stack_size; /* 0: hooks take the long way */
    struct agent_frame *frames;
    uint64_t packet_seq; /* of the current packet */
    uint64_t writer;     /* stack pointer of the hook that set pending */
    uint32_t frame_limit;
    uint32_t state;
    struct agent_frame *leaving; /* whose exit is being recorded */
    /* from here on not seen by hooks_x86_64.S */
    uint64_t size; /* stack_size while tracing is not off in this thread */
    struct agent_store *store;
    uint32_t stack; /* index in store->stacks */
    uint32_t stack_count;
    uint32_t plain;   /* frames of the current stack that leave no record */
    uint32_t waiting; /* that wait for --min-time */
    uint64_t lost;    /* recorded calls that ended without a record, see lost_add */
    uint32_t telling; /* of `lost`, in the RECORD_LOST that is being written */
    uint32_t off;     /* scry_trace_off */
    uint32_t stuck;   /* hooks in a row that were dropped because of pending */
    uint32_t refused; /* hooks until attaching is tried again */
    uint32_t scratch_used;
    uint32_t values_used; /* of store->waiting */
    uint32_t no_room;     /* records in a row that found no packet */
    uint32_t freed_seen;  /* area.freed when there was none */
    uint32_t last_stack_id;
    bool refused_once;
    bool child_thin; /* forks_thin for that of the fork that is under way */
    uint64_t switches;
    uint64_t own_low, own_high; /* the thread's own stack; 0: not known yet */
    uint64_t next_seq;
    /* How it was when a signal handler first wrote a record while `pending` was nested_for. */
    uint64_t nested_for, nested_cursor, nested_time;
    uint64_t nested_last; /* time of the last record of a handler */
    uint32_t levels;      /* how many of store->levels are in use */
    uint32_t hole_id;     /* 1 + id of the record that is being written, with HOLE_LONG by the long way */
    uint8_t switching;    /* between stacks: enum agent_switch */
    bool waited;          /* for a packet, the last time that one was needed, until the time was over */
    int32_t tid;
    const struct capture_frame *registers;    /* of the innermost long hook */
    struct agent_frame *entering;             /* whose entry the long way is recording */
    uint64_t hole_at, hole_size, hole_before; /* its record, if hole_id has HOLE_LONG; at 0: none */
    uint32_t ending;                /* recorded calls that are being removed from the stack, and not reported yet */
    uint32_t ending_to;             /* the depth after `ending`; until then that frame is FRAME_ENDED */
    uint32_t base_plain;            /* `plain` without frames of handlers, while there are levels */
    uint32_t retiring;              /* 1 + index of the packet that is being given away */
    uint32_t told_stack;            /* the stack that the packet names last */
    uint32_t values_read;           /* how often: some are measured */
    uint8_t pointed[MOVES_POINTED]; /* varying values, until there is a record for them */
    uint64_t mpi_bytes;             /* of the packet: in records of MPI's calls and messages */
    _Atomic uint64_t patched_free;  /* patched.c: records of trampolines */
    int32_t patched_kept;           /* how many these are, roughly */
    bool patched;                   /* it has had one */
    bool unfound;                   /* the end of a call was told of which nothing is known */
};

enum agent_switch { SWITCH_NOT, SWITCH_LEAVES, SWITCH_ENTERS };

extern struct agent_hot agent_hot;
extern uint8_t agent_filter[AREA_FILTER];
extern _Thread_local struct agent_thread agent_self __attribute__((tls_model("initial-exec")));

static inline uint64_t agent_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

static inline void agent_signal_fence(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* One instruction: whole for signal handlers of the same thread. */
static inline void agent_add_local(_Atomic uint64_t *counter, uint64_t count)
{
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(count));
}

enum { HOLE_LONG = 0x100 };

/* What belongs together in agent_thread.lost changes together: the number above LOST_ONE, and below it who is in it: a
 * bit for each guard whose `ending` was added, LOST_TOLD once `telling` was taken off. */
#define LOST_ONE (UINT64_C(1) << 32)
#define LOST_TOLD (UINT64_C(1) << 31)
_Static_assert(AGENT_LEVELS < 31, "a bit for each guard");

static inline void lost_add(struct agent_thread *self, uint64_t change)
{
    __asm__ volatile("addq %1, %0" : "+m"(self->lost) : "er"(change) : "memory");
}

static inline void lost_clear(struct agent_thread *self, uint64_t bits)
{
    __asm__ volatile("andq %1, %0" : "+m"(self->lost) : "er"(~bits) : "memory");
}

static inline uint32_t lost_count(const struct agent_thread *self)
{
    return (uint32_t)(*(const volatile uint64_t *)&self->lost / LOST_ONE);
}

/* Switches the agent off for good. Signal-safe. */
void agent_fault(const char *text);
/* The same, also for processes to be forked: from here on, no system call is made. */
void agent_seal(const char *text);
void agent_ring(void);

/* ---- hooks_x86_64.S ---- */

/* Fills frame->xmm with the vector registers as they are: as the hook found them, since nothing on its way uses them.
 */
void agent_save_xmm(struct capture_frame *frame);
extern const char agent_hooks_begin[], agent_hooks_end[]; /* where rsp is still that of the hook */

/* ---- hooks.c ---- */

/* `frame`: registers as the hook found them; rsp as before the call of the hook. full: 1: all of them; 2: those that
 * calls keep; 0: none can be relied on. */
void agent_enter_act(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t slot);
void agent_enter_slow(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t full);
void agent_exit_slow(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t full);

/* A thread has tallied another TALLY_BITS + 1 calls of it. */
void agent_tally_many(uint64_t function, uint64_t callsite, struct capture_frame *frame, uint32_t full);

/* GUARD_NESTED and above: as many hooks are interrupted. */
enum guard { GUARD_STUCK = -1, GUARD_OUTER, GUARD_NESTED };
/* Begins work on shadow stack and packet. `rsp`: of the hook. */
enum guard thread_guard(struct agent_thread *self, uint64_t rsp);

/* Writes the entries of all calls of the current stack that wait for --min-time. */
void hooks_flush_waiting(struct agent_thread *self, enum guard guard);

/* ---- record.c ---- */

/* Writes one record: `head` and `body` one after the other. `time`: of it, 0: now. `guard`: as got from thread_guard.
 * Returns its time, or 0: it found no room and was counted in `discarded`. */
uint64_t record_put(struct agent_thread *self, enum guard guard, uint32_t id, uint64_t time, const void *head,
                    size_t head_size, const void *body, size_t body_size);
/* The same, but only if the packet has room for it: 0 is not counted. */
uint64_t record_try(struct agent_thread *self, enum guard guard, uint32_t id, uint64_t time, const void *head,
                    size_t head_size, const void *body, size_t body_size);
/* An entry, with `caller`, if there is any, as the RECORD_CALLER_VALUES before it: both in the same packet, and nothing
 * comes between. Where signal handlers have room for the entry alone, that is written. */
struct record_entry {
    uint32_t function;
    uint32_t values_size, caller_size; /* 0: none */
    const void *values, *caller;
};
uint64_t record_put_entry(struct agent_thread *self, enum guard guard, uint64_t time, const struct record_entry *entry);
/* Writes a record's head; returns its size. */
size_t record_head(uint64_t at, uint32_t id, uint64_t now, bool extended);
/* One entry or exit is not recorded; `waited`: although it was waited for room. */
void record_discarded(struct agent_thread *self, bool waited);
/* After a record that found no room: whether that was waited for. Handlers do not wait. */
static inline bool waited_in_vain(const struct agent_thread *self, enum guard guard)
{
    return guard == GUARD_OUTER && self->waited;
}
/* Writes nothing more into this packet before the next one has reported what is missing. */
void record_close(struct agent_thread *self);
/* The size of the whole record at `at`, of at most `left` bytes, and its id; 0: there is none. */
uint32_t record_size(const uint8_t *at, uint64_t left, uint32_t *ret_id);
/* Bytes of records in the thread's packet. */
uint64_t record_written(const struct agent_thread *self);
/* Hands the thread's packet to the monitor. */
void record_retire(struct agent_thread *self);

/* ---- recover.c ---- */

/* All hooks at work were left for good: what they left half done is made whole. */
void recover_all(struct agent_thread *self);
/* The same, but for `keep` hooks in handlers, and the one that they interrupted. */
void recover_levels(struct agent_thread *self, uint32_t keep);
/* Another hook in a handler. */
enum guard level_begin(struct agent_thread *self, uint64_t rsp);
void level_end(struct agent_thread *self, enum guard guard);
/* A record of `guard` came to lie at `at`, behind what those that are interrupted have reserved. */
void level_reserved(struct agent_thread *self, enum guard guard, uint64_t at);
/* `count` recorded calls are about to be taken off, down to `depth`; ending_lost: they are off, and no record says so;
 * ending_done: they are off, and reported. */
void ending_begin(struct agent_thread *self, enum guard guard, uint32_t depth, uint32_t count);
void ending_lost(struct agent_thread *self, enum guard guard);
static inline void ending_done(struct agent_thread *self, enum guard guard)
{
    agent_signal_fence();
    *(guard == GUARD_OUTER ? &self->ending : &self->store->levels[guard - 1].ending) = 0;
    agent_signal_fence();
}
/* Whose entry or exit is recorded next. */
static inline void frame_begin(struct agent_thread *self, enum guard guard, struct agent_frame *frame, bool exit)
{
    /* the record before is whole */
    *(guard != GUARD_OUTER ? &self->store->levels[guard - 1].at : &self->hole_at) = 0;
    agent_signal_fence();
    *(guard != GUARD_OUTER ? &self->store->levels[guard - 1].frame : exit ? &self->leaving : &self->entering) = frame;
    agent_signal_fence();
}
static inline void thread_unguard(struct agent_thread *self, enum guard guard)
{
    agent_signal_fence();
    if (guard != GUARD_OUTER || self->levels)
        level_end(self, guard);
    if (guard != GUARD_OUTER)
        return;
    if (self->hole_id) { /* all is whole: without the id, nothing behind `pending` is ours */
        self->hole_at = 0;
        agent_signal_fence();
        uint64_t cursor = atomic_load_explicit(&self->block->cursor, memory_order_relaxed);
        atomic_store_explicit(&self->block->pending, cursor ? cursor : 1, memory_order_relaxed);
        agent_signal_fence();
        self->hole_id = 0;
        agent_signal_fence();
    }
    atomic_store_explicit(&self->block->pending, 0, memory_order_release);
}

/* ---- stack.c ---- */

/* Makes the stack that holds sp the current one. false: nothing can be recorded there. */
/* create: also if it was not seen before. */
bool stack_switch(struct agent_thread *self, enum guard guard, uint64_t sp, bool create);
/* Bounds of the calling thread's own stack, if they are known. */
void stack_own(struct agent_thread *self);
/* Removes frames from the top until `depth` are left. Reports recorded ones as unwound. */
void stack_unwind(struct agent_thread *self, enum guard guard, uint32_t depth);
void stack_unwind_all(struct agent_thread *self, enum guard guard); /* on all stacks: the thread ends */
/* Takes off what cannot live any more when a function of `callsite` enters at `sp` with its hook at `site`. */
void stack_unwind_entry(struct agent_thread *self, enum guard guard, uint64_t sp, uint64_t site, uint64_t callsite);
/* The frame that ends; false: none, and *ret_index frames live on. rbp as the hook found it. */
bool stack_find_exit(struct agent_thread *self, uint64_t function, uint64_t callsite, uint64_t site, uint64_t sp,
                     uint64_t rbp, uint32_t *ret_index);
/* Makes room for more frames on the current shadow stack. */
bool stack_grow(struct agent_thread *self, enum guard guard);
/* Whether `frame` is one of the current stack's, also by an address that it had before the stack grew. */
bool stack_has_frame(const struct agent_thread *self, const struct agent_frame *frame);
/* The thread's private memory. */
bool stack_store(struct agent_thread *self);
void stack_release(struct agent_thread *self);
/* Has at least `size` bytes, or does not change. It moves: only for what hooks of handlers leave alone, unless it has all
 * that it will ever need at once. */
bool stack_room(struct agent_room *room, uint64_t size);
static inline struct agent_stack *stack_at(const struct agent_thread *self, uint32_t index)
{
    return (struct agent_stack *)(void *)self->store->stacks.at + index;
}
/* Recorded calls open on the current stack. */
static inline uint32_t stack_recorded(const struct agent_thread *self)
{
    uint32_t depth = atomic_load_explicit(&self->block->depth, memory_order_relaxed);
    uint32_t not = self->plain + self->waiting;
    return depth > not ? depth - not : 0;
}
/* Whether an address lies on the thread's stack for signal handlers. */
bool stack_is_alternate(uint64_t sp);
/* Whether it has run out of that stack, downwards. */
bool stack_is_left(uint64_t sp);
void stack_context(uint64_t low, uint64_t size); /* a stack given to makecontext */
/* longjmp goes to a frame of this stack pointer, as the C library keeps it: what lies below is unwound. */
void agent_stack_jump(uint64_t mangled);

/* ---- threads.c ---- */

/* The calling thread attached to a block of the area; false: there is none for it. Signal-safe. */
bool thread_attach(struct agent_thread *self);
/* Its last record was written: hands everything in. */
void thread_end(struct agent_thread *self);
/* In the child of a fork: what was the parent's. */
void thread_forget(struct agent_thread *self);
void threads_init(void);

/* ---- connect.c, start.c, modules.c ---- */

enum { CONNECT_START, CONNECT_FORK, CONNECT_DLOPEN, CONNECT_MPI };
/* false: the monitor was not reached, and knows nothing of this process. */
bool agent_connect(int how);
/* Looks whether this is the child of a fork; then it gets an area of its own, or is left alone. */
void fork_noticed(void);
bool fork_waits(void);               /* it is one that was not looked at yet: its first traced call is awaited */
void modules_init(uint64_t changes); /* how often libraries had come and gone at the start */
void *agent_next(const char *name);  /* the next definition of a function after ours */
void *(*agent_dlsym(void))(void *, const char *); /* the C library's own */

/* How a hook that interrupted nothing (GUARD_OUTER) reserves room in a packet. For record.c and mpi.c. */

static inline bool cursor_move(_Atomic uint64_t *cursor, uint64_t from, uint64_t to)
{
    bool moved;
    __asm__ volatile("cmpxchgq %3, %1" : "=@ccz"(moved), "+m"(*cursor), "+a"(from) : "r"(to) : "memory");
    return moved;
}

/* Notes for recover.c, should we never come back. The place is noted last. Then records of handlers are noticed before
 * it is read again: one that they put there is not ours. false: one of them was there already. */
static inline bool hole_begin(struct agent_thread *self, uint32_t id, uint64_t cursor, size_t size, uint64_t last)
{
    struct area_thread *block = self->block;
    self->hole_at = 0;
    agent_signal_fence();
    self->hole_id = (id + 1) | HOLE_LONG;
    self->hole_size = size;
    self->hole_before = last;
    self->nested_cursor = UINT64_MAX;
    agent_signal_fence();
    atomic_store_explicit(&block->pending, cursor, memory_order_relaxed);
    agent_signal_fence();
    if (atomic_load_explicit(&block->cursor, memory_order_relaxed) != cursor)
        return false;
    agent_signal_fence();
    self->hole_at = cursor;
    agent_signal_fence();
    return true;
}

#endif
