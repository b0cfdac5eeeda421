/* SPDX-License-Identifier: Apache-2.0 */
/* Context switches of threads that sleep, and of one that is preempted. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "probe/switches.h"

struct counts {
    pid_t tid;
    unsigned long in, blocked, preempted, wrong;
    uint64_t last_ns;
};

static void count(struct counts *counts, const struct switch_record *record)
{
    counts->wrong += record->tid != counts->tid || record->pid != counts->tid || record->time_ns < counts->last_ns;
    counts->last_ns = record->time_ns;
    if (record->in)
        counts->in++;
    else if (record->preempted)
        counts->preempted++;
    else
        counts->blocked++;
}

/* Two by two: who takes few at a time gets all. */
static void read_all(struct switches *switches, struct counts *counts, uint64_t *ret_lost)
{
    struct switch_record record;
    bool more = true;
    *ret_lost = 0;
    while (more) {
        switches_begin(switches);
        more = false;
        for (int i = 0; i < 2 && (more = switches_next(switches, &record, ret_lost)); i++)
            count(counts, &record);
        more |= switches_end(switches);
    }
}

static pid_t start(void (*fn)(void), int *ret_go)
{
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        if (read(go[0], &byte, 1) == 1)
            fn();
        _exit(0);
    }
    close(go[0]);
    *ret_go = go[1];
    return pid;
}

static void nap(void)
{
    for (int i = 0; i < 50; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void spin_on_one(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pid_t other = fork();
    for (uint64_t end = clock_now_ns() + NS_PER_SECOND / 5; clock_now_ns() < end;)
        ;
    if (other == 0)
        _exit(0);
    waitpid(other, NULL, 0);
}

static struct counts watch(void (*fn)(void))
{
    int go;
    struct err err = {0};
    struct switches *switches;
    pid_t pid = start(fn, &go);
    struct counts counts = {.tid = pid};
    int r = switches_open(&switches, pid, &err);
    if (r < 0)
        fail_msg("switches_open: %d %s", r, err.text);
    assert_int_equal(write(go, "", 1), 1);
    uint64_t lost;
    bool over = false;
    int wakes = 0;
    while (!over) {
        siginfo_t info = {0};
        /* the last notice comes before the thread is a zombie: its end is not ours to tell */
        wakes += poll(&(struct pollfd){.fd = switches_fd(switches), .events = POLLIN}, 1, 50) == 1;
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
        over = info.si_pid == pid;
        read_all(switches, &counts, &lost);
        assert_int_equal(lost, 0);
    }
    waitpid(pid, NULL, 0);
    /* a thread that has ended does not keep a loop busy: a late notice or two, then silence */
    assert_true(wakes > 0);
    wakes = 0;
    while (poll(&(struct pollfd){.fd = switches_fd(switches), .events = POLLIN}, 1, 20) == 1 && wakes++ < 10)
        read_all(switches, &counts, &lost);
    assert_true(wakes < 10);
    switches_close(switches);
    close(go);
    return counts;
}

static void test_blocked(void **state)
{
    struct counts counts = watch(nap);
    assert_int_equal(counts.wrong, 0);
    assert_true(counts.blocked >= 50);
    assert_true(counts.in >= 50);
}

static void test_preempted(void **state)
{
    struct counts counts = watch(spin_on_one);
    assert_int_equal(counts.wrong, 0);
    assert_true(counts.preempted >= 3);
    assert_true(counts.in >= 3);
}

static void test_gone(void **state)
{
    struct err err = {0};
    struct switches *switches;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    assert_int_equal(switches_open(&switches, pid, &err), -ESRCH);
    assert_non_null(strstr(err.text, "is gone"));
}

int main(void)
{
    const char *missing = switches_missing();
    if (missing) {
        printf("1..0 # SKIP %s\n", missing);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocked),
        cmocka_unit_test(test_preempted),
        cmocka_unit_test(test_gone),
    };
    return cmocka_run_group_tests_name("switches", tests, NULL, NULL);
}
