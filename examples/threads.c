/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads at work and threads asleep.
 *
 *     threads [WORKERS [SECONDS [SLEEPERS]]]        default 2 workers for 2 seconds, 1 sleeper
 *     threads --show ...                            first prints addresses and thread ids, one `name value` a line
 *
 * Every worker calls step() again and again, which counts up its own number and one shared by all; the sleepers wait on
 * a condition variable until the workers are done. At the end the counts must agree: exit status 0 only if no call of
 * step() was lost or done twice. SECONDS 0 means until standard input ends, so that a tool decides how long it runs.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SEPARATE __attribute__((noinline))

enum { THREADS_LIMIT = 1000 };

struct worker {
    pthread_t thread;
    pid_t tid;
    long steps;      /* counted by step() */
    long iterations; /* counted by the loop around it */
};

static struct worker workers[THREADS_LIMIT];
static pthread_t sleepers[THREADS_LIMIT];
static atomic_long all_steps;
static atomic_int started;
static atomic_bool stop;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static int done;

/* What a tool sets breakpoints on. Not static, so that its name is in the symbol table of a stripped program, too. */
SEPARATE long step(struct worker *worker, long number);
SEPARATE long step(struct worker *worker, long number)
{
    worker->steps++;
    atomic_fetch_add_explicit(&all_steps, 1, memory_order_relaxed);
    return number + 1;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    worker->tid = gettid();
    atomic_fetch_add(&started, 1);
    while (!atomic_load_explicit(&stop, memory_order_relaxed))
        worker->iterations = step(worker, worker->iterations);
    return NULL;
}

static void *rest(void *argument)
{
    (void)argument;
    pthread_setname_np(pthread_self(), "sleeper");
    atomic_fetch_add(&started, 1);
    pthread_mutex_lock(&mutex);
    while (!done)
        pthread_cond_wait(&over, &mutex);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void start(pthread_t *thread, void *(*function)(void *), void *argument)
{
    int code = pthread_create(thread, NULL, function, argument);
    if (code) {
        fprintf(stderr, "threads: cannot start a thread: %s\n", strerror(code));
        exit(2);
    }
}

/* Waits until the time is over or, with 0, until standard input ends. */
static void wait_for_end(double seconds)
{
    if (seconds > 0) {
        struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
        while (nanosleep(&left, &left) < 0)
            ;
        return;
    }
    char bytes[256];
    while (read(0, bytes, sizeof bytes) > 0)
        ;
}

static void show(int count)
{
    printf("pid %d\nstep %p\nall_steps %p\n", getpid(), (void *)step, (void *)&all_steps);
    for (int i = 0; i < count; i++)
        printf("worker %d\n", workers[i].tid);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int showing = argc > 1 && strcmp(argv[1], "--show") == 0;
    argv += showing;
    argc -= showing;
    int count = argc > 1 ? atoi(argv[1]) : 2, resting = argc > 3 ? atoi(argv[3]) : 1;
    double seconds = argc > 2 ? atof(argv[2]) : 2;
    if (count < 0 || count > THREADS_LIMIT || resting < 0 || resting > THREADS_LIMIT || seconds < 0) {
        fprintf(stderr, "usage: threads [--show] [WORKERS [SECONDS [SLEEPERS]]]\n");
        return 2;
    }
    for (int i = 0; i < count; i++)
        start(&workers[i].thread, work, &workers[i]);
    for (int i = 0; i < resting; i++)
        start(&sleepers[i], rest, NULL);
    while (atomic_load(&started) < count + resting)
        usleep(100);
    if (showing)
        show(count);
    wait_for_end(seconds);

    atomic_store(&stop, 1);
    long steps = 0, iterations = 0;
    for (int i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        steps += workers[i].steps;
        iterations += workers[i].iterations;
    }
    pthread_mutex_lock(&mutex);
    done = 1;
    pthread_cond_broadcast(&over);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < resting; i++)
        pthread_join(sleepers[i], NULL);

    int right = steps == iterations && steps == atomic_load(&all_steps) && (count == 0 || steps > 0);
    printf("%ld steps by %d workers: %s\n", steps, count, right ? "all counted" : "COUNTS DIFFER");
    return right ? 0 : 1;
}
