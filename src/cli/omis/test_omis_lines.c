/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>

#include "cli/omis/shell.h"

/* Feeds the text in pieces of every size; the lines must be the same each time. */
static void expect(struct span text, const struct span *lines, size_t count)
{
    for (size_t piece = 1; piece <= text.len; piece++) {
        struct omis_lines reader = {0};
        size_t found = 0;
        struct span line;
        for (size_t at = 0; at < text.len; at += piece) {
            omis_lines_feed(&reader, text.ptr + at, text.len - at < piece ? text.len - at : piece);
            while (omis_lines_next(&reader, false, &line)) {
                assert_true(found < count);
                assert_true(span_eq(line, lines[found]));
                found++;
            }
        }
        while (omis_lines_next(&reader, true, &line)) {
            assert_true(found < count);
            assert_true(span_eq(line, lines[found]));
            found++;
        }
        assert_int_equal(found, count);
        omis_lines_done(&reader);
    }
}

#define TEXT(literal) span_of(literal, sizeof literal - 1)
#define EXPECT(text, ...) \
    do { \
        const struct span lines[] = {__VA_ARGS__}; \
        expect(TEXT(text), lines, sizeof lines / sizeof *lines); \
    } while (0)

static void test_lines(void **state)
{
    EXPECT("a\n\nb\n", TEXT("a"), TEXT(""), TEXT("b"));
    EXPECT("a\nrest", TEXT("a"), TEXT("rest"));
    EXPECT("\n", TEXT(""));
}

static void test_binary_data(void **state)
{
    EXPECT(": f(3#\n\n\n)\nb\n", TEXT(": f(3#\n\n\n)"), TEXT("b"));
    EXPECT(": f(4#\"\0\n\",1)\nb", TEXT(": f(4#\"\0\n\",1)"), TEXT("b"));
    EXPECT(": f(0#)\nb", TEXT(": f(0#)"), TEXT("b"));
    EXPECT(": f(12#0123456789\n\n)\nb", TEXT(": f(12#0123456789\n\n)"), TEXT("b"));
    EXPECT(": f(99#cut\nshort", TEXT(": f(99#cut\nshort"));
}

static void test_what_is_no_binary_data(void **state)
{
    EXPECT(": f(p_3#\n\n)", TEXT(": f(p_3#"), TEXT(""), TEXT(")"));
    EXPECT(": f(\"3#\")\nb", TEXT(": f(\"3#\")"), TEXT("b"));
    EXPECT(": f(\"\\\"3#\")\nb", TEXT(": f(\"\\\"3#\")"), TEXT("b"));
    EXPECT(": f(\"open\n3#\n\n\nb\n", TEXT(": f(\"open"), TEXT("3#\n\n\nb"));
    EXPECT(": f(99999999999999999999#x\nb", TEXT(": f(99999999999999999999#x"), TEXT("b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_binary_data),
        cmocka_unit_test(test_what_is_no_binary_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
