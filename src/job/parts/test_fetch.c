/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- monitors that come by themselves ---- */

static char dir[PATH_MAX], program[PATH_MAX + 16];

/* What is there instead of scry-link. */
static void write_program(const char *text)
{
    FILE *file = fopen(program, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(program, 0700), 0);
}

static int set_up(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/test-await-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    snprintf(program, sizeof program, "%s/scry-link", dir);
    return setenv("SCRY_LIBEXEC", dir, 1);
}

static int tear_down(void **state)
{
    (void)state;
    unlink(program);
    return rmdir(dir);
}

/* The first number that is free: all that were opened are closed if it is the same again. */
static int free_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static void test_nodes_that_come(void **state)
{
    struct awaited awaited;
    char line[64], token[16];
    int before = free_descriptor();
    (void)state;
    write_program("#!/bin/sh\necho SCRY_JOIN=tls://n1:7#5ec4e7\necho node n_2\necho something else\n"
                  "echo node n_of_too_long_a_name\necho node n_3\ncat >/dev/null\n");
    assert_string_equal(awaited_begin(&awaited, line, sizeof line), "tls://n1:7#5ec4e7\n");
    for (int i = 2; i <= 3; i++) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, "n_%d", i);
        while (!awaited_next(&awaited, token, sizeof token))
            usleep(1000);
        assert_string_equal(token, wanted);
    }
    assert_false(awaited_next(&awaited, token, sizeof token));
    awaited_end(&awaited);
    assert_int_equal(free_descriptor(), before);
}

static void test_what_cannot_be_started(void **state)
{
    struct awaited awaited;
    char line[64], token[16];
    int before = free_descriptor();
    (void)state;
    write_program("#!/nothing that could read it\n");
    assert_null(awaited_begin(&awaited, line, sizeof line));
    assert_int_equal(free_descriptor(), before);
    assert_false(awaited_next(&awaited, token, sizeof token));
    awaited_end(&awaited);
    assert_int_equal(free_descriptor(), before);
}

static void test_no_answer(void **state)
{
    struct awaited awaited;
    char line[64];
    int before = free_descriptor();
    (void)state;
    write_program("#!/bin/sh\nexit 1\n");
    assert_null(awaited_begin(&awaited, line, sizeof line));
    awaited_end(&awaited);
    assert_int_equal(free_descriptor(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_limits),
        cmocka_unit_test_setup_teardown(test_nodes_that_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_started, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_answer, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
