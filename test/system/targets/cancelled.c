/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage: cancelled MS. Threads that end inside calls: waits() is cancelled where it waits, spins() anywhere, leaves()
 * calls pthread_exit, all after MS milliseconds; tidy() runs as a cleanup handler. Then main() goes on for as long.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline))

static struct timespec time_of_each;
static volatile long count;

APART static void tidy(void *unused)
{
    count++;
}

APART static void waits(void)
{
    for (;;)
        pause();
}

APART static void spins(void)
{
    for (;;)
        count++;
}

APART static void leaves(void)
{
    nanosleep(&time_of_each, NULL);
    pthread_exit(NULL);
}

static void *waiter(void *unused)
{
    pthread_cleanup_push(tidy, NULL);
    waits();
    pthread_cleanup_pop(0);
    return NULL;
}

static void *spinner(void *unused)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    spins();
    return NULL;
}

static void *leaver(void *unused)
{
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
    nanosleep(&time_of_each, NULL);
    pthread_cancel(threads[0]);
    pthread_cancel(threads[1]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    nanosleep(&time_of_each, NULL);
    return 0;
}
