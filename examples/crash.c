/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that crashes, a few calls deep.
 *
 *     crash [null | abort | fpe | illegal | bus | stack] [main | thread | child] [SECONDS]
 *
 * How (default null: a write through a null pointer), who (default main; child: a forked process, whose parent then
 * reports how it ended and exits with 128 + the signal), and after how much time at work. The functions on the stack
 * are outer -> middle -> inner.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEPARATE __attribute__((noinline))

static const char *how = "null";
static double seconds;
static volatile int depth;
static int *volatile nowhere;
static volatile int zero;

/* Needs more and more stack. The result of the call is used, so that it is no jump. */
SEPARATE static int endless(int level)
{
    volatile char space[4096];
    space[0] = (char)level;
    depth = level;
    if (level < 0)
        return 0; /* never, but compilers warn of what has no end */
    return endless(level + 1) + space[0];
}

/* A page of a file behind the file's end. */
SEPARATE static void read_beyond_the_file(void)
{
    FILE *file = tmpfile();
    char *page = file ? mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0) : MAP_FAILED;
    if (page != MAP_FAILED)
        depth = *(volatile char *)page;
}

SEPARATE static void inner(int value)
{
    if (strcmp(how, "null") == 0)
        *nowhere = value;
    else if (strcmp(how, "abort") == 0)
        abort();
    else if (strcmp(how, "fpe") == 0)
        depth = value / zero;
    else if (strcmp(how, "illegal") == 0)
        __builtin_trap();
    else if (strcmp(how, "bus") == 0)
        read_beyond_the_file();
    else if (strcmp(how, "stack") == 0)
        depth = endless(value);
    depth++; /* no tail call */
}

SEPARATE static void middle(int value)
{
    inner(value * 2);
    depth++;
}

SEPARATE static void outer(int value)
{
    struct timespec now, start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9 < seconds);
    middle(value + 1);
    depth++;
}

static void *thread(void *argument)
{
    outer(20);
    return argument;
}

static int in_thread(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, thread, NULL))
        return 2;
    pthread_join(other, NULL);
    return 0;
}

static int in_child(void)
{
    pid_t pid = fork();
    if (pid < 0)
        return 2;
    if (pid == 0) {
        outer(20);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status))
        return 0;
    printf("child %d: %s\n", pid, strsignal(WTERMSIG(status)));
    return 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"null", "abort", "fpe", "illegal", "bus", "stack"};
    const char *who = argc > 2 ? argv[2] : "main";
    int known = argc < 2;
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(argv[1], ways[i]) == 0) {
            how = ways[i];
            known = 1;
        }
    }
    seconds = argc > 3 ? atof(argv[3]) : 0;
    int status = 0;
    if (known && strcmp(who, "thread") == 0)
        status = in_thread();
    else if (known && strcmp(who, "child") == 0)
        status = in_child();
    else if (known && strcmp(who, "main") == 0)
        outer(20);
    else {
        fprintf(stderr, "usage: crash [null|abort|fpe|illegal|bus|stack] [main|thread|child] [SECONDS]\n");
        return 2;
    }
    return status;
}
