/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of test_signals.c have in common: handlers, faults, and words about what they meet. */
#ifndef SCRY_AGENT_TEST_TEST_SIGNAL_TOOLS_H
#define SCRY_AGENT_TEST_TEST_SIGNAL_TOOLS_H

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct program {
    const char *name;
    int (*run)(void);
    int noted; /* the crash note has this signal; 0: none */
};

/* Both end with a row without a name. */
extern const struct program signal_faults[]; /* what kills, and handlers of that */
extern const struct program signal_places[]; /* where a signal may come: blocked, nested, on other stacks, in threads */

/* The agent's, where it is. */
extern int (*reader)(void *dst, uint64_t address, size_t size);
extern volatile int *volatile nowhere;
extern char *hole; /* a page that is not readable, after one that is */
extern sigjmp_buf again;
extern volatile int count;

void say(const char *text);
void say_number(const char *text, long number);
/* Good and bad addresses are distinguished, wherever this is called. */
void probe(void);
/* So is memory that is given back after it was read, most often where the last one was. Was it read? */
bool probe_gone(void);
void set(int signal, void (*handler)(int, siginfo_t *, void *), int flags);
void mask(const char *text);
void alt_stack(size_t size);
bool on_alt_stack(void);

/* Handlers: all say what they get. */
void describe(int signal, siginfo_t *info, void *context);
void skip(int signal, siginfo_t *info, void *context);     /* goes on behind the store of fault() */
void jump_out(int signal, siginfo_t *info, void *context); /* to `again` */
void note(int signal, siginfo_t *info, void *context);

/* A store that faults, and goes on behind it when a handler sends it there. The registers have to be as they were. */
void fault(volatile int *at);

#endif
