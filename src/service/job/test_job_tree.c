/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "service/job/follow.h"

static bool is_pid(const void *ctx, pid_t pid)
{
    return pid == *(const pid_t *)ctx;
}

static bool is_of_job(pid_t orphan, const struct job_tree_root *root)
{
    struct job_tree tree;
    bool ours = false;
    job_tree_read(&tree, "scry-agent");
    job_tree_mark(&tree, is_pid, &root->pid, root);
    for (size_t i = 0; i < tree.count; i++)
        ours |= tree.list[i].pid == orphan && tree.list[i].ours;
    job_tree_done(&tree);
    return ours;
}

/* Whoever its parent is now: the job is in its environment. */
static void test_orphans(void **state)
{
    struct proc_stat stat;
    pid_t root_pid = fork();
    if (root_pid == 0)
        for (;;)
            pause();
    char text[32] = "";
    FILE *file = popen("SCRY_JOB=/a/job sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'", "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_int_equal(pclose(file), 0);
    pid_t orphan = atoi(text);
    assert_int_equal(proc_stat_read(root_pid, 0, &stat), 0);
    struct job_tree_root root = {.pid = root_pid, .ticks = stat.start_ticks, .dir = "/a/job"};
    assert_true(is_of_job(orphan, &root));
    root.dir = "/a/jo";
    assert_false(is_of_job(orphan, &root));
    root.dir = NULL;
    assert_false(is_of_job(orphan, &root));
    root = (struct job_tree_root){.pid = root_pid, .ticks = stat.start_ticks + 1000000, .dir = "/a/job"};
    assert_false(is_of_job(orphan, &root)); /* it is older than the job */
    kill(orphan, SIGKILL);
    kill(root_pid, SIGKILL);
    waitpid(root_pid, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orphans),
    };
    return cmocka_run_group_tests_name("job_tree", tests, NULL, NULL);
}
