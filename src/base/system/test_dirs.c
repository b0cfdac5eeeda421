/* SPDX-License-Identifier: Apache-2.0 */
/* Directories and errors. */
#include <pwd.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/system/dirs.h"
#include "base/system/file.h"

static char dir[64], path[PATH_MAX], got[PATH_MAX];
static struct err err;

static int setup(void **state)
{
    static const char *const names[] = {"SCRY_RUNTIME_DIR", "XDG_RUNTIME_DIR", "SCRY_STATE_DIR",
                                        "XDG_STATE_HOME",   "SCRY_LIBEXEC",    "SCRY_EXT_PATH"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    snprintf(dir, sizeof dir, "/tmp/scry-test-dirs-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static const char *in_dir(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void the_runtime_directory_is_private(void **state)
{
    struct stat st;
    setenv("XDG_RUNTIME_DIR", dir, 1);
    assert_int_equal(dirs_runtime(got, sizeof got, &err), 0);
    assert_string_equal(got, in_dir("scry"));
    assert_int_equal(stat(got, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    setenv("SCRY_RUNTIME_DIR", in_dir("a/b"), 1);
    assert_int_equal(dirs_runtime(got, sizeof got, &err), 0);
    assert_string_equal(got, in_dir("a/b"));
    assert_int_equal(dirs_runtime(got, 4, &err), -ENAMETOOLONG);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(dirs_runtime(got, sizeof got, &err), -EPERM);
    assert_non_null(strstr(err.text, "chmod 700"));
    char far[200];
    memset(far, 'x', sizeof far - 1);
    far[0] = '/';
    far[sizeof far - 1] = 0;
    setenv("SCRY_RUNTIME_DIR", far, 1);
    assert_int_equal(dirs_runtime(got, sizeof got, &err), -ENAMETOOLONG);
}

static void a_foreign_runtime_directory_is_refused(void **state)
{
    setenv("SCRY_RUNTIME_DIR", in_dir("link"), 1);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_int_equal(dirs_runtime(got, sizeof got, &err), -ENOTDIR);
    if (geteuid() != 0)
        return; /* only root can give a directory away */
    setenv("SCRY_RUNTIME_DIR", in_dir("theirs"), 1);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(dirs_runtime(got, sizeof got, &err), -EPERM);
    assert_non_null(strstr(err.text, "belongs to user 12345"));
}

/* Somebody else was first with the name in /tmp: another one is taken, below a directory of the user's own, and stays it. */
static void the_name_in_tmp_is_taken(void **state)
{
    enum { SOMEBODY = 852516352 }; /* a user whom no machine has */
    char taken[64];
    if (geteuid() != 0) {
        print_message("SKIP: only root can be another user\n");
        skip();
    }
    snprintf(taken, sizeof taken, "/tmp/scry-%u", (unsigned)SOMEBODY);
    assert_int_equal(mkdir(taken, 0700), 0);
    assert_int_equal(chown(taken, 12345, 12345), 0);
    assert_int_equal(chmod(dir, 0711), 0);
    assert_int_equal(mkdir(in_dir("home"), 0700), 0);
    assert_int_equal(chown(path, SOMEBODY, SOMEBODY), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char first[PATH_MAX];
        int status = setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 && setenv("XDG_STATE_HOME", path, 1) == 0 ? 0 : 1;
        struct stat st;
        status |= dirs_runtime(first, sizeof first, &err) != 0 || strncmp(first, path, strlen(path)) != 0 ? 2 : 0;
        status |= lstat(first, &st) < 0 || st.st_uid != SOMEBODY || (st.st_mode & 0777) != 0700 ? 4 : 0;
        status |= dirs_runtime(got, sizeof got, &err) != 0 || strcmp(got, first) != 0 ? 8 : 0;
        _exit(status);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(taken), 0);
    assert_int_equal(status, 0);
    pid = fork(); /* the name in /tmp is free again: the monitor of before is found all the same */
    if (pid == 0) {
        bool same = setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 && setenv("XDG_STATE_HOME", path, 1) == 0 &&
                    dirs_runtime(got, sizeof got, &err) == 0 && strncmp(got, path, strlen(path)) == 0;
        _exit(!same);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void the_runtime_directory_is_made_again(void **state)
{
    setenv("SCRY_RUNTIME_DIR", in_dir("a/b"), 1);
    assert_int_equal(dirs_runtime(got, sizeof got, &err), 0);
    int fd = open(got, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(file_is_at(got, fd));
    assert_int_equal(dirs_runtime_again(got, &err), 0);
    assert_true(file_is_at(got, fd));
    assert_int_equal(rmdir(got), 0);
    assert_false(file_is_at(got, fd));
    assert_int_equal(dirs_runtime_again(got, &err), 0);
    assert_false(file_is_at(got, fd)); /* another one */
    assert_int_equal(chmod(got, 0755), 0);
    assert_int_equal(dirs_runtime_again(got, &err), -EPERM);
    assert_int_equal(rmdir(got), 0);
    assert_int_equal(rmdir(in_dir("a")), 0);
    assert_int_equal(dirs_runtime_again(got, &err), -ENOENT);
    close(fd);
}

static void a_runtime_path_too_long_for_sockets_is_not_used(void **state)
{
    char far[PATH_MAX];
    snprintf(far, sizeof far, "%s/%090d", dir, 0);
    assert_int_equal(mkdir(far, 0700), 0);
    setenv("XDG_RUNTIME_DIR", far, 1);
    snprintf(path, sizeof path, "/tmp/scry-%u", geteuid());
    bool was_there = access(path, F_OK) == 0;
    assert_int_equal(dirs_runtime(got, sizeof got, &err), 0);
    assert_string_equal(got, path);
    if (!was_there)
        rmdir(path);
}

static void the_jobs_directory_is_made(void **state)
{
    setenv("XDG_STATE_HOME", dir, 1);
    assert_int_equal(dirs_jobs(got, sizeof got, &err), 0);
    assert_string_equal(got, in_dir("scry/jobs"));
    assert_int_equal(access(got, W_OK), 0);
    setenv("SCRY_STATE_DIR", in_dir("own"), 1);
    assert_int_equal(dirs_jobs(got, sizeof got, &err), 0);
    assert_string_equal(got, in_dir("own"));
    unsetenv("SCRY_STATE_DIR");
    unsetenv("XDG_STATE_HOME");
    char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    unsetenv("HOME");
    const struct passwd *user = getpwuid(geteuid());
    assert_non_null(user);
    if (access(user->pw_dir, F_OK) == 0) { /* as the user database has it */
        assert_int_equal(dirs_jobs_find(got, sizeof got, &err), 0);
        assert_memory_equal(got, user->pw_dir, strlen(user->pw_dir));
    }
    setenv("HOME", "", 1);
    assert_int_equal(dirs_jobs(got, sizeof got, &err), -ENOENT);
    assert_non_null(strstr(err.text, "HOME is not set"));
    setenv("HOME", home, 1);
    free(home);
}

static void homes_that_are_none_are_left_alone(void **state)
{
    char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    setenv("XDG_STATE_HOME", "relative", 1); /* the XDG specification: to be ignored */
    setenv("HOME", "relative", 1);
    assert_int_equal(dirs_jobs(got, sizeof got, &err), -ENOENT);
    assert_int_equal(access("relative", F_OK), -1);
    setenv("HOME", in_dir("nobody"), 1);
    assert_int_equal(dirs_jobs(got, sizeof got, &err), -ENOENT);
    assert_non_null(strstr(err.text, in_dir("nobody")));
    assert_int_equal(access(in_dir("nobody"), F_OK), -1);
    setenv("HOME", home, 1);
    unsetenv("XDG_STATE_HOME");
    free(home);
}

/* What is old is removed there: nothing else may be in such a directory. */
static void caches_are_in_a_directory_of_their_own(void **state)
{
    unsetenv("SCRY_CACHE_DIR");
    setenv("XDG_CACHE_HOME", dir, 1);
    assert_int_equal(dirs_cache("pictures", got, sizeof got, &err), 0);
    assert_string_equal(got, in_dir("scry/pictures"));
    setenv("SCRY_CACHE_DIR", in_dir("home"), 1);
    assert_int_equal(dirs_cache("pictures", got, sizeof got, &err), 0);
    assert_string_equal(got, in_dir("home/scry/pictures"));
    unsetenv("SCRY_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
}

static void programs_are_found(void **state)
{
    setenv("SCRY_LIBEXEC", dir, 1);
    assert_int_equal(file_replace(in_dir("scry-thing"), "#!", 2, 0755), 0);
    assert_int_equal(dirs_libexec("scry-thing", got, sizeof got, &err), 0);
    assert_string_equal(got, path);
    assert_true(dirs_libexec("scry-no-such-program", got, sizeof got, &err) < 0);
    assert_non_null(strstr(err.text, "scry-no-such-program"));
}

static void remember(void *ctx, const char *found)
{
    buf_puts(ctx, found);
    buf_putc(ctx, ';');
}

static void extension_directories_are_listed(void **state)
{
    char list[3 * PATH_MAX], want[PATH_MAX];
    struct buf found = BUF_INIT;
    snprintf(list, sizeof list, ":%s:/no/such/directory:%s", dir, dir);
    setenv("SCRY_EXT_PATH", list, 1);
    dirs_extensions(remember, &found);
    snprintf(want, sizeof want, "%s;%s;", dir, dir);
    assert_true(found.len >= strlen(want));
    assert_memory_equal(found.data, want, strlen(want));
    buf_done(&found);
}

static void errors_are_cut_and_never_overflow(void **state)
{
    char longer[2 * ERR_TEXT_SIZE];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(err_set(&err, -EINVAL, "%s", longer), -EINVAL);
    assert_int_equal(strlen(err.text), ERR_TEXT_SIZE - 1);
    assert_int_equal(err_errno(&err, -ENOENT, "%s", longer), -ENOENT);
    assert_int_equal(err_errno(&err, -ENOENT, "file"), -ENOENT);
    assert_string_equal(err.text, "file: No such file or directory");
    assert_int_equal(err.code, -ENOENT);
    err_errno(&err, -99999, "what");
    assert_string_equal(err.text, "what: unknown error");
    assert_int_equal(err_set(NULL, -EIO, "nobody asks"), -EIO);
    assert_int_equal(err_errno(NULL, -EIO, "nobody asks"), -EIO);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(the_runtime_directory_is_private),
        EACH(a_foreign_runtime_directory_is_refused),
        EACH(the_name_in_tmp_is_taken),
        EACH(the_runtime_directory_is_made_again),
        EACH(a_runtime_path_too_long_for_sockets_is_not_used),
        EACH(the_jobs_directory_is_made),
        EACH(homes_that_are_none_are_left_alone),
        EACH(caches_are_in_a_directory_of_their_own),
        EACH(programs_are_found),
        EACH(extension_directories_are_listed),
        EACH(errors_are_cut_and_never_overflow),
    };
    return cmocka_run_group_tests_name("dirs", tests, NULL, NULL);
}
