/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/data/near.h"

static const char *nearest(const char *word)
{
    static const char *const words[] = {"report", "replay", "ps", "--json", "--size", "--rank"};
    static struct near_word best;
    best = (struct near_word){.distance = NEAR_NONE};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        near_take(&best, word, strlen(word), words[i]);
    return best.text;
}

static void test_near(void **state)
{
    assert_int_equal(near_distance("repotr", 6, "report"), 1);
    assert_int_equal(near_distance("", 0, "ps"), 2);
    assert_string_equal(nearest("reprot"), "report");
    assert_string_equal(nearest("PS"), "ps");
    assert_string_equal(nearest("--jsno"), "--json");
    assert_string_equal(nearest("--colour"), "");
    assert_string_equal(nearest("install"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_near)};
    return cmocka_run_group_tests_name("near", tests, NULL, NULL);
}
