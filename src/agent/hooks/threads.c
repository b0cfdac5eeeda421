/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: their blocks in the area, from the first hook to the end.
 */
#include "agent/hooks/agent.h"
#include "agent/hooks/patched.h"
#include "agent/safety/signals.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

_Alignas(64) _Thread_local struct agent_thread agent_self __attribute__((tls_model("initial-exec")));

enum { RETRY_AFTER = 100000, LAST_ROUND = 4 /* PTHREAD_DESTRUCTOR_ITERATIONS */ };

static pthread_key_t end_key;
static bool have_key;
static struct agent_frame no_frames[2] = {{.sp = UINT64_MAX}};

static struct area_thread *block_take(void)
{
    const struct area_view *view = &agent_hot.view;
    for (uint32_t i = 0; i < view->thread_count; i++) {
        struct area_thread *block = area_thread_at(view, i);
        uint32_t free = AREA_THREAD_FREE;
        if (atomic_load_explicit(&block->state, memory_order_relaxed) == free &&
            atomic_compare_exchange_strong(&block->state, &free, AREA_THREAD_LIVE))
            return block;
    }
    return NULL;
}

static void packet_give(struct area_thread *block)
{
    struct agent_thread other = {.block = block};
    record_retire(&other);
}

/* Threads that ended without a word (exit by system call). */
static bool blocks_sweep(void)
{
    const struct area_view *view = &agent_hot.view;
    bool any = false;
    for (uint32_t i = 0; i < view->thread_count; i++) {
        struct area_thread *block = area_thread_at(view, i);
        uint32_t live = AREA_THREAD_LIVE;
        uint32_t tid = block->tid;
        if (atomic_load(&block->state) != live || !tid ||
            sys_call4(SYS_tgkill, agent_hot.pid, (long)tid, 0, 0) != -3 /* ESRCH */)
            continue;
        packet_give(block);
        any |= atomic_compare_exchange_strong(&block->state, &live, AREA_THREAD_ENDED);
    }
    return any;
}

static void block_init(struct agent_thread *self, struct area_thread *block)
{
    raw_zero((uint8_t *)block + sizeof block->state, sizeof *block - sizeof block->state);
    atomic_store_explicit(&block->packet, UINT32_MAX, memory_order_relaxed);
    block->serial = atomic_fetch_add(&agent_hot.thread_serial, 1) + 1;
    sys_call2(SYS_prctl, PR_GET_NAME, (long)block->name);
    self->tid = (int32_t)sys_call0(SYS_gettid);
    atomic_thread_fence(memory_order_release);
    *(volatile uint32_t *)&block->tid = (uint32_t)self->tid;
}

static bool refuse(struct agent_thread *self)
{
    atomic_fetch_add_explicit(&agent_hot.area->threads_omitted, self->refused_once ? 0 : 1, memory_order_relaxed);
    self->refused_once = true;
    self->refused = RETRY_AFTER;
    self->state = AGENT_THREAD_REFUSED;
    return false;
}

bool thread_attach(struct agent_thread *self)
{
    if (self->state == AGENT_THREAD_ATTACHING || self->state == AGENT_THREAD_ENDED ||
        (self->state == AGENT_THREAD_REFUSED && self->refused--))
        return false;
    self->state = AGENT_THREAD_ATTACHING;
    agent_signal_fence();
    self->frames = no_frames + 1;
    self->frame_limit = 0;
    self->stack_size = self->size = 0;
    self->packet_seq = AGENT_NO_PACKET;
    self->stack_count = self->plain = self->waiting = self->no_room = 0;
    self->lost = self->hole_at = 0;
    self->scratch_used = self->values_used = 0;
    self->next_seq = self->nested_for = self->nested_last = 0;
    self->levels = self->told_stack = self->retiring = 0;
    self->ending = self->telling = self->hole_id = 0;
    self->switching = SWITCH_NOT;
    struct area_thread *block = block_take();
    if (!block && blocks_sweep()) {
        agent_ring();
        block = block_take();
    }
    if (!block)
        return refuse(self);
    if (!stack_store(self)) {
        atomic_store(&block->state, AREA_THREAD_FREE);
        return refuse(self);
    }
    block_init(self, block);
    stack_own(self);
    agent_altstack_look(); /* it may have come before us */
    self->state = AGENT_THREAD_LIVE;
    agent_signal_fence();
    self->block = block;
    if (have_key)
        pthread_setspecific(end_key, (void *)1);
    return true;
}

/* Of pthread_exit and the like: what is open is so no longer, while the process lives on. */
static void end_calls(struct agent_thread *self)
{
    enum guard guard = thread_guard(self, (uint64_t)__builtin_frame_address(0));
    if (guard == GUARD_STUCK)
        return;
    if (guard == GUARD_OUTER)
        stack_unwind_all(self, guard);
    thread_unguard(self, guard);
}

void thread_end(struct agent_thread *self)
{
    struct area_thread *block = self->block;
    if (!block)
        return;
    end_calls(self);
    atomic_store_explicit(&block->pending, 1, memory_order_relaxed);
    agent_signal_fence();
    self->state = AGENT_THREAD_ENDED;
    self->stack_size = self->size = 0;
    record_retire(self);
    self->block = NULL;
    agent_signal_fence();
    stack_release(self);
    self->frames = no_frames + 1;
    atomic_store(&block->state, AREA_THREAD_ENDED);
}

void thread_forget(struct agent_thread *self)
{
    self->block = NULL;
    self->stack_size = self->size = 0;
    self->state = AGENT_THREAD_NEW;
    self->frames = no_frames + 1;
    self->frame_limit = 0;
    self->store = NULL; /* fork has left it out */
    self->stack_count = 0;
}

/* Called again as long as it asks for it: other destructors may still call instrumented functions. */
static void end_of_thread(void *round)
{
    uintptr_t number = (uintptr_t)round;
    if (number < LAST_ROUND) {
        pthread_setspecific(end_key, (void *)(number + 1));
        return;
    }
    if (agent_hot.area && agent_self.block)
        thread_end(&agent_self);
    patched_thread_end(&agent_self);
}

/* ---- pthread_create ---- */

/* A page of its own: with free(), the new thread would get an arena, of 64 MB of address space. */
struct start {
    void *(*run)(void *);
    void *arg;
    unsigned inherited;
    uint64_t stack, size; /* the creator's own stack, 0: the library makes one; its size */
};

/*
 * Found out here, and not by pthread_getattr_np in the new thread: that allocates, and a sanitizer linked into the
 * program (clang's thread sanitizer) has not set up the new thread yet when thread_start is called.
 */
static void stack_asked_for(const pthread_attr_t *attr, struct start *start)
{
    pthread_attr_t usual;
    void *low = NULL;
    size_t size = 0;
    bool made = !attr && pthread_attr_init(&usual) == 0;
    if (made)
        attr = &usual;
    if (attr && pthread_attr_getstack(attr, &low, &size) == 0 && (uint64_t)low + size != 0)
        start->stack = (uint64_t)low;
    else if (!attr || pthread_attr_getstacksize(attr, &size) != 0)
        size = 0;
    start->size = size;
    if (made)
        pthread_attr_destroy(&usual);
}

/* The library puts a thread's own data right above its stack, at the end of the last page; stack.c corrects what
 * differs. */
static void stack_given(const struct start *start)
{
    uint64_t pointer = (uint64_t)pthread_self();
    if (!start->size || (!start->stack && start->size >= pointer))
        return;
    agent_self.own_low = start->stack ? start->stack : (pointer - start->size + 4095) & ~UINT64_C(4095);
    agent_self.own_high = start->stack ? start->stack + start->size : pointer;
}

static void *thread_start(void *arg)
{
    struct start start = *(struct start *)arg;
    sys_call2(SYS_munmap, (long)arg, sizeof start);
    agent_signals_thread(start.inherited);
    stack_given(&start);
    return start.run(start.arg);
}

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                                                          void *(*run)(void *), void *arg)
{
    static _Atomic(create_fn *) next;
    create_fn *create = atomic_load(&next);
    if (!create) {
        create = (create_fn *)agent_next("pthread_create");
        if (!create)
            return 11; /* EAGAIN */
        atomic_store(&next, create);
    }
    long at = agent_hot.area ? sys_call6(SYS_mmap, 0, sizeof(struct start), PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                             : 0;
    if (at <= 0)
        return create(thread, attr, run, arg);
    struct start *start = (struct start *)at;
    *start = (struct start){.run = run, .arg = arg, .inherited = agent_signals_inherit()};
    stack_asked_for(attr, start);
    int result = create(thread, attr, thread_start, start);
    if (result)
        sys_call2(SYS_munmap, at, sizeof *start);
    return result;
}

void threads_init(void)
{
    if (!have_key)
        have_key = pthread_key_create(&end_key, end_of_thread) == 0;
}
