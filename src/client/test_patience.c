/* SPDX-License-Identifier: Apache-2.0 */
/* How long a monitor is waited for that sleeps, that works, and that waits for the disk; they are children. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dirs.h"
#include "client/patience.h"

enum { LIMIT_MS = 300, NS_PER_MS = 1000000 };

static char state_of(pid_t pid)
{
    char path[64], *text = NULL;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    assert_int_equal(file_read(path, &text, NULL), 0);
    const char *name_end = strrchr(text, ')');
    char state = name_end ? name_end[2] : (char)0;
    free(text);
    return state;
}

/* In the state of one that waits for the disk: its memory is that of the child, until it executes something. */
static void wait_as_for_a_disk(void)
{
    pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): the child only sleeps */
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
}

static pid_t monitor_new(char state)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (state == 'D')
            wait_as_for_a_disk();
        volatile unsigned turns = 0;
        while (state == 'R') /* for good */
            turns++;
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    for (uint64_t end = clock_now_ns() + UINT64_C(30) * NS_PER_SECOND; state_of(pid) != state && clock_now_ns() < end;)
        usleep(1000);
    return pid;
}

/* How long until it is no use to wait on, and how long it had a processor meanwhile, in ms. */
static uint64_t wait_for(char state, uint64_t *ret_used)
{
    struct rusage usage;
    struct patience patience = {.pid = monitor_new(state)};
    struct err err = {0};
    uint64_t since = clock_now_ns();
    patience_again(&patience, since);
    while (!patience_over(&patience, LIMIT_MS, &err))
        usleep(5000);
    uint64_t waited = (clock_now_ns() - since) / NS_PER_MS;
    assert_int_equal(err.code, -ETIMEDOUT);
    assert_non_null(strstr(err.text, "does not answer: it has said nothing for "));
    kill(patience.pid, SIGKILL);
    assert_int_equal(wait4(patience.pid, NULL, 0, &usage), patience.pid);
    *ret_used = (uint64_t)usage.ru_utime.tv_sec * 1000 + (uint64_t)usage.ru_utime.tv_usec / 1000;
    return waited;
}

static void test_sleeps(void **state)
{
    uint64_t used;
    (void)state;
    assert_true(wait_for('S', &used) >= LIMIT_MS);
}

/* Until it has used a processor for so long that it may never come to an end. */
static void test_works(void **state)
{
    uint64_t used, waited = wait_for('R', &used);
    (void)state;
    assert_true(used > 2 * LIMIT_MS - LIMIT_MS / 4 || waited >= 5 * LIMIT_MS);
}

static void test_waits_for_the_disk(void **state)
{
    uint64_t used;
    (void)state;
    assert_true(wait_for('D', &used) >= 5 * LIMIT_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sleeps),
        cmocka_unit_test(test_works),
        cmocka_unit_test(test_waits_for_the_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
