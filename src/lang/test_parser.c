/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: the tree, each error with its place, each limit. (What is accepted is mostly in test/lang.) */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/system/clock.h"
#include "lang/request.h"

static struct arena arena;
static struct err err;

static int teardown(void **state)
{
    arena_done(&arena);
    return 0;
}

static int parse_span(struct span text, struct request *ret_request)
{
    arena_reset(&arena);
    err = (struct err){0};
    return request_parse(&arena, text, ret_request, &err);
}

static struct request parse(const char *text)
{
    struct request request;
    if (parse_span(span_str(text), &request) != 0)
        fail_msg("%s: %s", text, err.text);
    return request;
}

static void the_tree_is_complete(void **state)
{
    const char *text = "ev([t_1_2], $a):{first() second(7,\"x\");third([])}";
    struct request request = parse(text);
    assert_non_null(request.event);
    assert_true(span_is(request.event->name, "ev"));
    assert_int_equal(request.event->offset, 0);
    assert_int_equal(request.event->argc, 2);
    assert_int_equal(request.event->args[0].kind, VALUE_LIST);
    assert_int_equal(request.event->args[0].offset, 3);
    assert_true(span_is(request.event->args[0].list.items[0].text, "t_1_2"));
    assert_int_equal(request.event->args[0].list.items[0].offset, 4);
    assert_int_equal(request.event->args[1].kind, VALUE_PARAM);
    assert_true(span_is(request.event->args[1].text, "a"));
    assert_int_equal(request.event->args[1].offset, 12);
    assert_true(request.locked);
    assert_int_equal(request.action_count, 3);
    static const bool barriers[] = {false, false, true};
    static const size_t counts[] = {0, 2, 1};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(request.actions[i].barrier, barriers[i]);
        assert_int_equal(request.actions[i].argc, counts[i]);
    }
    assert_int_equal(request.actions[1].offset, strstr(text, "second") - text);
    assert_int_equal(request.actions[2].args[0].list.count, 0);
    assert_null(parse(":f()").event);
    assert_false(parse(":f()").locked);
}

static void escapes_are_resolved(void **state)
{
    struct request request =
        parse(":f(\"\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\\"\\?\\0\\101\\1012\\x41\\xfg\\u00e9\\U0001f30d\")");
    struct span want = span_of("\a\b\f\n\r\t\v\\'\"?\0AA2A\x0fg\xc3\xa9\xf0\x9f\x8c\x8d", 24);
    assert_int_equal(request.actions[0].args[0].text.len, want.len);
    assert_memory_equal(request.actions[0].args[0].text.ptr, want.ptr, want.len);
}

static void plain_strings_and_tokens_are_not_copied(void **state)
{
    const char *text = ":f(\"plain\",p_1_2,3#abc)";
    struct request request = parse(text);
    assert_ptr_equal(request.actions[0].args[0].text.ptr, text + 4);
    assert_ptr_equal(request.actions[0].args[1].text.ptr, text + 11);
    assert_ptr_equal(request.actions[0].args[2].text.ptr, text + 19);
}

static void binary_may_hold_anything(void **state)
{
    char text[300] = ":f(256#";
    size_t len = strlen(text);
    for (int i = 0; i < 256; i++)
        text[len++] = (char)i;
    text[len++] = ',';
    text[len++] = '1';
    text[len++] = ')';
    struct request request;
    assert_int_equal(parse_span(span_of(text, len), &request), 0);
    assert_int_equal(request.actions[0].argc, 2);
    assert_int_equal(request.actions[0].args[0].kind, VALUE_BINARY);
    assert_int_equal(request.actions[0].args[0].text.len, 256);
    assert_memory_equal(request.actions[0].args[0].text.ptr, text + 7, 256);
    text[len] = 0;
    assert_int_equal(request_length(text), len);
    for (size_t cut = 0; cut < len; cut++) /* every prefix is refused, and nothing behind it is looked at */
        assert_true(parse_span(span_of(text, cut), &request) < 0);
}

struct refusal {
    const char *text;
    int code;
    const char *message;
};

static void check_refusals(const struct refusal *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct request untouched = {.action_count = 4711};
        assert_int_equal(parse_span(span_str(rows[i].text), &untouched), rows[i].code);
        assert_int_equal(untouched.action_count, 4711);
        assert_int_equal(err.code, rows[i].code);
        assert_string_equal(err.text, rows[i].message);
        assert_int_equal(request_parse(&arena, span_str(rows[i].text), &untouched, NULL), rows[i].code);
    }
}

#define AFTER_BARRIER "an action after ';' (it stands between two actions, not at the end)"
#define NEEDS_COLON "':' after the event definition (without an event, a request starts with ':')"
#define INTEGER_RANGE "is out of range (-2^63 to 2^64-1)"

static void syntax_errors_say_where_and_what(void **state)
{
    static const struct refusal rows[] = {
        {"", -EINVAL, "at byte 0: expected an event definition or ':', found the end"},
        {" \n\t ", -EINVAL, "at byte 4: expected an event definition or ':', found the end"},
        {"1:f()", -EINVAL, "at byte 0: expected an event definition or ':', found '1'"},
        {"f()", -EINVAL, "at byte 3: expected " NEEDS_COLON ", found the end"},
        {"f() g()", -EINVAL, "at byte 4: expected " NEEDS_COLON ", found 'g'"},
        {"f:g()", -EINVAL, "at byte 1: expected '(' after the name of the service, found ':'"},
        {":", -EINVAL, "at byte 1: expected an action, found the end"},
        {":{}", -EINVAL, "at byte 2: expected an action, found '}'"},
        {":;f()", -EINVAL, "at byte 1: expected an action, found ';'"},
        {":f();", -EINVAL, "at byte 5: expected " AFTER_BARRIER ", found the end"},
        {":f();;g()", -EINVAL, "at byte 5: expected " AFTER_BARRIER ", found ';'"},
        {":{f();}", -EINVAL, "at byte 6: expected " AFTER_BARRIER ", found '}'"},
        {":f(),g()", -EINVAL, "at byte 4: expected another action, ';' or the end, found ','"},
        {":f()}", -EINVAL, "at byte 4: expected another action, ';' or the end, found '}'"},
        {":{f()", -EINVAL, "at byte 5: expected another action, ';' or '}', found the end"},
        {":{f()}g()", -EINVAL, "at byte 6: expected the end after '}', found 'g'"},
        {":{{f()}}", -EINVAL, "at byte 2: expected an action, found '{'"},
        {":f", -EINVAL, "at byte 2: expected '(' after the name of the service, found the end"},
        {":f(", -EINVAL, "at byte 3: expected a value, found the end"},
        {":f(1", -EINVAL, "at byte 4: expected ',' or ')', found the end"},
        {":f(1,", -EINVAL, "at byte 5: expected a value, found the end"},
        {":f(1,)", -EINVAL, "at byte 5: expected a value, found ')'"},
        {":f(,1)", -EINVAL, "at byte 3: expected a value, found ','"},
        {":f(1 foo)", -EINVAL, "at byte 5: expected ',' or ')', found 'foo'"},
        {":f([1 2])", -EINVAL, "at byte 6: expected ',' or ']', found '2'"},
        {":f([1,])", -EINVAL, "at byte 6: expected a value, found ']'"},
        {":f([1)", -EINVAL, "at byte 5: expected ',' or ']', found ')'"},
        {":f(1]", -EINVAL, "at byte 4: expected ',' or ')', found ']'"},
        {":f($)", -EINVAL, "at byte 4: expected the name of an event context parameter after '$', found ')'"},
        {":f($1)", -EINVAL, "at byte 4: expected the name of an event context parameter after '$', found '1'"},
        {":f(@)", -EINVAL, "at byte 3: expected a value, found '@'"},
        {":f(\x1b[2J)", -EINVAL, "at byte 3: expected a value, found '\\033'"},
        {":f(\"a\" \"a long string that is cut\")", -EINVAL,
         "at byte 7: expected ',' or ')', found '\"a long string that is c'..."},
        {":f(1 3#abc)", -EINVAL, "at byte 5: expected ',' or ')', found '3#'"},
        {":f(-)", -EINVAL, "at byte 3: expected a value, found '-'"},
        {":f(- 1)", -EINVAL, "at byte 3: expected a value, found '-'"},
        {":f(--1)", -EINVAL, "at byte 3: expected a value, found '-'"},
        {":f(.)", -EINVAL, "at byte 3: expected a value, found '.'"},
        {":f(-infinity)", -EINVAL, "at byte 3: expected a value, found '-'"},
    };
    check_refusals(rows, sizeof rows / sizeof *rows);
}

static void number_errors_say_where_and_what(void **state)
{
    static const struct refusal rows[] = {
        {":f(12abc)", -EINVAL, "at byte 3: malformed number '12abc'"},
        {":f(08)", -EINVAL, "at byte 3: malformed number '08': a leading 0 makes it octal, as in C"},
        {":f(0x)", -EINVAL, "at byte 3: malformed number '0x'"},
        {":f(0xg)", -EINVAL, "at byte 3: malformed number '0xg'"},
        {":f(1..2)", -EINVAL, "at byte 3: malformed number '1..2'"},
        {":f(1.2.3)", -EINVAL, "at byte 3: malformed number '1.2.3'"},
        {":f(1e)", -EINVAL, "at byte 3: malformed number '1e'"},
        {":f(1e+)", -EINVAL, "at byte 3: malformed number '1e'"},
        {":f(1.5fl)", -EINVAL, "at byte 3: malformed number '1.5fl'"},
        {":f(0x1.8)", -EINVAL,
         "at byte 3: malformed number '0x1.8': with hexadecimal digits a point needs an exponent (p0)"},
        {":f(18446744073709551616)", -ERANGE, "at byte 3: the integer '18446744073709551616' " INTEGER_RANGE},
        {":f(-9223372036854775809)", -ERANGE, "at byte 3: the integer '-9223372036854775809' " INTEGER_RANGE},
        {":f(0x10000000000000000)", -ERANGE, "at byte 3: the integer '0x10000000000000000' " INTEGER_RANGE},
        {":f(02000000000000000000000)", -ERANGE, "at byte 3: the integer '02000000000000000000000' " INTEGER_RANGE},
        {":f(99999999999999999999999999999)", -ERANGE,
         "at byte 3: the integer '999999999999999999999999'... " INTEGER_RANGE},
        {":f(1e5000)", -ERANGE, "at byte 3: the number '1e5000' is out of range"},
        {":f(-1e99999999999999999999)", -ERANGE, "at byte 3: the number '-1e99999999999999999999' is out of range"},
        {":f(5#abc)", -EINVAL, "at byte 3: binary data of 5 bytes announced, but only 4 bytes follow"},
        {":f(18446744073709551615#abc)", -EINVAL,
         "at byte 3: binary data of 18446744073709551615 bytes announced, but only 4 bytes follow"},
        {":f(99999999999999999999999999#abc)", -EINVAL,
         "at byte 3: binary data of 999999999999999999999999... bytes announced, but only 4 bytes follow"},
        {":f(-5#abcdefgh)", -EINVAL, "at byte 5: expected ',' or ')', found '#'"},
        {":f(0x5#abcdefgh)", -EINVAL, "at byte 6: expected ',' or ')', found '#'"},
        {":f(5 #abcdefgh)", -EINVAL, "at byte 5: expected ',' or ')', found '#'"},
        {":f(nan:0x7ff0000000000000)", -EINVAL, "at byte 3: 'nan:0x7ff0000000000000' are not the bits of a NaN"},
        {":f(nan:0x)", -EINVAL, "at byte 3: 'nan:0x' are not the bits of a NaN"},
        {":f(nan:0xzz)", -EINVAL, "at byte 3: 'nan:0xzz' are not the bits of a NaN"},
        {":f(nan:0x7fff80000000000000000)", -EINVAL,
         "at byte 3: 'nan:0x7fff80000000000000'... are not the bits of a NaN"},
        {":f(nan:1)", -EINVAL, "at byte 6: expected ',' or ')', found ':'"},
    };
    check_refusals(rows, sizeof rows / sizeof *rows);
}

static void string_errors_say_where_and_what(void **state)
{
    static const struct refusal rows[] = {
        {":f(\"abc", -EINVAL, "at byte 3: the string that starts here has no closing '\"'"},
        {":f(\"abc\\", -EINVAL, "at byte 3: the string that starts here has no closing '\"'"},
        {":f(\"abc\\\"", -EINVAL, "at byte 3: the string that starts here has no closing '\"'"},
        {":f(\"a\nb\")", -EINVAL, "at byte 5: a string cannot hold a newline as it is: write \\n"},
        {":f(\"a\\qb\")", -EINVAL, "at byte 5: unknown escape '\\q' in a string (a backslash is written \\\\)"},
        {":f(\"\\8\")", -EINVAL, "at byte 4: unknown escape '\\8' in a string (a backslash is written \\\\)"},
        {":f(\"\\400\")", -EINVAL, "at byte 4: \\400 is no byte"},
        {":f(\"\\x\")", -EINVAL, "at byte 4: \\x needs at least one hexadecimal digit"},
        {":f(\"\\x41b\")", -EINVAL,
         "at byte 4: \\x41b is no byte (as in C, \\x takes all hexadecimal digits that follow)"},
        {":f(\"\\x00000000000000000100000041\")", -EINVAL,
         "at byte 4: \\x0000000000000000 is no byte (as in C, \\x takes all hexadecimal digits that follow)"},
        {":f(\"\\u12\")", -EINVAL, "at byte 4: \\u needs four hexadecimal digits"},
        {":f(\"\\U0001f30\")", -EINVAL, "at byte 4: \\U needs eight hexadecimal digits"},
        {":f(\"\\ud800\")", -EINVAL, "at byte 4: \\ud800 is no character"},
        {":f(\"\\U00110000\")", -EINVAL, "at byte 4: \\U00110000 is no character"},
    };
    check_refusals(rows, sizeof rows / sizeof *rows);
    struct request request;
    assert_int_equal(parse_span(span_of(":f(\"a\0b\")", 10), &request), -EINVAL);
    assert_string_equal(err.text, "at byte 5: a string cannot hold a NUL as it is: write \\0");
    assert_int_equal(parse_span(span_of(":f(\0)", 5), &request), -EINVAL);
    assert_string_equal(err.text, "at byte 3: expected a value, found '\\000'");
    assert_int_equal(parse_span(span_of(":f()\0", 5), &request), -EINVAL);
    assert_string_equal(err.text, "at byte 4: expected another action, ';' or the end, found '\\000'");
}

static char *nested(size_t depth, bool closed)
{
    char *text = malloc(2 * depth + 8), *at = text;
    assert_non_null(text);
    memcpy(at, ":f(", 3);
    memset(at + 3, '[', depth);
    at += 3 + depth;
    if (closed) {
        memset(at, ']', depth);
        at += depth;
        *at++ = ')';
    }
    *at = 0;
    return text;
}

static void depth_is_limited(void **state)
{
    struct request request;
    char *text = nested(REQUEST_DEPTH_LIMIT, true);
    assert_int_equal(parse_span(span_str(text), &request), 0);
    free(text);
    text = nested(REQUEST_DEPTH_LIMIT + 1, true);
    assert_int_equal(parse_span(span_str(text), &request), -E2BIG);
    assert_string_equal(err.text, "at byte 67: lists are nested more than 64 deep");
    free(text);
    text = nested(5000000, false);
    assert_int_equal(parse_span(span_str(text), &request), -E2BIG);
    free(text);
}

static void size_is_limited(void **state)
{
    struct request request;
    size_t size = (size_t)REQUEST_SIZE_LIMIT + 1;
    char *text = calloc(1, size + 1);
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text, ":f()", 4);
    assert_int_equal(parse_span(span_of(text, size - 1), &request), 0);
    assert_int_equal(parse_span(span_of(text, size), &request), -E2BIG);
    assert_non_null(strstr(err.text, "67108865 bytes are more than one request may have"));
    const struct value *values;
    size_t count;
    assert_int_equal(values_parse(&arena, span_of(text, size), &values, &count, NULL), -E2BIG);
    free(text);
}

static void number_of_values_is_limited(void **state)
{
    size_t size = 2 * (size_t)REQUEST_VALUE_LIMIT + 8;
    char *text = malloc(size);
    assert_non_null(text);
    memcpy(text, ":f(1", 4);
    for (size_t i = 4; i + 1 < size; i += 2) {
        text[i] = ',';
        text[i + 1] = '1';
    }
    struct request request;
    assert_int_equal(parse_span(span_of(text, size), &request), -E2BIG);
    assert_non_null(strstr(err.text, "more than 8388608 values in one request"));
    free(text);
}

static void long_floats_are_refused_and_long_integers_are_read(void **state)
{
    struct buf text = BUF_INIT;
    struct request request;
    buf_puts(&text, ":f(0.");
    for (int i = 0; i < 4094; i++)
        buf_putc(&text, '1');
    buf_putc(&text, ')');
    assert_int_equal(parse_span(span_of(text.data, text.len), &request), 0);
    assert_true(request.actions[0].args[0].floating.number == 1.0 / 9);
    text.data[text.len - 1] = '1';
    buf_putc(&text, ')');
    assert_int_equal(parse_span(span_of(text.data, text.len), &request), -E2BIG);
    assert_non_null(strstr(err.text, "is longer than 4096 characters"));
    buf_clear(&text);
    buf_puts(&text, ":f(0x");
    for (int i = 0; i < 100000; i++)
        buf_putc(&text, '0');
    buf_puts(&text, "7)");
    assert_int_equal(parse_span(span_of(text.data, text.len), &request), 0);
    assert_true(request.actions[0].args[0].integer.bits == 7);
    buf_done(&text);
}

/* Ten times the size may take ten times as long, and some. Quadratic would be a hundred times. */
static void large_requests_take_linear_time(void **state)
{
    static const char *const pieces[] = {"1234567,", "[[1],[2,[]]],", "\"a\\n\",", "p_1_2,", "4#abcd,", "0.25,"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        uint64_t took[2];
        for (int large = 0; large < 2; large++) {
            struct buf text = BUF_INIT;
            struct request request;
            buf_puts(&text, ":f([");
            while (text.len < (large ? 1000000 : 100000))
                buf_puts(&text, pieces[i]);
            buf_puts(&text, "1])");
            uint64_t start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
            assert_int_equal(parse_span(span_of(text.data, text.len), &request), 0);
            took[large] = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
            size_t commas = (text.len - 6) / strlen(pieces[i]) + 1;
            assert_int_equal(request.actions[0].args[0].list.count, commas);
            buf_done(&text);
        }
        assert_true(took[1] < 50 * took[0] + 100000000);
    }
}

static void many_actions(void **state)
{
    struct buf text = BUF_INIT;
    struct request request;
    buf_putc(&text, ':');
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, "print([%d])%s", i, i % 2 ? ";" : " ");
    buf_puts(&text, "last()");
    assert_int_equal(parse_span(span_of(text.data, text.len), &request), 0);
    assert_int_equal(request.action_count, 20001);
    for (size_t i = 0; i < 20000; i++) {
        assert_int_equal(request.actions[i].args[0].list.items[0].integer.bits, i);
        assert_int_equal(request.actions[i].barrier, i && i % 2 == 0);
    }
    buf_done(&text);
}

static void lengths_are_found(void **state)
{
    static const struct {
        const char *text;
        size_t len, want;
    } rows[] = {
        {"\0", 1, 0},
        {":f()\0rest", 9, 4},
        {":f(3#\0\0\0)\0x", 11, 9},
        {":f(3#\"\0()\0", 10, 9},
        {":f(\"3#\")\0x", 10, 8},       /* inside a string */
        {":f(\"\\\"3#\")\0x", 12, 10},  /* behind an escaped quote */
        {":f(p_3#)\0abc", 12, 8},       /* in an identifier */
        {":f(-3#)\0abc", 11, 7},        /* behind a sign */
        {":f(1e+3#)\0abc", 13, 9},      /* in an exponent */
        {":f(1.3#)\0abc", 12, 8},       /* in a fraction */
        {":f(0x3#)\0abc", 12, 8},       /* not decimal */
        {":f(3 #)\0abc", 11, 7},        /* not immediately followed */
        {":f(\"open 3#\0abc", 14, 11},  /* a string that does not end */
        {":f(\"open\\\0abc", 12, 9},    /* the same, ending in a backslash */
        {":f(99999999999#)\0", 17, 16}, /* longer than a request can be: text */
        {":f(0#)\0x", 8, 6},
        {":f(1#\0,1#\0)\0x", 13, 11},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *copy = malloc(rows[i].len); /* exactly as long, so that the sanitizer sees a read too far */
        assert_non_null(copy);
        memcpy(copy, rows[i].text, rows[i].len);
        size_t found = request_length(copy);
        free(copy);
        if (found != rows[i].want)
            fail_msg("row %zu: %zu, not %zu", i, found, rows[i].want);
    }
}

static void values_are_parsed(void **state)
{
    const struct value *values;
    size_t count;
    assert_int_equal(values_parse(&arena, span_str("1, \"two\", [3,4]"), &values, &count, &err), 0);
    assert_int_equal(count, 3);
    assert_int_equal(values[2].list.count, 2);
    assert_int_equal(values_parse(&arena, span_of(NULL, 0), &values, &count, &err), 0);
    assert_int_equal(count, 0);
    assert_int_equal(values_parse(&arena, span_str("  "), &values, &count, &err), 0);
    assert_int_equal(count, 0);
    assert_int_equal(values_parse(&arena, span_str("1,"), &values, &count, &err), -EINVAL);
    assert_string_equal(err.text, "at byte 2: expected a value, found the end");
    assert_int_equal(values_parse(&arena, span_str("1)"), &values, &count, &err), -EINVAL);
    assert_string_equal(err.text, "at byte 1: expected ',' or the end, found ')'");
    assert_int_equal(values_parse(&arena, span_of("1\0", 2), &values, &count, &err), -EINVAL);
    assert_int_equal(values_parse(&arena, span_str("18446744073709551616"), &values, &count, &err), -ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tree_is_complete),
        cmocka_unit_test(escapes_are_resolved),
        cmocka_unit_test(plain_strings_and_tokens_are_not_copied),
        cmocka_unit_test(binary_may_hold_anything),
        cmocka_unit_test(syntax_errors_say_where_and_what),
        cmocka_unit_test(number_errors_say_where_and_what),
        cmocka_unit_test(string_errors_say_where_and_what),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(size_is_limited),
        cmocka_unit_test(number_of_values_is_limited),
        cmocka_unit_test(long_floats_are_refused_and_long_integers_are_read),
        cmocka_unit_test(large_requests_take_linear_time),
        cmocka_unit_test(many_actions),
        cmocka_unit_test(lengths_are_found),
        cmocka_unit_test(values_are_parsed),
    };
    return cmocka_run_group_tests_name("parser", tests, NULL, teardown);
}
