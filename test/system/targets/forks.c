/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server's way: forks COUNT children one after the other, each of which calls a function and ends; with "idle" they
 * call nothing, with "last" none but the last does; with "nofile" they may open no files; with "crash" the last ones end by
 * SIGSEGV; with "worker" a child does all that, and calls the function first; with "orphans" they are not made by
 * fork(), outlive their parent, and call the function at the end of its input; with "much" a child says that it has called the function, and calls it 99 999 times more at the end of its input.
 * Prints how long a child took, in microseconds.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CRASHES = 3 };

#define QUIET __attribute__((no_instrument_function))

int child_work(int number);

int child_work(int number)
{
    return number + 1;
}

QUIET static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

QUIET static int call_much(void)
{
    char byte;
    if (write(STDOUT_FILENO, "called\n", 7) != 7 || read(STDIN_FILENO, &byte, 1) != 0)
        return 1;
    for (int i = 1; i < 100000; i++)
        child_work(i);
    return 0;
}

QUIET static int leave_orphans(int count)
{
    char byte;
    for (int i = 0; i < count; i++)
        if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0)
            _exit(read(STDIN_FILENO, &byte, 1) != 0 || child_work(i) != i + 1);
    return 0;
}

QUIET static int child(const char *how, int i, int is_last)
{
    if (strcmp(how, "idle") == 0 || (strcmp(how, "last") == 0 && !is_last))
        return 0;
    if (strcmp(how, "nofile") == 0 && setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0}) < 0)
        return 1;
    return child_work(i) != i + 1 || (strcmp(how, "much") == 0 && call_much());
}

QUIET int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    const char *how = argc > 2 ? argv[2] : "";
    int worker = strcmp(how, "worker") == 0 ? fork() : 0, ended = 1;
    if (worker)
        return waitpid(worker, &ended, 0) != worker || ended;
    if (strcmp(how, "orphans") == 0)
        return leave_orphans(count);
    int good = strcmp(how, "crash") == 0 ? count - CRASHES : count;
    double begin = now();
    child_work(0);
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        int status = 0;
        if (pid == 0 && i >= good && child_work(i))
            raise(SIGSEGV);
        if (pid == 0)
            _exit(child(how, i, i == count - 1));
        if (pid < 0 || waitpid(pid, &status, 0) != pid || (status && i < good))
            return 1;
    }
    printf("%.0f\n", (now() - begin) / count);
    return 0;
}
