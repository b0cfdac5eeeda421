/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Newton's method on some polynomials: a program whose functions, arguments and local variables are worth a look. It is
 * compiled with -g -finstrument-functions, so that each call can be recorded.
 *
 *     newton [REPEAT [MILLISECONDS]]
 *
 * Does all of it REPEAT times (default 1, 0: until it is killed) with a rest between. What it prints is the same every
 * time; so are its calls: solve_all once, find_root 4 times, improve, value_at and slope_at 32 times each. The last
 * polynomial has no real root: at x = 0 its slope is 0, the next x is infinite, and find_root gives up.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Functions stay functions, so that a tool finds each of them. */
#define SEPARATE __attribute__((noinline))

enum { TERMS = 4, STEPS = 40 };

enum outcome { FOUND, GAVE_UP };

struct polynomial {
    const char *name;
    int degree;
    double coefficients[TERMS]; /* lowest first */
};

struct search {
    const struct polynomial *polynomial;
    double x;
    int steps;
    enum outcome outcome;
};

static const struct polynomial polynomials[] = {
    {"x^2 - 2", 2, {-2, 0, 1}},
    {"x^3 - x - 1", 3, {-1, -1, 0, 1}},
    {"x^2 - 6x + 9", 2, {9, -6, 1}},
    {"x^2 + 1", 2, {1, 0, 1}},
};
static const double starts[] = {1, 1, 2, 1};

SEPARATE static double value_at(const struct polynomial *polynomial, double x)
{
    double value = 0;
    for (int i = polynomial->degree; i >= 0; i--)
        value = value * x + polynomial->coefficients[i];
    return value;
}

SEPARATE static double slope_at(const struct polynomial *polynomial, double x)
{
    double slope = 0;
    for (int i = polynomial->degree; i >= 1; i--)
        slope = slope * x + i * polynomial->coefficients[i];
    return slope;
}

/* One step; returns how far x moved. */
SEPARATE static double improve(struct search *search, double x)
{
    double value = value_at(search->polynomial, x), slope = slope_at(search->polynomial, x);
    double next = x - value / slope;
    search->x = next;
    search->steps++;
    return fabs(next - x);
}

SEPARATE static struct search find_root(const struct polynomial *polynomial, double start)
{
    struct search search = {.polynomial = polynomial, .x = start, .outcome = GAVE_UP};
    double moved = INFINITY;
    while (search.steps < STEPS && moved > 1e-6 && isfinite(search.x))
        moved = improve(&search, search.x);
    if (moved <= 1e-6)
        search.outcome = FOUND;
    return search;
}

SEPARATE static int solve_all(void)
{
    int found = 0;
    for (size_t i = 0; i < sizeof polynomials / sizeof *polynomials; i++) {
        struct search search = find_root(&polynomials[i], starts[i]);
        found += search.outcome == FOUND;
        if (search.outcome == FOUND)
            printf("%-13s root %.6f after %d steps\n", polynomials[i].name, search.x, search.steps);
        else
            printf("%-13s no root after %d steps\n", polynomials[i].name, search.steps);
    }
    return found;
}

int main(int argc, char **argv)
{
    long repeat = argc > 1 ? strtol(argv[1], NULL, 10) : 1, rest_ms = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    int found = 0;
    for (long done = 0; repeat == 0 || done < repeat; done++) {
        found = solve_all();
        fflush(stdout);
        struct timespec rest = {rest_ms / 1000, rest_ms % 1000 * 1000000};
        nanosleep(&rest, NULL);
    }
    return found == 3 ? 0 : 1;
}
