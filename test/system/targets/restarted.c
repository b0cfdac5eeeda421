/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restarted: number(i), text(i), point(i) and letter(i), once a millisecond until standard input ends. What they are
 * called with, have in their locals and return follows from i: each looks different in memory. On standard output: how
 * many times that was.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define SEPARATE __attribute__((noinline))

struct point {
    int x, y;
    double z;
};

SEPARATE static long number(long count)
{
    long twice = 2 * count;
    return twice + 1;
}

SEPARATE static int text(const char *word, int at)
{
    char first = word[at % 3];
    return first;
}

SEPARATE static double point(struct point *where, short scale)
{
    struct point own = {where->x * scale, where->y * scale, where->z * scale};
    return own.z;
}

SEPARATE static char letter(char c, unsigned long long wide)
{
    unsigned char next = (unsigned char)(c + 1);
    return (char)(next + (wide == 0));
}

QUIET int main(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    int count = 0;
    do {
        struct point where = {count, -count, count + 0.5};
        number(count);
        text("abc", count);
        point(&where, 3);
        letter((char)('a' + count % 20), (unsigned long long)count << 33 | 1);
        count++;
    } while (poll(&input, 1, 1) == 0 || read(STDIN_FILENO, &byte, 1) > 0);
    printf("calls %d\n", count);
    return 0;
}
