/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a breakpoint hit costs the program: with a lowered action (counted in the tracer), reported and released at once
 * by the monitor's side, beside gdb's breakpoint with a condition that is false and gdb's breakpoint with commands.
 *
 *     bench_breakpoint [PAIRS [HITS]]
 *
 * Each round runs the four in turn, each in a new process that calls a function in a loop and takes the time itself.
 * Printed are medians, and the ratios to gdb's with the 95 % interval of the median (by order statistics).
 */
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "tracer/tracer.h"

enum { MAX_PAIRS = 1000, LOWERED = 0, REPORTED, CONDITION, COMMANDS, KINDS };
static const char *const names[KINDS] = {"lowered action", "reported, held, released", "gdb, condition",
                                         "gdb, commands"};

struct shared {
    _Atomic int go;
    _Atomic int ready;
    uint64_t took_ns;
};
static volatile struct shared *shared;
static int hits;

__attribute__((noinline)) static long traced(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

static pid_t start_target(void)
{
    shared->go = shared->ready = 0;
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    shared->ready = 1;
    while (!shared->go)
        usleep(1000);
    long sum = 0;
    uint64_t begun = clock_now_ns();
    for (int i = 0; i < hits; i++)
        sum += traced(i);
    shared->took_ns = clock_now_ns() - begun;
    _exit(sum == 0);
}

struct run {
    struct tracer *tracer;
    bool gone;
};

static void on_event(void *ctx, const struct tracer_event *event)
{
    struct run *run = ctx;
    if (event->kind == TRACER_GONE)
        run->gone = true;
    else
        tracer_release_hold(run->tracer, event->hold);
}

static double with_tracer(const char *path, int cells_fd, bool lowered)
{
    struct run run = {0};
    struct err err = {0};
    struct code_program program = {.count = 1, .insns = {{.op = CODE_ADD, .a = 1}}};
    pid_t pid = start_target();
    if (tracer_start(&run.tracer, path, cells_fd, on_event, &run, &err) < 0 ||
        tracer_seize(run.tracer, pid, &err) < 0 ||
        tracer_break_set(run.tracer, pid, (uint64_t)(uintptr_t)traced, 1, lowered ? &program : NULL, NULL, &err) < 0) {
        fprintf(stderr, "bench_breakpoint: %s\n", err.text);
        exit(1);
    }
    shared->go = 1;
    struct pollfd poll_fd = {.fd = tracer_fd(run.tracer), .events = POLLIN};
    while (!run.gone) {
        poll(&poll_fd, 1, -1);
        tracer_dispatch(run.tracer);
    }
    waitpid(pid, NULL, 0);
    tracer_stop_all(run.tracer);
    return (double)shared->took_ns / hits;
}

static double with_gdb(bool commands)
{
    char where[128], go[128], attach[32];
    pid_t pid = start_target();
    while (!shared->ready)
        usleep(100);
    snprintf(attach, sizeof attach, "%d", pid);
    snprintf(where, sizeof where, "break *%#lx%s", (unsigned long)(uintptr_t)traced, commands ? "" : " if $rdi == -1");
    snprintf(go, sizeof go, "set var *(int *)%#lx = 1", (unsigned long)(uintptr_t)&shared->go);
    char script[] = "/tmp/bench_breakpoint_XXXXXX";
    int fd = mkstemp(script);
    if (fd < 0)
        exit(1);
    dprintf(fd, "set pagination off\n%s\n%s%s\ncontinue\n", where, commands ? "commands\nsilent\ncontinue\nend\n" : "",
            go);
    close(fd);
    pid_t gdb = fork();
    if (gdb == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execlp("gdb", "gdb", "-nx", "-batch", "-p", attach, "-x", script, (char *)NULL);
        _exit(127);
    }
    int status;
    waitpid(gdb, &status, 0);
    unlink(script);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 127 || waitpid(pid, NULL, 0) != pid) {
        fprintf(stderr, "bench_breakpoint: gdb is not usable here\n");
        exit(77);
    }
    return (double)shared->took_ns / hits;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_ratio(const char *what, const double *peer, const double *ours, int pairs, double goal)
{
    static double ratios[MAX_PAIRS];
    for (int i = 0; i < pairs; i++)
        ratios[i] = peer[i] / ours[i];
    qsort(ratios, (size_t)pairs, sizeof *ratios, compare);
    int low = (int)floor((pairs - 1.96 * sqrt(pairs)) / 2), high = (int)ceil(1 + (pairs + 1.96 * sqrt(pairs)) / 2);
    low = low < 1 ? 1 : low;
    high = high > pairs ? pairs : high;
    printf("%-52s %6.1f x faster [%.1f, %.1f], goal %.0f\n", what, ratios[pairs / 2], ratios[low - 1], ratios[high - 1],
           goal);
}

int main(int argc, char **argv)
{
    static double ns[KINDS][MAX_PAIRS];
    int pairs = argc > 1 ? atoi(argv[1]) : 20;
    hits = argc > 2 ? atoi(argv[2]) : 2000;
    const char *path = getenv("SCRY_TRACER");
    if (!path || pairs < 1 || pairs > MAX_PAIRS || hits < 1) {
        fprintf(stderr, "usage: SCRY_TRACER=PATH bench_breakpoint [PAIRS [HITS]]\n");
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int cells_fd = memfd_create("cells", MFD_CLOEXEC);
    if (shared == MAP_FAILED || cells_fd < 0 || ftruncate(cells_fd, CODE_CELLS * sizeof(code_cell)) < 0)
        return 1;
    for (int i = 0; i < pairs; i++) {
        ns[LOWERED][i] = with_tracer(path, cells_fd, true);
        ns[CONDITION][i] = with_gdb(false);
        ns[REPORTED][i] = with_tracer(path, cells_fd, false);
        ns[COMMANDS][i] = with_gdb(true);
    }
    print_ratio("lowered action, against gdb's condition:", ns[CONDITION], ns[LOWERED], pairs, 10);
    print_ratio("reported and held, against gdb's commands:", ns[COMMANDS], ns[REPORTED], pairs, 3);
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(ns[kind], (size_t)pairs, sizeof *ns[kind], compare);
        printf("%-28s %8.1f us a hit\n", names[kind], ns[kind][pairs / 2] / 1000);
    }
    return 0;
}
