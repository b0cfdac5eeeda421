/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage: cancelled MS. Threads that end inside calls: waits() is cancelled where it waits, spins() anywhere, leaves()
 * calls pthread_exit, all after MS milliseconds; tidy() runs as a cleanup handler. Prints of each what it has taken at
 * most, from before the call until the thread had ended: NAME NS. Then main() goes on for as long.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline))

static struct timespec time_of_each;
static volatile long count;
static atomic_int inside; /* threads that are in their calls, or as good as */
static double began[3];

__attribute__((no_instrument_function)) static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

APART static void tidy(void *unused)
{
    count++;
}

APART static void waits(void)
{
    inside++;
    for (;;)
        pause();
}

APART static void spins(void)
{
    inside++;
    for (;;)
        count++;
}

APART static void leaves(void)
{
    inside++;
    nanosleep(&time_of_each, NULL);
    pthread_exit(NULL);
}

static void *waiter(void *unused)
{
    began[0] = now();
    pthread_cleanup_push(tidy, NULL);
    waits();
    pthread_cleanup_pop(0);
    return NULL;
}

static void *spinner(void *unused)
{
    began[1] = now();
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    spins();
    return NULL;
}

static void *leaver(void *unused)
{
    began[2] = now();
    leaves();
    return NULL;
}

int main(int argc, char **argv)
{
    static void *(*const bodies[])(void *) = {waiter, spinner, leaver};
    pthread_t threads[3];
    long ms = argc > 1 ? atol(argv[1]) : 100;
    time_of_each = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, bodies[i], NULL);
    while (inside < 3)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&time_of_each, NULL);
    pthread_cancel(threads[0]);
    pthread_cancel(threads[1]);
    static const char *const names[] = {"wait", "spin", "leav"};
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        printf("%s %.0f\n", names[i], now() - began[i]);
    }
    nanosleep(&time_of_each, NULL);
    return 0;
}
