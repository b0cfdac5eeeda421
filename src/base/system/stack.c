/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/stack.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

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
