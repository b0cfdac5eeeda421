/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench_hooks.py measures: calls of functions compiled with -finstrument-functions. Prints the name of each and
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

struct point {
    int x, y;
    double weight;
};

void leaf(void);
int two(int a, int b);
int seven(int a, int b, int c, int d, int e, int f, int g);
double real(double a);
float single(float a);
int pointed(int *a);
int pointed_double(double *a);
int text(char *a);
int structure(struct point *a);

__attribute__((noinline)) void leaf(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) int two(int a, int b)
{
    __asm__ volatile("" : "+r"(a));
    return a + b;
}

__attribute__((noinline)) int seven(int a, int b, int c, int d, int e, int f, int g)
{
    __asm__ volatile("" : "+r"(a));
    return a + b + c + d + e + f + g;
}

__attribute__((noinline)) double real(double a)
{
    __asm__ volatile("" : "+x"(a));
    return a * 2;
}

__attribute__((noinline)) float single(float a)
{
    __asm__ volatile("" : "+x"(a));
    return a * 2;
}

__attribute__((noinline)) int pointed(int *a)
{
    __asm__ volatile("" : "+r"(a));
    return *a;
}

__attribute__((noinline)) int pointed_double(double *a)
{
    __asm__ volatile("" : "+r"(a));
    return *a > 1;
}

__attribute__((noinline)) int text(char *a)
{
    __asm__ volatile("" : "+r"(a));
    return *a;
}

__attribute__((noinline)) int structure(struct point *a)
{
    __asm__ volatile("" : "+r"(a));
    return a->x;
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

/* Of a call; `sum` is there to be used. */
#define TIME(name, call) \
    QUIET static double time_##name(long calls) \
    { \
        double start = now_ns(); \
        int sum = 0; \
        for (long i = 0; i < calls; i++) \
            sum += (int)call; \
        __asm__ volatile("" : : "r"(sum)); \
        return (now_ns() - start) / (double)calls; \
    }

static int number = 7;
static double weight = 2.5;
static char words[] = "some words";
static struct point point = {1, 2, 3.5};

TIME(seven, seven((int)i, 2, 3, 4, 5, 6, 7))
TIME(real, real(1.5))
TIME(single, single(1.5F))
TIME(pointed, pointed(&number))
TIME(pointed_double, pointed_double(&weight))
TIME(text, text(words))
TIME(structure, structure(&point))

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
        printf("seven %.2f\nreal %.2f\n", best(time_seven, calls), best(time_real, calls));
        printf("single %.2f\npointed %.2f\n", best(time_single, calls), best(time_pointed, calls));
        printf("pointed_double %.2f\ntext %.2f\n", best(time_pointed_double, calls), best(time_text, calls));
        printf("structure %.2f\n", best(time_structure, calls));
        fflush(stdout);
    }
    return 0;
}
