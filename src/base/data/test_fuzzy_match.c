/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/data/err.h"

static const char *nearest(const char *word)
{
    static const char *const words[] = {"report", "replay", "ps", "--json", "--size", "--rank"};
    static struct fuzzy_match best;
    best = (struct fuzzy_match){.distance = FUZZY_NONE};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        fuzzy_match_try(&best, word, strlen(word), words[i]);
    return best.text;
}

static void test_fuzzy_match(void **state)
{
    assert_int_equal(fuzzy_distance("repotr", 6, "report"), 1);
    assert_int_equal(fuzzy_distance("", 0, "ps"), 2);
    assert_string_equal(nearest("reprot"), "report");
    assert_string_equal(nearest("PS"), "ps");
    assert_string_equal(nearest("--jsno"), "--json");
    assert_string_equal(nearest("--colour"), "");
    assert_string_equal(nearest("install"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fuzzy_match)};
    return cmocka_run_group_tests_name("near", tests, NULL, NULL);
}
