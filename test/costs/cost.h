/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the programs whose calls are counted (calls.c, mpi_calls.c) say to counter.c what to count: an int3 with the
 * path's name in rdi begins, the next one ends. What is between them is counted; nothing runs them but under counter.c.
 */
#ifndef TEST_COSTS_COST_H
#define TEST_COSTS_COST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COST_QUIET __attribute__((no_instrument_function, unused))

enum { COST_WARM = 300, COST_TIMES = 8 };

COST_QUIET static inline __attribute__((always_inline)) void cost_mark(const char *name)
{
    __asm__ volatile("int3" : : "D"(name) : "memory");
}

/* Of a call, as often as it is to be done: at first it learns and is not counted, then it is. */
#define COST(name, count, call) \
    for (int times_ = 0; times_ < ((count) ? COST_TIMES : COST_WARM); times_++) { \
        if (count) \
            cost_mark(name); \
        call; \
        if (count) \
            cost_mark(NULL); \
    }

/*
 * Prints the process id; then does all calls at each line of input: at `count N` they are counted, at `warm N` it is said
 * when they are done. N is for the calls.
 */
COST_QUIET static inline void cost_serve(void (*calls)(bool count, int n))
{
    char line[32];
    printf("%d\n", (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        calls(strncmp(line, "count", 5) == 0, (int)strtol(line + 5, NULL, 10));
        puts("done");
        fflush(stdout);
    }
}

#endif
