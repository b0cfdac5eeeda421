/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the example job that computes: the heat equation in a rod of `count` points with fixed ends. steer.py
 * loads it with ctypes. Compiled with -finstrument-functions, so scry records its calls.
 */
#include <math.h>
#include <stddef.h>

__attribute__((visibility("default"))) double physics_run(double *now, double *next, size_t count, int steps);

static double flow(double left, double here, double right)
{
    return 0.25 * (left - 2 * here + right);
}

/* One step; returns the largest change. */
static double step(const double *now, double *next, size_t count)
{
    double largest = 0;
    next[0] = now[0];
    next[count - 1] = now[count - 1];
    for (size_t i = 1; i + 1 < count; i++) {
        double change = flow(now[i - 1], now[i], now[i + 1]);
        next[i] = now[i] + change;
        largest = fmax(largest, fabs(change));
    }
    return largest;
}

/* The result of an even number of steps is in `now`. Returns the largest change of the last one. */
double physics_run(double *now, double *next, size_t count, int steps)
{
    double largest = 0;
    for (int i = 0; i < steps; i++)
        largest = i % 2 ? step(next, now, count) : step(now, next, count);
    return largest;
}
