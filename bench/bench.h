/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks that talk to a monitor share: a clock, the end with a message, medians. */
#ifndef SCRY_BENCH_H
#define SCRY_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline double bench_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static inline void bench_fail(const char *program, const char *what)
{
    fprintf(stderr, "%s: %s\n", program, what);
    exit(1);
}

static inline int bench_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Removes the runtime directory of a monitor that has ended or is ending. */
static inline void bench_remove_runtime(const char *dir)
{
    static const char *const files[] = {"monitor.log", "monitor.pid", "monitor.sock", "starter.lock"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* Sorts the values, prints median, lowest and highest in a line, and returns the median. */
static inline double bench_report(const char *what, double *values, int count, const char *unit)
{
    qsort(values, (size_t)count, sizeof *values, bench_ascending);
    printf("%-44s %9.2f [%.2f .. %.2f] %s\n", what, values[count / 2], values[0], values[count - 1], unit);
    return values[count / 2];
}

#endif
