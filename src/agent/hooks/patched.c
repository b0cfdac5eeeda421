/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks/patched.h"

#include <errno.h>
#include <sys/mman.h>

#include "agent/hooks/hooks.h"
#include "agent/safety/read.h"
#include "agent/system/proc_text.h"

/* ---- records ---- */

struct patched_call {
    uint64_t returns; /* the true return address; first, as unwinders know */
    uint64_t function;
};
struct patched_place {     /* of the call with the same number */
    _Atomic uint64_t sp;   /* where on the stack it was; 0: the record is free */
    _Atomic uint32_t tid;  /* whose call it is */
    _Atomic uint32_t next; /* of a free one: call_place() of another, 0: none */
};
_Static_assert(sizeof(struct patched_call) == PATCHED_TRAMPOLINE &&
                   sizeof(struct patched_place) == PATCHED_TRAMPOLINE &&
                   PATCHED_CALLS * PATCHED_TRAMPOLINE == PATCHED_RECORDS &&
                   offsetof(struct patched_call, function) == CALL_FUNCTION &&
                   PATCHED_RECORDS + offsetof(struct patched_place, sp) == CALL_SP &&
                   PATCHED_RECORDS + offsetof(struct patched_place, next) == CALL_NEXT &&
                   offsetof(struct agent_thread, patched_free) == SELF_PATCHED_FREE &&
                   offsetof(struct agent_thread, patched_kept) == SELF_PATCHED_KEPT,
               "as in patched_x86_64.S");

extern struct patched_call agent_patched_calls[PATCHED_CALLS] __attribute__((visibility("hidden")));
extern struct patched_place agent_patched_places[PATCHED_CALLS] __attribute__((visibility("hidden")));
extern const uint8_t agent_patched_trampolines[PATCHED_CALLS][PATCHED_TRAMPOLINE];
extern const char agent_patched_entry[], agent_patched_entry_slow[], agent_patched_return[],
    agent_patched_return_slow[];
void agent_patched_enter(struct capture_frame *registers);
void agent_patched_leave(struct capture_frame *registers);

static struct {
    _Atomic uint64_t free;  /* high half: call_place() of the first, 0: none; low half grows with each change */
    _Atomic uint32_t used;  /* records that were ever in use: from 0 on */
    _Atomic uint64_t tried; /* when records were last looked for that are lost, ticks */
    _Atomic bool copies;    /* stacks are copied to and fro */
} calls;

static struct patched_place *place_of(const struct patched_call *call)
{
    return &agent_patched_places[call - agent_patched_calls];
}

static struct patched_call *call_of(uint64_t address)
{
    uint64_t offset = address - (uint64_t)agent_patched_trampolines;
    return offset < sizeof agent_patched_trampolines ? &agent_patched_calls[offset / PATCHED_TRAMPOLINE] : NULL;
}

static uint64_t trampoline_of(const struct patched_call *call)
{
    return (uint64_t)agent_patched_trampolines[call - agent_patched_calls];
}

static uint64_t patched_returns(uint64_t address)
{
    const struct patched_call *call = call_of(address);
    return call ? call->returns : address;
}

static uint32_t call_place(const struct patched_call *call)
{
    return (uint32_t)((uint64_t)(call - agent_patched_calls + 1) * sizeof *call);
}

/* The thread's own list is changed in one instruction, so that handlers of signals may do so meanwhile; that of all is for all
 * threads. */
static bool list_change(_Atomic uint64_t *list, uint64_t *was, uint32_t first)
{
    uint64_t to = (uint64_t)first << 32 | (uint32_t)(*was + 1);
    return atomic_compare_exchange_weak_explicit(list, was, to, memory_order_acq_rel, memory_order_acquire);
}

static struct patched_call *list_take(_Atomic uint64_t *list)
{
    uint64_t was = atomic_load_explicit(list, memory_order_acquire);
    while (was >> 32) {
        struct patched_call *call = &agent_patched_calls[(was >> 32) / sizeof *call - 1];
        if (list_change(list, &was, atomic_load_explicit(&place_of(call)->next, memory_order_relaxed)))
            return call;
    }
    return NULL;
}

static void list_give(_Atomic uint64_t *list, struct patched_call *call)
{
    uint64_t was = atomic_load_explicit(list, memory_order_acquire);
    do
        atomic_store_explicit(&place_of(call)->next, (uint32_t)(was >> 32), memory_order_relaxed);
    while (!list_change(list, &was, call_place(call)));
}

/* To the thread's own list, as long as that is short. */
static void call_give(struct agent_thread *self, struct patched_call *call)
{
    bool keeps = self->patched_kept < PATCHED_KEPT_MOST;
    atomic_store_explicit(&place_of(call)->sp, 0, memory_order_release);
    list_give(keeps ? &self->patched_free : &calls.free, call);
    self->patched_kept += keeps;
}

/* Those of a thread whose place on its stack is from `low` on, below `high`; where the return address is still the trampoline's,
 * only with `all`. */
static bool calls_drop(struct agent_thread *self, uint64_t low, uint64_t high, bool all)
{
    uint32_t used = atomic_load(&calls.used), dropped = 0;
    for (uint32_t i = 0; i < used && i < PATCHED_CALLS; i++) {
        struct patched_call *call = &agent_patched_calls[i];
        struct patched_place *place = place_of(call);
        uint64_t sp = atomic_load_explicit(&place->sp, memory_order_acquire);
        if (!sp || sp < low || sp >= high ||
            atomic_load_explicit(&place->tid, memory_order_relaxed) != (uint32_t)self->tid ||
            (!all && *(const volatile uint64_t *)sp == trampoline_of(call)) ||
            !atomic_compare_exchange_strong(&place->sp, &sp, 0)) /* a handler of a signal may be at it, too */
            continue;
        list_give(&calls.free, call);
        dropped++;
    }
    return dropped;
}

/* Looks at most ten times a second: a deep recursion has no lost ones. */
static bool calls_recover(struct agent_thread *self)
{
    uint64_t rest = atomic_load_explicit(&agent_hot.area->ticks_per_second, memory_order_relaxed) / 10;
    uint64_t now = agent_ticks(), tried = atomic_load(&calls.tried);
    if (atomic_load(&calls.copies) || (tried && now - tried < rest) ||
        !atomic_compare_exchange_strong(&calls.tried, &tried, now))
        return false;
    return calls_drop(self, self->own_low, self->own_high, false);
}

static struct patched_call *call_take(struct agent_thread *self)
{
    struct patched_call *call = list_take(&self->patched_free);
    self->patched_kept -= call != NULL; /* a handler in between may make it wrong by one */
    if (!call && atomic_load_explicit(&calls.used, memory_order_relaxed) < PATCHED_CALLS) {
        uint32_t number = atomic_fetch_add(&calls.used, 1);
        if (number < PATCHED_CALLS)
            return &agent_patched_calls[number];
        atomic_store(&calls.used, PATCHED_CALLS);
    }
    if (!call)
        call = list_take(&calls.free);
    if (!call && calls_recover(self))
        call = list_take(&calls.free);
    return call;
}

void patched_thread_end(struct agent_thread *self)
{
    struct patched_call *call;
    if (!self->patched)
        return;
    while ((call = list_take(&self->patched_free)))
        list_give(&calls.free, call);
    if (self->own_high && !atomic_load(&calls.copies))
        calls_drop(self, self->own_low, (uint64_t)__builtin_frame_address(0), true);
}

/* ---- calls ---- */

extern _Thread_local uint64_t agent_altstack_low __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* A handler's stack may be too small for the long way, as in hooks_x86_64.S. */
static bool has_stack(void)
{
    uint64_t left = (uint64_t)__builtin_frame_address(0) - agent_altstack_low;
    return left >= (agent_hot.area ? HOOK_STACK : HOOK_CONNECT_STACK);
}

static bool enter(uint64_t function, uint64_t callsite, struct capture_frame *registers)
{
    const struct capture_frame *outer = way_begin(registers);
    bool awaited = hook_enter(function, callsite, registers, 1);
    way_end(outer);
    return awaited;
}

void agent_patched_enter(struct capture_frame *registers)
{
    struct agent_thread *self = &agent_self;
    uint64_t function = registers->gpr[16], sp = registers->gpr[7];
    if (!(agent_filter[area_filter_index(function)] & AREA_ENTER) || !has_stack())
        return;
    uint64_t *place = (uint64_t *)sp, returns = *place; /* NOLINT(performance-no-int-to-ptr) */
    const struct patched_call *jumped_from = call_of(returns);
    if (!enter(function, jumped_from ? jumped_from->returns : returns, registers) || jumped_from)
        return;
    struct patched_call *call = call_take(self);
    if (!call) {
        atomic_fetch_add_explicit(&agent_hot.area->exits_unseen, 1, memory_order_relaxed);
        return;
    }
    self->patched = true;
    call->returns = returns;
    call->function = function;
    atomic_store_explicit(&place_of(call)->tid, (uint32_t)self->tid, memory_order_relaxed);
    atomic_store_explicit(&place_of(call)->sp, sp, memory_order_release);
    agent_signal_fence();
    *place = trampoline_of(call);
}

/* The innermost call at this place of the stack that has not ended; 0: none that is known. */
static uint64_t open_at(const struct agent_thread *self, uint64_t sp)
{
    uint32_t depth =
        self->block && in_stack(self, sp) ? atomic_load_explicit(&self->block->depth, memory_order_relaxed) : 0;
    const struct agent_frame *frame = depth ? &self->frames[depth - 1] : NULL;
    return frame && frame->sp == sp ? frame->function : 0;
}

/* All calls that are left there: of the function whose return address it was, and of those that were jumped to from it. */
static void leave(const struct patched_call *call, uint64_t sp, struct capture_frame *registers)
{
    enum { JUMPED_MOST = 64 };
    struct agent_thread *self = &agent_self;
    const struct capture_frame *outer = way_begin(registers);
    uint64_t function = open_at(self, sp);
    self->unfound = false;
    if (!function) /* its stack is not the current one, or it is below others that have not been seen to end */
        function = call->function;
    bool known = true;
    for (unsigned i = 0; known && function && i < JUMPED_MOST; i++) {
        registers->gpr[16] = function + 1;
        known = hook_leave(function, call->returns, registers, 1);
        function = open_at(self, sp);
    }
    if (self->unfound) /* others came to lie over it meanwhile */
        atomic_store(&calls.copies, true);
    way_end(outer);
}

/* The return address is a trampoline's. */
void agent_patched_leave(struct capture_frame *registers)
{
    uint64_t *place = (uint64_t *)registers->gpr[7]; /* NOLINT(performance-no-int-to-ptr) */
    struct patched_call *call = call_of(*place);
    if (has_stack())
        leave(call, (uint64_t)place, registers);
    *place = call->returns;
    agent_signal_fence();
    call_give(&agent_self, call);
}

void patched_uncover(uint64_t *place)
{
    struct capture_frame registers = {.gpr = {[7] = (uint64_t)place}, .has_result = true}; /* no values */
    if (call_of(*place))
        agent_patched_leave(&registers);
}

uint64_t patched_resume(const struct capture_frame *registers, uint64_t *ret_sp)
{
    const uint64_t *place = (const uint64_t *)registers->gpr[7]; /* NOLINT(performance-no-int-to-ptr) */
    if (registers->patched == PATCHED_ENTRY) {
        *ret_sp = (uint64_t)place;
        return place[-2];
    }
    *ret_sp = (uint64_t)(place + 1);
    return patched_returns(*place);
}

bool patched_fault(greg_t *gregs)
{
    static const uint8_t kept[] = {REG_RAX, REG_RDX, REG_RCX, REG_RDI, REG_R9, REG_R10, REG_R11, REG_RSI, REG_R8};
    enum { EXIT_KEPT = 7 };
    uint64_t pc = (uint64_t)gregs[REG_RIP];
    const greg_t *sp = (const greg_t *)gregs[REG_RSP];
    bool entry = pc >= (uint64_t)agent_patched_entry && pc < (uint64_t)agent_patched_entry_slow;
    if (!entry && (pc < (uint64_t)agent_patched_return || pc >= (uint64_t)agent_patched_return_slow))
        return false;
    for (unsigned i = 0; i < (entry ? sizeof kept : EXIT_KEPT); i++)
        gregs[kept[i]] = sp[-1 - (int)i];
    gregs[REG_RIP] = entry ? sp[0] : (greg_t)patched_returns((uint64_t)sp[0]);
    gregs[REG_RSP] = (greg_t)(sp + (entry ? 2 : 1));
    return true;
}

/* ---- stubs ---- */

enum { STUBS_MOST = 64, STUB_ALIGN = 16, STUB_HOOK = 11, STUB_BYTES = 128, MOVED_MOST = 24 };

static struct {
    uint64_t low, high;
} stubs[STUBS_MOST];
static uint32_t stubs_count;

/* As symbols/helper/patches.c makes them: push $DISTANCE; call *HOOK. */
static bool stub_begins(const uint8_t *at, uint64_t *ret_function)
{
    int32_t distance;
    __builtin_memcpy(&distance, at + 1, sizeof distance);
    *ret_function = (uint64_t)at + STUB_HOOK + (uint64_t)(int64_t)distance;
    return at[0] == 0x68 && at[5] == 0xff && at[6] == 0x15;
}

static uint64_t stub_where(uint64_t low, uint64_t pc)
{
    static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
    uint64_t function = 0, at = pc & -(uint64_t)STUB_ALIGN;
    while (at > low && pc - at < STUB_BYTES && !stub_begins((const uint8_t *)at, &function))
        at -= STUB_ALIGN;
    if (at <= low || pc - at >= STUB_BYTES)
        return pc;
    const uint8_t *code = (const uint8_t *)function; /* NOLINT(performance-no-int-to-ptr) */
    bool marked = true;
    for (unsigned i = 0; i < sizeof endbr; i++)
        marked &= code[i] == endbr[i];
    uint64_t moved = pc - at < STUB_HOOK ? 0 : pc - at - STUB_HOOK;
    return function + (marked ? sizeof endbr : 0) + (moved < MOVED_MOST ? moved : 0);
}

uint64_t patched_where(uint64_t address)
{
    for (uint32_t i = 0; i < stubs_count; i++)
        if (address >= stubs[i].low && address < stubs[i].high)
            return stub_where(stubs[i].low, address);
    return patched_returns(address);
}

/* ---- putting the jumps ---- */

/* Whether the processor compares return addresses with copies of its own. */
static bool has_shadow_stack(void)
{
    uint64_t pointer = 0;
    __asm__ volatile("rdsspq %0" : "+r"(pointer)); /* does nothing where there is none */
    return pointer != 0;
}

static bool has_threads(void)
{
    enum { THREADS_FIELD = 20 };
    char line[512];
    proc_text_read(0, "stat", line, sizeof line);
    const char *at = proc_text_stat(line, THREADS_FIELD);
    return proc_text_number(&at, 10) != 1;
}

/* Other than scry's own tracer, which knows where jumps are. */
static bool has_debugger(void)
{
    static const char own[] = "scry-tracer";
    char name[sizeof own];
    const struct outside *outside = outside_read(0, OUTSIDE_TRACER);
    pid_t tracer = outside ? outside->tracer : 0;
    if (outside)
        outside_release();
    if (tracer <= 0)
        return false;
    proc_text_read(tracer, "comm", name, sizeof name);
    for (unsigned i = 0; i < sizeof own - 1; i++)
        if (name[i] != own[i])
            return true;
    return false;
}

static bool failed(long result)
{
    return result < 0 && result > -4096;
}

static enum area_patching stubs_map(const struct area_patches *patches)
{
    const uint8_t *code = (const uint8_t *)&patches->items[patches->count];
    long at = sys_call6(SYS_mmap, (long)patches->stubs, patches->stubs_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    enum area_patching how = AREA_PATCH_NO_ROOM;
    if (failed(at))
        return how;
    if ((uint64_t)at == patches->stubs) { /* older kernels take the address for a wish */
        const char *hook = agent_patched_entry;
        raw_copy((void *)at, code, patches->code_size);
        raw_copy((void *)at, &hook, sizeof hook);
        if (!failed(sys_call4(SYS_mprotect, at, patches->stubs_size, PROT_READ | PROT_EXEC, 0))) {
            if (stubs_count < STUBS_MOST) {
                stubs[stubs_count].low = patches->stubs;
                stubs[stubs_count++].high = patches->stubs + patches->code_size;
            }
            return AREA_PATCHED;
        }
        how = AREA_PATCH_REFUSED;
    }
    sys_call2(SYS_munmap, at, patches->stubs_size);
    return how;
}

static bool is_as_expected(const struct area_patch *patch)
{
    const uint8_t *there = (const uint8_t *)patch->at; /* NOLINT(performance-no-int-to-ptr) */
    for (unsigned i = 0; i < AREA_JUMP; i++)
        if (there[i] != patch->before[i])
            return false;
    return true;
}

/* The jumps that lie in one mapping, from `first` on; returns how many of the items those are. */
static uint32_t jumps_put(const struct area_patches *patches, uint32_t first, enum area_patching *how)
{
    char buffer[1024];
    uint64_t low, high;
    int before = proc_text_mapping(patches->items[first].at, buffer, sizeof buffer, &low, &high);
    uint32_t end = first;
    while (end < patches->count && patches->items[end].at >= low && patches->items[end].at + AREA_JUMP <= high)
        end++;
    if (before < 0 || !(before & PROT_READ) || end == first) {
        *how = AREA_PATCHED_SOME;
        return first + 1;
    }
    low = patches->items[first].at & -AREA_PAGE;
    high = (patches->items[end - 1].at + AREA_JUMP + AREA_PAGE - 1) & -AREA_PAGE;
    if (failed(sys_call4(SYS_mprotect, (long)low, (long)(high - low), PROT_READ | PROT_WRITE | PROT_EXEC, 0))) {
        *how = AREA_PATCH_REFUSED;
        return end;
    }
    for (uint32_t i = first; i < end; i++) {
        const struct area_patch *patch = &patches->items[i];
        if (is_as_expected(patch))
            raw_copy((void *)patch->at, patch->after, AREA_JUMP); /* NOLINT(performance-no-int-to-ptr) */
        else
            *how = AREA_PATCHED_SOME;
    }
    sys_call4(SYS_mprotect, (long)low, (long)(high - low), before, 0);
    return end;
}

/* NULL: it does not lie in the programs as a whole. */
static const struct area_patches *patches_at(const struct area_view *view, uint64_t offset)
{
    const struct area_patches *patches = (const struct area_patches *)(const void *)(view->programs + offset);
    if (offset % 8 || offset > view->programs_size || view->programs_size - offset < sizeof *patches)
        return NULL;
    uint64_t left = view->programs_size - offset - sizeof *patches;
    bool whole = patches->count <= left / sizeof patches->items[0] &&
                 patches->code_size <= left - patches->count * sizeof patches->items[0] &&
                 patches->code_size <= patches->stubs_size && patches->code_size >= sizeof(uint64_t);
    return whole ? patches : NULL;
}

void patched_apply(const struct area_view *view)
{
    enum { MODULES_MOST = 1024 };
    uint64_t offset = atomic_load(&view->area->patches);
    enum area_patching how = AREA_PATCHED;
    enum area_patching refused = has_shadow_stack() ? AREA_PATCH_SHADOW
                                 : has_threads()    ? AREA_PATCH_THREADS
                                 : has_debugger()   ? AREA_PATCH_DEBUGGER
                                                    : AREA_PATCHED_NOT;
    if (offset && refused != AREA_PATCHED_NOT) {
        atomic_store(&view->area->patching, refused);
        return;
    }
    if (offset && failed(sys_call6(SYS_mmap, (long)agent_patched_calls, 2 * PATCHED_RECORDS, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0))) {
        atomic_store(&view->area->patching, AREA_PATCH_NO_ROOM);
        return;
    }
    const struct area_patches *patches;
    for (unsigned i = 0; offset && i < MODULES_MOST && (patches = patches_at(view, offset));
         i++, offset = patches->next) {
        enum area_patching mapped = stubs_map(patches);
        if (mapped != AREA_PATCHED) {
            how = mapped;
            continue;
        }
        for (uint32_t at = 0; at < patches->count;)
            at = jumps_put(patches, at, &how);
    }
    atomic_store(&view->area->patching, how);
}
