/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that crashes, and says before where it will: a line "FUNCTION LINE" for each frame expected, innermost
 * first. `crash wait` prints the addresses of its functions instead and waits until its standard input ends; `crash
 * deep` recurses until the stack is full.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

static volatile int sink;

/* clang-format off */
enum { POKE = __LINE__ + 3 };
static inline __attribute__((always_inline)) void poke(volatile int *at)
{
    *at = 1;
}

enum { LEAF = __LINE__ + 3 };
static NOINLINE void leaf(volatile int *at)
{
    poke(at);
    sink++;
}

enum { MIDDLE = __LINE__ + 4 };
NOINLINE void middle(volatile int *at);
NOINLINE void middle(volatile int *at)
{
    leaf(at);
    sink++;
}
/* clang-format on */

NOINLINE int deep(int n);
int deep(int n)
{
    volatile char block[512];
    block[n & 511] = (char)n;
    return (sink ? 0 : deep(n + 1)) + block[0];
}

static pthread_barrier_t started;

static NOINLINE void *wait_for_ever(void *unused)
{
    pthread_barrier_wait(&started);
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "wait") == 0) {
        char byte;
        printf("%p %p\n", (void *)middle, (void *)deep);
        fflush(stdout);
        while (read(0, &byte, 1) > 0)
            ;
        return 0;
    }
    if (strcmp(mode, "deep") == 0)
        return deep(0);
    pthread_t thread;
    pthread_barrier_init(&started, NULL, 2);
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    pthread_barrier_wait(&started);
    int line = __LINE__ + 3;
    printf("poke %d\nleaf %d\nmiddle %d\nmain %d\n", POKE, LEAF, MIDDLE, line);
    fflush(stdout);
    middle((volatile int *)(long)(argc + 15));
    sink++;
    return 0;
}
