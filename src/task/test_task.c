/* SPDX-License-Identifier: Apache-2.0 */
/* What people and pages may ask for, and what they may not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/dirs.h"
#include "task/answer.h"
#include "task/internal.h"
#include "task/launch.h"
#include "task/spec.h"
#include "task/start.h"

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
        {"{\"program\": \"a\", \"directory\": \"x\"}", "directory: expected an absolute path, or null, not \"x\""},
        {"{\"program\": \"a\", \"environment\": {\"A=B\": \"\"}}",
         "environment.A=B: a variable's name has letters, digits and _"},
        {"{\"program\": \"a\", \"environment\": {\"A\": 1}}",
         "environment.A: expected a text of at most 102400 bytes, not 1"},
        {"{\"program\": \"a\", \"arguments\": \"x\"}", "arguments: expected a list of at most 4096 texts, not \"x\""},
        {"{\"program\": \"a\", \"collect\": {\"functions\": [\"nothing:\"]}}", NULL},
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
    json_t *json = parse("{\"program\": \"./p\", \"files\": [\"p\"], \"limits\": {\"disk_bytes\": 1048576}}");
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

/* In place of the runner: says who it is, and what it got. */
static void see_runner_of(uid_t uid)
{
    static const char script[] =
        "#!/bin/sh\n{ id -u; id -ru; echo \"groups $(id -G) .\"; umask; grep ^Cap /proc/self/status; env; ls -l "
        "/proc/self/fd; } >${0%/*}/out/part\nmv ${0%/*}/out/part "
        "${0%/*}/out/said\n";
    char dir[PATH_MAX], path[PATH_MAX + 32], expected[64], *said = NULL;
    snprintf(dir, sizeof dir, "%s/libexec%u", home, (unsigned)uid);
    chmod(home, 0711);
    assert_int_equal(mkdir(dir, 0755), 0);
    snprintf(path, sizeof path, "%s/out", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, uid, (gid_t)-1), 0);
    snprintf(path, sizeof path, "%s/scry-tasks", dir);
    assert_int_equal(file_replace_soon(path, script, sizeof script - 1, 0755), 0);
    setenv("SCRY_LIBEXEC", dir, 1);
    setenv("OF_THE_SERVER", "secret", 1);
    struct err err = {0};
    assert_int_equal(task_runner_start(uid, &err), 0);
    snprintf(path, sizeof path, "%s/out/said", dir);
    for (int i = 0; i < 6000 && file_read(path, &said, NULL) < 0; i++)
        usleep(10000);
    assert_non_null(said);
    snprintf(expected, sizeof expected, "%u\n%u\n", (unsigned)uid, (unsigned)uid);
    assert_int_equal(strncmp(said, expected, strlen(expected)), 0);
    assert_non_null(strstr(said, "\n0077\n"));
    static const char *const none[] = {"CapInh", "CapPrm", "CapEff", "CapAmb"}; /* no capabilities */
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        snprintf(expected, sizeof expected, "\n%s:\t0000000000000000\n", none[i]);
        assert_non_null(strstr(said, expected));
    }
    const char *groups = strstr(said, "groups "), *root = groups ? strstr(groups, " 0 ") : NULL;
    assert_true(groups && (!root || root > strchr(groups, '\n')));
    assert_null(strstr(said, "OF_THE_SERVER"));
    assert_null(strstr(said, "SCRY_LIBEXEC"));
    assert_null(strstr(said, "socket:"));
    free(said);
    unsetenv("SCRY_LIBEXEC");
}

static void test_users(void **state)
{
    (void)state;
    struct err err;
    uid_t nobody = 65534, unknown = 3999999999;
    if (geteuid() == 0) {
        assert_int_equal(task_runner_start(unknown, &err), -ENOENT);
        see_runner_of(nobody);
        see_runner_of(1); /* another one, beside */
    } else {
        assert_int_equal(task_runner_start(geteuid() == nobody ? 1 : nobody, &err), -EPERM);
        assert_int_equal(task_runner_start(0, &err), -EPERM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_alone),    cmocka_unit_test(test_python),
                                       cmocka_unit_test(test_files),    cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_users)};
    return cmocka_run_group_tests(tests, begin, end);
}
