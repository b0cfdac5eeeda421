/* SPDX-License-Identifier: Apache-2.0 */
/* What is logged at which level, and texts as values of fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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
    struct log_quoted quoted = log_quote(many, sizeof many);
    size_t len = strlen(quoted.text);
    assert_true(len < sizeof quoted.text && len > 240);
    assert_string_equal(quoted.text + len - 5, "x\"...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
