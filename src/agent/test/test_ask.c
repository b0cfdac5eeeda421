/* SPDX-License-Identifier: Apache-2.0 */
/* How long an answer is waited for: monitors that answer, late or never, that sleep, work, or are stopped. The clock
 * and the monitor's state are test_world.h's; its socket is real, and in this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <errno.h>

#include "agent/hooks/connect.h"
#include "agent/test/test_world.h"

enum { NEVER = 0, LONGER_MS = 60 };

static char dir[64], mark[128];
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int listener;

static int setup(void **state)
{
    world_reset();
    strcpy(dir, "/tmp/scry-ask-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", dir);
    snprintf(mark, sizeof mark, "%s/socket.stopped", dir);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(listener, (const struct sockaddr *)&address, sizeof address) < 0)
        return -1;
    return listen(listener, 0);
}

static int teardown(void **state)
{
    close(listener);
    unlink(address.sun_path);
    unlink(mark);
    return rmdir(dir);
}

static void answer(void *ctx)
{
    char question[16];
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(recv(fd, question, sizeof question, 0), 5);
    assert_int_equal(send(fd, "welcome", 7, MSG_NOSIGNAL), 7);
    close(fd);
}

/* The monitor answers after so long. */
static int ask(enum wait_kind wait, uint64_t after_ms, uint64_t *ret_took_ms)
{
    char welcome[7] = "";
    const struct agent_question question = {.socket = address.sun_path,
                                            .hello = "hello",
                                            .hello_size = 5,
                                            .welcome = welcome,
                                            .welcome_size = sizeof welcome,
                                            .wait = wait};
    uint64_t since_ns = world.now_ns;
    world.event = answer;
    world.event_ns = after_ms ? since_ns + after_ms * 1000000 : 0;
    int code = agent_ask(&question);
    *ret_took_ms = (world.now_ns - since_ns) / 1000000;
    world.event_ns = 0;
    if (code == 0)
        assert_memory_equal(welcome, "welcome", sizeof welcome);
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;)
        close(fd);
    return code;
}

static void check(enum wait_kind wait, char letter, uint64_t after_ms, int wanted, uint64_t wanted_ms)
{
    uint64_t took_ms;
    world.state = letter;
    unlink(mark);
    assert_int_equal(ask(wait, after_ms, &took_ms), wanted);
    if (took_ms < wanted_ms || took_ms > wanted_ms + (wanted ? LONGER_MS : 0))
        fail_msg("%lu ms instead of %lu", (unsigned long)took_ms, (unsigned long)wanted_ms);
}

static void test_answer(void **state)
{
    check(WAIT_HELLO, 'S', 1, 0, 1);
    check(WAIT_HELLO, 'S', 999, 0, 999);
    check(WAIT_HELLO_FORK, 'S', 249, 0, 249);
    assert_int_equal(access(mark, F_OK), -1);
}

/* It has nothing to do, and says nothing. */
static void test_one_that_sleeps(void **state)
{
    check(WAIT_HELLO, 'S', NEVER, -ETIMEDOUT, 1000);
    check(WAIT_HELLO, 0, NEVER, -ETIMEDOUT, 1000);
    check(WAIT_HELLO_FORK, 'S', NEVER, -ETIMEDOUT, 250);
}

static void test_one_that_is_busy(void **state)
{
    for (const char *letter = "RD"; *letter; letter++) {
        check(WAIT_HELLO, *letter, 3900, 0, 3900);
        check(WAIT_HELLO, *letter, NEVER, -ETIMEDOUT, 4000);
        check(WAIT_HELLO_FORK, *letter, NEVER, -ETIMEDOUT, 1000);
    }
}

static void mark_is_older(int by_s)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    clock_gettime(CLOCK_REALTIME, &times[1]);
    times[1].tv_sec -= by_s;
    assert_int_equal(utimensat(AT_FDCWD, mark, times, 0), 0);
}

/* One that is stopped is waited for once by all; a mark beside the socket says that one has, for a while. */
static void test_one_that_is_stopped(void **state)
{
    uint64_t took_ms;
    char text[16] = "";
    check(WAIT_HELLO, 'T', 150, 0, 150);
    assert_int_equal(access(mark, F_OK), -1);
    check(WAIT_HELLO, 't', NEVER, -ETIMEDOUT, 200);
    FILE *file = fopen(mark, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_int_equal(atoi(text), getpid());
    assert_int_equal(ask(WAIT_HELLO, NEVER, &took_ms), -ETIMEDOUT);
    assert_true(took_ms <= 5);
    world.state = 'S'; /* it goes on: that holds no longer */
    assert_int_equal(ask(WAIT_HELLO, 900, &took_ms), 0);
    world.state = 'T';
    mark_is_older(11);
    assert_int_equal(ask(WAIT_HELLO, NEVER, &took_ms), -ETIMEDOUT);
    assert_true(took_ms >= 200);
    file = fopen(mark, "w"); /* of another one */
    assert_non_null(file);
    fputs("1T", file);
    fclose(file);
    assert_int_equal(ask(WAIT_HELLO, NEVER, &took_ms), -ETIMEDOUT);
    assert_true(took_ms >= 200);
}

/* Whatever it does instead of answering: all processes together wait for it once. */
static void test_one_that_was_late(void **state)
{
    uint64_t took_ms;
    for (const char *letter = "SRD?"; *letter; letter++) {
        char seen = *letter == '?' ? (char)0 : *letter;
        check(WAIT_HELLO, seen, NEVER, -ETIMEDOUT, seen == 'R' || seen == 'D' ? 4000 : 1000);
        assert_int_equal(ask(WAIT_HELLO, NEVER, &took_ms), -ETIMEDOUT);
        assert_true(took_ms <= 5);
        assert_int_equal(ask(WAIT_HELLO_FORK, NEVER, &took_ms), -ETIMEDOUT);
        assert_true(took_ms <= 5);
        assert_int_equal(ask(WAIT_HELLO, 4, &took_ms), 0); /* it does answer */
        unlink(mark);                                      /* and removes this */
        assert_int_equal(ask(WAIT_HELLO, 900, &took_ms), 0);
    }
    check(WAIT_HELLO, 'S', NEVER, -ETIMEDOUT, 1000);
    mark_is_older(11);
    assert_int_equal(ask(WAIT_HELLO, 900, &took_ms), 0);
}

/* Nobody is let in: more wait than the monitor has room for. */
static void test_crowd(void **state)
{
    enum { CROWD = 8 };
    int crowd[CROWD];
    uint64_t took_ms;
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(crowd[i], (const struct sockaddr *)&address, sizeof address);
    }
    struct agent_question question = {
        .socket = address.sun_path, .hello = "hello", .hello_size = 5, .wait = WAIT_HELLO};
    for (const char *letter = "SRT"; *letter; letter++) { /* who does not let them in is not known */
        world.state = *letter;
        uint64_t since_ns = world.now_ns;
        assert_int_equal(agent_ask(&question), -ETIMEDOUT);
        took_ms = (world.now_ns - since_ns) / 1000000;
        assert_true(took_ms >= 1000 && took_ms < 1000 + LONGER_MS);
        since_ns = world.now_ns;
        assert_int_equal(agent_ask(&question), -ETIMEDOUT);
        assert_true(world.now_ns - since_ns <= 10 * 1000000);
        unlink(mark);
    }
    FILE *file = fopen(mark, "w"); /* but for the one that others have waited for */
    assert_non_null(file);
    fprintf(file, "%dT", (int)getpid());
    fclose(file);
    uint64_t since_ns = world.now_ns;
    assert_int_equal(agent_ask(&question), -ETIMEDOUT);
    assert_true(world.now_ns - since_ns <= 10 * 1000000);
    mark_is_older(11);
    since_ns = world.now_ns;
    assert_int_equal(agent_ask(&question), -ETIMEDOUT);
    took_ms = (world.now_ns - since_ns) / 1000000;
    assert_true(took_ms >= 200 && took_ms < 200 + LONGER_MS);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
}

static void test_nobody(void **state)
{
    uint64_t took_ms;
    close(listener);
    assert_int_equal(ask(WAIT_HELLO, NEVER, &took_ms), -ECONNREFUSED);
    assert_int_equal(took_ms, 0);
    unlink(address.sun_path);
    assert_int_equal(ask(WAIT_HELLO, NEVER, &took_ms), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_sleeps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_is_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_is_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_was_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_crowd, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
