/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "web/http/head.h"

static void check_cookie(const char *header, const char *value)
{
    struct span found = foreign_cookie(span_str(header), "scry_1");
    assert_true(span_is(found, value));
}

static void test_cookies(void **state)
{
    check_cookie("scry_1=abc", "abc");
    check_cookie("a=b; scry_1=abc; scry_12=x", "abc");
    check_cookie("xscry_1=abc", "");
    check_cookie("scry_1=abc; scry_1=abc", ""); /* nobody knows which */
    check_cookie("scry_1", "");
    check_cookie(";;=;", "");
}

static void test_gzip(void **state)
{
    assert_true(foreign_takes_gzip(span_str("gzip")));
    assert_true(foreign_takes_gzip(span_str("br, GZIP;q=0.5")));
    assert_false(foreign_takes_gzip(span_str("gzip;q=0")));
    assert_false(foreign_takes_gzip(span_str("gzip ; q=0.000")));
    assert_false(foreign_takes_gzip(span_str("br, x-gzip")));
}

static void test_tags(void **state)
{
    assert_true(foreign_has_tag(span_str("\"a\", W/\"b\""), "\"b\""));
    assert_true(foreign_has_tag(span_str(" * "), "\"b\""));
    assert_false(foreign_has_tag(span_str("\"ab\""), "\"b\""));
}

static void check_range_of(uint64_t size, const char *header, enum foreign_range wanted, uint64_t from, uint64_t len)
{
    uint64_t its_from = 0, its_len = 0;
    assert_int_equal(foreign_range(span_str(header), size, &its_from, &its_len), wanted);
    assert_int_equal(its_from, from);
    assert_int_equal(its_len, len);
}

static void check_range(const char *header, enum foreign_range wanted, uint64_t from, uint64_t len)
{
    check_range_of(10, header, wanted, from, len);
}

static void test_ranges(void **state)
{
    check_range("bytes=0-0", RANGE_PART, 0, 1);
    check_range("bytes=3-", RANGE_PART, 3, 7);
    check_range("bytes=3-99", RANGE_PART, 3, 7);
    check_range("bytes=-4", RANGE_PART, 6, 4);
    check_range("bytes=-99", RANGE_PART, 0, 10);
    check_range("bytes=-0", RANGE_BEYOND, 0, 0);
    check_range("bytes=10-", RANGE_BEYOND, 0, 0);
    check_range_of(0, "bytes=-4", RANGE_NONE, 0, 0);
    check_range_of(0, "bytes=-0", RANGE_BEYOND, 0, 0);
    check_range_of(0, "bytes=0-", RANGE_BEYOND, 0, 0);
    check_range("bytes=5-3", RANGE_NONE, 0, 0);
    check_range("bytes=0-1,3-4", RANGE_NONE, 0, 0);
    check_range("bytes=99999999999999999999-", RANGE_NONE, 0, 0);
    check_range("lines=1-2", RANGE_NONE, 0, 0);
}

static void test_names(void **state)
{
    assert_true(foreign_is_id(span_str("20260101T000000-host.site-1-ab")));
    assert_false(foreign_is_id(span_str("..")));
    assert_false(foreign_is_id(span_str("-o")));
    assert_false(foreign_is_id(span_str("a/b")));
    assert_false(foreign_is_id(span_str("")));
    assert_true(foreign_is_path(span_str("a/b.js")));
    assert_false(foreign_is_path(span_str("a/../b")));
    assert_false(foreign_is_path(span_str("a//b")));
    assert_false(foreign_is_path(span_str("a/")));
    assert_false(foreign_is_path(span_str("/a")));
}

static void test_positions(void **state)
{
    static struct position position;
    struct buf out = BUF_INIT;
    position_put(&out, 0, 123456789, true);
    position_put(&out, position_name("node7"), 42, false);
    assert_true(position_parse(span_of(out.data, out.len), &position));
    assert_int_equal(position_of(&position, 0), 123456789);
    assert_int_equal(position_of(&position, position_name("node7")), 42);
    assert_int_equal(position_of(&position, position_name("node8")), 0);
    assert_false(position_parse(span_str("1,2"), &position));
    assert_false(position_parse(span_str("a:1"), &position));
    assert_false(position_parse(span_str("zzzzzzzzzzzzzzzz"), &position));
    assert_int_equal(position.count, 0);
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cookies), cmocka_unit_test(test_gzip),  cmocka_unit_test(test_tags),
        cmocka_unit_test(test_ranges),  cmocka_unit_test(test_names), cmocka_unit_test(test_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
