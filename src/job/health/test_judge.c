/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/test_tree.h"

#include "job/health/filesystems.h"
#include "job/health/judge.h"

#define MB (INT64_C(1) << 20)

/* ---- how long it lasts ---- */

static void test_trend(void **unused)
{
    struct trend trend = {0};
    uint64_t now = NS_PER_SECOND;
    for (int i = 0; i < 4; i++, now += NS_PER_SECOND / 4)
        trend_add(&trend, now, 100 - i);
    assert_float_equal(trend_left_seconds(&trend), -1, 0); /* too early */
    for (int second = 0; second < 3600; second++, now += NS_PER_SECOND)
        trend_add(&trend, now, 10000 - 2 * second);
    double left = 10000 - 2 * 3599;
    assert_in_range((int)trend_left_seconds(&trend), (int)(left / 2) - 10, (int)(left / 2) + 10);
    assert_true(trend.points[trend.count - 1].time_ns - trend.points[0].time_ns <= UINT64_C(110) * NS_PER_SECOND);
    for (int second = 0; second < 600; second++, now += NS_PER_SECOND)
        trend_add(&trend, now, left);
    assert_float_equal(trend_left_seconds(&trend), -1, 0);
}

/* ---- file systems ---- */

/* Of memory: only if it does so all the time and evenly, by much, and has not just been freed. */
static void test_growth(void **unused)
{
    struct trend trend = {0};
    double seconds = 0;
    uint64_t now = NS_PER_SECOND;
    for (int second = 0; second < 60; second++, now += NS_PER_SECOND)
        trend_add(&trend, now, 1000);
    for (int second = 0; second < 60; second++, now += NS_PER_SECOND) {
        trend_add(&trend, now, 1000 + 50 * second);
        if (second < 10)
            assert_float_equal(trend_growth(&trend, &seconds), 0, 0); /* too early */
    }
    assert_float_equal(trend_growth(&trend, &seconds), 50, 5);
    assert_in_range((int)seconds, 40, 60); /* not since the start */
    trend_add(&trend, now, 900);
    assert_float_equal(trend_growth(&trend, &seconds), 0, 0);
    trend = (struct trend){0};
    for (int second = 0; second < 60; second++, now += NS_PER_SECOND)
        trend_add(&trend, now, 1000 + second); /* by little */
    assert_float_equal(trend_growth(&trend, &seconds), 0, 0);
    trend = (struct trend){0};
    for (int second = 0; second < 60; second++, now += NS_PER_SECOND)
        trend_add(&trend, now, 1000 + 50 * (second % 8)); /* up and down */
    assert_float_equal(trend_growth(&trend, &seconds), 0, 0);
}

static void test_disk_fills(void **unused)
{
    struct tree tree;
    struct filesystem disk = {.path = (char[]){"/scratch"},
                              .uses = "work",
                              .now = {.there = true, .total_bytes = 1000 * MB, .free_bytes = 900 * MB}};
    tree_init(&tree);
    /* 10 MB a second: a warning when less than half is free, and again at 2 % */
    for (; disk.now.free_bytes > 500 * MB; disk.now.free_bytes -= 10 * MB, tree_pass(&tree, 1))
        filesystem_judge(&disk, &tree.look);
    filesystem_judge(&disk, &tree.look);
    tree_assert_said(&tree, "");
    disk.now.free_bytes -= 10 * MB;
    tree_pass(&tree, 1);
    filesystem_judge(&disk, &tree.look);
    tree_assert_said(&tree,
                     "disk_filling: /scratch (work) is full in 49 s, if it goes on like this: 490 MB of 1000 MB");
    for (; disk.now.free_bytes > 260 * MB; disk.now.free_bytes -= 10 * MB, tree_pass(&tree, 1))
        filesystem_judge(&disk, &tree.look);
    tree_assert_said(&tree, ""); /* half of the time was not over yet */
    for (; disk.now.free_bytes > 230 * MB; disk.now.free_bytes -= 10 * MB, tree_pass(&tree, 1))
        filesystem_judge(&disk, &tree.look);
    tree_assert_said(&tree, "disk_filling");
    disk.now.free_bytes = 15 * MB;
    filesystem_judge(&disk, &tree.look);
    tree_assert_said(&tree, "disk_low: only 15 MB of 1000 MB are free in /scratch (work)\n");
    /* it goes on being full, then somebody cleans up, then it comes back */
    for (int i = 0; i < 200; i++, tree_pass(&tree, 1))
        filesystem_judge(&disk, &tree.look);
    tree_assert_said(&tree, "");
    disk.now.free_bytes = 990 * MB;
    filesystem_judge(&disk, &tree.look);
    disk.now.free_bytes = 15 * MB;
    tree_pass(&tree, 1);
    filesystem_judge(&disk, &tree.look);
    tree_assert_said(&tree, "disk_low");
    tree_done(&tree);
}

static void test_inodes(void **unused)
{
    struct tree tree;
    struct filesystem disk = {
        .path = (char[]){"/scratch"}, .uses = "work", .now = {.there = true, .inodes = 1000, .free_inodes = 10}};
    tree_init(&tree);
    filesystem_judge(&disk, &tree.look);
    tree_assert_said(&tree, "inodes_low: only 10 of 1000 files");
    disk.now.inodes = 0; /* btrfs has no limit */
    disk.now.free_inodes = 0;
    filesystem_judge(&disk, &tree.look);
    tree_assert_said(&tree, "");
    tree_done(&tree);
}

/* Until the answer is there; the one that answers first has its path in the row. */
static void add_and_wait(struct filesystems *all, const struct look *look, const char *path, const char *use)
{
    filesystems_add(all, path, use);
    while (all->count && !all->of[all->count - 1].known)
        filesystems_look(all, look);
}

/* Directories of the same file system are one row, with their uses. */
static void test_same_file_system(void **unused)
{
    struct tree tree;
    struct filesystems all = {0};
    tree_init(&tree);
    add_and_wait(&all, &tree.look, "/proc", "work");
    add_and_wait(&all, &tree.look, "/proc/self", "temporary");
    add_and_wait(&all, &tree.look, "/proc/1", "work");
    add_and_wait(&all, &tree.look, "/sys", "home");
    add_and_wait(&all, &tree.look, "relative", "home");
    add_and_wait(&all, &tree.look, "/no/such/place", "home");
    add_and_wait(&all, &tree.look, NULL, "home");
    assert_int_equal(all.count, 2);
    assert_string_equal(all.of[0].path, "/proc");
    assert_string_equal(all.of[0].uses, "work, temporary");
    filesystems_done(&all);
    tree_done(&tree);
}

static int answers[2]; /* a pipe: a byte is an answer */

static void answer_late(const void *path, void *ret_answer)
{
    char byte;
    *(struct ask_answer *)ret_answer = (struct ask_answer){
        .there = read(answers[0], &byte, 1) == 1, .elsewhere = true, .total_bytes = 1000 * MB, .free_bytes = 500 * MB};
}

/* Nobody waits for one that hangs, and it is warned of; with its answer all is well. */
static void test_silent(void **unused)
{
    struct tree tree;
    struct filesystems all = {.how = answer_late};
    tree_init(&tree);
    assert_int_equal(pipe(answers), 0);
    filesystems_add(&all, "/nfs", "home");
    for (int second = 0; second < 10; second++, tree_pass(&tree, 1))
        filesystems_look(&all, &tree.look);
    tree_assert_said(&tree, "");
    assert_null(filesystems_json(&all));
    filesystems_look(&all, &tree.look);
    tree_assert_said(&tree, "disk_silent: /nfs (home) has not answered for 10 s");
    assert_int_equal(write(answers[1], "x", 1), 1);
    while (!all.of[0].known)
        filesystems_look(&all, &tree.look);
    assert_int_equal(all.of[0].now.free_bytes, 500 * MB);
    tree_pass(&tree, 31);
    filesystems_look(&all, &tree.look); /* asked again, and dropped meanwhile */
    assert_non_null(all.of[0].ask);
    filesystems_done(&all);
    close(answers[1]);
    tree_assert_said(&tree, "");
    tree_done(&tree);
}

/* ---- memory, tasks, processors ---- */

static struct node_state node_with(int64_t available)
{
    struct node_state node = {.memory_total = 10000 * MB, .memory_available = available};
    for (int i = 0; i < NODE_COUNTS; i++)
        node.count[i] = 0;
    return node;
}

static struct cgroup_state no_group(void)
{
    return (struct cgroup_state){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
}

static void look_at(struct judge *judge, struct tree *tree, struct node_state *node, const struct cgroup_state *group)
{
    node->time_ns = tree->look.now_ns;
    judge_look(judge, &tree->look, node, group, &(struct process_motion){0});
}

static void test_memory(void **unused)
{
    struct tree tree;
    struct judge judge = {0};
    struct cgroup_state group = no_group();
    tree_init(&tree);
    for (int64_t available = 3000 * MB; available >= 1500 * MB; available -= 100 * MB, tree_pass(&tree, 1)) {
        struct node_state node = node_with(available);
        look_at(&judge, &tree, &node, &group);
    }
    tree_assert_said(&tree, "");
    struct node_state node = node_with(1400 * MB);
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree, "memory_filling: the node's memory is used up in 14 s");
    node = node_with(200 * MB);
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree, "memory_low: only 200 MB of the node's 10000 MB");
    /* all wait for it: over 10 s, at 12 % */
    node = node_with(5000 * MB);
    tree_pass(&tree, 20);
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree, "");
    node.count[NODE_WAITED_MEMORY_FULL] = 1200 * 1000;
    tree_pass(&tree, 10);
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree, "memory_pressure: the node lacks memory: for 12 % of the last 10 s");
    tree_done(&tree);
}

static void test_group(void **unused)
{
    struct tree tree;
    struct judge judge = {0};
    struct node_state node = node_with(-1);
    struct cgroup_state group = no_group();
    tree_init(&tree);
    group.memory_limit = 1000 * MB;
    group.memory = 990 * MB; /* nearly all of it files */
    group.memory_needed = 300 * MB;
    group.tasks_limit = 100;
    group.tasks = 89;
    group.periods = group.throttled_periods = 0;
    group.oom_kills = 5; /* before the job */
    group.cpus_limit = 2;
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree, "");
    group.memory_needed = 960 * MB;
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree, "group_memory_low: the job needs 960 MB of the 1000 MB");
    group.tasks = 90;
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree, "group_tasks: 90 of the 100 processes");
    node.count[NODE_OOM_KILLS] = 100; /* of others */
    group.oom_kills = 7;
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree,
                     "out_of_memory: out of memory: the kernel killed 2 processes of this job or its control group");
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree, "");
    group.periods = 100;
    group.throttled_periods = 40;
    tree_pass(&tree, 11);
    look_at(&judge, &tree, &node, &group);
    tree_assert_said(&tree,
                     "throttled: the job is kept from the processors in 40 % of the periods, because its control group "
                     "may use only 2.0");
    tree_done(&tree);
}

/* Some seconds of four processors that are all busy. The job has `own` of them, and lacks `lacks`. */
static void pass_seconds(struct judge *judge, struct tree *tree, struct node_state *node,
                         const struct cgroup_state *group, struct process_motion *motion, double own, double lacks,
                         unsigned seconds)
{
    long ticks = 4 * (long)seconds * sysconf(_SC_CLK_TCK);
    tree_pass(tree, seconds);
    node->time_ns = tree->look.now_ns;
    node->count[NODE_CPU_TOTAL] += ticks;
    node->count[NODE_CPU_BUSY] += ticks;
    motion->spent_ns += (uint64_t)(own * seconds * NS_PER_SECOND);
    motion->waited_ns += (uint64_t)(lacks * seconds * NS_PER_SECOND);
    judge_look(judge, &tree->look, node, group, motion);
}

/* Of as many as one window has. */
static void pass_busy(struct judge *judge, struct tree *tree, struct node_state *node, const struct cgroup_state *group,
                      struct process_motion *motion, double own, double lacks)
{
    pass_seconds(judge, tree, node, group, motion, own, lacks, 10);
}

static void test_taken(void **unused)
{
    struct tree tree;
    struct judge judge = {0};
    struct node_state node = node_with(5000 * MB);
    struct cgroup_state group = no_group();
    struct process_motion motion = {.whole = true};
    tree_init(&tree);
    node.time_ns = tree.look.now_ns;
    judge_look(&judge, &tree.look, &node, &group, &motion);
    pass_busy(&judge, &tree, &node, &group, &motion, 4, 12);     /* it has more threads than there are processors */
    pass_busy(&judge, &tree, &node, &group, &motion, 2, 0);      /* others do not disturb it, */
    pass_busy(&judge, &tree, &node, &group, &motion, 0.01, 0.1); /* and it needs none, */
    pass_busy(&judge, &tree, &node, &group, &motion, 0.003, 3);  /* or as good as none: it sleeps, and wakes up late */
    motion.lacking = 1;                                          /* bound to one processor, it waits for itself */
    pass_busy(&judge, &tree, &node, &group, &motion, 1, 3);
    motion.lacking = 0;
    motion.whole = false; /* not all of it was seen */
    pass_busy(&judge, &tree, &node, &group, &motion, 0.5, 1.5);
    motion.whole = true;
    group.periods = group.throttled_periods = 0;
    pass_busy(&judge, &tree, &node, &group, &motion, 2, 0);
    tree_assert_said(&tree, "");
    group.periods = group.throttled_periods = 100; /* it is its own limit */
    pass_busy(&judge, &tree, &node, &group, &motion, 0.5, 1.5);
    tree_assert_said(&tree, "throttled");
    pass_busy(&judge, &tree, &node, &group, &motion, 0.5, 1.5);
    tree_assert_said(
        &tree, "processors_taken: the node is shared: other processes use 3.5 of its 4 CPUs; in the last 10 s this "
               "job waited for a CPU 75 % of the time. Run it");
    pass_busy(&judge, &tree, &node, &group, &motion, 0.5, 1.5);
    tree_assert_said(&tree, "");
    pass_busy(&judge, &tree, &node, &group, &motion, 2, 0);
    motion.lacking = 2; /* bound to two, it has a half of one */
    pass_busy(&judge, &tree, &node, &group, &motion, 0.5, 1.5);
    tree_assert_said(&tree, "processors_taken");
    motion.lacking = 1;
    pass_busy(&judge, &tree, &node, &group, &motion, 1, 3);
    tree_assert_said(&tree, "");
    motion.lacking = 0; /* bound no more: others have three of four */
    pass_busy(&judge, &tree, &node, &group, &motion, 1, 3);
    tree_assert_said(&tree, "processors_taken");
    tree_done(&tree);
}

/* A job that ends before a window is full: three seconds are enough. */
static void test_taken_at_end(void **unused)
{
    static const struct {
        double own, lacks;
        unsigned seconds;
        const char *said;
    } rows[] = {
        {0.5, 1.5, 6, "processors_taken: the node is shared: other processes use 3.5 of its 4 CPUs; in the last 6 s"},
        {0.5, 1.5, 2, ""},
        {2, 0, 6, ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tree tree;
        struct judge judge = {0};
        struct node_state node = node_with(5000 * MB);
        struct cgroup_state group = no_group();
        struct process_motion motion = {.whole = true};
        tree_init(&tree);
        node.time_ns = tree.look.now_ns;
        judge_look(&judge, &tree.look, &node, &group, &motion);
        pass_seconds(&judge, &tree, &node, &group, &motion, rows[i].own, rows[i].lacks, rows[i].seconds);
        tree_assert_said(&tree, "");
        judge_end(&judge, &tree.look, &node, &group, &motion);
        assert_false(tree.said.data && strstr(tree.said.data, "Run it")); /* that is too short for advice */
        tree_assert_said(&tree, rows[i].said);
        tree_done(&tree);
    }
}

static void test_clocks(void **unused)
{
    struct tree tree;
    struct judge judge = {0};
    struct judge_clocks clocks = {.realtime_ns = INT64_C(1700000000) * NS_PER_SECOND, .boottime_ns = 0};
    tree_init(&tree);
    judge_clocks_look(&judge, &tree.look, &clocks);
    clocks.realtime_ns += NS_PER_SECOND / 2; /* slewing */
    judge_clocks_look(&judge, &tree.look, &clocks);
    tree_assert_said(&tree, "");
    clocks.realtime_ns -= INT64_C(3600) * NS_PER_SECOND;
    judge_clocks_look(&judge, &tree.look, &clocks);
    tree_assert_said(&tree, "clock_jumped: the node's clock was put back by 3600.0 s");
    clocks.realtime_ns += INT64_C(20) * NS_PER_SECOND; /* both went on while it slept */
    clocks.boottime_ns += INT64_C(20) * NS_PER_SECOND;
    judge_clocks_look(&judge, &tree.look, &clocks);
    tree_assert_said(&tree, "suspended: the node was suspended for 20.0 s\n");
    tree_done(&tree);
}

/* ---- nothing moves ---- */

static void test_stall(void **unused)
{
    struct tree tree;
    struct stall stall = {0};
    struct process_motion motion = {.cpu_ns = 5, .changes = 1, .pid = 12, .name = "solver"};
    tree_init(&tree);
    for (int second = 0; second < 60; second++, tree_pass(&tree, 1)) { /* it wakes up, and does nothing */
        motion.cpu_ns += 1000 * 1000;
        motion.stopped = second < 10;
        stall_look(&stall, &tree.look, &motion, 100, 51);
    }
    tree_assert_said(&tree, "");
    stall_look(&stall, &tree.look, &motion, 100, 51);
    tree_assert_said(
        &tree,
        "stands_still: idle for 51 s: no process of the job computed, read or wrote since solver (pid 12) began");
    tree_pass(&tree, 100);
    stall_look(&stall, &tree.look, &motion, 100, 50);
    tree_assert_said(&tree, "");
    stall_look(&stall, &tree.look, &motion, 101, 50); /* another line of output */
    tree_pass(&tree, 50);
    stall_look(&stall, &tree.look, &motion, 101, 0);
    tree_assert_said(&tree, "");
    stall_look(&stall, &tree.look, &motion, 101, 50);
    tree_assert_said(&tree, "stands_still");
    motion.cpu_ns += NS_PER_SECOND;
    stall_look(&stall, &tree.look, &motion, 101, 50);
    tree_pass(&tree, 49);
    stall_look(&stall, &tree.look, &motion, 101, 50);
    tree_assert_said(&tree, "");
    tree_pass(&tree, 1);
    stall.where = "writes to standard output, a pipe that can be read by less (pid 9), at step (solver.c:5)";
    stall_look(&stall, &tree.look, &motion, 101, 50);
    tree_assert_said(&tree, "stands_still: idle for 50 s: no process of the job computed, read or wrote since solver "
                            "(pid 12) computed; it writes to standard output, a pipe that can be read by less (pid 9), "
                            "at step (solver.c:5)");
    tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trend),
                                       cmocka_unit_test(test_growth),
                                       cmocka_unit_test(test_disk_fills),
                                       cmocka_unit_test(test_inodes),
                                       cmocka_unit_test(test_same_file_system),
                                       cmocka_unit_test(test_silent),
                                       cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_group),
                                       cmocka_unit_test(test_taken),
                                       cmocka_unit_test(test_taken_at_end),
                                       cmocka_unit_test(test_clocks),
                                       cmocka_unit_test(test_stall)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
