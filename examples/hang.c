/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that does not come to its end.
 *
 *     hang [deadlock | loop | read | child] [SECONDS]
 *
 * deadlock (the default): two threads, each holding the mutex that the other wants; loop: an endless loop in compute();
 * read: a read from a pipe that nobody writes to; child: waiting for a child that sleeps. Prints `hangs` once it does.
 * With SECONDS, SIGALRM ends it after that time (exit by signal), so that an unwatched one is not left behind for ever.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEPARATE __attribute__((noinline))

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_hold_one;
static volatile unsigned long rounds;

static void say(void)
{
    puts("hangs");
    fflush(stdout);
}

SEPARATE static void take_both(pthread_mutex_t *mine, pthread_mutex_t *other)
{
    pthread_mutex_lock(mine);
    if (pthread_barrier_wait(&both_hold_one) == PTHREAD_BARRIER_SERIAL_THREAD)
        say();
    pthread_mutex_lock(other);
    pthread_mutex_unlock(other);
    pthread_mutex_unlock(mine);
}

static void *other_thread(void *argument)
{
    take_both(&second, &first);
    return argument;
}

SEPARATE static int deadlock(void)
{
    pthread_t thread;
    pthread_barrier_init(&both_hold_one, NULL, 2);
    if (pthread_create(&thread, NULL, other_thread, NULL))
        return 2;
    take_both(&first, &second);
    return 0;
}

SEPARATE static void compute(void)
{
    for (;;)
        rounds++;
}

SEPARATE static int read_nothing(void)
{
    int ends[2];
    char byte;
    if (pipe(ends) < 0)
        return 2;
    say();
    return read(ends[0], &byte, 1) < 0 ? 2 : 0;
}

SEPARATE static int wait_for_child(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return 2;
    if (pid == 0) {
        /* It must not stay when its parent is ended. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        for (;;)
            pause();
    }
    say();
    return waitpid(pid, NULL, 0) == pid ? 0 : 2;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "deadlock";
    if (argc > 2)
        alarm((unsigned)atoi(argv[2]));
    if (strcmp(how, "deadlock") == 0)
        return deadlock();
    if (strcmp(how, "loop") == 0) {
        say();
        compute();
    }
    if (strcmp(how, "read") == 0)
        return read_nothing();
    if (strcmp(how, "child") == 0)
        return wait_for_child();
    fprintf(stderr, "usage: hang [deadlock|loop|read|child] [SECONDS]\n");
    return 2;
}
