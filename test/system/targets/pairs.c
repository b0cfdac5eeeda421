/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs: functions that are left by longjmp, by siglongjmp out of a signal handler (on its own stack or not), by a
 * change of context, by the end of a thread; that end in calls of others, and whose frames grow. See pairs.h.
 */
#define _GNU_SOURCE
#include "pairs.h"

#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static jmp_buf back;
static sigjmp_buf out_of_handler;
static ucontext_t main_context, contexts[2];
static volatile int sink;
static int turns;

SEPARATE static int leaf(int n)
{
    BEGINS;
    sink = n;
    RETURNS;
    return n + 1;
}

/* ---- longjmp ---- */

SEPARATE static int jumper(int n)
{
    BEGINS;
    if (n == 0)
        longjmp(back, 1);
    int below = jumper(n - 1);
    RETURNS;
    return below;
}

SEPARATE static int catcher(int n)
{
    BEGINS;
    if (setjmp(back) == 0)
        jumper(n);
    leaf(n);
    RETURNS;
    return n;
}

/* Jumps over a catcher that is open, too. */
SEPARATE static void over_catcher(void)
{
    BEGINS;
    jmp_buf mine;
    if (setjmp(mine) == 0) {
        catcher(2);
        memcpy(&back, &mine, sizeof back);
        jumper(1);
    }
    catcher(1);
    RETURNS;
}

/* ---- handlers ---- */

static void handler(int number)
{
    BEGINS;
    leaf(number);
    if (number == SIGUSR2)
        siglongjmp(out_of_handler, 1);
    RETURNS;
}

SEPARATE static int signalled(int number)
{
    BEGINS;
    raise(number);
    leaf(number);
    RETURNS;
    return 0;
}

SEPARATE static void handlers(int flags)
{
    BEGINS;
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    signalled(SIGUSR1);
    for (volatile int i = 0; i < 3; i++)
        if (sigsetjmp(out_of_handler, 1) == 0)
            signalled(SIGUSR2);
    signalled(SIGUSR1);
    RETURNS;
}

/* ---- contexts ---- */

SEPARATE static void turn(int who, int n)
{
    BEGINS;
    leaf(n);
    swapcontext(&contexts[who], who == 0 ? &contexts[1] : &main_context);
    RETURNS;
}

SEPARATE static void deeper(int who, int n)
{
    BEGINS;
    turn(who, n);
    RETURNS;
}

static void body(int who)
{
    BEGINS;
    for (int i = 0; i < 3; i++)
        deeper(who, i);
    turns++;
    RETURNS;
}

SEPARATE static void fibres(void)
{
    BEGINS;
    for (int i = 0; i < 2; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_size = 256 << 10;
        contexts[i].uc_stack.ss_sp = malloc(contexts[i].uc_stack.ss_size);
        contexts[i].uc_link = i == 0 ? &contexts[1] : &main_context;
        makecontext(&contexts[i], (void (*)(void))body, 1, i);
    }
    while (turns < 2) {
        leaf(turns);
        swapcontext(&main_context, turns == 0 ? &contexts[0] : &contexts[1]);
    }
    RETURNS;
}

/* ---- ends in calls, frames that grow ---- */

SEPARATE static int tail_last(int n)
{
    BEGINS;
    return n * 2;
}

SEPARATE static int tail_middle(int n)
{
    BEGINS;
    return tail_last(n + 1);
}

SEPARATE static int tail_first(int n)
{
    BEGINS;
    return n > 0 ? tail_first(n - 1) : tail_middle(n);
}

SEPARATE static int tail_pointer(int (*function)(int), int n)
{
    BEGINS;
    return function(n);
}

struct large {
    long words[12];
};

SEPARATE static long by_value(struct large a, int n, struct large b)
{
    BEGINS;
    long result = n > 0 ? by_value(b, n - 1, a) + a.words[3] : b.words[0];
    RETURNS;
    return result;
}

SEPARATE static int growing(int n)
{
    BEGINS;
    char *room = alloca((size_t)n * 100 + 1);
    memset(room, n, (size_t)n * 100 + 1);
    int below = n > 0 ? growing(n - 1) : leaf(room[0]);
    RETURNS;
    return below + room[1 - (n == 0)];
}

static inline int inlined(int n)
{
    return n < 0 ? leaf(n) : n;
}

SEPARATE static int has_inlined(int n)
{
    BEGINS;
    int sum = inlined(n) + inlined(-n);
    RETURNS;
    return sum;
}

/* ---- ends of threads ---- */

SEPARATE static void ends_thread(int n)
{
    BEGINS;
    if (n == 0)
        pthread_exit(NULL);
    ends_thread(n - 1);
    RETURNS;
}

static void *thread(void *unused)
{
    BEGINS;
    ends_thread(3);
    RETURNS;
    return unused;
}

SEPARATE static void ends_program(int n)
{
    BEGINS;
    if (n == 0)
        exit(5);
    ends_program(n - 1);
    RETURNS;
}

int main(void)
{
    BEGINS;
    catcher(0);
    catcher(4);
    over_catcher();
    handlers(0);
    stack_t alternate = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    sigaltstack(&alternate, NULL);
    handlers(SA_ONSTACK);
    handlers(SA_ONSTACK | SA_NODEFER);
    fibres();
    for (int i = 0; i < 3; i++) {
        tail_first(i);
        tail_pointer(tail_middle, i);
    }
    struct large one = {{1}}, two = {{2, 2, 2, 2}};
    by_value(one, 3, two);
    growing(5);
    has_inlined(3);
    pthread_t id;
    if (pthread_create(&id, NULL, thread, NULL) == 0)
        pthread_join(id, NULL);
    leaf(0);
    ends_program(2);
    RETURNS;
    return 0;
}
