/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/own_memory.h"

enum { SIZE = 16384 };

static char *map_and_cut(int *ret_fd)
{
    int fd = memfd_create("cut", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    char *bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(bytes != MAP_FAILED);
    memset(bytes, 'x', SIZE);
    assert_int_equal(ftruncate(fd, 5000), 0);
    *ret_fd = fd;
    return bytes;
}

static void test_cut_file(void **state)
{
    int fd;
    char *bytes = map_and_cut(&fd);
    uint64_t before = map_guard_faults();
    map_guard_install();
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(bytes[i], i < 5000 ? 'x' : 0);
    memset(bytes + 8192, 'y', 8192);
    assert_int_equal(map_guard_faults() - before, 2);
    munmap(bytes, SIZE);
    close(fd);
}

/* A fault that is no such thing ends the process as ever. */
static void test_other_faults(void **state)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        map_guard_install();
        raise(SIGBUS);
        raise(SIGBUS);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_file),
        cmocka_unit_test(test_other_faults),
    };
    return cmocka_run_group_tests_name("map_guard", tests, NULL, NULL);
}
