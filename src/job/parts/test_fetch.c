/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "job/parts/fetch.h"

static void test_names(void **state)
{
    static const char *const good[] = {"job.json",
                                       "spool/records.jsonl",
                                       "trace/n2/12-0/.process",
                                       "trace/n2/1-0/stream-0000",
                                       "stats/n2/12-0.json",
                                       "stats/n2/12-0/MPI_Send.size.dist",
                                       "partsof"};
    static const char *const bad[] = {"",
                                      "/etc/passwd",
                                      "../job.json",
                                      "spool/../../x",
                                      "a/..",
                                      "a//b",
                                      "a/",
                                      ".",
                                      "..",
                                      "./a",
                                      "remote.json",
                                      "clock.json",
                                      "parts/n3/job.json",
                                      "parts",
                                      "mirror.lock",
                                      ".reserve",
                                      "spool/reserve",
                                      "a\nb",
                                      "a/./b"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(fetch_is_good_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(fetch_is_good_name(bad[i]));
}

static void test_growing(void **state)
{
    (void)state;
    assert_true(fetch_only_grows("spool/records.jsonl"));
    assert_true(fetch_only_grows("trace/n2/1-0/stream-0007"));
    assert_true(fetch_only_grows("trace/n2/1-0/.functions"));
    assert_false(fetch_only_grows("trace/n2/1-0/.process"));
    assert_false(fetch_only_grows("trace/n2/1-0/metadata"));
    assert_false(fetch_only_grows("job.json"));
    assert_false(fetch_only_grows("stats/n2/1-0.json"));
}

static void test_clocks(void **state)
{
    const struct part_clock nothing = {0}, written = {-5000, 100, 7}, better = {-5050, 99, 8}, worse = {-5000, 101, 8},
                            set = {INT64_MAX, 1000, 8}, later = {-5000, 101, 60000000000};
    assert_true(fetch_is_better_clock(&written, &nothing));
    assert_true(fetch_is_better_clock(&better, &written));
    assert_false(fetch_is_better_clock(&worse, &written));
    assert_true(fetch_is_better_clock(&later, &written));
    assert_true(fetch_is_better_clock(&set, &written));
    assert_true(fetch_is_better_clock(&written, &set));
}

/* A part may be 32 GB, come for an hour after the command's end, and leaves 256 MB of the disk. */
static void test_limits(void **state)
{
    struct fetch fetch = {.name = "n2", .brought = (UINT64_C(32) << 30) - 1};
    (void)state;
    assert_int_equal(fetch_check_limits(&fetch, 256 << 20), 0);
    assert_int_equal(fetch_check_limits(&fetch, (256 << 20) - 1), -ENOSPC);
    assert_string_equal(fetch.err.text, "less than 256 MB are free here: the rest stays on n2");
    fetch.end_ns = clock_now_ns() + UINT64_C(3600) * NS_PER_SECOND;
    assert_int_equal(fetch_check_limits(&fetch, UINT64_MAX), 0);
    fetch.brought++;
    assert_int_equal(fetch_check_limits(&fetch, UINT64_MAX), -EFBIG);
    assert_string_equal(fetch.err.text, "n2 sent more than 32 GB of its part: the rest stays there");
    fetch.end_ns = 1;
    assert_int_equal(fetch_check_limits(&fetch, UINT64_MAX), -ETIMEDOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_growing),
                                       cmocka_unit_test(test_clocks), cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
