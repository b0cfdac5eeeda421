/* SPDX-License-Identifier: Apache-2.0 */
/* How long a monitor is waited for that sleeps, works, waits for the disk, is stopped, or cannot be seen, and what is
 * said of it then. No monitor, and no time passes; with real ones: test_failures.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system/test_wait_world.h"
#include "client/session.h"

enum { LIMIT_MS = 300, STEP_MS = 5, MONITOR = 77 };

static int end(void **state)
{
    test_world_end();
    return 0;
}

/* How many ms until it is no use to wait on, for one that has so much of a processor. */
static uint64_t wait_for(char letter, unsigned cpu_percent, pid_t pid, struct err *ret_err)
{
    test_world_begin(letter);
    test_world.cpu_percent = cpu_percent;
    struct timeout timeout = {.pid = pid};
    uint64_t since_ns = wait_now_ns();
    *ret_err = (struct err){0};
    timeout_restart(&timeout, since_ns);
    while (!timeout_over(&timeout, LIMIT_MS, ret_err)) {
        assert_int_equal(ret_err->code, 0);
        test_world_pass(STEP_MS * 1000000);
    }
    assert_int_equal(ret_err->code, -ETIMEDOUT);
    return (wait_now_ns() - since_ns) / 1000000;
}

static void test_sleeps(void **state)
{
    struct err err;
    assert_int_equal(wait_for('S', 0, MONITOR, &err), LIMIT_MS);
    assert_string_equal(err.text,
                        "the monitor (pid 77) does not answer: it has said nothing for 0.3 s; `kill -KILL 77` "
                        "ends it, and another is started when needed");
    assert_int_equal(wait_for('Z', 0, MONITOR, &err), LIMIT_MS);
    assert_int_equal(wait_for(0, 0, 0, &err), LIMIT_MS); /* of another machine, or name space */
    assert_string_equal(err.text, "the monitor does not answer: it has said nothing for 0.3 s");
}

/* Until it has used a processor for so long that it may never come to an end. */
static void test_works(void **state)
{
    struct err err;
    assert_int_equal(wait_for('R', 0, MONITOR, &err), 5 * LIMIT_MS);
    assert_int_equal(wait_for('R', 25, MONITOR, &err), 5 * LIMIT_MS);
    assert_int_equal(wait_for('R', 50, MONITOR, &err), 4 * LIMIT_MS);
    assert_int_equal(wait_for('R', 100, MONITOR, &err), 2 * LIMIT_MS);
    assert_int_equal(wait_for('R', 800, MONITOR, &err), LIMIT_MS); /* by several threads */
    assert_non_null(strstr(err.text, "does not answer: it has said nothing for 0.3 s"));
}

static void test_waits_for_the_disk(void **state)
{
    struct err err;
    assert_int_equal(wait_for('D', 0, MONITOR, &err), 5 * LIMIT_MS);
}

static void test_stopped(void **state)
{
    struct err err;
    for (const char *letter = "Tt"; *letter; letter++) {
        assert_int_equal(wait_for(*letter, 0, MONITOR, &err), 200);
        assert_string_equal(err.text, "the monitor (pid 77) was stopped: `kill -CONT 77` lets it go on");
    }
}

/* What it used before it was asked does not count; whom the socket belongs to is the monitor. */
static void test_begin(void **state)
{
    int pair[2];
    struct err err = {0};
    struct timeout timeout;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    test_world_begin('R');
    timeout_start(&timeout, pair[0]);
    assert_int_equal(timeout.pid, getpid());
    for (int i = 0; i < 4; i++) {
        test_world.cpu_percent = 100;
        test_world_pass(LIMIT_MS * UINT64_C(1500000));
        assert_false(timeout_over(&timeout, LIMIT_MS, &err));
        timeout_restart(&timeout, wait_now_ns());
    }
    timeout_start(&timeout, -1);
    assert_int_equal(timeout.pid, 0);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_sleeps, end),
        cmocka_unit_test_teardown(test_works, end),
        cmocka_unit_test_teardown(test_waits_for_the_disk, end),
        cmocka_unit_test_teardown(test_stopped, end),
        cmocka_unit_test_teardown(test_begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
