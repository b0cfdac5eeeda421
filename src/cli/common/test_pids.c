/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes may be looked at, and why others may not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/proc_file.h"
#include "cli/common/pids.h"

static void expect_refused(pid_t pid, int code, const char *text)
{
    struct err err = {0};
    assert_int_equal(pid_check(pid, &err), code);
    if (!strstr(err.text, text))
        fail_msg("%s", err.text);
}

static void test_ended(void **state)
{
    siginfo_t info;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    expect_refused(pid, -ESRCH, "has ended, and is there only until its parent");
    waitpid(pid, NULL, 0);
    expect_refused(pid, -ESRCH, "there is no process ");
}

static void test_kernel(void **state)
{
    pid_t found = 0;
    DIR *dir = opendir("/proc");
    struct proc_stat stat;
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && proc_stat_of(pid, 0, &stat) == 0 && stat.kernels_own)
            found = pid;
    }
    if (dir)
        closedir(dir);
    if (!found) {
        printf("SKIP: no thread of the kernel is visible\n");
        skip();
    }
    expect_refused(found, -EINVAL, "is a thread of the kernel: it runs no program that could be shown");
}

/* Of somebody else. */
static void test_others(void **state)
{
    enum { NOBODY = 65534 };
    int status;
    if (geteuid() != 0) {
        printf("SKIP: only root can be somebody else\n");
        skip();
    }
    pid_t pid = getpid(), other = fork();
    if (other == 0) {
        struct err err = {0};
        if (setuid(NOBODY) < 0)
            _exit(2);
        bool good = pid_check(pid, &err) == -EACCES && strstr(err.text, "it belongs to another user (uid 0)");
        if (!good)
            fprintf(stderr, "%s\n", err.text);
        _exit(!good);
    }
    waitpid(other, &status, 0);
    assert_int_equal(status, 0);
}

/* Of the same user, where that is forbidden. */
static void test_undumpable(void **state)
{
    enum { NOBODY = 65534 };
    int status, ready[2];
    char byte;
    if (geteuid() != 0 || pipe(ready) < 0) {
        printf("SKIP: only root can be somebody else\n");
        skip();
    }
    pid_t target = fork();
    if (target == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setuid(NOBODY) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    pid_t other = fork();
    if (other == 0) {
        struct err err = {0};
        _exit(setuid(NOBODY) == 0 && pid_check(target, &err) == -EACCES ? 0 : 1);
    }
    waitpid(other, &status, 0);
    kill(target, SIGKILL);
    waitpid(target, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ended), cmocka_unit_test(test_kernel),
                                       cmocka_unit_test(test_others), cmocka_unit_test(test_undumpable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
