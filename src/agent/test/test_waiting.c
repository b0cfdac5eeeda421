/* SPDX-License-Identifier: Apache-2.0 */
/* That the agent sees a real process as it is: what test_timeout.c and test_ask.c build on. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/safety/timeout.h"
#include "agent/safety/read.h"
#include "agent/system/world.h"

static struct doorbell bell;

static char monitor_state(void)
{
    timeout_forget(); /* else it is not looked again so soon */
    return doorbell_monitor_state(&bell);
}

static void test_process(void **state)
{
    siginfo_t info;
    int32_t monitor = fork();
    if (monitor == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(monitor > 0);
    const struct outside *outside = outside_read(monitor, OUTSIDE_STAT);
    assert_non_null(outside);
    bell.monitor_start_ticks = outside->ticks;
    bell.monitor_pid = monitor;
    outside_release();
    struct timeout timeout = timeout_start(&bell);
    assert_true(timeout_runs(&timeout));

    assert_int_equal(kill(monitor, SIGSTOP), 0);
    assert_int_equal(waitpid(monitor, NULL, WUNTRACED), monitor);
    assert_int_equal(agent_state_of(monitor), 'T');
    assert_int_equal(monitor_state(), 'T');
    assert_int_equal(kill(monitor, SIGCONT), 0);
    assert_int_equal(waitpid(monitor, NULL, WCONTINUED), monitor);
    assert_true(agent_state_of(monitor) != 'T' && agent_state_of(monitor) != 0);
    assert_true(monitor_state() != 'T' && monitor_state() != 'X');
    bell.monitor_start_ticks++; /* the same number, another process */
    assert_int_equal(monitor_state(), 'X');
    bell.monitor_start_ticks--;
    assert_true(agent_is_there(monitor));

    kill(monitor, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)monitor, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(agent_state_of(monitor), 'Z');
    assert_int_equal(monitor_state(), 'X');
    assert_int_equal(waitpid(monitor, NULL, 0), monitor);
    assert_int_equal(agent_state_of(monitor), 0);
    assert_false(agent_is_there(monitor));
    assert_int_equal(monitor_state(), 'X');
    assert_false(timeout_runs(&timeout));
}

static void test_self(void **state)
{
    short events;
    uint64_t before_ns = agent_now_ns();
    assert_int_equal(agent_state_of(getpid()), 'R');
    assert_int_equal(agent_state_of(0), 0);
    assert_int_equal(agent_poll(-1, 0, 2000000, &events), 0);
    assert_true(agent_now_ns() - before_ns >= 2000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_self),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
