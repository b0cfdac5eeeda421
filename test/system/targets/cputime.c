// SPDX-License-Identifier: Apache-2.0
// Functions that compute, wait and both, in two threads and a child; each thread prints what it knows itself:
// NAME CPU_NS WALL_NS. With "storm": two threads that wake each other, so many times.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PLAIN __attribute__((no_instrument_function)) static
#define TRACED __attribute__((noinline))

static volatile unsigned long sink;

PLAIN double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

TRACED void compute(double ns)
{
    double end = now(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        sink++;
}

TRACED void doze(double ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

TRACED void both(void)
{
    compute(10e6);
    doze(20e6);
}

TRACED void child(double ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

PLAIN void say(const char *name, double cpu, double wall)
{
    printf("%s %.0f %.0f\n", name, now(CLOCK_THREAD_CPUTIME_ID) - cpu, now(CLOCK_MONOTONIC) - wall);
    fflush(stdout);
}

TRACED void work(int times)
{
    for (int i = 0; i < times; i++)
        both();
    compute(20e6);
}

TRACED void *thread(void *name)
{
    double cpu = now(CLOCK_THREAD_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);
    work(2);
    say(name, cpu, wall);
    return NULL;
}

static int there[2], back[2];

TRACED void *answer(void *rounds)
{
    char byte;
    for (long i = 0; i < (long)rounds; i++)
        if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
            break;
    return NULL;
}

TRACED void storm(long rounds)
{
    pthread_t other;
    char byte = 0;
    if (pipe(there) < 0 || pipe(back) < 0 || pthread_create(&other, NULL, answer, (void *)rounds))
        exit(1);
    for (long i = 0; i < rounds; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            break;
    pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        storm(atol(argv[1]));
        return 0;
    }
    pthread_t other;
    pthread_create(&other, NULL, thread, "thread");
    if (fork() == 0) {
        child(200e6);
        _exit(0);
    }
    double cpu = now(CLOCK_THREAD_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);
    work(3);
    say("main", cpu, wall);
    wait(NULL);
    pthread_join(other, NULL);
    return 0;
}
