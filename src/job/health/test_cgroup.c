/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/test_tree.h"

#include "job/health/cgroup.h"
#include "job/health/node.h"

#define V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

static struct cgroup_state read_group(struct tree *tree, struct cgroup *ret_group)
{
    struct cgroup_state state;
    cgroup_find(tree->root, 7, ret_group);
    cgroup_read(tree->root, ret_group, &state);
    return state;
}

/* The limit of the group above is nearer. */
static void test_version_2(void **unused)
{
    struct tree tree;
    struct cgroup group;
    tree_init(&tree);
    tree_write(&tree, "/proc/7/cgroup", "0::/slurm/job_1/step_0\n");
    tree_write(&tree, "/proc/self/mountinfo", "22 28 0:20 / /proc rw - proc proc rw\n" V2);
    tree_write(&tree, "/sys/fs/cgroup/memory.max", "5000\n");
    tree_write(&tree, "/sys/fs/cgroup/memory.current", "0\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/memory.max", "1200\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/memory.high", "1000\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/memory.current", "990\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/memory.peak", "995\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/memory.stat",
               "anon 500\ninactive_file 300\nactive_file 100\nslab_reclaimable 40\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/pids.max", "100\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/pids.current", "95\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/cpu.max", "150000 100000\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/cpu.stat", "usage_usec 1\nnr_periods 20\nnr_throttled 5\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/step_0/memory.max", "max\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/step_0/memory.current", "800\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/step_0/memory.events",
               "low 0\noom 1\noom_kill 2\noom_group_kill 0\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/step_0/cpu.max", "max 100000\n");
    tree_write(&tree, "/sys/fs/cgroup/slurm/job_1/step_0/pids.max", "max\n");
    struct cgroup_state state = read_group(&tree, &group);
    assert_string_equal(group.name, "/slurm/job_1/step_0");
    assert_int_equal(group.at[CGROUP_MEMORY].version, 2);
    assert_int_equal(state.memory_limit, 1000);
    assert_int_equal(state.memory, 990);
    assert_int_equal(state.memory_peak, 995);
    assert_int_equal(state.memory_needed, 550);
    assert_int_equal(state.tasks, 95);
    assert_int_equal(state.tasks_limit, 100);
    assert_int_equal(state.oom_kills, 2);
    assert_float_equal(state.cpus_limit, 1.5, 1e-9);
    assert_int_equal(state.periods, 20);
    assert_int_equal(state.throttled_periods, 5);
    struct cgroup_before before;
    cgroup_enter(&before, NULL, &state);
    json_t *record = cgroup_json(&group, &state, &before, 0.25);
    assert_int_equal(json_integer_value(json_object_get(record, "memory_limit_bytes")), 1000);
    json_decref(record);
    tree_done(&tree);
}

/* Of version 1, in a container: the path is the host's, and what is mounted is the group. */
static void test_version_1(void **unused)
{
    struct tree tree;
    struct cgroup group;
    tree_init(&tree);
    tree_write(&tree, "/proc/7/cgroup", "5:cpu,cpuacct:/docker/a:b\n4:memory:/docker/a:b\n3:pids:/x\n0::/\n");
    tree_write(&tree, "/proc/self/mountinfo",
               "40 39 0:30 /docker/a:b /sys/fs/cgroup/me\\040mory ro - cgroup cgroup rw,memory\n"
               "41 39 0:31 /docker/a:b /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
               "42 39 0:32 /y /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n");
    tree_write(&tree, "/sys/fs/cgroup/me mory/memory.limit_in_bytes", "1000\n");
    tree_write(&tree, "/sys/fs/cgroup/me mory/memory.usage_in_bytes", "900\n");
    tree_write(&tree, "/sys/fs/cgroup/me mory/memory.stat",
               "inactive_file 900\ntotal_inactive_file 100\ntotal_active_file 50\n");
    tree_write(&tree, "/sys/fs/cgroup/me mory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
    tree_write(&tree, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    tree_write(&tree, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    tree_write(&tree, "/sys/fs/cgroup/pids/pids.max", "max\n");
    tree_write(&tree, "/sys/fs/cgroup/pids/pids.current", "3\n");
    struct cgroup_state state = read_group(&tree, &group);
    assert_int_equal(group.at[CGROUP_MEMORY].version, 1);
    assert_int_equal(state.memory_limit, 1000);
    assert_int_equal(state.memory_needed, 750);
    assert_int_equal(state.oom_kills, 4);
    assert_int_equal(state.tasks, 3);
    assert_int_equal(state.tasks_limit, -1);
    assert_float_equal(state.cpus_limit, -1, 1e-9);
    struct oom_counts counts;
    oom_count(tree.root, 7, &counts);
    assert_int_equal(counts.group, 4);
    assert_int_equal(counts.node, -1);
    tree_done(&tree);
}

/* Nothing is read outside of the mounts, nothing is endless, and what makes no sense is unknown. */
static void test_damaged(void **unused)
{
    static const char *const groups[] = {"",
                                         "\n\n",
                                         "0",
                                         "0:",
                                         "0::",
                                         "0::x\n",
                                         "::::\n",
                                         "0::/../../..\n",
                                         "0::/a/../../b\n",
                                         "4:memory\n4:memory:\n,:,:/\n",
                                         "4:,,memory,,:/\n",
                                         "0::/\xff\xfe\n"};
    static const char *const mounts[] = {"",
                                         V2,
                                         "30 23 0:26 / ",
                                         "- cgroup2",
                                         "30 23 0:26 / / rw - cgroup2 c rw\n",
                                         "30 23 0:26 /\\04 \\1\\\\777 rw - cgroup2 c\n",
                                         "a b c d e f g h i j k\n - - - -\n",
                                         "30 23 0:26 / /sys/fs/cgroup rw - cgroup c rw,memory,\n"};
    static const char *const numbers[] = {"",        "x",   "-1",  "max", "99999999999999999999999",
                                          "max max", "0 0", "1 0", "5 -5"};
    struct tree tree;
    tree_init(&tree);
    for (size_t number = 0; number < sizeof numbers / sizeof *numbers; number++)
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
            for (size_t k = 0; k < sizeof mounts / sizeof *mounts; k++) {
                static const char *const files[] = {
                    "memory.max", "memory.current", "memory.stat",           "pids.max",
                    "cpu.max",    "cpu.stat",       "memory.limit_in_bytes", "memory.usage_in_bytes"};
                for (size_t file = 0; file < sizeof files / sizeof *files && !i && !k; file++) {
                    char path[64];
                    snprintf(path, sizeof path, "/sys/fs/cgroup/%s", files[file]);
                    tree_write(&tree, path, numbers[number]);
                }
                tree_write(&tree, "/proc/7/cgroup", groups[i]);
                tree_write(&tree, "/proc/self/mountinfo", mounts[k]);
                struct cgroup group;
                struct cgroup_state state = read_group(&tree, &group);
                assert_null(strstr(group.at[CGROUP_MEMORY].folder, ".."));
                assert_true(state.memory >= -1 && state.memory_needed >= -1 && state.memory_limit >= -1);
                assert_true(state.cpus_limit == -1 || state.cpus_limit > 0);
                struct cgroup_before before;
                cgroup_enter(&before, NULL, &state);
                json_decref(cgroup_json(&group, &state, &before, -1));
            }
    tree_done(&tree);
}

static void expect_own(const struct cgroup_state *state, const struct cgroup_before *before, int kills, int peak)
{
    struct cgroup group = {.at[CGROUP_MEMORY].version = 2};
    json_t *record = cgroup_json(&group, state, before, -1);
    assert_int_equal(json_integer_value(json_object_get(record, "job_oom_kills")), kills);
    assert_int_equal(json_integer_value(json_object_get(record, "job_memory_peak_bytes")), peak);
    json_decref(record);
}

/* What the group has counted before the job came is not the job's; what it had in another group is. */
static void test_older_than_the_job(void **unused)
{
    struct cgroup_state state = {.memory = 1, .oom_kills = 7, .memory_peak = 500}, last;
    struct cgroup_before before;
    cgroup_enter(&before, NULL, &state);
    expect_own(&state, &before, 0, 0);
    state.oom_kills = 9;
    state.memory_peak = 600;
    expect_own(&state, &before, 2, 600);
    last = state;
    state = (struct cgroup_state){.memory = 1, .oom_kills = 40, .memory_peak = 9000};
    cgroup_enter(&before, &last, &state);
    expect_own(&state, &before, 2, 0);
    state.oom_kills = 41;
    expect_own(&state, &before, 3, 0);
    state.oom_kills = state.memory_peak = -1;
    cgroup_enter(&before, NULL, &state);
    expect_own(&state, &before, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_version_2), cmocka_unit_test(test_version_1),
                                       cmocka_unit_test(test_older_than_the_job), cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
