/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/own_memory.h"

#include "base/system/proc_file.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_LEAST = 1 << 20 };

static struct {
    int (*fn)(int argc, char **argv);
    int argc, result;
    char **argv;
} run;

static void run_it(void)
{
    run.result = run.fn(run.argc, run.argv);
}

/* The kernel applies the limit only to the stack that it made itself. */
int stack_run(int (*fn)(int argc, char **argv), int argc, char **argv)
{
    static ucontext_t before, inside;
    struct rlimit limit;
    pthread_attr_t attributes;
    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= STACK_LEAST)
        return fn(argc, argv);
    if (pthread_attr_init(&attributes) == 0) {
        if (pthread_attr_setstacksize(&attributes, STACK_LEAST) == 0)
            pthread_setattr_default_np(&attributes);
        pthread_attr_destroy(&attributes);
    }
    void *stack = mmap(NULL, STACK_LEAST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || getcontext(&inside) < 0)
        return fn(argc, argv);
    run.fn = fn;
    run.argc = argc;
    run.argv = argv;
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK_LEAST;
    inside.uc_link = &before;
    makecontext(&inside, run_it, 0);
    if (swapcontext(&before, &inside) < 0)
        return fn(argc, argv);
    return run.result;
}

enum { STACK_MARGIN = 16384 /* below here, for what is called now */ };

/* A user's own files may be gone by now, where others can remove them: the code that is in memory of those stays there,
 * but not what only the loader reads, which lies at the beginning. */
static bool is_system(const char *path)
{
    return strncmp(path, "/lib", 4) == 0 || strncmp(path, "/usr/lib", 8) == 0;
}

/* Only what is never written to: relocated pages lie in segments that are writable at first. */
static int drop_code(struct dl_phdr_info *info, size_t size, void *ctx)
{
    const uintptr_t page = *(const uintptr_t *)ctx;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t from = (info->dlpi_addr + segment->p_vaddr) & ~(page - 1);
        uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        bool system = is_system(info->dlpi_name) || (!segment->p_offset && !(segment->p_flags & PF_X));
        if (segment->p_type == PT_LOAD && !(segment->p_flags & PF_W) && system)
            madvise((void *)from, end - from, MADV_DONTNEED); /* NOLINT: an address */
    }
    return 0;
}

static void drop_stack(uintptr_t page)
{
    struct proc_maps maps;
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (proc_maps_read(getpid(), &maps) < 0)
        return;
    const struct proc_map *stack = proc_maps_find(&maps, here);
    const uintptr_t end = (here - STACK_MARGIN) & ~(page - 1);
    if (stack && end > stack->start)
        madvise((void *)(uintptr_t)stack->start, end - stack->start, MADV_DONTNEED); /* NOLINT: an address */
    proc_maps_done(&maps);
}

/* The C library looks for calloc, which others may replace, when it first calls it itself: that would bring back the
 * loader and all tables of symbols. */
static void bind_calls(void)
{
    struct hsearch_data table = {0};
    if (hcreate_r(1, &table))
        hdestroy_r(&table);
}

void start_memory_drop(void)
{
    bind_calls();
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    drop_stack(page);
    malloc_trim(0);
    dl_iterate_phdr(drop_code, &page);
}

enum { PAGE = 4096 };

static _Atomic uint64_t faults;

static void on_fault(int signo, siginfo_t *info, void *context)
{
    int code = errno;
    void *page = (void *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1)); /* of a raise() it is any number */
    if (info->si_code != BUS_ADRERR ||
        mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        signal(signo, SIG_DFL); /* it comes again when we return */
    else
        atomic_fetch_add(&faults, 1);
    errno = code;
}

void map_guard_install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

uint64_t map_guard_faults(void)
{
    return atomic_load(&faults);
}
