/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that does what it is told on standard input, one command a line, and says what it did: what a monitor
 * should have seen. It starts by printing `name value` lines (addresses in hexadecimal, thread ids) that end with
 * `ready`; every command is answered with one line.
 *
 *     puppet [WORKERS]        threads that wait for `all` or `spin` beside the first one
 *
 * commands[] at the end is the list of what it can do.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEPARATE __attribute__((noinline, noclone))

enum { WORKERS = 64, LEAF_STATUS = 42, BUFFER_SIZE = 4096, STACK_SIZE = 65536 };

struct worker {
    pthread_t thread;
    pid_t tid;
    atomic_long turns; /* counted while it spins */
};

static const char *self;
static int worker_count;
static struct worker workers[WORKERS];
static atomic_long hits, others, called;
static atomic_int spinning, to_hit, busy, started;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long job; /* increases with every order to the workers */
static atomic_int signal_counts[65];
static unsigned char buffer[BUFFER_SIZE];
static unsigned char *pages; /* one to write, one that is a file's and can only be read, one that is not there */
extern char **environ;

/* ---- what breakpoints are set on ---- */

SEPARATE void hit(void);
SEPARATE void hit(void)
{
    atomic_fetch_add(&hits, 1);
}

SEPARATE void other(void);
SEPARATE void other(void)
{
    atomic_fetch_add(&others, 1);
}

/* For thread_call: leaves nothing as it was but what a function has to preserve. */
SEPARATE long callee(void);
SEPARATE long callee(void)
{
    long result;
    atomic_fetch_add(&called, 1);
    errno = EILSEQ;
    __asm__ volatile("xor %%eax, %%eax\n dec %%rax\n mov %%rax, %%rcx\n mov %%rax, %%rdx\n mov %%rax, %%rsi\n"
                     "mov %%rax, %%rdi\n mov %%rax, %%r8\n mov %%rax, %%r9\n mov %%rax, %%r10\n mov %%rax, %%r11\n"
                     "pcmpeqd %%xmm0, %%xmm0\n movdqa %%xmm0, %%xmm7\n movdqa %%xmm0, %%xmm15\n"
                     : "=a"(result)
                     :
                     : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm7", "xmm15", "cc", "memory");
    return result;
}

/* ---- workers ---- */

static void *work(void *argument)
{
    struct worker *worker = argument;
    long seen = 0;
    worker->tid = gettid();
    atomic_fetch_add(&started, 1);
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (job == seen)
            pthread_cond_wait(&changed, &mutex);
        seen = job;
        pthread_mutex_unlock(&mutex);
        for (int n = atomic_load(&to_hit); n > 0; n--)
            hit();
        while (atomic_load(&spinning))
            atomic_fetch_add_explicit(&worker->turns, 1, memory_order_relaxed);
        atomic_fetch_sub(&busy, 1);
    }
    return NULL;
}

static void order(int hits_each, int spin)
{
    atomic_store(&to_hit, hits_each);
    atomic_store(&spinning, spin);
    atomic_store(&busy, worker_count);
    pthread_mutex_lock(&mutex);
    job++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void wait_for_workers(void)
{
    while (atomic_load(&busy))
        usleep(200);
}

/* ---- commands: each prints its one line ---- */

static void do_hit(const char *text)
{
    for (int n = atoi(text); n > 0; n--)
        hit();
    printf("%ld\n", atomic_load(&hits));
}

static void do_other(const char *text)
{
    for (int n = atoi(text); n > 0; n--)
        other();
    printf("%ld\n", atomic_load(&others));
}

static void do_all(const char *text)
{
    order(atoi(text), 0);
    wait_for_workers();
    printf("%ld\n", atomic_load(&hits));
}

/* All have left the mutex: who is stopped from now on keeps nobody from spinning. */
static void wait_until_all_spin(void)
{
    for (int i = 0; i < worker_count; i++)
        for (long before = atomic_load(&workers[i].turns); atomic_load(&workers[i].turns) == before;)
            usleep(200);
}

static void do_spin(const char *text)
{
    if (atoi(text)) {
        order(0, 1);
        wait_until_all_spin();
    } else {
        atomic_store(&spinning, 0);
        wait_for_workers();
    }
    printf("%d\n", atoi(text));
}

static void do_turns(const char *text)
{
    for (int i = 0; i < worker_count; i++)
        printf("%s%ld", i ? " " : "", atomic_load(&workers[i].turns));
    printf("\n");
}

static void do_called(const char *text)
{
    printf("%ld\n", atomic_load(&called));
}

/* What a child does with inherited code: it must not trip over anybody's breakpoints. */
static int child_work(void)
{
    long before = atomic_load(&hits);
    for (int i = 0; i < 3; i++)
        hit();
    return atomic_load(&hits) == before + 3 ? LEAF_STATUS : 1;
}

static void report_child(pid_t pid)
{
    int how = -1;
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    printf("%d %d\n", pid, WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how));
}

static void do_fork(const char *text)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_work());
    report_child(pid);
}

static void do_vfork(const char *text)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execl(self, self, "--leaf", (char *)NULL);
        _exit(127);
    }
    report_child(pid);
}

/* The child works in our memory, with whatever is set in it. */
static void do_borrow(const char *text)
{
    pid_t pid = vfork();
    if (pid == 0) {
        for (int i = 0; i < 3; i++)
            hit();
        _exit(LEAF_STATUS);
    }
    report_child(pid);
}

static void do_spawn(const char *text)
{
    char name[] = "puppet", leaf[] = "--leaf", *argv[] = {name, leaf, NULL};
    pid_t pid;
    if (posix_spawn(&pid, self, NULL, NULL, argv, environ) != 0)
        printf("0 0\n");
    else
        report_child(pid);
}

static void *short_life(void *argument)
{
    *(pid_t *)argument = gettid();
    hit();
    return NULL;
}

static void *breathe(void *arg)
{
    return arg;
}

static void *breed(void *arg)
{
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, breathe, NULL) == 0)
            pthread_detach(thread);
    }
    return arg;
}

static void do_breed(const char *text)
{
    pthread_t thread;
    for (int n = atoi(text); n > 0; n--)
        pthread_create(&thread, NULL, breed, NULL);
    printf("%d\n", atoi(text));
}

static void do_thread(const char *text)
{
    pthread_t thread;
    pid_t tid = 0;
    if (pthread_create(&thread, NULL, short_life, &tid) == 0)
        pthread_join(thread, NULL);
    printf("%d\n", tid);
}

/* One more worker. */
static void do_more(const char *text)
{
    struct worker *worker = &workers[worker_count];
    if (worker_count < WORKERS && pthread_create(&worker->thread, NULL, work, worker) == 0)
        worker_count++;
    while (atomic_load(&started) < worker_count)
        usleep(100);
    printf("%d\n", worker->tid);
}

static void do_exec(const char *text)
{
    execl(self, self, (char *)NULL);
    printf("%s\n", strerror(errno));
}

static void *execute(void *argument)
{
    do_exec("");
    return argument;
}

/* Not the first thread, which is gone then; the new program has its id. */
static void do_texec(const char *text)
{
    pthread_t thread;
    pthread_create(&thread, NULL, execute, NULL);
    pthread_join(thread, NULL);
}

static void count_signal(int signo)
{
    atomic_fetch_add(&signal_counts[signo], 1);
}

static void do_raise(const char *text)
{
    int signo = atoi(text);
    raise(signo);
    printf("%d\n", atomic_load(&signal_counts[signo]));
}

static void do_signals(const char *text)
{
    printf("%d\n", atomic_load(&signal_counts[atoi(text)]));
}

/* Numbers that are also in /proc. */
static void do_usage(const char *text)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("%.6f %.6f %ld %ld %ld %ld %ld\n", (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6,
           (double)u.ru_stime.tv_sec + (double)u.ru_stime.tv_usec / 1e6, u.ru_maxrss, u.ru_minflt, u.ru_majflt,
           u.ru_nvcsw, u.ru_nivcsw);
}

static void do_nice(const char *text)
{
    errno = 0;
    printf("%d\n", getpriority(PRIO_PROCESS, 0));
}

static int print_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD)
            printf("%s|%lx|%lx|%lx|%x ", info->dlpi_name, (unsigned long)(info->dlpi_addr + p->p_vaddr),
                   (unsigned long)p->p_filesz, (unsigned long)p->p_memsz, p->p_flags);
    }
    return 0;
}

static void do_modules(const char *text)
{
    dl_iterate_phdr(print_module, NULL);
    printf("\n");
}

static void print_hex(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

static void do_dump(const char *text)
{
    unsigned at = 0, len = 0;
    sscanf(text, "%u %u", &at, &len);
    print_hex(buffer + at, at + len <= BUFFER_SIZE ? len : 0);
}

static void do_page(const char *text)
{
    unsigned at = 0, len = 0;
    sscanf(text, "%u %u", &at, &len);
    print_hex(pages + at, at + len <= 2 * BUFFER_SIZE ? len : 0);
}

/* A system call with parameters one can recognise; prints its number, result and parameters. */
static void do_call(const char *text)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    long result = syscall(SYS_pwrite64, fd, buffer, 77L, 0x1234L);
    printf("%d %ld %d %lu 77 %d\n", SYS_pwrite64, result, fd, (unsigned long)buffer, 0x1234);
    close(fd);
}

/* One that fails. */
static void do_fail(const char *text)
{
    long result = syscall(SYS_dup2, -1, 55);
    printf("%d %ld\n", SYS_dup2, result < 0 ? -errno : result);
}

/* The first thread ends, the workers stay. */
static void do_leave(const char *text)
{
    printf("left\n");
    fflush(stdout);
    pthread_exit(NULL);
}

static void do_quit(const char *text)
{
    exit(atoi(text));
}

static const struct {
    const char *name;
    void (*function)(const char *text);
} commands[] = {
    {"hit", do_hit},         /* hit N: calls hit() N times; prints how often it was called in all */
    {"other", do_other},     /* the same with other() */
    {"all", do_all},         /* all N: every worker calls hit() N times, at the same time */
    {"spin", do_spin},       /* spin 1, spin 0: the workers count turns, or wait again */
    {"turns", do_turns},     /* the workers' turns so far */
    {"called", do_called},   /* how often callee() was called */
    {"fork", do_fork},       /* a child that calls hit() three times; prints its pid and exit status */
    {"vfork", do_vfork},     /* a child that executes this program, by vfork */
    {"borrow", do_borrow},   /* a child that calls hit() three times in our memory, by vfork */
    {"spawn", do_spawn},     /* the same by posix_spawn */
    {"breed", do_breed},     /* breed N: N threads make others without end, which do nothing; prints N */
    {"thread", do_thread},   /* a thread that calls hit() once; prints its id */
    {"more", do_more},       /* one more worker; prints its id */
    {"exec", do_exec},       /* becomes this program again, without workers */
    {"texec", do_texec},     /* the same from another thread */
    {"raise", do_raise},     /* raise SIGNAL; prints how often the handler was called */
    {"signals", do_signals}, /* signals SIGNAL: how often its handler was called */
    {"usage", do_usage},     /* user and system seconds, peak KiB, minor and major faults, switches */
    {"nice", do_nice},       /* the nice value */
    {"modules", do_modules}, /* path|address|file size|memory size|flags of all segments */
    {"dump", do_dump},       /* dump AT LENGTH: bytes of the buffer */
    {"page", do_page},       /* the same of the mapped pages */
    {"call", do_call},       /* pwrite64: prints number, result and parameters */
    {"fail", do_fail},       /* dup2(-1, 55): prints number and result */
    {"leave", do_leave},     /* the first thread ends */
    {"quit", do_quit},       /* quit STATUS */
};

static int map_pages(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    pages = mmap(NULL, 3 * BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fd < 0 || pages == MAP_FAILED)
        return -1;
    if (mmap(pages + BUFFER_SIZE, BUFFER_SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return -1;
    close(fd);
    return munmap(pages + 2 * BUFFER_SIZE, BUFFER_SIZE);
}

static void start_workers(void)
{
    for (int i = 0; i < worker_count; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(2);
    while (atomic_load(&started) < worker_count)
        usleep(100);
}

static void introduce(void)
{
    printf("pid %d\nuid %d\ngid %d\nhit %p\nother %p\ncallee %p\nbuffer %p\npages %p\n", getpid(), geteuid(), getegid(),
           (void *)(uintptr_t)hit, (void *)(uintptr_t)other, (void *)(uintptr_t)callee, (void *)buffer, (void *)pages);
    printf("hits %p\nturns %p\nturn_size %zu\n", (void *)&hits, (void *)&workers[0].turns, sizeof workers[0]);
    for (int i = 0; i < worker_count; i++)
        printf("worker %d\n", workers[i].tid);
    printf("ready\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char line[256], exe[4096];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (argc > 1 && strcmp(argv[1], "--leaf") == 0)
        return LEAF_STATUS;
    if (len < 0)
        return 2;
    exe[len] = 0;
    self = exe;
    worker_count = argc > 1 ? atoi(argv[1]) : 0;
    if (worker_count < 0 || worker_count > WORKERS || map_pages(exe) < 0)
        return 2;
    for (unsigned i = 0; i < BUFFER_SIZE; i++)
        buffer[i] = (unsigned char)(i * 7);
    signal(SIGUSR1, count_signal);
    signal(SIGUSR2, count_signal);
    signal(SIGRTMIN + 3, count_signal);
    start_workers();
    introduce();
    for (;;) {
        /* read() itself, so that nothing is lost in a buffer when the program executes itself */
        size_t at = 0;
        ssize_t got = 1;
        while (at < sizeof line - 1 && (got = read(0, line + at, 1)) > 0 && line[at] != '\n')
            at++;
        if (got <= 0)
            return got < 0;
        line[at] = 0;
        size_t word = strcspn(line, " ");
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (strlen(commands[i].name) == word && memcmp(line, commands[i].name, word) == 0)
                commands[i].function(line + word);
        fflush(stdout);
    }
}
