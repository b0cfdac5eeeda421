/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unset [wrong]: functions whose arguments lead to memory that was never set, was freed, or ends before its string
 * does. The program itself looks at none of that, so that memcheck has nothing to say; with `wrong` it does, once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define SEPARATE __attribute__((noinline))

struct item {
    int value;
    double number;
    const char *name;
};

SEPARATE static int fill(wchar_t *out, char *text, struct item *item)
{
    *out = L'x';
    memcpy(text, "text", 5);
    item->value = 1;
    return item->value;
}

SEPARATE static int unterminated(const char *text, size_t size)
{
    return text[size - 1];
}

SEPARATE static int freed(const char *text, const struct item *item)
{
    return (text != NULL) + (item != NULL);
}

static volatile int seen;

SEPARATE static int look(const int *number)
{
    if (*number)
        seen = 1;
    return 7;
}

SEPARATE static int work(int wrong)
{
    wchar_t out;
    char text[40];
    struct item item;
    int sum = fill(&out, text, &item), *number = malloc(sizeof *number);
    char *bytes = malloc(5);
    struct item *other = malloc(sizeof *other);
    memset(bytes, 'y', 5);
    sum += unterminated(bytes, 5);
    free(other);
    free(bytes);
    sum += freed(bytes, other); /* NOLINT(clang-analyzer-unix.Malloc) */
    if (wrong && number)
        sum += look(number) != 7;
    free(number);
    return sum;
}

int main(int argc, char **argv)
{
    (void)argv;
    printf("sum %d\n", work(argc > 1) > 0);
    return 0;
}
