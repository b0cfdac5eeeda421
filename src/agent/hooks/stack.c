/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shadow stacks: which calls are open on which stack, and which of them an exit ends. Addresses decide:
 * a caller's frame lies above its callee's, so whatever lies below the stack pointer of a hook is dead.
 */
#include "agent/hooks/agent.h"
#include "agent/hooks/connect.h"
#include "agent/system/large.h"
#include "agent/system/proc_text.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum {
    PUSHED_MAX = 4096,       /* bytes of arguments that may still be on the stack at an exit */
    ENTERED_PUSHED_MAX = 512 /* the same at an entry, where what lies there is not known any more at the exit */
};

extern void *__libc_stack_end; /* of the dynamic linker: the outermost frame */

/* ---- which call ends ---- */

static void unwind_to(struct agent_thread *self, enum guard guard, uint32_t depth)
{
    struct area_thread *block = self->block;
    uint32_t now = atomic_load_explicit(&block->depth, memory_order_relaxed), recorded = 0, waiting = 0;
    if (now <= depth)
        return;
    for (uint32_t i = now; i > depth; i--) {
        const struct agent_frame *frame = &self->frames[i - 1];
        recorded += (frame->flags & FRAME_RECORDED) != 0;
        waiting += (frame->flags & (FRAME_RECORDED | FRAME_WAITING)) == FRAME_WAITING;
        if (frame->values_at && (frame->flags & FRAME_WAITING))
            self->values_used = (uint32_t)frame->values_at - 1;
        if (frame->flags & FRAME_COUNT)
            atomic_fetch_add_explicit(&agent_hot.slots[frame->slot].ticks, agent_ticks() - frame->time,
                                      memory_order_relaxed);
    }
    uint32_t plain = now - depth - recorded - waiting;
    if (recorded)
        ending_begin(self, guard, depth, recorded);
    atomic_store_explicit(&block->depth, depth, memory_order_relaxed);
    agent_signal_fence();
    self->waiting -= waiting < self->waiting ? waiting : self->waiting;
    self->plain -= plain < self->plain ? plain : self->plain;
    if (!depth)
        self->plain = self->waiting = self->values_used = 0;
    if (!recorded)
        return;
    if (self->waiting && guard == GUARD_OUTER)
        hooks_flush_waiting(self, guard);
    bool put = record_put(self, guard, RECORD_UNWOUND, 0, &recorded, sizeof recorded, NULL, 0);
    if (!put)
        ending_lost(self, guard);
    else
        ending_done(self, guard);
}

/* Calls that wait until they have taken long enough, and have by now, are recorded. Those above them began later. */
static void unwind_waiting(struct agent_thread *self, enum guard guard, uint32_t depth)
{
    uint64_t limit = atomic_load_explicit(&agent_hot.area->min_ticks, memory_order_relaxed), now = agent_ticks();
    uint32_t keep = atomic_load_explicit(&self->block->depth, memory_order_relaxed);
    for (; keep > depth; keep--) {
        const struct agent_frame *frame = &self->frames[keep - 1];
        if (frame->flags & FRAME_WAITING && now - frame->time >= limit)
            break;
    }
    if (keep <= depth)
        return;
    unwind_to(self, guard, keep);
    hooks_flush_waiting(self, guard);
}

void stack_unwind(struct agent_thread *self, enum guard guard, uint32_t depth)
{
    if (self->waiting && guard == GUARD_OUTER)
        unwind_waiting(self, guard, depth);
    unwind_to(self, guard, depth);
}

void stack_unwind_entry(struct agent_thread *self, enum guard guard, uint64_t sp, uint64_t site, uint64_t callsite)
{
    uint32_t depth = atomic_load_explicit(&self->block->depth, memory_order_relaxed);
    const struct agent_frame *frames = self->frames;
    while (depth && frames[depth - 1].sp < sp)
        depth--;
    /* At the same place: bodies inlined into one frame live side by side, but each only once. */
    for (uint32_t i = depth; i && frames[i - 1].sp == sp; i--)
        if (frames[i - 1].site == site || frames[i - 1].callsite != callsite)
            depth = i - 1;
    stack_unwind(self, guard, depth);
}

/* With alloca the stack pointer at the exit is lower than at the entry: then there is a frame pointer, and the return
 * address above it is the call site. Returns how high the entry may have been. */
static uint64_t exit_reach(const struct agent_thread *self, uint64_t sp, uint64_t rbp, uint64_t callsite)
{
    if (rbp <= sp || rbp % sizeof(uint64_t) || rbp - self->stack_low >= self->size - 2 * sizeof(uint64_t))
        return sp;
    return *(const uint64_t *)(rbp + sizeof(uint64_t)) == callsite ? rbp : sp;
}

/* Without a frame pointer it is lower, too, where the compiler has not yet removed the arguments of a call from the
 * stack. Another activation of the function, whose entry we have not seen, would have its return address in between. */
static bool exit_of_pushed(const struct agent_frame *frame, uint64_t sp, uint64_t callsite)
{
    if (frame->sp <= sp || frame->sp - sp > PUSHED_MAX || sp % sizeof(uint64_t))
        return false;
    for (uint64_t at = sp; at < frame->sp; at += sizeof(uint64_t))
        if (*(const uint64_t *)at == callsite)
            return false;
    return true;
}

bool stack_find_exit(struct agent_thread *self, uint64_t function, uint64_t callsite, uint64_t site, uint64_t sp,
                     uint64_t rbp, uint32_t *ret_index)
{
    uint32_t depth = atomic_load_explicit(&self->block->depth, memory_order_relaxed);
    const struct agent_frame *frames = self->frames;
    if (site == callsite) {
        /* A tail call of the hook: the function's frame is gone, sp is its caller's. */
        uint32_t found = UINT32_MAX;
        for (; depth && frames[depth - 1].sp < sp; depth--)
            if (frames[depth - 1].function == function)
                found = depth - 1;
        *ret_index = found == UINT32_MAX ? depth : found;
        return found != UINT32_MAX;
    }
    uint64_t reach = exit_reach(self, sp, rbp, callsite);
    for (uint32_t i = depth; i && frames[i - 1].sp <= reach; i--) {
        const struct agent_frame *frame = &frames[i - 1];
        if (frame->sp >= sp && frame->function == function && frame->callsite == callsite) {
            *ret_index = i - 1;
            return true;
        }
    }
    /* An inlined body was entered before the compiler removed such arguments, and is left behind that. */
    for (uint32_t i = depth; i && frames[i - 1].sp < sp; i--) {
        const struct agent_frame *frame = &frames[i - 1];
        if (sp - frame->sp <= ENTERED_PUSHED_MAX && frame->function == function && frame->callsite == callsite) {
            *ret_index = i - 1;
            return true;
        }
    }
    while (depth && frames[depth - 1].sp < sp)
        depth--;
    for (uint32_t i = depth; i && frames[i - 1].sp - sp <= PUSHED_MAX; i--) {
        const struct agent_frame *frame = &frames[i - 1];
        if (frame->function == function && frame->callsite == callsite && exit_of_pushed(frame, sp, callsite)) {
            *ret_index = i - 1;
            return true;
        }
    }
    *ret_index = depth;
    return false;
}

/* The current stack is that of signal handlers. */
static bool on_signal_stack(const struct agent_thread *self)
{
    stack_t alternate;
    return sys_call2(SYS_sigaltstack, 0, (long)&alternate) == 0 && !(alternate.ss_flags & SS_DISABLE) &&
           (uint64_t)alternate.ss_sp - self->stack_low < self->size;
}

bool stack_is_alternate(uint64_t sp)
{
    stack_t alternate;
    return sys_call2(SYS_sigaltstack, 0, (long)&alternate) == 0 && !(alternate.ss_flags & SS_DISABLE) &&
           sp - (uint64_t)alternate.ss_sp < alternate.ss_size;
}

bool stack_is_left(uint64_t sp)
{
    enum { STACK_LEFT = 64 << 10 };
    stack_t alternate;
    return sys_call2(SYS_sigaltstack, 0, (long)&alternate) == 0 && !(alternate.ss_flags & SS_DISABLE) &&
           (uint64_t)alternate.ss_sp - sp < STACK_LEFT;
}

/* longjmp: setjmp keeps stack pointers mangled (PTR_MANGLE of the C library on x86-64). */
void agent_stack_jump(uint64_t mangled)
{
    struct agent_thread *self = &agent_self;
    uint64_t sp = mangled, guard_word, hook = (uint64_t)self->registers;
    __asm__("movq %%fs:0x30, %0" : "=r"(guard_word));
    sp = (sp >> 17 | sp << 47) ^ guard_word;
    /* of a hook that is left: one that only acts, and so guards nothing */
    if (hook < sp && (hook - self->stack_low < self->size) == (sp - self->stack_low < self->size))
        self->registers = NULL;
    if (!agent_hot.area || !self->block)
        return;
    uint64_t here = (uint64_t)__builtin_frame_address(0);
    enum guard guard = thread_guard(self, here);
    if (guard != GUARD_OUTER) {
        /* Out of a handler; if the hook that it interrupted is left with it, that is certain now: it lies below where
         * we go, or, like us, on a stack of handlers that is left altogether. */
        bool there = sp - self->stack_low < self->size, writer = self->writer - self->stack_low < self->size;
        bool left = there ? sp >= self->writer : here - self->stack_low < self->size && on_signal_stack(self);
        if (writer && left) {
            recover_all(self);
            self->registers = NULL; /* of a hook that is left */
            self->writer = there ? sp : here;
            guard = GUARD_OUTER;
        } else if (guard != GUARD_STUCK && there) {
            level_end(self, guard);
            guard = level_begin(self, sp); /* what lies below where we go is left */
        } else {
            thread_unguard(self, guard);
            return;
        }
        if (guard == GUARD_STUCK)
            return;
    }
    if (here - self->stack_low < self->size && sp - self->stack_low >= self->size && on_signal_stack(self)) {
        stack_unwind(self, guard, 0); /* a handler on a stack of its own that does not return */
        stack_switch(self, guard, sp, false);
    }
    uint32_t depth = atomic_load_explicit(&self->block->depth, memory_order_relaxed);
    if (sp - self->stack_low < self->size) {
        while (depth && self->frames[depth - 1].sp < sp)
            depth--;
        stack_unwind(self, guard, depth);
    }
    thread_unguard(self, guard);
}

/* ---- memory ---- */

/* Threads' memory is to leave the program what it would have without us, but for a sixteenth. */
static bool room_allows(uint64_t size)
{
    uint64_t left = agent_address_room(), taken = atomic_load_explicit(&agent_hot.taken, memory_order_relaxed);
    return (left == UINT64_MAX || taken + size <= (left + taken) / LARGE_PART) &&
           large_allowed(taken + size, LARGE_PART);
}

static void memory_unmap(void *at, uint64_t size)
{
    sys_call2(SYS_munmap, (long)at, (long)size);
    atomic_fetch_sub_explicit(&agent_hot.taken, size, memory_order_relaxed);
}

static void *memory_map(uint64_t size, int sharing)
{
    if (!room_allows(size))
        return NULL;
    long at =
        sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at < 0 && at > -4096)
        return NULL;
    atomic_fetch_add_explicit(&agent_hot.taken, size, memory_order_relaxed);
    /* with huge pages, each thread would cost 2 MB when it touches the first byte */
    sys_call4(SYS_madvise, at, (long)size, MADV_NOHUGEPAGE, 0);
    /* a child of fork starts again (thread_forget); it must not cost the parent a copy of each page it writes */
    if (sys_call4(SYS_madvise, at, (long)size, MADV_DONTFORK, 0) < 0) {
        memory_unmap((void *)at, size);
        return NULL;
    }
    return (void *)at;
}

bool stack_room(struct agent_room *room, uint64_t size)
{
    uint8_t *before = room->at;
    uint64_t had = room->size;
    if (had >= size)
        return true;
    size = ((size > 2 * had ? size : 2 * had) + AREA_PAGE - 1) & -(uint64_t)AREA_PAGE;
    uint8_t *at = memory_map(size, MAP_PRIVATE);
    if (!at)
        return false;
    if (had)
        raw_copy(at, before, had);
    agent_signal_fence();
    room->at = at; /* not moved by the kernel: a handler that comes with the end of the call might never come back */
    agent_signal_fence();
    room->size = size;
    agent_signal_fence();
    if (had)
        memory_unmap(before, had);
    return true;
}

static void room_release(struct agent_room *room)
{
    if (room->at)
        memory_unmap(room->at, room->size);
}

/* ---- shadow stacks: a frame before the first that is never left ---- */

static uint64_t frames_pages(uint32_t limit)
{
    return (((uint64_t)limit + 1) * sizeof(struct agent_frame) + AREA_PAGE - 1) / AREA_PAGE;
}

static void frames_unmap(struct agent_frame *frames, uint32_t limit)
{
    if (frames)
        memory_unmap(frames - 1, frames_pages(limit) * AREA_PAGE);
}

/* Shared memory, for that can be mapped again, at another place (stack_grow). block: it is that of a thread's own stack:
 * the first page becomes that beside the block, which outlives the process (shm/area.h), mapped again, too. */
static struct agent_frame *frames_map(uint32_t *ret_limit, const struct area_thread *block)
{
    /* Valgrind maps nothing again: there it does not grow */
    uint64_t size =
        agent_hot.valgrind ? AREA_DEEPEST * sizeof(struct agent_frame) : (uint64_t)AGENT_FRAMES_PAGES * AREA_PAGE;
    struct agent_frame *frames = memory_map(size, MAP_SHARED);
    long page = block ? (long)(area_frames_of(block) - 1) : 0;
    if (frames && block &&
        sys_call6(SYS_mremap, page, 0, AREA_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (long)frames, 0) != (long)frames) {
        /* the first page may be gone now, and somebody else there: without, then */
        memory_unmap((uint8_t *)frames + AREA_PAGE, size - AREA_PAGE);
        frames = memory_map(size, MAP_SHARED);
    }
    if (!frames)
        return NULL;
    frames[0].sp = UINT64_MAX;
    *ret_limit = (uint32_t)(size / sizeof *frames) - 1;
    return frames + 1;
}

/* `from` at another place as well, which has `room` pages. Each piece of it is what one growth has added. false: it could
 * not be; the place is given back, but for the piece that failed: that may be gone, and somebody else there. */
static bool frames_map_again(const uint8_t *from, uint64_t pages, uint8_t *to, uint64_t room)
{
    uint64_t at = 0, end = 1;
    for (; at < pages; at = end, end = at < AGENT_FRAMES_PAGES ? AGENT_FRAMES_PAGES : 2 * at) {
        uint64_t offset = at * AREA_PAGE, size = ((end < pages ? end : pages) - at) * AREA_PAGE;
        long wanted = (long)(to + offset);
        if (sys_call6(SYS_mremap, (long)(from + offset), 0, (long)size, MREMAP_MAYMOVE | MREMAP_FIXED, wanted, 0) !=
            wanted) {
            if (offset)
                memory_unmap(to, offset);
            if (offset + size < room * AREA_PAGE)
                memory_unmap(to + offset + size, room * AREA_PAGE - offset - size);
            return false;
        }
    }
    return true;
}

bool stack_has_frame(const struct agent_thread *self, const struct agent_frame *frame)
{
    uint32_t depth = atomic_load_explicit(&self->block->depth, memory_order_relaxed);
    if (frame >= self->frames && frame < self->frames + depth)
        return true;
    uint32_t count = atomic_load_explicit(&self->store->kept_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count && i < AGENT_FRAMES_KEPT; i++) {
        const struct agent_frame *kept = atomic_load_explicit(&self->store->kept[i].frames, memory_order_relaxed);
        uint32_t limit = self->store->kept[i].limit;
        if (kept && frame >= kept && frame < kept + (depth < limit ? depth : limit))
            return true;
    }
    return false;
}

/* No hook is interrupted: none has an address of before the stack grew. */
static void kept_release(struct agent_thread *self)
{
    struct agent_store *store = self->store;
    uint32_t count = atomic_load_explicit(&store->kept_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count && i < AGENT_FRAMES_KEPT; i++) {
        struct agent_frame *frames = atomic_exchange_explicit(&store->kept[i].frames, NULL, memory_order_relaxed);
        if (frames != self->frames)
            frames_unmap(frames, store->kept[i].limit);
    }
    atomic_compare_exchange_strong(&store->kept_count, &count, 0);
}

/*
 * Twice as large, at another place. What was there is mapped at both, for a signal's handler may have come while a hook
 * was at work: that goes on with the addresses it has. What is interrupted here itself, by a handler that lets the stack
 * grow, finds another address in `frames`, and has nothing left to do; if it is left for good, some address space is lost.
 */
bool stack_grow(struct agent_thread *self, enum guard guard)
{
    struct agent_store *store = self->store;
    struct agent_stack *stack = stack_at(self, self->stack);
    if (guard == GUARD_OUTER)
        kept_release(self); /* from here on no address is kept but by us */
    agent_signal_fence();
    uint32_t limit = *(volatile uint32_t *)&self->frame_limit;
    struct agent_frame *from =
        *(struct agent_frame *volatile *)&self->frames; /* has room for `limit`, or more by now */
    if (limit >= stack->most)
        return false;
    uint64_t pages = 2 * frames_pages(limit), most = frames_pages(stack->most);
    pages = pages < most ? pages : most;
    uint8_t *at = memory_map(pages * AREA_PAGE, MAP_SHARED);
    if (!at || !frames_map_again((const uint8_t *)(from - 1), frames_pages(limit), at, pages)) {
        stack->most = limit; /* not to be tried again at each call */
        return false;
    }
    uint32_t place = atomic_fetch_add_explicit(&store->kept_count, 1, memory_order_relaxed);
    struct agent_frame *to = (struct agent_frame *)(void *)at + 1, *expected = from;
    if (place >= AGENT_FRAMES_KEPT) {
        memory_unmap(at, pages * AREA_PAGE);
        return false;
    }
    store->kept[place].limit = limit;
    atomic_store_explicit(&store->kept[place].frames, from, memory_order_relaxed);
    agent_signal_fence();
    if (!__atomic_compare_exchange_n(&self->frames, &expected, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        atomic_store_explicit(&store->kept[place].frames, NULL, memory_order_relaxed);
        memory_unmap(at, pages * AREA_PAGE);
        return self->frame_limit > limit;
    }
    agent_signal_fence();
    uint64_t fit = pages * AREA_PAGE / sizeof *to - 1;
    self->frame_limit = fit < stack->most ? (uint32_t)fit : stack->most;
    atomic_store_explicit(&self->block->frames, (uint64_t)self->frames, memory_order_relaxed);
    if (guard == GUARD_OUTER)
        kept_release(self);
    return true;
}

bool stack_store(struct agent_thread *self)
{
    _Static_assert(sizeof *self->store <= AREA_PAGE, "a page");
    self->store = memory_map(AREA_PAGE, MAP_PRIVATE);
    return self->store != NULL;
}

void stack_release(struct agent_thread *self)
{
    struct agent_store *store = self->store;
    if (!store)
        return;
    kept_release(self);
    bool between =
        self->switching == SWITCH_ENTERS; /* a handler never came back: `stack` and `frames` may not belong together */
    if (self->frame_limit && !between)
        frames_unmap(self->frames, self->frame_limit);
    for (uint32_t i = 0; i < self->stack_count; i++)
        if (i != self->stack || between)
            frames_unmap(stack_at(self, i)->frames, stack_at(self, i)->limit);
    self->frame_limit = 0;
    room_release(&store->stacks);
    room_release(&store->scratch);
    room_release(&store->waiting);
    room_release(&store->thin);
    memory_unmap(store, AREA_PAGE);
    self->store = NULL;
    self->stack_count = 0;
}

/* ---- bounds ---- */

struct bounds {
    uint64_t low, high;
};

static void *_Atomic contexts_memory; /* struct bounds[AGENT_CONTEXTS] */
static _Atomic uint32_t context_count;

void stack_context(uint64_t low, uint64_t size)
{
    struct bounds *contexts = large_get(&contexts_memory, AGENT_CONTEXTS * sizeof *contexts, LARGE_PART);
    uint32_t count = atomic_load(&context_count), known = count < AGENT_CONTEXTS ? count : AGENT_CONTEXTS;
    if (!contexts)
        return;
    for (uint32_t i = 0; i < known; i++)
        if (contexts[i].low == low && contexts[i].high == low + size)
            return;
    struct bounds *context = &contexts[atomic_fetch_add(&context_count, 1) % AGENT_CONTEXTS];
    context->high = 0;
    context->low = low;
    context->high = low + size;
}

static bool context_find(uint64_t sp, struct bounds *ret_bounds)
{
    uint32_t count = atomic_load(&context_count), known = count < AGENT_CONTEXTS ? count : AGENT_CONTEXTS;
    const struct bounds *contexts = atomic_load(&contexts_memory);
    /* the youngest first: older ones may have been freed */
    for (uint32_t i = 0; i < known; i++) {
        struct bounds context = contexts[(count - 1 - i) % AGENT_CONTEXTS];
        if (sp > context.low && sp <= context.high) {
            *ret_bounds = context;
            return true;
        }
    }
    return false;
}

/* The mapping that holds an address. */
static bool mapping_find(struct agent_thread *self, uint64_t address, struct bounds *ret_bounds)
{
    struct agent_room *text = &self->store->scratch;
    struct bounds found;
    if (!stack_room(text, 2 * AGENT_SCRATCH) ||
        proc_text_mapping(address, (char *)text->at + AGENT_SCRATCH, AGENT_SCRATCH, &found.low, &found.high) < 0)
        return false;
    *ret_bounds = found;
    return true;
}

static void bounds_of_main(struct bounds *ret)
{
    struct rlimit limit;
    uint64_t size = UINT64_C(8) << 20;
    if (sys_call4(SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)&limit) == 0)
        size = limit.rlim_cur;
    uint64_t most = UINT64_C(4) << 30;
    ret->high = (uint64_t)__libc_stack_end + 64;
    ret->low = ret->high - (size < most ? size : most);
}

/* The thread pointer lies above the stack that the C library made. */
static uint64_t thread_pointer(void)
{
    uint64_t pointer;
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

void stack_own(struct agent_thread *self)
{
    if (self->own_high)
        return;
    struct bounds own = {0, 0};
    if (self->tid == agent_hot.pid) {
        bounds_of_main(&own);
    } else {
        uint64_t pointer = thread_pointer();
        if (mapping_find(self, pointer, &own))
            own.high = pointer;
    }
    self->own_low = own.low;
    self->own_high = own.high;
}

static bool bounds_find(struct agent_thread *self, uint64_t sp, struct bounds *ret)
{
    stack_t alternate;
    if (sp >= self->own_low && sp < self->own_high) {
        *ret = (struct bounds){self->own_low, self->own_high};
        return true;
    }
    if (sys_call2(SYS_sigaltstack, 0, (long)&alternate) == 0 && !(alternate.ss_flags & SS_DISABLE) &&
        sp > (uint64_t)alternate.ss_sp && sp <= (uint64_t)alternate.ss_sp + alternate.ss_size) {
        *ret = (struct bounds){(uint64_t)alternate.ss_sp, (uint64_t)alternate.ss_sp + alternate.ss_size + 1};
        return true;
    }
    if (context_find(sp, ret)) {
        ret->high++;
        return true;
    }
    if (!mapping_find(self, sp, ret))
        return false;
    /* the main stack, grown beyond the limit that it had */
    if (self->own_high && self->own_high > ret->low && self->own_high <= ret->high) {
        self->own_low = ret->low;
        ret->high = self->own_high;
    }
    return true;
}

/* ---- switching ---- */

static void stack_leave(struct agent_thread *self, enum guard guard)
{
    if (!self->stack_count || self->switching)
        return;
    if (self->waiting)
        hooks_flush_waiting(self, guard);
    struct agent_stack *stack = stack_at(self, self->stack);
    self->switching = SWITCH_LEAVES; /* from here on, handlers change nothing */
    agent_signal_fence();
    kept_release(self);
    if (self->frame_limit) { /* it has some: that may have become larger */
        stack->frames = self->frames;
        stack->limit = self->frame_limit;
    }
    stack->depth = atomic_load_explicit(&self->block->depth, memory_order_relaxed);
    if (self->stack == 0)
        atomic_store_explicit(&self->block->own_depth, stack->depth, memory_order_relaxed);
    stack->plain = self->plain;
    stack->lost = lost_count(self);
}

static void stack_enter(struct agent_thread *self, uint32_t index)
{
    struct agent_stack *stack = stack_at(self, index);
    struct area_thread *block = self->block;
    atomic_store_explicit(&block->depth, 0, memory_order_relaxed);
    agent_signal_fence();
    self->stack = index;
    self->frames = stack->frames;
    self->frame_limit = stack->limit;
    self->plain = stack->plain;
    self->waiting = 0;
    self->lost = stack->lost * LOST_ONE;
    self->stack_low = stack->low;
    self->size = stack->size;
    self->stack_size = self->off ? 0 : stack->size;
    block->stack_id = stack->id;
    atomic_store_explicit(&block->frames, (uint64_t)stack->frames, memory_order_relaxed);
    agent_signal_fence();
    atomic_store_explicit(&block->depth, stack->depth, memory_order_relaxed);
    stack->used = ++self->switches;
}

/* A place for a stack not seen before: a new one, that of memory used otherwise now, or the one unused for longest. */
static uint32_t stack_place(struct agent_thread *self, const struct bounds *bounds)
{
    struct agent_stack *stacks = stack_at(self, 0);
    uint32_t place = 0;
    for (uint32_t i = 1; i < self->stack_count; i++)
        if (i != self->stack && stacks[i].low < bounds->high && stacks[i].low + stacks[i].size > bounds->low) {
            stacks[i].size = 0;
            place = i;
        }
    bool own = bounds->high == self->own_high && bounds->low == self->own_low;
    if (own || place)
        return own ? 0 : place;
    if (self->stack_count < AGENT_STACKS && stack_room(&self->store->stacks, (self->stack_count + 1) * sizeof *stacks))
        return self->stack_count++;
    stacks = stack_at(self, 0);
    place = 1;
    for (uint32_t i = 1; i < self->stack_count; i++)
        if (i != self->stack && stacks[i].used < stacks[place].used)
            place = i;
    return place;
}

static bool stack_make(struct agent_thread *self, uint64_t sp, uint32_t *ret_index)
{
    struct bounds bounds;
    if (!stack_room(&self->store->stacks, AGENT_STACKS_FEW * sizeof(struct agent_stack)))
        return false;
    if (!self->stack_count)
        self->stack_count = 1; /* 0 is the thread's own */
    if (!bounds_find(self, sp, &bounds))
        return false;
    uint32_t index = stack_place(self, &bounds);
    struct agent_stack *stack = stack_at(self, index);
    uint64_t size = bounds.high - bounds.low;
    if (!stack->frames) {
        stack->frames = frames_map(&stack->limit, index ? NULL : self->block);
        if (!stack->frames)
            return false;
    }
    stack->most = AREA_DEEPEST;
    if (index && size / 64 < AREA_DEEPEST)
        stack->most = size / 64 > stack->limit ? (uint32_t)(size / 64) : stack->limit;
    stack->low = bounds.low;
    stack->size = size;
    stack->depth = stack->plain = stack->lost = 0;
    stack->id = index ? ++self->last_stack_id : 0;
    if (index)
        atomic_store_explicit(&agent_hot.has_stacks, true, memory_order_relaxed);
    *ret_index = index;
    return true;
}

/* From now on it is the current one; first: that the thread has. */
static void stack_go_to(struct agent_thread *self, enum guard guard, uint32_t index, bool first)
{
    agent_signal_fence();
    self->switching = SWITCH_ENTERS;
    agent_signal_fence();
    stack_enter(self, index);
    agent_signal_fence();
    self->switching = SWITCH_NOT;
    struct {
        uint32_t stack, depth;
    } change = {self->block->stack_id, stack_recorded(self)};
    if (!first || change.stack)
        self->told_stack = UINT32_MAX;
    agent_signal_fence();
    if (lost_count(self)) /* reported first, in a packet of its own */
        record_close(self);
    if ((!first || change.stack) && record_put(self, guard, RECORD_STACK, 0, &change, sizeof change, NULL, 0))
        self->told_stack = change.stack;
}

bool stack_switch(struct agent_thread *self, enum guard guard, uint64_t sp, bool create)
{
    uint32_t index = UINT32_MAX;
    if (self->tid != (int32_t)sys_call0(SYS_gettid))
        return false; /* a raw clone that shares this thread's state: it is nobody */
    for (uint32_t i = 0; i < self->stack_count; i++)
        if (sp - stack_at(self, i)->low < stack_at(self, i)->size) {
            index = i;
            break;
        }
    if (index == UINT32_MAX && !create)
        return false;
    bool first = !self->stack_count;
    stack_leave(self, guard);
    if (index == UINT32_MAX && !stack_make(self, sp, &index)) {
        if (self->switching == SWITCH_LEAVES)
            self->switching = SWITCH_NOT;
        return false;
    }
    stack_go_to(self, guard, index, first);
    return true;
}

void stack_unwind_all(struct agent_thread *self, enum guard guard)
{
    stack_unwind(self, guard, 0);
    for (uint32_t i = 0; i < self->stack_count; i++) {
        if (i == self->stack || !stack_at(self, i)->size || !stack_at(self, i)->depth)
            continue;
        stack_leave(self, guard);
        stack_go_to(self, guard, i, false);
        stack_unwind(self, guard, 0);
    }
}
