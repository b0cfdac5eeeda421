/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "web/http/head.h"

#define GET "GET / HTTP/1.1\r\n"

/* In one piece, and byte by byte, it is the same. 0: all may pass. */
static int status_of_bytes(const char *text, size_t len)
{
    struct head whole = {0}, each = {0};
    const struct head_refusal *refusal = NULL, *found = NULL;
    head_take(&whole, text, len, &refusal);
    for (size_t i = 0; i < len && !found; i++)
        head_take(&each, text + i, 1, &found);
    assert_ptr_equal(refusal, found);
    return refusal ? refusal->status : 0;
}

static int status_of(const char *text)
{
    return status_of_bytes(text, strlen(text));
}

static void test_heads(void **state)
{
    assert_int_equal(status_of(GET "Host: x\r\n\r\n" GET "\r\n"), 0);
    assert_int_equal(status_of(GET "a: \xc3\xa4\tb \r\nB:\r\n\r\n"), 0);
    assert_int_equal(status_of("GET / HTTP/1.0\r\n\r\n"), 0);
    assert_int_equal(status_of("GET / HTTP/1.1\n"), 400);
    assert_int_equal(status_of(GET "\n"), 400);
    assert_int_equal(status_of(GET "a: b\n"), 400);
    assert_int_equal(status_of(GET "a: b\rc: d\r\n\r\n"), 400);
    assert_int_equal(status_of_bytes(GET "a: b\0c", sizeof GET + 5), 400);
    assert_int_equal(status_of_bytes(GET "a\0: b", sizeof GET + 4), 400);
    assert_int_equal(status_of(GET "a: b\r\n c"), 400); /* obs-fold */
    assert_int_equal(status_of(GET "a : b"), 400);
    assert_int_equal(status_of(GET "a\r\n"), 400);
    assert_int_equal(status_of(GET ": b"), 400);
    assert_int_equal(status_of("\r\n"), 400);
    assert_int_equal(status_of("GET /\r\n"), 400);
    assert_int_equal(status_of("GET /  HTTP/1.1\r\n"), 400);
    assert_int_equal(status_of("GET /a b HTTP/1.1\r\n"), 400);
    assert_int_equal(status_of("GET / HTTP/2.0\r\n"), 505);
    assert_int_equal(status_of("CONNECT x:80 HTTP/1.1\r\n"), 501);
    assert_int_equal(status_of("get / HTTP/1.1\r\n"), 501);
    assert_int_equal(status_of("GETGETGETGETGETGETGETGET / HTTP/1.1\r\n"), 501);
}

static void test_bodies(void **state)
{
    assert_int_equal(status_of("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n\n\n\n" GET "\r\n"), 0);
    assert_int_equal(status_of("POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n\n\n\n"), 400);
    /* What request.c refuses: nobody knows where the next one begins, and there is none. */
    assert_int_equal(status_of("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx\n"), 0);
    assert_int_equal(status_of("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\nx\n"), 0);
    assert_int_equal(status_of("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\nx\n"), 0);
    assert_int_equal(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\n"), 0);
    assert_int_equal(status_of("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\n"), 0);
}

static void test_limits(void **state)
{
    char *text = malloc(2 * HEAD_MOST);
    assert_non_null(text);
    size_t len = (size_t)sprintf(text, GET);
    for (int i = 0; i < HEAD_HEADERS_MOST; i++)
        len += (size_t)sprintf(text + len, "a: b\r\n");
    sprintf(text + len, "\r\n");
    assert_int_equal(status_of(text), 0);
    sprintf(text + len, "a: b\r\n\r\n");
    assert_int_equal(status_of(text), 431);
    memset(text, 'a', 2 * HEAD_MOST);
    memcpy(text, GET "a: ", sizeof GET + 2);
    assert_int_equal(status_of_bytes(text, HEAD_MOST), 0);
    assert_int_equal(status_of_bytes(text, HEAD_MOST + 1), 431);
    memset(text, 'a', 2 * HEAD_MOST);
    memcpy(text, "GET /", 5);
    assert_int_equal(status_of_bytes(text, HEAD_LINE_MOST), 0);
    assert_int_equal(status_of_bytes(text, HEAD_LINE_MOST + 1), 414);
    memset(text, '&', HEAD_ARGUMENTS_MOST + 7);
    memcpy(text, "GET /?", 6);
    assert_int_equal(status_of_bytes(text, HEAD_ARGUMENTS_MOST + 6), 0);
    assert_int_equal(status_of_bytes(text, HEAD_ARGUMENTS_MOST + 7), 414);
    free(text);
}

/* Whole requests before one that is refused are answered. */
static void test_before(void **state)
{
    static const char first[] = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
    const struct head_refusal *refusal;
    struct head head = {0};
    char text[200];
    int len = snprintf(text, sizeof text, "%s" GET "a: b\n", first);
    assert_int_equal(head_take(&head, text, (size_t)len, &refusal), sizeof first - 1);
    assert_int_equal(refusal->status, 400);
    head = (struct head){0};
    assert_int_equal(head_take(&head, GET "a", sizeof GET, &refusal), sizeof GET);
    assert_int_equal(head_take(&head, "\n", 1, &refusal), 0);
    assert_non_null(refusal);
}

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
        cmocka_unit_test(test_heads),     cmocka_unit_test(test_bodies),  cmocka_unit_test(test_limits),
        cmocka_unit_test(test_before),    cmocka_unit_test(test_cookies), cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_tags),      cmocka_unit_test(test_ranges),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
