/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for test_agent.c: goes through calls one instruction at a time (the trap flag), and at each of them in turn
 * a signal's handler comes, which may call functions itself, be interrupted in the same way, and never return.
 *
 *     MODE[,MODE...] [STRIDE[:FROM[:TO[:ROOM]]]]
 *
 * MODE: see below. STRIDE: of the instructions in nested handlers only each so-manieth is tried; FROM, TO: of the
 * call's instructions only these; ROOM: bytes left in the packet before the call (full). TEST_EVERY=EVERY:FIRST in the
 * environment: of these only each so-manieth, from the FIRST one on.
 *
 * values: the call is of a function whose entry and exit have values, a pointer and what it leads to.
 *
 * With TEST_MPI the calls that are gone through are MPI's, as the interposer tells of them; those of handlers are not.
 * acts: a list of actions is run at one more. fork: the handler forks, and parent and child go on from there. late: so long
 * after the record before that the time of the next one takes more room than others'.
 *
 * int3 sets the trap flag; from there on each instruction raises SIGTRAP.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#include <scry/agent.h>

#include "shm/area.h"
#include "shm/record.h"

#ifdef TEST_MPI
#include "agent/hooks/mpi_host.h"
#include "shm/mpi_told.h"
#endif

#define HIDDEN __attribute__((no_instrument_function, noinline))
#define APART __attribute__((noinline))
#define STEP() __asm__ volatile("int3" ::: "memory")

enum { TRAP_FLAG = 0x100, LEVELS = 2, STACK = 1 << 17, VALUES_PROGRAM = 48, EDGE = 255 /* frames: four pages */ };

static struct {
    int calls;          /* the handlers call functions */
    int nested;         /* and are interrupted in these */
    int stack;          /* handlers have a stack of their own */
    int jump;           /* the (innermost) handler leaves by siglongjmp */
    int silent;         /* or in a way of which nobody tells the agent */
    int inner;          /* but only the other handler */
    int full;           /* the packet is full in the midst */
    int messages, says; /* what MPI's calls bring: messages; values at their ends */
    int edge;           /* the shadow stack, which is a new thread's, is as full as it may be before it grows */
    int values;         /* of the call */
    int acts, fork, late;
    int again; /* the handler returns, and comes once more soon after: only then it may leave */
} mode;

static sigjmp_buf back[LEVELS];
static void *silent_back[5];
/* 0: the call in main, 1: those in its handler */
static volatile long left[LEVELS];
static volatile int level, returned, came, forked;
static volatile int sink;

APART int leaf(int n)
{
    return sink = n + 1;
}

APART int twice(int n)
{
    return leaf(leaf(n));
}

APART int after(int n)
{
    return sink = n;
}

APART int within(int n)
{
    return sink = n;
}

#ifdef TEST_MPI
extern const struct mpi_host *test_mpi_host;

#define MESSAGE \
    { \
        .comm = 1, .bytes = 2, .order = 3, .call = 4, .peer = 5, .tag = 6 \
    }
static struct mpi_messages with = {.list = {MESSAGE, MESSAGE}}, more = {.count = 1, .list = {MESSAGE}};

static HIDDEN void act(uint64_t site)
{
    struct mpi_told told;
    struct mpi_messages none = {.count = 0};
    uint64_t acts = atomic_load(&test_mpi_host->acts[CALL_MPI_Isend]);
    told.par[2] = 1;
    if (acts && test_mpi_host->call_acts(CALL_MPI_Isend, &told, acts))
        return;
    told.flags = 0;
    test_mpi_host->call_begins(CALL_MPI_Isend, site, &told, &none);
    test_mpi_host->call_ends(CALL_MPI_Isend, site, &told, &none);
}

/* No more than is needed: each instruction counts. */
static HIDDEN int outer(int n)
{
    if (mode.acts)
        act((uint64_t)__builtin_return_address(0));
    if (mode.fork)
        return n;
    struct mpi_told told;
    uint64_t site = (uint64_t)__builtin_return_address(0);
    told.flags = 0;
    told.peer = 7;
    told.bytes = 8;
    with.count = mode.messages ? 2 : 0;
    with.time = __builtin_ia32_rdtsc();
    test_mpi_host->call_begins(CALL_MPI_Sendrecv, site, &told, &with);
    if (mode.messages)
        test_mpi_host->messages(&more);
    with.time = __builtin_ia32_rdtsc();
    told.flags = mode.says ? MPI_TOLD_SAYS : 0;
    test_mpi_host->call_ends(CALL_MPI_Sendrecv, site, &told, &with);
    return n;
}
#else
/* A function with its two sites; rbx leads to `pointee`. */
int valued(int n);
extern const char valued_entry[], valued_exit[];
static int pointee __asm__("pointee") __attribute__((used)) = 77;
__asm__(".text\n.type valued, @function\n"
        "valued:\n    pushq %rbx\n    leaq pointee(%rip), %rbx\n"
        "    leaq valued(%rip), %rdi\n    movq 8(%rsp), %rsi\n    call __cyg_profile_func_enter@plt\nvalued_entry:\n"
        "    leaq valued(%rip), %rdi\n    movq 8(%rsp), %rsi\n    call __cyg_profile_func_exit@plt\nvalued_exit:\n"
        "    popq %rbx\n    movl $1, %eax\n    ret\n"
        ".size valued, . - valued\n");

static HIDDEN int outer(int n)
{
    return mode.values ? valued(n) : twice(n);
}
#endif

/* ---- one instruction at a time ---- */

static HIDDEN void leave(int to)
{
    if (mode.silent)
        __builtin_longjmp(silent_back, 1);
    siglongjmp(back[to], 1);
}

/* Steps through a call; true: it came to its end before the handler did anything. */
static HIDDEN int through(int which, long steps, int (*function)(int))
{
    left[which] = steps;
    level = which;
    came = 0;
    STEP();
    function(which);
    int over = left[which] > 0;
    if (mode.again)
        returned = over && came;
    left[which] = 0;
    STEP();
    return over;
}

static long strides, inner_steps;
static volatile long withins;

/* What handlers call; nobody comes into the last one. */
static HIDDEN void calls(int which)
{
    twice(which);
    within(which);
    withins++;
}

/* Not by a function of the C library's, of which the agent would hear. */
static HIDDEN void go_apart(void)
{
    int status = 0;
    long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    forked = child == 0;
    if (child < 0 || (child > 0 && (waitpid((pid_t)child, &status, 0) < 0 || status)))
        abort();
}

static HIDDEN void interrupted(void)
{
    int which = level;
    if (mode.fork)
        go_apart();
    if (mode.calls)
        calls(which);
    if (mode.nested && which == 0) {
        if (mode.inner) {
            if (sigsetjmp(back[1], 0) == 0)
                returned = through(1, inner_steps, twice);
            else
                twice(3);
        } else {
            returned = through(1, inner_steps, twice);
        }
    } else if (mode.nested) {
        leave(mode.inner);
    }
    if (mode.jump)
        leave(0);
}

static HIDDEN void handler(int number, siginfo_t *info, void *raw)
{
    ucontext_t *context = raw;
    greg_t *flags = &context->uc_mcontext.gregs[REG_EFL];
    int which = level;
    if (info->si_code != TRAP_TRACE) { /* int3 */
        *flags = left[which] > 0 ? *flags | TRAP_FLAG : *flags & ~(greg_t)TRAP_FLAG;
        return;
    }
    if (left[which] <= 0 || --left[which] > 0)
        return;
    if (mode.again && came++ == 0) {
        calls(which);
        left[which] = inner_steps;
        return;
    }
    *flags &= ~(greg_t)TRAP_FLAG;
    interrupted();
    level = which;
}

/* ---- room ---- */

static struct area_thread *block;

#ifndef TEST_MPI
/* As the monitor does it, which has left the program in the area as the last one. */
static HIDDEN void values_begin(const struct area *area)
{
    struct area_slot *slots = (struct area_slot *)((uintptr_t)area + area->slots_at);
    struct area_site *sites = (struct area_site *)((uintptr_t)area + area->sites_at);
    const char *const both[] = {valued_entry, valued_exit};
    valued(0); /* now it has a slot */
    mprotect(sites, (size_t)(area->programs_at - area->sites_at),
             PROT_READ | PROT_WRITE); /* the agent leaves them alone */
    for (int i = 0; i < 2; i++) {
        struct area_site *site = &sites[area_hash((uintptr_t)both[i]) & (area->site_count - 1)];
        while (site->address)
            site++;
        site->values = (uint32_t)(area->programs_used - VALUES_PROGRAM);
        site->layout = 5;
        site->address = (uintptr_t)both[i];
    }
    for (uint32_t i = 0; i < area->slot_count; i++)
        if (slots[i].function == (uintptr_t)valued)
            slots[i].mode |= AREA_VALUES;
    valued(0);
    valued(0); /* now the short way is known */
}
#endif

static HIDDEN void area_look(void)
{
    char line[4096];
    const struct area *area = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:area") && strstr(line, " 00000000 ")) { /* its beginning, not what is mapped again */
            area = (const struct area *)strtoul(line, NULL, 16);
            block = (struct area_thread *)((uintptr_t)area + area->threads_at);
            break;
        }
    fclose(maps);
#ifndef TEST_MPI
    if (mode.values)
        values_begin(area);
#endif
}

/* Leaves so many bytes in the packet. */
static HIDDEN void fill(uint64_t bytes)
{
    static char text[1025];
    enum { MARK = 6 };
    for (;;) {
        uint64_t room = block->end > block->cursor ? block->end - block->cursor : 0;
        if (room == bytes)
            return;
        uint64_t most = room >= bytes + MARK ? room - bytes - MARK : 1024;
        if (most > 1024)
            most = most - 1024 < MARK ? 1000 : 1024;
        memset(text, '.', most);
        text[most] = 0;
        scry_mark(text);
    }
}

/* ---- rounds ---- */

static long rounds, from = 1, to = 1000000, room, every = 1, first;

static volatile long edge_steps;
static volatile int edge_over;

APART void descend(int n)
{
    if (n)
        descend(n - 1);
    else
        edge_over = through(0, edge_steps, outer);
    sink = n;
}

static HIDDEN void *edge_thread(void *arg)
{
    edge_over = 0;
    if (__builtin_setjmp(silent_back) == 0 && sigsetjmp(back[0], 0) == 0)
        descend(EDGE - 1);
    after(1);
    return arg;
}

static HIDDEN int edge_once(long steps)
{
    pthread_t thread;
    edge_steps = steps;
    rounds++;
    pthread_create(&thread, NULL, edge_thread, NULL);
    pthread_join(thread, NULL);
    return edge_over;
}

static HIDDEN int once(long steps)
{
    int over = 0;
    if (mode.edge)
        return edge_once(steps);
    if (mode.full)
        fill((uint64_t)room);
    rounds++;
    while (mode.late && __builtin_ia32_rdtsc() - block->last_time <= UINT64_C(1) << RECORD_TIME_BITS)
        ;
    if (__builtin_setjmp(silent_back) == 0) {
        if (sigsetjmp(back[0], 0) == 0)
            over = through(0, steps, outer);
    }
    if (forked)
        _exit(0);
    after(1);
    return over;
}

static HIDDEN void all_steps(void)
{
    if (every > to - from + 1) /* some at least */
        every = to - from + 1;
    for (volatile long steps = to > from ? from + first % every : from; steps <= to; steps += every) {
        inner_steps = 0;
        volatile int over = 0;
        if (mode.nested || mode.again)
            for (volatile long inner = 1 + steps % strides;; inner += strides) {
                inner_steps = inner;
                returned = 0;
                over = once(steps);
                if (mode.again && returned)
                    over = 0;
                if (over || returned)
                    break;
            }
        else
            over = once(steps);
        if (over)
            break;
    }
}

static HIDDEN void mode_set(char *words)
{
    for (char *word = strtok(words, ","); word; word = strtok(NULL, ",")) {
        mode.calls |= strcmp(word, "calls") == 0;
        mode.nested |= strcmp(word, "nested") == 0;
        mode.stack |= strcmp(word, "stack") == 0;
        mode.jump |= strcmp(word, "jump") == 0;
        mode.silent |= strcmp(word, "silent") == 0;
        mode.inner |= strcmp(word, "inner") == 0;
        mode.full |= strcmp(word, "full") == 0;
        mode.edge |= strcmp(word, "edge") == 0;
        mode.values |= strcmp(word, "values") == 0;
        mode.again |= strcmp(word, "again") == 0;
        mode.messages |= strcmp(word, "messages") == 0;
        mode.says |= strcmp(word, "says") == 0;
        mode.acts |= strcmp(word, "acts") == 0;
        mode.fork |= strcmp(word, "fork") == 0;
        mode.late |= strcmp(word, "late") == 0;
    }
}

int main(int argc, char **argv)
{
    mode_set(argv[1]);
    strides = 1;
    static char stack[STACK];
    if (mode.stack)
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    struct sigaction action = {.sa_sigaction = handler,
                               .sa_flags = SA_SIGINFO | SA_NODEFER | (mode.stack ? SA_ONSTACK : 0)};
    sigaction(SIGTRAP, &action, NULL);
    area_look();
#ifdef TEST_MPI
    outer(0);
    outer(0); /* now the short way is known */
#endif
    if (argc > 2)
        sscanf(argv[2], "%ld:%ld:%ld:%ld", &strides, &from, &to, &room);
    if (getenv("TEST_EVERY"))
        sscanf(getenv("TEST_EVERY"), "%ld:%ld", &every, &first);
    if (mode.full && !room)
        for (; room < 28; room += 4)
            all_steps();
    else
        all_steps();
    printf("rounds %ld within %ld\n", rounds, withins);
    return 0;
}
