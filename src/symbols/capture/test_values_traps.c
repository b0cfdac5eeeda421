/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of the hook library, with VALUES_TRAPS, for programs without hooks: an int3 at each function's beginning, and where
 * it returns to, has the registers that a patched function would be captured with. An instruction whose place is taken is
 * executed by a single step, in which the int3 is not there.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "symbols/capture/test_values_hooks.h"

enum { TRAPS = 1 << 14, CALLS = 1 << 10, INT3 = 0xcc, SINGLE_STEP = 1 << 8 /* of the flags */ };

static struct trap {
    uint8_t *at, byte; /* what was there */
    bool entry;
} traps[TRAPS];
static struct call {
    uint64_t function, slot; /* where its return address is */
} calls[CALLS];
static unsigned trap_count, call_count;
static struct trap *stepped;

static struct trap *trap_at(uint64_t address)
{
    for (unsigned i = 0; i < trap_count; i++)
        if ((uintptr_t)traps[i].at == address)
            return &traps[i];
    return NULL;
}

static void trap_set(uint64_t address, bool entry)
{
    struct trap *trap = trap_at(address);
    uint64_t page = address & ~UINT64_C(4095);
    if (!trap) {
        if (trap_count == TRAPS || mprotect((void *)(uintptr_t)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
            abort();
        trap = &traps[trap_count++];
        *trap = (struct trap){(uint8_t *)(uintptr_t)address, *(uint8_t *)(uintptr_t)address, false};
        *trap->at = INT3;
    }
    trap->entry |= entry;
}

static void frame_fill(struct capture_frame *frame, const ucontext_t *context)
{
    static const uint8_t registers[16] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                                          REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    *frame = (struct capture_frame){.has_xmm = true};
    for (unsigned i = 0; i < 16; i++)
        frame->gpr[i] = (uint64_t)context->uc_mcontext.gregs[registers[i]];
    memcpy(frame->xmm, context->uc_mcontext.fpregs->_xmm, sizeof frame->xmm);
}

static void call_tell(const struct call *call, struct capture_frame *frame, int exit)
{
    frame->gpr[7] = call->slot;
    frame->gpr[16] = call->function + (uint64_t)exit;
    values_hook((void *)(uintptr_t)call->function, NULL, frame, exit);
}

static void on_trap(int signal, siginfo_t *info, void *raw)
{
    ucontext_t *context = raw;
    greg_t *registers = context->uc_mcontext.gregs;
    struct capture_frame frame;
    if (stepped) {
        *stepped->at = INT3;
        stepped = NULL;
        registers[REG_EFL] &= ~SINGLE_STEP;
        return;
    }
    struct trap *trap = trap_at((uint64_t)registers[REG_RIP] - 1);
    if (!trap)
        abort();
    frame_fill(&frame, context);
    uint64_t rsp = frame.gpr[7], returns;
    /* calls whose frames were left in another way are over */
    for (; call_count > 0 && calls[call_count - 1].slot < rsp; call_count--)
        if (calls[call_count - 1].slot == rsp - 8 && !trap->entry)
            call_tell(&calls[call_count - 1], &frame, 1);
    if (trap->entry) {
        if (call_count == CALLS)
            abort();
        memcpy(&returns, (void *)(uintptr_t)rsp, sizeof returns);
        trap_set(returns, false);
        calls[call_count++] = (struct call){(uintptr_t)trap->at, rsp};
        call_tell(&calls[call_count - 1], &frame, 0);
    }
    *trap->at = trap->byte;
    stepped = trap;
    registers[REG_RIP]--;
    registers[REG_EFL] |= SINGLE_STEP;
}

static void trap_function(uint64_t address)
{
    trap_set(address, true);
}

__attribute__((constructor)) static void traps_begin(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    if (!getenv("VALUES_TRAPS"))
        return;
    sigaction(SIGTRAP, &action, NULL);
    values_each(trap_function);
}
