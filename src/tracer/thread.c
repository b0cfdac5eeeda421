/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of threads and processes, and the one place that decides whether a thread runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>

#include <utlist.h>

#include "base/system/proc_file.h"
#include "tracer/tracee.h"

struct thread *all_threads;
struct process *all_processes;

static struct thread *dead_threads;
static struct process *dead_processes;

struct process *process_new(pid_t pid, struct space *space_taken)
{
    struct process *process = space_taken ? calloc(1, sizeof *process) : NULL;
    if (!process) {
        space_put(space_taken);
        return NULL;
    }
    process->pid = pid;
    process->space = space_taken;
    HASH_ADD_INT(all_processes, pid, process);
    return process;
}

struct process *process_find(pid_t pid)
{
    struct process *process;
    HASH_FIND_INT(all_processes, &pid, process);
    return process;
}

void process_remove(struct process *process)
{
    if (process->dead)
        return;
    while (process->threads)
        thread_remove(process->threads);
    if (process->dead) /* with its last thread */
        return;
    breakpoint_clear_process(process);
    if (process->space->references == 1)
        space_restore_scratch(process, process->keep_stubs);
    HASH_DEL(all_processes, process);
    process->dead = true;
    process->next_dead = dead_processes;
    dead_processes = process;
    if (process->wanted && !process->releasing && !process->spawning) {
        struct tracer_event event = {.kind = TRACER_GONE, .pid = process->pid, .tid = process->pid};
        event_send(&event);
    }
}

pid_t process_live_tid(const struct process *process)
{
    const struct thread *thread = process->threads;
    while (thread && thread->exited && thread->next)
        thread = thread->next;
    return thread ? thread->tid : process->pid;
}

struct thread *thread_new(struct process *process, pid_t tid)
{
    struct thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    thread->tid = tid;
    thread->process = process;
    HASH_ADD_INT(all_threads, tid, thread);
    DL_APPEND(process->threads, thread);
    return thread;
}

struct thread *thread_find(pid_t tid)
{
    struct thread *thread;
    HASH_FIND_INT(all_threads, &tid, thread);
    return thread;
}

void thread_remove(struct thread *thread)
{
    if (thread->dead)
        return;
    struct process *process = thread->process;
    struct space *space = process->space;
    thread->dead = true;
    HASH_DEL(all_threads, thread);
    if (space->in_place == thread)
        breakpoint_in_place_stopped(thread);
    breakpoint_clear_step(thread);
    guard_signal_forget(thread);
    call_drop(thread);
    DL_DELETE(process->threads, thread);
    thread->next_dead = dead_threads;
    dead_threads = thread;
    if (!process->threads)
        process_remove(process);
}

void graveyard_clear(void)
{
    while (dead_threads) {
        struct thread *thread = dead_threads;
        dead_threads = thread->next_dead;
        free(thread);
    }
    while (dead_processes) {
        struct process *process = dead_processes;
        dead_processes = process->next_dead;
        space_put(process->space);
        space_put(process->inherited);
        load_free(process->load);
        free(process);
    }
}

/* ---- registers of a thread in a stop ---- */

int thread_load_regs(struct thread *thread)
{
    if (thread->regs_valid)
        return 0;
    thread->parked = false;
    if (!thread->in_stop)
        return -EBUSY;
    if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &thread->regs) < 0)
        return -errno;
    thread->regs_valid = true;
    uint64_t pc;
    if (thread->process->space->scratches && space_translate(thread->process->space, thread->regs.rip, &pc)) {
        /* stopped in the copy of an instruction: seen from outside it is at the original. If it was not executed yet,
         * its breakpoint was hit already. */
        struct breakpoint *breakpoint = breakpoint_find(thread->process->space, pc);
        if (breakpoint && breakpoint->slot == thread->regs.rip) {
            thread->break_done = true;
            thread->break_addr = pc;
        }
        thread->regs.rip = pc;
        thread->regs_dirty = true;
    }
    return 0;
}

int thread_flush_regs(struct thread *thread)
{
    if (!thread->regs_dirty)
        return 0;
    if (ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs) < 0)
        return -errno;
    thread->regs_dirty = thread->parked = false;
    return 0;
}

void thread_park(struct thread *thread)
{
    if (thread->parked || !thread->regs_valid || thread->stop == STOP_EXIT ||
        (!thread->regs_dirty && !thread->break_done))
        return;
    struct user_regs_struct regs = thread->regs;
    struct breakpoint *breakpoint =
        thread->break_done && !thread->signal ? breakpoint_find(thread->process->space, thread->break_addr) : NULL;
    if (breakpoint && breakpoint->inserted && regs.rip == breakpoint->addr)
        breakpoint_past(thread, breakpoint, &regs, true);
    thread->parked = thread->regs_dirty = ptrace(PTRACE_SETREGS, thread->tid, NULL, &regs) == 0;
}

void thread_regs_changed(struct thread *thread)
{
    thread->regs_valid = thread->regs_dirty = true;
    if (thread->break_done && thread->regs.rip != thread->break_addr)
        thread->break_done = false;
    thread->redo = false;
}

/* ---- running and stopping ---- */

bool thread_may_run(const struct thread *thread)
{
    if (thread->in_stop && thread->stop == STOP_EXIT)
        return !thread->hold; /* it is ending: nothing but the handling of that may keep it */
    const struct space *space = thread->process->space;
    return !thread->stopped && !thread->hold && !thread->pauses && !thread->new_child && !thread->process->pauses &&
           (!space->in_place || space->in_place == thread);
}

static void tell_switch(const struct thread *thread, enum tracer_event_kind kind)
{
    struct tracer_event event = {.kind = kind, .pid = thread->process->pid, .tid = thread->tid};
    if (thread->process->watch.switches)
        event_send(&event);
}

bool thread_interrupt(struct thread *thread)
{
    tell_switch(thread, TRACER_INTERRUPTS);
    return ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) == 0;
}

bool thread_go(struct thread *thread, int request, int signal)
{
    tell_switch(thread, TRACER_RESUMES);
    return ptrace((enum __ptrace_request)request, thread->tid, NULL, (void *)(long)signal) == 0;
}

static void resume(struct thread *thread)
{
    if (thread->leaving) {
        attach_detach_thread(thread);
        return;
    }
    struct process *process = thread->process;
    int request = process->syscalls ? PTRACE_SYSCALL : PTRACE_CONT;
    if (thread->stop == STOP_GROUP && !thread->signal) {
        if (thread_flush_regs(thread) == 0 && ptrace(PTRACE_LISTEN, thread->tid, NULL, NULL) == 0) {
            thread->in_stop = false;
            thread->listening = true;
            thread->interrupted = false;
            thread->regs_valid = false;
            return;
        }
        request = PTRACE_CONT; /* dying */
    }
    if (thread->stop == STOP_EXIT) {
        thread->exited = true;
    } else {
        if (thread->step && step_prepare(thread))
            request = PTRACE_SINGLESTEP;
        if (thread->break_done) {
            struct breakpoint *breakpoint = breakpoint_find(process->space, thread->break_addr);
            if (!breakpoint || !breakpoint->inserted)
                thread->break_done = false;
            else if (!thread->signal && !breakpoint_step_over(thread, breakpoint, &request)) {
                thread_park(thread);
                breakpoint_in_place_try(process->space);
                return;
            } else if (thread->signal) {
                /* a handler may run first, and it must not see a slot: the same hit comes again */
                thread->redo = true;
                thread->redo_addr = thread->break_addr;
                thread->redo_sp = thread->regs_valid ? thread->regs.rsp : 0;
                thread->break_done = false;
            }
        }
    }
    thread->trap_due |= request == PTRACE_SINGLESTEP;
    thread_flush_regs(thread);
    thread->regs_valid = false;
    thread->in_stop = false;
    thread->interrupted = false;
    int signal = thread->signal;
    thread->signal = 0;
    guard_signal_forget(thread);
    /* ESRCH: killed meanwhile, its end will be reported */
    if (!thread_go(thread, request, signal) && errno != ESRCH)
        thread_go(thread, PTRACE_CONT, signal);
}

void thread_update(struct thread *thread)
{
    if (thread->dead || thread->exited)
        return;
    bool may_run = thread_may_run(thread) && !(thread->leaving && !thread->in_stop);
    if (thread->in_stop) {
        if (may_run)
            resume(thread);
        else
            thread_park(thread);
    } else if (!may_run && !thread->interrupted) {
        thread->interrupted = thread_interrupt(thread);
    }
}

void thread_pause(struct thread *thread)
{
    thread->pauses++;
    thread_update(thread);
}

void thread_unpause(struct thread *thread)
{
    if (thread->pauses)
        thread->pauses--;
    thread_update(thread);
}

void process_update(struct process *process)
{
    struct thread *thread, *next;
    DL_FOREACH_SAFE(process->threads, thread, next)
    thread_update(thread);
}

void process_unpause(struct process *process)
{
    process->pauses--;
    process_update(process);
}

static bool halted(void *ctx)
{
    struct thread *thread = ctx;
    return thread->dead || thread->in_stop || thread->exited;
}

int thread_halt(struct thread *thread)
{
    if (thread->exited)
        return -ESRCH;
    thread_pause(thread);
    int code = pump_until(halted, thread);
    if (thread->dead)
        return -ESRCH;
    if (code < 0 || !thread->in_stop) {
        thread_unpause(thread);
        return code < 0 ? code : -ESRCH;
    }
    return 0;
}

static bool process_halted(void *ctx)
{
    struct process *process = ctx;
    for (struct thread *thread = process->threads; thread; thread = thread->next) {
        if (!thread->in_stop && !thread->exited && !(thread->interrupted && thread_is_blocked(thread)))
            return false;
    }
    return true;
}

int process_halt(struct process *process)
{
    process->pauses++;
    process_update(process);
    int code = pump_until(process_halted, process);
    if (process->dead)
        return -ESRCH;
    if (code < 0)
        process_unpause(process);
    return code;
}

bool thread_is_blocked(const struct thread *thread)
{
    return strchr("DZX", proc_letter(thread->tid, 0)) != NULL; /* also of one that cannot be seen */
}
