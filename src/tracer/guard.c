/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: a second, tiny process that undoes what the tracer has changed if that is killed. The kernel lets the
 * tracees of a dead tracer go at once, and the first int3 that one of them meets kills it.
 *
 * Before it changes anything, the tracer writes what there is to undo into memory that both share. The two also share
 * their descriptors: so the guard already has /proc/PID/mem open, and the monitor notices the tracer's death only when
 * the guard, too, has ended. The guard waits on a robust futex of the tracer's (linux/futex.h, set_robust_list(2)): the
 * kernel wakes it as one of the first things at a thread's end, and releases tracees as one of the last. The tracer
 * keeps waiting threads in a state in which that does no harm (thread_park, step_trapped). A guard that is killed is
 * started again.
 *
 * Once a second it checks whether the tracer is stopped (SIGSTOP): only the monitor would notice, and that may be
 * stopped or gone. Threads that wait for the tracer would wait as long. So the guard continues the tracer when the
 * the timeout for a monitor that holds them is over. It does not kill it, which would harm threads at a breakpoint; and it
 * leaves a tracer under a debugger to that. (^Z does not reach the tracer: it has a session of its own.)
 *
 * What this cannot repair, from the SIGKILL until the guard has removed an int3 (some 0.1 ms, longer if the guard gets
 * no processor): a thread that executes the int3 gets a SIGTRAP that nobody takes back, and dies of it, unless its
 * process has the agent (agent/safety/signals.c). A thread whose hit or step is being handled goes on at a wrong place
 * or with its trap flag set. A child whose fork is being handled keeps the int3 that it inherited.
 */
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "tracer/tracee.h"

enum { TRAPS = 1 << 20, SIGNALS = 1 << 16, STACK_SIZE = 65536 };

/* Entries are taken in their order and given back to a list; number 0 is none. */
struct trap {
    _Atomic int fd; /* 0: free */
    _Atomic uint8_t safe;
    _Atomic uint64_t addr; /* of a free one: the number of the next */
};

struct held_signal {
    _Atomic int signo; /* 0: free */
    uint32_t next;
    pid_t pid, tid;
    siginfo_t info;
};

static struct table {
    struct robust_list node;
    _Atomic uint32_t tracer; /* its number while it lives, FUTEX_OWNER_DIED afterwards */
    _Atomic uint32_t trap_end, signal_end;
    struct trap traps[TRAPS];
    struct held_signal signals[SIGNALS];
} * table;

static struct robust_list_head robust = {
    .list = {&robust.list},
    .futex_offset = offsetof(struct table, tracer) - offsetof(struct table, node),
};
static uint32_t free_trap, free_signal;
static pid_t guard_pid;

/* ---- the guard ---- */

static void trap_undo(void)
{
    uint32_t end = atomic_load(&table->trap_end);
    for (uint32_t i = 1; i < end; i++) {
        struct trap *trap = &table->traps[i];
        int fd = atomic_load(&trap->fd);
        uint8_t byte, safe = atomic_load(&trap->safe);
        off_t addr = (off_t)atomic_load(&trap->addr);
        if (fd && pread(fd, &byte, 1, addr) == 1 && byte == INT3 && pwrite(fd, &safe, 1, addr) < 0)
            continue; /* unmapped meanwhile */
    }
    /* What the tracer had taken from them, and not passed on yet. The kernel lets nobody else send a plain kill()'s
     * information. */
    end = atomic_load(&table->signal_end);
    for (uint32_t i = 1; i < end; i++) {
        struct held_signal *held = &table->signals[i];
        int signo = atomic_load(&held->signo);
        if (signo && syscall(SYS_rt_tgsigqueueinfo, held->pid, held->tid, signo, &held->info) < 0)
            syscall(SYS_tgkill, held->pid, held->tid, signo);
    }
}

static void on_orphaned(int signo)
{
    (void)signo;
}

/* For how long to sleep until it is looked again, ns. */
static uint64_t tracer_look(pid_t tracer)
{
    static uint64_t stopped_ns; /* since when; 0: it is not */
    static bool continued;      /* in this time */
    const struct wait_policy *policy = &wait_policies[WAIT_HELD];
    char state = wait_look(tracer).state;
    if (state != 'T') {
        stopped_ns = 0;
        continued = false;
        return policy->unseen_ms * WAITS_NS_PER_MS;
    }
    uint64_t now_ns = wait_now_ns();
    stopped_ns = stopped_ns ? stopped_ns : now_ns;
    const struct wait_seen seen = {.passed_ns = now_ns - stopped_ns, .state = state, .in_vain = continued};
    if (waits_judge(policy, &seen) != WAIT_ON)
        continued = kill(tracer, SIGCONT) == 0;
    return TIMEOUT_LOOK_NS;
}

static int guard_main(void *arg)
{
    pid_t tracer = *(const pid_t *)arg;
    struct sigaction wake = {.sa_handler = on_orphaned};
    pause_at("guard.begun");
    signal(SIGIO, SIG_IGN);
    signal(SIGALRM, SIG_IGN);
    sigaction(SIGURG, &wake, NULL);
    prctl(PR_SET_PDEATHSIG, SIGURG); /* should the futex have been lost */
    uint32_t word;
    while (!((word = atomic_load(&table->tracer)) & FUTEX_OWNER_DIED) && getppid() == tracer) {
        uint64_t ns = tracer_look(tracer);
        const struct timespec timeout = {(time_t)(ns / NS_PER_SECOND), (long)(ns % NS_PER_SECOND)};
        syscall(SYS_futex, &table->tracer, FUTEX_WAIT, word, &timeout, NULL, 0);
    }
    trap_undo();
    _exit(0);
}

static void start_guard(void)
{
    static _Alignas(16) char stack[STACK_SIZE]; /* each process has its own */
    static pid_t self;
    self = getpid();
    prctl(PR_SET_NAME, GUARD_PROCESS_NAME); /* from its start: who stops the tracer by its name stops one of them */
    guard_pid = clone(guard_main, stack + sizeof stack, CLONE_FILES | SIGCHLD, &self);
    prctl(PR_SET_NAME, TRACER_PROCESS_NAME);
}

/* ---- the tracer ---- */

void guard_start(void)
{
    void *shared = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared == MAP_FAILED)
        return; /* nobody helps if the tracer is killed */
    table = shared;
    table->trap_end = table->signal_end = 1;
    table->node.next = &robust.list;
    robust.list.next = &table->node;
    atomic_store(&table->tracer, (uint32_t)gettid() | FUTEX_WAITERS);
    /* glibc's own list is given up: nothing here has a robust mutex */
    syscall(SYS_set_robust_list, &robust, sizeof robust);
    /* A context of asynchronous I/O delays the end of its process by some milliseconds (exit_aio: a grace period of
     * RCU), after the futex and before tracees are let go: the guard has time, also on a busy node. */
    aio_context_t context = 0;
    syscall(SYS_io_setup, 1, &context);
    start_guard();
}

bool guard_ended(pid_t pid)
{
    if (!table || pid != guard_pid)
        return false;
    start_guard();
    return true;
}

uint32_t guard_trap(int fd, uint64_t addr, uint8_t safe)
{
    uint32_t number = free_trap;
    if (!table)
        return 0;
    if (!number) {
        number = atomic_load(&table->trap_end);
        if (number >= TRAPS)
            return 0;
        atomic_store(&table->trap_end, number + 1);
    } else {
        free_trap = (uint32_t)table->traps[number].addr;
    }
    struct trap *trap = &table->traps[number];
    atomic_store(&trap->addr, addr);
    atomic_store(&trap->safe, safe);
    atomic_store(&trap->fd, fd);
    return number;
}

void guard_trap_set(uint32_t number, uint8_t safe)
{
    if (number)
        atomic_store(&table->traps[number].safe, safe);
}

void guard_trap_forget(uint32_t *inout_number)
{
    uint32_t number = *inout_number;
    *inout_number = 0;
    if (!number)
        return;
    atomic_store(&table->traps[number].fd, 0);
    atomic_store(&table->traps[number].addr, free_trap);
    free_trap = number;
}

void guard_signal(struct thread *thread, int signo)
{
    siginfo_t info;
    uint32_t number = free_signal;
    guard_signal_forget(thread);
    /* a fault comes again by itself */
    if (!table || ptrace(PTRACE_GETSIGINFO, thread->tid, NULL, &info) < 0 || info.si_code > 0)
        return;
    if (!number) {
        number = atomic_load(&table->signal_end);
        if (number >= SIGNALS)
            return;
        atomic_store(&table->signal_end, number + 1);
    } else {
        free_signal = table->signals[number].next;
    }
    struct held_signal *held = &table->signals[number];
    held->pid = thread->process->pid;
    held->tid = thread->tid;
    held->info = info;
    atomic_store(&held->signo, signo);
    thread->guarded_signal = number;
}

void guard_signal_forget(struct thread *thread)
{
    uint32_t number = thread->guarded_signal;
    thread->guarded_signal = 0;
    if (!number)
        return;
    atomic_store(&table->signals[number].signo, 0);
    table->signals[number].next = free_signal;
    free_signal = number;
}
