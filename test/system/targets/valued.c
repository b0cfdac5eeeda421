/* SPDX-License-Identifier: Apache-2.0 */
/* valued NUMBER: a thread that waits, one that runs, and one that does both in turn, with variables that never change.
 * Compiled in several ways by the test. What spins leaves the processor to all others. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct point {
    double x, y;
    const char *name;
};

static volatile unsigned long sum;

__attribute__((noinline)) static void step(const int *weights, int which)
{
    volatile int copy[4] = {weights[0], weights[1], weights[2], which};
    for (int i = 0; i < 1000000; i++)
        sum += (unsigned long)copy[i & 3];
}

static void *spin(void *arg)
{
    int number = *(int *)arg, weights[4] = {1, 2, 3, number};
    for (;;)
        step(weights, number);
    return NULL;
}

static void *blink(void *arg)
{
    const int steady = *(int *)arg;
    for (;;) {
        usleep(20);
        sum += (unsigned long)steady;
    }
    return NULL;
}

__attribute__((noinline)) static int wait_for(int n, struct point *at, int letter)
{
    char text[32];
    snprintf(text, sizeof text, "round %d", n);
    pause();
    return (int)strlen(text) + n + (int)at->x + letter;
}

int main(int argc, char **argv)
{
    struct point start = {1.5, 2.5, "start"};
    int number = argc > 1 ? atoi(argv[1]) : 0;
    if (nice(19) < 0)
        return 2;
    pthread_t spinning, blinking;
    pthread_create(&spinning, NULL, spin, &number);
    pthread_create(&blinking, NULL, blink, &number);
    pthread_setname_np(spinning, "spins");
    pthread_setname_np(blinking, "blinks");
    int answer = wait_for(320, &start, 'q');
    return answer + number;
}
