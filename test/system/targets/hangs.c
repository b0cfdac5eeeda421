/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are open when their process ends. hangs HOW MS: main is in hang() <- around() for that long; two threads
 * are in forever() <- thread() from the beginning, one leaves gone() by pthread_exit at once. Then, by HOW: kill, exit
 * (of the process, by a third thread meanwhile), _exit, exec (of sleep, for as long again), abort, return.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *how;
static long left_us;
static sem_t there; /* in forever() */

__attribute__((noinline)) static void forever(void)
{
    sem_post(&there);
    for (;;)
        pause();
}

static void *thread(void *arg)
{
    forever();
    return arg;
}

__attribute__((noinline)) static void gone(void)
{
    pthread_exit(NULL);
}

static void *leaver(void *arg)
{
    gone();
    return arg;
}

__attribute__((no_instrument_function)) static void *ender(void *arg)
{
    usleep((useconds_t)left_us);
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(how, "exit") == 0)
        exit(0);
    return arg;
}

__attribute__((noinline)) static void hang(void)
{
    if (strcmp(how, "kill") == 0 || strcmp(how, "exit") == 0)
        for (;;)
            pause();
    usleep((useconds_t)left_us);
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "exec") == 0) {
        char seconds[32];
        snprintf(seconds, sizeof seconds, "%f", (double)left_us / 1e6);
        execlp("no-such-program", "no-such-program", (char *)NULL);
        execlp("sleep", "sleep", seconds, (char *)NULL);
    }
}

__attribute__((noinline)) static void around(void)
{
    hang();
}

int main(int argc, char **argv)
{
    pthread_t threads[4];
    how = argc > 1 ? argv[1] : "return";
    left_us = argc > 2 ? 1000 * atol(argv[2]) : 0;
    sem_init(&there, 0, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, thread, NULL);
    for (int i = 0; i < 2; i++)
        sem_wait(&there);
    pthread_create(&threads[2], NULL, leaver, NULL);
    pthread_join(threads[2], NULL);
    pthread_create(&threads[3], NULL, ender, NULL);
    around();
    return 0;
}
