/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls made by functions that are not instrumented, by some that are inlined, and by those that are; before each call
 * the caller says who it is and what its local variables are, in the form in which replay shows them: CALLED CALLER
 * NAME=VALUE ...
 */
#include <stdio.h>

#define UNTRACED __attribute__((noinline, no_instrument_function))

__attribute__((noinline)) static int leaf(int n)
{
    return n + 1;
}

__attribute__((noinline)) static int middle(int n)
{
    volatile int doubled = 2 * n;
    printf("leaf middle doubled=%d\n", doubled);
    return leaf(doubled) + doubled;
}

UNTRACED static int hidden(int n)
{
    volatile int tripled = 3 * n, shifted = tripled << 4;
    printf("leaf hidden tripled=%d shifted=%d\n", tripled, shifted);
    return leaf(shifted) + tripled;
}

UNTRACED static int deeper(int n)
{
    volatile int before = n - 1;
    return hidden(before) + before;
}

__attribute__((always_inline, no_instrument_function)) static inline int inside(int n)
{
    volatile int inlined = n + 100;
    printf("leaf inside inlined=%d\n", inlined);
    return leaf(inlined) + inlined;
}

/* Instrumented, and inlined all the same: its hooks are told who called the function that it is in. */
__attribute__((always_inline)) static inline int enclosed(int n)
{
    volatile int squared = n * n;
    printf("leaf enclosed squared=%d\n", squared);
    return leaf(squared) + squared;
}

__attribute__((always_inline)) static inline int wrapped(int n)
{
    volatile int more = n + 1;
    printf("enclosed wrapped more=%d\n", more);
    return enclosed(more) + more;
}

__attribute__((noinline)) static int around(int n)
{
    volatile int kept = n + 7, given = kept - 5;
    printf("enclosed around kept=%d given=%d\n", kept, given);
    int result = enclosed(given);
    printf("wrapped around kept=%d given=%d\n", kept, given);
    return wrapped(given) + result + kept;
}

int main(void)
{
    volatile int sum = 5;
    printf("middle main sum=%d\n", sum);
    sum += middle(1);
    sum += hidden(20);
    sum += deeper(300);
    sum += inside(4000);
    printf("around main sum=%d\n", sum);
    sum += around(50);
    printf("leaf main sum=%d\n", sum);
    sum += leaf(sum);
    return sum == 0;
}
