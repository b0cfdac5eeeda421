/* SPDX-License-Identifier: Apache-2.0 */
/* Functions compiled with hooks, with arguments and results of the usual kinds; what a call of each costs is counted. */
#include "cost.h"

#define APART __attribute__((noipa))

struct point {
    int x, y;
    double weight;
};

static volatile int sink;

APART static int two(int a, int b)
{
    sink = a;
    return a + b;
}

APART static int seven(int a, int b, int c, int d, int e, int f, int g)
{
    sink = a;
    return a + b + c + d + e + f + g;
}

APART static double real(double a)
{
    sink = 1;
    return a * 2;
}

APART static int pointed(int *a)
{
    sink = 1;
    return *a;
}

APART static char *text(char *a)
{
    sink = 1;
    return a;
}

APART static struct point *structure(struct point *a)
{
    sink = 1;
    return a;
}

COST_QUIET static void calls(bool count, int n)
{
    static int one = 1;
    static char words[] = "some words";
    static struct point point = {1, 2, 3.5};
    for (int i = 1; i < n; i++) /* so often that its records are not worth it */
        two(i, 2);
    COST("two", count, two(n, 2))
    COST("seven", count, seven(1, 2, 3, 4, 5, 6, 7))
    COST("double", count, real(1.5))
    COST("int *", count, pointed(&one))
    COST("char *", count, text(words))
    COST("struct *", count, structure(&point))
}

COST_QUIET int main(void)
{
    cost_serve(calls);
    return 0;
}
