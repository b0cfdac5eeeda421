/* SPDX-License-Identifier: Apache-2.0 */
/* Processes with many threads, with threads that come and go, and without the first one. */
#include "tracer/test_support.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include "probe/proc.h"
#include "tracer/test_insns.h"

static void *short_thread(void *arg)
{
    (void)arg;
    shared->counters[0]++;
    return NULL;
}

static void thread_storm(void)
{
    shared->ready = 1;
    while (!shared->stop) {
        pthread_t threads[16];
        for (int i = 0; i < 16; i++)
            while (pthread_create(&threads[i], NULL, short_thread, NULL) != 0)
                sched_yield();
        for (int i = 0; i < 16; i++)
            pthread_join(threads[i], NULL);
        shared->counters[1] += test_hot(1) == 2;
        shared->counters[2]++;
    }
}

static void seizing_keeps_up_with_new_threads(void **state)
{
    (void)state;
    pid_t pid = target_start(thread_storm);
    tracer_begin();
    struct err err = {0};
    for (int i = 0; i < 20; i++) {
        if (tracer_seize(tracer, pid, &err) < 0 ||
            tracer_break_set(tracer, pid, ADDR(short_thread), 1, NULL, NULL, &err) < 0)
            fail_msg("%s", err.text);
        for (int n = 0; n < 20; n++)
            tracer_release_hold(tracer, next_event(TRACER_BREAK, 0).hold);
        long before = shared->counters[0];
        assert_int_equal(tracer_release(tracer, pid), 0);
        struct tracer_event event;
        while (poll_event(&event, 0))
            ;
        WAIT_FOR(shared->counters[0] > before + 100);
    }
    shared->stop = 1;
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[1], shared->counters[2]);
}

enum { MANY = 1000 };

static void *sleeping_thread(void *arg)
{
    (void)arg;
    shared->counters[0]++;
    while (!shared->stop)
        usleep(200000); /* a thousand that look more often are a load of their own */
    return NULL;
}

static void thousand_threads(void)
{
    static pthread_t threads[MANY];
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    shared->ready = 1;
    for (int i = 0; i < MANY; i++)
        if (pthread_create(&threads[i], &attr, sleeping_thread, NULL) != 0)
            _exit(1);
    for (int i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
}

static void a_thousand_threads_stop_and_go(void **state)
{
    (void)state;
    pid_t pid = target_start(thousand_threads), *tids;
    size_t count;
    tracer_begin();
    struct err err = {0};
    if (tracer_seize(tracer, pid, &err) < 0) /* while they are created */
        fail_msg("%s", err.text);
    WAIT_FOR(shared->counters[0] == MANY);
    assert_int_equal(proc_threads(pid, &tids, &count), 0);
    assert_int_equal(count, MANY + 1);
    static int codes[MANY + 1];
    assert_int_equal(tracer_stop(tracer, tids, count, codes), 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(codes[i], 0);
        assert_int_equal(state_of(tids[i]), 't');
    }
    assert_int_equal(tracer_continue(tracer, tids, count / 2, codes), 0);
    assert_int_equal(tracer_release(tracer, pid), 0);
    free(tids);
    assert_int_equal(status_field(pid, "\nTracerPid:"), 0);
    shared->stop = 1;
    assert_int_equal(target_wait(pid), 0);
}

static void *slow_thread(void *arg)
{
    (void)arg;
    shared->tids[1] = gettid();
    while (!shared->stop)
        shared->counters[3] += test_hot(1) == 2;
    _exit(9); /* of the whole process, without what a sanitizer does at exit */
}

static void leader_ends(void)
{
    pthread_t thread;
    target_ready();
    pthread_create(&thread, NULL, slow_thread, NULL);
    pthread_exit(NULL);
}

static void processes_without_leader(void **state)
{
    (void)state;
    pid_t pid = target_start(leader_ends);
    tracer_begin();
    struct tracer_watch watch = {.new_thread = true, .thread_exit = true};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_watch(tracer, pid, &watch), 0);
    shared->go = 1;
    struct tracer_event event = next_event(TRACER_NEW_THREAD, 0);
    pid_t tid = event.child;
    assert_int_equal(state_of(tid), 't');
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_THREAD_EXIT, 0);
    assert_int_equal(event.tid, pid);
    struct user_regs_struct regs;
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0); /* still there */
    tracer_release_hold(tracer, event.hold);
    WAIT_FOR(state_of(pid) == 'Z');
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), -ESRCH);
    for (int i = 0; i < 2; i++) { /* the second time the leader is a zombie from the beginning */
        struct err err = {0};
        if (tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, &err) < 0)
            fail_msg("%s", err.text);
        event = next_event(TRACER_BREAK, 0);
        assert_int_equal(event.pid, pid);
        assert_int_equal(event.tid, tid);
        assert_int_equal(tracer_release(tracer, pid), 0);
        long before = shared->counters[3];
        WAIT_FOR(shared->counters[3] > before);
        assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    }
    shared->stop = 1;
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 9 << 8);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)
        TEST(seizing_keeps_up_with_new_threads),
        TEST(a_thousand_threads_stop_and_go),
        TEST(processes_without_leader),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("tracer_threads", tests, NULL, NULL);
}
