/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libc that set dispositions and masks of signals, as the program finds them: see
 * agent/safety/signals.h. Each goes on to the next of its name (libc's, or that of another preloaded library) unless
 * the agent keeps what it is about.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>

#include "agent/safety/read.h"
#include "agent/safety/signals.h"
#include "agent/system/sys.h"

#define EXPORT __attribute__((visibility("default")))

/* hooks/modules.c; not in tests of this part alone. */
extern void *agent_next(const char *name) __attribute__((weak));

static void *no_function(void)
{
    return NULL;
}

void *agent_next_of(_Atomic(void *) *function, const char *name)
{
    void *found = atomic_load_explicit(function, memory_order_relaxed);
    if (!found) {
        found = agent_next ? agent_next(name) : dlsym(RTLD_NEXT, name);
        if (!found)
            found = (void *)no_function;
        atomic_store_explicit(function, found, memory_order_relaxed);
    }
    return found;
}

void agent_find_sigsetjmp(void);
extern struct next_entry __start_next_entries[] __attribute__((visibility("hidden"))); /* by the linker */
extern struct next_entry __stop_next_entries[] __attribute__((visibility("hidden")));

void agent_next_find(void)
{
    for (const struct next_entry *entry = __start_next_entries; entry < __stop_next_entries; entry++)
        if (agent_next_of(entry->function, entry->name) == (void *)no_function)
            dlerror(); /* the program does not hear of it */
    agent_find_sigsetjmp();
}

static int result_of(int error)
{
    if (error == 0)
        return 0;
    errno = -error;
    return -1;
}

static uint64_t word_of(const sigset_t *set)
{
    return set->__val[0];
}

/* Where libc does not read itself: others the kernel refuses (EFAULT), and we must not read. */
static bool is_address(const void *given)
{
    return (uintptr_t)given >= 4096 && (intptr_t)given > 0;
}

static void word_to(sigset_t *set, uint64_t word)
{
    set->__val[0] = word;
}

/* ---- dispositions ---- */

NEXT_EARLY(sigaction);
EXPORT int sigaction(int signal, const struct sigaction *restrict action, struct sigaction *restrict old)
{
    struct kernel_action set, was;
    if (!signals_mine(signal)) {
        if (action && action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN)
            agent_signals_doubt(word_of(&action->sa_mask));
        return NEXT(sigaction)(signal, action, old);
    }
    if (action)
        set = (struct kernel_action){
            .handler = (uintptr_t)action->sa_handler,
            .flags = (uint32_t)action->sa_flags | SIGSET_RESTORER,
            .restorer = (uintptr_t)sigset_restorer,
            .mask = word_of(&action->sa_mask) & ~(SIGSET_BIT(SIGKILL) | SIGSET_BIT(SIGSTOP)),
        };
    int error = signals_action(signal, action ? &set : NULL, &was);
    if (error == 0 && old) {
        old->sa_handler = (sighandler_t)(uintptr_t)was.handler;
        old->sa_flags = (int)was.flags;
        old->sa_restorer = (void (*)(void))(uintptr_t)was.restorer;
        word_to(&old->sa_mask, was.mask);
    }
    return result_of(error);
}

int __sigaction(int signal, const struct sigaction *action, struct sigaction *old);
EXPORT int __sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
    return sigaction(signal, action, old);
}

static sighandler_t set_handler(int signal, sighandler_t handler, int flags, uint64_t mask)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
    word_to(&action.sa_mask, mask);
    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    return sigaction(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

NEXT_EARLY(signal);
EXPORT sighandler_t signal(int number, sighandler_t handler)
{
    if (!signals_mine(number))
        return NEXT(signal)(number, handler);
    return set_handler(number, handler, SA_RESTART, SIGSET_BIT(number));
}

sighandler_t bsd_signal(int number, sighandler_t handler);
NEXT_LATE(bsd_signal);
EXPORT sighandler_t bsd_signal(int number, sighandler_t handler)
{
    if (!signals_mine(number))
        return NEXT(bsd_signal)(number, handler);
    return signal(number, handler);
}

NEXT_LATE(ssignal);
EXPORT sighandler_t ssignal(int number, sighandler_t handler)
{
    if (!signals_mine(number))
        return NEXT(ssignal)(number, handler);
    return signal(number, handler);
}

NEXT_LATE(sysv_signal);
EXPORT sighandler_t sysv_signal(int number, sighandler_t handler)
{
    if (!signals_mine(number))
        return NEXT(sysv_signal)(number, handler);
    return set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER), 0);
}

sighandler_t __sysv_signal(int number, sighandler_t handler);
NEXT_LATE(__sysv_signal);
EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler)
{
    if (!signals_mine(number))
        return NEXT(__sysv_signal)(number, handler);
    return sysv_signal(number, handler);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* obsolete they are, and still called */
NEXT_EARLY(sigset);
EXPORT sighandler_t sigset(int number, sighandler_t disposition)
{
    struct kernel_action old;
    sighandler_t before;
    uint64_t bit = number > 0 && number < 65 ? SIGSET_BIT(number) : 0, mask = 0;
    if (!signals_mine(number))
        return NEXT(sigset)(number, disposition);
    if (disposition == SIG_HOLD) {
        signals_mask(SIG_BLOCK, &bit, &mask);
        signals_action(number, NULL, &old);
        before = (sighandler_t)(uintptr_t)old.handler;
    } else {
        before = set_handler(number, disposition, 0, 0);
        if (before == SIG_ERR)
            return SIG_ERR;
        signals_mask(SIG_UNBLOCK, &bit, &mask);
    }
    return mask & bit ? SIG_HOLD : before;
}

NEXT_LATE(sigignore);
EXPORT int sigignore(int number)
{
    if (!signals_mine(number))
        return NEXT(sigignore)(number);
    return set_handler(number, SIG_IGN, 0, 0) == SIG_ERR ? -1 : 0;
}

/* ---- masks ---- */

/* Nothing is kept open: what is blocked is. */
static void mask_passes(int how, uint64_t set)
{
    agent_signals_doubt(how == SIG_UNBLOCK ? 0 : set);
}

/* As glibc: its own two signals (cancellation, setxid) cannot be blocked. */
static int mask_of_thread(int how, const sigset_t *set, sigset_t *old)
{
    uint64_t given = set ? word_of(set) & ~(UINT64_C(3) << 31) : 0, was = 0;
    int error = signals_mask(how, set ? &given : NULL, &was);
    if (error == 0 && old)
        word_to(old, was);
    return -error;
}

NEXT_EARLY(pthread_sigmask);
EXPORT int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
    if (signals_masking())
        return mask_of_thread(how, set, old);
    mask_passes(how, set ? word_of(set) : 0);
    return NEXT(pthread_sigmask)(how, set, old);
}

NEXT_EARLY(sigprocmask);
EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
    if (signals_masking())
        return result_of(-mask_of_thread(how, set, old));
    mask_passes(how, set ? word_of(set) : 0);
    return NEXT(sigprocmask)(how, set, old);
}

static int mask_one(int how, int number)
{
    uint64_t bit = SIGSET_BIT(number);
    return result_of(signals_mask(how, &bit, NULL));
}

NEXT_EARLY(sighold);
EXPORT int sighold(int number)
{
    if (signals_masking() && signals_mine(number))
        return mask_one(SIG_BLOCK, number);
    mask_passes(SIG_BLOCK, number > 0 && number < 65 ? SIGSET_BIT(number) : 0);
    return NEXT(sighold)(number);
}

NEXT_EARLY(sigrelse);
EXPORT int sigrelse(int number)
{
    return signals_masking() && signals_mine(number) ? mask_one(SIG_UNBLOCK, number) : NEXT(sigrelse)(number);
}

NEXT_LATE(sigblock);
EXPORT int sigblock(int mask)
{
    uint64_t set = (uint32_t)mask, old = 0;
    if (!signals_masking()) {
        mask_passes(SIG_BLOCK, set);
        return NEXT(sigblock)(mask);
    }
    signals_mask(SIG_BLOCK, &set, &old);
    return (int)old;
}

NEXT_LATE(sigsetmask);
EXPORT int sigsetmask(int mask)
{
    uint64_t set = (uint32_t)mask, old = 0;
    if (!signals_masking()) {
        mask_passes(SIG_SETMASK, set);
        return NEXT(sigsetmask)(mask);
    }
    signals_mask(SIG_SETMASK, &set, &old);
    return (int)old;
}
#pragma GCC diagnostic pop

/* ---- waiting with a mask ---- */

#define WAITING(mask, name, ...) \
    struct signals_wait wait = signals_wait_begin(mask); \
    int result = NEXT(name)(__VA_ARGS__); \
    signals_wait_end(wait); \
    return result

NEXT_EARLY(sigsuspend);
EXPORT int sigsuspend(const sigset_t *mask)
{
    if (!is_address(mask))
        return NEXT(sigsuspend)(mask);
    WAITING(word_of(mask), sigsuspend, mask);
}

NEXT_EARLY(ppoll);
EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
    if (!is_address(mask))
        return NEXT(ppoll)(fds, count, limit, mask);
    WAITING(word_of(mask), ppoll, fds, count, limit, mask);
}

/* ppoll, where a program is compiled with checks of sizes. */
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask, size_t size);
NEXT_LATE(__ppoll_chk);
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask,
                       size_t size)
{
    if (!is_address(mask))
        return NEXT(__ppoll_chk)(fds, count, limit, mask, size);
    WAITING(word_of(mask), __ppoll_chk, fds, count, limit, mask, size);
}

/* Those of System V and of BSD: <signal.h> calls either of them sigpause. */
int __xpg_sigpause(int number);
NEXT_LATE(__xpg_sigpause);
EXPORT int __xpg_sigpause(int number)
{
    WAITING(0, __xpg_sigpause, number);
}

int __sigpause(int what, int is_number);
NEXT_LATE(__sigpause);
EXPORT int __sigpause(int what, int is_number)
{
    WAITING(is_number ? 0 : (uint32_t)what, __sigpause, what, is_number);
}

int bsd_sigpause(int mask) __asm__("sigpause");
EXPORT int bsd_sigpause(int mask)
{
    return __sigpause(mask, 0);
}

NEXT_EARLY(pselect);
EXPORT int pselect(int count, fd_set *restrict reading, fd_set *restrict writing, fd_set *restrict special,
                   const struct timespec *restrict limit, const sigset_t *restrict mask)
{
    if (!is_address(mask))
        return NEXT(pselect)(count, reading, writing, special, limit, mask);
    WAITING(word_of(mask), pselect, count, reading, writing, special, limit, mask);
}

NEXT_LATE(epoll_pwait);
EXPORT int epoll_pwait(int fd, struct epoll_event *events, int count, int limit, const sigset_t *mask)
{
    if (!is_address(mask))
        return NEXT(epoll_pwait)(fd, events, count, limit, mask);
    WAITING(word_of(mask), epoll_pwait, fd, events, count, limit, mask);
}

NEXT_LATE(epoll_pwait2);
EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int count, const struct timespec *limit,
                        const sigset_t *mask)
{
    if (!is_address(mask))
        return NEXT(epoll_pwait2)(fd, events, count, limit, mask);
    WAITING(word_of(mask), epoll_pwait2, fd, events, count, limit, mask);
}

NEXT_LATE(sigwait);
EXPORT int sigwait(const sigset_t *restrict set, int *restrict number)
{
    WAITING(0, sigwait, set, number);
}

NEXT_LATE(sigwaitinfo);
EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
    WAITING(0, sigwaitinfo, set, info);
}

NEXT_LATE(sigtimedwait);
EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict limit)
{
    WAITING(0, sigtimedwait, set, info, limit);
}

NEXT_LATE(signalfd);
EXPORT int signalfd(int fd, const sigset_t *mask, int flags)
{
    if (is_address(mask))
        signals_step_aside(word_of(mask));
    return NEXT(signalfd)(fd, mask, flags);
}

/* Where the thread's stack for signals begins, for hooks_x86_64.S; 0: it has none. */
extern _Thread_local uint64_t agent_altstack_low __attribute__((tls_model("initial-exec"), visibility("hidden")));
_Thread_local uint64_t agent_altstack_low __attribute__((tls_model("initial-exec")));

static uint64_t low_of(const stack_t *stack)
{
    return stack->ss_flags & SS_DISABLE ? 0 : (uint64_t)stack->ss_sp;
}

/* Not by what the program gives the kernel: that may be no address, or be refused. */
void agent_altstack_look(void)
{
    stack_t stack;
    agent_read_altstack();
    agent_altstack_low = sys_call2(__NR_sigaltstack, 0, (long)&stack) == 0 ? low_of(&stack) : 0;
}

NEXT_EARLY(sigaltstack);
EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
    int result = NEXT(sigaltstack)(stack, old);
    if (stack)
        agent_altstack_look();
    return result;
}

/* ---- jumps that restore a mask ---- */

_Static_assert(offsetof(struct __jmp_buf_tag, __saved_mask.__val[15]) == SIGNALS_TAG_AT, "as in signals_x86_64.S");

extern void *agent_real_sigsetjmp __attribute__((visibility("hidden")));
void *agent_real_sigsetjmp;
void agent_find_sigsetjmp(void)
{
    static _Atomic(void *) found;
    agent_real_sigsetjmp = agent_next_of(&found, "__sigsetjmp");
}

/* Recorded calls that are left (stack.c); not in tests of this part alone. */
extern void agent_stack_jump(uint64_t mangled) __attribute__((weak));

/* What was believed blocked when the mask was saved is believed blocked again. */
static void jump(const struct __jmp_buf_tag *to)
{
    if (agent_stack_jump)
        agent_stack_jump((uint64_t)to->__jmpbuf[6]);
    agent_signals_doubt(to->__mask_was_saved ? word_of(&to->__saved_mask) : 0);
    uint64_t saved = to->__saved_mask.__val[15];
    if (to->__mask_was_saved && signals_masking())
        agent_signals_blocked = (saved & ~UINT64_C(0xffffffff)) == SIGNALS_TAG ? saved & UINT32_MAX : 0;
}

#define JUMP(name) \
    NEXT_EARLY(name); \
    EXPORT _Noreturn void name(struct __jmp_buf_tag to[1], int value) \
    { \
        jump(to); \
        NEXT(name)(to, value); \
        __builtin_unreachable(); \
    }

_Noreturn void __longjmp_chk(struct __jmp_buf_tag to[1], int value);
JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)

/* ---- mappings ---- */

static void *map(void *address, size_t size, int protection, int flags, int fd, off_t at)
{
    long result = sys_call6(__NR_mmap, (long)address, (long)size, protection, flags, fd, at);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return MAP_FAILED;
    }
    return (void *)result; /* NOLINT(performance-no-int-to-ptr) */
}

/* dlsym may itself map memory: until it has answered there is the system call. */
#define MAP(name, symbol) \
    void *name(void *address, size_t size, int protection, int flags, int fd, off_t at) __asm__(symbol); \
    EXPORT void *name(void *address, size_t size, int protection, int flags, int fd, off_t at) \
    { \
        static _Atomic(void *) slot; \
        static _Atomic uint32_t looking; \
        __typeof__(&map) real = (__typeof__(&map))atomic_load_explicit(&slot, memory_order_relaxed); \
        if (!real && !atomic_exchange(&looking, 1)) \
            real = (__typeof__(&map))agent_next_of(&slot, symbol); \
        void *result = (real ? real : map)(address, size, protection, flags, fd, at); \
        if (result != MAP_FAILED && fd >= 0 && !(flags & MAP_ANONYMOUS)) \
            agent_read_mapped((uintptr_t)result, size, fd); \
        return result; \
    }

MAP(map_short, "mmap")
MAP(map_long, "mmap64") /* which is what mmap is called in programs with 64-bit offsets */
