/* SPDX-License-Identifier: Apache-2.0 */
/* Breakpoints: setting and clearing int3, what a hit does, and how the thread gets past it. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "tracer/tracee.h"

static const uint8_t int3 = INT3;

struct breakpoint *breakpoint_find(const struct space *space, uint64_t addr)
{
    struct breakpoint *breakpoint;
    HASH_FIND(hh, space->breakpoints, &addr, sizeof addr, breakpoint);
    return breakpoint;
}

/* Somewhere else than in code, an int3 would be a changed datum. */
static bool is_code(struct process *process, uint64_t addr)
{
    struct proc_maps maps;
    if (proc_maps_read(process_live_tid(process), &maps) < 0)
        return true; /* not readable here: the kernel decides */
    const struct proc_map *map = proc_maps_find(&maps, addr);
    bool code = map && map->execute;
    proc_maps_done(&maps);
    return code;
}

/* Reads the instruction, again if the program changed it since the last time. */
static int read_insn(struct process *process, struct breakpoint *breakpoint)
{
    uint8_t bytes[INSN_SIZE + 1];
    size_t len;
    int code = space_read_some(process, breakpoint->addr, bytes, sizeof bytes, &len);
    if (code < 0)
        return code;
    struct insn insn;
    insn_decode(&insn, breakpoint->addr, bytes, len);
    breakpoint->original = bytes[0];
    if (insn.length != breakpoint->insn.length || memcmp(insn.bytes, breakpoint->insn.bytes, sizeof insn.bytes) != 0)
        breakpoint->slot = 0;
    breakpoint->insn = insn;
    return 0;
}

static int breakpoint_insert(struct process *process, struct breakpoint *breakpoint)
{
    if (breakpoint->inserted)
        return 0;
    int code = read_insn(process, breakpoint);
    if (code < 0)
        return code;
    breakpoint->guarded = guard_trap(space_mem_fd(process), breakpoint->addr, breakpoint->original);
    if (space_write_raw(process, breakpoint->addr, &int3, 1) < 0) {
        guard_trap_forget(&breakpoint->guarded);
        return -EIO;
    }
    breakpoint->inserted = true;
    process->space->inserted_count++;
    return 0;
}

static void take_out(struct process *process, struct breakpoint *breakpoint)
{
    if (!breakpoint->inserted)
        return;
    uint8_t byte;
    breakpoint->inserted = false;
    process->space->inserted_count--;
    /* a library may have been unloaded, or its page replaced */
    if (space_read_raw(process, breakpoint->addr, &byte, 1) == 1 && byte == int3)
        space_write_raw(process, breakpoint->addr, &breakpoint->original, 1);
    guard_trap_forget(&breakpoint->guarded);
}

static struct breakpoint *breakpoint_get(struct process *process, uint64_t addr)
{
    struct breakpoint *breakpoint = breakpoint_find(process->space, addr);
    if (!breakpoint) {
        breakpoint = calloc(1, sizeof *breakpoint);
        if (!breakpoint)
            return NULL;
        breakpoint->addr = addr;
        HASH_ADD(hh, process->space->breakpoints, addr, sizeof addr, breakpoint);
    }
    return breakpoint;
}

int breakpoint_set(struct process *process, uint64_t addr, uint64_t id, const struct code_program *program,
                   uint8_t *ret_original, struct err *err)
{
    if (program && (!cells || !code_check(program, CODE_CELLS)))
        return err_set(err, -EINVAL, "the lowered action list is not one that can be run");
    int code = attach_settle(process, err);
    if (code < 0)
        return code;
    uint64_t ignored;
    if (!is_code(process, addr) || space_translate(process->space, addr, &ignored) ||
        space_is_call_stub(process->space, addr))
        return err_set(err, -EIO, "there is no code of process %d at address 0x%" PRIx64, process->pid, addr);
    struct code_program *copy = NULL;
    if (program) {
        copy = malloc(sizeof *copy);
        if (!copy)
            return err_errno(err, -ENOMEM, "breakpoint");
        *copy = *program;
    }
    struct breakpoint *breakpoint = breakpoint_get(process, addr);
    struct breakpoint_user *user = breakpoint ? breakpoint->users : NULL;
    while (user && (user->process != process || user->id != id || user->step_tid))
        user = user->next;
    bool found = user != NULL;
    if (breakpoint && !found)
        user = calloc(1, sizeof *user);
    if (!user) {
        free(copy);
        return err_errno(err, -ENOMEM, "breakpoint");
    }
    code = breakpoint_insert(process, breakpoint);
    if (code < 0) {
        free(copy);
        if (!found)
            free(user);
        return err_set(err, code, "the code of process %d at address 0x%" PRIx64 " cannot be changed", process->pid,
                       addr);
    }
    free(user->program);
    user->program = copy;
    if (!found) {
        user->process = process;
        user->id = id;
        user->next = breakpoint->users;
        breakpoint->users = user;
    }
    *ret_original = breakpoint->original;
    return 0;
}

/* In a settled process. */
static int breakpoint_set_step(struct thread *thread, uint64_t addr, uint64_t sp)
{
    struct process *process = thread->process;
    struct breakpoint *breakpoint = process->space->settled ? breakpoint_get(process, addr) : NULL;
    struct breakpoint_user *user = breakpoint ? calloc(1, sizeof *user) : NULL;
    int code = user ? breakpoint_insert(process, breakpoint) : -ENOMEM;
    if (code < 0) {
        free(user);
        return code;
    }
    *user =
        (struct breakpoint_user){.next = breakpoint->users, .process = process, .step_tid = thread->tid, .step_sp = sp};
    breakpoint->users = user;
    thread->over_addr = addr;
    thread->over_sp = sp;
    return 0;
}

/* Removes the users that match: of the process, and the id or the stepping thread, unless those do not matter. */
static void remove_users(struct process *process, struct breakpoint *breakpoint, const uint64_t *id, pid_t step_tid)
{
    bool had_users = breakpoint->users;
    for (struct breakpoint_user **link = &breakpoint->users, *user; (user = *link);) {
        bool match = user->process == process && (!id || (user->id == *id && !user->step_tid)) &&
                     (!step_tid || user->step_tid == step_tid);
        if (!match) {
            link = &user->next;
            continue;
        }
        *link = user->next;
        free(user->program);
        free(user);
    }
    if (had_users && !breakpoint->users)
        take_out(process, breakpoint);
}

void breakpoint_clear(struct process *process, uint64_t addr, uint64_t id)
{
    struct breakpoint *breakpoint = breakpoint_find(process->space, addr);
    if (breakpoint)
        remove_users(process, breakpoint, &id, 0);
}

void breakpoint_clear_process(struct process *process)
{
    struct breakpoint *breakpoint, *next;
    HASH_ITER(hh, process->space->breakpoints, breakpoint, next)
    remove_users(process, breakpoint, NULL, 0);
}

void breakpoint_clear_step(struct thread *thread)
{
    struct breakpoint *breakpoint =
        thread->over_addr ? breakpoint_find(thread->process->space, thread->over_addr) : NULL;
    thread->over_addr = 0;
    if (breakpoint)
        remove_users(thread->process, breakpoint, NULL, thread->tid);
}

/* ---- hits ---- */

static void run_program(const struct code_program *program, const struct user_regs_struct *regs)
{
    /* parameters: the integer arguments, as they are where a function begins (System V ABI, 3.2.3) */
    struct code_event event = {
        .time_ns = clock_now_ns(),
        .params = {(int64_t)regs->rdi, (int64_t)regs->rsi, (int64_t)regs->rdx, (int64_t)regs->rcx, (int64_t)regs->r8,
                   (int64_t)regs->r9},
        .param_count = 6,
    };
    code_run(program, &event, cells);
}

static void step_arrived(struct thread *thread);

void breakpoint_hit(struct thread *thread, struct breakpoint *breakpoint)
{
    bool report = false, loads = false,
         again = thread->redo && thread->redo_addr == breakpoint->addr && thread->redo_sp == thread->regs.rsp;
    thread->redo = false;
    for (struct breakpoint_user *user = breakpoint->users; user; user = user->next) {
        if (user->step_tid == thread->tid && thread->regs.rsp >= user->step_sp) {
            /* the step ends before the instruction; if other users are here, it is hit when the thread goes on */
            thread->break_done = again;
            thread->break_addr = breakpoint->addr;
            step_arrived(thread);
            return;
        }
    }
    thread->break_done = true;
    thread->break_addr = breakpoint->addr;
    if (again || thread_loads(thread) || !process_reports(thread))
        return;
    for (struct breakpoint_user *user = breakpoint->users; user; user = user->next) {
        if (user->process != thread->process || user->step_tid)
            continue;
        if (user->program)
            run_program(user->program, &thread->regs);
        else if (user->id == BREAKPOINT_LOAD)
            loads = true;
        else
            report = true;
    }
    if (report) {
        struct tracer_event event = {.kind = TRACER_BREAK, .addr = breakpoint->addr};
        event_hold(thread, &event);
    } else if (loads) {
        load_arrived(thread);
    }
}

/* ---- going on ---- */

/* The threads that share the memory, but for one. */
static void space_update(const struct space *space, const struct thread *but)
{
    for (struct process *process = all_processes; process; process = process->hh.next) {
        if (process->space != space)
            continue;
        for (struct thread *thread = process->threads, *next; thread; thread = next) {
            next = thread->next;
            if (thread != but)
                thread_update(thread);
        }
    }
}

enum breakpoint_past breakpoint_past(struct thread *thread, struct breakpoint *breakpoint,
                                     struct user_regs_struct *regs, bool alone)
{
    const struct insn *insn = &breakpoint->insn;
    if (breakpoint->original == int3)
        return PAST_OWN;
    if ((insn->kind == INSN_COPY || insn->kind == INSN_PUSH || (insn->kind == INSN_SYSCALL && alone)) &&
        (breakpoint->slot || (breakpoint->slot = space_slot_new(thread->process, insn, breakpoint->addr)))) {
        regs->rip = breakpoint->slot;
        return PAST_SLOT;
    }
    return insn_emulate(insn, breakpoint->addr, thread, regs) == 0 ? PAST_EMULATED : PAST_IN_PLACE;
}

bool breakpoint_step_over(struct thread *thread, struct breakpoint *breakpoint, int *inout_request)
{
    if (thread_load_regs(thread) < 0)
        return true;
    if (thread->regs.rip != breakpoint->addr) {
        thread->break_done = false;
        return true;
    }
    struct space *space = thread->process->space;
    switch (breakpoint_past(thread, breakpoint, &thread->regs, false)) {
    case PAST_OWN:
        thread->regs.rip++;
        thread->signal = SIGTRAP;
        break;
    case PAST_SLOT:
        break;
    case PAST_EMULATED:
        if (*inout_request == PTRACE_SINGLESTEP) {
            *inout_request = thread->process->syscalls ? PTRACE_SYSCALL : PTRACE_CONT;
            thread->break_done = false;
            thread->regs_dirty = true;
            step_done(thread);
            return thread_may_run(thread);
        }
        break;
    case PAST_IN_PLACE:
        space->in_place = thread;
        space->in_place_addr = breakpoint->addr;
        space_update(space, thread);
        return false; /* breakpoint_in_place_try goes on with it */
    }
    thread->break_done = false;
    thread->regs_dirty = true;
    return true;
}

static bool others_stopped(const struct space *space)
{
    for (struct process *process = all_processes; process; process = process->hh.next) {
        if (process->space != space)
            continue;
        for (struct thread *thread = process->threads; thread; thread = thread->next)
            if (thread != space->in_place && !thread->in_stop && !thread->exited &&
                !(thread->interrupted && thread_is_blocked(thread)))
                return false;
    }
    return true;
}

void breakpoint_in_place_try(struct space *space)
{
    struct thread *thread = space->in_place;
    if (!thread || space->in_place_running || !thread->in_stop)
        return;
    struct breakpoint *breakpoint = breakpoint_find(space, space->in_place_addr);
    if (!thread_may_run(thread) || thread->leaving || !breakpoint || !breakpoint->inserted || !thread->break_done) {
        space->in_place = NULL; /* no longer wanted */
        space_update(space, NULL);
        return;
    }
    if (!others_stopped(space)) {
        tick_request();
        return;
    }
    int request = breakpoint->insn.kind == INSN_SYSCALL ? PTRACE_SYSCALL : PTRACE_SINGLESTEP;
    space_write_raw(thread->process, breakpoint->addr, &breakpoint->original, 1);
    space->in_place_running = true;
    thread_flush_regs(thread);
    thread->trap_due |= request == PTRACE_SINGLESTEP;
    thread->in_stop = thread->regs_valid = thread->interrupted = false;
    thread_go(thread, request, 0);
}

void breakpoint_in_place_stopped(struct thread *thread)
{
    struct space *space = thread->process->space;
    struct breakpoint *breakpoint = breakpoint_find(space, space->in_place_addr);
    if (space->in_place_running && breakpoint && breakpoint->inserted)
        space_write_raw(thread->process, breakpoint->addr, &int3, 1);
    space->in_place_running = false;
    space->in_place = NULL;
    if (!thread->dead && thread_load_regs(thread) == 0 && thread->regs.rip != space->in_place_addr)
        thread->break_done = false;
    space_update(space, thread);
}

/* ---- memory ---- */

static void breakpoint_clean(struct process *child, const struct space *inherited, bool certain)
{
    struct breakpoint *breakpoint, *next;
    HASH_ITER(hh, inherited->breakpoints, breakpoint, next)
    {
        uint8_t byte;
        if (breakpoint->original != int3 && space_read_raw(child, breakpoint->addr, &byte, 1) == 1 && byte == int3)
            space_write_raw(child, breakpoint->addr, &breakpoint->original, 1);
    }
    for (struct scratch *scratch = inherited->scratches; scratch; scratch = scratch->next)
        if (certain || space_has_stub(child, scratch))
            space_restore_bytes(child, scratch, scratch->stub_written);
}

void breakpoint_clean_child(struct process *child)
{
    struct space *inherited = child->inherited;
    if (!inherited)
        return;
    breakpoint_clean(child, inherited, true);
    child->inherited = NULL;
    space_put(inherited);
}

/* Other programs have other code at those addresses, and hardly an int3 that is executed. */
void breakpoint_clean_stranger(struct process *child)
{
    const struct space *space;
    for (unsigned i = 0; (space = space_lost(i)); i++)
        breakpoint_clean(child, space, false);
    for (const struct process *other = all_processes; other; other = other->hh.next)
        if (other != child)
            breakpoint_clean(child, other->space, false);
}

int breakpoint_write(struct process *process, uint64_t addr, const void *bytes, size_t len)
{
    struct breakpoint *breakpoint, *next;
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, bytes, len);
    HASH_ITER(hh, process->space->breakpoints, breakpoint, next)
    {
        if (breakpoint->inserted && breakpoint->addr - addr < len)
            copy[breakpoint->addr - addr] = int3;
    }
    int code = space_write(process, addr, copy, len);
    free(copy);
    HASH_ITER(hh, process->space->breakpoints, breakpoint, next)
    {
        if (!breakpoint->inserted)
            continue;
        if (code == 0 && breakpoint->addr - addr < len) {
            breakpoint->original = ((const uint8_t *)bytes)[breakpoint->addr - addr];
            guard_trap_set(breakpoint->guarded, breakpoint->original);
        }
        if (breakpoint->addr < addr + len && addr < breakpoint->addr + INSN_SIZE)
            read_insn(process, breakpoint);
    }
    return code;
}

/* ---- single steps ---- */

/*
 * Single steps. INTO is the processor's trap flag. OVER is the same, but for calls: the thread runs to a breakpoint of
 * ours at the return address, which counts when the stack is as high as before (recursion), and only for this thread.
 * A signal handler that runs before the instruction is passed over in the same way. BOTH is INTO, and it is known of
 * each step whether OVER would have made it, too.
 */

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

/* At its breakpoint behind a call. */
static void step_arrived(struct thread *thread)
{
    breakpoint_clear_step(thread);
    if (!thread->over_handler)
        step_done(thread);
}
