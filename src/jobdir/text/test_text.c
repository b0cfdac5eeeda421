/* SPDX-License-Identifier: Apache-2.0 */
/* Long names, long lines, figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jobdir/text/text.h"

static void test_cut(void **state)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {{"short", "short     "},
                 {"just as it", "just as it"},
                 {"a name that is too long", "a na...ong"},
                 {"\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6",
                  "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4...\xc3\xbc\xc3\xa4\xc3\xb6"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = BUF_INIT;
        text_column(&out, cases[i].text, 10);
        assert_string_equal(out.data, cases[i].shown);
        buf_done(&out);
    }
}

static void test_cut_end(void **state)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {{"short", "short"},
                 {"twelve chars", "twelve chars"},
                 {"out of memory: worker", "out of..."},
                 {"out  of, memory", "out  of,..."},
                 {"/a/path/without/words", "/a/path/w..."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = BUF_INIT;
        text_cut_end(&out, cases[i].text, 12);
        assert_string_equal(out.data, cases[i].shown);
        buf_done(&out);
    }
}

/* What a terminal would obey is shown as its bytes. */
static void test_controls(void **state)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {{"a\tb\x7f", "a b\\x7f"},
                 {"\xc2\x9b"
                  "1m",
                  "\\xc2\\x9b"
                  "1m"},
                 {"gpj.\xe2\x80\xae"
                  "exe",
                  "gpj.\\xe2\\x80\\xae"
                  "exe"},
                 {"\xe2\x80\xa8\xef\xbb\xbf\xc2\xad\xd8\x9c\xf3\xa0\x80\xa0|\xf0\x9f\x99\x82",
                  "\\xe2\\x80\\xa8\\xef\\xbb\\xbf\\xc2\\xad\\xd8\\x9c\\xf3\\xa0\\x80\\xa0|\xf0\x9f\x99\x82"},
                 {"\xe2\x81\xa6\xe2\x82\xac", "\\xe2\\x81\\xa6\xe2\x82\xac"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = BUF_INIT;
        text_show(&out, cases[i].text);
        assert_string_equal(out.data, cases[i].shown);
        buf_done(&out);
    }
}

static void test_line(void **state)
{
    static const struct {
        const char *line, *coloured, *plain;
    } cases[] = {
        {"a\tb", "a\tb", "a\tb"},
        {"10%\r20%\r30%\r", "30%", "30%"},
        {"\r\r", "", ""},
        {"\033[1;31mred\033[0m!", "\033[1;31mred\033[0m!" TEXT_PLAIN, "red!"},
        {"\033[38:2::1:2:3mx", "\033[38:2::1:2:3mx" TEXT_PLAIN, "x"},
        {"\033[2Jx", "\\x1b[2Jx", "\\x1b[2Jx"},
        {"\033[?25mx", "\\x1b[?25mx", "\\x1b[?25mx"},
        {"\033[1", "\\x1b[1", "\\x1b[1"},
        {"\033]0;title\a", "\\x1b]0;title\\x07", "\\x1b]0;title\\x07"},
        {"\b\xff\xe2\x80\xae\xc2\x9b", "\\x08\\xff\\xe2\\x80\\xae\\xc2\\x9b", "\\x08\\xff\\xe2\\x80\\xae\\xc2\\x9b"}};
    struct buf out = BUF_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int colours = 0; colours < 2; colours++) {
            buf_clear(&out);
            text_show_line(&out, cases[i].line, strlen(cases[i].line), colours);
            assert_string_equal(out.data, colours ? cases[i].coloured : cases[i].plain);
        }
    buf_clear(&out);
    text_show_line(&out, "a\0b", 3, true);
    assert_string_equal(out.data, "a\\x00b");
    buf_done(&out);
}

static void test_brief(void **state)
{
    struct buf out = BUF_INIT;
    text_show_brief(&out, "sh (pid 12), which ran a\033 (pid x) and b (pid 7)");
    assert_string_equal(out.data, "sh, which ran a\\x1b (pid x) and b");
    buf_done(&out);
}

/* In text of JSON all of that is written as JSON has it, so that it stays JSON. */
static void test_controls_json(void **state)
{
    static const char text[] =
        "{\"a\x7f\":\"\xc2\x9b\xe2\x80\xae\xf3\xa0\x80\xa0\xf0\x93\x90\xb9|\xf0\x9f\x99\x82\xff\"}\n";
    struct buf out = BUF_INIT;
    text_show_json(&out, text, sizeof text - 1);
    buf_putc(&out, '\0');
    assert_string_equal(out.data,
                        "{\"a\\u007f\":\"\\u009b\\u202e\\udb40\\udc20\\ud80d\\udc39|\xf0\x9f\x99\x82\\ufffd\"}\n");
    buf_done(&out);
}

static void check_wrapped(const char *text, size_t columns, const char *wrapped)
{
    struct buf out = BUF_INIT;
    buf_puts(&out, "kept as it is, however long\n");
    size_t start = out.len;
    buf_puts(&out, text);
    text_wrap(&out, start, columns);
    assert_string_equal(out.data + start, wrapped);
    buf_done(&out);
}

/* A word that is pasted is a word, and no key that is pressed. */
static void test_word(void **state)
{
    static const char *const cases[][2] = {{"plain=1", "plain=1"},
                                           {"", "''"},
                                           {"it's $(x)", "'it'\\''s $(x)'"},
                                           {"two\nlines", "'two\nlines'"},
                                           {"\x1b[31m'\\\x15", "$'\\033[31m\\'\\\\\\025'"},
                                           {"\x7f", "$'\\177'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = BUF_INIT;
        text_word(&out, cases[i][0]);
        assert_string_equal(out.data, cases[i][1]);
        buf_done(&out);
    }
}

static void test_wrap(void **state)
{
    check_wrapped("0123456789 123456789\n", 20, "0123456789 123456789\n");
    check_wrapped("one two three four five six\nseven", 20, "one two three four\n    five six\nseven");
    check_wrapped("one two three four five six", 0, "one two three four five six");
    /* below what follows a label, and rather between columns than in them */
    check_wrapped("  label   one two three four five", 24, "  label   one two three\n          four five");
    check_wrapped("  1.25 s  in a  12 us  pid 9332 thread 1", 36, "  1.25 s  in a  12 us\n          pid 9332 thread 1");
    /* however far it is indented, but not beyond the middle */
    check_wrapped("   0.001002                  solve(n = 5)  7.1 us  solve.c:20", 60,
                  "   0.001002                  solve(n = 5)  7.1 us\n"
                  "                             solve.c:20");
    check_wrapped("   0.001002                       f()  7.1 us  solve.c:20", 50,
                  "   0.001002                       f()  7.1 us\n"
                  "                         solve.c:20");
    /* a word that is too long alone: at a sign, if there is one */
    check_wrapped("/home/somebody/program/file.c", 20, "/home/somebody/\n    program/file.c");
    check_wrapped("0123456789abcdefghijklmno", 20, "0123456789abcdefghij\n    klmno");
    /* colours and bytes of one character take no room */
    check_wrapped("\033[1;31mred\033[0m and 12345 12345", 20, "\033[1;31mred\033[0m and 12345 12345");
    check_wrapped("\xc3\xa4\xc3\xb6\xc3\xbc 12345 12345 1234", 20, "\xc3\xa4\xc3\xb6\xc3\xbc 12345 12345 1234");
}

static void test_numbers(void **state)
{
    static const struct {
        const char *function;
        double value;
        const char *shown;
    } cases[] = {
#include "jobdir/text/test_numbers.inc"
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = BUF_INIT;
        if (strcmp(cases[i].function, "ns") == 0)
            text_ns(&out, cases[i].value);
        else if (strcmp(cases[i].function, "seconds") == 0)
            text_seconds(&out, cases[i].value);
        else
            text_size(&out, (uint64_t)cases[i].value);
        assert_string_equal(out.data, cases[i].shown);
        buf_done(&out);
    }
}

/* NULL is and has none of them. */
static void test_one_of_a_list(void **state)
{
    static const char *const words[] = {"loss", "Rate", NULL}, *const none[] = {NULL};
    assert_true(text_is_one("Rate", words));
    assert_false(text_is_one("Rates", words) || text_is_one("rate", words) || text_is_one("", words));
    assert_true(text_begins_with_one("losses", words) && text_begins_with_one("loss", words));
    assert_false(text_begins_with_one("los", words) || text_begins_with_one("a loss", words));
    assert_true(text_has_one("a LOSS of", words) && text_has_one("generate", words));
    assert_false(text_has_one("los", words));
    assert_false(text_is_one(NULL, words) || text_begins_with_one(NULL, words) || text_has_one(NULL, words));
    assert_false(text_is_one("a", none) || text_begins_with_one("a", none) || text_has_one("a", none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cut),      cmocka_unit_test(test_cut_end),
                                       cmocka_unit_test(test_controls), cmocka_unit_test(test_brief),
                                       cmocka_unit_test(test_line),     cmocka_unit_test(test_controls_json),
                                       cmocka_unit_test(test_word),     cmocka_unit_test(test_wrap),
                                       cmocka_unit_test(test_numbers),  cmocka_unit_test(test_one_of_a_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
