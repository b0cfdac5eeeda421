/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that fork, execute, get signals, die; tracers and monitors that die. */
#include "tracer/test_support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/file.h"
#include "probe/proc.h"
#include "tracer/test_insns.h"

static void wait_for_go(void)
{
    shared->tids[0] = gettid();
    target_ready();
}

/* ---- children ---- */

/* Forked children run the code that carries the breakpoint. */
static void fork_three(void)
{
    wait_for_go();
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int n = 0; n < 100; n++)
                if (test_hot(n) != n + 1)
                    _exit(1);
            _exit(7);
        }
        int status;
        waitpid(pid, &status, 0);
        shared->counters[0] += WIFEXITED(status) && WEXITSTATUS(status) == 7;
        test_hot(1);
    }
}

static void forked_children_are_clean(void **state)
{
    (void)state;
    pid_t pid = target_start(fork_three);
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, NULL), 0);
    shared->go = 1;
    for (int i = 0; i < 3; i++) {
        struct tracer_event event = next_event(TRACER_BREAK, 0);
        assert_int_equal(event.pid, pid);
        tracer_release_hold(tracer, event.hold);
    }
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[0], 3);
}

/* Its new processes are reported, and it stops in test_hot. */
static void begin_with_children(pid_t pid)
{
    tracer_begin();
    struct tracer_watch watch = {.new_process = true};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_watch(tracer, pid, &watch), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, NULL), 0);
    shared->go = 1;
}

static void children_are_reported_and_can_be_kept(void **state)
{
    (void)state;
    pid_t pid = target_start(fork_three);
    begin_with_children(pid);
    struct tracer_event event = next_event(TRACER_NEW_PROCESS, 0);
    assert_int_equal(event.pid, pid);
    assert_int_equal(state_of(event.child), 't');
    assert_int_not_equal(byte_at(event.child, ADDR(test_hot)), 0xcc);
    pid_t kept = event.child;
    assert_int_equal(tracer_seize(tracer, kept, NULL), 0);
    struct code_program count = {.count = 1, .insns = {{.op = CODE_ADD, .a = 1}}};
    assert_int_equal(tracer_break_set(tracer, kept, ADDR(test_hot), 1, &count, NULL, NULL), 0);
    tracer_release_hold(tracer, event.hold);
    assert_int_equal(next_event(TRACER_GONE, 0).pid, kept);
    assert_int_equal(test_cells[0], 100);
    tracer_release_hold(tracer, next_event(TRACER_BREAK, 0).hold);
    event = next_event(TRACER_NEW_PROCESS, 0);
    tracer_release_hold(tracer, event.hold); /* not wanted: it is let go */
    tracer_release_hold(tracer, next_event(TRACER_BREAK, 0).hold);
    /* one that dies while it is held, like its parent */
    event = next_event(TRACER_NEW_PROCESS, 0);
    kill(event.child, SIGKILL);
    WAIT_FOR(state_of(event.child) != 't');
    tracer_release_hold(tracer, event.hold);
    tracer_release_hold(tracer, next_event(TRACER_BREAK, 0).hold);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[0], 2);
}

static long in_vfork_child(long n)
{
    return test_hot(n);
}

/* The child of vfork borrows the memory, breakpoints included, and executes something. */
static void vfork_and_exec(void)
{
    wait_for_go();
    for (int i = 0; i < 3; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            if (in_vfork_child(3) != 4)
                _exit(1);
            execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
            _exit(1);
        }
        int status;
        waitpid(pid, &status, 0);
        shared->counters[0] += WIFEXITED(status) && WEXITSTATUS(status) == 7;
        test_hot(1);
    }
    shared->counters[0] += system("exit 3") == 3 << 8;
}

static void vfork_shares_breakpoints(void **state)
{
    (void)state;
    pid_t pid = target_start(vfork_and_exec);
    begin_with_children(pid);
    for (int i = 0; i < 3; i++) {
        struct tracer_event event = next_event(TRACER_NEW_PROCESS, 0);
        assert_int_equal(byte_at(event.child, ADDR(test_hot)), 0xcc);
        tracer_release_hold(tracer, event.hold);
        event = next_event(TRACER_BREAK, 0);
        assert_int_equal(event.pid, pid);
        assert_int_equal(byte_at(pid, ADDR(test_hot)), 0xcc);
        tracer_release_hold(tracer, event.hold);
    }
    tracer_release_hold(tracer, next_event(TRACER_NEW_PROCESS, 0).hold);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[0], 4);
}

/* ---- exec ---- */

static void *exec_thread(void *arg)
{
    (void)arg;
    shared->tids[1] = gettid();
    while (!shared->go)
        usleep(200);
    execl("/bin/sh", "sh", "-c", "kill -STOP $$; exit 5", (char *)NULL);
    _exit(1);
}

static void *hot_thread(void *arg)
{
    (void)arg;
    shared->tids[2] = gettid();
    for (;;)
        test_hot(1);
    return NULL;
}

static void exec_in_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, exec_thread, NULL);
    pthread_create(&thread, NULL, hot_thread, NULL);
    while (!shared->tids[1] || !shared->tids[2])
        usleep(200);
    shared->ready = 1;
    for (;;)
        pause();
}

static void exec_replaces_everything(void **state)
{
    (void)state;
    pid_t pid = target_start(exec_in_thread);
    tracer_begin();
    struct tracer_watch watch = {.thread_exit = false};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_watch(tracer, pid, &watch), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, NULL), 0);
    struct tracer_event held = next_event(TRACER_BREAK, 0);
    assert_int_equal(held.tid, shared->tids[2]);
    assert_int_equal(tracer_stop(tracer, &pid, 1, NULL), 0);
    shared->go = 1; /* a thread executes while one is held by an event and one is stopped */
    struct tracer_event event = next_event(TRACER_EXEC, 0);
    assert_int_equal(event.pid, pid);
    assert_int_equal(event.tid, pid);
    tracer_release_hold(tracer, held.hold);
    struct user_regs_struct regs;
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0);
    tracer_release_hold(tracer, event.hold);
    WAIT_FOR(state_of(pid) == 'T' || state_of(pid) == 't');
    int status;
    WAIT_FOR(waitpid(pid, &status, WUNTRACED | WNOHANG) == pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    kill(pid, SIGCONT);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 5 << 8);
}

/* ---- signals ---- */

static void on_usr1(int signo)
{
    (void)signo;
    shared->counters[1]++;
}

static void count_usr1(void)
{
    struct sigaction act = {.sa_handler = on_usr1};
    sigaction(SIGUSR1, &act, NULL);
    signal(SIGUSR2, on_usr1);
    shared->ready = 1;
    while (!shared->stop)
        shared->counters[0]++;
}

__attribute__((no_sanitize("undefined"))) /* which would say so, and go on */
static void
divide_by_zero(void)
{
    volatile int zero = 0;
    signal(SIGFPE, on_usr1);
    shared->ready = 1;
    while (!shared->stop)
        continue;
    signal(SIGFPE, SIG_DFL);
    shared->counters[0] = 7 / zero;
}

/* Of one that was sent nothing is known. */
static void arithmetic_errors_say_what_is_wrong(void **state)
{
    (void)state;
    int status;
    pid_t pid = target_start(divide_by_zero);
    tracer_begin();
    struct tracer_watch watch = {.signals = UINT64_C(1) << (SIGFPE - 1)};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_watch(tracer, pid, &watch), 0);
    kill(pid, SIGFPE);
    struct tracer_event event = next_event(TRACER_SIGNAL, 0);
    assert_int_equal(event.arg_count, 0);
    tracer_release_hold(tracer, event.hold);
    shared->stop = 1;
    event = next_event(TRACER_SIGNAL, 0);
    assert_int_equal(event.signo, SIGFPE);
    assert_int_equal(event.arg_count, 1);
    assert_int_equal(event.args[0], FPE_INTDIV);
    tracer_release_hold(tracer, event.hold);
    WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGFPE);
}

static void signals_are_reported_and_delivered(void **state)
{
    (void)state;
    pid_t pid = target_start(count_usr1);
    tracer_begin();
    struct tracer_watch watch = {.signals = UINT64_C(1) << (SIGUSR1 - 1)};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_watch(tracer, pid, &watch), 0);
    kill(pid, SIGUSR2); /* not watched */
    WAIT_FOR(shared->counters[1] == 1);
    kill(pid, SIGUSR1);
    struct tracer_event event = next_event(TRACER_SIGNAL, 0);
    assert_int_equal(event.signo, SIGUSR1);
    assert_int_equal(shared->counters[1], 1);
    tracer_release_hold(tracer, event.hold);
    WAIT_FOR(shared->counters[1] == 2);
    /* job control goes on working */
    int status;
    kill(pid, SIGSTOP);
    WAIT_FOR(waitpid(pid, &status, WUNTRACED | WNOHANG) == pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    long before = shared->counters[0];
    struct user_regs_struct regs;
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0);
    assert_int_equal(tracer_stop(tracer, &pid, 1, NULL), 0);
    assert_int_equal(tracer_continue(tracer, &pid, 1, NULL), 0);
    test_pause();
    assert_int_equal(shared->counters[0], before); /* still stopped by its user */
    kill(pid, SIGCONT);
    WAIT_FOR(waitpid(pid, &status, WCONTINUED | WNOHANG) == pid);
    WAIT_FOR(shared->counters[0] != before);
    /* a stop by the user survives our leaving */
    kill(pid, SIGSTOP);
    WAIT_FOR(waitpid(pid, &status, WUNTRACED | WNOHANG) == pid);
    assert_int_equal(tracer_release(tracer, pid), 0);
    WAIT_FOR(state_of(pid) == 'T');
    before = shared->counters[0];
    test_pause();
    assert_int_equal(shared->counters[0], before);
    kill(pid, SIGCONT);
    WAIT_FOR(shared->counters[0] != before);
    shared->stop = 1;
    assert_int_equal(target_wait(pid), 0);
}

/* ---- system calls ---- */

static void call_system(void)
{
    wait_for_go();
    syscall(SYS_lseek, 0x7777, 11L, 2);
    shared->counters[0] = syscall(SYS_getppid);
}

static void system_calls_are_reported(void **state)
{
    (void)state;
    pid_t pid = target_start(call_system);
    tracer_begin();
    struct tracer_watch watch = {0};
    watch.syscall_enter[SYS_lseek / 64] |= UINT64_C(1) << SYS_lseek % 64;
    watch.syscall_exit[SYS_lseek / 64] |= UINT64_C(1) << SYS_lseek % 64;
    watch.syscall_exit[SYS_getppid / 64] |= UINT64_C(1) << SYS_getppid % 64;
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_watch(tracer, pid, &watch), 0);
    shared->go = 1;
    struct tracer_event event = next_event(TRACER_SYSCALL_ENTER, 0);
    assert_int_equal(event.number, SYS_lseek);
    assert_int_equal(event.arg_count, 3);
    assert_int_equal(event.args[0], 0x7777);
    assert_int_equal(event.args[1], 11);
    assert_int_equal(event.args[2], 2);
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_SYSCALL_EXIT, 0);
    assert_int_equal(event.number, SYS_lseek);
    assert_int_equal(event.result, -EBADF);
    assert_int_equal(event.args[1], 11);
    tracer_release_hold(tracer, event.hold);
    event = next_event(TRACER_SYSCALL_EXIT, 0);
    assert_int_equal(event.number, SYS_getppid);
    assert_int_equal(event.arg_count, 0);
    assert_int_equal(event.result, getpid());
    tracer_release_hold(tracer, event.hold);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[0], getpid());
}

/* ---- deaths ---- */

static void hot_loop(void)
{
    shared->ready = 1;
    while (!shared->stop)
        shared->counters[0] += test_hot(1) == 2;
}

static void killed_targets_are_gone(void **state)
{
    (void)state;
    tracer_begin();
    for (int i = 0; i < 20; i++) {
        pid_t pid = target_start(hot_loop);
        assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
        assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, NULL), 0);
        struct tracer_event event = next_event(TRACER_BREAK, 0);
        if (i % 2)
            assert_int_equal(tracer_stop(tracer, &pid, 1, NULL), 0);
        if (i % 3)
            tracer_release_hold(tracer, event.hold);
        target_kill(pid);
        next_event(TRACER_GONE, 1U << TRACER_BREAK);
        tracer_release_hold(tracer, event.hold);
        assert_int_equal(tracer_release(tracer, pid), 0);
    }
}

enum { RUNNERS = 3, ROUNDS = 20000 };

static void *run_rounds(void *arg)
{
    long index = (long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        shared->counters[index] += test_hot(i) == i + 1;
        shared->counters[index] += test_insns[0].fn(i) == test_insns[0].expected(i);
        shared->counters[index] += test_nest(3) == 3;
        shared->values[10]++;
    }
    return NULL;
}

static void rounds(void)
{
    pthread_t threads[RUNNERS];
    wait_for_go();
    for (long i = 0; i < RUNNERS; i++)
        pthread_create(&threads[i], NULL, run_rounds, (void *)i);
    for (long i = 0; i < RUNNERS; i++)
        pthread_join(threads[i], NULL);
}

/* A monitor of its own: breakpoints in a hot loop, some threads stopped, until it is killed. */
static void be_monitor(pid_t target)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tracer_begin();
    pid_t tid = shared->tids[0];
    struct code_program count = {.count = 1, .insns = {{.op = CODE_ADD, .a = 1}}};
    if (tracer_seize(tracer, target, NULL) < 0 ||
        tracer_break_set(tracer, target, ADDR(test_hot), 1, NULL, NULL, NULL) < 0 ||
        tracer_break_set(tracer, target, ADDR(test_nest), 2, &count, NULL, NULL) < 0 ||
        tracer_break_set(tracer, target, ADDR(test_insns[0].fn), 3, &count, NULL, NULL) < 0 ||
        tracer_stop(tracer, &tid, 1, NULL) < 0)
        _exit(1);
    shared->values[0] = (uint64_t)tracer_pid(tracer);
    tracer_continue(tracer, &tid, 1, NULL);
    shared->go = 1;
    for (unsigned n = 0;; n++) {
        struct tracer_event event;
        if (!poll_event(&event, 100))
            continue;
        if (n % 32 == 1) { /* one thread at a time is stopped, or steps */
            tracer_continue(tracer, &tid, 1, NULL);
            tracer_step(tracer, tid, TRACER_STEP_NONE);
            tid = event.tid;
            if (n % 64 == 1)
                tracer_stop(tracer, &tid, 1, NULL);
            else
                tracer_step(tracer, tid, n % 128 == 33 ? TRACER_STEP_INTO : TRACER_STEP_OVER);
        }
        tracer_release_hold(tracer, event.hold);
        shared->values[1] = n;
    }
}

static bool has_ended(pid_t pid)
{
    return kill(pid, 0) < 0 || state_of(pid) == 'Z';
}

/* Its death comes at any time after the end of the connection, from which on the tracer ends by itself. */
static void dead_monitors_leave_no_idle_tracer(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        memset((void *)shared, 0, sizeof *shared);
        pid_t monitor = fork();
        if (monitor == 0) {
            tracer_begin();
            shared->values[0] = (uint64_t)tracer_pid(tracer);
            shutdown(tracer_fd(tracer), SHUT_RDWR);
            usleep((useconds_t)i * 100);
            raise(SIGKILL);
        }
        assert_true(WIFSIGNALED(target_wait(monitor)));
        WAIT_FOR(has_ended((pid_t)shared->values[0]));
    }
}

static void dead_monitors_leave_nothing_behind(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        memset((void *)shared, 0, sizeof *shared);
        pid_t target = target_start(rounds);
        pid_t monitor = fork();
        if (monitor == 0)
            be_monitor(target);
        WAIT_FOR(shared->values[1] > (uint64_t)i * 7);
        target_kill(monitor);
        int status = target_wait(target);
        if (status != 0)
            fail_msg("round %d: status 0x%x", i, status);
        for (int n = 0; n < RUNNERS; n++)
            assert_int_equal(shared->counters[n], 3 * ROUNDS);
        WAIT_FOR(has_ended((pid_t)shared->values[0]));
    }
}

static void a_dead_tracer_is_repaired(void **state)
{
    (void)state;
    pid_t pid = target_start(wait_for_go);
    tracer_begin();
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, NULL), 0);
    kill(tracer_pid(tracer), SIGKILL);
    WAIT_FOR(tracer_dispatch(tracer) == -EPIPE);
    assert_int_not_equal(byte_at(pid, ADDR(test_hot)), 0xcc);
    struct err err = {0};
    assert_int_equal(tracer_seize(tracer, pid, &err), -EPIPE);
    shared->go = 1;
    assert_int_equal(target_wait(pid), 0);
}

/* ---- starting ---- */

static void programs_are_started(void **state)
{
    (void)state;
    tracer_begin();
    struct err err = {0};
    pid_t pid;
    char path[] = "/tmp/test_tracer_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char *argv[] = {"sh", "-c", "echo $WORD; echo error >&2; cat; ls /proc/self/fd | wc -l; kill -l", NULL};
    const char *envp[] = {"WORD=hello", "PATH=/usr/bin:/bin", NULL};
    struct tracer_spawn spawn = {.path = "/bin/sh", .argv = argv, .envp = envp, .io = {"/dev/null", path, path}};
    if (tracer_spawn(tracer, &spawn, &pid, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(state_of(pid), 't');
    assert_int_equal(status_field(pid, "\nTracerPid:"), tracer_pid(tracer));
    struct user_regs_struct regs;
    assert_int_equal(tracer_get_regs(tracer, pid, &regs), 0);
    assert_int_equal(tracer_continue(tracer, &pid, 1, NULL), 0);
    assert_int_equal(next_event(TRACER_GONE, 0).pid, pid);
    char *text;
    size_t len;
    assert_int_equal(file_read(path, &text, &len), 0);
    assert_int_equal(strncmp(text, "hello\nerror\n4\n", 14), 0); /* 0, 1, 2 and the directory of ls */
    free(text);
    close(fd);
    unlink(path);
    spawn.path = "/nonexistent/program";
    assert_int_equal(tracer_spawn(tracer, &spawn, &pid, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/program cannot be executed"));
    spawn.path = "/bin/sh";
    spawn.io[0] = "/nonexistent/file";
    assert_int_equal(tracer_spawn(tracer, &spawn, &pid, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/file"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)
        TEST(forked_children_are_clean),          TEST(children_are_reported_and_can_be_kept),
        TEST(vfork_shares_breakpoints),           TEST(exec_replaces_everything),
        TEST(signals_are_reported_and_delivered), TEST(arithmetic_errors_say_what_is_wrong),
        TEST(system_calls_are_reported),          TEST(killed_targets_are_gone),
        TEST(dead_monitors_leave_nothing_behind), TEST(dead_monitors_leave_no_idle_tracer),
        TEST(a_dead_tracer_is_repaired),          TEST(programs_are_started),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("tracer_processes", tests, NULL, NULL);
}
