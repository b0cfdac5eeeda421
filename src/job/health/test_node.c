/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/test_tree.h"

#include "job/health/node.h"
#include "job/health/health.h"

static struct node_state take(struct tree *tree)
{
    struct node_state state;
    node_state_read(tree->root, tree->look.now_ns, &state);
    return state;
}

static void test_figures(void **unused)
{
    struct tree tree;
    tree_init(&tree);
    tree_write(&tree, "/proc/stat", "cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 1 2 3\n");
    tree_write(&tree, "/proc/loadavg", "1.50 1.0 0.5 2/300 4711\n");
    tree_write(&tree, "/proc/pressure/memory",
               "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n"
               "full avg10=0.00 avg60=0.00 avg300=0.00 total=500\n");
    tree_write(&tree, "/proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\nSwapTotal: 0 kB\n");
    tree_write(&tree, "/proc/vmstat", "pswpin 7\npswpout 8\noom_kill 2\n");
    tree_write(&tree, "/proc/diskstats",
               "   8       0 sda 10 0 100 5 20 0 200 5 0 0 0\n"
               "   8       1 sda1 10 0 100 5 20 0 200 5 0 0 0\n"
               " 253       0 dm-0 10 0 100 5 20 0 200 5 0 0 0\n");
    tree_write(&tree, "/sys/block/sda/device/x", "");
    tree_write(&tree, "/proc/net/dev",
               "Inter-|   Receive  |  Transmit\n face |bytes\n"
               "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
               "  eth0: 5000 10 1 0 0 0 0 0 7000 20 2 0 0 0 0 0\n");
    struct node_state from = take(&tree);
    assert_int_equal(from.memory_available, 400 * 1024);
    assert_int_equal(from.count[NODE_DISK_READ], 100 * 512);
    assert_int_equal(from.count[NODE_DISK_WRITTEN], 200 * 512);
    assert_int_equal(from.count[NODE_RECEIVED], 5000);
    assert_int_equal(from.count[NODE_NETWORK_ERRORS], 3);
    assert_int_equal(from.count[NODE_OOM_KILLS], 2);
    assert_int_equal(from.count[NODE_WAITED_IO], -1); /* an old kernel */
    tree_pass(&tree, 2);
    tree_write(&tree, "/proc/stat", "cpu  200 0 100 830 50 10 10 0 0 0\n");
    tree_write(&tree, "/proc/pressure/memory", "some total=1001000\nfull total=200500\n");
    struct node_state to = take(&tree);
    assert_float_equal(node_cpu_share(&from, &to, NODE_CPU_BUSY), 0.8, 1e-9);
    assert_float_equal(node_cpu_share(&from, &to, NODE_CPU_IOWAIT), 0.05, 1e-9);
    assert_float_equal(node_waited_share(&from, &to, NODE_WAITED_MEMORY), 0.5, 1e-9);
    assert_float_equal(node_waited_share(&from, &to, NODE_WAITED_MEMORY_FULL), 0.1, 1e-9);
    assert_float_equal(node_waited_share(&from, &to, NODE_WAITED_IO), -1, 1e-9);
    assert_float_equal(node_rate(&from, &to, NODE_RECEIVED), 0, 1e-9);
    assert_float_equal(node_rate(&to, &from, NODE_CPU_TOTAL), -1, 1e-9);
    tree_done(&tree);
}

/* Whatever stands in these files: figures are unknown, or no less than 0. */
static void test_damaged(void **unused)
{
    static const char *const files[] = {"/proc/stat",   "/proc/loadavg",   "/proc/pressure/memory", "/proc/meminfo",
                                        "/proc/vmstat", "/proc/diskstats", "/proc/net/dev"};
    static const char *const texts[] = {
        "",
        "\n",
        "cpu",
        "cpu ",
        "cpu  99999999999999999999999999 18446744073709551615 18446744073709551615 18446744073709551615\n",
        "cpu -1 -1 -1 -1 -1\n",
        "some total=\nfull total=-5\n",
        "some total=99999999999999999999999\nfull",
        "MemTotal:",
        "MemTotal: 99999999999999999999 kB\nMemAvailable: -4 kB\n",
        "oom_kill -1\npswpin x\n",
        "nan nan nan",
        "1e400 inf",
        " 8 0 sda 18446744073709551615 0 18446744073709551615 5 20 0 18446744073709551615\n 8 0 sda 1 0 "
        "18446744073709551615 5 20 0 "
        "18446744073709551615\n",
        " 8 0 ../../etc 1 0 1 1 1 1 1 1\n",
        "eth0:\neth1: 1 2 3\n: 1 1 1 1 1 1 1 1 1 1 1 1\n:::\n",
        "\xff\xfe\x80\n\xff:\xff 1\n"};
    struct tree tree;
    tree_init(&tree);
    tree_write(&tree, "/sys/block/sda/device/x", "");
    for (size_t text = 0; text < sizeof texts / sizeof *texts; text++) {
        for (size_t file = 0; file < sizeof files / sizeof *files; file++)
            tree_write(&tree, files[file], texts[text]);
        struct node_state state = take(&tree);
        for (int i = 0; i < NODE_COUNTS; i++)
            assert_true(state.count[i] >= -1);
        assert_true(state.memory_total >= -1 && state.memory_available >= -1 && state.load >= -1 && state.load < 1e9);
        double share = node_cpu_share(&state, &state, NODE_CPU_BUSY);
        assert_true(share >= -1 && share <= 1);
    }
    tree_done(&tree);
}

/* Records come when something changed, or every 10 seconds; the busiest moment between them is kept. */
static void test_records(void **unused)
{
    struct node_state node = {.memory_total = 1000, .memory_available = 800, .load = -1};
    for (int i = 0; i < NODE_COUNTS; i++)
        node.count[i] = -1;
    struct cgroup_state group = {.memory = -1, .oom_kills = -1};
    struct health_window window;
    int64_t total = 0, busy = 0;
    int due_at = 0;
    node.time_ns = NS_PER_SECOND;
    node.count[NODE_CPU_TOTAL] = node.count[NODE_CPU_BUSY] = 0;
    window_begin(&window, &node, &group, 1);
    for (int second = 1; !due_at; second++) {
        node.time_ns += NS_PER_SECOND;
        node.count[NODE_CPU_TOTAL] = total += 100;
        node.count[NODE_CPU_BUSY] = busy += second == 4 ? 59 : 51; /* not so much more */
        node.memory_available = second == 5 ? 750 : 800;
        due_at = window_add(&window, &node, &group, 1) ? second : 0;
    }
    assert_int_equal(due_at, 10);
    struct health_record record = window_record(&window);
    assert_float_equal(record.load.cpu, 0.518, 1e-6);
    assert_float_equal(record.load.cpu_peak, 0.59, 1e-6);
    assert_int_equal(record.memory.available_least_bytes, 750);
    window_begin(&window, &node, &group, 1);
    node.time_ns += NS_PER_SECOND;
    node.memory_available = 500;
    assert_true(window_add(&window, &node, &group, 1));

    window_begin(&window, &node, &group, 1);
    node.time_ns += NS_PER_SECOND / 100;
    assert_false(window_add(&window, &node, &group, 0)); /* too soon, but not for the last record of a job */
    assert_true(window_rooms_moved(&window, &group, 0));
    assert_false(window_rooms_moved(&window, &group, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_figures), cmocka_unit_test(test_damaged),
                                       cmocka_unit_test(test_records)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
