/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork_target COUNT idle|call|exec: starts COUNT processes one after the other, and prints how long one took, in
 * microseconds. idle: children of fork that end at once; call: that call a function; exec: this program again, with
 * "one". With -DMANY it has two thousand functions more, with values, which nobody calls.
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

#ifdef MANY
struct pair {
    int number;
    const char *text;
};

#define F1(n) \
    int many_##n(int number, const char *text, const struct pair *pair); \
    int many_##n(int number, const char *text, const struct pair *pair) \
    { \
        struct pair local = {number + pair->number, text}; \
        return work(local.number); \
    }
#define F10(n) F1(n##0) F1(n##1) F1(n##2) F1(n##3) F1(n##4) F1(n##5) F1(n##6) F1(n##7) F1(n##8) F1(n##9)
#define F100(n) F10(n##0) F10(n##1) F10(n##2) F10(n##3) F10(n##4) F10(n##5) F10(n##6) F10(n##7) F10(n##8) F10(n##9)
#define F1000(n) \
    F100(n##0) F100(n##1) F100(n##2) F100(n##3) F100(n##4) F100(n##5) F100(n##6) F100(n##7) F100(n##8) F100(n##9)
F1000(1)
F1000(2)
#endif

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
