/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork_target COUNT idle|call|exec: starts COUNT processes one after the other, and prints how long one took, in
 * microseconds. idle: children of fork that end at once; call: that call a function; exec: this program again, with
 * "one".
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

extern char **environ;
int work(int number);

__attribute__((noinline)) int work(int number)
{
    __asm__ volatile("" : "+r"(number));
    return number + 1;
}

QUIET static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

QUIET static pid_t start(const char *how, char **argv)
{
    pid_t pid;
    if (strcmp(how, "exec") == 0) {
        static char number[] = "1", word[] = "one";
        char *arguments[] = {argv[0], number, word, NULL};
        return posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) == 0 ? pid : -1;
    }
    pid = fork();
    if (pid == 0)
        _exit(strcmp(how, "call") == 0 ? work(0) - 1 : 0);
    return pid;
}

QUIET int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1, status;
    const char *how = argc > 2 ? argv[2] : "call";
    if (work(0) != 1 || strcmp(how, "one") == 0)
        return 0;
    double begin = now_us();
    for (int i = 0; i < count; i++) {
        pid_t pid = start(how, argv);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
            fprintf(stderr, "fork_target: a process failed\n");
            return 1;
        }
    }
    printf("%.1f\n", (now_us() - begin) / count);
    return 0;
}
