/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/why/fifos.h"

/* Where a text opens the FIFO p. */
static void test_fifos(void **state)
{
    static const struct {
        const char *text;
        bool reads, writes;
    } rows[] = {
        {"rm -f p q; mkfifo p q\n( read x < p; echo a > q ) &\n", true, false},
        {"exec 3<q 4>\"$dir/p\"", false, true},
        {"cat /tmp/x/p > q", true, false},
        {"cat q >>p", false, true},
        {"cat pp p.c xp <q", false, false},
        {"echo p", false, false},
        {"os.mkfifo('p')\nopen('p', 'w').write('x')\n", false, true},
        {"with open(\"p\") as f:\n", true, false},
        {"exec 3<>p", false, true},
        {"p", true, false},
        {"", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (fifo_is_opened_in(rows[i].text, "dir/p", false) != rows[i].reads ||
            fifo_is_opened_in(rows[i].text, "p", true) != rows[i].writes)
            fail_msg("%s", rows[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fifos)};
    return cmocka_run_group_tests_name("why fifos", tests, NULL, NULL);
}
