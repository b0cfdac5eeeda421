/* SPDX-License-Identifier: Apache-2.0 */
/* What wait4 reported: which kind of stop it is, what follows from it, whom to tell. Never waits. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <linux/ptrace.h> /* after the other one */
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "tracer/tracee.h"

/* Statuses of children that came before their maker's fork event: the order can invert. */
struct unknown {
    pid_t tid;
    int status;
    uint64_t since_ns;
    struct unknown *next;
};
static struct unknown *unknowns;

static void stop_forget_unknown(pid_t tid)
{
    struct unknown *unknown;
    LL_SEARCH_SCALAR(unknowns, unknown, tid, tid);
    if (unknown) {
        LL_DELETE(unknowns, unknown);
        free(unknown);
    }
}

static void remember_unknown(pid_t tid, int status)
{
    struct unknown *unknown;
    LL_SEARCH_SCALAR(unknowns, unknown, tid, tid);
    if (!WIFSTOPPED(status)) { /* a child of ours that was let go, or one that never got known */
        if (unknown)
            stop_forget_unknown(tid);
        return;
    }
    if (status >> 16 ==
        PTRACE_EVENT_EXIT) { /* who made it was killed before that was told: nobody else lets it go on */
        stop_forget_unknown(tid);
        ptrace(PTRACE_CONT, tid, NULL, NULL);
        return;
    }
    if (!unknown) {
        unknown = calloc(1, sizeof *unknown);
        if (!unknown)
            return;
        unknown->tid = tid;
        unknown->since_ns = clock_now_ns();
        LL_PREPEND(unknowns, unknown);
        look_request();
    }
    unknown->status = status;
}

bool process_reports(const struct thread *thread)
{
    return thread->process->wanted && !thread->process->releasing && !thread->process->spawning && !monitor_gone;
}

/* The new child has made its first stop (or died before that: child NULL). */
static void resolve_child(struct thread *parent, struct thread *child, pid_t child_tid)
{
    bool is_thread = child && child->tid != child->process->pid;
    if (child && !is_thread)
        breakpoint_clean_child(child->process);
    if (parent && parent->new_child == child_tid) {
        parent->new_child = 0;
        struct process *process = parent->process;
        if (process_reports(parent) && (is_thread ? process->watch.new_thread : process->watch.new_process)) {
            struct tracer_event event = {.kind = is_thread ? TRACER_NEW_THREAD : TRACER_NEW_PROCESS,
                                         .child = child_tid};
            event_hold(parent, &event);
            if (child) {
                child->hold = parent->hold;
                parent->held_child = child_tid;
            }
        }
        thread_update(parent);
    }
    if (child && !is_thread && !child->hold)
        attach_try_leave(child->process);
}

static struct thread *child_new(const struct thread *parent, pid_t tid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", parent->process->pid, tid);
    bool is_thread = access(path, F_OK) == 0;
    struct process *process = parent->process;
    if (!is_thread) {
        bool shares = attach_shares_memory(parent->tid, tid);
        process = process_new(tid, shares ? space_get(process->space) : space_new());
        if (process && !shares)
            process->inherited = space_get(parent->process->space);
    }
    struct thread *child = process ? thread_new(process, tid) : NULL;
    if (child) {
        child->fresh = true;
        child->leaving = is_thread && parent->process->releasing;
    }
    return child;
}

/* False: there is no such child. */
static bool announce_child(struct thread *parent, pid_t tid)
{
    struct thread *child = thread_find(tid);
    struct unknown *unknown;
    LL_SEARCH_SCALAR(unknowns, unknown, tid, tid);
    if (!child && !unknown && !attach_is_traced(tid)) /* came and went, or was let go already */
        return false;
    if (!child)
        child = child_new(parent, tid);
    if (!child || !child->fresh)
        return true;
    child->parent_tid = parent->tid;
    parent->new_child = tid;
    if (unknown) {
        int status = unknown->status;
        stop_forget_unknown(tid);
        stop_handle(tid, status);
    }
    return true;
}

/* In fork, vfork, clone or clone3, as 64-bit programs number them or 32-bit ones. */
static bool makes_tasks(const struct thread *thread)
{
    static const long calls[] = {SYS_fork, SYS_vfork, SYS_clone, SYS_clone3, 2, 190, 120};
    long number = ptrace(PTRACE_PEEKUSER, thread->tid, offsetof(struct user, regs.orig_rax), NULL);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == number)
            return true;
    return false;
}

/*
 * Who is killed inside fork tells of no child. A thread dies with its maker; a process lives on, and nobody would let
 * it go on after its first stop. Here, at its end, the maker still is its parent, unless it said CLONE_PARENT.
 */
static void announce_untold(struct thread *maker)
{
    char path[PROC_PATH_SIZE];
    _cleanup_(freep) char *children = NULL;
    size_t len;
    if (!makes_tasks(maker))
        return;
    maker->process->space->lost_child = true;
    proc_path(path, maker->process->pid, maker->tid, "children");
    if (file_read(path, &children, &len) < 0)
        return;
    for (char *at = children, *end; *at; at = end) {
        pid_t tid = (pid_t)strtol(at, &end, 10);
        if (end == at)
            break;
        const struct thread *known = thread_find(tid);
        if (!known || known->fresh)
            announce_child(maker, tid);
    }
}

static void handle_fork(struct thread *parent)
{
    unsigned long message = 0;
    pause_at("tracer.forked");
    if (ptrace(PTRACE_GETEVENTMSG, parent->tid, NULL, &message) < 0)
        return;
    /* killed meanwhile, and in its last stop already, with another message? */
    if (!announce_child(parent, (pid_t)message))
        announce_untold(parent);
}

/* Nobody has told of it: a process that its maker made for its own parent, for instance. Should somebody do so after
 * all (see announce_child), then it is not reported, but has gone on. */
static struct thread *unknown_adopt(pid_t tid)
{
    pid_t pid = (pid_t)proc_status_number(tid, 0, "Tgid");
    struct process *process = process_find(pid), *sharing = all_processes;
    bool stranger = !process && pid == tid;
    if (stranger) {
        while (sharing && !attach_shares_memory(process_live_tid(sharing), tid))
            sharing = sharing->hh.next;
        process = process_new(pid, sharing ? space_get(sharing->space) : space_new());
    }
    struct thread *thread = process ? thread_new(process, tid) : NULL;
    if (!thread)
        return NULL;
    thread->fresh = true;
    if (stranger && !sharing)
        breakpoint_clean_stranger(process);
    return thread;
}

bool stop_adopt_unknowns(uint64_t limit_ns)
{
    uint64_t now_ns = clock_now_ns();
    struct unknown *unknown = unknowns;
    while (unknown) {
        if (now_ns - unknown->since_ns < limit_ns) {
            unknown = unknown->next;
            continue;
        }
        pid_t tid = unknown->tid;
        int status = unknown->status;
        stop_forget_unknown(tid);
        if (thread_find(tid) || unknown_adopt(tid))
            stop_handle(tid, status);
        else
            ptrace(PTRACE_DETACH, tid, NULL, NULL);
        unknown = unknowns; /* which may have changed */
    }
    return unknowns;
}

/* The process has a new program. Its thread is now called like the process, the others are gone. */
static struct thread *exec_survivor(pid_t pid, struct thread *thread)
{
    unsigned long message = 0;
    if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &message) < 0)
        return thread;
    struct thread *earlier = thread_find((pid_t)message);
    if (!thread && earlier)
        thread = thread_new(earlier->process, pid);
    if (!thread)
        return NULL;
    if (earlier && earlier != thread) {
        thread->stopped = earlier->stopped;
        thread->leaving = earlier->leaving;
    }
    thread->exited = false;
    struct thread *other, *next;
    DL_FOREACH_SAFE(thread->process->threads, other, next)
    {
        if (other != thread)
            thread_remove(other);
    }
    return thread;
}

static void handle_exec(struct thread *thread)
{
    struct process *process = thread->process;
    thread->hold = 0;
    thread->held_child = 0;
    thread->new_child = 0;
    thread->break_done = thread->redo = false;
    thread->step = TRACER_STEP_NONE;
    call_drop(thread);
    breakpoint_clear_process(process);
    struct space *space = space_new();
    if (space) {
        space_put(process->space);
        process->space = space;
        space->settled = true;
    }
    space_put(process->inherited);
    process->inherited = NULL;
    if (process->spawning) {
        process->spawning = false;
        thread->stopped = true;
    } else if (process_reports(thread)) {
        struct tracer_event event = {.kind = TRACER_EXEC};
        event_hold(thread, &event);
    } else if (!process->wanted) {
        attach_try_leave(process);
    }
}

static void handle_exit_event(struct thread *thread)
{
    /* what it was held for is void: it is killed, or another thread executes a program */
    thread->hold = 0;
    if (process_reports(thread) && thread->process->watch.thread_exit) {
        struct tracer_event event = {.kind = TRACER_THREAD_EXIT};
        event_hold(thread, &event);
    }
    announce_untold(thread);
}

static void describe_fault(struct thread *thread, struct tracer_event *event)
{
    siginfo_t info;
    if (ptrace(PTRACE_GETSIGINFO, thread->tid, NULL, &info) < 0)
        return;
    if (siginfo_has_address(&info) && thread_load_regs(thread) == 0) {
        event->args[event->arg_count++] = (uint64_t)(uintptr_t)info.si_addr;
        event->args[event->arg_count++] = thread->regs.rsp;
    } else if (info.si_signo == SIGFPE && info.si_code > 0) {
        event->args[event->arg_count++] = (uint64_t)info.si_code;
    }
}

static void handle_signal(struct thread *thread, int signo)
{
    thread->stop = STOP_SIGNAL;
    thread->signal = signo;
    guard_signal(thread, signo);
    struct space *space = thread->process->space;
    if (space->scratches && ptrace(PTRACE_GETREGS, thread->tid, NULL, &thread->regs) == 0) {
        uint64_t pc = thread->regs.rip;
        siginfo_t info;
        if (thread_load_regs(thread) == 0 && thread->regs.rip != pc && (signo == SIGILL || signo == SIGFPE) &&
            ptrace(PTRACE_GETSIGINFO, thread->tid, NULL, &info) == 0 && (uint64_t)info.si_addr == pc) {
            info.si_addr = (void *)thread->regs.rip;
            ptrace(PTRACE_SETSIGINFO, thread->tid, NULL, &info);
        }
    }
    if (process_reports(thread) && (thread->process->watch.signals & UINT64_C(1) << (signo - 1))) {
        struct tracer_event event = {.kind = TRACER_SIGNAL, .signo = signo};
        describe_fault(thread, &event);
        event_hold(thread, &event);
    }
}

/* An int3 was executed. True if it was one of ours. */
static bool handle_int3(struct thread *thread)
{
    if (thread_load_regs(thread) < 0)
        return true; /* killed */
    struct space *space = thread->process->space;
    uint64_t addr = thread->regs.rip - 1;
    struct breakpoint *breakpoint = breakpoint_find(space, addr);
    uint8_t byte;
    if (breakpoint && breakpoint->inserted) {
        thread->regs.rip = addr;
        thread->regs_dirty = true;
        breakpoint_hit(thread, breakpoint);
        return true;
    }
    if (breakpoint && space_read_raw(thread->process, addr, &byte, 1) == 1 && byte != INT3) {
        thread->regs.rip = addr; /* cleared between the hit and now */
        thread->regs_dirty = true;
        return true;
    }
    /* the end of a call from an earlier seizing, of which we know nothing, goes on behind the int3 by itself */
    if (!space_is_call_stub(space, addr))
        return false;
    call_returned(thread);
    return true;
}

static void handle_trap(struct thread *thread)
{
    siginfo_t info;
    thread->stop = STOP_SIGNAL;
    thread->signal = 0;
    if (ptrace(PTRACE_GETSIGINFO, thread->tid, NULL, &info) < 0)
        return; /* killed */
    if (info.si_code == SI_KERNEL && handle_int3(thread))
        return;
    /* SIGTRAP as a code: a handler was entered while stepping */
    if (thread->trap_due && (info.si_code == TRAP_TRACE || info.si_code == TRAP_BRKPT || info.si_code == SIGTRAP)) {
        step_trapped(thread, info.si_code == SIGTRAP);
        return;
    }
    handle_signal(thread, SIGTRAP);
}

/*
 * The kernel reports an interrupt before the SIGTRAP of an int3 that was just executed (get_signal looks at jobctl
 * first). In between the program counter is one too far, and if it were changed, nobody would know the signal as ours
 * and it would kill the program: so the stop is passed over; the signal's own comes before the thread is in user mode.
 */
static bool trap_comes_next(struct thread *thread)
{
    const struct space *space = thread->process->space;
    struct user_regs_struct regs;
    if (!thread->trap_due && !space->breakpoints && !space->scratches)
        return false;
    if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &regs) < 0)
        return false;
    if (!thread->trap_due && !breakpoint_find(space, regs.rip - 1) && !space_is_call_stub(space, regs.rip - 1))
        return false;
    if (!attach_trap_pending(thread) || !thread_go(thread, PTRACE_CONT, 0))
        return false;
    thread->in_stop = false;
    thread->interrupted = true; /* as good as: it stops without another one */
    return true;
}

static void handle_event_stop(struct thread *thread, int signo)
{
    thread->stop = signo == SIGTRAP ? STOP_TRAP : STOP_GROUP;
    thread->signal = 0;
    if (thread->stop == STOP_TRAP && !thread->fresh && trap_comes_next(thread))
        return;
    if (thread->stepped && thread_load_regs(thread) == 0)
        step_done(thread);
    thread->stepped = false;
    if (!thread->fresh)
        return;
    thread->fresh = false;
    resolve_child(thread_find(thread->parent_tid), thread, thread->tid);
}

static void handle_end(struct thread *thread)
{
    struct process *process = thread->process;
    struct space *space = space_get(process->space);
    struct thread *parent = thread->fresh ? thread_find(thread->parent_tid) : NULL;
    pid_t tid = thread->tid;
    /* killed in its last stop, too: what it made was not looked for */
    space->lost_child |= !thread->exited;
    if (tid == process->pid) /* reported when the others are gone */
        process_remove(process);
    else
        thread_remove(thread);
    if (parent)
        resolve_child(parent, NULL, tid);
    breakpoint_in_place_try(space);
    space_put(space);
}

static void syscall_stopped(struct thread *thread);

void stop_handle(pid_t tid, int status)
{
    struct thread *thread = thread_find(tid);
    int event = WIFSTOPPED(status) ? status >> 16 : 0;
    if (event == PTRACE_EVENT_EXEC)
        thread = exec_survivor(tid, thread);
    if (!thread) {
        if (WIFSTOPPED(status) || !guard_ended(tid))
            remember_unknown(tid, status);
        return;
    }
    if (!WIFSTOPPED(status)) {
        handle_end(thread);
        return;
    }
    struct space *space = thread->process->space;
    thread->in_stop = thread->seen_stop = true;
    thread->listening = thread->unsettled = false;
    thread->regs_valid = thread->regs_dirty = thread->parked = false;
    if (space->in_place == thread && space->in_place_running)
        breakpoint_in_place_stopped(thread);
    int signo = WSTOPSIG(status);
    switch (event) {
    case 0:
        if (signo == (SIGTRAP | 0x80))
            syscall_stopped(thread);
        else if (signo == SIGTRAP)
            handle_trap(thread);
        else
            handle_signal(thread, signo);
        break;
    case PTRACE_EVENT_STOP:
        handle_event_stop(thread, signo);
        break;
    case PTRACE_EVENT_CLONE:
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
        thread->stop = STOP_EVENT;
        handle_fork(thread);
        break;
    case PTRACE_EVENT_EXEC:
        thread->stop = STOP_EVENT;
        handle_exec(thread);
        break;
    case PTRACE_EVENT_EXIT:
        thread->stop = STOP_EXIT;
        handle_exit_event(thread);
        break;
    default:
        thread->stop = STOP_EVENT;
        break;
    }
    thread_update(thread);
    if (!thread->dead && thread->process->space->in_place)
        breakpoint_in_place_try(thread->process->space);
}

/* ---- system calls ---- */

/* System calls: stops at their start and end, for processes in which somebody watches any. */

/* How many arguments each call has, by the kernel's prototypes; ten numbers a line. */
static const char arg_counts[] = "3331222336"
                                 "3214403443"
                                 "3215053333"
                                 "3312022130"
                                 "4333663323"
                                 "2334555003"
                                 "1421334124"
                                 "5332112232"
                                 "1122122123"
                                 "2233312221"
                                 "1403011002"
                                 "0002222333"
                                 "3111122243"
                                 "2223112223"
                                 "2322311122"
                                 "2100321521"
                                 "2101252214"
                                 "2213232154"
                                 "3555330355"
                                 "5444333222"
                                 "2163312153"
                                 "3131445310"
                                 "4434211222"
                                 "4144325635"
                                 "4155234554"
                                 "5320324434"
                                 "5343453433"
                                 "6512364446"
                                 "4632144244"
                                 "2132155455"
                                 "2545321423"
                                 "6653345332"
                                 "5351336664"
                                 "21564";
enum { NEWER = 424 }; /* the numbers that all architectures have in common begin here */
static const char newer_counts[] = "4264352533"
                                   "2234345654"
                                   "3421254443"
                                   "4644444336"
                                   "6545";

static unsigned syscall_arg_count(uint32_t number)
{
    if (number < sizeof arg_counts - 1)
        return (unsigned)(arg_counts[number] - '0');
    if (number >= NEWER && number - NEWER < sizeof newer_counts - 1)
        return (unsigned)(newer_counts[number - NEWER] - '0');
    return 6;
}

static bool syscall_watched(const uint64_t *set, uint32_t number)
{
    return number < TRACER_SYSCALLS && (set[number / 64] >> number % 64 & 1);
}

static void syscall_stopped(struct thread *thread)
{
    struct ptrace_syscall_info info = {.op = PTRACE_SYSCALL_INFO_NONE};
    const struct tracer_watch *watch = &thread->process->watch;
    thread->stop = STOP_SYSCALL_EXIT;
    thread->signal = 0;
    if (ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_INFO, thread->tid, sizeof info, &info) < 0)
        return; /* killed */
    struct tracer_event event = {.kind = TRACER_SYSCALL_EXIT};
    bool report;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        thread->stop = STOP_SYSCALL_ENTER;
        thread->in_syscall = true;
        thread->syscall_number = (uint32_t)info.entry.nr;
        memcpy(thread->syscall_args, info.entry.args, sizeof thread->syscall_args);
        event.kind = TRACER_SYSCALL_ENTER;
        report = syscall_watched(watch->syscall_enter, thread->syscall_number);
    } else {
        /* one that began before we watched: the kernel keeps its number and, but for rcx and r11, its arguments */
        if (!thread->in_syscall && thread_load_regs(thread) == 0) {
            const struct user_regs_struct *regs = &thread->regs;
            thread->syscall_number = (uint32_t)regs->orig_rax;
            uint64_t args[6] = {regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9};
            memcpy(thread->syscall_args, args, sizeof args);
        }
        thread->in_syscall = false;
        event.result = info.op == PTRACE_SYSCALL_INFO_EXIT ? info.exit.rval : 0;
        report = syscall_watched(watch->syscall_exit, thread->syscall_number);
    }
    if (!report || thread_loads(thread) || !process_reports(thread))
        return;
    event.number = thread->syscall_number;
    event.arg_count = syscall_arg_count(event.number);
    memcpy(event.args, thread->syscall_args, sizeof event.args);
    event_hold(thread, &event);
}

int syscall_watch(struct process *process, const struct tracer_watch *watch)
{
    bool any = false;
    for (unsigned i = 0; i < TRACER_SYSCALLS / 64; i++)
        any |= watch->syscall_enter[i] || watch->syscall_exit[i];
    bool kick = any && !process->syscalls;
    process->watch = *watch;
    process->syscalls = any;
    if (!kick)
        return 0;
    /* running threads stop at system calls only when they were let go so */
    for (struct thread *thread = process->threads; thread; thread = thread->next)
        thread->in_syscall = false;
    int code = process_halt(process);
    if (code == 0)
        process_unpause(process);
    return code;
}
