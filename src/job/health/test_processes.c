/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/test_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "job/health/processes.h"

static const char stat_form[] =
    "%d (a) b) %c 1 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 5 1000 10 18446744073709551615 0 0 0 0 0 0 0 0 0 "
    "0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
static const char waits_path[] = "/proc/999999999/schedstat";

static void put_process(struct tree *tree, int pid, char state, int ticks, int read, int written)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    snprintf(text, sizeof text, stat_form, pid, state, ticks);
    tree_write(tree, path, text);
    snprintf(path, sizeof path, "/proc/%d/io", pid);
    snprintf(text, sizeof text, "rchar: %d\nwchar: %d\nsyscr: 1\n", read, written);
    tree_write(tree, path, text);
    snprintf(path, sizeof path, "/proc/%d/fd/0", pid);
    tree_write(tree, path, "");
}

static void remove_process(struct tree *tree, int pid)
{
    char path[128];
    snprintf(path, sizeof path, "%s/proc/%d/stat", tree->root, pid);
    assert_int_equal(unlink(path), 0);
}

/* What they did is listed once, and adds up. */
static void test_listed(void **unused)
{
    enum { PID = 999999999 };
    struct tree tree;
    struct processes processes = {0};
    tree_init(&tree);
    put_process(&tree, PID, 'S', 100, 10, 20);
    tree_write(&tree, waits_path, "1000000000 3000000000 50\n"); /* before anybody looked */
    processes_add(&processes, PID, 1, "solver");
    processes_look(&processes, &tree.look);
    assert_int_equal(processes.motion.waited_ns, 0);
    json_t *list = processes_json(&processes), *expected = json_pack("[[i, i, i, i, n]]", PID, 10, 20, 1);
    assert_true(json_equal(list, expected));
    json_decref(list);
    json_decref(expected);
    assert_null(processes_json(&processes));
    put_process(&tree, PID, 'S', 150, 110, 20);
    tree_write(&tree, waits_path, "1500000000 3250000000 90\n");
    processes_look(&processes, &tree.look);
    assert_int_equal(processes.motion.waited_ns, NS_PER_SECOND / 4);
    assert_int_equal(processes.motion.spent_ns, NS_PER_SECOND / 2);
    assert_true(processes.motion.whole);
    list = processes_json(&processes);
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
    assert_int_equal(processes.motion.bytes, 100);
    assert_int_equal(processes.motion.cpu_ns, NS_PER_SECOND / 2);
    assert_string_equal(processes.motion.name, "solver");
    put_process(&tree, PID, 'T', 150, 110, 20);
    processes_look(&processes, &tree.look);
    assert_true(processes.motion.stopped);
    remove_process(&tree, PID); /* the monitor has not said so yet */
    processes_look(&processes, &tree.look);
    assert_null(processes.all);
    processes_ended(&processes, &tree.look, PID, 1, "a");
    processes_done(&processes);
    tree_done(&tree);
}

static void test_zombies(void **unused)
{
    enum { FIRST = 900000000, COUNT = 60 };
    struct tree tree;
    struct processes processes = {0};
    tree_init(&tree);
    put_process(&tree, 1, 'S', 0, 0, 0);
    for (int pid = FIRST; pid < FIRST + COUNT; pid++) {
        put_process(&tree, pid, 'Z', 0, 0, 0);
        if (pid % 2) /* the others ended at once */
            processes_add(&processes, pid, 1, "child");
        processes_ended(&processes, &tree.look, pid, 1, "child");
    }
    processes_look(&processes, &tree.look);
    tree_assert_said(&tree, "zombies: 60 processes have ended, and pid 1, a) b, does not ask for their exit status");
    for (int pid = FIRST; pid < FIRST + COUNT; pid++)
        remove_process(&tree, pid);
    tree_pass(&tree, 10);
    processes_look(&processes, &tree.look);
    assert_null(processes.all);
    assert_int_equal(processes.ended, 0);
    tree_assert_said(&tree, "");
    tree_done(&tree);
}

/* Of thousands some are looked at each time, and all of them in turn. */
static void test_thousands(void **unused)
{
    enum { FIRST = 900000000, COUNT = 3 * PROCESSES_AT_ONCE - 1 };
    struct tree tree;
    struct processes processes = {0};
    tree_init(&tree);
    for (int pid = FIRST; pid < FIRST + COUNT; pid++) {
        put_process(&tree, pid, 'S', 0, 0, 0);
        processes_add(&processes, pid, 1, "child");
    }
    for (int i = 0; i < 3; i++)
        processes_look(&processes, &tree.look);
    unsigned looks = 0;
    for (const struct process_health *process = processes.all; process; process = process->hh.next) {
        assert_in_range(process->looks, 1, 2);
        looks += process->looks;
    }
    assert_int_equal(looks, 3 * PROCESSES_AT_ONCE);
    processes_done(&processes);
    tree_done(&tree);
}

/* Comes near each of its limits, says so, and waits. */
static void live_dangerously(int ready)
{
    struct rlimit files = {20, 20}, cpu = {1, 1}, stack = {1 << 20, 1 << 20};
    volatile char deep[960 << 10];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "child");
    if (ready != 3)
        dup2(ready, 3);
    close_range(4, ~0U, 0);
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_STACK, &stack);
    for (size_t i = sizeof deep; i > 0; i--)
        deep[i - 1] = 1;
    while (open("/dev/null", O_RDONLY) >= 0)
        continue;
    _exit(write(3, "x", 1) == 1 ? pause() : deep[0]);
}

/* A real child: limits are the kernel's to say. */
static void test_limits(void **unused)
{
    struct tree tree;
    struct processes processes = {0};
    int ready[2];
    char byte;
    tree_init(&tree);
    tree.look.root = "";
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0)
        live_dangerously(ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    processes_add(&processes, pid, getpid(), ""); /* the command, whose name is not known from the start */
    processes_look(&processes, &tree.look);
    char expected[256];
    const char *of_cpu = tree.said.data ? strstr(tree.said.data, "may compute for ") : NULL;
    double left = of_cpu ? strtod(of_cpu + strlen("may compute for "), NULL) : 0; /* it has computed already */
    assert_true(left > 0.5 && left <= 1);
    snprintf(expected, sizeof expected,
             "open_files: pid %d, child, has 20 open files of at most 20 (ulimit -n)\n"
             "cpu_limit: pid %d, child, may compute for %g s more: its limit is 1 s (ulimit -t)\n",
             (int)pid, (int)pid, left);
    tree_assert_said(&tree, expected);
    processes_look(&processes, &tree.look);
    snprintf(expected, sizeof expected, "stack_limit: the stack of pid %d, child, has 9", (int)pid);
    tree_assert_said(&tree, expected);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    processes_ended(&processes, &tree.look, pid, 1, "a");
    assert_null(processes.all);
    close(ready[0]);
    tree_done(&tree);
}

/* As an ordinary user, whose processes are counted where all of the node come near the limit. */
static void test_user_tasks(void **unused)
{
    struct tree tree;
    struct processes processes = {0};
    int status;
    if (geteuid() != 0) {
        print_message("SKIP: only root can become a user that has no processes\n");
        skip();
    }
    tree_init(&tree);
    tree.look.root = "";
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit tasks = {1, 1};
        if (setrlimit(RLIMIT_NPROC, &tasks) < 0 || setresuid(64000, 64000, 64000) < 0)
            _exit(2);
        processes_add(&processes, getpid(), getppid(), "child");
        processes_look(&processes, &tree.look);
        _exit(strcmp(tree.said.data ? tree.said.data : "",
                     "user_tasks: this user has 1 processes and threads on this node, of at most 1 (ulimit -u)\n") !=
              0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_listed), cmocka_unit_test(test_zombies),
                                       cmocka_unit_test(test_thousands), cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_user_tasks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
