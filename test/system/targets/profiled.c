/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses the processor in functions of known shares, by the thread's own clock: `profiled WHAT SECONDS`.
 *
 *   plain    first 60 %, second 30 %, and third 10 % that qsort calls
 *   inlined  heavy 70 % and light 30 %, which are parts of solve, light in a function that is a part of it
 *   deep     the same below 600 calls of recurse
 *   threads  two, named half, that do plain, half as long each
 *   forks    two children that do plain, half as long each; the second executes this program anew
 *   short    100 children, one after the other, together so long
 *   waits    uses none: sleeps in naps, reads from a pipe that a child closes, waits for a lock that a thread holds, each so
 *            long, while another thread stands in a pool
 *   helped   computes, while another thread often has next to nothing to do
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define APART static __attribute__((noinline, noclone, noipa))

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static __thread volatile double sum;

/* Most of the time between two readings of the clock is in the loop. */
#define BUSY(seconds) \
    for (double end = now() + (seconds); now() < end;) \
        for (int i = 0; i < 20000; i++) \
    sum += i

APART void first(double seconds)
{
    BUSY(seconds);
}

APART void second(double seconds)
{
    BUSY(seconds);
}

static __thread double third_seconds;

APART int third(const void *a, const void *b)
{
    BUSY(third_seconds);
    third_seconds = 0;
    return *(const int *)a - *(const int *)b;
}

APART void plain(double seconds)
{
    int two[2] = {2, 1};
    first(0.6 * seconds);
    second(0.3 * seconds);
    third_seconds = 0.1 * seconds;
    qsort(two, 2, sizeof *two, third);
}

#define INSIDE static inline __attribute__((always_inline))

INSIDE void heavy(double seconds)
{
    BUSY(seconds);
}

INSIDE void light(double seconds)
{
    BUSY(seconds);
}

INSIDE void wrapped(double seconds)
{
    light(seconds);
}

APART void solve(double seconds)
{
    heavy(0.7 * seconds);
    wrapped(0.3 * seconds);
}

APART int recurse(int depth, double seconds)
{
    char room[64];
    snprintf(room, sizeof room, "%d", depth);
    if (depth)
        return recurse(depth - 1, seconds) + room[0];
    plain(seconds);
    return room[0];
}

static void *thread(void *seconds)
{
    prctl(PR_SET_NAME, "half");
    plain(*(double *)seconds);
    return NULL;
}

static void forks(char *program, double seconds)
{
    char text[32];
    snprintf(text, sizeof text, "%g", seconds / 2);
    if (fork() == 0) {
        plain(seconds / 2);
        _exit(0);
    }
    if (fork() == 0) {
        execl("/proc/self/exe", program, "plain", text, NULL);
        _exit(1);
    }
    while (wait(NULL) > 0)
        ;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, pool = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

APART void naps(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
    __asm__ volatile("");
}

APART void loads(int fd)
{
    char room[8];
    while (read(fd, room, sizeof room) > 0)
        __asm__ volatile("");
}

APART void locks(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    __asm__ volatile("");
}

static void *holds(void *seconds)
{
    pthread_mutex_lock(&lock);
    naps(*(double *)seconds);
    pthread_mutex_unlock(&lock);
    return NULL;
}

APART void *stands(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool);
    pthread_cond_wait(&never, &pool);
    return NULL;
}

static void waits(double seconds)
{
    int ends[2];
    pthread_t thread;
    pthread_create(&thread, NULL, stands, NULL);
    naps(seconds);
    if (pipe(ends) < 0)
        return;
    if (fork() == 0) {
        naps(seconds);
        _exit(0);
    }
    close(ends[1]);
    loads(ends[0]);
    pthread_create(&thread, NULL, holds, &seconds);
    while (pthread_mutex_trylock(&lock) == 0) { /* until it has it */
        pthread_mutex_unlock(&lock);
        sched_yield();
    }
    locks();
}

static void *helps(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool);
    for (;;)
        pthread_cond_wait(&never, &pool);
    return NULL;
}

static void helped(double seconds)
{
    pthread_t thread;
    pthread_create(&thread, NULL, helps, NULL);
    for (int i = 0; i < 50; i++) {
        first(seconds / 50);
        pthread_cond_signal(&never);
    }
}

int main(int argc, char **argv)
{
    double seconds = argc == 3 ? atof(argv[2]) : 1;
    const char *what = argc == 3 ? argv[1] : "";
    if (strcmp(what, "plain") == 0) {
        plain(seconds);
    } else if (strcmp(what, "inlined") == 0) {
        solve(seconds);
    } else if (strcmp(what, "deep") == 0) {
        recurse(600, seconds);
    } else if (strcmp(what, "threads") == 0) {
        pthread_t threads[2];
        double half = seconds / 2;
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, thread, &half);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
    } else if (strcmp(what, "forks") == 0) {
        forks(argv[0], seconds);
    } else if (strcmp(what, "short") == 0) {
        for (int i = 0; i < 100; i++) {
            if (fork() == 0) {
                first(seconds / 100);
                _exit(0);
            }
            wait(NULL);
        }
    } else if (strcmp(what, "waits") == 0) {
        waits(seconds);
    } else if (strcmp(what, "helped") == 0) {
        helped(seconds);
    } else {
        return 2;
    }
    return 0;
}
