/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single steps. INTO is the processor's trap flag. OVER is the same, but for calls: the thread runs to a breakpoint of
 * ours at the return address, which counts when the stack is as high as before (recursion), and only for this thread.
 * A signal handler that runs before the instruction is passed over in the same way. BOTH is INTO, and it is known of
 * each step whether OVER would have made it, too.
 */
#include <errno.h>
#include <sys/ptrace.h>

#include "tracer/tracee.h"

enum { FLAG_TRAP = 0x100 };

int step_start(struct thread *thread, enum tracer_step_mode mode, struct err *err)
{
    int code = mode & TRACER_STEP_OVER ? attach_settle(thread->process, err) : 0;
    if (code < 0 || thread->dead)
        return code < 0 ? code : -ESRCH;
    code = thread_halt(thread);
    if (code < 0)
        return code;
    uint64_t addr = thread->over_addr; /* on its way through a call: that is to end as one step all the same */
    breakpoint_clear_step(thread);
    thread->step = mode;
    thread->step_pc = 0;
    if (addr && mode == TRACER_STEP_BOTH)
        thread->over_addr = addr;
    else if (addr && mode == TRACER_STEP_OVER)
        code = breakpoint_set_step(thread, addr, thread->over_sp);
    thread_unpause(thread);
    return code;
}

bool step_prepare(struct thread *thread)
{
    bool over = thread->step == TRACER_STEP_OVER, inside = thread->over_addr;
    thread->step_pc = 0;
    if (over && inside)
        return false; /* on its way through a call */
    if (thread_load_regs(thread) < 0)
        return true;
    if (over && thread->signal && breakpoint_set_step(thread, thread->regs.rip, thread->regs.rsp) == 0) {
        thread->over_handler = true;
        return false;
    }
    uint8_t bytes[INSN_SIZE + 1];
    size_t len;
    struct insn insn = {.length = 0};
    if (space_read_some(thread->process, thread->regs.rip, bytes, sizeof bytes, &len) == 0)
        insn_decode(&insn, thread->regs.rip, bytes, len);
    thread->pushf_sp = insn.is_pushf ? thread->regs.rsp - (insn.bytes[0] == 0x66 ? 2 : 8) : 0;
    if (thread->step == TRACER_STEP_BOTH && !inside) {
        thread->step_pc = thread->regs.rip;
        thread->step_sp = thread->regs.rsp;
        thread->over_addr = insn.is_call ? thread->regs.rip + insn.length : 0;
        thread->over_sp = thread->regs.rsp;
        thread->over_handler = false;
    }
    if (over && insn.is_call && breakpoint_set_step(thread, thread->regs.rip + insn.length, thread->regs.rsp) == 0) {
        thread->over_handler = false;
        return false;
    }
    return true;
}

/*
 * The trap flag stays set until the thread is resumed without it: if the tracer were killed while the thread waits
 * here, it would take its next step, and die of it. So it is resumed, with an interrupt pending that stops it before it
 * is in user mode.
 */
void step_trapped(struct thread *thread, bool handler)
{
    thread->trap_due = false;
    if (handler && thread->step_pc) { /* the step comes behind it */
        thread->over_addr = thread->step_pc;
        thread->over_sp = thread->step_sp;
        thread->over_handler = true;
    }
    if (!thread->step) {
        if (thread_load_regs(thread) == 0)
            step_done(thread);
        return;
    }
    if (!thread_interrupt(thread) || !thread_go(thread, PTRACE_CONT, 0))
        return; /* killed */
    thread->stepped = thread->interrupted = true;
    thread->in_stop = thread->regs_valid = false;
}

void step_done(struct thread *thread)
{
    uint16_t flags;
    if (thread->pushf_sp && thread->pushf_sp == thread->regs.rsp &&
        space_read(thread->process, thread->pushf_sp, &flags, sizeof flags) == 0) {
        flags &= (uint16_t)~FLAG_TRAP;
        space_write(thread->process, thread->pushf_sp, &flags, sizeof flags);
    }
    thread->pushf_sp = 0;
    uint32_t modes = thread->step;
    if (thread->step == TRACER_STEP_BOTH && thread->over_addr) {
        bool arrived = thread->regs.rip == thread->over_addr && thread->regs.rsp >= thread->over_sp;
        if (!arrived || thread->over_handler)
            modes = TRACER_STEP_INTO;
        if (arrived)
            thread->over_addr = 0;
    }
    if (thread->step && process_reports(thread)) {
        struct tracer_event event = {.kind = TRACER_STEP, .addr = thread->regs.rip, .number = modes};
        event_hold(thread, &event);
    }
}

void step_arrived(struct thread *thread)
{
    breakpoint_clear_step(thread);
    if (!thread->over_handler)
        step_done(thread);
}
