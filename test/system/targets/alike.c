/* SPDX-License-Identifier: Apache-2.0 */
/* Twelve threads that wait in the same place, and one that computes, and leaves the processor to all others. */
#include <pthread.h>
#include <unistd.h>

static volatile unsigned long rounds;

static void *worker(void *none)
{
    for (;;)
        pause();
    return none;
}

__attribute__((noinline)) static void hot(void)
{
    for (;;)
        rounds++;
}

static void *runner(void *none)
{
    hot();
    return none;
}

int main(void)
{
    pthread_t thread;
    if (nice(19) < 0)
        return 2;
    for (int i = 0; i < 12; i++)
        pthread_create(&thread, NULL, worker, NULL);
    pthread_create(&thread, NULL, runner, NULL);
    pthread_join(thread, NULL);
    return 0;
}
