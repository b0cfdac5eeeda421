/* SPDX-License-Identifier: Apache-2.0 */
/* A tracer that is killed leaves a hit of a breakpoint, or a step, that it had not seen: the program goes on. Made here
 * by a tracer that lets go with the signal, as the kernel does for one that has died. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/safety/crash.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"

enum { PAGE = 4096, INT3 = 0xcc };

static struct area_view view;
static uint8_t *code; /* push %rbx; pop %rbx; ret: its first byte is what a breakpoint replaces */

static void be_target(void)
{
    agent_read_init(&view);
    agent_crash_init(&view, NULL, &(struct agent_crash_ops){0});
    agent_signals_start();
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    ((void (*)(void))(uintptr_t)code)();
    _exit(5);
}

static pid_t target_start(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (int signo = 1; signo < NSIG; signo++) /* cmocka's handlers */
            signal(signo, SIG_DFL);
        be_target();
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    return pid;
}

static void go_to_trap(pid_t pid, int how)
{
    int status;
    assert_int_equal(ptrace((enum __ptrace_request)how, pid, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
}

static int target_end(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int setup(void **state)
{
    (void)state;
    view.area = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    code[0] = INT3;
    code[1] = 0x5b;
    code[2] = 0xc3;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    munmap(code, PAGE);
    return munmap(view.area, AREA_PAGE);
}

static void a_breakpoint_is_gone(void **state)
{
    (void)state;
    pid_t pid = target_start();
    go_to_trap(pid, PTRACE_CONT);
    code[0] = 0x53;
    ptrace(PTRACE_DETACH, pid, NULL, SIGTRAP);
    assert_int_equal(target_end(pid), 5);
}

/* The handler is there first, and waits. */
static void a_breakpoint_goes_afterwards(void **state)
{
    (void)state;
    pid_t pid = target_start();
    go_to_trap(pid, PTRACE_CONT);
    ptrace(PTRACE_DETACH, pid, NULL, SIGTRAP);
    usleep(2000);
    code[0] = 0x53;
    assert_int_equal(target_end(pid), 5);
}

static void a_breakpoint_stays(void **state)
{
    (void)state;
    pid_t pid = target_start();
    go_to_trap(pid, PTRACE_CONT);
    ptrace(PTRACE_DETACH, pid, NULL, SIGTRAP);
    assert_int_equal(target_end(pid), -SIGTRAP);
}

/* A second process is the tracer, so that it can be killed with its thread's trap flag set. */
static void a_step_is_nobodys(void **state)
{
    (void)state;
    int pipes[2], ready[2], byte = 0;
    code[0] = 0x53;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (int signo = 1; signo < NSIG; signo++)
            signal(signo, SIG_DFL);
        agent_read_init(&view);
        agent_crash_init(&view, NULL, &(struct agent_crash_ops){0});
        agent_signals_start();
        if (write(ready[1], "", 1) != 1)
            _exit(1);
        while (read(pipes[0], &byte, 1) != 1) {
        }
        for (int i = 0; i < 1000; i++)
            ((void (*)(void))(uintptr_t)code)();
        _exit(5);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1); /* steps before its handlers are there would end it */
    pid_t tracer = fork();
    if (tracer == 0) {
        int status;
        if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 ||
            waitpid(pid, &status, __WALL) != pid || write(pipes[1], "", 1) != 1)
            _exit(1);
        for (int i = 0; i < 500; i++)
            if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0 || waitpid(pid, &status, __WALL) != pid)
                _exit(1);
        ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(target_end(tracer), -SIGKILL);
    assert_int_equal(target_end(pid), 5);
    for (int i = 0; i < 2; i++) {
        close(pipes[i]);
        close(ready[i]);
    }
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_breakpoint_is_gone),
        EACH(a_breakpoint_goes_afterwards),
        EACH(a_breakpoint_stays),
        EACH(a_step_is_nobodys),
    };
    return cmocka_run_group_tests_name("traps", tests, NULL, NULL);
}
