/* SPDX-License-Identifier: Apache-2.0 */
/* The stack that Open MPI prints of a rank that crashed, among what others say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "job/run/said_stack.h"

static struct said_frame frames[SAID_FRAMES];

static void test_stack(void **state)
{
    static const char text[] = "[n:7] [ 0] /lib/libc.so.6(+0x3c050)[0x7f158739f050]\n"
                               "[n:7] [ 1] ./old(+0x1)[0x1001]\n"
                               "step 3 [n:7] [ 2] ./old(+0x1)[0x1001]\n"
                               "[n:7] *** Process received signal ***\n"
                               "[n:7] [ 0] /lib/libc.so.6(+0x3c050)[0x7f158739f050]\n"
                               "[n:8] [ 1] ./other(+0x1)[0x1001]\n"
                               "[n1:7] [ 0] ./far(+0x1)[0x1001]\n"
                               "[n1:7] [ 1] ./far(+0x1)[0x1001]\n"
                               "[n:7] [ 1] ./a (1)/mc(+0x1175)[0x5652fe126175]\n"
                               "[n:7] [ 3] ./lost(+0x1)[0x1001]\n"
                               "[n:7] [ 2] ./mc(main+0x12)[0x5652fe1261c3]\n"
                               "[n:7] [ 3] ./mcnp[0x401162]\n"
                               "[n:7] [ 4] ./mcnp() [0x401163]\n"
                               "[n:7] [ 5] [0x1]\n"
                               "[n:7] *** End of error message ***";
    static const struct said_frame expected[] = {
        {"./a (1)/mc", "", 0x5652fe126175, true, 0x5652fe125000},
        {"./mc", "main", 0x5652fe1261c3, false, 0},
        {"./mcnp", "", 0x401162, false, 0},
        {"./mcnp", "", 0x401163, false, 0},
    };
    assert_int_equal(said_stack_parse(text, strlen(text), "n.site", 7, frames), sizeof expected / sizeof *expected);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_string_equal(frames[i].module, expected[i].module);
        assert_string_equal(frames[i].symbol, expected[i].symbol);
        assert_int_equal(frames[i].address, expected[i].address);
        assert_int_equal(frames[i].based, expected[i].based);
        assert_int_equal(frames[i].bias, expected[i].bias);
    }
    assert_int_equal(said_stack_parse(text, strlen(text), "n.site", 9, frames), 0);
}

static void test_stack_of_ucx(void **state)
{
#define HEAD \
    "[n:853  :0:854] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))\n" \
    "==== backtrace (tid:    854) ====\n" \
    " 0  /lib/libucs.so.0(ucs_handle_error+0x2dc) [0x7fcef10a9e9c]\n" \
    " 1  /lib/libucs.so.0(+0x2908c) [0x7fcef10aa08c]\n" \
    " 2  /lib/libc.so.6(+0x3c050) [0x7fceee65a050]\n" \
    " 3  ./mcm(+0x1175) [0x55df59cd9175]\n"
    static const struct {
        const char *text;
        size_t count;
    } rows[] = {
        {HEAD " 4  ./mcm(+0x11be) [0x55df59cd91be]\n=================================\n", 2},
        {HEAD "=================================\n[n:999  :0:999] Caught signal 11\n==== backtrace (tid:    999) "
              "====\n 0  ./x(+0x1)[0x11]\n",
         1},
        {HEAD " 3  ./mcm(+0x1175) [0x55df59cd9175]\n=================================\n",
         0}, /* another rank's, perhaps */
        {HEAD "step 4\n 4  ./mcm(+0x11be) [0x55df59cd91be]\n=================================\n", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(said_stack_parse(rows[i].text, strlen(rows[i].text), "n.site", 853, frames), rows[i].count);
        if (rows[i].count)
            assert_int_equal(frames[0].bias, 0x55df59cd8000);
        assert_int_equal(said_stack_parse(rows[i].text, strlen(rows[i].text), "n.site", 854, frames), 0);
    }
}

static void test_damaged(void **state)
{
    static const char *const lines[] = {"",
                                        "[",
                                        "[:7",
                                        "[n:7] [ 1] ",
                                        "[n:7] [ 1] x",
                                        "[n:7] [ 1] [",
                                        "[n:7] [ 1] x[0x",
                                        "[n:7] [ 1] )[0x1]",
                                        "[n:7] [ 1] (+0x1)[0x1]",
                                        "[n:7] [ 1] x[0xg]"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(said_stack_parse(lines[i], strlen(lines[i]), "n.site", 7, frames), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stack), cmocka_unit_test(test_stack_of_ucx),
                                       cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests_name("said_stack", tests, NULL, NULL);
}
