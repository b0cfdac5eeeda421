/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cli/snapshot/snapshot.h"

static struct stack_frame frame(const char *function, unsigned line)
{
    return (struct stack_frame){"native", function, "/src/a.c", "/opt/a", .line = line};
}

static void add(struct stack_tree *tree, uint32_t process, const struct stack_frame *frames, size_t count,
                uint32_t threads)
{
    stack_tree_add(
        tree,
        &(struct stack_seen){
            .processes = &process, .process_count = 1, .frames = frames, .frame_count = count, .threads = threads});
}

static void test_merge(void **state)
{
    struct stack_tree tree;
    const struct stack_frame receives[] = {frame("MPI_Recv", 0), frame("exchange", 22), frame("main", 40)};
    const struct stack_frame computes[] = {frame("compute", 31), frame("main", 40)};
    stack_tree_init(&tree);
    add(&tree, 3, computes, 2, 1);
    for (uint32_t i = 3; i-- > 0;)
        add(&tree, i, receives, 3, 1);
    add(&tree, 1, computes, 2, 12);
    assert_true(stack_tree_finish(&tree));
    const struct stack_node *top = tree.root->first;
    assert_ptr_equal(tree.root->last, top);
    assert_string_equal(top->frame.function, "main");
    assert_int_equal(top->member_count, 4);
    assert_int_equal(top->members[1].process, 1);
    assert_int_equal(top->members[1].threads, 13);
    assert_int_equal(top->threads, 16);
    assert_string_equal(top->first->frame.function, "exchange");
    assert_int_equal(top->first->member_count, 3);
    assert_string_equal(top->last->frame.function, "compute");
    assert_int_equal(top->last->members[0].process, 1);
    assert_int_equal(top->last->members[0].threads, 12);
    assert_int_equal(top->last->ended, 13);
    assert_int_equal(tree.node_count, 4);
    stack_tree_done(&tree);
}

/* Values of a variable stand together, by the first process; equal ones are one. */
static void test_values(void **state)
{
    struct stack_tree tree;
    struct stack_variable variables[3][2] = {{{"n", "int", "320"}, {"rank", "int", "0"}},
                                             {{"n", "int", "320"}, {"rank", "int", "7"}},
                                             {{"rank", "int", "7"}, {"late", "int", "1"}}};
    stack_tree_init(&tree);
    for (uint32_t i = 3; i-- > 0;) {
        struct stack_frame one = frame("solve", 3);
        one.variables = variables[i];
        one.variable_count = 2;
        add(&tree, i, &one, 1, i + 1);
    }
    assert_true(stack_tree_finish(&tree));
    static const struct {
        const char *name, *value;
        size_t members, threads;
    } wanted[] = {{"rank", "0", 1, 1}, {"rank", "7", 2, 5}, {"late", "1", 1, 3}, {"n", "320", 2, 3}};
    const struct stack_node *node = tree.root->first;
    assert_int_equal(tree.node_count, 1);
    assert_int_equal(node->value_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct stack_value *value = &node->values[i];
        assert_string_equal(value->variable->name, wanted[i].name);
        assert_string_equal(value->variable->value, wanted[i].value);
        assert_int_equal(value->member_count, wanted[i].members);
        assert_int_equal(value->threads, wanted[i].threads);
    }
    stack_tree_done(&tree);
}

static void test_line_and_file_part(void **state)
{
    struct stack_tree tree;
    struct stack_frame one = frame("f", 1), two = frame("f", 2), python = frame("f", 1);
    python.language = "python";
    stack_tree_init(&tree);
    add(&tree, 0, &one, 1, 1);
    add(&tree, 0, &two, 1, 1);
    add(&tree, 0, &python, 1, 1);
    add(&tree, 0, &one, 1, 1);
    add(&tree, 0, NULL, 0, 1); /* a thread without frames is in the root only */
    assert_true(stack_tree_finish(&tree));
    assert_int_equal(tree.node_count, 3);
    assert_int_equal(tree.root->threads, 5);
    assert_int_equal(tree.root->ended, 1);
    stack_tree_done(&tree);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* 10 000 stacks of 40 frames that part at 100 places. */
static void test_many(void **state)
{
    enum { STACKS = 10000, FRAMES = 40 };
    struct stack_tree tree;
    char names[FRAMES][16];
    double began = now();
    stack_tree_init(&tree);
    for (uint32_t i = 0; i < STACKS; i++) {
        struct stack_frame frames[FRAMES];
        for (int k = 0; k < FRAMES; k++) {
            snprintf(names[k], sizeof names[k], "f%d", k < 4 ? (int)(i % 100) * 10 + k : k);
            frames[k] = frame(names[k], (unsigned)k);
        }
        add(&tree, i, frames, FRAMES, 1);
    }
    assert_true(stack_tree_finish(&tree));
    assert_int_equal(tree.root->member_count, STACKS);
    assert_int_equal(tree.node_count, FRAMES - 4 + 400);
    print_message("# %d stacks: %.3f s\n", STACKS, now() - began);
    stack_tree_done(&tree);
}

static void check_set(const uint32_t *numbers, size_t count, const char *expected)
{
    struct buf out = BUF_INIT;
    snapshot_put_set(&out, numbers, count);
    assert_string_equal(out.data, expected);
    buf_done(&out);
}

static void test_sets(void **state)
{
    check_set((const uint32_t[]){5}, 1, "5");
    check_set((const uint32_t[]){0, 1, 2, 7}, 4, "0-2,7");
    check_set((const uint32_t[]){1, 2, 4, 5, 6}, 5, "1,2,4-6");
    check_set((const uint32_t[]){0, 4294967295}, 2, "0,4294967295");
    /* a line has room for some */
    uint32_t odd[200];
    for (uint32_t i = 0; i < 200; i++)
        odd[i] = 2 * i + 1;
    check_set(odd, 200, "1,3,5,7,9,11,13,...,399");
    bool has = false;
    struct err err = {0};
    assert_int_equal(snapshot_set_has("0-2,7", 2, &has, &err), 0);
    assert_true(has);
    assert_int_equal(snapshot_set_has("0-2,7", 3, &has, &err), 0);
    assert_false(has);
    assert_int_equal(snapshot_set_has("7", 7, &has, &err), 0);
    assert_true(has);
    static const char *const wrong[] = {"", ",", "1,", "2-1", "a", "1-", "-1", "1 2", "99999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_true(snapshot_set_has(wrong[i], 1, &has, &err) < 0);
}

static struct stack_frame in(const char *function, const char *module)
{
    return (struct stack_frame){"native", function, "", module, 0};
}

/* What people need of a stack. */
static void test_trim(void **state)
{
    struct stack_frame python = {"python", "solve", "/home/a/solve.py", "", 12};
    struct stack_frame frames[] = {in("futex_wait", "/lib/x86_64-linux-gnu/libc.so.6"),
                                   in("pthread_mutex_lock", "/lib/x86_64-linux-gnu/libc.so.6"),
                                   frame("take", 5),
                                   in("qsort", "/lib/x86_64-linux-gnu/libc.so.6"),
                                   frame("main", 9),
                                   in("__libc_start_main", "/lib/x86_64-linux-gnu/libc.so.6"),
                                   in("_start", "/opt/a")};
    size_t count = snapshot_trim(frames, sizeof frames / sizeof *frames);
    assert_int_equal(count, 4);
    assert_string_equal(frames[0].function, "pthread_mutex_lock");
    assert_string_equal(frames[1].function, "take");
    assert_string_equal(frames[2].function, "qsort");
    assert_string_equal(frames[3].function, "main");
    struct stack_frame called[] = {in("clock_nanosleep", "/usr/lib/libc.so.6"),
                                   in("PyObject_Vectorcall", "/usr/bin/python3.11"),
                                   python,
                                   in("PyEval_EvalCode", "/usr/bin/python3.11"),
                                   in("Py_BytesMain", "/usr/bin/python3.11"),
                                   in("__libc_start_main_impl", "/usr/lib/libc.so.6"),
                                   in("_start", "/usr/bin/python3.11")};
    count = snapshot_trim(called, sizeof called / sizeof *called);
    assert_int_equal(count, 2);
    assert_string_equal(called[0].function, "clock_nanosleep");
    assert_string_equal(called[1].function, "solve");
    /* nothing but a library: its outermost function */
    struct stack_frame library[] = {in("poll", "/lib/libc.so.6"), in("run", "/usr/lib/libuv.so.1"),
                                    in("start_thread", "/lib/libc.so.6"), in("clone3", "/lib/libc.so.6")};
    assert_int_equal(snapshot_trim(library, 4), 1);
    assert_string_equal(library[0].function, "run");
    /* without names: the program once */
    struct stack_frame stripped[] = {in("__libc_read", "/lib/libc.so.6"), in("", "/bin/dash"), in("", "/bin/dash"),
                                     in("__libc_start_main_impl", "/lib/libc.so.6"), in("", "/bin/dash")};
    assert_int_equal(snapshot_trim(stripped, 5), 2);
    assert_string_equal(stripped[0].function, "read");
    assert_string_equal(stripped[1].module, "/bin/dash");
    struct stack_frame mpi[] = {in("sched_yield", "/lib/libc.so.6"), frame("progress", 3),
                                in("PMPI_Recv", "/opt/libmpi.so"), frame("main", 1)};
    assert_int_equal(snapshot_trim(mpi, 4), 2);
    assert_string_equal(mpi[0].function, "MPI_Recv");
    /* between Python and MPI: a library without names */
    struct stack_frame mpi4py[] = {in("poll", "/lib/libc.so.6"), in("PMPI_Barrier", "/opt/libmpi.so"),
                                   in("", "/usr/lib/python3/MPI.so"), python};
    assert_int_equal(snapshot_trim(mpi4py, 4), 2);
    assert_string_equal(mpi4py[0].function, "MPI_Barrier");
    assert_string_equal(mpi4py[1].function, "solve");
    /* a thread that has only begun keeps what it has */
    struct stack_frame begun[] = {in("_start", "/opt/a")};
    assert_int_equal(snapshot_trim(begun, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge), cmocka_unit_test(test_values), cmocka_unit_test(test_line_and_file_part),
        cmocka_unit_test(test_many),  cmocka_unit_test(test_sets),   cmocka_unit_test(test_trim)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
