/* SPDX-License-Identifier: Apache-2.0 */
/* Job directories are found by id, name and path, and listed. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "jobdir/record/test_jobdir.h"

static void make_named(const char *id, uint64_t started_ns, const char *name)
{
    char path[256];
    struct err err = {0};
    struct job_info info = example_info(NULL);
    assert_int_equal(jobdir_make(id, NULL, path, sizeof path, &err), 0);
    info.id = id;
    info.started_ns = started_ns;
    info.name = name;
    assert_int_equal(write_info(path, &info), 0);
}

static void make_described(const char *id, uint64_t started_ns)
{
    make_named(id, started_ns, example_info(NULL).name);
}

static void test_find(void **state)
{
    struct place *place = *state;
    char path[256], again[256];
    struct err err = {0};
    assert_int_equal(jobdir_find("@last", path, sizeof path, &err), -ENOENT);
    make_described("20260101T000000-h-1-aaaaaa", 5);
    make_described("20260102T000000-h-1-aaaaaa", 9); /* the same second: the one that started last */
    make_described("20260102T000000-h-2-bbbbbb", 8);
    assert_int_equal(jobdir_make("20260104T000000-h-1-dddddd", NULL, path, sizeof path, &err), 0); /* it is starting */
    assert_int_equal(jobdir_find("@last", path, sizeof path, &err), 0);
    assert_non_null(strstr(path, "20260102T000000-h-1-aaaaaa"));
    assert_int_equal(jobdir_find("20260101", path, sizeof path, &err), 0);
    assert_non_null(strstr(path, "20260101T000000-h-1-aaaaaa"));
    assert_int_equal(jobdir_find("20260102", path, sizeof path, &err), -ENOTUNIQ);
    assert_non_null(strstr(err.text, "2 jobs"));
    assert_int_equal(jobdir_find("2027", path, sizeof path, &err), -ENOENT);
    assert_non_null(strstr(err.text, "no job '2027' here"));
    assert_int_equal(jobdir_find("", path, sizeof path, &err), -ENOENT);
    assert_int_equal(jobdir_find(place->root, path, sizeof path, &err), -ENOENT);
    assert_non_null(strstr(err.text, "job.json"));
    /* one made elsewhere is found by its id, too */
    char elsewhere[128];
    snprintf(elsewhere, sizeof elsewhere, "%s/else/where", place->root);
    assert_int_equal(jobdir_make("20260103T000000-h-1-cccccc", elsewhere, path, sizeof path, &err), 0);
    struct job_info info = example_info(NULL);
    info.id = "20260103T000000-h-1-cccccc";
    assert_int_equal(write_info(path, &info), 0);
    assert_int_equal(jobdir_find("20260103", again, sizeof again, &err), 0);
    assert_int_equal(jobdir_find(elsewhere, again, sizeof again, &err), 0);
    assert_int_equal(jobdir_make("x", elsewhere, path, sizeof path, &err), -EEXIST);
    remove_tree(elsewhere);
    char **paths;
    size_t count;
    assert_int_equal(jobdir_list(&paths, &count, &err), 0);
    assert_int_equal(count, 3);
    assert_non_null(strstr(paths[0], "20260101T000000-h-1-aaaaaa"));
    assert_non_null(strstr(paths[1], "20260102T000000-h-2-bbbbbb")); /* of a second: by their start */
    assert_non_null(strstr(paths[2], "20260102T000000-h-1-aaaaaa"));
    jobdir_list_free(paths, count);
    char id[JOB_ID_SIZE], other[JOB_ID_SIZE];
    jobdir_new_id(id);
    jobdir_new_id(other);
    assert_string_not_equal(id, other);
    assert_null(strpbrk(id, "./ "));
}

static void test_find_named(void **state)
{
    char path[256];
    struct err err = {0};
    make_named("20260101T000000-h-1-aaaaaa", 5, "solver");
    make_named("20260102T000000-h-1-aaaaaa", 6, "solver");
    make_named("20260103T000000-h-1-aaaaaa", 7, "2026010");
    assert_int_equal(jobdir_find("solver", path, sizeof path, &err), 0); /* the newest */
    assert_non_null(strstr(path, "20260102T000000-h-1-aaaaaa"));
    assert_int_equal(jobdir_find("solve", path, sizeof path, &err), -ENOENT); /* a name is given whole */
    assert_int_equal(jobdir_find("2026010", path, sizeof path, &err), 0);     /* before the beginning of an id */
    assert_non_null(strstr(path, "20260103T000000-h-1-aaaaaa"));
    assert_int_equal(jobdir_find_only("2026010", path, sizeof path, &err), 0);
    assert_int_equal(jobdir_find_only("20260102", path, sizeof path, &err), 0);
    assert_int_equal(jobdir_find_only("solver", path, sizeof path, &err), -ENOTUNIQ);
    assert_non_null(strstr(err.text, "2 jobs have the name 'solver', for instance 20260101T000000-h-1-aaaaaa and "
                                     "20260102T000000-h-1-aaaaaa: give an id"));
}

/* Job directories may be put there under any name, also a job twice. What scry removes by itself is not among them. */
static void test_dropped(void **state)
{
    struct place *place = *state;
    char path[256], id[JOB_ID_SIZE];
    struct err err = {0};
    struct job_info info = example_info(NULL);
    static const char *const names[] = {"monday", "-tuesday", "not_a_job", ".hidden"};
    info.started_ns = 5;
    make_described("20260101T000000-h-1-aaaaaa", 5);
    make_described("20260103T000000-h-1-cccccc", 7);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", place->jobs, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        info.id = i ? "20260101T000000-h-1-aaaaaa" : "20260102T000000-h-1-bbbbbb";
        if (i != 2)
            assert_int_equal(write_info(path, &info), 0);
    }
    static const char *const listed[] = {"monday", "-tuesday", "20260101T000000-h-1-aaaaaa",
                                         "20260103T000000-h-1-cccccc"};
    char **paths;
    size_t count;
    assert_int_equal(jobdir_list(&paths, &count, &err), 0);
    assert_int_equal(count, 4);
    assert_string_equal(strrchr(paths[0], '/') + 1, listed[1]);
    assert_string_equal(strrchr(paths[1], '/') + 1, listed[2]);
    assert_string_equal(strrchr(paths[2], '/') + 1, listed[0]);
    assert_string_equal(strrchr(paths[3], '/') + 1, listed[3]);
    jobdir_id(paths[2], id);
    assert_string_equal(id, "20260102T000000-h-1-bbbbbb");
    jobdir_list_free(paths, count);
    assert_int_equal(jobdir_list_own(&paths, &count, &err), 0);
    assert_int_equal(count, 2);
    jobdir_list_free(paths, count);
    assert_int_equal(jobdir_find_only("20260102T000000-h-1-bbbbbb", path, sizeof path, &err), 0);
    assert_non_null(strstr(path, "/monday"));
    assert_int_equal(jobdir_find_only("20260101T000000-h-1-aaaaaa", path, sizeof path, &err), 0);
    assert_null(strstr(path, "tuesday"));
    assert_int_equal(jobdir_find("monday", path, sizeof path, &err), 0);
}

/* A directory that was used again (scry run -o) is one job, the last one. */
static void test_used_again(void **state)
{
    struct place *place = *state;
    char elsewhere[128], path[256];
    struct err err = {0};
    struct job_info info = example_info(NULL);
    snprintf(elsewhere, sizeof elsewhere, "%s/else/where", place->root);
    make_described("20260102T000000-h-1-bbbbbb", 6);
    static const char *const ids[] = {"20260101T000000-h-1-aaaaaa", "20260103T000000-h-1-cccccc"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(jobdir_make(ids[i], elsewhere, path, sizeof path, &err), 0);
        info.id = ids[i];
        assert_int_equal(write_info(path, &info), 0);
        if (i == 0)
            remove_tree(elsewhere);
    }
    char **paths;
    size_t count;
    assert_int_equal(jobdir_list(&paths, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_non_null(strstr(paths[0], "20260102T000000-h-1-bbbbbb"));
    assert_non_null(strstr(paths[1], "20260103T000000-h-1-cccccc"));
    jobdir_list_free(paths, count);
    assert_int_equal(jobdir_find("20260101", path, sizeof path, &err), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(test_find),
        IN_PLACE(test_find_named),
        IN_PLACE(test_dropped),
        IN_PLACE(test_used_again),
    };
    return cmocka_run_group_tests_name("find", tests, NULL, NULL);
}
