/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The victim and its watchdog: two processes in the program's memory, apart from it in everything else. The victim
 * copies what it is asked for and dies if the address is bad; the watchdog notices, answers for it and starts it again.
 * (Kolbe, "C-Tracer": the way that needs nothing of the program's signal handling and no process_vm_readv.)
 *
 * They are started when first needed and end when there was nothing to do for a while, which also ends them after an
 * exec; they die with the thread that started them, and are then started again. They hold none of the program's
 * descriptors. The victim dies of a handler of its own that exits, not of the signal: a core dump of one process used
 * to end all that share its memory.
 *
 * One request at a time. Who finds it taken by the thread itself (a signal handler came in between), or does not get it
 * soon, reads another way.
 */
#include <asm/unistd.h>
#include <errno.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/large.h"
#include "agent/read_internal.h"
#include "agent/sigset.h"
#include "agent/process.h"
#include "agent/sys.h"

enum {
    STACK_SIZE = 16384,
    PIECE = 4096,        /* copied at a time */
    IDLE_MS = 200,       /* without a request for so long, they end */
    SLICE_MS = 20,       /* of waiting for an answer */
    ANSWER_SLICES = 100, /* an answer that does not come in so many: never again */
    LOCK_SLICES = 3,
    LOCK_FAILURES = 100,
    TAKING = -1,
    DIED = 1, /* exit status of a victim that read a bad address */
};
enum state { IDLE, ASKED, ANSWERED, FAULTED };

static struct {
    _Atomic int32_t owner;     /* process whose they are: not a forked child's */
    _Atomic uint32_t lock;     /* tid of the thread that has the request; a futex */
    _Atomic uint32_t watchdog; /* process id; cleared by the kernel when it dies */
    _Atomic uint32_t state;    /* enum state; a futex */
    _Atomic uint32_t ending;   /* told to end */
    _Atomic uint32_t given_up;
    _Atomic uint32_t lock_failures;
    uint32_t last; /* the last watchdog started: to be waited for */
    uint64_t address;
    size_t size;
    uint8_t piece[PIECE]; /* not the requester's buffer: a late victim must not write there */
    uint8_t watchdog_stack[STACK_SIZE] __attribute__((aligned(64)));
    uint8_t victim_stack[STACK_SIZE] __attribute__((aligned(64)));
} shared AGENT_LARGE;

static long futex_wait(_Atomic uint32_t *word, uint32_t value, unsigned ms)
{
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};
    return sys_call4(__NR_futex, (long)word, FUTEX_WAIT, value, (long)&limit);
}

static void futex_wake(_Atomic uint32_t *word)
{
    sys_call4(__NR_futex, (long)word, FUTEX_WAKE, 1 << 30, 0);
}

/* ---- in the victim and the watchdog ---- */

static void die(int signal)
{
    sys_call2(__NR_exit_group, DIED, 0);
}

/* Dies with the parent, and holds nothing of the program but its memory. */
static void settle(pid_t parent)
{
    sys_call2(__NR_prctl, PR_SET_NAME, (long)"scry-agent"); /* so that it is not taken for one of the job's */
    sys_call2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (sys_call0(__NR_getppid) != parent)
        sys_call2(__NR_exit_group, 0, 0);
    sys_call4(__NR_close_range, 0, ~0U, 0, 0);
    sys_call2(__NR_chdir, (long)"/", 0);
}

static int victim_main(void *parent)
{
    settle((pid_t)(intptr_t)parent);
    struct kernel_action action = {
        .handler = (uintptr_t)die, .flags = SIGSET_RESTORER, .restorer = (uintptr_t)sigset_restorer};
    uint64_t open = SIGSET_BIT(SIGSEGV) | SIGSET_BIT(SIGBUS);
    sigset_action(SIGSEGV, &action, NULL);
    sigset_action(SIGBUS, &action, NULL);
    sigset_mask(SIG_UNBLOCK, &open, NULL);
    for (;;) {
        uint32_t state = atomic_load(&shared.state);
        if (state == ASKED) {
            agent_copy(shared.piece, shared.address, shared.size);
            atomic_store(&shared.state, ANSWERED);
            futex_wake(&shared.state);
        } else if (atomic_load(&shared.ending) || futex_wait(&shared.state, state, IDLE_MS) == -ETIMEDOUT) {
            return 0;
        }
    }
}

static int watchdog_main(void *parent)
{
    settle((pid_t)(intptr_t)parent);
    pid_t self = (pid_t)sys_call0(__NR_getpid);
    for (;;) {
        long victim = process_spawn(CLONE_VM | CLONE_UNTRACED, shared.victim_stack + STACK_SIZE, victim_main,
                                    (void *)(intptr_t)self, NULL);
        if (victim < 0) {
            atomic_store(&shared.given_up, 1);
            return 1;
        }
        int status = 0;
        while (sys_call4(__NR_wait4, victim, (long)&status, __WALL, 0) == -EINTR)
            ;
        if (status != 0) { /* also if something else killed it: that address is not tried again */
            uint32_t asked = ASKED;
            atomic_compare_exchange_strong(&shared.state, &asked, FAULTED);
            futex_wake(&shared.state);
        } else if (atomic_load(&shared.ending) || atomic_load(&shared.state) != ASKED) {
            return 0;
        }
    }
}

/* ---- in the program ---- */

static bool start(pid_t self)
{
    if (shared.last)
        sys_call4(__NR_wait4, shared.last, 0, __WALL | WNOHANG, 0);
    atomic_store(&shared.ending, 0);
    long watchdog =
        process_spawn(CLONE_VM | CLONE_UNTRACED | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                      shared.watchdog_stack + STACK_SIZE, watchdog_main, (void *)(intptr_t)self, &shared.watchdog);
    shared.last = watchdog > 0 ? (uint32_t)watchdog : 0;
    return watchdog > 0;
}

static bool lock(uint32_t tid)
{
    for (int slice = 0; slice < LOCK_SLICES; slice++) {
        uint32_t holder = 0;
        if (atomic_compare_exchange_strong(&shared.lock, &holder, tid)) {
            atomic_store(&shared.lock_failures, 0);
            return true;
        }
        if (holder == tid) /* a signal came in between */
            break;
        futex_wait(&shared.lock, holder, SLICE_MS);
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

static enum victim_outcome ask(pid_t self, uint64_t address, size_t size)
{
    shared.address = address;
    shared.size = size;
    atomic_store(&shared.state, ASKED);
    futex_wake(&shared.state);
    for (int slice = 0; slice < ANSWER_SLICES; slice++) {
        if (atomic_load(&shared.watchdog) == 0 && !start(self))
            break;
        while (atomic_load(&shared.state) == ASKED && futex_wait(&shared.state, ASKED, SLICE_MS) != -ETIMEDOUT)
            ;
        uint32_t state = atomic_load(&shared.state);
        if (state != ASKED)
            return state == ANSWERED ? VICTIM_READ : VICTIM_FAULT;
        if (atomic_load(&shared.given_up))
            break;
    }
    atomic_store(&shared.given_up, 1);
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
    shared.last = 0;
    atomic_store(&shared.lock, 0);
    atomic_store(&shared.watchdog, 0);
    atomic_store(&shared.state, IDLE);
    atomic_store(&shared.given_up, 0);
    atomic_store(&shared.owner, self);
    return true;
}

enum victim_outcome victim_read(pid_t self, void *dst, uint64_t address, size_t size)
{
    if (!own(self) || atomic_load(&shared.given_up) || !lock((uint32_t)sys_call0(__NR_gettid)))
        return VICTIM_NOT_POSSIBLE;
    enum victim_outcome outcome = VICTIM_READ;
    for (size_t done = 0; done < size && outcome == VICTIM_READ; done += PIECE) {
        size_t piece = size - done < PIECE ? size - done : PIECE;
        outcome = ask(self, address + done, piece);
        if (outcome == VICTIM_READ)
            agent_copy((uint8_t *)dst + done, (uintptr_t)shared.piece, piece);
    }
    unlock();
    return outcome;
}

void victim_end(pid_t self)
{
    uint32_t watchdog = atomic_load(&shared.watchdog);
    if (atomic_load(&shared.owner) != self || watchdog == 0)
        return;
    atomic_store(&shared.ending, 1);
    sys_call2(__NR_kill, watchdog, SIGKILL); /* the victim dies with it */
    sys_call4(__NR_wait4, watchdog, 0, __WALL, 0);
}
