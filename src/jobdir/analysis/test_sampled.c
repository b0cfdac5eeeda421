/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobdir/analysis/sampled.h"

static char job[64];

static void put(const char *part, const char *text, size_t len)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s", job, part);
    mkdir(path, 0700);
    strcat(path, "/profile.json");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    fclose(file);
}

static int make(void **state)
{
    snprintf(job, sizeof job, "/tmp/scry-sampled-XXXXXX");
    return mkdtemp(job) ? 0 : -1;
}

static int unmake(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", job);
    return system(command);
}

/* main calls walk, which calls itself and leaf; the second process is in leaf at once. */
static const char document[] =
    "{\"version\":1,\"hz\":50,\"kernel\":true,\"lost\":2,\"samples\":10,\"cost_seconds\":0.5,"
    "\"functions\":[[\"main\",\"/bin/a\",\"a.c\",1],[\"walk\",\"/bin/a\",\"a.c\",2],[\"leaf;x\",\"/bin/"
    "a\",\"\",0],[null,\"/lib/b.so\",\"\",0]],"
    "\"processes\":[[7,\"a\",9],[8,\"a\",1]],"
    "\"lines\":[[1,7,0,4],[1,5,3,3],[2,9,3,3],[9,1,1,1]],"
    "\"spans\":{\"seconds\":2.0,\"cells\":[0,1,2,0,2,2,2,0,2,3,0,500,9,99,1,1]},"
    "\"threads\":[[0,7,\"a\",5,0.25,[1,2,0,2,3,0,9,1,1,5,1,1]],[0,17,\"w\",4,2.0,[3,2,500]],[0,18,\"s\",0,1.5,[4,0,"
    "1000,3,0,"
    "500]],[0,19,\"many\",3,0,null],[7,1,\"x\",1,0,[]]],"
    "\"nodes\":[[-1,0,1],[0,1,2],[1,1,3],[2,2,2],[1,3,1],[-2,2,1]],\"waits\":[[2,\"sleep\",2.0],[3,\"pipe\",0.5]]}";

static const struct sampled_function *find(const struct sampled *sampled, const char *name)
{
    for (size_t i = 0; i < sampled->count; i++)
        if (name ? sampled->functions[i].name && strcmp(sampled->functions[i].name, name) == 0
                 : !sampled->functions[i].name)
            return &sampled->functions[i];
    fail_msg("%s", name ? name : "none");
    return NULL;
}

static void functions_are_added_up(void **state)
{
    struct sampled *sampled;
    struct buf text = BUF_INIT;
    assert_int_equal(sampled_read(&sampled, job, true), -ENOENT);
    put("", document, strlen(document));
    assert_int_equal(sampled_read(&sampled, job, true), 0);
    assert_int_equal(sampled->samples, 10);
    assert_int_equal(sampled->lost, 2);
    assert_int_equal(sampled->count, 4);
    assert_string_equal(sampled->functions[0].name, "walk");
    assert_int_equal(find(sampled, "walk")->self, 5);
    assert_int_equal(find(sampled, "walk")->total, 8); /* not 8 and the 5 inside of itself */
    assert_int_equal(find(sampled, "main")->total, 9);
    assert_int_equal(find(sampled, "leaf;x")->self, 3);
    assert_int_equal(find(sampled, "leaf;x")->processes, 2);
    assert_int_equal(find(sampled, NULL)->self, 1);
    assert_float_equal(find(sampled, "main")->total_seconds, 9 / 50., 1e-9);
    sampled_put_folded(&text, sampled);
    assert_string_equal(text.data, "a;main 1\na;main;walk 2\na;main;walk;walk 3\na;main;walk;walk;leaf:x 2\n"
                                   "a;main;walk;b.so 1\na;leaf:x 1\n");
    buf_done(&text);
    sampled_free(sampled);
}

static void nodes_are_added_up(void **state)
{
    struct sampled *sampled;
    char parts[80];
    snprintf(parts, sizeof parts, "%s/parts", job);
    mkdir(parts, 0700);
    put("", document, strlen(document));
    put("/parts/n2", document, strlen(document));
    assert_int_equal(sampled_read(&sampled, job, true), 0);
    assert_int_equal(sampled->samples, 20);
    assert_int_equal(sampled->count, 4);
    assert_int_equal(find(sampled, "walk")->self, 10);
    assert_int_equal(find(sampled, "leaf;x")->processes, 4);
    assert_int_equal(find(sampled, "main")->line_count, 0);
    const struct sampled_function *walk = find(sampled, "walk");
    assert_int_equal(walk->line_count, 2);
    assert_true(walk->lines[0].line == 5 && walk->lines[0].self == 6 && walk->lines[0].total == 6);
    assert_true(walk->lines[1].line == 7 && walk->lines[1].self == 0 && walk->lines[1].total == 8);
    assert_float_equal(sampled->seconds, 20 / 50., 1e-9);
    sampled_free(sampled);
}

static const struct sampled_node *step(const struct sampled *sampled, const struct sampled_node *nodes, size_t count,
                                       int64_t parent, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        const char *its = nodes[i].function == SAMPLED_PROGRAM ? sampled->processes[nodes[i].process].name
                                                               : sampled->functions[nodes[i].function].name;
        if (nodes[i].parent == parent && its && strcmp(its, name) == 0)
            return &nodes[i];
    }
    fail_msg("%s", name);
    return NULL;
}

static void trees_are_one(void **state)
{
    struct sampled *sampled;
    struct sampled_node *nodes;
    size_t count;
    put("", document, strlen(document));
    assert_int_equal(sampled_read(&sampled, job, false), 0);
    assert_int_equal(sampled->process_count, 2);
    assert_int_equal(sampled->processes[0].samples, 9);
    assert_string_equal(sampled->functions[sampled->processes[0].most].name, "walk");
    assert_string_equal(sampled->functions[sampled->processes[1].most].name, "leaf;x");
    assert_int_equal(sampled_merge(sampled, NULL, false, &nodes, &count), 0);
    assert_int_equal(count, 7); /* the program, and the two processes' */
    assert_int_equal(step(sampled, nodes, count, -1, "a")->total, 10);
    assert_int_equal(step(sampled, nodes, count, 0, "main")->total, 9);
    assert_int_equal(step(sampled, nodes, count, 0, "leaf;x")->total, 1);
    free(nodes);
    assert_int_equal(sampled_merge(sampled, NULL, true, &nodes, &count), 0);
    const struct sampled_node *walk = step(sampled, nodes, count, 1, "walk"); /* once */
    assert_int_equal(walk->self, 5);
    assert_int_equal(step(sampled, nodes, count, walk - nodes, "leaf;x")->total, 2);
    assert_float_equal(walk->seconds, 2.5, 1e-9);
    assert_float_equal(walk->own_seconds, 2, 1e-9);
    free(nodes);
    const bool second[] = {false, true};
    assert_int_equal(sampled_choose(sampled, second, NULL), 0);
    assert_int_equal(sampled->samples, 1);
    assert_string_equal(sampled->functions[0].name, "leaf;x");
    assert_int_equal(find(sampled, "main")->total, 0);
    assert_float_equal(sampled->waiting_seconds, 0, 1e-9);
    assert_int_equal(sampled_merge(sampled, second, false, &nodes, &count), 0);
    assert_int_equal(count, 2);
    free(nodes);
    sampled_free(sampled);
}

/* What imports is not shown, and a file that each package has is with its package; an extension has its short name. */
static void imports_are_of_who_imports(void **state)
{
    static const char text[] =
        "{\"version\":1,\"hz\":50,\"kernel\":true,\"samples\":4,\"functions\":[[\"<module>\",\"\",\"/home/u/a.py\",1,"
        "\"python\"],[\"_find_and_load\",\"\",\"<frozen importlib._bootstrap>\",1167,\"python\"],[\"<module>\",\"\","
        "\"/usr/lib/numpy/__init__.py\",1,\"python\"],[null,\"/usr/lib/numpy/"
        "_umath.cpython-311-x86_64-linux-gnu.so\",\"\",0]]"
        ",\"processes\":[[7,\"a\",4]],"
        "\"nodes\":[[-1,0,0],[0,1,1],[1,2,2],[2,3,1]]}";
    struct sampled *sampled;
    struct sampled_node *nodes;
    size_t count;
    struct buf name = BUF_INIT;
    put("", text, strlen(text));
    assert_int_equal(sampled_read(&sampled, job, false), 0);
    assert_int_equal(sampled_merge(sampled, NULL, true, &nodes, &count), 0);
    assert_int_equal(count, 4);
    assert_true(nodes[1].self == 1 && nodes[2].self == 2 && nodes[2].parent == 1);
    sampled_put_name(&name, &sampled->functions[nodes[2].function]);
    sampled_put_name(&name, &sampled->functions[nodes[3].function]);
    assert_string_equal(name.data, "<module> (numpy/__init__.py)in _umath.so");
    buf_done(&name);
    free(nodes);
    sampled_free(sampled);
}

static void a_window_has_its_own_figures(void **state)
{
    struct sampled *sampled;
    put("", document, strlen(document));
    assert_int_equal(sampled_read(&sampled, job, false), 0);
    sampled_shift(sampled, "", 100);
    sampled_shift(sampled, "n2", 7);
    assert_int_equal(sampled->cell_count, 3);
    const struct sampled_window window = {103, 110}; /* of spans of 2 s: from 104 s on */
    assert_int_equal(sampled_choose(sampled, NULL, &window), 0);
    assert_int_equal(sampled->samples, 2);
    assert_int_equal(find(sampled, "main")->total, 2);
    assert_int_equal(find(sampled, "walk")->self, 2);
    assert_float_equal(find(sampled, "leaf;x")->waiting_seconds, 0.5, 1e-9);
    assert_float_equal(sampled->waiting_seconds, 0.5, 1e-9);
    sampled_free(sampled);
}

/* Where a node had no events, a sample is of 10 ms, and elsewhere of 20. */
static void nodes_have_their_own_units(void **state)
{
    char other[sizeof document], parts[80];
    snprintf(parts, sizeof parts, "%s/parts", job);
    mkdir(parts, 0700);
    for (int first = 0; first < 2; first++) {
        struct sampled *sampled;
        memcpy(other, document, sizeof document);
        memcpy(strstr(other, "50"), "25", 2);
        put("", first ? other : document, strlen(document));
        put("/parts/n2", first ? document : other, strlen(document));
        assert_int_equal(sampled_read(&sampled, job, true), 0);
        assert_int_equal(sampled->hz, 50);
        assert_int_equal(sampled->samples, 30);
        assert_true(sampled->seconds == 0.6);
        assert_int_equal(find(sampled, "main")->self, 3);
        assert_int_equal(find(sampled, "walk")->lines[0].total, 9);
        assert_int_equal(sampled->processes[first ? 0 : 2].samples, 18);
        assert_true(sampled->processes[first ? 0 : 2].seconds == 18 / 50.);
        uint64_t cells = 0;
        for (size_t i = 0; i < sampled->cell_count; i++)
            cells += sampled->cells[i].samples;
        assert_int_equal(cells, 12);
        assert_int_equal(sampled->threads[first ? 0 : 4].samples, 10);
        sampled_free(sampled);
    }
}

/* Places of nodes that are not its process's are none. */
static void threads_have_their_figures(void **state)
{
    struct sampled *sampled;
    put("", document, strlen(document));
    assert_int_equal(sampled_read(&sampled, job, false), 0);
    assert_int_equal(sampled->thread_count, 4);
    const struct sampled_thread *threads = sampled->threads;
    assert_int_equal(threads[0].samples, 5);
    assert_float_equal(threads[0].seconds, 0.1, 1e-9);
    assert_int_equal(threads[0].shares, 2);
    assert_string_equal(sampled->functions[threads[0].most].name, "walk");
    assert_string_equal(sampled->functions[threads[1].most].name, "leaf;x");
    assert_int_equal(threads[1].tid, 17);
    assert_float_equal(threads[1].waiting_seconds, 2, 1e-9);
    assert_null(sampled->functions[threads[2].most].name); /* where it waited most */
    assert_true(threads[3].most == SAMPLED_PROGRAM && !threads[3].shares);
    const bool second[] = {false, true, false, false}, process[] = {true, false};
    sampled_choose_threads(sampled, second);
    assert_int_equal(sampled_choose(sampled, process, NULL), 0);
    assert_int_equal(sampled->samples, 2);
    assert_int_equal(find(sampled, "leaf;x")->self, 2);
    assert_int_equal(find(sampled, "walk")->total, 2);
    assert_int_equal(find(sampled, "walk")->self, 0);
    assert_float_equal(sampled->waiting_seconds, 0.5, 1e-9);
    sampled_free(sampled);
}

/* Of libraries it is told below which function of the program they are most: not below others of libraries, of the interpreter, or what
 * calls main. */
static void libraries_are_below_the_program(void **state)
{
    static const char libraries[] =
        "{\"version\":1,\"hz\":50,\"samples\":25,\"functions\":[[\"_start\",\"/bin/a\",\"\",0],[\"main\",\"/bin/"
        "a\",\"a.c\",1],[\"heat\",\"/home/u/libheat.so\",\"heat.c\",12],[\"sin\",\"/usr/lib/libm.so.6\",\"s_sin.c\",9],"
        "[\"reduce\",\"/opt/x.so\",\"\",0],[\"f\",\"\",\"x.py\",3,\"python\"],[\"eval\",\"/usr/bin/"
        "python3.11\",\"\",0],"
        "[\"exit\",\"/lib/libc.so.6\",\"\",0]],"
        "\"processes\":[[7,\"a\",19],[8,\"python3\",6]],"
        "\"nodes\":[[-1,0,0],[0,1,1],[1,2,2],[2,3,10],[1,3,1],[0,7,5],[-2,5,0],[6,6,0],[7,4,4],[8,3,2]]}";
    static const struct {
        const char *name, *both, *second;
    } rows[] = {{"sin", "heat (heat.c:12) and others", "f (x.py:3)"},
                {"reduce", "f (x.py:3)", "f (x.py:3)"},
                {"exit", "", ""},
                {"heat", "", ""}};
    const bool second[] = {false, true};
    struct sampled *sampled;
    put("", libraries, sizeof libraries - 1);
    assert_int_equal(sampled_read(&sampled, job, false), 0);
    for (int chosen = 0; chosen < 2; chosen++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct buf text = BUF_INIT;
            sampled_put_below(&text, sampled, find(sampled, rows[i].name));
            assert_string_equal(text.data ? text.data : "", chosen ? rows[i].second : rows[i].both);
            buf_done(&text);
        }
        assert_int_equal(find(sampled, "sin")->below_samples, chosen ? 2 : 10);
        assert_int_equal(sampled_choose(sampled, second, NULL), 0);
    }
    sampled_free(sampled);
}

static void damaged_files_do_no_harm(void **state)
{
    static const char bytes[] = "-0123456789[]{},\"n";
    unsigned seed = 7;
    for (int round = 0; round < 500; round++) {
        char text[sizeof document];
        struct sampled *sampled;
        struct buf folded = BUF_INIT;
        memcpy(text, document, sizeof text);
        for (int i = rand_r(&seed) % 6; i >= 0; i--)
            text[(size_t)rand_r(&seed) % (sizeof text - 1)] = bytes[(size_t)rand_r(&seed) % (sizeof bytes - 1)];
        put("", text, rand_r(&seed) % 8 ? sizeof text - 1 : (size_t)rand_r(&seed) % sizeof text);
        if (sampled_read(&sampled, job, true) < 0)
            continue;
        sampled_put_folded(&folded, sampled);
        for (size_t i = 0; i < sampled->count; i++)
            sampled_put_name(&folded, &sampled->functions[i]);
        for (size_t i = 0; i < sampled->count; i++)
            sampled_put_below(&folded, sampled, &sampled->functions[i]);
        sampled_put_pprof(&folded, sampled);
        buf_clear(&folded);
        sampled_put_speedscope(&folded, sampled, "a");
        json_t *json = json_loadb(folded.data, folded.len, 0, NULL);
        assert_non_null(json);
        json_decref(json);
        struct sampled_node *nodes;
        size_t count;
        assert_int_equal(sampled_merge(sampled, NULL, round % 2, &nodes, &count), 0);
        free(nodes);
        buf_done(&folded);
        sampled_free(sampled);
    }
}

/* What one waits for to its end: not what it waited for as long before, nor what is no wait of it. */
static void what_it_stood_in_is_told(void **state)
{
    static const char waits[] =
        "{\"version\":1,\"hz\":50,\"functions\":[[\"main\",\"/bin/a\",\"a.c\",1],[\"take\",\"/bin/a\",\"a.c\",12]],"
        "\"processes\":[[7,\"a\",0],[8,\"a\",0]],\"nodes\":[[-1,0,0],[0,1,0],[-2,0,0]],"
        "\"waits\":[[1,\"lock\",9.5],[0,\"mpi\",3],[2,\"sleep\",10],[2,\"pipe\",9],[9,\"lock\",10],[1]]}";
    struct buf text = BUF_INIT;
    put("", waits, sizeof waits - 1);
    assert_true(sampled_put_stood(&text, job, 7, 10));
    assert_string_equal(text.data, "waits for a lock in take (a.c:12)");
    assert_false(sampled_put_stood(&text, job, 7, 20));
    assert_false(sampled_put_stood(&text, job, 8, 10));
    assert_false(sampled_put_stood(&text, job, 6, 10));
    assert_false(sampled_put_stood(&text, "/nonexistent", 7, 10));
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(functions_are_added_up, make, unmake),
        cmocka_unit_test_setup_teardown(nodes_are_added_up, make, unmake),
        cmocka_unit_test_setup_teardown(trees_are_one, make, unmake),
        cmocka_unit_test_setup_teardown(imports_are_of_who_imports, make, unmake),
        cmocka_unit_test_setup_teardown(a_window_has_its_own_figures, make, unmake),
        cmocka_unit_test_setup_teardown(nodes_have_their_own_units, make, unmake),
        cmocka_unit_test_setup_teardown(threads_have_their_figures, make, unmake),
        cmocka_unit_test_setup_teardown(libraries_are_below_the_program, make, unmake),
        cmocka_unit_test_setup_teardown(damaged_files_do_no_harm, make, unmake),
        cmocka_unit_test_setup_teardown(what_it_stood_in_is_told, make, unmake),
    };
    return cmocka_run_group_tests_name("sampled", tests, NULL, NULL);
}
