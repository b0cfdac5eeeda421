/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of wait, what it knows of the other process, and what it decides: no process, and no time passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "shm/waits.h"

enum { NEVER = -1, SAME = 0 };

/* Until when, in ms, it is waited on for one in each state. SAME: as for one that sleeps. */
static const struct row {
    enum wait_kind kind;
    uint32_t caller_ms;
    int64_t sleeps, starved, stopped, unseen;
    uint32_t cpu; /* so much of a processor makes a starved one like one that sleeps; 0: none does */
} rows[] = {
    {WAIT_HELLO, 0, 1000, 4000, 200, SAME, 0},
    {WAIT_HELLO, 700, 700, 2800, 200, SAME, 0},
    {WAIT_HELLO_FORK, 0, 250, 1000, 200, SAME, 0},
    {WAIT_DIAL, 1000, 1000, SAME, 200, SAME, 0},
    {WAIT_HELD, 0, NEVER, NEVER, 200, 1000, 0},
    {WAIT_MAIN, 0, 20000, SAME, 200, SAME, 0},
    {WAIT_MAIN, 5000, 5000, SAME, 200, SAME, 0},
    {WAIT_MAIN_FORK, 0, 250, SAME, 200, SAME, 0},
    {WAIT_MAIN_DLOPEN, 0, 2000, SAME, 200, SAME, 0},
    {WAIT_SEEN, 0, 500, 4000, 200, SAME, 0},
    {WAIT_PACKET, 100, 100, 2000, SAME, SAME, 0},
    {WAIT_PACKET, 0, 0, 0, SAME, SAME, 0},
    {WAIT_GATE, 0, 10000, SAME, 200, 1000, 0},
    {WAIT_MESSAGE, 0, 200, SAME, SAME, SAME, 0},
    {WAIT_RANK, 0, 2000, SAME, SAME, SAME, 0},
    {WAIT_TRACER, 0, 3000, 15000, SAME, SAME, 0},
    {WAIT_ANSWER, 300, 300, 1500, 200, SAME, 600},
    {WAIT_ANSWER, 10000, 10000, 50000, 200, SAME, 20000},
    {WAIT_ANSWER, 0, 0, 0, 200, SAME, 0},
    {WAIT_RUN, 0, 1000, 5000, 200, SAME, 2000},
    {WAIT_RUN_ARMING, 0, 10000, 50000, 200, SAME, 20000},
    {WAIT_RUN_SILENCE, 0, 5000, 25000, 200, SAME, 10000},
    {WAIT_SET, 0, 2000, 10000, 200, SAME, 4000},
    {WAIT_WRITTEN, 0, 3000, 6000, 200, SAME, 0},
    {WAIT_OBSERVED, 0, 4000, SAME, 200, SAME, 0},
    {WAIT_PUBLISHED, 0, 3000, 6000, 200, SAME, 0},
    {WAIT_MIRROR, 0, 1000, SAME, SAME, SAME, 0},
    {WAIT_STEP, 0, 2000, SAME, SAME, SAME, 0},
    {WAIT_PARTS, 0, 3000, SAME, SAME, SAME, 0},
    {WAIT_NEWS, 0, 8000, SAME, SAME, SAME, 0},
    {WAIT_RELAY, 0, 15000, SAME, SAME, SAME, 0},
    {WAIT_BROKER, 0, 8000, SAME, SAME, SAME, 0},
    {WAIT_TOLD, 0, 6000, SAME, SAME, SAME, 0},
    {WAIT_RANKS, 0, 100, 3000, SAME, SAME, 0},
};

static enum wait_verdict judge(const struct row *row, struct wait_seen seen, uint64_t passed_ns)
{
    seen.passed_ns = passed_ns;
    seen.limit_ns = row->caller_ms * WAITS_NS_PER_MS;
    return waits_judge(&wait_policies[row->kind], &seen);
}

static void check(const struct row *row, struct wait_seen seen, int64_t until_ms, enum wait_verdict verdict)
{
    uint64_t until_ns = (uint64_t)until_ms * WAITS_NS_PER_MS;
    if (until_ms == NEVER) {
        assert_int_equal(judge(row, seen, UINT64_MAX / 2), WAIT_ON);
        return;
    }
    if (judge(row, seen, until_ns) != verdict || (until_ns && judge(row, seen, until_ns - 1) != WAIT_ON))
        fail_msg("kind %d, %u ms by its caller, state '%c': not %d from %ld ms on", (int)row->kind, row->caller_ms,
                 seen.state ? seen.state : '0', (int)verdict, (long)until_ms);
    assert_int_equal(judge(row, seen, until_ns + WAITS_NS_PER_MS), verdict);
}

static int64_t or_asleep(const struct row *row, int64_t until_ms)
{
    return until_ms == SAME ? row->sleeps : until_ms;
}

static void test_rows(void **state)
{
    bool seen[WAIT_KINDS] = {false};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        enum wait_verdict stopped = row->stopped == SAME ? WAIT_LATE : WAIT_STOPPED;
        enum wait_verdict unseen = row->unseen == SAME ? WAIT_LATE : WAIT_STOPPED;
        seen[row->kind] = true;
        for (const char *letter = "SIZXP"; *letter; letter++)
            check(row, (struct wait_seen){.state = *letter}, row->sleeps, WAIT_LATE);
        for (const char *letter = "RD"; *letter; letter++)
            check(row, (struct wait_seen){.state = *letter}, or_asleep(row, row->starved), WAIT_LATE);
        for (const char *letter = "Tt"; *letter && (row->sleeps || stopped == WAIT_LATE); letter++)
            check(row, (struct wait_seen){.state = *letter}, or_asleep(row, row->stopped), stopped);
        check(row, (struct wait_seen){.state = 0}, or_asleep(row, row->unseen), unseen);
    }
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        assert_true(seen[kind]);
}

/* One that uses a processor all the time may never come to an end. */
static void test_processor_time(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        if (row->starved == SAME || row->starved == NEVER || !row->sleeps)
            continue;
        struct wait_seen seen = {.state = 'R', .cpu_ns = row->cpu * WAITS_NS_PER_MS};
        if (row->cpu) {
            check(row, seen, row->sleeps, WAIT_LATE);
            seen.cpu_ns--;
        } else {
            seen.cpu_ns = UINT64_MAX;
        }
        check(row, seen, row->starved, WAIT_LATE);
    }
}

/* A thread after one that has waited does not wait at all, if that is for the same reason. */
static void test_in_vain(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct wait_seen seen = {.in_vain = true, .state = 'T'};
        if (row->stopped != SAME)
            assert_int_equal(judge(row, seen, 0), WAIT_STOPPED);
        else
            check(row, seen, row->sleeps, WAIT_LATE);
        seen.state = 0;
        if (row->unseen != SAME)
            assert_int_equal(judge(row, seen, 0), WAIT_STOPPED);
        else
            check(row, seen, row->sleeps, WAIT_LATE);
        seen.state = 'S';
        check(row, seen, row->sleeps, WAIT_LATE);
    }
}

/* A wait is looked at often enough, ends at its limit, and never spins. */
static void test_slices(void **state)
{
    static const struct {
        enum wait_kind kind;
        uint32_t caller_ms;
        uint32_t first, second, before_limit, late; /* ms: at 0, at 10 ms, 1 ms before the limit, after it */
    } cases[] = {
        {WAIT_HELLO, 0, 5, 50, 1, 50},       {WAIT_HELLO_FORK, 0, 5, 50, 1, 50},    {WAIT_MAIN, 0, 100, 100, 1, 0},
        {WAIT_SEEN, 0, 20, 20, 1, 20},       {WAIT_PACKET, 1000, 100, 100, 1, 20},  {WAIT_PACKET, 20, 20, 10, 1, 20},
        {WAIT_TRACER, 0, 3000, 2990, 1, 50}, {WAIT_ANSWER, 1000, 100, 100, 1, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wait_policy *policy = &wait_policies[cases[i].kind];
        struct wait_seen seen = {.limit_ns = cases[i].caller_ms * WAITS_NS_PER_MS};
        uint64_t limit_ns = waits_limit_ns(policy, &seen);
        assert_int_equal(waits_slice_ns(policy, &seen), cases[i].first * WAITS_NS_PER_MS);
        seen.passed_ns = 10 * WAITS_NS_PER_MS;
        assert_int_equal(waits_slice_ns(policy, &seen), cases[i].second * WAITS_NS_PER_MS);
        seen.passed_ns = limit_ns - WAITS_NS_PER_MS;
        assert_int_equal(waits_slice_ns(policy, &seen), cases[i].before_limit * WAITS_NS_PER_MS);
        seen.passed_ns = limit_ns;
        assert_int_equal(waits_slice_ns(policy, &seen), cases[i].late ? cases[i].late * WAITS_NS_PER_MS : 1);
    }
    const struct wait_seen seen = {.passed_ns = UINT64_MAX / 2};
    assert_int_equal(waits_slice_ns(&wait_policies[WAIT_HELD], &seen), 50 * WAITS_NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_processor_time),
        cmocka_unit_test(test_in_vain),
        cmocka_unit_test(test_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
