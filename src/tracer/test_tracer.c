/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, registers and breakpoints of real processes. */
#include "base/system/clock.h"
#include "tracer/test_support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/test_wait_world.h"
#include "tracer/test_insns.h"

/* ---- targets ---- */

static void spin(void)
{
    shared->tids[0] = gettid();
    shared->ready = 1;
    while (!shared->stop)
        shared->counters[0]++;
}

static void *spin_thread(void *arg)
{
    long index = (long)arg;
    shared->tids[index] = gettid();
    while (!shared->stop)
        shared->counters[index]++;
    return NULL;
}

static void two_threads(void)
{
    pthread_t thread;
    shared->tids[0] = gettid();
    pthread_create(&thread, NULL, spin_thread, (void *)1L);
    while (!shared->tids[1])
        usleep(100);
    shared->ready = 1;
    while (!shared->stop)
        shared->counters[0]++;
    pthread_join(thread, NULL);
}

static void sleep_until_go(void)
{
    shared->tids[0] = gettid();
    target_ready();
}

static bool advances(int counter)
{
    long before = shared->counters[counter];
    for (int i = 0; i < 25; i++) {
        test_pause();
        if (shared->counters[counter] != before)
            return true;
    }
    return false;
}

/* ---- attaching ---- */

static void seizing_does_not_stop(void **state)
{
    (void)state;
    pid_t pid = target_start(two_threads);
    tracer_begin();
    struct err err = {0};
    assert_int_equal(tracer_seize(tracer, pid, &err), 0);
    assert_int_equal(tracer_seize(tracer, pid, &err), 0);
    assert_int_equal(status_field(pid, "\nTracerPid:"), tracer_pid(tracer));
    assert_int_equal(status_field(shared->tids[1], "\nTracerPid:"), tracer_pid(tracer));
    WAIT_FOR(advances(0) && advances(1));
    assert_int_equal(tracer_release(tracer, pid), 0);
    assert_int_equal(status_field(pid, "\nTracerPid:"), 0);
    assert_int_equal(status_field(shared->tids[1], "\nTracerPid:"), 0);
    WAIT_FOR(advances(0) && advances(1));
    assert_int_equal(tracer_release(tracer, pid), 0);
    shared->stop = 1;
    assert_int_equal(target_wait(pid), 0);
}

static void refusals_say_why(void **state)
{
    (void)state;
    pid_t pid = target_start(sleep_until_go);
    pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
            _exit(1);
        shared->go = 0;
        shared->counters[5] = 1;
        for (;;)
            pause();
    }
    WAIT_FOR(shared->counters[5]);
    tracer_begin();
    struct err err = {0};
    char expected[64];
    assert_int_equal(tracer_seize(tracer, pid, &err), -EPERM);
    snprintf(expected, sizeof expected, "traced by test_tracer, pid %d", other);
    assert_non_null(strstr(err.text, expected));
    target_kill(other);
    assert_int_equal(tracer_seize(tracer, pid, &err), 0);
    assert_int_equal(tracer_seize(tracer, getpid(), &err), -EPERM);
    assert_int_equal(tracer_seize(tracer, tracer_pid(tracer), &err), -EPERM);
    assert_int_equal(tracer_seize(tracer, 0x3fffff, &err), -ESRCH);
    shared->go = 1;
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(next_event(TRACER_GONE, 0).pid, pid);
    assert_int_equal(tracer_stop(tracer, &pid, 1, NULL), 0);
    int code = 0;
    tracer_stop(tracer, &pid, 1, &code);
    assert_int_equal(code, -ESRCH);
}

/* ---- stopping ---- */

static void single_threads_stop(void **state)
{
    (void)state;
    pid_t pid = target_start(two_threads), tid = shared->tids[1];
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    int codes[2] = {1, 1};
    assert_int_equal(tracer_stop(tracer, &tid, 1, codes), 0);
    assert_int_equal(codes[0], 0);
    assert_int_equal(tracer_stop(tracer, &tid, 1, codes), 0);
    WAIT_FOR(advances(0));
    assert_false(advances(1));
    pid_t both[] = {pid, tid};
    assert_int_equal(tracer_stop(tracer, both, 2, codes), 0);
    assert_false(advances(0));
    assert_int_equal(tracer_continue(tracer, both, 2, codes), 0);
    WAIT_FOR(advances(0) && advances(1));
    assert_int_equal(tracer_stop(tracer, both, 2, codes), 0);
    assert_int_equal(tracer_release(tracer, pid), 0);
    WAIT_FOR(advances(0) && advances(1));
    shared->stop = 1;
    assert_int_equal(target_wait(pid), 0);
}

static void registers_are_read_and_written(void **state)
{
    (void)state;
    pid_t pid = target_start(spin);
    tracer_begin();
    struct user_regs_struct regs, again;
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), -ESRCH);
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0);
    WAIT_FOR(advances(0));
    assert_int_equal(tracer_stop(tracer, &pid, 1, NULL), 0);
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0);
    regs.r15 ^= 0x1234567890abcdef;
    assert_int_equal(tracer_set_regs(tracer, pid, &regs), 0);
    assert_int_equal(tracer_get_regs(tracer, pid, &again), 0);
    assert_memory_equal(&regs, &again, sizeof regs);
    regs.r15 ^= 0x1234567890abcdef;
    assert_int_equal(tracer_set_regs(tracer, pid, &regs), 0);
    regs.cs = 0;
    assert_int_equal(tracer_set_regs(tracer, pid, &regs), -EINVAL);
    static uint8_t xstate[TRACER_XSTATE_SIZE], xstate2[TRACER_XSTATE_SIZE];
    size_t size = sizeof xstate, size2 = sizeof xstate2;
    assert_int_equal(tracer_get_xstate(tracer, pid, xstate, &size), 0);
    assert_true(size >= 576);
    uint64_t features;
    memcpy(&features, xstate + 512, sizeof features); /* XSTATE_BV */
    features |= 2;
    memcpy(xstate + 512, &features, sizeof features);
    memset(xstate + 160 + 15 * 16, 0x5a, 16); /* xmm15 */
    assert_int_equal(tracer_set_xstate(tracer, pid, xstate, size), 0);
    assert_int_equal(tracer_get_xstate(tracer, pid, xstate2, &size2), 0);
    assert_memory_equal(xstate + 160, xstate2 + 160, 256);
    assert_int_equal(tracer_set_xstate(tracer, pid, xstate, 100), -EINVAL);
    assert_int_equal(tracer_continue(tracer, &pid, 1, NULL), 0);
    WAIT_FOR(advances(0));
    shared->stop = 1;
    assert_int_equal(target_wait(pid), 0);
}

/* ---- breakpoints ---- */

static void run_insns(void)
{
    target_ready();
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < test_insn_count; i++)
            for (long arg = -2; arg < 3; arg++)
                if (test_insns[i].fn(arg) != test_insns[i].expected(arg))
                    shared->failed = (int)i + 1;
}

/* Every kind of instruction gives the same result with a breakpoint on it, and is hit as often as it is executed. */
static void any_instruction_can_carry_a_breakpoint(void **state)
{
    (void)state;
    pid_t pid = target_start(run_insns);
    tracer_begin();
    struct err err = {0};
    assert_int_equal(tracer_seize(tracer, pid, &err), 0);
    struct code_program count = {.count = 1, .insns = {{.op = CODE_ADD, .a = 1}}};
    for (unsigned i = 0; i < test_insn_count; i++) {
        count.insns[0].cell = i;
        if (tracer_break_set(tracer, pid, ADDR(test_insns[i].at), i, i % 2 ? &count : NULL, NULL, &err) < 0)
            fail_msg("%s: %s", test_insns[i].name, err.text);
    }
    shared->go = 1;
    long hits[TEST_COUNTERS] = {0};
    for (;;) {
        struct tracer_event event;
        assert_true(poll_event(&event, TEST_TIMEOUT_S * 1000));
        if (event.kind == TRACER_GONE)
            break;
        assert_int_equal(event.kind, TRACER_BREAK);
        for (unsigned i = 0; i < test_insn_count; i++)
            hits[i] += event.addr == ADDR(test_insns[i].at);
        struct user_regs_struct regs;
        assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0);
        assert_int_equal(regs.rip, event.addr);
        assert_int_equal(tracer_release_hold(tracer, event.hold), 0);
    }
    if (shared->failed)
        fail_msg("%s computes something else with a breakpoint on it", test_insns[shared->failed - 1].name);
    for (unsigned i = 0; i < test_insn_count; i++)
        if ((i % 2 ? test_cells[i] : hits[i]) != 15)
            fail_msg("%s: %ld hits", test_insns[i].name, i % 2 ? (long)test_cells[i] : hits[i]);
    assert_int_equal(target_wait(pid), 0);
}

enum { THREADS = 4, CALLS = 500 };

static void *call_hot(void *arg)
{
    (void)arg;
    while (!shared->go)
        usleep(200);
    for (int i = 0; i < CALLS; i++) {
        shared->counters[1] += test_hot(i) == i + 1;
        shared->counters[2] += test_insns[0].fn(i) == test_insns[0].expected(i);
    }
    return NULL;
}

static void hot_threads(void)
{
    pthread_t threads[THREADS];
    shared->ready = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, call_hot, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void no_hit_is_lost(void **state)
{
    (void)state;
    pid_t pid = target_start(hot_threads);
    tracer_begin();
    struct err err = {0};
    struct code_program count = {
        .count = 2,
        .insns = {{.op = CODE_ADD, .cell = 3, .a = 1}, {.op = CODE_ADD, .cell = 4, .a_kind = CODE_PARAM, .a = 0}}};
    assert_int_equal(tracer_seize(tracer, pid, &err), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, &err), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 2, &count, NULL, &err), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_insns[0].fn), 3, &count, NULL, &err), 0);
    shared->go = 1;
    int hits = 0;
    for (;;) {
        struct tracer_event event;
        assert_true(poll_event(&event, TEST_TIMEOUT_S * 1000));
        if (event.kind == TRACER_GONE)
            break;
        assert_int_equal(event.kind, TRACER_BREAK);
        assert_int_equal(event.addr, ADDR(test_hot));
        hits++;
        tracer_release_hold(tracer, event.hold);
    }
    assert_int_equal(hits, THREADS * CALLS);
    assert_int_equal(test_cells[3], 2 * THREADS * CALLS);
    assert_int_equal(test_cells[4], 2 * THREADS * (CALLS * (CALLS - 1) / 2));
    assert_int_equal(shared->counters[1], THREADS * CALLS);
    assert_int_equal(shared->counters[2], THREADS * CALLS);
    assert_int_equal(target_wait(pid), 0);
}

static void hot_loop(void)
{
    shared->ready = 1;
    while (!shared->stop) {
        if (test_hot(1) != 2)
            shared->failed = 1;
        shared->counters[0]++;
    }
}

static void several_share_a_breakpoint(void **state)
{
    (void)state;
    pid_t pid = target_start(hot_loop);
    tracer_begin();
    struct err err = {0};
    uint8_t original = byte_at(pid, ADDR(test_hot)), seen = 0;
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, &seen, &err), -ESRCH);
    assert_int_equal(tracer_seize(tracer, pid, &err), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(shared), 1, NULL, &seen, &err), -EIO);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, &seen, &err), 0);
    assert_int_equal(seen, original);
    struct tracer_event event = next_event(TRACER_BREAK, 0);
    seen = 0;
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 2, NULL, &seen, &err), 0);
    assert_int_equal(seen, original);
    assert_int_equal(tracer_break_clear(tracer, pid, ADDR(test_hot), 1), 0);
    assert_int_equal(byte_at(pid, ADDR(test_hot)), 0xcc);
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_BREAK, 0);
    /* cleared under a thread that stands on it: it goes on as if nothing had been */
    assert_int_equal(tracer_break_clear(tracer, pid, ADDR(test_hot), 2), 0);
    assert_int_equal(byte_at(pid, ADDR(test_hot)), original);
    assert_false(advances(0));
    tracer_release_hold(tracer, event.hold);
    WAIT_FOR(advances(0));
    for (int i = 0; i < 200; i++) { /* set and cleared while the thread runs into it */
        assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, &err), 0);
        assert_int_equal(tracer_break_clear(tracer, pid, ADDR(test_hot), 1), 0);
        while (poll_event(&event, 0))
            tracer_release_hold(tracer, event.hold);
    }
    tracer_release(tracer, pid);
    WAIT_FOR(advances(0));
    shared->stop = 1;
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->failed, 0);
}

static void memory_is_written_around_int3(void **state)
{
    (void)state;
    pid_t pid = target_start(hot_loop);
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    uint8_t code[6] = {0xb8, 7, 0, 0, 0, 0xc3}; /* mov $7, %eax; ret */
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, NULL), 0);
    struct tracer_event event = next_event(TRACER_BREAK, 0);
    /* test_hot begins with lea 1(%rdi), %rax; ret: five bytes, and padding */
    assert_int_equal(tracer_write_memory(tracer, pid, ADDR(test_hot), code, sizeof code), 0);
    assert_int_equal(byte_at(pid, ADDR(test_hot)), 0xcc);
    assert_int_equal(byte_at(pid, ADDR(test_hot) + 1), 7);
    assert_int_equal(tracer_break_clear(tracer, pid, ADDR(test_hot), 1), 0);
    assert_int_equal(byte_at(pid, ADDR(test_hot)), 0xb8);
    tracer_release_hold(tracer, event.hold);
    WAIT_FOR(shared->failed); /* it now returns 7 */
    assert_int_equal(tracer_write_memory(tracer, pid, 8, code, sizeof code), -EIO);
    shared->stop = 1;
    assert_int_equal(target_wait(pid), 0);
}

static void call_own_int3(void)
{
    target_ready();
    test_own_int3();
}

static void on_trap(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    shared->counters[3] += info->si_code == SI_KERNEL;
}

static void own_int3(void)
{
    struct sigaction act = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &act, NULL);
    call_own_int3();
    raise(SIGTRAP);
    shared->counters[4] = 1;
}

static void foreign_int3_reaches_the_program(void **state)
{
    (void)state;
    pid_t pid = target_start(own_int3);
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_own_int3), 1, NULL, NULL, NULL), 0);
    shared->go = 1;
    struct tracer_event event = next_event(TRACER_BREAK, 0);
    tracer_release_hold(tracer, event.hold);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[3], 1);
    assert_int_equal(shared->counters[4], 1);
}

/* How long an answer is waited for, in ms; the tracer's state is as said, and no time passes. */
static uint64_t asks_for(pid_t pid, char letter)
{
    struct err err = {0};
    test_world_begin(letter);
    uint64_t since_ns = wait_now_ns();
    assert_int_equal(tracer_seize(tracer, pid, &err), -ETIME);
    uint64_t took_ms = (wait_now_ns() - since_ns) / 1000000;
    test_world_end();
    return took_ms;
}

static void a_tracer_without_a_processor_is_waited_for(void **state)
{
    struct err err = {0};
    tracer_begin();
    pid_t pid = target_start(sleep_until_go);
    assert_int_equal(tracer_seize(tracer, pid, &err), 0);
    kill(tracer_pid(tracer), SIGSTOP);
    assert_int_equal(waitpid(tracer_pid(tracer), NULL, WUNTRACED), tracer_pid(tracer));
    const uint64_t limit_ms = 3000, round_ms = 50; /* to the next whole millisecond, each time */
    assert_in_range(asks_for(pid, 'S'), limit_ms, limit_ms + round_ms);
    assert_in_range(asks_for(pid, 'R'), 5 * limit_ms, 5 * limit_ms + round_ms);
    assert_in_range(asks_for(pid, 'D'), 5 * limit_ms, 5 * limit_ms + round_ms);
    assert_in_range(asks_for(pid, 0), limit_ms, limit_ms + round_ms);
    kill(tracer_pid(tracer), SIGCONT);
    struct user_regs_struct regs; /* the answers that come now are nobody's */
    int code;
    assert_int_equal(tracer_stop(tracer, &pid, 1, &code), 0);
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0);
    tracer_release(tracer, pid);
    target_kill(pid);
}

/* Each time with what was done behind it, and the release, too. */
static void interrupts_and_resumptions_are_reported_before(void **state)
{
    tracer_begin();
    pid_t pid = target_start(sleep_until_go);
    const struct tracer_watch watch = {.switches = true};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_stop(tracer, &pid, 1, NULL), 0);
    assert_int_equal(tracer_continue(tracer, &pid, 1, NULL), 0);
    assert_int_equal(tracer_watch(tracer, pid, &watch), 0);
    uint64_t before = clock_now_ns();
    assert_int_equal(tracer_stop(tracer, &pid, 1, NULL), 0);
    uint64_t stopped = clock_now_ns();
    assert_int_equal(tracer_continue(tracer, &pid, 1, NULL), 0);
    struct tracer_event event = next_event(TRACER_INTERRUPTS, 0);
    assert_true(event.pid == pid && event.tid == pid && !event.hold);
    assert_in_range(event.time_ns, before, stopped);
    assert_in_range(next_event(TRACER_RESUMES, 0).time_ns, stopped, clock_now_ns());
    assert_int_equal(tracer_release(tracer, pid), 0);
    next_event(TRACER_INTERRUPTS, 0);
    tracer_receive(tracer);
    next_event(TRACER_RESUMES, 0);
    target_kill(pid);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)
        TEST(seizing_does_not_stop),
        TEST(refusals_say_why),
        TEST(single_threads_stop),
        TEST(registers_are_read_and_written),
        TEST(any_instruction_can_carry_a_breakpoint),
        TEST(no_hit_is_lost),
        TEST(several_share_a_breakpoint),
        TEST(memory_is_written_around_int3),
        TEST(foreign_int3_reaches_the_program),
        TEST(a_tracer_without_a_processor_is_waited_for),
        TEST(interrupts_and_resumptions_are_reported_before),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("tracer", tests, NULL, NULL);
}
