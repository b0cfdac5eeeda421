/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times, and what is none. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/data/number.h"

static void test_time(void **state)
{
    uint64_t ns;
    assert_true(time_parse("500us", &ns) && ns == 500000);
    assert_true(time_parse("1.5s", &ns) && ns == 1500000000);
    assert_true(time_parse("2 ms", &ns) && ns == 2000000);
    assert_true(time_parse("80ns", &ns) && ns == 80);
    assert_true(time_parse("1MS", &ns) && ns == 1000000);
    assert_true(time_parse("0", &ns) && ns == 0);
    assert_false(time_parse("5", &ns));
    assert_false(time_parse("", &ns));
    assert_false(time_parse("-1s", &ns));
    assert_true(time_parse("5 min", &ns) && ns == 300 * UINT64_C(1000000000));
    assert_true(time_parse("30m", &ns) && ns == 1800 * UINT64_C(1000000000));
    assert_true(time_parse("1.5h", &ns) && ns == 5400 * UINT64_C(1000000000));
    assert_true(time_parse("30d", &ns) && ns == 2592000 * UINT64_C(1000000000));
    assert_true(time_parse("2w", &ns) && ns == 1209600 * UINT64_C(1000000000));
    assert_false(time_parse("1y", &ns));
    assert_false(time_parse("1e30s", &ns));
}

static void test_size(void **state)
{
    uint64_t bytes;
    assert_true(size_parse("512", &bytes) && bytes == 512);
    assert_true(size_parse("64K", &bytes) && bytes == 65536);
    assert_true(size_parse("64k", &bytes) && bytes == 65536);
    assert_true(size_parse("2GiB", &bytes) && bytes == UINT64_C(2) << 30);
    assert_true(size_parse("2 GB", &bytes) && bytes == UINT64_C(2) << 30);
    assert_true(size_parse("1Ki", &bytes) && bytes == 1024);
    assert_true(size_parse("2p", &bytes) && bytes == UINT64_C(2) << 50);
    assert_true(size_parse("0", &bytes) && bytes == 0);
    assert_false(size_parse("", &bytes));
    assert_false(size_parse("-1", &bytes));
    assert_false(size_parse("1e30", &bytes));
    assert_false(size_parse("8192P", &bytes));
    assert_false(size_parse("12x", &bytes));
    assert_false(size_parse("inf", &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_time), cmocka_unit_test(test_size)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
