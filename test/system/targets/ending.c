/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending WAY FILE [N]: threads call tick() N times each, together with main; then the process ends in one of several
 * ways, while the threads are still there. Nothing but tick() has hooks. How often it was called and came back is
 * counted in FILE, shared memory that outlives the process: one number a thread.
 *
 *   return, _exit, _Exit, quick_exit, abort, kill    main does that, after all have done their calls
 *   exec       a thread executes `ending return` again, with the numbers that follow in FILE
 *   fork       main forks; the child does N calls more, and both end by _exit
 *   threads    N threads, 100 at once, 100 calls each, then main returns
 *   busy       all go on calling until they are killed from outside; FILE says how far they are
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

enum { THREADS = 3, AT_ONCE = 100, CALLS = 100, NUMBERS = 4096 };

static _Atomic uint64_t *numbers; /* [0]: how many are used */
static const char *way, *file;
static uint64_t calls;
static volatile uint64_t sink;
static pthread_barrier_t done;

__attribute__((noinline)) static void tick(uint64_t i)
{
    sink = i;
}

QUIET static void call(uint64_t count)
{
    uint64_t mine = ++numbers[0];
    for (uint64_t i = 0; i < count; i++) {
        tick(i);
        numbers[mine]++;
    }
}

QUIET static void *call_and_stay(void *arg)
{
    call(calls);
    pthread_barrier_wait(&done);
    if (arg && strcmp(way, "exec") == 0) {
        char text[24];
        snprintf(text, sizeof text, "%llu", (unsigned long long)calls);
        execl("/proc/self/exe", "ending", "return", file, text, (char *)NULL);
        _exit(99);
    }
    for (;;)
        pause();
}

QUIET static void *call_few(void *arg)
{
    for (uint64_t i = 0; i < CALLS; i++)
        tick(i);
    numbers[1] += CALLS;
    return arg;
}

QUIET static int many_threads(uint64_t count)
{
    pthread_t threads[AT_ONCE];
    numbers[0] = 1;
    for (uint64_t left = count; left;) {
        unsigned now = left < AT_ONCE ? (unsigned)left : AT_ONCE;
        for (unsigned i = 0; i < now; i++)
            if (pthread_create(&threads[i], NULL, call_few, NULL) != 0)
                return 1;
        for (unsigned i = 0; i < now; i++)
            pthread_join(threads[i], NULL);
        left -= now;
    }
    return 0;
}

QUIET static int forks(void)
{
    pid_t child = fork();
    if (child == 0) {
        call(calls);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    _exit(status != 0);
}

QUIET int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    way = argv[1];
    file = argv[2];
    calls = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_MAX;
    int fd = open(file, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, NUMBERS * sizeof *numbers) < 0)
        return 2;
    numbers = mmap(NULL, NUMBERS * sizeof *numbers, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (numbers == MAP_FAILED)
        return 2;
    if (strcmp(way, "threads") == 0)
        return many_threads(calls);
    pthread_t thread;
    pthread_barrier_init(&done, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, call_and_stay, (void *)i) != 0)
            return 2;
    call(calls);
    pthread_barrier_wait(&done);
    if (strcmp(way, "_exit") == 0)
        _exit(0);
    if (strcmp(way, "_Exit") == 0)
        _Exit(0);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(0);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(way, "fork") == 0)
        return forks();
    if (strcmp(way, "exec") == 0)
        pause();
    return 0;
}
