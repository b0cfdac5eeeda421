/* SPDX-License-Identifier: Apache-2.0 */
#include <asm/unistd.h>
#include <elf.h>
#include <stdatomic.h>

#include "agent/safety/crash.h"
#include "agent/safety/read.h"
#include "agent/system/sys.h"

enum { STACK = sizeof((struct area_crash *)0)->stack / sizeof(uint64_t), CHAIN = STACK, CALL_BYTES = 7 };

static struct {
    struct area *area;
    int32_t process; /* whose area it is: a child has not inherited it */
    struct doorbell *bell;
    struct agent_crash_ops ops;
    _Atomic uint32_t noted;
    uint64_t code_low, code_high; /* our own */
} crash;

extern const char __ehdr_start[] __attribute__((visibility("hidden"))); /* of this library, by the linker */

/* Where our code is, by the program headers. */
static void code_find(void)
{
    const Elf64_Ehdr *file = (const Elf64_Ehdr *)(const void *)__ehdr_start;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(__ehdr_start + file->e_phoff);
    uint64_t base = 0;
    for (unsigned i = 0; i < file->e_phnum; i++) {
        if (segments[i].p_type != PT_LOAD)
            continue;
        if (segments[i].p_offset == 0)
            base = (uintptr_t)__ehdr_start - segments[i].p_vaddr;
        if (segments[i].p_flags & PF_X) {
            crash.code_low = base + segments[i].p_vaddr;
            crash.code_high = crash.code_low + segments[i].p_memsz;
        }
    }
}

void agent_crash_init(const struct area_view *view, struct doorbell *bell, const struct agent_crash_ops *ops)
{
    crash.area = view->area;
    crash.process = agent_read_process();
    crash.bell = bell;
    crash.ops = *ops;
    code_find();
    atomic_store(&crash.noted, 0);
}

bool agent_crash_own_fault(ucontext_t *context, int signal, const siginfo_t *info)
{
    uint64_t pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
    return crash.ops.fault && pc >= crash.code_low && pc < crash.code_high &&
           crash.ops.fault(context, signal, (uintptr_t)info->si_addr);
}

/* ---- the stack ---- */

struct caller { /* a return address and where it lies on the stack */
    uint64_t at, address;
};

/* Whether a call comes before it: what does not look like it is no return address. */
static bool follows_call(uint64_t address)
{
    uint8_t code[CALL_BYTES];
    static const uint8_t lengths[] = {2, 3, 4, 6, 7}; /* of ff /2: through a register or memory */
    if (address < CALL_BYTES || agent_read(code, address - CALL_BYTES, CALL_BYTES) != 0)
        return false;
    if (code[CALL_BYTES - 5] == 0xe8)
        return true;
    for (unsigned i = 0; i < sizeof lengths; i++)
        if (code[CALL_BYTES - lengths[i]] == 0xff && (code[CALL_BYTES - lengths[i] + 1] & 0x38) == 0x10)
            return true;
    return false;
}

static uint64_t where(uint64_t address)
{
    return crash.ops.where ? crash.ops.where(address) : address;
}

/* By frame pointers, as long as they go upwards and point to what looks like a frame. */
static unsigned chain_walk(const greg_t *regs, struct caller *callers, unsigned most)
{
    uint64_t sp = (uint64_t)regs[REG_RSP], bp = (uint64_t)regs[REG_RBP], frame[2];
    uint8_t byte;
    unsigned count = 0;
    if (agent_read(&byte, (uint64_t)regs[REG_RIP], 1) != 0 && agent_read(frame, sp, 8) == 0 && follows_call(frame[0]))
        callers[count++] = (struct caller){sp, frame[0]}; /* it called an address that is none */
    while (count < most && bp >= sp && bp % 8 == 0 && agent_read(frame, bp, sizeof frame) == 0) {
        frame[1] = where(frame[1]);
        if (!follows_call(frame[1]))
            break;
        callers[count++] = (struct caller){bp + 8, frame[1]};
        sp = bp + sizeof frame;
        bp = frame[0];
    }
    return count;
}

/* The shadow stack adds the callers of traced functions that have no frame pointers. */
static unsigned stack_take(const greg_t *regs, uint64_t *ret_stack)
{
    struct caller callers[CHAIN];
    struct agent_frame frame;
    struct area_thread *thread = crash.ops.thread ? crash.ops.thread() : NULL;
    uint64_t frames = thread ? atomic_load(&thread->frames) : 0;
    uint32_t depth = frames ? atomic_load(&thread->depth) : 0;
    unsigned count = chain_walk(regs, callers, CHAIN), next = 0, taken = 0;
    uint64_t sp = (uint64_t)regs[REG_RSP];
    ret_stack[taken++] = where((uint64_t)regs[REG_RIP]);
    while (taken < STACK) {
        bool have = false;
        while (depth && !have) {
            have = agent_read(&frame, frames + (depth - 1) * sizeof frame, sizeof frame) == 0;
            /* those below the stack pointer ended without having been noticed */
            if (have && frame.sp + 256 < sp) {
                have = false;
                depth--;
            } else if (!have) {
                depth = 0;
            }
        }
        if (!have && next == count)
            break;
        if (have && (next == count || frame.sp < callers[next].at)) {
            bool known = false;
            for (unsigned i = 0; i < count; i++) /* its place is a little above the hook's stack pointer */
                known = known || (callers[i].address == frame.callsite && callers[i].at >= frame.sp);
            if (!known)
                ret_stack[taken++] = frame.callsite;
            depth--;
        } else {
            ret_stack[taken++] = callers[next++].address;
        }
    }
    return taken;
}

void agent_crash_note(int signal, const siginfo_t *info, const ucontext_t *context)
{
    /* by DWARF numbers */
    static const uint8_t order[17] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                      REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    const greg_t *regs = context->uc_mcontext.gregs;
    uint32_t none = 0;
    if (!crash.area || !crash.process || agent_read_process() != crash.process ||
        !atomic_compare_exchange_strong(&crash.noted, &none, 1))
        return;
    struct area_crash *note = &crash.area->crash;
    uint64_t address = info->si_code > 0 ? (uintptr_t)info->si_addr : 0;
    note->signal = signal;
    note->code = info->si_code;
    note->tid = (int32_t)sys_call0(__NR_gettid);
    note->address = address;
    note->time = __builtin_ia32_rdtsc();
    for (unsigned i = 0; i < 17; i++)
        note->regs[i] = (uint64_t)regs[order[i]];
    note->regs[16] = where(note->regs[16]);
    note->regs[17] = (uint64_t)regs[REG_EFL];
    note->depth = stack_take(regs, note->stack);
    atomic_store_explicit(&note->valid, 1, memory_order_release);
    if (crash.ops.record)
        crash.ops.record(signal, info->si_code, address, note->regs[16]);
    if (crash.bell)
        area_ring(crash.bell);
}
