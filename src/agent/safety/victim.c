/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The victim: a process in the program's memory, separate in everything that a fault touches. It copies what is
 * requested and dies if the address is bad. (Kolbe, "C-Tracer": the way that needs neither the program's signal
 * handling nor process_vm_readv.)
 *
 * Each read has its own, which is gone when the read is done. A lasting one would be a child of the program, and
 * waitpid(-1, ..., __WALL) would wait for it, or find it dead. (An orphan would be no child, but a stranger to whoever
 * gets the job's orphans, perhaps the program itself.) Another thread that waits at that moment would get it: so
 * programs with threads have victims only if process_vm_readv is refused (read.c). The victim dies of a handler of its
 * own that exits, not of the signal: a core dump of one process used to end all that share its memory.
 *
 * One request at a time. A thread that finds it busy, and does not get it soon, reads another way.
 */
#include <asm/unistd.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/system/large.h"
#include "agent/safety/read.h"
#include "agent/system/sys.h"
#include "shm/waits.h"

enum {
    STACK_SIZE = 16384,
    PIECE = 4096,        /* copied at a time */
    ANSWER_SLICES = 100, /* an answer that does not come in so many: never again */
    LOCK_SLICES = 3,
    LOCK_FAILURES = 100,
    TAKING = -1,
};

static struct {
    _Atomic int32_t owner;   /* process whose it is: not a forked child's */
    _Atomic uint32_t lock;   /* tid of the thread that has the request; a futex */
    _Atomic uint32_t victim; /* process id; cleared by the kernel when it dies; a futex */
    _Atomic uint32_t answered;
    _Atomic uint32_t given_up;
    _Atomic uint32_t lock_failures;
    uint64_t address;
    size_t size;
    uint8_t piece[PIECE]; /* not the requester's buffer: a late victim must not write there */
    uint8_t stack[STACK_SIZE] __attribute__((aligned(64)));
} shared AGENT_LARGE;

static long futex_wait(_Atomic uint32_t *word, uint32_t value, unsigned ms)
{
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};
    return sys_call4(__NR_futex, (long)word, FUTEX_WAIT, value, (long)&limit);
}

/* ---- in the victim ---- */

static void die(int signal)
{
    sys_call2(__NR_exit_group, 1, 0);
}

static int victim_main(void *parent)
{
    sys_call2(__NR_prctl, PR_SET_NAME, (long)"scry-agent"); /* so that it is not taken for one of the job's */
    sys_call2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (sys_call0(__NR_getppid) != (pid_t)(intptr_t)parent)
        return 1;
    struct kernel_action action = {
        .handler = (uintptr_t)die, .flags = SIGSET_RESTORER, .restorer = (uintptr_t)sigset_restorer};
    uint64_t open = SIGSET_BIT(SIGSEGV) | SIGSET_BIT(SIGBUS);
    sigset_action(SIGSEGV, &action, NULL);
    sigset_action(SIGBUS, &action, NULL);
    sigset_mask(SIG_UNBLOCK, &open, NULL);
    agent_copy(shared.piece, shared.address, shared.size);
    atomic_store(&shared.answered, 1);
    return 0;
}

/* ---- in the program ---- */

/* read_x86_64.S. There is no exit signal, and thread-local storage is the creator's: fn must not use it. `tid` (with
 * CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID in flags) is set to its id, and to 0 when it dies. */
long victim_clone(unsigned long flags, void *stack_high, void *tid, int (*fn)(void *arg), void *arg);

static bool lock(uint32_t tid)
{
    for (int slice = 0; slice < LOCK_SLICES; slice++) {
        uint32_t holder = 0;
        if (atomic_compare_exchange_strong(&shared.lock, &holder, tid)) {
            atomic_store(&shared.lock_failures, 0);
            return true;
        }
        futex_wait(&shared.lock, holder, AGENT_SLICE_MS);
    }
    if (atomic_fetch_add(&shared.lock_failures, 1) > LOCK_FAILURES)
        atomic_store(&shared.given_up, 1);
    return false;
}

static void unlock(void)
{
    atomic_store(&shared.lock, 0);
    sys_call4(__NR_futex, (long)&shared.lock, FUTEX_WAKE, 1, 0);
}

static void reap(long victim)
{
    while (sys_call4(__NR_wait4, victim, 0, __WALL, 0) == -EINTR)
        ;
}

static enum victim_outcome ask(pid_t self, uint64_t address, size_t size)
{
    shared.address = address;
    shared.size = size;
    atomic_store(&shared.answered, 0);
    /* it shares what a copy would cost time for, and touches none of it */
    long victim =
        victim_clone(CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_UNTRACED | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                     shared.stack + STACK_SIZE, (void *)&shared.victim, victim_main, (void *)(intptr_t)self);
    if (victim < 0)
        return VICTIM_NOT_POSSIBLE;
    for (int slice = 0; slice < ANSWER_SLICES; slice++) {
        uint32_t lives = atomic_load(&shared.victim);
        if (lives == 0) {
            reap(victim);
            return atomic_load(&shared.answered) ? VICTIM_READ : VICTIM_FAULT;
        }
        while (futex_wait(&shared.victim, lives, AGENT_SLICE_MS) == -EINTR)
            ;
    }
    /* it hangs where not even SIGKILL reaches it at once: it is not waited for */
    atomic_store(&shared.given_up, 1);
    sys_call2(__NR_kill, victim, SIGKILL);
    return VICTIM_NOT_POSSIBLE;
}

/* A child after fork has a copy of all this, but its parent's victim is not its own. */
static bool own(pid_t self)
{
    int32_t owner = atomic_load(&shared.owner);
    if (owner == self)
        return true;
    if (owner == TAKING || !atomic_compare_exchange_strong(&shared.owner, &owner, TAKING))
        return false;
    atomic_store(&shared.lock, 0);
    atomic_store(&shared.victim, 0);
    atomic_store(&shared.given_up, 0);
    atomic_store(&shared.owner, self);
    return true;
}

enum victim_outcome victim_read(pid_t self, void *dst, uint64_t address, size_t size)
{
    if (!own(self) || atomic_load(&shared.given_up))
        return VICTIM_NOT_POSSIBLE;
    /* no handler of the program comes in between, which might see the victim or never return */
    uint64_t all = UINT64_MAX, before = 0;
    enum victim_outcome outcome = VICTIM_NOT_POSSIBLE;
    sigset_mask(SIG_SETMASK, &all, &before);
    if (lock((uint32_t)sys_call0(__NR_gettid))) {
        outcome = VICTIM_READ;
        for (size_t done = 0; done < size && outcome == VICTIM_READ; done += PIECE) {
            size_t piece = size - done < PIECE ? size - done : PIECE;
            outcome = ask(self, address + done, piece);
            if (outcome == VICTIM_READ)
                agent_copy((uint8_t *)dst + done, (uintptr_t)shared.piece, piece);
        }
        unlock();
    }
    sigset_mask(SIG_SETMASK, &before, NULL);
    return outcome;
}

void victim_end(pid_t self)
{
    uint32_t victim = atomic_load(&shared.victim);
    if (atomic_load(&shared.owner) != self || victim == 0)
        return;
    sys_call2(__NR_kill, victim, SIGKILL);
    if (!atomic_load(&shared.given_up))
        reap(victim);
}
