/* SPDX-License-Identifier: Apache-2.0 */
/* Switches of a process with the threads that it makes, in order, and gaps where the ring was full. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "probe/switches.h"

static struct switch_rings *rings;

static int set_up(void **state)
{
    struct err err;
    int code = switch_rings_open(&rings, &err);
    if (code < 0)
        print_message("%s\n", err.text);
    return code;
}

static int tear_down(void **state)
{
    switch_rings_close(rings);
    return 0;
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

static void *nap(void *arg)
{
    for (int i = 0; i < 20; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return arg;
}

static void make_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, nap, NULL);
    if (fork() == 0) { /* a process of its own */
        nap(NULL);
        _exit(0);
    }
    pthread_join(thread, NULL);
}

struct seen {
    pid_t pid;
    uint64_t last_ns;
    unsigned wrong, gaps, main_blocked, thread_blocked;
};

static void see(void *ctx, const struct switched *switched)
{
    struct seen *seen = ctx;
    const struct switch_record *record = &switched->record;
    if (!record->pid) {
        seen->gaps++;
        seen->wrong += record->time_ns < switched->lost_ns;
        return;
    }
    seen->wrong += record->pid != seen->pid || record->time_ns < seen->last_ns;
    seen->last_ns = record->time_ns;
    if (!record->in && !record->preempted)
        (*(record->tid == record->pid ? &seen->main_blocked : &seen->thread_blocked))++;
}

static void test_threads(void **state)
{
    struct seen seen = {0};
    struct switch_process *process;
    struct err err;
    int go, status;
    seen.pid = start(make_thread, &go);
    assert_int_equal(switch_process_open(&process, rings, seen.pid, &err), 0);
    assert_true(switch_rings_whole(rings));
    uint64_t before = clock_now_ns();
    assert_int_equal(write(go, "", 1), 1);
    assert_int_equal(waitpid(seen.pid, &status, 0), seen.pid);
    uint64_t until = switch_rings_read(rings, see, &seen);
    assert_true(until > before && until <= clock_now_ns());
    switch_process_close(process);
    close(go);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(seen.gaps, 0);
    assert_in_range(seen.main_blocked, 1, 10);
    assert_in_range(seen.thread_blocked, 20, 60);
}

static void storm(void)
{
    int there[2], back[2];
    char byte = 0;
    if (pipe(there) < 0 || pipe(back) < 0)
        return;
    if (fork() == 0) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
            ;
        _exit(0);
    }
    for (int i = 0; i < 30000; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            return;
}

/* Nobody reads meanwhile: they do not all fit, and that is reported. */
static void test_full(void **state)
{
    struct seen seen = {0};
    struct switch_process *process;
    struct err err;
    int go, status;
    seen.pid = start(storm, &go);
    assert_int_equal(switch_process_open(&process, rings, seen.pid, &err), 0);
    assert_int_equal(write(go, "", 1), 1);
    assert_int_equal(waitpid(seen.pid, &status, 0), seen.pid);
    switch_rings_read(rings, see, &seen);
    assert_true(seen.gaps > 0);
    assert_int_equal(seen.wrong, 0);
    /* and then it goes on */
    switch_process_close(process);
    close(go);
    struct seen next = {.pid = start(make_thread, &go)};
    assert_int_equal(switch_process_open(&process, rings, next.pid, &err), 0);
    assert_int_equal(write(go, "", 1), 1);
    assert_int_equal(waitpid(next.pid, &status, 0), next.pid);
    switch_rings_read(rings, see, &next);
    assert_true(next.thread_blocked >= 20);
    switch_process_close(process);
    close(go);
}

static void test_refused(void **state)
{
    struct switch_process *process;
    struct err err;
    assert_int_equal(switch_process_open(&process, rings, 0x7ffffff0, &err), -ESRCH);
}

int main(void)
{
    const char *missing = switches_missing();
    if (missing) {
        print_message("1..0 # SKIP %s\n", missing);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
