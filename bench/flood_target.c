/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench_flood.py traces: threads that do nothing but call a function compiled with -finstrument-functions, as fast
 * as they can, for some seconds. Prints the calls made.
 *
 *     flood_target THREADS SECONDS
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))
enum { THREADS_LIMIT = 64, BATCH = 1000 };

static double seconds;
void step(void);

__attribute__((noinline)) void step(void)
{
    __asm__ volatile("");
}

QUIET static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

QUIET static void *flood(void *calls)
{
    double end = now_seconds() + seconds;
    uint64_t count = 0;
    while (now_seconds() < end) {
        for (int i = 0; i < BATCH; i++)
            step();
        count += BATCH;
    }
    *(uint64_t *)calls = count;
    return NULL;
}

QUIET int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    seconds = argc > 2 ? atof(argv[2]) : 10;
    pthread_t ids[THREADS_LIMIT];
    uint64_t calls[THREADS_LIMIT] = {0}, sum = 0;
    if (threads < 1 || threads > THREADS_LIMIT)
        return 2;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, flood, &calls[i]) != 0)
            return 1;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum += calls[i];
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
