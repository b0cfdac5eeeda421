/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal at every single instruction of the hooks (test_target_steps.c), with handlers that call functions, are
 * interrupted themselves, and never return: what is recorded pairs all the same.
 */
#include "agent/test_monitor.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct after {
    uint32_t slot;
    uint64_t count;
};

static void count_after(void *ctx, const struct mini_event *event)
{
    struct after *after = ctx;
    after->count += (event->id == RECORD_ENTRY || event->id == RECORD_ENTRY_VALUES) && event->function == after->slot;
}

static uint64_t number_in(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    assert_non_null(at);
    return strtoull(at + strlen(before), NULL, 10);
}

static void steps(const char *mode, const char *which)
{
    struct mini mini;
    mini_init(&mini);
    mini.buffer_bytes = 16 << 20;
    mini_run(&mini, getenv("TEST_STEPS"), mode, which);
    if (!WIFEXITED(mini.status) || WEXITSTATUS(mini.status))
        fail_msg("%s %s: status %#x", mode, which, (unsigned)mini.status);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    struct after after = {mini_slot(&mini, &mini.areas[0], "after"), 0};
    mini_each(&mini, &mini.areas[0], count_after, &after);
    uint64_t rounds = number_in(mini.output, "rounds ");
    print_message("# %s %s: %" PRIu64 " rounds, %" PRIu64 " entries, %" PRIu64 " unwound, %" PRIu64 " discarded\n",
                  mode, which, rounds, totals.entries, totals.unwound, totals.discarded);
    assert_true(rounds > 0);
    assert_int_equal(totals.open, 0);
    assert_int_equal(totals.entries, totals.exits + totals.unwound + totals.lost);
    /* what comes after a call that was left, or not, is all there */
    assert_int_equal(after.count, rounds);
    mini_done(&mini);
}

static void handlers_that_return(void **state)
{
    steps("quiet", "1");
    steps("calls", "1");
}

static void handlers_that_never_return(void **state)
{
    steps("jump", "1");
    steps("calls,jump", "1");
    steps("calls,jump,stack", "1");
}

/* ... and that nobody tells of: what is on the stack says it. */
static void handlers_that_go_in_silence(void **state)
{
    steps("calls,silent,jump", "1");
    steps("calls,silent,jump,stack", "1");
}

/* STRIDE:FROM:TO: here the instructions of the outer call are gone through in part */
static void handlers_in_handlers(void **state)
{
    static const char *const modes[] = {"calls,nested", "calls,nested,inner", "calls,nested,inner,jump",
                                        "calls,nested,stack"};
    static const char *const parts[] = {"61:20:20", "67:61:61", "73:370:370"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            steps(modes[i], parts[k]);
}

/* STRIDE:FROM:TO:ROOM: so many bytes are left in the packet before the call */
static void at_the_end_of_a_packet(void **state)
{
    static const char *const rooms[] = {"1:1:200:4", "1:200:420:8"};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        steps("calls,full", rooms[i]);
        steps("calls,jump,full", rooms[i]);
    }
}

/* ... and comes again: the first handler returns, only the second may leave */
static void handlers_one_after_the_other(void **state)
{
    steps("calls,again", "97:1:40");
    steps("calls,again,jump", "97:1:60");
    steps("calls,again,jump,full", "97:1:40:4");
    steps("calls,again,jump,full", "131:200:220:8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_that_return),        cmocka_unit_test(handlers_that_never_return),
        cmocka_unit_test(handlers_that_go_in_silence), cmocka_unit_test(handlers_in_handlers),
        cmocka_unit_test(at_the_end_of_a_packet),      cmocka_unit_test(handlers_one_after_the_other),
    };
    const char *only = getenv("TEST_ONLY");
    if (only)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
