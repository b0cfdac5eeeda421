/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's process events: real processes that end in each way. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "probe/follow.h"

enum { TIMEOUT_MS = 5000, NOBODY = 65534 };

static int open_or_skip(void)
{
    struct err err = {0};
    int fd = exits_open(&err);
    if (fd < 0) {
        print_message("SKIP: %s\n", err.text);
        skip();
    }
    return fd;
}

struct wanted {
    pid_t pid;
    struct exit_event last;
    unsigned count;
};

static void look(void *ctx, const struct exit_event *event)
{
    struct wanted *wanted = ctx;
    if (event->pid != wanted->pid)
        return;
    wanted->last = *event;
    wanted->count++;
}

/* The last of `count` events of the process. */
static struct exit_event wait_event(int fd, pid_t pid, unsigned count)
{
    struct wanted wanted = {.pid = pid};
    while (wanted.count < count) {
        struct pollfd input = {.fd = fd, .events = POLLIN};
        assert_true(poll(&input, 1, TIMEOUT_MS) > 0);
        assert_int_equal(exits_read(fd, look, &wanted), 0);
    }
    return wanted.last;
}

static void test_exit_status(void **state)
{
    int fd = open_or_skip(), status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    struct exit_event event = wait_event(fd, pid, 1);
    assert_int_equal(event.status, status);
    assert_int_equal(event.tid, pid);
    assert_true(event.time_ns <= clock_now_ns() && event.time_ns + NS_PER_SECOND > clock_now_ns());
    close(fd);
}

/* Nobody's child here: of a process that does not wait for it. */
static void test_killed_grandchild(void **state)
{
    int fd = open_or_skip(), ends[2];
    pid_t grandchild;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        pid_t pid = fork();
        if (pid == 0)
            raise(SIGKILL);
        _exit(write(ends[1], &pid, sizeof pid) == sizeof pid ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &grandchild, sizeof grandchild), sizeof grandchild);
    waitpid(child, NULL, 0);
    assert_int_equal(wait_event(fd, grandchild, 1).status, SIGKILL);
    close(ends[0]);
    close(ends[1]);
    close(fd);
}

static void *end_later(void *arg)
{
    pthread_join(*(pthread_t *)arg, NULL);
    _exit(5);
}

/* The status is that of the last thread, not of the first one that ended before. */
static void test_first_thread_ended_before(void **state)
{
    int fd = open_or_skip();
    pid_t pid = fork();
    if (pid == 0) {
        static pthread_t first, other;
        first = pthread_self();
        pthread_create(&other, NULL, end_later, &first);
        pthread_exit(NULL);
    }
    waitpid(pid, NULL, 0);
    struct exit_event event = wait_event(fd, pid, 2);
    assert_int_equal(WEXITSTATUS(event.status), 5);
    assert_int_not_equal(event.tid, pid);
    close(fd);
}

static void test_ordinary_user(void **state)
{
    if (geteuid() != 0)
        skip();
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct err err = {0};
        if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
            _exit(2);
        int fd = exits_open(&err);
        if (fd < 0)
            _exit(fd == -EACCES && err.text[0] ? 3 : 4);
        pid_t child = fork();
        if (child == 0)
            _exit(9);
        waitpid(child, NULL, 0);
        _exit(WEXITSTATUS(wait_event(fd, child, 1).status) == 9 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    if (WEXITSTATUS(status) == 3) {
        print_message("SKIP: this kernel tells root alone\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* Said to be so, rather than silence. */
static void test_container(void **state)
{
    struct err err = {0};
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWUSER) < 0 ? 2 : exits_open(&err) == -EACCES && strstr(err.text, "container") ? 0 : 1);
    waitpid(pid, &status, 0);
    if (WEXITSTATUS(status) == 2)
        skip();
    assert_int_equal(status, 0);
}

static void ignore(void *ctx, const struct exit_event *event)
{
    (*(unsigned *)ctx)++;
}

static int nothing(void *arg)
{
    return 0;
}

/* More than the buffer has room for: the loss of some is reported. */
static void test_flood(void **state)
{
    int fd = open_or_skip(), small = 4096;
    static char stack[65536];
    unsigned count = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 100; i++) {
        pid_t pid = clone(nothing, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    assert_int_equal(exits_read(fd, ignore, &count), -ENOBUFS);
    assert_true(count > 0 && count < 100);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_status),
        cmocka_unit_test(test_killed_grandchild),
        cmocka_unit_test(test_first_thread_ended_before),
        cmocka_unit_test(test_ordinary_user),
        cmocka_unit_test(test_container),
        cmocka_unit_test(test_flood),
    };
    return cmocka_run_group_tests_name("exits", tests, NULL, NULL);
}
