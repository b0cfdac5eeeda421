/* SPDX-License-Identifier: Apache-2.0 */
/* Children that tests of the probe look at. */
#ifndef SCRY_PROBE_TEST_CHILD_H
#define SCRY_PROBE_TEST_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs fn in a child that waits for nothing; *ret_ready is readable when it has begun. */
static inline pid_t start(void (*fn)(int say), int *ret_ready)
{
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        fn(ready[1]);
        _exit(0);
    }
    assert_true(pid > 0);
    close(ready[1]);
    *ret_ready = ready[0];
    return pid;
}

static inline int64_t await_number(int fd)
{
    int64_t number = 0;
    assert_int_equal(read(fd, &number, sizeof number), sizeof number);
    return number;
}

static inline void say_number(int fd, int64_t number)
{
    if (write(fd, &number, sizeof number) != sizeof number)
        _exit(99);
}

static inline void finish(pid_t pid, int fd)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
}

#endif
