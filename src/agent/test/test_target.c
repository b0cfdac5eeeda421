/* SPDX-License-Identifier: Apache-2.0 */
/* Programs for test_agent.c, one a scenario; compiled with -finstrument-functions. */
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <scry/agent.h>

#define HIDDEN __attribute__((no_instrument_function))
#define APART __attribute__((noinline))

static volatile int sink;

APART int leaf(int n)
{
    return sink = n + 1;
}

APART int twice(int n)
{
    return leaf(leaf(n));
}

/* ---- nest: calls in calls, recursion ---- */

APART int down(int n)
{
    return n ? down(n - 1) + 1 : leaf(0);
}

APART int nest(void)
{
    scry_mark("begin");
    int sum = twice(1) + down(3);
    scry_trace_off();
    leaf(9);
    scry_trace_on();
    return sum;
}

/* ---- inlined: bodies in one frame ---- */

static inline __attribute__((always_inline)) int inner(int n)
{
    return leaf(n) + 1;
}

static inline __attribute__((always_inline)) int middle(int n)
{
    return inner(n) + inner(n + 1);
}

APART int inlined(void)
{
    return middle(1) + middle(2);
}

/* ---- alloca: the stack pointer differs between entry and exit ---- */

APART int grow(int n)
{
    char *bytes = alloca((size_t)n * 16 + 16);
    memset(bytes, n, (size_t)n * 16);
    sink = bytes[n];
    return n ? grow(n - 1) + leaf(n) : 0;
}

/* ---- jump: longjmp over frames ---- */

static jmp_buf jump_to;

APART void jump_out(int n)
{
    if (n == 0)
        longjmp(jump_to, 1);
    jump_out(n - 1);
    sink++;
}

APART int jump(void)
{
    int back = setjmp(jump_to);
    if (!back) {
        jump_out(2);
    }
    leaf(1);
    if (setjmp(jump_to) == 0)
        jump_out(0);
    return back;
}

/* ---- many: n calls ---- */

APART void many(int n)
{
    for (int i = 0; i < n; i++)
        leaf(i);
}

/* ---- fib: many calls inside each other ---- */

APART int fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

/* ---- held: a call that stays open while n others of the function come and go ---- */

APART int held(int n)
{
    size_t size = n ? 4096 : 16;
    char *bytes = alloca(size);
    memset(bytes, n, size);
    sink = bytes[0];
    for (int i = 0; i < n; i++)
        held(0);
    return sink;
}

/* ---- alone: n calls, then as many in a thread that calls nothing else, and lives as long as the program ---- */

static sem_t alone_done;

static HIDDEN void *alone(void *count)
{
    for (int i = 0; i < *(int *)count; i++)
        leaf(i);
    sem_post(&alone_done);
    for (;;)
        pause();
}

static HIDDEN void thread_alone(int n)
{
    pthread_t id;
    many(n);
    sem_init(&alone_done, 0, 0);
    if (pthread_create(&id, NULL, alone, &n) == 0)
        sem_wait(&alone_done);
}

/* ---- deep: n frames ---- */

APART int deep(int n)
{
    int below = n > 1 ? deep(n - 1) : leaf(n);
    return below + sink;
}

/* ---- swap: two coroutines on stacks of their own ---- */

static ucontext_t main_context, contexts[2];

APART void step(int which)
{
    sink = which;
}

static void coroutine(int which)
{
    for (int i = 0; i < 2; i++) {
        step(which);
        swapcontext(&contexts[which], &main_context);
    }
}

APART void swap(void)
{
    for (int i = 0; i < 2; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_size = 65536;
        contexts[i].uc_stack.ss_sp = malloc(65536);
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 2; i++)
            swapcontext(&main_context, &contexts[i]);
    for (int i = 0; i < 2; i++)
        free(contexts[i].uc_stack.ss_sp);
}

/* ---- alternate: a handler on a signal stack ---- */

static void handler(int number)
{
    leaf(number);
}

APART void alternate(void)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    leaf(1);
    raise(SIGUSR1);
}

static sigjmp_buf small_back;

static void small_jump(int number)
{
    void (*volatile to)(sigjmp_buf, int) = siglongjmp; /* that the linker has found */
    to(small_back, number);
}

static void small_fork(int number)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(leaf(number) == number + 1 ? 0 : 9);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        _exit(9);
}

static HIDDEN void *small_handle(void *stack)
{
    sigaltstack(stack, NULL);
    raise(SIGUSR1);
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    return NULL;
}

/* It has room for what the kernel needs and for the handler; what lies below is the program's. */
APART void alternate_small(const char *how)
{
    struct {
        char below[8192], stack[16384];
    } *memory = malloc(sizeof *memory);
    memset(memory->below, 0x55, sizeof memory->below);
    void *nowhere = (void *)0x10000; /* NOLINT: where nothing is mapped */
    if (sigaltstack(nowhere, NULL) == 0 || errno != EFAULT || syscall(SYS_sigaltstack, nowhere, NULL) == 0 ||
        errno != EFAULT)
        _exit(9);
    bool jumps = strcmp(how, "jump") == 0, forks = strcmp(how, "fork") == 0;
    size_t room = jumps ? 256 : forks ? 4600 : 768;
    stack_t stack = {.ss_sp = memory->stack, .ss_size = getauxval(AT_MINSIGSTKSZ) + room}, own = stack;
    struct sigaction action = {.sa_handler = jumps ? small_jump : forks ? small_fork : handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    leaf(1); /* the linker has found the hooks: that takes more than the handler */
    if (strcmp(how, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, small_handle, &stack);
        pthread_join(thread, NULL);
    } else {
        if (strcmp(how, "swapped") == 0)
            sigaltstack(&stack, &stack);
        else if (strcmp(how, "raw") == 0)
            syscall(SYS_sigaltstack, &stack, NULL);
        else
            sigaltstack(&stack, NULL);
        if (!jumps || sigsetjmp(small_back, 1) == 0)
            raise(SIGUSR1);
        own.ss_flags = SS_DISABLE;
        sigaltstack(&own, NULL);
    }
    for (size_t i = 0; i < sizeof memory->below; i++)
        if (memory->below[i] != 0x55)
            _exit(9);
    free(memory);
}

/* ---- storm: signals at any moment, some of which are left by siglongjmp ---- */

static sigjmp_buf storm_back;
static volatile sig_atomic_t storms, storm_jumps;

static void storm_handler(int number)
{
    storms++;
    leaf(1);
    twice(2);
    if (storm_jumps && storms % 3 == 0)
        siglongjmp(storm_back, 1);
}

static HIDDEN void storm(int n, int on_stack, int jumps)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = storm_handler, .sa_flags = on_stack ? SA_ONSTACK : 0};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 100}, {0, 100}};
    storm_jumps = jumps;
    setitimer(ITIMER_REAL, &every, NULL);
    while (storms < n)
        if (sigsetjmp(storm_back, 1) == 0)
            while (storms < n)
                twice(1);
    every = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
}

/* ---- processes ---- */

APART void in_child(void)
{
    leaf(7);
}

APART void in_parent(void)
{
    leaf(8);
}

APART void forks(int raw)
{
    pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
    if (pid == 0) {
        in_child();
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    in_parent();
}

/* So many children that do something first, and then call something; with "idle" they call nothing. */
APART void forks_after(const char *how, int n)
{
    for (int i = 0; i < n; i++) {
        pid_t pid = i % 3 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
            struct sock_fprog program = {1, allow};
            if (strcmp(how, "forks-nofile") == 0)
                setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
            if (strcmp(how, "forks-sealed") == 0)
                prctl(PR_SET_SECCOMP, i % 2 ? SECCOMP_MODE_FILTER : SECCOMP_MODE_STRICT, i % 2 ? &program : NULL, 0, 0);
            for (int k = 0; strcmp(how, "forks-idle") != 0 && k < 3; k++)
                in_child();
            syscall(SYS_exit, 0);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || status)
            _exit(1);
    }
    if (strcmp(how, "forks-idle") == 0)
        forks(0);
}

/* One after the other; each child forks, too. */
APART void forks_many(int n)
{
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            in_child();
            pid = fork();
            in_child();
            if (pid > 0)
                waitpid(pid, NULL, 0);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
}

/* Each is the first process of a namespace inside its parent's: all but the outermost have the same number. */
APART void forks_nested(int depth, int raw)
{
    bool none = !raw && unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0;
    pid_t pid = none ? -1 : raw ? (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, 0, 0, 0, 0) : fork();
    if (pid == 0) {
        in_child();
        if (depth > 1)
            forks_nested(depth - 1, raw);
        _exit(0);
    }
    if (pid < 0) {
        printf("no namespaces\n");
        fflush(stdout);
    }
    waitpid(pid, NULL, 0);
}

APART void vforks(void)
{
    static volatile int ran;
    pid_t pid = vfork();
    if (pid == 0) {
        ran = 1;
        leaf(1);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    in_parent();
}

/* In a child that has called nothing traced yet, and then does. */
APART void fork_vforks(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        pid = vfork();
        if (pid == 0) {
            leaf(1);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        in_child();
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

/* ---- fork-storm: handlers that fork at any moment, and children that go on there ---- */

static volatile sig_atomic_t child_status; /* of one that failed */

static HIDDEN void fork_soon(void)
{
    const struct itimerval once = {{0, 0}, {0, 1000}};
    setitimer(ITIMER_REAL, &once, NULL);
}

static HIDDEN void forking_handler(int number)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        storms = INT_MAX; /* it leaves the loop, and ends */
        return;
    }
    waitpid(pid, &status, 0);
    child_status = status ? status : child_status;
    storms++;
    fork_soon();
}

static HIDDEN int fork_storm(int n)
{
    struct sigaction action = {.sa_handler = forking_handler};
    sigaction(SIGALRM, &action, NULL);
    fork_soon();
    while (storms < n)
        twice(1);
    signal(SIGALRM, SIG_IGN);
    if (storms == INT_MAX)
        _exit(0);
    return child_status;
}

/* ---- threads: n of them, `sink` calls each ---- */

static pthread_key_t late_key;

static void late(void *value)
{
    leaf(1);
}

static void *thread(void *arg)
{
    pthread_setspecific(late_key, arg);
    for (int i = 0; i < 50; i++)
        twice(i);
    return NULL;
}

/* So many at once that whoever collects keeps up: it reads our output between collecting, and a full pipe waits for it. */
static HIDDEN void threads(int n)
{
    enum { AT_ONCE = 50, PIPE = 4096 };
    static const char text[2 * PIPE];
    pthread_t ids[AT_ONCE];
    fcntl(STDOUT_FILENO, F_SETPIPE_SZ, PIPE);
    pthread_key_create(&late_key, late);
    for (int done = 0; done < n; done += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++)
            pthread_create(&ids[i], NULL, thread, &late_key);
        for (int i = 0; i < AT_ONCE; i++)
            pthread_join(ids[i], NULL);
        if (write(STDOUT_FILENO, text, sizeof text) < 0)
            _exit(1);
    }
}

static HIDDEN void threads_together(int n)
{
    pthread_t *ids = calloc((size_t)n, sizeof *ids);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    pthread_key_create(&late_key, late);
    for (int i = 0; i < n; i++)
        pthread_create(&ids[i], &attr, thread, &late_key);
    for (int i = 0; i < n; i++)
        pthread_join(ids[i], NULL);
    free(ids);
}

/* ---- crowd, limited: what threads cost of a limited address space ---- */

static HIDDEN long address_space_kb(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%ld", &pages) != 1)
        _exit(1);
    fclose(statm);
    return pages * 4;
}

static HIDDEN void address_space_limit(long kb)
{
    rlim_t bytes = (rlim_t)(address_space_kb() + kb) * 1024;
    setrlimit(RLIMIT_AS, &(struct rlimit){bytes, RLIM_INFINITY});
}

static pthread_barrier_t crowd_is_there, crowd_may_go;

static void *crowd_member(void *arg)
{
    twice(1);
    pthread_barrier_wait(&crowd_is_there);
    pthread_barrier_wait(&crowd_may_go);
    return arg;
}

/* All live at once. Says how many could not be made, and what one costs. */
static HIDDEN void crowd(int n)
{
    enum { STACK_KB = 64, GUARD_KB = 4 };
    pthread_t *ids = calloc((size_t)n, sizeof *ids);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_KB * 1024);
    pthread_barrier_init(&crowd_is_there, NULL, (unsigned)n + 1);
    pthread_barrier_init(&crowd_may_go, NULL, (unsigned)n + 1);
    long before = address_space_kb();
    address_space_limit((long)n * (STACK_KB + GUARD_KB) + (1L << 20));
    int made = 0;
    while (made < n && pthread_create(&ids[made], &attr, crowd_member, NULL) == 0)
        made++;
    if (made < n) {
        printf("only %d threads\n", made);
        exit(1);
    }
    pthread_barrier_wait(&crowd_is_there);
    printf("each %ld KB\n", (address_space_kb() - before) / n - STACK_KB - GUARD_KB);
    pthread_barrier_wait(&crowd_may_go);
    for (int i = 0; i < n; i++)
        pthread_join(ids[i], NULL);
    free(ids);
}

static void *limited_thread(void *arg)
{
    long before = address_space_kb();
    address_space_limit(32 << 10);
    deep(*(int *)arg);
    printf("took %ld KB\n", address_space_kb() - before);
    return NULL;
}

static HIDDEN void limited(int n)
{
    pthread_t id;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 20);
    pthread_create(&id, &attr, limited_thread, &n);
    pthread_join(id, NULL);
}

/* ---- load: a library that comes and goes ---- */

APART void load(const char *path, int calls)
{
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(path, RTLD_NOW);
        int (*function)(int) = (int (*)(int))dlsym(library, "loaded");
        for (int n = i ? 1 : calls; n > 0; n--)
            function(i);
        dlclose(library);
    }
}

/* ---- slow: one call in three takes long ---- */

static HIDDEN void spin(long us)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

APART void sleeper(int n)
{
    if (n % 3 == 0)
        spin(20000);
}

APART void holder(int n)
{
    leaf(n);
    sleeper(n);
    leaf(n);
}

APART void slow(int n)
{
    for (int i = 0; i < n; i++)
        holder(i);
}

/* ---- bounds of what it does to the process ---- */

static HIDDEN int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static HIDDEN int run(const char *what, const char *argument, int n)
{
    if (strcmp(what, "nest") == 0)
        nest();
    else if (strcmp(what, "inlined") == 0)
        inlined();
    else if (strcmp(what, "alloca") == 0)
        grow(n);
    else if (strcmp(what, "jump") == 0)
        jump();
    else if (strcmp(what, "many") == 0)
        many(n);
    else if (strcmp(what, "fib") == 0)
        fib(n);
    else if (strcmp(what, "held") == 0)
        held(n);
    else if (strcmp(what, "alone") == 0)
        thread_alone(n);
    else if (strcmp(what, "deep") == 0)
        deep(n);
    else if (strcmp(what, "swap") == 0)
        swap();
    else if (strcmp(what, "alternate") == 0)
        alternate();
    else if (strcmp(what, "alternate-small") == 0)
        alternate_small(argument);
    else if (strcmp(what, "storm") == 0)
        storm(n, 0, 0);
    else if (strcmp(what, "storm-alternate") == 0)
        storm(n, 1, 0);
    else if (strcmp(what, "storm-jump") == 0)
        storm(n, 0, 1);
    else if (strcmp(what, "storm-alternate-jump") == 0)
        storm(n, 1, 1);
    else if (strcmp(what, "fork") == 0)
        forks(0);
    else if (strncmp(what, "forks-", 6) == 0)
        forks_after(what, n);
    else if (strcmp(what, "forks") == 0)
        forks_many(n);
    else if (strcmp(what, "clone") == 0)
        forks(1);
    else if (strcmp(what, "fork-nested") == 0)
        forks_nested(n, 0);
    else if (strcmp(what, "clone-nested") == 0)
        forks_nested(n, 1);
    else if (strcmp(what, "fork-storm") == 0)
        return fork_storm(n);
    else if (strcmp(what, "fork-vfork") == 0)
        fork_vforks();
    else if (strcmp(what, "vfork") == 0)
        vforks();
    else if (strcmp(what, "threads") == 0)
        threads(n);
    else if (strcmp(what, "together") == 0)
        threads_together(n);
    else if (strcmp(what, "crowd") == 0)
        crowd(n);
    else if (strcmp(what, "limited") == 0)
        limited(n);
    else if (strcmp(what, "load") == 0)
        load(argument, 1);
    else if (strcmp(what, "load-many") == 0)
        load(argument, 5000000);
    else if (strcmp(what, "slow") == 0)
        slow(n);
    else if (strcmp(what, "descriptors") == 0)
        return descriptors();
    return 0;
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    int result = argc > 1 ? run(argv[1], argc > 2 ? argv[2] : "", n) : 0;
    printf("done %d %d\n", n, result);
    return 0;
}
