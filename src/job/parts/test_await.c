/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/parts/fetch.h"

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
        cmocka_unit_test_setup_teardown(test_nodes_that_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_started, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_answer, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
