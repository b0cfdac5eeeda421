/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "job/places/blocked.h"

/* Who waits for whom, and which open files have the lock: that of the same file, by the same call, of the same taker. */
static void test_file_locks(void **state)
{
    char text[] = "1: FLOCK  ADVISORY  WRITE 16713 fd:00:2531452 0 EOF\n"
                  "1: -> FLOCK  ADVISORY  WRITE 16924 fd:00:2531452 0 EOF\n"
                  "2: POSIX  ADVISORY  WRITE 12 fd:00:77 0 EOF\n"
                  "3: OFDLCK ADVISORY  WRITE -1 fd:00:78 0 EOF\n"
                  "3: -> OFDLCK ADVISORY  WRITE -1 fd:00:78 0 EOF\n";
    static const struct {
        const char *fdinfo;
        bool has;
    } rows[] = {
        {"pos:\t0\nflags:\t02100001\nino:\t2531452\nlock:\t1: FLOCK  ADVISORY  WRITE 16713 fd:00:2531452 0 EOF\n",
         true},
        {"lock:\t1: POSIX  ADVISORY  WRITE 16713 fd:00:2531452 0 5\nlock:\t2: FLOCK  ADVISORY  READ 16713 "
         "fd:00:2531452 0 EOF\n",
         true},
        {"lock:\t1: POSIX  ADVISORY  WRITE 16713 fd:00:2531452 0 EOF\n", false},
        {"lock:\t1: FLOCK  ADVISORY  WRITE 16713 fd:00:25314 0 EOF\n", false},
        {"lock:\t1: FLOCK  ADVISORY  WRITE 1671 fd:00:2531452 0 EOF\n", false},
        {"pos:\t0\nflags:\t02100001\nmnt_id:\t27\n", false},
        {"lock:", false},
    };
    struct file_lock *locks;
    assert_int_equal(file_locks_parse(text, &locks), 1);
    assert_int_equal(locks[0].waits, 16924);
    assert_int_equal(locks[0].holds, 16713);
    assert_true(locks[0].flock);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(file_lock_is_in(&locks[0], rows[i].fdinfo), rows[i].has);
    free(locks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_file_locks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
