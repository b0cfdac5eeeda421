/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a process, whatever that calls itself. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/proc_file.h"

#define NUMBERS \
    " 4711 12 13 0 -1 4194304 101 0 102 0 250 50 0 0 20 -5 3 0 987654 4096000 100 18446744073709551615 1 2 3333 0 0 " \
    "0 " \
    "0 0 0 0 0 0 17 5 0 0 0 0 0 6 7 8 70 90 91 92 256\n"

static void test_line(void **state)
{
    static const char *const names[] = {"cat", "a b", "x) R 1 (", "))", "((", "two\nlines) S 9", ""};
    char text[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct proc_stat stat;
        snprintf(text, sizeof text, "42 (%s) S%s", names[i], NUMBERS);
        assert_int_equal(proc_stat_parse(text, &stat), 0);
        assert_string_equal(stat.comm, names[i]);
        assert_int_equal(stat.pid, 42);
        assert_int_equal(stat.state, 'S');
        assert_int_equal(stat.ppid, 4711);
        assert_int_equal(stat.nice, -5);
        assert_int_equal(stat.threads, 3);
        assert_int_equal(stat.start_ticks, 987654);
        assert_int_equal(stat.user_ns, 5 * stat.system_ns);
        assert_int_equal(stat.start_stack, 3333);
        assert_int_equal(stat.processor, 5);
        assert_int_equal(stat.arg_start, 70);
        assert_int_equal(stat.arg_end, 90);
        assert_int_equal(stat.exit_code, 256);
        assert_false(stat.never_executed);
    }
}

static void test_other_lines(void **state)
{
    static const char *const lines[] = {"",         "42",        "42 (cat",         "42 )cat( S 1",
                                        "42 (cat)", "42 (cat) ", "42 (cat) S 1 2 3"};
    struct proc_stat stat;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(proc_stat_parse(lines[i], &stat), -EBADMSG);
}

static void test_process(void **state)
{
    struct proc_stat stat, self;
    char comm[64];
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "S) Z\n(");
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_int_equal(proc_stat_of(pid, 0, &stat), 0);
    assert_int_equal(stat.pid, pid);
    assert_int_equal(stat.ppid, getpid());
    assert_int_equal(stat.state, 'T');
    assert_string_equal(stat.comm, "S) Z\n(");
    assert_int_equal(proc_letter(pid, pid), 'T');
    assert_int_equal(proc_status_number(pid, 0, "PPid"), getpid());
    assert_int_equal(proc_status_number(pid, pid, "TracerPid"), 0);
    assert_int_equal(proc_status_number(pid, 0, "Pid"), pid);
    assert_int_equal(proc_status_number(pid, 0, "NoSuchThing"), -1);
    proc_comm(pid, 0, comm, sizeof comm);
    assert_string_equal(comm, "S) Z"); /* its first line */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(proc_stat_of(pid, 0, &stat), -ESRCH);
    assert_int_equal(proc_letter(pid, 0), 0);
    assert_int_equal(proc_status_number(pid, 0, "Pid"), -1);
    proc_comm(pid, 0, comm, sizeof comm);
    assert_string_equal(comm, "");
    assert_int_equal(proc_stat_of(0, 0, &self), 0);
    assert_int_equal(self.pid, getpid());
    assert_true(self.arg_start && self.arg_end > self.arg_start);
}

static void test_peek(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), text[16] = "";
    assert_ptr_not_equal(memory, MAP_FAILED);
    memcpy(memory + page - 4, "abcdefgh", 8);
    uint64_t at = (uint64_t)(uintptr_t)(memory + page - 4);
    assert_int_equal(proc_peek(getpid(), at, text, 8), 8);
    assert_string_equal(text, "abcdefgh");
    mprotect(memory + page, page, PROT_NONE);
    assert_int_equal(proc_peek(getpid(), at, text, 8), 4); /* the next page cannot be read */
    assert_int_equal(proc_peek(getpid(), at + 4, text, 8), 0);
    assert_int_equal(errno, EFAULT);
    munmap(memory, 2 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_line), cmocka_unit_test(test_other_lines),
                                       cmocka_unit_test(test_process), cmocka_unit_test(test_peek)};
    return cmocka_run_group_tests_name("proc_file", tests, NULL, NULL);
}
