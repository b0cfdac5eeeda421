/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks/young.h"

#include "agent/hooks/hooks.h"
#include "agent/system/large.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#define YOUNG_MOST ((UINT64_C(1) << 56) - 1) /* ticks */

enum {
    YOUNG_FIRST = 32, /* children of a process that do not wait, and one more each time that others wait; */
    YOUNG_FEWER = 4,  /* in a child by so many times fewer, so that a tree of forks has few as well */
    YOUNG_DEPTH = 56, /* calls that are noted: a page, with the frame before the first */
};

static struct {
    /* Ticks: each child that does not wait adds `age`, from no earlier than what YOUNG_FIRST of them take before now */
    _Atomic int64_t paid;
    int64_t age;    /* ticks that children wait; */
    int64_t judged; /* when that was found out */
    uint64_t until; /* this process waits, ticks; 0: it does not */
    bool waited, noting;
    _Atomic bool counted;
    struct area *_Atomic counts; /* of the process that forked: its first page is inherited */
} young = {.paid = INT64_MIN / 2};

/* The calls that are open in the thread that forked: a shadow stack of its own, on which nothing is recorded. */
static struct {
    struct agent_thread thread;
    struct area_thread block;
    struct agent_frame frames[YOUNG_DEPTH + 1];
    bool busy; /* a hook is at it: one that interrupts it notes nothing. If it is left for good, no other does */
} noted AGENT_LARGE;

/* ---- who waits ---- */

/* Nothing else of an area is inherited (map_shared). */
static bool counts_share(struct area *area)
{
    if (area && !atomic_load(&young.counts) && sys_call4(SYS_madvise, (long)area, AREA_PAGE, MADV_DOFORK, 0) == 0)
        atomic_store(&young.counts, area);
    return atomic_load(&young.counts);
}

void young_judge(struct area *area, bool exempt)
{
    if (area)
        young.age = exempt ? 0 : (int64_t)(atomic_load_explicit(&area->young_ticks, memory_order_relaxed) & YOUNG_MOST);
    int64_t age = young.age, now, paid = atomic_load(&young.paid), from;
    int allowed = 0;
    agent_self.young = false;
    if (age <= 0 || sys_call2(SYS_prctl, PR_GET_TSC, (long)&allowed) < 0 || allowed != PR_TSC_ENABLE)
        return;
    young.judged = now = (int64_t)agent_ticks();
    do {
        from = now - YOUNG_FIRST * age;
        from = paid > from && paid <= now + age ? paid : from; /* later than that: the counter was set back */
        if (from + age > now) {
            agent_self.young = counts_share(area);
            return;
        }
    } while (!atomic_compare_exchange_weak(&young.paid, &paid, from + age));
}

void young_begin(void)
{
    struct agent_thread *self = &agent_self;
    int64_t most = YOUNG_FIRST * young.age, left = young.judged - atomic_load(&young.paid);
    young.until = self->young ? (uint64_t)(young.judged + young.age) : 0;
    young.waited = self->young;
    young.noting = false;
    atomic_store(&young.counted, false);
    if (young.age)
        atomic_store(&young.paid, young.judged - (left < most ? left : most) / YOUNG_FEWER);
}

bool young_waits(void)
{
    return young.until != 0;
}

static bool waits(void)
{
    if (!young.until || agent_ticks() >= young.until)
        return false;
    struct area *counts = atomic_load(&young.counts);
    if (counts && !atomic_load_explicit(&young.counted, memory_order_relaxed) && !atomic_exchange(&young.counted, true))
        atomic_fetch_add_explicit(&counts->young, 1, memory_order_relaxed);
    return true;
}

/* ---- what it calls meanwhile ---- */

/* Not in young_begin: most children call nothing, and each page costs them something. */
static void noted_init(const struct agent_thread *self)
{
    noted.busy = false;
    noted.frames[0].sp = UINT64_MAX;
    noted.thread.block = &noted.block;
    noted.thread.frames = noted.frames + 1;
    noted.thread.plain = 0;
    noted.thread.stack_low = self->own_low;
    noted.thread.size = self->own_high - self->own_low;
    atomic_store(&noted.block.depth, 0);
    agent_signal_fence();
    young.noting = true;
}

static bool note_begin(uint64_t sp)
{
    const struct agent_thread *self = &agent_self;
    if (!self->young || sp - self->own_low >= self->own_high - self->own_low)
        return false;
    if (!young.noting)
        noted_init(self);
    if (noted.busy)
        return false;
    noted.busy = true;
    agent_signal_fence();
    return true;
}

static void note_end(void)
{
    agent_signal_fence();
    noted.busy = false;
}

static uint32_t noted_depth(void)
{
    return atomic_load_explicit(&noted.block.depth, memory_order_relaxed);
}

bool young_entered(uint64_t function, uint64_t callsite, const struct capture_frame *registers)
{
    uint64_t site = registers->gpr[16], sp = registers->gpr[7];
    if (!waits())
        return false;
    if (!note_begin(sp))
        return true;
    stack_unwind_entry(&noted.thread, GUARD_OUTER, sp, site, callsite);
    uint32_t depth = noted_depth();
    if (depth < YOUNG_DEPTH && !agent_self.off) {
        noted.thread.frames[depth] = (struct agent_frame){
            .function = function, .callsite = callsite, .site = site, .sp = sp, .time = agent_ticks()};
        atomic_store_explicit(&noted.block.depth, depth + 1, memory_order_relaxed);
    }
    note_end();
    return true;
}

bool young_left(uint64_t function, uint64_t callsite, const struct capture_frame *registers)
{
    uint64_t site = registers->gpr[16], sp = registers->gpr[7];
    uint32_t left;
    if (!waits())
        return false;
    if (note_begin(sp)) {
        stack_find_exit(&noted.thread, function, callsite, site, sp, registers->gpr[6], &left);
        stack_unwind(&noted.thread, GUARD_OUTER, left);
        note_end();
    }
    return true;
}

void young_jumped(uint64_t sp)
{
    if (!young.until || !young.noting || !note_begin(sp))
        return;
    uint32_t depth = noted_depth();
    while (depth && noted.thread.frames[depth - 1].sp < sp)
        depth--;
    stack_unwind(&noted.thread, GUARD_OUTER, depth);
    note_end();
}

/* ---- the end of the wait ---- */

/* A hook of another thread may be about to count: the page is replaced, not taken away. */
static void counts_drop(void)
{
    struct area *counts = atomic_exchange(&young.counts, NULL);
    if (!counts)
        return;
    sys_call6(SYS_mmap, (long)counts, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
              0);
    sys_call4(SYS_madvise, (long)counts, AREA_PAGE, MADV_DONTFORK, 0);
}

void young_end(void)
{
    young.until = 0;
    counts_drop();
}

bool young_crashes(void)
{
    young.noting = false; /* to record what was noted may take memory */
    return young.waited;
}

void young_tell(void)
{
    if (!young.noting || !agent_self.young || noted.busy)
        return;
    noted.busy = true;
    agent_signal_fence();
    uint32_t depth = noted_depth();
    for (uint32_t i = 0; i < depth; i++)
        hook_entered_before(&noted.thread.frames[i]);
}

void young_seal(void)
{
    bool waited = young.until != 0;
    young.until = 0;
    young.age = 0;
    young.waited = false;
    if (agent_hot.area) {
        if (atomic_exchange(&young.counts, NULL))
            sys_call4(SYS_madvise, (long)agent_hot.area, AREA_PAGE, MADV_DONTFORK, 0);
        return;
    }
    counts_drop();
    if (waited)
        agent_filter_clear();
}
