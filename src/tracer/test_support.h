/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the tracer share: targets (forked children with known code), the tracer, and waiting for events. */
#ifndef SCRY_TRACER_TEST_SUPPORT_H
#define SCRY_TRACER_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "tracer/tracer.h"

enum { TEST_COUNTERS = 64, TEST_TIMEOUT_S = 40 /* of a sanitized build on a busy machine, too */ };

/* Memory shared between the test and its targets. */
struct shared {
    _Atomic int ready, go, stop, failed;
    _Atomic long counters[TEST_COUNTERS];
    _Atomic pid_t tids[TEST_COUNTERS];
    _Atomic uint64_t values[TEST_COUNTERS];
};
extern struct shared *shared;

typedef void target_fn(void);

/* Starts fn in a child process and waits until it has set shared->ready. It exits with 0 when fn returns. */
pid_t target_start(target_fn *fn);
/* In the child: sets it, and waits for shared->go. */
void target_ready(void);
int target_wait(pid_t pid); /* the wait status */
void target_kill(pid_t pid);

extern struct tracer *tracer;
extern code_cell *test_cells;

int test_setup(void **state);
int test_teardown(void **state);
void tracer_begin(void);

/* The next event of this kind; others before it fail the test unless they are in `skip` (a bit set of kinds). */
struct tracer_event next_event(enum tracer_event_kind kind, unsigned skip);
bool poll_event(struct tracer_event *ret_event, int timeout_ms);

/* Waits until the condition holds. */
#define WAIT_FOR(condition) \
    do { \
        uint64_t until_ = test_now_ms() + TEST_TIMEOUT_S * 1000; \
        while (!(condition)) { \
            if (test_now_ms() > until_) \
                fail_msg("timed out waiting for %s", #condition); \
            test_pause(); \
        } \
    } while (0)
uint64_t test_now_ms(void);
void test_pause(void);

long status_field(pid_t tid, const char *name); /* a number of /proc/PID/status */
char state_of(pid_t tid);
uint8_t byte_at(pid_t pid, uint64_t addr);

#define ADDR(function) ((uint64_t)(uintptr_t)(function))

#endif
