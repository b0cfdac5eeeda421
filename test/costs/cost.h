/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the programs whose calls are counted (calls.c, mpi_calls.c) say to counter.c what to count: an int3 with the
 * path's name in rdi begins a call, the next one, without a name, ends it. Only under counter.c they are met.
 */
#ifndef TEST_COSTS_COST_H
#define TEST_COSTS_COST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COST_QUIET __attribute__((no_instrument_function, unused))

enum { COST_WARM = 300, COST_TIMES = 4 };

/* The branch is not the compiler's, who would make two copies of the call: what is learned of the one place would not be
 * of the other. */
COST_QUIET static inline __attribute__((always_inline)) void cost_mark(bool count, const char *name)
{
    __asm__ volatile("testb %b1, %b1\n\tjz 1f\n\tint3\n1:" : : "D"(name), "q"(count) : "memory", "cc");
}

/* Of a call, as often as it is to be done: at first it learns and is not counted, then it is. */
#define COST(name, count, call) \
    for (int times_ = 0; times_ < ((count) ? COST_TIMES : COST_WARM); times_++) { \
        cost_mark(count, name); \
        call; \
        cost_mark(count, NULL); \
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
        bool count = strncmp(line, "count", 5) == 0;
        cost_mark(count, ""); /* stepped through from here on, not only the calls: for it has a clock of its own */
        calls(count, (int)strtol(line + 5, NULL, 10));
        cost_mark(count, NULL);
        puts("done");
        fflush(stdout);
    }
}

#endif
