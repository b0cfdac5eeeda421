/* SPDX-License-Identifier: Apache-2.0 */
/* What others could change is not trusted, wherever on the path it is. */
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
#include <unistd.h>

#include "base/system/dirs.h"

static char top[64], path[PATH_MAX], got[PATH_MAX];
static struct err err;

static const char *in_top(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", top, name);
    return path;
}

/* TOP/dir/file */
static int setup(void **state)
{
    snprintf(top, sizeof top, "/tmp/scry-test-trusted-XXXXXX");
    if (!mkdtemp(top) || mkdir(in_top("dir"), 0755) < 0)
        return -1;
    int fd = open(in_top("dir/file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", top);
    return system(command);
}

static void trusted(const char *name, mode_t type, const char *want)
{
    char expected[PATH_MAX];
    snprintf(expected, sizeof expected, "%s/%s", top, want);
    if (trusted_path(got, in_top(name), type, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    assert_string_equal(got, expected);
}

static void refused(const char *name, mode_t type, int code, const char *why)
{
    assert_int_equal(trusted_path(got, in_top(name), type, &err), code);
    if (!strstr(err.text, why))
        fail_msg("%s: %s", name, err.text);
}

static void mode(const char *name, mode_t bits)
{
    assert_int_equal(chmod(in_top(name), bits), 0);
}

static void one_s_own_is_trusted(void **state)
{
    trusted("dir/file", S_IFREG, "dir/file");
    trusted("dir", S_IFDIR, "dir");
    trusted("dir/", S_IFDIR, "dir");
    trusted(".//dir/../dir/./file", S_IFREG, "dir/file");
    refused("dir", S_IFREG, -EPERM, "is no file");
    refused("dir/file", S_IFDIR, -EPERM, "is no directory");
    refused("dir/none", S_IFREG, -ENOENT, "dir/none: No such file");
    refused("dir/file/on", S_IFREG, -ENOTDIR, "Not a directory");
    assert_int_equal(chdir(top), 0);
    assert_int_equal(trusted_path(got, "dir/file", S_IFREG, &err), 0);
    assert_string_equal(got, in_top("dir/file"));
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(trusted_path(got, "/..", S_IFDIR, &err), 0);
    assert_string_equal(got, "/");
}

static void what_others_write_to_is_refused(void **state)
{
    static const mode_t bits[] = {020, 002};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        mode("dir/file", 0755 | bits[i]);
        refused("dir/file", S_IFREG, -EPERM, "dir/file (chmod go-w it)");
        mode("dir/file", 0755);
        mode("dir", 0755 | bits[i]);
        refused("dir/file", S_IFREG, -EPERM, "dir (chmod go-w it)");
        refused("dir", S_IFDIR, -EPERM, "dir (chmod go-w it)");
        mode("dir", 01755 | bits[i]); /* others put files of their own there, but cannot exchange ours */
        trusted("dir/file", S_IFREG, "dir/file");
        refused("dir", S_IFDIR, -EPERM, "dir (chmod go-w it)");
        mode("dir", 0755);
        mode("", 0755 | bits[i]);
        refused("dir/file", S_IFREG, -EPERM, "others can write to");
        mode("", 0700);
    }
}

static void links_are_followed_and_looked_at(void **state)
{
    assert_int_equal(mkdir(in_top("open"), 0755), 0);
    assert_int_equal(symlink("../dir", in_top("open/near")), 0);
    assert_int_equal(symlink(top, in_top("far")), 0);
    assert_int_equal(symlink("self", in_top("self")), 0);
    trusted("open/near/file", S_IFREG, "dir/file");
    trusted("far/far/open/near/", S_IFDIR, "dir");
    refused("self", S_IFREG, -ELOOP, "self");
    mode("open", 0777); /* the link can be exchanged, though it leads to a good place */
    refused("open/near/file", S_IFREG, -EPERM, "open (chmod go-w it)");
    mode("open", 0755);
    mode("dir", 0777);
    refused("open/near/file", S_IFREG, -EPERM, "dir (chmod go-w it)");
}

static void what_is_another_s_is_refused(void **state)
{
    if (geteuid() != 0) {
        print_message("SKIP: only root can give a file away\n");
        skip();
    }
    assert_int_equal(symlink("dir/file", in_top("link")), 0);
    assert_int_equal(lchown(in_top("link"), 12345, 12345), 0);
    refused("link", S_IFREG, -EPERM, "link belongs to user 12345, not to you or root");
    assert_int_equal(chown(in_top("dir"), 12345, 12345), 0);
    refused("dir/file", S_IFREG, -EPERM, "dir belongs to user 12345");
    refused("dir", S_IFDIR, -EPERM, "dir belongs to user 12345");
}

/* Whoever can change what the program lies in needs no extension. */
static void what_the_program_lies_in_is_not_judged(void **state)
{
    char command[512];
    snprintf(command, sizeof command, "chmod 777 %s/dir && cp /proc/%d/exe %s/dir/program && %s/dir/program %s", top,
             (int)getpid(), top, top, top);
    assert_int_equal(system(command), 0); /* this program, from a directory that others can write to: see main */
    refused("dir/program", S_IFREG, -EPERM, "dir (chmod go-w it)");
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(int argc, char **argv)
{
    if (argc == 2) {
        snprintf(top, sizeof top, "%s", argv[1]);
        return trusted_path(got, in_top("dir/program"), S_IFREG, &err) < 0 ||
               trusted_path(got, in_top("dir"), S_IFDIR, &err) < 0;
    }
    const struct CMUnitTest tests[] = {
        EACH(one_s_own_is_trusted),
        EACH(what_others_write_to_is_refused),
        EACH(links_are_followed_and_looked_at),
        EACH(what_is_another_s_is_refused),
        EACH(what_the_program_lies_in_is_not_judged),
    };
    return cmocka_run_group_tests_name("trusted", tests, NULL, NULL);
}
