/* SPDX-License-Identifier: Apache-2.0 */
/* Files, and what others may have put in their place. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/file.h"

static char dir[64], path[PATH_MAX], victim[PATH_MAX];
static struct err err;

static const char *in_dir(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int setup(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/scry-test-file-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(victim, sizeof victim, "%s/victim", dir);
    return file_replace(victim, "dear", 4, 0600);
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void assert_holds(const char *name, const char *text)
{
    char *bytes = NULL;
    assert_int_equal(file_read(name, &bytes, NULL), 0);
    assert_string_equal(bytes, text);
    free(bytes);
}

static void assert_nothing_temporary(void)
{
    DIR *left = opendir(dir);
    for (const struct dirent *entry; (entry = readdir(left));)
        assert_null(strstr(entry->d_name, ".tmp"));
    closedir(left);
}

static void only_what_is_ones_own_is_removed(void **state)
{
    int fd = open(in_dir("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(unlink(path), 0);
    int other = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    file_unlink_own(path, fd);
    file_unlink_own(path, -1);
    assert_int_equal(access(path, F_OK), 0);
    file_unlink_own(path, other);
    assert_int_equal(access(path, F_OK), -1);
    close(fd);
    close(other);
}

static void files_are_read_and_replaced(void **state)
{
    char *bytes = NULL;
    size_t len;
    assert_int_equal(file_replace(in_dir("file"), "a\0b", 3, 0640), 0);
    assert_int_equal(file_read(path, &bytes, &len), 0);
    assert_int_equal(len, 3);
    assert_memory_equal(bytes, "a\0b\0", 4);
    free(bytes);
    char *large = malloc(1 << 20);
    assert_non_null(large);
    memset(large, 'x', 1 << 20);
    assert_int_equal(file_replace(path, large, 1 << 20, 0640), 0);
    free(large);
    assert_int_equal(file_read(path, &bytes, &len), 0);
    assert_int_equal(len, 1 << 20);
    assert_int_equal(bytes[len], 0);
    free(bytes);
    assert_int_equal(file_replace(path, "", 0, 0640), 0);
    assert_int_equal(file_read(path, &bytes, &len), 0);
    assert_int_equal(len, 0);
    assert_string_equal(bytes, "");
    free(bytes);
    assert_int_equal(file_read("/proc/self/status", &bytes, NULL), 0); /* its size is 0 */
    assert_non_null(strstr(bytes, "Name:"));
    free(bytes);
    assert_int_equal(file_read(in_dir("none"), &bytes, &len), -ENOENT);
    assert_int_equal(file_read(dir, &bytes, &len), -EISDIR);
    assert_int_equal(file_replace(in_dir("none/file"), "x", 1, 0600), -ENOENT);
}

static void the_start_of_a_file_is_read_and_no_pipe_is_waited_for(void **state)
{
    char text[4];
    size_t len;
    assert_int_equal(file_replace(in_dir("file"), "abcdef", 6, 0600), 0);
    assert_int_equal(file_read_start(path, text, sizeof text, &len), 0);
    assert_string_equal(text, "abc");
    assert_int_equal(len, 3);
    assert_int_equal(file_read_start(in_dir("none"), text, sizeof text, NULL), -ENOENT);
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    assert_int_equal(file_read_start(path, text, sizeof text, &len), 0);
    assert_int_equal(len, 0);
}

static void a_failed_replacement_keeps_the_old_file(void **state)
{
    assert_int_equal(mkdir(in_dir("directory"), 0700), 0);
    assert_int_equal(file_replace(path, "x", 1, 0600), -EISDIR);
    assert_nothing_temporary();
}

static void what_others_may_have_put_there_keeps_no_reader(void **state)
{
    char *bytes = NULL;
    size_t len;
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_int_equal(file_read_plain(path, &bytes, &len), -EINVAL);
    assert_null(file_open_plain(path));
    assert_int_equal(file_read_plain("/dev/zero", &bytes, &len), -EINVAL);
    assert_int_equal(file_read_plain(dir, &bytes, &len), -EINVAL);
    assert_int_equal(truncate(victim, (off_t)FILE_PLAIN_MOST + 1), 0);
    assert_int_equal(file_read_plain(victim, &bytes, &len), -EFBIG);
    assert_int_equal(truncate(victim, 3), 0);
    assert_int_equal(file_read_plain(victim, &bytes, &len), 0);
    assert_int_equal(len, 3);
    assert_string_equal(bytes, "dea");
    free(bytes);
}

/* To open a device may rewind a tape, or start a watchdog. */
static void what_is_no_file_is_not_even_opened(void **state)
{
    char event[sizeof(struct inotify_event) + NAME_MAX + 1];
    int opened = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), fd;
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_true(inotify_add_watch(opened, path, IN_OPEN) >= 0);
    assert_int_equal(file_open_read(path), -EINVAL);
    assert_int_equal(file_open_own(AT_FDCWD, path, O_RDONLY), -EINVAL);
    assert_int_equal(read(opened, event, sizeof event), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(symlink(victim, in_dir("link")), 0);
    assert_int_equal(file_open_own(AT_FDCWD, path, O_RDONLY), -EINVAL);
    fd = file_open_own(AT_FDCWD, victim, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    close(opened);
}

static void what_is_written_in_place_is_a_file(void **state)
{
    assert_int_equal(symlink(victim, in_dir("link")), 0);
    assert_int_equal(file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC), -ELOOP);
    assert_int_equal(symlink("nowhere", in_dir("dangling")), 0);
    assert_int_equal(file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT), -ELOOP);
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_int_equal(file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT), -ENXIO); /* at once, though nobody reads */
    assert_int_equal(file_open_own(AT_FDCWD, path, O_RDWR), -EINVAL);
    assert_int_equal(file_open_own(AT_FDCWD, dir, O_WRONLY), -EISDIR);
    assert_int_equal(file_open_own(AT_FDCWD, victim, O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
    assert_int_equal(file_open_own(AT_FDCWD, in_dir("none"), O_WRONLY), -ENOENT);
    assert_holds(victim, "dear");
    int fd = file_open_own(AT_FDCWD, victim, O_WRONLY | O_CREAT | O_APPEND);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFL) & (O_APPEND | O_NONBLOCK),
                     O_APPEND); /* a program that gets it sees no other flags */
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(file_write_all(fd, "est", 3), 0);
    close(fd);
    assert_holds(victim, "dearest");
    fd = file_open_own(AT_FDCWD, victim, O_WRONLY | O_TRUNC);
    close(fd);
    assert_holds(victim, "");
}

static void a_link_is_replaced_and_not_followed(void **state)
{
    struct stat st;
    assert_int_equal(symlink(victim, in_dir("link")), 0);
    assert_int_equal(file_replace(path, "new", 3, 0600), 0);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_holds(path, "new");
    assert_holds(victim, "dear");
    assert_nothing_temporary();
}

static void a_new_file_takes_its_place_or_goes(void **state)
{
    struct file_fresh fresh, other;
    int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_fresh_open(&fresh, at, "thing", 0640), 0);
    assert_int_equal(file_fresh_open(&other, at, "thing", 0640),
                     0); /* two at once are in each other's way by no name */
    assert_string_not_equal(fresh.temporary, other.temporary);
    assert_int_equal(file_write_all(fresh.fd, "one", 3), 0);
    assert_int_equal(file_write_all(other.fd, "other", 5), 0);
    assert_int_equal(file_fresh_place(&fresh, true), 0);
    file_fresh_done(&fresh);
    assert_int_equal(file_fresh_place(&other, true), -EEXIST);
    assert_holds(in_dir("thing"), "one");
    assert_int_equal(file_fresh_place(&other, false), 0);
    file_fresh_done(&other);
    assert_holds(in_dir("thing"), "other");
    assert_int_equal(file_fresh_open(&fresh, at, "gone", 0640), 0);
    file_fresh_done(&fresh);
    file_fresh_done(&fresh);
    assert_int_equal(access(in_dir("gone"), F_OK), -1);
    assert_nothing_temporary();
    memset(path, 'x', NAME_MAX);
    path[NAME_MAX] = 0;
    assert_int_equal(file_fresh_open(&fresh, at, path, 0640), -ENAMETOOLONG);
    file_fresh_done(&fresh);
    assert_int_equal(file_fresh_open(&fresh, at, "folder/", 0640), -EISDIR);
    file_fresh_done(&fresh);
    close(at);
}

static void a_directory_is_ones_own(void **state)
{
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_check_own_directory(fd, dir, &err), 0);
    for (mode_t bit = 020; bit; bit = bit == 020 ? 02 : 0) {
        assert_int_equal(chmod(dir, 0700 | bit), 0);
        assert_int_equal(file_check_own_directory(fd, "it", &err), -EPERM);
        assert_string_equal(err.text, "others can write to it (chmod go-w it)");
    }
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(file_check_own_directory(fd, dir, NULL), 0);
    close(fd);
    fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC); /* root's; another's is in test/system/test_foreign.py */
    assert_int_equal(file_check_own_directory(fd, "/", NULL), geteuid() ? -EPERM : 0);
    close(fd);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* Where the file system can make files without a name. */
static void a_killed_writer_leaves_nothing(void **state)
{
    int able = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), status;
    if (able < 0) {
        print_message("SKIP: no files without a name in %s\n", dir);
        skip();
    }
    close(able);
    pid_t pid = fork();
    if (pid == 0) {
        struct file_fresh fresh;
        if (file_fresh_open(&fresh, AT_FDCWD, in_dir("half"), 0640) == 0 && file_write_all(fresh.fd, "half", 4) == 0)
            raise(SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_nothing_temporary();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(only_what_is_ones_own_is_removed),
        EACH(files_are_read_and_replaced),
        EACH(a_failed_replacement_keeps_the_old_file),
        EACH(what_others_may_have_put_there_keeps_no_reader),
        EACH(what_is_written_in_place_is_a_file),
        EACH(a_link_is_replaced_and_not_followed),
        EACH(a_new_file_takes_its_place_or_goes),
        EACH(a_directory_is_ones_own),
        EACH(what_is_no_file_is_not_even_opened),
        EACH(a_killed_writer_leaves_nothing),
        EACH(the_start_of_a_file_is_read_and_no_pipe_is_waited_for),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
