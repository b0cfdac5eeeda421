/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <ucontext.h>

#include "agent/safety/crash.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"
#include "shm/waits.h"

enum { COUNT = 6, RED_ZONE = 128, FPX_SIZE = 512, FPX_SOFTWARE = 464 };
enum { INT3 = 0xcc, INT_N = 0xcd, TRAP_FLAG = 0x100, GUARD_WAITS = 250 };
#define FPX_MAGIC UINT32_C(0x46505853) /* FP_XSTATE_MAGIC1 */
#define HANDLED (FAULTS | SIGSET_BIT(SIGABRT) | SIGSET_BIT(SIGTRAP))
/* Those that a fault raises: kept open in the kernel. abort() opens SIGABRT itself. */
#define FAULTS (SIGSET_BIT(SIGSEGV) | SIGSET_BIT(SIGBUS) | SIGSET_BIT(SIGFPE) | SIGSET_BIT(SIGILL))

static const uint8_t numbers[COUNT] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};

/* What the program has set. Written with all signals blocked and the lock held; read in the handler: again if the
 * sequence number was odd or changed. */
struct disposition {
    _Atomic uint32_t sequence;
    struct kernel_action program;
    _Atomic uint32_t ours; /* the kernel has our handler */
};

static struct disposition dispositions[COUNT];
static _Atomic uint32_t started, locked, repair;
/* Signals that masks keep open in the kernel: of FAULTS those whose handler is ours and that are not read by the
 * program. */
static _Atomic uint64_t open_set, aside_set;
static _Atomic uint32_t doubted;
_Atomic uint32_t agent_signals_careful = 1;
_Thread_local uint32_t agent_signals_waiting;
_Static_assert(SIGNALS_READING == (SIGSET_BIT(SIGSEGV) | SIGSET_BIT(SIGBUS)), "SIGNALS_READING");

_Thread_local uint64_t agent_signals_blocked __attribute__((tls_model("initial-exec")));
/* The child of vfork that has changed its mask: it is all in the kernel, and the word is its parent's alone. */
static _Thread_local int32_t apart __attribute__((tls_model("initial-exec")));

/* The frame as the kernel writes it. */
struct signal_frame {
    uint64_t restorer;
    struct {
        uint64_t flags, link;
        stack_t stack;
        uint64_t gregs[23];
        uint64_t fpregs;
        uint64_t reserved[8];
        uint64_t mask;
    } context;
    siginfo_t info;
};
_Static_assert(sizeof(struct signal_frame) == 440, "as in the kernel");

struct chain { /* known to signals_x86_64.S */
    uint64_t handler, frame, info, context;
};

void agent_signal_entry(int signal, siginfo_t *info, void *context);
int agent_signal_handle(int signal, siginfo_t *info, ucontext_t *context, uint64_t frame, struct chain *ret_chain);

static struct disposition *disposition_of(int signal)
{
    for (int i = 0; i < COUNT; i++)
        if (numbers[i] == signal)
            return &dispositions[i];
    return NULL;
}

static struct kernel_action disposition_get(struct disposition *disposition)
{
    for (;;) {
        uint32_t before = atomic_load_explicit(&disposition->sequence, memory_order_acquire);
        struct kernel_action action = disposition->program;
        atomic_thread_fence(memory_order_acquire);
        if (!(before & 1) && atomic_load_explicit(&disposition->sequence, memory_order_relaxed) == before)
            return action;
        __builtin_ia32_pause();
    }
}

static void disposition_put(struct disposition *disposition, const struct kernel_action *action)
{
    atomic_fetch_add(&disposition->sequence, 1);
    disposition->program = *action;
    atomic_fetch_add(&disposition->sequence, 1);
}

static uint64_t lock(void)
{
    uint64_t all = UINT64_MAX, before = 0;
    uint32_t free = 0;
    sigset_mask(SIG_SETMASK, &all, &before);
    for (; !atomic_compare_exchange_weak(&locked, &free, 1); free = 0)
        __builtin_ia32_pause();
    return before;
}

static void unlock(uint64_t before)
{
    atomic_store(&locked, 0);
    sigset_mask(SIG_SETMASK, &before, NULL);
}

static void repair_set(bool can)
{
    atomic_store(&repair, can);
    atomic_store(&agent_signals_careful, !can || atomic_load(&doubted));
    if (atomic_load(&doubted)) /* a doubt that came in between is not lost */
        atomic_store(&agent_signals_careful, 1);
}

static void look_repair(void)
{
    repair_set(atomic_load(&dispositions[0].ours) && atomic_load(&dispositions[1].ours));
}

/* Our handler in the kernel, or not any more. Under the lock. */
static void set_ours(int signal, struct disposition *disposition, bool ours)
{
    uint64_t bit = SIGSET_BIT(signal) & FAULTS & ~atomic_load(&aside_set);
    atomic_store(&disposition->ours, ours);
    if (ours)
        atomic_fetch_or(&open_set, bit);
    else
        atomic_fetch_and(&open_set, ~SIGSET_BIT(signal));
    look_repair();
}

static long install(int signal, const struct kernel_action *program)
{
    struct kernel_action action = {
        .handler = (uintptr_t)agent_signal_entry,
        .flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SIGSET_RESTORER | (program->flags & SA_RESTART),
        .restorer = (uintptr_t)sigset_restorer,
    };
    return sigset_action(signal, &action, NULL);
}

/* False in a child that shares our memory (vfork): it has dispositions of its own. One that has a copy of it (fork) goes
 * on with what it has inherited; it is found out by the word, which is wiped there. */
static bool in_process(void)
{
    const _Atomic int32_t *process = agent_read_wiped();
    if (process && atomic_load_explicit(process, memory_order_relaxed) == 0)
        agent_signals_forked();
    return process && atomic_load_explicit(process, memory_order_relaxed) == (int32_t)sys_call0(__NR_getpid);
}

/* What the running process believes blocked, though it is open in the kernel. */
static uint64_t believed_blocked(void)
{
    uint64_t believed = agent_signals_blocked;
    return believed && apart && !in_process() && apart == (int32_t)sys_call0(__NR_getpid) ? 0 : believed;
}

void agent_signals_doubt(uint64_t mask)
{
    if (mask & SIGNALS_READING) {
        atomic_store_explicit(&doubted, 1, memory_order_relaxed);
        atomic_store_explicit(&agent_signals_careful, 1, memory_order_relaxed);
    }
    atomic_signal_fence(memory_order_seq_cst);
}

bool agent_signals_known(void)
{
    return !atomic_load_explicit(&doubted, memory_order_relaxed) && !agent_signals_waiting;
}

/* ---- what the program sets ---- */

bool signals_mine(int signal)
{
    return atomic_load_explicit(&started, memory_order_relaxed) && signal > 0 && signal < 64 &&
           (SIGSET_BIT(signal) & HANDLED);
}

int signals_action(int signal, const struct kernel_action *action, struct kernel_action *ret_old)
{
    struct disposition *disposition = disposition_of(signal);
    if (!disposition)
        return -EINVAL;
    struct kernel_action old = disposition_get(disposition);
    if (!in_process()) { /* only its own table is to change, which is the kernel's */
        struct kernel_action kernel;
        long error = sigset_action(signal, action, &kernel);
        if (error == 0 && ret_old)
            *ret_old = kernel.handler == (uintptr_t)agent_signal_entry ? old : kernel;
        return (int)error;
    }
    long error = 0;
    if (action) {
        uint64_t mask = lock();
        old = disposition->program;
        /* what is ignored is ignored by the kernel: so it is after exec, too */
        error = action->handler == (uintptr_t)SIG_IGN ? sigset_action(signal, action, NULL) : install(signal, action);
        if (error == 0) {
            disposition_put(disposition, action);
            set_ours(signal, disposition, action->handler != (uintptr_t)SIG_IGN);
        }
        unlock(mask);
    }
    if (error == 0 && ret_old)
        *ret_old = old;
    return (int)error;
}

bool signals_masking(void)
{
    return atomic_load_explicit(&open_set, memory_order_relaxed) != 0 || agent_signals_blocked != 0;
}

int signals_mask(int how, const uint64_t *set, uint64_t *ret_old)
{
    uint64_t open = atomic_load_explicit(&open_set, memory_order_relaxed), believed = believed_blocked();
    uint64_t kernel = 0, given = set ? *set : 0;
    /* a child of vfork shares this word with its parent, but has a mask of its own */
    bool pass = set && (agent_signals_blocked || (given & open)) && !in_process();
    if (set && (how < SIG_BLOCK || how > SIG_SETMASK))
        return -EINVAL;
    if (pass) {
        agent_signals_doubt(how == SIG_SETMASK ? 0 : believed);
        if (believed)
            sigset_mask(SIG_BLOCK, &believed, NULL);
        apart = (int32_t)sys_call0(__NR_getpid);
    } else if (set) {
        apart = 0;
    }
    /* The word first: what then becomes open in the kernel and comes at once is judged by it. */
    if (set && !pass) {
        if (how == SIG_BLOCK)
            agent_signals_blocked |= given & open;
        else if (how == SIG_UNBLOCK)
            agent_signals_blocked &= ~given;
        else
            agent_signals_blocked = given & open;
        if (how != SIG_UNBLOCK)
            given &= ~open;
    }
    agent_signals_doubt(set && how != SIG_UNBLOCK ? given : 0);
    long error = sigset_mask(how, set ? &given : NULL, &kernel);
    if (error == 0 && ret_old)
        *ret_old = kernel | believed;
    return (int)error;
}

struct signals_wait signals_wait_begin(uint64_t mask)
{
    struct signals_wait wait = {.believed = believed_blocked()};
    wait.unknown = (mask | wait.believed) & SIGNALS_READING;
    agent_signals_waiting += wait.unknown;
    atomic_signal_fence(memory_order_seq_cst);
    if (wait.believed) {
        sigset_mask(SIG_BLOCK, &wait.believed, NULL);
        agent_signals_blocked = 0;
    }
    return wait;
}

void signals_wait_end(struct signals_wait wait)
{
    if (wait.believed) {
        agent_signals_blocked |= wait.believed;
        atomic_signal_fence(memory_order_seq_cst);
        sigset_mask(SIG_UNBLOCK, &wait.believed, NULL);
    }
    atomic_signal_fence(memory_order_seq_cst);
    agent_signals_waiting -= wait.unknown;
}

void signals_step_aside(uint64_t set)
{
    uint64_t believed = agent_signals_blocked & set;
    if (!(set & FAULTS) || !atomic_load(&started) || !in_process())
        return;
    agent_signals_doubt(set);
    atomic_fetch_or(&aside_set, set & FAULTS);
    atomic_fetch_and(&open_set, ~set);
    sigset_mask(SIG_BLOCK, &believed, NULL);
    agent_signals_blocked &= ~set;
}

/* ---- what the kernel delivers ---- */

static bool raised_by_fault(int signal, const siginfo_t *info)
{
    return info->si_code > 0 && (SIGSET_BIT(signal) & FAULTS) && !(signal == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/* Has it come again, once this handler has returned: with the same information, in the same place. */
static void send_again(int signal, const siginfo_t *info)
{
    uint64_t bit = SIGSET_BIT(signal);
    long self = sys_call0(__NR_getpid), thread = sys_call0(__NR_gettid);
    agent_signals_doubt(bit);
    sigset_mask(SIG_BLOCK, &bit, NULL); /* until then */
    /* to the process, where it was sent to the process: another thread may be waiting for it */
    if (info->si_code == SI_USER || info->si_code == SI_QUEUE) {
        if (sys_call4(__NR_rt_sigqueueinfo, self, signal, (long)info, 0) == 0)
            return;
        if (info->si_code == SI_USER && thread != self && sys_call2(__NR_kill, self, signal) == 0)
            return;
    }
    if (sys_call4(__NR_rt_tgsigqueueinfo, self, thread, signal, (long)info) != 0)
        sys_call4(__NR_tgkill, self, thread, signal, 0);
}

/* The program dies of it, as it would have: by the default action, with the context it had. */
static void die(int signal, const siginfo_t *info, const ucontext_t *context, int of)
{
    struct kernel_action deadly = {.flags = SIGSET_RESTORER, .restorer = (uintptr_t)sigset_restorer};
    if (in_process()) { /* a child of vfork shares all this with its parent, who does not die */
        agent_crash_note(of, info, context);
        struct disposition *disposition = disposition_of(of);
        if (disposition)
            set_ours(of, disposition, false);
    }
    sigset_action(of, &deadly, NULL);
    if (of != signal) { /* the frame of the program's handler had no room: the kernel says SIGSEGV then */
        siginfo_t forced = {.si_signo = of, .si_code = SI_KERNEL};
        send_again(of, &forced);
    } else if (!raised_by_fault(signal, info)) {
        uint64_t bit = SIGSET_BIT(signal);
        sigset_mask(SIG_BLOCK, &bit, NULL);
        if (sys_call4(__NR_rt_tgsigqueueinfo, sys_call0(__NR_getpid), sys_call0(__NR_gettid), signal, (long)info) != 0)
            sys_call4(__NR_tgkill, sys_call0(__NR_getpid), sys_call0(__NR_gettid), signal, 0);
    }
    /* a fault comes again by itself: the instruction is run once more */
}

static bool within(uint64_t address, const stack_t *stack)
{
    uint64_t low = (uintptr_t)stack->ss_sp;
    return stack->ss_size != 0 && address >= low && address - low < stack->ss_size;
}

/* Copies the kernel's frame from the alternate stack to where it would be without SA_ONSTACK. 0: there is no room. */
static uint64_t move_frame(const struct signal_frame *frame, uint64_t sp)
{
    uint64_t registers = frame->context.fpregs, size = FPX_SIZE, at = sp - RED_ZONE;
    if (registers) {
        const uint32_t *software = (const uint32_t *)(uintptr_t)(registers + FPX_SOFTWARE);
        if (software[0] == FPX_MAGIC && software[1] > FPX_SIZE)
            size = software[1];
        at = (at - size) & -UINT64_C(64);
        if (agent_copy((void *)(uintptr_t)at, registers, size) != 0)
            return 0;
        registers = at;
    }
    at = ((at - sizeof *frame) & -UINT64_C(16)) - 8;
    if (agent_copy((void *)(uintptr_t)at, (uintptr_t)frame, sizeof *frame) != 0)
        return 0;
    ((struct signal_frame *)(uintptr_t)at)->context.fpregs = registers;
    return at;
}

/* To the program's handler, as the kernel would have done it. False: there was no room for its frame. */
static bool chain(int signal, const struct kernel_action *program, struct signal_frame *frame, struct chain *ret_chain)
{
    uint64_t at = (uintptr_t)frame, sp = frame->context.gregs[REG_RSP];
    uint64_t mask = program->mask | (program->flags & SA_NODEFER ? 0 : SIGSET_BIT(signal));
    /* it sees its own mask, and may change it for the time after; what it believes blocked is then really blocked until
     * it is changed next, which only makes reads slower */
    frame->context.mask |= believed_blocked();
    agent_signals_doubt(mask | frame->context.mask);
    if (!(program->flags & SA_ONSTACK) && within(at, &frame->context.stack) && !within(sp, &frame->context.stack)) {
        at = move_frame(frame, sp);
        if (!at)
            return false;
    }
    sigset_mask(SIG_BLOCK, &mask, NULL);
    frame = (struct signal_frame *)(uintptr_t)at;
    *ret_chain = (struct chain){program->handler, at, (uintptr_t)&frame->info, (uintptr_t)&frame->context};
    return true;
}

/* A tracer that is killed leaves the hits and steps behind that it had not seen; its guard (tracer/guard.c) takes
 * breakpoints out, and who came to one just before that goes on where it was. The program's own int3 is still there, or
 * it is the long one. Where the program would die of it anyway, a guard that has not come to it yet is waited for; and
 * a step whose trap flag the kernel has taken back was nobody's else. */
static bool tracer_left(const siginfo_t *info, ucontext_t *context, bool deadly)
{
    greg_t *regs = context->uc_mcontext.gregs;
    uint64_t at = (uint64_t)regs[REG_RIP] - 1;
    uint8_t byte, before = 0;
    if (info->si_code == TRAP_TRACE)
        return deadly && !(regs[REG_EFL] & TRAP_FLAG);
    if (info->si_code != SI_KERNEL)
        return false;
    for (int waits = deadly ? GUARD_WAITS : 0;; waits--) {
        if (agent_read(&byte, at, 1) != 0)
            return false;
        if (byte != INT3)
            break;
        if (waits <= 0)
            return false;
        struct timespec pause = {0, AGENT_GUARD_US * 1000};
        sys_call2(__NR_nanosleep, (long)&pause, 0);
    }
    if (byte == 3 && agent_read(&before, at - 1, 1) == 0 && before == INT_N)
        return false;
    regs[REG_RIP] = (greg_t)at;
    return true;
}

/* Called by agent_signal_entry; `frame` is where the kernel's frame begins. 0: return; 1: go on at *ret_chain. */
int agent_signal_handle(int signal, siginfo_t *info, ucontext_t *context, uint64_t at, struct chain *ret_chain)
{
    struct signal_frame *frame = (struct signal_frame *)(uintptr_t)at;
    struct disposition *disposition = disposition_of(signal);
    uint64_t bit = SIGSET_BIT(signal);
    bool fault = raised_by_fault(signal, info), blocked = believed_blocked() & bit;
    if (fault && (signal == SIGSEGV || signal == SIGBUS)) {
        uint64_t fixup = agent_read_fixup((uint64_t)context->uc_mcontext.gregs[REG_RIP]);
        if (fixup) {
            context->uc_mcontext.gregs[REG_RIP] = (greg_t)fixup;
            return 0;
        }
        if (agent_crash_own_fault(context, signal, info))
            return 0;
    }
    if (!disposition)
        return 0;
    if (blocked && !fault && !(frame->context.mask & bit)) {
        frame->context.mask |= bit; /* now it is really blocked, and waits in the kernel */
        send_again(signal, info);
        return 0;
    }
    struct kernel_action program = disposition_get(disposition);
    bool ignored = program.handler == (uintptr_t)SIG_IGN;
    if (signal == SIGTRAP && tracer_left(info, context, program.handler == (uintptr_t)SIG_DFL))
        return 0;
    if (ignored && !fault)
        return 0;
    if (ignored || program.handler == (uintptr_t)SIG_DFL || (fault && blocked)) {
        die(signal, info, context, signal);
        return 0;
    }
    if (program.flags & SA_RESETHAND) {
        struct kernel_action reset = {
            .flags = program.flags | SIGSET_RESTORER, .restorer = (uintptr_t)sigset_restorer, .mask = program.mask};
        if (in_process()) {
            uint64_t mask = lock();
            disposition_put(disposition, &reset);
            unlock(mask);
        } else {
            sigset_action(signal, &reset, NULL);
        }
    }
    if (!chain(signal, &program, frame, ret_chain)) {
        die(signal, info, context, SIGSEGV);
        return 0;
    }
    return 1;
}

/* ---- start and stop ---- */

static bool sanitized(void)
{
    static const char *const marks[] = {"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (dlsym(RTLD_DEFAULT, marks[i]))
            return true;
    return false;
}

void agent_signals_start(void)
{
    if (atomic_load(&started) || !agent_read_wiped() || sanitized())
        return;
    uint64_t mask = lock();
    atomic_store(agent_read_wiped(), (int32_t)sys_call0(__NR_getpid));
    for (int i = 0; i < COUNT; i++) {
        struct kernel_action now = {0};
        if (sigset_action(numbers[i], NULL, &now) != 0)
            continue;
        disposition_put(&dispositions[i], &now);
        bool ours = now.handler != (uintptr_t)SIG_IGN && install(numbers[i], &now) == 0;
        set_ours(numbers[i], &dispositions[i], ours);
    }
    atomic_store(&started, 1);
    agent_signals_blocked |= mask & atomic_load(&open_set);
    unlock(mask & ~agent_signals_blocked);
}

void agent_signals_stop(void)
{
    if (!atomic_load(&started) || !in_process())
        return;
    uint64_t mask = lock();
    atomic_store(&started, 0);
    for (int i = 0; i < COUNT; i++) {
        struct kernel_action now = {0};
        if (sigset_action(numbers[i], NULL, &now) == 0 && now.handler == (uintptr_t)agent_signal_entry)
            sigset_action(numbers[i], &dispositions[i].program, NULL);
        set_ours(numbers[i], &dispositions[i], false);
    }
    mask |= agent_signals_blocked;
    agent_signals_blocked = 0;
    unlock(mask);
}

void agent_signals_forked(void)
{
    _Atomic int32_t *process = agent_read_wiped();
    atomic_store(&locked, 0);
    if (process)
        atomic_store(process, (int32_t)sys_call0(__NR_getpid));
}

void agent_signals_check(void)
{
    bool all = true;
    for (int i = 0; i < 2; i++) {
        struct kernel_action now = {0};
        all = all && atomic_load(&dispositions[i].ours) && sigset_action(numbers[i], NULL, &now) == 0 &&
              now.handler == (uintptr_t)agent_signal_entry;
    }
    repair_set(all);
}

bool agent_signals_repair(void)
{
    return atomic_load_explicit(&repair, memory_order_relaxed) != 0;
}

unsigned agent_signals_inherit(void)
{
    return (unsigned)agent_signals_blocked;
}

void agent_signals_thread(unsigned inherited)
{
    agent_signals_blocked = inherited;
}

/* The word stays as it is: it may be that of the parent of a vfork. */
unsigned agent_signals_exec(void)
{
    uint64_t believed = believed_blocked();
    agent_signals_doubt(believed);
    if (believed)
        sigset_mask(SIG_BLOCK, &believed, NULL);
    return (unsigned)believed;
}

void agent_signals_exec_failed(unsigned before)
{
    uint64_t believed = before;
    if (believed)
        sigset_mask(SIG_UNBLOCK, &believed, NULL);
}
