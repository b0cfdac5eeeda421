/* SPDX-License-Identifier: Apache-2.0 */
/* Folders in memory that go with a directory: whose they are, who may enter, and when they end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/memory_dir.h"

static char root[64], of[64], ours[96];
static struct err err;

static int setup(void **state)
{
    (void)state;
    err = (struct err){0};
    strcpy(root, MEMORY_DIR_ROOT "/scry-test-XXXXXX");
    strcpy(of, "/tmp/scry-test-of-XXXXXX");
    if (!memory_dir_is_memory(MEMORY_DIR_ROOT) || !mkdtemp(root)) {
        *root = 0;
        return mkdtemp(of) ? 0 : -1;
    }
    snprintf(ours, sizeof ours, "%s/scry-%u", root, geteuid());
    return mkdtemp(of) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[256];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", *root ? root : of, of);
    return system(command);
}

#define NEEDS_MEMORY() \
    do { \
        if (!*root) \
            skip(); \
    } while (0)

static struct memory_dir opened(const char *directory, bool known)
{
    struct memory_dir dir;
    assert_int_equal(memory_dir_find(&dir, root, directory), 0);
    if (memory_dir_open(&dir, directory, known, &err) < 0)
        fail_msg("%s", err.text);
    return dir;
}

static void put_file(const struct memory_dir *dir, const char *name)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static bool has_file(const struct memory_dir *dir, const char *name)
{
    return faccessat(dir->fd, name, F_OK, 0) == 0;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool none_lives(const char *name)
{
    (void)name;
    return false;
}

static bool one_lives(const char *name)
{
    return strcmp(name, "living") == 0;
}

static void a_folder_is_private_and_goes_as_a_whole(void **state)
{
    (void)state;
    NEEDS_MEMORY();
    struct memory_dir dir = opened(of, false);
    struct stat st;
    assert_int_equal(stat(dir.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(ours, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    put_file(&dir, "1");
    memory_dir_remove(&dir);
    assert_false(exists(dir.path));
    assert_false(exists(ours));
}

static void what_is_known_stays(void **state)
{
    (void)state;
    NEEDS_MEMORY();
    struct memory_dir dir = opened(of, false);
    put_file(&dir, "1");
    memory_dir_close(&dir);
    dir = opened(of, true);
    assert_true(has_file(&dir, "1"));
    memory_dir_close(&dir);
    dir = opened(of, false); /* of a directory before this one, with the same number */
    assert_false(has_file(&dir, "1"));
    memory_dir_close(&dir);
}

static void what_is_used_is_not_cleared(void **state)
{
    (void)state;
    NEEDS_MEMORY();
    struct memory_dir dir = opened(of, false), other;
    put_file(&dir, "1");
    assert_int_equal(memory_dir_find(&other, root, of), 0);
    assert_int_equal(memory_dir_open(&other, of, false, &err), -EWOULDBLOCK);
    other = opened(of, true);
    memory_dir_remove(&other);
    assert_true(has_file(&dir, "1"));
    memory_dir_remove(&dir);
    assert_false(exists(ours));
}

static void directories_do_not_mix(void **state)
{
    (void)state;
    NEEDS_MEMORY();
    char second[96];
    snprintf(second, sizeof second, "%s/second", of);
    assert_int_equal(mkdir(second, 0700), 0);
    struct memory_dir one = opened(of, false), two = opened(second, false);
    assert_string_not_equal(one.path, two.path);
    put_file(&one, "1");
    assert_false(has_file(&two, "1"));
    memory_dir_remove(&two);
    assert_true(has_file(&one, "1"));
    memory_dir_remove(&one);
}

static void nobody_elses_folder_is_entered(void **state)
{
    (void)state;
    NEEDS_MEMORY();
    struct memory_dir dir;
    assert_int_equal(memory_dir_find(&dir, root, of), 0);
    assert_int_equal(symlink(of, ours), 0);
    assert_true(memory_dir_open(&dir, of, false, &err) < 0);
    assert_int_equal(unlink(ours), 0);
    assert_int_equal(mkdir(ours, 0700), 0);
    assert_int_equal(chmod(ours, 0770), 0);
    assert_int_equal(memory_dir_open(&dir, of, false, &err), -EPERM);
    assert_int_equal(chmod(ours, 0700), 0);
    assert_int_equal(symlink(of, dir.path), 0);
    assert_true(memory_dir_open(&dir, of, false, &err) < 0);
    assert_int_equal(unlink(dir.path), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(ours, 12345, 12345), 0);
        assert_int_equal(memory_dir_open(&dir, of, false, &err), -EPERM);
        memory_dir_sweep(root, none_lives);
        assert_true(exists(ours));
    }
}

static void roots_that_are_left_alone(void **state)
{
    (void)state;
    NEEDS_MEMORY();
    assert_true(memory_dir_look("/nonexistent", &err) < 0);
    assert_int_equal(memory_dir_look("/proc", &err), -ENODEV);
    assert_int_equal(chmod(root, 0777), 0); /* not sticky */
    assert_int_equal(memory_dir_look(root, &err), -EPERM);
    struct memory_dir dir = opened(of, false);
    assert_false(memory_dir_has_room(&dir, UINT64_MAX));
    memory_dir_remove(&dir);
}

static void folders_without_their_directory_are_swept(void **state)
{
    (void)state;
    NEEDS_MEMORY();
    char names[4][96];
    struct memory_dir dirs[4];
    for (size_t i = 0; i < 4; i++) {
        snprintf(names[i], sizeof names[i], "%s/%zu", of, i);
        assert_int_equal(mkdir(names[i], 0700), 0);
        dirs[i] = opened(names[i], false);
        put_file(&dirs[i], i == 2 ? "living" : "dead");
    }
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(rmdir(names[i]), 0);
    for (size_t i = 0; i < 3; i++)
        memory_dir_close(&dirs[i]);
    memory_dir_sweep(root, one_lives);
    assert_true(exists(dirs[0].path));  /* the directory is there */
    assert_false(exists(dirs[1].path)); /* nobody's */
    assert_true(exists(dirs[2].path));  /* something in it is of use */
    assert_true(exists(dirs[3].path));  /* somebody has it open */
    memory_dir_close(&dirs[3]);
    memory_dir_sweep(root, none_lives);
    assert_true(exists(dirs[0].path));
    assert_false(exists(dirs[2].path));
    assert_false(exists(dirs[3].path));
    assert_int_equal(rmdir(names[0]), 0);
    memory_dir_sweep(root, none_lives);
    assert_false(exists(ours));
}

/* One comes while another goes, again and again: whoever has opened a folder has one that is there. */
static void coming_and_going_at_once(void **state)
{
    enum { PROCESSES = 4, TURNS = 200 };
    (void)state;
    NEEDS_MEMORY();
    pid_t pids[PROCESSES];
    for (size_t i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            bool well = true;
            for (unsigned n = 0; n < TURNS && well; n++) {
                struct memory_dir dir;
                well = memory_dir_find(&dir, root, of) == 0 && memory_dir_open(&dir, of, true, &err) == 0 &&
                       faccessat(dir.fd, ".", F_OK, 0) == 0 && exists(dir.path);
                if (n % 2)
                    memory_dir_remove(&dir);
                else
                    memory_dir_close(&dir);
            }
            _exit(well ? 0 : 1);
        }
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    struct memory_dir dir = opened(of, true);
    memory_dir_remove(&dir);
    assert_false(exists(ours));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_is_private_and_goes_as_a_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_known_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_used_is_not_cleared, setup, teardown),
        cmocka_unit_test_setup_teardown(directories_do_not_mix, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_elses_folder_is_entered, setup, teardown),
        cmocka_unit_test_setup_teardown(roots_that_are_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(folders_without_their_directory_are_swept, setup, teardown),
        cmocka_unit_test_setup_teardown(coming_and_going_at_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
