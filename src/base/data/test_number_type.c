/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/data/number.h"

#include <string.h>

static void types_are_those_of_c(void **state)
{
    static const struct {
        const char *text;
        unsigned bits;
        bool is_signed, is_floating;
    } rows[] = {
        {"(char)", 8, true, false},
        {"( unsigned  char )", 8, false, false},
        {"(int)", 32, true, false},
        {"(unsigned)", 32, false, false},
        {"(long unsigned int)", 64, false, false},
        {"(long long)", 64, true, false},
        {"(short int)", 16, true, false},
        {"(signed short)", 16, true, false},
        {"(size_t)", 64, false, false},
        {"(uint8_t)", 8, false, false},
        {"(int32_t)", 32, true, false},
        {"(_Bool)", 1, false, false},
        {"(float)", 32, true, true},
        {"(double)", 64, true, true},
        {"(unsigned long long)", 64, false, false},
        {"(int long)", 64, true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct number_type type;
        assert_int_equal(number_type_read(rows[i].text, &type), strlen(rows[i].text));
        assert_int_equal(type.bits, rows[i].bits);
        assert_int_equal(type.is_signed, rows[i].is_signed);
        assert_int_equal(type.is_floating, rows[i].is_floating);
    }
}

static void others_are_none(void **state)
{
    static const char *const texts[] = {"",
                                        "int",
                                        "()",
                                        "(n)",
                                        "(unsigned_count)",
                                        "(int n)",
                                        "(int",
                                        "(long double)",
                                        "(unsigned signed)",
                                        "(char int)",
                                        "(int char)",
                                        "(long long long)",
                                        "(short long)",
                                        "(float int)",
                                        "(unsigned size_t)",
                                        "(int *)"};
    struct number_type type;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(number_type_read(texts[i], &type), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_those_of_c),
        cmocka_unit_test(others_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
