/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/test_tree.h"

#include "job/health/processes.h"
#include "shm/waits.h"

#define MB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)

static void test_when(void **unused)
{
    struct memory memory = {0};
    (void)unused;
    assert_false(memory_is_due(&memory, SECOND, 20000 * MB, 20000 * MB)); /* one process shares nothing in its job */
    assert_false(memory_is_due(&memory, SECOND, 20500 * MB, 20000 * MB)); /* little */
    assert_false(memory_is_due(&memory, SECOND, 20 * MB, 10 * MB));       /* small */
    assert_true(memory_is_due(&memory, SECOND, 2100 * MB, 300 * MB));
    memory.read_ns = SECOND;
    memory.peak_rss = 2100 * MB;
    assert_false(memory_is_due(&memory, 2 * SECOND, 2200 * MB, 300 * MB));
    assert_true(memory_is_due(&memory, 2 * SECOND, 2400 * MB, 300 * MB)); /* a peak */
    assert_true(memory_is_due(&memory, 11 * SECOND, 400 * MB, 300 * MB));
}

/* After some credit, one part of a thousand of the time. */
static void test_costs(void **unused)
{
    struct memory memory = {0};
    uint64_t now = 10000 * SECOND, spent = 0;
    (void)unused;
    for (uint64_t end = now + 1000 * SECOND; now < end; now += SECOND / 4)
        if (memory_is_due(&memory, now, 2100 * MB, 300 * MB)) {
            memory_pay(&memory, now, 40 * SECOND / 1000, 2100 * MB);
            memory.read_ns = now;
            memory.peak_rss = 2100 * MB;
            spent += 40 * SECOND / 1000;
        }
    assert_in_range(spent, SECOND * 9 / 10, SECOND + MEMORY_CREDIT_NS + 40 * SECOND / 1000);
}

static const char stat_form[] =
    "%d (worker) S 1 1 1 0 -1 0 0 0 0 0 7 0 0 0 20 0 1 0 5 1000000000 %ld 18446744073709551615 0 0 0 0 0 0 0 0 0 "
    "0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

static void put_process(struct tree *tree, struct processes *processes, int pid, long rss_mb, long pss_mb)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    snprintf(text, sizeof text, stat_form, pid, rss_mb * (long)MB / sysconf(_SC_PAGESIZE));
    tree_write(tree, path, text);
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    snprintf(text, sizeof text, "5601-7ffd ---p 00000000 00:00 0     [rollup]\nRss: %ld kB\nPss: %ld kB\n",
             rss_mb * 1024, pss_mb * 1024);
    if (pss_mb >= 0)
        tree_write(tree, path, text);
    else
        tree_write(tree, path, "");
    processes_add(processes, pid, 1, "worker");
}

static struct memory_record measure(struct memory *memory, struct processes *processes, const struct look *look)
{
    struct memory_record record = {0};
    processes_look(processes, look);
    assert_false(memory_look(memory, processes, look, 0, &record)); /* it begins */
    assert_non_null(memory->ask);
    assert_true(memory_look(memory, processes, look, 10000, &record));
    assert_null(memory->ask);
    return record;
}

enum { PID = 999999900 };

/* Six workers that share 800 MB, and one that may not be read. */
static void test_shared(void **unused)
{
    struct tree tree;
    struct memory memory = {0};
    struct processes processes = {0};
    (void)unused;
    tree_init(&tree);
    for (int i = 0; i < 6; i++)
        put_process(&tree, &processes, PID + i, 840, 800 / 6 + 5);
    struct memory_record record = measure(&memory, &processes, &tree.look);
    assert_int_equal(record.rss, 6 * 840 * MB);
    assert_int_equal(record.pss, 6 * 138 * MB);
    assert_int_equal(record.processes, 6);
    assert_int_equal(record.unread, 0);
    put_process(&tree, &processes, PID + 6, 1000, -1);
    record = measure(&memory, &processes, &tree.look);
    assert_int_equal(record.pss, (6 * 138 + 1000) * MB);
    assert_int_equal(record.processes, 7);
    assert_int_equal(record.unread, 1);
    processes_done(&processes);
    tree_done(&tree);
}

/* Of one that is so large that it would take long, the resident size counts. */
static void test_large(void **unused)
{
    struct tree tree;
    struct memory memory = {0};
    struct processes processes = {0};
    (void)unused;
    tree_init(&tree);
    put_process(&tree, &processes, PID, 20000, 10);
    put_process(&tree, &processes, PID + 1, 2000, 100);
    struct memory_record record = measure(&memory, &processes, &tree.look);
    assert_int_equal(record.pss, 20100 * MB);
    assert_int_equal(record.unread, 1);
    processes_done(&processes);
    tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_when), cmocka_unit_test(test_costs),
                                       cmocka_unit_test(test_shared), cmocka_unit_test(test_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
