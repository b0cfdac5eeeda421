/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, jumps, calls and backtraces. */
#include "tracer/test_support.h"

#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/own_memory.h"
#include "tracer/test_insns.h"

/* ---- steps ---- */

static void nest_on_go(void)
{
    shared->ready = 1;
    while (!shared->go)
        ;
    shared->counters[0] = test_nest(5);
    shared->counters[1] = test_pushf();
}

static void on_usr1(int signo)
{
    (void)signo;
    shared->counters[2]++;
}

static void nest_with_signals(void)
{
    signal(SIGUSR1, on_usr1);
    nest_on_go();
}

static pid_t stop_at(target_fn *fn, uint64_t addr, struct tracer_event *ret_event)
{
    pid_t pid = target_start(fn);
    tracer_begin();
    struct err err = {0};
    if (tracer_seize(tracer, pid, &err) < 0 || tracer_break_set(tracer, pid, addr, 1, NULL, NULL, &err) < 0)
        fail_msg("%s", err.text);
    shared->go = 1;
    *ret_event = next_event(TRACER_BREAK, 0);
    return pid;
}

static void steps_go_into_calls(void **state)
{
    (void)state;
    struct tracer_event event;
    pid_t pid = stop_at(nest_on_go, ADDR(test_nest_call), &event);
    assert_int_equal(tracer_step(tracer, pid, TRACER_STEP_INTO), 0);
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_STEP, 0);
    assert_int_equal(event.addr, ADDR(test_nest)); /* emulated call */
    for (int i = 0; i < 5; i++) {                  /* xor, test, je, dec, sub */
        tracer_release_hold(tracer, event.hold);
        event = next_event(TRACER_STEP, 0);
    }
    assert_int_equal(event.addr, ADDR(test_nest_call));
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_BREAK, 0); /* the step came first, then the breakpoint there */
    assert_int_equal(tracer_break_clear(tracer, pid, ADDR(test_nest_call), 1), 0);
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_STEP, 0);
    assert_int_equal(tracer_step(tracer, pid, TRACER_STEP_NONE), 0);
    tracer_release_hold(tracer, event.hold);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[0], 5);
}

/* Recursion: the return address is passed in the inner calls before the stepped one returns. */
static void steps_go_over_calls(void **state)
{
    (void)state;
    struct tracer_event event;
    pid_t pid = stop_at(nest_with_signals, ADDR(test_nest_call), &event);
    assert_int_equal(tracer_step(tracer, pid, TRACER_STEP_OVER), 0);
    assert_int_equal(tracer_break_clear(tracer, pid, ADDR(test_nest_call), 1), 0);
    kill(pid, SIGUSR1);
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_STEP, 0);
    assert_int_equal(event.addr, ADDR(test_nest_after));
    struct user_regs_struct regs;
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0);
    assert_int_equal(regs.rax, 4);
    assert_int_equal(shared->counters[2], 1);
    kill(pid, SIGUSR1); /* its handler runs first, the step is still one instruction of the program */
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_STEP, 0);
    assert_int_equal(event.addr, ADDR(test_nest_after) + 4);
    assert_int_equal(shared->counters[2], 2);
    tracer_step(tracer, pid, TRACER_STEP_NONE);
    tracer_release_hold(tracer, event.hold);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[0], 5);
}

/* To the next step that is one over calls, too. */
static struct tracer_event next_over(struct tracer_event event, unsigned *ret_count)
{
    for (*ret_count = 0;; ++*ret_count) {
        tracer_release_hold(tracer, event.hold);
        event = next_event(TRACER_STEP, 0);
        if (event.number == TRACER_STEP_BOTH)
            return event;
        assert_int_equal(event.number, TRACER_STEP_INTO);
    }
}

/* Instruction by instruction, and known which of them are those of steps over calls. */
static void steps_of_both_kinds(void **state)
{
    (void)state;
    struct tracer_event event;
    struct user_regs_struct regs;
    unsigned count;
    pid_t pid = stop_at(nest_with_signals, ADDR(test_nest_call), &event);
    assert_int_equal(tracer_step(tracer, pid, TRACER_STEP_BOTH), 0);
    assert_int_equal(tracer_break_clear(tracer, pid, ADDR(test_nest_call), 1), 0);
    event = next_over(event, &count);
    assert_int_equal(event.addr, ADDR(test_nest_after));
    assert_true(count > 20);
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0);
    assert_int_equal(regs.rax, 4);
    kill(pid, SIGUSR1);
    event = next_over(event, &count);
    assert_int_equal(event.addr, ADDR(test_nest_after) + 4);
    assert_true(count > 3); /* those of the handler */
    assert_int_equal(shared->counters[2], 1);
    tracer_step(tracer, pid, TRACER_STEP_NONE);
    tracer_release_hold(tracer, event.hold);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[0], 5);
}

/* A tool that changes the mode inside a call still gets its end. */
static void modes_change_inside_a_call(void **state)
{
    (void)state;
    struct tracer_event event;
    pid_t pid = stop_at(nest_with_signals, ADDR(test_nest_call), &event);
    assert_int_equal(tracer_break_clear(tracer, pid, ADDR(test_nest_call), 1), 0);
    assert_int_equal(tracer_step(tracer, pid, TRACER_STEP_BOTH), 0);
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_STEP, 0);
    assert_int_equal(tracer_step(tracer, pid, TRACER_STEP_OVER), 0);
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_STEP, 0);
    assert_int_equal(event.addr, ADDR(test_nest_after));
    assert_int_equal(event.number, TRACER_STEP_OVER);
    tracer_step(tracer, pid, TRACER_STEP_NONE);
    tracer_release_hold(tracer, event.hold);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[0], 5);
}

static void the_trap_flag_does_not_show(void **state)
{
    (void)state;
    struct tracer_event event;
    pid_t pid = stop_at(nest_on_go, ADDR(test_pushf), &event);
    tracer_step(tracer, pid, TRACER_STEP_INTO);
    tracer_break_clear(tracer, pid, ADDR(test_pushf), 1);
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_STEP, 0);
    assert_int_equal(event.addr, ADDR(test_pushf_pop));
    assert_int_equal(tracer_release(tracer, pid), 0); /* in the middle of stepping */
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[1] & 0x100, 0);
    assert_int_not_equal(shared->counters[1], 0);
}

/* ---- jumps and calls ---- */

static long called(void)
{
    /* clobbers what a function may clobber */
    __asm__ volatile("xorps %%xmm0, %%xmm0; xorps %%xmm7, %%xmm7; mov $1, %%r10; mov $2, %%r11; std; cld" ::
                         : "xmm0", "xmm7", "r10", "r11", "cc");
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroall");
    shared->counters[5]++;
    shared->values[5] = (uint64_t)__builtin_frame_address(0);
    return 77;
}

static long called_slow(void)
{
    called();
    shared->counters[6] = 1;
    while (!shared->stop)
        ;
    called();
    return 1;
}

/* Spins with known values in all registers; leaves with what became of them. */
static void spin_with_registers(void)
{
    shared->ready = 1;
    uint64_t sum = 0;
    __asm__ volatile("movl $0x1234, %%eax; movd %%eax, %%xmm7; movq %%rsp, %%rdx\n"
                     "movq $0xabcdef, %%r10; movq $0x77777, -64(%%rsp); movq $5, %%r11; stc\n"
                     "1: inc %%rcx; movl (%1), %%esi; notl %%esi; incl %%esi; jrcxz 1b; pushfq; popq %%rsi\n"
                     "cmpl $0, (%1); je 1b\n"
                     "subq %%rsp, %%rdx; addq %%r10, %%rdx; addq %%r11, %%rdx\n"
                     "movd %%xmm7, %%esi; addq %%rsi, %%rdx; movq %%rdx, %0"
                     : "=r"(sum)
                     : "r"(&shared->go)
                     : "rax", "rcx", "rdx", "rsi", "r10", "r11", "xmm7", "cc", "memory");
    shared->values[0] = sum;
}

static void a_called_function_leaves_no_trace(void **state)
{
    (void)state;
    pid_t pid = target_start(spin_with_registers);
    tracer_begin();
    struct err err = {0};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    for (int i = 1; i <= 50; i++) {
        if (tracer_call(tracer, pid, ADDR(called), NULL, &err) < 0)
            fail_msg("%s", err.text);
        WAIT_FOR(shared->counters[5] == i);
    }
    struct user_regs_struct before, after;
    assert_int_equal(tracer_stop(tracer, &pid, 1, NULL), 0);
    assert_int_equal(tracer_get_regs(tracer, pid, &before), 0);
    struct tracer_call_place place;
    assert_int_equal(tracer_call(tracer, pid, ADDR(called), &place, &err), 0);
    assert_int_equal(tracer_get_regs(tracer, pid, &after), 0);
    assert_int_equal(place.slot, after.rsp);
    assert_int_equal(place.pc, before.rip);
    /* where it returns to is no place for a breakpoint: nobody would know what to do behind it */
    assert_int_equal(tracer_break_set(tracer, pid, place.stub, 1, NULL, NULL, &err), -EIO);
    assert_int_equal(after.rip, ADDR(called));
    assert_int_equal(after.rsp % 16, 8);
    assert_true(after.rsp <= before.rsp - 128);
    assert_int_equal(tracer_continue(tracer, &pid, 1, NULL), 0);
    WAIT_FOR(shared->counters[5] == 51);
    shared->go = 1;
    next_event(TRACER_GONE, 1U << TRACER_CALL_ENDED);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->values[0], 0xabcdef + 5 + 0x1234);
}

/* Calls nest when the next one comes before the last has returned, and their ends come while nobody traces the thread,
 * or while somebody does who knows nothing of them. */
static void calls_outlive_many_seizings(void **state)
{
    (void)state;
    enum { CALLS = 300 };
    pid_t pid = target_start(spin_with_registers);
    tracer_begin();
    struct err err = {0};
    for (int i = 0; i < CALLS; i++) {
        if (tracer_seize(tracer, pid, &err) < 0 || tracer_call(tracer, pid, ADDR(called), NULL, &err) < 0)
            fail_msg("call %d: %s", i, err.text);
        assert_int_equal(tracer_release(tracer, pid), 0);
    }
    WAIT_FOR(shared->counters[5] == CALLS);
    shared->go = 1;
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->values[0], 0xabcdef + 5 + 0x1234);
}

/* In the middle of system calls of every kind of restart. */
static void sleep_long(void)
{
    int fds[2];
    char byte = 0;
    shared->ready = 1;
    if (pipe(fds) < 0)
        return;
    struct timespec time = {.tv_nsec = 400000000};
    shared->tids[1] = 1;
    shared->values[1] = (uint64_t)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL); /* ERESTART_RESTARTBLOCK */
    shared->tids[1] = 2;
    struct pollfd poll_fd = {.fd = fds[0], .events = POLLIN};
    shared->values[2] = (uint64_t)poll(&poll_fd, 1, 400); /* the same */
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to be left behind by a test that failed */
        while (!shared->go)
            usleep(200);
        if (write(fds[1], "x", 1) != 1)
            _exit(1);
        _exit(0);
    }
    shared->tids[1] = 3;
    shared->values[3] = (uint64_t)read(fds[0], &byte, 1); /* ERESTARTSYS */
    shared->values[4] = (uint64_t)byte;
}

static void calls_do_not_disturb_system_calls(void **state)
{
    (void)state;
    uint64_t begun = clock_now_ns();
    pid_t pid = target_start(sleep_long);
    tracer_begin();
    struct err err = {0};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    for (int i = 1; i <= 3; i++) {
        /* by the time we look, it may be in a later call: that one is disturbed as little, and the last one waits for
         * us */
        WAIT_FOR(shared->tids[1] >= i && state_of(pid) == 'S');
        for (int n = 0; n < 3; n++) {
            long before = shared->counters[5];
            if (tracer_call(tracer, pid, ADDR(called), NULL, &err) < 0)
                fail_msg("%s", err.text);
            WAIT_FOR(shared->counters[5] > before && state_of(pid) == 'S');
        }
    }
    shared->go = 1;
    next_event(TRACER_GONE, 1U << TRACER_CALL_ENDED);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->values[1], 0);
    assert_int_equal(shared->values[2], 0);
    assert_int_equal(shared->values[3], 1);
    assert_int_equal(shared->values[4], 'x');
    assert_true(clock_now_ns() - begun >= 800000000);
    assert_true(shared->counters[5] >= 9);
}

/* The function returns after the tracer has left: by the signal frame. */
static void calls_outlive_the_tracer(void **state)
{
    (void)state;
    pid_t pid = target_start(spin_with_registers);
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_call(tracer, pid, ADDR(called_slow), NULL, NULL), 0);
    WAIT_FOR(shared->counters[6]);
    tracer_stop_all(tracer);
    tracer = NULL;
    assert_int_equal(status_field(pid, "\nTracerPid:"), 0);
    shared->stop = 1;
    WAIT_FOR(shared->counters[5] == 2);
    shared->go = 1;
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->values[0], 0xabcdef + 5 + 0x1234);
}

static void jumped_to(void)
{
    shared->counters[7] = 1;
    syscall(SYS_exit_group, 42);
}

static void threads_jump(void **state)
{
    (void)state;
    pid_t pid = target_start(nest_on_go);
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_goto(tracer, pid, ADDR(jumped_to), NULL), 0);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 42 << 8);
    assert_int_equal(shared->counters[7], 1);
}

/* ---- backtraces ---- */

static int compare_bottom(const void *a, const void *b)
{
    shared->values[0] = (uint64_t)__builtin_return_address(0);
    shared->counters[0] = 1;
    while (!shared->stop)
        ;
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static int sort_middle(int *numbers)
{
    qsort(numbers, 4, sizeof *numbers, compare_bottom);
    return numbers[0];
}

__attribute__((noinline)) static int sort_top(int *numbers)
{
    return sort_middle(numbers) + 1;
}

static void *sort_thread(void *arg)
{
    (void)arg;
    int numbers[] = {4, 3, 2, 1};
    shared->tids[1] = gettid();
    shared->counters[1] = sort_top(numbers);
    return NULL;
}

static void sort_in_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, sort_thread, NULL);
    while (!shared->counters[0])
        usleep(200);
    shared->ready = 1;
    pthread_join(thread, NULL);
}

static bool within(uint64_t pc, const void *function, size_t size)
{
    return pc - ADDR(function) < (SANITIZED ? 8 * size : size);
}

static void check_order(const struct tracer_frame *frames, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++)
        if (frames[i].cfa <= (i ? frames[i - 1].cfa : 0))
            fail_msg("frame %zu of %zu: the stack does not grow", i, count);
}

static void stacks_are_unwound(void **state)
{
    (void)state;
    pid_t pid = target_start(sort_in_thread);
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    struct tracer_frame *frames;
    size_t count;
    struct err err = {0};
    if (tracer_backtrace(tracer, shared->tids[1], 0, &frames, &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(count >= 6);
    check_order(frames, count);
    assert_true(within(frames[0].pc, compare_bottom, 512));
    bool seen_qsort = false, seen_top = false, seen_thread = false;
    for (size_t i = 1; i < count; i++) {
        seen_qsort |= frames[i].pc == shared->values[0]; /* the caller inside the C library */
        seen_top |= within(frames[i].pc, sort_top, 64);
        seen_thread |= within(frames[i].pc, sort_thread, 256);
    }
    assert_true(seen_qsort && seen_top && seen_thread);
    free(frames);
    assert_int_equal(tracer_backtrace(tracer, shared->tids[1], 2, &frames, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_true(frames[0].cfa && frames[1].cfa > frames[0].cfa);
    free(frames);
    /* the leader waits in the C library, in a system call */
    assert_int_equal(tracer_backtrace(tracer, pid, 0, &frames, &count, &err), 0);
    bool seen_start = false;
    for (size_t i = 0; i < count; i++)
        seen_start |= within(frames[i].pc, target_start, 1024);
    assert_true(seen_start);
    free(frames);
    shared->stop = 1;
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[1], 2);
}

static void nest_deep(void)
{
    target_ready();
    shared->counters[0] = test_nest(60000);
}

static void deep_recursion_is_unwound(void **state)
{
    (void)state;
    pid_t pid = target_start(nest_deep);
    tracer_begin();
    struct err err = {0};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    /* at the first return, the innermost level */
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_nest_after), 1, NULL, NULL, NULL), 0);
    shared->go = 1;
    struct tracer_event event = next_event(TRACER_BREAK, 0);
    struct tracer_frame *frames;
    size_t count;
    if (tracer_backtrace(tracer, pid, 0, &frames, &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(count >= 60000 && count < 60100);
    check_order(frames, count);
    assert_int_equal(frames[0].pc, ADDR(test_nest_after));
    assert_int_equal(frames[59000].pc, ADDR(test_nest_after));
    assert_int_equal(frames[59000].cfa, frames[0].cfa + 59000 * 16);
    free(frames);
    tracer_break_clear(tracer, pid, ADDR(test_nest_after), 1);
    tracer_release_hold(tracer, event.hold);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[0], 60000);
}

static void in_handler(int signo)
{
    (void)signo;
    shared->counters[0] = 1;
    while (!shared->stop)
        ;
}

static void handle_signal(void)
{
    signal(SIGUSR1, in_handler);
    shared->ready = 1;
    while (!shared->counters[0])
        ;
}

static void handlers_are_unwound_through(void **state)
{
    (void)state;
    pid_t pid = target_start(handle_signal);
    tracer_begin();
    kill(pid, SIGUSR1);
    WAIT_FOR(shared->counters[0]);
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    struct tracer_frame *frames;
    size_t count;
    assert_int_equal(tracer_backtrace(tracer, pid, 0, &frames, &count, NULL), 0);
    assert_true(within(frames[0].pc, in_handler, 256));
    bool seen = false;
    for (size_t i = 1; i < count; i++)
        seen |= within(frames[i].pc, handle_signal, 256);
    assert_true(seen);
    free(frames);
    shared->stop = 1;
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)
        TEST(steps_go_into_calls),          TEST(steps_go_over_calls),
        TEST(steps_of_both_kinds),          TEST(modes_change_inside_a_call),
        TEST(the_trap_flag_does_not_show),  TEST(a_called_function_leaves_no_trace),
        TEST(calls_outlive_many_seizings),  TEST(calls_do_not_disturb_system_calls),
        TEST(calls_outlive_the_tracer),     TEST(threads_jump),
        TEST(stacks_are_unwound),           TEST(deep_recursion_is_unwound),
        TEST(handlers_are_unwound_through),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("tracer_code", tests, NULL, NULL);
}
