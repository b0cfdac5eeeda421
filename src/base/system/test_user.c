/* SPDX-License-Identifier: Apache-2.0 */
/* A user has one name everywhere, also one that no database knows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/system/process.h"

static void test_name(void **state)
{
    char name[USER_NAME_BYTES], narrow[4];
    assert_string_equal(user_name(0, name, sizeof name), "root");
    assert_string_equal(user_name(0, narrow, sizeof narrow), "roo");
}

static void test_number(void **state)
{
    char name[USER_NAME_BYTES];
    assert_string_equal(user_name(3999999999U, name, sizeof name), "3999999999");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
