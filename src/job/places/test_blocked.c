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

/* What only one may have of a database of SQLite: to write, or of its log; not what readers share. */
static void test_database_locks(void **state)
{
    char text[] = "1: POSIX  ADVISORY  WRITE 12 fd:00:77 1073741825 1073741825\n"
                  "2: POSIX  ADVISORY  WRITE 13 fd:00:78 1073741826 1073742335\n"
                  "3: POSIX  ADVISORY  WRITE 14 fd:00:79 120 120\n"
                  "4: POSIX  ADVISORY  READ  15 fd:00:77 1073741826 1073742335\n"
                  "5: POSIX  ADVISORY  WRITE 16 fd:00:80 124 124\n"
                  "6: POSIX  ADVISORY  WRITE 17 fd:00:81 0 EOF\n"
                  "7: FLOCK  ADVISORY  WRITE 18 fd:00:82 0 EOF\n"
                  "8: OFDLCK ADVISORY  WRITE -1 fd:00:83 120 120\n"
                  "9: -> POSIX  ADVISORY  WRITE 19 fd:00:77 120 120\n";
    struct file_lock *locks;
    assert_int_equal(database_locks_parse(text, &locks), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(locks[i].holds, 12 + i);
        assert_int_equal(locks[i].log, i == 2);
    }
    assert_string_equal(locks[2].file, "fd:00:79");
    free(locks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_file_locks), cmocka_unit_test(test_database_locks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
