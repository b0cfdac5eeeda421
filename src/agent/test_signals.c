/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do with signals what programs do, each run as it is and with the agent's handlers in it
 * (libtest-preload.so, under the three ways of reading): what it prints and how it ends has to be the same. Where the
 * library is, the programs also read bad addresses at every step.
 *
 * `test_signals LIBRARY` runs them all; `test_signals = NAME` is one of them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "shm/area.h"

/* ---- what the programs have in common ---- */

static int (*reader)(void *dst, uint64_t address, size_t size);
static volatile int *volatile nowhere = (volatile int *)16;
static char *hole; /* a page that is not readable, after one that is */

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(90);
}

static void say_number(const char *text, long number)
{
    char line[200];
    snprintf(line, sizeof line, "%s %ld\n", text, number);
    say(line);
}

/* Good and bad addresses are told apart, wherever this is called. */
static void probe(void)
{
    char bytes[64], good[64] = "good";
    static char more[64] = "more";
    const uint64_t bad[] = {0, 8, 4096, (uintptr_t)hole, (uintptr_t)hole - 8, UINT64_C(0x800000000000), UINT64_MAX - 3};
    int before = errno;
    if (!reader)
        return;
    errno = 77;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reader(bytes, bad[i], 16) != -1)
            say("a bad address was read\n");
    if (reader(bytes, (uintptr_t)good, sizeof good) != 0 || strcmp(bytes, good) != 0 ||
        reader(bytes, (uintptr_t)more, sizeof more) != 0 || strcmp(bytes, more) != 0)
        say("a good address was not read\n");
    if (errno != 77)
        say("errno was changed\n");
    errno = before;
}

static void set(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO}, old;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, &old);
    sigaction(signal, NULL, &old);
    if (old.sa_sigaction != handler || (old.sa_flags & ~0x04000000) != (flags | SA_SIGINFO))
        say("another disposition than was set\n");
}

static void mask(const char *text)
{
    sigset_t now;
    char line[100] = "";
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int i = 1; i < 32; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%d", sigismember(&now, i));
    say(text);
    say(" ");
    say(line);
    say("\n");
}

static void alt_stack(size_t size)
{
    stack_t stack = {.ss_sp = malloc(size), .ss_size = size};
    sigaltstack(&stack, NULL);
}

static bool on_alt_stack(void)
{
    stack_t stack;
    sigaltstack(NULL, &stack);
    return stack.ss_flags & SS_ONSTACK;
}

static sigjmp_buf again;
static volatile int count;

/* ---- the programs ---- */

static void describe(int signal, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    say_number("signal", signal);
    say_number("code", info->si_code);
    say_number("address", info->si_code > 0 ? (long)info->si_addr : 0);
    say_number("on alternate stack", on_alt_stack());
    say_number("aligned", ((uintptr_t)__builtin_frame_address(0) & 15) == 0);
    char line[100] = "";
    for (int i = 1; i < 32; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%d", sigismember(&uc->uc_sigmask, i));
    say("mask before ");
    say(line);
    say("\n");
    mask("mask in handler");
    probe();
}

static void skip(int signal, siginfo_t *info, void *context)
{
    describe(signal, info, context);
    ucontext_t *uc = context;
    uc->uc_mcontext.gregs[REG_RIP] =
        (greg_t)uc->uc_mcontext.gregs[REG_RAX]; /* where the faulting code wants to go on */
    count++;
}

/* A store that faults, and goes on behind it when a handler sends it there. The registers have to be as they were. */
static __attribute__((noinline)) void fault(volatile int *at)
{
    uint64_t kept = 12345, after = 0;
    double floating = 1.5, floating_after;
    __asm__ volatile("movq %[floating], %%xmm9\n"
                     "movq %[kept], %%r12\n"
                     "leaq 1f(%%rip), %%rax\n"
                     "movl $1, (%[at])\n"
                     "1: movq %%r12, %[after]\n"
                     "movq %%xmm9, %[floating_after]\n"
                     : [after] "=r"(after), [floating_after] "=r"(floating_after)
                     : [at] "r"(at), [kept] "r"(kept), [floating] "r"(floating)
                     : "rax", "r12", "xmm9", "memory");
    if (after != kept || floating_after != floating)
        say("registers were changed\n");
}

static int handler_plain(void)
{
    set(SIGSEGV, skip, 0);
    for (int i = 0; i < 3; i++) {
        probe();
        fault(nowhere);
    }
    mask("after");
    return count;
}

static int handler_flags(void)
{
    alt_stack(65536);
    struct sigaction action = {.sa_sigaction = skip};
    const int flags[] = {SA_ONSTACK, 0, SA_NODEFER, SA_NODEFER | SA_ONSTACK, SA_RESTART};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        action.sa_flags = SA_SIGINFO | flags[i];
        sigemptyset(&action.sa_mask);
        sigaddset(&action.sa_mask, SIGUSR1);
        sigaddset(&action.sa_mask, SIGBUS);
        sigaction(SIGSEGV, &action, NULL);
        say_number("flags", flags[i]);
        fault(nowhere);
        probe();
        mask("after");
    }
    return 0;
}

static void jump_out(int signal, siginfo_t *info, void *context)
{
    probe();
    count++;
    siglongjmp(again, 1);
}

static int handler_jumps(void)
{
    set(SIGSEGV, jump_out, 0);
    set(SIGBUS, jump_out, 0);
    for (volatile int i = 0; i < 5; i++) {
        if (sigsetjmp(again, 1) == 0)
            fault(i & 1 ? (volatile int *)hole : nowhere);
        mask("after the jump");
        probe();
    }
    return count;
}

/* Without a saved mask the signal stays blocked after the first jump, and the second fault kills. */
static void jump_out_plain(int signal, siginfo_t *info, void *context)
{
    count++;
    _longjmp(again, 1);
}

static int handler_jumps_blocked(void)
{
    set(SIGSEGV, jump_out_plain, 0);
    for (volatile int i = 0; i < 5; i++) {
        if (_setjmp(again) == 0) {
            probe();
            say("faulting\n");
            fault(nowhere);
        }
        mask("after the jump");
        probe();
    }
    return count;
}

static int reset_hand(void)
{
    set(SIGSEGV, skip, (int)SA_RESETHAND);
    fault(nowhere);
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    say_number("default again", now.sa_handler == SIG_DFL);
    probe();
    fault(nowhere);
    return 0;
}

static int plain_crash(void)
{
    probe();
    fault(nowhere);
    return 0;
}

static int bus_error(void)
{
    char path[] = "/tmp/test-signals-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    volatile char *file = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    char byte;
    if (reader && reader(&byte, (uintptr_t)file, 1) != -1)
        say("what is behind a file's end was read\n");
    return file[0];
}

static int division(void)
{
    volatile int zero = 0, many = 1000;
    return many / zero;
}

static int illegal(void)
{
    __builtin_trap();
    return 0;
}

static int aborts(void)
{
    probe();
    abort();
}

static void note(int signal, siginfo_t *info, void *context)
{
    say_number("noted", signal);
    say_number("code", info->si_code);
    say_number("by itself", info->si_pid == getpid());
    probe();
}

static int aborts_handled(void)
{
    set(SIGABRT, note, 0);
    abort();
}

static int aborts_jumps(void)
{
    set(SIGABRT, jump_out, 0);
    if (sigsetjmp(again, 1) == 0)
        abort();
    return 5;
}

static int raised(void)
{
    raise(SIGSEGV);
    return 0;
}

static int killed_ill(void)
{
    kill(getpid(), SIGILL);
    for (;;)
        pause();
    return 0;
}

static int raised_handled(void)
{
    set(SIGSEGV, note, 0);
    set(SIGFPE, note, 0);
    raise(SIGSEGV);
    kill(getpid(), SIGFPE);
    union sigval value = {.sival_int = 5};
    sigqueue(getpid(), SIGSEGV, value);
    return 0;
}

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
    probe();
    atomic_fetch_add(&ticks, 1);
}

/* Handlers that come at any point of a read, with everything really blocked. */
static int masked_handlers(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 200}, {0, 200}}, never = {0};
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (atomic_load(&ticks) < 300)
        probe();
    setitimer(ITIMER_REAL, &never, NULL);
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

static const struct program {
    const char *name;
    int (*run)(void);
    int noted; /* the crash note has this signal; 0: none */
} programs[] = {
    {"handler", handler_plain, 0},
    {"handler flags", handler_flags, 0},
    {"handler jumps", handler_jumps, 0},
    {"handler jumps, blocked", handler_jumps_blocked, 0},
    {"reset hand", reset_hand, SIGSEGV},
    {"crash", plain_crash, SIGSEGV},
    {"bus error", bus_error, SIGBUS},
    {"division", division, SIGFPE},
    {"illegal instruction", illegal, SIGILL},
    {"abort", aborts, SIGABRT},
    {"abort handled", aborts_handled, 0},
    {"abort jumps", aborts_jumps, 0},
    {"raised", raised, SIGSEGV},
    {"killed", killed_ill, SIGILL},
    {"raised handled", raised_handled, 0},
    {"blocked, pending", blocked_pending, 0},
    {"blocked, fault", blocked_fault, SIGSEGV},
    {"blocked by system call", blocked_really, 0},
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
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* ---- running them ---- */

struct outcome {
    int status;
    size_t size;
    char text[65536];
};

static int program_main(const char *name)
{
    struct rlimit none = {0, 0}, stack = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_STACK, &stack);
    void *symbol = dlsym(RTLD_DEFAULT, "test_read");
    memcpy(&reader, &symbol, sizeof reader);
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    hole = pages + 4096;
    alarm(20);
    for (int i = 0; i < PROGRAMS; i++)
        if (strcmp(programs[i].name, name) == 0)
            return programs[i].run();
    return 99;
}

/* libraries: LD_PRELOAD; NULL: without. arguments: before the program's, NULL at the end. */
static void run(const char *const *arguments, const char *name, const char *libraries, const char *area,
                struct outcome *ret_outcome)
{
    const char *all[12];
    int all_count = 0;
    int pipes[2];
    ssize_t got;
    if (pipe(pipes) != 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 1);
        if (strstr(arguments[0], "asan")) /* its reports, with addresses */
            dup2(open("/dev/null", O_WRONLY), 2);
        close(pipes[0]);
        close(pipes[1]);
        if (libraries) {
            setenv("TEST_AREA", area, 1);
            if (!arguments[1])
                setenv("LD_PRELOAD", libraries, 1);
        }
        while (arguments[all_count]) {
            all[all_count] = arguments[all_count];
            all_count++;
        }
        all[all_count++] = "=";
        all[all_count++] = name;
        all[all_count] = NULL;
        execvp(all[0], (char *const *)(uintptr_t)all);
        _exit(98);
    }
    close(pipes[1]);
    ret_outcome->size = 0;
    while ((got = read(pipes[0], ret_outcome->text + ret_outcome->size,
                       sizeof ret_outcome->text - 1 - ret_outcome->size)) > 0)
        ret_outcome->size += (size_t)got;
    ret_outcome->text[ret_outcome->size] = 0;
    close(pipes[0]);
    waitpid(child, &ret_outcome->status, 0);
}

static bool same(const char *name, const char *way, const struct outcome *plain, const struct outcome *with)
{
    if (plain->status == with->status && strcmp(plain->text, with->text) == 0)
        return true;
    printf("# %s, %s: status %#x instead of %#x\n# --- without:\n%s# --- with:\n%s", name, way, with->status,
           plain->status, plain->text, with->text);
    return false;
}

static char path[] = "/tmp/test-signals-area-XXXXXX";
static struct area *area;

/* One program in all ways. */
static bool compare(const char *const *arguments, const struct program *program, const char *libraries, int noted)
{
    static struct outcome plain, with;
    static const char *const ways[] = {"direct", "syscall", "victim"};
    bool ok = true;
    run(arguments, program->name, NULL, NULL, &plain);
    for (uint32_t way = AREA_READ_DIRECT; way <= AREA_READ_VICTIM; way++) {
        memset((void *)area, 0, AREA_PAGE);
        atomic_store(&area->on, 1);
        atomic_store(&area->reader, way);
        run(arguments, program->name, libraries, path, &with);
        ok = same(program->name, ways[way], &plain, &with) && ok;
        int signal = atomic_load(&area->crash.valid) ? area->crash.signal : 0;
        if (signal != noted || (signal && (area->crash.depth == 0 || area->crash.regs[7] == 0))) {
            printf("# %s: noted signal %d instead of %d\n", program->name, signal, noted);
            ok = false;
        }
    }
    return ok;
}

static const struct program *program_of(const char *name)
{
    for (int i = 0; i < PROGRAMS; i++)
        if (strcmp(programs[i].name, name) == 0)
            return &programs[i];
    exit(3);
}

/* Faults of our own would stop it in the debugger. */
static bool in_debugger(const char *self, const char *library)
{
    static struct outcome with;
    char preload[PATH_MAX + 40];
    snprintf(preload, sizeof preload, "set environment LD_PRELOAD %s", library);
    const char *const arguments[] = {"gdb", "-nx", "-batch", "-ex", preload, "-ex", "run", "--args", self, NULL};
    memset((void *)area, 0, AREA_PAGE);
    atomic_store(&area->on, 1);
    run(arguments, "probes", library, path, &with);
    if (strstr(with.text, "exited with code 05") && !strstr(with.text, "SIGSEGV"))
        return true;
    printf("# in gdb:\n%s", with.text);
    return false;
}

static void result(int *number, int *failed, bool ok, const char *name, const char *more)
{
    printf("%sok %d - %s%s\n", ok ? "" : "not ", ++*number, name, more);
    fflush(stdout);
    *failed += !ok;
}

int main(int argc, char **argv)
{
    static const char *const sanitized[] = {"probes", "crash", "handler jumps", "abort", "threads"};
    enum { SANITIZED = sizeof sanitized / sizeof *sanitized };
    const char *const plain[] = {argv[0], NULL};
    int number = 0, failed = 0;
    unsetenv("LD_PRELOAD");
    if (argc == 3 && strcmp(argv[1], "=") == 0)
        return program_main(argv[2]);
    if (argc != 2 && argc != 4)
        return 2;
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, AREA_PAGE) != 0)
        return 1;
    area = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    printf("1..%d\n", PROGRAMS + 1 + SANITIZED);
    for (int i = 0; i < PROGRAMS; i++)
        result(&number, &failed, compare(plain, &programs[i], argv[1], programs[i].noted), programs[i].name, "");
    if (access("/usr/bin/gdb", X_OK) == 0)
        result(&number, &failed, in_debugger(argv[0], argv[1]), "in a debugger", "");
    else
        result(&number, &failed, true, "in a debugger", " # SKIP there is no gdb");
    for (int i = 0; i < SANITIZED; i++) {
        char libraries[2 * PATH_MAX + 2];
        if (argc != 4) {
            result(&number, &failed, true, sanitized[i], " # SKIP there is no address sanitizer");
            continue;
        }
        const char *const arguments[] = {argv[3], NULL};
        snprintf(libraries, sizeof libraries, "%s:%s", argv[2], argv[1]);
        /* its handlers stay in place, so that nothing is noted */
        result(&number, &failed, compare(arguments, program_of(sanitized[i]), libraries, 0), sanitized[i],
               ", address sanitizer");
    }
    unlink(path);
    return failed != 0;
}
