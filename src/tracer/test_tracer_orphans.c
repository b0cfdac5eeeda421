/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is killed inside fork tells of no child, and that must go on all the same. While the tracer is stopped, the maker
 * comes to its stop for the fork and is killed there, so that the tracer finds the same as if that had been sooner.
 */
#include "tracer/test_support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/file.h"
#include "base/system/test_rounds.h"
#include "base/system/wait_world.h"
#include "tracer/test_insns.h"

enum { CHILD_STATUS = 7, PROGRAM_STATUS = 3 };

/* ---- what the makers do ---- */

/* The child comes to where its maker has a breakpoint. */
static void be_child(void)
{
    for (int n = 0; n < 100; n++)
        if (test_hot(n) != n + 1)
            _exit(1);
    shared->counters[0]++;
}

static void exit_child(void)
{
    be_child();
    _exit(CHILD_STATUS);
}

static void execute_child(void)
{
    be_child();
    execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
    _exit(1);
}

static void make_and_wait(void)
{
    shared->tids[0] = gettid();
    target_ready();
    if (fork() == 0)
        exit_child();
    for (;;)
        pause();
}

static void make_what_executes(void)
{
    shared->tids[0] = gettid();
    target_ready();
    if (fork() == 0)
        execute_child();
}

static void make_by_vfork(void)
{
    shared->tids[0] = gettid();
    target_ready();
    if (vfork() == 0)
        execute_child();
}

static void make_sibling(void)
{
    shared->tids[0] = gettid();
    target_ready();
    if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) == 0)
        exit_child();
}

static void make_sharing_sibling(void)
{
    shared->tids[0] = gettid();
    target_ready();
    if (syscall(SYS_clone, CLONE_PARENT | CLONE_VM | CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL) == 0)
        execute_child();
}

static void be_called(void)
{
    shared->tids[0] = gettid();
    target_ready();
    _exit(CHILD_STATUS);
}

/* The child returns from it to where the thread was when the tracer called this. */
static void make_in_call(void)
{
    while (!shared->go)
        usleep(200);
    if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) == 0)
        be_child();
}

static void *make_in_thread(void *unused)
{
    make_and_wait();
    return unused;
}

/* Another thread executes a program, and so ends the one that forks. */
static void make_and_execute(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, make_in_thread, NULL);
    while (!shared->stop)
        usleep(200);
    execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
    _exit(1);
}

/* ---- the scene ---- */

/* The last that the thread has. */
static pid_t child_of(pid_t tid)
{
    char path[64], *text;
    size_t len;
    pid_t child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", tid, tid);
    if (file_read(path, &text, &len) < 0)
        return 0;
    for (char *at = text, *end; *at; at = end) {
        pid_t next = (pid_t)strtol(at, &end, 10);
        if (end == at || !next)
            break;
        child = next;
    }
    free(text);
    return child;
}

static pid_t begin(target_fn *fn, bool new_process)
{
    memset((void *)shared, 0, sizeof *shared);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t pid = target_start(fn);
    tracer_begin();
    struct tracer_watch watch = {.new_process = new_process};
    assert_int_equal(tracer_seize(tracer, pid, NULL), 0);
    assert_int_equal(tracer_watch(tracer, pid, &watch), 0);
    assert_int_equal(tracer_break_set(tracer, pid, ADDR(test_hot), 1, NULL, NULL, NULL), 0);
    return pid;
}

/* With the guard, which would continue it. */
static void stop_tracer(void)
{
    pid_t guard = 0;
    WAIT_FOR((guard = child_of(tracer_pid(tracer))) > 0);
    kill(guard, SIGSTOP);
    kill(tracer_pid(tracer), SIGSTOP);
    WAIT_FOR(wait_look(guard).state == 'T' && wait_look(tracer_pid(tracer)).state == 'T');
}

static void continue_tracer(void)
{
    kill(child_of(tracer_pid(tracer)), SIGCONT);
    kill(tracer_pid(tracer), SIGCONT);
}

/* The maker and its child are in their stops, of which the tracer does not know. Returns the child, whose parent is
 * `parent`, or, if that is 0, who makes it. */
static pid_t make_untold(pid_t parent)
{
    pid_t before = parent ? child_of(parent) : 0, child = 0;
    stop_tracer();
    shared->go = 1;
    WAIT_FOR((child = child_of(parent ? parent : shared->tids[0])) > 0 && child != before);
    WAIT_FOR(state_of(child) == 't' && state_of(shared->tids[0]) == 't');
    return child;
}

static void end(pid_t child)
{
    assert_int_equal(target_wait(child), CHILD_STATUS << 8);
    assert_int_equal(shared->counters[0], 1);
    tracer_stop_all(tracer);
    tracer = NULL;
}

/* ---- tests ---- */

static void kill_the_maker_of(target_fn *fn, bool of_parent)
{
    pid_t pid = begin(fn, false);
    if (fn == be_called)
        assert_int_equal(tracer_call(tracer, pid, ADDR(make_in_call), NULL, NULL), 0);
    pid_t child = make_untold(of_parent ? getpid() : 0);
    kill(pid, SIGKILL);
    continue_tracer();
    assert_int_equal(target_wait(pid), SIGKILL);
    end(child);
}

static void orphans_go_on(void **state)
{
    (void)state;
    kill_the_maker_of(make_and_wait, false);
    kill_the_maker_of(make_what_executes, false);
    kill_the_maker_of(make_by_vfork, false);
}

/* Their parent is the maker's. */
static void orphaned_siblings_go_on(void **state)
{
    (void)state;
    kill_the_maker_of(make_sibling, true);
    kill_the_maker_of(make_sharing_sibling, true);
    kill_the_maker_of(be_called, true);
}

static void orphans_are_reported(void **state)
{
    (void)state;
    pid_t pid = begin(make_and_wait, true);
    pid_t child = make_untold(0);
    kill(pid, SIGKILL);
    continue_tracer();
    struct tracer_event event = next_event(TRACER_NEW_PROCESS, 0);
    assert_int_equal(event.pid, pid);
    assert_int_equal(event.child, child);
    assert_int_equal(state_of(child), 't');
    assert_int_not_equal(byte_at(child, ADDR(test_hot)), 0xcc);
    assert_int_equal(tracer_seize(tracer, child, NULL), 0);
    tracer_release_hold(tracer, event.hold);
    assert_int_equal(target_wait(pid), SIGKILL);
    pid_t first = next_event(TRACER_GONE, 0).pid, second = next_event(TRACER_GONE, 0).pid;
    assert_true((first == pid && second == child) || (first == child && second == pid));
    end(child);
}

/* Whoever stops a child of which nobody knows yet finds it stopped. */
static void a_stopped_orphan_stays_stopped(void **state)
{
    (void)state;
    int status;
    pid_t pid = begin(make_and_wait, false);
    pid_t child = make_untold(0);
    kill(child, SIGSTOP);
    kill(pid, SIGKILL);
    continue_tracer();
    assert_int_equal(target_wait(pid), SIGKILL);
    WAIT_FOR(waitpid(child, &status, WUNTRACED | WNOHANG) == child);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    assert_int_equal(state_of(child), 'T');
    kill(child, SIGCONT);
    end(child);
}

/* Killed when the tracer knows that there was a fork, and not yet of whom. */
static void a_maker_that_cannot_be_asked(void **state)
{
#ifdef SCRY_PAUSES
    (void)state;
    char folder[] = "/tmp/scry-test-orphans-XXXXXX", path[64], here[80];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tracer.forked", folder);
    snprintf(here, sizeof here, "%s.here", path);
    setenv("SCRY_TEST_PAUSES", folder, 1);
    pid_t pid = begin(make_and_wait, true), child = 0;
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    shared->go = 1;
    WAIT_FOR(access(here, F_OK) == 0);
    WAIT_FOR((child = child_of(pid)) > 0 && state_of(child) == 't');
    kill(pid, SIGKILL);
    unlink(path);
    struct tracer_event event = next_event(TRACER_NEW_PROCESS, 0);
    assert_int_equal(event.child, child);
    tracer_release_hold(tracer, event.hold);
    assert_int_equal(target_wait(pid), SIGKILL);
    end(child);
    unsetenv("SCRY_TEST_PAUSES");
    unlink(here);
    rmdir(folder);
#else
    (void)state;
    printf("SKIP: it needs -Dpauses=true\n");
    skip();
#endif
}

static void a_thread_that_another_one_ends(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        pid_t pid = begin(make_and_execute, false);
        pid_t child = make_untold(0);
        shared->stop = 1;
        WAIT_FOR(state_of(pid) == 'D'); /* it waits until it is alone */
        if (killed) {                   /* and the thread comes to no other stop that the tracer sees */
            WAIT_FOR(state_of(shared->tids[0]) == 't');
            kill(pid, SIGKILL);
            WAIT_FOR(state_of(pid) == 't');
        }
        continue_tracer();
        if (!killed)
            tracer_release_hold(tracer, next_event(TRACER_EXEC, 0).hold);
        assert_int_equal(target_wait(pid), killed ? SIGKILL : PROGRAM_STATUS << 8);
        end(child);
    }
}

/* It may be a zombie when its maker tells of it, and no other status of it come. */
static void a_child_that_is_killed_first(void **state)
{
    (void)state;
    for (int i = 0; i < (int)test_rounds(3, 200); i++) {
        pid_t pid = begin(make_and_wait, false);
        pid_t child = make_untold(0);
        kill(child, SIGKILL);
        continue_tracer();
        WAIT_FOR(state_of(child) == 'Z' && state_of(pid) == 'S');
        target_kill(pid);
        assert_int_equal(target_wait(child), SIGKILL);
        tracer_stop_all(tracer);
        tracer = NULL;
    }
}

/* The tracer goes before it has found out that nobody will tell of the child. */
static void orphans_are_clean_when_the_tracer_ends(void **state)
{
    (void)state;
    pid_t pid = begin(make_sibling, false);
    pid_t child = make_untold(getpid());
    kill(pid, SIGKILL);
    continue_tracer();
    assert_int_equal(target_wait(pid), SIGKILL);
    tracer_stop_all(tracer);
    tracer = NULL;
    end(child);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)
        TEST(orphans_go_on),
        TEST(orphaned_siblings_go_on),
        TEST(orphans_are_reported),
        TEST(a_stopped_orphan_stays_stopped),
        TEST(a_maker_that_cannot_be_asked),
        TEST(a_thread_that_another_one_ends),
        TEST(a_child_that_is_killed_first),
        TEST(orphans_are_clean_when_the_tracer_ends),
    };
    setenv("SCRY_TEST_HASTE", "5", 1);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("tracer_orphans", tests, NULL, NULL);
}
