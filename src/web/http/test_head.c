/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    /* What visit.c refuses: nobody knows where the next one begins, and there is none. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_heads), cmocka_unit_test(test_bodies),
                                       cmocka_unit_test(test_limits), cmocka_unit_test(test_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
