/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that get signals where they are blocked, ignored or nested, on other stacks, in threads and children. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/test/test_signal_tools.h"

static int blocked_pending(void)
{
    sigset_t all, pending, old;
    set(SIGSEGV, note, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    mask("blocked");
    probe();
    kill(getpid(), SIGSEGV);
    say("sent\n");
    probe();
    sigpending(&pending);
    say_number("pending", sigismember(&pending, SIGSEGV));
    mask("still blocked");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    say("opened\n");
    mask("opened");
    probe();
    return 0;
}

static int blocked_fault(void)
{
    sigset_t all;
    set(SIGSEGV, skip, 0);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    probe();
    fault(nowhere); /* kills in spite of the handler */
    return 0;
}

static int blocked_really(void)
{
    uint64_t all = UINT64_MAX;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
    probe();
    mask("by system call");
    return 7;
}

/* When reads have been direct for a while. What was never readable is looked at with care even then. */
static int blocked_really_later(void)
{
    uint64_t all = UINT64_MAX;
    char byte;
    probe();
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
    if (reader && reader(&byte, (uintptr_t)hole, 1) != -1)
        say("a bad address was read\n");
    probe();
    mask("by system call");
    return 7;
}

/* A handler that all is blocked in, or just what faults raise; and in the handlers that come inside of it. */
static void probing(int signal)
{
    probe_gone(); /* first: other pages would be looked at with care */
    say_number("handler of", signal);
    mask("in it");
    probe();
    if (signal == SIGUSR1)
        raise(SIGUSR2);
    probe();
}

static int blocked_in_handlers(void)
{
    struct sigaction action = {.sa_handler = probing}, other = {.sa_handler = probing};
    probe();
    sigaction(SIGUSR2, &other, NULL);
    sigaddset(&action.sa_mask, SIGBUS);
    sigaddset(&action.sa_mask, SIGSEGV);
    sigaction(SIGUSR1, &action, NULL);
    probe();
    raise(SIGUSR1);
    probe();
    mask("after");
    return 0;
}

/* In handlers of signals that the agent has handlers of, too: SIGTRAP's is entered through ours. */
static int blocked_in_ours(void)
{
    struct sigaction action = {.sa_handler = probing};
    probe();
    sigaddset(&action.sa_mask, SIGSEGV);
    sigaction(SIGTRAP, &action, NULL);
    probe();
    raise(SIGTRAP);
    probe();
    return 0;
}

/* What is believed blocked is really blocked when such a handler returns. */
static int blocked_after_ours(void)
{
    sigset_t segv;
    sigemptyset(&segv);
    sigaddset(&segv, SIGSEGV);
    set(SIGTRAP, note, 0);
    pthread_sigmask(SIG_BLOCK, &segv, NULL);
    probe();
    raise(SIGTRAP);
    probe();
    mask("after");
    return 0;
}

/* <signal.h> does not tell of all of them. */
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask, size_t size);
int __xpg_sigpause(int number);
int bsd_sigpause(int mask) __asm__("sigpause");

/* A handler that comes during a call that waits with a mask of its own, `others`; `also` is blocked before. */
static void wait_begin(sigset_t *ret_others, int also)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    if (also)
        sigaddset(&blocked, also);
    sigfillset(ret_others);
    sigdelset(ret_others, SIGUSR1);
    sigdelset(ret_others, SIGUSR2);
    signal(SIGUSR1, probing);
    signal(SIGUSR2, probing);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    probe();
    raise(SIGUSR1);
}

#define BLOCKED_IN(name, also, call) \
    static int blocked_in_##name(void) \
    { \
        const struct timespec none = {0, 0}; \
        struct epoll_event event; \
        sigset_t others; \
        wait_begin(&others, also); \
        (void)none; \
        (void)event; \
        call; \
        probe(); \
        mask("after"); \
        return 0; \
    }

BLOCKED_IN(sigsuspend, 0, sigsuspend(&others))
BLOCKED_IN(ppoll, 0, ppoll(NULL, 0, &none, &others))
BLOCKED_IN(ppoll_chk, 0, __ppoll_chk(NULL, 0, &none, &others, 0))
BLOCKED_IN(pselect, 0, pselect(0, NULL, NULL, NULL, &none, &others))
BLOCKED_IN(epoll_pwait, 0, epoll_pwait(epoll_create1(EPOLL_CLOEXEC), &event, 1, 0, &others))
BLOCKED_IN(bsd_sigpause, 0, bsd_sigpause((int)~(1u << (SIGUSR1 - 1) | 1u << (SIGUSR2 - 1))))
BLOCKED_IN(sigpause, SIGSEGV, __xpg_sigpause(SIGUSR1))

static pthread_t begun;

static void *probes_blocked(void *unused)
{
    for (int i = 0; i < 3; i++)
        probe();
    mask("in the thread");
    return unused;
}

static int blocked_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    probe();
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setsigmask_np(&attributes, &all);
    pthread_create(&thread, &attributes, probes_blocked, NULL);
    pthread_join(thread, NULL);
    probe();
    return 0;
}

static void begin_thread(int signal)
{
    pthread_create(&begun, NULL, probes_blocked, NULL);
}

/* The mask of the handler that it is begun in. */
static int blocked_thread_inherits(void)
{
    struct sigaction action = {.sa_handler = begin_thread};
    probe();
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    pthread_join(begun, NULL);
    probe();
    return 0;
}

static int blocked_context(void)
{
    static ucontext_t back, there;
    static char stack[65536];
    probe();
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof stack;
    there.uc_link = &back;
    sigaddset(&there.uc_sigmask, SIGSEGV);
    makecontext(&there, probe, 0);
    swapcontext(&back, &there);
    probe();
    mask("back");
    return 0;
}

static sigjmp_buf blocked_there;

static void jump_to_blocked(int signal)
{
    if (sigsetjmp(blocked_there, 1) == 0)
        siglongjmp(again, 1);
    say("in the handler again\n");
    probe();
}

/* Out of a handler in which it is blocked, and back into it. */
static int blocked_jump(void)
{
    struct sigaction action = {.sa_handler = jump_to_blocked};
    probe();
    sigaddset(&action.sa_mask, SIGSEGV);
    sigaction(SIGUSR1, &action, NULL);
    if (sigsetjmp(again, 1) == 0)
        raise(SIGUSR1);
    mask("out of it");
    probe();
    return 0;
}

/* What exec leaves to the next program, which has the agent as this one has. */
static int blocked_exec(void)
{
    uint64_t all = UINT64_MAX;
    Dl_info library;
    void *symbol;
    memcpy(&symbol, &reader, sizeof symbol);
    if (reader && dladdr(symbol, &library))
        setenv("LD_PRELOAD", library.dli_fname, 1);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
    probe();
    execl("/proc/self/exe", "self", "=", "blocked before", (char *)NULL);
    return 1;
}

static int blocked_before(void)
{
    mask("from before");
    probe();
    fault(nowhere);
    return 0;
}

static int blocked_wait(void)
{
    sigset_t segv;
    siginfo_t info;
    sigemptyset(&segv);
    sigaddset(&segv, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &segv, NULL);
    kill(getpid(), SIGSEGV);
    probe();
    say_number("waited for", sigwaitinfo(&segv, &info));
    say_number("of this process", info.si_pid == getpid());
    kill(getpid(), SIGSEGV);
    int number = 0;
    sigwait(&segv, &number);
    say_number("again", number);
    int fd = signalfd(-1, &segv, 0);
    struct signalfd_siginfo read_info;
    kill(getpid(), SIGSEGV);
    say_number("read", read(fd, &read_info, sizeof read_info));
    say_number("signal", read_info.ssi_signo);
    probe();
    return 0;
}

static int blocked_suspend(void)
{
    sigset_t segv, none;
    set(SIGSEGV, note, 0);
    sigemptyset(&segv);
    sigemptyset(&none);
    sigaddset(&segv, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &segv, NULL);
    kill(getpid(), SIGSEGV);
    say("suspending\n");
    say_number("suspended", sigsuspend(&none));
    mask("after");
    probe();
    return 0;
}

static int ignored(void)
{
    signal(SIGSEGV, SIG_IGN);
    raise(SIGSEGV);
    kill(getpid(), SIGSEGV);
    probe();
    say("alive\n");
    if (fork() == 0)
        execl("/bin/sh", "sh", "-c", "kill -SEGV $$; echo ignored after exec", (char *)NULL);
    int status;
    wait(&status);
    say_number("child", status);
    fault(nowhere);
    return 0;
}

static int jumps_keep_mask(void)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    if (sigsetjmp(again, 1) == 0) {
        pthread_sigmask(SIG_SETMASK, &none, NULL);
        mask("open");
        siglongjmp(again, 1);
    }
    mask("as when it was saved");
    probe();
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    if (sigsetjmp(again, 1) == 0) {
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        siglongjmp(again, 1);
    }
    mask("open again");
    return 0;
}

static void nested(int signal, siginfo_t *info, void *context)
{
    say_number("level", ++count);
    say_number("on alternate stack", on_alt_stack());
    probe();
    if (count < 3)
        fault(nowhere);
    ucontext_t *uc = context;
    uc->uc_mcontext.gregs[REG_RIP] = (greg_t)uc->uc_mcontext.gregs[REG_RAX];
    say_number("leaving", count--);
}

static int nested_faults(void)
{
    alt_stack(65536);
    set(SIGSEGV, nested, SA_NODEFER | SA_ONSTACK);
    fault(nowhere);
    set(SIGSEGV, nested, SA_NODEFER);
    fault(nowhere);
    return 0;
}

static void overflowed(int signal, siginfo_t *info, void *context)
{
    say_number("overflow on alternate stack", on_alt_stack());
    probe();
    siglongjmp(again, 1);
}

static __attribute__((noinline)) int deep(int n)
{
    volatile char block[1024];
    block[n & 1023] = (char)n;
    return n == -1 ? 0 : deep(n + 1) + block[0];
}

static int overflow_handled(void)
{
    alt_stack(65536);
    set(SIGSEGV, overflowed, SA_ONSTACK);
    for (volatile int i = 0; i < 2; i++)
        if (sigsetjmp(again, 1) == 0)
            deep(0);
    mask("after");
    return 3;
}

/* The handler's frame has no room: the kernel kills, although there is a handler and an alternate stack. */
static int overflow_no_room(void)
{
    alt_stack(65536);
    set(SIGSEGV, overflowed, 0);
    deep(0);
    return 0;
}

static int overflow_plain(void)
{
    deep(0);
    return 0;
}

static atomic_int busy = 1;

static void *reads(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    for (int i = 0; i < 200; i++) {
        probe();
        pthread_sigmask(i & 1 ? SIG_BLOCK : SIG_UNBLOCK, &all, NULL);
    }
    while (atomic_load(&busy))
        probe();
    return unused;
}

static _Thread_local sigjmp_buf own;
static void jump_own(int signal, siginfo_t *info, void *context)
{
    siglongjmp(own, 1);
}

static void *faults(void *result)
{
    for (volatile int i = 0; i < 300; i++) {
        if (sigsetjmp(own, 1) == 0)
            fault(nowhere);
        else
            ++*(int *)result;
        probe();
    }
    return NULL;
}

static int threads(void)
{
    pthread_t readers[4], faulters[4];
    int results[4] = {0};
    set(SIGSEGV, jump_own, 0);
    for (int i = 0; i < 4; i++) {
        pthread_create(&readers[i], NULL, reads, NULL);
        pthread_create(&faulters[i], NULL, faults, &results[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(faulters[i], NULL);
    atomic_store(&busy, 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(readers[i], NULL);
        say_number("faults", results[i]);
    }
    return 0;
}

static void *crashes(void *unused)
{
    probe();
    fault(nowhere);
    return unused;
}

static int thread_crash(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, crashes, NULL);
    pthread_join(thread, NULL);
    return 0;
}

/* What is blocked in a child of vfork that was begun with all signals blocked, and in its parent then. */
static void blocked_child(const char *name, int how, const sigset_t *set)
{
    sigset_t all, before, now;
    static sigset_t seen[2];
    int status;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = vfork();
    if (child == 0) {
        if (set)
            sigprocmask(how, set, &seen[0]);
        probe_gone();
        sigprocmask(SIG_BLOCK, NULL, &seen[1]);
        _exit(4);
    }
    waitpid(child, &status, 0);
    sigprocmask(SIG_SETMASK, NULL, &now);
    say_number(name, status);
    say_number("was blocked", set ? sigismember(&seen[0], SIGSEGV) : 1);
    say_number("is blocked", sigismember(&seen[1], SIGSEGV));
    say_number("is blocked in its parent", sigismember(&now, SIGSEGV));
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void blocked_children(void)
{
    sigset_t none, one, other;
    sigemptyset(&none);
    sigemptyset(&one);
    sigaddset(&one, SIGSEGV);
    sigemptyset(&other);
    sigaddset(&other, SIGUSR1);
    blocked_child("mask inherited", 0, NULL);
    blocked_child("mask emptied", SIG_SETMASK, &none);
    blocked_child("mask without one", SIG_UNBLOCK, &one);
    blocked_child("mask with one", SIG_SETMASK, &one);
    blocked_child("mask without another", SIG_UNBLOCK, &other);
}

/* A child of fork that is not traced itself, and its child of vfork, which puts all handlers back before it executes something. */
static void untraced_child(void)
{
    int status;
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* so nobody is told of it */
    if (child == 0) {
        set(SIGSEGV, skip, 0);
        child = vfork();
        if (child == 0) {
            sigset_t one;
            sigemptyset(&one);
            sigaddset(&one, SIGBUS);
            signal(SIGSEGV, SIG_DFL);
            sigprocmask(SIG_BLOCK, &one, NULL);
            execl("/bin/sh", "sh", "-c", "kill -SEGV $$", (char *)NULL);
            _exit(1);
        }
        waitpid(child, &status, 0);
        say_number("child of the untraced", status);
        mask("mask of the untraced");
        fault(nowhere);
        _exit(8);
    }
    waitpid(child, &status, 0);
    say_number("untraced", status);
}

static int forks(void)
{
    int status;
    set(SIGSEGV, skip, 0);
    probe();
    pid_t child = fork();
    if (child == 0) {
        probe();
        fault(nowhere);
        signal(SIGSEGV, SIG_DFL);
        probe();
        _exit(9);
    }
    waitpid(child, &status, 0);
    say_number("child", status);
    child = vfork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        execl("/bin/sh", "sh", "-c", "kill -SEGV $$", (char *)NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    say_number("child", status);
    untraced_child();
    blocked_children();
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    say_number("handler kept", now.sa_sigaction == skip);
    fault(nowhere);
    errno = 0;
    say_number("no child is left", wait(&status));
    say_number("errno", errno);
    return 0;
}

static void coroutine(void)
{
    for (int i = 0; i < 100; i++)
        probe();
    say("on a small stack\n");
}

static int small_stacks(void)
{
    static ucontext_t back, there;
    static char around[3][8192];
    memset(around, 85, sizeof around);
    getcontext(&there);
    there.uc_stack.ss_sp = around[1];
    there.uc_stack.ss_size = sizeof around[1];
    there.uc_link = &back;
    makecontext(&there, coroutine, 0);
    swapcontext(&back, &there);
    for (unsigned i = 0; i < sizeof around[0]; i++)
        if (around[0][i] != 85)
            return 1;
    alt_stack(2048 + 512); /* as small as it may be, or nearly */
    set(SIGUSR1, note, SA_ONSTACK);
    for (int i = 0; i < 100; i++)
        probe();
    say("with a small alternate stack\n");
    return 0;
}

static int devices(void)
{
    volatile char *zero = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open("/dev/zero", O_RDONLY), 0);
    char byte = 1;
    if (reader && (reader(&byte, (uintptr_t)zero, 1) != 0 || byte != 0))
        say("/dev/zero is plain memory\n");
    return 0;
}

static int probes(void)
{
    for (int i = 0; i < 300; i++)
        probe();
    return 5;
}

static atomic_int ticks;

static void tick(int signal)
{
    struct itimerval never = {0};
    probe();
    if (atomic_fetch_add(&ticks, 1) >= 300) /* here: the handler may take longer than from one to the next */
        setitimer(ITIMER_REAL, &never, NULL);
}

/* Handlers that come at any point of a read, with everything really blocked. */
static int masked_handlers(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 200}, {0, 200}};
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (atomic_load(&ticks) < 300)
        probe();
    return 6;
}

static int old_ways(void)
{
    say_number("signal", signal(SIGSEGV, SIG_IGN) == SIG_DFL);
    say_number("signal", signal(SIGSEGV, SIG_DFL) == SIG_IGN);
    struct sigaction now;
    void (*handler)(int) = (void (*)(int))(void *)skip;
    signal(SIGSEGV, handler);
    sigaction(SIGSEGV, NULL, &now);
    say_number("flags", now.sa_flags & ~0x04000000);
    say_number("mask", sigismember(&now.sa_mask, SIGSEGV));
    sysv_signal(SIGBUS, handler);
    sigaction(SIGBUS, NULL, &now);
    say_number("flags", now.sa_flags & ~0x04000000);
    say_number("mask", sigismember(&now.sa_mask, SIGBUS));
    errno = 0;
    say_number("error", sigaction(SIGKILL, &now, NULL));
    say_number("errno", errno);
    errno = 0;
    say_number("error", sigaction(99, &now, NULL));
    say_number("errno", errno);
    say_number("error", sigprocmask(42, &now.sa_mask, NULL));
    say_number("errno", errno);
    say_number("error", pthread_sigmask(42, &now.sa_mask, NULL));
    return 0;
}

const struct program signal_places[] = {
    {"blocked, pending", blocked_pending, 0},
    {"blocked, fault", blocked_fault, SIGSEGV},
    {"blocked by system call", blocked_really, 0},
    {"blocked by system call later", blocked_really_later, 0},
    {"blocked in a handler", blocked_in_handlers, 0},
    {"blocked in a handler after ours", blocked_in_ours, 0},
    {"blocked after a handler", blocked_after_ours, 0},
    {"blocked in sigsuspend", blocked_in_sigsuspend, 0},
    {"blocked in ppoll", blocked_in_ppoll, 0},
    {"blocked in ppoll_chk", blocked_in_ppoll_chk, 0},
    {"blocked in pselect", blocked_in_pselect, 0},
    {"blocked in epoll_pwait", blocked_in_epoll_pwait, 0},
    {"blocked in sigpause of BSD", blocked_in_bsd_sigpause, 0},
    {"blocked in sigpause", blocked_in_sigpause, 0},
    {"blocked thread", blocked_thread, 0},
    {"blocked thread, inherits", blocked_thread_inherits, 0},
    {"blocked context", blocked_context, 0},
    {"blocked jump", blocked_jump, 0},
    {"blocked over exec", blocked_exec, SIGSEGV},
    {"blocked before", blocked_before, SIGSEGV},
    {"blocked, waited for", blocked_wait, 0},
    {"blocked, suspended", blocked_suspend, 0},
    {"ignored", ignored, 0},
    {"jumps keep the mask", jumps_keep_mask, 0},
    {"nested", nested_faults, 0},
    {"overflow handled", overflow_handled, 0},
    {"overflow without room", overflow_no_room, SIGSEGV},
    {"overflow", overflow_plain, 0},
    {"threads", threads, 0},
    {"thread crash", thread_crash, SIGSEGV},
    {"forks", forks, 0},
    {"small stacks", small_stacks, 0},
    {"devices", devices, 0},
    {"probes", probes, 0},
    {"masked handlers", masked_handlers, 0},
    {"old ways", old_ways, 0},
    {NULL, NULL, 0},
};
