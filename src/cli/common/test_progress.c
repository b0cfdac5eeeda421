/* SPDX-License-Identifier: Apache-2.0 */
/* When progress is shown, and that nothing stays of it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/common/cli.h"

/* Runs it with standard error being a pipe: what it wrote, and how it ended. */
static int written_by(void (*fn)(void), char *text, size_t size)
{
    int ends[2], status;
    size_t len = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], text + len, size - 1 - len)) > 0;)
        len += (size_t)got;
    text[len] = 0;
    close(ends[0]);
    waitpid(pid, &status, 0);
    return status;
}

static void to_a_pipe(void)
{
    struct progress progress;
    progress_begin(&progress, "reading");
    progress.next_ns = 1;
    progress_show(&progress, 0.5);
    progress_end(&progress);
}

static void at_once(void)
{
    struct progress progress;
    progress_begin(&progress, "reading");
    progress.off = false; /* as if it were a terminal */
    progress_show(&progress, 0.5);
    progress_end(&progress);
}

static void after_a_second(void)
{
    struct progress progress;
    progress_begin(&progress, "reading");
    progress.off = false;
    progress.next_ns = 1;
    progress_show(&progress, 0.5);
    progress_show(&progress, 0.6); /* not so soon again */
    progress_end(&progress);
    progress_show(&progress, 0.7);
}

static void interrupted(void)
{
    struct progress progress;
    progress_begin(&progress, "reading");
    progress.off = false;
    progress.next_ns = 1;
    progress_show(&progress, 0.5);
    raise(SIGINT);
}

static void test_shown(void **state)
{
    char text[200];
    assert_int_equal(written_by(to_a_pipe, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(written_by(at_once, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(written_by(after_a_second, text, sizeof text), 0);
    assert_string_equal(text, "\rreading:  50 %\r\033[K");
    int status = written_by(interrupted, text, sizeof text);
    assert_string_equal(text, "\rreading:  50 %\r\033[K");
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
