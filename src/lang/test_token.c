/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "lang/token.h"

static void tokens_round_trip(void **state)
{
    static const struct {
        const char *text, *class;
        uint32_t node;
        uint64_t serial;
    } rows[] = {
        {"p_2_17", "p", 2, 17},
        {"n_3", "n", 3, 0},
        {"n_4294967295", "n", UINT32_MAX, 0},
        {"u_0", "u", 0, 0},
        {"pa_c_1_4", "pa_c", 1, 4},
        {"pvm_g_4294967295_18446744073709551615", "pvm_g", UINT32_MAX, UINT64_MAX},
        {"abcdefghijklm_n_1_2", "abcdefghijklm_n", 1, 2}, /* the longest class */
        {"c_1_0", "c", 1, 0},
    };
    struct buf out = BUF_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct token token;
        assert_true(token_parse(span_str(rows[i].text), &token));
        assert_string_equal(token.class, rows[i].class);
        assert_true(token.node == rows[i].node && token.serial == rows[i].serial);
        buf_clear(&out);
        token_print(&out, &token);
        assert_string_equal(out.data, rows[i].text);
    }
    buf_done(&out);
}

static void other_shapes_are_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "p",
        "_",
        "p_",
        "p_1",
        "_1_2",
        "p__1_2",
        "p_1_",
        "p_1_2_",
        "p_01_2",
        "p_1_02",
        "n_01",
        "n_4294967296",
        "n_1_2",
        "u_1",
        "u_0_0",
        "u_00",
        "p_1_2_3",
        "1_2_3",
        "p_4294967296_1",
        "p_1_18446744073709551616",
        "p_-1_2",
        "p_1_x",
        "p_1_2 ",
        " p_1_2",
        "p.1_2",
        "abcdefghijklmn_o_1_2",
        "12",
        "p1_2",
        "n_",
        "é_1_2",
        "2p_1_2",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct token token = {.serial = 4711};
        if (token_parse(span_str(rows[i]), &token))
            fail_msg("'%s' was taken for a token", rows[i]);
        assert_int_equal(token.serial, 4711);
    }
    struct token token;
    assert_false(token_parse(span_of(NULL, 0), &token));
    assert_false(token_parse(span_of("p_1_2\0", 6), &token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_round_trip),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests_name("token", tests, NULL, NULL);
}
