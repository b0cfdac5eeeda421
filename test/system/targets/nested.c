/* SPDX-License-Identifier: Apache-2.0 */
/* Waits in a function that the C library calls, below one that calls itself. Compiled in several ways by the test. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare(const void *one, const void *other)
{
    char room[128];
    memset(room, *(const int *)one, sizeof room);
    pause();
    return room[3] - *(const int *)other;
}

__attribute__((noinline)) static void sort(int count)
{
    int *list = malloc((size_t)count * sizeof *list);
    for (int i = 0; i < count; i++)
        list[i] = count - i;
    qsort(list, (size_t)count, sizeof *list, compare);
    free(list);
}

__attribute__((noinline)) static void descend(int levels)
{
    volatile char room[64];
    room[0] = (char)levels;
    if (levels)
        descend(levels - 1);
    else
        sort(10);
    room[1] = 1;
}

int main(void)
{
    descend(5);
    return 0;
}
