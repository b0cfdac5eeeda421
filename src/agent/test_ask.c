/* SPDX-License-Identifier: Apache-2.0 */
/* How long an answer is waited for: monitors that sleep, that are busy, and that are busy for good; they are children.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <errno.h>

#include "agent/ask.h"

enum { WAIT_MS = 1000, LATE_MS = 1500, NEVER_MS = INT32_MAX };

static char dir[64];
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/scry-ask-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(address.sun_path);
    return rmdir(dir);
}

/* It answers "welcome" to one question, so long after it has it. */
static pid_t monitor_new(uint64_t after_ms, bool busy)
{
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    unlink(address.sun_path);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    pid_t monitor = fork();
    if (monitor == 0) {
        char question[16];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (listen(listener, 4) < 0)
            _exit(1);
        int fd = accept(listener, NULL, NULL);
        if (recv(fd, question, sizeof question, 0) <= 0)
            _exit(1);
        for (uint64_t until = agent_now_ms() + after_ms; agent_now_ms() < until;)
            if (!busy)
                usleep(10000);
        if (send(fd, "welcome", 7, MSG_NOSIGNAL) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(monitor > 0);
    close(listener);
    return monitor;
}

static int ask(pid_t monitor, uint64_t *ret_took_ms)
{
    char welcome[7] = "";
    const struct agent_question question = {.socket = address.sun_path,
                                            .hello = "hello",
                                            .hello_size = 5,
                                            .welcome = welcome,
                                            .welcome_size = sizeof welcome,
                                            .wait_ms = WAIT_MS};
    uint64_t since = agent_now_ms();
    int code;
    do { /* until it listens */
        since = agent_now_ms();
        code = agent_ask(&question);
    } while (code == -ECONNREFUSED);
    *ret_took_ms = agent_now_ms() - since;
    if (code == 0)
        assert_memory_equal(welcome, "welcome", sizeof welcome);
    kill(monitor, SIGKILL);
    assert_int_equal(waitpid(monitor, NULL, 0), monitor);
    return code;
}

static void test_answer(void **state)
{
    uint64_t took;
    (void)state;
    assert_int_equal(ask(monitor_new(0, false), &took), 0);
}

/* It has nothing to do, and says nothing. */
static void test_one_that_sleeps(void **state)
{
    uint64_t took;
    (void)state;
    assert_int_equal(ask(monitor_new(NEVER_MS, false), &took), -ETIMEDOUT);
    assert_true(took >= WAIT_MS);
}

static void test_one_that_is_busy(void **state)
{
    uint64_t took;
    (void)state;
    assert_int_equal(ask(monitor_new(LATE_MS, true), &took), 0);
    assert_true(took >= LATE_MS);
    assert_int_equal(ask(monitor_new(NEVER_MS, true), &took), -ETIMEDOUT);
    assert_true(took > LATE_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answer, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_one_that_sleeps, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_one_that_is_busy, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
