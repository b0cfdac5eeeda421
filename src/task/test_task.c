/* SPDX-License-Identifier: Apache-2.0 */
/* What people and pages may ask for, and what they may not. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/text/text.h"
#include "jobdir/record/info.h"
#include "task/answer.h"
#include "task/estimate.h"
#include "task/launch.h"
#include "task/store.h"
#include "task/advance.h"
#include "task/spec.h"

static char home[] = "/tmp/scrytaskXXXXXX";
static struct task_store store;

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(home))
        return -1;
    setenv("XDG_STATE_HOME", home, 1);
    return task_store_open(&store, NULL);
}

static int end(void **state)
{
    (void)state;
    return task_remove_tree(home);
}

static json_t *parse(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    return json;
}

static void test_defaults(void **state)
{
    (void)state;
    struct err err;
    json_t *given = parse("{\"program\": \"<script>\\n\\u001b\", \"name\": \"..\", \"limits\": {\"seconds\": 0}}"),
           *spec;
    assert_int_equal(task_spec_check(given, &spec, &err), 0);
    assert_string_equal(task_text(spec, "program"), "<script>\n\033");
    assert_string_equal(task_text(spec, "launch.by"), "mpirun");
    assert_null(task_text(spec, "directory"));
    assert_int_equal(task_number(spec, "limits.seconds"), 0);
    assert_int_equal(task_number(spec, "limits.disk_bytes"), UINT64_C(2) << 30);
    assert_int_equal(task_number(spec, "repeat"), 1);
    json_t *again = NULL; /* what was checked is as it is */
    assert_int_equal(task_spec_check(spec, &again, &err), 0);
    assert_true(json_equal(spec, again));
    json_decref(again);
    json_decref(spec);
    json_decref(given);
}

static void test_alone(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"\"collect\": {}", "auto"}, {"\"collect\": {\"mpi\": \"trace\"}", "trace"}, {"\"name\": \"x\"", "auto"}};
    struct err err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        json_t *spec;
        snprintf(text, sizeof text, "{\"program\": \"p\", \"launch\": {\"by\": \"plain\"}, %s}", rows[i][0]);
        json_t *given = parse(text);
        assert_int_equal(task_spec_check(given, &spec, &err), 0);
        assert_string_equal(task_text(spec, "collect.mpi"), rows[i][1]);
        json_decref(spec);
        json_decref(given);
    }
}

/* Each MPI has libraries for other languages than C, and only these are named in a program of Fortran. */
static void test_mpi_of_library(void **state)
{
    (void)state;
    static const struct {
        const char *library;
        enum task_mpi mpi;
    } rows[] = {{"libmpich.so.12", TASK_MPI_MPICH},           {"libmpichfort.so.12", TASK_MPI_MPICH},
                {"libmpichcxx.so.12", TASK_MPI_MPICH},        {"libmpi.so.12", TASK_MPI_MPICH},
                {"libmpifort.so.12", TASK_MPI_MPICH},         {"libmpicxx.so.12", TASK_MPI_MPICH},
                {"libmpi.so.40", TASK_MPI_OPENMPI},           {"libmpi_mpifh.so.40", TASK_MPI_OPENMPI},
                {"libmpi_usempif08.so.40", TASK_MPI_OPENMPI}, {"libmpi_cxx.so.40", TASK_MPI_OPENMPI},
                {"libmpiece.so.1", TASK_MPI_UNKNOWN},         {"libc.so.6", TASK_MPI_UNKNOWN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct {
            Elf64_Ehdr head;
            Elf64_Phdr headers[2];
            Elf64_Dyn dynamic[2];
            char names[64];
        } program = {.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                              .e_phoff = sizeof program.head,
                              .e_phentsize = sizeof *program.headers,
                              .e_phnum = 2},
                     .headers = {{.p_type = PT_LOAD, .p_filesz = sizeof program},
                                 {.p_type = PT_DYNAMIC, .p_filesz = sizeof program.dynamic}},
                     .dynamic = {{.d_tag = DT_NEEDED}, {.d_tag = DT_STRTAB}}};
        char path[PATH_MAX];
        program.headers[1].p_offset = offsetof(__typeof__(program), dynamic);
        program.dynamic[1].d_un.d_ptr = offsetof(__typeof__(program), names);
        snprintf(program.names, sizeof program.names, "%s", rows[i].library);
        snprintf(path, sizeof path, "%s/program", home);
        assert_int_equal(file_replace_soon(path, &program, sizeof program, 0700), 0);
        if (task_mpi_of(path) != rows[i].mpi)
            fail_msg("%s is MPI %d", rows[i].library, task_mpi_of(path));
    }
}

/* How far it scales, and what keeps it from more: of the fewest processes, then of the most. */
static void test_scaling_verdict(void **state)
{
    (void)state;
    static const struct {
        double efficiency[3]; /* with 1, 4 and 8 */
        double in_mpi[2], uneven[2];
        bool shared;
        const char *verdict;
        double seconds; /* with 1; 0: not known */
    } rows[] = {
        {{1, 0.2, 0.12},
         {0, 0},
         {0, 0},
         false,
         "the runs are too short to judge by: 1.1 s with the fewest processes, and 3 s are the least",
         1.1},
        {{1, 0.2, 0.1},
         {0, 0},
         {0, 0},
         false,
         "more processes make it slower: with 8 it takes 1.2 times as long as with 1",
         3.1},
        {{1, 0.98, 0.95},
         {0, 0.4},
         {0, 0.1},
         true,
         "it scales to 8 processes: 7.6 times as fast as with 1, efficiency 95 %"},
        {{1, 0.9, 0.8},
         {0.01, 0.19},
         {0, 0.02},
         false,
         "it scales to 8 processes: 6.4 times as fast as with 1, efficiency 80 %; with 8 the ranks are in MPI for 19 % "
         "of their "
         "time"},
        {{1, 0.8, 0.5},
         {0.01, 0.5},
         {0, 0.4},
         false,
         "it scales to 4 processes, efficiency 80 %; with 8 it is 4.0 times as fast as with 1, efficiency 50 %; with 8 "
         "the ranks "
         "wait 40 % of their time for the one that computes longest"},
        {{1, 0.8, 0.3},
         {0.01, 0.5},
         {0, 0.4},
         true,
         "the node was shared, so the figures say little: others had processors of it in runs with 8 processes"},
        {{1, 0.3, 0.2},
         {0.5, 0.55},
         {0.3, 0.3},
         false,
         "more processes help little: with 8 it is 1.6 times as fast as with 1, efficiency 20 %"},
        {{1, 0.3, 0.1},
         {-1, -1},
         {-1, -1},
         false,
         "more processes make it slower: with 8 it takes 1.2 times as long as with 1"},
        {{1, 0.3, 0.2},
         {-1, 0.7},
         {-1, 0.1},
         false,
         "more processes help little: with 8 it is 1.6 times as fast as with 1, efficiency 20 %; with 8 the ranks are "
         "in MPI for "
         "70 % of their time"},
    };
    static const int processes[] = {1, 4, 8};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *tasks = json_array();
        for (size_t k = 0; k < 3; k++) {
            json_t *task = json_pack("{s:i, s:f, s:f, s:b}", "processes", processes[k], "speedup",
                                     rows[i].efficiency[k] * processes[k], "efficiency", rows[i].efficiency[k],
                                     "node_shared", rows[i].shared && k == 2);
            double in_mpi = rows[i].in_mpi[k == 2], uneven = rows[i].uneven[k == 2];
            if (rows[i].seconds > 0)
                json_object_set_new(task, "seconds",
                                    json_real(rows[i].seconds / (processes[k] * rows[i].efficiency[k])));
            json_object_set_new(task, "mpi_share", in_mpi < 0 ? json_null() : json_real(in_mpi));
            json_object_set_new(task, "uneven_share", uneven < 0 ? json_null() : json_real(uneven));
            json_array_append_new(tasks, task);
        }
        json_t *verdict = task_scaling_verdict(tasks);
        assert_string_equal(json_string_value(verdict), rows[i].verdict);
        json_decref(verdict);
        json_decref(tasks);
    }
}

/* More processes than processors say nothing of how far a program scales. */
static void test_scaling_crowded(void **state)
{
    (void)state;
    static const struct {
        int processors;
        const char *verdict;
    } rows[] = {
        {4, "it scales to 4 processes: 4.0 times as fast as with 1, efficiency 100 %"},
        {2, "4 processes are more than the node's 2 processors, which they share; it scales to 2 processes: 2.0 "
            "times as fast as with 1, efficiency 100 %"},
        {1, "2 and 4 processes are more than the node's 1 processor, which they share"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *tasks = json_array();
        for (int k = 0; k < 3; k++)
            json_array_append_new(tasks, json_pack("{s:i, s:i, s:f, s:f}", "processes", 1 << k, "processors",
                                                   rows[i].processors, "speedup", (double)(1 << k), "efficiency", 1.0));
        json_t *verdict = task_scaling_verdict(tasks);
        assert_string_equal(json_string_value(verdict), rows[i].verdict);
        json_decref(verdict);
        json_decref(tasks);
    }
}

/* What failed is said first, and that the node was shared, also of the fewest. */
static void test_scaling_failed(void **state)
{
    (void)state;
    static const struct {
        bool failed[3], shared[3];
        const char *verdict;
    } rows[] = {
        {{false, true, false},
         {0},
         "with 2 processes it failed: run 1 ended with exit status 8; it scales to 4 processes: "
         "4.0 times as fast as with 1, efficiency 100 %"},
        {{true, true, false}, {0}, "with 1 and 2 processes it failed: run 1 ended with exit status 8"},
        {{false, true, true}, {true}, "with 2 and 4 processes it failed: run 1 ended with exit status 8"},
        {{0},
         {true},
         "the node was shared, so the figures say little: others had processors of it in runs with 1 process"},
        {{0},
         {true, true, true},
         "the node was shared, so the figures say little: others had processors of it in runs with 1, 2 and 4 "
         "processes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *tasks = json_array();
        for (int k = 0; k < 3; k++) {
            json_t *error =
                rows[i].failed[k] ? json_pack("{s:s}", "text", "run 1 ended with exit status 8") : json_null();
            json_t *task =
                json_pack("{s:i, s:b, s:o}", "processes", 1 << k, "node_shared", rows[i].shared[k], "error", error);
            if (!rows[i].failed[k])
                json_object_update_new(task, json_pack("{s:f, s:f}", "speedup", (double)(1 << k), "efficiency", 1.0));
            json_array_append_new(tasks, task);
        }
        json_t *verdict = task_scaling_verdict(tasks);
        assert_string_equal(json_string_value(verdict), rows[i].verdict);
        json_decref(verdict);
        json_decref(tasks);
    }
}

/* Runs of one number that differ much: of two, nobody knows which is right. */
static void test_scaling_differs(void **state)
{
    (void)state;
    static const struct {
        int runs;
        double most[3]; /* with 1, 2 and 4, where the least is 10 */
        const char *verdict;
    } rows[] = {
        {2, {14, 10, 10}, "it scales to 4 processes: 4.0 times as fast as with 1, efficiency 100 %"},
        {2,
         {32.2, 10, 10},
         "runs with 1 process differ much, with 1 from 10.0 to 32.2 s, so the figures say little: run each three times "
         "or more, on a node of its own"},
        {2,
         {10, 20, 16},
         "runs with 2 and 4 processes differ much, with 2 from 10.0 to 20.0 s, so the figures say little: run each "
         "three times or more, on a node of its own"},
        {3,
         {10, 20, 10},
         "runs with 2 processes differ much, with 2 from 10.0 to 20.0 s, of which the median is compared; it scales to "
         "4 processes: 4.0 times as fast as with 1, efficiency 100 %"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *tasks = json_array();
        for (int k = 0; k < 3; k++)
            json_array_append_new(tasks, json_pack("{s:i, s:i, s:f, s:f, s:f, s:f}", "processes", 1 << k, "runs",
                                                   rows[i].runs, "least_seconds", 10.0, "most_seconds", rows[i].most[k],
                                                   "speedup", (double)(1 << k), "efficiency", 1.0));
        json_t *verdict = task_scaling_verdict(tasks);
        assert_string_equal(json_string_value(verdict), rows[i].verdict);
        json_decref(verdict);
        json_decref(tasks);
    }
}

/* Of OpenMP the threads are what varies. */
static void test_scaling_of_threads(void **state)
{
    (void)state;
    json_t *tasks = json_pack("[{s:i, s:i, s:f, s:f}, {s:i, s:i, s:f, s:f}]", "processes", 1, "threads", 1, "speedup",
                              1.0, "efficiency", 1.0, "processes", 1, "threads", 4, "speedup", 3.6, "efficiency", 0.9);
    json_t *verdict = task_scaling_verdict(tasks);
    assert_string_equal(json_string_value(verdict),
                        "it scales to 4 threads: 3.6 times as fast as with 1, efficiency 90 %");
    json_decref(verdict);
    json_object_set_new(json_array_get(tasks, 1), "threads", json_null());
    assert_true(json_is_null(task_scaling_verdict(tasks)));
    json_decref(tasks);
}

/* What nobody could compile with hooks is not traced. */
static void test_python(void **state)
{
    (void)state;
    static const struct {
        const char *program, *text;
        bool traced;
    } rows[] = {{"/usr/bin/python3", "", false},
                {"p", "#!/usr/bin/env python3\n", false},
                {"p", "#!/bin/sh\npython3\n", true},
                {"./p", "x", true}};
    struct task_upload upload;
    struct err err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256], id[TASK_ID_SIZE];
        struct task task;
        struct task_launch launch;
        bool traced = false;
        snprintf(text, sizeof text,
                 "{\"program\": \"%s\", \"files\": [\"p\"], \"collect\": {\"functions\": [\"all\"]}, "
                 "\"launch\": {\"by\": \"plain\"}}",
                 rows[i].program);
        json_t *json = parse(text);
        assert_int_equal(task_create(&store, json, id, &err), 0);
        json_decref(json);
        assert_int_equal(task_upload_begin(&store, id, "p", &upload, &err), 0);
        assert_int_equal(task_upload_write(&upload, rows[i].text, strlen(rows[i].text), &err), 0);
        assert_int_equal(task_upload_end(&upload, true, &err), 0);
        assert_int_equal(task_load(&store, id, &task, &err), 0);
        assert_int_equal(task_launch_make(&launch, &task, TASK_RUN, 1, &err), 0);
        for (size_t word = 0; word < launch.argc; word++)
            traced = traced || strcmp(launch.argv[word], "--trace=all") == 0;
        assert_int_equal(traced, rows[i].traced);
        task_launch_done(&launch);
        task_done(&task);
        assert_int_equal(task_remove(&store, id, true, &err), 0);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"{}", "program is missing: a task needs it"},
        {"{\"program\": 1}", "program: expected a text of 1 to 4095 bytes, not 1"},
        {"{\"program\": \"-x\"}", "program: expected a program, not an option, not \"-x\""},
        {"{\"program\": \"a\", \"proceses\": 1}", "a task has no member 'proceses' (did you mean processes?)"},
        {"{\"program\": \"a\", \"processes\": 0}", "processes: expected a whole number from 1 to 1000000, not 0"},
        {"{\"program\": \"a\", \"processes\": 1.5}", "processes: expected a whole number from 1 to 1000000, not 1.5"},
        {"{\"program\": \"a\", \"repeat\": -1}", "repeat: expected a whole number from 1 to 1000, not -1"},
        {"{\"program\": \"a\", \"limits\": {\"disk_bytes\": 0.5}}",
         "limits.disk_bytes: expected a whole number from 1048576 to 9007199254740992, not 0.5"},
        {"{\"program\": \"a\", \"limits\": {\"disk\": 1}}", "limits has no member 'disk'"},
        {"{\"program\": \"a\", \"limits\": []}", "limits: expected an object, not []"},
        {"{\"program\": \"a\", \"launch\": {\"by\": \"mpi\"}}",
         "launch.by: expected mpirun|slurm|ssh|plain, not \"mpi\""},
        {"{\"program\": \"a\", \"launch\": {\"by\": \"\"}}", "launch.by: expected mpirun|slurm|ssh|plain, not \"\""},
        {"{\"program\": \"a\", \"launch\": {\"hosts\": [\"a b\"]}}",
         "launch.hosts[0]: expected a name of letters, digits and ._-@:[], not \"a b\""},
        {"{\"program\": \"a\", \"launch\": {\"partition\": \"--uid=0\"}}",
         "launch.partition: expected a name of letters, digits and ._-@:[], not \"--uid=0\""},
        {"{\"program\": \"a\", \"launch\": {\"by\": \"plain\"}, \"processes\": 2}",
         "processes: plain starts one process: launch it by mpirun"},
        {"{\"program\": \"a\", \"launch\": {\"by\": \"ssh\", \"hosts\": [\"x\", \"y\"]}}",
         "launch.hosts: ssh needs exactly one host, where the program runs"},
        {"{\"program\": \"a\", \"limits\": {\"memory_bytes\": 1000}}",
         "limits.memory_bytes: expected 0 for no limit, or at least 1048576"},
        {"{\"program\": \"a\", \"directory\": \"x\"}", "directory: expected an absolute path, or null, not \"x\""},
        {"{\"program\": \"a\", \"environment\": {\"A=B\": \"\"}}",
         "environment.A=B: a variable's name has letters, digits and _"},
        {"{\"program\": \"a\", \"environment\": {\"A\": 1}}",
         "environment.A: expected a text of at most 102400 bytes, not 1"},
        {"{\"program\": \"a\", \"arguments\": \"x\"}", "arguments: expected a list of at most 4096 texts, not \"x\""},
        {"{\"program\": \"a\", \"collect\": {\"functions\": [\"nothing:\"]}}", NULL},
        {"{\"program\": \"a\", \"collect\": {\"functions\": [\" \"]}}", NULL},
        {"{\"program\": \"a\", \"collect\": {\"logs\": [\"out=x\", \"stdout=([\"]}}",
         "collect.logs[1]: stdout=([: missing terminating ] for character class, at character 3"},
        {"{\"program\": \"a\", \"collect\": {\"logs\": [\"\"]}}", "collect.logs[0]: : name a file before the ="},
        {"{\"program\": \"a\", \"launch\": {\"by\": \"plain\", \"hosts\": [\"n1\"]}}",
         "launch.hosts: plain starts the program here: launch it by mpirun, ssh or slurm, or name no hosts"},
        {"{\"program\": \"a\", \"launch\": {\"by\": \"plain\", \"options\": [\"-v\"]}}",
         "launch.options: plain has no launcher that could take them: launch it by mpirun or slurm"},
        {"{\"program\": \"a\", \"launch\": {\"partition\": \"main\"}}",
         "launch.partition: only Slurm has partitions: launch it by slurm, or name none"},
        {"{\"program\": \"a\", \"name\": \"@last\"}",
         "name: '@last' cannot be a name: what begins with @ is the last job or a broker"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char id[TASK_ID_SIZE];
        struct err err = {0};
        json_t *json = parse(rows[i].text);
        assert_int_equal(task_create(&store, json, id, &err), -EINVAL);
        if (rows[i].error)
            assert_string_equal(err.text, rows[i].error);
        json_decref(json);
    }
    json_t *before = parse("{\"program\": \"a\", \"launch\": {\"partition\": \"main\"}}"), *read; /* these rules */
    assert_int_equal(task_spec_check(before, &read, NULL), 0);
    json_decref(before);
    json_decref(read);
    char **ids;
    size_t count;
    assert_int_equal(task_list(&store, &ids, &count, NULL), 0);
    assert_int_equal(count, 0);
    jobdir_list_free(ids, count);
}

static void test_files(void **state)
{
    (void)state;
    static const char *const bad[] = {"", ".", "..", "../x", "a/b", ".x", "-x", "a\nb", "a\\b", "a\033"};
    char id[TASK_ID_SIZE], path[PATH_MAX * 2];
    struct task_upload upload, other;
    struct err err;
    json_t *json = parse("{\"program\": \"./p\", \"files\": [\"p\"], \"limits\": {\"disk_bytes\": 1048576}, "
                         "\"launch\": {\"by\": \"plain\"}}");
    assert_int_equal(task_create(&store, json, id, &err), 0);
    json_decref(json);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(task_upload_begin(&store, id, bad[i], &upload, &err), -EINVAL);
    assert_int_equal(task_queue(&store, id, &err), -ENOENT); /* its file is not there */
    assert_int_equal(task_upload_begin(&store, id, "p", &upload, &err), 0);
    assert_int_equal(task_upload_begin(&store, id, "q", &other, &err), -EBUSY);
    assert_int_equal(task_upload_write(&upload, "#!/bin/sh\n", 10, &err), 0);
    assert_int_equal(task_queue(&store, id, &err), -EBUSY);
    snprintf(path, sizeof path, "%s/%s/files/p", store.dir, id);
    assert_int_equal(access(path, F_OK), -1); /* half of it is no program */
    static char large[1 << 20];
    assert_int_equal(task_upload_write(&upload, large, sizeof large, &err), -EFBIG);
    assert_int_equal(task_upload_end(&upload, false, &err), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(task_upload_begin(&store, id, "p", &upload, &err), 0);
    assert_int_equal(task_upload_write(&upload, "#!/bin/sh\n", 10, &err), 0);
    assert_int_equal(task_upload_end(&upload, true, &err), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(task_rerun(&store, id, &err), -EBUSY);
    assert_int_equal(task_queue(&store, id, &err), 0);
    assert_int_equal(task_queue(&store, id, &err), -EBUSY);
    assert_int_equal(task_upload_begin(&store, id, "q", &upload, &err), -EBUSY);
    assert_int_equal(task_remove(&store, id, true, &err), -EBUSY);
    assert_int_equal(task_cancel(&store, id, &err), 0);
    assert_int_equal(task_cancel(&store, id, &err), -EALREADY);
    assert_int_equal(task_remove(&store, id, true, &err), 0);
    assert_int_equal(task_cancel(&store, id, &err), -ENOENT);
}

static void test_names(void **state)
{
    (void)state;
    char id[TASK_ID_SIZE], found[TASK_ID_SIZE];
    struct task task;
    struct err err;
    static const char *const bad[] = {"", "..", "../x", "20260101T000000-a/../../etc", ".active", "@last/x"};
    json_t *json = parse("{\"program\": \"true\", \"name\": \"20260101T\"}");
    assert_int_equal(task_create(&store, json, id, &err), 0);
    json_decref(json);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(task_load(&store, bad[i], &task, &err), -ENOENT);
        task_done(&task);
        assert_null(task_answer_one(&store, bad[i], &err));
        assert_int_equal(task_find(&store, bad[i], found, &err), -ENOENT);
    }
    assert_int_equal(task_find(&store, "20260101T", found, &err), 0);
    assert_string_equal(found, id);
    snprintf(found, sizeof found, "%.11s", id);
    assert_int_equal(task_find(&store, found, found, &err), 0);
    assert_string_equal(found, id);
    char path[PATH_MAX * 2];
    snprintf(path, sizeof path, "%s/%s/state.json", store.dir, id);
    assert_int_equal(file_replace_soon(path, "{", 1, 0600), 0);
    assert_int_equal(task_queue(&store, id, &err), -EBADMSG); /* damaged: it can only go */
    assert_int_equal(task_remove(&store, id, true, &err), 0);
}

static int set_state(struct task *task, void *ctx, struct err *err)
{
    (void)err;
    return json_object_update(task->state, ctx);
}

/* A task of which a state is known, both of them JSON. */
static void make_task(const char *spec, const char *state, char ret_id[TASK_ID_SIZE])
{
    struct err err;
    json_error_t where;
    json_t *given = json_loads(spec, 0, NULL), *members = json_loads(state, 0, &where);
    assert_non_null(members);
    assert_int_equal(task_create(&store, given, ret_id, &err), 0);
    assert_int_equal(task_change(&store, ret_id, set_state, members, &err), 0);
    json_decref(given);
    json_decref(members);
}

static void assert_expected(const char *id, double build, double run)
{
    json_t *expected = task_expect(&store, id);
    assert_float_equal(json_number_value(json_object_get(expected, "build")), build, 1e-9);
    assert_float_equal(json_number_value(json_object_get(expected, "run")), run, 1e-9);
    json_decref(expected);
}

/* Each phase is expected to last as long as that of the latest task for which it is the same; 0: there was none. */
static void test_expected(void **state)
{
    (void)state;
    char ids[7][TASK_ID_SIZE];
    make_task("{\"program\": \"a\", \"build\": \"make\", \"processes\": 2}",
              "{\"expected\": {\"build\": 5, \"run\": 7}}", ids[0]);
    make_task("{\"program\": \"b\", \"build\": \"make\"}", "{\"expected\": {\"build\": 6}}", ids[1]);
    make_task("{\"program\": \"a\", \"build\": \"make\", \"name\": \"x\", \"processes\": 2}", "{}", ids[2]);
    make_task("{\"program\": \"a\", \"build\": \"make -j\", \"processes\": 2}", "{}", ids[3]);
    make_task("{\"program\": \"a\", \"build\": \"make\", \"processes\": 3}", "{}", ids[4]);
    make_task("{\"program\": \"a\", \"processes\": 2, \"environment\": {\"OMP_NUM_THREADS\": \"1\"}}", "{}", ids[5]);
    make_task("{\"program\": \"a\", \"processes\": 2, \"collect\": {\"functions\": [\"fn:*\"]}}", "{}", ids[6]);
    char **listed;
    size_t count;
    assert_int_equal(task_list(&store, &listed, &count, NULL), 0);
    assert_int_equal(count, sizeof ids / sizeof *ids);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(listed[i], ids[i]); /* also those of the same second */
    jobdir_list_free(listed, count);
    assert_expected(ids[2], 6, 7);
    assert_expected(ids[3], 0, 7);
    assert_expected(ids[4], 6, 0);
    assert_expected(ids[5], 0, 0); /* other numbers of threads, more that is recorded: another time */
    assert_expected(ids[6], 0, 0);
    assert_expected(ids[0], 5, 7); /* its own is worth more than what came later */
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_int_equal(task_remove(&store, ids[i], true, NULL), 0);
}

static void assert_estimate(struct task *task, const char *phase, double share, double left)
{
    double its_share, its_left;
    char text[160];
    snprintf(text, sizeof text, "{\"phase\": \"%s\", \"run\": 1, \"began_ns\": %lld, \"ended_ns\": null}", phase,
             (long long)(clock_wall_ns() - UINT64_C(100) * NS_PER_SECOND));
    json_t *json = parse(text);
    task_estimate(task, json, &its_share, &its_left);
    assert_float_equal(its_share, share, 0.01);
    assert_float_equal(its_left, left, 4);
    json_decref(json);
}

/* Of a phase that began 100 s ago. */
static void test_estimate(void **state)
{
    (void)state;
    static const char none[] = "\r1000 bytes (1.0 kB) copied, 2 s, 1 kB/s";
    char id[TASK_ID_SIZE], path[PATH_MAX * 2], text[256];
    struct task task;
    make_task("{\"program\": \"a\", \"build\": \"make\"}", "{\"expected\": {\"build\": 400, \"run\": 50}}", id);
    assert_int_equal(task_load(&store, id, &task, NULL), 0);
    assert_estimate(&task, "build", 0.25, 300);
    assert_estimate(&task, "run", -1, -1); /* it takes longer than was expected: nobody knows */
    assert_estimate(&task, "gather", -1, -1);
    snprintf(path, sizeof path, "%s/runs/1.bytes", task.dir);
    const struct {
        const char *total, *dd;
        double share, left;
    } rows[] = {
        {"00000000", "", -1, -1},
        {"00000000000000000000", none, -1, -1},
        {"00000000000000004000", "", 0, -1},
        {"00000000000000004000", none, 0.25, 6},
        {"00000000000000004000", "\r1 bytes copied, 0 s, 1 B/s\r3000 bytes copied, 30 s, 1 B/s", 0.75, 10},
        {"00000000000000004000", "\r4000 bytes copied, 4 s, 1 kB/s\n7+0 records in\n7+0 records out\n", 1, 0},
        {"00000000000000000500", none, 1, 0},
        {"what is no number   ", "\rx copied, ", -1, -1},
        {"                 nan", none, -1, -1},
        {"0000000000000000-4e9", none, -1, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int len = snprintf(text, sizeof text, "%s%s", rows[i].total, rows[i].dd);
        assert_int_equal(file_replace_soon(path, text, (size_t)len, 0600), 0);
        assert_estimate(&task, "gather", rows[i].share, rows[i].left);
    }
    task_done(&task);
    assert_int_equal(task_remove(&store, id, true, NULL), 0);
}

/* The process of a phase began 100 s ago; the time of day was set since. */
static void test_estimate_clock(void **state)
{
    (void)state;
    static const long long set[] = {-3600, 3600};
    char id[TASK_ID_SIZE], boot[64], text[256];
    struct task task;
    double share, left;
    job_boot_id(boot, sizeof boot);
    long long ticks = (long long)(clock_ns(CLOCK_BOOTTIME) / NS_PER_SECOND - 100) * sysconf(_SC_CLK_TCK);
    make_task("{\"program\": \"a\", \"build\": \"make\"}", "{\"expected\": {\"build\": 400, \"run\": 400}}", id);
    assert_int_equal(task_load(&store, id, &task, NULL), 0);
    snprintf(text, sizeof text, "{\"boot\": \"%s\", \"ticks\": %lld}", boot, ticks);
    json_object_set_new(task.state, "step", parse(text));
    json_object_set_new(task.state, "runs", json_pack("[O]", json_object_get(task.state, "step")));
    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "{\"phase\": \"%s\", \"run\": 1, \"began_ns\": %lld, \"ended_ns\": null}",
                 i % 2 ? "run" : "build", (long long)clock_wall_ns() + set[i / 2] * (long long)NS_PER_SECOND);
        json_t *json = parse(text);
        task_estimate(&task, json, &share, &left);
        assert_float_equal(share, 0.25, 0.01);
        assert_float_equal(left, 300, 4);
        json_decref(json);
    }
    task_done(&task);
    assert_int_equal(task_remove(&store, id, true, NULL), 0);
}

/* What comes home of a run, if this is what its host sends: a size, and an archive of what a line for a shell makes there. */
static int gather(const struct task *task, uint64_t run, const char *size, const char *made, const char *packed)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT, script = BUF_INIT;
    char command[PATH_MAX + 1024];
    snprintf(
        command, sizeof command,
        "cd %s; printf '#!/bin/sh\\ncase $* in *\"; send \"*) cd %s/far; printf %%%%s \"%s\"; cat ../far.tar ;; "
        "esac\\n' "
        ">ssh; chmod 700 ssh; rm -rf far; mkdir -p far/files far/runs victim; cd far; : >runs/%d.whole; %s; tar -cf "
        "../far.tar %s",
        home, home, size, (int)run, made, packed);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/ssh", home);
    setenv("SCRY_SSH", command, 1);
    far_put_gather(&line, task, run);
    buf_puts(&script, "$(command -v bash || echo sh) -c ");
    text_quote(&script, line.data);
    buf_puts(&script, " 2>/dev/null");
    return system(script.data);
}

static bool is_there(const struct task *task, const char *name)
{
    char path[PATH_MAX * 2];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", task->dir, name);
    return lstat(path, &st) == 0;
}

/* The host of a run gets at nothing here but files of its task: not by links that it sends, of the run before or of the user's, nor
 * by a size that a shell would execute. */
static void test_hostile_host(void **state)
{
    (void)state;
    static const char size[] = "00000000000000010240";
    char id[TASK_ID_SIZE], path[PATH_MAX * 2];
    struct task task;
    make_task("{\"program\": \"a\", \"launch\": {\"by\": \"ssh\", \"hosts\": [\"n2\"]}}", "{}", id);
    assert_int_equal(task_load(&store, id, &task, NULL), 0);
    assert_int_equal(
        gather(&task, 1, size, "ln -s $PWD/../victim files/a; mkfifo runs/2.err; echo x >runs/1.out", "runs files"), 0);
    assert_true(is_there(&task, "runs/1.out") && is_there(&task, "runs/.1.here"));
    assert_false(is_there(&task, "files/a") || is_there(&task, "runs/2.err") || is_there(&task, "runs/.1.comes"));
    assert_int_equal(gather(&task, 2, size, "mkdir files/a; echo x >files/a/x", "runs/2.whole files/a/x"), 0);
    assert_true(is_there(&task, "files/a/x"));
    snprintf(path, sizeof path, "%s/files/own", task.dir);
    assert_int_equal(symlink("../../../../victim", path), 0);
    assert_int_not_equal(gather(&task, 3, size, "mkdir files/own; echo x >files/own/x", "runs/3.whole files/own/x"), 0);
    assert_false(is_there(&task, "runs/.3.here"));
    assert_int_not_equal(gather(&task, 4, "x[\\$(>../p)]         ", ":", "runs files"), 0);
    assert_false(is_there(&task, "../p") || is_there(&task, "runs/.4.here"));
    snprintf(path, sizeof path, "%s/victim", home);
    assert_int_equal(rmdir(path), 0); /* it is empty */
    task_done(&task);
    assert_int_equal(task_remove(&store, id, true, NULL), 0);
    unsetenv("SCRY_SSH");
}

static void make_program(const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/there", home);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/there/%s", home, name);
    assert_int_equal(file_replace_soon(path, text, strlen(text), 0700), 0);
}

/* A program has the arguments and the environment on another machine that it was given, whatever shell the user has there. */
static void test_far_start(void **state)
{
    (void)state;
    static const char *const shells[] = {"sh", "dash", "bash", "zsh", "tcsh", "fish", "ksh", "mksh"};
    static const char awkward[] = "'\\' \\\\ \\0041 !x !\n$t\"%s`*";
    char id[TASK_ID_SIZE], path[PATH_MAX * 2], text[PATH_MAX * 6];
    struct task task;
    make_task("{\"program\": \"a\", \"launch\": {\"by\": \"ssh\", \"hosts\": [\"n2\"]}, \"collect\": {\"logs\": "
              "[\"stderr=a'b\"]}, \"environment\": {\"t\": \"'\\\\' \\\\\\\\ \\\\0041 !x !\\n$t\\\"%s`*\"}}",
              "{}", id);
    assert_int_equal(task_load(&store, id, &task, NULL), 0);
    make_program("ssh", "#!/bin/sh\nfor line; do :; done\nHOME=${0%/*} PATH=${0%/*}:$PATH exec $LOGIN -c \"$line\"\n");
    make_program("scry", "#!/bin/sh\nprintf '%s|' \"$t\" \"$@\"\n");
    snprintf(path, sizeof path, "%s/there/ssh", home);
    setenv("SCRY_SSH", path, 1);
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        _cleanup_(buf_done) struct buf line = BUF_INIT, script = BUF_INIT;
        _cleanup_(freep) char *said = NULL;
        snprintf(text, sizeof text, "command -v %s >/dev/null", shells[i]);
        if (system(text) != 0)
            continue;
        setenv("LOGIN", shells[i], 1);
        buf_puts(&line, "-- ");
        text_quote(&line, awkward);
        far_put_start(&script, &task, 1, line.data);
        assert_int_equal(system(script.data), 0);
        snprintf(path, sizeof path, "%s/there/.cache/scry/tasks/%s/runs/1", home, id);
        snprintf(text, sizeof text, "%s|run|--output=%s|--log=%s.err=a'b|--|%s|", awkward, path, path, awkward);
        strcat(path, ".out");
        assert_int_equal(file_read(path, &said, NULL), 0);
        assert_string_equal(said, text);
    }
    unsetenv("SCRY_SSH");
    unsetenv("LOGIN");
    task_done(&task);
    assert_int_equal(task_remove(&store, id, true, NULL), 0);
}

/* What a run left behind on another machine, that says it as it likes. */
static void test_left_far(void **state)
{
    (void)state;
    static const char text[] = "sleep\nsleep\n\033[2J\377\na\nb\nc\nd\ne\nf\ng\nh\n";
    char id[TASK_ID_SIZE], path[PATH_MAX * 2];
    struct task task;
    make_task("{\"program\": \"a\"}",
              "{\"phases\": [{\"phase\": \"run\", \"run\": 1}, {\"phase\": \"gather\", \"run\": 1}]}", id);
    assert_int_equal(task_load(&store, id, &task, NULL), 0);
    const json_t *run = json_array_get(json_object_get(task.state, "phases"), 0);
    task_left_note_far(&task, 1);
    assert_null(json_object_get(run, "left_behind")); /* nothing */
    snprintf(path, sizeof path, "%s/runs/.1.left", task.dir);
    assert_int_equal(file_replace_soon(path, text, sizeof text - 1, 0600), 0);
    task_left_note_far(&task, 1);
    const json_t *left = json_object_get(run, "left_behind"), *names = json_object_get(left, "names");
    assert_int_equal(task_left_count(left), 11);
    assert_int_equal(json_array_size(names), 8);
    assert_string_equal(json_string_value(json_array_get(names, 0)), "sleep");
    task_done(&task);
    assert_int_equal(task_remove(&store, id, true, NULL), 0);
}

/* What stands in place of the runner says what it got of whoever started it. */
static void test_clean(void **state)
{
    (void)state;
    static const char script[] = "#!/bin/sh\n{ umask; env; ls -l /proc/self/fd; } >${0%/*}/part\nmv ${0%/*}/part "
                                 "${0%/*}/said\n";
    char dir[PATH_MAX], path[PATH_MAX + 32], *said = NULL;
    struct err err = {0};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    snprintf(dir, sizeof dir, "%s/libexec", home);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/scry-tasks", dir);
    assert_int_equal(file_replace_soon(path, script, sizeof script - 1, 0700), 0);
    setenv("SCRY_LIBEXEC", dir, 1);
    setenv("OF_THE_SERVER", "secret", 1);
    umask(0);
    assert_int_equal(task_runner_wake(&store, &err), 0);
    snprintf(path, sizeof path, "%s/said", dir);
    for (int i = 0; i < 6000 && file_read(path, &said, NULL) < 0; i++)
        usleep(10000);
    assert_non_null(said);
    assert_int_equal(strncmp(said, "0077\n", 5), 0);
    assert_non_null(strstr(said, "SCRY_LIBEXEC="));
    assert_null(strstr(said, "OF_THE_SERVER"));
    assert_null(strstr(said, "socket:"));
    free(said);
    close(pair[0]);
    close(pair[1]);
    unsetenv("SCRY_LIBEXEC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_alone),           cmocka_unit_test(test_scaling_verdict),
        cmocka_unit_test(test_scaling_crowded), cmocka_unit_test(test_scaling_failed),
        cmocka_unit_test(test_scaling_differs), cmocka_unit_test(test_scaling_of_threads),
        cmocka_unit_test(test_python),          cmocka_unit_test(test_files),
        cmocka_unit_test(test_names),           cmocka_unit_test(test_expected),
        cmocka_unit_test(test_estimate),        cmocka_unit_test(test_estimate_clock),
        cmocka_unit_test(test_clean),           cmocka_unit_test(test_hostile_host),
        cmocka_unit_test(test_mpi_of_library),  cmocka_unit_test(test_far_start),
        cmocka_unit_test(test_left_far)};
    return cmocka_run_group_tests(tests, begin, end);
}
