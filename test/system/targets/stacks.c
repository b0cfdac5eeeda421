/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack through the program, a shared library and the C library (qsort), of optimised code without frame pointers.
 * Prints what backtrace() finds at its bottom, innermost first, and then waits there until standard input ends.
 */
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void deep(int levels, void (*function)(int levels), int rest);

static void wait_at_bottom(void);

__attribute__((noinline, noclone)) static void descend(int levels)
{
    if (levels > 0)
        deep(2, descend, levels - 1);
    else
        wait_at_bottom();
    __asm__ volatile("");
}

static int started;

static int compare(const void *a, const void *b)
{
    if (!started++)
        descend(2);
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline, noclone)) static void wait_at_bottom(void)
{
    void *frames[200];
    char byte;
    int count = backtrace(frames, 200);
    /* the first is here; the others are what called us */
    for (int i = 1; i < count; i++)
        printf("frame %p\n", frames[i]);
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
}

int main(void)
{
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    return !(numbers[0] == 1 && numbers[2] == 3);
}
