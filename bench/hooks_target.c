/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench_hooks.py measures: calls of functions compiled with -finstrument-functions. Prints `leaf NS` and `two NS`,
 * nanoseconds a call, for each of a number of rounds; of a round it is the best of several loops, as what disturbs only
 * adds.
 *
 *     hooks_target ROUNDS CALLS
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOOPS = 40 }; /* short ones: on a busy machine, some are not interrupted */

#define QUIET __attribute__((no_instrument_function))

void leaf(void);
int two(int a, int b);

__attribute__((noinline)) void leaf(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) int two(int a, int b)
{
    __asm__ volatile("" : "+r"(a));
    return a + b;
}

QUIET static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

QUIET static double time_leaf(long calls)
{
    double start = now_ns();
    for (long i = 0; i < calls; i++)
        leaf();
    return (now_ns() - start) / (double)calls;
}

QUIET static double time_two(long calls)
{
    double start = now_ns();
    int sum = 0;
    for (long i = 0; i < calls; i++)
        sum = two(sum, (int)i);
    __asm__ volatile("" : : "r"(sum));
    return (now_ns() - start) / (double)calls;
}

QUIET static double best(double (*time_one)(long), long calls)
{
    double least = 1e9;
    for (int i = 0; i < LOOPS; i++) {
        double ns = time_one(calls);
        least = ns < least ? ns : least;
    }
    return least;
}

QUIET int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    long calls = argc > 2 ? atol(argv[2]) : 200000;
    for (int i = 0; i < rounds; i++) {
        printf("leaf %.2f\ntwo %.2f\n", best(time_leaf, calls), best(time_two, calls));
        fflush(stdout);
    }
    return 0;
}
