/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer or its guard is killed, the monitor stopped: what they traced goes on as if nobody had. */
#include "tracer/test_support.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/file.h"
#include "base/system/test_rounds.h"
#include "base/system/wait_world.h"
#include "tracer/test_insns.h"
#include "shm/area.h"

/* Everything that is asked is done when this is answered; the tracer has nothing left to do but to wait. */
static void kill_tracer(pid_t tid)
{
    struct user_regs_struct regs;
    assert_int_equal(tracer_get_regs(tracer, tid, &regs), 0);
    kill(tracer_pid(tracer), SIGKILL);
}

static void assert_ends_well(pid_t pid, const char *what)
{
    WAIT_FOR(tracer_dispatch(tracer) == -EPIPE);
    shared->stop = 1; /* nobody comes to a breakpoint before the guard has acted, which may have no processor */
    int status = target_wait(pid);
    if (status != 0)
        fail_msg("%s: the target ended with status 0x%x", what, status);
    tracer_stop_all(tracer);
    tracer = NULL;
}

/* ---- one thread, at a known place ---- */

static unsigned chosen;

static void run_chosen(void)
{
    const struct test_insn *insn = &test_insns[chosen];
    target_ready();
    for (long n = -3; n < 3; n++) {
        if (insn->fn(n) != insn->expected(n))
            _exit(1);
        while (!shared->stop)
            ;
    }
}

static struct tracer_event hold_at(unsigned index)
{
    shared->go = shared->stop = 0;
    chosen = index;
    pid_t pid = target_start(run_chosen);
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_insns[index].at), 1, NULL, NULL, NULL), 0);
    shared->go = 1;
    return next_event(TRACER_BREAK, 0);
}

static void a_held_thread_goes_on(void **state)
{
    (void)state;
    for (unsigned i = 0; i < test_insn_count; i += (unsigned)test_rounds(4, 1)) {
        pid_t pid = hold_at(i).pid;
        kill_tracer(pid);
        assert_ends_well(pid, test_insns[i].name);
    }
}

static void a_thread_between_steps_goes_on(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct tracer_event event = hold_at(0);
        tracer_step(tracer, event.pid, i % 2 ? TRACER_STEP_OVER : TRACER_STEP_INTO);
        for (int n = 0; n <= 6 * (i / 2); n++) { /* out of the function as well */
            tracer_release_hold(tracer, event.hold);
            event = next_event(TRACER_STEP, 1U << TRACER_BREAK);
        }
        kill_tracer(event.pid);
        assert_ends_well(event.pid, i % 2 ? "steps over" : "steps into");
    }
}

static void on_usr1(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    shared->counters[1] += info->si_code == SI_QUEUE ? info->si_value.sival_int : 1;
}

static void count_signals(void)
{
    struct sigaction act = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &act, NULL);
    target_ready();
    while (!shared->counters[1])
        usleep(200);
}

static void a_held_signal_arrives(void **state)
{
    (void)state;
    for (int queued = 0; queued < 2; queued++) {
        memset((void *)shared, 0, sizeof *shared);
        pid_t pid = target_start(count_signals);
        tracer_begin();
        struct tracer_watch watch = {.signals = UINT64_C(1) << (SIGUSR1 - 1)};
        assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
        assert_int_equal(tracer_watch(tracer, pid, &watch), 0);
        shared->go = 1;
        if (queued)
            sigqueue(pid, SIGUSR1, (union sigval){.sival_int = 5});
        else
            kill(pid, SIGUSR1);
        assert_int_equal(next_event(TRACER_SIGNAL, 0).signo, SIGUSR1);
        kill_tracer(pid);
        assert_ends_well(pid, "a signal");
        assert_int_equal(shared->counters[1], queued ? 5 : 1);
    }
}

static void calls_of_ours(void)
{
    target_ready();
    if (shared->counters[0])
        _exit(0);
}

static long called(void)
{
    shared->counters[1] = 1;
    while (!shared->stop)
        usleep(200);
    return 0;
}

/* A function that the tracer called returns when nobody is there any more. */
static void a_called_function_returns(void **state)
{
    (void)state;
    pid_t pid = target_start(calls_of_ours);
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_call(tracer, pid, ADDR(called), NULL, NULL), 0);
    WAIT_FOR(shared->counters[1]);
    kill_tracer(pid);
    shared->go = 1;
    assert_ends_well(pid, "a call");
}

/* Where a program's code was changed under a breakpoint, the change stays. */
static void what_was_written_stays(void **state)
{
    (void)state;
    static const uint8_t nop = 0x90;
    pid_t pid = hold_at(0).pid;
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(called), 2, NULL, NULL, NULL), 0);
    assert_int_equal(tracer_write_memory(tracer, pid, ADDR(called), &nop, 1), 0);
    assert_int_equal(byte_at(pid, ADDR(called)), 0xcc);
    kill_tracer(pid);
    WAIT_FOR(byte_at(pid, ADDR(called)) != 0xcc);
    assert_int_equal(byte_at(pid, ADDR(called)), nop);
    assert_ends_well(pid, "changed code");
}

/* ---- the guard ---- */

static pid_t guard_of(pid_t pid)
{
    char path[64], *text;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    if (file_read(path, &text, &len) < 0)
        return 0;
    pid_t guard = (pid_t)strtol(text, NULL, 10);
    free(text);
    return guard;
}

static void a_dead_guard_is_replaced(void **state)
{
    (void)state;
    pid_t pid = hold_at(0).pid, guard = guard_of(tracer_pid(tracer)), other = 0;
    assert_true(guard > 0);
    kill(guard, SIGKILL);
    WAIT_FOR((other = guard_of(tracer_pid(tracer))) > 0 && other != guard);
    kill_tracer(pid);
    assert_ends_well(pid, "a second guard");
}

static void an_orderly_end_leaves_no_guard(void **state)
{
    (void)state;
    tracer_begin();
    pid_t guard = guard_of(tracer_pid(tracer));
    tracer_stop_all(tracer);
    tracer = NULL;
    WAIT_FOR(kill(guard, 0) < 0 || state_of(guard) == 'Z');
}

/* ---- a monitor that is stopped ---- */

static void come_here(void)
{
    target_ready();
    while (!shared->stop) {
        test_hot(1);
        shared->counters[0]++;
    }
}

/* A monitor of its own, which counts reports. */
static void be_monitor(pid_t target)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tracer_begin();
    if (tracer_seize(tracer, target, NULL) < 0 ||
        tracer_break_set(tracer, target, ADDR(test_hot), 1, NULL, NULL, NULL) < 0)
        _exit(1);
    for (shared->go = 1;;) {
        struct tracer_event event;
        if (!poll_event(&event, 100))
            continue;
        if (event.kind == TRACER_LET_GO) {
            shared->values[2] += event.args[0];
            shared->values[3] += event.args[1];
            continue;
        }
        tracer_release_hold(tracer, event.hold);
        shared->values[1]++;
    }
}

static void a_stopped_monitor_stops_nobody(void **state)
{
    (void)state;
    pid_t target = target_start(come_here), monitor = fork();
    if (monitor == 0)
        be_monitor(target);
    for (int i = 0; i < 2; i++) {
        uint64_t told = shared->values[1];
        WAIT_FOR(shared->values[1] > told + 10);
        kill(monitor, SIGSTOP);
        assert_int_equal(waitpid(monitor, NULL, WUNTRACED), monitor);
        long came = shared->counters[0]; /* it waits for the monitor, or is about to */
        WAIT_FOR(shared->counters[0] > came + 100);
        told = shared->values[1];
        uint64_t unsaid = shared->values[3];
        kill(monitor, SIGCONT);
        WAIT_FOR(shared->values[3] > unsaid + 90);
        assert_int_equal(shared->values[2], i + 1);
        WAIT_FOR(shared->values[1] > told + 10); /* and from now on it waits again */
    }
    shared->stop = 1;
    assert_int_equal(target_wait(target), 0);
    target_kill(monitor);
}

/* ---- at any time ---- */

enum { RUNNERS = 2, BEFORE = 20, AFTER = 5 };

static void *run_busy(void *arg)
{
    for (long i = 0; !shared->stop; i++) {
        if (test_hot(i) != i + 1 || test_insns[0].fn(i) != i || test_nest(3) != 3)
            _exit(1);
        shared->counters[(long)arg]++;
        for (uint64_t until = shared->values[0]; until; until--) /* less busy */
            __asm__ volatile("");
    }
    return NULL;
}

static bool with_agent;

static void busy(void)
{
    pthread_t threads[RUNNERS];
    if (with_agent && !dlopen(getenv("TEST_AGENT_SIGNALS"), RTLD_NOW | RTLD_LOCAL))
        _exit(2);
    target_ready();
    for (long i = 0; i < RUNNERS; i++)
        pthread_create(&threads[i], NULL, run_busy, (void *)i);
    for (long i = 0; i < RUNNERS; i++)
        pthread_join(threads[i], NULL);
}

/* How many of `rounds` targets die when their tracer is killed while they come to a breakpoint every now and then. */
static int killed_while_busy(int rounds, uint64_t pause)
{
    int died = 0;
    struct code_program count = {.count = 1, .insns = {{.op = CODE_ADD, .a = 1}}};
    for (int i = 0; i < rounds; i++) {
        memset((void *)shared, 0, sizeof *shared);
        shared->values[0] = pause;
        pid_t pid = target_start(busy);
        tracer_begin();
        assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
        assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, &count, NULL, NULL), 0);
        shared->go = 1;
        WAIT_FOR(shared->counters[0] > BEFORE + i % 7);
        kill(tracer_pid(tracer), SIGKILL);
        WAIT_FOR(tracer_dispatch(tracer) == -EPIPE);
        long seen = shared->counters[0];
        WAIT_FOR(shared->counters[0] > seen + AFTER || state_of(pid) == 'Z');
        shared->stop = 1;
        died += target_wait(pid) != 0;
        tracer_stop_all(tracer);
        tracer = NULL;
    }
    return died;
}

/* Nobody asks the tracer for anything, as if the monitor were stopped too. Again and again: each time is a new one. */
static void a_stopped_tracer_stops_nobody(void **state)
{
    (void)state;
    struct tracer_event event = hold_at(0);
    pid_t pid = tracer_pid(tracer);
    for (int i = 0; i < 3; i++) {
        kill(pid, SIGSTOP);
        WAIT_FOR(wait_look(pid).state == 'T');
        WAIT_FOR(wait_look(pid).state == 'S');
    }
    tracer_release_hold(tracer, event.hold);
    kill_tracer(event.pid);
    assert_ends_well(event.pid, "after stops");
}

/* A hit that the tracer had not seen when it was killed is deadly (guard.c): how many depends on how often there are
 * hits. Not so with the agent's handler for it. */
static void few_of_the_busy_die(void **state)
{
    (void)state;
    int rounds = (int)test_rounds(0, 50);
    if (!rounds) {
        printf("SKIP: a measurement, for thorough runs\n");
        skip();
    }
    char area[] = "/tmp/scry-test-deaths-XXXXXX";
    int fd = mkstemp(area);
    assert_true(fd >= 0 && ftruncate(fd, AREA_PAGE) == 0);
    setenv("TEST_AREA", area, 1);
    int died[2] = {0, 0}; /* of those that come there most often */
    for (int agent = 0; agent <= !!getenv("TEST_AGENT_SIGNALS"); agent++)
        for (uint64_t pause = 100000; pause <= (agent ? 1000000 : 10000000); pause *= 10) {
            with_agent = agent;
            int count = killed_while_busy(rounds, pause);
            died[agent] += pause == 100000 ? count : 0;
            printf("# of %d targets with a pause of %d%s: %d died\n", rounds, (int)pause, agent ? " and the agent" : "",
                   count);
        }
    assert_true(4 * died[1] <= died[0]);
    close(fd);
    unlink(area);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)
        TEST(a_held_thread_goes_on),          TEST(a_thread_between_steps_goes_on),
        TEST(a_held_signal_arrives),          TEST(a_called_function_returns),
        TEST(what_was_written_stays),         TEST(a_dead_guard_is_replaced),
        TEST(an_orderly_end_leaves_no_guard), TEST(a_stopped_monitor_stops_nobody),
        TEST(a_stopped_tracer_stops_nobody),  TEST(few_of_the_busy_die),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("tracer_deaths", tests, NULL, NULL);
}
