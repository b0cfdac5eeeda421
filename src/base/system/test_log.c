/* SPDX-License-Identifier: Apache-2.0 */
/* What is logged at which level, and texts as values of fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/data/buf.h"
#include "base/system/log.h"

static int evaluated;

static const char *evaluate(void)
{
    evaluated++;
    return "";
}

static void test_level(void **state)
{
    assert_string_equal(log_level_name(), "warning");
    assert_true(log_set_level("loud") < 0);
    assert_string_equal(log_level_name(), "warning");
    log_debug("%s", evaluate());
    assert_int_equal(evaluated, 0);
    assert_int_equal(log_set_level("debug"), 0);
    assert_true(log_wanted(LOG_DEBUG));
    log_debug("%s", evaluate());
    assert_int_equal(evaluated, 1);
}

/* What was chosen by an option holds against the environment, also when a daemon opens its log again. */
static void test_environment(void **state)
{
    setenv("SCRY_LOG", "error", 1);
    log_open("test", 0);
    assert_string_equal(log_level_name(), "debug");
}

static void test_quote(void **state)
{
    char many[1000];
    memset(many, 'x', sizeof many);
    many[300] = '"';
    assert_string_equal(LOG_TEXT("plain"), "\"plain\"");
    assert_string_equal(LOG_TEXT("a \"b\" \\ \n\x1b"), "\"a \\\"b\\\" \\\\ ??\"");
    assert_string_equal(LOG_BYTES("cut here", 3), "\"cut\"");
    assert_string_equal(LOG_TEXT("\xc3\xa9 \xe2\x80\xae \xc2\x9b \xff"), "\"\xc3\xa9 ? ? ?\"");
    assert_string_equal(LOG_BYTES("\xc3\xa9", 1), "\"?\"");
    struct log_quoted quoted = log_quote(many, sizeof many);
    size_t len = strlen(quoted.text);
    assert_true(len < sizeof quoted.text && len > 240);
    assert_string_equal(quoted.text + len - 5, "x\"...");
}

/* A line as it comes to standard error, without its end. */
static char *logged(const char *text)
{
    static char line[2048];
    int ends[2], before = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    log_error("%s", text);
    dup2(before, STDERR_FILENO);
    ssize_t got = read(ends[0], line, sizeof line);
    assert_true(got > 0 && line[got - 1] == '\n');
    line[got - 1] = '\0';
    close(ends[0]);
    close(ends[1]);
    close(before);
    return line + strlen("test: ");
}

/* No character that a terminal may obey, or that makes a line look like another one: C0, C1, format, separators. */
static void test_line(void **state)
{
    char many[2000];
    assert_string_equal(logged("plain, \xc3\xa9 and \xf0\x9f\x98\x80"), "plain, \xc3\xa9 and \xf0\x9f\x98\x80");
    assert_string_equal(logged("\n\x1b \xc2\x9b \xe2\x80\xae \xf0\x93\x90\xbf \x9b"), "?? ?? ??? ???? ?");
    memset(many, 0xe2, sizeof many); /* cut within a character */
    for (size_t i = 0; i + 2 < sizeof many; i += 3)
        memcpy(many + i, "\xe2\x82\xac", 3);
    many[sizeof many - 1] = '\0';
    char *line = logged(many);
    assert_memory_equal(line, "\xe2\x82\xac", 3);
    assert_true(strlen(line) > 900 && utf8_length(line, strlen(line)));
    assert_null(strstr(line, "\xe2\x82?"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
