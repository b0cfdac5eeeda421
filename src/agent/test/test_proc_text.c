/* SPDX-License-Identifier: Apache-2.0 */
/* What a process reads of itself and of others by system calls alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/system/proc_text.h"

static void test_line(void **state)
{
    static const char *const names[] = {"cat", "a b", "x) R 1 (", "))", "two\nlines) S 9", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[128] = "42 (";
        strcat(strcat(line, names[i]), ") S 4711 12");
        const char *at = proc_text_stat(line, 4);
        assert_int_equal(*proc_text_stat(line, 3), 'S');
        assert_int_equal(proc_text_number(&at, 10), 4711);
        assert_string_equal(proc_text_stat(line, 5), "12");
        assert_string_equal(proc_text_stat(line, 6), "");
    }
    assert_string_equal(proc_text_stat("", 3), "");
    assert_string_equal(proc_text_stat("42 (cat", 3), "");
    assert_string_equal(proc_text_stat("42 (cat)", 3), "");
}

static void test_self(void **state)
{
    char self[1024], other[1024], none[16];
    prctl(PR_SET_NAME, ") Z (");
    proc_text_read(0, "stat", self, sizeof self);
    proc_text_read(getpid(), "stat", other, sizeof other);
    assert_int_equal(*proc_text_stat(self, 3), 'R');
    const char *one = proc_text_stat(self, 22), *same = proc_text_stat(other, 22), *parent = proc_text_stat(self, 4);
    assert_int_equal(proc_text_number(&one, 10), proc_text_number(&same, 10));
    assert_int_equal(proc_text_number(&parent, 10), getppid());
    proc_text_read(0, "nothing", none, sizeof none);
    assert_string_equal(none, "");
}

/* Whatever lies at the end of what is read at a time. */
static void test_mapping(void **state)
{
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static const size_t sizes[] = {1, 7, 64, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char buffer[4096];
        uint64_t low, high, at = (uint64_t)page;
        assert_int_equal(proc_text_mapping(at, buffer, sizes[i], &low, &high), PROT_READ);
        assert_true(low <= at && at + 4096 <= high);
        assert_int_equal(proc_text_mapping((uint64_t)&test_mapping, buffer, sizes[i], &low, &high),
                         PROT_READ | PROT_EXEC);
        assert_int_equal(proc_text_mapping(1, buffer, sizes[i], &low, &high), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_line), cmocka_unit_test(test_self),
                                       cmocka_unit_test(test_mapping)};
    return cmocka_run_group_tests_name("proc_text", tests, NULL, NULL);
}
