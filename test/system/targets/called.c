/* SPDX-License-Identifier: Apache-2.0 */
/*
 * called: a program with hooks that calls what it is told to. Commands, one a line: `add FROM TO` calls
 * add(i, &a point) for FROM <= i < TO, `step X` calls step(X), `walk N` goes N deep and, there, waits for a line (which
 * it gives back), `again N` calls add(0, NULL) N times from another thread. The answer says what came of it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

enum colour { RED, GREEN = 5 };
struct point {
    int x;
    double y;
};

int shared_number = 41;
static double hidden_ratio = 2.5;
enum colour paint = GREEN;
char title[16] = "before";
struct point origin = {3, -0.5};
static long sum;

static int add(int n, const struct point *at)
{
    int twice = 2 * n;
    sum += n;
    return at ? twice + at->x : twice;
}

static double step(double residual)
{
    return residual * hidden_ratio;
}

static int walk(int depth, const char *name)
{
    char line[64];
    int below = depth - 1;
    if (depth > 0)
        return walk(below, name) + 1;
    printf("deep\n");
    return fgets(line, sizeof line, stdin) ? (int)strlen(line) - 1 + (int)strlen(name) : -1;
}

static void *work(void *count)
{
    for (long i = *(long *)count; i > 0; i--)
        add(0, NULL);
    return NULL;
}

QUIET static void again(long count)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, &count) == 0)
        pthread_join(thread, NULL);
}

QUIET int main(void)
{
    char line[128], word[16];
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0); /* walk reads, too */
    printf("self %d\nshared_number %p\nready\n", getpid(), (void *)&shared_number);
    while (fgets(line, sizeof line, stdin)) {
        double first = 0, last = 0;
        if (sscanf(line, "%15s %lf %lf", word, &first, &last) < 1)
            continue;
        if (strcmp(word, "add") == 0) {
            struct point at = {100, first};
            int result = 0;
            for (int i = (int)first; i < (int)last; i++)
                result = add(i, &at);
            printf("%d %ld\n", result, sum);
        } else if (strcmp(word, "step") == 0) {
            printf("%g\n", step(first));
        } else if (strcmp(word, "walk") == 0) {
            printf("%d\n", walk((int)first, "bottom"));
        } else if (strcmp(word, "again") == 0) {
            again((long)first);
            printf("done %d %s %d\n", shared_number, title, (int)paint);
        }
    }
    return 0;
}
