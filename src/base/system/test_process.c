/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are started, and how a user is called: one name everywhere, also for one that no database knows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/process.h"

static void test_name(void **state)
{
    char name[USER_NAME_BYTES], narrow[4];
    assert_string_equal(user_name(0, name, sizeof name), "root");
    assert_string_equal(user_name(0, narrow, sizeof narrow), "roo");
}

static void test_number(void **state)
{
    char name[USER_NAME_BYTES];
    assert_string_equal(user_name(3999999999U, name, sizeof name), "3999999999");
}

static int upper_case_start(pid_t *ret_pid, int ret_ends[3])
{
    char shell[] = "sh", option[] = "-c", command[] = "tr a-z A-Z; exit 7", *argv[] = {shell, option, command, NULL};
    return spawn_piped(
        &(struct spawn){.path = "/bin/sh", .argv = argv, .in = SPAWN_PIPE, .out = SPAWN_PIPE, .error = SPAWN_NULL},
        ret_pid, ret_ends);
}

static void test_pipes(void **state)
{
    char text[8] = "";
    int ends[3];
    pid_t pid;
    assert_int_equal(upper_case_start(&pid, ends), 0);
    assert_int_equal(ends[2], -1);
    assert_int_equal(fcntl(ends[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(write(ends[0], "word", 4), 4);
    close(ends[0]);
    assert_int_equal(read(ends[1], text, sizeof text - 1), 4);
    assert_string_equal(text, "WORD");
    close(ends[1]);
    int status = child_reap(pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(child_reap(pid), 0);
}

/* The ends of pipes then have the numbers of streams. */
static void test_pipes_of_a_program_without_streams(void **state)
{
    int kept[2] = {dup(STDIN_FILENO), dup(STDERR_FILENO)};
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    test_pipes(state);
    dup2(kept[0], STDIN_FILENO);
    dup2(kept[1], STDERR_FILENO);
    close(kept[0]);
    close(kept[1]);
}

static void test_no_program_leaves_no_pipe(void **state)
{
    char name[] = "nothing", *argv[] = {name, NULL};
    int ends[3], next = dup(STDERR_FILENO);
    pid_t pid;
    close(next);
    const struct spawn spawn = {
        .path = "/nothing", .argv = argv, .in = SPAWN_PIPE, .out = SPAWN_PIPE, .error = SPAWN_PIPE};
    assert_int_equal(spawn_piped(&spawn, &pid, ends), -ENOENT);
    for (int number = 0; number < 3; number++)
        assert_int_equal(ends[number], -1);
    assert_int_equal(dup(STDERR_FILENO), next);
    close(next);
}

/* It is no child of ours, and says by a file where it is. */
static void test_detached(void **state)
{
    char path[] = "/tmp/scry-detached-XXXXXX", shell[] = "sh", option[] = "-c", command[128], text[64] = "";
    char *argv[] = {shell, option, command, NULL}, *rest = text;
    struct spawn spawn = {.path = "/bin/sh", .argv = argv, .in = SPAWN_NULL, .out = SPAWN_NULL, .error = SPAWN_NULL};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(command, sizeof command, "cd -P .; echo $PWD $(umask) $PPID >>%s", path);
    assert_int_equal(spawn_detached(&spawn, 3), 0);
    while (!strchr(text, '\n')) {
        wait_fd(-1, 0, 1);
        assert_true(pread(fd, text, sizeof text - 1, 0) >= 0);
    }
    assert_string_equal(strsep(&rest, " "), "/");
    assert_string_equal(strsep(&rest, " "), "0077");
    assert_int_not_equal(atoi(rest), getpid());
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    spawn.path = "/nothing";
    assert_int_equal(spawn_detached(&spawn, 0), -ENOENT);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_number),
        cmocka_unit_test(test_pipes),
        cmocka_unit_test(test_pipes_of_a_program_without_streams),
        cmocka_unit_test(test_no_program_leaves_no_pipe),
        cmocka_unit_test(test_detached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
